/* err.h: one enum of errors, and the refusal that carries an error's parameters to the edge. */
#pragma once

#include "base/base.h"

#ifdef __clang__
#define ERR_NODISCARD
#else
#define ERR_NODISCARD [[nodiscard]]
#endif

/* Every function that returns it must be looked at (gcc enforces it; a clang build does not). */
enum ERR_NODISCARD err {
    ERR_OK = 0,
#define ERR(name, http, exit, en, en_next, zh, zh_next) ERR_##name,
#include "base/errors.def"
#undef ERR
    ERR_COUNT
};

enum lang { LANG_EN, LANG_ZH };

#define REFUSAL_PARAMS_MAX 6
#define REFUSAL_VALUE_MAX 200

/* A typed no. A value without pointers, so that it can cross threads and processes. */
struct refusal {
    enum err code;
    size_t param_count;
    struct {
        char key[12];
        char value[REFUSAL_VALUE_MAX];
    } params[REFUSAL_PARAMS_MAX];
};

#define TRY(call)                                                                                  \
    do {                                                                                           \
        enum err _try = (call);                                                                    \
        if (_try != ERR_OK)                                                                        \
            return _try;                                                                           \
    } while (0)

/* Sets code, forgets old parameters, returns code: `return refuse(why, ERR_STATE);` */
enum err refuse(struct refusal *why, enum err code);
/* Adds one parameter, cut to size on a UTF-8 border. More than REFUSAL_PARAMS_MAX: CHECK. */
void refusal_set(struct refusal *why, const char *key, const char *value);
void refusal_setf(struct refusal *why, const char *key, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* refuse() with one formatted parameter; the commonest form. why may be NULL everywhere. */
enum err refusef(struct refusal *why, enum err code, const char *key, const char *fmt, ...)
    PRINTF_LIKE(4, 5);

const char *err_code(enum err e); /* "offer_changed"; "ok" for ERR_OK */
bool err_find(const char *code, enum err *ret_e);
int err_http(enum err e);
int err_exit(enum err e);
/* Fills the text ("what" or "next") of why in lang into buf; always NUL-terminated. A missing
 * parameter shows as nothing. */
void refusal_text(const struct refusal *why, enum lang lang, char *buf, size_t size);
void refusal_next(const struct refusal *why, enum lang lang, char *buf, size_t size);
