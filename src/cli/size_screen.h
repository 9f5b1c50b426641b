/* size_screen.h: one answer of suanli size on its way to a screen. One thread. */
#pragma once

#include "cli/cli.h"
#include "domain/size_json.h"

struct size_screen {
    struct size_ask ask;
    struct size_result result;
    struct size_choice choice;
    struct currency ccy;  /* code "": no offers */
    struct offer *offers; /* owned */
    size_t offer_count;
    const char
        *offers_said; /* static: "live", "none", "not_configured", "unreachable", "refused" */
    bool explain, all;
};
/* cmd_size_view.c */
void size_print(struct cli *c, const struct size_screen *s);
/* cmd_size_cases.c: every row of a file of cases and the errors by family; the exit code. */
int cmd_size_cases(struct cli *c, const char *path);
