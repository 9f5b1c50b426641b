/* op_channel.c: payment channels for the operator, and their notices. */
#include <sodium.h>

#include "app/authn.h"
#include "app/channel.h"
#include "app/op_money.h"
#include "base/msg.h"

static const char *const kinds[] = {
    [CHANNEL_TEST] = "test",
    [CHANNEL_HMAC] = "hmac",
    [CHANNEL_ED25519] = "ed25519",
};

static void write_channel(struct op *op, const struct channel_row *c)
{
    json_str(&op->out, "name", c->name);
    json_str(&op->out, "kind", kinds[c->kind]);
    json_flag(&op->out, "test", c->kind == CHANNEL_TEST);
    json_str(&op->out, "pay", c->pay);
    json_str(&op->out, "public_key", c->kind == CHANNEL_ED25519 ? c->key : NULL);
    json_flag(&op->out, "off", c->off);
}

static bool is_hex_key(const char *s)
{
    return strlen(s) == 64 && strspn(s, "0123456789abcdef") == 64;
}

static enum err channel_args(struct op *op, struct channel_row *c)
{
    const char *kind = people_arg(op, "kind", "hmac"), *key = people_arg(op, "public_key", "");
    const char *name = people_arg(op, "name", "");

    c->kind = str_eq(kind, "ed25519") ? CHANNEL_ED25519 : CHANNEL_HMAC;
    if (!str_eq(kind, kinds[c->kind]))
        return people_invalid(op, "kind", N_("hmac or ed25519"));
    if ((c->kind == CHANNEL_ED25519) != (key[0] != '\0') || (key[0] && !is_hex_key(key)))
        return people_invalid(op, "public_key", N_("64 hex digits, with ed25519 only"));
    (void)str_copy(c->key, sizeof(c->key), key);
    if (!name[0] || strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") != strlen(name) ||
        strlen(name) > 24 || str_eq(name, CHANNEL_TEST_NAME) ||
        !str_copy(c->name, sizeof(c->name), name))
        return people_invalid(op, "name", N_("1 to 24 of a-z 0-9 -, and not test"));
    if (!str_copy(c->pay, sizeof(c->pay), people_arg(op, "pay", "")))
        return people_invalid(op, "pay", N_("at most 199 bytes"));
    return ERR_OK;
}

enum err op_channel_add(struct op *op)
{
    struct channel_row c = {.at = op->now}, old;
    unsigned char raw[32];

    TRY(channel_args(op, &c));
    (void)str_copy(op->object, sizeof(op->object), c.name);
    enum err e = wallet_channel_get(op->store, c.name, &old);
    if (e == ERR_OK)
        return people_exists(op, "payment channel", c.name);
    if (e != ERR_NOT_FOUND)
        return people_try(op, e);
    if (c.kind == CHANNEL_HMAC) {
        core_random(op->core, raw, sizeof(raw));
        (void)sodium_bin2hex(c.key, sizeof(c.key), raw, sizeof(raw));
        explicit_bzero(raw, sizeof(raw));
    }
    TRY(people_try(op, wallet_channel_save(op->store, &c)));
    json_object_begin(&op->out, NULL);
    write_channel(op, &c);
    json_str(&op->out, "key", c.kind == CHANNEL_HMAC ? c.key : NULL);
    json_object_finish(&op->out);
    return ERR_OK;
}

enum err op_channel_list(struct op *op)
{
    struct channel_list list = {0};
    struct page page;

    TRY(page_open(op, &page));
    enum err e = people_try(op, wallet_channel_list(op->store, &list));
    for (size_t i = 0; i < list.len && e == ERR_OK; i++) {
        if (!page_takes(&page, list.at[i].name))
            continue;
        json_object_begin(&op->out, NULL);
        write_channel(op, &list.at[i]);
        json_object_finish(&op->out);
    }
    vec_fini(&list);
    return e == ERR_OK ? page_close(op, &page) : e;
}

/* It takes no order and no notice from now on; its orders and accounts stay. */
enum err op_channel_remove(struct op *op)
{
    struct channel_row c;
    enum err e = wallet_channel_get(op->store, op->path_arg[0], &c);

    if (e == ERR_NOT_FOUND)
        return people_not_found(op, "payment channel", op->path_arg[0], "admin channel ls");
    TRY(people_try(op, e));
    (void)str_copy(op->object, sizeof(op->object), c.name);
    c.off = true;
    TRY(people_try(op, wallet_channel_save(op->store, &c)));
    json_object_begin(&op->out, NULL);
    json_object_finish(&op->out);
    return ERR_OK;
}

/* The nonce is new, or came with the very same content. */
static enum err nonce_check(struct op *op, const struct channel_notice *n, const char *text)
{
    char hash[HASH_TEXT_SIZE], known[HASH_TEXT_SIZE];
    bool is_new;

    authn_hash(text, hash);
    TRY(people_try(op, wallet_nonce_prune(op->store, op->now - 4 * CHANNEL_CLOCK_S * MS_PER_S)));
    TRY(people_try(
        op, wallet_nonce_take(op->store, n->channel, n->nonce, hash, op->now, &is_new, known)));
    return is_new || str_eq(hash, known) ? ERR_OK : refuse(&op->why, ERR_NOTICE_REPLAYED);
}

static enum err differs(struct op *op, const char *what, const char *got, const char *want)
{
    (void)refusef(&op->why, ERR_NOTICE_MISMATCH, "what", "%s", what);
    refusal_set(&op->why, "got", got);
    refusal_set(&op->why, "want", want);
    return ERR_NOTICE_MISMATCH;
}

static enum err order_match(struct op *op, const struct channel_notice *n, struct order_row *ret_o)
{
    struct id id = {""};
    struct currency ccy;
    struct money m;
    char want[MONEY_TEXT_SIZE];
    enum err e = ERR_NOT_FOUND;

    if (str_copy(id.s, sizeof(id.s), n->order))
        e = wallet_order_get(op->store, id, ret_o);
    if (e == ERR_OK && !str_eq(ret_o->channel, n->channel))
        e = ERR_NOT_FOUND;
    if (e == ERR_NOT_FOUND)
        return people_not_found(op, "order", n->order, "wallet orders");
    TRY(people_try(op, e));
    if (!str_eq(n->currency, ret_o->currency))
        return differs(op, "currency", n->currency, ret_o->currency);
    TRY(currency_get(ret_o->currency, &ccy));
    money_format(money_of(ret_o->amount_u, ccy), want, sizeof(want));
    if (money_parse(n->amount, ccy, &m) != ERR_OK || m.u != ret_o->amount_u)
        return differs(op, "amount", n->amount, want);
    return ERR_OK;
}

enum err op_channel_notice(struct op *op)
{
    struct channel_notice n = {.channel = op->path_arg[0],
                               .order = people_arg(op, "order", ""),
                               .amount = people_arg(op, "amount", ""),
                               .currency = people_arg(op, "currency", ""),
                               .reference = people_arg(op, "reference", ""),
                               .nonce = people_arg(op, "nonce", "")};
    struct channel_row c;
    struct order_row o;
    char text[CHANNEL_TEXT_SIZE];
    int64_t now_s = op->now / MS_PER_S;
    bool paid;

    CHECK(json_get_i64(op->body, "time", 0, &n.time_s));
    /* the audit log shows a refused one too: which channel, which order, why */
    (void)str_copy(op->object, sizeof(op->object), n.order);
    if (!str_printf(op->who.user_name, sizeof(op->who.user_name), "channel %s", n.channel))
        (void)str_copy(op->who.user_name, sizeof(op->who.user_name), "channel");
    enum err e = wallet_channel_get(op->store, n.channel, &c);
    if (e == ERR_NOT_FOUND || channel_notice_text(&n, text) != ERR_OK)
        return refuse(&op->why, ERR_NOTICE_SIGNATURE);
    TRY(people_try(op, e));
    TRY(channel_notice_check(&c, text, people_arg(op, "signature", ""), &op->why));
    if (n.time_s < now_s - CHANNEL_CLOCK_S || n.time_s > now_s + CHANNEL_CLOCK_S)
        return refusef(&op->why, ERR_NOTICE_STALE, "max_s", "%d", CHANNEL_CLOCK_S);
    TRY(nonce_check(op, &n, text));
    TRY(order_match(op, &n, &o));
    TRY(channel_order_paid(op, &o, n.reference, &paid));
    json_object_begin(&op->out, NULL);
    json_str(&op->out, "order", o.id.s);
    json_str(&op->out, "state", "paid");
    json_object_finish(&op->out);
    return ERR_OK;
}
