#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/units.h"

static enum log_level least_level = LOG_INFO;
static const char *program_name = "suanli";

void log_set(enum log_level least, const char *program)
{
    least_level = least;
    program_name = program;
}

void log_line(enum log_level level, const char *fmt, ...)
{
    static const char *const names[] = {"debug", "info", "warn", "error"};
    char text[1024], line[2200], when[40];
    size_t out = 0;
    va_list ap;

    if (level < least_level)
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    time_format(clock_system()->wall_ms(clock_system()), when, sizeof(when));
    int n = snprintf(line, sizeof(line), "%s %s %s: ", when, program_name, names[level]);
    out = n > 0 ? (size_t)n : 0;
    for (const char *p = text; *p && out + 3 < sizeof(line); p++) {
        unsigned char c = (unsigned char)*p;
        if (c < 0x20 || c == 0x7F) {
            line[out++] = '\\';
            line[out++] = c == '\n' ? 'n' : '?';
        } else {
            line[out++] = *p;
        }
    }
    line[out++] = '\n';
    (void)!write(STDERR_FILENO, line, out);
}
