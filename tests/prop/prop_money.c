/* Laws of rating, metering, price versions and spend control: P1, P4, P8, P11 of the money rules.
 */
#include "domain/budget.h"
#include "domain/meter.h"
#include "domain/price.h"
#include "oracle.h"

/* ---- P1: any slicing, order and repetition gives the one exact total ---- */

#define SLICES_MAX 40

struct wire {
    struct usage_slice slices[SLICES_MAX];
    size_t count;
};

/* Cuts [0, end) into slices, then adds overlapping ones under other ids. */
static void cut(struct tape *t, struct wire *w, int64_t end, int64_t qty)
{
    int64_t at = 0;

    while (at < end && w->count < SLICES_MAX - 12) {
        int64_t next = w->count == SLICES_MAX - 13 ? end : at + tape_range(t, 1, end - at);
        w->slices[w->count] = (struct usage_slice){
            .seq = (int64_t)w->count, .t0_s = at, .t1_s = next, .qty_per_s = qty};
        w->count++;
        at = next;
    }
    for (uint64_t extra = tape_below(t, 12); extra > 0 && end > 0; extra--) {
        int64_t from = tape_range(t, 0, end - 1);
        w->slices[w->count] = (struct usage_slice){.seq = (int64_t)w->count,
                                                   .t0_s = from,
                                                   .t1_s = tape_range(t, from, end),
                                                   .qty_per_s = qty};
        w->count++;
    }
    for (size_t i = 0; i < w->count; i++)
        meter_payload_hash(&w->slices[i]);
}

struct books {
    const struct usage_slice *known[SLICES_MAX];
    struct usage_slice parked[SLICES_MAX];
    size_t parked_count;
    int64_t cursor_s, qty, posted_u;
};

static bool post(struct tape *t, struct books *b, const struct rate *r, const struct meter_gain *g)
{
    int64_t u, more = (g->to_s - g->from_s) * g->qty_per_s;

    TAPE_MUST(t, rate_delta(r, b->qty, b->qty + more, &u) == ERR_OK);
    TAPE_MUST(t, u >= 0);
    b->qty += more;
    b->posted_u += u;
    return true;
}

static bool deliver(struct tape *t, struct books *b, const struct rate *r,
                    const struct usage_slice *s)
{
    struct meter_gain gain, gains[SLICES_MAX];
    enum meter_verdict verdict = meter_dedupe(b->known[s->seq], s);
    size_t taken;

    if (verdict == METER_DUPLICATE)
        return true;
    TAPE_MUST(t, verdict == METER_NEW);
    b->known[s->seq] = s;
    TAPE_MUST(t, meter_take(&b->cursor_s, s, &verdict, &gain) == ERR_OK);
    if (verdict == METER_PARKED) {
        b->parked[b->parked_count++] = *s;
        return true;
    }
    if (!post(t, b, r, &gain))
        return false;
    meter_drain(&b->cursor_s, b->parked, b->parked_count, gains, &taken);
    for (size_t i = 0; i < taken; i++)
        if (!post(t, b, r, &gains[i]))
            return false;
    b->parked_count -= taken;
    memmove(b->parked, b->parked + taken, b->parked_count * sizeof(b->parked[0]));
    return true;
}

static bool law_slicing(struct tape *t)
{
    int64_t end = tape_size(t, 100000), qty = 1 + (int64_t)tape_below(t, 16);
    struct rate r = oracle_rate(t, INT64_C(1) << 42);
    struct wire w = {0};
    struct books b = {0};
    size_t order[SLICES_MAX];
    mpz_t exact;

    TAPE_MUST(t, rate_check(&r) == ERR_OK);
    cut(t, &w, end, qty);
    tape_shuffle(t, order, w.count);
    for (size_t i = 0; i < w.count; i++) {
        const struct usage_slice *s = &w.slices[order[i]];
        struct books before = b;
        if (!deliver(t, &b, &r, s))
            return false;
        if (tape_chance(t, 20)) { /* killed before the commit: the old state, delivered again */
            b = before;
            i--;
            continue;
        }
        if (tape_chance(t, 20) && !deliver(t, &b, &r, s))
            return false;
        if (tape_chance(t, 10)) { /* same key, other content */
            struct usage_slice lie = *s;
            lie.t1_s++;
            meter_payload_hash(&lie);
            TAPE_MUST(t, meter_dedupe(b.known[s->seq], &lie) == METER_CONFLICT);
        }
    }
    TAPE_MUST(t, b.parked_count == 0 && b.cursor_s == end && b.qty == end * qty);
    mpz_init(exact);
    oracle_total(exact, &r, b.qty);
    bool equal = mpz_cmp_si(exact, b.posted_u) == 0;
    mpz_clear(exact);
    TAPE_MUST(t, equal);
    return true;
}

/* ---- the whole range of the rating function, and T4 ---- */

static bool law_rating(struct tape *t)
{
    struct rate r = oracle_rate(t, INT64_MAX);
    int64_t q = tape_size(t, INT64_MAX), u, budget = tape_size(t, INT64_MAX), n, cost;
    mpz_t exact;

    TAPE_MUST(t, rate_check(&r) == ERR_OK);
    mpz_init(exact);
    oracle_total(exact, &r, q);
    enum err e = rate_total(&r, q, &u);
    bool fits = mpz_cmp_si(exact, INT64_MAX) <= 0;
    bool equal = e == ERR_OK && mpz_cmp_si(exact, u) == 0;
    mpz_clear(exact);
    TAPE_MUST(t, fits ? equal : e == ERR_MONEY_RANGE);
    int64_t from = tape_size(t, 1000000);
    n = rate_affordable(&r, from, budget, INT64_MAX / 2);
    if (n > 0)
        TAPE_MUST(t, rate_delta(&r, from, from + n, &cost) == ERR_OK && cost <= budget);
    if (n < INT64_MAX / 2)
        TAPE_MUST(t, rate_delta(&r, from, from + n + 1, &cost) != ERR_OK || cost > budget);
    return true;
}

static bool law_discount(struct tape *t)
{
    struct rate r = oracle_rate(t, INT64_C(1) << 30), plain;
    int64_t n = tape_range(t, 0, 100), q = tape_size(t, 1000000), u;
    mpz_t exact;

    r.cap_qty = 0;
    plain = r;
    TAPE_MUST(t, rate_scale(&r, n, 100) == ERR_OK && rate_total(&r, q, &u) == ERR_OK);
    for (size_t i = 0; i < plain.tier_count; i++)
        plain.tiers[i].p *= n;
    plain.d *= 100;
    mpz_init(exact);
    oracle_total(exact, &plain, q);
    bool equal = mpz_cmp_si(exact, u) == 0;
    mpz_clear(exact);
    TAPE_MUST(t, equal);
    TAPE_MUST(t, n > 0 || u == 0);
    return true;
}

/* ---- P8: every second is bound by the right version; quote = bill ---- */

#define HISTORY_MAX 6

static size_t history(struct tape *t, struct price_version *v)
{
    size_t n = 1 + tape_below(t, HISTORY_MAX);
    int64_t at = -1000;

    for (size_t i = 0; i < n; i++) {
        v[i] = (struct price_version){.valid_from_s = at, .notice_s = tape_range(t, 0, 300)};
        v[i].announced_s = at - tape_range(t, 0, 100);
        struct price_rate price = {tape_range(t, 0, 5), tape_range(t, 1, 3)};
        enum err e = rate_flat(price, &v[i].rate);
        CHECK(e == ERR_OK);
        at = MAX(at, (int64_t)0) + tape_range(t, 0, 200);
    }
    return n;
}

/* Said without the algorithm: a version in force was valid; a dearer price was announced long
 * enough before, by this version or by one as dear on the way to it; no cut that was valid was
 * missed. */
static bool check_second(struct tape *t, const struct price_version *v, size_t n, size_t was,
                         size_t is, int64_t second)
{
    bool noticed = !rate_rises(&v[was].rate, &v[is].rate);

    TAPE_MUST(t, is >= was && v[is].valid_from_s <= second);
    for (size_t k = was + 1; k <= is; k++)
        noticed = noticed || (!rate_rises(&v[k].rate, &v[is].rate) && v[k].valid_from_s <= second &&
                              v[k].announced_s + v[k].notice_s <= second);
    TAPE_MUST(t, noticed);
    for (size_t j = is + 1; j < n; j++)
        TAPE_MUST(t, v[j].valid_from_s > second || (rate_rises(&v[is].rate, &v[j].rate) &&
                                                    v[j].announced_s + v[j].notice_s > second));
    return true;
}

static bool law_versions(struct tape *t)
{
    struct price_version v[HISTORY_MAX];
    struct price_part parts[64];
    size_t n = history(t, v), count, start;
    int64_t started = tape_range(t, 0, 400), from = started + tape_range(t, 0, 300);
    int64_t to = from + tape_range(t, 0, 600), at = from;

    TAPE_MUST(t, price_split(v, n, started, from, to, parts, 64, &count) == ERR_OK);
    TAPE_MUST(t, price_at(v, n, started, &start) == ERR_OK);
    if (from == started && count > 0)
        TAPE_MUST(t, parts[0].version >= start);
    size_t was = count > 0 && from > started ? parts[0].version : start;
    for (size_t i = 0; i < count; i++) {
        TAPE_MUST(t, parts[i].from_s == at && parts[i].to_s > at);
        for (int64_t s = parts[i].from_s; s < parts[i].to_s; s++) {
            if (!check_second(t, v, n, was, parts[i].version, s))
                return false;
            was = parts[i].version;
        }
        at = parts[i].to_s;
    }
    TAPE_MUST(t, at == MAX(from, to));
    return true;
}

/* The quote rates whole parts; the bill rates what slices bring, window by window. */
static bool law_quote_is_bill(struct tape *t)
{
    struct price_version v[HISTORY_MAX];
    struct price_part parts[64];
    struct term_window w[64];
    int64_t qty = 1 + (int64_t)tape_below(t, 8), to = tape_range(t, 1, 900);
    int64_t billed = 0, done[HISTORY_MAX] = {0}, quoted, u;
    size_t n = history(t, v), count;

    TAPE_MUST(t, price_split(v, n, 0, 0, to, parts, 64, &count) == ERR_OK);
    for (size_t i = 0; i < count; i++)
        w[i] = (struct term_window){.rate = &v[parts[i].version].rate,
                                    .qty_per_s = qty,
                                    .from_s = parts[i].from_s,
                                    .to_s = parts[i].to_s};
    TAPE_MUST(t, term_cost(w, count, to, &quoted) == ERR_OK);
    for (int64_t at = 0; at < to;) {
        int64_t next = tape_range(t, at + 1, to);
        size_t pieces;
        TAPE_MUST(t, price_split(v, n, 0, at, next, parts, 64, &pieces) == ERR_OK);
        for (size_t i = 0; i < pieces; i++) {
            int64_t *q = &done[parts[i].version];
            int64_t more = (parts[i].to_s - parts[i].from_s) * qty;
            TAPE_MUST(t, rate_delta(&v[parts[i].version].rate, *q, *q + more, &u) == ERR_OK);
            *q += more;
            billed += u;
        }
        at = next;
    }
    TAPE_MUST(t, billed == quoted);
    return true;
}

/* ---- P4: never above the cap, and the stop is maximal ---- */

#define LEASES_MAX 5

struct leased {
    struct rate rate;
    int64_t qty_per_s, qty;       /* rated so far */
    int64_t from_s, paid_until_s; /* of the open term; equal: none */
    int64_t hold_u;
};

struct spend {
    struct budget budget;
    int64_t funds_u; /* cash, before posted and pending */
};

static struct term_window window_of(const struct leased *l)
{
    return (struct term_window){
        .rate = &l->rate, .qty_from = l->qty, .qty_per_s = l->qty_per_s, .to_s = INT64_MAX};
}

/* Ends the open term after some evidenced seconds: what was used is posted, the rest returns. */
static bool settle(struct tape *t, struct spend *s, struct leased *l, int64_t used_s)
{
    struct term_window w = window_of(l);
    int64_t used_u, posted, released;

    TAPE_MUST(t, term_cost(&w, 1, used_s, &used_u) == ERR_OK);
    TAPE_MUST(t, term_settle(l->hold_u, used_u, &posted, &released) == ERR_OK);
    s->budget.pending_u -= l->hold_u;
    s->budget.posted_u += posted;
    l->qty += used_s * l->qty_per_s;
    l->from_s = l->paid_until_s = l->from_s + used_s;
    l->hold_u = 0;
    return true;
}

static bool grant(struct tape *t, struct spend *s, struct leased *l)
{
    struct term_window w = window_of(l);
    int64_t rest = budget_rest(&s->budget), more;
    int64_t cash = s->funds_u - s->budget.posted_u - s->budget.pending_u;
    struct term_ask ask = {.windows = &w,
                           .window_count = 1,
                           .start_s = l->paid_until_s,
                           .length_s = 1 + tape_size(t, 600),
                           .ends_at_s = INT64_MAX,
                           .available_u = cash,
                           .budget_rest_u = &rest,
                           .budget_count = 1};
    struct term term;

    if (tape_chance(t, 20))
        ask.ends_at_s = ask.start_s + tape_range(t, -5, 700);
    TAPE_MUST(t, term_grant(&ask, &term) == ERR_OK);
    TAPE_MUST(t, term.length_s >= 0 && term.length_s <= ask.length_s);
    TAPE_MUST(t, term.length_s == 0 || term.paid_until_s <= ask.ends_at_s);
    TAPE_MUST(t, term.hold_u <= cash && term.hold_u <= rest);
    if (term.limit == TERM_BY_FUNDS || term.limit == TERM_BY_BUDGET) {
        enum err e = term_cost(&w, 1, term.length_s + 1, &more);
        TAPE_MUST(t, e != ERR_OK || more > (term.limit == TERM_BY_FUNDS ? cash : rest));
    }
    l->from_s = ask.start_s;
    l->paid_until_s = term.paid_until_s;
    l->hold_u = term.hold_u;
    s->budget.pending_u += term.hold_u;
    return true;
}

static bool law_never_above_cap(struct tape *t)
{
    struct spend s = {.budget = {.cap_u = tape_size(t, INT64_C(1) << 40)},
                      .funds_u = tape_size(t, INT64_C(1) << 40)};
    struct leased l[LEASES_MAX] = {0};
    size_t n = 1 + tape_below(t, LEASES_MAX);

    for (size_t i = 0; i < n; i++) {
        l[i].rate = oracle_rate(t, INT64_C(1) << 30);
        l[i].qty_per_s = 1 + (int64_t)tape_below(t, 8);
    }
    for (uint64_t events = tape_below(t, 40); events > 0; events--) {
        struct leased *x = &l[tape_below(t, n)];
        if (x->from_s == x->paid_until_s) {
            if (!grant(t, &s, x))
                return false;
        } else {
            /* stopped early, at its end, or cut off: nobody runs past paid_until */
            int64_t used = tape_chance(t, 50) ? x->paid_until_s - x->from_s
                                              : tape_range(t, 0, x->paid_until_s - x->from_s);
            if (!settle(t, &s, x, used))
                return false;
        }
        TAPE_MUST(t, s.budget.posted_u + s.budget.pending_u <= s.budget.cap_u);
        TAPE_MUST(t, s.budget.posted_u + s.budget.pending_u <= s.funds_u);
        TAPE_MUST(t, s.budget.pending_u >= 0);
    }
    return true;
}

static bool law_joint_stop(struct tape *t)
{
    struct budget b = {.cap_u = tape_size(t, INT64_C(1) << 50)};
    struct rate rates[LEASES_MAX];
    struct term_window w[LEASES_MAX];
    size_t n = 1 + tape_below(t, LEASES_MAX);
    int64_t limit = tape_size(t, INT64_C(1) << 30), s, u;

    for (size_t i = 0; i < n; i++) {
        rates[i] = oracle_rate(t, INT64_C(1) << 40);
        w[i] =
            (struct term_window){.rate = &rates[i],
                                 .qty_from = tape_size(t, 100000),
                                 .qty_per_s = 1 + (int64_t)tape_below(t, 8),
                                 .from_s = tape_range(t, 0, 100),
                                 .to_s = tape_chance(t, 20) ? tape_range(t, 0, 1000) : INT64_MAX};
    }
    s = budget_joint_seconds(&b, w, n, limit);
    TAPE_MUST(t, s >= 0 && s <= limit);
    TAPE_MUST(t, s == 0 || (term_cost(w, n, s, &u) == ERR_OK && u <= b.cap_u));
    if (s < limit)
        TAPE_MUST(t, term_cost(w, n, s + 1, &u) != ERR_OK || u > b.cap_u);
    return true;
}

static bool members_fit(const struct budget_member *m, size_t n, int64_t until, int64_t room)
{
    __int128 sum = 0;

    for (size_t i = 0; i < n; i++) {
        int64_t u = 0, run = MIN(until, m[i].ends_at_s) - m[i].start_s;

        if (run > 0 && term_cost(m[i].windows, m[i].window_count, run, &u) != ERR_OK)
            return false;
        sum += MAX(u, m[i].held_u);
    }
    return sum <= room;
}

static bool law_members_end_together(struct tape *t)
{
    struct rate rates[LEASES_MAX];
    struct term_window w[LEASES_MAX];
    struct budget_member m[LEASES_MAX];
    size_t n = 1 + tape_below(t, LEASES_MAX);
    int64_t room = tape_size(t, INT64_C(1) << 50), from = tape_range(t, 0, 1000);
    int64_t until = from + tape_range(t, 0, 2000), last;

    for (size_t i = 0; i < n; i++) {
        rates[i] = oracle_rate(t, INT64_C(1) << 40);
        w[i] = (struct term_window){.rate = &rates[i],
                                    .qty_from = tape_size(t, 100000),
                                    .qty_per_s = 1 + (int64_t)tape_below(t, 8),
                                    .to_s = INT64_MAX};
        m[i] = (struct budget_member){.windows = &w[i],
                                      .window_count = !tape_chance(t, 15),
                                      .start_s = tape_range(t, 0, 1500),
                                      .ends_at_s =
                                          tape_chance(t, 20) ? tape_range(t, 0, 3000) : INT64_MAX,
                                      .held_u = tape_size(t, 1000000)};
    }
    last = budget_joint_until(room, m, n, from, until);
    TAPE_MUST(t, last >= from && last <= until);
    TAPE_MUST(t, last == from || members_fit(m, n, last, room));
    TAPE_MUST(t, last == until || !members_fit(m, n, last + 1, room));
    return true;
}

/* ---- P11: whatever the wall clocks do, the charge is the evidence ---- */

static bool law_clocks(struct tape *t)
{
    int64_t ready = tape_range(t, 0, 5000), at = ready, believed = 0, truth = 0, boots = 0;
    int64_t claimed_total = 0;
    bool honest = !tape_chance(t, 30);

    for (uint64_t beats = tape_below(t, 30); beats > 0; beats--) {
        int64_t real = tape_range(t, 0, 10000);          /* since the last heartbeat */
        int64_t own = real + tape_range(t, -1500, 1500); /* the receipts travel unevenly */
        int64_t claim = honest ? real : real + tape_range(t, 0, 100000);
        int64_t step = tape_chance(t, 20) ? tape_range(t, -3600000, 3600000) : 0;
        int64_t evidence = meter_evidenced_ms(claim, MAX(own, (int64_t)0));

        TAPE_MUST(t, meter_clock_stepped(own + step, own) == (step > 1000 || step < -1000));
        TAPE_MUST(t, evidence >= 0 && evidence <= claim);
        TAPE_MUST(t, evidence <= MAX(own, (int64_t)0) + METER_TOLERANCE_MS);
        TAPE_MUST(t, !honest || evidence == real);
        if (tape_chance(t,
                        5)) { /* the node rebooted: the hole before its new boot has no evidence */
            boots++;
            continue;
        }
        believed += evidence;
        truth += real;
        claimed_total += claim;
        at += evidence;
    }
    int64_t from, to;
    meter_billable(ready, at, &from, &to);
    TAPE_MUST(t, from * 1000 >= ready && (to == from || to * 1000 <= at));
    TAPE_MUST(t, (to - from) * 1000 <= believed && believed <= claimed_total && boots >= 0);
    TAPE_MUST(t, !honest || believed == truth);
    TAPE_MUST(t, believed < 2000 || (to - from) * 1000 > believed - 2000);
    return true;
}

int main(int argc, char **argv)
{
    static const struct tape_test tests[] = {
        {"P1 any slicing, order and repetition of usage posts the one exact total", law_slicing, 0},
        {"T4 rating equals exact fractions over the whole range, affordable is maximal", law_rating,
         0},
        {"a discount multiplies the price and never rounds", law_discount, 0},
        {"P8 every second is bound by the right price version", law_versions, 0},
        {"P8 quote equals bill for the same usage and price history", law_quote_is_bill, 0},
        {"P4 posted and pending never pass funds or budget, short terms are maximal",
         law_never_above_cap, 0},
        {"P4 members of a budget stop at the maximal joint second", law_joint_stop, 0},
        {"P4 whatever they hold, all under a cap end at the maximal second",
         law_members_end_together, 0},
        {"P11 no clock step changes a charge, no node can inflate time", law_clocks, 0},
    };

    return tape_main(tests, sizeof(tests) / sizeof(tests[0]), argc, argv);
}
