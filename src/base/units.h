/* units.h: durations and sizes as people write them. Pure.
 *
 * Durations: 90s, 30m, 4h, 2h30m, 1d, 1w, and Slurm's D-HH:MM:SS. Result in whole seconds.
 * Sizes: 512MiB, 8GiB, 1TiB, 200GB (decimal, rounded up to a whole MiB). Always with a unit.
 * Both refuse zero, signs, blanks and anything that does not fit int64. */
#pragma once

#include "base/err.h"

enum err duration_parse(const char *s, int64_t *ret_s);
/* "2h30m", "45s"; buf of 32 is enough. */
void duration_format(int64_t s, char *buf, size_t size);
enum err size_parse_mib(const char *s, int64_t *ret_mib);
/* "20GiB" when whole, else "20500MiB". */
void size_format_mib(int64_t mib, char *buf, size_t size);
/* RFC 3339 both ways. format writes "2026-01-31T16:00:00Z"; parse takes any offset, whole seconds
 * or a fraction (cut to ms). */
void time_format(utime_t t, char *buf, size_t size);
enum err time_parse(const char *s, utime_t *ret_t);
/* Proleptic Gregorian, days since 1970-01-01. */
int64_t date_to_days(int64_t year, int month, int day);
void date_from_days(int64_t days, int64_t *ret_year, int *ret_month, int *ret_day);
