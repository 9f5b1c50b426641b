/* op_ledger.c: the head of the journal's hash chain at the end of each day that is over, for
 * anybody: who keeps it can tell later that nothing before it was changed. */
#include "app/cursor.h"
#include "app/op_people.h"
#include "app/funds.h"
#include "base/units.h"
#include "store/rows_proof.h"

static void write_head(struct op *op, const struct ledger_day_row *d)
{
    char hash[2 * LEDGER_HASH_SIZE + 1], day[40];

    time_format(d->day * DAY_S * MS_PER_S, day, sizeof(day));
    day[strlen("2026-03-01")] = '\0';
    hex_write(d->hash, sizeof(d->hash), hash);
    json_object_begin(&op->out, NULL);
    json_str(&op->out, "day", day);
    json_i64(&op->out, "rows", d->seq);
    json_str(&op->out, "hash", hash);
    json_object_finish(&op->out);
}

enum err op_ledger_heads(struct op *op)
{
    int64_t limit, first = 0, today = op->now / (DAY_S * MS_PER_S);
    struct ledger_day_list list = {0};
    char pos[CURSOR_POS_SIZE], key[SIGN_KEY_TEXT];
    struct sign_key platform;

    TRY(cursor_read(op, &limit, pos));
    if (pos[0])
        TRY(str_parse_i64(pos, 0, INT64_MAX, &first));
    TRY(people_try(op, funds_platform_key(op->store, &platform)));
    hex_write(platform.open, SIGN_KEY_SIZE, key);
    enum err e = people_try(op, proof_days(op->store, first, limit + 1, &list));
    while (list.len > 0 && list.at[list.len - 1].day >= today)
        list.len--;
    size_t n = MIN(list.len, (size_t)limit);
    json_object_begin(&op->out, NULL);
    json_str(&op->out, "key", key);
    json_array_begin(&op->out, "items");
    for (size_t i = 0; i < n; i++)
        write_head(op, &list.at[i]);
    bool more = list.len > n;
    if (more)
        CHECK(str_printf(pos, sizeof(pos), "%" PRId64, list.at[n].day));
    vec_fini(&list);
    TRY(e);
    TRY(cursor_finish(op, more ? pos : NULL));
    json_object_finish(&op->out);
    return ERR_OK;
}
