#include "cli/table.h"

#include <stdlib.h>

#include "cli/cli.h"

void table_init(struct table *t, const char *const *head, const char *align)
{
    *t = (struct table){0};
    while (head[t->columns]) {
        CHECK(t->columns < TABLE_COLUMNS_MAX);
        t->right[t->columns] = align[t->columns] == '>';
        t->columns++;
    }
    for (size_t i = 0; i < t->columns; i++)
        table_add(t, tr(head[i]));
}

void table_add(struct table *t, const char *text)
{
    AUTO_STRBUF struct strbuf b = {0};

    strbuf_init(&b, 4096);
    text_clean(text, &b);
    if (t->cells == t->cap) {
        t->cap = t->cap ? t->cap * 2 : 64;
        t->cell = mem_realloc(t->cell, t->cap, sizeof(*t->cell));
    }
    t->cell[t->cells++].text = strbuf_take(&b);
}

void table_addf(struct table *t, const char *fmt, ...)
{
    AUTO_STRBUF struct strbuf b = {0};
    va_list ap;

    strbuf_init(&b, 4096);
    va_start(ap, fmt);
    strbuf_addv(&b, fmt, ap);
    va_end(ap);
    table_add(t, strbuf_str(&b));
}

void table_pad(struct strbuf *out, const char *text, size_t width, bool right)
{
    size_t have = str_width(text), blanks = have < width ? width - have : 0;

    if (right)
        strbuf_addf(out, "%*s", (int)blanks, "");
    strbuf_add(out, text);
    if (!right)
        strbuf_addf(out, "%*s", (int)blanks, "");
}

void table_print(const struct table *t, FILE *to, bool color)
{
    size_t width[TABLE_COLUMNS_MAX] = {0}, rows = t->columns ? t->cells / t->columns : 0;

    for (size_t i = 0; i < rows * t->columns; i++)
        width[i % t->columns] = MAX(width[i % t->columns], str_width(t->cell[i].text));
    for (size_t r = 0; r < rows; r++) {
        AUTO_STRBUF struct strbuf line = {0};
        strbuf_init(&line, 1 << 16);
        for (size_t i = 0; i < t->columns; i++) {
            const char *text = t->cell[r * t->columns + i].text;
            bool last = i + 1 == t->columns;
            if (i)
                strbuf_add(&line, "  ");
            table_pad(&line, text, last && !t->right[i] ? 0 : width[i], t->right[i]);
        }
        while (line.len && line.data[line.len - 1] == ' ')
            line.data[--line.len] = '\0';
        fprintf(to, color && r == 0 ? "\033[1m%s\033[0m\n" : "%s\n", strbuf_str(&line));
    }
}

void table_fini(struct table *t)
{
    for (size_t i = 0; i < t->cells; i++)
        free(t->cell[i].text);
    free(t->cell);
    *t = (struct table){0};
}
