/* gpu_nvml.c: NVIDIA's management library, found at run time. The prototypes are declared here, as
 * the header is not free software; each symbol is looked up by its versioned name, and one that is
 * missing counts as "not supported" (structs change between versions, so never by a bare name). */
#include "node/gpu.h"

#include "base/str.h"

#include <dlfcn.h>
#include <stdlib.h>

#define NVML_SUCCESS 0
#define NVML_SYMBOL_MISSING 13 /* NVML_ERROR_FUNCTION_NOT_FOUND */
#define NVML_GPU_IS_LOST 15

typedef void *nvml_device;

struct nvml_utilization {
    unsigned int gpu, memory;
};

struct nvml_memory_v2 {
    unsigned int version;
    unsigned long long total, reserved, free, used;
};

struct nvml_memory_v1 {
    unsigned long long total, free, used;
};

struct nvml_pci {
    char bus_legacy[16];
    unsigned int domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
};

/* One row a function: field, symbol, arguments. */
#define NVML_FUNCTIONS(X)                                                                          \
    X(init, nvmlInit_v2, (void))                                                                   \
    X(shutdown, nvmlShutdown, (void))                                                              \
    X(driver_version, nvmlSystemGetDriverVersion, (char *, unsigned int))                          \
    X(cuda_version, nvmlSystemGetCudaDriverVersion_v2, (int *))                                    \
    X(count, nvmlDeviceGetCount_v2, (unsigned int *))                                              \
    X(by_index, nvmlDeviceGetHandleByIndex_v2, (unsigned int, nvml_device *))                      \
    X(uuid, nvmlDeviceGetUUID, (nvml_device, char *, unsigned int))                                \
    X(name, nvmlDeviceGetName, (nvml_device, char *, unsigned int))                                \
    X(minor, nvmlDeviceGetMinorNumber, (nvml_device, unsigned int *))                              \
    X(pci, nvmlDeviceGetPciInfo_v3, (nvml_device, struct nvml_pci *))                              \
    X(memory_v2, nvmlDeviceGetMemoryInfo_v2, (nvml_device, struct nvml_memory_v2 *))               \
    X(memory_v1, nvmlDeviceGetMemoryInfo, (nvml_device, struct nvml_memory_v1 *))                  \
    X(utilization, nvmlDeviceGetUtilizationRates, (nvml_device, struct nvml_utilization *))        \
    X(temperature, nvmlDeviceGetTemperature, (nvml_device, int, unsigned int *))                   \
    X(power, nvmlDeviceGetPowerUsage, (nvml_device, unsigned int *))                               \
    X(ecc, nvmlDeviceGetTotalEccErrors, (nvml_device, int, int, unsigned long long *))             \
    X(processes, nvmlDeviceGetComputeRunningProcesses_v3, (nvml_device, unsigned int *, void *))   \
    X(topology, nvmlDeviceGetTopologyCommonAncestor, (nvml_device, nvml_device, int *))

struct nvml {
    void *library; /* owned */
#define X(field, symbol, args) int(*field) args;
    NVML_FUNCTIONS(X)
#undef X
    char driver[32], cuda[16];
    struct { /* who sat where: a card that fell off no longer says */
        char uuid[GPU_UUID_SIZE], model[GPU_NAME_SIZE];
        int64_t memory_mib;
    } known[GPU_CARDS_MAX];
    size_t topology_count; /* cards when it was read: it changes with them only */
    uint8_t topology_known[GPU_CARDS_MAX][GPU_CARDS_MAX];
};

/* A call through a pointer that may be absent. */
#define NVML_CALL(n, field, ...)                                                                   \
    ((n)->field != NULL ? (n)->field(__VA_ARGS__) : NVML_SYMBOL_MISSING)

static void model_name(char *dst, size_t size, const char *raw)
{
    if (str_starts(raw, "NVIDIA "))
        raw += strlen("NVIDIA ");
    if (str_starts(raw, "GeForce "))
        raw += strlen("GeForce ");
    (void)str_printf(dst, size, "%s", raw);
}

static void card_memory(struct nvml *n, nvml_device d, struct gpu_card *c)
{
    struct nvml_memory_v2 two = {.version = (unsigned int)(sizeof(two) | (2U << 24))};
    struct nvml_memory_v1 one = {0};

    if (NVML_CALL(n, memory_v2, d, &two) == NVML_SUCCESS) {
        c->memory_mib = (int64_t)(two.total >> 20);
        c->memory_used_mib = (int64_t)(two.used >> 20);
    } else if (NVML_CALL(n, memory_v1, d, &one) == NVML_SUCCESS) {
        c->memory_mib = (int64_t)(one.total >> 20);
        c->memory_used_mib = (int64_t)(one.used >> 20);
    }
}

static void card_meters(struct nvml *n, nvml_device d, struct gpu_card *c)
{
    struct nvml_utilization u = {0};
    unsigned int v = 0, running = 0;
    unsigned long long ecc = 0;

    c->util_pct = NVML_CALL(n, utilization, d, &u) == NVML_SUCCESS ? (int32_t)u.gpu : -1;
    c->temp_c = NVML_CALL(n, temperature, d, 0, &v) == NVML_SUCCESS ? (int32_t)v : -1;
    c->power_w = NVML_CALL(n, power, d, &v) == NVML_SUCCESS ? (int32_t)(v / 1000) : -1;
    /* error type 1: uncorrected; counter 0: since the driver was loaded */
    c->ecc_errors = NVML_CALL(n, ecc, d, 1, 0, &ecc) == NVML_SUCCESS ? (int64_t)ecc : -1;
    /* With no buffer it answers "too small" (7) and the count. */
    int r = NVML_CALL(n, processes, d, &running, NULL);
    c->processes = r == NVML_SUCCESS || r == 7 ? (int32_t)running : -1;
}

static void card_read(struct nvml *n, unsigned int index, nvml_device *ret_device,
                      struct gpu_card *c)
{
    char raw[96] = "";
    struct nvml_pci pci = {.domain = 0};
    unsigned int minor = 0;
    int r = NVML_CALL(n, by_index, index, ret_device);

    c->util_pct = c->power_w = c->temp_c = c->processes = c->minor = -1;
    c->ecc_errors = -1;
    if (r != NVML_SUCCESS)
        return;
    nvml_device d = *ret_device;
    r = NVML_CALL(n, uuid, d, c->uuid, (unsigned int)sizeof(c->uuid));
    if (r != NVML_SUCCESS)
        c->uuid[0] = '\0';
    if (NVML_CALL(n, name, d, raw, (unsigned int)sizeof(raw)) == NVML_SUCCESS)
        model_name(c->model, sizeof(c->model), raw);
    if (NVML_CALL(n, minor, d, &minor) == NVML_SUCCESS)
        c->minor = (int32_t)minor;
    if (NVML_CALL(n, pci, d, &pci) == NVML_SUCCESS)
        (void)str_printf(c->bus, sizeof(c->bus), "%.31s", pci.bus_id);
    card_memory(n, d, c);
    card_meters(n, d, c);
    struct nvml_utilization u;
    c->healthy = r == NVML_SUCCESS && c->memory_mib > 0 &&
                 NVML_CALL(n, utilization, d, &u) != NVML_GPU_IS_LOST;
}

static void card_recall(struct nvml *n, size_t index, struct gpu_card *c)
{
    if (c->healthy) {
        memcpy(n->known[index].uuid, c->uuid, sizeof(c->uuid));
        memcpy(n->known[index].model, c->model, sizeof(c->model));
        n->known[index].memory_mib = c->memory_mib;
    } else if (c->uuid[0] == '\0') {
        memcpy(c->uuid, n->known[index].uuid, sizeof(c->uuid));
        memcpy(c->model, n->known[index].model, sizeof(c->model));
        c->memory_mib = n->known[index].memory_mib;
    }
}

static void topology_read(struct nvml *n, const nvml_device *devices, size_t count)
{
    memset(n->topology_known, 255, sizeof(n->topology_known));
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < count; j++) {
            int level = 255;

            if (i == j)
                n->topology_known[i][j] = 0;
            else if (devices[i] != NULL && devices[j] != NULL &&
                     NVML_CALL(n, topology, devices[i], devices[j], &level) == NVML_SUCCESS)
                n->topology_known[i][j] = (uint8_t)level;
        }
    n->topology_count = count;
}

static enum err nvml_read(void *self, struct gpu_list *l, struct refusal *why)
{
    struct nvml *n = self;
    nvml_device devices[GPU_CARDS_MAX] = {NULL};
    unsigned int count = 0;
    int r = NVML_CALL(n, count, &count);

    if (r != NVML_SUCCESS)
        return refusef(why, ERR_UNAVAILABLE, "why", "NVML error %d", r);
    l->count = MIN((size_t)count, (size_t)GPU_CARDS_MAX);
    for (size_t i = 0; i < l->count; i++) {
        card_read(n, (unsigned int)i, &devices[i], &l->at[i]);
        card_recall(n, i, &l->at[i]);
    }
    if (n->topology_count != l->count)
        topology_read(n, devices, l->count);
    memcpy(l->topology, n->topology_known, sizeof(l->topology));
    memcpy(l->driver, n->driver, sizeof(l->driver));
    memcpy(l->cuda, n->cuda, sizeof(l->cuda));
    return ERR_OK;
}

static void nvml_close(void *self)
{
    struct nvml *n = self;

    (void)NVML_CALL(n, shutdown);
    dlclose(n->library);
    free(n);
}

static const struct gpu_driver gpu_nvml = {"nvml", nvml_read, nvml_close};

enum err gpu_nvml_open(const struct gpu_driver **ret_driver, void **ret_self, struct refusal *why)
{
    int cuda = 0;
    AUTO_FREE struct nvml *n = mem_alloc(sizeof(*n));

    n->library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (n->library == NULL) {
        (void)refuse(why, ERR_UNSUPPORTED);
        refusal_set(why, "what", "NVML");
        refusal_set(why, "why", "libnvidia-ml.so.1 is not on this machine");
        return ERR_UNSUPPORTED;
    }
#define X(field, symbol, args) *(void **)&n->field = dlsym(n->library, #symbol);
    NVML_FUNCTIONS(X)
#undef X
    int r = NVML_CALL(n, init);
    if (r != NVML_SUCCESS) {
        dlclose(n->library);
        (void)refuse(why, ERR_UNSUPPORTED);
        refusal_set(why, "what", "NVML");
        refusal_setf(why, "why", "nvmlInit_v2 says %d: is the driver loaded?", r);
        return ERR_UNSUPPORTED;
    }
    if (NVML_CALL(n, driver_version, n->driver, (unsigned int)sizeof(n->driver)) != NVML_SUCCESS)
        n->driver[0] = '\0';
    if (NVML_CALL(n, cuda_version, &cuda) == NVML_SUCCESS)
        (void)str_printf(n->cuda, sizeof(n->cuda), "%d.%d", cuda / 1000, cuda % 1000 / 10);
    *ret_driver = &gpu_nvml;
    *ret_self = TAKE(n);
    return ERR_OK;
}
