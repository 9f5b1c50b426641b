/* bill_check_books.c: the journal: its chain from one published head to the next, what it charged
 * for each window, and the balances of the account. */
#include "cli/bill_check_int.h"

#include <sodium.h>

#include "base/msg.h"
#include "cli/cli.h"

#define ROW_BYTES (LEDGER_HASH_SIZE + 8)
#define ROWS_MAX 4096

static int window_order(const void *a, const void *b)
{
    const struct check_window *x = a, *y = b;

    return strcmp(x->id, y->id);
}

void check_windows_sort(struct bill_check *c)
{
    if (c->windows.len > 1)
        qsort(c->windows.at, c->windows.len, sizeof(c->windows.at[0]), window_order);
}

struct check_window *check_window_find(struct bill_check *c, const char *id)
{
    struct check_window key = {0};

    (void)str_copy(key.id, sizeof(key.id), id);
    return c->windows.len ? bsearch(&key, c->windows.at, c->windows.len, sizeof(key), window_order)
                          : NULL;
}

static bool head_known(struct bill_check *c, const unsigned char hash[LEDGER_HASH_SIZE])
{
    return c->wants_head && memcmp(hash, c->want_head, LEDGER_HASH_SIZE) == 0;
}

enum err check_journal_line(struct bill_check *c, struct check_row *r)
{
    const char *hash;

    (void)row_i64(r, "day");
    c->seq = row_i64(r, "seq");
    hash = row_text(r, "hash");
    if (r->bad)
        return ERR_OK;
    if (c->seq < 0 || c->seq == INT64_MAX || !hex_read(hash, c->chain, sizeof(c->chain)))
        return check_differs(c, tr("not the head of a day"));
    c->found_head |= head_known(c, c->chain);
    c->has_journal = true;
    return ERR_OK;
}

enum err check_account_line(struct bill_check *c, struct check_row *r)
{
    struct check_account a = {0};

    (void)row_copy(r, "id", a.id, sizeof(a.id));
    a.opening_u = a.balance_u = row_num(r, "opening_u");
    a.closing_u = row_num(r, "closing_u");
    if (r->bad)
        return ERR_OK;
    if (!c->has_journal ||
        (c->accounts.len && strcmp(c->accounts.at[c->accounts.len - 1].id, a.id) >= 0))
        return check_differs(c, tr("accounts out of order"));
    *vec_push(&c->accounts) = a;
    return ERR_OK;
}

static bool step_read(struct check_row *r, enum ledger_step *ret_s)
{
    static const char *const steps[] = {"posted", "pending", "post", "void", "expire"};
    const char *name = row_text(r, "step");

    for (size_t i = 0; i < ARRAY_LEN(steps); i++)
        if (str_eq(steps[i], name)) {
            *ret_s = (enum ledger_step)i;
            return true;
        }
    return false;
}

static enum err move(struct bill_check *c, const char *account, int64_t u, bool *io_own)
{
    for (size_t i = 0; i < c->accounts.len; i++)
        if (str_eq(c->accounts.at[i].id, account)) {
            *io_own = true;
            return micro_add(c->accounts.at[i].balance_u, u, &c->accounts.at[i].balance_u);
        }
    return ERR_OK;
}

static enum err charge(struct bill_check *c, const struct ledger_transfer *t)
{
    struct check_window *w = check_window_find(c, t->owner);
    bool back = str_starts(t->dr, "revenue.");

    if (!w || (!back && !str_starts(t->cr, "revenue.")))
        return ERR_OK;
    return micro_add(w->charged_u, back ? -t->amount : t->amount, &w->charged_u);
}

enum err check_transfer_line(struct bill_check *c, struct check_row *r)
{
    struct ledger_transfer t = {0};
    bool step, own = false;

    if (row_i64(r, "seq") != c->seq + 1)
        return check_differs(c, tr("a row of the journal is missing before it"));
    (void)row_copy(r, "id", t.id, sizeof(t.id));
    (void)row_copy(r, "ledger", t.ledger, sizeof(t.ledger));
    (void)row_copy(r, "dr", t.dr, sizeof(t.dr));
    (void)row_copy(r, "cr", t.cr, sizeof(t.cr));
    t.amount = row_num(r, "amount");
    step = step_read(r, &t.step);
    (void)row_copy(r, "pending", t.pending, sizeof(t.pending));
    (void)row_copy(r, "kind", t.kind, sizeof(t.kind));
    (void)row_copy(r, "group", t.group, sizeof(t.group));
    (void)row_copy(r, "owner", t.owner, sizeof(t.owner));
    t.effective_ms = row_i64(r, "effective_ms");
    t.expires_ms = row_i64(r, "expires_ms");
    t.booked_ms = row_i64(r, "booked_ms");
    if (r->bad)
        return ERR_OK;
    if (!step || t.amount < 0 || !c->has_journal)
        return check_differs(c, tr("not a row of the journal"));
    ledger_chain_hash(&t, c->chain, c->chain);
    c->seq++;
    c->counts.transfers++;
    if (t.step != LEDGER_POSTED && t.step != LEDGER_POST)
        return ERR_OK;
    if (move(c, t.dr, -t.amount, &own) != ERR_OK || move(c, t.cr, t.amount, &own) != ERR_OK ||
        charge(c, &t) != ERR_OK || check_close_transfer(c, &t, &own) != ERR_OK)
        return check_differs(c, tr("the sum passes what can be counted"));
    return own ? ERR_OK : check_differs(c, tr("a row of accounts that are not in the file"));
}

enum err check_rows_line(struct bill_check *c, struct check_row *r)
{
    int64_t seq = row_i64(r, "seq"), n = row_i64(r, "n");
    const char *data = row_text(r, "data");
    AUTO_FREE unsigned char *bytes = NULL;
    size_t len = 0;

    if (r->bad)
        return ERR_OK;
    if (seq != c->seq + 1 || n < 1 || n > ROWS_MAX || !c->has_journal)
        return check_differs(c, tr("a row of the journal is missing before it"));
    bytes = mem_alloc((size_t)n * ROW_BYTES + 4);
    if (sodium_base642bin(bytes, (size_t)n * ROW_BYTES + 4, data, strlen(data), NULL, &len, NULL,
                          sodium_base64_VARIANT_ORIGINAL) != 0 ||
        len != (size_t)n * ROW_BYTES)
        return check_differs(c, tr("not rows of the journal"));
    for (int64_t i = 0; i < n; i++) {
        const unsigned char *at = bytes + i * ROW_BYTES;
        uint64_t booked = 0;

        for (size_t k = 0; k < 8; k++)
            booked = booked << 8 | at[LEDGER_HASH_SIZE + k];
        ledger_chain_step(c->chain, at, (utime_t)booked, c->chain);
    }
    c->seq += n;
    c->counts.others += n;
    return ERR_OK;
}

enum err check_day_line(struct bill_check *c, struct check_row *r)
{
    int64_t day = row_i64(r, "day"), seq = row_i64(r, "seq");
    const char *text = row_text(r, "hash");
    bool final = row_flag(r, "final");
    unsigned char hash[LEDGER_HASH_SIZE];

    if (r->bad)
        return ERR_OK;
    if (seq != c->seq || !hex_read(text, hash, sizeof(hash)) || !c->has_journal)
        return check_differs(c, tr("not the head of a day"));
    if (memcmp(hash, c->chain, sizeof(hash)) != 0)
        return check_differs(c,
                             tr("the chain of the journal does not lead to the head of this day"));
    c->counts.days++;
    if (!final)
        return ERR_OK;
    c->found_head |= head_known(c, hash);
    c->counts.head_day = day;
    hex_write(hash, sizeof(hash), c->counts.head);
    return ERR_OK;
}

enum err check_journal_over(struct bill_check *c)
{
    for (size_t i = 0; i < c->windows.len; i++)
        if (c->windows.at[i].charged_u != c->windows.at[i].posted_u)
            return check_differs(c, tr("window %s: the journal charged %ld, it says %ld"),
                                 c->windows.at[i].id, c->windows.at[i].charged_u,
                                 c->windows.at[i].posted_u);
    for (size_t i = 0; i < c->accounts.len; i++)
        if (c->accounts.at[i].balance_u != c->accounts.at[i].closing_u)
            return check_differs(c, tr("account %s ends with %ld, it says %ld"),
                                 c->accounts.at[i].id, c->accounts.at[i].balance_u,
                                 c->accounts.at[i].closing_u);
    return ERR_OK;
}
