/* The simulator: a thousand steps of renters, faults and time on the real core, every choice from a
 * tape. After each step the cheap laws hold, now and then all of them, and at the end everything
 * that was asked for has come to rest.
 *
 *   sim [--first N] [--seeds N] [--seed N] [--steps N] | --planted | [--plant] --replay CHOICE...
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../support/tape.h"
#include "base/log.h"
#include "world.h"

#define MADE_MAX 1024

static int64_t steps_max = 1000;
static bool plant; /* a guest outlives its end */
static uint64_t seed_now;
static int64_t billed_total_s, had_total_s;

struct sim {
    struct world w;
    struct tape *t;
    struct id made[MADE_MAX]; /* acknowledged creates */
    int made_count;
    char *late; /* owned: a report that is still under way */
    int late_node;
    int64_t keys, names, step, billed_s, had_ms;
};

static const char *pick_name(struct sim *s, char buf[NAME_SIZE])
{
    int64_t n = s->names > 8 ? s->names - 8 : 0;

    CHECK(str_printf(buf, NAME_SIZE, "i%" PRId64,
                     n + (int64_t)tape_below(s->t, (uint64_t)(s->names - n) + 1)));
    return buf;
}

/* A crash takes what was not committed; a client that got no answer asks again with its key. */
static bool crash(struct sim *s)
{
    world_restart(&s->w);
    for (int i = 0; i < s->made_count; i++) {
        struct instance found;

        if (store_instance_get_any(s->w.store, s->made[i], &found) != ERR_OK)
            return tape_fail(s->t, "S7 %s was acknowledged and is gone", s->made[i].s);
    }
    return true;
}

static void remember(struct sim *s, const char *answer)
{
    AUTO_JSON json_t *o = json_loads(answer, 0, NULL);

    if (s->made_count < MADE_MAX)
        CHECK(json_get_text(o, "id", s->made[s->made_count++].s, ID_SIZE));
}

/* A changing call with a key, in fair weather and foul: repeated, or its answer lost in a crash. */
static bool keyed(struct sim *s, const char *op, const char *body, const char *path, bool creates)
{
    struct world_reply r = {0}, again = {0};
    char key[32];
    uint64_t weather = tape_below(s->t, 12);
    bool good = true;

    CHECK(str_printf(key, sizeof(key), "key%" PRId64, s->keys++));
    s->w.now_ms++;
    if (weather == 3)
        store_fail_commit(s->w.store, 1);
    world_submit(&s->w, &r, &s->w.user, op, body, key, path, NULL);
    if (weather == 1)
        world_submit(&s->w, &again, &s->w.user, op, body, key, path, NULL);
    bool alive = world_batch(&s->w);

    if (alive)
        store_fail_commit(s->w.store, 0); /* nothing was to be committed */
    if (!alive || weather == 2) {
        good = crash(s);
        s->w.now_ms++;
        world_submit(&s->w, &again, &s->w.user, op, body, key, path, NULL);
        CHECK(world_batch(&s->w));
    }
    bool dry = body && strstr(body, "dry_run"); /* a question has no effect to be repeated */
    if (good && !dry && again.come && r.code == ERR_OK &&
        (again.code != ERR_OK || !again.replayed || !str_eq(again.answer, r.answer)))
        good = tape_fail(s->t, "S14 %s: another answer to the same key", op);
    if (good && creates && (r.code == ERR_OK || again.code == ERR_OK) && (r.answer || again.answer))
        remember(s, r.answer ? r.answer : again.answer);
    world_reply_fini(&r);
    world_reply_fini(&again);
    return good;
}

/* what people do */

static bool do_create(struct sim *s)
{
    static const char *const shapes[] = {
        "\"gpu\":\"4090\"", "\"gpu\":\"4090\",\"count\":2", "\"cpu\":2,\"memory\":\"4GiB\"",
        "\"gpu\":\"a100\"", "\"gpu\":\"4090\",\"count\":3", "\"cpu\":64"};
    static const char *const ends[] = {"\"for\":\"30m\"", "\"for\":\"2h\"", "\"no_end\":true",
                                       "\"for\":\"5m\",\"then\":\"release\""};
    static const char *const more[] = {"",
                                       ",\"disk\":[\"d1:10GiB\"]",
                                       ",\"queue\":true",
                                       ",\"image\":\"bad\"",
                                       ",\"port\":[\"8888\"]",
                                       ",\"idle_action\":\"notice\"",
                                       ",\"spot\":true",
                                       ",\"exclusive\":true"};
    char body[400];

    CHECK(str_printf(body, sizeof(body), "{\"name\":\"i%" PRId64 "\",%s,%s%s}", ++s->names,
                     shapes[tape_below(s->t, ARRAY_LEN(shapes))],
                     ends[tape_below(s->t, ARRAY_LEN(ends))],
                     more[tape_below(s->t, ARRAY_LEN(more))]));
    return keyed(s, "instance_create", body, NULL, true);
}

static bool do_verb(struct sim *s)
{
    static const struct {
        const char *op, *body;
    } verbs[] = {
        {"instance_stop", NULL},
        {"instance_start", "{\"for\":\"1h\"}"},
        {"instance_release", NULL},
        {"instance_release", "{\"with_disks\":true}"},
        {"instance_extend", "{\"by\":\"20m\"}"},
        {"instance_start", "{\"no_gpu\":true,\"for\":\"1h\"}"},
        {"instance_resize", "{\"gpu\":\"4090\",\"count\":1,\"system_disk\":\"21GiB\"}"},
        {"instance_stop", "{\"dry_run\":true}"},
        {"instance_resize", "{\"cpu\":1}"},
        {"instance_reclaim", "{}"},
    };
    size_t v = (size_t)tape_below(s->t, ARRAY_LEN(verbs));
    char name[NAME_SIZE];

    s->w.user.is_operator = true; /* who takes spot back; in his own project he is a renter too */
    return keyed(s, verbs[v].op, verbs[v].body, pick_name(s, name), false);
}

static bool do_disk(struct sim *s)
{
    char name[NAME_SIZE], body[100];

    CHECK(str_printf(body, sizeof(body), "{\"instance\":\"%s\"}", pick_name(s, name)));
    switch (tape_below(s->t, 5)) {
    case 0:
        return keyed(s, "disk_create", "{\"name\":\"d2\",\"size\":\"5GiB\"}", NULL, false);
    case 1:
        return keyed(s, "disk_remove", NULL, tape_chance(s->t, 50) ? "d1" : "d2", false);
    case 2:
        return keyed(s, "disk_grow", "{\"size\":\"12GiB\"}", tape_chance(s->t, 50) ? "d1" : "d2",
                     false);
    case 3:
        return keyed(s, "disk_attach", body, "d1", false);
    }
    return keyed(s, "disk_detach", NULL, "d1", false);
}

static bool do_money(struct sim *s)
{
    static const char *const prices[] = {"3.6", "1.8", "7.2", "0.000001"};
    char body[200];

    if (tape_chance(s->t, 70))
        return keyed(s, "topup", "{\"project\":\"lab\",\"amount\":\"2.5\"}", NULL, false);
    if (tape_chance(s->t, 40))
        return tape_chance(s->t, 60)
                   ? keyed(s, "budget_set", "{\"cap\":\"20\",\"period\":\"day\"}", "b1", false)
                   : keyed(s, "budget_remove", NULL, "b1", false);
    CHECK(str_printf(body, sizeof(body),
                     "{\"sku\":\"gpu.RTX 4090\",\"price\":\"%s\",\"unit\":\"hour\"}",
                     prices[tape_below(s->t, ARRAY_LEN(prices))]));
    s->w.user.is_operator = true;
    return keyed(s, "price_set", body, NULL, false);
}

/* what happens to machines */

static bool do_guest(struct sim *s)
{
    static const char *const ends[] = {"guest_exit", "idle", "guest_oom"};
    struct simnode *n = &s->w.nodes[tape_below(s->t, (uint64_t)s->w.node_count)];

    if (n->lease_count)
        simnode_guest_exit(n, &n->leases[tape_below(s->t, (uint64_t)n->lease_count)], s->w.now_ms,
                           ends[tape_below(s->t, ARRAY_LEN(ends))], 1);
    return true;
}

static bool deliver_late(struct sim *s)
{
    struct principal who = {.node = s->w.nodes[s->late_node].id};
    struct world_reply r;

    world_submit(&s->w, &r, &who, "node_sync", s->late, "", NULL, NULL);
    free(TAKE(s->late));
    CHECK(world_batch(&s->w) && r.come);
    world_reply_fini(&r);
    return true;
}

static bool do_node(struct sim *s)
{
    int k = (int)tape_below(s->t, (uint64_t)s->w.node_count);
    struct simnode *n = &s->w.nodes[k];
    int64_t sent;

    switch (tape_below(s->t, 6)) {
    case 0:
        n->cut = !n->cut;
        return true;
    case 1:
        world_sync(&s->w, k, true, false);
        return true;
    case 2:
        world_sync(&s->w, k, false, true);
        return true;
    case 3:
        simnode_reboot(n, s->w.now_ms);
        return true;
    case 4:
        if (s->late)
            return deliver_late(s);
        s->late_node = k;
        json_t *report = simnode_report(n, s->w.now_ms, 0, &sent);
        s->late = json_dumps(report, 0);
        json_decref(report);
        return true;
    }
    return crash(s);
}

static bool do_clock(struct sim *s)
{
    s->w.wall_off_ms += 3600000 * (tape_chance(s->t, 50) ? 1 : -1);
    CHECK(world_batch(&s->w));
    return keyed(s, "check_run", "{\"clear_clock\":true}", NULL, false);
}

static bool do_wait(struct sim *s)
{
    s->w.round_ms = 25000; /* a node is silent after 30 s */
    world_pass(&s->w, tape_range(s->t, 1, 25) * 30000);
    return true;
}

static bool step(struct sim *s)
{
    uint64_t what = tape_below(s->t, 100);

    s->w.round_ms = 10000;
    if (what < 40)
        world_pass(&s->w, tape_range(s->t, 1, 20) * 1000);
    else if (what < 58)
        return do_create(s);
    else if (what < 80)
        return do_verb(s);
    else if (what < 84)
        return do_disk(s);
    else if (what < 87)
        return do_guest(s);
    else if (what < 96)
        return do_node(s);
    else if (what < 98)
        return do_money(s);
    else if (what < 99)
        return do_wait(s);
    else
        return do_clock(s);
    return true;
}

static bool laws(struct sim *s, bool all)
{
    char text[300] = "";

    for (int i = 0; i < s->w.node_count; i++)
        simnode_live(&s->w.nodes[i], s->w.now_ms);
    if (!world_laws(&s->w, text, sizeof(text)) || (all && !world_check(&s->w, text, sizeof(text))))
        return tape_fail(s->t, "%s (step %" PRId64 ")", text, s->step);
    return true;
}

/* S17, S18: everybody goes home and five minutes later nothing is on its way any more. */
static bool come_to_rest(struct sim *s)
{
    struct instance_list list = {0};
    bool good = true;

    for (int i = 0; i < s->w.node_count; i++)
        s->w.nodes[i].cut = false;
    s->w.round_ms = 20000;
    world_pass(&s->w, 60000);
    CHECK(store_instance_list(s->w.store, s->w.user.project, false, (struct id){""}, 0, &list) ==
          ERR_OK);
    for (size_t i = 0; i < list.len; i++) {
        struct world_reply r;

        (void)!world_call(&s->w, &r, &s->w.user, "instance_release", "{\"with_disks\":true}",
                          list.at[i].id.s);
        world_reply_fini(&r);
    }
    vec_fini(&list);
    world_pass(&s->w, 300000);
    CHECK(store_instance_list_any(s->w.store, &list) == ERR_OK);
    for (size_t i = 0; good && i < list.len; i++)
        if (list.at[i].state != INSTANCE_RELEASED && list.at[i].state != INSTANCE_FAILED)
            good = tape_fail(s->t, "S17 %s is %s", list.at[i].id.s,
                             instance_state_name(list.at[i].state));
    vec_fini(&list);
    for (int i = 0; good && i < s->w.node_count; i++)
        if (s->w.nodes[i].lease_count)
            good = tape_fail(s->t, "S8 a guest is left on %s", s->w.nodes[i].name);
    return good;
}

/* S5: no card second is billed that no guest had. */
static bool billed_was_had(struct sim *s)
{
    int64_t had_ms = 0, billed_s = 0;
    struct world_reply r;
    AUTO_JSON json_t *bill = NULL;
    const json_t *line;
    size_t i;

    CHECK(world_call(&s->w, &r, &s->w.user, "bill_get", NULL, NULL) == ERR_OK);
    bill = json_loads(r.answer, 0, NULL);
    world_reply_fini(&r);
    json_array_foreach(json_object_get(bill, "lines"), i, line)
    {
        const char *meter = "", *quantity = "";
        int64_t q = 0;

        CHECK(json_get_str(line, "meter", "", &meter) &&
              json_get_str(line, "quantity", "", &quantity));
        if (str_eq(meter, "gpu") && str_parse_i64(quantity, INT64_MIN, INT64_MAX, &q) == ERR_OK)
            billed_s += q;
    }
    for (int k = 0; k < s->w.node_count; k++)
        had_ms += s->w.nodes[k].card_ms;
    if (billed_s * MS_PER_S > had_ms)
        return tape_fail(s->t, "S5 %" PRId64 " s billed, %" PRId64 " ms had", billed_s, had_ms);
    s->billed_s = billed_s;
    s->had_ms = had_ms;
    return true;
}

static void begin(struct sim *s)
{
    struct world *w = &s->w;

    world_init(w, 1, false);
    world_image(w, "base", "sha256:base", true);
    world_image(w, "bad", "sha256:bad", false);
    world_price(w, "gpu.RTX 4090", "3.6", "hour");
    world_price(w, "gpu.A100", "7.2", "hour");
    world_price(w, "spot.gpu.RTX 4090", "0.9", "hour");
    world_price(w, "exclusive.gpu.RTX 4090", "0.5", "hour");
    world_price(w, "cpu.seat", "0.36", "hour");
    world_price(w, "disk", "0.01", "GiB-day");
    world_price(w, "disk.stopped", "0.005", "GiB-day");
    world_price(w, "disk.detached", "0.007", "GiB-day");
    world_add_node(w, "RTX 4090", 2);
    world_add_node(w, "A100", 1);
    world_topup(w, "40");
    for (int i = 0; i < w->node_count; i++)
        w->nodes[i].overruns = plant;
}

static bool life(struct tape *t)
{
    struct sim *s = mem_alloc(sizeof(*s));
    bool good = true;

    s->t = t;
    begin(s);
    /* a tape that is played to its end goes on with zeros: that is the last step */
    for (s->step = 0; good && s->step < steps_max && tape_below(t, 1000000); s->step++) {
        good = step(s);
        if (good)
            good = laws(s, s->step % 250 == 249);
    }
    if (good && s->late)
        good = deliver_late(s);
    if (good)
        good = come_to_rest(s);
    if (good)
        good = laws(s, true);
    if (good)
        good = billed_was_had(s);
    billed_total_s += s->billed_s;
    had_total_s += s->had_ms / MS_PER_S;
    free(s->late);
    world_fini(&s->w);
    free(s);
    return good;
}

static bool run_seed(uint64_t seed, bool shrink)
{
    struct tape t = {0};
    bool good;

    seed_now = seed;
    tape_record(&t, seed);
    good = life(&t);
    if (!good) {
        printf("# seed %" PRIu64 ": %s\n", seed, t.message);
        if (shrink) {
            tape_shrink(&t, life, 400);
            printf("# smallest: %s\n# again: --replay", t.message);
            for (size_t i = 0; i < t.len; i++)
                printf(" %" PRIu64, t.at[i]);
            printf("\n");
        }
    }
    fflush(stdout);
    tape_fini(&t);
    return good;
}

static bool run_seeds(uint64_t first, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        if (!run_seed(first + i, true))
            return false;
    return true;
}

/* A guest that lives seven seconds too long must be found, and shown in a few choices. The shortest
 * of some failing lives is where shrinking begins. */
static bool planted_is_found(void)
{
    struct tape best = {0};
    uint64_t found = 0;
    bool small;

    plant = true;
    steps_max = 120;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct tape t = {0};

        tape_record(&t, seed);
        if (!life(&t) && (!found++ || t.len < best.len)) {
            struct tape longer = best;

            best = t;
            t = longer;
        }
        tape_fini(&t);
    }
    printf("# planted: in %" PRIu64 " of 40 lives; %s after %zu choices\n", found, best.message,
           best.len);
    if (found)
        tape_shrink(&best, life, 400);
    printf("# smallest: %s after %zu choices\n", best.message, best.len);
    small = found && best.len <= 40 && strncmp(best.message, "I17", 3) == 0;
    tape_fini(&best);
    plant = false;
    return small;
}

static int replay(int argc, char **argv)
{
    AUTO_FREE uint64_t *choices = mem_alloc(sizeof(*choices) * (size_t)(argc + 1));
    struct tape t = {0};
    bool good;

    for (int i = 0; i < argc; i++)
        choices[i] = strtoull(argv[i], NULL, 10);
    tape_play(&t, choices, (size_t)argc);
    good = life(&t);
    printf("1..1\n%s 1 - replay %s\n", good ? "ok" : "not ok", t.message);
    tape_fini(&t);
    return !good;
}

/* A broken invariant inside the core ends the process: say how to see it again. */
static void on_abort(int signal_number UNUSED)
{
    char text[80];
    int n = snprintf(text, sizeof(text), "# again: sim --seed %" PRIu64 "\n", seed_now);

    if (write(STDOUT_FILENO, text, (size_t)n) < 0)
        _exit(3);
}

static int report(bool good, const char *fmt, ...) PRINTF_LIKE(2, 3);
static int report(bool good, const char *fmt, ...)
{
    va_list ap;

    printf("%sok 1 - ", good ? "" : "not ");
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    printf("\n1..1\n");
    return !good;
}

int main(int argc, char **argv)
{
    uint64_t seeds = getenv("SUANLI_LONG") ? 2000 : 100, first = 1;

    (void)signal(SIGABRT, on_abort);
    log_set((enum log_level)(LOG_ERROR + 1), "sim"); /* clock alarms are part of the play */
    for (int i = 1; i < argc; i++) {
        if (str_eq(argv[i], "--planted"))
            return report(planted_is_found(),
                          "a planted bug (a guest outlives its end) is found and made small");
        if (str_eq(argv[i], "--plant")) {
            plant = true;
        } else if (str_eq(argv[i], "--replay")) {
            return replay(argc - i - 1, argv + i + 1);
        } else if (i + 1 == argc) {
            fprintf(stderr, "usage: sim [--first N] [--seeds N] [--seed N] [--steps N] | --planted "
                            "| [--plant] --replay CHOICE...\n");
            return 2;
        } else if (str_eq(argv[i], "--seeds")) {
            seeds = strtoull(argv[++i], NULL, 10);
        } else if (str_eq(argv[i], "--steps")) {
            steps_max = strtoll(argv[++i], NULL, 10);
        } else if (str_eq(argv[i], "--first")) {
            first = strtoull(argv[++i], NULL, 10);
        } else if (str_eq(argv[i], "--seed")) {
            first = strtoull(argv[++i], NULL, 10);
            seeds = 1;
        }
    }
    bool good = run_seeds(first, seeds);

    printf("# %" PRId64 " card-seconds billed of %" PRId64 " that guests had\n", billed_total_s,
           had_total_s);
    return report(
        good, "every law holds after each of %" PRId64 " steps, %" PRIu64 " seeds from %" PRIu64,
        steps_max, seeds, first);
}
