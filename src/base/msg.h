/* msg.h: the message catalogue. English is the key; po/zh_CN/(any).po is compiled in by tools/po2c.
 * A server answers two languages at once, so the language is an argument, never a global. */
#pragma once

#include "base/err.h"

/* The text in lang; the English one when there is no translation. Static. */
const char *msg_tr(enum lang lang, const char *english);
/* "zh", "zh_CN.UTF-8", "zh-CN,en;q=0.8" → LANG_ZH; anything else → LANG_EN. NULL is English. */
enum lang msg_lang(const char *name);
/* Marks a text for the catalogue where it is not translated on the spot. */
#define N_(s) (s)

struct msg_row {
    const char *en, *zh;
};
extern const struct msg_row msg_rows[]; /* generated, sorted by en */
extern const size_t msg_row_count;
