#include "domain/card.h"

#include "base/str.h"

#define TEXT_MAX 128

/* Lower case, every run of other signs than letters and digits one blank, blanks around:
 * "NVIDIA A100-SXM4-80GB" → " nvidia a100 sxm4 80gb ". Letters and digits stay together. */
static bool words_of(const char *s, char out[TEXT_MAX])
{
    size_t n = 0;

    out[n++] = ' ';
    for (; *s; s++) {
        char c = *s >= 'A' && *s <= 'Z' ? (char)(*s - 'A' + 'a') : *s;
        bool word = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
        if (n + 2 >= TEXT_MAX)
            return false;
        if (word || out[n - 1] != ' ')
            out[n++] = word ? c : ' ';
    }
    if (out[n - 1] != ' ')
        out[n++] = ' ';
    out[n] = '\0';
    return true;
}

/* How many letters of `match` are found, word by word; 0 unless all are. */
static size_t match_words(const char *words, const char *match)
{
    size_t found = 0;

    for (const char *p = match; *p;) {
        char one[TEXT_MAX];
        size_t k = strcspn(p, " ");
        bool begins = k > 1 && p[k - 1] == '*'; /* "910b*": any word that begins so */
        if (!str_printf(one, sizeof(one), begins ? " %.*s" : " %.*s ", (int)(k - begins), p) ||
            !strstr(words, one))
            return 0;
        found += k - begins;
        p += k + (p[k] == ' ');
    }
    return found;
}

static bool memory_near(int64_t a_mib, int64_t b_mib)
{
    int64_t d = a_mib > b_mib ? a_mib - b_mib : b_mib - a_mib;

    return d * 10 <= MAX(a_mib, b_mib);
}

const struct card_row *card_find(const char *name, int64_t memory_mib)
{
    const struct card_row *best = NULL;
    char words[TEXT_MAX], said[16];
    size_t most = 0;

    if (!words_of(name, words))
        return NULL;
    for (size_t i = 0; i < card_row_count; i++) {
        const struct card_row *r = &card_rows[i];
        size_t found = match_words(words, r->match);
        if (!found || (memory_mib > 0 && !memory_near(r->memory_gib * 1024, memory_mib)))
            continue;
        /* "A100 80GB" says which of two */
        if (str_printf(said, sizeof(said), " %" PRId64 "gb ", r->memory_gib) && strstr(words, said))
            found += 1;
        if (found > most) {
            most = found;
            best = r;
        }
    }
    return best;
}

bool card_slice_next(const char **pos, char name[16], int64_t *ret_mib, int64_t *ret_count)
{
    const char *p = *pos;
    int64_t gib = 0, count = 0;

    if (!p || !*p)
        return false;
    size_t n = strcspn(p, " ;");
    const char *dot = memchr(p, '.', n), *x = strstr(p, " x");
    CHECK(dot && x && str_printf(name, 16, "%.*s", (int)n, p));
    for (dot++; *dot >= '0' && *dot <= '9'; dot++)
        gib = gib * 10 + (*dot - '0');
    for (x += 2; *x >= '0' && *x <= '9'; x++)
        count = count * 10 + (*x - '0');
    *ret_mib = gib * 1024 * 95 / 100;
    *ret_count = count;
    *pos = *x == ';' ? x + 1 : x;
    return true;
}
