/* cmd_invoice.c: invoices as files and on the screen. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/table.h"

static bool write_to(FILE *f, const char *data, size_t len)
{
    return fwrite(data, 1, len, f) == len && fflush(f) == 0;
}

static bool write_new(const char *path, const char *data, size_t len)
{
    FILE *f = fopen(path, "wbe");
    bool ok;

    if (!f)
        return false;
    ok = write_to(f, data, len);
    return fclose(f) == 0 && ok;
}

static int write_file(struct cli *c, const char *path, const char *data, size_t len)
{
    struct refusal why;

    if (str_eq(path, "-") ? write_to(stdout, data, len) : write_new(path, data, len)) {
        if (!str_eq(path, "-"))
            say(c, tr("Written: %s"), path);
        return 0;
    }
    (void)refusef(&why, ERR_SYSTEM, "call", "%s", path);
    refusal_set(&why, "why", strerror(errno));
    return fail(c, &why);
}

static void print_file(const char *path, size_t len)
{
    AUTO_STRBUF struct strbuf b;
    struct json_writer w;

    strbuf_init(&b, 16384);
    json_writer_init(&w, &b);
    json_object_begin(&w, NULL);
    json_str(&w, "file", path);
    json_i64(&w, "bytes", (int64_t)len);
    json_object_finish(&w);
    puts(strbuf_str(&b));
}

int cmd_invoice_pdf(struct cli *c, struct call *call)
{
    AUTO_ANSWER struct answer a = {0};
    const char *output = arg_str(call, "output");
    AUTO_STRBUF struct strbuf name;

    strbuf_init(&name, 256);
    answer_init(&a);
    if (!call_send(c, call, &a))
        return a.exit;
    strbuf_addf(&name, "%s.pdf", arg_str(call, "number"));
    if (!output)
        output = strbuf_str(&name);
    int e = write_file(c, output, a.body.data, a.body.len);
    if (e == 0 && c->json && !str_eq(output, "-"))
        print_file(output, a.body.len);
    return e;
}

int cmd_invoice_export(struct cli *c, struct call *call)
{
    AUTO_ANSWER struct answer a = {0};
    const char *output = arg_str(call, "output"), *content;

    answer_init(&a);
    if (!call_send(c, call, &a))
        return a.exit;
    if (c->json)
        return view_print(c, call->verb, &a);
    content = field_str(a.json, "content");
    return write_file(c, output ? output : "-", content, strlen(content));
}

static void line(const char *label, const char *value)
{
    AUTO_STRBUF struct strbuf b;

    strbuf_init(&b, 4096);
    table_pad(&b, tr(label), 16, false);
    if (*value)
        printf("%s%s\n", strbuf_str(&b), value);
}

static void money_line(const char *label, const json_t *o, const char *key)
{
    char text[64];

    text_money(json_object_get(o, key), text, sizeof(text));
    line(label, text);
}

static void print_lines(struct cli *c, const json_t *document)
{
    static const char *const head[] = {N_("ITEM"), N_("FOR"),    N_("QUANTITY"),
                                       N_("NET"),  N_("AMOUNT"), NULL};
    struct table t;
    json_t *l;
    size_t i;

    table_init(&t, head, "<<>>>");
    json_array_foreach(json_object_get(document, "lines"), i, l)
    {
        table_add(&t, field_str(l, c->lang == LANG_ZH ? "name_zh" : "name_en"));
        table_add(&t, field_str(l, "sku"));
        table_addf(&t, "%s %s", field_str(l, "quantity"), field_str(l, "unit"));
        table_add(&t, field_str(l, "net"));
        table_add(&t, field_str(l, "amount"));
    }
    if (t.cells > t.columns)
        table_print(&t, stdout, c->color);
    table_fini(&t);
}

int cmd_invoice_show(struct cli *c, struct call *call)
{
    AUTO_ANSWER struct answer a = {0};
    const json_t *d;

    answer_init(&a);
    if (!call_send(c, call, &a))
        return a.exit;
    if (c->json || c->quiet)
        return view_print(c, call->verb, &a);
    d = json_object_get(a.json, "document");
    line(N_("number"), field_str(a.json, "number"));
    line(N_("gateway number"), field_str(a.json, "gateway_number"));
    line(N_("takes back"), field_str(a.json, "takes_back"));
    line(N_("reason"), field_str(a.json, "reason"));
    line(N_("month"), field_str(a.json, "month"));
    line(N_("statement"), field_str(a.json, "statement"));
    line(N_("issued"), field_str(a.json, "issued_at"));
    line(N_("seller"), field_str(json_object_get(d, "seller"), "name"));
    line(N_("buyer"), field_str(json_object_get(d, "buyer"), "name"));
    print_lines(c, d);
    money_line(N_("net"), a.json, "net");
    money_line(N_("tax"), a.json, "tax");
    money_line(N_("payable"), a.json, "payable");
    line(N_("tax treatment"), field_str(a.json, "tax_reason"));
    return 0;
}
