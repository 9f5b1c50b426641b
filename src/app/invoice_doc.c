/* invoice_doc.c: the neutral document of an invoice, as JSON and as XML. Field for field it carries
 * what a fapiao platform or an EN 16931 gateway asks for; amounts are decimal texts in the
 * currency's minor digits. */
#include <stdlib.h>

#include "app/invoice.h"
#include "app/op_money.h"
#include "base/msg.h"

/* One printed line: all of one SKU in one tax group. */
struct doc_line {
    struct line_sum sum;
    int64_t net_minor;
};

static void json_minor(struct json_writer *w, const char *key, int64_t minor, struct currency ccy)
{
    char text[MONEY_TEXT_SIZE];

    money_format(money_of(minor * currency_minor_u(ccy), ccy), text, sizeof(text));
    json_str(w, key, text);
}

static void names_of(const struct line_sum *l, const char **ret_en, const char **ret_zh)
{
    static const struct {
        const char *en, *zh;
    } names[METER_COUNT] = {
        [METER_GPU] = {"GPU time", "GPU 使用时长"},
        [METER_CPU] = {"CPU seat time", "CPU 席位使用时长"},
        [METER_DISK] = {"Disk of a running instance", "运行中实例的磁盘"},
        [METER_DISK_STOPPED] = {"Disk of a stopped instance", "已停止实例的磁盘"},
        [METER_DISK_DETACHED] = {"Detached disk", "未挂载的磁盘"},
        [METER_EGRESS] = {"Traffic out", "出站流量"},
        [METER_INGRESS] = {"Traffic in", "入站流量"},
        [METER_NODE] = {"A node alone", "独占节点附加费"},
    };
    bool used = l->meter != METER_NONE;

    *ret_en = used ? names[l->meter].en : "Paid by vouchers and gifts";
    *ret_zh = used ? names[l->meter].zh : "代金券与赠金抵扣";
}

/* Σ nets of a group's lines = its net, by largest remainder; amounts may be below zero. */
static void line_nets(struct doc_line *lines, size_t n, const struct statement_tax_row *g)
{
    struct bill_share *shares = mem_alloc((n + 1) * sizeof(*shares));
    int64_t rest = g->net_minor;

    for (size_t i = 0; i < n; i++) {
        __int128 product = (__int128)lines[i].sum.printed_minor * g->net_minor;
        __int128 base = g->base_minor > 0 ? g->base_minor : 1;
        __int128 floor = product / base - (product % base < 0);

        lines[i].net_minor = g->base_minor > 0 ? (int64_t)floor : lines[i].sum.printed_minor;
        shares[i] = (struct bill_share){(int64_t)(product - floor * base), i};
        rest -= lines[i].net_minor;
    }
    for (; rest > 0 && n > 0; rest--) {
        size_t best = 0;

        for (size_t i = 1; i < n; i++)
            if (shares[i].remainder > shares[best].remainder)
                best = i;
        lines[best].net_minor++;
        shares[best].remainder = -1;
    }
    free(shares);
}

static void write_line(struct json_writer *w, const struct doc_line *l, int64_t n,
                       struct currency ccy)
{
    const char *en, *zh;

    names_of(&l->sum, &en, &zh);
    json_object_begin(w, NULL);
    json_i64(w, "n", n);
    json_str(w, "kind", line_kind_name(l->sum.kind));
    json_str(w, "sku", l->sum.sku);
    json_str(w, "name_en", en);
    json_str(w, "name_zh", zh);
    json_i64(w, "statement_lines", l->sum.lines);
    json_strf(w, "quantity", "%" PRId64, l->sum.qty);
    json_str(w, "unit", l->sum.meter != METER_NONE ? meter_unit((enum meter)l->sum.meter) : NULL);
    json_minor(w, "amount", l->sum.printed_minor, ccy);
    json_minor(w, "net", l->net_minor, ccy);
    json_i64(w, "tax_group", l->sum.tax_group + 1);
    json_object_finish(w);
}

static enum err write_lines(struct store *s, struct json_writer *w, const struct statement_row *st,
                            const struct statement_tax_list *groups, struct currency ccy)
{
    struct line_sum_list sums = {0};
    enum err e = line_sums(s, st->id, &sums);
    struct doc_line *lines = mem_alloc((sums.len + 1) * sizeof(*lines));

    for (size_t i = 0; i < sums.len; i++)
        lines[i].sum = sums.at[i];
    for (size_t i = 0, k; i < sums.len && e == ERR_OK; i = k) {
        for (k = i; k < sums.len && sums.at[k].tax_group == sums.at[i].tax_group;)
            k++;
        line_nets(lines + i, k - i, &groups->at[sums.at[i].tax_group]);
    }
    json_array_begin(w, "lines");
    for (size_t i = 0; i < sums.len && e == ERR_OK; i++)
        write_line(w, &lines[i], (int64_t)i + 1, ccy);
    json_array_finish(w);
    free(lines);
    vec_fini(&sums);
    return e;
}

/* A credit note has a line per tax group: what it takes back of it. */
static void write_credit_lines(struct json_writer *w, const struct statement_tax_list *groups,
                               const struct invoice_tax_row *taxes, struct currency ccy)
{
    int64_t n = 0;

    json_array_begin(w, "lines");
    for (size_t i = 0; i < groups->len; i++) {
        if (taxes[i].gross_minor == 0)
            continue;
        json_object_begin(w, NULL);
        json_i64(w, "n", ++n);
        json_str(w, "kind", "taken_back");
        json_str(w, "sku", "");
        json_str(w, "name_en", "Taken back");
        json_str(w, "name_zh", "红字冲减");
        json_i64(w, "statement_lines", 0);
        json_none(w, "quantity");
        json_none(w, "unit");
        json_minor(w, "amount", taxes[i].gross_minor, ccy);
        json_minor(w, "net", taxes[i].net_minor, ccy);
        json_i64(w, "tax_group", groups->at[i].n + 1);
        json_object_finish(w);
    }
    json_array_finish(w);
}

static void write_party(struct json_writer *w, const char *key, const struct party_row *p)
{
    json_object_begin(w, key);
    json_str(w, "name", p->name);
    json_str(w, "tax_id", p->tax_id[0] ? p->tax_id : NULL);
    json_str(w, "address", p->address[0] ? p->address : NULL);
    json_str(w, "country", p->country[0] ? p->country : NULL);
    json_flag(w, "business", p->business);
    json_flag(w, "tax_id_valid", p->id_valid);
    json_time(w, "tax_id_checked_at", p->id_checked_ms);
    json_str(w, "tax_id_check", p->id_note[0] ? p->id_note : NULL);
    json_object_finish(w);
}

static void write_taxes(struct json_writer *w, const struct statement_tax_list *groups,
                        const struct invoice_tax_row *taxes, struct currency ccy)
{
    json_array_begin(w, "taxes");
    for (size_t i = 0; i < groups->len; i++) {
        const struct statement_tax_row *g = &groups->at[i];

        json_object_begin(w, NULL);
        json_i64(w, "n", g->n + 1);
        json_str(w, "country", g->country);
        json_str(w, "class", g->class);
        json_str(w, "category", g->category);
        json_strf(w, "rate", "%" PRId64 "/%" PRId64, g->rate_n, g->rate_d);
        json_flag(w, "inclusive", g->inclusive);
        json_minor(w, "net", taxes[i].net_minor, ccy);
        json_minor(w, "tax", taxes[i].tax_minor, ccy);
        json_minor(w, "gross", taxes[i].gross_minor, ccy);
        json_object_finish(w);
    }
    json_array_finish(w);
}

static void write_head(struct json_writer *w, const struct invoice_row *r,
                       const struct statement_row *st)
{
    const char *text = tax_reason_text(st->reason);

    json_str(w, "format", "suanli.invoice/1");
    json_str(w, "number", r->number);
    json_str(w, "kind", r->kind ? "credit_note" : "invoice");
    json_time(w, "issued_at", r->issued_ms);
    json_str(w, "currency", r->currency);
    json_strf(w, "month", "%04" PRId64 "-%02d", st->year, st->month);
    json_str(w, "zone", st->zone);
    json_time(w, "from", st->from_s * MS_PER_S);
    json_time(w, "to", st->to_s * MS_PER_S);
    json_str(w, "statement", st->number);
    json_str(w, "takes_back", r->kind ? r->prev : NULL);
    json_str(w, "reason", r->kind ? r->reason : NULL);
    json_str(w, "tax_category", st->category);
    json_str(w, "tax_reason", st->reason);
    json_str(w, "tax_reason_en", text);
    json_str(w, "tax_reason_zh", msg_tr(LANG_ZH, text));
    json_flag(w, "simulated", st->simulated);
}

enum err invoice_document_write(struct store *s, const struct invoice_row *r,
                                const struct statement_row *st,
                                const struct statement_tax_list *groups,
                                const struct invoice_tax_row *taxes, struct strbuf *out)
{
    struct party_row seller, buyer;
    struct json_writer w;
    struct currency ccy;

    TRY(currency_get(r->currency, &ccy));
    TRY(party_get(s, "", &seller));
    TRY(party_get(s, r->project.s, &buyer));
    json_writer_init(&w, out);
    json_object_begin(&w, NULL);
    write_head(&w, r, st);
    write_party(&w, "seller", &seller);
    write_party(&w, "buyer", &buyer);
    if (r->kind)
        write_credit_lines(&w, groups, taxes, ccy);
    else
        TRY(write_lines(s, &w, st, groups, ccy));
    write_taxes(&w, groups, taxes, ccy);
    json_minor(&w, "net", r->net_minor, ccy);
    json_minor(&w, "tax", r->tax_minor, ccy);
    json_minor(&w, "payable", r->payable_minor, ccy);
    json_object_finish(&w);
    return ERR_OK;
}

/* ---- XML ---- */

static void xml_text(struct strbuf *out, const char *text)
{
    for (const char *p = text; *p; p++) {
        const char *safe = *p == '&' ? "&amp;" : *p == '<' ? "&lt;" : *p == '>' ? "&gt;" : NULL;
        unsigned char c = (unsigned char)*p;

        if (safe)
            strbuf_add(out, safe);
        else if (c >= 0x20 || c == '\n' || c == '\t')
            strbuf_add_n(out, p, 1);
    }
}

/* "lines" holds "line"; "taxes" holds "tax_group". */
static const char *item_name(const char *list)
{
    return str_eq(list, "lines") ? "line" : "tax_group";
}

static void xml_value(struct strbuf *out, const char *name, const json_t *v, int depth)
{
    const char *key;
    json_t *item;
    size_t i;

    CHECK(depth < 8);
    if (json_is_null(v))
        return;
    strbuf_addf(out, "%*s<%s>", depth * 2, "", name);
    if (json_is_object(v)) {
        strbuf_add(out, "\n");
        json_object_foreach((json_t *)(uintptr_t)v, key, item) xml_value(out, key, item, depth + 1);
        strbuf_addf(out, "%*s", depth * 2, "");
    } else if (json_is_array(v)) {
        strbuf_add(out, "\n");
        json_array_foreach(v, i, item) xml_value(out, item_name(name), item, depth + 1);
        strbuf_addf(out, "%*s", depth * 2, "");
    } else if (json_is_string(v)) {
        xml_text(out, json_string_value(v));
    } else if (json_is_integer(v)) {
        strbuf_addf(out, "%" PRId64, (int64_t)json_integer_value(v));
    } else {
        strbuf_add(out, json_is_true(v) ? "true" : "false");
    }
    strbuf_addf(out, "</%s>\n", name);
}

enum err invoice_xml(const char *document, struct strbuf *out, struct refusal *why)
{
    AUTO_JSON json_t *v = NULL;

    if (json_parse(document, strlen(document), 16 << 20, &v, NULL) != ERR_OK) {
        (void)refusef(why, ERR_CORRUPT, "what", "%s", "the document of the invoice");
        refusal_set(why, "why", "it is not JSON");
        return ERR_CORRUPT;
    }
    strbuf_add(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    xml_value(out, "invoice", v, 0);
    return ERR_OK;
}
