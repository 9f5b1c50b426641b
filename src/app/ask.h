/* ask.h: what somebody asks for, read from the body of a request: shape, end, disks, ports. One
 * reading for quote, rent, start and resize, so that they cannot disagree. */
#pragma once

#include "app/op.h"
#include "store/store.h"

/* gpu, count, cpu, memory, system_disk, exclusive. The model is resolved to the full name of a card of this
 * platform ("4090" → "RTX 4090"); a seat without memory gets the configured amount per core; with
 * cards, cpu and memory 0 mean their share of the machine. ERR_VALIDATION, ERR_NOT_FOUND (card,
 * with the nearest name). */
enum err ask_shape(struct op *op, struct shape *ret_s);
/* A model as typed → as the nodes call it. */
enum err ask_model(struct op *op, const char *typed, char ret_model[GPU_MODEL_SIZE]);
/* for, until, no_end: exactly one, else the configured default, else ERR_VALIDATION. */
enum err ask_end(struct op *op, utime_t *ret_ends_at);

#define ASK_END_MAX INT64_C(253402300799000) /* the last second RFC 3339 can say */
#define ASK_DISK_MIB_MAX (1024ll * 1024 * 1024)

struct ask_disk {
    char name[NAME_SIZE];
    int64_t size_mib;   /* 0: an existing disk */
    struct id existing; /* empty: to be made */
};
/* disk: NAME:SIZE (made when new; of an existing one the size must agree) or NAME. ERR_DISK_IN_USE,
 * ERR_NOT_FOUND, ERR_VALIDATION. */
enum err ask_disks(struct op *op, struct ask_disk ret_d[INSTANCE_DISKS_MAX], int32_t *ret_n);
/* A day of so much storage at that price must be there, as at the start of an instance:
 * ERR_BALANCE. */
enum err ask_disk_afford(struct op *op, const char *sku, int64_t mib);
/* Where a data disk is seen in that instance: the first is where people work (/root/data), more
 * have their own name. ERR_VALIDATION when another disk of it is there. */
enum err ask_mount(struct op *op, const struct instance *i, struct disk *io_d);
/* May a disk that a node has become so large? It only grows, its node has the room and, where no
 * lease holds money for it (idle), the wallet has a day of it. field: who asked. ERR_VALIDATION,
 * ERR_NO_SPACE, ERR_BALANCE. */
enum err ask_disk_grow(struct op *op, const struct disk *d, bool idle, const char *field,
                       int64_t mib);
/* price: decimal text; ret_given false when absent. */
enum err ask_price(struct op *op, int64_t *ret_u, bool *ret_given);
/* The image by name or digest, or the default one. */
enum err ask_image(struct op *op, struct image *ret_i);
enum err ask_bad(struct op *op, const char *field, const char *why); /* ERR_VALIDATION */
