/* rows_price.c: the price books and what waits to enter them. */
#include "store/rows_money.h"

#include "store/sql.h"

/* at: where the price is in the struct */
#define PRICE_COLS(type, at)                                                                       \
    COL_AS("id", COL_TEXT, type, at id), COL_AS("sku", COL_TEXT, type, at sku),                    \
        COL_AS("currency", COL_TEXT, type, at currency), COL_AS("p", COL_BIGINT, type, at p),      \
        COL_AS("d", COL_BIGINT, type, at d), COL_AS("unit", COL_TEXT, type, at unit),              \
        COL_AS("unit_u", COL_BIGINT, type, at unit_u), COL_AS("tiers", COL_TEXT, type, at tiers),  \
        COL_AS("cap_u", COL_BIGINT, type, at cap_u),                                               \
        COL_AS("cap_qty", COL_BIGINT, type, at cap_qty),                                           \
        COL_AS("policy", COL_INT, type, at policy), COL_AS("fee_pct", COL_INT, type, at fee_pct),  \
        COL_AS("valid_from_s", COL_BIGINT, type, at valid_from_s),                                 \
        COL_AS("announced_s", COL_BIGINT, type, at announced_s),                                   \
        COL_AS("notice_s", COL_BIGINT, type, at notice_s)

static const struct col price_cols[] = {PRICE_COLS(struct price_row, )};
ROW_TYPE(price_type, "price_version", struct price_row, price_cols, 1);

enum err money_price_add(struct store *s, const struct price_row *p)
{
    return row_save(s, &price_type, p);
}

enum err money_price_get(struct store *s, struct id id, struct price_row *ret_p)
{
    return row_get(s, &price_type, ret_p, "WHERE id=?", "t", id.s);
}

enum err money_price_list(struct store *s, const char *currency, const char *sku,
                          struct price_row_list *ret_l)
{
    struct kept_list kept;

    TRY(row_kept(s, &price_type, &kept, "WHERE sku=? AND currency=? ORDER BY valid_from_s, rowid",
                 "tt", sku, currency));
    row_kept_copy(&price_type, &kept, ret_l);
    return ERR_OK;
}

enum err money_price_list_all(struct store *s, struct price_row_list *ret_l)
{
    return row_list(s, &price_type, ret_l, "ORDER BY sku, currency, valid_from_s, rowid", "");
}

static const struct col proposal_cols[] = {
    PRICE_COLS(struct proposal_row, price.),
    TEXT_COL(struct proposal_row, by_user),
    INT_COL(struct proposal_row, state),
    TEXT_COL(struct proposal_row, decided_by),
};
ROW_TYPE(proposal_type, "price_proposal", struct proposal_row, proposal_cols, 1);

enum err money_proposal_save(struct store *s, const struct proposal_row *p)
{
    return row_save(s, &proposal_type, p);
}

enum err money_proposal_get(struct store *s, struct id id, struct proposal_row *ret_p)
{
    return row_get(s, &proposal_type, ret_p, "WHERE id=?", "t", id.s);
}

enum err money_proposal_open(struct store *s, struct proposal_list *ret_l)
{
    return row_list(s, &proposal_type, ret_l, "WHERE state=0 ORDER BY announced_s, id", "");
}
