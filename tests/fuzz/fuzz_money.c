/* Foreign text and bytes of the money path: amounts, times, months, zone files. What is accepted
 * must survive being printed and read again. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/str.h"
#include "domain/calendar.h"
#include "domain/money.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_amount(const char *text)
{
    struct currency ccy;
    struct money m, again;
    char buf[MONEY_TEXT_SIZE];

    CHECK(currency_get("CLF", &ccy) == ERR_OK);
    if (money_parse(text, ccy, &m) != ERR_OK)
        return;
    money_format(m, buf, sizeof(buf));
    CHECK(money_parse(buf, ccy, &again) == ERR_OK && again.u == m.u);
}

static void try_time(const struct zone *z, const char *text)
{
    struct period p;
    utime_t t;

    if (calendar_parse(z, text, &t) == ERR_OK) {
        period_month_at(z, t / MS_PER_S, &p);
        CHECK(p.from_s <= t / MS_PER_S && t / MS_PER_S < p.to_s);
    }
    if (period_parse(z, text, &p) == ERR_OK)
        CHECK(p.from_s < p.to_s);
}

static void try_zone(const uint8_t *data, size_t size)
{
    struct zone z;

    if (zone_parse("fuzz", data, size, &z) != ERR_OK)
        return;
    for (int64_t t = -2000000000; t < 5000000000; t += 77777777) {
        struct civil c;
        civil_from(&z, t, &c);
        CHECK(civil_first(&z, &c) <= t);
        CHECK(zone_next_change(&z, t) > t);
    }
}

/* The text as the rule in the footer of a file with one type. */
static void try_rule(const char *text, size_t len)
{
    static const size_t block = 44 + 6 + 4;
    size_t size = 2 * block + len + 2;
    uint8_t *file = mem_alloc(size);

    for (size_t i = 0; i < 2; i++) {
        memcpy(file + i * block, "TZif2", 5);
        file[i * block + 39] = 1;
        file[i * block + 43] = 4;
    }
    file[2 * block] = '\n';
    memcpy(file + 2 * block + 1, text, len);
    file[size - 1] = '\n';
    try_zone(file, size);
    free(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct zone utc;
    char *text = mem_alloc(size + 1);

    if (size)
        memcpy(text, data, size);
    CHECK(zone_builtin("UTC", &utc));
    try_amount(text);
    try_time(&utc, text);
    try_zone(data, size);
    try_rule(text, strlen(text));
    free(text);
    return 0;
}
