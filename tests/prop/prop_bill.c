/* Laws of bills: P7 (sums exact), P9 (what pays), P10 (refunds and payouts). */
#include <gmp.h>

#include "base/str.h"
#include "domain/payout.h"
#include "domain/refund.h"
#include "domain/tax.h"
#include "domain/voucher.h"
#include "oracle.h"

/* ---- P7 ---- */

#define LINES_MAX 200

static int64_t counts[1000000];

static bool law_lines(struct tape *t)
{
    static const int64_t minors[] = {1000000, 100000, 10000, 1000, 100}; /* exponents 0 to 4 */
    int64_t minor_u = minors[tape_below(t, ARRAY_LEN(minors))], lines[LINES_MAX];
    int64_t printed[LINES_MAX], sum = 0, total = 0;
    struct bill_share scratch[LINES_MAX];
    size_t n = 1 + (size_t)tape_size(t, LINES_MAX - 1);
    struct bill_total b;
    struct bill_cut cut;

    for (size_t i = 0; i < n; i++) {
        lines[i] = tape_size(t, INT64_C(1) << 50);
        if (tape_chance(t, 15) && lines[i] <= total)
            lines[i] = -lines[i]; /* a credit */
        total += lines[i];
    }
    TAPE_MUST(t, bill_close(minor_u, lines, n, scratch, printed, &b) == ERR_OK);
    TAPE_MUST(t, b.total_u == total && b.residue_u >= 0 && b.residue_u < minor_u);
    TAPE_MUST(t, b.payable_minor * minor_u + b.residue_u == total);
    for (size_t i = 0; i < n; i++) {
        int64_t off = printed[i] * minor_u - lines[i];
        sum += printed[i];
        TAPE_MUST(t, off > -minor_u && off < minor_u);
        TAPE_MUST(t, lines[i] % minor_u != 0 || off == 0);
    }
    TAPE_MUST(t, sum == b.payable_minor);
    /* streamed, the same to the last line */
    memset(counts, 0, (size_t)minor_u * sizeof(counts[0]));
    bill_cut_init(&cut, minor_u, counts);
    for (size_t i = 0; i < n; i++)
        TAPE_MUST(t, bill_cut_add(&cut, lines[i]) == ERR_OK);
    TAPE_MUST(t, bill_cut_decide(&cut) == ERR_OK);
    TAPE_MUST(t, cut.total.payable_minor == b.payable_minor && cut.total.residue_u == b.residue_u);
    for (size_t i = 0; i < n; i++)
        TAPE_MUST(t, bill_cut_line(&cut, lines[i]) == printed[i]);
    return true;
}

/* half_up(a·n/d) by rationals: ⌊(2an + d) / 2d⌋ */
static bool is_half_up(int64_t a, int64_t n, int64_t d, int64_t v)
{
    mpz_t x, y;

    mpz_init_set_si(x, a);
    mpz_mul_si(x, x, n);
    mpz_mul_ui(x, x, 2);
    mpz_init_set_si(y, d);
    mpz_add(x, x, y);
    mpz_mul_ui(y, y, 2);
    mpz_fdiv_q(x, x, y);
    bool equal = mpz_cmp_si(x, v) == 0;
    mpz_clear(x);
    mpz_clear(y);
    return equal;
}

static bool law_tax(struct tape *t)
{
    struct tax_rate rate = {tape_range(t, 0, 2500), 1 + tape_size(t, 10000)};
    int64_t amount = tape_size(t, INT64_C(1) << 45), lines[8], nets[8], sum = 0, gross = 0;
    struct bill_share scratch[8];
    bool inclusive = tape_chance(t, 50);
    size_t n = 1 + tape_below(t, 8);
    struct tax_group g;

    TAPE_MUST(t, tax_of(amount, rate, inclusive, &g) == ERR_OK);
    TAPE_MUST(t, g.net_minor + g.tax_minor == g.gross_minor && g.tax_minor >= 0);
    TAPE_MUST(t, (inclusive ? g.gross_minor : g.net_minor) == amount);
    TAPE_MUST(t, inclusive ? is_half_up(amount, rate.d, rate.d + rate.n, g.net_minor)
                           : is_half_up(amount, rate.n, rate.d, g.tax_minor));
    for (size_t i = 0; i < n; i++) {
        lines[i] = tape_size(t, 1000000);
        gross += lines[i];
    }
    TAPE_MUST(t, tax_of(gross, rate, true, &g) == ERR_OK);
    TAPE_MUST(t, tax_line_nets(lines, n, g.net_minor, scratch, nets) == ERR_OK);
    for (size_t i = 0; i < n; i++) {
        TAPE_MUST(t, nets[i] >= 0 && nets[i] <= lines[i]);
        sum += nets[i];
    }
    TAPE_MUST(t, sum == g.net_minor);
    return true;
}

static bool law_split(struct tape *t)
{
    int64_t total = tape_size(t, INT64_C(1) << 55), weights[10], parts[10], sum = 0;
    struct bill_share scratch[10];
    size_t n = 1 + tape_below(t, 10);

    for (size_t i = 0; i < n; i++)
        weights[i] = tape_size(t, INT64_C(1) << 50);
    TAPE_MUST(t, bill_split(total, weights, n, scratch, parts) == ERR_OK);
    for (size_t i = 0; i < n; i++) {
        sum += parts[i];
        TAPE_MUST(t, parts[i] >= 0);
    }
    TAPE_MUST(t, sum == total);
    return true;
}

/* ---- P9 ---- */

#define VOUCHERS_MAX 8

static size_t draw_vouchers(struct tape *t, struct voucher *v, int64_t end)
{
    size_t n = tape_below(t, VOUCHERS_MAX + 1);

    for (size_t i = 0; i < n; i++) {
        v[i] = (struct voucher){
            .left_u = tape_size(t, 5000000),
            .expires_s = tape_chance(t, 70) ? tape_range(t, 0, end + 10) : INT64_MAX,
            .scope = tape_chance(t, 20) ? 1u << tape_below(t, METER_COUNT) : VOUCHER_SCOPE_ALL};
        bool fits = str_printf(v[i].id, sizeof(v[i].id), "v%zu", i);
        CHECK(fits);
    }
    return n;
}

struct till {
    struct voucher vouchers[VOUCHERS_MAX];
    struct funds funds;
    int64_t used[VOUCHERS_MAX], paid_u, breakage_u;
};

/* One piece of a run between two expiries. */
static bool pay_piece(struct tape *t, struct till *x, int64_t at, int64_t end, int64_t charge)
{
    struct voucher before[VOUCHERS_MAX];
    int64_t used[VOUCHERS_MAX], sum, breakage, available;
    size_t order[VOUCHERS_MAX], ranked;
    struct funding f;

    memcpy(before, x->vouchers, sizeof(before));
    TAPE_MUST(t, fund_available(&x->funds, METER_GPU, at, &available) == ERR_OK);
    TAPE_MUST(t, fund_charge(&x->funds, METER_GPU, at, charge, order, used, &f) == ERR_OK);
    sum = f.gift_u + f.cash_u + f.credit_u + f.unpaid_u;
    for (size_t i = 0; i < x->funds.voucher_count; i++) {
        bool may = voucher_covers(&before[i], METER_GPU) && before[i].expires_s > at;
        TAPE_MUST(t, used[i] == 0 || may);
        TAPE_MUST(t, x->vouchers[i].left_u == before[i].left_u - used[i] && used[i] >= 0);
        /* nobody later in the order pays while a voucher could */
        TAPE_MUST(t, !may || x->vouchers[i].left_u == 0 || (f.gift_u + f.cash_u + f.unpaid_u == 0));
        sum += used[i];
        x->used[i] += used[i];
    }
    TAPE_MUST(t, sum == charge && f.unpaid_u == MAX(charge - available, (int64_t)0));
    TAPE_MUST(t, f.gift_u == 0 || f.cash_u == 0 || x->funds.gift_u == 0);
    /* the order is total and by the published keys */
    voucher_rank(before, x->funds.voucher_count, METER_GPU, at, charge, order, &ranked);
    for (size_t i = 1; i < ranked; i++) {
        const struct voucher *a = &before[order[i - 1]], *b = &before[order[i]];
        TAPE_MUST(t, a->expires_s <= b->expires_s);
        if (a->expires_s == b->expires_s)
            TAPE_MUST(t, MIN(a->left_u, charge) >= MIN(b->left_u, charge));
    }
    TAPE_MUST(t, voucher_expire(x->vouchers, x->funds.voucher_count, end, &breakage) == ERR_OK);
    x->breakage_u += breakage;
    x->paid_u += charge - f.unpaid_u;
    return true;
}

static bool law_vouchers(struct tape *t)
{
    static struct till x;
    struct rate r = oracle_rate(t, INT64_C(1) << 30);
    int64_t end = tape_range(t, 1, 3000), total, started = 0, left = 0, charged = 0, u;

    x = (struct till){0};
    x.funds = (struct funds){x.vouchers, draw_vouchers(t, x.vouchers, end), tape_size(t, 1000000),
                             tape_size(t, 10000000), tape_size(t, 1000)};
    for (size_t i = 0; i < x.funds.voucher_count; i++)
        started += x.vouchers[i].left_u;
    started += x.funds.gift_u + x.funds.cash_u + x.funds.credit_u;
    TAPE_MUST(t, voucher_expire(x.vouchers, x.funds.voucher_count, 0, &x.breakage_u) == ERR_OK);
    for (int64_t at = 0; at < end;) {
        int64_t to = voucher_cut(x.vouchers, x.funds.voucher_count, at, end);
        TAPE_MUST(t, to > at && rate_delta(&r, at, to, &u) == ERR_OK);
        if (!pay_piece(t, &x, at, to, u))
            return false;
        charged += u;
        at = to;
    }
    TAPE_MUST(t, rate_total(&r, end, &total) == ERR_OK && charged == total);
    for (size_t i = 0; i < x.funds.voucher_count; i++)
        left += x.vouchers[i].left_u;
    left += x.funds.gift_u + x.funds.cash_u + x.funds.credit_u;
    TAPE_MUST(t, started == left + x.paid_u + x.breakage_u);
    return true;
}

/* The order in which vouchers are listed changes nothing. */
static bool law_voucher_order(struct tape *t)
{
    struct voucher v[VOUCHERS_MAX], w[VOUCHERS_MAX];
    size_t n = draw_vouchers(t, v, 1000), index[VOUCHERS_MAX], order[VOUCHERS_MAX];
    int64_t used[VOUCHERS_MAX], other[VOUCHERS_MAX], charge = tape_size(t, 10000000);
    struct funds a = {v, n, 0, 0, 0}, b = {w, n, 0, 0, 0};
    struct funding f;

    tape_shuffle(t, index, n);
    for (size_t i = 0; i < n; i++)
        w[i] = v[index[i]];
    TAPE_MUST(t, fund_charge(&a, METER_GPU, 5, charge, order, used, &f) == ERR_OK);
    TAPE_MUST(t, fund_charge(&b, METER_GPU, 5, charge, order, other, &f) == ERR_OK);
    for (size_t i = 0; i < n; i++)
        TAPE_MUST(t, other[i] == used[index[i]]);
    return true;
}

static bool law_packages(struct tape *t)
{
    int64_t left = tape_size(t, 1000000), start = left, covered, rest, sum = 0, all = 0;

    for (uint64_t i = tape_below(t, 10); i > 0; i--) {
        int64_t qty = tape_size(t, 300000);
        package_take(left, qty, &covered, &rest);
        TAPE_MUST(t, covered >= 0 && rest >= 0 && covered + rest == qty);
        TAPE_MUST(t, rest == 0 || covered == left);
        left -= covered;
        sum += covered;
        all += qty;
    }
    TAPE_MUST(t, sum + left == start && sum == MIN(start, all));
    return true;
}

/* ---- P10 ---- */

static bool law_refunds(struct tape *t)
{
    struct refund_paid paid = {tape_size(t, INT64_C(1) << 45), tape_size(t, INT64_C(1) << 45),
                               tape_size(t, INT64_C(1) << 45)};
    int64_t all = paid.voucher_u + paid.gift_u + paid.cash_u;
    int64_t total = 1 + tape_size(t, 40000000), used = tape_size(t, 50000000), consumed;
    struct refund_clawback c;
    struct refund r;

    TAPE_MUST(t, refund_pro_rata(all, used, total, &consumed) == ERR_OK);
    TAPE_MUST(t, consumed >= 0 && consumed <= all && (used < total || consumed == all));
    if (tape_chance(t, 50)) {
        struct rate rate = oracle_rate(t, INT64_C(1) << 30);
        TAPE_MUST(t, refund_claw_back(all, used, total, &rate, 1 + (int64_t)tape_below(t, 8),
                                      tape_range(t, 0, 100), 100, &c) == ERR_OK);
        TAPE_MUST(t, c.consumed_u <= all && c.consumed_u >= 0 && c.fee_u <= c.discount_enjoyed_u);
        consumed = c.consumed_u;
    }
    TAPE_MUST(t, refund_split(paid, consumed, &r) == ERR_OK);
    TAPE_MUST(t, r.consumed_u + r.refund_u + r.voucher_forfeit_u == all);
    TAPE_MUST(t, r.gift_u + r.cash_u == r.refund_u && r.gift_u >= 0 && r.cash_u >= 0);
    TAPE_MUST(t, r.gift_u <= paid.gift_u && r.cash_u <= paid.cash_u);
    /* cross product: the two parts are in the paid ratio to the unit */
    __int128 tilt = (__int128)r.gift_u * paid.cash_u - (__int128)r.cash_u * paid.gift_u;
    __int128 whole = (__int128)paid.gift_u + paid.cash_u;
    TAPE_MUST(t, tilt <= whole && tilt >= -whole);
    return true;
}

static bool law_payouts(struct tape *t)
{
    struct payout_share shares[3] = {{tape_range(t, 0, 90), 100}, {tape_range(t, 0, 10), 100}, {0}};
    int64_t gross = 0, part[3], sums[3] = {0}, total[3], carried = 0, paid = 0, threshold, out;
    int64_t pending = 0;

    threshold = tape_size(t, 1000000);
    for (uint64_t i = tape_below(t, 30); i > 0; i--) {
        bool back = tape_chance(t, 30); /* a refund, perhaps of what was paid out already */
        int64_t step = back ? -tape_range(t, 0, gross) : tape_size(t, INT64_C(1) << 30);
        TAPE_MUST(t, payout_delta(shares, 3, gross, gross + step, part) == ERR_OK);
        TAPE_MUST(t, part[0] + part[1] + part[2] == step);
        for (size_t p = 0; p < 3; p++) {
            TAPE_MUST(t, p == 2 || (back ? part[p] <= 0 : part[p] >= 0));
            sums[p] += part[p];
        }
        gross += step;
        pending += part[0];
        if (tape_chance(t, 30)) {
            int64_t due = carried + pending;
            int64_t limit = tape_chance(t, 20) ? MAX(due, (int64_t)0) : threshold;

            TAPE_MUST(t, payout_run(carried, pending, limit, &out, &carried) == ERR_OK);
            TAPE_MUST(t, out == (due > 0 && due >= limit ? due : 0));
            paid += out;
            pending = 0;
        }
    }
    TAPE_MUST(t, payout_total(shares, 3, gross, total) == ERR_OK);
    for (size_t p = 0; p < 3; p++)
        TAPE_MUST(t, sums[p] == total[p]);
    TAPE_MUST(t, total[0] + total[1] + total[2] == gross);
    TAPE_MUST(t, paid + carried + pending == total[0]); /* recovered once, nothing lost */
    return true;
}

static bool law_exchange(struct tape *t)
{
    int64_t src = tape_size(t, INT64_C(1) << 45), n = 1 + tape_size(t, 100000);
    int64_t d = 1 + tape_size(t, 100000), spread = tape_range(t, 0, 1000);
    struct exchange e;
    mpz_t exact, most;

    if (exchange_compute(src, n, d, spread, 1000, &e) != ERR_OK)
        return src / d >= INT64_MAX / n;
    TAPE_MUST(t, e.fee_u + e.converted_u == src && e.fee_u >= 0);
    mpz_init_set_si(exact, e.converted_u);
    mpz_mul_si(exact, exact, n);
    mpz_init_set_si(most, d);
    mpz_fdiv_q(exact, exact, most);
    bool equal = mpz_cmp_si(exact, e.dst_u) == 0;
    mpz_clear(exact);
    mpz_clear(most);
    TAPE_MUST(t, equal);
    return true;
}

static bool law_money_text(struct tape *t)
{
    static const char *const codes[] = {"CNY", "JPY", "KWD", "CLF", "USD"};
    struct currency ccy;
    struct money m, again;
    char text[MONEY_TEXT_SIZE];
    int64_t u = tape_size(t, INT64_MAX);

    TAPE_MUST(t, currency_get(codes[tape_below(t, ARRAY_LEN(codes))], &ccy) == ERR_OK);
    m = money_of(tape_chance(t, 50) ? -u - 1 : u, ccy);
    money_format(m, text, sizeof(text));
    TAPE_MUST(t, money_parse(text, ccy, &again) == ERR_OK && again.u == m.u);
    return true;
}

int main(int argc, char **argv)
{
    static const struct tape_test tests[] = {
        {"P7 printed lines add up, each within one minor unit", law_lines, 0},
        {"P7 net and tax make the gross, half up, nets of lines add up", law_tax, 0},
        {"P7 a split gives away exactly its total", law_split, 0},
        {"P9 what is funded is what is charged, expiry cuts, breakage is exact", law_vouchers, 0},
        {"P9 the order of deduction does not depend on the list", law_voucher_order, 0},
        {"P9 a package covers first and never twice", law_packages, 0},
        {"P10 consumed, refund and forfeit are what was paid", law_refunds, 0},
        {"P10 shares add up and a refund after a payout is recovered once", law_payouts, 0},
        {"an exchange floors once and the spread is its own line", law_exchange, 0},
        {"an amount survives being printed and read", law_money_text, 0},
    };

    return tape_main(tests, sizeof(tests) / sizeof(tests[0]), argc, argv);
}
