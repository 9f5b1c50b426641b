/* nvml_stub: a libnvidia-ml.so.1 whose cards are lines of the file in NVML_STUB:
 *
 *   UUID|NAME|MiB|USED_MIB|UTIL|LOST        (read anew at each call of nvmlDeviceGetCount_v2)
 *
 * Built without some symbols on purpose (no power, no topology), as old drivers lack them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CARDS_MAX 8
#define SUCCESS 0
#define INVALID 2
#define LOST 15

struct stub_card {
    char uuid[48], name[64];
    unsigned long long mib, used;
    unsigned util, lost;
};

static struct stub_card cards[CARDS_MAX];
static unsigned card_count;

int nvmlInit_v2(void);
int nvmlShutdown(void);
int nvmlSystemGetDriverVersion(char *buf, unsigned size);
int nvmlSystemGetCudaDriverVersion_v2(int *v);
int nvmlDeviceGetCount_v2(unsigned *count);
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device);
int nvmlDeviceGetUUID(void *device, char *buf, unsigned size);
int nvmlDeviceGetName(void *device, char *buf, unsigned size);
int nvmlDeviceGetMinorNumber(void *device, unsigned *minor);
int nvmlDeviceGetMemoryInfo_v2(void *device, void *memory);
int nvmlDeviceGetUtilizationRates(void *device, void *rates);
int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *t);
int nvmlDeviceGetTotalEccErrors(void *device, int type, int counter, unsigned long long *n);
int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, void *infos);

int nvmlInit_v2(void)
{
    return getenv("NVML_STUB") != NULL ? SUCCESS : 9; /* driver not loaded */
}

int nvmlShutdown(void)
{
    return SUCCESS;
}

int nvmlSystemGetDriverVersion(char *buf, unsigned size)
{
    snprintf(buf, size, "550.54.14");
    return SUCCESS;
}

int nvmlSystemGetCudaDriverVersion_v2(int *v)
{
    *v = 12040;
    return SUCCESS;
}

int nvmlDeviceGetCount_v2(unsigned *count)
{
    FILE *f = fopen(getenv("NVML_STUB"), "re");
    char line[256];

    if (f == NULL)
        return 999;
    card_count = 0;
    while (card_count < CARDS_MAX && fgets(line, sizeof(line), f) != NULL) {
        struct stub_card *c = &cards[card_count];

        if (sscanf(line, "%47[^|]|%63[^|]|%llu|%llu|%u|%u", c->uuid, c->name, &c->mib, &c->used,
                   &c->util, &c->lost) == 6)
            card_count++;
    }
    fclose(f);
    *count = card_count;
    return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device)
{
    if (index >= card_count)
        return INVALID;
    if (cards[index].lost)
        return LOST;
    *device = &cards[index];
    return SUCCESS;
}

int nvmlDeviceGetUUID(void *device, char *buf, unsigned size)
{
    snprintf(buf, size, "%s", ((struct stub_card *)device)->uuid);
    return SUCCESS;
}

int nvmlDeviceGetName(void *device, char *buf, unsigned size)
{
    snprintf(buf, size, "%s", ((struct stub_card *)device)->name);
    return SUCCESS;
}

int nvmlDeviceGetMinorNumber(void *device, unsigned *minor)
{
    *minor = (unsigned)((struct stub_card *)device - cards);
    return SUCCESS;
}

int nvmlDeviceGetMemoryInfo_v2(void *device, void *memory)
{
    struct {
        unsigned version;
        unsigned long long total, reserved, free, used;
    } *m = memory;
    const struct stub_card *c = device;

    if (m->version != (sizeof(*m) | (2U << 24)))
        return 25; /* argument version mismatch */
    m->total = c->mib << 20;
    m->used = c->used << 20;
    m->free = m->total - m->used;
    m->reserved = 0;
    return SUCCESS;
}

int nvmlDeviceGetUtilizationRates(void *device, void *rates)
{
    unsigned *u = rates;

    u[0] = ((struct stub_card *)device)->util;
    u[1] = 0;
    return SUCCESS;
}

int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *t)
{
    (void)device;
    *t = 55;
    return sensor == 0 ? SUCCESS : INVALID;
}

int nvmlDeviceGetTotalEccErrors(void *device, int type, int counter, unsigned long long *n)
{
    (void)device;
    (void)type;
    (void)counter;
    (void)n;
    return 3; /* not supported: no ECC on this model */
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, void *infos)
{
    (void)device;
    *count = 2;
    return infos == NULL ? 7 : SUCCESS;
}
