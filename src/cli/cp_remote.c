#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sodium.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/cp.h"

static int spawn(char **words, int in, int out)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    if (dup2(in, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0)
        _exit(255);
    signal(SIGINT, SIG_DFL);
    signal(SIGPIPE, SIG_DFL);
    execvp(words[0], words);
    _exit(255);
}

int remote_finish(int pid)
{
    int status;

    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return 255;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

/* ssh of the shared connection, with these words before the target. */
static void control_words(const struct remote *r, struct ssh_words *w, const char *extra)
{
    for (int i = 0; i + 1 < r->base.count; i++)
        ssh_word(w, "%s", r->base.word[i]);
    ssh_word(w, "-S%s/s", r->folder);
    if (extra)
        ssh_word(w, "%s", extra);
    ssh_word(w, "%s", r->base.word[r->base.count - 1]);
}

int remote_open(struct remote *r, struct cli *c, const json_t *instance)
{
    CLEANUP(ssh_words_fini) struct ssh_words w = {0};
    const char *run = getenv("XDG_RUNTIME_DIR");
    AUTO_CLOSE int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    int e;

    *r = (struct remote){.c = c};
    e = ssh_words_make(c, instance, &r->base);
    if (e)
        return e;
    /* short, for a socket's path has 108 bytes and ssh adds a few of its own */
    if (!run || *run != '/' || !str_printf(r->folder, sizeof(r->folder), "%s/suanli-XXXXXX", run))
        str_copy(r->folder, sizeof(r->folder), "/tmp/suanli-XXXXXX");
    if (!mkdtemp(r->folder))
        return 1;
    r->open = true;
    for (int i = 0; i + 1 < r->base.count; i++)
        ssh_word(&w, "%s", r->base.word[i]);
    ssh_word(&w, "-S%s/s", r->folder);
    ssh_word(&w, "-fNM");
    ssh_word(&w, "-oControlPersist=60");
    ssh_word(&w, "%s", r->base.word[r->base.count - 1]);
    return remote_finish(spawn(w.word, null, null));
}

void remote_close(struct remote *r)
{
    CLEANUP(ssh_words_fini) struct ssh_words w = {0};
    AUTO_CLOSE int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    char path[80];

    if (r->open) {
        control_words(r, &w, "-Oexit");
        signal(SIGINT, SIG_IGN);
        AUTO_CLOSE int quiet = dup(STDERR_FILENO);
        dup2(null, STDERR_FILENO);
        remote_finish(spawn(w.word, null, null));
        dup2(quiet, STDERR_FILENO);
        str_printf(path, sizeof(path), "%s/s", r->folder);
        unlink(path);
        rmdir(r->folder);
    }
    ssh_words_fini(&r->base);
    r->open = false;
}

int remote_start(struct remote *r, const char *script, int *ret_in, int *ret_out)
{
    CLEANUP(ssh_words_fini) struct ssh_words w = {0};
    AUTO_STRBUF struct strbuf quoted = {0};
    AUTO_CLOSE int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    int in[2] = {-1, -1}, out[2] = {-1, -1};

    strbuf_init(&quoted, 1 << 20);
    strbuf_add(&quoted, "sh -c ");
    shell_quote(&quoted, script);
    control_words(r, &w, NULL);
    ssh_word(&w, "%s", strbuf_str(&quoted));
    if ((ret_in && pipe2(in, O_CLOEXEC) != 0) || (ret_out && pipe2(out, O_CLOEXEC) != 0))
        return -1;
    int pid = spawn(w.word, ret_in ? in[0] : null, ret_out ? out[1] : null);
    fd_close_ptr(&in[0]);
    fd_close_ptr(&out[1]);
    if (ret_in)
        *ret_in = in[1];
    if (ret_out)
        *ret_out = out[0];
    return pid;
}

int remote_output(struct remote *r, const char *script, struct strbuf *out)
{
    int fd = -1, pid = remote_start(r, script, NULL, &fd);
    char part[65536];
    ssize_t n;

    if (pid < 0)
        return 255;
    while ((n = read(fd, part, sizeof(part))) > 0 || (n < 0 && errno == EINTR && !interrupted()))
        if (n > 0)
            strbuf_add_n(out, part, (size_t)n);
    fd_close_ptr(&fd);
    return remote_finish(pid);
}

bool digest_file(int fd, int64_t n, char ret_hex[CP_DIGEST_SIZE])
{
    crypto_hash_sha256_state state;
    unsigned char hash[crypto_hash_sha256_BYTES];
    char part[65536];
    int64_t done = 0;

    CHECK(sodium_init() >= 0);
    crypto_hash_sha256_init(&state);
    while (n < 0 || done < n) {
        size_t want = n < 0 ? sizeof(part) : (size_t)MIN((int64_t)sizeof(part), n - done);
        ssize_t got = pread(fd, part, want, done);
        if (got < 0 || interrupted())
            return false;
        if (got == 0)
            break;
        crypto_hash_sha256_update(&state, (unsigned char *)part, (size_t)got);
        done += got;
    }
    crypto_hash_sha256_final(&state, hash);
    sodium_bin2hex(ret_hex, CP_DIGEST_SIZE, hash, sizeof(hash));
    return n < 0 || done == n;
}

void copy_progress(struct cli *c, const char *name, struct copy_total *t, int64_t more)
{
    static utime_t shown;
    struct clock *k = clock_system();
    utime_t now = k->boot_ms(k);
    char done[32], all[32], rate[32], left[32];

    t->bytes += more;
    t->done_all += more;
    if (!c->bar || c->quiet || now - shown < 200 || now - t->started < 300)
        return;
    shown = now;
    int64_t per_s = t->bytes * MS_PER_S / MAX(now - t->started, (utime_t)1);
    text_bytes(t->done_all, done, sizeof(done));
    text_bytes(t->size_all, all, sizeof(all));
    text_bytes(per_s, rate, sizeof(rate));
    text_duration(per_s > 0 ? (t->size_all - t->done_all) / per_s : 0, left, sizeof(left));
    progress_line(c, tr("%s  %s / %s  %s/s  %s left"), name, done, all, rate, left);
}
