/* dump.h: all that a store says, as text: every table, every column, every row, in the order of
 * their keys. */
#pragma once

#include "base/base.h"

/* A second connection, with a statement per table. A file that cannot be read fails a CHECK. */
struct dumper *dumper_open(const char *file);
void dumper_close(struct dumper *d);
/* The last commit. Owned by the caller. */
char *dumper_text(struct dumper *d);
/* One text of a file. Owned by the caller. */
char *dump_store(const char *file);
/* The same without the trace that asking twice leaves where no key was given: the audit, the clock
 * of the last commit, when a node was heard last and when it last spoke of a lease. Owned by the
 * caller. */
char *dump_effects(const char *dump);
/* The first line that is in one of them only, into text (of size bytes). False: they are equal. */
bool dump_differs(const char *a, const char *b, char *text, size_t size);
