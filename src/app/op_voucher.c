/* op_voucher.c: vouchers: made by the operator as a batch of codes, redeemed by renters.
 *
 * A code has 140 random bits in 7 groups of 4 letters; the store has only its hash (authn.h), so
 * whoever reads the store can redeem nothing. It is shown once, in the answer that made it.
 * Guessing is slowed down at the door like that of login codes. */
#include <sodium.h>

#include "app/authn.h"
#include "app/fund_source.h"
#include "app/op_money.h"
#include "app/outbox.h"
#include "base/msg.h"
#include "base/units.h"

#define CODE_LETTERS 28
#define CODE_SIZE (CODE_LETTERS + CODE_LETTERS / 4)
#define CODES_MAX 1000

static bool code_norm(const char *typed, char ret_code[CODE_SIZE])
{
    unsigned char raw[CODE_LETTERS];

    if (!authn_letters_read(typed, raw, CODE_LETTERS))
        return false;
    authn_letters_write(raw, CODE_LETTERS, ret_code);
    return true;
}

/* What it pays: everything, a kind of thing, or one SKU. */
static const struct {
    const char *name;
    unsigned bits;
} scopes[] = {
    {"all", VOUCHER_SCOPE_ALL},
    {"compute", 1u << METER_GPU | 1u << METER_CPU | 1u << METER_NODE},
    {"storage", 1u << METER_DISK | 1u << METER_DISK_STOPPED | 1u << METER_DISK_DETACHED},
    {"traffic", 1u << METER_EGRESS | 1u << METER_INGRESS},
};

static const char *scope_text(int64_t scope, const char *sku)
{
    for (size_t i = 0; i < ARRAY_LEN(scopes) && !sku[0]; i++)
        if ((int64_t)scopes[i].bits == scope)
            return scopes[i].name;
    return sku;
}

static enum err scope_arg(struct op *op, struct batch_row *b)
{
    const char *text = people_arg(op, "scope", "all");

    for (size_t i = 0; i < ARRAY_LEN(scopes); i++)
        if (str_eq(text, scopes[i].name)) {
            b->scope = scopes[i].bits;
            return ERR_OK;
        }
    struct price_row_list known = {0};
    enum err e = money_price_list_all(op->store, &known);
    bool found = false;
    for (size_t i = 0; i < known.len; i++)
        found = found || str_eq(known.at[i].sku, text);
    vec_fini(&known);
    TRY(people_try(op, e));
    if (!found || !str_copy(b->sku, sizeof(b->sku), text))
        return people_invalid(op, "scope",
                              N_("all, compute, storage, traffic or a SKU with a price"));
    return ERR_OK;
}

static enum err count_arg(struct op *op, const char *name, int64_t max, int64_t *io_n)
{
    CHECK(json_get_i64(op->body, name, *io_n, io_n));
    if (*io_n < 1 || *io_n > max)
        return people_invalid(op, name, N_("a number from 1 to 1000"));
    return ERR_OK;
}

static enum err batch_args(struct op *op, struct batch_row *b, struct currency *ret_ccy)
{
    const char *ccy = people_arg(op, "currency", core_config_of(op->core)->currency);
    const char *expires = people_arg(op, "expires", NULL);
    utime_t until = 0;

    if (currency_get(ccy, ret_ccy) != ERR_OK)
        return people_invalid(op, "currency", N_("a currency such as CNY"));
    memcpy(b->currency, ret_ccy->code, sizeof(b->currency));
    TRY(money_arg(op, "amount", *ret_ccy, &b->amount_u));
    if (b->amount_u == 0)
        return people_invalid(op, "amount", N_("above zero"));
    TRY(scope_arg(op, b));
    TRY(count_arg(op, "count", CODES_MAX, &b->count));
    TRY(count_arg(op, "per_project", CODES_MAX, &b->per_project));
    CHECK(json_get_bool(op->body, "gift", false, &b->gift));
    if (expires && (time_parse(expires, &until) != ERR_OK || until / MS_PER_S <= b->at / MS_PER_S))
        return people_invalid(op, "expires", N_("a time to come"));
    b->expires_s = expires ? until / MS_PER_S : INT64_MAX;
    if (!str_copy(b->note, sizeof(b->note), people_arg(op, "note", "")))
        return people_invalid(op, "note", N_("at most 199 bytes"));
    return ERR_OK;
}

static void write_end(struct json_writer *w, const char *key, int64_t expires_s)
{
    if (expires_s == INT64_MAX)
        json_none(w, key);
    else
        json_time(w, key, expires_s * MS_PER_S);
}

static enum err write_batch(struct op *op, const struct batch_row *b)
{
    struct currency ccy;
    int64_t redeemed;

    TRY(currency_get(b->currency, &ccy));
    TRY(people_try(op, wallet_batch_redeemed(op->store, b->id, (struct id){""}, &redeemed)));
    json_str(&op->out, "id", b->id.s);
    json_money(&op->out, "amount", b->amount_u, ccy);
    json_str(&op->out, "scope", scope_text(b->scope, b->sku));
    json_flag(&op->out, "gift", b->gift);
    write_end(&op->out, "expires", b->expires_s);
    json_i64(&op->out, "count", b->count);
    json_i64(&op->out, "redeemed", redeemed);
    json_i64(&op->out, "per_project", b->per_project);
    json_flag(&op->out, "revoked", b->revoked_at != 0);
    json_str(&op->out, "note", b->note);
    return ERR_OK;
}

enum err op_voucher_create(struct op *op)
{
    struct batch_row b = {
        .id = core_id(op->core, "vba"), .at = op->now, .count = 1, .per_project = 1};
    struct currency ccy;

    TRY(batch_args(op, &b, &ccy));
    (void)str_copy(op->object, sizeof(op->object), b.id.s);
    TRY(people_try(op, wallet_batch_save(op->store, &b)));
    json_object_begin(&op->out, NULL);
    TRY(write_batch(op, &b));
    json_array_begin(&op->out, "codes");
    for (int64_t i = 0; i < b.count; i++) {
        struct code_row row = {.batch = b.id, .at = op->now};
        unsigned char raw[CODE_LETTERS];
        char code[CODE_SIZE];

        core_random(op->core, raw, sizeof(raw));
        authn_letters_write(raw, CODE_LETTERS, code);
        authn_hash(code, row.hash);
        json_str(&op->out, NULL, code);
        explicit_bzero(raw, sizeof(raw));
        explicit_bzero(code, sizeof(code));
        TRY(people_try(op, wallet_code_save(op->store, &row)));
    }
    json_array_finish(&op->out);
    json_object_finish(&op->out);
    return ERR_OK;
}

enum err op_voucher_batch_list(struct op *op)
{
    struct batch_list list = {0};
    struct page page;

    TRY(page_open(op, &page));
    enum err e = people_try(op, wallet_batch_list(op->store, &list));
    for (size_t i = 0; i < list.len && e == ERR_OK; i++) {
        if (!page_takes(&page, list.at[i].id.s))
            continue;
        json_object_begin(&op->out, NULL);
        e = write_batch(op, &list.at[i]);
        json_object_finish(&op->out);
    }
    vec_fini(&list);
    return e == ERR_OK ? page_close(op, &page) : e;
}

/* Codes that nobody redeemed are worth nothing from now on; what was redeemed stays with who has
 * it.
 */
enum err op_voucher_revoke(struct op *op)
{
    struct id id = {""};
    struct batch_row b;
    enum err e = ERR_NOT_FOUND;

    if (str_copy(id.s, sizeof(id.s), op->path_arg[0]))
        e = wallet_batch_get(op->store, id, &b);
    if (e == ERR_NOT_FOUND)
        return people_not_found(op, "batch of vouchers", op->path_arg[0], "admin voucher ls");
    TRY(people_try(op, e));
    (void)str_copy(op->object, sizeof(op->object), b.id.s);
    if (b.revoked_at == 0) {
        b.revoked_at = op->now;
        TRY(people_try(op, wallet_batch_save(op->store, &b)));
    }
    json_object_begin(&op->out, NULL);
    TRY(write_batch(op, &b));
    json_object_finish(&op->out);
    return ERR_OK;
}

static enum err write_grant(struct op *op, const struct books *b, const struct grant_row *g)
{
    static const char *const states[] = {"usable", "over", "ended"};
    struct ledger_account a;
    char id[LEDGER_KEY_SIZE];

    account_id(id, "voucher", g->id.s);
    TRY(people_try(op, account_load(op->store, id, b->ccy, &a)));
    json_object_begin(&op->out, NULL);
    json_str(&op->out, "id", g->id.s);
    json_money(&op->out, "amount", g->amount_u, b->ccy);
    json_money(&op->out, "left", ledger_balance(&a), b->ccy);
    json_money(&op->out, "held", a.dr_pending, b->ccy);
    json_str(&op->out, "scope", scope_text(g->scope, g->sku));
    json_flag(&op->out, "gift", g->gift);
    write_end(&op->out, "expires", g->expires_s);
    json_str(&op->out, "state",
             states[g->expires_s <= b->now_s  ? 2
                    : ledger_balance(&a) == 0 ? 1
                                              : 0]);
    json_time(&op->out, "since", g->at);
    json_object_finish(&op->out);
    return ERR_OK;
}

static enum err code_take(struct op *op, const struct books *b, const char *code,
                          struct batch_row *ret_b)
{
    struct code_row row;
    char hash[HASH_TEXT_SIZE], text[CODE_SIZE];
    int64_t had;
    enum err e = ERR_NOT_FOUND;

    if (code_norm(code, text)) {
        authn_hash(text, hash);
        e = wallet_code_get(op->store, hash, &row);
    }
    if (e == ERR_OK && row.project[0])
        e = ERR_NOT_FOUND;
    if (e == ERR_OK)
        e = wallet_batch_get(op->store, row.batch, ret_b);
    if (e == ERR_NOT_FOUND || (e == ERR_OK && (ret_b->revoked_at || ret_b->expires_s <= b->now_s)))
        return refuse(&op->why, ERR_VOUCHER_INVALID);
    TRY(people_try(op, e));
    if (!str_eq(ret_b->currency, b->ccy.code)) {
        (void)refusef(&op->why, ERR_CURRENCY, "what", "%s", ret_b->id.s);
        refusal_set(&op->why, "got", ret_b->currency);
        refusal_set(&op->why, "want", b->ccy.code);
        return ERR_CURRENCY;
    }
    TRY(people_try(op, wallet_batch_redeemed(op->store, row.batch, b->project, &had)));
    if (had >= ret_b->per_project)
        return refusef(&op->why, ERR_VOUCHER_LIMIT, "max", "%" PRId64, ret_b->per_project);
    CHECK(str_copy(row.project, sizeof(row.project), b->project.s));
    row.at = op->now;
    return people_try(op, wallet_code_save(op->store, &row));
}

enum err op_voucher_redeem(struct op *op)
{
    struct grant_row g = {.id = core_id(op->core, "vch"), .at = op->now};
    struct batch_row batch;
    struct books b;
    char text[MONEY_TEXT_SIZE + 8];

    TRY(books_open(op->store, op->now, op->who.project, &b, &op->why));
    TRY(code_take(op, &b, people_arg(op, "code", ""), &batch));
    g.project = b.project;
    memcpy(g.batch, batch.id.s, sizeof(g.batch));
    g.amount_u = batch.amount_u;
    g.scope = batch.scope;
    memcpy(g.sku, batch.sku, sizeof(g.sku));
    g.gift = batch.gift;
    g.expires_s = batch.expires_s;
    (void)str_copy(op->object, sizeof(op->object), g.id.s);
    TRY(fund_grant(&b, &g, &op->why));
    money_format_ccy(money_of(g.amount_u, b.ccy), text, sizeof(text));
    TRY(event_emit(op, b.project, (struct id){""}, "voucher.redeemed",
                   N_("A voucher of {amount} was redeemed."), "{s:s,s:s}", "amount", text,
                   "voucher", g.id.s));
    return write_grant(op, &b, &g);
}

enum err op_voucher_list(struct op *op)
{
    struct grant_list list = {0};
    struct page page;
    struct books b;

    TRY(books_open(op->store, op->now, op->who.project, &b, &op->why));
    TRY(page_open(op, &page));
    enum err e = people_try(op, wallet_grant_list(op->store, b.project, &list));
    for (size_t i = 0; i < list.len && e == ERR_OK; i++)
        if (page_takes(&page, list.at[i].id.s))
            e = write_grant(op, &b, &list.at[i]);
    vec_fini(&list);
    return e == ERR_OK ? page_close(op, &page) : e;
}
