#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "app/cursor.h"
#include "app/funds.h"
#include "domain/instance.h"
#include "domain/lease.h"

#define MUST(call)                                                                                 \
    do {                                                                                           \
        enum err _e = (call);                                                                      \
        if (_e != ERR_OK) {                                                                        \
            printf("# %s:%d %s: %s\n", __FILE__, __LINE__, #call, err_code(_e));                   \
            fflush(stdout);                                                                        \
        }                                                                                          \
        CHECK(_e == ERR_OK);                                                                       \
    } while (0)

void world_reply_fini(struct world_reply *r)
{
    free(r->answer);
    *r = (struct world_reply){0};
}

static struct core_now world_now(const struct world *w)
{
    struct core_now now = {.wall_ms = WORLD_T0 + w->now_ms + w->wall_off_ms, .boot_ms = w->now_ms};

    CHECK(str_copy(now.boot, sizeof(now.boot), "world"));
    return now;
}

void world_open(struct world *w)
{
    struct core_now now = world_now(w);
    struct refusal why = {0};

    if (!w->store) {
        MUST(store_open(w->file[0] ? w->file : ":memory:", STORE_WRITE, &w->store, &why));
        MUST(store_log_max(w->store, WORLD_LOG_PAGES));
        MUST(store_migrate(w->store, &why));
    }
    MUST(core_init(&w->core, w->store, &w->config, id_maker_seeded(w->seed + 1000 * w->boots++),
                   &now, &why));
}

static void world_people(struct world *w)
{
    struct project p = {.created_at = WORLD_T0};
    struct user u = {.created_at = WORLD_T0, .is_operator = true};
    struct ssh_key k = {.created_at = WORLD_T0};
    struct id_maker ids = id_maker_seeded(w->seed ^ 77);

    p.id = id_make(&ids, "prj");
    u.id = id_make(&ids, "usr");
    k.id = id_make(&ids, "key");
    u.project = p.id;
    k.user = u.id;
    CHECK(str_copy(p.name, sizeof(p.name), "lab") &&
          str_copy(p.currency, sizeof(p.currency), "CNY"));
    CHECK(str_copy(p.zone, sizeof(p.zone), "Asia/Shanghai") &&
          str_copy(u.name, sizeof(u.name), "ann"));
    CHECK(str_copy(k.name, sizeof(k.name), "k"));
    CHECK(str_copy(k.public_key, sizeof(k.public_key), "ssh-ed25519 AAAA ann"));
    MUST(store_begin(w->store));
    MUST(store_project_save(w->store, &p));
    MUST(store_user_save(w->store, &u));
    MUST(store_member_set(w->store, p.id, u.id, ROLE_OWNER));
    MUST(store_key_save(w->store, &k));
    MUST(funds_init(w->store, &ids));
    MUST(cursor_init(w->store, &ids));
    MUST(store_commit(w->store));
    w->user = (struct principal){.user = u.id, .project = p.id, .role = ROLE_OWNER};
    CHECK(str_copy(w->user.user_name, sizeof(w->user.user_name), "ann"));
    w->operator= w->user;
    w->operator.is_operator = true;
}

void world_init(struct world *w, uint64_t seed, bool in_file)
{
    memset(w, 0, sizeof(*w));
    w->seed = seed;
    w->now_ms = 100000;
    w->round_ms = 5000;
    w->config = core_config_default();
    if (in_file) {
        CHECK(str_copy(w->dir, sizeof(w->dir),
                       access("/dev/shm", W_OK) == 0 ? "/dev/shm/sim-XXXXXX" : "/tmp/sim-XXXXXX"));
        CHECK(mkdtemp(w->dir));
        CHECK(str_printf(w->file, sizeof(w->file), "%s/store", w->dir));
    }
    world_open(w);
    world_people(w);
}

void world_fini(struct world *w)
{
    static const char *const ends[] = {"", "-wal", "-shm"};

    core_fini(w->core);
    store_close(w->store);
    for (size_t i = 0; w->dir[0] && i < ARRAY_LEN(ends); i++) {
        char name[120];

        CHECK(str_printf(name, sizeof(name), "%s%s", w->file, ends[i]));
        (void)unlink(name);
    }
    if (w->dir[0])
        (void)rmdir(w->dir);
}

void world_close(struct world *w)
{
    core_fini(w->core);
    w->core = NULL;
    if (w->file[0]) {
        store_close(w->store);
        w->store = NULL;
    } else {
        store_fail_commit(w->store, 0);
    }
}

void world_restart(struct world *w)
{
    world_close(w);
    world_open(w);
}

static void take_reply(void *user, const struct core_reply *r)
{
    struct world_reply *to = user;

    to->come = true;
    to->code = r->code;
    to->replayed = r->replayed;
    if (r->why)
        to->why = *r->why;
    free(to->answer);
    to->answer = r->answer ? mem_strdup(r->answer) : NULL;
}

static const struct op_row *find_op(const char *name)
{
    for (size_t i = 0; i < op_row_count; i++)
        if (str_eq(op_rows[i].name, name))
            return &op_rows[i];
    CHECK(!"unknown operation");
    return NULL;
}

static void submit(struct world *w, struct world_reply *r, const struct principal *who,
                   const char *op, json_t *body, const char *key, const char *path0,
                   const char *path1)
{
    struct core_request q = {.row = find_op(op),
                             .who = *who,
                             .body = body,
                             .boot_ms = w->now_ms,
                             .reply = take_reply,
                             .reply_user = r};
    bool dry = false;

    *r = (struct world_reply){0};
    CHECK(str_copy(q.idem_key, sizeof(q.idem_key), key));
    CHECK(str_printf(q.request_id, sizeof(q.request_id), "req_%" PRId64, ++w->requests));
    if (path0)
        q.path_arg[0] = mem_strdup(path0);
    if (path1)
        q.path_arg[1] = mem_strdup(path1);
    if (json_get_bool(body, "dry_run", false, &dry))
        q.dry_run = dry;
    MUST(core_submit(w->core, &q));
}

void world_submit(struct world *w, struct world_reply *r, const struct principal *who,
                  const char *op, const char *body, const char *key, const char *path0,
                  const char *path1)
{
    json_t *o = body ? json_loads(body, 0, NULL) : json_object();

    CHECK(o);
    submit(w, r, who, op, o, key, path0, path1);
}

bool world_batch(struct world *w)
{
    struct core_now now = world_now(w);
    struct refusal why = {0};

    return core_run_batch(w->core, &now, &why) == ERR_OK;
}

enum err world_call(struct world *w, struct world_reply *r, const struct principal *who,
                    const char *op, const char *body, const char *path0)
{
    world_submit(w, r, who, op, body, "", path0, NULL);
    w->now_ms += 1;
    CHECK(world_batch(w));
    CHECK(r->come);
    return r->code;
}

static void must_call(struct world *w, const char *op, const char *body, const char *path0)
{
    struct world_reply r;
    char text[400];
    enum err e = world_call(w, &r, &w->operator, op, body, path0);

    if (e != ERR_OK) {
        refusal_text(&r.why, LANG_EN, text, sizeof(text));
        printf("# %s %s: %s\n", op, body ? body : "", text);
        fflush(stdout);
    }
    CHECK(e == ERR_OK);
    world_reply_fini(&r);
}

void world_add_node(struct world *w, const char *model, int gpus)
{
    struct simnode *n = &w->nodes[w->node_count];
    struct world_reply r;
    AUTO_JSON json_t *o = NULL;
    char body[100];

    CHECK(w->node_count < WORLD_NODES_MAX);
    simnode_init(n, w->node_count++, model, gpus, w->now_ms - 5000);
    CHECK(str_printf(body, sizeof(body), "{\"name\":\"%s\"}", n->name));
    MUST(world_call(w, &r, &w->operator, "node_add", body, NULL));
    o = json_loads(r.answer, 0, NULL);
    CHECK(json_get_text(o, "id", n->id.s, sizeof(n->id.s)));
    world_reply_fini(&r);
    world_sync(w, w->node_count - 1, false, false);
}

void world_price(struct world *w, const char *sku, const char *price, const char *unit)
{
    char body[200];

    CHECK(str_printf(body, sizeof(body), "{\"sku\":\"%s\",\"price\":\"%s\",\"unit\":\"%s\"}", sku,
                     price, unit));
    must_call(w, "price_set", body, NULL);
}

void world_topup(struct world *w, const char *amount)
{
    char body[200];

    CHECK(str_printf(body, sizeof(body), "{\"project\":\"lab\",\"amount\":\"%s\"}", amount));
    must_call(w, "topup", body, NULL);
}

void world_image(struct world *w, const char *name, const char *digest, bool is_default)
{
    struct image i = {.is_default = is_default, .created_at = WORLD_T0};

    CHECK(str_copy(i.name, sizeof(i.name), name) && str_copy(i.digest, sizeof(i.digest), digest));
    CHECK(str_copy(i.source, sizeof(i.source), "recipe:base"));
    MUST(store_begin(w->store));
    MUST(store_image_save(w->store, &i));
    MUST(store_commit(w->store));
}

void world_sync(struct world *w, int node, bool lose_answer, bool twice)
{
    struct simnode *n = &w->nodes[node];
    struct principal who = {.node = n->id};
    struct world_reply r, again = {0};
    int64_t sent;
    json_t *body = simnode_report(n, w->now_ms, 0, &sent);

    if (twice)
        submit(w, &again, &who, "node_sync", json_incref(body), "", NULL, NULL);
    submit(w, &r, &who, "node_sync", body, "", NULL, NULL);
    if (!world_batch(w)) {
        world_reply_fini(&r);
        world_reply_fini(&again);
        return;
    }
    CHECK(r.come);
    if (r.code != ERR_OK) {
        char text[400];

        refusal_text(&r.why, LANG_EN, text, sizeof(text));
        printf("# node_sync: %s\n", text);
        fflush(stdout);
    }
    CHECK(r.code == ERR_OK);
    if (!lose_answer)
        simnode_answer(n, sent, r.answer);
    world_reply_fini(&r);
    world_reply_fini(&again);
}

void world_pass(struct world *w, int64_t ms)
{
    int64_t end = w->now_ms + ms;

    while (w->now_ms < end) {
        int64_t step = MIN(end - w->now_ms, w->round_ms);

        w->now_ms += step;
        for (int i = 0; i < w->node_count; i++) {
            simnode_live(&w->nodes[i], w->now_ms);
            if (!w->nodes[i].cut)
                world_sync(w, i, false, false);
        }
        if (!world_batch(w))
            return;
    }
}

enum instance_state world_state(struct world *w, const char *instance)
{
    struct refusal why = {0};
    struct instance i;

    MUST(store_instance_lookup(w->store, w->user.project, instance, &i, &why));
    return i.state;
}

/* the laws */

static bool law(char *text, size_t size, const struct refusal *why, enum err e)
{
    if (e == ERR_OK)
        return true;
    refusal_text(why, LANG_EN, text, size);
    return false;
}

static bool rows_hold(struct world *w, char *text, size_t size)
{
    struct instance_list instances = {0};
    struct lease_list leases = {0};
    struct refusal why = {0};
    bool good = true;

    /* what is over cannot change any more; `admin check` looks at all of it */
    MUST(store_instance_list(w->store, w->user.project, false, (struct id){""}, 0, &instances));
    MUST(store_lease_list_live(w->store, &leases));
    for (size_t i = 0; good && i < leases.len; i++)
        good = law(text, size, &why, lease_check(&leases.at[i], &why));
    for (size_t i = 0; good && i < instances.len; i++) {
        const struct lease *mine = NULL;

        for (size_t k = 0; k < leases.len; k++)
            if (str_eq(leases.at[k].id.s, instances.at[i].lease.s))
                mine = &leases.at[k];
        good = law(text, size, &why, instance_check(&instances.at[i], mine, &why));
    }
    vec_fini(&instances);
    vec_fini(&leases);
    return good;
}

/* S1 and I17 as the machines themselves see them. */
static bool nodes_hold(struct world *w, char *text, size_t size)
{
    for (int k = 0; k < w->node_count; k++) {
        const struct simnode *n = &w->nodes[k];
        int64_t now = w->now_ms - n->boot_at_ms;

        for (int i = 0; i < n->lease_count; i++) {
            const struct sim_lease *a = &n->leases[i];
            int64_t hard = MIN(a->paid_boot, a->ends_boot);

            if (a->phase == SIM_RUNNING && now > hard)
                return str_printf(text, size, "I17 %s runs past what is paid", a->id) && false;
            if (a->phase == SIM_ENDED && a->ready_boot >= 0 && a->ended_boot > hard &&
                a->ended_boot > a->ready_boot)
                return str_printf(text, size, "I17 %s ran past what is paid", a->id) && false;
            for (int j = 0; j < i; j++) {
                const struct sim_lease *b = &n->leases[j];

                for (int g = 0; g < a->gpu_count; g++)
                    for (int h = 0; h < b->gpu_count; h++)
                        if (str_eq(a->gpus[g], b->gpus[h]) && a->phase != SIM_ENDED &&
                            b->phase != SIM_ENDED)
                            return str_printf(text, size, "S1 %s in two guests", a->gpus[g]) &&
                                   false;
            }
        }
    }
    return true;
}

static bool money_holds(struct world *w, char *text, size_t size)
{
    struct funds_wallet wallet;
    struct refusal why = {0};

    MUST(funds_wallet(w->store, WORLD_T0 + w->now_ms, w->user.project, &wallet, &why));
    if (wallet.cash_u < 0 || wallet.available_u < 0 || wallet.held_u < 0)
        return str_printf(text, size, "S6 cash %" PRId64 " held %" PRId64, wallet.cash_u,
                          wallet.held_u) &&
               false;
    return true;
}

bool world_laws(struct world *w, char *text, size_t size)
{
    return rows_hold(w, text, size) && nodes_hold(w, text, size) && money_holds(w, text, size);
}

bool world_check(struct world *w, char *text, size_t size)
{
    struct world_reply r;
    AUTO_JSON json_t *o = NULL;
    const json_t *row;
    bool pass = false;
    size_t i;

    if (world_call(w, &r, &w->operator, "check_run", NULL, NULL) != ERR_OK)
        return law(text, size, &r.why, r.code);
    o = json_loads(r.answer, 0, NULL);
    world_reply_fini(&r);
    CHECK(json_get_bool(o, "pass", false, &pass));
    json_array_foreach(json_object_get(o, "rows"), i, row)
    {
        const char *id = "", *what = "";

        if (json_is_true(json_object_get(row, "pass")))
            continue;
        (void)(json_get_str(row, "id", "", &id) && json_get_str(row, "text", "", &what));
        (void)str_printf(text, size, "%.8s %.150s", id, what);
    }
    return pass;
}
