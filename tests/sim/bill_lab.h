/* bill_lab.h: bill files in tests: exported from a simulated world, changed, sealed anew, checked.
 */
#pragma once

#include "base/sha256.h"
#include "cli/bill_check.h"
#include "life.h"

struct lab_file {
    char **line; /* owned, without their ends */
    size_t len, cap;
};
static inline void lab_file_fini(struct lab_file *f)
{
    for (size_t i = 0; i < f->len; i++)
        free(f->line[i]);
    free(f->line);
    *f = (struct lab_file){0};
}
static inline void lab_add(struct lab_file *f, const char *text, size_t n)
{
    if (f->len == f->cap) {
        f->cap = f->cap ? f->cap * 2 : 64;
        f->line = mem_realloc(f->line, f->cap, sizeof(f->line[0]));
    }
    f->line[f->len] = mem_alloc(n + 1);
    memcpy(f->line[f->len++], text, n);
}

struct lab_page {
    struct lab_file *file;
    char next[1200];
    enum err code;
};
static inline void lab_take(void *user, const struct core_reply *reply)
{
    struct lab_page *p = user;

    p->code = reply->code;
    p->next[0] = '\0';
    for (const char *at = reply->answer; reply->code == ERR_OK && at && *at;) {
        const char *end = strchr(at, '\n');
        size_t n = (size_t)(end - at);

        if (n > 9 && memcmp(at, "{\"next\":\"", 9) == 0)
            assert_true(str_printf(p->next, sizeof(p->next), "%.*s", (int)(n - 11), at + 9));
        else
            lab_add(p->file, at, n);
        at = end + 1;
    }
}
/* All pages of a read; ret_pages may be NULL. */
static inline enum err lab_read(struct world *w, const char *op, const char *month,
                                struct lab_file *f, int *ret_pages)
{
    struct lab_page p = {.file = f};
    int pages = 0;

    do {
        struct core_request r = {.who = w->user, .reply = lab_take, .reply_user = &p};
        struct core_now now = {.wall_ms = WORLD_T0 + w->now_ms, .boot_ms = w->now_ms};

        for (size_t i = 0; i < op_row_count; i++)
            if (str_eq(op_rows[i].name, op))
                r.row = &op_rows[i];
        r.query = json_object();
        r.body = json_object();
        if (month)
            assert_int_equal(json_object_set_new(r.query, "month", json_string(month)), 0);
        if (*p.next)
            assert_int_equal(json_object_set_new(r.query, "after", json_string(p.next)), 0);
        core_read(w->core, w->store, &r, &now);
        core_request_fini(&r);
        pages++;
    } while (p.code == ERR_OK && *p.next);
    if (ret_pages)
        *ret_pages = pages;
    return p.code;
}

/* The number of the line that differs; 0: the file is right. why may be NULL. */
static inline int64_t lab_check(const struct lab_file *f, const char *head, struct refusal *why)
{
    AUTO_BILL_CHECK struct bill_check *c = bill_check_new(head);
    struct refusal none = {0};
    enum err e = ERR_OK;

    assert_non_null(c);
    if (!why)
        why = &none;
    for (size_t i = 0; i < f->len && e == ERR_OK; i++)
        e = bill_check_line(c, f->line[i], strlen(f->line[i]), why);
    if (e == ERR_OK)
        e = bill_check_finish(c, why);
    return e == ERR_OK ? 0 : bill_check_counts(c)->lines;
}

#define LAB_TAIL 26 /* ,"sum":"0123456789abcdef"} */
/* Checksums and seal made anew, as somebody would who has the file and a key of his own. */
static inline void lab_seal(struct lab_file *f)
{
    unsigned char seed[SIGN_SEED_SIZE] = "not the platform", digest[SHA256_SIZE] = {0};
    unsigned char message[16 + SHA256_SIZE] = "suanli.bill.1", sig[SIGN_SIZE];
    char hex[SIGN_TEXT], *key = strstr(f->line[0], "\"key\":\"");
    struct sign_key mine;

    sign_key_of(seed, &mine);
    hex_write(mine.open, SIGN_KEY_SIZE, hex);
    memcpy(key + 7, hex, 2 * SIGN_KEY_SIZE);
    for (size_t i = 0; i < f->len; i++) {
        size_t n = strlen(f->line[i]) - LAB_TAIL;
        char *seal = strstr(f->line[i], "\"seal\":\"");
        struct sha256 h;

        if (seal) {
            memcpy(message + 16, digest, sizeof(digest));
            sign_make(&mine, message, sizeof(message), sig);
            hex_write(sig, SIGN_SIZE, hex);
            memcpy(seal + 8, hex, 2 * SIGN_SIZE);
        }
        sha256_init(&h);
        sha256_add(&h, digest, sizeof(digest));
        sha256_add(&h, f->line[i], n);
        sha256_finish(&h, digest);
        hex_write(digest, sizeof(digest), hex);
        memcpy(f->line[i] + n + 8, hex, 16);
    }
}

static inline bool lab_is(const char *line, const char *kind)
{
    char want[40];

    return str_printf(want, sizeof(want), "{\"k\":\"%s\",", kind) && str_starts(line, want);
}
