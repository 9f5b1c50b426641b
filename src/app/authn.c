#include "app/authn.h"

#include <ctype.h>
#include <sodium.h>
#include <strings.h>

#include "store/rows_supply.h"

#define TOUCH_MS ((int64_t)3600 * MS_PER_S)
#define CODE_LETTERS 20
#define GUESSES_FREE 3
#define GATE_MS_MAX ((int64_t)60 * MS_PER_S)

static const char letters[] = "0123456789abcdefghjkmnpqrstvwxyz"; /* no i l o u */

void authn_hash(const char *secret, char ret_hash[HASH_TEXT_SIZE])
{
    unsigned char raw[32];

    CHECK(crypto_generichash(raw, sizeof(raw), (const unsigned char *)secret, strlen(secret), NULL,
                             0) == 0);
    CHECK(sodium_bin2hex(ret_hash, HASH_TEXT_SIZE, raw, sizeof(raw)));
}

void authn_secret(struct core *c, const char *prefix, char ret_secret[SECRET_SIZE])
{
    unsigned char raw[32];
    char text[33];

    core_random(c, raw, sizeof(raw));
    for (size_t i = 0; i < 32; i++)
        text[i] = letters[raw[i] & 31];
    text[32] = '\0';
    CHECK(str_printf(ret_secret, SECRET_SIZE, "%s_%s", prefix, text));
    explicit_bzero(raw, sizeof(raw));
    explicit_bzero(text, sizeof(text));
}

void authn_letters_write(const unsigned char *raw, size_t n, char *ret_code)
{
    size_t at = 0;

    for (size_t i = 0; i < n; i++) {
        if (i > 0 && i % 4 == 0)
            ret_code[at++] = '-';
        ret_code[at++] = (char)toupper(letters[raw[i] & 31]);
    }
    ret_code[at] = '\0';
}

bool authn_letters_read(const char *typed, unsigned char *ret_raw, size_t n)
{
    size_t got = 0;

    for (const char *p = typed; *p; p++) {
        char ch = (char)tolower((unsigned char)*p);
        if (ch == '-' || ch == ' ' || ch == '\n' || ch == '\r')
            continue;
        ch = ch == 'o' ? '0' : ch == 'i' || ch == 'l' ? '1' : ch;
        const char *at = strchr(letters, ch);
        if (!at || got == n)
            return false;
        ret_raw[got++] = (unsigned char)(at - letters);
    }
    return got == n;
}

void authn_code_from(const unsigned char *raw, char ret_code[SECRET_SIZE])
{
    authn_letters_write(raw, CODE_LETTERS, ret_code);
}

void authn_code(struct core *c, char ret_code[SECRET_SIZE])
{
    unsigned char raw[CODE_LETTERS];

    core_random(c, raw, sizeof(raw));
    authn_code_from(raw, ret_code);
    explicit_bzero(raw, sizeof(raw));
}

bool authn_code_norm(const char *typed, char ret_code[SECRET_SIZE])
{
    unsigned char raw[CODE_LETTERS];

    if (!authn_letters_read(typed, raw, CODE_LETTERS))
        return false;
    authn_code_from(raw, ret_code);
    return true;
}

void credentials_read(const char *authorization, const char *project, struct credentials *ret_c)
{
    memset(ret_c, 0, sizeof(*ret_c));
    /* An override that cannot be a name or an id names nothing: say so later, as not found. */
    if (!str_copy(ret_c->project, sizeof(ret_c->project), project))
        CHECK(str_copy(ret_c->project, sizeof(ret_c->project), "?"));
    if (!authorization[0])
        return;
    if (strncasecmp(authorization, "Bearer ", 7) != 0 || !authorization[7] ||
        strlen(authorization + 7) > BEARER_MAX) {
        ret_c->malformed = true;
        return;
    }
    authn_hash(authorization + 7, ret_c->token_hash);
}

static enum err project_refuse(const struct credentials *c, struct refusal *why)
{
    (void)refusef(why, ERR_NOT_FOUND, "what", "project");
    refusal_set(why, "name", c->project);
    refusal_set(why, "verb", "project ls");
    return ERR_NOT_FOUND;
}

/* The project the request is about, and the caller's standing in it. */
static enum err choose_project(struct store *store, const struct credentials *c,
                               const struct token *t, struct principal *who, struct refusal *why)
{
    struct project p;
    enum role role = ROLE_NONE;
    enum err e;

    if (!c->project[0])
        e = t->project.s[0] ? store_project_get(store, t->project, &p) : ERR_NOT_FOUND;
    else if ((e = store_project_get_name(store, c->project, &p)) == ERR_NOT_FOUND) {
        struct id id;
        if (str_copy(id.s, sizeof(id.s), c->project))
            e = store_project_get(store, id, &p);
    }
    if (e == ERR_OK)
        e = store_member_role(store, p.id, who->user, &role);
    if (e != ERR_OK && e != ERR_NOT_FOUND)
        return store_refuse(store, why);
    if (c->project[0] && (e != ERR_OK || role == ROLE_NONE))
        return project_refuse(c, why);
    if (e == ERR_OK && role != ROLE_NONE) {
        who->project = p.id;
        memcpy(who->project_name, p.name, sizeof(who->project_name));
        who->role = authz_min(role, t->role);
    }
    return ERR_OK;
}

static enum err check_user(struct store *store, const struct credentials *c, utime_t now,
                           struct principal *who, bool *ret_touch, struct refusal *why)
{
    struct token t;
    struct user u;
    enum err e = store_token_get_hash(store, c->token_hash, &t);

    if (e == ERR_NOT_FOUND)
        return refuse(why, ERR_AUTH_INVALID);
    if (e != ERR_OK)
        return store_refuse(store, why);
    if (sodium_memcmp(t.hash, c->token_hash, HASH_TEXT_SIZE) != 0 || t.expires_at <= now)
        return refuse(why, ERR_AUTH_INVALID);
    e = store_user_get(store, t.user, &u);
    if (e != ERR_OK)
        return e == ERR_NOT_FOUND ? refuse(why, ERR_AUTH_INVALID) : store_refuse(store, why);
    who->user = u.id;
    who->token = t.id;
    memcpy(who->user_name, u.name, sizeof(who->user_name));
    who->is_operator = u.is_operator && t.role == ROLE_OPERATOR;
    if (ret_touch)
        *ret_touch = now - t.used_at > TOUCH_MS;
    return choose_project(store, c, &t, who, why);
}

static enum err check_node(struct store *store, const struct credentials *c, struct principal *who,
                           struct refusal *why)
{
    struct node *n = mem_alloc(sizeof(*n)); /* large: not for a thread's stack */
    enum err e = store_node_get_hash(store, c->token_hash, n);

    if (e == ERR_OK) {
        who->node = n->id;
        memcpy(who->user_name, n->name, sizeof(who->user_name));
    }
    mem_free_ptr(&n);
    if (e == ERR_NOT_FOUND)
        return refuse(why, ERR_NODE_AUTH);
    return e == ERR_OK ? ERR_OK : store_refuse(store, why);
}

/* Nothing of a supplier is anybody else's: to a stranger there is none. */
static enum err no_supplier(const struct principal *who, struct refusal *why)
{
    (void)refusef(why, ERR_NOT_FOUND, "what", "supplier");
    refusal_set(why, "name", who->user_name);
    refusal_set(why, "verb", "whoami");
    return ERR_NOT_FOUND;
}

enum err authn_check(struct store *store, const struct op_row *row, const struct credentials *c,
                     utime_t now, struct principal *ret_who, bool *ret_touch, struct refusal *why)
{
    struct principal who = {0};

    if (ret_touch)
        *ret_touch = false;
    if (row->access == ACCESS_PUBLIC) {
        *ret_who = who;
        return ERR_OK;
    }
    if (!c->token_hash[0])
        return refuse(why, c->malformed ? ERR_AUTH_INVALID : ERR_AUTH_REQUIRED);
    if (row->access == ACCESS_NODE)
        TRY(check_node(store, c, &who, why));
    else
        TRY(check_user(store, c, now, &who, ret_touch, why));
    struct caller caller = {
        .is_node = who.node.s[0] != '\0', .is_operator = who.is_operator, .role = who.role};
    struct supplier x;

    if (row->access == ACCESS_SUPPLIER)
        caller.is_supplier = supply_get_user(store, who.user, &x) == ERR_OK;
    if (!authz_allows(row->access, &caller) && row->access == ACCESS_SUPPLIER && !caller.is_node)
        return no_supplier(&who, why);
    if (!authz_allows(row->access, &caller))
        return refusef(why, ERR_FORBIDDEN, "role", "%s", role_name(who.role));
    *ret_who = who;
    return ERR_OK;
}

enum err authn_touch(struct store *store, const char *token_hash, utime_t now)
{
    struct token t;

    TRY(store_token_get_hash(store, token_hash, &t));
    t.used_at = now;
    return store_token_save(store, &t);
}

static size_t gate_find(const struct login_gate *g, const char *peer)
{
    for (size_t i = 0; i < g->len; i++)
        if (str_eq(g->at[i].peer, peer))
            return i;
    return g->len;
}

enum err login_gate_check(struct login_gate *g, const char *peer, utime_t boot_ms,
                          struct refusal *why)
{
    size_t i = gate_find(g, peer);

    if (i == g->len || g->at[i].until_ms <= boot_ms)
        return ERR_OK;
    return refusef(why, ERR_RATE_LIMITED, "wait_s", "%" PRId64,
                   (g->at[i].until_ms - boot_ms + MS_PER_S - 1) / MS_PER_S);
}

void login_gate_result(struct login_gate *g, const char *peer, utime_t boot_ms, bool good)
{
    size_t i = gate_find(g, peer);

    if (good) {
        if (i < g->len)
            g->at[i] = g->at[--g->len];
        return;
    }
    if (i == g->len && g->len == LOGIN_SOURCES_MAX) {
        i = 0;
        for (size_t k = 1; k < g->len; k++)
            if (g->at[k].seen_ms < g->at[i].seen_ms)
                i = k;
        g->at[i].failures = 0;
    } else if (i == g->len) {
        g->len++;
        g->at[i].failures = 0;
    }
    CHECK(str_copy(g->at[i].peer, sizeof(g->at[i].peer), peer));
    g->at[i].seen_ms = boot_ms;
    g->at[i].until_ms = boot_ms;
    int over = ++g->at[i].failures - GUESSES_FREE;
    if (over > 0)
        g->at[i].until_ms = boot_ms + MIN((int64_t)MS_PER_S << MIN(over, 20), GATE_MS_MAX);
}
