/* images.c: an image comes in two steps: a child process of the agent (no more rights than it)
 * fetches it into staging/<name> as an OCI layout; the helper imports it from there. One at a time:
 * the disk and the network are the bottleneck, and the first one wanted is the first one there. */
#include "node/agent_int.h"

#include "base/log.h"
#include "node/fetch.h"
#include "node/sys.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define IMPORT_PACE_MS 50
#define READY_PACE_MS 60000
#define RETRY_MS 30000
#define RETRY_DOUBLINGS 7

struct fetch_word {
    struct refusal why;
    char digest[PRIV_DIGEST_SIZE];
};

static void fetch_child(const struct agent *a, int fd, pid_t parent)
{
    struct fetch_word word = {.why = {.code = ERR_OK}};
    sigset_t none;

    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    /* Nobody would read what it brings once the agent is gone. */
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    (void)setpgid(0, 0);
    word.why.code = fetch_image(a->cfg, a->fetch.source, a->fetch.digest, a->fetch.name,
                                word.digest, &word.why);
    if (write(fd, &word, sizeof(word)) != (ssize_t)sizeof(word))
        _exit(1);
    _exit(0);
}

static void failed(struct agent *a, struct image_row *m, const struct refusal *why)
{
    utime_t now = agent_now();

    m->why = *why;
    m->found = true;
    m->state = REC_ITEM_FAILED;
    m->fetching = m->importing = false;
    m->failed_at = now;
    m->retry_at = now + ((int64_t)RETRY_MS << MIN(m->failures, (uint32_t)RETRY_DOUBLINGS));
    m->failures++;
    a->urgent = true;
    log_warn("image=%s failed: %s", m->want.digest, err_code(why->code));
}

static void staging_drop(const struct agent *a, const char *name)
{
    AUTO_CLOSE int dir = open(a->cfg->paths.staging, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (dir >= 0 && !sys_remove_tree(dir, name))
        log_warn("staging folder %s stays", name);
}

static enum err fetch_begin(struct agent *a, const char *source, const char *digest,
                            struct refusal *why)
{
    const char *hex = strchr(digest, ':');
    pid_t parent = getpid();
    int fds[2];

    (void)str_copy(a->fetch.source, sizeof(a->fetch.source), source);
    (void)str_copy(a->fetch.digest, sizeof(a->fetch.digest), digest);
    if (hex != NULL)
        (void)str_printf(a->fetch.name, sizeof(a->fetch.name), "img-%.32s", hex + 1);
    else
        (void)str_printf(a->fetch.name, sizeof(a->fetch.name), "res-%" PRId64, agent_now());
    staging_drop(a, a->fetch.name);
    if (pipe2(fds, O_CLOEXEC) != 0)
        return refusef(why, ERR_SYSTEM, "call", "pipe");
    pid_t pid = fork();
    if (pid == 0) {
        close(fds[0]);
        fetch_child(a, fds[1], parent);
    }
    close(fds[1]);
    if (pid < 0) {
        close(fds[0]);
        return refusef(why, ERR_SYSTEM, "call", "fork");
    }
    a->fetch.child = pid;
    a->fetch.fd = fds[0];
    a->soft = true;
    log_info("image=%s is being fetched from %s", digest, source);
    return ERR_OK;
}

void images_fetch(struct agent *a, struct image_row *m)
{
    struct refusal why = {.code = ERR_OK};

    if (a->fetch.child != 0)
        return;
    if (fetch_begin(a, m->want.source, m->want.digest, &why) != ERR_OK) {
        failed(a, m, &why);
        return;
    }
    m->found = true;
    m->state = REC_ITEM_WORKING;
    m->fetching = true;
}

static void import_begin(struct agent *a, struct image_row *m)
{
    struct priv_req req = {.version = PRIV_VERSION};
    struct priv_rep rep;
    struct refusal why = {.code = ERR_OK};

    memcpy(req.image.digest, m->want.digest, sizeof(req.image.digest));
    memcpy(req.image.name, a->fetch.name, sizeof(req.image.name));
    enum err e = helper_call(&a->helper, PRIV_IMAGE_IMPORT, &req, &rep, &why);
    m->fetching = false;
    if (e != ERR_OK) {
        failed(a, m, &why);
        staging_drop(a, a->fetch.name);
        return;
    }
    memcpy(m->staging, a->fetch.name, sizeof(m->staging));
    m->importing = true;
    m->found = true;
    m->state = REC_ITEM_WORKING;
    m->seen_at = 0;
}

static struct resolve_row *resolve_find(struct agent *a, const char *source)
{
    VEC_FOREACH (r, &a->book.resolves)
        if (str_eq(r->source, source))
            return r;
    return NULL;
}

/* The digest is told, and as the bytes are here already they are taken in at once. */
static void resolve_take(struct agent *a, const struct fetch_word *word)
{
    struct resolve_row *r = resolve_find(a, a->fetch.source);

    a->urgent = true;
    if (r != NULL) {
        r->fetching = false;
        r->why = word->why;
        r->failures += word->why.code != ERR_OK ? 1 : 0;
        r->retry_at =
            agent_now() + ((int64_t)RETRY_MS << MIN(r->failures, (uint32_t)RETRY_DOUBLINGS));
        memcpy(r->digest, word->digest, sizeof(r->digest));
    }
    if (word->why.code != ERR_OK) {
        log_warn("source %s: %s", a->fetch.source, err_code(word->why.code));
        staging_drop(a, a->fetch.name);
        return;
    }
    struct image_row *m = book_image(&a->book, word->digest);
    if (m == NULL) {
        m = book_image_add(&a->book, word->digest);
        (void)str_copy(m->want.source, sizeof(m->want.source), a->fetch.source);
    }
    import_begin(a, m);
}

/* The child is done or dead. */
static void fetch_take(struct agent *a)
{
    struct fetch_word word = {.why = {.code = ERR_OK}};
    int status = 0;
    ssize_t n = read(a->fetch.fd, &word, sizeof(word));

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    fd_close_ptr(&a->fetch.fd);
    a->fetch.fd = -1;
    (void)waitpid(a->fetch.child, &status, 0);
    a->fetch.child = 0;
    if (n != (ssize_t)sizeof(word))
        (void)refusef(&word.why, ERR_IMAGE_PULL, "why", "the fetch was killed");
    word.digest[sizeof(word.digest) - 1] = '\0';
    if (a->fetch.digest[0] == '\0') {
        resolve_take(a, &word);
        return;
    }
    struct image_row *m = book_image(&a->book, a->fetch.digest);
    if (m == NULL || word.why.code != ERR_OK) {
        if (m != NULL)
            failed(a, m, &word.why);
        staging_drop(a, a->fetch.name);
    } else {
        import_begin(a, m);
    }
}

static void resolve_next(struct agent *a, utime_t now)
{
    struct refusal why;

    VEC_FOREACH (r, &a->book.resolves)
        if (a->fetch.child == 0 && r->named && r->digest[0] == '\0' &&
            (r->failures == 0 || now >= r->retry_at))
            r->fetching = fetch_begin(a, r->source, "", &why) == ERR_OK;
}

static bool fetch_over(const struct agent *a)
{
    struct pollfd p = {.fd = a->fetch.fd, .events = POLLIN};

    return a->fetch.child != 0 && poll(&p, 1, 0) > 0;
}

static void image_look(struct agent *a, struct image_row *m)
{
    struct priv_req req = {.version = PRIV_VERSION};
    struct priv_rep rep;
    struct refusal why;
    enum rec_item before = m->state;

    memcpy(req.image.digest, m->want.digest, sizeof(req.image.digest));
    if (helper_call(&a->helper, PRIV_IMAGE_STAT, &req, &rep, &why) != ERR_OK)
        return;
    bool was_found = m->found;
    m->found = true;
    m->bytes = rep.image.bytes;
    switch ((enum image_state)rep.image.state) {
    case IMAGE_NONE:
        /* A failed fetch is ours to remember; the helper knows nothing of it. */
        if (m->state != REC_ITEM_FAILED)
            m->state = REC_ITEM_NONE;
        m->importing = false;
        break;
    case IMAGE_WORKING:
        m->state = REC_ITEM_WORKING;
        m->importing = true;
        break;
    case IMAGE_READY:
        m->state = REC_ITEM_READY;
        m->failures = 0;
        m->importing = false;
        memcpy(m->need.driver, rep.image.need_driver, sizeof(m->need.driver));
        memcpy(m->need.cuda, rep.image.need_cuda, sizeof(m->need.cuda));
        memcpy(m->need.framework, rep.image.framework, sizeof(m->need.framework));
        (void)refuse(&m->why, ERR_OK);
        break;
    case IMAGE_FAILED:
        if (m->importing || m->state != REC_ITEM_FAILED) {
            why = rep.why;
            why.code = rep.image.fail < ERR_COUNT && rep.image.fail != ERR_OK
                           ? (enum err)rep.image.fail
                           : ERR_IMAGE_PULL;
            failed(a, m, &why);
        }
        break;
    }
    if (!was_found || before != m->state)
        a->urgent = true;
    if (m->staging[0] != '\0' && m->state != REC_ITEM_WORKING) {
        staging_drop(a, m->staging);
        m->staging[0] = '\0';
    }
}

/* Once in a life, when nothing can be reading there. */
static void staging_sweep(struct agent *a)
{
    for (size_t i = 0; i < a->book.images.len; i++)
        if (!a->book.images.at[i]->found || a->book.images.at[i]->state == REC_ITEM_WORKING)
            return;
    a->staging_swept = true;
    DIR *dir = opendir(a->cfg->paths.staging);
    for (struct dirent *e = dir != NULL ? readdir(dir) : NULL; e != NULL; e = readdir(dir))
        if (str_starts(e->d_name, "img-") || str_starts(e->d_name, "res-"))
            staging_drop(a, e->d_name);
    if (dir != NULL)
        closedir(dir);
}

static int64_t image_pace(const struct image_row *m)
{
    if (m->fetching)
        return INT32_MAX; /* the child says when */
    if (!m->found || m->importing || m->state == REC_ITEM_WORKING)
        return IMPORT_PACE_MS;
    return READY_PACE_MS;
}

void images_look(struct agent *a, utime_t now)
{
    if (fetch_over(a))
        fetch_take(a);
    VEC_FOREACH (m, &a->book.images)
        if (now - (*m)->seen_at >= image_pace(*m)) {
            (*m)->seen_at = now;
            image_look(a, *m);
        }
    if (a->fetch.child == 0 && !a->staging_swept && a->seen > 0)
        staging_sweep(a);
    resolve_next(a, now);
}

utime_t images_due(const struct agent *a, utime_t now)
{
    utime_t due = now + READY_PACE_MS;

    for (size_t i = 0; i < a->book.resolves.len; i++)
        if (a->book.resolves.at[i].failures > 0 && a->book.resolves.at[i].retry_at > now)
            due = MIN(due, a->book.resolves.at[i].retry_at);

    for (size_t i = 0; i < a->book.images.len; i++) {
        const struct image_row *m = a->book.images.at[i];

        due = MIN(due, m->seen_at + image_pace(m));
        if (m->want.present && m->failures > 0 && m->retry_at > now)
            due = MIN(due, m->retry_at);
    }
    return due;
}

void images_close(struct agent *a)
{
    if (a->fetch.child == 0)
        return;
    (void)kill(-a->fetch.child, SIGKILL);
    (void)waitpid(a->fetch.child, NULL, 0);
    fd_close_ptr(&a->fetch.fd);
    a->fetch.child = 0;
}
