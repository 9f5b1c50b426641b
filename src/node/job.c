#include "node/job.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "node/sys.h"

#define JOB_MAGIC "SLJOB001"

struct job_record {
    char magic[8];
    uint32_t error, size;
    struct refusal why;
};

static const char *const kind_names[JOB_KIND_COUNT] = {"import", "remove", "disk",  "erase",
                                                       "clean",  "ports",  "strays"};

static void job_path(const struct node_paths *p, enum job_kind kind, const char *key, char *path,
                     size_t size)
{
    CHECK(str_printf(path, size, "%s/jobs/%s-%s", p->priv, kind_names[kind], key));
}

void jobs_init(struct jobs *j, const struct node_paths *p)
{
    memset(j, 0, sizeof(*j));
    j->paths = p;
}

static const struct job *job_find(const struct jobs *j, enum job_kind kind, const char *key)
{
    for (size_t i = 0; i < JOBS_MAX; i++) {
        if (j->at[i].pid && j->at[i].kind == kind && str_eq(j->at[i].key, key))
            return &j->at[i];
    }
    return NULL;
}

bool jobs_running(const struct jobs *j, enum job_kind kind, const char *key)
{
    return job_find(j, kind, key) != NULL;
}

static _Noreturn void job_main(const struct jobs *j, enum job_kind kind, const char *key, job_fn fn,
                               void *arg)
{
    struct job_record r = {.magic = JOB_MAGIC, .size = sizeof(r)};
    struct refusal why = {0};
    char path[400];

    r.error = (uint32_t)fn(arg, &r.why);
    job_path(j->paths, kind, key, path, sizeof(path));
    if (r.error == ERR_OK)
        unlink(path);
    else if (sys_write_durable(path, &r, sizeof(r), 0600, &why) != ERR_OK)
        _exit(2);
    _exit(r.error == ERR_OK ? 0 : 1);
}

enum err jobs_start(struct jobs *j, enum job_kind kind, const char *key, job_fn fn, void *arg,
                    void (*in_child)(void), struct refusal *why)
{
    struct job *free_job = NULL;
    pid_t parent = getpid();

    if (jobs_running(j, kind, key))
        return ERR_OK;
    for (size_t i = 0; i < JOBS_MAX && !free_job; i++)
        free_job = j->at[i].pid ? NULL : &j->at[i];
    if (!free_job)
        return refuse(why, ERR_BUSY);
    if (!str_copy(free_job->key, sizeof(free_job->key), key))
        return refusef(why, ERR_INTERNAL, "why", "key too long");
    pid_t pid = fork();
    if (pid < 0)
        return sys_fail(why, "fork");
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(1);
        in_child();
        job_main(j, kind, key, fn, arg);
    }
    free_job->pid = pid;
    free_job->kind = kind;
    return ERR_OK;
}

bool jobs_ended(struct jobs *j, int pid)
{
    for (size_t i = 0; i < JOBS_MAX; i++) {
        if (j->at[i].pid == pid) {
            j->at[i].pid = 0;
            return true;
        }
    }
    return false;
}

enum err jobs_last(const struct jobs *j, enum job_kind kind, const char *key,
                   struct refusal *ret_why)
{
    struct job_record r;
    char path[400];

    job_path(j->paths, kind, key, path, sizeof(path));
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 || read(fd, &r, sizeof(r)) != (ssize_t)sizeof(r) || r.size != sizeof(r) ||
        memcmp(r.magic, JOB_MAGIC, sizeof(r.magic)) != 0 || r.error == ERR_OK ||
        r.error >= ERR_COUNT)
        return ERR_OK;
    *ret_why = r.why;
    return (enum err)r.error;
}

void jobs_forget(const struct jobs *j, enum job_kind kind, const char *key)
{
    char path[400];

    job_path(j->paths, kind, key, path, sizeof(path));
    unlink(path);
}
