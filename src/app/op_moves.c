/* op_moves.c: the statement of a wallet: every movement of the month as it stands in the journal,
 * with the balance of its source after it. */
#include "app/fund_source.h"
#include "app/op_money.h"
#include "base/msg.h"

#define MOVES_PAGE 1000

struct source {
    char account[LEDGER_KEY_SIZE];
    int64_t balance_u;
};
struct sources {
    struct source *at; /* owned */
    size_t len, cap;
};

/* "cash", "gift", "credit", "arrears" or the voucher's id; NULL: not of this wallet. */
static const char *source_name(const struct books *b, const struct grant_list *grants,
                               const char *account)
{
    static const struct {
        const char *prefix, *name;
    } own[] = {
        {"cash.", "cash"}, {"gift.", "gift"}, {"credit.", "credit"}, {"receivable.", "arrears"}};

    for (size_t i = 0; i < ARRAY_LEN(own); i++)
        if (str_starts(account, own[i].prefix))
            return str_eq(account + strlen(own[i].prefix), b->project.s) ? own[i].name : NULL;
    for (size_t i = 0; i < grants->len && str_starts(account, "voucher."); i++)
        if (str_eq(account + strlen("voucher."), grants->at[i].id.s))
            return grants->at[i].id.s;
    return NULL;
}

static enum err source_of(struct op *op, struct sources *list, const char *account,
                          utime_t before_ms, int64_t upto, struct source **ret_s)
{
    for (size_t i = 0; i < list->len; i++)
        if (str_eq(list->at[i].account, account)) {
            *ret_s = &list->at[i];
            return ERR_OK;
        }
    struct source *s = vec_push(list);
    CHECK(str_copy(s->account, sizeof(s->account), account));
    *ret_s = s;
    return people_try(op, wallet_balance_at(op->store, account, before_ms, upto, &s->balance_u));
}

struct statement {
    struct books b;
    struct period month;
    int64_t after;
    struct grant_list grants;
    struct sources sources;
    struct move_list moves;
};

/* One side of a transfer that is of this wallet. */
static enum err write_move(struct op *op, struct statement *x, const struct move_row *m, bool debit)
{
    const char *account = debit ? m->t.dr : m->t.cr;
    const char *name = source_name(&x->b, &x->grants, account);
    struct source *s;

    if (!name)
        return ERR_OK;
    TRY(source_of(op, &x->sources, account, x->month.from_s * MS_PER_S, x->after, &s));
    TRY(micro_add(s->balance_u, debit ? -m->t.amount : m->t.amount, &s->balance_u));
    json_object_begin(&op->out, NULL);
    json_time(&op->out, "at", m->t.booked_ms);
    json_str(&op->out, "source", name);
    json_str(&op->out, "kind", m->t.kind);
    json_money(&op->out, "amount", debit ? -m->t.amount : m->t.amount, x->b.ccy);
    json_money(&op->out, "balance", s->balance_u, x->b.ccy);
    json_str(&op->out, "about", m->t.owner[0] ? m->t.owner : m->t.group);
    json_str(&op->out, "other", debit ? m->t.cr : m->t.dr);
    json_str(&op->out, "transfer", m->t.id);
    json_object_finish(&op->out);
    return ERR_OK;
}

static enum err write_moves(struct op *op, struct statement *x, const struct project *p)
{
    bool more = x->moves.len > MOVES_PAGE;
    char month[16];

    period_format(&x->month, month, sizeof(month));
    json_object_begin(&op->out, NULL);
    json_str(&op->out, "project", p->name);
    json_str(&op->out, "month", month);
    json_str(&op->out, "zone", p->zone);
    json_str(&op->out, "currency", x->b.ccy.code);
    json_array_begin(&op->out, "moves");
    for (size_t i = 0; i < MIN(x->moves.len, (size_t)MOVES_PAGE); i++) {
        TRY(write_move(op, x, &x->moves.at[i], true));
        TRY(write_move(op, x, &x->moves.at[i], false));
    }
    json_array_finish(&op->out);
    if (more)
        json_strf(&op->out, "next", "%" PRId64, x->moves.at[MOVES_PAGE - 1].seq);
    else
        json_none(&op->out, "next");
    json_object_finish(&op->out);
    return ERR_OK;
}

enum err op_wallet_statement(struct op *op)
{
    const char *after = query_arg(op, "after");
    struct statement x = {0};
    struct project p;
    bool given;

    TRY(people_try(op, store_project_get(op->store, op->who.project, &p)));
    TRY(books_open(op->store, op->now, p.id, &x.b, &op->why));
    TRY(month_arg(op, &x.b, &given, &x.month));
    if (after && str_parse_i64(after, 0, INT64_MAX, &x.after) != ERR_OK)
        return people_invalid(op, "after", N_("the next of the page before"));
    enum err e = people_try(op, wallet_grant_list(op->store, p.id, &x.grants));
    if (e == ERR_OK)
        e = people_try(op,
                       wallet_moves(op->store, p.id, x.month.from_s * MS_PER_S,
                                    x.month.to_s * MS_PER_S, x.after, MOVES_PAGE + 1, &x.moves));
    if (e == ERR_OK)
        e = write_moves(op, &x, &p);
    vec_fini(&x.grants);
    vec_fini(&x.sources);
    vec_fini(&x.moves);
    return e;
}
