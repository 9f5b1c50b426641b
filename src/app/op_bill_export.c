/* op_bill_export.c: a bill file, page by page. The first page fixes what is in it (the second up to
 * which all is rated, the last row of the journal); the cursor carries that and the running
 * checksum, signed, so that the pages are one file and nobody gets a seal for lines of his own. */
#include "app/bill_file.h"
#include "app/op_money.h"
#include "base/msg.h"

#include <stdio.h>

#define PLACE_SIZE 768

enum section { SECTION_LEASES, SECTION_WINDOWS, SECTION_ROWS };

struct place {
    int64_t section;
    char lease[ID_SIZE]; /* in work; its slices go on at pos */
    int64_t pos;
    struct bill_boot boot;
};

/* "suanli.cursor.1", project, month and text: what the signature is over. */
static size_t cursor_message(const struct bill_file *f, const char *text, char *buf, size_t size)
{
    char month[16];
    bool ok;

    period_format(&f->month, month, sizeof(month));
    ok = str_printf(buf, size, "suanli.cursor.1\n%s\n%s\n%s", f->project.id.s, month, text);
    CHECK(ok);
    return strlen(buf);
}

static enum err cursor_write(struct bill_file *f, const struct place *p)
{
    char text[PLACE_SIZE], message[PLACE_SIZE + 128], digest[2 * LEDGER_HASH_SIZE + 1];
    unsigned char sig[SIGN_SIZE];
    char sig_text[SIGN_TEXT];
    struct sign_key key;

    TRY(funds_platform_key(f->store, &key));
    hex_write(f->digest, sizeof(f->digest), digest);
    bool ok = str_printf(text, sizeof(text),
                         "%" PRId64 ",%s,%" PRId64 ",%s,%" PRId64 ",%" PRId64 ",%" PRId64
                         ",%d,%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%s",
                         p->section, p->lease[0] ? p->lease : "-", p->pos,
                         p->boot.boot[0] ? p->boot.boot : "-", p->boot.key, f->cut_s, f->seq_to,
                         f->open + 2 * f->st.closed, f->lines, f->windows, f->rated_u, f->posted_u,
                         digest);
    CHECK(ok);
    sign_make(&key, message, cursor_message(f, text, message, sizeof(message)), sig);
    hex_write(sig, sizeof(sig), sig_text);
    json_writer_init(f->json, f->json->out);
    json_object_begin(f->json, NULL);
    json_strf(f->json, "next", "%s,%s", text, sig_text);
    json_object_finish(f->json);
    strbuf_add(f->json->out, "\n");
    return ERR_OK;
}

/* The next field of a cursor; false when there is none or it does not fit. */
static bool field(const char **io_text, char *buf, size_t size)
{
    const char *end = strchr(*io_text, ',');
    size_t n = end ? (size_t)(end - *io_text) : strlen(*io_text);

    if (!**io_text || n >= size)
        return false;
    memcpy(buf, *io_text, n);
    buf[n] = '\0';
    *io_text += n + (end != NULL);
    if (str_eq(buf, "-"))
        buf[0] = '\0';
    return true;
}

static bool number(const char **io_text, int64_t *ret_v)
{
    char buf[24];

    return field(io_text, buf, sizeof(buf)) &&
           str_parse_i64(buf, INT64_MIN, INT64_MAX, ret_v) == ERR_OK;
}

static enum err cursor_take(struct op *op, struct bill_file *f, const char *given, struct place *p)
{
    char text[PLACE_SIZE], message[PLACE_SIZE + 128], digest[2 * LEDGER_HASH_SIZE + 1];
    const char *last = strrchr(given, ','), *at = text;
    unsigned char sig[SIGN_SIZE];
    struct sign_key key;
    int64_t state = 0;

    TRY(funds_platform_key(f->store, &key));
    if (!last ||
        !str_printf(text, sizeof(text), "%.*s", (int)MIN(last - given, PLACE_SIZE), given) ||
        !hex_read(last + 1, sig, sizeof(sig)) ||
        !sign_check(key.open, message, cursor_message(f, text, message, sizeof(message)), sig))
        return refuse(&op->why, ERR_CURSOR);
    bool ok = number(&at, &p->section) && field(&at, p->lease, sizeof(p->lease)) &&
              number(&at, &p->pos) && field(&at, p->boot.boot, sizeof(p->boot.boot)) &&
              number(&at, &p->boot.key) && number(&at, &f->cut_s) && number(&at, &f->seq_to) &&
              number(&at, &state) && number(&at, &f->lines) && number(&at, &f->windows) &&
              number(&at, &f->rated_u) && number(&at, &f->posted_u) &&
              field(&at, digest, sizeof(digest)) && hex_read(digest, f->digest, sizeof(f->digest));
    f->open = (state & 1) != 0;
    f->st.closed &= (state & 2) != 0; /* what was closed since the first page is not in this file */
    return ok ? ERR_OK : refuse(&op->why, ERR_CURSOR);
}

/* What will be in the file. */
static enum err file_bounds(struct bill_file *f)
{
    struct window_list windows = {0};
    struct ledger_day_row day;
    int64_t last;

    TRY(proof_cut(f->store, f->project.id, MIN(f->month.to_s, f->b.now_s), &f->cut_s));
    f->cut_s = MAX(f->cut_s, f->month.from_s);
    TRY(proof_row_of_month(f->store, f->project.id, f->month.year, f->month.month,
                           f->month.to_s * MS_PER_S, &f->seq_to));
    if (f->st.closed) { /* and with what the close moved */
        TRY(proof_row_of_owner(f->store, f->st.id, &last));
        f->seq_to = MAX(f->seq_to, MAX(last, f->st.journal));
    }
    /* on to the head of that day when the day is over: only such heads are published */
    TRY(proof_row_last(f->store, &last));
    TRY(proof_day_of_row(f->store, f->seq_to, &day));
    if (f->seq_to > 0 && day.seq > f->seq_to && day.day < f->b.now_s / DAY_S)
        f->seq_to = day.seq;
    f->seq_to = MIN(f->seq_to, last);
    f->open = f->cut_s < f->month.to_s;
    enum err e =
        money_window_month(f->store, f->project.id, f->month.year, f->month.month, &windows);
    for (size_t i = 0; i < windows.len; i++)
        f->open |= windows.at[i].rated_u != windows.at[i].posted_u;
    vec_fini(&windows);
    return e;
}

static enum err pages_leases(struct bill_file *f, struct place *p, bool *ret_done)
{
    utime_t from = f->month.from_s * MS_PER_S, to = f->cut_s * MS_PER_S, next = -1;

    *ret_done = false;
    for (;;) {
        struct id lease = {0};

        if (p->pos < 0) { /* the next one, from its begin */
            enum err e = proof_lease_next(f->store, f->project.id, p->lease, from, to, &lease);

            if (e == ERR_NOT_FOUND)
                break;
            TRY(e);
            p->pos = INT64_MIN;
        } else {
            (void)str_copy(lease.s, sizeof(lease.s), p->lease);
        }
        TRY(bill_file_lease(f, lease, p->pos, &p->boot, &next));
        memcpy(p->lease, lease.s, sizeof(p->lease));
        p->pos = next;
        if (bill_page_full(f))
            return ERR_OK;
    }
    *ret_done = true;
    return ERR_OK;
}

static enum err pages_rows(struct bill_file *f, struct place *p, bool *ret_done)
{
    *ret_done = false;
    while (p->pos > 0) {
        TRY(bill_file_rows(f, p->pos, &p->pos));
        if (p->pos > 0 && bill_page_full(f))
            return ERR_OK;
    }
    *ret_done = true;
    return ERR_OK;
}

/* One page from the place on. */
static enum err page(struct bill_file *f, struct place *p)
{
    bool done = true;

    if (p->section == SECTION_LEASES) {
        TRY(pages_leases(f, p, &done));
        if (!done)
            return cursor_write(f, p);
        p->section = SECTION_WINDOWS;
    }
    if (p->section == SECTION_WINDOWS) {
        TRY(bill_file_windows(f));
        TRY(bill_file_statement(f));
        TRY(bill_file_accounts(f, &p->pos));
        p->section = SECTION_ROWS;
    }
    TRY(pages_rows(f, p, &done));
    return done ? bill_file_finish(f) : cursor_write(f, p);
}

enum err op_bill_export(struct op *op)
{
    struct bill_file f = {.store = op->store, .json = &op->out};
    const char *after = query_arg(op, "after");
    struct place p = {.pos = -1};
    bool given;

    TRY(people_try(op, store_project_get(op->store, op->who.project, &f.project)));
    TRY(books_open(op->store, op->now, f.project.id, &f.b, &op->why));
    TRY(month_arg(op, &f.b, &given, &f.month));
    enum err e = close_statement(op->store, f.project.id, f.month.year, f.month.month, &f.st);
    if (e != ERR_OK && e != ERR_NOT_FOUND)
        return e;
    if (after) {
        TRY(cursor_take(op, &f, after, &p));
    } else {
        TRY(file_bounds(&f));
        TRY(bill_file_head(&f));
    }
    e = proof_accounts(op->store, f.project.id, &f.accounts);
    if (e == ERR_OK)
        e = page(&f, &p);
    vec_fini(&f.accounts);
    return e;
}
