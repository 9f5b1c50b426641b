/* man.c: the manual page, from the same rows as help. roff's own marks in texts are escaped. */
#include <stdlib.h>

#include "cli/cli.h"

static void roff(const char *s)
{
    bool start = true;

    for (; *s; s++) {
        if (start && (*s == '.' || *s == '\''))
            fputs("\\&", stdout);
        if (*s == '\\')
            fputs("\\e", stdout);
        else if (*s == '-')
            fputs("\\-", stdout);
        else
            putchar(*s);
        start = *s == '\n';
    }
}

static void man_verb(const struct verb *v)
{
    const struct arg *a;

    fputs(".SS \"suanli ", stdout);
    roff(v->cli);
    fputs("\"\n", stdout);
    roff(tr(v->summary));
    fputs(".\n.PP\n.nf\n", stdout);
    for (size_t i = 0; i < example_count; i++) {
        if (!str_eq(examples[i].cli, v->cli))
            continue;
        roff(examples[i].text);
        putchar('\n');
    }
    fputs(".fi\n", stdout);
    for (size_t i = 0; (a = verb_arg(v, i)); i++) {
        AUTO_FREE char *name = mem_strdup(a->name);
        for (char *p = name; *p; p++)
            *p = (char)(*p == '_' ? '-' : *p);
        fputs(".TP\n.B ", stdout);
        roff(a->place == ARG_PATH ? "" : "--");
        roff(name);
        putchar('\n');
        roff(tr(a->help));
        putchar('\n');
    }
    if (v->flags & VERB_DRYRUN) {
        fputs(".TP\n.B \\-\\-dry\\-run\n", stdout);
        roff(tr("say what would happen, change nothing"));
        putchar('\n');
    }
}

/* v NULL: the page of all verbs. */
void man_print(struct cli *c UNUSED, const struct verb *v)
{
    AUTO_FREE char *name = mem_strdup(v ? v->cli : "");

    for (char *p = name; *p; p++)
        *p = (char)(*p == ' ' ? '-' : *p);
    printf(".TH SUANLI%s%s 1 \"\" \"suanli " CLI_VERSION "\" \"Suanli\"\n.SH NAME\nsuanli%s%s \\- ",
           *name ? "\\-" : "", name, *name ? "\\-" : "", name);
    roff(v ? tr(v->summary) : tr("rent a GPU, reach it, end it, know what it cost"));
    fputs("\n.SH SYNOPSIS\n.B suanli\n", stdout);
    roff(v ? v->cli : "VERB");
    fputs("\n.RI [ ARGUMENTS ]\n.SH DESCRIPTION\n", stdout);
    if (v) {
        man_verb(v);
        return;
    }
    for (size_t i = 0; i < verb_count; i++)
        if (*verbs[i].cli)
            man_verb(&verbs[i]);
}

int cmd_man(struct cli *c, struct call *call)
{
    const char *topic = arg_str(call, "topic");
    const struct verb *v = topic ? verb_find(topic) : NULL;

    if (topic && !v)
        return fail_usage(c, tr("there is no verb %s; see: suanli help all"), topic);
    if (c->json)
        return fail_usage(c, "%s", tr("man: its output is a page; --json has no meaning"));
    man_print(c, v);
    return 0;
}
