/* The golden rows of the rent-or-buy advisor, each driven by its own inputs and compared as a whole
 * text, and the edges of the model. */
#include "../support/tap.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/str.h"
#include "domain/tco.h"

struct row {
    char id[8], input[256], want[512];
};
static struct row rows[40];
static size_t row_count;

static void rows_load(void)
{
    char line[2048];
    FILE *f = fopen(TCO_GOLDEN, "re");

    assert_non_null(f);
    while (fgets(line, sizeof(line), f)) {
        char *save = NULL, *id = strtok_r(line, "\t\n", &save),
             *title = strtok_r(NULL, "\t\n", &save);
        char *input = strtok_r(NULL, "\t\n", &save), *want = strtok_r(NULL, "\t\n", &save);
        struct row *r = &rows[row_count];

        assert_true(id && title && input && want);
        if (str_eq(id, "id"))
            continue;
        assert_true(row_count++ < ARRAY_LEN(rows) && str_copy(r->id, sizeof(r->id), id) &&
                    str_copy(r->input, sizeof(r->input), input) &&
                    str_copy(r->want, sizeof(r->want), want));
    }
    fclose(f);
}

static const struct row *row(const char *id)
{
    if (row_count == 0)
        rows_load();
    for (size_t i = 0; i < row_count; i++)
        if (str_eq(rows[i].id, id))
            return &rows[i];
    fail_msg("no row %s", id);
    return NULL;
}

/* The i-th number of the row's inputs; digits that follow a letter (G01, H100) are a name. */
static double num(const struct row *r, size_t i)
{
    const char *s = r->input;

    while (*s) {
        char *end;
        bool name = s > r->input && ((s[-1] >= 'A' && s[-1] <= 'Z') || s[-1] == '_');
        if (*s < '0' || *s > '9') {
            s++;
            continue;
        }
        double v = strtod(s, &end);
        s = end;
        if (!name && i-- == 0)
            return v;
    }
    fail_msg("%s has no such number", r->id);
    return 0;
}

/* "key=value" or "key=a/b" of the inputs; def when the row leaves it out. */
static double key(const struct row *r, const char *name, double def)
{
    char *end;
    size_t n = strlen(name);

    for (const char *s = r->input; *s; s++) {
        if ((s != r->input && s[-1] != ';') || strncmp(s, name, n) != 0 || s[n] != '=')
            continue;
        double v = strtod(s + n + 1, &end);
        return *end == '/' && end[1] >= '0' && end[1] <= '9' ? v / strtod(end + 1, NULL) : v;
    }
    return def;
}

/* G01's figures for what a row leaves out: that row is the base of the others. */
static struct tco_input input(const struct row *r)
{
    const struct row *base = row("G01");

    return (struct tco_input){.exp = 2,
                              .cards = (int64_t)key(r, "N", key(base, "N", 0)),
                              .util = key(r, "u", key(base, "u", 0)),
                              .price = key(r, "p", key(base, "p", 0)),
                              .years = key(r, "T", key(base, "T", 0)),
                              .capex = key(r, "C", key(base, "C", 0)),
                              .hosting = key(r, "host", key(base, "host", 0)),
                              .residual = key(r, "residual", 0),
                              .staff = key(r, "staff", 0) > 0 ? 1 : 0,
                              .salary = key(r, "staff", 0)};
}

static struct tco_result decide(const struct tco_input *in)
{
    struct tco_result r;
    struct refusal why;
    enum err e = tco_decide(in, &r, &why);

    assert_int_equal(e, ERR_OK);
    return r;
}

static const char *minor(int64_t v)
{
    static char text[16][32];
    static size_t at;
    char *buf = text[at++ % ARRAY_LEN(text)];

    snprintf(buf, sizeof(text[0]), "%s%" PRId64 ".%02d", v < 0 ? "-" : "",
             v < 0 ? -(v / 100) : v / 100, (int)(v < 0 ? -(v % 100) : v % 100));
    return buf;
}

static const char *cents(double major)
{
    int64_t v;
    enum err e = tco_minor(major, 2, &v);

    assert_int_equal(e, ERR_OK);
    return minor(v);
}

static void PRINTF_LIKE(2, 3) same(const struct row *r, const char *fmt, ...)
{
    char got[512];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(got, sizeof(got), fmt, ap);
    va_end(ap);
    assert_string_equal(got, r->want);
}

static const char *verdict(enum tco_verdict v)
{
    return v == TCO_RENT ? "rent" : v == TCO_BUY ? "own" : v == TCO_MIX ? "mixed" : "close";
}

static void test_g01(void **state)
{
    const struct row *r = row("G01");
    struct tco_input in = input(r);
    struct tco_result x = decide(&in);

    (void)state;
    same(r,
         "avoided_rent/mo=%s;host/mo=%s;net/mo=%s;breakeven_months=%.4f (month %d);own3y=%s;"
         "rent3y=%s;u*=%.4f%%",
         cents(x.rent_month), cents(x.run_month), cents(x.net_month), x.even_month,
         (int)ceil(x.even_month), minor(x.own), minor(x.rent), 100 * x.even_util);
    assert_int_equal(x.verdict, TCO_BUY);
    assert_int_equal(x.margin, x.rent - x.own);
}

static void test_g02_to_g04(void **state)
{
    (void)state;
    for (int i = 2; i <= 4; i++) {
        char id[8];
        snprintf(id, sizeof(id), "G%02d", i);
        const struct row *r = row(id);
        struct tco_input in = input(r);
        struct tco_result x = decide(&in);
        same(r, "net/mo=%s;breakeven_months=%.4f%s;own3y=%s;rent3y=%s;u*=%.4f%%",
             cents(x.net_month), x.even_month, x.even_month > 36 ? " (> 36: rent)" : "",
             minor(x.own), minor(x.rent), 100 * x.even_util);
        assert_int_equal(x.arithmetic, x.even_month > 36 ? TCO_RENT : TCO_BUY);
    }
}

static void test_g05(void **state)
{
    const struct row *r = row("G05");
    struct tco_input in = input(r);

    (void)state;
    same(r,
         "p for 12 months=%.4f;p for 18 months=%.4f CNY/card-hour (inside the PAI 18-35 and "
         "TI-ONE 15-30 bands only in part)",
         tco_price_for(&in, 12), tco_price_for(&in, 18));
    in.price = tco_price_for(&in, 18);
    assert_true(fabs(decide(&in).even_month - 18) < 1e-9);
}

static void test_g06_and_g07(void **state)
{
    const struct row *r = row("G06");
    struct tco_input in = input(r);
    struct tco_result x = decide(&in);

    (void)state;
    same(r, "u=%.4f%%;net/mo=%s;breakeven_months=%.4f%s;rent3y=%s;own3y=%s", 100 * x.util,
         cents(x.net_month), x.even_month, x.even_month > 36 ? " (> 36: rent)" : "", minor(x.rent),
         minor(x.own));
    assert_true(x.ruled && x.rule == TCO_RULE_LOW && x.verdict == TCO_RENT);
    r = row("G07");
    in = input(r);
    x = decide(&in);
    same(r, "rent3y=%s;own3y=%s;verdict=%s;saving=%s", minor(x.rent), minor(x.own),
         verdict(x.arithmetic), minor(x.margin));
    assert_false(x.ruled);
}

static void test_g08_and_g09(void **state)
{
    const struct row *r = row("G08");
    struct tco_input in = input(r), dear = in;
    struct tco_result x = decide(&in);

    (void)state;
    dear.price = key(row("G03"), "p", 0);
    same(r, "own3y=%s;u*=%.4f%%;u* at p=%.0f=%.4f%%;breakeven_months at u=%.2f=%.4f", minor(x.own),
         100 * x.even_util, dear.price, 100 * decide(&dear).even_util, in.util, x.even_month);
    r = row("G09");
    in = input(r);
    x = decide(&in);
    same(r, "own3y=%s;u*=%.4f%%;straight-line depreciation/yr=%s", minor(x.own), 100 * x.even_util,
         cents(x.depreciation_year));
}

static void test_g10_power(void **state)
{
    const struct row *r = row("G10");
    struct tco_input in = input(row("G01"));
    struct tco_result x;

    (void)state;
    in.hosting = 0;
    in.kw = num(r, 0);
    in.pue = num(r, 1);
    in.load = num(r, 2);
    in.tariff = num(r, 3);
    in.years = 1;
    x = decide(&in);
    same(r, "kWh/yr=%.2f;cost/yr=%s (inside the article's 30-50k hosting band)",
         tco_power_kwh(in.kw, in.load, in.pue), minor(x.own_line[TCO_POWER]));
}

static void test_g11_forgotten(void **state)
{
    const struct row *r = row("G11");
    struct tco_input in = input(row("G01"));
    struct tco_result x;
    double hours = num(r, 0), one = tco_accident(1, hours, num(r, 1), num(r, 2));

    (void)state;
    in.accident_chance = 1;
    in.accident_hours = hours;
    in.accident_cards = num(r, 3);
    in.price = num(r, 4);
    x = decide(&in);
    same(r, "1 card=%s;8 cards=%s; share of one month at 60 %% (G01)=%.4f%%", cents(one),
         minor(x.rent_line[TCO_ACCIDENTS]),
         (double)x.rent_line[TCO_ACCIDENTS] /
             decide(&(struct tco_input){
                        .exp = 2, .cards = 8, .util = in.util, .price = in.price, .years = 3})
                 .rent_month);
    assert_int_equal(x.rent_line[TCO_ACCIDENTS] + x.rent_line[TCO_HOURS], x.rent);
}

static void test_g12_data(void **state)
{
    const struct row *r = row("G12");
    struct tco_input in = input(row("G01"));
    struct tco_result x;

    (void)state;
    in.storage_gb = in.pull_gb = num(r, 0);
    in.pulls = num(r, 1);
    in.traffic_price = num(r, 2);
    in.storage_price = num(r, 3);
    in.years = num(r, 4) / 12;
    in.util = 0;
    x = decide(&in);
    same(r, "egress=%s;storage=%s;total=%s", minor(x.rent_line[TCO_TRAFFIC]),
         minor(x.rent_line[TCO_STORAGE]), minor(x.rent));
}

static void test_g13_and_g14_spot(void **state)
{
    const struct row *r = row("G13");
    struct tco_input in = input(row("G01"));
    struct tco_result x;

    (void)state;
    in.price = num(r, 0);
    in.spot = num(r, 2);
    in.spot_mtbf_h = num(r, 3);
    in.checkpoint_h = num(r, 4) / 60;
    in.restart_h = num(r, 5) / 60;
    x = decide(&in);
    same(r, "tau*=%.6f h;overhead=%.4f%%;effective price=%.4f;saving vs on-demand=%.4f%%",
         x.spot_tau_h, 100 * x.spot_overhead, x.spot_price, 100 * (1 - x.spot_price / in.price));
    assert_int_equal(x.best, TCO_SPOT);
    r = row("G14");
    in.spot_mtbf_h = num(r, 0);
    in.job_h = num(r, 1);
    in.restart_h = num(r, 2) / 60;
    x = decide(&in);
    double work = tco_restart_wall(in.spot_mtbf_h, 0, in.job_h);
    same(
        r,
        "expected wall h=(1/lam)*(e^(lam*%.0f)-1)+restarts*R=%.4f+%.4f=%.4f;cost at %.0f/h=%.4f vs "
        "on-demand %.2f",
        in.job_h, work, x.spot_wall_h - work, x.spot_wall_h, in.spot, x.spot_wall_h * in.spot,
        in.job_h * in.price);
    assert_true(fabs(x.spot_price * in.job_h - x.spot_wall_h * in.spot) < 1e-9);
}

static void test_g15_tax(void **state)
{
    const struct row *r = row("G15");
    struct tco_input in = input(row("G01"));
    struct tco_result with, without;

    (void)state;
    in.price = num(r, 0);
    in.vat = num(r, 1) / 100;
    in.cards = (int64_t)num(r, 2);
    in.util = num(r, 3) / 100;
    with = decide(&in);
    in.vat_reclaimable = true;
    without = decide(&in);
    same(r, "price=%s;rent3y=%s;without VAT=%s;difference=%s", cents(with.price), minor(with.rent),
         minor(without.rent), minor(with.rent - without.rent));
}

static void test_g16_and_g17_time(void **state)
{
    const struct row *r = row("G16");
    struct tco_input in = input(row("G01"));
    struct tco_result x;

    (void)state;
    in.price = num(r, 0);
    in.price_drop = 1 - num(r, 1);
    x = decide(&in);
    same(r, "rent3y=%s;breakeven_months=%.4f", minor(x.rent), x.even_month);
    in = input(row("G01"));
    assert_true(str_eq(row("G17")->input, "G01"));
    in.rate = 0.08; /* the row's title */
    x = decide(&in);
    same(row("G17"),
         "monthly rate=%.6f%%;discounted payback months=%.4f;NPV of buying over 36 months=%s",
         100 * (pow(1.08, 1.0 / 12) - 1), x.even_discounted, minor(x.npv));
}

static void test_g18_mixed(void **state)
{
    const struct row *r = row("G18");
    struct tco_input in = input(row("G01")), staff;
    struct tco_result x, y;
    double years, high;

    (void)state;
    in.demand_count = 2;
    for (size_t i = 0; i < 2; i++)
        in.demand[i] = (struct tco_demand){(int64_t)num(r, 2 * i), num(r, 2 * i + 1) / 100};
    in.price = num(r, 6);
    years = in.years;
    staff = in;
    staff.staff = 1;
    staff.salary = key(row("G08"), "staff", 0);
    x = decide(&in);
    y = decide(&staff);
    assert_string_equal(cents((double)x.own / 100 / years / 8), "46666.67"); /* as the row says */
    assert_string_equal(cents((double)y.own / 100 / years / 8), "84166.67");
    assert_true(fabs(x.util - 0.55) < 1e-12);
    high = in.demand[0].share;
    same(r,
         "cards 1-4 utilisation=%.0f%%;cards 5-8=%.0f%%;no staff: u*=%.4f%% -> own %d, 3y=%s;with "
         "staff: u*=%.4f%% -> own %d rent %d, 3y=%s;own 8=%s;rent all=%s",
         100 * (high + in.demand[1].share), 100 * high, 100 * x.even_util, (int)x.mixed_own,
         minor(x.option[TCO_MIXED]), 100 * y.even_util, (int)y.mixed_own,
         (int)(y.cards - y.mixed_own), minor(y.option[TCO_MIXED]), minor(y.own), minor(y.rent));
    assert_int_equal(y.best, TCO_MIXED);
    assert_int_equal(y.arithmetic, TCO_MIX);
    assert_int_equal(x.arithmetic, TCO_BUY);
}

static void test_g19_weeks(void **state)
{
    const struct row *r = row("G19");
    struct tco_input in = input(row("G01"));
    struct tco_result x;

    (void)state;
    in.cards = (int64_t)num(r, 0);
    in.weeks = num(r, 1) / 168;
    in.price = num(r, 2);
    in.util = 1;
    in.capex = num(r, 3);
    in.residual = num(r, 4) / 100;
    assert_true(fabs(in.weeks - num(r, 5)) < 1e-12); /* "after 6 weeks" */
    in.hosting = num(r, 6);
    x = decide(&in);
    same(r, "rent=%s;buy=%s;verdict=%s", minor(x.rent), minor(x.own), verdict(x.verdict));
    assert_true(x.ruled && x.rule == TCO_RULE_WEEKS && x.even_month == TCO_NEVER);
}

static void test_g20_and_g21_dollars(void **state)
{
    const struct row *r = row("G20");
    struct tco_input in = {.exp = 2, .price = 3.5};
    struct tco_result x;

    (void)state;
    in.cards = (int64_t)num(r, 0);
    in.capex = num(r, 1);
    in.rack = num(r, 2) * num(r, 3) * 12;
    in.maintenance = num(r, 4);
    in.years = key(r, "T", 0);
    in.util = key(r, "u", 0);
    x = decide(&in);
    same(r, "colo/yr=%s;own3y=%s;useful GPU-h=%.2f;USD/useful GPU-h=%.4f;u* vs %.2f/h=%.4f%%",
         cents(in.rack), minor(x.own), x.hours, x.own_hour, in.price, 100 * x.even_util);
    r = row("G21");
    same(r, "hourly=%s;month=%s;idle=%s", cents(tco_idle_cost(num(r, 0), num(r, 1), 1, 1)),
         cents(tco_idle_cost(num(r, 0), num(r, 1), num(r, 3), 1)),
         cents(tco_idle_cost(num(r, 0), num(r, 1), num(r, 3), num(r, 2) / 100)));
}

static void test_g22_and_g23_scale_and_plan(void **state)
{
    const struct row *r = row("G22");
    struct tco_input in = {.exp = 2, .years = 1};
    struct tco_result x;

    (void)state;
    in.cards = (int64_t)num(r, 0);
    in.util = key(r, "u", 0);
    in.price = key(r, "p", 0);
    x = decide(&in);
    assert_true(x.fired & 1u << TCO_RULE_SCALE);
    same(r, "rent/yr=%s;own/yr at %.0f %%=%s;saving/yr=%s", minor(x.rent), 100 * TCO_SCALE_SHARE,
         cents((double)x.rent / 100 * TCO_SCALE_SHARE),
         cents((double)x.rent / 100 * (1 - TCO_SCALE_SHARE)));
    r = row("G23");
    in.cards = 1;
    in.price = num(r, 0);
    in.plan = num(r, 1);
    x = decide(&in);
    same(r, "break-even utilisation=%.4f%% of the month = %.1f h", 100 * x.plan_util, x.plan_hours);
}

static void test_g24_job(void **state)
{
    const struct row *r = row("G24");
    struct tco_input in = input(row("G01"));
    struct tco_result x = decide(&in);

    (void)state;
    double hours = num(r, 1);
    in.price = num(r, 2);
    same(r, "rent=%s;own=%.4f (own rate %.4f/h)", cents(hours * in.price), hours * x.own_hour,
         x.own_hour);
}

static void test_g25_and_g26_the_articles_words(void **state)
{
    const struct row *r = row("G25");
    struct tco_input in = input(row("G01"));
    struct tco_result small, large;
    double low, high;

    (void)state;
    in.price = num(r, 0) / TCO_MONTH_H;
    in.util = 1;
    in.cards = (int64_t)num(r, 1);
    in.capex = num(r, 2);
    small = decide(&in);
    in.capex = num(r, 3);
    large = decide(&in);
    same(r, "net/mo=%s;payback 400k=%.4f;payback 500k=%.4f (12-18 months holds)",
         cents(small.net_month), small.even_month, large.even_month);
    r = row("G26");
    tco_peer_band(num(r, 0), num(r, 1), &low, &high);
    same(r, "low=%.2f;high=%.2f (the article's domestic peer price 8-15 lies inside)", low, high);
}

static void test_every_row_is_here(void **state)
{
    (void)state;
    assert_int_equal(row_count, 26);
}

static void refused(struct tco_input in, const char *field)
{
    struct tco_result r;
    struct refusal why;
    enum err e = tco_decide(&in, &r, &why);

    assert_int_equal(e, ERR_VALIDATION);
    assert_string_equal(why.params[0].value, field);
}

static void test_what_cannot_be_is_refused_and_named(void **state)
{
    const struct tco_input good = input(row("G01"));
    struct tco_input in;

    (void)state;
#define BAD(change, field) (in = good, in.change, refused(in, field))
    BAD(util = 1.01, "--utilisation");
    BAD(util = NAN, "--utilisation");
    BAD(residual = 1.5, "--residual");
    BAD(vat = 20, "--vat");
    BAD(years = 0, "--years");
    BAD(years = NAN, "--years");
    BAD(cards = 0, "--cards");
    BAD(price = -1, "--price");
    BAD(price = INFINITY, "--price");
    BAD(spot = 8, "--spot-mtbf");
    BAD(kw = 6, "--pue");
    in = good;
    in.demand_count = 2;
    in.demand[0] = (struct tco_demand){8, 0.6};
    in.demand[1] = (struct tco_demand){4, 0.6};
    refused(in, "--demand");
    in = good;
    in.capex = 1e12;
    in.cards = 1000000;
    in.price = 1e12;
    struct tco_result r;
    struct refusal why;
    enum err e = tco_decide(&in, &r, &why);
    assert_int_equal(e, ERR_MONEY_RANGE);
}

static void test_rules_come_before_the_figures_and_are_named(void **state)
{
    const struct tco_input good = input(row("G01"));
    struct tco_input in = good;
    struct tco_result r;

    (void)state;
    in.price = 1; /* renting is far cheaper */
    in.data_stays = true;
    in.prototype = true;
    r = decide(&in);
    assert_true(r.ruled && r.rule == TCO_RULE_DATA);
    assert_int_equal(r.verdict, TCO_BUY);
    assert_int_equal(r.arithmetic, TCO_RENT);
    in = good;
    in.latency = true;
    assert_int_equal(decide(&in).verdict, TCO_MIX);
    in = good;
    in.prototype = true;
    assert_int_equal(decide(&in).verdict, TCO_RENT);
    in = good;
    in.weeks = 2;
    in.steady = true;
    r = decide(&in);
    assert_true(r.ruled && r.rule == TCO_RULE_WEEKS && r.even_month == TCO_NEVER);
}

static void test_a_verdict_that_flips_inside_the_ranges_is_too_close(void **state)
{
    struct tco_input in = input(row("G03"));
    struct tco_result r;

    (void)state;
    in.util = 0.40; /* u* is 35.7 % */
    in.salary = 300000;
    r = decide(&in);
    assert_int_equal(r.arithmetic, TCO_BUY);
    assert_int_equal(r.verdict, TCO_CLOSE);
    assert_int_equal(r.sense_count, TCO_KNOBS);
    for (size_t i = 1; i < r.sense_count; i++)
        assert_true(r.sense[i - 1].swing >= r.sense[i].swing);
    assert_int_equal(r.sense[0].knob, TCO_K_STAFF);
}

static void test_long_jobs_without_checkpoints_never_go_to_spot(void **state)
{
    struct tco_input in = input(row("G01"));

    (void)state;
    in.spot = 1;
    in.spot_mtbf_h = 24;
    in.job_h = 48;
    assert_int_equal(decide(&in).best, TCO_SPOT);
    in.long_jobs = true;
    assert_int_equal(decide(&in).best, TCO_OWN);
}

static void test_rounding_is_half_up_at_the_minor_unit(void **state)
{
    static const struct {
        double major;
        int exp;
        int64_t want;
    } c[] = {{1.005, 2, 101}, {0.285, 2, 29}, {-1.005, 2, -101}, {2.5, 0, 3}, {0.0004999, 3, 0}};
    int64_t v;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(c); i++) {
        enum err e = tco_minor(c[i].major, c[i].exp, &v);
        assert_int_equal(e, ERR_OK);
        assert_int_equal(v, c[i].want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_g01),
        cmocka_unit_test(test_g02_to_g04),
        cmocka_unit_test(test_g05),
        cmocka_unit_test(test_g06_and_g07),
        cmocka_unit_test(test_g08_and_g09),
        cmocka_unit_test(test_g10_power),
        cmocka_unit_test(test_g11_forgotten),
        cmocka_unit_test(test_g12_data),
        cmocka_unit_test(test_g13_and_g14_spot),
        cmocka_unit_test(test_g15_tax),
        cmocka_unit_test(test_g16_and_g17_time),
        cmocka_unit_test(test_g18_mixed),
        cmocka_unit_test(test_g19_weeks),
        cmocka_unit_test(test_g20_and_g21_dollars),
        cmocka_unit_test(test_g22_and_g23_scale_and_plan),
        cmocka_unit_test(test_g24_job),
        cmocka_unit_test(test_g25_and_g26_the_articles_words),
        cmocka_unit_test(test_every_row_is_here),
        cmocka_unit_test(test_what_cannot_be_is_refused_and_named),
        cmocka_unit_test(test_rules_come_before_the_figures_and_are_named),
        cmocka_unit_test(test_a_verdict_that_flips_inside_the_ranges_is_too_close),
        cmocka_unit_test(test_long_jobs_without_checkpoints_never_go_to_spot),
        cmocka_unit_test(test_rounding_is_half_up_at_the_minor_unit),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
