/* fund_source.h: who pays: vouchers → gifts → gift balance → cash → credit line (money.md 1.5).
 *
 * The order itself is domain/voucher's fund_charge; here it meets the accounts:
 *
 *   voucher.<grant>      money with an end, for some meters or one SKU (vouchers; gifts with an
 * end) gift.<project>       gift balance without an end cash.<project>       topped up
 *   credit.<project>     credit line of a postpaid account: no-overdraft with the operator's limit
 *   receivable.<project> storage that nothing above could pay (arrears; not chosen by anybody)
 *
 * A term's hold is one pending transfer per source, meter and stretch between the ends of vouchers
 * (hold_part); what evidence rates is put on the part that its second belongs to, so a voucher
 * never pays a second at or after its end. Core thread, inside the caller's savepoint; errors as in
 * funds.h. Amounts µ of the project's currency. */
#pragma once

#include "app/funds_int.h"
#include "domain/voucher.h"
#include "store/rows_wallet.h"

#define FUND_GRANTS_MAX 32     /* open grants of one project; the next one is refused */
#define FUND_PARTS_MAX 96      /* of one hold; a term with more ends earlier */
#define FUND_LAPSE_AFTER_S 180 /* what is left of a grant lapses so long after its end */

/* ---- buying something at once ------------------------------------------------------------ */

struct fund_purchase {
    struct id id;        /* the idempotency key: same id and content again gives the same answer */
    const char *account; /* what is credited, such as "deferred.<reservation>"; borrowed */
    enum meter meter;    /* what it is for: vouchers pay only inside their scope */
    const char *sku;     /* borrowed */
    int64_t amount_u;    /* >= 0 */
};
struct fund_split {
    int64_t voucher_u, gift_u, cash_u, credit_u; /* gift_u: gifts with and without an end */
};
/* Pays now, from the sources in order, in one group of transfers (kind "purchase", owner: the id);
 * what no source has is not bought. ERR_BALANCE, ERR_LEDGER_CONFLICT (id taken by other content),
 * ERR_VALIDATION (negative). */
enum err fund_pay(const struct books *b, const struct fund_purchase *p, struct fund_split *ret_s,
                  struct refusal *why);
/* What fund_pay would take; changes nothing. Reader. */
enum err fund_preview(const struct books *b, const struct fund_purchase *p,
                      struct fund_split *ret_s, struct refusal *why);

struct fund_back {
    int64_t gift_u, cash_u, credit_u; /* given back; credit_u lowers what is owed */
    int64_t lapsed_u;                 /* voucher money that was not used: to breakage */
};
/* Ends a purchase of which consumed_u was used (computed by the caller: pro rata or clawback): the
 * rest leaves p's account for gift and cash in the ratio they paid, what the credit line paid
 * first repaying it; the unused part of vouchers lapses (domain/refund.h; I25). A purchase is
 * refunded once: again with any consumed_u is ERR_STATE. The account must still have the rest.
 * ERR_NOT_FOUND, ERR_VALIDATION (consumed_u outside [0, paid]), ERR_LEDGER_OVERDRAFT. */
enum err fund_refund(const struct books *b, struct id purchase, int64_t consumed_u,
                     struct fund_back *ret_back, struct refusal *why);

/* ---- what there is ----------------------------------------------------------------------- */

struct fund_sources {
    struct voucher grants[FUND_GRANTS_MAX];
    char skus[FUND_GRANTS_MAX][MONEY_SKU_SIZE];
    struct funds f;         /* what each can still give; vouchers: grants */
    int64_t gift_u, cash_u; /* posted balances */
    int64_t held_u;         /* by holds, all sources */
    int64_t credit_limit_u, credit_used_u;
    int64_t owed_u; /* arrears */
    /* gone to what is rated outside leases and not posted */
    int64_t unposted_gift_u, unposted_cash_u, unposted_credit_u;
    int64_t unposted_owed_u; /* likewise, what nothing could pay */
};
/* As of now, after everything that is rated outside leases and not posted yet; lease (may be NULL):
 * its hold is counted as free, but for what is used of it. Reader. */
enum err fund_sources_load(const struct books *b, const struct fund_lease *lease,
                           struct fund_sources *ret_s, struct refusal *why);
/* As of now, without looking at what is rated and not posted. Reader. */
enum err fund_sources_posted(const struct books *b, struct fund_sources *ret_s);
/* What could pay for that now. A SKU that is "" or NULL is one that no voucher names. */
enum err fund_have(struct fund_sources *s, enum meter meter, const char *sku, int64_t at_s,
                   int64_t *ret_u);

/* One amount a source gives. */
struct fund_part {
    char account[LEDGER_KEY_SIZE];
    enum meter meter;
    int64_t until_s; /* exclusive; INT64_MAX */
    int64_t amount_u;
};
struct fund_parts {
    struct fund_part *at; /* owned */
    size_t len, cap;
};
/* Takes amount_u for one meter at a second out of s and appends who gives it (until_s as given).
 * ret_unpaid_u: what nothing could give. */
enum err fund_take(const struct books *b, struct fund_sources *s, enum meter meter, const char *sku,
                   int64_t at_s, int64_t until_s, int64_t amount_u, struct fund_parts *io_parts,
                   int64_t *ret_unpaid_u);

/* ---- holds ------------------------------------------------------------------------------- */

/* Funds the first length_s seconds of a plan: per stretch between ends of grants and per meter the
 * most it can cost, whatever evidence leaves out. Lowers *io_length_s to what the sources pay for
 * within limit_u (INT64_MAX: none) and FUND_PARTS_MAX parts. ret_parts: the caller's. s is not
 * changed. */
enum err fund_plan(const struct books *b, const struct fund_sources *s,
                   const struct term_plan *plan, int64_t limit_u, int64_t *io_length_s,
                   struct fund_parts *ret_parts);
/* Puts u, rated for seconds of a lease up to to_s that no end of a part cuts, on the parts of its
 * hold. ERR_INTERNAL: more than was held. */
enum err fund_use(const struct books *b, struct id lease, enum meter meter, int64_t to_s, int64_t u,
                  struct refusal *why);
/* Where [from_s, to_s) must be cut: the first end, inside it, of a part of the lease's hold or (no
 * lease) of a grant with money; to_s when there is none. */
enum err fund_cut(const struct books *b, struct id lease, int64_t from_s, int64_t to_s,
                  int64_t *ret_cut_s);

/* ---- what is given ----------------------------------------------------------------------- */

/* Opens a grant: promo.expense → voucher.<id>. ERR_VALIDATION (amount, an end that is over),
 * ERR_TOO_LARGE (FUND_GRANTS_MAX open), ERR_LEDGER_CONFLICT (the id is taken). */
enum err fund_grant(const struct books *b, const struct grant_row *g, struct refusal *why);
/* Gift balance: promo.expense → gift.<project>. id: the idempotency key. */
enum err fund_gift(const struct books *b, struct id id, int64_t amount_u, struct refusal *why);
/* How far the project may use the credit line, from now on; lower than what is used already: it
 * stays used and nothing new is lent. */
enum err fund_credit_set(const struct books *b, int64_t limit_u, struct refusal *why);
/* What is left of grants whose end is FUND_LAPSE_AFTER_S ago goes to breakage.<currency>, with an
 * event voucher.lapsed; grants that are used up are closed. Part of funds_tick. */
enum err fund_lapse(struct store *s, utime_t now, struct refusal *why);
