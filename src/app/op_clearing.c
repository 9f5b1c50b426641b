/* op_clearing.c: payment files against the books, what is in suspense, rates of exchange. */
#include "app/clearing.h"
#include "app/fx.h"
#include "app/op_money.h"
#include "base/msg.h"

#define LINES_MAX 1000

/* ---- files ---- */

static enum err take_line(struct op *op, const char *channel, const char *file, const char *text,
                          size_t n, int64_t *io_counts)
{
    struct payment_line l;
    enum clearing_verdict verdict;

    if (!clearing_parse(text, &l)) {
        (void)refusef(&op->why, ERR_VALIDATION, "field", "line %zu", n + 1);
        refusal_set(&op->why, "why",
                    N_("reference,order,payment or refund,amount,currency,time; above zero, in "
                       "whole cents, RFC 3339 or seconds"));
        return ERR_VALIDATION;
    }
    CHECK(str_copy(l.channel, sizeof(l.channel), channel));
    if (!str_copy(l.file, sizeof(l.file), file))
        return people_invalid(op, "file", N_("at most 63 bytes"));
    TRY(clearing_take(op, &l, &verdict));
    io_counts[verdict]++;
    return ERR_OK;
}

enum err op_clearing_import(struct op *op)
{
    const json_t *lines = json_object_get(op->body, "line"), *one;
    const char *file = people_arg(op, "file", "");
    int64_t counts[CLEARING_CONFLICT + 1] = {0};
    struct channel_row c;
    size_t i;

    (void)str_copy(op->object, sizeof(op->object), op->path_arg[0]);
    enum err e = wallet_channel_get(op->store, op->path_arg[0], &c);
    if (e == ERR_NOT_FOUND)
        return people_not_found(op, "payment channel", op->path_arg[0], "admin channel ls");
    TRY(people_try(op, e));
    if (json_array_size(lines) > LINES_MAX)
        return people_invalid(op, "line", N_("at most 1000 at once"));
    json_array_foreach(lines, i, one)
        TRY(take_line(op, c.name, file, json_string_value(one), i, counts));
    TRY(clearing_rematch(op));
    json_object_begin(&op->out, NULL);
    json_i64(&op->out, "matched", counts[CLEARING_MATCHED]);
    json_i64(&op->out, "suspense", counts[CLEARING_SUSPENSE]);
    json_i64(&op->out, "known", counts[CLEARING_KNOWN]);
    json_i64(&op->out, "conflicts", counts[CLEARING_CONFLICT]);
    json_object_finish(&op->out);
    return ERR_OK;
}

static enum err write_line(struct op *op, const struct payment_line *l)
{
    static const char *const states[] = {"matched", "suspense", "resolved"};
    struct currency ccy;

    TRY(currency_get(l->currency, &ccy));
    json_object_begin(&op->out, NULL);
    json_strf(&op->out, "id", "%" PRId64, l->id);
    json_str(&op->out, "channel", l->channel);
    json_str(&op->out, "kind", l->kind == LINE_REFUND ? "refund" : "payment");
    json_str(&op->out, "reference", l->reference);
    json_str(&op->out, "order", l->order_id);
    json_money(&op->out, "amount", l->amount_u, ccy);
    json_str(&op->out, "state", states[l->state]);
    json_str(&op->out, "reason", l->reason ? clearing_reason(l->reason) : NULL);
    json_i64(&op->out, "age_s", MAX((op->now - l->at) / MS_PER_S, (int64_t)0));
    json_time(&op->out, "at", l->at);
    json_str(&op->out, "file", l->file);
    json_str(&op->out, "resolution", l->resolution[0] ? l->resolution : NULL);
    json_object_finish(&op->out);
    return ERR_OK;
}

enum err op_clearing_list(struct op *op)
{
    struct payment_line_list list = {0};
    struct page page;

    TRY(page_open(op, &page));
    enum err e = people_try(op, clearing_line_open(op->store, &list));
    for (size_t i = 0; i < list.len && e == ERR_OK; i++) {
        char pos[32];

        CHECK(str_printf(pos, sizeof(pos), "%" PRId64, list.at[i].id));
        if (page_takes(&page, pos))
            e = write_line(op, &list.at[i]);
    }
    vec_fini(&list);
    return e == ERR_OK ? page_close(op, &page) : e;
}

enum err op_clearing_resolve(struct op *op)
{
    const char *as = people_arg(op, "as", "");
    struct payment_line l;
    int64_t id = 0;
    enum err e = ERR_NOT_FOUND;

    (void)str_copy(op->object, sizeof(op->object), op->path_arg[0]);
    if (!str_eq(as, "credit") && !str_eq(as, "returned"))
        return people_invalid(op, "as", N_("credit or returned"));
    if (str_parse_i64(op->path_arg[0], 1, INT64_MAX, &id) == ERR_OK)
        e = clearing_line_get(op->store, id, &l);
    if (e == ERR_NOT_FOUND)
        return people_not_found(op, "line", op->path_arg[0], "admin reconcile ls");
    TRY(people_try(op, e));
    TRY(clearing_resolve(op, &l, str_eq(as, "credit")));
    return write_line(op, &l);
}

/* ---- reports ---- */

static enum err write_sum(struct op *op, const struct clearing_sum *x, bool *io_clean)
{
    struct currency ccy;
    int64_t waits = x->credited_u - x->sent_back_u - x->shown_u + x->shown_back_u;

    TRY(currency_get(x->currency, &ccy));
    json_object_begin(&op->out, NULL);
    json_str(&op->out, "channel", x->channel);
    json_money(&op->out, "credited", x->credited_u, ccy);
    json_money(&op->out, "sent_back", x->sent_back_u, ccy);
    json_money(&op->out, "shown", x->shown_u, ccy);
    json_money(&op->out, "shown_back", x->shown_back_u, ccy);
    json_money(&op->out, "waits", waits, ccy);
    json_money(&op->out, "suspense", x->suspense_u - x->suspense_back_u, ccy);
    json_i64(&op->out, "suspense_items", x->suspense_count);
    if (x->suspense_since)
        json_i64(&op->out, "suspense_age_s",
                 MAX((op->now - x->suspense_since) / MS_PER_S, (int64_t)0));
    else
        json_none(&op->out, "suspense_age_s");
    json_object_finish(&op->out);
    *io_clean &= waits == 0 && x->suspense_count == 0;
    return ERR_OK;
}

static enum err write_waiting(struct op *op, const struct waiting_row *w)
{
    const struct order_row *o = &w->order;
    struct currency ccy;

    TRY(currency_get(o->currency, &ccy));
    json_object_begin(&op->out, NULL);
    json_str(&op->out, "order", o->id.s);
    json_str(&op->out, "channel", o->channel);
    json_str(&op->out, "reference", o->reference);
    json_money(&op->out, "payment", w->payment ? o->amount_u : 0, ccy);
    json_money(&op->out, "refunds", w->refunds_u, ccy);
    json_i64(&op->out, "age_s", MAX((op->now - o->paid_at) / MS_PER_S, (int64_t)0));
    json_object_finish(&op->out);
    return ERR_OK;
}

static enum err write_all_waiting(struct op *op, struct id project, bool *io_clean)
{
    struct waiting_list list = {0};
    enum err e = people_try(op, clearing_waiting(op->store, project, &list));

    json_array_begin(&op->out, "waiting");
    for (size_t i = 0; i < list.len && e == ERR_OK; i++)
        e = write_waiting(op, &list.at[i]);
    json_array_finish(&op->out);
    *io_clean &= list.len == 0;
    vec_fini(&list);
    return e;
}

enum err op_clearing_report(struct op *op)
{
    struct clearing_sum_list sums = {0};
    bool clean = true;
    enum err e = people_try(op, clearing_sums(op->store, &sums));

    json_object_begin(&op->out, NULL);
    json_array_begin(&op->out, "channels");
    for (size_t i = 0; i < sums.len && e == ERR_OK; i++)
        e = write_sum(op, &sums.at[i], &clean);
    json_array_finish(&op->out);
    vec_fini(&sums);
    TRY(e);
    TRY(write_all_waiting(op, (struct id){""}, &clean));
    json_flag(&op->out, "clean", clean);
    json_object_finish(&op->out);
    return ERR_OK;
}

#define REPORT_DAYS 31

/* What came in and went back on each of the last days of the project's zone. */
static enum err write_days(struct op *op, const struct books *b, const struct order_list *orders)
{
    struct period day;

    period_day_at(&b->zone, b->now_s, &day);
    for (int n = 0; n < REPORT_DAYS; n++) {
        char text[16];
        int64_t paid = 0, shown = 0;

        for (size_t i = 0; i < orders->len; i++) {
            const struct order_row *o = &orders->at[i];
            int64_t at_s = o->paid_at / MS_PER_S, u = 0;

            if (o->state != ORDER_PAID || str_eq(o->channel, CHANNEL_TEST_NAME) ||
                at_s < day.from_s || at_s >= day.to_s || !str_eq(o->currency, b->ccy.code))
                continue;
            TRY(micro_add(paid, o->amount_u, &paid));
            TRY(people_try(op, clearing_matched(op->store, o->id.s, LINE_PAYMENT, &u)));
            TRY(micro_add(shown, u, &shown));
        }
        if (paid > 0) {
            period_format(&day, text, sizeof(text));
            json_object_begin(&op->out, NULL);
            json_str(&op->out, "day", text);
            json_money(&op->out, "credited", paid, b->ccy);
            json_money(&op->out, "shown", shown, b->ccy);
            json_object_finish(&op->out);
        }
        period_day_at(&b->zone, day.from_s - 1, &day);
    }
    return ERR_OK;
}

enum err op_wallet_reconcile(struct op *op)
{
    struct order_list orders = {0};
    struct books b;
    bool clean = true;

    TRY(books_open(op->store, op->now, op->who.project, &b, &op->why));
    enum err e = people_try(op, wallet_order_list(op->store, op->who.project, &orders));
    json_object_begin(&op->out, NULL);
    json_array_begin(&op->out, "days");
    if (e == ERR_OK)
        e = write_days(op, &b, &orders);
    json_array_finish(&op->out);
    vec_fini(&orders);
    TRY(e);
    TRY(write_all_waiting(op, op->who.project, &clean));
    json_flag(&op->out, "clean", clean);
    json_object_finish(&op->out);
    return ERR_OK;
}

/* ---- exchange ---- */

static void write_rate(struct op *op, const struct fx_rate *r)
{
    json_object_begin(&op->out, NULL);
    json_str(&op->out, "from", r->src);
    json_str(&op->out, "to", r->dst);
    json_strf(&op->out, "rate", "%" PRId64 "/%" PRId64, r->n, r->d);
    json_strf(&op->out, "spread", "%" PRId64 "/%" PRId64, r->spread_n, r->spread_d);
    json_time(&op->out, "at", r->at);
    json_object_finish(&op->out);
}

enum err op_fx_set(struct op *op)
{
    const char *rate = people_arg(op, "rate", ""), *spread = people_arg(op, "spread", "0");
    struct fx_rate r = {.at = op->now}, last;
    struct currency src, dst;

    if (currency_get(op->path_arg[0], &src) != ERR_OK ||
        currency_get(op->path_arg[1], &dst) != ERR_OK || currency_eq(src, dst))
        return people_invalid(op, "from", N_("two different currencies such as USD and CNY"));
    if (!fx_pair_parse(rate, &r.n, &r.d) || r.n == 0)
        return people_invalid(op, "rate", N_("above zero, such as 7.1234 or 71234/10000"));
    if (!fx_pair_parse(spread, &r.spread_n, &r.spread_d) || r.spread_n >= r.spread_d)
        return people_invalid(op, "spread", N_("a share below 1, such as 0.003 or 3/1000"));
    memcpy(r.src, src.code, sizeof(r.src));
    memcpy(r.dst, dst.code, sizeof(r.dst));
    enum err e = fx_rate_get(op->store, r.src, r.dst, &last);
    if (e == ERR_OK)
        r.at = MAX(r.at, last.at + 1); /* never two at one instant */
    else if (e != ERR_NOT_FOUND)
        return people_try(op, e);
    TRY(people_try(op, fx_rate_save(op->store, &r)));
    write_rate(op, &r);
    return ERR_OK;
}

enum err op_fx_list(struct op *op)
{
    struct fx_rate_list list = {0};
    struct page page;

    TRY(page_open(op, &page));
    enum err e = people_try(op, fx_rate_list(op->store, &list));
    for (size_t i = 0; i < list.len && e == ERR_OK; i++) {
        char pos[CURSOR_POS_SIZE];

        CHECK(str_printf(pos, sizeof(pos), "%s.%s.%" PRId64, list.at[i].src, list.at[i].dst,
                         list.at[i].at));
        if (page_takes(&page, pos))
            write_rate(op, &list.at[i]);
    }
    vec_fini(&list);
    return e == ERR_OK ? page_close(op, &page) : e;
}
