/* gpu_sim.c: cards that are not there, for machines and tests without one.
 *
 * Knobs are lines "INDEX KEY VALUE" of a small text file that is read anew each time:
 *   util PCT · used MIB · power W · temp C · ecc N · processes N
 *   lost 1 (answers no longer) · gone 1 (not even counted) · uuid TEXT (says to be another card)
 * A line that is not understood is ignored: a half-written file must not take a card away. */
#include "node/gpu.h"

#include "base/str.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#define KNOBS_SIZE_MAX 16384

struct sim {
    struct gpu_card cards[GPU_CARDS_MAX];
    size_t count;
    char *knobs; /* owned */
};

static uint64_t fnv(const char *s, uint64_t h)
{
    for (; *s != '\0'; s++)
        h = (h ^ (unsigned char)*s) * 1099511628211ULL;
    return h;
}

static void knob_apply(struct gpu_card *c, const char *key, const char *value, bool *gone)
{
    int64_t v = 0;

    if (str_eq(key, "uuid")) {
        (void)str_copy(c->uuid, sizeof(c->uuid), value);
        return;
    }
    if (str_parse_i64(value, 0, INT32_MAX, &v) != ERR_OK)
        return;
    if (str_eq(key, "util"))
        c->util_pct = (int32_t)v;
    else if (str_eq(key, "used"))
        c->memory_used_mib = v;
    else if (str_eq(key, "power"))
        c->power_w = (int32_t)v;
    else if (str_eq(key, "temp"))
        c->temp_c = (int32_t)v;
    else if (str_eq(key, "processes"))
        c->processes = (int32_t)v;
    else if (str_eq(key, "ecc"))
        c->ecc_errors = v;
    else if (str_eq(key, "lost"))
        c->healthy = v == 0;
    else if (str_eq(key, "gone"))
        *gone = v != 0;
}

static void knob_line(char *line, struct gpu_card *cards, size_t count, bool *gone)
{
    char *key = strchr(line, ' ');
    char *value = key != NULL ? strchr(key + 1, ' ') : NULL;
    int64_t index = 0;

    if (value == NULL)
        return;
    *key++ = '\0';
    *value++ = '\0';
    if (count == 0 || str_parse_i64(line, 0, (int64_t)count - 1, &index) != ERR_OK)
        return;
    knob_apply(&cards[index], key, value, &gone[index]);
}

static void knobs_read(const struct sim *s, struct gpu_card *cards, bool *gone)
{
    AUTO_FREE char *text = NULL;
    AUTO_CLOSE int fd = s->knobs != NULL ? open(s->knobs, O_RDONLY | O_CLOEXEC) : -1;

    if (fd < 0)
        return;
    text = mem_alloc(KNOBS_SIZE_MAX + 1);
    ssize_t n = read(fd, text, KNOBS_SIZE_MAX);
    if (n <= 0)
        return;
    for (char *line = text; line != NULL;) {
        char *end = strchr(line, '\n');

        if (end != NULL)
            *end++ = '\0';
        knob_line(line, cards, s->count, gone);
        line = end;
    }
}

static enum err sim_read(void *self, struct gpu_list *l, struct refusal *why UNUSED)
{
    struct sim *s = self;
    struct gpu_card cards[GPU_CARDS_MAX];
    bool gone[GPU_CARDS_MAX] = {false};

    memcpy(cards, s->cards, sizeof(cards));
    knobs_read(s, cards, gone);
    for (size_t i = 0; i < s->count; i++)
        if (!gone[i])
            l->at[l->count++] = cards[i];
    for (size_t i = 0; i < l->count; i++)
        for (size_t j = 0; j < l->count; j++)
            l->topology[i][j] = i == j ? 0 : 20;
    l->simulated = true;
    return ERR_OK;
}

static void sim_close(void *self)
{
    struct sim *s = self;

    free(s->knobs);
    free(s);
}

static const struct gpu_driver gpu_sim = {"sim", sim_read, sim_close};

static void card_init(struct gpu_card *c, const char *seed, size_t index)
{
    uint64_t h = fnv(seed, 14695981039346656037ULL);

    h = (h ^ index) * 1099511628211ULL;
    (void)str_printf(c->uuid, sizeof(c->uuid), "GPU-51300000-%04x-4000-8000-%012" PRIx64,
                     (unsigned)index, h & UINT64_C(0xffffffffffff));
    (void)str_printf(c->bus, sizeof(c->bus), "0000:%02x:00.0", (unsigned)index + 1);
    c->minor = -1;
    c->power_w = 30;
    c->temp_c = 40;
    c->healthy = true;
    c->simulated = true;
}

/* spec: COUNT*MODEL:MIB */
enum err gpu_sim_open(const char *spec, const char *seed, const char *knobs,
                      const struct gpu_driver **ret_driver, void **ret_self, struct refusal *why)
{
    AUTO_FREE char *copy = mem_strdup(spec);
    char *model = strchr(copy, '*');
    char *memory = model != NULL ? strrchr(model, ':') : NULL;
    int64_t count = 0, mib = 0;
    AUTO_FREE struct sim *s = mem_alloc(sizeof(*s));

    if (memory == NULL)
        return refusef(why, ERR_USAGE, "what", "simulated cards are written 4*RTX 4090:24564");
    *model++ = '\0';
    *memory++ = '\0';
    if (str_parse_i64(copy, 1, GPU_CARDS_MAX, &count) != ERR_OK ||
        str_parse_i64(memory, 1, 1 << 24, &mib) != ERR_OK || model[0] == '\0' ||
        strlen(model) >= GPU_NAME_SIZE)
        return refusef(why, ERR_USAGE, "what", "simulated cards are written 4*RTX 4090:24564");
    for (int64_t i = 0; i < count; i++) {
        card_init(&s->cards[i], seed, (size_t)i);
        (void)str_copy(s->cards[i].model, sizeof(s->cards[i].model), model);
        s->cards[i].memory_mib = mib;
    }
    s->count = (size_t)count;
    s->knobs = knobs != NULL && knobs[0] != '\0' ? mem_strdup(knobs) : NULL;
    *ret_driver = &gpu_sim;
    *ret_self = TAKE(s);
    return ERR_OK;
}
