/* op_invoice.c: invoices as a buyer asks for them and as a gateway takes them. */
#include "app/invoice.h"
#include "app/op_money.h"
#include "base/msg.h"

static enum err json_invoice(struct op *op, const struct invoice_row *r, bool with_document)
{
    struct statement_row st;
    struct party_row buyer;
    struct currency ccy;
    char gateway[NAME_SIZE];
    AUTO_FREE char *document = NULL;
    int64_t rest = 0, minor_u;

    TRY(currency_get(r->currency, &ccy));
    TRY(statement_get(op->store, r->statement, &st));
    TRY(gateway_get(op->store, r->number, gateway));
    TRY(party_get(op->store, r->project.s, &buyer));
    if (r->kind == 0)
        TRY(invoice_rest(op->store, r, &rest));
    if (with_document)
        TRY(invoice_document(op->store, r->number, &document));
    minor_u = currency_minor_u(ccy);
    json_object_begin(&op->out, NULL);
    json_str(&op->out, "number", r->number);
    json_str(&op->out, "kind", r->kind ? "credit_note" : "invoice");
    json_strf(&op->out, "month", "%04" PRId64 "-%02d", st.year, st.month);
    json_str(&op->out, "statement", st.number);
    json_str(&op->out, "takes_back", r->kind ? r->prev : NULL);
    json_str(&op->out, "reason", r->kind ? r->reason : NULL);
    json_time(&op->out, "issued_at", r->issued_ms);
    json_money(&op->out, "net", r->net_minor * minor_u, ccy);
    json_money(&op->out, "tax", r->tax_minor * minor_u, ccy);
    json_money(&op->out, "payable", r->payable_minor * minor_u, ccy);
    json_money(&op->out, "left", rest * minor_u, ccy);
    json_str(&op->out, "tax_reason", msg_tr(op->lang, tax_reason_text(st.reason)));
    json_str(&op->out, "gateway_number", gateway[0] ? gateway : NULL);
    json_raw(&op->out, "document", document);
    json_object_finish(&op->out);
    return ERR_OK;
}

/* One of the project's; an operator sees every project's. */
static enum err find(struct op *op, struct invoice_row *ret_r)
{
    const char *number = op->path_arg[0];
    enum err e = invoice_get(op->store, number, ret_r);

    if (e == ERR_OK && !op->who.is_operator && !str_eq(ret_r->project.s, op->who.project.s))
        e = ERR_NOT_FOUND;
    return e == ERR_NOT_FOUND ? people_not_found(op, "invoice", number, "invoice ls")
                              : people_try(op, e);
}

enum err op_invoice_request(struct op *op)
{
    const char *text = people_arg(op, "month", "");
    struct invoice_row r;
    struct period month;
    struct books b;

    TRY(books_open(op->store, op->now, op->who.project, &b, &op->why));
    if (period_parse(&b.zone, text, &month) != ERR_OK || month.day != 0)
        return people_invalid(op, "month", N_("a month such as 2026-03"));
    TRY(invoice_issue(op->store, op->now, op->who.project, &month, &r, &op->why));
    (void)str_copy(op->object, sizeof(op->object), r.number);
    return json_invoice(op, &r, true);
}

enum err op_invoice_list(struct op *op)
{
    struct invoice_list list = {0};
    struct page page;
    enum err e = page_open(op, &page);

    if (e == ERR_OK)
        e = invoice_list(op->store, op->who.project.s, &list);
    for (size_t i = 0; i < list.len && e == ERR_OK; i++)
        if (page_takes(&page, list.at[i].number))
            e = json_invoice(op, &list.at[i], false);
    vec_fini(&list);
    return e == ERR_OK ? page_close(op, &page) : e;
}

enum err op_invoice_get(struct op *op)
{
    struct invoice_row r;

    TRY(find(op, &r));
    return json_invoice(op, &r, true);
}

/* What is handed to the renderer, which the daemon runs outside of the core. */
enum err op_invoice_pdf(struct op *op)
{
    AUTO_FREE char *document = NULL;
    char gateway[NAME_SIZE];
    struct invoice_row r;

    TRY(find(op, &r));
    TRY(invoice_document(op->store, r.number, &document));
    TRY(gateway_get(op->store, r.number, gateway));
    json_object_begin(&op->out, NULL);
    json_str(&op->out, "gateway_number", gateway[0] ? gateway : NULL);
    json_raw(&op->out, "document", document);
    json_object_finish(&op->out);
    return ERR_OK;
}

enum err op_invoice_export(struct op *op)
{
    const char *format = query_arg(op, "format");
    AUTO_FREE char *document = NULL;
    AUTO_STRBUF struct strbuf xml;
    struct invoice_row r;
    bool as_xml = format && str_eq(format, "xml");

    strbuf_init(&xml, 8 << 20);
    if (format && !as_xml && !str_eq(format, "json"))
        return people_invalid(op, "format", N_("json or xml"));
    TRY(find(op, &r));
    TRY(invoice_document(op->store, r.number, &document));
    if (as_xml)
        TRY(invoice_xml(document, &xml, &op->why));
    json_object_begin(&op->out, NULL);
    json_strf(&op->out, "name", "%s.%s", r.number, as_xml ? "xml" : "json");
    json_str(&op->out, "type", as_xml ? "application/xml" : "application/json");
    json_str(&op->out, "content", as_xml ? strbuf_str(&xml) : document);
    json_object_finish(&op->out);
    return ERR_OK;
}

enum err op_invoice_number(struct op *op)
{
    const char *given = people_arg(op, "gateway_number", "");
    char known[NAME_SIZE], owner[NUMBER_SIZE];
    struct invoice_row r;

    TRY(find(op, &r));
    if (!given[0] || strlen(given) >= NAME_SIZE)
        return people_invalid(op, "gateway_number", N_("1 to 63 characters"));
    TRY(gateway_get(op->store, r.number, known));
    TRY(gateway_owner(op->store, given, owner));
    if ((known[0] && !str_eq(known, given)) || (owner[0] && !str_eq(owner, r.number)))
        return people_exists(op, "gateway number", known[0] ? known : given);
    if (!known[0])
        TRY(gateway_add(op->store, r.number, given, op->now));
    return json_invoice(op, &r, false);
}

enum err op_invoice_credit(struct op *op)
{
    const char *number = op->path_arg[0];
    struct invoice_row old, r;
    struct currency ccy;
    int64_t u = 0, minor = 0, residue = 0;

    TRY(find(op, &old));
    TRY(currency_get(old.currency, &ccy));
    if (people_arg(op, "amount", NULL)) {
        TRY(money_arg(op, "amount", ccy, &u));
        money_to_minor(money_of(u, ccy), &minor, &residue);
        if (u == 0 || residue != 0)
            return people_invalid(op, "amount", N_("whole minor units, such as 12.50"));
    }
    TRY(invoice_take_back(op->store, op->now, number, people_arg(op, "reason", ""), minor, &r,
                          &op->why));
    (void)str_copy(op->object, sizeof(op->object), r.number);
    return json_invoice(op, &r, true);
}

/* ---- who buys and who sells ---- */

static void json_party(struct op *op, const struct party_row *p)
{
    json_object_begin(&op->out, NULL);
    json_str(&op->out, "name", p->name);
    json_str(&op->out, "tax_id", p->tax_id);
    json_str(&op->out, "address", p->address);
    json_str(&op->out, "country", p->country);
    json_flag(&op->out, "business", p->business);
    json_flag(&op->out, "tax_id_valid", p->id_valid);
    json_time(&op->out, "tax_id_checked_at", p->id_checked_ms);
    json_str(&op->out, "tax_id_check", p->id_note[0] ? p->id_note : NULL);
    json_object_finish(&op->out);
}

static enum err text_field(struct op *op, const char *field, char *io_text, size_t size)
{
    const char *v = people_arg(op, field, NULL);

    if (v && (!str_copy(io_text, size, v) || strchr(v, '\n')))
        return people_invalid(op, field, N_("one line that is not too long"));
    return ERR_OK;
}

/* Fields that are given replace what is there; another tax id or country is not checked yet. */
static enum err party_fields(struct op *op, struct party_row *p)
{
    struct party_row was = *p;

    TRY(text_field(op, "name", p->name, sizeof(p->name)));
    TRY(text_field(op, "tax_id", p->tax_id, sizeof(p->tax_id)));
    TRY(text_field(op, "address", p->address, sizeof(p->address)));
    const char *country = people_arg(op, "country", NULL);
    if (country && country[0] &&
        (strlen(country) != 2 || country[0] < 'A' || country[0] > 'Z' || country[1] < 'A' ||
         country[1] > 'Z'))
        return people_invalid(op, "country", N_("two capital letters such as CN"));
    if (country)
        (void)str_copy(p->country, sizeof(p->country), country);
    CHECK(json_get_bool(op->body, "business", p->business, &p->business));
    if (!str_eq(was.tax_id, p->tax_id) || !str_eq(was.country, p->country)) {
        p->id_valid = false;
        p->id_checked_ms = 0;
        p->id_note[0] = '\0';
    }
    return ERR_OK;
}

enum err op_invoice_profile_get(struct op *op)
{
    struct party_row p;

    TRY(people_try(op, party_get(op->store, op->who.project.s, &p)));
    json_party(op, &p);
    return ERR_OK;
}

enum err op_invoice_profile_set(struct op *op)
{
    struct party_row p;

    TRY(people_try(op, party_get(op->store, op->who.project.s, &p)));
    TRY(party_fields(op, &p));
    TRY(people_try(op, party_save(op->store, &p)));
    json_party(op, &p);
    return ERR_OK;
}

enum err op_seller_get(struct op *op)
{
    struct party_row p;

    TRY(people_try(op, party_get(op->store, "", &p)));
    json_party(op, &p);
    return ERR_OK;
}

enum err op_seller_set(struct op *op)
{
    struct party_row p;

    TRY(people_try(op, party_get(op->store, "", &p)));
    TRY(party_fields(op, &p));
    p.business = true;
    TRY(people_try(op, party_save(op->store, &p)));
    json_party(op, &p);
    return ERR_OK;
}

/* The operator looked a buyer's tax id up (or its gateway did) and says what came out; the note is
 * the evidence, the ledger clock its time stamp. */
enum err op_buyer_check(struct op *op)
{
    const char *result = people_arg(op, "result", "");
    struct party_row p;
    struct project project;

    TRY(store_project_lookup(op->store, op->path_arg[0], &project, &op->why));
    TRY(people_try(op, party_get(op->store, project.id.s, &p)));
    if (!str_eq(result, "valid") && !str_eq(result, "invalid"))
        return people_invalid(op, "result", N_("valid or invalid"));
    if (!p.tax_id[0])
        return people_invalid(op, "project", N_("its profile has no tax id"));
    TRY(text_field(op, "note", p.id_note, sizeof(p.id_note)));
    p.id_valid = str_eq(result, "valid");
    p.id_checked_ms = op->now;
    TRY(people_try(op, party_save(op->store, &p)));
    json_party(op, &p);
    return ERR_OK;
}
