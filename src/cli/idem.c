#include "cli/idem.h"

#include <fcntl.h>
#include <sodium.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/str.h"

#define IDEM_TEXT_MAX (4 << 20)
#define IDEM_PARALLEL_MAX 256

/* Opens and locks the file; false when another process holds it. An unlinked file is opened anew.
 */
static bool idem_lock(struct idem *i)
{
    for (int tries = 0; tries < 100; tries++) {
        struct stat mine, named;
        AUTO_CLOSE int fd = open(i->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) != 0)
            return false;
        if (fstat(fd, &mine) == 0 && stat(i->path, &named) == 0 && mine.st_ino == named.st_ino) {
            i->fd = TAKE_FD(fd);
            return true;
        }
    }
    return false;
}

/* First line the key, the rest the body. False when it is empty, old or damaged. */
static bool idem_load(struct idem *i)
{
    struct stat st;
    AUTO_FREE char *text = NULL;

    if (fstat(i->fd, &st) != 0 || st.st_mtime + IDEM_LIFE_S < time(NULL) ||
        file_read(i->path, IDEM_TEXT_MAX, &text, NULL) != ERR_OK)
        return false;
    char *nl = strchr(text, '\n');
    if (!nl || nl - text != 32)
        return false;
    *nl = '\0';
    if (!str_copy(i->key, sizeof(i->key), text))
        return false;
    i->body = nl[1] ? mem_strdup(nl + 1) : NULL;
    return true;
}

static bool idem_store(struct idem *i, const char *body)
{
    AUTO_STRBUF struct strbuf text = {0};

    strbuf_init(&text, IDEM_TEXT_MAX);
    strbuf_addf(&text, "%s\n%s", i->key, body ? body : "");
    return !text.overflow && ftruncate(i->fd, 0) == 0 &&
           pwrite(i->fd, text.data, text.len, 0) == (ssize_t)text.len && fsync(i->fd) == 0;
}

static void idem_forget_path(struct idem *i)
{
    free(i->path);
    i->path = NULL;
    fd_close_ptr(&i->fd);
    i->fd = -1;
}

static void idem_find(struct idem *i, const char *folder, const char *name)
{
    for (int n = 0; n < IDEM_PARALLEL_MAX; n++) {
        char numbered[64];
        str_printf(numbered, sizeof(numbered), "%s-%d", name, n);
        i->path = path_join(folder, numbered);
        if (idem_lock(i))
            return;
        free(i->path);
        i->path = NULL;
    }
}

void idem_open(struct idem *i, const struct config *cfg, const char *act, const char *body)
{
    unsigned char hash[16], raw[16];
    char name[33];
    AUTO_FREE char *folder = path_join(cfg->state, "pending");

    CHECK(sodium_init() >= 0);
    *i = (struct idem){.fd = -1};
    crypto_generichash(hash, sizeof(hash), (const unsigned char *)act, strlen(act), NULL, 0);
    sodium_bin2hex(name, sizeof(name), hash, sizeof(hash));
    if (folder_make(folder, NULL) == ERR_OK)
        idem_find(i, folder, name);
    if (i->path && idem_load(i)) {
        i->again = true;
        return;
    }
    randombytes_buf(raw, sizeof(raw));
    sodium_bin2hex(i->key, sizeof(i->key), raw, sizeof(raw));
    i->body = body ? mem_strdup(body) : NULL;
    if (i->path && !idem_store(i, body)) {
        unlink(i->path);
        idem_forget_path(i);
    }
}

void idem_done(struct idem *i)
{
    if (i->path)
        unlink(i->path);
}

void idem_fini(struct idem *i)
{
    free(i->body);
    free(i->path);
    fd_close_ptr(&i->fd);
    *i = (struct idem){.fd = -1};
}
