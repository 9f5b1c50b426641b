/* funds_zone.c: the billing zones there are: the built-in ones and what was read at the start.
 * Before any second thread this only grows; afterwards nothing writes it. */
#include "app/funds.h"
#include "base/mem.h"
#include "domain/calendar.h"

#define ZONES_MAX 64

static struct zone zones[ZONES_MAX];
static size_t kept_len[ZONES_MAX];
static unsigned char *kept[ZONES_MAX]; /* the bytes that each of them borrows, to the end */
static size_t zone_count;

/* The built-in ones, for who must borrow one. */
static const struct zone utc = {.name = "UTC", .has_rule = true};
static const struct zone shanghai = {
    .name = "Asia/Shanghai", .has_rule = true, .first_offset_s = 28800, .std_offset_s = 28800};

const struct zone *funds_zone_kept(const char *name)
{
    for (size_t i = 0; i < zone_count; i++)
        if (str_eq(zones[i].name, name))
            return &zones[i];
    return str_eq(name, utc.name) ? &utc : str_eq(name, shanghai.name) ? &shanghai : NULL;
}

bool funds_zone(const char *name, struct zone *ret_z)
{
    for (size_t i = 0; i < zone_count; i++)
        if (str_eq(zones[i].name, name)) {
            *ret_z = zones[i];
            return true;
        }
    return zone_builtin(name, ret_z);
}

const void *funds_zone_bytes(const char *name, size_t *ret_len)
{
    for (size_t i = 0; i < zone_count; i++)
        if (str_eq(zones[i].name, name)) {
            *ret_len = kept_len[i];
            return kept[i];
        }
    return NULL;
}

enum err funds_zone_add(const char *name, const void *data, size_t len)
{
    struct zone z;

    if (funds_zone(name, &z))
        return ERR_OK;
    if (zone_count == ZONES_MAX)
        return ERR_TOO_LARGE;
    AUTO_FREE unsigned char *bytes = mem_alloc(len + 1);
    memcpy(bytes, data, len);
    TRY(zone_parse(name, bytes, len, &zones[zone_count]));
    kept_len[zone_count] = len;
    kept[zone_count++] = TAKE(bytes);
    return ERR_OK;
}
