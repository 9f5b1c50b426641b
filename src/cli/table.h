/* table.h: a table of text, aligned by columns on the screen (CJK counts two). Cells are cleaned of
 * control characters here, so a hostile name cannot move the cursor. */
#pragma once

#include <stdio.h>

#include "base/str.h"

#define TABLE_COLUMNS_MAX 16
struct table {
    struct {
        char *text; /* owned */
    } * cell;       /* owned: row by row, the first row is the head */
    size_t cells, cap;
    size_t columns;
    bool right[TABLE_COLUMNS_MAX]; /* numbers stand right */
};
/* head: column names (catalogue keys), NULL ends; align: one letter a column, '>' stands right. */
void table_init(struct table *t, const char *const *head, const char *align);
void table_add(struct table *t, const char *text); /* next cell */
void table_addf(struct table *t, const char *fmt, ...) PRINTF_LIKE(2, 3);
void table_print(const struct table *t, FILE *to, bool color);
void table_fini(struct table *t);
/* Adds text padded with blanks to width columns. */
void table_pad(struct strbuf *out, const char *text, size_t width, bool right);
