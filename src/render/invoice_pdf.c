/* invoice_pdf.c: pages of A4. Laid out twice: the first time nothing is drawn and pages are
 * counted, the second time each says "n / of". */
#include "render/invoice_pdf.h"

#include <cairo-pdf.h>
#include <pango/pangocairo.h>

#include "base/msg.h"

#define PAGE_W 595.0
#define PAGE_H 842.0
#define LEFT 42.0
#define RIGHT (PAGE_W - 42.0)
#define TOP 46.0
#define BOTTOM (PAGE_H - 56.0)
#define FONT "WenQuanYi Micro Hei, Droid Sans Fallback, sans-serif"

struct page {
    cairo_t *cr;
    PangoLayout *layout;
    const json_t *doc;
    bool drawing;
    int number, of;
    double y;
};

/* Columns of the table of lines: where they begin and end. */
enum { COL_N, COL_ITEM, COL_QUANTITY, COL_NET, COL_AMOUNT, COL_TAX, COLS };
static const struct {
    const char *head;
    double from, to;
    bool right;
} columns[COLS] = {
    [COL_N] = {"#", LEFT, LEFT + 24, false},
    [COL_ITEM] = {"项目 Item", LEFT + 26, LEFT + 222, false},
    [COL_QUANTITY] = {"数量 Quantity", LEFT + 226, LEFT + 338, true},
    [COL_NET] = {"不含税 Net", LEFT + 342, LEFT + 412, true},
    [COL_AMOUNT] = {"金额 Amount", LEFT + 416, LEFT + 484, true},
    [COL_TAX] = {"税组 Tax", LEFT + 486, RIGHT, true},
};

static const char *text_of(const json_t *o, const char *key)
{
    const char *v = NULL;

    return json_get_str(o, key, "", &v) && v ? v : "";
}

/* Text of at most the width, right-aligned or not, at y; returns its height. */
static double put(struct page *p, const char *text, double from, double to, bool right, int size)
{
    PangoFontDescription *font = pango_font_description_from_string(FONT);
    int h;

    pango_font_description_set_size(font, size * PANGO_SCALE);
    pango_layout_set_font_description(p->layout, font);
    pango_font_description_free(font);
    pango_layout_set_width(p->layout, (int)((to - from) * PANGO_SCALE));
    pango_layout_set_wrap(p->layout, PANGO_WRAP_WORD_CHAR);
    pango_layout_set_alignment(p->layout, right ? PANGO_ALIGN_RIGHT : PANGO_ALIGN_LEFT);
    pango_layout_set_text(p->layout, text, -1);
    pango_layout_get_pixel_size(p->layout, NULL, &h);
    if (p->drawing) {
        cairo_move_to(p->cr, from, p->y);
        pango_cairo_show_layout(p->cr, p->layout);
    }
    return h;
}

static void rule(struct page *p)
{
    if (p->drawing) {
        cairo_set_line_width(p->cr, 0.5);
        cairo_move_to(p->cr, LEFT, p->y);
        cairo_line_to(p->cr, RIGHT, p->y);
        cairo_stroke(p->cr);
    }
    p->y += 4;
}

static void page_end(struct page *p)
{
    char text[64], number[128];
    double y = p->y;
    bool ok = str_printf(text, sizeof(text), "第 %d / %d 页  Page %d of %d", p->number, p->of,
                         p->number, p->of) &&
              str_printf(number, sizeof(number), "%.100s", text_of(p->doc, "number"));

    CHECK(ok);
    p->y = BOTTOM + 20;
    put(p, number, LEFT, LEFT + 250, false, 8);
    put(p, text, RIGHT - 200, RIGHT, true, 8);
    p->y = y;
    if (p->drawing)
        cairo_show_page(p->cr);
}

static void page_begin(struct page *p)
{
    p->number++;
    p->y = TOP;
}

static void table_head(struct page *p)
{
    double h = 0;

    for (int i = 0; i < COLS; i++)
        h = MAX(h, put(p, columns[i].head, columns[i].from, columns[i].to, columns[i].right, 8));
    p->y += h + 2;
    rule(p);
}

/* Room for something of that height, on a new page when it does not fit here. */
static void need(struct page *p, double h, bool in_table)
{
    if (p->y + h <= BOTTOM)
        return;
    page_end(p);
    page_begin(p);
    if (in_table)
        table_head(p);
}

static void label(struct page *p, const char *name, const char *value, double from, double to)
{
    AUTO_STRBUF struct strbuf b;

    strbuf_init(&b, 8192);
    if (!value[0])
        return;
    strbuf_addf(&b, "%s %s", name, value);
    p->y += put(p, strbuf_str(&b), from, to, false, 9) + 2;
}

static double party(struct page *p, const char *title, const json_t *o, double from, double to)
{
    double y = p->y, end;

    p->y += put(p, title, from, to, false, 10) + 3;
    label(p, "名称 Name:", text_of(o, "name"), from, to);
    label(p, "税号 Tax ID:", text_of(o, "tax_id"), from, to);
    label(p, "地址 Address:", text_of(o, "address"), from, to);
    label(p, "国家 Country:", text_of(o, "country"), from, to);
    if (text_of(o, "tax_id_checked_at")[0]) {
        AUTO_STRBUF struct strbuf b;

        strbuf_init(&b, 4096);
        strbuf_addf(&b, "%s %s %s",
                    json_is_true(json_object_get(o, "tax_id_valid")) ? "有效 valid"
                                                                     : "无效 not valid",
                    text_of(o, "tax_id_checked_at"), text_of(o, "tax_id_check"));
        label(p, "税号核验 Tax ID check:", strbuf_str(&b), from, to);
    }
    end = p->y;
    p->y = y;
    return end;
}

static void head(struct page *p, const char *gateway_no)
{
    const json_t *d = p->doc;
    bool credit = str_eq(text_of(d, "kind"), "credit_note");
    double y;

    p->y += put(p, credit ? "红字发票 Credit note" : "发票 Invoice", LEFT, RIGHT, false, 18) + 6;
    label(p, "编号 Number:", text_of(d, "number"), LEFT, RIGHT);
    label(p, "税控平台编号 Gateway number:", gateway_no ? gateway_no : "", LEFT, RIGHT);
    label(p, "冲减发票 Takes back:", text_of(d, "takes_back"), LEFT, RIGHT);
    label(p, "原因 Reason:", text_of(d, "reason"), LEFT, RIGHT);
    label(p, "开具时间 Issued:", text_of(d, "issued_at"), LEFT, RIGHT);
    label(p, "账期 Month:", text_of(d, "month"), LEFT, RIGHT);
    label(p, "时区 Zone:", text_of(d, "zone"), LEFT, RIGHT);
    label(p, "账单 Statement:", text_of(d, "statement"), LEFT, RIGHT);
    label(p, "币种 Currency:", text_of(d, "currency"), LEFT, RIGHT);
    if (json_is_true(json_object_get(d, "simulated")))
        label(p, "模拟 Simulated:", "含模拟 GPU，非真实交易 contains simulated cards", LEFT, RIGHT);
    p->y += 8;
    y = party(p, "销售方 Seller", json_object_get(d, "seller"), LEFT, LEFT + 245);
    p->y = MAX(y, party(p, "购买方 Buyer", json_object_get(d, "buyer"), LEFT + 265, RIGHT)) + 10;
}

static void line(struct page *p, const json_t *l)
{
    AUTO_STRBUF struct strbuf item, quantity;
    char n[24], tax[24];
    int64_t number = 0, group = 0;
    double h;

    strbuf_init(&item, 4096);
    strbuf_init(&quantity, 4096);
    if (!json_get_i64(l, "n", 0, &number) || !json_get_i64(l, "tax_group", 0, &group))
        number = group = 0;
    strbuf_addf(&item, "%s %s %s", text_of(l, "name_zh"), text_of(l, "name_en"), text_of(l, "sku"));
    strbuf_addf(&quantity, "%s %s", text_of(l, "quantity"), text_of(l, "unit"));
    bool ok = str_printf(n, sizeof(n), "%" PRId64, number) &&
              str_printf(tax, sizeof(tax), "%" PRId64, group);
    CHECK(ok);
    const char *cells[COLS] = {
        n, strbuf_str(&item), strbuf_str(&quantity), text_of(l, "net"), text_of(l, "amount"), tax};
    bool drawing = p->drawing;
    p->drawing = false;
    h = 0;
    for (int i = 0; i < COLS; i++)
        h = MAX(h, put(p, cells[i], columns[i].from, columns[i].to, columns[i].right, 9));
    p->drawing = drawing;
    need(p, h + 4, true);
    for (int i = 0; i < COLS; i++)
        put(p, cells[i], columns[i].from, columns[i].to, columns[i].right, 9);
    p->y += h + 4;
}

static void amount(struct page *p, const char *name, const char *value, int size)
{
    double h;

    need(p, 22, false);
    h = put(p, name, LEFT + 226, LEFT + 400, true, size);
    h = MAX(h, put(p, value, LEFT + 404, LEFT + 484, true, size));
    p->y += h + 3;
}

static void tax_line(struct page *p, const json_t *t)
{
    AUTO_STRBUF struct strbuf b;
    int64_t n = 0;
    bool ok = json_get_i64(t, "n", 0, &n);

    strbuf_init(&b, 4096);
    strbuf_addf(&b, "%" PRId64 ". %s %s %s, %s: 净额 net %s + 税额 tax %s = %s", ok ? n : 0,
                text_of(t, "country"), text_of(t, "class"), text_of(t, "rate"),
                text_of(t, "category"), text_of(t, "net"), text_of(t, "tax"), text_of(t, "gross"));
    need(p, 16, false);
    p->y += put(p, strbuf_str(&b), LEFT, RIGHT, false, 9) + 2;
}

static void totals(struct page *p)
{
    const json_t *d = p->doc, *t;
    size_t i;

    p->y += 2;
    need(p, 70, false);
    rule(p);
    amount(p, "不含税合计 Net total", text_of(d, "net"), 10);
    amount(p, "税额合计 Tax total", text_of(d, "tax"), 10);
    amount(p, "应付合计 Total payable", text_of(d, "payable"), 12);
    p->y += 8;
    need(p, 32, false);
    p->y += put(p, "税组 Tax groups (S, AE, Z, O: EN 16931)", LEFT, RIGHT, false, 9) + 2;
    json_array_foreach(json_object_get(d, "taxes"), i, t) tax_line(p, t);
    need(p, 40, false);
    label(p, "计税依据:", text_of(d, "tax_reason_zh"), LEFT, RIGHT);
    label(p, "Tax treatment:", text_of(d, "tax_reason_en"), LEFT, RIGHT);
    if (str_eq(text_of(d, "tax_category"), "AE"))
        label(p, "", "Reverse charge", LEFT, RIGHT);
}

static void pages(struct page *p, const char *gateway_no)
{
    const json_t *l;
    size_t i;

    p->number = 0;
    page_begin(p);
    head(p, gateway_no);
    table_head(p);
    json_array_foreach(json_object_get(p->doc, "lines"), i, l) line(p, l);
    totals(p);
    page_end(p);
}

enum err invoice_pdf(const json_t *document, const char *gateway_no, cairo_write_func_t write,
                     void *user, struct refusal *why)
{
    struct page p = {.doc = document};
    cairo_surface_t *surface;
    cairo_status_t status;

    if (!str_eq(text_of(document, "format"), "suanli.invoice/1") ||
        !json_is_array(json_object_get(document, "lines"))) {
        (void)refusef(why, ERR_VALIDATION, "field", "format");
        refusal_set(why, "why", "suanli.invoice/1 is expected");
        return ERR_VALIDATION;
    }
    surface = cairo_pdf_surface_create_for_stream(write, user, PAGE_W, PAGE_H);
    cairo_pdf_surface_set_metadata(surface, CAIRO_PDF_METADATA_TITLE, text_of(document, "number"));
    cairo_pdf_surface_set_metadata(surface, CAIRO_PDF_METADATA_CREATE_DATE,
                                   text_of(document, "issued_at"));
    p.cr = cairo_create(surface);
    p.layout = pango_cairo_create_layout(p.cr);
    pages(&p, gateway_no);
    p.of = p.number;
    p.drawing = true;
    pages(&p, gateway_no);
    g_object_unref(p.layout);
    status = cairo_status(p.cr);
    cairo_destroy(p.cr);
    cairo_surface_finish(surface);
    if (status == CAIRO_STATUS_SUCCESS)
        status = cairo_surface_status(surface);
    cairo_surface_destroy(surface);
    if (status != CAIRO_STATUS_SUCCESS)
        return refusef(why, ERR_SYSTEM, "call", "%s", cairo_status_to_string(status));
    return ERR_OK;
}
