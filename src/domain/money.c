#include "domain/money.h"

#include "base/str.h"

/* ISO 4217 with its minor digits. Only what is listed can be accounted in. */
static const struct {
    char code[4];
    int exp;
} currencies[] = {
    {"AED", 2}, {"AUD", 2}, {"BHD", 3}, {"BRL", 2}, {"CAD", 2}, {"CHF", 2}, {"CLF", 4}, {"CLP", 0},
    {"CNY", 2}, {"CZK", 2}, {"DKK", 2}, {"EUR", 2}, {"GBP", 2}, {"HKD", 2}, {"HUF", 2}, {"IDR", 2},
    {"ILS", 2}, {"INR", 2}, {"IQD", 3}, {"ISK", 0}, {"JOD", 3}, {"JPY", 0}, {"KRW", 0}, {"KWD", 3},
    {"LYD", 3}, {"MOP", 2}, {"MXN", 2}, {"MYR", 2}, {"NOK", 2}, {"NZD", 2}, {"OMR", 3}, {"PHP", 2},
    {"PLN", 2}, {"PYG", 0}, {"RUB", 2}, {"SAR", 2}, {"SEK", 2}, {"SGD", 2}, {"THB", 2}, {"TND", 3},
    {"TRY", 2}, {"TWD", 2}, {"UAH", 2}, {"UGX", 0}, {"USD", 2}, {"UYW", 4}, {"VND", 0}, {"XAF", 0},
    {"XOF", 0}, {"XPF", 0}, {"ZAR", 2}};

static const int64_t powers[7] = {1, 10, 100, 1000, 10000, 100000, 1000000};

static int find_currency(const char *code)
{
    for (size_t i = 0; i < ARRAY_LEN(currencies); i++)
        if (str_eq(currencies[i].code, code))
            return (int)i;
    return -1;
}

enum err currency_get(const char *code, struct currency *ret_ccy)
{
    int i = find_currency(code);

    if (i < 0)
        return ERR_CURRENCY;
    memcpy(ret_ccy->code, currencies[i].code, sizeof(ret_ccy->code));
    return ERR_OK;
}

int currency_exp(struct currency ccy)
{
    int i = find_currency(ccy.code);

    CHECK(i >= 0);
    return currencies[i].exp;
}

int64_t currency_minor_u(struct currency ccy)
{
    return powers[6 - currency_exp(ccy)];
}

bool currency_eq(struct currency a, struct currency b)
{
    return memcmp(a.code, b.code, sizeof(a.code)) == 0;
}

enum err micro_add(int64_t a, int64_t b, int64_t *ret_u)
{
    int64_t u;

    if (__builtin_add_overflow(a, b, &u))
        return ERR_MONEY_RANGE;
    *ret_u = u;
    return ERR_OK;
}

enum err micro_sub(int64_t a, int64_t b, int64_t *ret_u)
{
    int64_t u;

    if (__builtin_sub_overflow(a, b, &u))
        return ERR_MONEY_RANGE;
    *ret_u = u;
    return ERR_OK;
}

enum err micro_mul_div(int64_t a, int64_t n, int64_t d, int64_t *ret_u)
{
    if (d <= 0)
        return ERR_MONEY_RANGE;
    __int128 product = (__int128)a * n;
    __int128 q = product / d;
    if (product % d < 0)
        q--;
    if (q > INT64_MAX || q < INT64_MIN)
        return ERR_MONEY_RANGE;
    *ret_u = (int64_t)q;
    return ERR_OK;
}

struct money money_of(int64_t u, struct currency ccy)
{
    return (struct money){.u = u, .ccy = ccy};
}

enum err money_add(struct money a, struct money b, struct money *ret_m)
{
    int64_t u;

    if (!currency_eq(a.ccy, b.ccy))
        return ERR_CURRENCY;
    TRY(micro_add(a.u, b.u, &u));
    *ret_m = money_of(u, a.ccy);
    return ERR_OK;
}

enum err money_sub(struct money a, struct money b, struct money *ret_m)
{
    int64_t u;

    if (!currency_eq(a.ccy, b.ccy))
        return ERR_CURRENCY;
    TRY(micro_sub(a.u, b.u, &u));
    *ret_m = money_of(u, a.ccy);
    return ERR_OK;
}

enum err money_neg(struct money a, struct money *ret_m)
{
    return money_sub(money_of(0, a.ccy), a, ret_m);
}

/* Adds one decimal digit below zero as well as above, so that INT64_MIN parses. */
static bool push_digit(int64_t *u, char digit, bool negative)
{
    int64_t v = digit - '0';

    return !__builtin_mul_overflow(*u, 10, u) &&
           !(negative ? __builtin_sub_overflow(*u, v, u) : __builtin_add_overflow(*u, v, u));
}

enum err money_parse(const char *s, struct currency ccy, struct money *ret_m)
{
    bool negative = *s == '-', fits = true;
    int64_t u = 0;
    int decimals = 0;

    s += negative;
    if (*s < '0' || *s > '9')
        return ERR_VALIDATION;
    for (; *s >= '0' && *s <= '9'; s++)
        fits = fits && push_digit(&u, *s, negative);
    if (*s == '.') {
        s++;
        if (*s < '0' || *s > '9')
            return ERR_VALIDATION;
        for (; *s >= '0' && *s <= '9'; s++) {
            if (decimals < 6) {
                fits = fits && push_digit(&u, *s, negative);
                decimals++;
            } else if (*s != '0') {
                return ERR_VALIDATION;
            }
        }
    }
    if (*s)
        return ERR_VALIDATION;
    for (; decimals < 6; decimals++)
        fits = fits && push_digit(&u, '0', negative);
    if (!fits)
        return ERR_MONEY_RANGE;
    *ret_m = money_of(u, ccy);
    return ERR_OK;
}

void money_format(struct money m, char *buf, size_t size)
{
    uint64_t abs = m.u < 0 ? (uint64_t)0 - (uint64_t)m.u : (uint64_t)m.u;
    uint64_t whole = abs / MICRO_PER_MAJOR, part = abs % MICRO_PER_MAJOR;
    int digits = 6, min = currency_exp(m.ccy);
    const char *sign = m.u < 0 ? "-" : "";

    while (digits > min && part % 10 == 0) {
        part /= 10;
        digits--;
    }
    bool ok = digits == 0
                  ? str_printf(buf, size, "%s%" PRIu64, sign, whole)
                  : str_printf(buf, size, "%s%" PRIu64 ".%0*" PRIu64, sign, whole, digits, part);
    CHECK(ok);
}

void money_format_ccy(struct money m, char *buf, size_t size)
{
    char amount[MONEY_TEXT_SIZE];

    money_format(m, amount, sizeof(amount));
    bool ok = str_printf(buf, size, "%s %s", amount, m.ccy.code);
    CHECK(ok);
}

void micro_to_minor(int64_t u, int64_t minor_u, int64_t *ret_minor, int64_t *ret_residue_u)
{
    CHECK(minor_u > 0);
    int64_t minor = u / minor_u, residue = u % minor_u;

    if (residue < 0) {
        residue += minor_u;
        minor--;
    }
    *ret_minor = minor;
    *ret_residue_u = residue;
}

void money_to_minor(struct money m, int64_t *ret_minor, int64_t *ret_residue_u)
{
    micro_to_minor(m.u, currency_minor_u(m.ccy), ret_minor, ret_residue_u);
}

enum err money_from_minor(int64_t minor, struct currency ccy, struct money *ret_m)
{
    int64_t u;

    if (__builtin_mul_overflow(minor, currency_minor_u(ccy), &u))
        return ERR_MONEY_RANGE;
    *ret_m = money_of(u, ccy);
    return ERR_OK;
}
