/* node.h: what a node is worth believing. Pure.
 *
 * A node is SILENT when nothing was heard of it for silent_ms; the silence is counted from the
 * later of its last word and the moment this control plane began to listen, so that our own absence
 * is never held against a node or its renters. Nothing is ever freed by silence. */
#pragma once

#include "domain/types.h"

const char *node_state_name(enum node_state s);
enum node_state node_state_at(const struct node *n, utime_t now, utime_t listening_since,
                              int64_t silent_ms);
/* The anchor of a boot: ledger clock minus boot clock, fixed at its first word and only ever
 * lowered by a word that came with less delay. known: 0 at the first word. */
utime_t node_anchor(utime_t known, utime_t arrived, int64_t boot_ms);
/* "550.54.14" against "535": -1, 0, 1 by their numbers; an absent part counts as 0. */
int version_compare(const char *a, const char *b);
