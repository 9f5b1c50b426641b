#include "domain/node.h"

static const char *const node_states[] = {"new", "ready", "draining", "silent"};

const char *node_state_name(enum node_state s)
{
    CHECK((size_t)s < ARRAY_LEN(node_states));
    return node_states[s];
}

enum node_state node_state_at(const struct node *n, utime_t now, utime_t listening_since,
                              int64_t silent_ms)
{
    if (!n->seen_at)
        return NODE_NEW;
    if (now - MAX(n->seen_at, listening_since) >= silent_ms)
        return NODE_SILENT;
    return n->drain ? NODE_DRAINING : NODE_READY;
}

utime_t node_anchor(utime_t known, utime_t arrived, int64_t boot_ms)
{
    utime_t anchor = arrived - boot_ms;

    return known ? MIN(known, anchor) : anchor;
}

static int64_t version_part(const char **s)
{
    int64_t v = 0;

    for (; **s >= '0' && **s <= '9'; (*s)++)
        v = v < INT32_MAX ? v * 10 + (**s - '0') : v;
    while (**s && **s != '.')
        (*s)++;
    if (**s == '.')
        (*s)++;
    return v;
}

int version_compare(const char *a, const char *b)
{
    while (*a || *b) {
        int64_t x = version_part(&a), y = version_part(&b);

        if (x != y)
            return x < y ? -1 : 1;
    }
    return 0;
}
