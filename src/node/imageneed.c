#include "node/imageneed.h"

#include <stdlib.h>

#include "base/str.h"

static bool is_version(const char *s)
{
    return *s >= '0' && *s <= '9' && s[strspn(s, "0123456789.")] == '\0';
}

/* Like 12.10 > 12.9, part by part; what is missing counts as 0. */
static int version_order(const char *a, const char *b)
{
    while (*a || *b) {
        unsigned long x = strtoul(a, NULL, 10), y = strtoul(b, NULL, 10);

        if (x != y)
            return x < y ? -1 : 1;
        a += strspn(a, "0123456789");
        b += strspn(b, "0123456789");
        a += *a == '.';
        b += *b == '.';
    }
    return 0;
}

/* The larger one stays: all that is required holds. */
static void at_least(char *have, size_t size, const char *version)
{
    if (is_version(version) && strlen(version) < size && version_order(version, have) > 0)
        CHECK(str_copy(have, size, version));
}

static const char *env_value(const json_t *env, const char *name)
{
    size_t i, len = strlen(name);
    const json_t *v;

    json_array_foreach(env, i, v)
    {
        const char *s = json_string_value(v);
        if (s && strncmp(s, name, len) == 0 && s[len] == '=')
            return s + len + 1;
    }
    return NULL;
}

/* One alternative, such as cuda>=12.4,driver>=550. */
static void alternative_take(char *text, struct image_need *n)
{
    char *save = NULL;

    for (char *c = strtok_r(text, ",", &save); c; c = strtok_r(NULL, ",", &save)) {
        if (str_starts(c, "cuda>="))
            at_least(n->cuda, sizeof(n->cuda), c + strlen("cuda>="));
        else if (str_starts(c, "driver>="))
            at_least(n->driver, sizeof(n->driver), c + strlen("driver>="));
    }
}

static void require_take(const char *value, struct image_need *n)
{
    while (*value) {
        size_t len = strcspn(value, " ");
        char text[256];

        if (len > 0 && len < sizeof(text)) {
            memcpy(text, value, len);
            text[len] = '\0';
            if (!strstr(text, "brand=")) {
                alternative_take(text, n);
                return;
            }
        }
        value += len;
        value += *value == ' ';
    }
}

static void requires_read(const json_t *env, struct image_need *n)
{
    const char *off = env_value(env, "NVIDIA_DISABLE_REQUIRE");
    const json_t *v;
    size_t i;

    if (off && (str_eq(off, "1") || str_eq(off, "true")))
        return;
    json_array_foreach(env, i, v)
    {
        const char *s = json_string_value(v);
        const char *value = s && str_starts(s, "NVIDIA_REQUIRE_") ? strchr(s, '=') : NULL;
        if (value)
            require_take(value + 1, n);
    }
}

/* Shown on a terminal: nothing but plain letters. */
static bool is_plain(const char *s)
{
    for (; *s; s++)
        if (*s < ' ' || *s > '~')
            return false;
    return true;
}

static void framework_read(const json_t *env, struct image_need *n)
{
    static const char *const names[][2] = {{"PYTORCH_VERSION", "PyTorch"},
                                           {"TENSORFLOW_VERSION", "TensorFlow"}};
    const char *cuda = env_value(env, "CUDA_VERSION");
    bool with_cuda = cuda && is_version(cuda) && strlen(cuda) < 16;

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        const char *v = env_value(env, names[i][0]);

        if (!v || !*v || strlen(v) > 24 || !is_plain(v))
            continue;
        (void)str_printf(n->framework, sizeof(n->framework), "%s %s%s%s", names[i][1], v,
                         with_cuda ? ", CUDA " : "", with_cuda ? cuda : "");
        return;
    }
}

static void label_take(const json_t *labels, const char *key, char *buf, size_t size)
{
    const char *v = json_string_value(json_object_get(labels, key));

    if (v && is_version(v) && strlen(v) < size)
        CHECK(str_copy(buf, size, v));
}

void image_need_read(const json_t *config, struct image_need *ret_n)
{
    const json_t *env = json_object_get(config, "env"), *labels = json_object_get(config, "labels");
    const char *framework = json_string_value(json_object_get(labels, "suanli.framework"));

    *ret_n = (struct image_need){0};
    requires_read(env, ret_n);
    framework_read(env, ret_n);
    label_take(labels, "suanli.need.driver", ret_n->driver, sizeof(ret_n->driver));
    label_take(labels, "suanli.need.cuda", ret_n->cuda, sizeof(ret_n->cuda));
    if (framework && strlen(framework) < sizeof(ret_n->framework) && is_plain(framework))
        CHECK(str_copy(ret_n->framework, sizeof(ret_n->framework), framework));
}
