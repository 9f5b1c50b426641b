/* cmd_tco_view.c: the answer of suanli tco on a screen: verdict, every line with its formula, the
 * other ways, when buying pays, the rules, the sensitivity, and year by year. */
#include <math.h>

#include "cli/table.h"
#include "cli/tco_ask.h"

#define CHART_WIDTH 50

static const char *const verdict_text[] = {
    [TCO_RENT] = N_("rent"),
    [TCO_BUY] = N_("buy"),
    [TCO_MIX] = N_("own some, rent the rest"),
    [TCO_CLOSE] = N_("too close to call"),
};
static const char *const option_text[] = {
    [TCO_HOURLY] = N_("rent by the hour"),
    [TCO_PLAN] = N_("reserved plan, every card and month"),
    [TCO_SPOT] = N_("spot"),
    [TCO_OWN] = N_("own all"),
    [TCO_MIXED] = N_("mixed fleet"),
};
static const char *const rule_text[] = {
    [TCO_RULE_DATA] = N_("rule 1: data that must not leave is computed on own machines"),
    [TCO_RULE_WEEKS] = N_("rule 2: a project under half a year rents by the hour"),
    [TCO_RULE_HALF_YEAR] = N_("rule 3: half a year or more: compare; mixed is the usual answer"),
    [TCO_RULE_LOW] = N_("rule 4: used under 20 %: rent"),
    [TCO_RULE_HIGH] = N_("rule 5: used 60 % and steadily: buying is said to pay in 12-18 months"),
    [TCO_RULE_STEADY] = N_("rule 6: inference day and night: own"),
    [TCO_RULE_SPECIAL] = N_("rule 7: special hardware, or a room and staff that are there: own"),
    [TCO_RULE_SCALE] = N_("rule 8: with 1,000 cards, owning can come to 60 % of renting"),
    [TCO_RULE_LATENCY] = N_("rule 9: latency counts: own on the spot, rent the peaks"),
    [TCO_RULE_PROTOTYPE] = N_("rule 10: prototypes, learning and changing needs rent"),
    [TCO_RULE_LONG_JOBS] = N_("rule 10: long jobs take reserved cards, spot only with checkpoints"),
};
static const char *const knob_text[] = {
    [TCO_K_UTIL] = N_("utilisation"), [TCO_K_PRICE] = N_("rental price"),
    [TCO_K_CAPEX] = N_("purchase"),   [TCO_K_RESIDUAL] = N_("residual value"),
    [TCO_K_STAFF] = N_("staff"),
};
static const char *const rent_text[] = {
    [TCO_HOURS] = N_("card-hours"),
    [TCO_STORAGE] = N_("storage"),
    [TCO_TRAFFIC] = N_("traffic"),
    [TCO_ACCIDENTS] = N_("forgotten instances"),
};
static const char *const own_text[] = {
    [TCO_HARDWARE] = N_("machines"),        [TCO_NETWORK] = N_("network"),
    [TCO_RESIDUAL] = N_("sold at the end"), [TCO_HOSTING] = N_("hosting and rack"),
    [TCO_POWER] = N_("electricity"),        [TCO_STAFF] = N_("staff"),
    [TCO_MAINTENANCE] = N_("maintenance"),  [TCO_LICENCES] = N_("licences"),
    [TCO_INSURANCE] = N_("insurance"),      [TCO_FINANCE] = N_("finance"),
};

const char *tco_verdict_code(enum tco_verdict v)
{
    static const char *const code[] = {"rent", "own", "mixed", "too_close"};

    return code[v];
}

/* "1120000.00 CNY". The ring is long enough for one line. */
static const char *amount(const struct tco_ask *a, int64_t minor)
{
    static char ring[8][48];
    static size_t at;
    char *buf = ring[at++ % ARRAY_LEN(ring)];
    struct money m;

    if (money_from_minor(minor, a->ccy, &m) == ERR_OK)
        money_format_ccy(m, buf, sizeof(ring[0]));
    else
        snprintf(buf, sizeof(ring[0]), "-");
    return buf;
}

static const char *major(const struct tco_ask *a, double v)
{
    int64_t minor;

    return tco_minor(v, a->in.exp, &minor) == ERR_OK ? amount(a, minor) : "-";
}

/* How a rent line came to be, in numbers. */
static void rent_formula(const struct tco_ask *a, const struct tco_result *r, int i, char *buf,
                         size_t size)
{
    const struct tco_input *in = &a->in;
    double hours = r->years > 0 ? r->hours / r->years / (double)r->cards / r->util : 0;
    double years = r->rent_line[TCO_HOURS] > 0 ? r->years : 0;

    switch (i) {
    case TCO_HOURS:
        snprintf(buf, size, "%" PRId64 " × %.6g × %.0f h × %.6g a × %.6g %s/h%s", r->cards, r->util,
                 r->util > 0 ? hours : TCO_YEAR_H, years > 0 ? years : r->years, r->price,
                 a->ccy.code, in->price_drop > 0 ? " × Σ(1−g)^y/a" : "");
        break;
    case TCO_STORAGE:
        snprintf(buf, size, "%g GB × %g × 12 × %.6g a", in->storage_gb, in->storage_price,
                 r->years);
        break;
    case TCO_TRAFFIC:
        snprintf(buf, size, "%g GB × %g/a × %g × %.6g a", in->pull_gb, in->pulls, in->traffic_price,
                 r->years);
        break;
    default:
        snprintf(buf, size, "%g × %g h × %g × %.6g", in->accident_chance, in->accident_hours,
                 in->accident_cards, r->price);
        break;
    }
}

static void own_formula(const struct tco_ask *a, const struct tco_result *r, int i, char *buf,
                        size_t size)
{
    const struct tco_input *in = &a->in;
    const double yearly[TCO_OWN_LINES] = {[TCO_HOSTING] = in->hosting + in->rack,
                                          [TCO_MAINTENANCE] = in->maintenance,
                                          [TCO_LICENCES] = in->licences,
                                          [TCO_INSURANCE] = in->insurance};

    *buf = '\0';
    if (i == TCO_NETWORK)
        snprintf(buf, size, "%.2f × %g", in->capex, in->network_share);
    else if (i == TCO_RESIDUAL)
        snprintf(buf, size, "-%.2f × %g", in->capex * (1 + in->network_share), in->residual);
    else if (i == TCO_POWER)
        snprintf(buf, size, "%g kW × %g × PUE %g × 8760 h × %g/kWh × %.6g a", in->kw, in->load,
                 in->pue, in->tariff, r->years);
    else if (i == TCO_STAFF)
        snprintf(buf, size, "%g × %.2f/a × %.6g a", in->staff, in->salary, r->years);
    else if (yearly[i] > 0)
        snprintf(buf, size, "%.2f/a × %.6g a", yearly[i], r->years);
}

static void print_lines(struct cli *c, const struct tco_ask *a, const struct tco_result *r)
{
    static const char *const rent_head[] = {N_("RENT"), N_("FORMULA"), N_("AMOUNT"), NULL};
    static const char *const own_head[] = {N_("OWN"), N_("FORMULA"), N_("AMOUNT"), NULL};
    struct table t;
    char formula[160];

    table_init(&t, rent_head, "<<>");
    for (int i = 0; i < TCO_RENT_LINES; i++) {
        rent_formula(a, r, i, formula, sizeof(formula));
        table_add(&t, tr(rent_text[i]));
        table_add(&t, r->rent_line[i] || i == 0 ? formula : "");
        table_add(&t, amount(a, r->rent_line[i]));
    }
    table_add(&t, tr("total"));
    table_add(&t, "");
    table_add(&t, amount(a, r->rent));
    table_print(&t, stdout, c->color);
    table_fini(&t);
    puts("");
    table_init(&t, own_head, "<<>");
    for (int i = 0; i < TCO_OWN_LINES; i++) {
        own_formula(a, r, i, formula, sizeof(formula));
        table_add(&t, tr(own_text[i]));
        table_add(&t, r->own_line[i] ? formula : "");
        table_add(&t, amount(a, r->own_line[i]));
    }
    table_add(&t, tr("total"));
    table_add(&t, "");
    table_add(&t, amount(a, r->own));
    table_print(&t, stdout, c->color);
    table_fini(&t);
}

static void print_assumed(struct cli *c, const struct tco_ask *a)
{
    static const char *const head[] = {N_("ASSUMED"), N_("VALUE"), N_("BECAUSE"), NULL};
    struct table t;

    if (a->usage.given)
        printf(tr("Of your use of %d months: %.2f card-hours, %s, %.1f %% of it idle (under 5 %% "
                  "load), at most %d cards at once\n"),
               (int)a->usage.months, a->usage.hours, major(a, tco_from_micro(a->usage.amount.u)),
               100 * a->usage.idle, (int)a->usage.cards);
    if (a->assumed_count == 0)
        return;
    table_init(&t, head, "<><");
    for (size_t i = 0; i < a->assumed_count; i++) {
        table_add(&t, a->assumed[i].flag);
        table_add(&t, a->assumed[i].value);
        table_add(&t, tr(a->assumed[i].why));
    }
    table_print(&t, stdout, c->color);
    table_fini(&t);
    puts("");
}

static void print_options(struct cli *c, const struct tco_ask *a, const struct tco_result *r)
{
    static const char *const head[] = {N_("WAY"), N_("TOTAL"), "", NULL};
    struct table t;

    puts("");
    table_init(&t, head, "<><");
    for (int i = 0; i < TCO_OPTIONS; i++) {
        if (!r->has[i])
            continue;
        if (i == TCO_MIXED)
            table_addf(&t, tr("mixed fleet: own %d, rent %d"), (int)r->mixed_own,
                       (int)(r->cards - r->mixed_own));
        else
            table_add(&t, tr(option_text[i]));
        table_add(&t, amount(a, r->option[i]));
        table_add(&t, i == (int)r->best ? tr("<- cheapest") : "");
    }
    table_print(&t, stdout, c->color);
    table_fini(&t);
    if (r->plan_hours > 0)
        printf(tr("The plan pays from %.1f h a month on (%.4f %% of 730 h).\n"), r->plan_hours,
               100 * r->plan_util);
    if (a->in.spot > 0 && r->spot_wall_h > 0)
        printf(
            tr("Spot without checkpoints: a job of %.4g h takes %.4f h on average: %.4f %s/h.\n"),
            a->in.job_h, r->spot_wall_h, r->spot_price, a->ccy.code);
    else if (a->in.spot > 0)
        printf(tr("Spot: a checkpoint each %.4f h, %.4f %% lost: %.4f %s/h in truth.\n"),
               r->spot_tau_h, 100 * r->spot_overhead, r->spot_price, a->ccy.code);
    if (a->in.spot > 0 && !r->has[TCO_SPOT])
        puts(tr("Spot is left out: long jobs without checkpoints."));
    puts("");
}

static void print_even(const struct tco_ask *a, const struct tco_result *r)
{
    double months = r->years * 12;

    if (r->weeks_given || months < 1)
        puts(tr("Break-even month: not asked of a project of weeks"));
    else if (r->even_month == TCO_NEVER)
        printf(tr("Break-even: never (a month of renting costs %s, of running your own %s)\n"),
               major(a, r->rent_month), major(a, r->run_month));
    else
        printf(
            tr("Break-even: %.4f months, so month %d%s (%s rent avoided - %s running = %s a month "
               "of 730 h)\n"),
            r->even_month, (int)ceil(r->even_month),
            r->even_month > months ? tr(": after the end") : "", major(a, r->rent_month),
            major(a, r->run_month), major(a, r->net_month));
    if (a->in.rate > 0 && r->has_npv && r->even_discounted == TCO_NEVER)
        printf(tr("Discounted at %.4g %% a year: never; present value of buying %s\n"),
               100 * a->in.rate, amount(a, r->npv));
    else if (a->in.rate > 0 && r->has_npv)
        printf(tr("Discounted at %.4g %% a year: %.4f months; present value of buying %s\n"),
               100 * a->in.rate, r->even_discounted, amount(a, r->npv));
    if (isfinite(r->even_util))
        printf(tr("Break-even utilisation: %.4f %% at %.6g %s a card-hour%s\n"), 100 * r->even_util,
               r->price, a->ccy.code, r->even_util > 1 ? tr(": cannot be reached") : "");
    printf(tr("An hour of use of an owned card: %.4f %s; depreciation %s a year\n"), r->own_hour,
           a->ccy.code, major(a, r->depreciation_year));
    if (a->job_hours > 0)
        printf(tr("A job of %g card-hours: rented %s, owned %s\n"), a->job_hours,
               major(a, a->job_hours * r->price), major(a, a->job_hours * r->own_hour));
    if (a->in.price > 0 && a->in.accident_chance <= 0)
        printf(tr("One card forgotten for a week of rent: %s\n"),
               major(a, tco_accident(1, TCO_FORGOTTEN_H, 1, r->price)));
    puts("");
}

static void print_rules(const struct tco_ask *a, const struct tco_result *r)
{
    for (int i = 0; i < TCO_RULES; i++) {
        if (!(r->fired & 1u << i))
            continue;
        printf("%s %s", r->ruled && (int)r->rule == i ? "*" : "-", tr(rule_text[i]));
        if (i == TCO_RULE_HIGH)
            printf(" (%s)", r->even_month >= 0 && r->even_month <= 18 ? tr("it does here")
                                                                      : tr("it does not here"));
        if (i == TCO_RULE_SCALE && r->years > 0)
            printf(": %s", major(a, (double)r->rent_line[TCO_HOURS] / pow(10, a->in.exp) *
                                        TCO_SCALE_SHARE));
        puts("");
    }
    puts(tr("(* decided; - was looked at)"));
    puts("");
}

static void print_sense(struct cli *c, const struct tco_ask *a, const struct tco_result *r)
{
    static const char *const head[] = {
        N_("SENSITIVE TO"), N_("FROM"), N_("RENT - OWN"), N_("TO"), N_("RENT - OWN"), "", NULL};
    struct table t;

    table_init(&t, head, "<>>>><");
    for (size_t i = 0; i < r->sense_count; i++) {
        const struct tco_sense *s = &r->sense[i];
        table_addf(&t, "%zu %s", i + 1, tr(knob_text[s->knob]));
        table_addf(&t, "%.10g", s->low);
        table_add(&t, amount(a, s->at_low));
        table_addf(&t, "%.10g", s->high);
        table_add(&t, amount(a, s->at_high));
        table_add(&t, s->flips ? tr("<- another verdict") : "");
    }
    table_print(&t, stdout, c->color);
    table_fini(&t);
    printf(tr("Most sensitive to: %s, %s, %s\n"), tr(knob_text[r->sense[0].knob]),
           tr(knob_text[r->sense[1].knob]), tr(knob_text[r->sense[2].knob]));
    if (a->in.salary <= 0)
        puts(tr("Staff was not varied: give --salary."));
    puts("");
}

static void bar(int64_t v, int64_t most, const char *mark, struct strbuf *out)
{
    int n = most > 0 ? (int)((double)v / (double)most * CHART_WIDTH + 0.5) : 0;

    for (int i = 0; i < n && i < CHART_WIDTH; i++)
        strbuf_add(out, mark);
}

static void print_years(struct cli *c, const struct tco_ask *a, const struct tco_result *r)
{
    static const char *const head[] = {N_("YEAR"),     N_("RENT"),       N_("OWN"), N_("RENT, SUM"),
                                       N_("OWN, SUM"), N_("DIFFERENCE"), NULL};
    size_t count = tco_year_count(&a->in);
    int64_t most = MAX(MAX(r->rent, r->own), (int64_t)1);
    struct tco_year y;
    struct table t;

    table_init(&t, head, "<>>>>>");
    for (size_t i = 0; i < count; i++) {
        tco_year_get(&a->in, i, &y);
        most = MAX(most, y.own_sum);
        if (y.length < 1)
            table_addf(&t, "%zu (%.4g)", i + 1, y.length);
        else
            table_addf(&t, "%zu", i + 1);
        table_add(&t, amount(a, y.rent));
        table_add(&t, amount(a, y.own));
        table_add(&t, amount(a, y.rent_sum));
        table_add(&t, amount(a, y.own_sum));
        table_add(&t, amount(a, y.rent_sum - y.own_sum));
    }
    table_print(&t, stdout, c->color);
    table_fini(&t);
    puts("");
    for (size_t i = 0; i < count; i++) {
        AUTO_STRBUF struct strbuf rent = {0}, own = {0};
        strbuf_init(&rent, 1024);
        strbuf_init(&own, 1024);
        tco_year_get(&a->in, i, &y);
        bar(y.rent_sum, most, "=", &rent);
        bar(y.own_sum, most, "#", &own);
        printf("%3zu |%-*s %s\n    |%-*s %s\n", i + 1, CHART_WIDTH, strbuf_str(&rent),
               amount(a, y.rent_sum), CHART_WIDTH, strbuf_str(&own), amount(a, y.own_sum));
    }
    puts(tr("    = rented   # owned   (sums at the end of each year)"));
}

static void print_verdict(const struct tco_ask *a, const struct tco_result *r)
{
    printf(
        tr("Rent or buy: %d cards, used %.4g %%, %.6g years, in %s; month 730 h, year 8,760 h\n"),
        (int)r->cards, 100 * r->util, r->years, a->ccy.code);
    if (r->weeks_given)
        puts(tr("A project of weeks: 168 h a week, 52 weeks a year."));
    printf(tr("Verdict: %s\n"), tr(verdict_text[r->verdict]));
    if (r->ruled)
        printf(tr("  because of %s\n"), tr(rule_text[r->rule]));
    printf(tr("  the figures alone: %s, by %s (%s at %s)\n"), tr(verdict_text[r->arithmetic]),
           amount(a, r->margin), tr(option_text[r->best]), amount(a, r->option[r->best]));
    puts("");
}

void tco_print(struct cli *c, const struct tco_ask *a, const struct tco_result *r)
{
    print_verdict(a, r);
    print_assumed(c, a);
    print_lines(c, a, r);
    print_options(c, a, r);
    print_even(a, r);
    print_rules(a, r);
    print_sense(c, a, r);
    print_years(c, a, r);
}
