/* Laws of the rent-or-buy advisor (edges and monotonicity), over any plausible input. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "domain/tco.h"
#include "tape.h"

static double share(struct tape *t)
{
    return (double)tape_range(t, 0, 1000) / 1000;
}

static double amount(struct tape *t, int64_t max)
{
    return (double)tape_size(t, max * 100) / 100;
}

static void any_input(struct tape *t, struct tco_input *in)
{
    *in = (struct tco_input){.exp = (int)tape_range(t, 0, 3),
                             .cards = 1 + tape_size(t, 2000),
                             .util = share(t),
                             .years = (double)tape_range(t, 1, 120) / 12,
                             .price = amount(t, 200),
                             .capex = amount(t, 50000000),
                             .hosting = amount(t, 500000),
                             .salary = amount(t, 1000000)};
    if (tape_chance(t, 30))
        in->staff = (double)tape_range(t, 0, 300) / 100;
    if (tape_chance(t, 30))
        in->residual = share(t);
    if (tape_chance(t, 30))
        in->price_drop = share(t) / 2;
    if (tape_chance(t, 20))
        in->vat = share(t);
    if (tape_chance(t, 20))
        in->discount = share(t);
    if (tape_chance(t, 20)) {
        in->storage_gb = amount(t, 10000);
        in->storage_price = amount(t, 2);
        in->pull_gb = amount(t, 1000);
        in->pulls = (double)tape_range(t, 0, 100);
        in->traffic_price = amount(t, 2);
    }
    if (tape_chance(t, 20)) {
        in->accident_chance = share(t);
        in->accident_hours = TCO_FORGOTTEN_H;
        in->accident_cards = (double)tape_range(t, 0, 64);
    }
    if (tape_chance(t, 20)) {
        in->kw = amount(t, 100);
        in->load = share(t);
        in->pue = 1 + share(t);
        in->tariff = amount(t, 3);
    }
    if (tape_chance(t, 20))
        in->plan = amount(t, 50000);
    if (tape_chance(t, 20)) {
        in->spot = amount(t, 100);
        in->spot_mtbf_h = (double)tape_range(t, 1, 500);
        in->checkpoint_h = share(t);
        in->restart_h = share(t);
    }
    if (tape_chance(t, 20))
        in->rate = share(t) / 2;
}

static bool decided(const struct tco_input *in, struct tco_result *r)
{
    struct refusal why;
    enum err e = tco_decide(in, r, &why);

    return e == ERR_OK;
}

static bool later(double a, double b) /* a later than or equal to b; never is last */
{
    return a < 0 || (b >= 0 && a >= b - 1e-6 * (1 + b));
}

static bool law_monotone(struct tape *t)
{
    struct tco_input in, moved;
    struct tco_result a, b;
    double up = 1 + share(t);

    any_input(t, &in);
    TAPE_MUST(t, decided(&in, &a));
    moved = in;
    moved.price *= up;
    TAPE_MUST(t, decided(&moved, &b));
    TAPE_MUST(t, later(a.even_month, b.even_month) && b.rent >= a.rent);
    TAPE_MUST(t, !(b.even_util > a.even_util * (1 + 1e-9)));
    moved = in;
    moved.util = MIN(1.0, in.util * up);
    TAPE_MUST(t, decided(&moved, &b));
    TAPE_MUST(t, later(a.even_month, b.even_month) && b.rent >= a.rent && b.own == a.own);
    moved = in;
    moved.capex *= up;
    TAPE_MUST(t, decided(&moved, &b));
    TAPE_MUST(t, later(b.even_month, a.even_month) && b.own >= a.own - 2 && b.rent == a.rent);
    moved = in;
    moved.hosting = in.hosting * up + 1;
    TAPE_MUST(t, decided(&moved, &b));
    TAPE_MUST(t, later(b.even_month, a.even_month) && b.own >= a.own);
    return true;
}

static bool law_even_util(struct tape *t)
{
    struct tco_input in, moved;
    struct tco_result a, b;

    any_input(t, &in);
    TAPE_MUST(t, decided(&in, &a));
    moved = in;
    moved.util = share(t);
    TAPE_MUST(t, decided(&moved, &b));
    TAPE_MUST(t, a.even_util == b.even_util);
    if (!isfinite(a.even_util) || a.even_util > 1 || a.own < 1000000)
        return true;
    moved.util = a.even_util; /* there, both cost the same (unless owning is free) */
    TAPE_MUST(t, decided(&moved, &b));
    TAPE_MUST(t, b.rent >= b.own || a.even_util > 0);
    if (a.even_util > 0)
        TAPE_MUST(t, fabs((double)(b.rent - b.own)) <= 20 + 1e-9 * (double)b.own);
    return true;
}

static bool law_sums(struct tape *t)
{
    struct tco_input in;
    struct tco_result r;
    struct tco_year y = {0};
    int64_t rent = 0, own = 0;
    double length = 0;

    any_input(t, &in);
    TAPE_MUST(t, decided(&in, &r));
    for (size_t i = 0; i < TCO_RENT_LINES; i++)
        rent += r.rent_line[i];
    for (size_t i = 0; i < TCO_OWN_LINES; i++)
        own += r.own_line[i];
    TAPE_MUST(t, rent == r.rent && own == r.own);
    TAPE_MUST(t, r.option[TCO_HOURLY] == r.rent && r.option[TCO_OWN] == r.own);
    rent = own = 0;
    for (size_t i = 0; i < tco_year_count(&in); i++) {
        tco_year_get(&in, i, &y);
        rent += y.rent;
        own += y.own;
        length += y.length;
        TAPE_MUST(t, rent == y.rent_sum && own == y.own_sum);
    }
    TAPE_MUST(t, fabs(length - r.years) < 1e-9);
    TAPE_MUST(t, llabs(rent - r.rent) <= TCO_RENT_LINES && llabs(own - r.own) <= TCO_OWN_LINES);
    return true;
}

static bool law_edges(struct tape *t)
{
    struct tco_input in, edge;
    struct tco_result r;

    any_input(t, &in);
    edge = in;
    edge.util = 0;
    edge.accident_chance = 0;
    TAPE_MUST(t, decided(&edge, &r));
    TAPE_MUST(t, r.rent == r.rent_line[TCO_STORAGE] + r.rent_line[TCO_TRAFFIC]);
    TAPE_MUST(t, r.own_hour == 0);
    edge = in;
    edge.residual = edge.price_drop = 0;
    TAPE_MUST(t, decided(&edge, &r));
    if (r.net_month <= 0 && edge.capex > 0) /* never, and never a negative month */
        TAPE_MUST(t, r.even_month == TCO_NEVER);
    TAPE_MUST(t, r.even_month == TCO_NEVER || r.even_month >= 0);
    edge = in;
    edge.residual = 1;
    edge.staff = 0;
    TAPE_MUST(t, decided(&edge, &r));
    TAPE_MUST(t, r.own_line[TCO_RESIDUAL] == -r.own_line[TCO_HARDWARE]);
    TAPE_MUST(t, r.own_line[TCO_STAFF] == 0);
    edge = in;
    edge.vat_reclaimable = true;
    TAPE_MUST(t, decided(&edge, &r));
    edge.vat = 0;
    int64_t net = r.rent;
    TAPE_MUST(t, decided(&edge, &r) && r.rent == net);
    edge = in;
    edge.data_stays = true;
    TAPE_MUST(t, decided(&edge, &r));
    TAPE_MUST(t, r.ruled && r.rule == TCO_RULE_DATA && r.verdict == TCO_BUY);
    edge = in;
    edge.weeks = (double)tape_range(t, 1, 4);
    TAPE_MUST(t, decided(&edge, &r));
    TAPE_MUST(t, r.even_month == TCO_NEVER && r.rule == TCO_RULE_WEEKS && r.verdict == TCO_RENT);
    edge = in;
    edge.util = 1 + 0.001 * (double)tape_range(t, 1, 1000);
    TAPE_MUST(t, !decided(&edge, &r));
    return true;
}

/* Where the curves meet, they meet: the cumulative costs of that month say the same. */
static bool law_month(struct tape *t)
{
    struct tco_input in, upto;
    struct tco_result r, at;

    any_input(t, &in);
    in.residual = 0;
    in.rate = 0;
    in.accident_chance = 0;
    TAPE_MUST(t, decided(&in, &r));
    if (r.even_month < 1 || r.even_month > 12 * TCO_YEARS_MAX || r.own < 10000)
        return true;
    upto = in;
    upto.years = r.even_month / 12;
    TAPE_MUST(t, decided(&upto, &at));
    TAPE_MUST(t, fabs((double)(at.rent - at.own)) <= 20 + 1e-6 * (double)at.own);
    if (in.price_drop > 0) /* rent that falls under the running cost: they may meet twice */
        return true;
    TAPE_MUST(t, (r.even_month <= r.years * 12) == (r.own <= r.rent) ||
                     fabs((double)(r.own - r.rent)) <= 20 + 1e-6 * (double)r.own);
    return true;
}

static bool law_mixed(struct tape *t)
{
    struct tco_input in;
    struct tco_result r;
    int left = 1000;

    any_input(t, &in);
    in.demand_count = (size_t)tape_range(t, 1, 6);
    for (size_t i = 0; i < in.demand_count; i++) {
        int part = (int)tape_range(t, 0, left);
        in.demand[i] = (struct tco_demand){1 + tape_size(t, 500), part / 1000.0};
        left -= part;
    }
    TAPE_MUST(t, decided(&in, &r));
    TAPE_MUST(t, r.util >= 0 && r.util <= 1 && r.mixed_own >= 0 && r.mixed_own <= r.cards);
    /* no worse than either of the two it is made of */
    TAPE_MUST(t, r.option[TCO_MIXED] <= r.rent + 20);
    TAPE_MUST(t, r.option[TCO_MIXED] <= r.own + r.rent_line[TCO_STORAGE] +
                                            r.rent_line[TCO_TRAFFIC] + r.rent_line[TCO_ACCIDENTS] +
                                            20);
    return true;
}

static bool law_spot(struct tape *t)
{
    double mtbf = (double)tape_range(t, 1, 1000), c = share(t) + 0.001, r = share(t), tau, best;

    tco_checkpoint(mtbf, c, r, &tau, &best);
    for (int i = 1; i < 40; i++) { /* no other interval wastes less */
        double other = tau * i / 10;
        TAPE_MUST(t, c / other + (other / 2 + r) / mtbf >= best - 1e-12);
    }
    double job = share(t) * mtbf;
    TAPE_MUST(t, tco_restart_wall(mtbf, r, job) >= job - 1e-12);
    return true;
}

static bool law_sense(struct tape *t)
{
    struct tco_input in;
    struct tco_result r;
    bool flips = false;

    any_input(t, &in);
    TAPE_MUST(t, decided(&in, &r));
    TAPE_MUST(t, r.sense_count == (in.salary > 0 ? TCO_KNOBS : TCO_KNOBS - 1));
    for (size_t i = 0; i < r.sense_count; i++) {
        TAPE_MUST(t, i == 0 || r.sense[i - 1].swing >= r.sense[i].swing);
        flips = flips || r.sense[i].flips;
    }
    TAPE_MUST(t, r.ruled || (r.verdict == TCO_CLOSE) == flips);
    TAPE_MUST(t, r.arithmetic != TCO_CLOSE && r.margin >= 0);
    return true;
}

int main(int argc, char **argv)
{
    static const struct tape_test tests[] = {
        {"the month falls with use and price, rises with purchase and hosting", law_monotone, 0},
        {"break-even use does not depend on use, and there both cost the same", law_even_util, 0},
        {"lines and years add up to the total", law_sums, 0},
        {"edges: no use, no break-even, whole resale, tax back, data that stays, weeks", law_edges,
         0},
        {"at the break-even month the two curves meet", law_month, 0},
        {"a mixed fleet is never dearer than what it is made of", law_mixed, 0},
        {"Young's interval wastes least", law_spot, 0},
        {"a verdict is given only when no input flips it", law_sense, 0},
    };

    return tape_main(tests, sizeof(tests) / sizeof(tests[0]), argc, argv);
}
