#include "daemon/prices.h"

#include <errno.h>
#include <stdio.h>

#include "app/op_table.h"
#include "base/log.h"

#define LINE_SIZE 512

struct answer {
    enum err code;
    struct refusal why;
    bool empty; /* of price_list */
};

static void take_answer(void *user, const struct core_reply *r)
{
    struct answer *a = user;

    a->code = r->code;
    if (r->code != ERR_OK)
        a->why = *r->why;
    else
        a->empty = strstr(r->answer, "\"items\":[]") != NULL;
}

static struct core_request request(const char *op, struct answer *a, const struct core_now *now)
{
    struct core_request r = {.boot_ms = now->boot_ms,
                             .reply = take_answer,
                             .reply_user = a,
                             .who = {.is_operator = true}};

    for (size_t i = 0; i < op_row_count; i++)
        if (str_eq(op_rows[i].name, op))
            r.row = &op_rows[i];
    CHECK(r.row);
    CHECK(str_copy(r.who.user_name, sizeof(r.who.user_name), "suanlid"));
    return r;
}

/* Cuts the last word off. */
static char *last_word(char *line)
{
    char *blank = strrchr(line, ' ');

    if (!blank)
        return NULL;
    *blank = '\0';
    for (size_t n = strlen(line); n > 0 && line[n - 1] == ' '; n--)
        line[n - 1] = '\0';
    return blank + 1;
}

static enum err set_price(struct core *core, char *line, bool dry, const struct core_now *now,
                          struct refusal *why)
{
    char *unit = last_word(line), *price = unit ? last_word(line) : NULL;
    struct answer a = {.code = ERR_INTERNAL};

    if (!price || !line[0]) {
        (void)refusef(why, ERR_VALIDATION, "field", "line");
        refusal_set(why, "why", "\"SKU PRICE UNIT\" is expected");
        return ERR_VALIDATION;
    }
    struct core_request r = request("price_set", &a, now);
    r.body = json_pack("{s:s,s:s,s:s}", "sku", line, "price", price, "unit", unit);
    CHECK(r.body);
    r.dry_run = dry;
    TRY(core_submit(core, &r));
    TRY(core_run_batch(core, now, why));
    if (a.code != ERR_OK)
        *why = a.why;
    return a.code;
}

static enum err read_lines(struct core *core, FILE *f, const char *path, bool dry,
                           const struct core_now *now, struct refusal *why)
{
    char line[LINE_SIZE], text[REFUSAL_VALUE_MAX];

    for (unsigned n = 1; fgets(line, sizeof(line), f); n++) {
        char *s = line + strspn(line, " \t");
        s[strcspn(s, "#\r\n")] = '\0';
        for (size_t k = strlen(s); k > 0 && s[k - 1] == ' '; k--)
            s[k - 1] = '\0';
        if (!*s)
            continue;
        enum err e = set_price(core, s, dry, now, why);
        if (e == ERR_OK)
            continue;
        refusal_text(why, LANG_EN, text, sizeof(text));
        (void)refusef(why, ERR_VALIDATION, "field", "%.150s:%u", path, n);
        refusal_set(why, "why", text);
        return ERR_VALIDATION;
    }
    return ERR_OK;
}

enum err prices_load_file(struct core *core, struct store *store, const char *path,
                          const struct core_now *now, struct refusal *why)
{
    struct answer a = {.code = ERR_INTERNAL};
    struct core_request r = request("price_list", &a, now);

    core_read(core, store, &r, now);
    core_request_fini(&r);
    if (a.code != ERR_OK) {
        *why = a.why;
        return a.code;
    }
    if (!a.empty)
        return ERR_OK;
    FILE *f = fopen(path, "re");
    if (!f) {
        int number = errno;
        (void)refusef(why, ERR_VALIDATION, "field", "prices");
        refusal_setf(why, "why", "%.150s: %s", path, strerror(number));
        return ERR_VALIDATION;
    }
    /* All lines are good or none counts. */
    enum err e = read_lines(core, f, path, true, now, why);
    rewind(f);
    if (e == ERR_OK)
        e = read_lines(core, f, path, false, now, why);
    (void)fclose(f);
    if (e == ERR_OK)
        log_info("event=prices_loaded file=%s", path);
    return e;
}
