/* migrate.h: the numbered migrations, embedded at build (tools/sql2c). */
#pragma once

#include "base/base.h"

struct migration {
    int number;
    const char *name, *checksum, *sql;
};
extern const struct migration migrations[];
extern const size_t migration_count;
