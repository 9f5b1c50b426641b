/* The FOCUS rows of a month with every kind of line: each as the table of columns says, the rows of
 * a number are what its statement asks for, what was bought ahead is spread to the last unit. */
#include "whole_month.h"

static int64_t u_of(const json_t *o, const char *key)
{
    struct currency ccy;
    struct money m;

    assert_int_equal(currency_get("CNY", &ccy), ERR_OK);
    assert_int_equal(money_parse(text_of(o, key), ccy, &m), ERR_OK);
    return m.u;
}

static bool one_of(const char *text, const char *list)
{
    char item[80];

    return str_printf(item, sizeof(item), "|%s|", text) && strstr(list, item);
}

/* When a column must be there, must not, or may: FOCUS 1.2, "conditional". */
enum rule { ALWAYS, NEVER, MAY };
static void column(const json_t *o, const char *name, enum rule rule)
{
    bool there = *text_of(o, name) != '\0';

    if ((rule == ALWAYS && !there) || (rule == NEVER && there)) {
        char *text = json_dumps(o, 0);

        print_message("# %s %s: %s\n", name, there ? "must be null" : "is missing", text);
        free(text);
    }
    assert_true(rule == MAY || (rule == ALWAYS) == there);
}

static void times_fit(const json_t *o)
{
    static const char *const times[] = {"BillingPeriodStart", "BillingPeriodEnd",
                                        "ChargePeriodStart", "ChargePeriodEnd"};

    for (size_t i = 0; i < ARRAY_LEN(times); i++) {
        const char *t = text_of(o, times[i]);

        assert_true(strlen(t) == 20 && t[10] == 'T' && t[19] == 'Z');
    }
    assert_true(strcmp(text_of(o, "ChargePeriodStart"), text_of(o, "ChargePeriodEnd")) < 0);
    assert_true(strcmp(text_of(o, "BillingPeriodStart"), text_of(o, "BillingPeriodEnd")) < 0);
}

static void values_are_allowed(const json_t *o)
{
    assert_true(one_of(text_of(o, "ChargeCategory"), "|Usage|Purchase|Tax|Credit|Adjustment|"));
    assert_true(one_of(text_of(o, "ChargeClass"), "||Correction|"));
    assert_true(one_of(text_of(o, "ChargeFrequency"), "|Usage-Based|Recurring|One-Time|"));
    assert_true(one_of(text_of(o, "PricingCategory"), "||Standard|Dynamic|Committed|Other|"));
    assert_true(one_of(text_of(o, "CommitmentDiscountCategory"), "||Usage|Spend|"));
    assert_true(one_of(text_of(o, "CommitmentDiscountStatus"), "||Used|Unused|"));
    assert_true(one_of(text_of(o, "ServiceCategory"), "|Compute|Storage|Networking|Other|"));
    assert_true(one_of(text_of(o, "ServiceSubcategory"),
                       "|Containers|Block Storage|Network Connectivity|Other (Other)|"));
    assert_string_equal(text_of(o, "BillingCurrency"), "CNY");
    assert_string_equal(text_of(o, "InvoiceIssuerName"), "Suan Ltd");
}

static void commitment_fits(const json_t *o, bool usage, bool purchase, bool correction)
{
    bool committed = *text_of(o, "CommitmentDiscountId") != '\0';
    bool unused = str_eq(text_of(o, "CommitmentDiscountStatus"), "Unused");
    enum rule here = committed ? ALWAYS : NEVER;

    column(o, "CommitmentDiscountName", here);
    column(o, "CommitmentDiscountCategory", here);
    column(o, "CommitmentDiscountType", here);
    column(o, "CommitmentDiscountUnit", here);
    column(o, "CommitmentDiscountStatus", committed && usage ? ALWAYS : NEVER);
    column(o, "CommitmentDiscountQuantity",
           !committed               ? NEVER
           : purchase && correction ? MAY
                                    : ALWAYS);
    assert_true(!committed || usage || purchase);
    assert_true(str_eq(text_of(o, "PricingCategory"), "Committed") == (committed && usage));
    if (committed && usage)
        assert_int_equal(u_of(o, "BilledCost"), 0);
    if (committed && purchase)
        assert_int_equal(u_of(o, "EffectiveCost"), 0);
    column(o, "ConsumedQuantity", !usage || unused ? NEVER : ALWAYS);
    column(o, "ConsumedUnit", !usage || unused ? NEVER : ALWAYS);
    if (!committed)
        assert_int_equal(u_of(o, "EffectiveCost"), u_of(o, "BilledCost"));
}

/* Row by row the table of columns: what is mandatory, what is never null, what only some have. */
static void row_is_right(const json_t *o)
{
    static const char *const mandatory[] = {
        "BilledCost",        "EffectiveCost",     "ListCost",           "ContractedCost",
        "BillingCurrency",   "BillingAccountId",  "BillingAccountName", "BillingAccountType",
        "SubAccountId",      "SubAccountName",    "SubAccountType",     "BillingPeriodStart",
        "BillingPeriodEnd",  "ChargePeriodStart", "ChargePeriodEnd",    "ChargeCategory",
        "ChargeDescription", "ChargeFrequency",   "InvoiceIssuerName",  "ProviderName",
        "PublisherName",     "ServiceCategory",   "ServiceName",        "ServiceSubcategory"};
    static const char *const never[] = {"CapacityReservationId",
                                        "CapacityReservationStatus",
                                        "PricingCurrency",
                                        "PricingCurrencyContractedUnitPrice",
                                        "PricingCurrencyEffectiveCost",
                                        "PricingCurrencyListUnitPrice"};
    static const char *const priced[] = {
        "PricingCategory", "PricingQuantity", "PricingUnit",        "SkuId",
        "SkuPriceId",      "ListUnitPrice",   "ContractedUnitPrice"};
    static const char *const own[] = {
        "x_PriceNumerator",   "x_PriceDenominator",   "x_QuantityFrom",     "x_QuantityTo",
        "x_PriceVersionHash", "x_ProviderShareMicro", "x_PlatformFeeMicro", "x_Window"};
    bool usage = str_eq(text_of(o, "ChargeCategory"), "Usage");
    bool purchase = str_eq(text_of(o, "ChargeCategory"), "Purchase");
    bool correction = *text_of(o, "ChargeClass") != '\0';
    bool unused = str_eq(text_of(o, "CommitmentDiscountStatus"), "Unused");
    bool tax = str_eq(text_of(o, "ChargeCategory"), "Tax");

    for (size_t i = 0; i < ARRAY_LEN(mandatory); i++)
        column(o, mandatory[i], ALWAYS);
    for (size_t i = 0; i < ARRAY_LEN(never); i++)
        column(o, never[i], NEVER);
    for (size_t i = 0; i < ARRAY_LEN(priced); i++)
        column(o, priced[i], tax ? NEVER : (usage || purchase) && !correction ? ALWAYS : MAY);
    for (size_t i = 0; i < ARRAY_LEN(own); i++)
        column(o, own[i], usage && !unused ? ALWAYS : NEVER);
    column(o, "x_PostedMicro", ALWAYS);
    column(o, "ResourceId", usage || purchase ? ALWAYS : MAY);
    column(o, "SkuMeter", usage && !unused ? ALWAYS : NEVER);
    times_fit(o);
    values_are_allowed(o);
    commitment_fits(o, usage, purchase, correction);
    assert_true(str_eq(text_of(o, "ChargeFrequency"), "Usage-Based") == usage);
    assert_int_equal(u_of(o, "BilledCost"), number(o, "x_PostedMicro"));
}

static json_t *rows_of(const char *month)
{
    json_t *rows = json_array();
    struct lab_file f = {0};

    assert_int_equal(lab_read(w, "usage_focus", month, &f, NULL), ERR_OK);
    for (size_t i = 0; i < f.len; i++)
        assert_int_equal(json_array_append_new(rows, json_loads(f.line[i], 0, NULL)), 0);
    lab_file_fini(&f);
    return rows;
}

static const char *const months[] = {"2026-03", "2026-04", "2026-05"};

static void focus_rows_are_as_the_table_says(void **state UNUSED)
{
    static const char *const kinds[] = {"Usage", "Purchase", "Tax", "Credit", "Adjustment"};
    static const char *const prices[] = {"Standard", "Dynamic", "Committed"};
    size_t seen[ARRAY_LEN(kinds)] = {0}, priced[ARRAY_LEN(prices)] = {0}, late = 0;

    for (size_t m = 0; m < ARRAY_LEN(months); m++) {
        AUTO_JSON json_t *rows = rows_of(months[m]);
        json_t *o;
        size_t i;

        json_array_foreach(rows, i, o)
        {
            row_is_right(o);
            for (size_t k = 0; k < ARRAY_LEN(kinds); k++)
                seen[k] += str_eq(text_of(o, "ChargeCategory"), kinds[k]);
            for (size_t k = 0; k < ARRAY_LEN(prices); k++)
                priced[k] += str_eq(text_of(o, "PricingCategory"), prices[k]);
            late += *text_of(o, "ChargeClass") != '\0';
        }
    }
    for (size_t k = 0; k < ARRAY_LEN(kinds); k++)
        assert_true(seen[k] > 0);
    for (size_t k = 0; k < ARRAY_LEN(prices); k++)
        assert_true(priced[k] > 0);
    assert_true(late >= 4); /* usage, used, no longer unused, given back */
}

static void rows_of_a_number_are_what_it_asks_for(void **state UNUSED)
{
    struct statement_list all = {0};

    assert_int_equal(statement_list(w->store, w->user.project, &all), ERR_OK);
    assert_int_equal(all.len, 2);
    for (size_t s = 0; s < all.len; s++) {
        AUTO_JSON json_t *rows = rows_of(all.at[s].month == 3 ? months[0] : months[1]);
        int64_t sum = 0;
        json_t *o;
        size_t i;

        json_array_foreach(rows, i, o)
        {
            bool mine = str_eq(text_of(o, "InvoiceId"), all.at[s].number);

            assert_true(mine || !*text_of(o, "InvoiceId"));
            sum += mine ? u_of(o, "BilledCost") : 0;
        }
        assert_int_equal(sum, all.at[s].payable_minor * all.at[s].minor_u);
    }
    vec_fini(&all);
}

/* Σ EffectiveCost (Used, Unused) = Σ BilledCost (Purchase), each second once. */
static void a_commitment_is_spread_to_the_last_unit(void **state UNUSED)
{
    struct {
        char id[ID_SIZE];
        int64_t spread_u, bought_u, used, unused;
    } c[8] = {0};
    size_t n = 0;

    for (size_t m = 0; m < ARRAY_LEN(months); m++) {
        AUTO_JSON json_t *rows = rows_of(months[m]);
        json_t *o;
        size_t i;

        json_array_foreach(rows, i, o)
        {
            const char *id = text_of(o, "CommitmentDiscountId"), *status;
            size_t k = 0;

            if (!*id)
                continue;
            while (k < n && !str_eq(c[k].id, id))
                k++;
            if (k == n) {
                assert_true(n < ARRAY_LEN(c));
                assert_true(str_copy(c[n++].id, ID_SIZE, id));
            }
            status = text_of(o, "CommitmentDiscountStatus");
            c[k].spread_u += u_of(o, "EffectiveCost");
            c[k].bought_u += u_of(o, "BilledCost");
            if (*status)
                *(str_eq(status, "Used") ? &c[k].used : &c[k].unused) +=
                    number(o, "CommitmentDiscountQuantity");
        }
    }
    assert_int_equal(n, 3); /* a week that was left, a day that was left, card-hours */
    for (size_t k = 0; k < n; k++) {
        print_message("# %.3s: %ld µ of %ld, used %ld, unused %ld\n", c[k].id, c[k].spread_u,
                      c[k].bought_u, c[k].used, c[k].unused);
        assert_int_equal(c[k].spread_u, c[k].bought_u);
        assert_true(c[k].bought_u > 0 && c[k].used > 0);
        if (str_starts(c[k].id, "pkg_"))
            assert_int_equal(c[k].used + c[k].unused, 3600);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(focus_rows_are_as_the_table_says),
    cmocka_unit_test(rows_of_a_number_are_what_it_asks_for),
    cmocka_unit_test(a_commitment_is_spread_to_the_last_unit),
};

int main(void)
{
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, live, over);
}
