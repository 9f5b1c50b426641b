/* bill_file.c: lines, and what a file says first: itself, its zone, its prices, its windows. */
#include "app/bill_file.h"

#include <sodium.h>

#include "base/sha256.h"

void bill_line_begin(struct bill_file *f, const char *kind)
{
    f->line_at = f->json->out->len;
    json_writer_init(f->json, f->json->out);
    json_object_begin(f->json, NULL);
    json_str(f->json, "k", kind);
}

/* digest = SHA-256(digest before ‖ the line up to its checksum) */
void bill_line_finish(struct bill_file *f)
{
    struct strbuf *out = f->json->out;
    char sum[2 * LEDGER_HASH_SIZE + 1];
    struct sha256 h;

    if (out->overflow)
        return;
    sha256_init(&h);
    sha256_add(&h, f->digest, sizeof(f->digest));
    sha256_add(&h, out->data + f->line_at, out->len - f->line_at);
    sha256_finish(&h, f->digest);
    hex_write(f->digest, sizeof(f->digest), sum);
    sum[BILL_SUM_TEXT - 1] = '\0';
    json_str(f->json, "sum", sum);
    json_object_finish(f->json);
    strbuf_add(out, "\n");
    f->lines++;
}

void bill_num(struct bill_file *f, const char *key, int64_t v)
{
    json_strf(f->json, key, "%" PRId64, v);
}

bool bill_page_full(const struct bill_file *f)
{
    return f->json->out->len >= BILL_PAGE_BYTES;
}

/* The zone of the month. ret_before: the one that it follows at the begin of this very month, or
 * NULL. */
static const struct zone *month_zone(const struct bill_file *f, const struct zone **ret_before)
{
    const struct zone *z = &f->b.zone;

    *ret_before = z->before && f->month.from_s == z->since_s ? z->before : NULL;
    return z->before && f->month.to_s <= z->since_s ? z->before : z;
}

static void write_zone(struct bill_file *f, const char *name)
{
    size_t len = 0;
    const void *bytes = funds_zone_bytes(name, &len);

    if (!bytes)
        return;
    size_t size = sodium_base64_encoded_len(len, sodium_base64_VARIANT_ORIGINAL);
    AUTO_FREE char *text = mem_alloc(size);
    (void)sodium_bin2base64(text, size, bytes, len, sodium_base64_VARIANT_ORIGINAL);
    bill_line_begin(f, "zone");
    json_str(f->json, "name", name);
    json_str(f->json, "tzif", text);
    bill_line_finish(f);
}

static void write_price(struct bill_file *f, const struct price_row *p)
{
    bill_line_begin(f, "price");
    json_str(f->json, "id", p->id.s);
    json_str(f->json, "sku", p->sku);
    json_str(f->json, "currency", p->currency);
    bill_num(f, "p", p->p);
    bill_num(f, "d", p->d);
    json_str(f->json, "tiers", p->tiers);
    bill_num(f, "cap_u", p->cap_u);
    bill_num(f, "cap_qty", p->cap_qty);
    json_i64(f->json, "valid_from_s", p->valid_from_s);
    json_i64(f->json, "announced_s", p->announced_s);
    json_i64(f->json, "notice_s", p->notice_s);
    bill_line_finish(f);
}

/* A version of a window's SKU, its own, or the bid of its spot run. */
static bool price_used(const struct window_row *w, const struct price_row *p)
{
    return str_eq(w->sku, p->sku) || str_eq(w->price.s, p->id.s) ||
           (str_starts(w->sku, "spot.") && str_starts(p->sku, "bid.") &&
            str_eq(p->sku + strlen("bid."), w->instance.s));
}

/* All versions of each SKU that a window has, so that which of them binds can be seen, and those of
 * plans and bids that a window names. */
static enum err write_prices(struct bill_file *f, const struct window_list *windows)
{
    struct price_row_list all = {0};
    enum err e = money_price_list_all(f->store, &all);

    for (size_t i = 0; i < all.len && e == ERR_OK; i++) {
        bool used = false;

        for (size_t k = 0; k < windows->len && !used; k++)
            used = str_eq(all.at[i].currency, f->b.ccy.code) &&
                   price_used(&windows->at[k], &all.at[i]);
        if (used)
            write_price(f, &all.at[i]);
    }
    vec_fini(&all);
    return e;
}

enum err bill_file_head(struct bill_file *f)
{
    struct window_list windows = {0};
    char month[16], key[SIGN_KEY_TEXT];
    const struct zone *before, *zone = month_zone(f, &before);
    struct sign_key platform;

    TRY(funds_platform_key(f->store, &platform));
    hex_write(platform.open, SIGN_KEY_SIZE, key);
    period_format(&f->month, month, sizeof(month));
    bill_line_begin(f, "head");
    json_str(f->json, "format", "suanli.bill.1");
    json_i64(f->json, "rules", 1);
    json_str(f->json, "project", f->project.id.s);
    json_str(f->json, "name", f->project.name);
    json_str(f->json, "month", month);
    json_str(f->json, "zone", zone->name);
    json_str(f->json, "zone_before", before ? before->name : "");
    json_str(f->json, "currency", f->b.ccy.code);
    json_i64(f->json, "from_s", f->month.from_s);
    json_i64(f->json, "to_s", f->month.to_s);
    json_i64(f->json, "cut_s", f->cut_s);
    json_flag(f->json, "open", f->open);
    json_str(f->json, "key", key);
    bill_line_finish(f);
    write_zone(f, zone->name);
    if (before)
        write_zone(f, before->name);
    enum err e =
        money_window_month(f->store, f->project.id, f->month.year, f->month.month, &windows);
    if (e == ERR_OK)
        e = bill_file_corrected(f, &windows);
    if (e == ERR_OK)
        e = write_prices(f, &windows);
    vec_fini(&windows);
    return e;
}

static enum err write_window(struct bill_file *f, const struct window_row *w)
{
    struct span_list spans = {0};
    int64_t qty = 0, rated = 0, posted = 0;
    struct rate rate;
    enum err e = window_rate(f->store, w, &rate);

    if (e == ERR_OK)
        e = proof_spans(f->store, w->id, f->cut_s, &spans);
    for (size_t i = 0; i < spans.len; i++)
        qty += spans.at[i].qty;
    if (e == ERR_OK)
        e = rate_total(&rate, qty, &rated);
    if (e == ERR_OK)
        e = proof_posted(f->store, w->id, f->seq_to, &posted);
    if (e != ERR_OK || spans.len == 0)
        goto out;
    bill_line_begin(f, "window");
    json_str(f->json, "id", w->id);
    json_str(f->json, "subject", w->subject.s);
    json_str(f->json, "instance", w->instance.s);
    json_str(f->json, "meter", meter_name(w->meter));
    json_str(f->json, "sku", w->sku);
    json_str(f->json, "price", w->price.s);
    bill_num(f, "qty", qty);
    bill_num(f, "rated_u", rated);
    bill_num(f, "posted_u", posted);
    bill_num(f, "reversed_u", w->reversed_u);
    json_flag(f->json, "simulated", w->simulated);
    bill_line_finish(f);
    for (size_t i = 0; i < spans.len; i++) {
        bill_line_begin(f, "span");
        json_i64(f->json, "from_s", spans.at[i].from_s);
        json_i64(f->json, "to_s", spans.at[i].to_s);
        bill_num(f, "per_second", spans.at[i].qty_per_s);
        bill_num(f, "qty", spans.at[i].qty);
        bill_line_finish(f);
    }
    f->windows++;
    e = micro_add(f->rated_u, rated, &f->rated_u);
    if (e == ERR_OK)
        e = micro_add(f->posted_u, posted, &f->posted_u);
out:
    vec_fini(&spans);
    return e;
}

enum err bill_file_windows(struct bill_file *f)
{
    struct window_list windows = {0};
    enum err e =
        money_window_month(f->store, f->project.id, f->month.year, f->month.month, &windows);

    for (size_t i = 0; i < windows.len && e == ERR_OK; i++)
        e = write_window(f, &windows.at[i]);
    vec_fini(&windows);
    return e;
}

enum err bill_file_finish(struct bill_file *f)
{
    unsigned char message[16 + LEDGER_HASH_SIZE] = "suanli.bill.1";
    unsigned char sig[SIGN_SIZE];
    struct sign_key platform;
    char text[SIGN_TEXT];

    bill_line_begin(f, "total");
    json_i64(f->json, "windows", f->windows);
    bill_num(f, "rated_u", f->rated_u);
    bill_num(f, "posted_u", f->posted_u);
    bill_line_finish(f);
    TRY(funds_platform_key(f->store, &platform));
    memcpy(message + 16, f->digest, sizeof(f->digest));
    sign_make(&platform, message, sizeof(message), sig);
    hex_write(sig, sizeof(sig), text);
    bill_line_begin(f, "end");
    json_i64(f->json, "lines", f->lines + 1);
    json_str(f->json, "seal", text);
    bill_line_finish(f);
    return ERR_OK;
}
