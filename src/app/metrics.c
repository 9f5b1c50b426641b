#include "app/metrics.h"

#include "app/market.h"

static void head(struct strbuf *out, const char *name, const char *type, const char *help)
{
    strbuf_addf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void single(struct strbuf *out, const char *name, const char *type, const char *help,
                   int64_t v)
{
    head(out, name, type, help);
    strbuf_addf(out, "%s %" PRId64 "\n", name, v);
}

/* Label values: backslash, quote and newline are escaped. */
static void label(struct strbuf *out, const char *name, const char *value)
{
    strbuf_addf(out, "%s=\"", name);
    for (const char *p = value; *p; p++)
        if (*p == '\\' || *p == '"')
            strbuf_addf(out, "\\%c", *p);
        else if (*p == '\n')
            strbuf_add(out, "\\n");
        else
            strbuf_add_n(out, p, 1);
    strbuf_add(out, "\"");
}

static enum err instances(struct store *store, struct strbuf *out)
{
    head(out, "suanli_instances", "gauge", "Instances by state.");
    for (int s = 0; s < INSTANCE_STATE_COUNT; s++) {
        struct instance_list list = {0};
        if (s == INSTANCE_RELEASED || s == INSTANCE_FAILED)
            continue;
        enum err e = store_instance_list_state(store, (enum instance_state)s, &list);
        size_t n = list.len;
        vec_fini(&list);
        TRY(e);
        strbuf_addf(out, "suanli_instances{state=\"%s\"} %zu\n",
                    instance_state_name((enum instance_state)s), n);
    }
    return ERR_OK;
}

typedef void gpu_value(struct strbuf *out, const struct node_gpu *g);

static void value_util(struct strbuf *out, const struct node_gpu *g)
{
    strbuf_addf(out, "%d", g->util_pct);
}

static void value_total(struct strbuf *out, const struct node_gpu *g)
{
    strbuf_addf(out, "%" PRId64, g->memory_mib);
}

static void value_healthy(struct strbuf *out, const struct node_gpu *g)
{
    strbuf_addf(out, "%d", g->healthy);
}

static void value_leased(struct strbuf *out, const struct node_gpu *g)
{
    strbuf_addf(out, "%d", g->lease.s[0] != '\0');
}

static void gpus(struct strbuf *out, const struct node_list *nodes, const char *name,
                 const char *help, gpu_value *value)
{
    head(out, name, "gauge", help);
    for (size_t i = 0; i < nodes->len; i++)
        for (int k = 0; k < nodes->at[i].gpu_count; k++) {
            const struct node_gpu *g = &nodes->at[i].gpus[k];
            strbuf_addf(out, "%s{gpu=\"%d\",", name, k);
            label(out, "UUID", g->uuid);
            strbuf_add(out, ",");
            label(out, "modelName", g->model);
            strbuf_add(out, ",");
            label(out, "Hostname", nodes->at[i].name);
            strbuf_addf(out, ",simulated=\"%d\",", g->simulated);
            label(out, "lease", g->lease.s);
            strbuf_add(out, "} ");
            value(out, g);
            strbuf_add(out, "\n");
        }
}

static enum err scarcity(const struct core *c, struct store *store, utime_t now,
                         const struct node_list *nodes, struct strbuf *out)
{
    struct place_price price[PLACE_PRICES_MAX];
    size_t count;

    TRY(market_prices(store, core_config_of(c), now, nodes, price, &count));
    head(out, "suanli_model_scarcity", "gauge",
         "The price of a model that placement counts: its share of the demand by its share of the "
         "cards, within the operator's limits; above 1 it is in more demand than the rest.");
    for (size_t i = 0; i < count; i++) {
        strbuf_add(out, "suanli_model_scarcity{");
        label(out, "modelName", price[i].model);
        strbuf_addf(out, "} %.3f\n", price[i].price);
    }
    return ERR_OK;
}

static enum err nodes_write(const struct core *c, struct store *store, utime_t now,
                            struct strbuf *out)
{
    static const char *const states[] = {"new", "ready", "draining", "silent"};
    struct node_list nodes = {0};

    enum err e = store_node_list(store, &nodes);
    head(out, "suanli_node_state", "gauge", "1 for the state a node is in.");
    for (size_t i = 0; i < nodes.len; i++) {
        strbuf_add(out, "suanli_node_state{");
        label(out, "node", nodes.at[i].name);
        strbuf_addf(out, ",state=\"%s\"} 1\n", states[nodes.at[i].state]);
    }
    head(out, "suanli_node_seen_age_seconds", "gauge", "Since a node last reported.");
    for (size_t i = 0; i < nodes.len; i++) {
        if (nodes.at[i].seen_at == 0)
            continue;
        strbuf_add(out, "suanli_node_seen_age_seconds{");
        label(out, "node", nodes.at[i].name);
        strbuf_addf(out, "} %" PRId64 "\n", MAX(now - nodes.at[i].seen_at, (int64_t)0) / MS_PER_S);
    }
    gpus(out, &nodes, "DCGM_FI_DEV_GPU_UTIL", "GPU utilization (in %).", value_util);
    gpus(out, &nodes, "DCGM_FI_DEV_FB_TOTAL", "Framebuffer memory (in MiB).", value_total);
    gpus(out, &nodes, "suanli_gpu_healthy", "1 when the card is healthy.", value_healthy);
    gpus(out, &nodes, "suanli_gpu_leased", "1 when a lease holds the card.", value_leased);
    if (e == ERR_OK)
        e = scarcity(c, store, now, &nodes, out);
    vec_fini(&nodes);
    return e;
}

enum err metrics_write(const struct core *c, struct store *store, const struct metrics_http *http,
                       utime_t now, struct strbuf *out)
{
    struct core_stats s;

    core_stats_get(c, &s);
    single(out, "suanli_core_batches_total", "counter", "Transactions of the core.", s.batches);
    single(out, "suanli_core_messages_total", "counter", "Messages worked on.", s.messages);
    single(out, "suanli_core_refused_total", "counter", "Messages that were refused.", s.refused);
    single(out, "suanli_core_replayed_total", "counter", "Answers found by Idempotency-Key.",
           s.replayed);
    single(out, "suanli_core_ticks_total", "counter", "Ticks of the core.", s.ticks);
    single(out, "suanli_core_commit_failures_total", "counter", "Commits that failed.",
           s.commit_failures);
    single(out, "suanli_core_held_requests", "gauge", "Nodes that wait for orders.", s.held);
    single(out, "suanli_clock_alarm", "gauge", "1 when the clock jumped and starts wait.",
           core_clock_alarm(c));
    single(out, "suanli_events_last_id", "gauge", "Id of the newest event.", core_event_last(c));
    single(out, "suanli_http_requests_total", "counter", "Requests.", http->requests);
    single(out, "suanli_http_refused_total", "counter", "Requests answered with an error.",
           http->refused);
    single(out, "suanli_http_connections", "gauge", "Open connections.", http->connections);
    single(out, "suanli_http_streams", "gauge", "Open streams.", http->streams);
    single(out, "suanli_inbox_length", "gauge", "Requests that wait for the core.", http->inbox);
    single(out, "suanli_inbox_max", "gauge", "More than that are refused.", http->inbox_max);
    TRY(instances(store, out));
    return nodes_write(c, store, now, out);
}
