/* cmd_instance.c: what runs, and ending it. Stop says three facts; release lists what goes first.
 */
#include <stdlib.h>
#include <unistd.h>

#include "base/units.h"
#include "cli/cli.h"
#include "cli/table.h"

int confirm(struct cli *c, const char *flag, const char *question)
{
    char answer[16] = "";

    if (c->yes || c->dry_run)
        return 0;
    if (!c->ask || c->json)
        return fail_usage(c, tr("this destroys; without a terminal say %s (or --dry-run to look)"),
                          flag);
    fprintf(stderr, "%s [y/N] ", question);
    if (!answer_wait() || !fgets(answer, sizeof(answer), stdin) ||
        (answer[0] != 'y' && answer[0] != 'Y')) {
        say(c, "%s", tr("Nothing was done."));
        return 130;
    }
    return 0;
}

static bool is_waiting(const json_t *o)
{
    return str_eq(field_str(o, "state"), "queued") && json_is_object(json_object_get(o, "wait"));
}

/* "3 of 7 in line, starts 14:20 (13:50 to 16:00)"; nothing when it does not wait. */
static void wait_text(const json_t *o, struct strbuf *out)
{
    const json_t *w = json_object_get(o, "wait");
    char early[64], likely[64], late[64];

    if (!is_waiting(o))
        return;
    strbuf_addf(out, tr("%" PRId64 " of %" PRId64 " in line"), field_i64(w, "place"),
                field_i64(w, "waiting"));
    if (!field_is(w, "likely"))
        return;
    text_time(field_str(w, "likely"), likely, sizeof(likely));
    strbuf_addf(out, tr(", starts %s"), likely);
    if (!field_is(w, "late") || str_eq(field_str(w, "early"), field_str(w, "late")))
        return;
    text_time(field_str(w, "early"), early, sizeof(early));
    text_time(field_str(w, "late"), late, sizeof(late));
    strbuf_addf(out, tr(" (%s to %s)"), early, late);
}

static void note_of(const json_t *o, struct strbuf *out)
{
    char text[64];
    const char *why = field_str(json_object_get(o, "why"), "detail");

    if (is_waiting(o)) {
        wait_text(o, out);
    } else if (*why) {
        strbuf_add(out, why);
    } else if (field_is(o, "kept_until")) {
        text_time(field_str(o, "kept_until"), text, sizeof(text));
        strbuf_addf(out, tr("kept until %s"), text);
    } else if (*field_str(o, "reason_text")) {
        strbuf_add(out, field_str(o, "reason_text"));
    }
    if (field_i64(o, "truth_age_s") > 30) {
        text_duration(field_i64(o, "truth_age_s"), text, sizeof(text));
        strbuf_add(out, out->len ? "; " : "");
        strbuf_addf(out, tr("last heard of %s ago"), text);
    }
}

static void ls_row(struct table *t, const json_t *o)
{
    AUTO_STRBUF struct strbuf card = {0}, note = {0};
    char text[64];

    strbuf_init(&card, 256);
    strbuf_init(&note, 1024);
    text_card(o, &card);
    note_of(o, &note);
    table_add(t, field_str(o, "name"));
    table_add(t, *field_str(o, "state_text") ? field_str(o, "state_text") : field_str(o, "state"));
    table_add(t, strbuf_str(&card));
    text_time(field_str(o, "ends_at"), text, sizeof(text));
    table_add(t, str_eq(field_str(o, "state"), "running") && !field_is(o, "ends_at") ? tr("no end")
                                                                                     : text);
    text_money(json_object_get(o, "rate_now"), text, sizeof(text));
    table_addf(t, "%s%s", text, tr("/h"));
    text_money(json_object_get(o, "spent"), text, sizeof(text));
    table_add(t, text);
    table_add(t, strbuf_str(&note));
}

int cmd_ls(struct cli *c, struct call *call)
{
    static const char *const head[] = {N_("NAME"), N_("STATE"), N_("WHAT"), N_("ENDS"),
                                       N_("NOW"),  N_("SPENT"), N_("NOTE"), NULL};
    AUTO_ANSWER struct answer a = {0};
    struct table t;
    size_t i;
    json_t *o;

    answer_init(&a);
    if (!call_send(c, call, &a))
        return a.exit;
    const json_t *items = json_object_get(a.json, "items");
    if (c->json || c->quiet)
        return view_print(c, call->verb, &a);
    if (json_array_size(items) == 0) {
        say(c, "%s", tr("No instances. See what can be rented: suanli offers"));
        return 0;
    }
    table_init(&t, head, "<<<<>><");
    json_array_foreach(items, i, o) ls_row(&t, o);
    table_print(&t, stdout, c->color);
    table_fini(&t);
    return 0;
}

static void line(const char *label, const char *fmt, ...) PRINTF_LIKE(2, 3);
static void line(const char *label, const char *fmt, ...)
{
    AUTO_STRBUF struct strbuf raw = {0}, out = {0};
    va_list ap;

    strbuf_init(&raw, 8192);
    strbuf_init(&out, 8192);
    va_start(ap, fmt);
    strbuf_addv(&raw, fmt, ap);
    va_end(ap);
    table_pad(&out, tr(label), 10, false);
    strbuf_add(&out, "  ");
    text_clean(strbuf_str(&raw), &out);
    puts(strbuf_str(&out));
}

static const char *money(const json_t *o, const char *key, char *buf, size_t size)
{
    text_money(json_object_get(o, key), buf, size);
    return buf;
}

/* A system disk has no name of its own. */
static const char *disk_name(const json_t *d)
{
    return *field_str(d, "name") ? field_str(d, "name") : field_str(d, "id");
}

static void show_disks(const json_t *o)
{
    char size[40], used[40];
    size_t i;
    json_t *d;

    json_array_foreach(json_object_get(o, "disks"), i, d)
    {
        size_format_mib(field_i64(d, "size_mib"), size, sizeof(size));
        size_format_mib(field_i64(d, "used_mib"), used, sizeof(used));
        line(i ? "" : N_("disks"), tr("%s (%s) %s, %s used, at %s"), disk_name(d),
             field_str(d, "kind"), size, field_is(d, "used_mib") ? used : "?",
             field_str(d, "mount"));
    }
    json_array_foreach(json_object_get(o, "ports"), i, d) line(
        i ? "" : N_("ports"), "%" PRId64 " → %s", field_i64(d, "guest"), field_str(d, "address"));
}

static void show_actions(const json_t *o)
{
    AUTO_STRBUF struct strbuf b = {0};
    size_t i;
    json_t *v;

    strbuf_init(&b, 1024);
    json_array_foreach(json_object_get(o, "actions"), i, v)
        strbuf_addf(&b, "%s%s", i ? ", " : "", json_string_value(v) ? json_string_value(v) : "");
    if (b.len)
        line(N_("possible"), "%s", b.data);
}

static void show_money(const json_t *o)
{
    char a[64], b[64], d[64];

    line(N_("price"), tr("%s/h running, %s/h stopped; now %s/h"),
         money(o, "price_hour", a, sizeof(a)), money(o, "price_hour_stopped", b, sizeof(b)),
         money(o, "rate_now", d, sizeof(d)));
    line(N_("spent"), "%s", money(o, "spent", a, sizeof(a)));
    line(N_("meters"), tr("card %s, disk %s"), tr(field_bool(o, "billing_gpu") ? "on" : "off"),
         tr(field_bool(o, "billing_disk") ? "on" : "off"));
}

static void show_wait(const json_t *o)
{
    AUTO_STRBUF struct strbuf b = {0};
    const char *node = field_str(json_object_get(o, "wait"), "node");

    strbuf_init(&b, 512);
    wait_text(o, &b);
    if (b.len && *node)
        strbuf_addf(&b, tr("; held for it: %s"), node);
    if (b.len)
        line(N_("in line"), "%s", strbuf_str(&b));
}

static void show_state(const json_t *o)
{
    char since[64], age[32];

    text_time(field_str(o, "since"), since, sizeof(since));
    text_duration(field_i64(o, "truth_age_s"), age, sizeof(age));
    if (field_is(o, "truth_age_s"))
        line(N_("state"), tr("%s since %s (the node said so %s ago)"), field_str(o, "state_text"),
             since, age);
    else
        line(N_("state"), tr("%s since %s"), field_str(o, "state_text"), since);
    if (*field_str(o, "reason_text"))
        line(N_("reason"), "%s", field_str(o, "reason_text"));
    show_wait(o);
    const json_t *why = json_object_get(o, "why");
    if (json_is_object(why)) {
        line(N_("why"), "%s", field_str(why, "detail"));
        line(N_("try"), "%s", field_str(why, "next"));
    }
    text_time(field_str(o, "ends_at"), since, sizeof(since));
    if (field_is(o, "ends_at"))
        line(N_("ends"), tr("%s, then %s"), since, tr(field_str(o, "then")));
    if (field_bool(o, "exclusive"))
        line(N_("the node"), "%s", tr("yours alone while it runs"));
    if (field_is(o, "free_if_reclaimed_s")) {
        text_duration(field_i64(o, "free_if_reclaimed_s"), age, sizeof(age));
        line(N_("spot"), tr("its cards cost nothing when they are reclaimed within %s of a start"),
             age);
    }
    if (field_is(o, "reclaimed_at")) {
        text_time(field_str(o, "reclaimed_at"), since, sizeof(since));
        line(N_("reclaimed"), "%s%s%s", since, field_is(o, "reclaim_reason") ? ": " : "",
             field_is(o, "reclaim_reason") ? field_str(o, "reclaim_reason") : "");
    }
    if (field_is(o, "kept_until")) {
        text_time(field_str(o, "kept_until"), since, sizeof(since));
        line(N_("kept until"), "%s", since);
    }
}

static void show_instance(const json_t *o)
{
    AUTO_STRBUF struct strbuf card = {0};
    const json_t *ssh = json_object_get(o, "ssh");
    char memory[40];

    strbuf_init(&card, 256);
    text_card(o, &card);
    size_format_mib(field_i64(o, "memory_mib"), memory, sizeof(memory));
    line(N_("name"), "%s  %s", field_str(o, "name"), field_str(o, "id"));
    show_state(o);
    if (field_is(o, "gpu") && !field_bool(o, "no_gpu"))
        line(N_("what"), tr("%s; %" PRId64 " cores, %s"), strbuf_str(&card), field_i64(o, "cpu"),
             memory);
    else
        line(N_("what"), "%s", strbuf_str(&card));
    show_money(o);
    line(N_("image"), "%s", field_str(o, "image"));
    line(N_("node"), "%s", field_str(o, "node"));
    show_disks(o);
    if (json_is_object(ssh))
        line("ssh", "ssh -p %" PRId64 " %s@%s   (suanli ssh %s)", field_i64(ssh, "port"),
             field_str(ssh, "user"), field_str(ssh, "host"), field_str(o, "name"));
    show_actions(o);
}

/* The report's shape is the node's business: names and values, nested ones indented. */
static void show_report(const json_t *v, int depth)
{
    const char *key;
    json_t *item, *part;
    size_t i;

    json_object_foreach((json_t *)v, key, item)
    {
        AUTO_STRBUF struct strbuf b = {0};
        strbuf_init(&b, 8192);
        text_clean(key, &b);
        strbuf_add(&b, ": ");
        if (json_is_string(item))
            text_clean(json_string_value(item), &b);
        else if (json_is_boolean(item))
            strbuf_add(&b, tr(json_is_true(item) ? "yes" : "no"));
        else if (json_is_integer(item))
            strbuf_addf(&b, "%" PRId64, (int64_t)json_integer_value(item));
        printf("%*s%s\n", depth * 2, "", strbuf_str(&b));
        if (json_is_object(item))
            show_report(item, depth + 1);
        json_array_foreach(item, i, part)
        {
            if (json_is_object(part)) {
                show_report(part, depth + 1);
            } else if (json_is_string(part)) {
                strbuf_reset(&b);
                text_clean(json_string_value(part), &b);
                printf("%*s- %s\n", depth * 2 + 2, "", strbuf_str(&b));
            }
        }
    }
}

int cmd_show(struct cli *c, struct call *call)
{
    AUTO_ANSWER struct answer a = {0};

    answer_init(&a);
    if (!call_send(c, call, &a))
        return a.exit;
    if (c->json || c->quiet)
        return view_print(c, call->verb, &a);
    if (!arg_bool(call, "report")) {
        show_instance(a.json);
        return 0;
    }
    const json_t *report = json_object_get(a.json, "report");
    if (!json_is_object(report)) {
        say(c, "%s", tr("There is no report yet; it is made when the instance first runs."));
        return 0;
    }
    show_report(report, 0);
    return 0;
}

static void say_three_facts(struct cli *c, const json_t *o)
{
    char rate[64], kept[64];

    text_money(json_object_get(o, "price_hour_stopped"), rate, sizeof(rate));
    text_time(field_str(o, "kept_until"), kept, sizeof(kept));
    say(c, tr("Costs nothing from now on: cards, cores and memory of %s."), field_str(o, "name"));
    say(c, tr("Goes on costing: its disks, %s/h."), rate);
    if (field_is(o, "kept_until"))
        say(c, tr("The data is kept until %s. Sooner: suanli release %s"), kept,
            field_str(o, "name"));
    else
        say(c, tr("The data is kept; its last day is fixed when it has stopped: suanli show %s"),
            field_str(o, "name"));
}

int cmd_reclaim(struct cli *c, struct call *call)
{
    AUTO_ANSWER struct answer a = {0};

    answer_init(&a);
    if (!call_send(c, call, &a))
        return a.exit;
    if (c->json || c->quiet)
        return view_print(c, call->verb, &a);
    printf("%s: %s\n", field_str(a.json, "name"), field_str(a.json, "state_text"));
    if (c->dry_run)
        say(c, "%s", tr("Dry run: nothing was taken back."));
    return 0;
}

int cmd_stop(struct cli *c, struct call *call)
{
    AUTO_ANSWER struct answer a = {0};
    int e = 0;

    answer_init(&a);
    interrupt_watch();
    if (!call_send(c, call, &a))
        return a.exit;
    if (c->dry_run)
        say(c, "%s", tr("Dry run: nothing was stopped."));
    AUTO_FREE char *id = mem_strdup(field_str(a.json, "id"));
    if (!c->dry_run && !c->no_wait)
        e = wait_state(c, id, "stopped failed released", c->timeout_s, &a);
    if (e == 130)
        say(c, "%s", tr("The stop goes on; nothing is charged for cards from here."));
    say_three_facts(c, a.json);
    if (c->json)
        view_json(&a);
    else if (c->quiet)
        view_id(a.json);
    else if (!e && !c->dry_run && !c->no_wait)
        printf(tr("Stopped. Start it again: suanli start %s\n"), field_str(a.json, "name"));
    return e;
}

/* GETs the instance the call names, for a look before an act. */
static bool look(struct cli *c, struct call *call, struct answer *a)
{
    struct call show = {.verb = verb_find("show"), .args = json_object()};

    json_object_set(show.args, "instance", json_object_get(call->args, "instance"));
    bool ok = call_send(c, &show, a);
    call_fini(&show);
    return ok;
}

int cmd_extend(struct cli *c, struct call *call)
{
    AUTO_ANSWER struct answer a = {0};
    char at[64];

    answer_init(&a);
    if (!arg_str(call, "by") && !arg_str(call, "until") && !arg_bool(call, "no_end"))
        return fail_usage(c, "%s", tr("extend: say how much (2h), --until TIME or --no-end"));
    if (!call_send(c, call, &a))
        return a.exit;
    if (c->dry_run)
        say(c, "%s", tr("Dry run: the end was not moved."));
    if (c->json || c->quiet)
        return view_print(c, call->verb, &a);
    text_time(field_str(a.json, "ends_at"), at, sizeof(at));
    if (field_is(a.json, "ends_at"))
        printf(tr("%s ends %s.\n"), field_str(a.json, "name"), at);
    else
        printf(tr("%s has no end of its own now.\n"), field_str(a.json, "name"));
    return 0;
}

int cmd_resize(struct cli *c, struct call *call)
{
    AUTO_ANSWER struct answer a = {0};
    AUTO_STRBUF struct strbuf card = {0};
    char price[64];

    answer_init(&a);
    strbuf_init(&card, 256);
    if (json_object_size(call->args) < 2)
        return fail_usage(c, "%s",
                          tr("resize: say the new shape: --gpu, --count, --cpu, --memory"));
    if (!call_send(c, call, &a))
        return a.exit;
    if (c->dry_run)
        say(c, "%s", tr("Dry run: nothing was changed."));
    if (c->json || c->quiet)
        return view_print(c, call->verb, &a);
    text_card(a.json, &card);
    text_money(json_object_get(a.json, "price_hour"), price, sizeof(price));
    printf(tr("%s is now %s, %s/h when it runs.\n"), field_str(a.json, "name"), strbuf_str(&card),
           price);
    return 0;
}

/* What a disk costs now, out of the list of disks; "-" when it is not there. */
static void disk_rate(const json_t *disks, const char *id, char *buf, size_t size)
{
    size_t i;
    json_t *d;

    text_money(NULL, buf, size);
    json_array_foreach(json_object_get(disks, "items"), i, d) if (str_eq(field_str(d, "id"), id))
        text_money(json_object_get(d, "price_hour"), buf, size);
}

/* What is lost and what is kept, disk by disk. */
static void list_release(struct cli *c, const json_t *o, bool with_disks)
{
    AUTO_ANSWER struct answer disks = {0};
    size_t i;
    json_t *d;
    char size[40], used[40], rate[64];

    answer_init(&disks);
    (void)!api_call(c, "GET", "/v1/disks", NULL, CALL_QUIET, &disks);
    say(c, tr("Release of %s (%s):"), field_str(o, "name"), field_str(o, "id"));
    json_array_foreach(json_object_get(o, "disks"), i, d)
    {
        bool lost = with_disks || str_eq(field_str(d, "kind"), "system");
        size_format_mib(field_i64(d, "size_mib"), size, sizeof(size));
        size_format_mib(field_i64(d, "used_mib"), used, sizeof(used));
        disk_rate(disks.json, field_str(d, "id"), rate, sizeof(rate));
        if (lost)
            say(c, tr("  lost   %s disk %s, %s, %s used: erased"), tr(field_str(d, "kind")),
                disk_name(d), size, used);
        else
            say(c,
                tr("  kept   disk %s, %s, %s used: detached, goes on costing (now %s/h) until "
                   "suanli disk rm"),
                disk_name(d), size, used, rate);
    }
}

static int wait_erased(struct cli *c, const char *id, const char *name, struct answer *a)
{
    int e = wait_state(c, id, "released", c->timeout_s ? c->timeout_s : 600, a);

    if (e == 130)
        say(c, tr("The release of %s goes on and costs nothing. Look: suanli show %s"), name, id);
    return e;
}

int cmd_release(struct cli *c, struct call *call)
{
    AUTO_ANSWER struct answer a = {0};
    int e;

    answer_init(&a);
    if (!look(c, call, &a))
        return a.exit;
    AUTO_FREE char *id = mem_strdup(field_str(a.json, "id"));
    AUTO_FREE char *name = mem_strdup(field_str(a.json, "name"));
    list_release(c, a.json, arg_bool(call, "with_disks"));
    e = confirm(c, "--yes", tr("Release it?"));
    if (e)
        return e;
    interrupt_watch();
    json_object_set_new(call->args, "instance", json_string(id));
    if (!call_send(c, call, &a))
        return a.exit;
    if (!c->dry_run && !c->no_wait)
        e = wait_erased(c, id, name, &a);
    if (c->dry_run)
        say(c, "%s", tr("Dry run: nothing was released."));
    if (c->json)
        view_json(&a);
    else if (c->quiet)
        puts(id);
    else if (!e && !c->dry_run)
        printf(c->no_wait ? tr("%s is being released and costs nothing.\n")
                          : tr("%s is released; its data is erased.\n"),
               name);
    return e;
}

int cmd_disk_rm(struct cli *c, struct call *call)
{
    AUTO_ANSWER struct answer a = {0};
    AUTO_STRBUF struct strbuf question = {0};
    int e;

    answer_init(&a);
    strbuf_init(&question, 1024);
    strbuf_addf(&question, tr("Erase disk %s for good?"), arg_str(call, "disk"));
    e = confirm(c, "--yes", strbuf_str(&question));
    if (e)
        return e;
    if (!call_send(c, call, &a))
        return a.exit;
    if (c->dry_run)
        say(c, "%s", tr("Dry run: nothing was erased."));
    return view_print(c, call->verb, &a);
}

int cmd_port(struct cli *c, struct call *call)
{
    AUTO_ANSWER struct answer a = {0};
    size_t i;
    json_t *p;
    int64_t want = field_i64(call->args, "port");

    answer_init(&a);
    if (!call_send(c, call, &a))
        return a.exit;
    if (c->json || c->quiet)
        return view_print(c, call->verb, &a);
    json_array_foreach(json_object_get(a.json, "ports"), i, p)
    {
        if (field_i64(p, "guest") == want && str_eq(call->verb->cli, "port open"))
            printf("%" PRId64 " → %s\n", want, field_str(p, "address"));
    }
    return 0;
}
