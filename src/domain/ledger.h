/* ledger.h: a debit and a credit for every move, two-phase, idempotent, hash-chained (I1–I8, I19 of
 * money.md 1.11).
 *
 * Shape: immutable transfers with one debit and one credit account of one ledger (a currency or a
 * package unit), a client-made id as idempotency key, groups that are all or nothing, and pending
 * transfers (holds) that are resolved at most once by POST (all or less; the rest returns), VOID or
 * EXPIRE. A pending that could break a balance rule is refused at creation, so that the second
 * phase never fails on balance. Credit balance = the platform owes.
 *
 * Works on arrays: the store loads the accounts and transfers that a group touches, calls
 * ledger_apply, and saves what changed. Pure. Amounts are µ (or package units), >= 0. */
#pragma once

#include "domain/money.h"

#define LEDGER_KEY_SIZE 72  /* account ids, transfer ids, groups, references */
#define LEDGER_UNIT_SIZE 24 /* "CNY", "card-seconds" */
#define LEDGER_HASH_SIZE 32
#define LEDGER_GROUP_MAX 256

enum ledger_flag {
    LEDGER_NO_OVERDRAFT = 1, /* dr_posted + dr_pending <= cr_posted + limit */
    LEDGER_CLOSED = 2,       /* takes no new transfer; resolving an old hold stays possible */
};

struct ledger_account {
    char id[LEDGER_KEY_SIZE];
    char ledger[LEDGER_UNIT_SIZE];
    unsigned flags;
    int64_t limit; /* of a no-overdraft account: how far debits may pass credits; 0 for cash */
    int64_t dr_posted, dr_pending, cr_posted, cr_pending;
};

enum ledger_step {
    LEDGER_POSTED, /* one phase */
    LEDGER_PENDING,
    LEDGER_POST,
    LEDGER_VOID,
    LEDGER_EXPIRE,
};

struct ledger_transfer {
    char id[LEDGER_KEY_SIZE];
    char ledger[LEDGER_UNIT_SIZE];
    char dr[LEDGER_KEY_SIZE], cr[LEDGER_KEY_SIZE]; /* empty in a resolution: those of its pending */
    int64_t amount; /* POST: what is taken, <= the pending amount; VOID, EXPIRE: 0 */
    enum ledger_step step;
    char pending[LEDGER_KEY_SIZE]; /* id of the hold a POST, VOID or EXPIRE resolves */
    char kind[24];                 /* charge, hold, topup, refund, reversal, residue, fx, ... */
    char group[LEDGER_KEY_SIZE];
    char owner[LEDGER_KEY_SIZE]; /* a hold's lease; a charge's window; what a refund reverses */
    utime_t effective_ms;
    utime_t expires_ms; /* of a PENDING: when the ledger clock may expire it; > 0 */
    /* set by ledger_apply */
    utime_t booked_ms;
    unsigned char prev_hash[LEDGER_HASH_SIZE], hash[LEDGER_HASH_SIZE];
};

/* What a group needs to see. The store fills existing with every transfer whose id is in the group,
 * every pending that the group resolves, and every resolution of those. */
struct ledger_view {
    struct ledger_account *accounts; /* changed in place on success only */
    size_t account_count;
    const struct ledger_transfer *existing;
    size_t existing_count;
};

/* Applies all n transfers or none. On success balances are new, and each transfer has its booked_ms
 * (booked_ms, booked_ms + 0; the ledger clock is the caller's), empty dr/cr filled in, and its hash
 * chained from head (updated). ret_replayed: the whole group was there already with the same
 * content: nothing changed.
 * ERR_LEDGER_CONFLICT (id taken by other content, or group half there), ERR_LEDGER_OVERDRAFT
 * (parameters account, need, have), ERR_NOT_FOUND (account or pending), ERR_STATE (resolved
 * already), ERR_CURRENCY (two ledgers in one transfer), ERR_VALIDATION, ERR_MONEY_RANGE. */
enum err ledger_apply(struct ledger_view *view, struct ledger_transfer *group, size_t n,
                      utime_t booked_ms, unsigned char head[LEDGER_HASH_SIZE], bool *ret_replayed,
                      struct refusal *why);

/* What a no-overdraft account may still spend: credits + limit − debits − holds. Never negative. */
int64_t ledger_available(const struct ledger_account *a);
/* Credits − debits, posted only. */
int64_t ledger_balance(const struct ledger_account *a);
/* Hash over everything the client said (not booked_ms, not the chain). */
void ledger_content_hash(const struct ledger_transfer *t, unsigned char ret_hash[LEDGER_HASH_SIZE]);
/* hash_n = SHA-256(hash_n−1 ‖ content ‖ booked_ms) */
void ledger_chain_hash(const struct ledger_transfer *t, const unsigned char prev[LEDGER_HASH_SIZE],
                       unsigned char ret_hash[LEDGER_HASH_SIZE]);

/* The same of a row of which only the content hash is known. */
void ledger_chain_step(const unsigned char prev[LEDGER_HASH_SIZE],
                       const unsigned char content[LEDGER_HASH_SIZE], utime_t booked_ms,
                       unsigned char ret_hash[LEDGER_HASH_SIZE]);

/* A whole book, for the proof. */
struct ledger_book {
    const struct ledger_account *accounts; /* sorted by id (strcmp) */
    size_t account_count;
    const struct ledger_transfer *journal; /* in booking order */
    size_t journal_count;
    utime_t now_ms; /* a hold that expired before it and is not resolved is a leak */
    /* scratch of the caller */
    struct ledger_account *fold;                /* account_count */
    const struct ledger_transfer **by_id;       /* journal_count */
    const struct ledger_transfer **resolutions; /* journal_count */
};
/* Proves I1–I6, I8 and I19. ERR_CORRUPT with what ("I3 cash.prj_…") and why at the first violation.
 */
enum err ledger_check(const struct ledger_book *book, struct refusal *why);
