/* golden_bill.c: plans, budgets, tax, bills, refunds and the export that must add up to them. */
#include "golden.h"

#include "domain/budget.h"
#include "domain/refund.h"
#include "domain/tax.h"

/* ---- plans ---- */

/* The revenue of a plan, month by month, by the seconds that fall into each. */
static bool recognise(struct golden *g, int64_t paid, int64_t from, int64_t to)
{
    json_t *months = json_object();
    int64_t before = 0, after;
    struct period month;
    char name[16];

    golden_put_json(g, "recognised_u", months);
    for (period_month_at(&g->zone, from, &month); month.from_s < to;
         period_next(&g->zone, &month)) {
        if (!golden_ok(g, refund_recognised(paid, from, to, MIN(month.to_s, to), &after), "plan"))
            return false;
        period_format(&month, name, sizeof(name));
        json_object_set_new(months, name, json_integer(after - before));
        before = after;
    }
    return true;
}

bool golden_day_plan(struct golden *g)
{
    enum calendar_unit unit;
    const char *plan;
    int64_t paid, from, to, count;
    utime_t start, end;

    if (!golden_text(g, g->in, "plan", "day", &plan) ||
        !golden_i64_or(g, g->in, "count", 1, &count) ||
        !golden_i64_or(g, g->in, "paid_u", 0, &paid) ||
        !golden_time(g, g->in, "start", INT64_MIN, &start))
        return false;
    if (!calendar_unit_find(plan, &unit))
        return golden_fail(g, "unknown plan %s", plan);
    from = start / MS_PER_S;
    to = calendar_plan_end(&g->zone, from, unit, count);
    if (golden_has(g, "end")) {
        if (!golden_time(g, g->in, "end", start, &end))
            return false;
        to = end / MS_PER_S;
    }
    golden_put_time(g, "end", to);
    golden_put(g, "seconds", to - from);
    return recognise(g, paid, from, to);
}

bool golden_conversion(struct golden *g)
{
    int64_t gpus, s, plan, qty, u, total;
    const char *name;
    struct rate r;

    if (!golden_rate(g, g->in, &r) || !golden_gpus(g, &gpus) ||
        !golden_i64_or(g, g->in, "payg_s", 0, &s) || !golden_text(g, g->in, "plan", "day", &name) ||
        !golden_i64_or(g, g->in, "plan_u", 0, &plan) || !golden_mul(g, s, gpus, &qty) ||
        !golden_ok(g, rate_total(&r, qty, &u), "rating") ||
        !golden_ok(g, micro_add(u, plan, &total), "total"))
        return false;
    golden_put(g, "payg_u", u);
    golden_put(g, "plan_u", plan);
    golden_put(g, "total_u", total);
    return true;
}

bool golden_calendar(struct golden *g)
{
    static const struct {
        const char *key;
        enum calendar_unit unit;
    } units[] = {{"hours", CALENDAR_HOUR},
                 {"days", CALENDAR_DAY},
                 {"weeks", CALENDAR_WEEK},
                 {"months", CALENDAR_MONTH},
                 {"years", CALENDAR_YEAR}};
    json_t *ends = json_array(), *seconds = json_array();
    enum calendar_unit unit = CALENDAR_MONTH;
    int64_t step = 1, renewals, from, end;
    const char *plan;
    utime_t start;

    golden_put_json(g, "ends", ends);
    golden_put_json(g, "seconds", seconds);
    if (!golden_time(g, g->in, "start", INT64_MIN, &start) ||
        !golden_i64_or(g, g->in, "renewals", 1, &renewals) ||
        !golden_text(g, g->in, "plan", "month", &plan))
        return false;
    if (!calendar_unit_find(plan, &unit))
        return golden_fail(g, "unknown plan %s", plan);
    for (size_t i = 0; i < ARRAY_LEN(units); i++)
        if (golden_has(g, units[i].key)) {
            unit = units[i].unit;
            if (!golden_i64(g, g->in, units[i].key, &step))
                return false;
        }
    if (renewals < 1 || renewals > GOLDEN_ITEMS_MAX || step < 1 || step > GOLDEN_ITEMS_MAX)
        return golden_fail(g, "renewals out of range");
    from = start / MS_PER_S;
    for (int64_t i = 1; i <= renewals; i++) {
        int64_t begin = i == 1 ? from : calendar_plan_end(&g->zone, from, unit, step * (i - 1));
        end = calendar_plan_end(&g->zone, from, unit, step * i);
        json_array_append_new(ends, golden_time_json(end));
        json_array_append_new(seconds, json_integer(end - begin));
    }
    return true;
}

/* ---- budgets ---- */

#define MEMBERS_MAX 256

static bool load_members(struct golden *g, struct rate *rates, struct term_window *w, size_t *ret_n)
{
    json_t *list = golden_get(g, g->in, "instances"), *o;
    const char *start;
    size_t i;

    if (!golden_text(g, g->in, "start", "same second", &start))
        return false;
    if (!list) {
        *ret_n = 1;
        w[0] = (struct term_window){.rate = &rates[0], .to_s = INT64_MAX};
        return golden_rate(g, g->in, &rates[0]) && golden_gpus(g, &w[0].qty_per_s);
    }
    if (!json_is_array(list) || json_array_size(list) < 1 || json_array_size(list) > MEMBERS_MAX)
        return golden_fail(g, "instances is not a list of at most %d", MEMBERS_MAX);
    json_array_foreach(list, i, o)
    {
        w[i] = (struct term_window){.rate = &rates[i], .to_s = INT64_MAX};
        if (!golden_rate(g, o, &rates[i]) || !golden_gpus(g, &w[i].qty_per_s) ||
            !golden_i64_or(g, o, "gpus", w[i].qty_per_s, &w[i].qty_per_s) ||
            !golden_i64_or(g, o, "start_s", 0, &w[i].from_s))
            return false;
    }
    *ret_n = json_array_size(list);
    return true;
}

bool golden_budget(struct golden *g)
{
    static struct rate rates[MEMBERS_MAX];
    struct term_window w[MEMBERS_MAX];
    struct budget b = {0};
    json_t *charges = json_array();
    int64_t s, u, total, limit;
    size_t n;

    golden_put_json(g, "charges_u", charges);
    if (!load_members(g, rates, w, &n) || !golden_i64(g, g->in, "cap_u", &b.cap_u) ||
        !golden_i64_or(g, g->in, "seconds", INT64_MAX / 4, &limit))
        return false;
    s = budget_joint_seconds(&b, w, n, limit);
    for (size_t i = 0; i < n; i++) {
        if (!golden_ok(g, term_cost(&w[i], 1, s, &u), "rating"))
            return false;
        json_array_append_new(charges, json_integer(u));
    }
    if (!golden_ok(g, term_cost(w, n, s, &total), "rating"))
        return false;
    golden_put(g, "run_s", s);
    golden_put(g, "charge_u", total);
    golden_put(g, "total_u", total);
    golden_put(g, "left_u", b.cap_u - total);
    return true;
}

/* ---- tax ---- */

static bool load_sale(struct golden *g, struct tax_sale *ret_s)
{
    const char *customer, *seller, *buyer;

    if (!golden_text(g, g->in, "customer", "B2C", &customer) ||
        !golden_text(g, g->in, "seller_country", "", &seller) ||
        !golden_text(g, g->in, "buyer_country", "", &buyer) ||
        !golden_bool(g, g->in, "vat_id_valid", false, &ret_s->vat_id_valid))
        return false;
    ret_s->business = str_eq(customer, "B2B");
    if ((!ret_s->business && !str_eq(customer, "B2C")) ||
        !str_copy(ret_s->seller, sizeof(ret_s->seller), seller) ||
        !str_copy(ret_s->buyer, sizeof(ret_s->buyer), buyer))
        return golden_fail(g, "customer or country is not one");
    return true;
}

/* One group: an amount with or without tax inside, whichever is given. Reverse charge on an amount
 * with tax inside: the buyer pays the net of it. */
static bool tax_group(struct golden *g, const json_t *o, const struct tax_sale *sale,
                      struct tax_group *ret_t, struct tax_decision *ret_d)
{
    bool inclusive = golden_get(g, o, "gross_minor") != NULL;
    struct tax_rate rate = {0, 1};
    int64_t amount;

    if (!golden_i64(g, o, inclusive ? "gross_minor" : "net_minor", &amount) ||
        (golden_get(g, o, "rate") && !golden_pair(g, o, "rate", &rate.n, &rate.d)))
        return false;
    *ret_d = tax_decide(sale, rate);
    bool free_of_tax = ret_d->category == TAX_REVERSE || ret_d->category == TAX_OUTSIDE;
    if (!golden_ok(g, tax_of(amount, inclusive ? rate : ret_d->rate, inclusive, ret_t), "tax"))
        return false;
    if (free_of_tax)
        *ret_t = (struct tax_group){ret_t->net_minor, 0, ret_t->net_minor};
    return true;
}

static bool tax_groups(struct golden *g, const struct tax_sale *sale)
{
    json_t *list, *o, *net = json_array(), *tax = json_array(), *gross = json_array();
    struct tax_decision d;
    struct tax_group t;
    int64_t total = 0;
    size_t i;

    golden_put_json(g, "net_minor", net);
    golden_put_json(g, "tax_minor", tax);
    golden_put_json(g, "gross_minor", gross);
    if (!golden_list(g, g->in, "groups", &list))
        return false;
    json_array_foreach(list, i, o)
    {
        if (!tax_group(g, o, sale, &t, &d))
            return false;
        json_array_append_new(net, json_integer(t.net_minor));
        json_array_append_new(tax, json_integer(t.tax_minor));
        json_array_append_new(gross, json_integer(t.gross_minor));
        total += t.gross_minor;
    }
    golden_put(g, "total_minor", total);
    return true;
}

bool golden_tax(struct golden *g)
{
    struct tax_sale sale = {0};
    struct tax_decision d;
    struct tax_group t;
    bool inclusive; /* said twice: an amount is a gross_minor or a net_minor */

    if (!load_sale(g, &sale) || !golden_bool(g, g->in, "inclusive", false, &inclusive))
        return false;
    if (golden_has(g, "groups"))
        return tax_groups(g, &sale);
    if (!tax_group(g, g->in, &sale, &t, &d))
        return false;
    golden_put(g, "net_minor", t.net_minor);
    golden_put(g, "tax_minor", t.tax_minor);
    golden_put(g, "gross_minor", t.gross_minor);
    golden_put(g, "total_minor", t.gross_minor);
    golden_put_text(g, "category", tax_category_code(d.category));
    golden_put_text(g, "note", d.category == TAX_REVERSE ? "Reverse charge" : NULL);
    golden_put_text(g, "warning", d.vat_id_refused ? "vat_id_not_valid" : NULL);
    return true;
}

/* ---- bills ---- */

static void put_bill(struct golden *g, const struct tax_bill *b)
{
    golden_put(g, "total_u", b->total.total_u);
    golden_put(g, "payable_minor", b->total.payable_minor);
    golden_put(g, "residue_u", b->total.residue_u);
    golden_put(g, "net_minor", b->tax.net_minor);
    golden_put(g, "tax_minor", b->tax.tax_minor);
    golden_put(g, "gross_minor", b->tax.gross_minor);
}

bool golden_invoice(struct golden *g)
{
    static struct bill_share scratch[GOLDEN_ITEMS_MAX];
    int64_t lines[GOLDEN_ITEMS_MAX], minor[GOLDEN_ITEMS_MAX], minor_u;
    json_t *printed = json_array();
    struct tax_rate rate = {0, 1};
    struct tax_bill b;
    bool inclusive;
    size_t n = 1;

    golden_put_json(g, "lines_minor", printed);
    if (golden_has(g, "price_u"))
        return golden_usage(g);
    if (!golden_minor(g, &minor_u) || !golden_inclusive(g, &inclusive) ||
        (golden_has(g, "rate") && !golden_pair(g, g->in, "rate", &rate.n, &rate.d)) ||
        !(golden_has(g, "lines_u") ? golden_i64s(g, g->in, "lines_u", lines, GOLDEN_ITEMS_MAX, &n)
                                   : golden_i64(g, g->in, "total_u", &lines[0])) ||
        !golden_ok(g, tax_bill(minor_u, lines, n, rate, inclusive, scratch, minor, &b), "bill"))
        return false;
    for (size_t i = 0; i < n; i++)
        json_array_append_new(printed, json_integer(minor[i]));
    put_bill(g, &b);
    return true;
}

/* The export's rows in µ, credits and the residue among them, are whole minor units together. */
bool golden_focus(struct golden *g)
{
    json_t *list, *o;
    int64_t minor_u, sum = 0, u;
    struct tax_rate rate = {0, 1};
    struct tax_bill b;
    const char *cat;
    bool inclusive;
    size_t i;

    if (!golden_list(g, g->in, "rows", &list) || !golden_minor(g, &minor_u) ||
        !golden_inclusive(g, &inclusive) ||
        (golden_has(g, "rate") && !golden_pair(g, g->in, "rate", &rate.n, &rate.d)))
        return false;
    json_array_foreach(list, i, o)
    {
        if (!golden_text(g, o, "cat", "Usage", &cat) || !golden_i64(g, o, "billed_u", &u) ||
            !golden_ok(g, micro_add(sum, u, &sum), "rows"))
            return false;
    }
    if (!golden_ok(g, tax_bill(minor_u, &sum, 1, rate, inclusive, NULL, NULL, &b), "bill"))
        return false;
    golden_put(g, "sum_billed_u", sum);
    golden_put(g, "invoice_payable_minor", b.total.payable_minor);
    put_bill(g, &b);
    return true;
}

/* ---- refunds ---- */

/* used and total: two instants and a release, two numbers of seconds, or a share [n, d]. */
static bool used_part(struct golden *g, int64_t *ret_used, int64_t *ret_total)
{
    utime_t start, end, released;

    if (golden_has(g, "used"))
        return golden_pair(g, g->in, "used", ret_used, ret_total);
    if (golden_has(g, "start")) {
        if (!golden_time(g, g->in, "start", INT64_MIN, &start) ||
            !golden_time(g, g->in, "end", start, &end) ||
            !golden_time(g, g->in, "released", start, &released))
            return false;
        *ret_used = MAX((MIN(released, end) - start) / MS_PER_S, (int64_t)0);
        *ret_total = (end - start) / MS_PER_S;
    } else if (!golden_i64(g, g->in, "used_s", ret_used) ||
               !golden_i64(g, g->in, "total_s", ret_total)) {
        return false;
    }
    golden_put(g, "used_s", *ret_used);
    golden_put(g, "total_s", *ret_total);
    return true;
}

static bool load_paid(struct golden *g, struct refund_paid *ret_p)
{
    const json_t *paid = golden_get(g, g->in, "paid");

    if (!paid)
        return golden_i64(g, g->in, "paid_u", &ret_p->cash_u);
    return golden_i64_or(g, paid, "voucher_u", 0, &ret_p->voucher_u) &&
           golden_i64_or(g, paid, "gift_u", 0, &ret_p->gift_u) &&
           golden_i64_or(g, paid, "cash_u", 0, &ret_p->cash_u);
}

static bool claw_back(struct golden *g, int64_t paid_u, int64_t used, int64_t total,
                      int64_t *ret_consumed_u)
{
    int64_t fee_n = 0, fee_d = 1, gpus;
    struct refund_clawback c;
    struct rate r;

    if (!golden_rate_named(g, g->in, golden_has(g, "ondemand_u") ? "ondemand_u" : "price_u", "per",
                           &r) ||
        !golden_gpus(g, &gpus) ||
        (golden_has(g, "fee_on_discount") &&
         !golden_pair(g, g->in, "fee_on_discount", &fee_n, &fee_d)) ||
        !golden_ok(g, refund_claw_back(paid_u, used, total, &r, gpus, fee_n, fee_d, &c),
                   "clawback"))
        return false;
    golden_put(g, "ondemand_used_u", c.ondemand_used_u);
    golden_put(g, "discount_enjoyed_u", c.discount_enjoyed_u);
    golden_put(g, "fee_u", c.fee_u);
    *ret_consumed_u = c.consumed_u;
    return true;
}

bool golden_refund(struct golden *g)
{
    int64_t used, total, consumed, paid_u;
    struct refund_paid paid = {0};
    struct refund r;
    const char *rule;

    if (!load_paid(g, &paid) || !used_part(g, &used, &total) ||
        !golden_text(g, g->in, "rule", "pro_rata", &rule) ||
        !golden_ok(g, micro_add(paid.gift_u, paid.cash_u, &paid_u), "paid") ||
        !golden_ok(g, micro_add(paid_u, paid.voucher_u, &paid_u), "paid"))
        return false;
    if (str_eq(rule, "clawback")) {
        if (!claw_back(g, paid_u, used, total, &consumed))
            return false;
    } else if (!str_eq(rule, "pro_rata")) {
        return golden_fail(g, "unknown rule %s", rule);
    } else if (!golden_ok(g, refund_pro_rata(paid_u, used, total, &consumed), "pro rata")) {
        return false;
    }
    if (!golden_ok(g, refund_split(paid, consumed, &r), "refund"))
        return false;
    golden_put(g, "consumed_u", r.consumed_u);
    golden_put(g, "refund_u", r.refund_u);
    golden_put(g, "voucher_forfeit_u", r.voucher_forfeit_u);
    golden_put_json(
        g, "refund",
        json_pack("{s:I,s:I,s:I}", "voucher", (json_int_t)0, "gift", r.gift_u, "cash", r.cash_u));
    return true;
}
