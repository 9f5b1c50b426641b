/* cmd_stream.c: logs, events and the usage export: answers that go on. */
#include <unistd.h>

#include "cli/cli.h"

struct sink {
    struct cli *c;
    bool follow, lines; /* lines: one JSON object a line, also without --json */
    bool log;
    size_t count;
    char next[96]; /* an export that goes on in another page */
    bool newline;  /* the last log byte was one */
};

/* On a terminal only colours pass: other control sequences could rewrite what was said before. */
static void print_log(struct sink *s, const char *text)
{
    bool terminal = isatty(STDOUT_FILENO);

    for (const char *p = text; *p; p++) {
        unsigned char ch = (unsigned char)*p;
        size_t sgr = terminal && ch == 0x1B && p[1] == '[' ? strspn(p + 2, "0123456789;") : 0;
        if (terminal && ch == 0x1B && (p[1] != '[' || p[2 + sgr] != 'm'))
            continue;
        if (terminal && (ch < 0x20 || ch == 0x7F) && !strchr("\n\t\r\033", ch))
            continue;
        putchar(ch);
        s->newline = ch == '\n';
    }
    fflush(stdout);
}

static void print_event(const json_t *o)
{
    AUTO_STRBUF struct strbuf b = {0};
    char at[64];

    strbuf_init(&b, 1 << 16);
    text_time(field_str(o, "at"), at, sizeof(at));
    strbuf_addf(&b, "%s  ", at);
    text_clean(field_str(o, "kind"), &b);
    if (*field_str(o, "instance")) {
        strbuf_add(&b, "  ");
        text_clean(field_str(o, "instance"), &b);
    }
    strbuf_add(&b, "  ");
    text_clean(field_str(o, "text"), &b);
    puts(strbuf_str(&b));
    fflush(stdout);
}

static bool on_item(void *user, const json_t *item, const char *raw)
{
    struct sink *s = user;
    const char *next = s->lines ? field_str(item, "next") : "";

    if (*next)
        return str_copy(s->next, sizeof(s->next), next);
    if (s->c->json && !s->follow) {
        printf("%s%s", s->count ? "," : "{\"items\":[", raw);
    } else if (s->c->json || s->lines) {
        puts(raw);
        fflush(stdout);
    } else if (s->c->quiet) {
        printf("%" PRId64 "\n", field_i64(item, "id"));
    } else if (s->log) {
        print_log(s, field_str(item, "text"));
    } else {
        print_event(item);
    }
    s->count++;
    return !interrupted() && !ferror(stdout);
}

static int run_stream(struct cli *c, struct call *call, struct sink *s)
{
    AUTO_ANSWER struct answer a = {0};
    AUTO_STRBUF struct strbuf path = {0};

    answer_init(&a);
    strbuf_init(&path, 4096);
    s->c = c;
    s->follow = arg_bool(call, "follow");
    s->newline = true;
    interrupt_watch();
    call_path(c, call, &path);
    const size_t length = path.len;
    const char joint = strchr(strbuf_str(&path), '?') ? '&' : '?';
    bool ok;
    do {
        if (*s->next) {
            path.len = length;
            strbuf_addf(&path, "%cafter=%s", joint, s->next);
            s->next[0] = 0;
        }
        ok = api_stream(c, strbuf_str(&path), s->follow, on_item, s, &a);
    } while (ok && *s->next && !interrupted());
    if (c->json && !s->follow && (ok || s->count))
        puts(s->count ? "],\"next_cursor\":null}" : "{\"items\":[],\"next_cursor\":null}");
    if (s->log && !s->newline && isatty(STDOUT_FILENO))
        puts("");
    if (interrupted())
        return 130;
    return ok ? 0 : a.exit;
}

int cmd_logs(struct cli *c, struct call *call)
{
    struct sink s = {.log = true};

    return run_stream(c, call, &s);
}

int cmd_events(struct cli *c, struct call *call)
{
    struct sink s = {.log = false};

    return run_stream(c, call, &s);
}

int cmd_usage(struct cli *c, struct call *call)
{
    struct sink s = {.lines = true};

    if (arg_bool(call, "focus"))
        return usage_focus(c, call);

    return run_stream(c, call, &s);
}
