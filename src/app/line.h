/* line.h: who waits in line. Loads what domain/queue.h looks at, lets it decide, and does what it
 * decided. Whoever asks for cards goes through it while somebody waits, so that no stream of small
 * rents keeps a large one out.
 *
 * Cards are decided there, node by node and model by model, with the demands' constraints (model,
 * driver, disks) as sets of nodes. A node that lacks cores, memory, disk or ports for a demand is
 * taken out of its set until the next decision. Seats without cards wait for no card: the oldest of
 * the highest priority first, and one that does not fit holds up nobody.
 *
 * Errors: ERR_STORE; refusals in op->why. Core thread only. */
#pragma once

#include "app/core.h"
#include "store/rows_queue.h"
#include "store/store.h"

#define LINE_OPEN_S (7 * 86400) /* a run without an end is expected to last so long from now on */

/* Ends what waited past its own end, starts all that may start, tells the others. */
enum err line_tick(struct op *op);
/* May the instance, whose row is there, start now? ret_node: only there; empty: anywhere.
 * ERR_CAPACITY_NONE: those who wait come first, or the project is at its limit.
 * ERR_CAPACITY_NEVER: more than its limit. */
enum err line_admit(struct op *op, const struct instance *i, struct id *ret_node);
/* Places in line and expected starts are written now instead of with a later tick. */
enum err line_tell(struct op *op);
/* queue_terms of a project, or those of one without a row. */
enum err line_terms(struct op *op, struct id project, struct queue_terms *ret_t);
