/* What payment channels and clerks write: lines of payment files, notices, rates of exchange. What
 * is taken can be written down again and means the same. */
#include <stdlib.h>

#include "app/channel.h"
#include "app/clearing.h"
#include "app/fx.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_line(const char *text)
{
    char amount[MONEY_TEXT_SIZE], again[4 * TEXT_SIZE];
    struct payment_line l, same;
    struct currency ccy;

    if (!clearing_parse(text, &l))
        return;
    CHECK(l.amount_u > 0 && l.at > 0 && l.reference[0]);
    CHECK(currency_get(l.currency, &ccy) == ERR_OK && l.amount_u % currency_minor_u(ccy) == 0);
    money_format(money_of(l.amount_u, ccy), amount, sizeof(amount));
    if (l.at < MS_PER_S)
        return; /* the first second of 1970 has no whole second to write */
    CHECK(str_printf(again, sizeof(again), "%s,%s,%s,%s,%s,%" PRId64, l.reference, l.order_id,
                     l.kind == LINE_REFUND ? "refund" : "payment", amount, l.currency,
                     (int64_t)(l.at / MS_PER_S)));
    CHECK(clearing_parse(again, &same) && same.amount_u == l.amount_u && same.kind == l.kind &&
          str_eq(same.reference, l.reference) && str_eq(same.order_id, l.order_id));
}

static void try_pair(const char *text)
{
    char again[48];
    int64_t n, d, n2, d2;

    if (!fx_pair_parse(text, &n, &d))
        return;
    CHECK(n >= 0 && d > 0);
    CHECK(str_printf(again, sizeof(again), "%" PRId64 "/%" PRId64, n, d));
    CHECK(fx_pair_parse(again, &n2, &d2) && n2 == n && d2 == d);
}

/* Seven fields apart by "|": never signed over more lines than there are fields. */
static void try_notice(char *text)
{
    const char *f[7] = {"", "", "", "", "", "", ""};
    struct channel_row c = {.name = "pay1", .kind = CHANNEL_HMAC};
    char signed_text[CHANNEL_TEXT_SIZE];
    struct refusal why;
    size_t lines = 1;

    for (size_t i = 0; i < ARRAY_LEN(f) && text; i++)
        f[i] = strsep(&text, "|");
    struct channel_notice n = {f[0], f[1], f[2], f[3], f[4], f[5], (int64_t)strlen(f[6])};
    if (channel_notice_text(&n, signed_text) != ERR_OK)
        return;
    for (const char *at = signed_text; (at = strchr(at, '\n')); at++)
        lines++;
    CHECK(lines == 8);
    memset(c.key, 'a', 64);
    CHECK(channel_notice_check(&c, signed_text, f[6], &why) == ERR_NOTICE_SIGNATURE);
    c.kind = CHANNEL_ED25519;
    CHECK(channel_notice_check(&c, signed_text, f[6], &why) == ERR_NOTICE_SIGNATURE);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = mem_alloc(size + 1);

    if (size)
        memcpy(text, data, size);
    try_line(text);
    try_pair(text);
    try_notice(text);
    free(text);
    return 0;
}
