/* tco.h: rent or buy. What a number of cards costs over a time when they are rented and when they
 * are bought, the month and the utilisation at which buying pays, and how sure the answer is.
 *
 * The only file of the domain besides the sizing that counts in floating point: it estimates, it
 * never charges. All inputs are in major units of ONE currency (whose minor digits are `exp`);
 * every amount that is shown passes tco_minor(), the border to whole minor units (half up). Lines
 * are rounded, totals are the sum of their lines. Month = 730 h, year = 8,760 h; a project given in
 * weeks has weeks of 168 h, 52 to a year. Pure, any thread. Sources: docs/guide/en/tco.md. */
#pragma once

#include "base/err.h"

#define TCO_MONTH_H 730.0
#define TCO_YEAR_H 8760.0
#define TCO_NEVER (-1.0) /* a month that does not come */
#define TCO_DEMAND_MAX 16
#define TCO_YEARS_MAX 50
#define TCO_SCALE_CARDS 1000     /* from here on owning can reach … */
#define TCO_SCALE_SHARE 0.60     /* … this share of the rental cost */
#define TCO_RENT_BELOW 0.20      /* utilisation under which renting is the rule */
#define TCO_BUY_FROM 0.60        /* and from which buying is said to pay back in 12-18 months */
#define TCO_COMPARE_WEEKS 26     /* shorter projects rent by the hour */
#define TCO_FORGOTTEN_H (7 * 24) /* an instance forgotten for a week */

/* Demand: so many cards are wanted for this share of the hours; the rest of the hours none. */
struct tco_demand {
    int64_t cards;
    double share;
};

struct tco_input {
    int exp; /* minor digits of the currency */
    int64_t cards;
    double util;  /* share of card-hours that do paid-for work, 0 … 1 */
    double years; /* horizon; need not be whole */
    double weeks; /* > 0: a project of weeks; years is ignored */
    /* renting */
    double price;      /* per card-hour, before tax */
    double price_drop; /* a year, 0 … 1 */
    double vat;        /* 0.20 = 20 %; nothing when reclaimable */
    bool vat_reclaimable;
    double discount;                  /* rebate on the hourly price, 0 … 1 */
    double plan;                      /* reserved: per card-month; 0: none */
    double spot;                      /* per card-hour; 0: none */
    double spot_mtbf_h;               /* mean time between reclaims */
    double checkpoint_h, restart_h;   /* time to write one; time to be back */
    double job_h;                     /* length of one job without checkpoints; 0: checkpointed */
    double storage_gb, storage_price; /* per GB-month */
    double pull_gb, pulls, traffic_price;                   /* GB a pull, pulls a year, per GB */
    double accident_chance, accident_hours, accident_cards; /* over the horizon */
    /* buying */
    double capex;         /* the machines, whole */
    double network_share; /* on top of capex */
    double residual;      /* share of the capex it is sold for at the end */
    double hosting, maintenance, licences, insurance; /* a year */
    double staff, salary;                             /* persons; a year and person */
    double finance;                                   /* over the horizon */
    double kw, load, pue, tariff, rack; /* power: IT kW, 0 … 1, ≥ 1, per kWh; rack a year */
    double rate;                        /* worth of money a year, 0: not discounted */
    /* demand curve; 0 segments: all cards alike. With one, cards and util follow from it. */
    struct tco_demand demand[TCO_DEMAND_MAX];
    size_t demand_count;
    /* facts that the rules ask for */
    bool data_stays, steady, special, room, latency, prototype, long_jobs;
};

enum tco_rent_line { TCO_HOURS, TCO_STORAGE, TCO_TRAFFIC, TCO_ACCIDENTS, TCO_RENT_LINES };
enum tco_own_line {
    TCO_HARDWARE,
    TCO_NETWORK,
    TCO_RESIDUAL, /* negative */
    TCO_HOSTING,
    TCO_POWER,
    TCO_STAFF,
    TCO_MAINTENANCE,
    TCO_LICENCES,
    TCO_INSURANCE,
    TCO_FINANCE,
    TCO_OWN_LINES
};
enum tco_option { TCO_HOURLY, TCO_PLAN, TCO_SPOT, TCO_OWN, TCO_MIXED, TCO_OPTIONS };
enum tco_verdict { TCO_RENT, TCO_BUY, TCO_MIX, TCO_CLOSE };

/* The rules of thumb, in the order in which they are asked (numbers as in the guide). */
enum tco_rule {
    TCO_RULE_DATA,      /* 1: own, whatever the price */
    TCO_RULE_WEEKS,     /* 2: rent by the hour */
    TCO_RULE_HALF_YEAR, /* 3: compare */
    TCO_RULE_LOW,       /* 4: rent */
    TCO_RULE_HIGH,      /* 5: said to pay back in 12-18 months: checked, decides nothing */
    TCO_RULE_STEADY,    /* 6: own */
    TCO_RULE_SPECIAL,   /* 7: own */
    TCO_RULE_SCALE,     /* 8: own can reach 60 %: decides nothing */
    TCO_RULE_LATENCY,   /* 9: own for the base, rent the peaks */
    TCO_RULE_PROTOTYPE, /* 10: rent */
    TCO_RULE_LONG_JOBS, /* 10: no spot without checkpoints */
    TCO_RULES
};

enum tco_knob { TCO_K_UTIL, TCO_K_PRICE, TCO_K_CAPEX, TCO_K_RESIDUAL, TCO_K_STAFF, TCO_KNOBS };
/* One input moved from end to end, everything else held. */
struct tco_sense {
    enum tco_knob knob;
    double low, high;        /* values of the input */
    int64_t at_low, at_high; /* cheapest rent minus own there, minor units */
    int64_t swing;           /* how far that moves */
    bool flips;              /* another verdict at one of the ends */
};

struct tco_result {
    int64_t cards;
    double util, years, hours; /* as used; useful card-hours over the horizon */
    bool weeks_given;
    double price; /* per card-hour with tax and rebate, first year */
    int64_t rent_line[TCO_RENT_LINES], own_line[TCO_OWN_LINES], rent, own; /* minor units */
    double rent_month, run_month, net_month; /* first year: avoided, own running cost, difference */
    double even_month;                       /* n*, or TCO_NEVER; not given for less than a month */
    double even_discounted; /* the same with `rate`; TCO_NEVER also when rate is 0 */
    bool has_npv;
    int64_t npv;      /* of buying, over the horizon, minor units */
    double even_util; /* u*; > 1: never */
    double own_hour;  /* owned cost per useful hour; 0 when nothing is used */
    double depreciation_year;
    double plan_hours, plan_util; /* a month from which the plan is cheaper; 0: no plan */
    double spot_tau_h, spot_overhead, spot_price; /* best interval (0: none), share, effective */
    double spot_wall_h;                           /* expected, of one job without checkpoints */
    bool has[TCO_OPTIONS];
    int64_t option[TCO_OPTIONS]; /* minor units */
    int64_t mixed_own;           /* cards to own in the mixed fleet */
    enum tco_option best;
    int64_t margin; /* next best of the other side minus best, minor units */
    unsigned fired; /* 1u << enum tco_rule */
    bool ruled;     /* a rule decided, `rule` says which */
    enum tco_rule rule;
    enum tco_verdict arithmetic; /* what the figures alone say; never TCO_CLOSE */
    enum tco_verdict verdict;
    struct tco_sense sense[TCO_KNOBS]; /* most sensitive first */
    size_t sense_count;
};
/* ERR_VALIDATION (field: the flag's name, why: a catalogue key) for what cannot be,
 * ERR_MONEY_RANGE when an amount leaves what can be counted. */
enum err tco_decide(const struct tco_input *in, struct tco_result *ret_r, struct refusal *why);

/* One year of the horizon (from 0; the last may be a part), and the totals at its end. */
struct tco_year {
    double length; /* of the year, 0 … 1 */
    int64_t rent, own, rent_sum, own_sum;
};
size_t tco_year_count(const struct tco_input *in);
/* in must have passed tco_decide. Year 0 bears the purchase, the last one the sale. */
void tco_year_get(const struct tco_input *in, size_t year, struct tco_year *ret_y);

/* Half up to whole minor units. ERR_MONEY_RANGE beyond 9e15. */
enum err tco_minor(double major, int exp, int64_t *ret_minor);
/* Micro-units of a parsed amount to major units: the border inwards. */
double tco_from_micro(int64_t micro);

/* Price per card-hour at which buying pays back in `months`. in must have passed tco_decide. */
double tco_price_for(const struct tco_input *in, double months);
double tco_power_kwh(double kw, double load, double pue); /* a year */
double tco_accident(double chance, double hours, double cards, double price);
/* Interval between checkpoints that wastes least (Young), and the share of time lost with it. */
void tco_checkpoint(double mtbf_h, double checkpoint_h, double restart_h, double *ret_tau_h,
                    double *ret_overhead);
/* Expected time of a job that begins again from nothing at each reclaim. */
double tco_restart_wall(double mtbf_h, double restart_h, double job_h);
double tco_idle_cost(double cards, double price, double hours, double idle);
/* What peers ask where a cloud asks low … high: a third to a half. */
void tco_peer_band(double low, double high, double *ret_low, double *ret_high);
