/* fund_source.c: the sources of a project as of a moment, and taking from them. */
#include "app/fund_source.h"

static enum err load_grants(const struct books *b, struct fund_sources *x)
{
    struct grant_list open = {0};
    enum err e = wallet_grant_open(b->store, b->project, &open);

    if (open.len > FUND_GRANTS_MAX)
        e = ERR_CORRUPT; /* redeeming refuses the next one */
    for (size_t i = 0; i < open.len && e == ERR_OK; i++) {
        const struct grant_row *g = &open.at[i];
        struct voucher *v = &x->grants[i];
        struct ledger_account a;
        char id[LEDGER_KEY_SIZE];

        account_id(id, "voucher", g->id.s);
        e = account_load(b->store, id, b->ccy, &a);
        *v = (struct voucher){.left_u = ledger_available(&a),
                              .expires_s = g->expires_s,
                              .scope = (unsigned)g->scope,
                              .gift = g->gift};
        CHECK(str_copy(v->id, sizeof(v->id), g->id.s));
        memcpy(x->skus[i], g->sku, sizeof(x->skus[i]));
        x->held_u += a.dr_pending;
    }
    x->f.vouchers = x->grants;
    x->f.voucher_count = open.len;
    vec_fini(&open);
    return e;
}

static enum err load_own(const struct books *b, struct fund_sources *x)
{
    struct ledger_account a;
    char id[LEDGER_KEY_SIZE];

    account_id(id, "gift", b->project.s);
    TRY(account_load(b->store, id, b->ccy, &a));
    x->gift_u = ledger_balance(&a);
    x->f.gift_u = ledger_available(&a);
    x->held_u += a.dr_pending;
    account_id(id, "cash", b->project.s);
    TRY(account_load(b->store, id, b->ccy, &a));
    x->cash_u = ledger_balance(&a);
    x->f.cash_u = ledger_available(&a);
    x->held_u += a.dr_pending;
    account_id(id, "credit", b->project.s);
    TRY(account_load(b->store, id, b->ccy, &a));
    TRY(wallet_credit_get(b->store, b->project, &x->credit_limit_u));
    x->credit_used_u = -ledger_balance(&a);
    /* a limit that was lowered below what is used lets nothing new through */
    x->f.credit_u = MAX(x->credit_limit_u - x->credit_used_u - a.dr_pending, (int64_t)0);
    x->held_u += a.dr_pending;
    account_id(id, "receivable", b->project.s);
    TRY(account_load(b->store, id, b->ccy, &a));
    x->owed_u = -ledger_balance(&a);
    return ERR_OK;
}

/* Where the amount of an account is kept; NULL: a grant that is closed meanwhile. */
static int64_t *rest_of(struct fund_sources *x, const char *account)
{
    if (str_starts(account, "cash."))
        return &x->f.cash_u;
    if (str_starts(account, "gift."))
        return &x->f.gift_u;
    if (str_starts(account, "credit."))
        return &x->f.credit_u;
    for (size_t i = 0; i < x->f.voucher_count; i++)
        if (str_eq(account + strlen("voucher."), x->grants[i].id))
            return &x->grants[i].left_u;
    return NULL;
}

static enum err add_hold(const struct books *b, const struct fund_lease *lease,
                         struct fund_sources *x)
{
    struct part_list parts = {0};
    enum err e = wallet_part_list(b->store, lease->lease, &parts);

    for (size_t i = 0; i < parts.len && e == ERR_OK; i++) {
        int64_t *rest = rest_of(x, parts.at[i].account);

        if (rest)
            e = micro_add(*rest, parts.at[i].amount_u - parts.at[i].used_u, rest);
    }
    vec_fini(&parts);
    return e;
}

enum err fund_sources_posted(const struct books *b, struct fund_sources *ret_s)
{
    memset(ret_s, 0, sizeof(*ret_s));
    TRY(load_grants(b, ret_s));
    return load_own(b, ret_s);
}

enum err fund_sources_load(const struct books *b, const struct fund_lease *lease,
                           struct fund_sources *ret_s, struct refusal *why)
{
    struct window_list open = {0};
    struct fund_parts parts = {0};

    (void)why;
    TRY(fund_sources_posted(b, ret_s));
    enum err e = money_window_open_free(b->store, b->project, &open);
    struct funds before = ret_s->f;
    for (size_t i = 0; i < open.len && e == ERR_OK; i++) {
        const struct window_row *w = &open.at[i];
        int64_t unpaid_u = 0;

        e = fund_take(b, ret_s, w->meter, w->sku, b->now_s, INT64_MAX, w->rated_u - w->posted_u,
                      &parts, &unpaid_u);
        if (e == ERR_OK)
            e = micro_add(ret_s->unposted_owed_u, unpaid_u, &ret_s->unposted_owed_u);
    }
    ret_s->unposted_gift_u = before.gift_u - ret_s->f.gift_u;
    ret_s->unposted_cash_u = before.cash_u - ret_s->f.cash_u;
    ret_s->unposted_credit_u = before.credit_u - ret_s->f.credit_u;
    vec_fini(&open);
    vec_fini(&parts);
    return e == ERR_OK && lease ? add_hold(b, lease, ret_s) : e;
}

/* A grant for one SKU pays nothing else. */
static void bar(struct fund_sources *s, const char *sku)
{
    for (size_t i = 0; i < s->f.voucher_count; i++)
        s->grants[i].barred = s->skus[i][0] && (!sku || !str_eq(s->skus[i], sku));
}

enum err fund_have(struct fund_sources *s, enum meter meter, const char *sku, int64_t at_s,
                   int64_t *ret_u)
{
    s->f.vouchers = s->grants;
    bar(s, sku);
    return fund_available(&s->f, meter, at_s, ret_u);
}

static void add_part(const struct books *b, struct fund_parts *io_parts, const char *kind,
                     const char *of, enum meter meter, int64_t until_s, int64_t u)
{
    struct fund_part *p;

    (void)b;
    if (u == 0)
        return;
    p = vec_push(io_parts);
    account_id(p->account, kind, of);
    p->meter = meter;
    p->until_s = until_s;
    p->amount_u = u;
}

enum err fund_take(const struct books *b, struct fund_sources *s, enum meter meter, const char *sku,
                   int64_t at_s, int64_t until_s, int64_t amount_u, struct fund_parts *io_parts,
                   int64_t *ret_unpaid_u)
{
    size_t order[FUND_GRANTS_MAX], count;
    int64_t used[FUND_GRANTS_MAX];
    struct funding f;

    s->f.vouchers = s->grants;
    bar(s, sku);
    voucher_rank(s->grants, s->f.voucher_count, meter, at_s, amount_u, order, &count);
    size_t scratch[FUND_GRANTS_MAX];
    TRY(fund_charge(&s->f, meter, at_s, amount_u, scratch, used, &f));
    for (size_t i = 0; i < count; i++)
        add_part(b, io_parts, "voucher", s->grants[order[i]].id, meter, until_s, used[order[i]]);
    add_part(b, io_parts, "gift", b->project.s, meter, until_s, f.gift_u);
    add_part(b, io_parts, "cash", b->project.s, meter, until_s, f.cash_u);
    add_part(b, io_parts, "credit", b->project.s, meter, until_s, f.credit_u);
    *ret_unpaid_u = f.unpaid_u;
    return ERR_OK;
}

enum err fund_cut(const struct books *b, struct id lease, int64_t from_s, int64_t to_s,
                  int64_t *ret_cut_s)
{
    struct part_list parts = {0};
    struct grant_list grants = {0};
    enum err e = lease.s[0] ? wallet_part_list(b->store, lease, &parts)
                            : wallet_grant_open(b->store, b->project, &grants);
    int64_t cut = to_s;

    for (size_t i = 0; i < parts.len; i++)
        if (parts.at[i].until_s > from_s)
            cut = MIN(cut, parts.at[i].until_s);
    for (size_t i = 0; i < grants.len; i++)
        if (grants.at[i].expires_s > from_s)
            cut = MIN(cut, grants.at[i].expires_s);
    vec_fini(&parts);
    vec_fini(&grants);
    *ret_cut_s = cut;
    return e;
}
