/* size_speed.h: how fast a card works on a job; size_speed.c names what the shares were measured
 * on. Pure, any thread. */
#pragma once

#include "base/str.h"
#include "domain/size_choice.h"

/* Seconds of computing for all tokens of all epochs. */
void size_speed_train(const struct size_ask *a, const struct size_job *j,
                      const struct card_row *card, int64_t count, struct size_range *ret_s);
/* Tokens a second while answers are written: of one sequence alone; of `sequences` together. */
void size_speed_decode(const struct size_ask *a, const struct size_job *j,
                       const struct card_row *card, int64_t count, int64_t sequences,
                       int64_t *ret_one, int64_t *ret_all);
