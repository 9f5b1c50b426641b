/* bill_check.c: lines: canonical bytes, checksums, order; and what the file says of itself. */
#include "cli/bill_check_int.h"

#include <sodium.h>
#include <stdio.h>

#include "base/msg.h"
#include "base/sha256.h"
#include "base/units.h"
#include "cli/cli.h"

enum err check_differs(struct bill_check *c, const char *fmt, ...)
{
    char text[200];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    *c->why = (struct refusal){0};
    (void)refusef(c->why, ERR_BILL_DIFFERS, "line", "%" PRId64, c->counts.lines);
    refusal_set(c->why, "why", text);
    return ERR_BILL_DIFFERS;
}

/* ---- members */

static json_t *row_next(struct check_row *r, const char *key)
{
    json_t *v = NULL;

    if (!r->bad && r->at && str_eq(json_object_iter_key(r->at), key))
        v = json_object_iter_value(r->at);
    r->bad |= v == NULL;
    if (v)
        r->at = json_object_iter_next(r->o, r->at);
    return v;
}

const char *row_text(struct check_row *r, const char *key)
{
    const char *s = json_string_value(row_next(r, key));

    r->bad |= s == NULL;
    return s ? s : "";
}

bool row_copy(struct check_row *r, const char *key, char *buf, size_t size)
{
    if (!str_copy(buf, size, row_text(r, key)))
        r->bad = true;
    return !r->bad;
}

int64_t row_i64(struct check_row *r, const char *key)
{
    const json_t *v = row_next(r, key);

    r->bad |= !json_is_integer(v);
    return json_integer_value(v);
}

int64_t row_num(struct check_row *r, const char *key)
{
    const char *s = row_text(r, key);
    char again[24];
    int64_t v = 0;

    if (str_parse_i64(s, INT64_MIN, INT64_MAX, &v) != ERR_OK ||
        !str_printf(again, sizeof(again), "%" PRId64, v) || !str_eq(again, s))
        r->bad = true;
    return v;
}

bool row_flag(struct check_row *r, const char *key)
{
    const json_t *v = row_next(r, key);

    r->bad |= !json_is_boolean(v);
    return json_is_true(v);
}

const json_t *row_array(struct check_row *r, const char *key)
{
    const json_t *v = row_next(r, key);

    r->bad |= !json_is_array(v);
    return v;
}

utime_t row_time(struct check_row *r, const char *key)
{
    const json_t *v = row_next(r, key);

    r->bad |= !json_is_integer(v) && !json_is_null(v);
    return json_is_integer(v) ? json_integer_value(v) : UTIME_NEVER;
}

/* ---- head, zone, prices, total, end */

static enum err check_head_line(struct bill_check *c, struct check_row *r)
{
    struct bill_said *s = &c->said;
    char format[32], currency[8];
    unsigned char key[SIGN_KEY_SIZE];

    (void)row_copy(r, "format", format, sizeof(format));
    int64_t rules = row_i64(r, "rules");
    (void)row_copy(r, "project", c->project.s, sizeof(c->project.s));
    (void)row_copy(r, "name", s->project, sizeof(s->project));
    (void)row_copy(r, "month", s->month, sizeof(s->month));
    (void)row_copy(r, "zone", s->zone, sizeof(s->zone));
    (void)row_copy(r, "zone_before", c->before_name, sizeof(c->before_name));
    (void)row_copy(r, "currency", currency, sizeof(currency));
    c->month.from_s = row_i64(r, "from_s");
    c->month.to_s = row_i64(r, "to_s");
    s->cut_s = row_i64(r, "cut_s");
    s->open = row_flag(r, "open");
    if (!row_copy(r, "key", s->key, sizeof(s->key)))
        return ERR_OK;
    if (!str_eq(format, "suanli.bill.1") || rules != 1)
        return check_differs(c, tr("a format or rules that this version does not know"));
    if (currency_get(currency, &s->ccy) != ERR_OK || !hex_read(s->key, key, sizeof(key)))
        return check_differs(c, tr("currency or key"));
    if (s->cut_s < c->month.from_s || s->cut_s > c->month.to_s ||
        (!s->open && s->cut_s != c->month.to_s))
        return check_differs(c, tr("the time it goes to is not in its month"));
    c->has_zone = zone_builtin(s->zone, &c->zone);
    c->has_before = zone_builtin(c->before_name, &c->before);
    return ERR_OK;
}

/* The month's borders, once the zone is known. */
static enum err month_over(struct bill_check *c)
{
    struct period p;

    if (c->has_zone && c->has_before) {
        period_month_at(&c->before, c->month.from_s, &p);
        if (p.from_s != c->month.from_s)
            return check_differs(c, tr("the zone %s changes within a month"), c->before_name);
        zone_follow(&c->zone, &c->before, c->month.from_s);
    }
    if (!c->has_zone || c->has_before != (c->before_name[0] != '\0') ||
        period_parse(&c->zone, c->said.month, &p) != ERR_OK || p.day != 0)
        return check_differs(c, tr("the zone %s is not in the file"), c->said.zone);
    if (p.from_s != c->month.from_s || p.to_s != c->month.to_s)
        return check_differs(c, tr("the borders of the month are others in its zone"));
    c->month = p;
    return ERR_OK;
}

static enum err check_zone_line(struct bill_check *c, struct check_row *r)
{
    const char *name = row_text(r, "name"), *text = row_text(r, "tzif");
    bool second = c->has_zone;
    bool *has = second ? &c->has_before : &c->has_zone;
    unsigned char **bytes = &c->tzif[second];
    size_t max = strlen(text), n = 0;

    if (r->bad)
        return ERR_OK;
    if (*has || !str_eq(name, second ? c->before_name : c->said.zone) || !name[0])
        return check_differs(c, tr("not the zone of the head"));
    *bytes = mem_alloc(max + 1);
    if (sodium_base642bin(*bytes, max + 1, text, max, NULL, &n, NULL,
                          sodium_base64_VARIANT_ORIGINAL) != 0 ||
        zone_parse(name, *bytes, n, second ? &c->before : &c->zone) != ERR_OK)
        return check_differs(c, tr("not the bytes of a zone"));
    *has = true;
    return ERR_OK;
}

static enum err check_price_line(struct bill_check *c, struct check_row *r)
{
    struct check_price p = {0}, *last = c->prices.len ? &c->prices.at[c->prices.len - 1] : NULL;
    char currency[8], tiers[RATE_TIERS_TEXT_SIZE];
    struct price_rate first;
    int64_t cap_u, cap_qty;

    (void)row_copy(r, "id", p.v.id.s, sizeof(p.v.id.s));
    (void)row_copy(r, "sku", p.sku, sizeof(p.sku));
    (void)row_copy(r, "currency", currency, sizeof(currency));
    first.p = row_num(r, "p");
    first.d = row_num(r, "d");
    (void)row_copy(r, "tiers", tiers, sizeof(tiers));
    cap_u = row_num(r, "cap_u");
    cap_qty = row_num(r, "cap_qty");
    p.v.valid_from_s = row_i64(r, "valid_from_s");
    p.v.announced_s = row_i64(r, "announced_s");
    p.v.notice_s = row_i64(r, "notice_s");
    if (r->bad)
        return ERR_OK;
    if (!str_eq(currency, c->said.ccy.code) ||
        rate_of_tiers(first, tiers, cap_u, cap_qty, &p.v.rate) != ERR_OK || p.v.notice_s < 0 ||
        p.v.announced_s > INT64_MAX / 2 || p.v.notice_s > INT64_MAX / 2)
        return check_differs(c, tr("not a price of this currency"));
    if (last && (strcmp(last->sku, p.sku) > 0 ||
                 (str_eq(last->sku, p.sku) && last->v.valid_from_s > p.v.valid_from_s)))
        return check_differs(c, tr("price versions out of order"));
    for (size_t i = 0; i < c->prices.len; i++)
        if (str_eq(c->prices.at[i].v.id.s, p.v.id.s))
            return check_differs(c, tr("price version %s twice"), p.v.id.s);
    *vec_push(&c->prices) = p;
    return ERR_OK;
}

static enum err check_total_line(struct bill_check *c, struct check_row *r)
{
    int64_t windows = row_i64(r, "windows"), rated = row_num(r, "rated_u");
    int64_t posted = row_num(r, "posted_u");

    if (r->bad)
        return ERR_OK;
    if (windows != c->counts.windows || rated != c->counts.rated_u || posted != c->counts.posted_u)
        return check_differs(c, tr("the total is %ld in the file, %ld as counted (micro-units)"),
                             rated, c->counts.rated_u);
    return ERR_OK;
}

static enum err check_end_line(struct bill_check *c, struct check_row *r)
{
    unsigned char message[16 + LEDGER_HASH_SIZE] = "suanli.bill.1";
    unsigned char key[SIGN_KEY_SIZE], sig[SIGN_SIZE];
    int64_t lines = row_i64(r, "lines");
    const char *seal = row_text(r, "seal");

    if (r->bad)
        return ERR_OK;
    memcpy(message + 16, c->digest, sizeof(c->digest)); /* as it was before this line */
    if (!hex_read(c->said.key, key, sizeof(key)) || !hex_read(seal, sig, sizeof(sig)) ||
        !sign_check(key, message, sizeof(message), sig))
        return check_differs(c, tr("the seal is not that of the key in the head"));
    if (lines != c->counts.lines)
        return check_differs(c, tr("%ld lines are said, %ld are here"), lines, c->counts.lines);
    c->ended = true;
    return ERR_OK;
}

/* ---- one line */

static const struct kind {
    const char *name;
    int rank;
    bool once;
    check_kind *take;
} kinds[] = {
    {"head", 1, true, check_head_line},
    {"zone", 2, false, check_zone_line},
    {"price", 3, false, check_price_line},
    {"lease", 4, false, check_lease_line},
    {"gap", 4, false, check_gap_line},
    {"key", 4, false, check_key_line},
    {"boot", 4, false, check_boot_line},
    {"slice", 4, false, check_slice_line},
    {"window", 5, false, check_window_line},
    {"span", 5, false, check_span_line},
    {"statement", 6, true, check_statement_line},
    {"line", 7, false, check_row_line},
    {"tax", 8, false, check_tax_line},
    {"invoice", 9, false, check_invoice_line},
    {"journal", 10, true, check_journal_line},
    {"account", 11, false, check_account_line},
    {"transfer", 12, false, check_transfer_line},
    {"rows", 12, false, check_rows_line},
    {"day", 12, false, check_day_line},
    {"total", 13, true, check_total_line},
    {"end", 14, true, check_end_line},
};

/* Leaving lines of some rank behind. */
static enum err rank_over(struct bill_check *c, int to)
{
    if (c->rank < 3 && to >= 3)
        TRY(month_over(c));
    if (c->rank < 5 && to >= 5)
        TRY(check_lease_over(c));
    if (c->rank < 6 && to >= 6) {
        TRY(check_window_over(c));
        TRY(check_seconds_over(c));
        check_windows_sort(c);
    }
    if (c->rank < 10 && to >= 10)
        TRY(check_statement_over(c));
    if (c->rank < 13 && to >= 13) {
        TRY(check_journal_over(c));
        TRY(check_close_over(c));
    }
    return ERR_OK;
}

static void canon_value(struct json_writer *w, const char *key, const json_t *v)
{
    const char *k;
    json_t *item;
    size_t i;

    if (json_is_string(v)) {
        json_str(w, key, json_string_value(v));
    } else if (json_is_integer(v)) {
        json_i64(w, key, json_integer_value(v));
    } else if (json_is_boolean(v)) {
        json_flag(w, key, json_is_true(v));
    } else if (json_is_array(v)) {
        json_array_begin(w, key);
        json_array_foreach(v, i, item) canon_value(w, NULL, item);
        json_array_finish(w);
    } else if (json_is_object(v)) {
        json_object_begin(w, key);
        json_object_foreach((json_t *)(uintptr_t)v, k, item) canon_value(w, k, item);
        json_object_finish(w);
    } else {
        json_none(w, key); /* null; a fraction too, which then differs */
    }
}

static bool is_canonical(const json_t *o, const char *text, size_t len)
{
    AUTO_STRBUF struct strbuf out = {0};
    struct json_writer w;

    strbuf_init(&out, BILL_LINE_MAX * 2);
    json_writer_init(&w, &out);
    canon_value(&w, NULL, o);
    return out.len == len && memcmp(out.data, text, len) == 0;
}

/* The checksum is the last member; the digest goes on over what is before it. */
static enum err line_sum(struct bill_check *c, struct check_row *r, const char *text, size_t len,
                         unsigned char ret_digest[LEDGER_HASH_SIZE])
{
    const size_t tail = strlen(",\"sum\":\"0123456789abcdef\"}");
    const json_t *sum = json_object_get(r->o, "sum");
    char hex[2 * LEDGER_HASH_SIZE + 1];
    struct sha256 h;

    if (!json_is_string(sum) || len <= tail || memcmp(text + len - tail, ",\"sum\":\"", 8) != 0)
        return check_differs(c, tr("it has no checksum at its end"));
    sha256_init(&h);
    sha256_add(&h, c->digest, LEDGER_HASH_SIZE);
    sha256_add(&h, text, len - tail);
    sha256_finish(&h, ret_digest);
    hex_write(ret_digest, LEDGER_HASH_SIZE, hex);
    hex[16] = '\0';
    if (!str_eq(hex, json_string_value(sum)))
        return check_differs(c, tr("it is not as it was exported: its checksum differs"));
    return ERR_OK;
}

static enum err line_take(struct bill_check *c, struct check_row *r)
{
    const struct kind *k = NULL;
    const char *name;

    r->at = json_object_iter(r->o);
    name = row_text(r, "k");
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        if (str_eq(kinds[i].name, name))
            k = &kinds[i];
    if (!k)
        return check_differs(c, tr("a kind of line that this version does not know"));
    if (k->rank < c->rank || (k->once && k->rank == c->rank) || (c->rank == 0 && k->rank != 1) ||
        c->ended || (k->rank == 14 && c->rank != 13))
        return check_differs(c, tr("a line of kind %s does not belong here"), name);
    TRY(rank_over(c, k->rank));
    c->rank = k->rank;
    TRY(k->take(c, r));
    if (r->bad || !r->at || !str_eq(json_object_iter_key(r->at), "sum") ||
        json_object_iter_next(r->o, r->at))
        return check_differs(c, tr("its members are not those of a line of kind %s"), name);
    return ERR_OK;
}

enum err bill_check_line(struct bill_check *c, const char *text, size_t len, struct refusal *why)
{
    struct check_row r = {.c = c};
    unsigned char digest[LEDGER_HASH_SIZE];
    AUTO_JSON json_t *o = NULL;

    c->why = why;
    c->counts.lines++;
    if (json_parse(text, len, BILL_LINE_MAX, &o, NULL) != ERR_OK || !json_is_object(o))
        return check_differs(c, tr("it is not a line of a bill file"));
    if (!is_canonical(o, text, len))
        return check_differs(c, tr("it is not written in the one way it can be (spaces, escapes)"));
    r.o = o;
    TRY(line_sum(c, &r, text, len, digest));
    TRY(line_take(c, &r));
    memcpy(c->digest, digest, sizeof(c->digest));
    return ERR_OK;
}

enum err bill_check_finish(struct bill_check *c, struct refusal *why)
{
    c->why = why;
    if (!c->ended) {
        c->counts.lines++;
        return check_differs(c, tr("the file ends before its last line"));
    }
    if (c->wants_head && !c->found_head)
        return check_differs(c, tr("the daily head that was given is not in the chain"));
    return ERR_OK;
}

struct bill_check *bill_check_new(const char *want_head)
{
    struct bill_check *c = mem_alloc(sizeof(*c));

    CHECK(sign_open());
    c->wants_head = want_head != NULL;
    if (want_head && !hex_read(want_head, c->want_head, sizeof(c->want_head)))
        bill_check_free_ptr(&c);
    return c;
}

void bill_check_free_ptr(struct bill_check **io_c)
{
    struct bill_check *c = *io_c;

    if (!c)
        return;
    VEC_FOREACH (l, &c->leases) {
        vec_fini(&l->gaps);
        vec_fini(&l->cover);
    }
    vec_fini(&c->prices);
    vec_fini(&c->keys);
    vec_fini(&c->leases);
    vec_fini(&c->windows);
    vec_fini(&c->seconds);
    vec_fini(&c->accounts);
    vec_fini(&c->raw);
    vec_fini(&c->told);
    free(c->tzif[0]);
    free(c->tzif[1]);
    check_close_fini(c);
    free(c);
    *io_c = NULL;
}

const struct bill_counts *bill_check_counts(const struct bill_check *c)
{
    return &c->counts;
}

const struct bill_said *bill_check_said(const struct bill_check *c)
{
    return &c->said;
}
