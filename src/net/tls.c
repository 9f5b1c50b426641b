#include "net/tls.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"

static enum err bad(struct refusal *why, const char *field, const char *path, const char *text)
{
    enum err e = refusef(why, ERR_VALIDATION, "field", "%s", field);

    refusal_setf(why, "why", "%s: %s", path, text);
    return e;
}

static enum err read_pem(const char *field, const char *path, bool secret, char **ret_text,
                         struct refusal *why)
{
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0)
        return bad(why, field, path, strerror(errno));
    if (!S_ISREG(st.st_mode) || st.st_size <= 0 || st.st_size > TLS_FILE_MAX)
        return bad(why, field, path, "not a PEM file");
    if (secret && (st.st_mode & 0007))
        return bad(why, field, path, "others can read or write it; chmod o= it");
    AUTO_FREE char *text = mem_alloc((size_t)st.st_size + 1);
    if (read(fd, text, (size_t)st.st_size) != (ssize_t)st.st_size)
        return bad(why, field, path, "it changed while it was read");
    if (strlen(text) != (size_t)st.st_size || !strstr(text, "-----BEGIN "))
        return bad(why, field, path, "not a PEM file");
    *ret_text = TAKE(text);
    return ERR_OK;
}

enum err tls_load(const char *cert_path, const char *key_path, struct tls_files *ret_t,
                  struct refusal *why)
{
    struct tls_files t = {0};
    enum err e = read_pem("tls_cert", cert_path, false, &t.cert_pem, why);

    if (e == ERR_OK)
        e = read_pem("tls_key", key_path, true, &t.key_pem, why);
    if (e != ERR_OK) {
        tls_fini(&t);
        return e;
    }
    *ret_t = t;
    return ERR_OK;
}

void tls_fini(struct tls_files *t)
{
    if (t->key_pem)
        explicit_bzero(t->key_pem, strlen(t->key_pem));
    free(t->key_pem);
    free(t->cert_pem);
    *t = (struct tls_files){0};
}
