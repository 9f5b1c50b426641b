/* rows_money.h: rows of the books (migration 0002). Used by app/funds*.c and the money operations
 * only. As in store.h: ERR_OK, ERR_NOT_FOUND for a missing single row, ERR_STORE; lists are the
 * caller's (vec_fini). Nothing here decides anything. */
#pragma once

#include "domain/ledger.h"
#include "domain/rate.h"
#include "store/store.h"

#define MONEY_SKU_SIZE 48
#define MONEY_FREE METER_NONE /* meter of a disk that costs nothing now */

#define MONEY_TIERS_SIZE RATE_TIERS_TEXT_SIZE
struct price_row {
    struct id id;
    char sku[MONEY_SKU_SIZE];
    char currency[4];
    int64_t p, d;
    char unit[16];
    int64_t unit_u;               /* the price as it was set, per unit */
    char tiers[MONEY_TIERS_SIZE]; /* what follows the first tier: rate_tiers_read */
    int64_t cap_u, cap_qty;       /* 0: no cap */
    int32_t policy;               /* of a plan: enum plan_policy */
    int32_t fee_pct;              /* of its discount, when it is clawed back */
    int64_t valid_from_s, announced_s, notice_s;
};
struct price_row_list {
    struct price_row *at;
    size_t len, cap;
};
enum err money_price_add(struct store *s, const struct price_row *p);
enum err money_price_get(struct store *s, struct id id, struct price_row *ret_p);
/* One price book is a currency. */
enum err money_price_list(struct store *s, const char *currency, const char *sku,
                          struct price_row_list *ret_l);
/* By sku and currency, then in the order in which they take effect. */
enum err money_price_list_all(struct store *s, struct price_row_list *ret_l);

enum proposal_state { PROPOSAL_OPEN, PROPOSAL_APPROVED, PROPOSAL_WITHDRAWN };
struct proposal_row {
    struct price_row price; /* as it was asked for; its id is the proposal's */
    struct id by_user, decided_by;
    enum proposal_state state;
};
struct proposal_list {
    struct proposal_row *at;
    size_t len, cap;
};
enum err money_proposal_save(struct store *s, const struct proposal_row *p);
enum err money_proposal_get(struct store *s, struct id id, struct proposal_row *ret_p);
enum err money_proposal_open(struct store *s, struct proposal_list *ret_l);

enum err money_account_get(struct store *s, const char *id, struct ledger_account *ret_a);
enum err money_account_save(struct store *s, const struct ledger_account *a);
struct account_list {
    struct ledger_account *at;
    size_t len, cap;
};
enum err money_account_list(struct store *s, struct account_list *ret_l); /* by id */

struct transfer_list {
    struct ledger_transfer *at;
    size_t len, cap;
};
/* Appends the transfer with that id, and the resolution of a hold with that id, when there. */
enum err money_transfer_find(struct store *s, const char *id, struct transfer_list *io_l);
enum err money_transfer_resolution(struct store *s, const char *pending,
                                   struct transfer_list *io_l);
enum err money_transfer_add(struct store *s, const struct ledger_transfer *t);
/* Hash of the last row; zeros when there is none. */
enum err money_transfer_head(struct store *s, unsigned char ret_hash[LEDGER_HASH_SIZE]);
enum err money_transfer_list(struct store *s, struct transfer_list *ret_l); /* whole journal */
/* The rows with numbers in [from, to), which are without a hole. */
enum err money_transfer_page(struct store *s, int64_t from, int64_t to,
                             struct transfer_list *ret_l);
/* Remembers the head as that of its day. */
enum err money_day_save(struct store *s, int64_t day, const unsigned char hash[LEDGER_HASH_SIZE]);
/* The last day before `before` that has a head; ERR_NOT_FOUND: none. hash in hex. */
enum err money_day_last(struct store *s, int64_t before, int64_t *ret_day,
                        char ret_hash[2 * LEDGER_HASH_SIZE + 1]);

struct topup_row {
    char id[LEDGER_KEY_SIZE];
    struct id project;
    int64_t amount;
    char note[TEXT_SIZE];
    utime_t at;
};
enum err money_topup_save(struct store *s, const struct topup_row *t);

struct window_row {
    char id[LEDGER_KEY_SIZE];
    struct id project, instance, subject;
    struct id lease; /* whose hold pays for it; empty: none */
    enum meter meter;
    char sku[MONEY_SKU_SIZE];
    struct id price;
    int64_t year;
    int32_t month;
    int64_t qty, rated_u, posted_u, posts;
    int64_t from_s, to_s; /* first and last second rated */
    bool simulated;
    int64_t reversed_u; /* of posted_u, given back: 0 or all */
};
struct window_list {
    struct window_row *at;
    size_t len, cap;
};
enum err money_window_get(struct store *s, const char *id, struct window_row *ret_w);
enum err money_window_save(struct store *s, const struct window_row *w);
/* Only what rating changes of a window that is stored: lease, qty, rated_u, from_s, to_s. */
enum err money_window_rated(struct store *s, const struct window_row *w);
/* rated but not posted: of a lease, of a project outside any lease */
enum err money_window_open_lease(struct store *s, struct id lease, struct window_list *ret_l);
enum err money_window_open_free(struct store *s, struct id project, struct window_list *ret_l);
enum err money_window_month(struct store *s, struct id project, int64_t year, int month,
                            struct window_list *ret_l);
/* of one subject and meter */
enum err money_window_subject(struct store *s, struct id subject, enum meter meter,
                              struct window_list *ret_l);
enum err money_window_all(struct store *s, struct window_list *ret_l);
/* Σ rated − reversed */
enum err money_window_sum_instance(struct store *s, struct id instance, int64_t *ret_u);
enum err money_window_sum_subject(struct store *s, struct id subject, int64_t *ret_u);
/* Σ rated − posted: of windows that a hold pays for, and of the others. */
enum err money_window_unposted(struct store *s, struct id project, int64_t *ret_held_u,
                               int64_t *ret_free_u);
/* Projects that have something rated but not posted outside leases. */
struct id_list {
    struct id *at;
    size_t len, cap;
};
enum err money_window_open_projects(struct store *s, struct id_list *ret_l);

struct slice_row {
    struct id node;
    char boot[40];
    int64_t seq;
    char lease[ID_SIZE];
    int64_t epoch;
    bool running, gpus_ok, done;
    utime_t t0_ms, t1_ms, received_ms;
    int64_t cpu_us, memory_bytes, rx_bytes, tx_bytes, disk_used_mib, gpu_util_pct, gpu_memory_mib;
    unsigned char payload[32];
};
struct slice_list {
    struct slice_row *at;
    size_t len, cap;
};
enum err money_slice_get(struct store *s, struct id node, const char *boot, int64_t seq,
                         struct slice_row *ret_r);
/* ret_new false: the key is taken, nothing was written. */
enum err money_slice_add(struct store *s, const struct slice_row *r, bool *ret_new);
enum err money_slice_done(struct store *s, struct id node, const char *boot, int64_t seq);
/* The stored slice of a boot with the lowest seq above after. */
enum err money_slice_next(struct store *s, struct id node, const char *boot, int64_t after,
                          struct slice_row *ret_r);
/* How many slices of a boot wait for their turn. */
enum err money_slice_waiting(struct store *s, struct id node, const char *boot, int64_t *ret_n);
enum err money_slice_parked(struct store *s, struct id lease, struct slice_list *ret_l);
/* Slices that touch [from, to) and begin at begin_ms or later, in the order of their begin. */
enum err money_slice_list(struct store *s, struct id lease, utime_t from_ms, utime_t to_ms,
                          utime_t begin_ms, int64_t limit, struct slice_list *ret_l);
enum err money_boot_get(struct store *s, struct id node, const char *boot, int64_t *ret_ack);
enum err money_boot_set(struct store *s, struct id node, const char *boot, int64_t ack);

struct span_row {
    int64_t id; /* set by the store */
    char rating_window[LEDGER_KEY_SIZE];
    int64_t from_s, to_s, qty_per_s, qty;
    struct id node;
    char boot[40];
    int64_t seq;
};
struct span_list {
    struct span_row *at;
    size_t len, cap;
};
enum err money_span_add(struct store *s, const struct span_row *r);
/* Makes the last span of a disk's window longer, when it touches and has the same size. */
enum err money_span_extend(struct store *s, const struct span_row *r, bool *ret_done);
/* Spans of a project's disks with ids from from_id on, by id. */
enum err money_span_disks(struct store *s, struct id project, int64_t from_id, int64_t limit,
                          struct span_list *ret_l);
enum err money_span_slice(struct store *s, const struct slice_row *r, struct span_list *ret_l);

struct fund_lease {
    struct id lease, project, instance, node;
    int64_t epoch;
    enum meter meter;
    char sku[MONEY_SKU_SIZE];
    int64_t qty_per_s;
    bool simulated, settled;
    int64_t started_s;   /* prices bind from here */
    int64_t held_from_s; /* the hold covers compute from here or from billed_s, the later */
    utime_t ready_ms;    /* 0: not yet */
    utime_t stop_ms;     /* UTIME_NEVER */
    utime_t ends_at;     /* UTIME_NEVER */
    int64_t paid_until_s;
    utime_t cursor_ms; /* evidence is decided up to here; 0: none */
    int64_t billed_s;  /* whole seconds are decided up to here */
    char hold[LEDGER_KEY_SIZE];
    int64_t hold_u, terms;
    bool exclusive; /* it pays for having its node alone */
};
struct fund_lease_list {
    struct fund_lease *at;
    size_t len, cap;
};
enum err money_lease_get(struct store *s, struct id lease, struct fund_lease *ret_l);
enum err money_lease_save(struct store *s, const struct fund_lease *l);
/* Only what evidence changes of a lease that is stored: cursor_ms, billed_s. */
enum err money_lease_moved(struct store *s, const struct fund_lease *l);
enum err money_lease_open(struct store *s, struct id project, struct fund_lease_list *ret_l);
enum err money_lease_open_all(struct store *s, struct fund_lease_list *ret_l);
enum err money_lease_of_instance(struct store *s, struct id instance, struct fund_lease *ret_l);
enum err money_lease_all(struct store *s, struct fund_lease_list *ret_l);

struct fund_disk {
    struct id disk, project, instance, node;
    struct id lease; /* whose hold pays for it; empty: none */
    enum disk_kind kind;
    int64_t size_mib;
    int32_t meter;     /* enum meter, or MONEY_FREE */
    int32_t before;    /* meter before the lease, for one that never ran */
    int64_t started_s; /* of this meter: prices bind from here */
    int64_t cursor_s;  /* decided up to here */
    bool simulated, closed;
};
struct fund_disk_list {
    struct fund_disk *at;
    size_t len, cap;
};
enum err money_disk_get(struct store *s, struct id disk, struct fund_disk *ret_d);
enum err money_disk_save(struct store *s, const struct fund_disk *d);
enum err money_disk_of_node(struct store *s, struct id node, struct fund_disk_list *ret_l);
enum err money_disk_of_lease(struct store *s, struct id lease, struct fund_disk_list *ret_l);
/* The last second at which something that is not over began to bind prices; 0: nothing did. */
enum err money_started_last(struct store *s, int64_t *ret_s);
/* Disks that this meter runs for in projects of a currency, and how many projects that are. */
enum err money_disk_count(struct store *s, const char *currency, enum meter m, int64_t *ret_n,
                          int64_t *ret_projects);
enum err money_disk_of_project(struct store *s, struct id project, struct fund_disk_list *ret_l);

struct fund_project {
    struct id project;
    utime_t arrears_since; /* 0: nothing is owed */
    utime_t posted_at;     /* when time of its disks was posted last */
    int32_t alert;         /* hours of the last low-balance event; 0: none */
};
enum err money_project_get(struct store *s, struct id project, struct fund_project *ret_p);
enum err money_project_save(struct store *s, const struct fund_project *p);

enum budget_period { BUDGET_TOTAL, BUDGET_MONTH, BUDGET_DAY };
enum budget_scope { BUDGET_PROJECT, BUDGET_USER, BUDGET_LABEL };
struct budget_row {
    struct id project;
    char name[NAME_SIZE];
    int64_t cap_u;
    enum budget_period period;
    enum budget_scope scope;
    char scope_of[TEXT_SIZE]; /* empty, the user's id, or "k=v" */
    bool notify;              /* it warns and stops nothing */
    int32_t alert_pct;        /* what was told since alert_from_s; 0: nothing */
    int64_t alert_s, alert_from_s;
};
struct budget_list {
    struct budget_row *at;
    size_t len, cap;
};
enum err money_budget_save(struct store *s, const struct budget_row *b);
enum err money_budget_get(struct store *s, struct id project, const char *name,
                          struct budget_row *ret_b);
enum err money_budget_remove(struct store *s, struct id project, const char *name);
enum err money_budget_list(struct store *s, struct id project, struct budget_list *ret_l);
/* Those that cover a lease. */
enum err money_budget_of_lease(struct store *s, struct id project, struct id lease,
                               struct budget_list *ret_l);

/* Whose money a lease spends: one for each. */
enum err money_scope_save(struct store *s, struct id lease, enum budget_scope scope,
                          const char *of);
/* What a lease was rated on the day that begins at from_s, for all whose money it is. */
enum err money_scope_day_add(struct store *s, struct id project, struct id lease, int64_t from_s,
                             int64_t u);
/* Σ rated of the days that begin in [from_s, to_s) under the budget's scope. */
enum err money_scope_day_sum(struct store *s, const struct budget_row *b, int64_t from_s,
                             int64_t to_s, int64_t *ret_u);
/* What holds of leases under it may still take: held - (rated - posted). */
enum err money_scope_pending(struct store *s, const struct budget_row *b, int64_t *ret_u);
/* Leases under it that are not settled. */
enum err money_lease_of_scope(struct store *s, const struct budget_row *b, struct id_list *ret_l);

/* Laws of money.md 1.11 that a query can break: the first row it finds, or "" (ret_text). */
struct money_law {
    const char *id;  /* "I7" */
    const char *sql; /* gives one text column: what breaks it */
};
extern const struct money_law money_laws[];
extern const size_t money_law_count;
enum err money_law_check(struct store *s, const struct money_law *law, char *ret_text, size_t size);
