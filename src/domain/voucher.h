/* voucher.h: what pays a charge, in the published order (money.md 1.5).
 *
 * reserved coverage → resource packages (quantity) → vouchers → gift balance → cash → credit line.
 * Vouchers: only where their scope covers the meter; earlier expiry first, then the larger
 * deductible amount for this charge, then the smaller rest, then the id. Expiry is exclusive and
 * cuts a slice. Vouchers never pay arrears and are never refunded; what is left at expiry is
 * breakage. The live view and the bill use the one function fund_charge. Pure. */
#pragma once

#include "domain/rate.h"
#include "domain/types.h"

#define VOUCHER_ID_SIZE 32
#define VOUCHER_SCOPE_ALL 0u

struct voucher {
    char id[VOUCHER_ID_SIZE];
    int64_t left_u;
    int64_t expires_s; /* exclusive; INT64_MAX: never */
    unsigned scope;    /* bit per enum meter; VOUCHER_SCOPE_ALL */
    bool gift;         /* a gift with an end: pays after every voucher, before the gift balance */
    bool barred;       /* it pays one SKU, and another one is charged: the caller's to say */
};
bool voucher_covers(const struct voucher *v, enum meter meter);
/* The eligible vouchers for a charge at at_s, as indices in the order they pay. ret_order: n. */
void voucher_rank(const struct voucher *v, size_t n, enum meter meter, int64_t at_s,
                  int64_t charge_u, size_t *ret_order, size_t *ret_count);

/* Everything that can pay, as of one moment. */
struct funds {
    struct voucher *vouchers; /* borrowed; left_u is lowered */
    size_t voucher_count;
    int64_t gift_u, cash_u;
    int64_t credit_u; /* rest of the credit line */
};
struct funding {
    int64_t gift_u, cash_u, credit_u;
    int64_t unpaid_u; /* 0 whenever the term was held before it ran */
};
/* Takes charge_u out of the funds. ret_used[i] is what voucher i paid (voucher_count entries),
 * order is scratch of as many. ERR_VALIDATION for a negative charge. */
enum err fund_charge(struct funds *f, enum meter meter, int64_t at_s, int64_t charge_u,
                     size_t *order, int64_t *ret_used, struct funding *ret_funding);
/* Sum that could pay a charge of this meter now. */
enum err fund_available(const struct funds *f, enum meter meter, int64_t at_s, int64_t *ret_u);
/* Vouchers that expired by now_s: their rest lapses. Returns the breakage. */
enum err voucher_expire(struct voucher *v, size_t n, int64_t now_s, int64_t *ret_breakage_u);
/* The first expiry in (from_s, to_s) of a voucher that still has money; to_s when there is none. */
int64_t voucher_cut(const struct voucher *v, size_t n, int64_t from_s, int64_t to_s);

/* A package pays quantity: what it covers and what is left to rate. */
void package_take(int64_t left_qty, int64_t qty, int64_t *ret_covered, int64_t *ret_rest);

/* A top-up pays the debt first; vouchers do not come into it. */
void fund_topup(int64_t debt_u, int64_t topup_u, int64_t *ret_debt_left_u, int64_t *ret_cash_u);
/* Disk cost that became debt from zero_s (the balance ran out) to now_s: nothing accrues after the
 * retention term, when the data goes. */
#define ARREARS_RETENTION_S (15 * 86400)
int64_t arrears_wipe_s(int64_t zero_s, int64_t retention_s);
enum err arrears_owed(const struct rate *rate, int64_t qty_per_s, int64_t zero_s, int64_t now_s,
                      int64_t retention_s, int64_t *ret_u);
