/* life.h: what tests on the simulated world share. */
#pragma once

#include <stdio.h>
#include <stdlib.h>

#include "../support/tap.h"
#include "world.h"

static inline struct world *world_new(void)
{
    struct world *w = mem_alloc(sizeof(*w));

    world_init(w, 1, false);
    world_image(w, "base", "sha256:base", true);
    world_image(w, "bad", "sha256:bad", false);
    world_price(w, "gpu.RTX 4090", "3.6", "hour");
    world_price(w, "cpu.seat", "0.36", "hour");
    world_price(w, "disk", "0.01", "GiB-day");
    world_price(w, "disk.stopped", "0.005", "GiB-day");
    world_price(w, "disk.detached", "0.007", "GiB-day");
    world_add_node(w, "RTX 4090", 2);
    world_topup(w, "100");
    return w;
}

static inline void world_done(struct world *w)
{
    char text[300] = "";
    bool good = world_laws(w, text, sizeof(text)) && world_check(w, text, sizeof(text));

    if (!good)
        print_message("# %s\n", text);
    assert_true(good);
    world_fini(w);
    free(w);
}

static inline void call_as(struct world *w, const struct principal *who, const char *op,
                           const char *body, const char *path)
{
    struct world_reply r;
    char text[400];
    enum err e = world_call(w, &r, who, op, body, path);

    refusal_text(&r.why, LANG_EN, text, sizeof(text));
    if (e != ERR_OK)
        print_message("# %s: %s %s\n", op, err_code(e), text);
    assert_int_equal(e, ERR_OK);
    world_reply_fini(&r);
}

static inline void call_ok(struct world *w, const char *op, const char *body, const char *path)
{
    call_as(w, &w->user, op, body, path);
}

static inline void by_operator_at(struct world *w, const char *op, const char *body, const char *path)
{
    call_as(w, &w->operator, op, body, path);
}

static inline void call_not(struct world *w, const char *op, const char *body, const char *path,
                            enum err want)
{
    struct world_reply r;
    enum err e = world_call(w, &r, &w->user, op, body, path);

    if (e != want)
        print_message("# %s: %s, not %s\n", op, err_code(e), err_code(want));
    assert_int_equal(e, want);
    world_reply_fini(&r);
}

static inline json_t *get(struct world *w, const char *op, const char *path)
{
    struct world_reply r;
    json_t *o;

    assert_int_equal(world_call(w, &r, &w->user, op, NULL, path), ERR_OK);
    o = json_loads(r.answer, 0, NULL);
    assert_non_null(o);
    world_reply_fini(&r);
    return o;
}

static inline const char *text_of(const json_t *o, const char *key)
{
    const char *v = "";

    return json_get_str(o, key, "", &v) ? v : "";
}

static inline const char *amount_of(const json_t *o, const char *key)
{
    return text_of(json_object_get(o, key), "amount");
}
