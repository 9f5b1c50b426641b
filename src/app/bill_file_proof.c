/* bill_file_proof.c: the lines that let the others be believed: signed slices, and the journal. */
#include <sodium.h>
#include <stdlib.h>

#include "app/bill_file.h"

#define SLICES_AT_ONCE 2000
#define ROWS_AT_ONCE 2000
#define OTHERS_MAX 256 /* rows of others in one line */

static enum err lease_line(struct bill_file *f, const struct fund_lease *l)
{
    struct reclaim_row r = {0};
    enum err e = reclaim_row_get(f->store, l->lease, &r);

    if (e != ERR_OK && e != ERR_NOT_FOUND)
        return e;
    bill_line_begin(f, "lease");
    json_str(f->json, "id", l->lease.s);
    json_str(f->json, "instance", l->instance.s);
    json_str(f->json, "node", l->node.s);
    json_i64(f->json, "epoch", l->epoch);
    json_str(f->json, "meter", meter_name(l->meter));
    json_str(f->json, "sku", l->sku);
    bill_num(f, "per_second", l->qty_per_s);
    json_flag(f->json, "exclusive", l->exclusive);
    json_i64(f->json, "started_s", l->started_s);
    json_i64(f->json, "ready_ms", l->ready_ms);
    if (l->stop_ms == UTIME_NEVER)
        json_none(f->json, "stop_ms");
    else
        json_i64(f->json, "stop_ms", l->stop_ms);
    json_i64(f->json, "paid_until_s", l->paid_until_s);
    json_i64(f->json, "reclaimed_ms", r.decided_ms);
    json_i64(f->json, "free_within_s", r.free_within_s);
    bill_line_finish(f);
    return ERR_OK;
}

static enum err gap_lines(struct bill_file *f, struct id lease)
{
    struct lease_gap_list gaps = {0};
    enum err e = store_gap_list(f->store, lease, &gaps);

    for (size_t i = 0; i < gaps.len && e == ERR_OK; i++) {
        bill_line_begin(f, "gap");
        json_i64(f->json, "from_ms", gaps.at[i].from_ms);
        if (gaps.at[i].to_ms == UTIME_NEVER)
            json_none(f->json, "to_ms");
        else
            json_i64(f->json, "to_ms", gaps.at[i].to_ms);
        bill_line_finish(f);
    }
    vec_fini(&gaps);
    return e;
}

static enum err key_lines(struct bill_file *f, struct id lease)
{
    struct node_key_list keys = {0};
    char text[SIGN_KEY_TEXT];
    enum err e = proof_keys_of_lease(f->store, lease, f->month.from_s * MS_PER_S,
                                     f->cut_s * MS_PER_S, &keys);

    for (size_t i = 0; i < keys.len && e == ERR_OK; i++) {
        hex_write(keys.at[i].key, SIGN_KEY_SIZE, text);
        bill_line_begin(f, "key");
        json_i64(f->json, "n", keys.at[i].id);
        json_str(f->json, "key", text);
        json_i64(f->json, "since_ms", keys.at[i].since_ms);
        bill_line_finish(f);
    }
    vec_fini(&keys);
    return e;
}

static enum err slice_line(struct bill_file *f, const struct slice_row *r,
                           struct bill_boot *io_boot)
{
    struct signature_row sig = {.t0_ms = r->t0_ms, .t1_ms = r->t1_ms, .gpus_ok = r->gpus_ok};
    enum err e = proof_signature_get(f->store, r->node, r->boot, r->seq, &sig);
    char text[SIGN_TEXT] = "";

    if (e != ERR_OK && e != ERR_NOT_FOUND)
        return e;
    if (e == ERR_OK)
        hex_write(sig.sig, SIGN_SIZE, text);
    if (!str_eq(io_boot->boot, r->boot) || io_boot->key != sig.key) {
        (void)str_copy(io_boot->boot, sizeof(io_boot->boot), r->boot);
        io_boot->key = sig.key;
        bill_line_begin(f, "boot");
        json_str(f->json, "boot", r->boot);
        json_i64(f->json, "key", sig.key);
        bill_line_finish(f);
    }
    const int64_t numbers[] = {r->seq,        r->running,       sig.gpus_ok,     sig.t0_ms,
                               sig.t1_ms,     r->cpu_us,        r->memory_bytes, r->rx_bytes,
                               r->tx_bytes,   r->disk_used_mib, r->gpu_util_pct, r->gpu_memory_mib,
                               sig.anchor_ms, r->t0_ms,         r->t1_ms,        r->gpus_ok,
                               r->received_ms};
    bill_line_begin(f, "slice");
    json_array_begin(f->json, "v");
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
        json_i64(f->json, NULL, numbers[i]);
    json_array_finish(f->json);
    json_str(f->json, "sig", text);
    bill_line_finish(f);
    return ERR_OK;
}

/* Slices that begin at pos or later, up to a full page; a page ends between two begins. */
static enum err slice_lines(struct bill_file *f, struct id lease, utime_t pos,
                            struct bill_boot *io_boot, utime_t *ret_next)
{
    struct slice_list l = {0};
    enum err e = money_slice_list(f->store, lease, f->month.from_s * MS_PER_S, f->cut_s * MS_PER_S,
                                  pos, SLICES_AT_ONCE, &l);
    size_t i = 0;

    *ret_next = -1;
    for (; i < l.len && e == ERR_OK; i++) {
        bool border = i == 0 || l.at[i].t0_ms != l.at[i - 1].t0_ms;

        if (border && (bill_page_full(f) || (i > 0 && i + 64 > SLICES_AT_ONCE)))
            break;
        e = slice_line(f, &l.at[i], io_boot);
    }
    if (e == ERR_OK && i < l.len)
        *ret_next = l.at[i].t0_ms;
    vec_fini(&l);
    return e;
}

enum err bill_file_lease(struct bill_file *f, struct id lease, utime_t from_ms,
                         struct bill_boot *io_boot, utime_t *ret_next)
{
    struct fund_lease l;

    if (from_ms == INT64_MIN) {
        TRY(money_lease_get(f->store, lease, &l));
        *io_boot = (struct bill_boot){0};
        TRY(lease_line(f, &l));
        TRY(gap_lines(f, lease));
        TRY(key_lines(f, lease));
    }
    do {
        TRY(slice_lines(f, lease, from_ms, io_boot, ret_next));
        from_ms = *ret_next;
    } while (*ret_next >= 0 && !bill_page_full(f));
    return ERR_OK;
}

/* ---- journal */

static int account_order(const void *a, const void *b)
{
    return strcmp(a, b);
}

static bool is_own(const struct bill_file *f, const char *account)
{
    const struct account_ids *l = &f->accounts;

    return l->len && bsearch(account, l->at, l->len, sizeof(l->at[0]), account_order);
}

enum err bill_file_accounts(struct bill_file *f, int64_t *ret_seq)
{
    struct ledger_day_row before;
    char hash[2 * LEDGER_HASH_SIZE + 1];
    enum err e = ERR_OK;

    *ret_seq = 0;
    TRY(proof_day_before(f->store, f->month.from_s / DAY_S, &before));
    if (f->seq_to <= before.seq)
        return ERR_OK;
    hex_write(before.hash, sizeof(before.hash), hash);
    bill_line_begin(f, "journal");
    json_i64(f->json, "day", before.day);
    json_i64(f->json, "seq", before.seq);
    json_str(f->json, "hash", hash);
    bill_line_finish(f);
    for (size_t i = 0; i < f->accounts.len && e == ERR_OK; i++) {
        int64_t opening = 0, closing = 0;

        e = proof_balance(f->store, f->accounts.at[i], before.seq, &opening);
        if (e == ERR_OK)
            e = proof_balance(f->store, f->accounts.at[i], f->seq_to, &closing);
        bill_line_begin(f, "account");
        json_str(f->json, "id", f->accounts.at[i]);
        bill_num(f, "opening_u", opening);
        bill_num(f, "closing_u", closing);
        bill_line_finish(f);
    }
    *ret_seq = before.seq + 1;
    return e;
}

static void transfer_line(struct bill_file *f, const struct ledger_transfer *t, int64_t seq)
{
    static const char *const steps[] = {"posted", "pending", "post", "void", "expire"};

    CHECK((size_t)t->step < ARRAY_LEN(steps));
    bill_line_begin(f, "transfer");
    json_i64(f->json, "seq", seq);
    json_str(f->json, "id", t->id);
    json_str(f->json, "ledger", t->ledger);
    json_str(f->json, "dr", t->dr);
    json_str(f->json, "cr", t->cr);
    bill_num(f, "amount", t->amount);
    json_str(f->json, "step", steps[t->step]);
    json_str(f->json, "pending", t->pending);
    json_str(f->json, "kind", t->kind);
    json_str(f->json, "group", t->group);
    json_str(f->json, "owner", t->owner);
    json_i64(f->json, "effective_ms", t->effective_ms);
    json_i64(f->json, "expires_ms", t->expires_ms);
    json_i64(f->json, "booked_ms", t->booked_ms);
    bill_line_finish(f);
}

/* Rows of others: enough to compute the chain over them, and nothing of what they say. */
struct others {
    int64_t seq, n;
    unsigned char bytes[OTHERS_MAX * (LEDGER_HASH_SIZE + 8)];
};

static void others_line(struct bill_file *f, struct others *o)
{
    char text[sodium_base64_ENCODED_LEN(sizeof(o->bytes), sodium_base64_VARIANT_ORIGINAL)];

    if (o->n == 0)
        return;
    (void)sodium_bin2base64(text, sizeof(text), o->bytes, (size_t)o->n * (LEDGER_HASH_SIZE + 8),
                            sodium_base64_VARIANT_ORIGINAL);
    bill_line_begin(f, "rows");
    json_i64(f->json, "seq", o->seq);
    json_i64(f->json, "n", o->n);
    json_str(f->json, "data", text);
    bill_line_finish(f);
    o->n = 0;
}

static void others_add(struct others *o, const struct ledger_transfer *t, int64_t seq)
{
    unsigned char *at = o->bytes + o->n * (LEDGER_HASH_SIZE + 8);

    if (o->n++ == 0)
        o->seq = seq;
    ledger_content_hash(t, at);
    for (size_t k = 0; k < 8; k++)
        at[LEDGER_HASH_SIZE + k] = (unsigned char)((uint64_t)t->booked_ms >> (56 - 8 * k));
}

static void day_line(struct bill_file *f, const struct ledger_day_row *d)
{
    char hash[2 * LEDGER_HASH_SIZE + 1];

    hex_write(d->hash, sizeof(d->hash), hash);
    bill_line_begin(f, "day");
    json_i64(f->json, "day", d->day);
    json_i64(f->json, "seq", d->seq);
    json_str(f->json, "hash", hash);
    json_flag(f->json, "final", d->day < f->b.now_s / DAY_S);
    bill_line_finish(f);
}

enum err bill_file_rows(struct bill_file *f, int64_t seq, int64_t *ret_next)
{
    int64_t to = MIN(seq + ROWS_AT_ONCE, f->seq_to + 1);
    struct others *o = mem_alloc(sizeof(*o));
    AUTO_FREE struct others *owned UNUSED = o;
    struct transfer_list rows = {0};
    struct ledger_day_row day;
    enum err e = money_transfer_page(f->store, seq, to, &rows);

    *ret_next = 0;
    if (e == ERR_OK)
        e = proof_day_of_row(f->store, seq, &day);
    if (e == ERR_OK && rows.len != (size_t)(to - seq))
        e = ERR_CORRUPT;
    for (size_t i = 0; i < rows.len && e == ERR_OK; i++, seq++) {
        const struct ledger_transfer *t = &rows.at[i];

        if (is_own(f, t->dr) || is_own(f, t->cr) || (f->st.closed && str_eq(t->owner, f->st.id))) {
            others_line(f, o);
            transfer_line(f, t, seq);
        } else {
            others_add(o, t, seq);
            if (o->n == OTHERS_MAX)
                others_line(f, o);
        }
        if (seq == day.seq) {
            others_line(f, o);
            day_line(f, &day);
            e = proof_day_of_row(f->store, seq + 1, &day);
        }
    }
    others_line(f, o);
    vec_fini(&rows);
    if (e == ERR_OK && seq <= f->seq_to)
        *ret_next = seq;
    return e;
}
