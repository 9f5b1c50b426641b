/* funds_quote.c: what something will cost, in the same windows and with the same rating as what it
 * did cost (I24). A signed quote is text; nothing of it is stored:
 *
 *   q1.<id>.<until_s>.<project>.<hash of what was asked>.<price versions, '~' between>.<hour
 * µ>.<sig>
 *
 * signed with Ed25519 by the key in meta "quote.key" (hex of its seed). */
#include "app/fund_source.h"
#include "app/funds_package.h"
#include "app/funds_spot.h"

#include <sodium.h>
#include <stdlib.h>

#define QUOTE_KEY "quote.key"

enum err funds_init(struct store *s, struct id_maker *ids)
{
    char hex[2 * crypto_sign_SEEDBYTES + 1];
    unsigned char seed[crypto_sign_SEEDBYTES];
    bool found = false;

    CHECK(sodium_init() >= 0);
    TRY(store_meta_get(s, QUOTE_KEY, hex, sizeof(hex), &found));
    if (found)
        return ERR_OK;
    ids->fill(ids, seed, sizeof(seed));
    (void)sodium_bin2hex(hex, sizeof(hex), seed, sizeof(seed));
    enum err e = store_meta_set(s, QUOTE_KEY, hex);
    sodium_memzero(seed, sizeof(seed));
    sodium_memzero(hex, sizeof(hex));
    return e;
}

static enum err quote_keys(struct store *s, unsigned char pk[crypto_sign_PUBLICKEYBYTES],
                           unsigned char sk[crypto_sign_SECRETKEYBYTES])
{
    char hex[2 * crypto_sign_SEEDBYTES + 1];
    unsigned char seed[crypto_sign_SEEDBYTES];
    bool found = false;
    size_t n = 0;

    TRY(store_meta_get(s, QUOTE_KEY, hex, sizeof(hex), &found));
    if (!found || sodium_hex2bin(seed, sizeof(seed), hex, strlen(hex), NULL, &n, NULL) != 0 ||
        n != sizeof(seed))
        return ERR_CORRUPT;
    (void)crypto_sign_seed_keypair(pk, sk, seed);
    sodium_memzero(seed, sizeof(seed));
    sodium_memzero(hex, sizeof(hex));
    return ERR_OK;
}

enum err funds_platform_key(struct store *s, struct sign_key *ret_k)
{
    return quote_keys(s, ret_k->open, ret_k->secret);
}

/* µ for whole_s seconds of a line's rate; traffic has a quantity of its own. */
static enum err line_price(struct funds_line *l, int64_t whole_s)
{
    int64_t s = MAX(MIN(l->to_s, whole_s) - l->from_s, (int64_t)0);

    if (l->qty_per_s > 0 && __builtin_mul_overflow(l->qty_per_s, s, &l->qty))
        return ERR_MONEY_RANGE;
    return rate_total(&l->rate, l->qty, &l->amount_u);
}

static enum err rate_now(const struct books *b, const char *sku, struct id *ret_id,
                         struct rate *ret_r, struct refusal *why)
{
    struct rating r = {.started_s = b->now_s};

    (void)str_copy(r.sku, sizeof(r.sku), sku);
    return rating_price(b, &r, b->now_s, ret_id, ret_r, why);
}

static enum err line_add(const struct books *b, struct funds_quote *q, enum meter m,
                         const char *model, int64_t qty_per_s, int64_t qty, int64_t whole_s,
                         struct refusal *why)
{
    struct funds_line *l = &q->lines[q->line_count];

    CHECK(q->line_count < FUNDS_LINES_MAX);
    *l = (struct funds_line){.meter = m, .qty_per_s = qty_per_s, .to_s = INT64_MAX, .qty = qty};
    funds_sku(m, model, l->sku);
    TRY(rate_now(b, l->sku, &l->price, &l->rate, why));
    TRY(line_price(l, whole_s));
    q->line_count++;
    return micro_add(q->total_u, l->amount_u, &q->total_u);
}

/* What a card-hour may cost at most: as it was bid, or as it is asked now. */
static enum err spot_bid_of(const struct books *b, const struct funds_ask *ask, int64_t *ret_u,
                            struct refusal *why)
{
    struct price_version bid;
    enum err e = spot_bid(b, ask->instance, &bid);

    *ret_u = e == ERR_OK ? bid.rate.tiers[0].p : ask->bid_u;
    if (e != ERR_OK && e != ERR_NOT_FOUND)
        return e;
    return spot_bid_check(b, ask->shape.gpu_model, ret_u, why);
}

/* Cards at the spot price are held at their most (plan_spot), not at the tick of now. */
static enum err spot_hold(const struct funds_quote *q, int64_t cards, int64_t seconds,
                          int64_t *io_u)
{
    int64_t second, most;

    TRY(spot_second_max((struct price_rate){q->bid_u, 3600}, cards, &second));
    if (__builtin_mul_overflow(second, seconds, &most))
        return ERR_MONEY_RANGE;
    for (size_t i = 0; i < q->line_count; i++)
        if (q->lines[i].meter == METER_GPU) {
            int64_t at_tick;

            TRY(rate_total(&q->lines[i].rate, cards * seconds, &at_tick));
            TRY(micro_add(*io_u, most - at_tick, io_u));
        }
    return ERR_OK;
}

/* What the instance's lease reserved of packages is its own to use again. */
static enum err own_lease(const struct books *b, struct id instance, struct id *ret_lease)
{
    struct fund_lease l;
    enum err e = instance.s[0] ? money_lease_of_instance(b->store, instance, &l) : ERR_NOT_FOUND;

    if (e == ERR_OK && !l.settled)
        *ret_lease = l.lease;
    return e == ERR_NOT_FOUND ? ERR_OK : e;
}

/* The cards, part by part where plans of the instance or packages cover them. */
static enum err add_cards(const struct books *b, const struct funds_ask *ask, int64_t whole_s,
                          enum rating_packages packages, struct funds_quote *q, struct refusal *why)
{
    struct rating r = {.instance = ask->instance,
                       .meter = METER_GPU,
                       .started_s = b->now_s,
                       .qty_per_s = ask->shape.gpu_count,
                       .packages = packages};
    struct cover c[COVERS_MAX];
    size_t n;

    funds_sku(METER_GPU, ask->shape.gpu_model, r.sku);
    if (ask->spot) {
        TRY(spot_bid_of(b, ask, &q->bid_u, why));
        spot_sku(r.sku);
    }
    TRY(own_lease(b, ask->instance, &r.lease));
    TRY(cover_split(b, &r, b->now_s, b->now_s + whole_s, c, &n));
    r.packages = RATING_BY_MONEY;
    if (n > FUNDS_COVERS_MAX)
        return refusef(why, ERR_TOO_LARGE, "what", "%s", "the time");
    for (size_t i = 0; i < n; i++) {
        struct funds_line *l = &q->lines[q->line_count++];

        *l = (struct funds_line){.meter = METER_GPU,
                                 .price = c[i].price,
                                 .rate = cover_rate(),
                                 .qty_per_s = r.qty_per_s,
                                 .from_s = c[i].from_s - b->now_s,
                                 .to_s = i + 1 < n ? c[i].to_s - b->now_s : INT64_MAX};
        memcpy(l->sku, r.sku, sizeof(l->sku));
        if (!c[i].price.s[0])
            TRY(rating_price(b, &r, c[i].from_s, &l->price, &l->rate, why));
        TRY(line_price(l, whole_s));
        TRY(micro_add(q->total_u, l->amount_u, &q->total_u));
    }
    return ERR_OK;
}

/* What a disk costs per hour beside no running lease. */
static enum err add_stopped(const struct books *b, struct funds_quote *q, enum meter m, int64_t mib,
                            struct refusal *why)
{
    char sku[SKU_SIZE];
    struct id price;
    struct rate rate;
    int64_t u;

    funds_sku(m, "", sku);
    TRY(rate_now(b, sku, &price, &rate, why));
    TRY(rate_total(&rate, mib * 3600, &u));
    return micro_add(q->hour_stopped_u, u, &q->hour_stopped_u);
}

static enum err add_lines(const struct books *b, const struct funds_ask *ask, int64_t whole_s,
                          enum rating_packages packages, struct funds_quote *q, struct refusal *why)
{
    if (ask->shape.gpu_count > 0)
        TRY(add_cards(b, ask, whole_s, packages, q, why));
    if (ask->shape.exclusive)
        TRY(line_add(b, q, METER_NODE, ask->shape.gpu_model, 1, 0, whole_s, why));
    if (ask->shape.gpu_count == 0)
        TRY(line_add(b, q, METER_CPU, "", (ask->shape.cpu_milli + 999) / 1000, 0, whole_s, why));
    if (ask->shape.system_disk_mib > 0) {
        TRY(line_add(b, q, METER_DISK, "", ask->shape.system_disk_mib, 0, whole_s, why));
        TRY(add_stopped(b, q, METER_DISK_STOPPED, ask->shape.system_disk_mib, why));
    }
    for (int32_t i = 0; i < ask->data_count; i++) {
        TRY(line_add(b, q, METER_DISK, "", ask->data_mib[i], 0, whole_s, why));
        TRY(add_stopped(b, q, METER_DISK_DETACHED, ask->data_mib[i], why));
    }
    if (ask->egress_bytes > 0 && line_add(b, q, METER_EGRESS, "", 0, ask->egress_bytes, 0, NULL) ==
                                     ERR_MONEY_RANGE) /* without a price it is free */
        return refuse(why, ERR_MONEY_RANGE);
    return ERR_OK;
}

static size_t quote_windows(const struct funds_quote *q, struct term_window *ret_w)
{
    size_t n = 0;

    for (size_t i = 0; i < q->line_count; i++)
        if (q->lines[i].qty_per_s > 0)
            ret_w[n++] = (struct term_window){.rate = &q->lines[i].rate,
                                              .qty_per_s = q->lines[i].qty_per_s,
                                              .from_s = q->lines[i].from_s,
                                              .to_s = q->lines[i].to_s,
                                              .disk = q->lines[i].meter == METER_DISK};
    return n;
}

/* What can pay for the cards now, or, when the gate's need is more than all sources give for its
 * lines (a voucher for storage pays no cards), what they give of it. */
static enum err quote_available(const struct books *b, const struct funds_quote *q, int64_t for_s,
                                int64_t *ret_u)
{
    struct fund_sources s;
    struct fund_parts parts = {0};
    int64_t compute_s = for_s > 0 ? MIN(for_s, (int64_t)TERM_GATE_COMPUTE_S) : TERM_GATE_COMPUTE_S;
    int64_t need = 0, unpaid = 0, have;
    enum err e = fund_sources_load(b, NULL, &s, NULL);

    if (e == ERR_OK)
        e = fund_have(&s, q->lines[0].meter, q->lines[0].sku, b->now_s, &have);
    for (size_t i = 0; i < q->line_count && e == ERR_OK; i++) {
        const struct funds_line *l = &q->lines[i];
        struct term_window w = {
            .rate = &l->rate, .qty_per_s = l->qty_per_s, .from_s = l->from_s, .to_s = l->to_s};
        int64_t u, short_u = 0;

        e = term_cost(&w, 1, l->meter == METER_DISK ? TERM_GATE_DISK_S : compute_s, &u);
        if (e == ERR_OK)
            e = fund_take(b, &s, l->meter, l->sku, b->now_s, INT64_MAX, u, &parts, &short_u);
        if (e == ERR_OK)
            e = micro_add(need, u, &need);
        unpaid += short_u;
    }
    vec_fini(&parts);
    TRY(e);
    *ret_u = unpaid > 0 ? need - unpaid : MAX(have, need);
    return ERR_OK;
}

/* Per hour by the price book and plans: a package is no price. */
static enum err hour_figures(const struct books *b, const struct funds_ask *ask,
                             struct funds_quote *q, struct refusal *why)
{
    AUTO_FREE struct funds_quote *x = mem_alloc(sizeof(*x));
    struct term_window w[FUNDS_LINES_MAX];
    size_t n;

    *x = (struct funds_quote){.project = ask->project, .ccy = b->ccy};
    TRY(add_lines(b, ask, ask->for_s > 0 ? ask->for_s : 3600, RATING_BY_MONEY, x, why));
    TRY(rate_total(&x->lines[0].rate, 3600, &q->hour_unit_u));
    n = quote_windows(x, w);
    for (size_t i = 0; i < n; i++) {
        int64_t u;

        TRY(term_cost(&w[i], 1, 3600, &u));
        TRY(micro_add(q->hour_u, u, &q->hour_u));
    }
    return ERR_OK;
}

enum err funds_quote(struct store *s, utime_t now, int64_t term_s, const struct funds_ask *ask,
                     struct funds_quote *ret_q, struct refusal *why)
{
    int64_t whole_s = ask->for_s > 0 ? ask->for_s : 3600;
    struct term_window w[FUNDS_LINES_MAX];
    struct funds_quote q = {.project = ask->project};
    struct refusal short_of;
    struct books b;
    enum err e;
    size_t n;

    CHECK(ask->data_count >= 0 && ask->data_count <= INSTANCE_DISKS_MAX);
    TRY(books_open(s, now, ask->project, &b, why));
    q.ccy = b.ccy;
    TRY(hour_figures(&b, ask, &q, why));
    TRY(add_lines(&b, ask, whole_s, RATING_ANEW, &q, why));
    n = quote_windows(&q, w);
    term_s = ask->for_s > 0 ? MIN(term_s, ask->for_s) : term_s;
    TRY(term_cost(w, n, term_s, &q.hold_u));
    if (ask->spot && ask->shape.gpu_count > 0)
        TRY(spot_hold(&q, ask->shape.gpu_count, term_s, &q.hold_u));
    TRY(quote_available(&b, &q, ask->for_s, &q.available_u));
    e = term_gate(w, n, ask->for_s, money_of(q.available_u, q.ccy), &q.need_u, &short_of);
    if (e != ERR_OK && e != ERR_BALANCE)
        return e;
    *ret_q = q;
    return ERR_OK;
}

enum err funds_price(struct store *s, utime_t now, struct currency ccy, const char *sku,
                     struct id *ret_id, struct rate *ret_r, struct refusal *why)
{
    AUTO_PRICES struct prices p = {0};
    size_t i;

    TRY(prices_load(s, ccy, sku, &p, why));
    if (price_at(p.v, p.n, now / MS_PER_S, &i) != ERR_OK)
        return refusef(why, ERR_PRICE_UNKNOWN, "sku", "%s", sku);
    *ret_id = p.v[i].id;
    *ret_r = p.v[i].rate;
    return ERR_OK;
}

enum err funds_price_unit(struct store *s, utime_t now, struct currency ccy, const char *sku,
                          int64_t *ret_u, struct refusal *why)
{
    struct price_row row;
    struct rate rate;
    struct id id;

    TRY(funds_price(s, now, ccy, sku, &id, &rate, why));
    TRY(money_price_get(s, id, &row));
    *ret_u = row.unit_u;
    return ERR_OK;
}

enum err funds_gate(struct store *s, utime_t now, const struct funds_ask *ask,
                    const struct funds_quote *q, struct refusal *why)
{
    struct term_window w[FUNDS_LINES_MAX];
    struct budget_list budgets = {0};
    struct budget *money = NULL;
    size_t n = quote_windows(q, w);
    int64_t need, second;
    struct books b;
    enum err e;

    TRY(books_open(s, now, q->project, &b, why));
    TRY(term_gate(w, n, ask->for_s, money_of(q->available_u, q->ccy), &need, why));
    TRY(term_cost(w, n, 1, &second));
    e = budgets_load(&b, &budgets, &money);
    for (size_t i = 0; i < budgets.len && e == ERR_OK; i++)
        if (budget_stops(&budgets.at[i], &ask->spender) && budget_rest(&money[i]) < second)
            e = refuse_budget(why, b.ccy, &budgets.at[i], budget_rest(&money[i]), second);
    free(money);
    vec_fini(&budgets);
    return e;
}

/* ---- signed text ---- */

/* Over what the price depends on; when it ends and how much it sends is the bill's to say. */
static void ask_hash(const struct funds_ask *ask, char ret_hex[33])
{
    bool cards = ask->shape.gpu_count > 0;
    unsigned char hash[16];
    AUTO_STRBUF struct strbuf b;

    strbuf_init(&b, 1024);
    strbuf_addf(&b, "%s|%d|%" PRId64, cards ? ask->shape.gpu_model : "cpu",
                cards ? ask->shape.gpu_count : ask->shape.cpu_milli, ask->shape.system_disk_mib);
    for (int32_t i = 0; i < ask->data_count; i++)
        strbuf_addf(&b, "|%" PRId64, ask->data_mib[i]);
    if (ask->shape.exclusive)
        strbuf_add(&b, "|exclusive");
    CHECK(!b.overflow);
    (void)crypto_generichash(hash, sizeof(hash), (const unsigned char *)strbuf_str(&b), b.len, NULL,
                             0);
    (void)sodium_bin2hex(ret_hex, 33, hash, sizeof(hash));
}

/* The distinct price versions of a quote, in the order of its lines. */
static void price_names(const struct funds_quote *q, struct strbuf *out)
{
    for (size_t i = 0; i < q->line_count; i++) {
        bool known = false;

        for (size_t j = 0; j < i && !known; j++)
            known = str_eq(q->lines[j].price.s, q->lines[i].price.s);
        if (!known)
            strbuf_addf(out, "%s%s", i ? "~" : "", q->lines[i].price.s);
    }
}

enum err funds_quote_sign(struct store *s, utime_t now, const struct funds_ask *ask,
                          const struct funds_quote *q, struct id quote_id,
                          char ret_text[FUNDS_QUOTE_SIZE], utime_t *ret_until)
{
    unsigned char pk[crypto_sign_PUBLICKEYBYTES], sk[crypto_sign_SECRETKEYBYTES];
    unsigned char sig[crypto_sign_BYTES];
    char hash[33], base64[128];
    int64_t until_s = now / MS_PER_S + FUNDS_QUOTE_LIFE_S;
    AUTO_STRBUF struct strbuf b;

    strbuf_init(&b, FUNDS_QUOTE_SIZE - 1);
    TRY(quote_keys(s, pk, sk));
    ask_hash(ask, hash);
    strbuf_addf(&b, "q1.%s.%" PRId64 ".%s.%s.", quote_id.s, until_s, ask->project.s, hash);
    price_names(q, &b);
    strbuf_addf(&b, ".%" PRId64, q->hour_u);
    (void)crypto_sign_detached(sig, NULL, (const unsigned char *)strbuf_str(&b), b.len, sk);
    sodium_memzero(sk, sizeof(sk));
    (void)sodium_bin2base64(base64, sizeof(base64), sig, sizeof(sig),
                            sodium_base64_VARIANT_URLSAFE_NO_PADDING);
    strbuf_addf(&b, ".%s", base64);
    CHECK(!b.overflow);
    memcpy(ret_text, strbuf_str(&b), b.len + 1);
    *ret_until = until_s * MS_PER_S;
    return ERR_OK;
}

static enum err refuse_moved(struct refusal *why, int64_t old_u, int64_t new_u, struct currency ccy)
{
    char text[MONEY_TEXT_SIZE + 8];
    enum err e = refuse(why, ERR_OFFER_CHANGED);

    money_format_ccy(money_of(old_u, ccy), text, sizeof(text));
    refusal_setf(why, "old", "%s/h", text);
    money_format_ccy(money_of(new_u, ccy), text, sizeof(text));
    refusal_setf(why, "new", "%s/h", text);
    return e;
}

#define QUOTE_PARTS 7 /* before the signature */

/* Cuts at dots and proves the signature. Changes text. */
static bool quote_open(char *text, char *ret_parts[QUOTE_PARTS], const unsigned char *pk)
{
    unsigned char sig[crypto_sign_BYTES];
    char *last = strrchr(text, '.');
    size_t n = 0;

    if (!last ||
        sodium_base642bin(sig, sizeof(sig), last + 1, strlen(last + 1), NULL, &n, NULL,
                          sodium_base64_VARIANT_URLSAFE_NO_PADDING) != 0 ||
        n != sizeof(sig) ||
        crypto_sign_verify_detached(sig, (const unsigned char *)text, (size_t)(last - text), pk) !=
            0)
        return false;
    *last = '\0';
    for (size_t i = 0; i < QUOTE_PARTS; i++) {
        ret_parts[i] = strsep(&text, ".");
        if (!ret_parts[i])
            return false;
    }
    return !text && str_eq(ret_parts[0], "q1");
}

enum err funds_quote_check(struct store *s, utime_t now, const char *text,
                           const struct funds_ask *ask, const struct funds_quote *q,
                           struct refusal *why)
{
    unsigned char pk[crypto_sign_PUBLICKEYBYTES], sk[crypto_sign_SECRETKEYBYTES];
    char copy[FUNDS_QUOTE_SIZE], hash[33], *part[QUOTE_PARTS];
    int64_t until_s, hour_u;
    AUTO_STRBUF struct strbuf prices;

    strbuf_init(&prices, FUNDS_QUOTE_SIZE);
    TRY(quote_keys(s, pk, sk));
    sodium_memzero(sk, sizeof(sk));
    ask_hash(ask, hash);
    if (!str_copy(copy, sizeof(copy), text) || !quote_open(copy, part, pk) ||
        str_parse_i64(part[2], 0, INT64_MAX, &until_s) != ERR_OK ||
        str_parse_i64(part[6], 0, INT64_MAX, &hour_u) != ERR_OK ||
        !str_eq(part[3], ask->project.s) || !str_eq(part[4], hash))
        return refuse(why, ERR_QUOTE_INVALID);
    if (now / MS_PER_S >= until_s)
        return refuse(why, ERR_QUOTE_EXPIRED);
    price_names(q, &prices);
    if (!str_eq(part[5], strbuf_str(&prices)))
        return refuse_moved(why, hour_u, q->hour_u, q->ccy);
    return ERR_OK;
}

enum err funds_price_check(const struct funds_quote *q, int64_t seen_u, struct refusal *why)
{
    if (seen_u == q->hour_unit_u || seen_u == q->hour_u)
        return ERR_OK;
    return refuse_moved(why, seen_u, q->hour_unit_u, q->ccy);
}
