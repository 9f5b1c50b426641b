/* Rent or buy, in this order: what is refused; the prices; what renting and owning cost in a year;
 * the lines over the horizon; where the two curves meet; the other ways to rent; the rules of
 * thumb; the verdict and how far each input can move before it changes.
 *
 *   hours a year   N·u·8760
 *   rent(T)        Σ_y N·u·8760·p·(1+vat)·(1−rebate)·(1−g)^y + storage + traffic + accidents
 *   own(T)         C·(1+network)·(1−residual) + T·(hosting + power + staff + …) + finance
 *   u*             (own(T) − the rent lines that do not depend on hours) / (N·8760·Σ prices)
 *   n*             where the cumulative curves meet; they are straight inside a year
 *
 * A resale counts on the day of the sale, at the end of the horizon, not before: n* is earlier only
 * where the sale itself makes the difference. */
#include "domain/tco.h"

#include <math.h>

#include "base/msg.h"
#include "base/str.h"

#define MINOR_MAX 9e15
#define MONTHS_MAX 1200 /* a break-even further off is none */
#define WEEK_H 168.0
#define YEAR_WEEKS 52.0

enum err tco_minor(double major, int exp, int64_t *ret_minor)
{
    double scaled = major * pow(10, exp);

    /* a half that binary fractions made a hair smaller is still a half */
    double nudge = MIN(fabs(scaled) * 1e-15 + 1e-9, 1e-3);
    scaled += scaled < 0 ? -nudge : nudge;
    if (!(fabs(scaled) < MINOR_MAX))
        return ERR_MONEY_RANGE;
    *ret_minor = (int64_t)(scaled < 0 ? -floor(-scaled + 0.5) : floor(scaled + 0.5));
    return ERR_OK;
}

double tco_from_micro(int64_t micro)
{
    return (double)micro / 1e6;
}

static enum err no(struct refusal *why, const char *field, const char *text)
{
    enum err e = refusef(why, ERR_VALIDATION, "field", "%s", field);

    refusal_set(why, "why", text);
    return e;
}

static enum err check_shares(const struct tco_input *in, struct refusal *why)
{
    const struct {
        const char *field;
        double value;
    } share[] = {{"--utilisation", in->util},  {"--price-drop", in->price_drop},
                 {"--vat", in->vat},           {"--discount", in->discount},
                 {"--residual", in->residual}, {"--network-share", in->network_share},
                 {"--power-load", in->load},   {"--accident-chance", in->accident_chance},
                 {"--rate", in->rate}};

    for (size_t i = 0; i < ARRAY_LEN(share); i++)
        if (!(share[i].value >= 0 && share[i].value <= 1))
            return no(why, share[i].field, N_("it must lie between 0 and 1 (0 % and 100 %)"));
    return ERR_OK;
}

static enum err check_amounts(const struct tco_input *in, struct refusal *why)
{
    const struct {
        const char *field;
        double value;
    } amount[] = {{"--price", in->price},
                  {"--plan", in->plan},
                  {"--spot", in->spot},
                  {"--storage-gb", in->storage_gb},
                  {"--storage-price", in->storage_price},
                  {"--pull-gb", in->pull_gb},
                  {"--pulls", in->pulls},
                  {"--traffic-price", in->traffic_price},
                  {"--accident-hours", in->accident_hours},
                  {"--accident-cards", in->accident_cards},
                  {"--capex", in->capex},
                  {"--hosting", in->hosting},
                  {"--maintenance", in->maintenance},
                  {"--licences", in->licences},
                  {"--insurance", in->insurance},
                  {"--staff", in->staff},
                  {"--salary", in->salary},
                  {"--finance", in->finance},
                  {"--power-kw", in->kw},
                  {"--tariff", in->tariff},
                  {"--rack", in->rack},
                  {"--checkpoint", in->checkpoint_h},
                  {"--restart", in->restart_h},
                  {"--job", in->job_h},
                  {"--weeks", in->weeks}};

    for (size_t i = 0; i < ARRAY_LEN(amount); i++)
        if (!(amount[i].value >= 0 && amount[i].value <= 1e12))
            return no(why, amount[i].field, N_("it must be 0 or more, and at most 1e12"));
    return ERR_OK;
}

static enum err check_demand(const struct tco_input *in, struct refusal *why)
{
    double sum = 0;

    if (in->demand_count > TCO_DEMAND_MAX)
        return no(why, "--demand", N_("at most 16 steps can be given"));
    for (size_t i = 0; i < in->demand_count; i++) {
        const struct tco_demand *d = &in->demand[i];
        if (d->cards < 0 || d->cards > 1000000 || !(d->share >= 0 && d->share <= 1))
            return no(why, "--demand", N_("each step is CARDS:SHARE with a share of 0 to 1"));
        sum += d->share;
    }
    if (sum > 1 + 1e-9)
        return no(why, "--demand", N_("the shares add up to more than all hours"));
    return ERR_OK;
}

static enum err check_input(const struct tco_input *in, struct refusal *why)
{
    TRY(check_shares(in, why));
    TRY(check_amounts(in, why));
    TRY(check_demand(in, why));
    if (in->exp < 0 || in->exp > 4)
        return no(why, "--currency", N_("this currency is not known here"));
    if (in->cards < 1 || in->cards > 1000000)
        return no(why, "--cards", N_("it must lie between 1 and 1,000,000"));
    if (in->weeks > TCO_YEARS_MAX * YEAR_WEEKS)
        return no(why, "--weeks", N_("at most 50 years can be looked at"));
    if (in->weeks <= 0 && !(in->years > 0 && in->years <= TCO_YEARS_MAX))
        return no(why, "--years", N_("it must be more than 0 and at most 50"));
    if (in->kw > 0 && !(in->pue >= 1 && in->pue <= 5))
        return no(why, "--pue", N_("it must lie between 1 and 5"));
    if (in->spot > 0 && !(in->spot_mtbf_h > 0 && in->spot_mtbf_h <= 1e6))
        return no(why, "--spot-mtbf", N_("a spot price needs the mean time between reclaims"));
    if (in->spot > 0 && in->job_h > 100 * in->spot_mtbf_h)
        return no(why, "--job", N_("such a job would never end on spot cards: use checkpoints"));
    return ERR_OK;
}

static double horizon(const struct tco_input *in)
{
    return in->weeks > 0 ? in->weeks / YEAR_WEEKS : in->years;
}

static double year_hours(const struct tco_input *in)
{
    return in->weeks > 0 ? YEAR_WEEKS * WEEK_H : TCO_YEAR_H;
}

static double year_length(const struct tco_input *in, size_t year)
{
    double left = horizon(in) - (double)year;

    return left < 0 ? 0 : left > 1 ? 1 : left;
}

size_t tco_year_count(const struct tco_input *in)
{
    size_t n = (size_t)ceil(horizon(in) - 1e-9);

    return n ? n : 1;
}

static double tax(const struct tco_input *in)
{
    return in->vat_reclaimable ? 1 : 1 + in->vat;
}

static double price_now(const struct tco_input *in)
{
    return in->price * tax(in) * (1 - in->discount);
}

/* Σ of the yearly price factors over the horizon: T when prices do not fall. */
static double price_years(const struct tco_input *in)
{
    double sum = 0;

    for (size_t y = 0; y < tco_year_count(in); y++)
        sum += year_length(in, y) * pow(1 - in->price_drop, (double)y);
    return sum;
}

/* Cards and utilisation follow from the demand curve where there is one. */
static void demand_apply(struct tco_input *in)
{
    double hours = 0;
    int64_t most = 0;

    for (size_t i = 0; i < in->demand_count; i++) {
        most = MAX(most, in->demand[i].cards);
        hours += (double)in->demand[i].cards * in->demand[i].share;
    }
    if (most == 0)
        return;
    in->cards = most;
    in->util = MIN(hours / (double)most, 1.0);
}

double tco_power_kwh(double kw, double load, double pue)
{
    return kw * load * pue * TCO_YEAR_H;
}

double tco_accident(double chance, double hours, double cards, double price)
{
    return chance * hours * cards * price;
}

double tco_idle_cost(double cards, double price, double hours, double idle)
{
    return cards * price * hours * idle;
}

void tco_peer_band(double low, double high, double *ret_low, double *ret_high)
{
    *ret_low = low / 3;
    *ret_high = high / 2;
}

void tco_checkpoint(double mtbf_h, double checkpoint_h, double restart_h, double *ret_tau_h,
                    double *ret_overhead)
{
    double lambda = 1 / mtbf_h, tau = sqrt(2 * checkpoint_h / lambda);

    *ret_tau_h = tau;
    *ret_overhead = (tau > 0 ? checkpoint_h / tau : 0) + lambda * (tau / 2 + restart_h);
}

double tco_restart_wall(double mtbf_h, double restart_h, double job_h)
{
    return (mtbf_h + restart_h) * (exp(job_h / mtbf_h) - 1);
}

/* Rent lines that do not depend on hours, over the horizon. */
static void fixed_lines(const struct tco_input *in, double line[TCO_RENT_LINES])
{
    double years = horizon(in);

    line[TCO_STORAGE] = in->storage_gb * in->storage_price * 12 * years;
    line[TCO_TRAFFIC] = in->pull_gb * in->pulls * in->traffic_price * years;
    line[TCO_ACCIDENTS] =
        tco_accident(in->accident_chance, in->accident_hours, in->accident_cards, price_now(in));
}

static double fixed_rent(const struct tco_input *in)
{
    double line[TCO_RENT_LINES] = {0};

    fixed_lines(in, line);
    return line[TCO_STORAGE] + line[TCO_TRAFFIC] + line[TCO_ACCIDENTS];
}

static double hours_rent(const struct tco_input *in)
{
    return (double)in->cards * in->util * year_hours(in) * price_now(in) * price_years(in);
}

static void own_lines(const struct tco_input *in, double line[TCO_OWN_LINES])
{
    double years = horizon(in), network = in->capex * in->network_share;
    double kwh = tco_power_kwh(in->kw, in->load, in->pue);

    line[TCO_HARDWARE] = in->capex;
    line[TCO_NETWORK] = network;
    line[TCO_RESIDUAL] = -(in->capex + network) * in->residual;
    line[TCO_HOSTING] = (in->hosting + in->rack) * years;
    line[TCO_POWER] = kwh * in->tariff * years;
    line[TCO_STAFF] = in->staff * in->salary * years;
    line[TCO_MAINTENANCE] = in->maintenance * years;
    line[TCO_LICENCES] = in->licences * years;
    line[TCO_INSURANCE] = in->insurance * years;
    line[TCO_FINANCE] = in->finance;
}

static double own_total(const struct tco_input *in)
{
    double line[TCO_OWN_LINES], sum = 0;

    own_lines(in, line);
    for (size_t i = 0; i < TCO_OWN_LINES; i++)
        sum += line[i];
    return sum;
}

/* What owning costs a year beside the purchase; finance is spread evenly. */
static double run_year(const struct tco_input *in)
{
    double kwh = tco_power_kwh(in->kw, in->load, in->pue);

    return in->hosting + in->rack + kwh * in->tariff + in->staff * in->salary + in->maintenance +
           in->licences + in->insurance + in->finance / horizon(in);
}

static double rent_year(const struct tco_input *in, size_t year)
{
    return (double)in->cards * in->util * year_hours(in) * price_now(in) *
               pow(1 - in->price_drop, (double)year) +
           fixed_rent(in) / horizon(in);
}

static double purchase(const struct tco_input *in)
{
    return in->capex * (1 + in->network_share);
}

/* Months until `debt` is paid back at the monthly interest i, or TCO_NEVER. Inside a year the net
 * saving is the same each month, so that the month has a closed form. */
static double payback(const struct tco_input *in, double debt, double i)
{
    for (size_t y = 0; y * 12 < MONTHS_MAX; y++) {
        double net = (rent_year(in, y) - run_year(in)) / 12, months = TCO_NEVER;

        if (debt <= 0)
            return (double)y * 12;
        if (net > debt * i)
            months = i > 0 ? -log(1 - debt * i / net) / log1p(i) : debt / net;
        if (months >= 0 && months <= 12)
            return (double)y * 12 + months;
        if (in->price_drop <= 0 && (months < 0 || (double)y * 12 + months <= MONTHS_MAX))
            return months < 0 ? TCO_NEVER : (double)y * 12 + months; /* nothing will change */
        double grown = pow(1 + i, 12);
        debt = debt * grown - (i > 0 ? net * (grown - 1) / i : 12 * net);
    }
    return TCO_NEVER;
}

static double even_month(const struct tco_input *in)
{
    double end = horizon(in) * 12, n = payback(in, purchase(in), 0), sold;

    if (in->weeks > 0 || end < 1)
        return TCO_NEVER;
    if (in->residual <= 0 || (n >= 0 && n <= end))
        return n;
    sold = payback(in, purchase(in) * (1 - in->residual), 0);
    return sold < 0 ? TCO_NEVER : MAX(sold, end);
}

double tco_price_for(const struct tco_input *in, double months)
{
    double month = purchase(in) / months + run_year(in) / 12 - fixed_rent(in) / horizon(in) / 12;

    return month / ((double)in->cards * in->util * TCO_MONTH_H * tax(in) * (1 - in->discount));
}

static enum err time_value(const struct tco_input *in, struct tco_result *r)
{
    double i = pow(1 + in->rate, 1.0 / 12) - 1, sum = -purchase(in), months = r->years * 12;

    r->even_discounted = TCO_NEVER;
    if (in->rate <= 0 || r->weeks_given)
        return ERR_OK;
    r->even_discounted = payback(in, purchase(in), i);
    for (size_t m = 0; (double)m < months - 1e-9; m++) {
        double part = MIN(months - (double)m, 1.0);
        sum += part * (rent_year(in, m / 12) - run_year(in)) / 12 / pow(1 + i, (double)m + part);
    }
    sum += purchase(in) * in->residual / pow(1 + i, months);
    r->has_npv = true;
    return tco_minor(sum, in->exp, &r->npv);
}

static enum err lines_fill(const struct tco_input *in, struct tco_result *r)
{
    double rent[TCO_RENT_LINES] = {0}, own[TCO_OWN_LINES];

    rent[TCO_HOURS] = hours_rent(in);
    fixed_lines(in, rent);
    own_lines(in, own);
    r->rent = r->own = 0;
    for (size_t i = 0; i < TCO_RENT_LINES; i++) {
        TRY(tco_minor(rent[i], in->exp, &r->rent_line[i]));
        r->rent += r->rent_line[i];
    }
    for (size_t i = 0; i < TCO_OWN_LINES; i++) {
        TRY(tco_minor(own[i], in->exp, &r->own_line[i]));
        r->own += r->own_line[i];
    }
    return ERR_OK;
}

void tco_year_get(const struct tco_input *given, size_t year, struct tco_year *ret_y)
{
    struct tco_input in = *given;
    size_t count;
    int64_t rent_before = 0, own_before = 0;
    double rent = 0, own;

    demand_apply(&in);
    count = tco_year_count(&in);
    CHECK(year < count);
    *ret_y = (struct tco_year){.length = year_length(&in, year)};
    own = purchase(&in);
    /* sums are rounded, a year is the difference of two sums: so years add up to the total */
    for (size_t y = 0; y <= year; y++) {
        rent_before = ret_y->rent_sum;
        own_before = ret_y->own_sum;
        rent += rent_year(&in, y) * year_length(&in, y);
        own += run_year(&in) * year_length(&in, y);
        double sale = y + 1 == count ? purchase(&in) * in.residual : 0;
        bool fits = tco_minor(rent, in.exp, &ret_y->rent_sum) == ERR_OK &&
                    tco_minor(own - sale, in.exp, &ret_y->own_sum) == ERR_OK;
        CHECK(fits);
    }
    ret_y->rent = ret_y->rent_sum - rent_before;
    ret_y->own = ret_y->own_sum - own_before;
}

static void spot_fill(const struct tco_input *in, struct tco_result *r)
{
    double factor;

    if (in->spot <= 0)
        return;
    if (in->job_h > 0) {
        r->spot_wall_h = tco_restart_wall(in->spot_mtbf_h, in->restart_h, in->job_h);
        factor = r->spot_wall_h / in->job_h;
        r->spot_overhead = factor - 1;
    } else {
        tco_checkpoint(in->spot_mtbf_h, in->checkpoint_h, in->restart_h, &r->spot_tau_h,
                       &r->spot_overhead);
        factor = 1 + r->spot_overhead;
    }
    r->spot_price = in->spot * tax(in) * factor;
}

/* Utilisation of card k (from 1) of the sorted demand. */
static double card_util(const struct tco_input *in, int64_t k)
{
    double u = 0;

    for (size_t i = 0; i < in->demand_count; i++)
        u += in->demand[i].cards >= k ? in->demand[i].share : 0;
    return u;
}

/* Own a card when it costs less than renting its own hours; the best way of renting counts. Cards
 * between two steps of the curve are alike, so that only the steps are looked at. */
static double mixed_cost(const struct tco_input *in, int64_t *ret_own)
{
    double own_card = own_total(in) / (double)in->cards, cost = 0, rented = 0, all = 0;
    int64_t k = 0;

    *ret_own = 0;
    while (k < in->cards) {
        int64_t to = in->cards;
        for (size_t i = 0; i < in->demand_count; i++)
            if (in->demand[i].cards > k)
                to = MIN(to, in->demand[i].cards);
        double n = (double)(to - k), hours = card_util(in, k + 1) * year_hours(in);
        double rent = hours * price_now(in) * price_years(in);
        if (in->plan > 0)
            rent = MIN(rent, in->plan * tax(in) * 12 * price_years(in));
        bool owned = own_card < rent;
        cost += n * (owned ? own_card : rent);
        all += n * hours;
        rented += owned ? 0 : n * hours;
        *ret_own += owned ? to - k : 0;
        k = to;
    }
    return cost + (all > 0 ? fixed_rent(in) * rented / all : fixed_rent(in));
}

static enum err options_fill(const struct tco_input *in, struct tco_result *r)
{
    double years = price_years(in), cards = (double)in->cards, cost[TCO_OPTIONS] = {0};
    double fixed = fixed_rent(in);

    spot_fill(in, r);
    r->has[TCO_HOURLY] = r->has[TCO_OWN] = true;
    r->has[TCO_PLAN] = in->plan > 0;
    r->has[TCO_SPOT] = in->spot > 0 && !(in->long_jobs && in->job_h > 0);
    r->has[TCO_MIXED] = in->demand_count > 0;
    cost[TCO_PLAN] = cards * in->plan * tax(in) * 12 * years + fixed;
    cost[TCO_SPOT] = cards * in->util * year_hours(in) * r->spot_price * years + fixed;
    if (r->has[TCO_MIXED])
        cost[TCO_MIXED] = mixed_cost(in, &r->mixed_own);
    for (size_t i = 0; i < TCO_OPTIONS; i++)
        TRY(tco_minor(r->has[i] ? cost[i] : 0, in->exp, &r->option[i]));
    r->option[TCO_HOURLY] = r->rent;
    r->option[TCO_OWN] = r->own;
    if (in->plan > 0 && price_now(in) > 0) {
        r->plan_hours = in->plan * tax(in) / price_now(in);
        r->plan_util = r->plan_hours / TCO_MONTH_H;
    }
    return ERR_OK;
}

static enum tco_verdict side(const struct tco_input *in, const struct tco_result *r,
                             enum tco_option o)
{
    switch (o) {
    case TCO_HOURLY:
    case TCO_PLAN:
    case TCO_SPOT:
        return TCO_RENT;
    case TCO_OWN:
        return TCO_BUY;
    case TCO_MIXED:
        return r->mixed_own == 0 ? TCO_RENT : r->mixed_own == in->cards ? TCO_BUY : TCO_MIX;
    case TCO_OPTIONS:
        break;
    }
    CHECK(false); /* not an option of its own */
    return TCO_RENT;
}

static int64_t rent_best(const struct tco_result *r)
{
    int64_t best = r->rent;

    if (r->has[TCO_PLAN])
        best = MIN(best, r->option[TCO_PLAN]);
    if (r->has[TCO_SPOT])
        best = MIN(best, r->option[TCO_SPOT]);
    return best;
}

/* The totals, the options and what the figures alone say. */
static enum err figures(const struct tco_input *in, struct tco_result *r)
{
    int64_t next = INT64_MAX;

    TRY(lines_fill(in, r));
    TRY(options_fill(in, r));
    r->best = TCO_HOURLY;
    for (size_t i = 0; i < TCO_OPTIONS; i++)
        if (r->has[i] && r->option[i] < r->option[r->best])
            r->best = (enum tco_option)i;
    r->arithmetic = side(in, r, r->best);
    for (size_t i = 0; i < TCO_OPTIONS; i++)
        if (r->has[i] && side(in, r, (enum tco_option)i) != r->arithmetic)
            next = MIN(next, r->option[i]);
    r->margin = next == INT64_MAX ? 0 : next - r->option[r->best];
    return ERR_OK;
}

/* Moves one input; false when there is nothing to move. */
static bool knob_turn(const struct tco_input *in, enum tco_knob knob, bool high,
                      struct tco_input *out, double *ret_value)
{
    double factor = high ? 1.2 : 0.8, before = in->util;

    *out = *in;
    switch (knob) {
    case TCO_K_UTIL:
        *ret_value = out->util = high ? MIN(before + 0.1, 1.0) : MAX(before - 0.1, 0.0);
        for (size_t i = 0; i < out->demand_count && before > 0; i++)
            out->demand[i].share *= out->util / before;
        return true;
    case TCO_K_PRICE:
        *ret_value = out->price *= factor;
        out->plan *= factor;
        out->spot *= factor;
        return true;
    case TCO_K_CAPEX:
        *ret_value = out->capex *= factor;
        return true;
    case TCO_K_RESIDUAL:
        *ret_value = out->residual = high ? MAX(in->residual, 0.3) : 0;
        return true;
    case TCO_K_STAFF:
        *ret_value = out->staff = high ? MAX(in->staff, 1.0) : 0;
        return in->salary > 0;
    case TCO_KNOBS:
        break;
    }
    return false;
}

static enum err sense_fill(const struct tco_input *in, struct tco_result *r)
{
    for (int k = 0; k < TCO_KNOBS; k++) {
        struct tco_sense s = {.knob = (enum tco_knob)k};
        struct tco_result low = {0}, high = {0};
        struct tco_input moved;
        size_t at = r->sense_count;

        if (!knob_turn(in, s.knob, false, &moved, &s.low))
            continue;
        TRY(figures(&moved, &low));
        (void)knob_turn(in, s.knob, true, &moved, &s.high);
        TRY(figures(&moved, &high));
        s.at_low = rent_best(&low) - low.own;
        s.at_high = rent_best(&high) - high.own;
        s.swing = s.at_high > s.at_low ? s.at_high - s.at_low : s.at_low - s.at_high;
        s.flips = low.arithmetic != r->arithmetic || high.arithmetic != r->arithmetic;
        for (; at > 0 && r->sense[at - 1].swing < s.swing; at--)
            r->sense[at] = r->sense[at - 1];
        r->sense[at] = s;
        r->sense_count++;
    }
    return ERR_OK;
}

static void rules_ask(const struct tco_input *in, struct tco_result *r)
{
    const struct {
        bool fires, decides;
        enum tco_verdict verdict;
    } rule[TCO_RULES] = {
        [TCO_RULE_DATA] = {in->data_stays, true, TCO_BUY},
        [TCO_RULE_WEEKS] = {r->years * YEAR_WEEKS < TCO_COMPARE_WEEKS, true, TCO_RENT},
        [TCO_RULE_HALF_YEAR] = {r->years * YEAR_WEEKS >= TCO_COMPARE_WEEKS, false, TCO_MIX},
        [TCO_RULE_LOW] = {in->util < TCO_RENT_BELOW, true, TCO_RENT},
        [TCO_RULE_HIGH] = {in->util >= TCO_BUY_FROM, false, TCO_BUY},
        [TCO_RULE_STEADY] = {in->steady, true, TCO_BUY},
        [TCO_RULE_SPECIAL] = {in->special || in->room, true, TCO_BUY},
        [TCO_RULE_SCALE] = {in->cards >= TCO_SCALE_CARDS, false, TCO_BUY},
        [TCO_RULE_LATENCY] = {in->latency, true, TCO_MIX},
        [TCO_RULE_PROTOTYPE] = {in->prototype, true, TCO_RENT},
        [TCO_RULE_LONG_JOBS] = {in->long_jobs, false, TCO_RENT},
    };

    for (int i = 0; i < TCO_RULES; i++) {
        r->fired |= rule[i].fires ? 1u << i : 0;
        if (rule[i].fires && rule[i].decides && !r->ruled) {
            r->ruled = true;
            r->rule = (enum tco_rule)i;
            r->verdict = rule[i].verdict;
        }
    }
}

/* Everything that is a rate: per month, per hour, as a share. */
static void ratios(const struct tco_input *in, struct tco_result *r)
{
    double full = (double)in->cards * year_hours(in) * price_now(in) * price_years(in);

    r->price = price_now(in);
    r->rent_month = rent_year(in, 0) / 12;
    r->run_month = run_year(in) / 12;
    r->net_month = r->rent_month - r->run_month;
    r->even_month = even_month(in);
    r->even_util = full > 0 ? MAX(own_total(in) - fixed_rent(in), 0.0) / full : INFINITY;
    r->own_hour = r->hours > 0 ? own_total(in) / r->hours : 0;
    r->depreciation_year = purchase(in) * (1 - in->residual) / r->years;
}

enum err tco_decide(const struct tco_input *given, struct tco_result *ret_r, struct refusal *why)
{
    struct tco_input in = *given;
    struct tco_result r = {0};
    enum err e;

    TRY(check_input(&in, why));
    demand_apply(&in);
    r.cards = in.cards;
    r.util = in.util;
    r.years = horizon(&in);
    r.weeks_given = in.weeks > 0;
    r.hours = (double)in.cards * in.util * year_hours(&in) * r.years;
    ratios(&in, &r);
    rules_ask(&in, &r);
    e = figures(&in, &r);
    e = e == ERR_OK ? time_value(&in, &r) : e;
    e = e == ERR_OK ? sense_fill(&in, &r) : e;
    if (e != ERR_OK)
        return refuse(why, e);
    if (!r.ruled) {
        r.verdict = r.arithmetic;
        for (size_t i = 0; i < r.sense_count; i++)
            r.verdict = r.sense[i].flips ? TCO_CLOSE : r.verdict;
    }
    *ret_r = r;
    return ERR_OK;
}
