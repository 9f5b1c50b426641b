/* whole_month.h: a world that lived a March and an April with every kind of line and of money,
 * through the operations of the server; both months are closed, April is invoiced. */
#pragma once

#include "bill_lab.h"

#include "app/funds_int.h"
#include "store/rows_close.h"
#include "store/rows_plan.h"

#define HOUR_MS INT64_C(3600000)
#define DAY_MS (24 * HOUR_MS)
#define APRIL_MS (31 * DAY_MS) /* since the world began */

static struct world *w; /* lived once, for all tests */

static inline json_t *asked(const struct principal *who, const char *op, const char *body,
                            const char *path)
{
    struct world_reply r;
    char text[400];
    json_t *o;
    enum err e = world_call(w, &r, who, op, body, path);

    refusal_text(&r.why, LANG_EN, text, sizeof(text));
    if (e != ERR_OK)
        print_message("# %s: %s %s\n", op, err_code(e), text);
    assert_int_equal(e, ERR_OK);
    o = json_loads(r.answer, 0, NULL);
    assert_non_null(o);
    world_reply_fini(&r);
    return o;
}

static inline void by_operator(const char *op, const char *body, const char *path)
{
    by_operator_at(w, op, body, path);
}

static inline void two_paths(const struct principal *who, const char *op, const char *body,
                             const char *path0, const char *path1)
{
    struct world_reply r;
    char text[400];

    world_submit(w, &r, who, op, body, "", path0, path1);
    assert_true(world_batch(w));
    refusal_text(&r.why, LANG_EN, text, sizeof(text));
    if (!r.come || r.code != ERR_OK)
        print_message("# %s: %s %s\n", op, err_code(r.code), text);
    assert_true(r.come && r.code == ERR_OK);
    world_reply_fini(&r);
}

static inline void until(int64_t ms, int64_t round_ms)
{
    w->round_ms = round_ms;
    if (ms > w->now_ms)
        world_pass(w, ms - w->now_ms);
    w->round_ms = 20000;
}

static inline void price(const char *body)
{
    by_operator("price_set", body, NULL);
}

static inline void zone_there(const char *name)
{
    char path[100], bytes[8192];
    FILE *f;
    size_t n;

    assert_true(str_printf(path, sizeof(path), "/usr/share/zoneinfo/%s", name));
    f = fopen(path, "rb");
    assert_non_null(f);
    n = fread(bytes, 1, sizeof(bytes), f);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(funds_zone_add(name, bytes, n), ERR_OK);
}

static inline void rules(void)
{
    by_operator("seller_set", "{\"name\":\"Suan Ltd\",\"country\":\"CN\"}", NULL);
    by_operator("tax_set", "{\"country\":\"CN\",\"rate\":\"6%\"}", NULL);
    by_operator("tax_set",
                "{\"country\":\"CN\",\"rate\":\"13%\",\"sku\":\"disk\",\"class\":\"storage\","
                "\"exclusive\":true}",
                NULL);
    price("{\"sku\":\"ingress\",\"price\":\"0\",\"unit\":\"GiB\"}");
    price("{\"sku\":\"egress\",\"price\":\"0.8\",\"unit\":\"GiB\",\"tier\":[\"1:0.3\"]}");
    price("{\"sku\":\"cpu.seat\",\"price\":\"0.36\",\"unit\":\"hour\",\"day_cap\":\"0.02\"}");
    world_price(w, "plan.day.gpu.RTX 4090", "9", "day");
    world_price(w, "plan.week.gpu.RTX 4090", "40.000001", "week");
    world_price(w, "package.1.day.gpu", "1.5", "package");
    world_price(w, "spot.gpu.RTX 4090", "0.9", "hour");
    world_price(w, "exclusive.gpu.RTX 4090", "0.5", "hour");
    call_ok(w, "invoice_profile_set", "{\"name\":\"Ann\",\"country\":\"CN\"}", NULL);
    two_paths(&w->operator, "fx_set", "{\"rate\":\"7.1234\",\"spread\":\"0.01\"}", "USD", "CNY");
}

static inline void plan_of(const char *instance, char ret_id[ID_SIZE])
{
    struct plan_list plans = {0};
    struct refusal why;
    struct instance i;

    assert_int_equal(store_instance_lookup(w->store, w->user.project, instance, &i, &why), ERR_OK);
    assert_int_equal(plan_row_running(w->store, &plans), ERR_OK);
    ret_id[0] = '\0';
    for (size_t k = 0; k < plans.len; k++)
        if (str_eq(plans.at[k].instance.s, i.id.s))
            memcpy(ret_id, plans.at[k].id.s, ID_SIZE);
    assert_true(ret_id[0] != '\0');
    vec_fini(&plans);
}

/* March, in the zone of before: something on demand, a plan that goes over the border. */
static inline void march(void)
{
    call_ok(w, "instance_create", "{\"gpu\":\"4090\",\"name\":\"m\",\"no_end\":true}", NULL);
    until(w->now_ms + 300000, 20000);
    call_ok(w, "instance_stop", NULL, "m");
    call_ok(w, "project_zone_set", "{\"zone\":\"Europe/Berlin\"}", "lab");
    until(29 * DAY_MS, 6 * HOUR_MS);
    call_ok(w, "instance_create", "{\"gpu\":\"4090\",\"name\":\"p\",\"no_end\":true}", NULL);
    until(w->now_ms + 100000, 20000);
    call_ok(w, "plan_convert", "{\"plan\":\"week\",\"go_on\":true}", "p");
    until(w->now_ms + 400000, 20000);
    call_ok(w, "instance_stop", NULL, "p");
    until(APRIL_MS + 10 * HOUR_MS, 6 * HOUR_MS);
}

static inline void money_comes(void)
{
    AUTO_JSON json_t *codes = asked(&w->operator, "voucher_create",
                                    "{\"amount\":\"0.123456\",\"scope\":\"compute\"}", NULL);
    const json_t *code = json_array_get(json_object_get(codes, "codes"), 0);
    char body[100];

    assert_true(str_printf(body, sizeof(body), "{\"code\":\"%s\"}", json_string_value(code)));
    call_ok(w, "voucher_redeem", body, NULL);
    by_operator("topup", "{\"project\":\"lab\",\"amount\":\"0.200001\",\"gift\":true}", NULL);
    AUTO_JSON json_t *order =
        asked(&w->user, "order_create", "{\"amount\":\"3\",\"currency\":\"USD\"}", NULL);
    call_ok(w, "order_pay_test", NULL, text_of(order, "id"));
    by_operator("credit_set", "{\"limit\":\"60\"}", "lab");
}

/* Cards on demand over a price change, a seat over its day's cap, traffic, disks. */
static inline void on_demand(void)
{
    w->nodes[0].tx_bytes = 60 << 20;
    call_ok(w, "instance_create",
            "{\"gpu\":\"4090\",\"name\":\"a\",\"no_end\":true,\"disk\":[\"data:10GiB\"]}", NULL);
    call_ok(w, "instance_create", "{\"cpu\":2,\"memory\":\"1GiB\",\"name\":\"b\",\"no_end\":true}",
            NULL);
    until(w->now_ms + 400000, 20000);
    world_price(w, "gpu.RTX 4090", "3.1", "hour"); /* a cut: at once */
    until(w->now_ms + 200000, 20000);
    call_ok(w, "instance_stop", NULL, "b");
    w->nodes[0].tx_bytes = 0;
}

/* Bought ahead: a plan that is left on the same day, the one of March, card-hours. */
static inline void ahead(void)
{
    char id[ID_SIZE];

    call_ok(w, "plan_convert", "{\"plan\":\"day\",\"go_on\":true}", "a");
    until(w->now_ms + 400000, 20000);
    plan_of("a", id);
    call_ok(w, "plan_release", "{\"go_on\":true}", id);
    plan_of("p", id);
    call_ok(w, "plan_release", NULL, id);
    call_ok(w, "package_buy", "{\"hours\":1,\"plan\":\"day\"}", NULL);
    until(w->now_ms + 700000, 20000);
    call_ok(w, "instance_stop", NULL, "a");
    until(w->now_ms + 60000, 20000);
}

static inline void spot(void)
{
    call_ok(w, "instance_create",
            "{\"gpu\":\"4090\",\"name\":\"s\",\"for\":\"2h\",\"spot\":true,\"bid\":\"1.2\"}", NULL);
    until(w->now_ms + 300000, 20000);
    world_price(w, "spot.gpu.RTX 4090", "2.5", "hour"); /* passes the bid */
    until(w->now_ms + 200000, 20000);
    call_ok(w, "instance_stop", NULL, "s");
    until(w->now_ms + 60000, 20000);
    world_price(w, "spot.gpu.RTX 4090", "0.9", "hour");
    by_operator("topup", "{\"project\":\"lab\",\"amount\":\"0.05\",\"gift\":true}", NULL);
    call_ok(w, "instance_create", "{\"gpu\":\"4090\",\"name\":\"r\",\"for\":\"2h\",\"spot\":true}",
            NULL);
    until(w->now_ms + 300000, 20000);
    by_operator("instance_reclaim", "{\"project\":\"lab\",\"reason\":\"a gang waits\"}", "r");
    until(w->now_ms + 300000, 20000);
}

/* A node alone, at its surcharge. */
static inline void alone(void)
{
    call_ok(w, "instance_create",
            "{\"gpu\":\"4090\",\"name\":\"x\",\"for\":\"1h\",\"exclusive\":true}", NULL);
    until(w->now_ms + 200000, 20000);
    call_ok(w, "instance_stop", NULL, "x");
    until(w->now_ms + 60000, 20000);
}

/* Nothing but the credit line pays; the rest comes later. */
static inline void on_credit(void)
{
    AUTO_JSON json_t *wallet = asked(&w->user, "wallet_get", NULL, NULL);
    char body[100];

    assert_true(str_printf(body, sizeof(body), "{\"project\":\"lab\",\"amount\":\"%.*s\"}", 5,
                           amount_of(wallet, "cash")));
    by_operator("refund_create", body, NULL);
    until(w->now_ms + 26 * HOUR_MS, 6 * HOUR_MS);  /* the package is over */
    world_price(w, "gpu.RTX 4090", "150", "hour"); /* a rise: for new starts */
    call_ok(w, "instance_create", "{\"gpu\":\"4090\",\"name\":\"c\",\"for\":\"10m\"}", NULL);
    until(w->now_ms + 720000, 20000); /* and what it held of the line is settled */
    world_topup(w, "90");
}

/* Seconds of March that are rated when March is closed: what nobody proved is not taken from a
 * node, so they come by the function that takes what was. */
static inline void late(const char *instance, int64_t from_s, int64_t seconds)
{
    struct rating r = {.meter = METER_GPU, .sku = "gpu.RTX 4090", .qty_per_s = 1};
    struct refusal why = {0};
    struct instance i;
    struct books b;

    assert_int_equal(store_instance_lookup(w->store, w->user.project, instance, &i, &why), ERR_OK);
    r.instance = r.subject = i.id;
    r.started_s = from_s;
    assert_int_equal(store_begin(w->store), ERR_OK);
    assert_int_equal(books_open(w->store, WORLD_T0 + w->now_ms, w->user.project, &b, &why), ERR_OK);
    assert_int_equal(rating_add(&b, &r, from_s, from_s + seconds, &why), ERR_OK);
    assert_int_equal(store_commit(w->store), ERR_OK);
}

static inline void april_closes(void)
{
    until(APRIL_MS + 5 * DAY_MS, 6 * HOUR_MS);
    late("m", WORLD_T0 / MS_PER_S + 5 * 86400, 1234);
    late("p", WORLD_T0 / MS_PER_S + 30 * 86400, 777);
    until(APRIL_MS + 35 * DAY_MS, 6 * HOUR_MS);
    AUTO_JSON json_t *invoice = asked(&w->user, "invoice_request", "{\"month\":\"2026-04\"}", NULL);
    by_operator("invoice_credit", "{\"reason\":\"allowance\",\"amount\":\"1.01\"}",
                text_of(invoice, "number"));
}

static inline int live(void **state UNUSED)
{
    w = world_new();
    w->config.test_channel = true;
    world_restart(w);
    zone_there("Europe/Berlin");
    rules();
    march();
    money_comes();
    on_demand();
    ahead();
    spot();
    alone();
    on_credit();
    april_closes();
    return 0;
}

static inline int over(void **state UNUSED)
{
    world_done(w);
    return 0;
}

static inline int64_t number(const json_t *o, const char *key)
{
    int64_t v = 0;

    assert_int_equal(str_parse_i64(text_of(o, key), INT64_MIN, INT64_MAX, &v), ERR_OK);
    return v;
}
