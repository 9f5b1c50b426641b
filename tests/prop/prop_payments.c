/* P13 of money.md 4 (I28): what payment channels say, repeated, reordered, missing or changed,
 * meets the books through the operations themselves. Whatever comes, a wallet has exactly what was
 * paid once, and each line of a payment file is matched one to one or sits in suspense.
 *
 * The two pure laws below it: a signed notice is good for one content, one channel and one key;
 * what a reader of foreign text takes, it takes as it was written. */
#include <sodium.h>
#include <stdio.h>

#include "../support/books.h"
#include "app/channel.h"
#include "app/clearing.h"
#include "app/core.h"
#include "app/fx.h"
#include "store/sql.h"
#include "tape.h"

#define STEPS_MAX 30
#define ORDERS_MAX (STEPS_MAX + 1)
#define EVENTS_MAX (STEPS_MAX + 2)
#define CASH_U 1000000 /* that no channel brought */
#define CENT_U 10000

static struct store *base;
static struct core *core;
static char key_hex[65];

/* ---- the world as it is outside: what was ordered, paid, sent back */

struct order {
    char id[ID_SIZE];
    int64_t amount_u, credit_u; /* of its currency; of the wallet */
    bool usd, paid;
    char reference[TEXT_SIZE];
};
/* A movement of money at the channel: a line of its file, and of a payment a notice. */
struct movement {
    bool refund, usd;
    char order[ID_SIZE], reference[TEXT_SIZE];
    int64_t amount_u, at_s;
    int64_t file_u; /* what a file shows of it; mostly the same */
};
struct world {
    utime_t now;
    int64_t names, refunded_u;
    struct {
        char order[ID_SIZE];
        int64_t u;
    } sent; /* what the books sent back to an order last; u 0: nothing yet */
    struct order orders[ORDERS_MAX];
    size_t order_count;
    struct movement events[EVENTS_MAX];
    size_t event_count;
    bool shown[EVENTS_MAX];   /* a file showed it as it is */
    utime_t told[EVENTS_MAX]; /* its notice was taken with the nonce of its reference; 0: not yet */
};

static const char *ccy_of(bool usd)
{
    return usd ? "USD" : "CNY";
}

static void amount_text(int64_t u, bool usd, char ret_text[MONEY_TEXT_SIZE])
{
    struct currency ccy;

    CHECK(currency_get(ccy_of(usd), &ccy) == ERR_OK);
    money_format(money_of(u, ccy), ret_text, MONEY_TEXT_SIZE);
}

static struct order *order_find(struct world *w, const char *id)
{
    for (size_t i = 0; i < w->order_count; i++)
        if (str_eq(w->orders[i].id, id))
            return &w->orders[i];
    return NULL;
}

/* An operation as the core runs it; body: taken. */
static enum err ask(struct world *w, op_handler *run, const char *path, json_t *body,
                    json_t **ret_answer)
{
    AUTO_STRBUF struct strbuf out;
    AUTO_JSON json_t *owned = body;
    struct op op = {.core = core,
                    .store = base,
                    .now = ++w->now,
                    .who = {.user = id_of("usr_one"), .project = id_of("prj_one")},
                    .path_arg = {path},
                    .body = owned};

    CHECK(body);
    strbuf_init(&out, 65536);
    json_writer_init(&op.out, &out);
    CHECK(store_mark(base) == ERR_OK);
    enum err e = run(&op);
    if (e != ERR_OK) {
        CHECK(store_mark_undo(base) == ERR_OK);
        return e;
    }
    CHECK(store_mark_keep(base) == ERR_OK);
    if (ret_answer)
        *ret_answer = json_loads(strbuf_str(&out), 0, NULL);
    return ERR_OK;
}

/* ---- steps ---- */

static bool make_order(struct tape *t, struct world *w)
{
    struct order *o = &w->orders[w->order_count++];
    AUTO_JSON json_t *answer = NULL;
    char amount[MONEY_TEXT_SIZE];

    o->usd = tape_chance(t, 25);
    o->amount_u = tape_range(t, 1, 100000) * CENT_U;
    amount_text(o->amount_u, o->usd, amount);
    /* B89: the spread off first, floored, then the rate, floored */
    o->credit_u = o->usd ? (o->amount_u - o->amount_u * 3 / 1000) * 71234 / 10000 : o->amount_u;
    enum err e = ask(
        w, op_order_create, NULL,
        json_pack("{s:s,s:s,s:s}", "amount", amount, "currency", ccy_of(o->usd), "channel", "pay1"),
        &answer);
    TAPE_MUST(t, e == ERR_OK);
    CHECK(str_copy(o->id, sizeof(o->id), json_string_value(json_object_get(answer, "id"))));
    return true;
}

/* Somebody pays at the channel, or it sends money back: mostly what was ordered. */
static void happen(struct tape *t, struct world *w, bool refund)
{
    struct movement *x = &w->events[w->event_count++];
    const struct order *o = w->order_count > 0 ? &w->orders[tape_below(t, w->order_count)] : NULL;

    *x = (struct movement){.refund = refund, .at_s = w->now / MS_PER_S};
    CHECK(str_printf(x->reference, sizeof(x->reference), "r%d", (int)++w->names));
    CHECK(str_copy(x->order, sizeof(x->order), o && !tape_chance(t, 10) ? o->id : "ord_alien"));
    x->usd = o && o->usd != tape_chance(t, 5);
    x->amount_u = o ? o->amount_u : CENT_U;
    if (tape_chance(t, 10) || refund)
        x->amount_u = tape_range(t, 1, x->amount_u / CENT_U + 3) * CENT_U;
    if (refund && w->sent.u > 0 && tape_chance(t, 70)) { /* what was sent, perhaps once more */
        memcpy(x->order, w->sent.order, sizeof(w->sent.order));
        x->usd = false;
        x->amount_u = w->sent.u;
    }
    x->file_u = x->amount_u + (tape_chance(t, 10) ? CENT_U : 0);
}

struct notice {
    char amount[MONEY_TEXT_SIZE], text[CHANNEL_TEXT_SIZE], signature[2 * 32 + 1], nonce[TEXT_SIZE];
    struct channel_notice n;
};

static void sign(struct notice *x, const char *channel)
{
    unsigned char key[32], mac[32];

    x->n.channel = channel;
    x->n.amount = x->amount;
    x->n.nonce = x->nonce;
    CHECK(channel_notice_text(&x->n, x->text) == ERR_OK);
    CHECK(sodium_hex2bin(key, sizeof(key), key_hex, 64, NULL, NULL, NULL) == 0);
    crypto_auth_hmacsha256(mac, (const unsigned char *)x->text, strlen(x->text), key);
    sodium_bin2hex(x->signature, sizeof(x->signature), mac, sizeof(mac));
}

static enum err tell(struct world *w, const struct notice *x)
{
    return ask(w, op_channel_notice, "pay1",
               json_pack("{s:s,s:s,s:s,s:s,s:I,s:s,s:s}", "order", x->n.order, "amount", x->amount,
                         "currency", x->n.currency, "reference", x->n.reference, "time",
                         (json_int_t)x->n.time_s, "nonce", x->nonce, "signature", x->signature),
               NULL);
}

/* What the platform must answer to a true notice of it. */
static enum err wanted(struct world *w, const struct movement *x)
{
    const struct order *o = order_find(w, x->order);

    if (!o)
        return ERR_NOT_FOUND;
    if (o->usd != x->usd || o->amount_u != x->amount_u)
        return ERR_NOTICE_MISMATCH;
    return !o->paid || str_eq(o->reference, x->reference) ? ERR_OK : ERR_NOTICE_MISMATCH;
}

static void credited(struct world *w, const struct movement *x)
{
    struct order *o = order_find(w, x->order);

    CHECK(o);
    o->paid = true;
    CHECK(str_copy(o->reference, sizeof(o->reference), x->reference));
}

enum fault { TRUE_NOTICE, CHANGED, FORGED, STALE, OTHERS_NONCE, FAULTS, TOLD_ANEW };

/* One whose nonce is still remembered, not the at-th; NULL: none. */
static const struct movement *remembered(const struct world *w, size_t at)
{
    for (size_t i = 0; i < w->event_count; i++)
        if (i != at && w->told[i] && w->now - w->told[i] < 3 * CHANNEL_CLOCK_S * MS_PER_S)
            return &w->events[i];
    return NULL;
}

/* A notice of any payment: the first or again, early or late, good or not. */
static bool notice(struct tape *t, struct world *w, size_t at, enum fault fault)
{
    const struct movement *x = &w->events[at];
    struct notice n = {
        .n = {.order = x->order, .currency = ccy_of(x->usd), .reference = x->reference}};
    const struct movement *other = remembered(w, at);
    enum err want = x->refund ? ERR_OK : wanted(w, x);
    bool same = false;

    if (x->refund)
        return true;
    amount_text(x->amount_u, x->usd, n.amount);
    CHECK(str_printf(n.nonce, sizeof(n.nonce), "n-%s", x->reference));
    n.n.time_s = w->now / MS_PER_S;
    if (fault == STALE)
        n.n.time_s += tape_chance(t, 50) ? CHANNEL_CLOCK_S + 2 : -CHANNEL_CLOCK_S - 2;
    else if (fault == OTHERS_NONCE && other)
        CHECK(str_printf(n.nonce, sizeof(n.nonce), "n-%s", other->reference));
    else if (fault == TOLD_ANEW || tape_chance(t, 50)) /* with a nonce of its own */
        CHECK(str_printf(n.nonce, sizeof(n.nonce), "m-%d", (int)++w->names));
    else {
        n.n.time_s = x->at_s; /* the very same bytes again */
        same = true;
    }
    sign(&n, "pay1");
    if (fault == CHANGED)
        amount_text(x->amount_u + CENT_U, x->usd, n.amount);
    if (fault == FORGED)
        n.signature[tape_below(t, 64)] = 'x';
    if (fault == CHANGED || fault == FORGED)
        want = ERR_NOTICE_SIGNATURE;
    else if (n.n.time_s < w->now / MS_PER_S - CHANNEL_CLOCK_S || fault == STALE)
        want = ERR_NOTICE_STALE;
    else if (fault == OTHERS_NONCE && other)
        want = ERR_NOTICE_REPLAYED;
    enum err e = tell(w, &n);
    if (e != want)
        return tape_fail(t, "notice of %s: %s, not error %d", x->reference, err_code(e), want);
    if (e == ERR_OK)
        credited(w, x);
    if (e == ERR_OK && same)
        w->told[at] = w->now;
    return true;
}

/* Some of what happened, in any order, some lines twice, one perhaps with other money. */
static bool import(struct tape *t, struct world *w, bool all)
{
    json_t *lines = json_array();
    size_t order[EVENTS_MAX], n = 0;
    int64_t others = 0, conflicts;
    AUTO_JSON json_t *answer = NULL;
    bool spoilt = false;

    for (size_t i = 0; i < w->event_count; i++)
        if (all || tape_chance(t, 50))
            order[n++] = i;
    tape_shuffle(t, order, n);
    for (size_t i = 0; i < n; i++) {
        const struct movement *x = &w->events[order[i]];
        char amount[MONEY_TEXT_SIZE], line[3 * TEXT_SIZE];
        bool other = w->shown[order[i]] && tape_chance(t, 10);

        others += other;
        amount_text(x->file_u + (other ? CENT_U : 0), x->usd, amount);
        CHECK(str_printf(line, sizeof(line), "%s,%s,%s,%s,%s,%" PRId64, x->reference, x->order,
                         x->refund ? "refund" : "payment", amount, ccy_of(x->usd), x->at_s));
        json_array_append_new(lines, json_string(line));
        if (!other && tape_chance(t, 10))
            json_array_append_new(lines, json_string(line));
    }
    if (!all && tape_chance(t, 5)) {
        json_array_append_new(lines, json_string("r,o,payment,1.001,CNY,1"));
        spoilt = true;
    }
    enum err e = ask(w, op_clearing_import, "pay1",
                     json_pack("{s:s,s:o}", "file", "day.csv", "line", lines), &answer);
    TAPE_MUST(t, e == (spoilt ? ERR_VALIDATION : ERR_OK));
    TAPE_MUST(t,
              spoilt || (json_get_i64(answer, "conflicts", 0, &conflicts) && conflicts == others));
    for (size_t i = 0; i < n && !spoilt; i++)
        w->shown[order[i]] = true;
    return true;
}

static bool refund(struct tape *t, struct world *w)
{
    const struct order *o =
        w->order_count > 0 && tape_chance(t, 60) ? &w->orders[tape_below(t, w->order_count)] : NULL;
    int64_t u = tape_range(t, 1, 150) * CENT_U;
    char amount[MONEY_TEXT_SIZE];
    json_t *body;

    amount_text(u, false, amount);
    body = json_pack("{s:s,s:s}", "project", "one", "amount", amount);
    if (o)
        json_object_set_new(body, "order", json_string(o->id));
    enum err e = ask(w, op_refund_create, NULL, body, NULL);
    TAPE_MUST(t, e == ERR_OK || e == ERR_REFUND_LIMIT);
    w->refunded_u += e == ERR_OK ? u : 0;
    if (e == ERR_OK && o) {
        memcpy(w->sent.order, o->id, sizeof(w->sent.order));
        w->sent.u = u;
    }
    return true;
}

static bool resolve(struct tape *t, struct world *w)
{
    struct payment_line_list open = {0};
    struct payment_line l;
    bool credit = tape_chance(t, 50);
    char id[24];

    TAPE_MUST(t, clearing_line_open(base, &open) == ERR_OK);
    size_t n = open.len;
    if (n > 0)
        l = open.at[tape_below(t, n)];
    vec_fini(&open);
    if (n == 0)
        return true;
    CHECK(str_printf(id, sizeof(id), "%" PRId64, l.id));
    enum err e = ask(w, op_clearing_resolve, id,
                     json_pack("{s:s}", "as", credit ? "credit" : "returned"), NULL);
    TAPE_MUST(t, credit || e == ERR_OK);
    if (e == ERR_OK && credit) {
        struct movement x = {.amount_u = l.amount_u, .usd = str_eq(l.currency, "USD")};

        CHECK(str_copy(x.order, sizeof(x.order), l.order_id) &&
              str_copy(x.reference, sizeof(x.reference), l.reference));
        TAPE_MUST(t, l.kind == LINE_PAYMENT && wanted(w, &x) == ERR_OK);
        credited(w, &x);
    }
    return true;
}

/* A payment that paid one order already is named for another. */
static bool two_for_one(struct tape *t, struct world *w)
{
    const struct order *paid = NULL, *open = NULL;
    struct notice n = {0};

    for (size_t i = 0; i < w->order_count; i++)
        *(w->orders[i].paid ? &paid : &open) = &w->orders[i];
    if (!paid || !open)
        return true;
    n.n = (struct channel_notice){.order = open->id,
                                  .currency = ccy_of(open->usd),
                                  .reference = paid->reference,
                                  .time_s = w->now / MS_PER_S};
    amount_text(open->amount_u, open->usd, n.amount);
    CHECK(str_printf(n.nonce, sizeof(n.nonce), "m-%d", (int)++w->names));
    sign(&n, "pay1");
    TAPE_MUST(t, tell(w, &n) == ERR_NOTICE_MISMATCH);
    return true;
}

static bool step(struct tape *t, struct world *w)
{
    switch (tape_below(t, 14)) {
    case 0:
    case 1:
        return make_order(t, w);
    case 2:
    case 3:
        happen(t, w, false);
        return true;
    case 4:
        happen(t, w, true);
        return true;
    case 5:
    case 6:
    case 7:
        return w->event_count == 0 ||
               notice(t, w, (size_t)tape_below(t, w->event_count),
                      tape_chance(t, 30) ? (enum fault)tape_below(t, FAULTS) : TRUE_NOTICE);
    case 8:
        return import(t, w, false);
    case 9:
    case 12:
        return refund(t, w);
    case 10:
        return resolve(t, w);
    case 11:
        return two_for_one(t, w);
    default:
        w->now += tape_range(t, 1, 700) * MS_PER_S;
        return true;
    }
}

/* ---- what must hold ---- */

static int64_t number(const char *text)
{
    struct sql q = sql_open(base, text, "");
    int64_t v = INT64_MIN;

    if (sql_next(&q))
        v = sql_i64(&q, 0);
    return sql_close(&q) == ERR_OK ? v : INT64_MIN;
}

/* What the platform has of an account, seen from its side of the money: debits less credits. */
static int64_t on_account(const char *name, bool usd)
{
    char id[LEDGER_KEY_SIZE];
    struct ledger_account a;
    struct currency ccy;

    CHECK(currency_get(ccy_of(usd), &ccy) == ERR_OK);
    CHECK(str_printf(id, sizeof(id), "%s.pay1.%s", name, ccy.code));
    CHECK(account_load(base, id, ccy, &a) == ERR_OK);
    return a.dr_posted - a.cr_posted;
}

/* Line by line: one to one, or in suspense for a reason that is still true. */
static bool lines_hold(struct tape *t, struct world *w, bool rematched)
{
    int64_t shown_u[2] = {0}, suspense_u[2] = {0}, bank_u[2] = {0}, paid_u[2] = {0};
    size_t lines = 0;

    for (size_t i = 0; i < w->event_count; i++) {
        const struct movement *x = &w->events[i];
        const struct order *o = order_find(w, x->order);
        int64_t u = x->refund ? -x->file_u : x->file_u;
        struct payment_line l;

        if (!w->shown[i])
            continue;
        lines++;
        TAPE_MUST(t, clearing_line_find(base, "pay1", x->refund ? LINE_REFUND : LINE_PAYMENT,
                                        x->reference, &l) == ERR_OK);
        TAPE_MUST(t, l.amount_u == x->file_u && l.at == x->at_s * MS_PER_S);
        bool fits = o && !x->refund && o->paid && o->usd == x->usd && o->amount_u == x->file_u &&
                    str_eq(o->reference, x->reference);
        TAPE_MUST(t, x->refund || l.state != LINE_MATCHED || fits);
        TAPE_MUST(t, !rematched || l.state != LINE_SUSPENSE || !fits);
        bank_u[x->usd] += l.state == LINE_RESOLVED ? 0 : u;
        shown_u[x->usd] += l.state == LINE_MATCHED ? u : 0;
        suspense_u[x->usd] += l.state == LINE_SUSPENSE ? u : 0;
    }
    TAPE_MUST(t, number("SELECT count(*) FROM payment_line") == (int64_t)lines);
    for (size_t i = 0; i < w->order_count; i++)
        paid_u[w->orders[i].usd] += w->orders[i].paid ? w->orders[i].amount_u : 0;
    paid_u[0] -= number("SELECT coalesce(sum(refunded_u),0) FROM topup_order");
    for (int usd = 0; usd < 2; usd++)
        TAPE_MUST(t, on_account("bank", usd) == bank_u[usd] &&
                         on_account("suspense", usd) == -suspense_u[usd] &&
                         on_account("clearing", usd) == paid_u[usd] - shown_u[usd]);
    return true;
}

static bool laws(struct tape *t, struct world *w, bool rematched, bool proof)
{
    int64_t cash_u = CASH_U - w->refunded_u;
    struct funds_check c;
    struct refusal why = {0};

    for (size_t i = 0; i < w->order_count; i++) {
        struct order_row o;
        struct id id;

        memcpy(id.s, w->orders[i].id, sizeof(id.s));
        TAPE_MUST(t, wallet_order_get(base, id, &o) == ERR_OK);
        TAPE_MUST(t, (o.state == ORDER_PAID) == w->orders[i].paid);
        TAPE_MUST(t, str_eq(o.reference, w->orders[i].reference));
        TAPE_MUST(t, o.refunded_u >= 0 && o.refunded_u <= (o.state == ORDER_PAID ? o.amount_u : 0));
        cash_u += w->orders[i].paid ? w->orders[i].credit_u : 0;
    }
    TAPE_MUST(t, available(base, w->now) == cash_u);
    TAPE_MUST(t, number("SELECT count(*) FROM (SELECT order_id FROM payment_line WHERE state=0 AND "
                        "kind=0 GROUP BY order_id HAVING count(*)>1)") == 0);
    TAPE_MUST(t,
              number("SELECT count(*) FROM (SELECT o.id FROM topup_order o JOIN payment_line l ON "
                     "l.order_id=o.id AND l.state=0 AND l.kind=1 GROUP BY o.id HAVING "
                     "sum(l.amount_u)>o.refunded_u)") == 0);
    if (!lines_hold(t, w, rematched))
        return false;
    if (!proof)
        return true;
    TAPE_MUST(t, funds_check_run(base, w->now, &c, &why) == ERR_OK);
    for (size_t i = 0; i < c.n; i++)
        if (!c.rows[i].pass)
            return tape_fail(t, "%s: %s", c.rows[i].id, c.rows[i].text);
    return true;
}

/* In the end every notice that was lost comes at last, and a file with everything: also with money
 * that went back twice. */
static bool all_told(struct tape *t, struct world *w)
{
    happen(t, w, true);
    happen(t, w, true);
    for (size_t i = 0; i < w->event_count; i++)
        if (!notice(t, w, i, TOLD_ANEW))
            return false;
    return import(t, w, true) && laws(t, w, true, true);
}

static bool run_world(struct tape *t)
{
    struct world w = {.now = T0};
    int64_t steps = tape_range(t, 1, STEPS_MAX);

    for (int64_t i = 0; i < steps; i++)
        if (!step(t, &w) || !laws(t, &w, false, tape_chance(t, 5)))
            return false;
    return all_told(t, &w);
}

static bool law_payments(struct tape *t)
{
    TAPE_MUST(t, store_begin(base) == ERR_OK);
    bool held = run_world(t);
    store_rollback(base);
    return held;
}

/* ---- pure laws ---- */

static void word(struct tape *t, char ret_s[24], size_t n)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789-_.: |";

    for (size_t i = 0; i < n; i++)
        ret_s[i] = letters[tape_below(t, sizeof(letters) - 1)];
    ret_s[n] = '\0';
}

static bool law_signed(struct tape *t)
{
    struct channel_row c = {.name = "pay1", .kind = CHANNEL_HMAC}, other;
    char f[6][24], text[CHANNEL_TEXT_SIZE], changed[CHANNEL_TEXT_SIZE], hex[2 * 64 + 1];
    unsigned char key[64], public_key[32], sign[64];
    size_t signs = 32, field = (size_t)tape_below(t, 7);
    struct refusal why;

    for (size_t i = 0; i < sizeof(key); i++)
        key[i] = (unsigned char)tape_below(t, 256);
    for (size_t i = 0; i < 6; i++)
        word(t, f[i], (size_t)tape_range(t, 1, 20));
    struct channel_notice n = {f[0], f[1], f[2], f[3], f[4], f[5], tape_size(t, INT64_MAX)};
    TAPE_MUST(t, channel_notice_text(&n, text) == ERR_OK);
    if (tape_chance(t, 10)) {
        unsigned char seed[32], secret[64];

        memcpy(seed, key, 32);
        c.kind = CHANNEL_ED25519;
        signs = 64;
        crypto_sign_seed_keypair(public_key, secret, seed);
        crypto_sign_detached(sign, NULL, (const unsigned char *)text, strlen(text), secret);
        sodium_bin2hex(c.key, sizeof(c.key), public_key, 32);
    } else {
        crypto_auth_hmacsha256(sign, (const unsigned char *)text, strlen(text), key);
        sodium_bin2hex(c.key, sizeof(c.key), key, 32);
    }
    sodium_bin2hex(hex, sizeof(hex), sign, signs);
    TAPE_MUST(t, channel_notice_check(&c, text, hex, &why) == ERR_OK);
    if (field == 6)
        n.time_s ^= 1;
    else
        f[field][0] = f[field][0] == 'z' ? 'y' : 'z';
    TAPE_MUST(t, channel_notice_text(&n, changed) == ERR_OK);
    TAPE_MUST(t, channel_notice_check(&c, changed, hex, &why) == ERR_NOTICE_SIGNATURE);
    other = c;
    other.off = true;
    TAPE_MUST(t, channel_notice_check(&other, text, hex, &why) == ERR_NOTICE_SIGNATURE);
    other = c;
    size_t at = (size_t)tape_below(t, 64);
    other.key[at] = other.key[at] == '0' ? '1' : '0';
    TAPE_MUST(t, channel_notice_check(&other, text, hex, &why) == ERR_NOTICE_SIGNATURE);
    at = (size_t)tape_below(t, 2 * signs);
    hex[at] = hex[at] == '0' ? '1' : '0';
    TAPE_MUST(t, channel_notice_check(&c, text, hex, &why) == ERR_NOTICE_SIGNATURE);
    hex[at] = '\0';
    TAPE_MUST(t, channel_notice_check(&c, text, hex, &why) == ERR_NOTICE_SIGNATURE);
    f[tape_below(t, 6)][0] = "\n\r"[tape_below(t, 2)]; /* a field never becomes two */
    TAPE_MUST(t, channel_notice_text(&n, changed) == ERR_VALIDATION);
    return true;
}

static bool line_text(const struct payment_line *l, char *buf, size_t size)
{
    char amount[MONEY_TEXT_SIZE];
    struct currency ccy;

    CHECK(currency_get(l->currency, &ccy) == ERR_OK);
    money_format(money_of(l->amount_u, ccy), amount, sizeof(amount));
    return str_printf(buf, size, "%s,%s,%s,%s,%s,%" PRId64, l->reference, l->order_id,
                      l->kind == LINE_REFUND ? "refund" : "payment", amount, l->currency,
                      (int64_t)(l->at / MS_PER_S));
}

/* A line of a payment file is what was written; with any byte changed it is refused or is what is
 * written then. */
static bool law_line(struct tape *t)
{
    static const char *const currencies[] = {"CNY", "JPY", "KWD", "USD", "EUR"};
    static const char bytes[] = "0129,.-+ x\t/TZ:\x80";
    struct payment_line l = {0}, again, changed;
    char text[3 * TEXT_SIZE], printed[3 * TEXT_SIZE];
    struct currency ccy;

    word(t, l.reference, (size_t)tape_range(t, 1, 20));
    word(t, l.order_id, (size_t)tape_range(t, 0, 20));
    l.kind = tape_chance(t, 50) ? LINE_REFUND : LINE_PAYMENT;
    CHECK(str_copy(l.currency, sizeof(l.currency), currencies[tape_below(t, 5)]));
    CHECK(currency_get(l.currency, &ccy) == ERR_OK);
    int64_t minor = currency_minor_u(ccy);
    l.amount_u = (1 + tape_size(t, INT64_MAX / minor - 1)) * minor;
    l.at = (1 + tape_size(t, INT64_MAX / MS_PER_S - 2)) * MS_PER_S;
    CHECK(line_text(&l, text, sizeof(text)));
    TAPE_MUST(t, clearing_parse(text, &again));
    TAPE_MUST(t, again.amount_u == l.amount_u && again.at == l.at && again.kind == l.kind &&
                     str_eq(again.reference, l.reference) && str_eq(again.order_id, l.order_id) &&
                     str_eq(again.currency, l.currency));
    text[tape_below(t, strlen(text))] = bytes[tape_below(t, sizeof(bytes) - 1)];
    if (!clearing_parse(text, &changed))
        return true;
    TAPE_MUST(t, changed.amount_u > 0 && changed.amount_u % minor == 0 && changed.reference[0]);
    TAPE_MUST(t, line_text(&changed, printed, sizeof(printed)) && clearing_parse(printed, &again));
    TAPE_MUST(t,
              again.amount_u == changed.amount_u && again.at / MS_PER_S == changed.at / MS_PER_S);
    return true;
}

/* A rate is what it says, as a fraction and as a decimal. */
static bool law_pair(struct tape *t)
{
    int64_t n = tape_size(t, INT64_C(999999999999)), d = tape_range(t, 1, 999999999999), power = 1;
    int decimals = (int)tape_range(t, 0, 9);
    char text[64];
    int64_t n2, d2;

    CHECK(str_printf(text, sizeof(text), "%" PRId64 "/%" PRId64, n, d));
    TAPE_MUST(t, fx_pair_parse(text, &n2, &d2) && n2 == n && d2 == d);
    for (int i = 0; i < decimals; i++)
        power *= 10;
    if (decimals > 0)
        CHECK(str_printf(text, sizeof(text), "%" PRId64 ".%0*" PRId64, n / power, decimals,
                         n % power));
    else
        CHECK(str_printf(text, sizeof(text), "%" PRId64, n));
    TAPE_MUST(t, fx_pair_parse(text, &n2, &d2) && n2 == n && d2 == power);
    size_t len = strlen(text);
    text[tape_below(t, len)] = "x- +./"[tape_below(t, 6)];
    if (fx_pair_parse(text, &n2, &d2))
        TAPE_MUST(t, n2 >= 0 && d2 > 0 && !strpbrk(text, "x- +"));
    return true;
}

static void open_base(void)
{
    struct channel_row c = {.name = "pay1", .kind = CHANNEL_HMAC, .at = T0};
    struct fx_rate r = {"USD", "CNY", T0, 71234, 10000, 3, 1000};
    struct core_config config = core_config_default();
    struct core_now now = {.wall_ms = T0, .boot_ms = 1000, .boot = "ctl"};
    struct refusal why = {0};

    CHECK(sodium_init() >= 0);
    memset(key_hex, '7', 64);
    memcpy(c.key, key_hex, sizeof(key_hex));
    base = books_new(CASH_U);
    ok(wallet_channel_save(base, &c));
    ok(fx_rate_save(base, &r));
    ok(core_init(&core, base, &config, id_maker_seeded(3), &now, &why));
}

int main(int argc, char **argv)
{
    static const struct tape_test tests[] = {
        {"P13 notices and files in any order, number and wording: one to one, or in suspense",
         law_payments, 5},
        {"P13 a signed notice is good for one content, channel and key", law_signed, 0},
        {"P15 a line of a payment file is what was written, or refused", law_line, 0},
        {"P15 a rate is what it says, or refused", law_pair, 0},
    };

    open_base();
    int rc = tape_main(tests, ARRAY_LEN(tests), argc, argv);
    core_fini(core);
    store_close(base);
    return rc;
}
