/* funds.h: the money of the lifecycle: quotes, holds, evidence into charges, settlement.
 *
 * The rules are pure (domain/rate, price, term, ledger, meter, bill); here they meet the store.
 * Every function works on the caller's connection inside his transaction and savepoint: an error
 * leaves half-written rows that store_mark_undo takes away. Amounts are micro-units of the
 * project's currency, times ms of the ledger clock, sizes MiB. Core thread, except what says
 * "reader".
 *
 * How money moves. A lease runs in terms. funds_lease_open and funds_lease_renew hold
 * F(Q+L) - F(Q) of every window of the lease (cards or seat, its disks) from the evidence cursor to
 * the new paid_until, in one group with the post of what evidence proved of the old hold. Evidence
 * (funds_slices_accept) and disk time only rate: they raise the windows' quantity. Money leaves the
 * wallet when a term is renewed or settled; a disk without a running lease is posted from what
 * there is, or from the receivable when nothing is left. rated - posted of a lease is never more
 * than its hold. Who pays, in which order, is fund_source.h.
 *
 * Errors everywhere: ERR_STORE (ask store_refuse), ERR_CORRUPT, ERR_MONEY_RANGE; others as said. */
#pragma once

#include "base/json.h"
#include "base/sign.h"
#include "domain/bill.h"
#include "domain/budget.h"
#include "domain/calendar.h"
#include "domain/meter.h"
#include "domain/price.h"
#include "domain/term.h"
#include "store/store.h"

#define SKU_SIZE 48
#define FUNDS_DISKS_MAX (INSTANCE_DISKS_MAX + 1)
#define FUNDS_COVERS_MAX 24 /* parts of the time of a quote that plans or packages cover */
#define FUNDS_LINES_MAX (2 * FUNDS_DISKS_MAX + 2 + FUNDS_COVERS_MAX)
#define FUNDS_QUOTE_SIZE 1280
#define FUNDS_QUOTE_LIFE_S 900

/* Makes the signing key (meta "quote.key") and the platform's accounts when they are missing. Once
 * at the start of the daemon, inside a transaction. */
enum err funds_init(struct store *s, struct id_maker *ids);
/* A billing zone by the bytes of its TZif file (copied), for projects that name it; again: nothing.
 * UTC and Asia/Shanghai need none. Only before a second thread. ERR_VALIDATION: no such bytes;
 * ERR_TOO_LARGE: more than 64 zones. */
enum err funds_zone_add(const char *name, const void *data, size_t len);
bool funds_zone(const char *name, struct zone *ret_z);
/* One that stays where it is to the end of the process; NULL: not there. */
const struct zone *funds_zone_kept(const char *name);
/* The bytes it was made of (borrowed); NULL for a built-in one. */
const void *funds_zone_bytes(const char *name, size_t *ret_len);

/* ---- what it costs ---------------------------------------------------------------------- */

/* "gpu.<model>" for cards, "exclusive.gpu.<model>" for having the node alone, "cpu.seat" for a shape
 * without cards, "disk", "disk.stopped", "disk.detached", "egress", "ingress". */
void funds_sku(enum meter m, const char *gpu_model, char ret_sku[SKU_SIZE]);

/* Whose money it is, for budgets; empty: the project's only. */
struct funds_spender {
    struct id user;
    char labels[TEXT_SIZE]; /* "k=v,k=v" */
};

/* What somebody wants to rent. shape.gpu_count 0: a CPU-only seat (also for start --no-gpu). */
struct funds_ask {
    struct id project;
    struct id instance; /* whose plans cover it; empty: none yet */
    struct funds_spender spender;
    struct shape shape;                   /* system_disk_mib included */
    int64_t data_mib[INSTANCE_DISKS_MAX]; /* data disks that will be attached */
    int32_t data_count;
    bool spot;            /* cards at the spot price */
    int64_t bid_u;        /* per card-hour; of a new spot rental */
    int64_t for_s;        /* whole time asked for; 0: no end (lines are for one hour then) */
    int64_t egress_bytes; /* expected, for the estimate */
};

struct funds_line {
    enum meter meter;
    char sku[SKU_SIZE];
    struct id price;
    struct rate rate;
    int64_t qty_per_s;    /* 0 for traffic */
    int64_t from_s, to_s; /* seconds from now; to_s INT64_MAX: to the end */
    int64_t qty;          /* base units over the whole time */
    int64_t amount_u;
};

struct funds_quote {
    struct id project;
    struct currency ccy;
    struct funds_line lines[FUNDS_LINES_MAX];
    size_t line_count;
    int64_t total_u; /* of the lines; prices include tax, so net = total, tax = 0 */
    /* per hour, resource packages left aside: */
    int64_t hour_u;         /* everything that runs */
    int64_t hour_unit_u;    /* one card (or core) */
    int64_t hour_stopped_u; /* what goes on costing when stopped */
    int64_t bid_u;          /* at the spot price: what a card-hour costs at most; else 0 */
    int64_t hold_u;         /* one term */
    int64_t need_u;         /* start gate */
    int64_t available_u;
};

/* The one rating of anything that is asked for (I24): offers, quotes, the gate, show. Reader.
 * ERR_PRICE_UNKNOWN (sku). */
enum err funds_quote(struct store *s, utime_t now, int64_t term_s, const struct funds_ask *ask,
                     struct funds_quote *ret_q, struct refusal *why);
/* Price per base unit of a SKU for a new start now, in the book of a currency. Reader.
 * ERR_PRICE_UNKNOWN (sku). */
enum err funds_price(struct store *s, utime_t now, struct currency ccy, const char *sku,
                     struct id *ret_id, struct rate *ret_r, struct refusal *why);
/* The same as µ per hour (cards, cores), per GiB and day (disks), per GiB (traffic). */
enum err funds_price_unit(struct store *s, utime_t now, struct currency ccy, const char *sku,
                          int64_t *ret_u, struct refusal *why);

struct sign_key;
/* The platform's own key: of quotes, and of the seal under a bill file. Reader. ERR_CORRUPT. */
enum err funds_platform_key(struct store *s, struct sign_key *ret_k);
/* Signs what was asked and its price versions: "q1.<id>.<until>.…". Reader. */
enum err funds_quote_sign(struct store *s, utime_t now, const struct funds_ask *ask,
                          const struct funds_quote *q, struct id quote_id,
                          char ret_text[FUNDS_QUOTE_SIZE], utime_t *ret_until);
/* Holds a signed text against what would be charged now (q: funds_quote of the same ask).
 * ERR_QUOTE_INVALID (not ours, other project, other ask), ERR_QUOTE_EXPIRED, ERR_OFFER_CHANGED
 * (old, new: per hour). */
enum err funds_quote_check(struct store *s, utime_t now, const char *text,
                           const struct funds_ask *ask, const struct funds_quote *q,
                           struct refusal *why);
/* The price per hour that the caller saw (of one card or of all that runs) is still it, to the last
 * unit. ERR_OFFER_CHANGED (old, new). */
enum err funds_price_check(const struct funds_quote *q, int64_t seen_u, struct refusal *why);
/* Start gate (product.md 4): the first hour of compute, or the whole time if shorter, and 24 h of
 * its disks must be available; every budget that covers it must have something left. ERR_BALANCE
 * (short, need, have), ERR_BUDGET (name, left, need). */
enum err funds_gate(struct store *s, utime_t now, const struct funds_ask *ask,
                    const struct funds_quote *q, struct refusal *why); /* q: funds_quote of ask */

/* ---- leases ------------------------------------------------------------------------------ */

struct funds_disk {
    struct id id;
    enum disk_kind kind;
    int64_t size_mib;
};
struct funds_lease {
    struct id project, instance, lease, node;
    struct funds_spender spender;
    int64_t epoch;
    struct shape shape; /* as it runs: gpu_count 0 without cards */
    bool spot;          /* its instance has a bid (spot_bid_set) */
    utime_t ends_at;    /* UTIME_NEVER: no end */
    bool simulated;
    struct funds_disk disks[FUNDS_DISKS_MAX]; /* system disk and data disks */
    int32_t disk_count;
};
struct funds_term {
    utime_t paid_until; /* whole second */
    int64_t hold_u;
    enum term_limit limit; /* what made it shorter than a whole term */
    bool extended;         /* paid_until is later than it was */
};

/* Opens the account of a lease and holds its first term. Prices bind from now on: the version valid
 * at this second; later cuts at once, rises after their notice. Data disks are charged as detached
 * until the lease is ready, the system disk is free until then. ERR_BALANCE, ERR_BUDGET: not one
 * second can be paid. */
enum err funds_lease_open(struct store *s, utime_t now, int64_t term_s, const struct funds_lease *l,
                          struct funds_term *ret_term, struct refusal *why);
/* Posts what is proven, holds up to now + term_s (shorter by ends_at, funds, budgets; then
 * extended is false when nothing was gained and paid_until stands as it was). Call it when the rest
 * of the term gets short, and after a top-up or funds_lease_end_set. */
enum err funds_lease_renew(struct store *s, utime_t now, int64_t term_s, struct id lease,
                           struct funds_term *ret_term, struct refusal *why);
enum err funds_lease_end_set(struct store *s, struct id lease, utime_t ends_at);
/* The guest is reachable: card seconds count from here, its disks at the running price. */
enum err funds_lease_ready(struct store *s, struct id lease, utime_t ready_ms);
/* The stop was accepted (or the end was reached): card seconds count up to here, never later; what
 * was rated already stays, so tell it before the slices of the same message. May be called again
 * with an earlier time. */
enum err funds_lease_stop(struct store *s, struct id lease, utime_t stop_ms);
/* The lease is over (the node said so, or it is given up): takes evidence that is still parked,
 * posts all, releases the hold. Disks go on at the stopped price (system; only when it ever ran)
 * and the detached price (data) from end_ms on; by_platform (node lost, stopped by an operator):
 * for nothing, until it starts again or they are detached. Once; again is harmless. Never ran:
 * costs exactly 0. */
enum err funds_lease_settle(struct store *s, utime_t now, struct id lease, utime_t end_ms,
                            bool by_platform, struct refusal *why);

/* One slice of docs/node-protocol.md. t0/t1 are boot-clock ms. */
struct funds_slice {
    int64_t seq;
    struct id lease;
    int64_t epoch;
    bool running; /* state "running" */
    utime_t t0_ms, t1_ms;
    int64_t cpu_us, memory_bytes, rx_bytes, tx_bytes, disk_used_mib, gpu_util_pct, gpu_memory_mib;
    bool gpus_ok;      /* false: the cards promised were not all there: evidence, but not charged */
    int64_t heard_ms;  /* its boot's clock as far as it is believed (meter_evidenced_ms); 0: no more
                          than `now` bounds it. No part of the payload. */
    int64_t key;       /* of store/rows_proof.h: whose signature sig is; 0: unsigned */
    bool said_gpus_ok; /* with key: gpus_ok as the node signed it */
    unsigned char sig[SIGN_SIZE];
};
struct funds_accepted {
    int64_t ack_seq; /* all slices of this boot up to it are safe */
    int64_t taken, duplicates, parked;
    int64_t conflicts; /* same key, other payload: kept out; an event was written */
};
/* Takes the slices of one boot in a request: stored once by (node, boot, seq), worked on in the
 * order of seq; the first of a request is the oldest that the node still has, so what is missing
 * below it will never come, and a slice after any other hole waits. Billed are the whole seconds
 * between ready and min(stop, settled end, paid_until), inside evidence and outside gaps
 * (store_gap_list), each once. now: arrival; a slice never proves anything later. Tell
 * funds_lease_ready and funds_lease_stop of the same message first. */
enum err funds_slices_accept(struct store *s, utime_t now, struct id node, const char *boot,
                             utime_t anchor_ms, const struct funds_slice *slices, size_t n,
                             struct funds_accepted *ret_a, struct refusal *why);
/* How far the evidence of a lease reaches (0: none yet). */
enum err funds_evidence_until(struct store *s, struct id lease, utime_t *ret_ms);

/* ---- disks ------------------------------------------------------------------------------- */

/* The disk is there (a data disk: charged as detached from ready_ms; a system disk: free until its
 * lease is ready). */
enum err funds_disk_open(struct store *s, struct id project, struct id instance, struct id node,
                         const struct funds_disk *d, utime_t ready_ms);
/* Its size is another from now on. While a lease pays for it, the rest of the term is held anew:
 * ERR_BALANCE, ERR_BUDGET when it cannot be. */
enum err funds_disk_grow(struct store *s, utime_t now, struct id disk, int64_t size_mib,
                         struct refusal *why);
/* The delete was asked for (or its instance failed before it ever ran): free from here on. */
enum err funds_disk_close(struct store *s, utime_t now, struct id disk);
/* Its instance is released: from here on a data disk is detached, whatever its lease still does. */
enum err funds_disk_detach(struct store *s, utime_t now, struct id disk);
/* Time of a node's disks up to to_ms. heard: the node proved to be there all that time: charged;
 * else (it came back after a silence) that time is free. Call at each sync. */
enum err funds_node_time(struct store *s, utime_t now, struct id node, utime_t to_ms, bool heard);

/* ---- what is there ----------------------------------------------------------------------- */

struct funds_wallet {
    struct currency ccy;
    int64_t cash_u, gift_u, voucher_u; /* gift_u without an end; voucher_u: all that has an end */
    int64_t held_u;                    /* of all sources */
    int64_t available_u;               /* what can pay for cards now, credit line included */
    int64_t owed_u;                    /* arrears of storage */
    int64_t credit_limit_u, credit_used_u;
    int64_t burn_hour_u;
    int64_t lasts_s;       /* INT64_MAX: nothing burns */
    int64_t package_s;     /* card-seconds left in resource packages, not reserved by what runs */
    int64_t package_end_s; /* when the first of them lapses; 0: none */
};
enum err funds_wallet(struct store *s, utime_t now, struct id project, struct funds_wallet *ret_w,
                      struct refusal *why); /* reader */
/* What the leases of an instance (cards, seat, its system disk) or a disk cost so far. Reader. */
enum err funds_spent(struct store *s, struct id instance, int64_t *ret_u);
enum err funds_spent_disk(struct store *s, struct id disk, int64_t *ret_u);
/* What an instance costs per hour now, running and stopped, with its own price binding. Reader. */
enum err funds_rates(struct store *s, utime_t now, struct id project, struct id instance,
                     const struct shape *shape, const struct funds_disk *disks, size_t disk_count,
                     int64_t *ret_run_hour_u, int64_t *ret_stopped_hour_u, struct refusal *why);
/* A disk's price per hour now, 0 when it is free now. Reader. */
enum err funds_disk_rate(struct store *s, utime_t now, struct id disk, int64_t *ret_hour_u);
/* Since when a project owes storage (0: it does not). Its data is kept FUNDS_ARREARS_KEEP_S. */
#define FUNDS_ARREARS_KEEP_S (15 * 86400)
enum err funds_arrears_since(struct store *s, struct id project, utime_t *ret_ms);
/* Moves money into a wallet: pays what is owed first. id: "tra_…", the idempotency key. */
enum err funds_topup(struct store *s, utime_t now, struct id project, struct id id,
                     int64_t amount_u, const char *note, struct refusal *why);

/* ---- upkeep ------------------------------------------------------------------------------ */

/* Once a minute: posts disk time (hourly), settles leases whose hold expired (paid_until + 24 h,
 * nobody spoke for them), writes the events wallet.low at 24, 6 and 1 h of remaining run time, and
 * ledger.head once a day. After a start of the daemon, let the nodes report first. */
enum err funds_tick(struct store *s, utime_t now, struct refusal *why);

/* {"amount":"1.234567","currency":"CNY"} */
void json_money(struct json_writer *w, const char *key, int64_t u, struct currency ccy);
