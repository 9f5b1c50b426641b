/* fund_buy.c: something bought at once, and what comes back of it. */
#include "app/fund_source.h"

#include "domain/refund.h"

static void split_of(const struct fund_sources *s, const struct fund_parts *parts,
                     struct fund_split *ret_s)
{
    struct fund_split x = {0};

    for (size_t i = 0; i < parts->len; i++) {
        const struct fund_part *p = &parts->at[i];
        int64_t *to = str_starts(p->account, "cash.")     ? &x.cash_u
                      : str_starts(p->account, "credit.") ? &x.credit_u
                      : str_starts(p->account, "gift.")   ? &x.gift_u
                                                          : &x.voucher_u;

        for (size_t k = 0; to == &x.voucher_u && k < s->f.voucher_count; k++)
            if (str_eq(p->account + strlen("voucher."), s->grants[k].id) && s->grants[k].gift)
                to = &x.gift_u;
        *to += p->amount_u;
    }
    *ret_s = x;
}

/* What pays p now; parts: the caller's. */
static enum err choose(const struct books *b, const struct fund_purchase *p,
                       struct fund_parts *parts, struct fund_split *ret_s, struct refusal *why)
{
    struct fund_sources s;
    int64_t unpaid = 0, have;

    if (p->amount_u < 0) {
        (void)refusef(why, ERR_VALIDATION, "field", "amount");
        refusal_set(why, "why", "is below zero");
        return ERR_VALIDATION;
    }
    TRY(fund_sources_load(b, NULL, &s, why));
    TRY(fund_take(b, &s, p->meter, p->sku, b->now_s, INT64_MAX, p->amount_u, parts, &unpaid));
    have = p->amount_u - unpaid;
    if (unpaid > 0)
        return refuse_balance(why, b->ccy, p->amount_u, have);
    split_of(&s, parts, ret_s);
    return ERR_OK;
}

enum err fund_preview(const struct books *b, const struct fund_purchase *p,
                      struct fund_split *ret_s, struct refusal *why)
{
    struct fund_parts parts = {0};
    enum err e = choose(b, p, &parts, ret_s, why);

    vec_fini(&parts);
    return e;
}

static struct ledger_transfer part_transfer(const struct books *b, const struct purchase_row *row,
                                            const char *kind, size_t n, int64_t u)
{
    struct ledger_transfer t = transfer_of(b, row->id.s, kind);
    bool ok = str_printf(t.id, sizeof(t.id), "%s.%s.%zu", kind, row->id.s, n) &&
              str_copy(t.owner, sizeof(t.owner), row->id.s);

    CHECK(ok);
    t.amount = u;
    return t;
}

static enum err replay(const struct books *b, const struct fund_purchase *p,
                       const struct purchase_row *row, struct fund_split *ret_s,
                       struct refusal *why)
{
    int64_t paid = row->voucher_u + row->gift_u + row->cash_u + row->credit_u;

    if (!str_eq(row->project.s, b->project.s) || !str_eq(row->account, p->account) ||
        paid != p->amount_u)
        return refusef(why, ERR_LEDGER_CONFLICT, "name", "%s", p->id.s);
    *ret_s = (struct fund_split){row->voucher_u, row->gift_u, row->cash_u, row->credit_u};
    return ERR_OK;
}

enum err fund_pay(const struct books *b, const struct fund_purchase *p, struct fund_split *ret_s,
                  struct refusal *why)
{
    struct ledger_transfer group[FUND_GRANTS_MAX + 3];
    struct purchase_row row;
    struct fund_parts parts = {0};
    struct fund_split s;
    enum err e = wallet_purchase_get(b->store, p->id, &row);

    if (e == ERR_OK)
        return replay(b, p, &row, ret_s, why);
    if (e != ERR_NOT_FOUND)
        return e;
    row = (struct purchase_row){.id = p->id, .project = b->project, .at = b->now};
    CHECK(str_copy(row.account, sizeof(row.account), p->account));
    TRY(funds_post_free(b, why)); /* what runs beside it was there first */
    e = choose(b, p, &parts, &s, why);
    CHECK(parts.len <= ARRAY_LEN(group));
    for (size_t i = 0; i < parts.len && e == ERR_OK; i++) {
        group[i] = part_transfer(b, &row, "purchase", i, parts.at[i].amount_u);
        memcpy(group[i].dr, parts.at[i].account, sizeof(group[i].dr));
        memcpy(group[i].cr, row.account, sizeof(group[i].cr));
    }
    if (e == ERR_OK)
        e = ledger_post(b, group, parts.len, why);
    vec_fini(&parts);
    TRY(e);
    row.voucher_u = s.voucher_u;
    row.gift_u = s.gift_u;
    row.cash_u = s.cash_u;
    row.credit_u = s.credit_u;
    *ret_s = s;
    return wallet_purchase_save(b->store, &row);
}

static enum err back_of(const struct purchase_row *row, int64_t consumed_u,
                        struct fund_back *ret_back, struct refusal *why)
{
    struct refund_paid paid = {.voucher_u = row->voucher_u, .gift_u = row->gift_u};
    struct refund r;

    TRY(micro_add(row->cash_u, row->credit_u, &paid.cash_u));
    if (consumed_u < 0 || refund_split(paid, consumed_u, &r) != ERR_OK) {
        (void)refusef(why, ERR_VALIDATION, "field", "consumed");
        refusal_set(why, "why", "is not between zero and what was paid");
        return ERR_VALIDATION;
    }
    *ret_back = (struct fund_back){.gift_u = r.gift_u,
                                   .credit_u = MIN(r.cash_u, row->credit_u),
                                   .lapsed_u = r.voucher_forfeit_u};
    ret_back->cash_u = r.cash_u - ret_back->credit_u;
    return ERR_OK;
}

enum err fund_refund(const struct books *b, struct id purchase, int64_t consumed_u,
                     struct fund_back *ret_back, struct refusal *why)
{
    struct ledger_transfer group[4];
    struct purchase_row row;
    struct fund_back back;
    size_t n = 0;
    enum err e = wallet_purchase_get(b->store, purchase, &row);

    if (e == ERR_NOT_FOUND || (e == ERR_OK && !str_eq(row.project.s, b->project.s))) {
        (void)refusef(why, ERR_NOT_FOUND, "what", "purchase");
        refusal_set(why, "name", purchase.s);
        refusal_set(why, "verb", "wallet statement");
        return ERR_NOT_FOUND;
    }
    TRY(e);
    if (row.refunds > 0) {
        (void)refusef(why, ERR_STATE, "name", "%s", purchase.s);
        refusal_set(why, "state", "refunded");
        refusal_set(why, "action", "refund");
        refusal_set(why, "actions", "wallet statement");
        return ERR_STATE;
    }
    TRY(back_of(&row, consumed_u, &back, why));
    const struct {
        const char *kind, *of;
        int64_t u;
    } to[] = {{"gift", b->project.s, back.gift_u},
              {"cash", b->project.s, back.cash_u},
              {"credit", b->project.s, back.credit_u},
              {"breakage", b->ccy.code, back.lapsed_u}};
    for (size_t i = 0; i < ARRAY_LEN(to); i++) {
        if (to[i].u == 0)
            continue;
        group[n] = part_transfer(b, &row, i == 3 ? "lapse" : "back", i, to[i].u);
        memcpy(group[n].dr, row.account, sizeof(group[n].dr));
        account_id(group[n].cr, to[i].kind, to[i].of);
        n++;
    }
    TRY(ledger_post(b, group, n, why));
    row.back_gift_u = back.gift_u;
    row.back_cash_u = back.cash_u;
    row.back_credit_u = back.credit_u;
    row.lapsed_u = back.lapsed_u;
    row.refunds = 1;
    *ret_back = back;
    return wallet_purchase_save(b->store, &row);
}
