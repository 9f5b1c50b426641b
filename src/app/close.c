/* close.c: when a month is closed, and what came after it. close_write.c writes the statement. */
#include "app/close_int.h"

#include "base/msg.h"
#include "store/rows_plan.h"

void close_id(char ret_id[CLOSE_ID_SIZE], struct id project, int64_t year, int month)
{
    bool ok = str_printf(ret_id, CLOSE_ID_SIZE, "st.%s.%04" PRId64 "%02d", project.s, year, month);

    CHECK(ok);
}

enum err close_statement(struct store *s, struct id project, int64_t year, int month,
                         struct statement_row *ret_s)
{
    char id[CLOSE_ID_SIZE];

    close_id(id, project, year, month);
    return statement_get(s, id, ret_s);
}

/* The first open month; that of the first usage or purchase when none is closed. */
static enum err first_open(const struct books *b, struct period *ret_p)
{
    struct close_state state;
    int64_t first = INT64_MAX;
    enum err e = close_state_get(b->store, b->project, &state);

    if (e == ERR_OK) {
        period_month(&b->zone, state.year, state.month, ret_p);
        return ERR_OK;
    }
    if (e != ERR_NOT_FOUND)
        return e;
    TRY(billed_first(b->store, b->project, &first));
    period_month_at(&b->zone, MIN(first, b->now_s), ret_p);
    return ERR_OK;
}

enum err close_is_closed(struct store *s, struct id project, const struct period *month,
                         bool *ret_closed)
{
    struct close_state state;
    enum err e = close_state_get(s, project, &state);

    if (e != ERR_OK && e != ERR_NOT_FOUND)
        return e;
    *ret_closed = e == ERR_OK && month->to_s <= state.until_s;
    return ERR_OK;
}

/* All that is rated must be posted: what no lease pays for is posted here, what a lease's hold pays
 * for waits for its next term or its end. */
static enum err post_all(const struct books *b, const struct period *p, char ret_waits[],
                         struct refusal *why)
{
    char before[LEDGER_KEY_SIZE] = "";

    for (;;) {
        char id[LEDGER_KEY_SIZE];

        TRY(window_unposted(b->store, b->project, p->year, p->month, id));
        if (!id[0]) /* what it costs in the end is not known yet */
            TRY(spot_row_unsettled(b->store, b->project, p->to_s, id));
        memcpy(ret_waits, id, LEDGER_KEY_SIZE);
        if (!id[0] || str_eq(id, before))
            return ERR_OK;
        memcpy(before, id, sizeof(before));
        TRY(funds_post_free(b, why));
    }
}

/* The months before a change of zone are closed: the project is in the new one. */
static enum err zone_moved(const struct books *b, const struct period *p)
{
    struct zone_change c;
    struct project project;
    enum err e = zone_change_get(b->store, b->project, &c);

    if (e == ERR_NOT_FOUND || (e == ERR_OK && c.since_s != p->to_s))
        return ERR_OK;
    TRY(e);
    TRY(store_project_get(b->store, b->project, &project));
    memcpy(project.zone, c.zone, sizeof(project.zone));
    return store_project_save(b->store, &project);
}

static enum err advance(const struct books *b, const struct period *p)
{
    struct close_state state = {.project = b->project, .until_s = p->to_s};
    struct period next = *p;

    period_next(&b->zone, &next);
    state.year = next.year;
    state.month = next.month;
    return close_state_save(b->store, &state);
}

static enum err tell_closed(const struct books *b, const struct statement_row *st)
{
    struct event ev = {.at = b->now, .project = b->project};
    char month[16], text[MONEY_TEXT_SIZE + 8];
    int64_t u = st->payable_minor * st->minor_u;
    bool ok = str_printf(month, sizeof(month), "%04" PRId64 "-%02d", st->year, st->month);

    money_format_ccy(money_of(u, b->ccy), text, sizeof(text));
    ok = ok && str_copy(ev.kind, sizeof(ev.kind), "bill.closed") &&
         str_copy(ev.text, sizeof(ev.text), N_("The bill of {month} is closed: {amount}.")) &&
         str_printf(ev.data, sizeof(ev.data),
                    "{\"month\":\"%s\",\"amount\":\"%s\",\"number\":\"%s\"}", month, text,
                    st->number);
    CHECK(ok);
    return store_event_add(b->store, &ev);
}

enum err close_next(struct store *s, utime_t now, struct id project, struct close_result *ret_r,
                    struct refusal *why)
{
    struct close_result r = {.what = CLOSE_NOT_DUE};
    struct books b;
    bool empty;

    TRY(books_open(s, now, project, &b, why));
    TRY(first_open(&b, &r.month));
    if (b.now_s >= r.month.to_s + BILL_COLLECT_S) {
        TRY(post_all(&b, &r.month, r.waits, why));
        r.what = CLOSE_WAITS;
        if (!r.waits[0]) {
            TRY(close_write(&b, &r.month, &r.statement, &empty, why));
            TRY(advance(&b, &r.month));
            TRY(zone_moved(&b, &r.month));
            r.what = empty ? CLOSE_EMPTY : CLOSE_DONE;
        }
        if (r.what == CLOSE_DONE)
            TRY(tell_closed(&b, &r.statement));
    }
    *ret_r = r;
    return ERR_OK;
}

enum err close_note_late(const struct books *b, const struct window_row *w, int64_t qty_from,
                         int64_t u, int64_t from_s, int64_t to_s)
{
    struct close_state state;
    struct bill_slot slot;
    struct late_row l;

    /* closed months are at least that old: most usage needs no look */
    if (b->now_s - from_s < BILL_COLLECT_S)
        return ERR_OK;
    enum err e = close_state_get(b->store, b->project, &state);
    if (e == ERR_NOT_FOUND)
        return ERR_OK;
    TRY(e);
    if (from_s >= state.until_s)
        return ERR_OK;
    bill_slot_for(&b->zone, from_s, b->now_s, b->now_s, &slot);
    e = late_get(b->store, w->id, slot.period.year, slot.period.month, &l);
    if (e == ERR_NOT_FOUND) {
        l = (struct late_row){.project = w->project,
                              .year = slot.period.year,
                              .month = slot.period.month,
                              .qty_from = qty_from,
                              .from_s = from_s,
                              .to_s = to_s};
        memcpy(l.rating_window, w->id, sizeof(l.rating_window));
        e = ERR_OK;
    }
    TRY(e);
    l.qty_to = w->qty;
    TRY(micro_add(l.amount_u, u, &l.amount_u));
    l.from_s = MIN(l.from_s, from_s);
    l.to_s = MAX(l.to_s, to_s);
    l.received_ms = b->now;
    return late_save(b->store, &l);
}

enum err close_subject_name(struct store *s, struct id subject, char ret_name[NAME_SIZE])
{
    struct instance *i = mem_alloc(sizeof(*i));
    struct project p = {0};
    struct disk d = {0};
    struct lease l;
    enum err e;

    ret_name[0] = '\0';
    if (str_starts(subject.s, "lea_")) { /* a run at the spot price */
        e = store_lease_get(s, subject, &l);
        if (e == ERR_OK)
            e = store_instance_get_any(s, l.instance, i);
        (void)str_copy(ret_name, NAME_SIZE, i->name);
    } else if (str_starts(subject.s, "prj_")) { /* traffic in tiers */
        e = store_project_get(s, subject, &p);
        (void)str_copy(ret_name, NAME_SIZE, p.name);
    } else if (str_starts(subject.s, "dsk_")) {
        e = store_disk_get_any(s, subject, &d);
        (void)str_copy(ret_name, NAME_SIZE, d.name);
    } else {
        e = store_instance_get_any(s, subject, i);
        (void)str_copy(ret_name, NAME_SIZE, i->name);
    }
    mem_free_ptr(&i);
    if (e == ERR_NOT_FOUND)
        ret_name[0] = '\0';
    return e == ERR_NOT_FOUND ? ERR_OK : e;
}
