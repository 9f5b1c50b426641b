/* base.h: what every file may use. Macros only; no state, no system call.
 *
 * Ownership words used in all headers: "owned" (the struct frees it), "borrowed" (somebody else
 * does), "TAKE" (a hand-over in the open). Results go to ret_x, set only on success. */
#pragma once

#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Milliseconds since the POSIX epoch, UTC (wall), or since boot where the name says boot_ms. */
typedef int64_t utime_t;
#define UTIME_NEVER INT64_MAX
#define MS_PER_S 1000

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
/* Each argument is evaluated once; the counter keeps nested uses from shadowing each other. */
#define BASE_PICK(op, a, b, n) BASE_PICK_(op, a, b, n)
#define BASE_PICK_(op, a, b, n)                                                                    \
    ({                                                                                             \
        __typeof__(a) _a##n = (a);                                                                 \
        __typeof__(b) _b##n = (b);                                                                 \
        _a##n op _b##n ? _a##n : _b##n;                                                            \
    })
#define MIN(a, b) BASE_PICK(<, a, b, __COUNTER__)
#define MAX(a, b) BASE_PICK(>, a, b, __COUNTER__)

/* Always compiled in: a broken invariant stops the process; the supervisor starts it again. */
#define CHECK(cond)                                                                                \
    do {                                                                                           \
        if (__builtin_expect(!(cond), 0))                                                          \
            base_check_failed(#cond, __FILE__, __LINE__);                                          \
    } while (0)
_Noreturn void base_check_failed(const char *cond, const char *file, int line);

#define CLEANUP(fn) __attribute__((cleanup(fn)))
#define UNUSED __attribute__((unused))
#define PRINTF_LIKE(f, a) __attribute__((format(printf, f, a)))

/* Hands the pointer over and forgets it here: `return TAKE(buf);` */
#define TAKE(p)                                                                                    \
    ({                                                                                             \
        __typeof__(p) _p = (p);                                                                    \
        (p) = NULL;                                                                                \
        _p;                                                                                        \
    })
#define TAKE_FD(fd)                                                                                \
    ({                                                                                             \
        int _fd = (fd);                                                                            \
        (fd) = -1;                                                                                 \
        _fd;                                                                                       \
    })
