/* progress.c: what goes on while we wait. On a terminal one line that is rewritten; elsewhere one
 * line per step. Polling reads the server's word each time; nothing is assumed between. */
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "cli/cli.h"

static char last_line[512];
static bool line_open;

void progress_line(struct cli *c, const char *fmt, ...)
{
    AUTO_STRBUF struct strbuf raw = {0}, text = {0};
    va_list ap;

    strbuf_init(&raw, 4096);
    strbuf_init(&text, sizeof(last_line) - 1);
    va_start(ap, fmt);
    strbuf_addv(&raw, fmt, ap);
    va_end(ap);
    text_clean(strbuf_str(&raw), &text);
    if (str_eq(strbuf_str(&text), last_line))
        return;
    (void)str_copy(last_line, sizeof(last_line), strbuf_str(&text));
    if (c->bar) {
        fprintf(stderr, "\r\033[K%s", last_line);
        line_open = true;
    } else {
        fprintf(stderr, "%s\n", last_line);
    }
    fflush(stderr);
}

void progress_end(struct cli *c)
{
    if (line_open && c->bar)
        fputs("\r\033[K", stderr);
    line_open = false;
    last_line[0] = '\0';
}

static utime_t boot_now(void)
{
    struct clock *k = clock_system();

    return k->boot_ms(k);
}

static bool state_in(const char *state, const char *list)
{
    size_t n = strlen(state);

    for (const char *p = list; *p; p += strcspn(p, " "), p += *p == ' ')
        if (strcspn(p, " ") == n && memcmp(p, state, n) == 0)
            return true;
    return false;
}

/* "preparing 2/5: image 310 MiB of 1.2 GiB, 12s left · 8s" */
static void show_step(struct cli *c, const json_t *o, utime_t since)
{
    const json_t *step = json_object_get(o, "step");
    AUTO_STRBUF struct strbuf b = {0};
    char done[32], total[32], left[32];

    strbuf_init(&b, 1024);
    strbuf_add(&b, field_str(o, "state_text"));
    if (json_is_object(step)) {
        strbuf_addf(&b, " %" PRId64 "/%" PRId64 ": %s", field_i64(step, "n"),
                    field_i64(step, "count"), field_str(step, "text"));
        if (field_i64(step, "bytes_total") > 0) {
            text_bytes(field_i64(step, "bytes"), done, sizeof(done));
            text_bytes(field_i64(step, "bytes_total"), total, sizeof(total));
            strbuf_addf(&b, " %s / %s", done, total);
        }
        if (field_i64(step, "left_s") > 0) {
            text_duration(field_i64(step, "left_s"), left, sizeof(left));
            strbuf_addf(&b, tr(", %s left"), left);
        }
    }
    const char *why = field_str(json_object_get(o, "why"), "detail");
    if (*why)
        strbuf_addf(&b, ": %s", why);
    if (c->bar) {
        text_duration((boot_now() - since) / MS_PER_S, left, sizeof(left));
        strbuf_addf(&b, " · %s", left);
    }
    progress_line(c, "%s", strbuf_str(&b));
}

static int timed_out(struct cli *c, const json_t *o, bool erasing)
{
    struct refusal why;

    (void)refusef(&why, erasing ? ERR_ERASE_PENDING : ERR_TIMEOUT, "name", "%s",
                  field_str(o, "name"));
    if (!erasing)
        refusal_set(&why, "what", field_str(o, "name"));
    bool json = c->json;
    c->json = false; /* the document on stdout is the instance, printed by the caller */
    int e = fail(c, &why);
    c->json = json;
    return e;
}

/* What it became instead of running, in the form of every error. */
static int ended_badly(struct cli *c, const json_t *o)
{
    const json_t *problem = json_object_get(o, "why");
    struct refusal why;
    bool json = c->json;

    if (json_is_object(problem))
        return fail_problem(c, problem);
    (void)refusef(&why, ERR_STATE, "name", "%s", field_str(o, "name"));
    refusal_setf(&why, "state", "%s (%s)", field_str(o, "state_text"), field_str(o, "reason_text"));
    refusal_set(&why, "action", c->command);
    refusal_setf(&why, "actions", "suanli show %s", field_str(o, "name"));
    c->json = false; /* the document on stdout is the instance, printed by the caller */
    int e = fail(c, &why);
    c->json = json;
    return str_eq(field_str(o, "state"), "failed") ? 1 : e;
}

/* 0: go on; -1: reached; else the exit code of a bad end. */
static int judge(struct cli *c, const json_t *o, const char *want)
{
    const char *state = field_str(o, "state");

    if (state_in(state, want))
        return -1;
    bool over = state_in("running", want) && state_in(state, "stopped releasing released");
    return over || str_eq(state, "failed") ? ended_badly(c, o) : 0;
}

int wait_state(struct cli *c, const char *id, const char *want, int64_t timeout_s, struct answer *a)
{
    AUTO_STRBUF struct strbuf path = {0};
    utime_t start = boot_now(), lost_at = 0;
    int wait_ms = 20, e = 0; /* a launch takes a tenth of a second */

    strbuf_init(&path, 4096);
    strbuf_add(&path, "/v1/instances/");
    url_escape(&path, id);
    for (;;) {
        if (interrupted())
            return 130;
        if (api_call(c, "GET", strbuf_str(&path), NULL, CALL_QUIET, a)) {
            lost_at = 0;
            e = judge(c, a->json, want);
            if (e)
                break;
            if (boot_now() - start > 300)
                show_step(c, a->json, start);
        } else if (a->status >= 400 && a->status < 500) {
            return fail_answer(c, a);
        } else if (!interrupted()) {
            lost_at = lost_at ? lost_at : boot_now();
            progress_line(c, "%s",
                          tr("The server does not answer; trying again. The work goes on."));
            if (boot_now() - lost_at > 60000)
                return fail_answer(c, a);
        }
        if (timeout_s > 0 && boot_now() - start > timeout_s * MS_PER_S) {
            progress_end(c);
            return timed_out(c, a->json, str_eq(want, "released"));
        }
        pause_ms(wait_ms);
        wait_ms = MIN(wait_ms * 3 / 2, 500);
    }
    progress_end(c);
    return e == -1 ? 0 : e;
}
