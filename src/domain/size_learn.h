/* size_learn.h: what measured runs of ours teach the printed interval. A run gives a ratio: what
 * was measured over what was estimated. For one family of models under one framework the interval
 * of the calibration and those ratios make a new one: it narrows when runs agree, moves when they
 * lie to one side, and widens when they scatter. Pure, any thread. */
#pragma once

#include "domain/size.h"

#define SIZE_FAMILY_KEY 48
#define SIZE_LEARN_MAX 200 /* runs that count, the latest */
#define SIZE_LEARN_PRIOR 4 /* runs that the calibration weighs as much as */

/* A run cannot be taken for one of the model: far off what was estimated. */
#define SIZE_LEARN_RATIO_MIN 0.2
#define SIZE_LEARN_RATIO_MAX 5.0

/* "Qwen2.5-7B-Instruct" → "qwen2.5": the name, small letters, up to the size. */
void size_family_key(const char *name, char buf[SIZE_FAMILY_KEY]);

/* On logarithms: prior mean m0 and deviation s0 (the interval holds 90 %) weigh k0 runs;
 *     m  = (k0 m0 + sum x) / (k0 + n)
 *     s2 = (k0 s0^2 + k0 (m - m0)^2 + sum (x - m)^2) / (k0 + n)
 *     interval = exp(m -+ 1.645 s sqrt(1 + 1/(k0 + n)))
 * It always holds 1 (the estimate itself) and its high end every ratio seen, so that what once did
 * not fit is not said to fit. n = 0 gives the prior. Ratios out of bounds are left out. */
void size_learn(const struct size_spread *prior, const double *ratio, size_t n,
                struct size_spread *ret_s);
