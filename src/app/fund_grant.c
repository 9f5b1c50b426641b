/* fund_grant.c: money that is given: into the wallet, and out of it when its end came. */
#include "app/fund_source.h"

#include "base/msg.h"

enum err fund_grant(const struct books *b, const struct grant_row *g, struct refusal *why)
{
    struct grant_list open = {0};
    struct ledger_transfer t;

    if (g->amount_u <= 0 || g->expires_s <= b->now_s) {
        (void)refusef(why, ERR_VALIDATION, "field", "%s", g->amount_u <= 0 ? "amount" : "expires");
        refusal_set(why, "why", g->amount_u <= 0 ? "must be above zero" : "is not in the future");
        return ERR_VALIDATION;
    }
    enum err e = wallet_grant_open(b->store, b->project, &open);
    size_t n = open.len;
    vec_fini(&open);
    TRY(e);
    if (n >= FUND_GRANTS_MAX) {
        (void)refusef(why, ERR_TOO_LARGE, "what", "the list of vouchers in use");
        refusal_setf(why, "max", "%d", FUND_GRANTS_MAX);
        return ERR_TOO_LARGE;
    }
    TRY(funds_post_free(b, why)); /* what was rated before is not its to pay */
    t = transfer_of(b, g->id.s, "grant");
    account_id(t.id, "grant", g->id.s);
    account_id(t.dr, "promo.expense", b->ccy.code);
    account_id(t.cr, "voucher", g->id.s);
    CHECK(str_copy(t.owner, sizeof(t.owner), g->id.s));
    t.amount = g->amount_u;
    TRY(ledger_post(b, &t, 1, why));
    return wallet_grant_save(b->store, g);
}

enum err fund_gift(const struct books *b, struct id id, int64_t amount_u, struct refusal *why)
{
    struct ledger_transfer t = transfer_of(b, id.s, "gift");

    if (amount_u <= 0) {
        (void)refusef(why, ERR_VALIDATION, "field", "amount");
        refusal_set(why, "why", "must be above zero");
        return ERR_VALIDATION;
    }
    TRY(funds_post_free(b, why));
    account_id(t.id, "gift", id.s);
    account_id(t.dr, "promo.expense", b->ccy.code);
    account_id(t.cr, "gift", b->project.s);
    t.amount = amount_u;
    return ledger_post(b, &t, 1, why);
}

enum err fund_credit_set(const struct books *b, int64_t limit_u, struct refusal *why)
{
    struct ledger_account a;
    char id[LEDGER_KEY_SIZE];
    int64_t in_use;

    if (limit_u < 0) {
        (void)refusef(why, ERR_VALIDATION, "field", "limit");
        refusal_set(why, "why", "is below zero");
        return ERR_VALIDATION;
    }
    account_id(id, "credit", b->project.s);
    TRY(account_load(b->store, id, b->ccy, &a));
    TRY(micro_sub(a.dr_pending, ledger_balance(&a), &in_use));
    a.limit = MAX(limit_u, in_use); /* what is used stays used; nothing new comes */
    TRY(money_account_save(b->store, &a));
    return wallet_credit_set(b->store, b->project, limit_u, b->now);
}

static enum err note_lapse(const struct books *b, const struct grant_row *g, int64_t u)
{
    struct event e = {.at = b->now, .project = b->project};
    char text[MONEY_TEXT_SIZE + 8];

    money_format_ccy(money_of(u, b->ccy), text, sizeof(text));
    bool ok =
        str_copy(e.kind, sizeof(e.kind), "voucher.lapsed") &&
        str_copy(e.text, sizeof(e.text), N_("{left} of {voucher} was not used by its end.")) &&
        str_printf(e.data, sizeof(e.data), "{\"left\":\"%s\",\"voucher\":\"%s\"}", text, g->id.s);
    CHECK(ok);
    return store_event_add(b->store, &e);
}

static enum err lapse_one(struct store *s, utime_t now, struct grant_row *g, struct refusal *why)
{
    struct ledger_account a;
    struct books b;
    char id[LEDGER_KEY_SIZE];

    TRY(books_open(s, now, g->project, &b, why));
    TRY(funds_post_ended(&b, g->expires_s, why));
    account_id(id, "voucher", g->id.s);
    TRY(account_load(s, id, b.ccy, &a));
    int64_t left = ledger_available(&a);
    if (left > 0) {
        struct ledger_transfer t = transfer_of(&b, id, "lapse");
        bool ok = str_printf(t.id, sizeof(t.id), "lapse.%s.%" PRId64, g->id.s, a.dr_posted) &&
                  str_copy(t.owner, sizeof(t.owner), g->id.s);

        CHECK(ok);
        memcpy(t.dr, id, sizeof(t.dr));
        account_id(t.cr, "breakage", b.ccy.code);
        t.amount = left;
        t.effective_ms = g->expires_s * MS_PER_S;
        TRY(ledger_post(&b, &t, 1, why));
        TRY(note_lapse(&b, g, left));
    }
    if (a.dr_pending > 0) /* a hold may still bring something back */
        return ERR_OK;
    g->done_at = now;
    return wallet_grant_save(s, g);
}

enum err fund_lapse(struct store *s, utime_t now, struct refusal *why)
{
    struct grant_list over = {0};
    enum err e = wallet_grant_over(s, now / MS_PER_S - FUND_LAPSE_AFTER_S, &over);

    for (size_t i = 0; i < over.len && e == ERR_OK; i++)
        e = lapse_one(s, now, &over.at[i], why);
    vec_fini(&over);
    return e;
}
