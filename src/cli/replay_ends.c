/* replay_ends.c: what ends next, as a heap. */
#include "cli/replay.h"

void replay_ends_push(struct replay_ends *h, struct replay_end e)
{
    (void)vec_push(&h->v);
    size_t i = h->v.len - 1;
    while (i > 0 && h->v.at[(i - 1) / 2].at_s > e.at_s) {
        h->v.at[i] = h->v.at[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    h->v.at[i] = e;
}

struct replay_end replay_ends_pop(struct replay_ends *h)
{
    struct replay_end first = h->v.at[0], e = h->v.at[--h->v.len];
    size_t i = 0;

    for (;;) {
        size_t l = 2 * i + 1;
        if (l >= h->v.len)
            break;
        l += l + 1 < h->v.len && h->v.at[l + 1].at_s < h->v.at[l].at_s;
        if (h->v.at[l].at_s >= e.at_s)
            break;
        h->v.at[i] = h->v.at[l];
        i = l;
    }
    h->v.at[i] = e;
    return first;
}
