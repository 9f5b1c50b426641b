/* authz.h: who may do what: one table, role of the caller against the least role of an operation.
 * Pure. The rule: roles of a project are a ladder (viewer, member, owner); supplier and operator
 * stand beside it and give nothing inside a project; a node may only sync. */
#pragma once

#include "domain/types.h"

/* The least role of an operation, operations.def. */
enum access {
    ACCESS_PUBLIC,
    ACCESS_NODE,
    ACCESS_VIEWER,
    ACCESS_MEMBER,
    ACCESS_OWNER,
    ACCESS_SUPPLIER,
    ACCESS_OPERATOR
};
#define ACCESS_COUNT (ACCESS_OPERATOR + 1)
struct caller {
    bool is_node;
    bool is_operator;
    bool is_supplier; /* its statements go to this user */
    enum role role; /* in the chosen project; ROLE_NONE: in none */
};
bool authz_allows(enum access need, const struct caller *c);
/* The role that must not be passed on: a token or member never gets more than its giver has. */
enum role authz_min(enum role a, enum role b);
