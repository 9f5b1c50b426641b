#include "store/rows_close.h"

#include "store/sql.h"

static const struct col state_cols[] = {
    TEXT_COL(struct close_state, project),
    BIGINT_COL(struct close_state, until_s),
    BIGINT_COL(struct close_state, year),
    INT_COL(struct close_state, month),
};
ROW_TYPE(state_type, "close_state", struct close_state, state_cols, 1);

enum err close_state_get(struct store *s, struct id project, struct close_state *ret_c)
{
    return row_get(s, &state_type, ret_c, "WHERE project=?", "t", project.s);
}

enum err close_state_save(struct store *s, const struct close_state *c)
{
    return row_save(s, &state_type, c);
}

static const struct col zone_cols[] = {
    TEXT_COL(struct zone_change, project),
    TEXT_COL(struct zone_change, before),
    TEXT_COL(struct zone_change, zone),
    BIGINT_COL(struct zone_change, since_s),
};
ROW_TYPE(zone_type, "project_zone", struct zone_change, zone_cols, 1);

enum err zone_change_get(struct store *s, struct id project, struct zone_change *ret_c)
{
    struct kept_list kept;

    TRY(row_kept(s, &zone_type, &kept, "WHERE project=?", "t", project.s));
    memset(ret_c, 0, sizeof(*ret_c));
    if (kept.len == 0)
        return ERR_NOT_FOUND;
    *ret_c = *(const struct zone_change *)kept.at;
    return ERR_OK;
}

enum err zone_change_save(struct store *s, const struct zone_change *c)
{
    return row_save(s, &zone_type, c);
}

static const struct col rule_cols[] = {
    TEXT_COL(struct tax_rule_row, country),   TEXT_COL(struct tax_rule_row, prefix),
    BIGINT_COL(struct tax_rule_row, from_s),  TEXT_COL(struct tax_rule_row, class),
    BIGINT_COL(struct tax_rule_row, n),       BIGINT_COL(struct tax_rule_row, d),
    BOOL_COL(struct tax_rule_row, inclusive),
};
ROW_TYPE(rule_type, "tax_rule", struct tax_rule_row, rule_cols, 3);

enum err tax_rule_add(struct store *s, const struct tax_rule_row *r)
{
    return row_save(s, &rule_type, r);
}

enum err tax_rule_list_all(struct store *s, struct tax_rule_list *ret_l)
{
    return row_list(s, &rule_type, ret_l, "ORDER BY country, prefix, from_s", "");
}

static const struct col party_cols[] = {
    TEXT_COL(struct party_row, project),  TEXT_COL(struct party_row, name),
    TEXT_COL(struct party_row, tax_id),   TEXT_COL(struct party_row, address),
    TEXT_COL(struct party_row, country),  BOOL_COL(struct party_row, business),
    BOOL_COL(struct party_row, id_valid), BIGINT_COL(struct party_row, id_checked_ms),
    TEXT_COL(struct party_row, id_note),
};
ROW_TYPE(party_type, "party", struct party_row, party_cols, 1);

enum err party_get(struct store *s, const char *project, struct party_row *ret_p)
{
    enum err e = row_get(s, &party_type, ret_p, "WHERE project=?", "t", project);

    if (e != ERR_NOT_FOUND)
        return e;
    *ret_p = (struct party_row){.project = ""};
    CHECK(str_copy(ret_p->project, sizeof(ret_p->project), project));
    return ERR_OK;
}

enum err party_save(struct store *s, const struct party_row *p)
{
    return row_save(s, &party_type, p);
}

static const struct col statement_cols[] = {
    TEXT_COL(struct statement_row, id),
    TEXT_COL(struct statement_row, project),
    BIGINT_COL(struct statement_row, year),
    INT_COL(struct statement_row, month),
    TEXT_COL(struct statement_row, zone),
    BIGINT_COL(struct statement_row, from_s),
    BIGINT_COL(struct statement_row, to_s),
    TEXT_COL(struct statement_row, currency),
    BIGINT_COL(struct statement_row, minor_u),
    TEXT_COL(struct statement_row, series),
    BIGINT_COL(struct statement_row, seq),
    TEXT_COL(struct statement_row, number),
    BIGINT_COL(struct statement_row, closed_ms),
    BIGINT_COL(struct statement_row, journal),
    BIGINT_COL(struct statement_row, line_count),
    BIGINT_COL(struct statement_row, total_u),
    BIGINT_COL(struct statement_row, residue_u),
    BIGINT_COL(struct statement_row, lines_minor),
    BIGINT_COL(struct statement_row, net_minor),
    BIGINT_COL(struct statement_row, tax_minor),
    BIGINT_COL(struct statement_row, payable_minor),
    TEXT_COL(struct statement_row, seller),
    TEXT_COL(struct statement_row, buyer),
    BOOL_COL(struct statement_row, business),
    BOOL_COL(struct statement_row, id_valid),
    TEXT_COL(struct statement_row, category),
    TEXT_COL(struct statement_row, reason),
    BOOL_COL(struct statement_row, simulated),
    BOOL_COL(struct statement_row, closed),
};
ROW_TYPE(statement_type, "statement", struct statement_row, statement_cols, 1);

enum err statement_get(struct store *s, const char *id, struct statement_row *ret_s)
{
    return row_get(s, &statement_type, ret_s, "WHERE id=?", "t", id);
}

enum err statement_save(struct store *s, const struct statement_row *r)
{
    return row_save(s, &statement_type, r);
}

enum err statement_list(struct store *s, struct id project, struct statement_list *ret_l)
{
    return row_list(s, &statement_type, ret_l, "WHERE project=? ORDER BY year, month", "t",
                    project.s);
}

enum err statement_last(struct store *s, const char *series, int64_t *ret_seq)
{
    return sql_one_i64(
        sql_open(s, "SELECT coalesce(max(seq),0) FROM statement WHERE series=?", "t", series),
        ret_seq);
}

enum err statement_newest(struct store *s, int64_t *ret_to_s)
{
    return sql_one_i64(sql_open(s, "SELECT coalesce(max(to_s),0) FROM statement", ""), ret_to_s);
}

static const struct col line_cols[] = {
    TEXT_COL(struct line_row, statement),
    BIGINT_COL(struct line_row, n),
    INT_COL(struct line_row, kind),
    TEXT_COL(struct line_row, source),
    TEXT_COL(struct line_row, subject),
    TEXT_COL(struct line_row, subject_name),
    INT_COL(struct line_row, meter),
    TEXT_COL(struct line_row, sku),
    TEXT_COL(struct line_row, price),
    BIGINT_COL(struct line_row, qty_from),
    BIGINT_COL(struct line_row, qty_to),
    BIGINT_COL(struct line_row, amount_u),
    BIGINT_COL(struct line_row, printed_minor),
    INT_COL(struct line_row, tax_group),
    BIGINT_COL(struct line_row, from_s),
    BIGINT_COL(struct line_row, to_s),
    BIGINT_COL(struct line_row, year),
    INT_COL(struct line_row, month),
    BOOL_COL(struct line_row, simulated),
};
ROW_TYPE(line_type, "statement_line", struct line_row, line_cols, 2);

enum err line_add(struct store *s, const struct line_row *l)
{
    return row_save(s, &line_type, l);
}

struct line_visit {
    line_fn *fn;
    void *user;
};

static enum err line_visit(void *user, void *row)
{
    const struct line_visit *v = user;

    return v->fn(v->user, row);
}

enum err line_each(struct store *s, const char *statement, line_fn *fn, void *user)
{
    struct line_visit v = {fn, user};
    struct line_row row;

    return row_each(s, &line_type, &row, line_visit, &v, "WHERE statement=? ORDER BY n", "t",
                    statement);
}

enum err line_of_source(struct store *s, const char *statement, const char *source,
                        struct line_row *ret_l)
{
    return row_get(s, &line_type, ret_l, "WHERE statement=? AND source=? ORDER BY n LIMIT 1", "tt",
                   statement, source);
}

enum err line_billed(struct store *s, const char *source, int64_t *ret_u)
{
    return sql_one_i64(
        sql_open(s, "SELECT coalesce(sum(amount_u),0) FROM statement_line WHERE source=?", "t",
                 source),
        ret_u);
}

enum err line_sums(struct store *s, const char *statement, struct line_sum_list *ret_l)
{
    struct sql q = sql_open(s,
                            "SELECT kind, sku, tax_group, max(meter), count(*), "
                            "sum(CASE kind WHEN 4 THEN qty_from-qty_to ELSE "
                            "qty_to-qty_from END), sum(printed_minor) FROM statement_line "
                            "WHERE statement=? GROUP BY tax_group, kind, sku "
                            "ORDER BY tax_group, kind, sku",
                            "t", statement);

    while (sql_next(&q)) {
        struct line_sum *l = vec_push(ret_l);

        l->kind = (enum line_kind)sql_i64(&q, 0);
        CHECK(str_copy(l->sku, sizeof(l->sku), sql_text(&q, 1)));
        l->tax_group = (int32_t)sql_i64(&q, 2);
        l->meter = (int32_t)sql_i64(&q, 3);
        l->lines = sql_i64(&q, 4);
        l->qty = sql_i64(&q, 5);
        l->printed_minor = sql_i64(&q, 6);
    }
    return sql_close(&q);
}

static const struct col group_cols[] = {
    TEXT_COL(struct statement_tax_row, statement),
    INT_COL(struct statement_tax_row, n),
    TEXT_COL(struct statement_tax_row, country),
    TEXT_COL(struct statement_tax_row, class),
    TEXT_COL(struct statement_tax_row, category),
    BIGINT_COL(struct statement_tax_row, rate_n),
    BIGINT_COL(struct statement_tax_row, rate_d),
    BOOL_COL(struct statement_tax_row, inclusive),
    BIGINT_COL(struct statement_tax_row, base_minor),
    BIGINT_COL(struct statement_tax_row, net_minor),
    BIGINT_COL(struct statement_tax_row, tax_minor),
    BIGINT_COL(struct statement_tax_row, gross_minor),
};
ROW_TYPE(group_type, "statement_tax", struct statement_tax_row, group_cols, 2);

enum err statement_tax_add(struct store *s, const struct statement_tax_row *r)
{
    return row_save(s, &group_type, r);
}

enum err statement_tax_list(struct store *s, const char *statement,
                            struct statement_tax_list *ret_l)
{
    return row_list(s, &group_type, ret_l, "WHERE statement=? ORDER BY n", "t", statement);
}

static const struct col late_cols[] = {
    TEXT_COL(struct late_row, rating_window), BIGINT_COL(struct late_row, year),
    INT_COL(struct late_row, month),          TEXT_COL(struct late_row, project),
    BIGINT_COL(struct late_row, qty_from),    BIGINT_COL(struct late_row, qty_to),
    BIGINT_COL(struct late_row, amount_u),    BIGINT_COL(struct late_row, from_s),
    BIGINT_COL(struct late_row, to_s),        BIGINT_COL(struct late_row, received_ms),
};
ROW_TYPE(late_type, "late_usage", struct late_row, late_cols, 3);

enum err late_get(struct store *s, const char *window, int64_t year, int month,
                  struct late_row *ret_l)
{
    return row_get(s, &late_type, ret_l, "WHERE rating_window=? AND year=? AND month=?", "tii",
                   window, year, (int64_t)month);
}

enum err late_save(struct store *s, const struct late_row *l)
{
    return row_save(s, &late_type, l);
}

enum err late_list_month(struct store *s, struct id project, int64_t year, int month,
                         struct late_list *ret_l)
{
    return row_list(s, &late_type, ret_l,
                    "WHERE project=? AND year=? AND month=? ORDER BY from_s, rating_window", "tii",
                    project.s, year, (int64_t)month);
}

static const struct col invoice_cols[] = {
    TEXT_COL(struct invoice_row, number),
    TEXT_COL(struct invoice_row, series),
    BIGINT_COL(struct invoice_row, seq),
    INT_COL(struct invoice_row, kind),
    TEXT_COL(struct invoice_row, project),
    TEXT_COL(struct invoice_row, statement),
    TEXT_COL(struct invoice_row, prev),
    TEXT_COL(struct invoice_row, reason),
    TEXT_COL(struct invoice_row, currency),
    BIGINT_COL(struct invoice_row, issued_ms),
    BIGINT_COL(struct invoice_row, net_minor),
    BIGINT_COL(struct invoice_row, tax_minor),
    BIGINT_COL(struct invoice_row, payable_minor),
};
ROW_TYPE(invoice_type, "invoice", struct invoice_row, invoice_cols, 1);

enum err invoice_add(struct store *s, const struct invoice_row *r, const char *document)
{
    return sql_run(s,
                   "INSERT INTO invoice(number, series, seq, kind, project, statement, prev, "
                   "reason, currency, issued_ms, net_minor, tax_minor, payable_minor, document) "
                   "VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
                   "ttiitttttiiiit", r->number, r->series, r->seq, (int64_t)r->kind, r->project.s,
                   r->statement, r->prev, r->reason, r->currency, r->issued_ms, r->net_minor,
                   r->tax_minor, r->payable_minor, document);
}

enum err invoice_get(struct store *s, const char *number, struct invoice_row *ret_r)
{
    return row_get(s, &invoice_type, ret_r, "WHERE number=?", "t", number);
}

enum err invoice_document(struct store *s, const char *number, char **ret_text)
{
    struct sql q = sql_open(s, "SELECT document FROM invoice WHERE number=?", "t", number);
    char *text = NULL;

    if (sql_next(&q))
        text = mem_strdup(sql_text(&q, 0));
    enum err e = sql_close(&q);
    if (e == ERR_OK && !text)
        e = ERR_NOT_FOUND;
    if (e == ERR_OK)
        *ret_text = text;
    else
        mem_free_ptr(&text);
    return e;
}

enum err invoice_list(struct store *s, const char *project, struct invoice_list *ret_l)
{
    return row_list(s, &invoice_type, ret_l,
                    "WHERE ?1='' OR project=?1 ORDER BY issued_ms DESC, number DESC", "t", project);
}

enum err invoice_of_statement(struct store *s, const char *statement, struct invoice_list *ret_l)
{
    return row_list(s, &invoice_type, ret_l, "WHERE statement=? ORDER BY issued_ms, number", "t",
                    statement);
}

enum err invoice_credits(struct store *s, const char *number, struct invoice_list *ret_l)
{
    return row_list(s, &invoice_type, ret_l, "WHERE prev=? AND prev<>'' ORDER BY issued_ms, number",
                    "t", number);
}

enum err invoice_last(struct store *s, const char *series, int64_t *ret_seq)
{
    return sql_one_i64(
        sql_open(s, "SELECT coalesce(max(seq),0) FROM invoice WHERE series=?", "t", series),
        ret_seq);
}

static const struct col invoice_tax_cols[] = {
    TEXT_COL(struct invoice_tax_row, invoice),       INT_COL(struct invoice_tax_row, n),
    BIGINT_COL(struct invoice_tax_row, net_minor),   BIGINT_COL(struct invoice_tax_row, tax_minor),
    BIGINT_COL(struct invoice_tax_row, gross_minor),
};
ROW_TYPE(invoice_tax_type, "invoice_tax", struct invoice_tax_row, invoice_tax_cols, 2);

enum err invoice_tax_add(struct store *s, const struct invoice_tax_row *r)
{
    return row_save(s, &invoice_tax_type, r);
}

enum err invoice_tax_list(struct store *s, const char *number, struct invoice_tax_list *ret_l)
{
    return row_list(s, &invoice_tax_type, ret_l, "WHERE invoice=? ORDER BY n", "t", number);
}

static enum err one_text(struct sql q, char *ret_text, size_t size)
{
    ret_text[0] = '\0';
    if (sql_next(&q))
        CHECK(str_copy(ret_text, size, sql_text(&q, 0)));
    return sql_close(&q);
}

enum err gateway_get(struct store *s, const char *number, char ret_no[NAME_SIZE])
{
    return one_text(
        sql_open(s, "SELECT gateway_no FROM invoice_gateway WHERE invoice=?", "t", number), ret_no,
        NAME_SIZE);
}

enum err gateway_owner(struct store *s, const char *gateway_no, char ret_number[NUMBER_SIZE])
{
    return one_text(
        sql_open(s, "SELECT invoice FROM invoice_gateway WHERE gateway_no=?", "t", gateway_no),
        ret_number, NUMBER_SIZE);
}

enum err gateway_add(struct store *s, const char *number, const char *gateway_no, utime_t now)
{
    return sql_run(s, "INSERT INTO invoice_gateway(invoice, gateway_no, at) VALUES(?,?,?)", "tti",
                   number, gateway_no, now);
}

enum err window_unposted(struct store *s, struct id project, int64_t year, int month,
                         char ret_id[LEDGER_KEY_SIZE])
{
    return one_text(sql_open(s,
                             "SELECT id FROM rating_window WHERE project=?1 AND rated_u<>posted_u "
                             "AND ((year=?2 AND month=?3) OR id IN (SELECT rating_window FROM "
                             "late_usage WHERE project=?1 AND year=?2 AND month=?3)) "
                             "ORDER BY lease<>'', id LIMIT 1",
                             "tii", project.s, year, (int64_t)month),
                    ret_id, LEDGER_KEY_SIZE);
}

enum err billed_first(struct store *s, struct id project, int64_t *ret_s)
{
    return sql_one_i64(sql_open(s,
                                "SELECT min((SELECT coalesce(min(from_s),9223372036854775807) FROM "
                                "rating_window WHERE project=?1),(SELECT coalesce(min(at)/1000,"
                                "9223372036854775807) FROM purchase WHERE project=?1))",
                                "t", project.s),
                       ret_s);
}

enum err journal_last(struct store *s, int64_t *ret_seq)
{
    return sql_one_i64(sql_open(s, "SELECT coalesce(max(seq),0) FROM transfer", ""), ret_seq);
}

static void source_add(struct charge_source_list *l, const char *dr, const char *cr, int64_t u)
{
    struct charge_source *c = NULL;

    for (size_t i = 0; i < l->len && !c; i++)
        if (str_eq(l->at[i].dr, dr) && str_eq(l->at[i].cr, cr))
            c = &l->at[i];
    if (!c) {
        c = vec_push(l);
        *c = (struct charge_source){.amount_u = 0};
        CHECK(str_copy(c->dr, sizeof(c->dr), dr) && str_copy(c->cr, sizeof(c->cr), cr));
    }
    c->amount_u += u;
}

/* The sources of one term's group that paid [skip, skip + u) of this window's charge in it. */
static enum err term_sources(struct store *s, const char *grp, const char *window, const char *cr,
                             int64_t skip, int64_t u, struct charge_source_list *io_l)
{
    struct sql q = sql_open(s,
                            "SELECT coalesce(sum(amount),0) FROM transfer WHERE grp=?1 AND "
                            "kind='charge' AND step=0 AND seq<(SELECT min(seq) FROM transfer WHERE "
                            "grp=?1 AND owner=?2 AND kind='charge' AND step=0)",
                            "tt", grp, window);
    int64_t from = 0, at = 0;

    TRY(sql_one_i64(q, &from));
    from += skip;
    q = sql_open(s,
                 "SELECT dr, amount FROM transfer WHERE grp=? AND kind='charge' AND step=2 "
                 "ORDER BY seq",
                 "t", grp);
    while (sql_next(&q)) {
        int64_t end = at + sql_i64(&q, 1);
        int64_t part = MIN(end, from + u) - MAX(at, from);

        if (part > 0)
            source_add(io_l, sql_text(&q, 0), cr, part);
        at = end;
    }
    return sql_close(&q);
}

enum err charge_source_list(struct store *s, const char *window, int64_t from_u, int64_t to_u,
                            bool resolve_terms, struct charge_source_list *ret_l)
{
    enum err e = ERR_OK;
    int64_t at = 0;
    struct sql q = sql_open(s,
                            "SELECT dr, cr, amount, grp FROM transfer WHERE owner=? AND step=0 AND "
                            "kind='charge' ORDER BY seq",
                            "t", window);

    while (e == ERR_OK && sql_next(&q)) {
        int64_t end = at + sql_i64(&q, 2);
        int64_t part = MIN(end, to_u) - MAX(at, from_u);

        if (part > 0 && resolve_terms && str_starts(sql_text(&q, 0), "terms."))
            e = term_sources(s, sql_text(&q, 3), window, sql_text(&q, 1),
                             MAX(from_u - at, (int64_t)0), part, ret_l);
        else if (part > 0)
            source_add(ret_l, sql_text(&q, 0), sql_text(&q, 1), part);
        at = end;
    }
    TRY(sql_close(&q));
    return e;
}

enum err charge_gifted(struct store *s, struct id project, bool *ret_yes)
{
    int64_t n = 0;

    TRY(sql_one_i64(sql_open(s,
                             "SELECT (SELECT count(*) FROM fund_grant WHERE project=?1) + "
                             "(SELECT count(*) FROM account WHERE id='gift.'||?1)",
                             "t", project.s),
                    &n));
    *ret_yes = n > 0;
    return ERR_OK;
}

static enum err purchase_rows(struct sql *q, struct purchase_line_list *ret_l)
{
    while (sql_next(q)) {
        struct purchase_line *p = vec_push(ret_l);

        *p = (struct purchase_line){.at = sql_i64(q, 2), .amount_u = sql_i64(q, 3)};
        CHECK(str_copy(p->id, sizeof(p->id), sql_text(q, 0)) &&
              str_copy(p->account, sizeof(p->account), sql_text(q, 1)));
    }
    return sql_close(q);
}

enum err purchase_line_list(struct store *s, struct id project, utime_t from_ms, utime_t to_ms,
                            struct purchase_line_list *ret_l)
{
    struct sql q = sql_open(s,
                            "SELECT p.id, p.account, p.at, sum(CASE t.kind WHEN 'purchase' THEN "
                            "t.amount ELSE -t.amount END) FROM purchase p JOIN transfer t ON "
                            "t.owner=p.id WHERE p.project=?1 AND p.at>=?2 AND p.at<?3 AND "
                            "t.kind IN ('purchase','back') AND t.effective_ms<?3 "
                            "GROUP BY p.id ORDER BY p.at, p.id",
                            "tii", project.s, from_ms, to_ms);

    return purchase_rows(&q, ret_l);
}

enum err purchase_back_list(struct store *s, struct id project, utime_t from_ms, utime_t to_ms,
                            struct purchase_line_list *ret_l)
{
    struct sql q = sql_open(s,
                            "SELECT p.id, p.account, p.at, sum(t.amount) FROM purchase p JOIN "
                            "transfer t ON t.owner=p.id WHERE p.project=?1 AND p.at<?2 AND "
                            "t.kind='back' AND t.effective_ms>=?2 AND t.effective_ms<?3 "
                            "GROUP BY p.id ORDER BY p.at, p.id",
                            "tii", project.s, from_ms, to_ms);

    return purchase_rows(&q, ret_l);
}

enum err purchase_paid(struct store *s, const char *purchase, int64_t *ret_u)
{
    return sql_one_i64(sql_open(s,
                                "SELECT coalesce(sum(amount),0) FROM transfer WHERE owner=? AND "
                                "kind='purchase'",
                                "t", purchase),
                       ret_u);
}

enum err purchase_back(struct store *s, const char *purchase, int64_t *ret_u)
{
    return sql_one_i64(sql_open(s,
                                "SELECT coalesce(sum(amount),0) FROM transfer WHERE owner=? AND "
                                "kind='back'",
                                "t", purchase),
                       ret_u);
}

enum err purchase_credits(struct store *s, const char *purchase, utime_t to_ms,
                          struct charge_source_list *ret_l)
{
    struct sql q = sql_open(s,
                            "SELECT CASE kind WHEN 'purchase' THEN dr ELSE cr END AS a, "
                            "sum(CASE kind WHEN 'purchase' THEN amount ELSE -amount END) "
                            "FROM transfer WHERE owner=? AND kind IN ('purchase','back') AND "
                            "effective_ms<? GROUP BY a ORDER BY a",
                            "ti", purchase, to_ms);

    while (sql_next(&q))
        source_add(ret_l, sql_text(&q, 0), "", sql_i64(&q, 1));
    return sql_close(&q);
}

enum err receivable_later(struct store *s, const char *account, const struct statement_row *st,
                          int64_t *ret_u)
{
    return sql_one_i64(
        sql_open(s,
                 "SELECT coalesce(sum(t.amount),0) FROM transfer t LEFT JOIN rating_window w "
                 "ON w.id=t.owner WHERE t.dr=?1 AND t.step IN (0,2) AND t.owner<>?2 AND "
                 "(w.year*12+w.month>?3 OR (w.id IS NULL AND t.effective_ms>=?4))",
                 "ttii", account, st->id, st->year * 12 + st->month, st->to_s * MS_PER_S),
        ret_u);
}
