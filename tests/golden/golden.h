/* golden.h: runs rows of worked examples (columns id, area, title, inputs, expected, derivation)
 * through the functions of the domain. A row is judged by its inputs alone. Every key of the inputs
 * must be one that the area understands, every key of the expectation one that it can compute;
 * anything else fails the row. */
#pragma once

#include "base/json.h"
#include "base/vec.h"
#include "domain/bill.h"
#include "domain/calendar.h"
#include "domain/price.h"

#define GOLDEN_LINE_MAX (1 << 20)
#define GOLDEN_ITEMS_MAX 4096

struct golden_mark {
    const json_t *object;
    const char *key;
};

/* One row at work. */
struct golden {
    const char *area;
    json_t *in, *out; /* owned by golden_line */
    struct zone zone;
    bool has_zone;
    char *zone_data; /* owned; the zone's bytes */
    char error[256];
    VEC(struct golden_mark) marks; /* input keys that somebody looked at */
};

/* Reading inputs: a key that was asked for counts as understood. All set g->error and return false
 * when the value is there but of the wrong kind, or when it is needed and not there. */
bool golden_fail(struct golden *g, const char *fmt, ...) PRINTF_LIKE(2, 3);
bool golden_ok(struct golden *g, enum err e, const char *doing);
json_t *golden_get(struct golden *g, const json_t *o, const char *key);
bool golden_has(struct golden *g, const char *key); /* in the row itself */
bool golden_i64(struct golden *g, const json_t *o, const char *key, int64_t *ret_v);
bool golden_i64_or(struct golden *g, const json_t *o, const char *key, int64_t def, int64_t *ret_v);
bool golden_text(struct golden *g, const json_t *o, const char *key, const char *def,
                 const char **ret_s);
bool golden_bool(struct golden *g, const json_t *o, const char *key, bool def, bool *ret_v);
bool golden_pair(struct golden *g, const json_t *o, const char *key, int64_t *ret_n,
                 int64_t *ret_d);
bool golden_list(struct golden *g, const json_t *o, const char *key, json_t **ret_list);
bool golden_i64s(struct golden *g, const json_t *o, const char *key, int64_t *ret_v, size_t max,
                 size_t *ret_n);
/* ms; after_ms: a bare clock reading before it means the next day (INT64_MIN: no such rule). */
bool golden_time(struct golden *g, const json_t *o, const char *key, utime_t after_ms,
                 utime_t *ret_t);
bool golden_span(struct golden *g, const json_t *o, const char *key, utime_t *ret_from,
                 utime_t *ret_to);
/* Price of an object (price_u, per), with the row's per, discount and cap where they apply. */
bool golden_rate(struct golden *g, const json_t *o, struct rate *ret_r);
bool golden_rate_named(struct golden *g, const json_t *o, const char *price_key,
                       const char *per_key, struct rate *ret_r);
bool golden_gpus(struct golden *g, int64_t *ret_n);
bool golden_minor(struct golden *g, int64_t *ret_minor_u);
/* Whether prices have their tax inside: as said, else as usual for the currency. */
bool golden_inclusive(struct golden *g, bool *ret_inclusive);
/* a·b, or an error. */
bool golden_mul(struct golden *g, int64_t a, int64_t b, int64_t *ret_v);

/* Writing results. */
void golden_put(struct golden *g, const char *key, int64_t v);
void golden_put_text(struct golden *g, const char *key, const char *s); /* NULL → null */
void golden_put_json(struct golden *g, const char *key, json_t *v);     /* takes v */
void golden_put_time(struct golden *g, const char *key, int64_t t_s);
json_t *golden_time_json(int64_t t_s);

typedef bool golden_fn(struct golden *g);
golden_fn golden_usage, golden_auto_release, golden_deliveries, golden_clock_jump, golden_evidence,
    golden_controller_down, golden_spot, golden_storage, golden_traffic, golden_late;
golden_fn golden_voucher, golden_package, golden_day_plan, golden_conversion, golden_tax,
    golden_invoice, golden_refund, golden_calendar, golden_budget, golden_arrears, golden_hold,
    golden_payout, golden_fx, golden_focus, golden_quote;

/* One line of the file. ret_text: "ok B01 per-second title" or "FAILED B01 ... expected ... got
 * ...". Returns whether it passed. */
bool golden_line(const char *line, struct strbuf *ret_text);
/* True for the header and empty lines, which are no rows. */
bool golden_skips(const char *line);
