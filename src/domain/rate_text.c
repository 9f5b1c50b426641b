/* rate_text.c: rates as text of whole numbers, for the store and for those who compute again. */
#include "base/str.h"
#include "domain/rate.h"

void rate_tiers_write(const struct rate *r, char *buf, size_t size)
{
    AUTO_STRBUF struct strbuf b;

    strbuf_init(&b, size - 1);
    for (size_t i = 1; i < r->tier_count; i++)
        strbuf_addf(&b, "%s%" PRId64 ":%" PRId64, i > 1 ? ";" : "", r->tiers[i].from,
                    r->tiers[i].p);
    bool ok = str_copy(buf, size, strbuf_str(&b));
    CHECK(ok && !b.overflow);
}

void rate_code(const struct rate *r, char *buf, size_t size)
{
    char tiers[RATE_TIERS_TEXT_SIZE];
    AUTO_STRBUF struct strbuf b;

    rate_tiers_write(r, tiers, sizeof(tiers));
    strbuf_init(&b, size - 1);
    strbuf_addf(&b, "%" PRId64 "/%" PRId64 "%s%s", r->tiers[0].p, r->d, tiers[0] ? ";" : "", tiers);
    if (r->cap_qty > 0)
        strbuf_addf(&b, ",%" PRId64 "/%" PRId64, r->cap_u, r->cap_qty);
    bool ok = str_copy(buf, size, strbuf_str(&b));
    CHECK(ok && !b.overflow);
}

/* "FROM:P" */
static enum err tier_read(char *text, struct rate *r)
{
    struct rate_tier *t = &r->tiers[r->tier_count];
    char *colon = strchr(text, ':');

    if (!colon || r->tier_count == RATE_TIERS_MAX)
        return ERR_VALIDATION;
    *colon = '\0';
    *t = (struct rate_tier){.to = INT64_MAX};
    if (str_parse_i64(text, 1, INT64_MAX - 1, &t->from) != ERR_OK ||
        str_parse_i64(colon + 1, 0, INT64_MAX, &t->p) != ERR_OK)
        return ERR_VALIDATION;
    r->tiers[r->tier_count - 1].to = t->from;
    r->tier_count++;
    return ERR_OK;
}

enum err rate_of_tiers(struct price_rate first, const char *tiers, int64_t cap_u, int64_t cap_qty,
                       struct rate *ret_r)
{
    struct rate r;
    char copy[RATE_TIERS_TEXT_SIZE];

    TRY(rate_flat(first, &r));
    r.cap_u = cap_u;
    r.cap_qty = cap_qty;
    if (!str_copy(copy, sizeof(copy), tiers))
        return ERR_VALIDATION;
    for (char *part = copy, *next; part && *part; part = next) {
        next = strchr(part, ';');
        if (next)
            *next++ = '\0';
        TRY(tier_read(part, &r));
    }
    TRY(rate_check(&r));
    *ret_r = r;
    return ERR_OK;
}
