/* nftset.h: elements of nftables sets and maps by nfnetlink, without exec and independent of how
 * many there are. Tables and rules come from firewall.c. Returns 0 or an errno. */
#pragma once

#include "base/err.h"

#define NFTSET_KEY_MAX 32
#define NFTSET_CHANGES_MAX 48

struct nftset {
    uint8_t family; /* NFPROTO_* */
    const char *table, *set;
};

struct nftset_elem {
    bool remove;
    uint8_t key[NFTSET_KEY_MAX], data[NFTSET_KEY_MAX];
    uint8_t key_size, data_size; /* data_size 0: a set */
};

/* All of them or none. Adding what is there is no error for a set; in a map the value must agree
 * (EEXIST). Removing what is not there: ENOENT. */
int nftset_change(int fd, const struct nftset *s, const struct nftset_elem *elems, size_t count);
typedef void nftset_each_fn(void *user, const struct nftset_elem *e);
int nftset_each(int fd, const struct nftset *s, nftset_each_fn *each, void *user);
