/* rows_plan.h: plans that were bought. As in rows_money.h: nothing here decides anything. */
#pragma once

#include "store/rows_money.h"

enum plan_state { PLAN_RUNS, PLAN_OVER, PLAN_RELEASED };

/* One term. */
struct plan_row {
    struct id id, project, instance;
    char sku[MONEY_SKU_SIZE]; /* what it covers: "gpu.<model>" */
    int64_t cards;
    int32_t unit;     /* enum calendar_unit */
    int64_t anchor_s; /* where its first term began */
    int64_t term;     /* 1.. */
    int64_t start_s, end_s;
    struct id price;    /* what a covered second costs: 0 */
    struct id offer;    /* the version it was bought at */
    struct id ondemand; /* of a clawback; empty: none */
    int32_t policy;     /* enum plan_policy */
    int32_t fee_pct;
    int64_t paid_u;       /* what deferred.<id> got */
    int64_t recognised_u; /* of paid_u, in the books as revenue */
    int64_t refunded_u;   /* of paid_u, given back or (vouchers) lapsed */
    bool renew;           /* the next term is bought before this one ends */
    bool renew_told;      /* that it could not be */
    bool go_on;           /* at its end the instance goes on on-demand */
    enum plan_state state;
    int64_t over_s;   /* the second at which it stopped to cover; 0: it still does */
    struct id before; /* the term that this one renews; empty: the first */
    utime_t bought_at;
};
struct plan_list {
    struct plan_row *at;
    size_t len, cap;
};
/* An instance at the spot price. */
struct spot_row {
    struct id instance;
    struct id bid; /* the price version that no second costs more than */
    int64_t free_within_s;
};
/* The platform's decision to take a spot run back. */
struct reclaim_row {
    struct id lease, instance;
    utime_t decided_ms, ends_ms;
    int64_t free_within_s; /* of its first second: then its cards cost nothing */
    char reason[TEXT_SIZE];
};
enum err reclaim_row_save(struct store *s, const struct reclaim_row *r);
enum err reclaim_row_get(struct store *s, struct id lease, struct reclaim_row *ret_r);
/* A spot lease that began before until_s, is not settled and may still turn out to be free; "":
 * none. Once it ran longer than its free time it costs what it costs. */
enum err spot_row_unsettled(struct store *s, struct id project, int64_t until_s,
                            char ret_lease[LEDGER_KEY_SIZE]);
enum err spot_row_save(struct store *s, const struct spot_row *r);
enum err spot_row_get(struct store *s, struct id instance, struct spot_row *ret_r);

enum err plan_row_save(struct store *s, const struct plan_row *p);
enum err plan_row_get(struct store *s, struct id id, struct plan_row *ret_p);
/* Name, id or start of an id; refused with what and verb. */
enum err plan_row_lookup(struct store *s, struct id project, const char *text,
                         struct plan_row *ret_p, struct refusal *why);
/* Terms that cover seconds of [from_s, to_s), by their start. */
enum err plan_row_cover(struct store *s, struct id instance, int64_t from_s, int64_t to_s,
                        struct plan_list *ret_l);
/* All of a project by id after one, at most limit. */
enum err plan_row_list(struct store *s, struct id project, struct id after, int64_t limit,
                       struct plan_list *ret_l);
enum err plan_row_running(struct store *s, struct plan_list *ret_l);
/* Terms that earned something in [from_s, to_s). */
enum err plan_row_between(struct store *s, int64_t from_s, int64_t to_s, struct plan_list *ret_l);
