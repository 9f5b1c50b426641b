#include "money_life.h"

#include <sodium.h>
#include <stdio.h>
#include <sys/stat.h>

#include "app/channel.h"

#define DAY_MS INT64_C(86400000)
/* 72 h after the end of March in Asia/Shanghai, when it is collected: 2026-04-03T16:00:00Z. */
#define MARCH_DUE_MS (33 * DAY_MS + 16 * 3600000)
/* The log is moved into the file by the commit that brings it to 1000 pages (store/sqlite.c). */
#define LOG_FRAME (4096 + 24)
#define LOG_LONG 980

struct life {
    struct world *w;
    void (*visit)(void *user, struct world *w, const struct step *s);
    void *user;
    struct principal other, third;
    char channel_key[65], orders[3][ID_SIZE], plan[ID_SIZE], payout[ID_SIZE], invoice[NAME_SIZE];
};

static enum err take(struct world *w, const struct principal *who, const char *op, const char *body,
                     const char *path0, const char *path1, json_t **ret_answer)
{
    struct world_reply r;
    char text[400];

    world_submit(w, &r, who, op, body, "", path0, path1);
    w->now_ms++;
    CHECK(world_batch(w) && r.come);
    enum err e = r.code;
    if (e != ERR_OK) {
        refusal_text(&r.why, LANG_EN, text, sizeof(text));
        printf("# %s %s: %s\n", op, body ? body : "", text);
        (void)fflush(stdout);
    }
    CHECK(e == ERR_OK);
    if (ret_answer)
        *ret_answer = json_loads(r.answer, 0, NULL);
    world_reply_fini(&r);
    return e;
}

static void must(struct life *l, const struct principal *who, const char *op, const char *body,
                 const char *path)
{
    CHECK(take(l->w, who, op, body, path, NULL, NULL) == ERR_OK);
}

static void admin(struct life *l, const char *op, const char *body, const char *path)
{
    must(l, &l->w->operator, op, body, path);
}

/* ---- steps ---- */

void step_take(struct world *w, const struct step *s, struct world_reply *r)
{
    if (s->kind == STEP_CALL) {
        world_submit(w, r, &s->who, s->op, s->body, s->keyed ? s->name : "",
                     s->path[0] ? s->path : NULL, NULL);
        CHECK(world_batch(w));
    } else if (s->kind == STEP_NODE) {
        world_sync(w, 0, false, false);
    } else {
        CHECK(world_batch(w));
        w->now_ms += 61000; /* so long the nodes may speak first */
        CHECK(world_batch(w));
    }
}

static int64_t log_frames(const struct world *w)
{
    char path[120];
    struct stat st;

    CHECK(str_printf(path, sizeof(path), "%s-wal", w->file) && stat(path, &st) == 0);
    return (st.st_size - 32) / LOG_FRAME;
}

/* A short log is left, as of a control plane that has run a while, or one that is nearly full. */
static void fill_log(struct life *l, bool is_long)
{
    world_restart(l->w);
    do
        world_topup(l->w, "0.01");
    while (is_long && log_frames(l->w) < LOG_LONG);
}

static void visited(struct life *l, const struct step *s)
{
    fill_log(l, s->long_log);
    l->visit(l->user, l->w, s);
}

/* After its step, what it answered. */
static json_t *taken(struct life *l, const struct step *s)
{
    struct world_reply r = {0};
    json_t *answer = NULL;

    world_restart(l->w);
    step_take(l->w, s, &r);
    CHECK(s->kind != STEP_CALL || (r.come && r.code == ERR_OK));
    if (r.answer)
        answer = json_loads(r.answer, 0, NULL);
    world_reply_fini(&r);
    return answer;
}

static struct step call_step(const char *name, const struct principal *who, const char *op,
                             const char *body, const char *path)
{
    struct step s = {.name = name, .kind = STEP_CALL, .who = *who, .op = op, .keyed = true};

    CHECK(str_copy(s.body, sizeof(s.body), body) && str_copy(s.path, sizeof(s.path), path));
    return s;
}

static json_t *visit_take(struct life *l, const struct step *s)
{
    visited(l, s);
    return taken(l, s);
}

/* An answer's text is kept. */
static void call(struct life *l, const char *name, const struct principal *who, const char *op,
                 const char *body, const char *path, const char *field, char *ret_text, size_t size)
{
    struct step s = call_step(name, who, op, body, path);
    AUTO_JSON json_t *answer = visit_take(l, &s);

    CHECK(!field || json_get_text(answer, field, ret_text, size));
}

/* ---- the life ---- */

static void begin(struct life *l)
{
    static const char *const prices[][3] = {
        {"gpu.RTX 4090", "3.6", "hour"},       {"cpu.seat", "0.36", "hour"},
        {"disk", "0.01", "GiB-day"},           {"disk.stopped", "0.005", "GiB-day"},
        {"disk.detached", "0.007", "GiB-day"}, {"plan.day.gpu.RTX 4090", "9", "day"},
        {"spot.gpu.RTX 4090", "0.9", "hour"},  {"package.1.day.gpu", "1.5", "package"}};

    world_init(l->w, 1, true);
    world_image(l->w, "base", "sha256:base", true);
    for (size_t i = 0; i < ARRAY_LEN(prices); i++)
        world_price(l->w, prices[i][0], prices[i][1], prices[i][2]);
    world_add_node(l->w, "RTX 4090", 3);
    admin(l, "seller_set", "{\"name\":\"Suan Ltd\",\"country\":\"CN\"}", NULL);
    admin(l, "tax_set", "{\"country\":\"CN\",\"rate\":\"6%\",\"from\":\"2020-01-01T00:00:00Z\"}",
          NULL);
    admin(l, "supplier_add", "{\"user\":\"ann\",\"share\":\"2/3\",\"dispute\":\"none\"}", "sup");
    CHECK(take(l->w, &l->w->operator, "supplier_node_add", NULL, "sup", l->w->nodes[0].name,
               NULL) == ERR_OK);
    AUTO_JSON json_t *channel = NULL;
    CHECK(take(l->w, &l->w->operator, "channel_add", "{\"name\":\"pay1\"}", NULL, NULL, &channel) ==
          ERR_OK);
    CHECK(json_get_text(channel, "key", l->channel_key, sizeof(l->channel_key)));
}

static struct principal account(struct life *l, const char *name)
{
    struct principal who = l->w->user;
    struct project p;
    char body[100];

    CHECK(str_printf(body, sizeof(body), "{\"name\":\"%s\"}", name));
    must(l, &l->w->user, "project_create", body, NULL);
    CHECK(store_project_get_name(l->w->store, name, &p) == ERR_OK);
    who.project = p.id;
    CHECK(str_printf(body, sizeof(body), "{\"project\":\"%s\",\"amount\":\"50\"}", name));
    admin(l, "topup", body, NULL);
    return who;
}

/* March: three accounts use cards, two take a month's invoice. */
static void march(struct life *l)
{
    const struct principal *who[] = {&l->w->user, &l->other, &l->third};

    world_topup(l->w, "100");
    l->other = account(l, "other");
    l->third = account(l, "third");
    l->w->round_ms = 20000;
    for (size_t i = 0; i < ARRAY_LEN(who); i++)
        must(l, who[i], "instance_create", "{\"gpu\":\"4090\",\"name\":\"a\",\"no_end\":true}",
             NULL);
    world_pass(l->w, 400000);
    for (size_t i = 0; i < ARRAY_LEN(who); i++)
        must(l, who[i], "instance_stop", NULL, "a");
    l->w->round_ms = 20000;
    world_pass(l->w, 120000);
    must(l, &l->w->user, "invoice_profile_set", "{\"name\":\"Lab\",\"country\":\"CN\"}", NULL);
    l->w->round_ms = DAY_MS;
    world_pass(l->w, MARCH_DUE_MS - 3600000 - l->w->now_ms);
    l->w->now_ms = MARCH_DUE_MS + 60000; /* nothing ran since: nobody has closed it yet */
}

static void closes(struct life *l)
{
    struct step clock = {.name = "close by the clock", .kind = STEP_CLOCK};

    visited(l, &clock);
    call(l, "close", &l->w->operator, "close_run", "{\"month\":\"2026-03\"}", "", NULL, NULL, 0);
    call(l, "invoice", &l->w->user, "invoice_request", "{\"month\":\"2026-03\"}", "", "number",
         l->invoice, sizeof(l->invoice));
    call(l, "credit note", &l->w->operator, "invoice_credit", "{\"reason\":\"return\"}", l->invoice,
         NULL, NULL, 0);
}

/* The notice of the channel that an order was paid. */
static void notice_body(const struct life *l, const char *order, char *body, size_t size)
{
    struct channel_notice n = {.channel = "pay1",
                               .order = order,
                               .amount = "40.00",
                               .currency = "CNY",
                               .reference = order,
                               .nonce = order,
                               .time_s = (WORLD_T0 + l->w->now_ms) / MS_PER_S};
    unsigned char key[32], mac[32];
    char text[CHANNEL_TEXT_SIZE], hex[65];

    CHECK(channel_notice_text(&n, text) == ERR_OK);
    CHECK(sodium_hex2bin(key, sizeof(key), l->channel_key, 64, NULL, NULL, NULL) == 0);
    crypto_auth_hmacsha256(mac, (const unsigned char *)text, strlen(text), key);
    sodium_bin2hex(hex, sizeof(hex), mac, sizeof(mac));
    CHECK(str_printf(body, size,
                     "{\"order\":\"%s\",\"amount\":\"40.00\",\"currency\":\"CNY\",\"reference\":"
                     "\"%s\",\"nonce\":\"%s\",\"time\":%" PRId64 ",\"signature\":\"%s\"}",
                     order, order, order, n.time_s, hex));
}

/* Orders: the first is paid and told, the second was paid too but its notice was lost, the third is
 * told now. */
static void payments(struct life *l)
{
    int64_t now_s;
    char body[800];

    for (size_t i = 0; i < ARRAY_LEN(l->orders); i++) {
        AUTO_JSON json_t *o = NULL;

        CHECK(take(l->w, &l->w->user, "order_create", "{\"amount\":\"40.00\",\"channel\":\"pay1\"}",
                   NULL, NULL, &o) == ERR_OK);
        CHECK(json_get_text(o, "id", l->orders[i], ID_SIZE));
    }
    notice_body(l, l->orders[0], body, sizeof(body));
    must(l, &l->w->user, "channel_notice", body, "pay1");
    notice_body(l, l->orders[2], body, sizeof(body));
    struct step told = call_step("payment notice", &l->w->user, "channel_notice", body, "pay1");
    told.keyed = false;
    json_decref(visit_take(l, &told));
    now_s = (WORLD_T0 + l->w->now_ms) / MS_PER_S;
    CHECK(str_printf(body, sizeof(body),
                     "{\"file\":\"day.csv\",\"line\":[\"%s,%s,payment,40.00,CNY,%" PRId64 "\","
                     "\"%s,%s,payment,40.00,CNY,%" PRId64 "\","
                     "\"alien,ord_alien,payment,7.00,CNY,%" PRId64 "\"]}",
                     l->orders[0], l->orders[0], now_s, l->orders[1], l->orders[1], now_s, now_s));
    struct step file = call_step("payment file", &l->w->operator, "clearing_import", body, "pay1");
    file.keyed = false;
    json_decref(visit_take(l, &file));
    call(l, "suspense credited", &l->w->operator, "clearing_resolve", "{\"as\":\"credit\"}", "2",
         NULL, NULL, 0);
    CHECK(str_printf(body, sizeof(body),
                     "{\"project\":\"lab\",\"amount\":\"3.00\",\"order\":\"%s\"}", l->orders[0]));
    call(l, "refund", &l->w->operator, "refund_create", body, "", NULL, NULL, 0);
    struct step full = call_step("refund with a long log", &l->w->operator, "refund_create",
                                 "{\"project\":\"lab\",\"amount\":\"50.00\"}", "");
    full.long_log = true;
    visited(l, &full);
}

static void payouts(struct life *l)
{
    struct step run = call_step("payout", &l->w->operator, "payout_run", "{}", "");
    AUTO_JSON json_t *answer = visit_take(l, &run);

    CHECK(json_get_text(json_array_get(json_object_get(answer, "items"), 0), "id", l->payout,
                        sizeof(l->payout)));
    call(l, "payout paid", &l->w->operator, "payout_paid", "{\"reference\":\"b-1\"}", l->payout,
         NULL, NULL, 0);
}

static void report(struct life *l, const char *name)
{
    struct step s = {.name = name, .kind = STEP_NODE};

    l->w->now_ms += 5000;
    simnode_live(&l->w->nodes[0], l->w->now_ms);
    json_decref(visit_take(l, &s));
}

static void plans(struct life *l)
{
    world_restart(l->w);
    l->w->round_ms = 5000;
    must(l, &l->w->user, "instance_create", "{\"gpu\":\"4090\",\"name\":\"p\",\"no_end\":true}",
         NULL);
    world_pass(l->w, 60000);
    report(l, "usage report");
    call(l, "conversion", &l->w->user, "plan_convert", "{\"plan\":\"day\",\"go_on\":true}", "p",
         "id", l->plan, sizeof(l->plan));
    world_pass(l->w, 60000);
    call(l, "early release", &l->w->user, "plan_release", "{\"go_on\":true}", l->plan, NULL, NULL,
         0);
    call(l, "package", &l->w->user, "package_buy", "{\"hours\":1,\"plan\":\"day\"}", "", NULL, NULL,
         0);
}

/* A spot run that is taken back within its free time: what its cards cost goes back when it is
 * settled, by the report that says it has ended. */
static void reclaimed(struct life *l)
{
    world_restart(l->w);
    must(l, &l->w->user, "instance_create",
         "{\"gpu\":\"4090\",\"name\":\"s\",\"for\":\"2h\",\"spot\":true,\"bid\":\"1.2\"}", NULL);
    world_pass(l->w, 120000);
    call(l, "reclaim", &l->w->operator, "instance_reclaim", "{\"project\":\"lab\"}", "s", NULL,
         NULL, 0);
    world_pass(l->w, 20000);
    must(l, &l->w->user, "instance_stop", NULL, "s");
    world_sync(l->w, 0, false, false);
    report(l, "reversal");
}

void money_life(struct world *w, void (*visit)(void *user, struct world *w, const struct step *s),
                void *user)
{
    struct life l = {.w = w, .visit = visit, .user = user};
    char text[300];

    begin(&l);
    march(&l);
    closes(&l);
    payments(&l);
    payouts(&l);
    plans(&l);
    reclaimed(&l);
    if (!world_check(w, text, sizeof(text))) {
        printf("# in the end: %s\n", text);
        CHECK(!"lawful in the end");
    }
}
