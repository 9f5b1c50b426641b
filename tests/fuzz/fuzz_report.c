/* A node's report (docs/node-protocol.md) through the real core on a store in memory: answered or
 * refused, never a broken store; the invariants of the books hold afterwards. */
#include <sodium.h>
#include <stdlib.h>

#include "app/core.h"
#include "app/cursor.h"
#include "app/funds.h"
#include "app/op_table.h"

#define ROUNDS_MAX 2000 /* then a new store, so that one run does not slow the next */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct store *store;
static struct core *core;
static struct core_now now;
static struct id node;
static const struct op_row *sync_row;
static unsigned rounds, answered;

static void reply(void *user, const struct core_reply *r)
{
    (void)user;
    CHECK(r->code != ERR_STORE && r->code != ERR_CORRUPT);
    answered++;
}

static void prepare(void)
{
    struct id_maker ids = id_maker_seeded(7);
    struct core_config config = core_config_default();
    struct node n = {.state = NODE_NEW};
    struct refusal why = {0};

    if (core && ++rounds < ROUNDS_MAX)
        return;
    rounds = 0;
    if (core)
        core_fini(core);
    store_close(store);
    CHECK(sodium_init() >= 0);
    now = (struct core_now){.wall_ms = 1700000000000, .boot_ms = 1000000};
    CHECK(str_copy(now.boot, sizeof(now.boot), "b"));
    CHECK(store_open(":memory:", STORE_WRITE, &store, &why) == ERR_OK);
    CHECK(store_migrate(store, &why) == ERR_OK);
    CHECK(store_begin(store) == ERR_OK && funds_init(store, &ids) == ERR_OK &&
          cursor_init(store, &ids) == ERR_OK);
    node = n.id = id_make(&ids, "nod");
    CHECK(str_copy(n.name, sizeof(n.name), "n1"));
    CHECK(store_node_save(store, &n) == ERR_OK && store_commit(store) == ERR_OK);
    CHECK(core_init(&core, store, &config, ids, &now, &why) == ERR_OK);
    for (size_t i = 0; i < op_row_count; i++)
        if (str_eq(op_rows[i].name, "node_sync"))
            sync_row = &op_rows[i];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct refusal why = {0};
    struct core_request r = {.row = NULL};
    json_t *body = NULL;

    if (json_parse((const char *)data, size, 65536, &body, &why) != ERR_OK)
        return 0;
    if (!json_is_object(body)) {
        json_decref(body);
        return 0;
    }
    prepare();
    (void)json_object_del(body, "wait_ms"); /* a held answer would wait for the clock */
    now.wall_ms += 1000;
    now.boot_ms += 1000;
    r.row = sync_row;
    r.body = body;
    r.who.node = node;
    r.boot_ms = now.boot_ms;
    r.reply = reply;
    answered = 0;
    CHECK(core_submit(core, &r) == ERR_OK);
    CHECK(core_run_batch(core, &now, &why) == ERR_OK);
    CHECK(answered == 1 && !store_is_broken(store));
    return 0;
}
