#include "app/clearing.h"

#include <stdlib.h>

#include "app/funds_int.h"
#include "app/op_people.h"
#include "base/msg.h"
#include "base/units.h"

static const char *const reasons[] = {
    [LINE_FINE] = "",         [LINE_NO_ORDER] = "no_order",   [LINE_NOT_CREDITED] = "not_credited",
    [LINE_AMOUNT] = "amount", [LINE_REFERENCE] = "reference", [LINE_NOT_REFUNDED] = "not_refunded",
};

const char *clearing_reason(enum line_reason r)
{
    return reasons[r];
}

/* ---- a line of the file ---- */

#define FIELDS 6

static bool parse_time(const char *text, utime_t *ret_at)
{
    char *end = NULL;
    int64_t s = strtoll(text, &end, 10);

    if (end != text && *end == '\0' && s > 0 && s < INT64_MAX / MS_PER_S) {
        *ret_at = s * MS_PER_S;
        return true;
    }
    return time_parse(text, ret_at) == ERR_OK && *ret_at > 0;
}

bool clearing_parse(const char *text, struct payment_line *ret_l)
{
    struct payment_line l = {0};
    char copy[3 * TEXT_SIZE], *rest = copy, *f[FIELDS], *more;
    struct currency ccy;
    struct money m;

    if (!str_copy(copy, sizeof(copy), text))
        return false;
    for (size_t i = 0; i < FIELDS; i++) {
        f[i] = strsep(&rest, ",");
        if (!f[i])
            return false;
    }
    more = rest;
    l.kind = str_eq(f[2], "refund") ? LINE_REFUND : LINE_PAYMENT;
    if (more || !f[0][0] || (!str_eq(f[2], "payment") && !str_eq(f[2], "refund")) ||
        !str_copy(l.reference, sizeof(l.reference), f[0]) ||
        !str_copy(l.order_id, sizeof(l.order_id), f[1]) || currency_get(f[4], &ccy) != ERR_OK ||
        money_parse(f[3], ccy, &m) != ERR_OK || m.u <= 0 || m.u % currency_minor_u(ccy) != 0 ||
        !parse_time(f[5], &l.at))
        return false;
    l.amount_u = m.u;
    memcpy(l.currency, ccy.code, sizeof(l.currency));
    *ret_l = l;
    return true;
}

/* ---- in the books ---- */

static enum err order_of(struct op *op, const struct payment_line *l, struct order_row *ret_o)
{
    struct id id = {""};

    if (!str_copy(id.s, sizeof(id.s), l->order_id))
        return ERR_NOT_FOUND;
    TRY(wallet_order_get(op->store, id, ret_o));
    return str_eq(ret_o->channel, l->channel) ? ERR_OK : ERR_NOT_FOUND;
}

/* What the line is by the books as they are now. */
static enum err judge(struct op *op, const struct payment_line *l, enum line_reason *ret_r)
{
    struct order_row o;
    int64_t shown = 0;
    enum err e = order_of(op, l, &o);

    *ret_r = LINE_NO_ORDER;
    if (e != ERR_OK)
        return e == ERR_NOT_FOUND ? ERR_OK : e;
    *ret_r = LINE_FINE;
    if (l->kind == LINE_REFUND) {
        TRY(clearing_matched(op->store, l->order_id, LINE_REFUND, &shown));
        if (!str_eq(o.currency, l->currency))
            *ret_r = LINE_AMOUNT;
        else if (l->amount_u > o.refunded_u - shown)
            *ret_r = LINE_NOT_REFUNDED;
        return ERR_OK;
    }
    if (o.amount_u != l->amount_u || !str_eq(o.currency, l->currency))
        *ret_r = LINE_AMOUNT;
    else if (o.state != ORDER_PAID)
        *ret_r = LINE_NOT_CREDITED;
    else if (!str_eq(o.reference, l->reference))
        *ret_r = LINE_REFERENCE;
    return ERR_OK;
}

/* The line's money from one account of its channel to another; a refund goes the other way. */
static enum err move(struct op *op, const struct payment_line *l, const char *step,
                     const char *from, const char *to)
{
    struct books b = {.store = op->store, .now = op->now, .now_s = op->now / MS_PER_S};
    char kind[LEDGER_KEY_SIZE], account[2][LEDGER_KEY_SIZE];
    const char *names[2] = {from, to};
    struct ledger_transfer t;
    bool back = l->kind == LINE_REFUND;

    TRY(currency_get(l->currency, &b.ccy));
    for (size_t i = 0; i < 2; i++) {
        account_id(kind, names[i], l->channel);
        account_id(account[i], kind, l->currency);
    }
    CHECK(str_printf(kind, sizeof(kind), "%s.%" PRId64, step, l->id));
    t = transfer_of(&b, kind, "clearing");
    memcpy(t.id, kind, sizeof(t.id));
    memcpy(t.dr, account[back], sizeof(t.dr));
    memcpy(t.cr, account[!back], sizeof(t.cr));
    t.amount = l->amount_u;
    return ledger_post(&b, &t, 1, &op->why);
}

static bool same_line(const struct payment_line *a, const struct payment_line *b)
{
    return a->amount_u == b->amount_u && a->at == b->at && str_eq(a->currency, b->currency) &&
           str_eq(a->order_id, b->order_id);
}

enum err clearing_take(struct op *op, struct payment_line *io_l, enum clearing_verdict *ret_verdict)
{
    struct payment_line known;
    enum err e = clearing_line_find(op->store, io_l->channel, io_l->kind, io_l->reference, &known);

    if (e == ERR_OK) {
        *ret_verdict = same_line(&known, io_l) ? CLEARING_KNOWN : CLEARING_CONFLICT;
        return ERR_OK;
    }
    if (e != ERR_NOT_FOUND)
        return people_try(op, e);
    TRY(people_try(op, judge(op, io_l, &io_l->reason)));
    io_l->state = io_l->reason == LINE_FINE ? LINE_MATCHED : LINE_SUSPENSE;
    io_l->imported_at = op->now;
    TRY(people_try(op, clearing_line_save(op->store, io_l)));
    *ret_verdict = io_l->state == LINE_MATCHED ? CLEARING_MATCHED : CLEARING_SUSPENSE;
    return io_l->state == LINE_MATCHED ? move(op, io_l, "match", "bank", "clearing")
                                       : move(op, io_l, "suspend", "bank", "suspense");
}

static enum err settle(struct op *op, struct payment_line *l)
{
    l->state = LINE_MATCHED;
    l->reason = LINE_FINE;
    TRY(move(op, l, "rematch", "suspense", "clearing"));
    return people_try(op, clearing_line_save(op->store, l));
}

enum err clearing_rematch(struct op *op)
{
    struct payment_line_list open = {0};
    enum err e = people_try(op, clearing_line_open(op->store, &open));

    for (size_t i = 0; i < open.len && e == ERR_OK; i++) {
        struct payment_line *l = &open.at[i];
        enum line_reason reason = l->reason;

        e = people_try(op, judge(op, l, &reason));
        if (e == ERR_OK && reason == LINE_FINE)
            e = settle(op, l);
        else if (e == ERR_OK && reason != l->reason) {
            l->reason = reason;
            e = people_try(op, clearing_line_save(op->store, l));
        }
    }
    vec_fini(&open);
    return e;
}

enum err clearing_resolve(struct op *op, struct payment_line *io_l, bool credit)
{
    struct order_row o;
    bool paid;

    if (io_l->state != LINE_SUSPENSE)
        return people_invalid(op, "line", N_("it is not in suspense"));
    if (credit) {
        if (io_l->reason != LINE_NOT_CREDITED)
            return people_invalid(op, "as",
                                  N_("only a payment that was not credited can be credited"));
        TRY(people_try(op, order_of(op, io_l, &o)));
        TRY(channel_order_paid(op, &o, io_l->reference, &paid));
        io_l->resolved_at = op->now;
        CHECK(str_copy(io_l->resolution, sizeof(io_l->resolution), "credit"));
        return settle(op, io_l);
    }
    TRY(move(op, io_l, "return", "suspense", "bank"));
    io_l->state = LINE_RESOLVED;
    io_l->resolved_at = op->now;
    CHECK(str_copy(io_l->resolution, sizeof(io_l->resolution), "returned"));
    return people_try(op, clearing_line_save(op->store, io_l));
}
