#include "base/msg.h"

const char *msg_tr(enum lang lang, const char *english)
{
    size_t lo = 0, hi = msg_row_count;

    if (lang == LANG_EN)
        return english;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        int c = strcmp(english, msg_rows[mid].en);
        if (c == 0)
            return msg_rows[mid].zh;
        if (c < 0)
            hi = mid;
        else
            lo = mid + 1;
    }
    return english;
}

enum lang msg_lang(const char *name)
{
    return name && strncmp(name, "zh", 2) == 0 ? LANG_ZH : LANG_EN;
}
