/* cmd_reconcile.c: a channel's payment file, sent in parts. The same file again changes nothing. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/cli.h"

#define PART_LINES 500
#define LINE_SIZE 700

struct counts {
    int64_t matched, suspense, known, conflicts, lines;
};

static int send_part(struct cli *c, const char *path, const char *file, json_t *lines,
                     int64_t first, struct counts *io_n)
{
    AUTO_ANSWER struct answer a = {0};
    json_t *body = json_pack("{s:s,s:O}", "file", file, "line", lines);
    AUTO_FREE char *text = json_dumps(body, JSON_COMPACT);
    bool ok;

    json_decref(body);
    answer_init(&a);
    ok = api_call(c, "POST", path, text, 0, &a);
    if (!ok && a.json && str_eq(field_str(a.json, "code"), "validation"))
        say(c, tr("in the lines from %ld on; what came before is taken"), (long)first);
    if (!ok)
        return a.exit;
    io_n->matched += field_i64(a.json, "matched");
    io_n->suspense += field_i64(a.json, "suspense");
    io_n->known += field_i64(a.json, "known");
    io_n->conflicts += field_i64(a.json, "conflicts");
    return 0;
}

/* A heading line, comments and empty lines are no payments. */
static bool is_payment(char *line)
{
    line[strcspn(line, "\r\n")] = '\0';
    return line[0] && line[0] != '#' && !str_starts(line, "reference,");
}

static int send_file(struct cli *c, const char *path, const char *name, FILE *from,
                     struct counts *io_n)
{
    json_t *lines = json_array();
    char line[LINE_SIZE];
    int64_t first = 1;
    int e = 0;

    while (!e && fgets(line, sizeof(line), from)) {
        io_n->lines++;
        if (is_payment(line))
            json_array_append_new(lines, json_string(line));
        if (json_array_size(lines) == PART_LINES) {
            e = send_part(c, path, name, lines, first, io_n);
            json_array_clear(lines);
            first = io_n->lines + 1;
        }
    }
    if (!e && json_array_size(lines) > 0)
        e = send_part(c, path, name, lines, first, io_n);
    json_decref(lines);
    return e;
}

int cmd_reconcile_import(struct cli *c, struct call *call)
{
    const char *file = arg_str(call, "file"), *name = strrchr(file, '/');
    AUTO_STRBUF struct strbuf path = {0};
    struct counts n = {0};
    FILE *from = fopen(file, "re");

    if (!from)
        return fail_usage(c, "%s: %s", file, strerror(errno));
    strbuf_init(&path, 512);
    strbuf_add(&path, "/v1/admin/channels/");
    url_escape(&path, arg_str(call, "channel"));
    strbuf_add(&path, "/lines");
    int e = send_file(c, strbuf_str(&path), name ? name + 1 : file, from, &n);
    (void)fclose(from);
    if (e)
        return e;
    if (c->json)
        printf("{\"matched\":%ld,\"suspense\":%ld,\"known\":%ld,\"conflicts\":%ld}\n",
               (long)n.matched, (long)n.suspense, (long)n.known, (long)n.conflicts);
    else
        printf(
            tr("%ld matched, %ld in suspense, %ld known already, %ld contradict a known line.\n"),
            (long)n.matched, (long)n.suspense, (long)n.known, (long)n.conflicts);
    if (n.suspense && !c->json)
        puts(tr("See them: suanli admin reconcile ls"));
    return 0;
}
