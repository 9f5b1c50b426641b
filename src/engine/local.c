#include "engine/engine.h"

#include <stdlib.h>

#include "base/mem.h"
#include "base/str.h"

void engine_tell(struct engine *e, struct id node)
{
    for (size_t i = 0; i < e->told_count; i++)
        if (str_eq(e->told[i].s, node.s))
            return;
    if (e->told_count == e->told_cap) {
        e->told_cap = e->told_cap ? e->told_cap * 2 : 8;
        e->told = mem_realloc(e->told, e->told_cap, sizeof(*e->told));
    }
    e->told[e->told_count++] = node;
}

bool engine_told(struct engine *e, struct id *ret_node)
{
    if (!e->told_count)
        return false;
    *ret_node = e->told[--e->told_count];
    return true;
}

static enum err local_submit(struct engine *e, const struct lease *l, struct refusal *why UNUSED)
{
    engine_tell(e, l->node);
    return ERR_OK;
}

static enum err local_tell(struct engine *e, const struct lease *l)
{
    engine_tell(e, l->node);
    return ERR_OK;
}

static const struct engine_driver local = {
    .name = "local",
    .flags = ENGINE_EXTENDS | ENGINE_KEEPS_END,
    .submit = local_submit,
    .stop = local_tell,
    .extend = local_tell,
    .forget = local_tell,
};

void engine_local_init(struct engine *e)
{
    *e = (struct engine){.driver = &local};
}

void engine_fini(struct engine *e)
{
    free(e->told);
    *e = (struct engine){0};
}
