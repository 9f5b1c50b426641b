/* view.c: an answer on the screen. Columns of a list are named here; everything else about a field
 * (money, time, size) follows from schemas.def, so a new operation shows without new code. */
#include <stdlib.h>

#include "base/units.h"
#include "cli/cli.h"
#include "cli/table.h"

/* schema of an item: the columns people want, as many as fit 80; --json has them all */
static const struct {
    const char *schema, *columns;
} lists[] = {
    {"token", "id label role created_at used_at expires_at"},
    {"project", "name id currency zone"},
    {"key", "name id fingerprint created_at"},
    {"disk", "name state size_mib instance kept_until"},
    {"image", "name default state bytes need_driver need_cuda source"},
    {"budget", "name scope period cap spent held left"},
    {"audit", "at actor action object result request_id"},
    {"node", "name state gpus cores_free unknown"},
    {"price", "sku price unit valid_from id"},
    {"ledger_head", "day rows hash"},
    {"user", "name id role project created_at"},
    {"clearing_line", "id channel kind reference order amount reason age_s"},
    {"clearing_sum", "channel credited shown waits suspense suspense_items suspense_age_s"},
    {"clearing_waiting", "order channel payment refunds age_s"},
    {"wallet_day", "day credited shown"},
    {"topup_order", "id channel test amount state created_at"},
    {"voucher", "id amount left scope state expires"},
    {"voucher_batch", "id amount scope count redeemed expires"},
    {"channel", "name kind test off pay"},
    {"refund_part", "to order amount"},
    {"revenue_kind", "kind amount transfers"},
    {"revenue_account", "account amount transfers"},
    {"revenue_total", "currency amount transfers"},
    {"plan_month", "plan project sku earned deferred"},
    {"invoice", "number kind month payable left issued_at"},
    {"close_row", "project month state number payable why"},
    {"tax_rule", "country sku class rate inclusive valid_from"},
    {"fx_rate", "from to rate spread at"},
    {"queue_entry", "name project gpu_count gpu since wait"},
    {"scarcity", "model cards free asked_pct scarcity min max"},
    {"supplier", "name user share nodes dispute threshold balances"},
    {"supplier_balance", "held payable paid"},
    {"supplier_line", "node subject sku quantity gross earned"},
    {"payout", "id supplier amount carried state reference at"},
    {"check_row", "id pass text"},
    {"node_gpu", "uuid model memory_mib healthy lease"},
    {"member", "user role"},
    {"port", "guest address"},
};

void view_json(const struct answer *a)
{
    size_t n = a->body.len;

    if (n == 0)
        puts("{}");
    else
        printf("%s%s", a->body.data, a->body.data[n - 1] == '\n' ? "" : "\n");
}

void view_id(const json_t *o)
{
    AUTO_STRBUF struct strbuf b = {0};
    const char *id = field_str(o, "id");

    strbuf_init(&b, 4096);
    text_clean(*id ? id : *field_str(o, "name") ? field_str(o, "name") : field_str(o, "user"), &b);
    if (b.len)
        puts(b.data);
}

static bool ends_with(const char *s, const char *tail)
{
    size_t n = strlen(s), m = strlen(tail);

    return n >= m && str_eq(s + n - m, tail);
}

/* The cards of a node in one cell: "8 x RTX 4090, 3 free". A node has cards of one model. */
static void cards_text(const json_t *gpus, struct strbuf *out)
{
    const json_t *first = json_array_get(gpus, 0);
    size_t i, idle = 0;
    json_t *g;

    if (!first)
        return strbuf_add(out, "-");
    json_array_foreach(gpus, i, g) idle += !*field_str(g, "lease") && field_bool(g, "healthy");
    strbuf_addf(out, "%zu x ", json_array_size(gpus));
    text_clean(field_str(first, "model"), out);
    if (field_bool(first, "simulated"))
        strbuf_addf(out, " (%s)", tr("simulated"));
    strbuf_addf(out, tr(", %zu free"), idle);
}

/* "71234/10000" → "7.1234": exact, since only a power of ten is taken; else false. */
static bool decimal_text(const char *fraction, struct strbuf *out)
{
    size_t digits = strspn(fraction, "0123456789"), places;
    const char *ten = fraction + digits;

    places = digits && str_starts(ten, "/1") ? strspn(ten + 2, "0") : 0;
    if (!places || ten[2 + places])
        return false;
    for (size_t place = MAX(digits, places + 1); place > 0; place--) {
        strbuf_add_n(out, place > digits ? "0" : ten - place, 1);
        if (place == places + 1)
            strbuf_add(out, ".");
    }
    return true;
}

static void value_text(const char *schema, const char *name, const json_t *v, struct strbuf *out)
{
    const char *type = schema_field_type(schema, name);
    char buf[128];

    if (!v || json_is_null(v)) {
        strbuf_add(out, "-");
    } else if (json_is_object(v) && field_is(v, "amount")) {
        text_money(v, buf, sizeof(buf));
        strbuf_addf(out, "%s%s", buf, ends_with(name, "_hour") ? tr("/h") : "");
    } else if (json_is_boolean(v)) {
        strbuf_add(out, tr(json_is_true(v) ? "yes" : "no"));
    } else if (json_is_integer(v)) {
        int64_t n = json_integer_value(v);
        str_printf(buf, sizeof(buf), "%" PRId64, n);
        if (ends_with(name, "_mib") || ends_with(name, "_mib_free"))
            size_format_mib(n, buf, sizeof(buf));
        else if (ends_with(name, "_s"))
            text_duration(n, buf, sizeof(buf));
        else if (ends_with(name, "bytes"))
            text_bytes(n, buf, sizeof(buf));
        strbuf_add(out, buf);
    } else if (json_is_string(v) && type && str_eq(type, "TIME")) {
        text_time(json_string_value(v), buf, sizeof(buf));
        strbuf_add(out, buf);
    } else if (json_is_string(v) && (str_eq(name, "rate") || str_eq(name, "spread")) &&
               decimal_text(json_string_value(v), out)) {
        return;
    } else if (json_is_string(v)) {
        text_clean(json_string_value(v), out);
    } else if (str_eq(schema, "node") && str_eq(name, "gpus")) {
        cards_text(v, out);
    } else if (json_is_array(v) && json_array_size(v) == 0) {
        strbuf_add(out, "-");
    } else if (json_is_array(v)) {
        size_t i;
        json_t *item;
        json_array_foreach(v, i, item)
        {
            strbuf_add(out, i ? ", " : "");
            value_text(schema, "", item, out);
        }
    } else {
        AUTO_FREE char *text = json_dumps(v, JSON_COMPACT);
        text_clean(text ? text : "", out);
    }
}

static const char *columns_of(const char *schema)
{
    for (size_t i = 0; i < ARRAY_LEN(lists); i++)
        if (str_eq(lists[i].schema, schema))
            return lists[i].columns;
    return NULL;
}

/* "memory_mib_free" → "MEMORY FREE", in the language in use when the catalogue knows it. */
static void column_title(const char *field, char *buf, size_t size)
{
    size_t n = 0;

    for (const char *p = field; *p && n + 1 < size; p++) {
        if (str_starts(p, "_mib")) {
            p += 3;
            continue;
        }
        if (str_eq(p, "_s")) /* a duration says its unit itself */
            break;
        buf[n++] = (char)(*p == '_' ? ' ' : *p >= 'a' && *p <= 'z' ? *p - 32 : *p);
    }
    buf[n] = '\0';
}

static bool is_number(const char *schema, const char *field)
{
    const char *type = schema_field_type(schema, field);

    return type && (str_eq(type, "I64") || str_eq(type, "MONEY"));
}

static void list_row(struct table *t, const char *schema, char field[][32], const json_t *item)
{
    for (size_t i = 0; i < t->columns; i++) {
        AUTO_STRBUF struct strbuf b = {0};
        strbuf_init(&b, 4096);
        value_text(schema, field[i], json_object_get(item, field[i]), &b);
        if (i == 0 && field_bool(item, "simulated"))
            strbuf_addf(&b, " (%s)", tr("simulated"));
        table_add(t, strbuf_str(&b));
    }
}

static void view_list(struct cli *c, const char *schema, const json_t *items)
{
    const char *columns = columns_of(schema);
    char field[TABLE_COLUMNS_MAX][32], title[TABLE_COLUMNS_MAX][40];
    const char *head[TABLE_COLUMNS_MAX + 1] = {NULL};
    char align[TABLE_COLUMNS_MAX + 1] = "";
    struct table t;
    size_t n = 0, i;
    json_t *item;

    if (json_array_size(items) == 0) {
        say(c, "%s", tr("Nothing there."));
        return;
    }
    for (const char *p = columns ? columns : "id"; *p && n < TABLE_COLUMNS_MAX; n++) {
        size_t len = strcspn(p, " ");
        str_printf(field[n], sizeof(field[n]), "%.*s", (int)len, p);
        align[n] = is_number(schema, field[n]) ? '>' : '<';
        column_title(field[n], title[n], sizeof(title[n]));
        head[n] = title[n];
        p += len + (p[len] == ' ');
    }
    table_init(&t, head, align);
    json_array_foreach(items, i, item) list_row(&t, schema, field, item);
    table_print(&t, stdout, c->color);
    table_fini(&t);
}

/* "AMOUNT    1.00". Several words of one field stand below each other, to be copied one by one. */
static void object_line(const char *schema, const char *field, const json_t *v)
{
    size_t rows = json_is_array(v) ? MAX(json_array_size(v), (size_t)1) : 1;
    char name[48];

    column_title(field, name, sizeof(name));
    for (size_t i = 0; i < rows; i++) {
        AUTO_STRBUF struct strbuf line = {0}, value = {0};

        strbuf_init(&line, 4096);
        strbuf_init(&value, 4096);
        table_pad(&line, i ? "" : tr(name), 18, false);
        value_text(schema, field, rows > 1 ? json_array_get(v, i) : v, &value);
        printf("%s  %s\n", strbuf_str(&line), strbuf_str(&value));
    }
}

static bool is_schema(const char *type)
{
    for (size_t i = 0; i < field_count; i++)
        if (str_eq(fields[i].schema, type))
            return true;
    return false;
}

static void view_object(struct cli *c, const char *schema, const json_t *o)
{
    char nested[40];
    bool lines = false;

    for (size_t i = 0; i < field_count; i++) {
        const json_t *v = json_object_get(o, fields[i].name);
        if (!str_eq(fields[i].schema, schema) || !v || json_is_null(v))
            continue;
        if (!schema_list_of(fields[i].type, nested, sizeof(nested)) || !columns_of(nested)) {
            if (json_is_object(v) && is_schema(fields[i].type))
                view_object(c, fields[i].type, v);
            else
                object_line(schema, fields[i].name, v);
        } else if (json_array_size(v)) {
            if (lines)
                puts("");
            view_list(c, nested, v);
        } else {
            continue;
        }
        lines = true;
    }
}

static void view_ids(const json_t *json)
{
    const json_t *items = json_object_get(json, "items");
    size_t i;
    json_t *item;

    if (!items)
        view_id(json);
    json_array_foreach(items, i, item) view_id(item);
}

int view_print(struct cli *c, const struct verb *verb, const struct answer *a)
{
    char item[40];
    const char *type = schema_field_type(verb->schema, "items");

    if (c->json)
        view_json(a);
    else if (c->quiet)
        view_ids(a->json);
    else if (type && schema_list_of(type, item, sizeof(item)))
        view_list(c, item, json_object_get(a->json, "items"));
    else if (a->json)
        view_object(c, verb->schema, a->json);
    return 0;
}
