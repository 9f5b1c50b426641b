/* Laws of prices and plans that need no books: what a rate says in text is the rate; a preview's
 * first second is the first at which a lease pays the price; leaving a plan takes between nothing
 * and all of what was paid. */
#include <stdio.h>

#include "domain/plan.h"
#include "domain/price.h"
#include "tape.h"

static bool draw_rate(struct tape *t, struct rate *ret_r)
{
    struct rate r = {.d = tape_range(t, 1, 100000), .tier_count = 1};

    r.tiers[0] = (struct rate_tier){0, INT64_MAX, tape_size(t, INT64_C(1) << 40)};
    for (int64_t n = tape_range(t, 0, RATE_TIERS_MAX - 1); n > 0; n--) {
        struct rate_tier *last = &r.tiers[r.tier_count - 1];
        int64_t from = last->from + 1 + tape_size(t, INT64_C(1) << 40);

        last->to = from;
        r.tiers[r.tier_count++] =
            (struct rate_tier){from, INT64_MAX, tape_size(t, INT64_C(1) << 40)};
    }
    if (tape_chance(t, 30)) {
        r.cap_qty = 1 + tape_size(t, INT64_C(1) << 40);
        r.cap_u = tape_size(t, INT64_C(1) << 40);
    }
    *ret_r = r;
    return rate_check(&r) == ERR_OK;
}

static bool law_text(struct tape *t)
{
    char tiers[RATE_TIERS_TEXT_SIZE], code[RATE_CODE_SIZE], again[RATE_CODE_SIZE];
    struct rate r, back;

    TAPE_MUST(t, draw_rate(t, &r));
    rate_tiers_write(&r, tiers, sizeof(tiers));
    TAPE_MUST(t, rate_of_tiers((struct price_rate){r.tiers[0].p, r.d}, tiers, r.cap_u, r.cap_qty,
                               &back) == ERR_OK);
    TAPE_MUST(t, back.tier_count == r.tier_count && back.d == r.d && back.cap_u == r.cap_u &&
                     back.cap_qty == r.cap_qty);
    for (size_t i = 0; i < r.tier_count; i++)
        TAPE_MUST(t, back.tiers[i].from == r.tiers[i].from && back.tiers[i].to == r.tiers[i].to &&
                         back.tiers[i].p == r.tiers[i].p);
    rate_code(&r, code, sizeof(code));
    rate_code(&back, again, sizeof(again));
    TAPE_MUST(t, strcmp(code, again) == 0);
    TAPE_MUST(t, (strchr(code, ',') != NULL) == (r.cap_qty > 0));
    return true;
}

/* Anything else than such a text is refused, or reads as a rate that is good. */
static bool law_bad_text(struct tape *t)
{
    static const char letters[] = "0123456789:;-x";
    char text[24];
    size_t n = (size_t)tape_range(t, 0, (int64_t)sizeof(text) - 1);
    struct rate r;

    for (size_t i = 0; i < n; i++)
        text[i] = letters[tape_below(t, sizeof(letters) - 1)];
    text[n] = '\0';
    enum err e = rate_of_tiers((struct price_rate){1, 1}, text, 0, 0, &r);
    TAPE_MUST(t, e == ERR_OK || e == ERR_VALIDATION);
    TAPE_MUST(t, e != ERR_OK || rate_check(&r) == ERR_OK);
    TAPE_MUST(t, e != ERR_OK || (n > 0) == (r.tier_count > 1));
    return true;
}

#define VERSIONS 6
/* Second by second: the version that price_split gives is never one that price_binds_at says binds
 * later, and the first second of each is the one that it says. */
static bool law_binds(struct tape *t)
{
    struct price_version v[VERSIONS];
    struct price_part parts[2 * VERSIONS + 2];
    int64_t seen[VERSIONS], at = 0, started;
    size_t n = (size_t)tape_range(t, 1, VERSIONS), count = 0;

    for (size_t i = 0; i < n; i++) {
        v[i] = (struct price_version){.valid_from_s = at,
                                      .announced_s = at - tape_range(t, 0, 20),
                                      .notice_s = tape_range(t, 0, 40)};
        TAPE_MUST(t, rate_flat((struct price_rate){tape_range(t, 0, 5), 1}, &v[i].rate) == ERR_OK);
        seen[i] = INT64_MAX;
        at += tape_range(t, 0, 15);
    }
    started = tape_range(t, 0, 100);
    TAPE_MUST(t,
              price_split(v, n, started, started, 1000, parts, ARRAY_LEN(parts), &count) == ERR_OK);
    for (size_t i = 0; i < count; i++)
        seen[parts[i].version] = MIN(seen[parts[i].version], parts[i].from_s);
    for (size_t i = 0; i < n; i++) {
        int64_t says = price_binds_at(v, n, started, i);

        /* a version that binds for no whole second has no part */
        if (seen[i] != INT64_MAX && seen[i] != says)
            return tape_fail(t, "version %zu binds from %" PRId64 ", said %" PRId64, i, seen[i],
                             says);
        TAPE_MUST(t, says != INT64_MAX || seen[i] == INT64_MAX);
    }
    return true;
}

static bool law_consumed(struct tape *t)
{
    struct rate hourly;
    struct plan_term p = {.start_s = tape_range(t, 0, 1000),
                          .cards = tape_range(t, 1, 16),
                          .paid_u = tape_size(t, INT64_C(1) << 50),
                          .policy = tape_chance(t, 50) ? PLAN_CLAWBACK : PLAN_PRO_RATA,
                          .fee_pct = (int32_t)tape_range(t, 0, 100)};
    int64_t length = tape_range(t, 1, 40000000), at, u, part, demand = 0, fee = 0;

    p.end_s = p.start_s + length;
    TAPE_MUST(t, rate_flat((struct price_rate){tape_size(t, 100000000), 3600}, &hourly) == ERR_OK);
    p.ondemand = tape_chance(t, 80) ? &hourly : NULL;
    at = tape_chance(t, 20) ? p.end_s + tape_range(t, 0, 1)
                            : p.start_s + tape_range(t, -10, length + 10);
    TAPE_MUST(t, plan_consumed(&p, at, &u) == ERR_OK);
    TAPE_MUST(t, u >= 0 && u <= p.paid_u);
    if (at <= p.start_s)
        TAPE_MUST(t, u == 0);
    if (at >= p.end_s)
        TAPE_MUST(t, u == p.paid_u);
    if (at <= p.start_s || at >= p.end_s)
        return true;
    part = (int64_t)((__int128)p.paid_u * (at - p.start_s) / length);
    if (p.policy == PLAN_PRO_RATA || !p.ondemand) {
        TAPE_MUST(t, u == part);
        return true;
    }
    demand = (int64_t)((__int128)hourly.tiers[0].p * (at - p.start_s) * p.cards / 3600);
    fee = (int64_t)((__int128)MAX(demand - part, (int64_t)0) * p.fee_pct / 100);
    TAPE_MUST(t, u == MIN(p.paid_u, demand + fee));
    return true;
}

/* Whatever part of a run is looked at, in whatever windows it was rated: a second is held for more
 * than it can cost. Windows may have kept almost a micro-unit each before. */
static bool law_spot_hold(struct tape *t)
{
    struct price_rate bid = {tape_size(t, 100000000), tape_range(t, 1, 4000)};
    int64_t cards = tape_range(t, 1, 16), seconds = tape_range(t, 1, 40), sum = 0, most;

    TAPE_MUST(t, spot_second_max(bid, cards, &most) == ERR_OK);
    for (int64_t s = 0; s < seconds; s++) {
        struct price_rate tick = {tape_range(t, 0, bid.p), bid.d};
        struct rate r;
        int64_t before = tape_range(t, 0, 1000000), u;

        TAPE_MUST(t, rate_flat(tick, &r) == ERR_OK);
        TAPE_MUST(t, rate_delta(&r, before, before + cards, &u) == ERR_OK);
        sum += u;
    }
    if (sum > most * seconds)
        return tape_fail(t, "%" PRId64 " s cost %" PRId64 ", held %" PRId64, seconds, sum,
                         most * seconds);
    TAPE_MUST(t, (__int128)most * bid.d <= (__int128)bid.p * cards + 2 * (__int128)bid.d);
    return true;
}

int main(int argc, char **argv)
{
    static const struct tape_test tests[] = {
        {"a rate's text is the rate", law_text, 0},
        {"other text is refused", law_bad_text, 0},
        {"a preview's second is the first that is paid", law_binds, 0},
        {"leaving a plan takes what its rule says", law_consumed, 0},
        {"a second at the spot price is held for its most", law_spot_hold, 0},
    };

    return tape_main(tests, ARRAY_LEN(tests), argc, argv);
}
