#include "app/channel.h"

#include <sodium.h>

#include "app/fund_source.h"
#include "app/fx.h"
#include "app/op_money.h"
#include "app/outbox.h"
#include "base/msg.h"

#define SIGNATURE_MAX crypto_sign_BYTES

static bool one_line(const char *s)
{
    return s[0] != '\0' && strpbrk(s, "\r\n") == NULL;
}

enum err channel_notice_text(const struct channel_notice *n, char ret_text[CHANNEL_TEXT_SIZE])
{
    const char *fields[] = {n->channel, n->order, n->amount, n->currency, n->reference, n->nonce};

    for (size_t i = 0; i < ARRAY_LEN(fields); i++)
        if (!one_line(fields[i]))
            return ERR_VALIDATION;
    return str_printf(ret_text, CHANNEL_TEXT_SIZE,
                      "suanli-notice-1\n%s\n%s\n%s\n%s\n%s\n%" PRId64 "\n%s", n->channel, n->order,
                      n->amount, n->currency, n->reference, n->time_s, n->nonce)
               ? ERR_OK
               : ERR_VALIDATION;
}

static bool from_hex(const char *hex, unsigned char *ret, size_t size)
{
    size_t n = 0;
    const char *end = NULL;

    return sodium_hex2bin(ret, size, hex, strlen(hex), NULL, &n, &end) == 0 && n == size &&
           *end == '\0';
}

static bool signed_by(const struct channel_row *c, const char *text, const char *signature)
{
    unsigned char key[32], sign[SIGNATURE_MAX];
    const unsigned char *m = (const unsigned char *)text;

    if (!from_hex(c->key, key, sizeof(key)))
        return false;
    switch (c->kind) {
    case CHANNEL_HMAC:
        return from_hex(signature, sign, crypto_auth_hmacsha256_BYTES) &&
               crypto_auth_hmacsha256_verify(sign, m, strlen(text), key) == 0;
    case CHANNEL_ED25519:
        return from_hex(signature, sign, crypto_sign_BYTES) &&
               crypto_sign_verify_detached(sign, m, strlen(text), key) == 0;
    case CHANNEL_TEST:
        break;
    }
    return false;
}

enum err channel_notice_check(const struct channel_row *c, const char *text, const char *signature,
                              struct refusal *why)
{
    return !c->off && signed_by(c, text, signature) ? ERR_OK : refuse(why, ERR_NOTICE_SIGNATURE);
}

enum err channel_find(struct op *op, const char *name, struct channel_row *ret_c)
{
    bool test = str_eq(name, CHANNEL_TEST_NAME);
    enum err e = wallet_channel_get(op->store, name, ret_c);

    if (test && !core_config_of(op->core)->test_channel)
        e = ERR_NOT_FOUND;
    else if (test && e == ERR_NOT_FOUND) {
        *ret_c =
            (struct channel_row){.name = CHANNEL_TEST_NAME, .kind = CHANNEL_TEST, .at = op->now};
        e = wallet_channel_save(op->store, ret_c);
    }
    if (e == ERR_NOT_FOUND || (e == ERR_OK && ret_c->off))
        return people_not_found(op, "payment channel", name, "wallet orders");
    return people_try(op, e);
}

static enum err mismatch(struct op *op, const char *got, const char *want)
{
    (void)refusef(&op->why, ERR_NOTICE_MISMATCH, "what", "reference");
    refusal_set(&op->why, "got", got);
    refusal_set(&op->why, "want", want);
    return ERR_NOTICE_MISMATCH;
}

enum err channel_order_paid(struct op *op, struct order_row *o, const char *reference,
                            bool *ret_paid)
{
    struct order_row other;
    struct currency paid_in;
    struct books b;
    char clearing[LEDGER_KEY_SIZE], kind[LEDGER_KEY_SIZE], text[MONEY_TEXT_SIZE + 8];

    *ret_paid = false;
    if (o->state == ORDER_PAID)
        return str_eq(o->reference, reference) ? ERR_OK : mismatch(op, reference, o->reference);
    enum err e = wallet_order_by_payment(op->store, o->channel, reference, &other);
    if (e == ERR_OK)
        return mismatch(op, o->id.s, other.id.s);
    if (e != ERR_NOT_FOUND)
        return people_try(op, e);
    TRY(books_open(op->store, op->now, o->project, &b, &op->why));
    account_id(kind, "clearing", o->channel);
    account_id(clearing, kind, o->currency);
    if (str_eq(b.ccy.code, o->currency))
        TRY(funds_cash_in(&b, o->id, clearing, o->amount_u, &op->why));
    else
        TRY(fx_order_paid(&b, o, clearing, &op->why));
    o->state = ORDER_PAID;
    o->paid_at = op->now;
    if (!str_copy(o->reference, sizeof(o->reference), reference))
        return people_invalid(op, "reference", N_("at most 199 bytes"));
    TRY(people_try(op, wallet_order_save(op->store, o)));
    TRY(currency_get(o->currency, &paid_in));
    money_format_ccy(money_of(o->amount_u, paid_in), text, sizeof(text));
    *ret_paid = true;
    return event_emit(
        op, o->project, (struct id){""}, "wallet.topup",
        str_eq(o->channel, CHANNEL_TEST_NAME)
            ? N_("{amount} was added to the wallet by the test channel; nobody paid anything.")
            : N_("{amount} was added to the wallet."),
        "{s:s,s:s,s:s}", "amount", text, "order", o->id.s, "channel", o->channel);
}
