/* op_usage.c: the raw usage, one JSON object a line: all that anybody needs to compute the bill
 * again. Evidence of leases comes first (lease by lease, in time), a line for each part that was
 * rated, or one line with billed_from_s = billed_to_s for a slice that cost nothing; then the time
 * of disks. At most LINES_MAX lines at once: then the last line is {"next":"…"}, for `after`. */
#include "app/op_money.h"

#include <stdio.h>

#define LINES_MAX 5000

struct export
{
    struct op *op;
    struct books b;
    bool month_given;
    struct period month;
    int64_t lines;
};

static bool in_month(const struct export *x, const struct window_row *w)
{
    return !x->month_given || (w->year == x->month.year && w->month == x->month.month);
}

/* One line. w: NULL when nothing was rated. */
static enum err write_line(struct export *x, const struct slice_row *r, const struct fund_lease *l,
                           const struct span_row *s, const struct window_row *w)
{
    struct json_writer *j = &x->op->out;
    const char *gpu = l && l->meter == METER_GPU ? strstr(l->sku, "gpu.") + strlen("gpu.") : NULL;
    int64_t from = s ? s->from_s : 0, to = s ? s->to_s : 0;
    struct rate rate;

    CHECK((r && l) || (s && w));
    if (x->lines++ > 0)
        strbuf_add(j->out, "\n");
    json_writer_init(j, j->out);
    json_object_begin(j, NULL);
    json_str(j, "node", r ? r->node.s : s->node.s);
    json_str(j, "boot", r ? r->boot : NULL);
    if (r)
        json_i64(j, "seq", r->seq);
    else
        json_none(j, "seq");
    json_str(j, "instance", l ? l->instance.s : w->instance.s[0] ? w->instance.s : NULL);
    json_str(j, "lease", l ? l->lease.s : NULL);
    json_str(j, "subject", w ? w->subject.s : l->instance.s);
    json_str(j, "meter", meter_name(w ? w->meter : l->meter));
    json_str(j, "sku", w ? w->sku : l->sku);
    json_str(j, "gpu", gpu);
    json_i64(j, "gpu_count", gpu ? l->qty_per_s : 0);
    json_time(j, "t0", r ? r->t0_ms : from * MS_PER_S);
    json_time(j, "t1", r ? r->t1_ms : to * MS_PER_S);
    json_i64(j, "t0_ms", r ? r->t0_ms : from * MS_PER_S);
    json_i64(j, "t1_ms", r ? r->t1_ms : to * MS_PER_S);
    json_i64(j, "billed_from_s", from);
    json_i64(j, "billed_to_s", to);
    json_i64(j, "per_second", s ? s->qty_per_s : 0);
    json_strf(j, "quantity", "%" PRId64, s ? s->qty : 0);
    json_str(j, "unit", meter_unit(w ? w->meter : l->meter));
    if (w) {
        TRY(window_rate(x->op->store, w, &rate));
        json_strf(j, "month", "%04" PRId64 "-%02d", w->year, w->month);
        json_str(j, "price_version", w->price.s);
        json_rate(j, "price", &rate);
    } else {
        json_none(j, "month");
        json_none(j, "price_version");
        json_none(j, "price");
    }
    json_flag(j, "reversed", w && w->reversed_u != 0);
    json_i64(j, "cpu_us", r ? r->cpu_us : 0);
    json_i64(j, "memory_bytes", r ? r->memory_bytes : 0);
    json_i64(j, "rx_bytes", r ? r->rx_bytes : 0);
    json_i64(j, "tx_bytes", r ? r->tx_bytes : 0);
    json_i64(j, "disk_used_mib", r ? r->disk_used_mib : 0);
    json_i64(j, "gpu_util_pct", r ? r->gpu_util_pct : 0);
    json_flag(j, "simulated", w ? w->simulated : l->simulated);
    json_object_finish(j);
    return ERR_OK;
}

static enum err write_slice(struct export *x, const struct slice_row *r, const struct fund_lease *l)
{
    struct span_list spans = {0};
    bool here = !x->month_given ||
                (r->t0_ms >= x->month.from_s * MS_PER_S && r->t0_ms < x->month.to_s * MS_PER_S);
    bool rated = false;
    enum err e = money_span_slice(x->op->store, r, &spans);

    for (size_t i = 0; i < spans.len && e == ERR_OK; i++) {
        struct window_row w;

        e = money_window_get(x->op->store, spans.at[i].rating_window, &w);
        rated = true;
        if (e == ERR_OK && in_month(x, &w))
            e = write_line(x, r, l, &spans.at[i], &w);
    }
    vec_fini(&spans);
    if (e == ERR_OK && !rated && here)
        e = write_line(x, r, l, NULL, NULL);
    return e;
}

/* Slices of one lease from pos on, in the order of their begin. ret_next: where to go on, or -1. */
static enum err write_lease(struct export *x, const struct fund_lease *l, utime_t pos,
                            utime_t *ret_next)
{
    utime_t from = x->month_given ? x->month.from_s * MS_PER_S : INT64_MIN;
    utime_t to = x->month_given ? x->month.to_s * MS_PER_S : INT64_MAX;
    struct slice_list slices = {0};
    enum err e = money_slice_list(x->op->store, l->lease, from, to, pos, LINES_MAX + 1, &slices);

    *ret_next = -1;
    for (size_t i = 0; i < slices.len && e == ERR_OK; i++) {
        /* a page ends between two begins, so that none is lost or doubled */
        if (x->lines >= LINES_MAX && (i == 0 || slices.at[i].t0_ms != slices.at[i - 1].t0_ms)) {
            *ret_next = slices.at[i].t0_ms;
            break;
        }
        e = write_slice(x, &slices.at[i], l);
    }
    if (e == ERR_OK && *ret_next < 0 && slices.len == LINES_MAX + 1)
        *ret_next = slices.at[slices.len - 1].t0_ms + 1;
    vec_fini(&slices);
    return e;
}

static enum err write_disks(struct export *x, int64_t pos, int64_t *ret_next)
{
    struct span_list spans = {0};
    enum err e = money_span_disks(x->op->store, x->b.project, pos, LINES_MAX + 1, &spans);

    *ret_next = -1;
    for (size_t i = 0; i < spans.len && e == ERR_OK; i++) {
        struct window_row w;

        if (x->lines >= LINES_MAX) {
            *ret_next = spans.at[i].id;
            break;
        }
        e = money_window_get(x->op->store, spans.at[i].rating_window, &w);
        if (e == ERR_OK && in_month(x, &w))
            e = write_line(x, NULL, NULL, &spans.at[i], &w);
    }
    if (e == ERR_OK && *ret_next < 0 && spans.len == LINES_MAX + 1)
        *ret_next = spans.at[spans.len - 1].id + 1;
    vec_fini(&spans);
    return e;
}

static void write_next(struct export *x, const char *lease, int64_t pos)
{
    struct json_writer *j = &x->op->out;

    strbuf_add(j->out, "\n");
    json_writer_init(j, j->out);
    json_object_begin(j, NULL);
    json_strf(j, "next", "%s:%" PRId64, lease, pos);
    json_object_finish(j);
}

/* "lea_…:<ms>" or "disks:<id>" */
static enum err read_after(struct op *op, char ret_lease[ID_SIZE], int64_t *ret_pos)
{
    const char *text = query_arg(op, "after"), *colon = text ? strrchr(text, ':') : NULL;

    ret_lease[0] = '\0';
    *ret_pos = INT64_MIN;
    if (!text)
        return ERR_OK;
    if (!colon || !str_printf(ret_lease, ID_SIZE, "%.*s", (int)MIN(colon - text, ID_SIZE), text) ||
        str_parse_i64(colon + 1, INT64_MIN, INT64_MAX, ret_pos) != ERR_OK)
        return refuse(&op->why, ERR_CURSOR);
    return ERR_OK;
}

static enum err write_all(struct export *x, const struct fund_lease_list *leases, const char *after,
                          int64_t pos)
{
    int64_t next = -1;

    for (size_t i = 0; i < leases->len && !str_eq(after, "disks"); i++) {
        const struct fund_lease *l = &leases->at[i];

        if (!str_eq(l->project.s, x->b.project.s) || strcmp(l->lease.s, after) < 0)
            continue;
        TRY(write_lease(x, l, str_eq(l->lease.s, after) ? pos : INT64_MIN, &next));
        if (next >= 0) {
            write_next(x, l->lease.s, next);
            return ERR_OK;
        }
    }
    TRY(write_disks(x, str_eq(after, "disks") ? pos : 0, &next));
    if (next >= 0)
        write_next(x, "disks", next);
    return ERR_OK;
}

enum err op_usage_export(struct op *op)
{
    struct fund_lease_list leases = {0};
    struct export x = {.op = op};
    char after[ID_SIZE];
    int64_t pos;

    TRY(books_open(op->store, op->now, op->who.project, &x.b, &op->why));
    TRY(month_arg(op, &x.b, &x.month_given, &x.month));
    TRY(read_after(op, after, &pos));
    enum err e = money_lease_all(op->store, &leases);
    if (e == ERR_OK)
        e = write_all(&x, &leases, after, pos);
    vec_fini(&leases);
    if (e == ERR_OK && x.lines > 0)
        strbuf_add(op->out.out, "\n");
    return e;
}
