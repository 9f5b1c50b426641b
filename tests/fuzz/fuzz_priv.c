/* Foreign bytes of the root helper: whatever passes its door has the form that its code relies on.
 */
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "node/paths.h"
#include "node/privcheck.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void guest_holds(const struct priv_guest *g, const struct node_net *net)
{
    CHECK(g->data_count <= PRIV_DISKS_MAX && g->port_count <= PRIV_PORTS_MAX);
    CHECK(g->gpu_count <= PRIV_GPUS_MAX && paths_digest_ok(g->image));
    CHECK(paths_id_ok(g->instance) && paths_id_ok(g->system_disk));
    CHECK(g->address >> (32 - net->bits) == net->base >> (32 - net->bits));
    for (uint32_t i = 0; i < g->data_count; i++) {
        CHECK(memchr(g->data[i].mount, '\0', sizeof(g->data[i].mount)));
        CHECK(g->data[i].mount[0] == '/' && !strstr(g->data[i].mount, ".."));
    }
    const char *at = g->argv;
    while (*at)
        at += strlen(at) + 1;
    CHECK(at < g->argv + sizeof(g->argv));
    for (at = g->env; *at; at += strlen(at) + 1)
        CHECK(strchr(at, '='));
    CHECK(at < g->env + sizeof(g->env));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct node_config cfg;
    static struct gpu_list gpus;
    static struct priv_req req;
    struct refusal why;

    if (!cfg.state[0])
        CHECK(config_load(NULL, &cfg, &why) == ERR_OK);
    /* One card that may be asked for. */
    gpus.count = 1;
    CHECK(str_copy(gpus.at[0].uuid, sizeof(gpus.at[0].uuid), "GPU-1"));
    memset(&req, 0, sizeof(req));
    memcpy(&req, data, size < sizeof(req) ? size : sizeof(req));
    if (priv_check(&req, &cfg, &gpus, &why) != ERR_OK)
        return 0;
    if (req.op == PRIV_GUEST_START)
        guest_holds(&req.guest, &cfg.net);
    if (req.op == PRIV_KEYS_SET || req.op == PRIV_NOTICE || req.op == PRIV_REPORT)
        CHECK(strlen(req.text) == req.text_len && str_utf8_ok(req.text));
    return 0;
}
