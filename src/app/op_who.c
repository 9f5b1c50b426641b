/* op_who.c: logging in, tokens, projects, users. The rules of who may be what are in authz.h. */
#include "app/authn.h"
#include "app/cursor.h"
#include "app/op_people.h"
#include "base/msg.h"
#include "base/units.h"

#define LOGIN_LIFE_MS ((int64_t)90 * 86400 * MS_PER_S)
#define CODE_LIFE_MS ((int64_t)7 * 86400 * MS_PER_S)
#define TOKENS_MAX 100

enum err people_not_found(struct op *op, const char *what, const char *name, const char *verb)
{
    (void)refusef(&op->why, ERR_NOT_FOUND, "what", "%s", what);
    refusal_set(&op->why, "name", name);
    refusal_set(&op->why, "verb", verb);
    return ERR_NOT_FOUND;
}

enum err people_invalid(struct op *op, const char *field, const char *why)
{
    (void)refusef(&op->why, ERR_VALIDATION, "field", "%s", field);
    refusal_set(&op->why, "why", why);
    return ERR_VALIDATION;
}

enum err people_exists(struct op *op, const char *what, const char *name)
{
    (void)refusef(&op->why, ERR_EXISTS, "what", "%s", what);
    refusal_set(&op->why, "name", name);
    return ERR_EXISTS;
}

enum err people_try(struct op *op, enum err e)
{
    return e == ERR_OK ? ERR_OK : store_refuse(op->store, &op->why);
}

const char *people_arg(const struct op *op, const char *name, const char *def)
{
    const char *v = def;

    CHECK(json_get_str(op->body, name, def, &v)); /* the router saw to its type */
    return v;
}

/* tokens */

static enum err answer_token(struct op *op, const struct token *t, const char *secret,
                             const char *user_name)
{
    struct project p = {0};
    enum role role = ROLE_NONE;

    if (t->project.s[0]) {
        TRY(people_try(op, store_project_get(op->store, t->project, &p)));
        TRY(people_try(op, store_member_role(op->store, t->project, t->user, &role)));
    }
    json_object_begin(&op->out, NULL);
    json_str(&op->out, "id", t->id.s);
    json_str(&op->out, "token", secret);
    json_str(&op->out, "user", user_name);
    json_str(&op->out, "project", p.name[0] ? p.name : NULL);
    json_str(&op->out, "role",
             role_name(t->role == ROLE_OPERATOR ? ROLE_OPERATOR : authz_min(role, t->role)));
    json_time(&op->out, "expires_at", t->expires_at);
    json_object_finish(&op->out);
    return ERR_OK;
}

static enum err make_token(struct op *op, struct token *t, const char *user_name)
{
    char secret[SECRET_SIZE];

    t->id = core_id(op->core, "tok");
    t->created_at = t->used_at = op->now;
    authn_secret(op->core, "slt", secret);
    authn_hash(secret, t->hash);
    enum err e = people_try(op, store_token_save(op->store, t));
    if (e == ERR_OK)
        e = answer_token(op, t, secret, user_name);
    explicit_bzero(secret, sizeof(secret));
    return e;
}

static enum err take_label(struct op *op, char *buf, size_t size, const char *def)
{
    if (!str_copy(buf, size, people_arg(op, "label", def)))
        return people_invalid(op, "label", N_("at most 63 bytes"));
    return ERR_OK;
}

enum err op_login(struct op *op)
{
    char code[SECRET_SIZE], hash[HASH_TEXT_SIZE];
    struct token t = {.expires_at = op->now + LOGIN_LIFE_MS};
    struct user u;

    if (!authn_code_norm(people_arg(op, "code", ""), code))
        return refuse(&op->why, ERR_CODE_INVALID);
    authn_hash(code, hash);
    enum err e = store_code_take(op->store, hash, op->now, &t.user);
    if (e == ERR_NOT_FOUND)
        return refuse(&op->why, ERR_CODE_INVALID);
    TRY(people_try(op, e));
    TRY(people_try(op, store_user_get(op->store, t.user, &u)));
    TRY(take_label(op, t.label, sizeof(t.label), "login"));
    t.project = u.project;
    t.role = u.is_operator ? ROLE_OPERATOR : ROLE_OWNER;
    op->who.user = u.id; /* so that the audit names who came in */
    memcpy(op->who.user_name, u.name, sizeof(op->who.user_name));
    return make_token(op, &t, u.name);
}

enum err op_me(struct op *op)
{
    struct node_list nodes = {0};
    bool simulated = false;

    enum err e = store_node_list(op->store, &nodes);
    for (size_t i = 0; i < nodes.len; i++)
        simulated = simulated || nodes.at[i].simulated;
    vec_fini(&nodes);
    TRY(people_try(op, e));
    json_object_begin(&op->out, NULL);
    json_str(&op->out, "user", op->who.user_name);
    json_str(&op->out, "user_id", op->who.user.s);
    json_str(&op->out, "project", op->who.project.s[0] ? op->who.project_name : NULL);
    json_str(&op->out, "project_id", op->who.project.s[0] ? op->who.project.s : NULL);
    json_str(&op->out, "role", role_name(op->who.is_operator ? ROLE_OPERATOR : op->who.role));
    json_flag(&op->out, "simulated", simulated);
    json_object_finish(&op->out);
    return ERR_OK;
}

static void write_token(struct op *op, const struct token *t)
{
    json_object_begin(&op->out, NULL);
    json_str(&op->out, "id", t->id.s);
    json_str(&op->out, "label", t->label);
    json_str(&op->out, "role", role_name(t->role));
    json_time(&op->out, "created_at", t->created_at);
    json_time(&op->out, "used_at", t->used_at);
    json_time(&op->out, "expires_at", t->expires_at);
    json_object_finish(&op->out);
}

enum err op_token_list(struct op *op)
{
    struct token_list list = {0};
    struct page page;

    enum err e = page_open(op, &page);
    if (e == ERR_OK)
        e = people_try(op, store_token_list(op->store, op->who.user, &list));
    for (size_t i = 0; e == ERR_OK && i < list.len; i++)
        if (page_takes(&page, list.at[i].id.s))
            write_token(op, &list.at[i]);
    vec_fini(&list);
    return e == ERR_OK ? page_close(op, &page) : e;
}

enum err op_token_create(struct op *op)
{
    const char *role = people_arg(op, "role", NULL), *life = people_arg(op, "expires_in", NULL);
    struct token t = {.user = op->who.user,
                      .project = op->who.project,
                      .role = op->who.role,
                      .expires_at = UTIME_NEVER};
    struct token_list list = {0};
    int64_t life_s;

    TRY(take_label(op, t.label, sizeof(t.label), ""));
    if (role && (!role_find(role, &t.role) || t.role == ROLE_NONE || t.role == ROLE_SUPPLIER))
        return people_invalid(op, "role", N_("viewer, member, owner or operator"));
    if (t.role == ROLE_OPERATOR ? !op->who.is_operator : authz_min(t.role, op->who.role) != t.role)
        return refusef(&op->why, ERR_FORBIDDEN, "role", "%s", role_name(op->who.role));
    if (life) {
        TRY(duration_parse(life, &life_s));
        if (life_s > (int64_t)3650 * 86400)
            return people_invalid(op, "expires_in", N_("at most 3650d"));
        t.expires_at = op->now + life_s * MS_PER_S;
    }
    enum err e = people_try(op, store_token_list(op->store, op->who.user, &list));
    size_t count = list.len;
    vec_fini(&list);
    TRY(e);
    if (count >= TOKENS_MAX)
        return people_invalid(op, "label", N_("you have 100 tokens; revoke some first"));
    return make_token(op, &t, op->who.user_name);
}

enum err op_token_revoke(struct op *op)
{
    struct id id;

    if (!str_copy(id.s, sizeof(id.s), op->path_arg[0]))
        return people_not_found(op, "token", op->path_arg[0], "token ls");
    enum err e = store_token_remove(op->store, op->who.user, id);
    if (e == ERR_NOT_FOUND)
        return people_not_found(op, "token", op->path_arg[0], "token ls");
    TRY(people_try(op, e));
    json_object_begin(&op->out, NULL);
    json_object_finish(&op->out);
    return ERR_OK;
}

/* projects */

static enum err write_project(struct op *op, const struct project *p)
{
    struct member_list members = {0};

    enum err e = people_try(op, store_member_list(op->store, p->id, &members));
    json_object_begin(&op->out, NULL);
    json_str(&op->out, "id", p->id.s);
    json_str(&op->out, "name", p->name);
    json_str(&op->out, "currency", p->currency);
    json_str(&op->out, "zone", p->zone);
    json_array_begin(&op->out, "members");
    for (size_t i = 0; i < members.len; i++) {
        json_object_begin(&op->out, NULL);
        json_str(&op->out, "user", members.at[i].user_name);
        json_str(&op->out, "role", role_name(members.at[i].role));
        json_object_finish(&op->out);
    }
    json_array_finish(&op->out);
    json_object_finish(&op->out);
    vec_fini(&members);
    return e;
}

enum err op_project_list(struct op *op)
{
    struct project_list list = {0};
    struct page page;

    enum err e = page_open(op, &page);
    if (e == ERR_OK)
        e = people_try(op, store_project_list_of(op->store, op->who.user, &list));
    for (size_t i = 0; e == ERR_OK && i < list.len; i++)
        if (page_takes(&page, list.at[i].id.s))
            e = write_project(op, &list.at[i]);
    vec_fini(&list);
    return e == ERR_OK ? page_close(op, &page) : e;
}

/* A project with its first owner. */
static enum err make_project(struct op *op, const char *name, struct id owner,
                             struct project *ret_p)
{
    const struct core_config *c = core_config_of(op->core);
    struct project p = {.id = core_id(op->core, "prj"), .created_at = op->now};

    CHECK(str_copy(p.name, sizeof(p.name), name));
    memcpy(p.currency, c->currency, sizeof(p.currency));
    memcpy(p.zone, c->zone, sizeof(p.zone));
    TRY(people_try(op, store_project_save(op->store, &p)));
    if (owner.s[0])
        TRY(people_try(op, store_member_set(op->store, p.id, owner, ROLE_OWNER)));
    *ret_p = p;
    return ERR_OK;
}

static enum err project_name_free(struct op *op, const char *name, bool *ret_free)
{
    struct project p;
    enum err e = store_project_get_name(op->store, name, &p);

    *ret_free = e == ERR_NOT_FOUND;
    return e == ERR_NOT_FOUND ? ERR_OK : people_try(op, e);
}

enum err op_project_create(struct op *op)
{
    const char *name = people_arg(op, "name", "");
    struct project p;
    bool is_free;

    if (!str_is_name(name))
        return people_invalid(op, "name", N_("1 to 63 of a-z, 0-9 and -"));
    TRY(project_name_free(op, name, &is_free));
    if (!is_free)
        return people_exists(op, "project", name);
    TRY(make_project(op, name, op->who.user, &p));
    return write_project(op, &p);
}

/* A project of the caller's by name or id; others' are not there. */
static enum err own_project(struct op *op, const char *text, struct project *ret_p,
                            enum role *ret_role)
{
    struct id id;
    enum err e = store_project_get_name(op->store, text, ret_p);

    *ret_role = ROLE_NONE;
    if (e == ERR_NOT_FOUND && str_copy(id.s, sizeof(id.s), text))
        e = store_project_get(op->store, id, ret_p);
    if (e == ERR_OK)
        e = store_member_role(op->store, ret_p->id, op->who.user, ret_role);
    if (e != ERR_OK && e != ERR_NOT_FOUND)
        return people_try(op, e);
    if (e == ERR_NOT_FOUND || *ret_role == ROLE_NONE)
        return people_not_found(op, "project", text, "project ls");
    return ERR_OK;
}

static enum err keep_an_owner(struct op *op, const struct project *p, struct id user)
{
    struct member_list members = {0};
    size_t others = 0;

    enum err e = people_try(op, store_member_list(op->store, p->id, &members));
    for (size_t i = 0; i < members.len; i++)
        others += members.at[i].role == ROLE_OWNER && !str_eq(members.at[i].user.s, user.s);
    vec_fini(&members);
    TRY(e);
    return others ? ERR_OK : people_invalid(op, "role", N_("a project keeps at least one owner"));
}

enum err op_project_member_set(struct op *op)
{
    const char *text = people_arg(op, "role", "");
    struct project p;
    struct user u;
    enum role mine, role = ROLE_NONE;

    TRY(own_project(op, op->path_arg[0], &p, &mine));
    if (mine != ROLE_OWNER)
        return refusef(&op->why, ERR_FORBIDDEN, "role", "%s", role_name(mine));
    if (!str_eq(text, "none") &&
        (!role_find(text, &role) ||
         (role != ROLE_OWNER && role != ROLE_MEMBER && role != ROLE_VIEWER)))
        return people_invalid(op, "role", N_("owner, member, viewer or none"));
    enum err e = store_user_get_name(op->store, op->path_arg[1], &u);
    if (e == ERR_NOT_FOUND)
        return people_not_found(op, "user", op->path_arg[1], "project ls");
    TRY(people_try(op, e));
    if (role != ROLE_OWNER)
        TRY(keep_an_owner(op, &p, u.id));
    TRY(people_try(op, store_member_set(op->store, p.id, u.id, role)));
    TRY(people_keys_moved(op, &p.id));
    return write_project(op, &p);
}

/* users */

static enum err write_user(struct op *op, const struct user *u)
{
    struct project p = {0};

    if (u->project.s[0])
        TRY(people_try(op, store_project_get(op->store, u->project, &p)));
    json_object_begin(&op->out, NULL);
    json_str(&op->out, "id", u->id.s);
    json_str(&op->out, "name", u->name);
    json_str(&op->out, "role", u->is_operator ? "operator" : "member");
    json_str(&op->out, "project", p.name[0] ? p.name : NULL);
    json_time(&op->out, "created_at", u->created_at);
    json_object_finish(&op->out);
    return ERR_OK;
}

enum err op_user_list(struct op *op)
{
    struct user_list list = {0};
    struct page page;

    enum err e = page_open(op, &page);
    if (e == ERR_OK)
        e = people_try(op, store_user_list(op->store, &list));
    for (size_t i = 0; e == ERR_OK && i < list.len; i++)
        if (page_takes(&page, list.at[i].id.s))
            e = write_user(op, &list.at[i]);
    vec_fini(&list);
    return e == ERR_OK ? page_close(op, &page) : e;
}

static enum err answer_code(struct op *op, const struct user *u)
{
    char code[SECRET_SIZE], hash[HASH_TEXT_SIZE];
    struct project p = {0};

    if (u->project.s[0])
        TRY(people_try(op, store_project_get(op->store, u->project, &p)));
    authn_code(op->core, code);
    authn_hash(code, hash);
    TRY(people_try(op, store_code_save(op->store, hash, u->id, op->now + CODE_LIFE_MS)));
    json_object_begin(&op->out, NULL);
    json_str(&op->out, "id", u->id.s);
    json_str(&op->out, "name", u->name);
    json_str(&op->out, "code", code);
    json_str(&op->out, "project", p.name[0] ? p.name : NULL);
    json_object_finish(&op->out);
    explicit_bzero(code, sizeof(code));
    return ERR_OK;
}

/* The user's own project has his name, or his name and a number when that is taken. */
static enum err first_project(struct op *op, struct user *u)
{
    char name[NAME_SIZE];
    struct project p;
    bool is_free = false;

    CHECK(str_copy(name, sizeof(name), u->name));
    for (int i = 2; i < 1000; i++) {
        TRY(project_name_free(op, name, &is_free));
        if (is_free)
            break;
        if (!str_printf(name, sizeof(name), "%.58s-%d", u->name, i))
            break;
    }
    if (!is_free)
        return people_exists(op, "project", u->name);
    /* user, project and member refer to each other: the user is saved first, without a project */
    TRY(people_try(op, store_user_save(op->store, u)));
    TRY(make_project(op, name, u->id, &p));
    u->project = p.id;
    return people_try(op, store_user_save(op->store, u));
}

enum err op_user_add(struct op *op)
{
    const char *name = people_arg(op, "name", ""), *role = people_arg(op, "role", "member");
    struct user u = {.created_at = op->now, .is_operator = str_eq(role, "operator")};
    struct user taken;

    if (!str_is_name(name))
        return people_invalid(op, "name", N_("1 to 63 of a-z, 0-9 and -"));
    if (!u.is_operator && !str_eq(role, "member"))
        return people_invalid(op, "role", N_("member or operator"));
    enum err e = store_user_get_name(op->store, name, &taken);
    if (e == ERR_OK)
        return people_exists(op, "user", name);
    if (e != ERR_NOT_FOUND)
        return people_try(op, e);
    CHECK(str_copy(u.name, sizeof(u.name), name));
    u.id = core_id(op->core, "usr");
    TRY(first_project(op, &u));
    return answer_code(op, &u);
}

enum err op_user_code(struct op *op)
{
    struct user u;

    TRY(store_user_lookup(op->store, op->path_arg[0], &u, &op->why));
    return answer_code(op, &u);
}
