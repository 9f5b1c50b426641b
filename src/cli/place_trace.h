/* place_trace.h: a fleet and a list of demands from CSV files, for replays of placement.
 *
 * Nodes: sn, cpu_milli, memory_mib, gpu, model. Tasks (and a mix): name, cpu_milli, memory_mib,
 * num_gpu, gpu_milli and, where they are there, gpu_spec ("A|B": models that will do) and count
 * (how many such tasks; for a mix). Columns are found by their heads; others are ignored. */
#pragma once

#include "base/err.h"
#include "domain/place_engine.h"

#define TRACE_ROWS_MAX 2000000
#define TRACE_NAME_SIZE 64
#define TRACE_CARDS_MAX 32

enum trace_order { TRACE_NAME, TRACE_HASH, TRACE_TYPED };

struct trace_task {
    char name[TRACE_NAME_SIZE];
    struct pool_demand demand;
    int64_t count;
};

struct trace {
    struct pool pool;
    char (*node)[TRACE_NAME_SIZE]; /* owned: their names, in the pool's order */
    char model[POOL_MODELS_MAX][TRACE_NAME_SIZE];
    size_t models;
};

struct trace_tasks {
    struct trace_task *at; /* owned */
    size_t count;
};

/* salt turns the hash that breaks ties. */
enum err trace_nodes_load(const char *path, enum trace_order order, uint64_t salt,
                          struct trace *ret_t, struct refusal *why);
/* Models that no node has are remembered too: a task bound to them fits nowhere. */
enum err trace_tasks_load(const char *path, struct trace *t, struct trace_tasks *ret_tasks,
                          struct refusal *why);
void trace_mix(const struct trace_tasks *tasks, struct place_mix *ret_mix);
void trace_fini(struct trace *t);
void trace_tasks_fini(struct trace_tasks *t);
