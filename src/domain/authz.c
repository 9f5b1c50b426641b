#include "domain/authz.h"

// clang-format off
/* allowed[need][role in the project]; operators, nodes and the public have their own columns. */
static const bool by_role[ACCESS_COUNT][ROLE_OPERATOR + 1] = {
    /*                    none   viewer member owner  supplier operator */
    [ACCESS_PUBLIC] =    {true,  true,  true,  true,  true,    true},
    [ACCESS_NODE] =      {false, false, false, false, false,   false},
    [ACCESS_VIEWER] =    {false, true,  true,  true,  false,   false},
    [ACCESS_MEMBER] =    {false, false, true,  true,  false,   false},
    [ACCESS_OWNER] =     {false, false, false, true,  false,   false},
    [ACCESS_SUPPLIER] =  {false, false, false, false, true,    false},
    [ACCESS_OPERATOR] =  {false, false, false, false, false,   false},
};
// clang-format on

bool authz_allows(enum access need, const struct caller *c)
{
    if (c->is_node)
        return need == ACCESS_NODE || need == ACCESS_PUBLIC;
    if (need == ACCESS_SUPPLIER && c->is_supplier)
        return true;
    if (need == ACCESS_OPERATOR || need == ACCESS_SUPPLIER)
        return c->is_operator || by_role[need][c->role];
    return by_role[need][c->role];
}

static int rung(enum role r)
{
    switch (r) {
    case ROLE_VIEWER:
        return 1;
    case ROLE_MEMBER:
        return 2;
    case ROLE_OWNER:
    case ROLE_OPERATOR: /* as a ceiling: everything its user may do */
        return 3;
    case ROLE_NONE:
    case ROLE_SUPPLIER:
        break;
    }
    return 0;
}

enum role authz_min(enum role a, enum role b)
{
    static const enum role roles[] = {ROLE_NONE, ROLE_VIEWER, ROLE_MEMBER, ROLE_OWNER};

    return roles[MIN(rung(a), rung(b))];
}
