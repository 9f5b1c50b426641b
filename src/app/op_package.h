/* op_package.h: resource packages as they are shown. */
#pragma once

#include "app/core.h"
#include "app/funds_package.h"

/* "packages": those of the project, and "package_offers": what can be bought now. */
enum err packages_write(struct op *op, const struct books *b);
