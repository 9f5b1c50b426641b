/* tco_ask.h: what suanli tco was asked, where each figure came from, and its answers on a screen.
 * One thread. */
#pragma once

#include "cli/cli.h"
#include "domain/money.h"
#include "domain/tco.h"

#define TCO_ASSUMED_MAX 24
struct tco_ask {
    struct tco_input in;
    struct currency ccy;
    double job_hours; /* card-hours of one job to price both ways; 0: none */
    struct {
        const char *flag; /* static */
        char value[48];
        const char *why; /* static, catalogue key */
    } assumed[TCO_ASSUMED_MAX];
    size_t assumed_count;
    struct tco_usage {
        bool given;
        int64_t months, cards; /* looked at; most at the same time */
        double hours, idle;    /* billed card-hours; share of them under 5 % load */
        double window_h;       /* from the first to the last of it */
        struct money amount;   /* paid for card-hours */
    } usage;
};
/* cmd_tco.c: notes a figure nobody gave, with its reason. */
void tco_assume(struct tco_ask *a, const char *flag, const char *why, const char *fmt, ...)
    PRINTF_LIKE(4, 5);
/* cmd_tco_usage.c: hours, price and idle share of the last months from the account's own bill and
 * usage. Exit code; 0 when they are there. */
int tco_usage_load(struct cli *c, int64_t months, struct tco_ask *a);
/* cmd_tco.c: what own cards for so many useful hours a month would cost a month, over three years and
 * with the figures that are assumed where nothing is given. False: no less than renting them, or no
 * usual figures in that currency. */
bool tco_own_month(struct currency ccy, double card_hours, double price_hour,
                   struct money *ret_month);
/* cmd_tco_view.c */
void tco_print(struct cli *c, const struct tco_ask *a, const struct tco_result *r);
void tco_print_json(const struct tco_ask *a, const struct tco_result *r);
const char *tco_verdict_code(enum tco_verdict v); /* "rent", "own", "mixed", "too_close" */
