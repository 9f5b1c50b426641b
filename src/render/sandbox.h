/* sandbox.h: what is left to a process that only lays text out: files to read, memory, its own
 * stdin and stdout. */
#pragma once

#include "base/err.h"

/* Becomes nobody (when root), may gain nothing by exec, gets no socket, no process, no exec and no
 * file opened for writing; bounded memory and time. Before the first byte of input is read.
 * ERR_SYSTEM (call). */
enum err sandbox_enter(struct refusal *why);
