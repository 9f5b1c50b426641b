#include "node/gpu.h"

#include "base/str.h"

#include <stdlib.h>

struct gpu {
    const struct gpu_driver *driver;
    void *self; /* owned by the driver */
};

static enum err none_read(void *self UNUSED, struct gpu_list *ret_list UNUSED,
                          struct refusal *why UNUSED)
{
    return ERR_OK;
}

static void none_close(void *self UNUSED) {}

static const struct gpu_driver gpu_none = {"none", none_read, none_close};

enum err gpu_open(const char *spec, const char *seed, const char *knobs, struct gpu **ret_gpu,
                  struct refusal *why)
{
    struct gpu g = {.driver = &gpu_none};

    if (str_starts(spec, "sim:")) {
        TRY(gpu_sim_open(spec + strlen("sim:"), seed, knobs, &g.driver, &g.self, why));
    } else if (str_eq(spec, "nvml")) {
        TRY(gpu_nvml_open(&g.driver, &g.self, why));
    } else if (str_eq(spec, "auto")) {
        struct refusal ignored;

        if (gpu_nvml_open(&g.driver, &g.self, &ignored) != ERR_OK)
            g.driver = &gpu_none;
    } else if (!str_eq(spec, "none") && spec[0] != '\0') {
        return refusef(why, ERR_USAGE, "what", "gpu source \"%s\" is not known", spec);
    }
    *ret_gpu = mem_dup(&g, sizeof(g));
    return ERR_OK;
}

void gpu_close(struct gpu *g)
{
    if (g == NULL)
        return;
    g->driver->close(g->self);
    free(g);
}

enum err gpu_read(struct gpu *g, struct gpu_list *ret_list, struct refusal *why)
{
    memset(ret_list, 0, sizeof(*ret_list));
    memset(ret_list->topology, 255, sizeof(ret_list->topology));
    enum err e = g->driver->read(g->self, ret_list, why);
    if (e != ERR_OK)
        ret_list->count = 0;
    return e;
}

const struct gpu_card *gpu_find(const struct gpu_list *l, const char *uuid)
{
    for (size_t i = 0; i < l->count; i++)
        if (str_eq(l->at[i].uuid, uuid))
            return &l->at[i];
    return NULL;
}
