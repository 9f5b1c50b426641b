/* priv_guest.c: the helper's answers about guests. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "node/helperint.h"
#include "node/paths.h"
#include "node/sshd.h"
#include "node/sys.h"

/* ---- start ---- */

struct claim {
    struct helper_state *h;
    const struct priv_req *req;
    enum err e;
    struct refusal *why;
};

static bool disk_shared(const struct priv_guest *a, const struct priv_guest *b)
{
    struct id da[PRIV_DISKS_MAX + 1] = {a->system_disk}, db[PRIV_DISKS_MAX + 1] = {b->system_disk};
    uint32_t na = a->data_count + 1, nb = b->data_count + 1;

    for (uint32_t i = 1; i < na; i++)
        da[i] = a->data[i - 1].disk;
    for (uint32_t i = 1; i < nb; i++)
        db[i] = b->data[i - 1].disk;
    for (uint32_t i = 0; i < na; i++) {
        for (uint32_t k = 0; k < nb; k++) {
            if (str_eq(da[i].s, db[k].s))
                return true;
        }
    }
    return false;
}

static bool card_shared(const struct priv_guest *a, const struct priv_guest *b)
{
    for (uint32_t i = 0; i < a->gpu_count; i++) {
        for (uint32_t k = 0; k < b->gpu_count; k++) {
            if (str_eq(a->gpus[i], b->gpus[k]))
                return true;
        }
    }
    return false;
}

/* A card, a disk, an address and a published port belong to one lease until it is cleaned. */
static bool claim_check(void *arg, struct id lease)
{
    struct claim *c = arg;
    const struct priv_guest *g = &c->req->guest;
    struct guest_record *rec AUTO_FREE = mem_alloc(sizeof(*rec));
    const char *what = NULL;

    if (str_eq(lease.s, c->req->lease.s) ||
        guest_load(&c->h->env.cfg.paths, lease, rec, NULL) != ERR_OK)
        return true;
    if (disk_shared(g, &rec->spec))
        what = "disk";
    else if (card_shared(g, &rec->spec))
        what = "card";
    else if (g->address == rec->spec.address)
        what = "address";
    if (!what)
        return true;
    c->e = sys_refuse(c->why, ERR_IN_USE, "what", what, "name", "", "by", lease.s, NULL);
    return false;
}

static enum err folders_claim(const struct node_paths *p, struct id lease, int *ret_lock,
                              struct refusal *why)
{
    char path[GUEST_PATH_SIZE];

    CHECK(guest_path(p, lease, "", path));
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return sys_fail(why, "mkdir for the lease");
    CHECK(guest_run_path(p, lease, "", path));
    TRY(sys_dir_ensure(path, 0711, 0, 0, why));
    return guest_lock(p, lease, ret_lock) == ERR_OK ? ERR_OK : refuse(why, ERR_BUSY);
}

enum err priv_start(struct helper_state *h, const struct priv_req *req, struct priv_rep *rep)
{
    const struct node_paths *p = &h->env.cfg.paths;
    struct guest_record *rec AUTO_FREE = mem_alloc(sizeof(*rec));
    struct claim claim = {.h = h, .req = req, .e = ERR_OK, .why = &rep->why};
    int lock = -1;

    /* A record is a start that happened, however it went: asked again, it is told by STAT. */
    if (guest_load(p, req->lease, rec, NULL) == ERR_OK)
        return ERR_OK;
    if (!h->starts_possible) {
        rep->why = h->start_why;
        return h->start_why.code;
    }
    if (jobs_running(&h->jobs, JOB_CLEAN, req->lease.s))
        return refuse(&rep->why, ERR_BUSY);
    helper_leases_each(p, claim_check, &claim);
    TRY(claim.e);
    TRY(folders_claim(p, req->lease, &lock, &rep->why));
    memset(rec, 0, sizeof(*rec));
    rec->lease = req->lease;
    rec->spec = req->guest;
    guard_record_init(rec);
    enum err saved = guest_save(p, rec, false, &rep->why);
    if (saved != ERR_OK) {
        close(lock);
        return saved;
    }
    pid_t pid = fork();
    if (pid == 0) {
        helper_child();
        guard_main_start(&h->env, rec, lock);
    }
    close(lock);
    return pid < 0 ? sys_fail(&rep->why, "fork") : ERR_OK;
}

/* ---- state ---- */

static enum err guest_stat(struct helper_state *h, struct id lease, struct priv_rep *rep)
{
    const struct node_paths *p = &h->env.cfg.paths;
    struct guest_record *rec AUTO_FREE = mem_alloc(sizeof(*rec));
    struct guest_progress progress;
    struct refusal why = {0};
    int lock = -1;
    enum err e = guest_load(p, lease, rec, &why);

    if (e == ERR_NOT_FOUND)
        return ERR_OK; /* GUEST_NONE */
    enum err locked = guest_lock(p, lease, &lock);
    fd_close_ptr(&lock);
    rep->guest.guard_alive = locked == ERR_BUSY;
    if (e != ERR_OK) {
        /* Without a record nothing was made: the helper died between the two, or a clean is about
         * to end. A record that cannot be read is another matter. */
        char path[GUEST_PATH_SIZE];
        CHECK(guest_path(p, lease, "record", path));
        if (access(path, F_OK) < 0)
            return ERR_OK;
        rep->guest.state = GUEST_ENDED;
        rep->guest.fail = (uint32_t)e;
        rep->guest.exit_code = -1;
        return ERR_OK;
    }
    guest_progress_load(p, lease, &progress);
    bool live = rec->state != GUEST_ENDED;
    rep->guest.state = rec->state;
    rep->guest.step = live ? progress.step : rec->step;
    rep->guest.epoch = MAX(rec->deadline.epoch, rec->spec.epoch);
    rep->guest.pid = rec->pid;
    rep->guest.oom = rec->oom;
    rep->guest.killed_at_deadline = rec->killed_at_deadline;
    rep->guest.exit_code = rec->exit_code;
    rep->guest.started_boot_ms = rec->state == GUEST_PREPARING ? 0 : rec->started_boot_ms;
    rep->guest.ready_boot_ms = MAX(progress.ready_boot_ms, rec->ready_boot_ms);
    rep->guest.ended_boot_ms = rec->ended_boot_ms;
    rep->guest.deadline = rec->deadline;
    rep->guest.fail = rec->fail;
    rep->why = rec->why;
    CHECK(str_copy(rep->guest.host_key, sizeof(rep->guest.host_key), rec->host_key));
    memcpy(rep->guest.step_us, live ? progress.step_us : rec->step_us, sizeof(rec->step_us));
    /* A clean that failed shows here until it is repeated. */
    if (!live && rec->fail == ERR_OK && !jobs_running(&h->jobs, JOB_CLEAN, lease.s))
        rep->guest.fail = (uint32_t)jobs_last(&h->jobs, JOB_CLEAN, lease.s, &rep->why);
    return ERR_OK;
}

static enum err guard_tell(struct helper_state *h, const struct priv_req *req, enum guard_op op,
                           const struct guest_record *rec, struct priv_rep *rep)
{
    struct guard_msg m = {.magic = GUARD_MAGIC, .op = op, .deadline = req->deadline};

    if (rec->state == GUEST_ENDED)
        return ERR_OK;
    enum err e = guard_call(&h->env.cfg.paths, req->lease, &m, &rep->why);
    if (e == ERR_UNAVAILABLE)
        helper_adopt(h);
    return e;
}

/* ---- clean and ports, in a child ---- */

struct clean_arg {
    struct helper_state *h;
    struct guest_record rec;
};

static enum err clean_run(void *arg, struct refusal *why)
{
    struct clean_arg *c = arg;

    return start_undo(&c->h->env.cfg, &c->rec, why);
}

static enum err guest_clean(struct helper_state *h, struct id lease, struct priv_rep *rep)
{
    const struct node_paths *p = &h->env.cfg.paths;
    struct clean_arg *c AUTO_FREE = mem_alloc(sizeof(*c));
    int lock = -1;

    enum err e = guest_load(p, lease, &c->rec, NULL);
    if (e == ERR_NOT_FOUND)
        return ERR_OK;
    if (e != ERR_OK)
        memset(&c->rec, 0, sizeof(c->rec));
    else if (c->rec.state != GUEST_ENDED)
        return sys_refuse(&rep->why, ERR_STATE, "name", lease.s, "state", "running", NULL);
    /* The guard leaves just after it wrote the end. */
    if (guest_lock(p, lease, &lock) == ERR_BUSY)
        return refuse(&rep->why, ERR_BUSY);
    fd_close_ptr(&lock);
    c->h = h;
    c->rec.lease = lease;
    return jobs_start(&h->jobs, JOB_CLEAN, lease.s, clean_run, c, helper_child, &rep->why);
}

struct ports_arg {
    struct helper_state *h;
    struct guest_record *rec;
    const struct priv_guest *guest;
};

static enum err ports_run(void *arg, struct refusal *why)
{
    struct ports_arg *a = arg;

    return network_ports_set(&a->h->env.cfg.net, a->rec->lease, a->rec->spec.address,
                             a->guest->ports, a->guest->port_count, why);
}

static enum err ports_set(struct helper_state *h, const struct priv_req *req,
                          struct guest_record *rec, struct priv_rep *rep)
{
    struct ports_arg a = {.h = h, .rec = rec, .guest = &req->guest};

    /* The later list must win, so it waits for the earlier. */
    if (jobs_running(&h->jobs, JOB_PORTS, req->lease.s))
        return refuse(&rep->why, ERR_BUSY);
    return jobs_start(&h->jobs, JOB_PORTS, req->lease.s, ports_run, &a, helper_child, &rep->why);
}

static enum err text_set(struct helper_state *h, const struct priv_req *req,
                         const struct guest_record *rec, struct priv_rep *rep)
{
    const struct node_paths *p = &h->env.cfg.paths;
    char folder[GUEST_PATH_SIZE];

    /* Keys may come before the start has got that far. */
    CHECK(guest_path(p, req->lease, "ssh", folder));
    TRY(sys_dir_ensure(folder, 0755, 0, 0, &rep->why));
    if (req->op == PRIV_KEYS_SET)
        return sshd_keys_set(p, req->lease, rec->range_base, req->text, &rep->why);
    if (req->op == PRIV_NOTICE)
        return sshd_notice_add(p, req->lease, rec->range_base, req->text, &rep->why);
    return sshd_report_set(p, req->lease, rec->range_base, req->text, &rep->why);
}

static enum err guest_meter(struct helper_state *h, struct id lease, struct priv_rep *rep)
{
    cgroup_meter(lease, rep);
    if (network_counters(&h->env.cfg.paths, lease, &rep->meter.rx_bytes, &rep->meter.tx_bytes) !=
        ERR_OK)
        rep->meter.rx_bytes = rep->meter.tx_bytes = 0;
    return ERR_OK;
}

enum err priv_guest(struct helper_state *h, const struct priv_req *req, struct priv_rep *rep)
{
    const struct node_paths *p = &h->env.cfg.paths;
    struct guest_record *rec AUTO_FREE = mem_alloc(sizeof(*rec));

    if (req->op == PRIV_GUEST_STAT)
        return guest_stat(h, req->lease, rep);
    if (req->op == PRIV_GUEST_CLEAN)
        return guest_clean(h, req->lease, rep);
    enum err e = guest_load(p, req->lease, rec, &rep->why);
    if (e == ERR_CORRUPT)
        return refuse(&rep->why, ERR_BUSY); /* its guard is about to write it */
    if (e != ERR_OK)
        return sys_refuse(&rep->why, ERR_NOT_FOUND, "what", "lease", "name", req->lease.s, NULL);
    switch ((enum priv_op)req->op) {
    case PRIV_GUEST_DEADLINE:
        return guard_tell(h, req, GUARD_DEADLINE, rec, rep);
    case PRIV_GUEST_STOP:
        return guard_tell(h, req, GUARD_STOP, rec, rep);
    case PRIV_GUEST_LOG:
        rep->text_len = (uint32_t)guard_output_read(p, req->lease, req->log.from, rep->text,
                                                    sizeof(rep->text), &rep->log.next);
        return ERR_OK;
    case PRIV_PORTS_SET:
        return ports_set(h, req, rec, rep);
    case PRIV_METER:
        return guest_meter(h, req->lease, rep);
    case PRIV_KEYS_SET:
    case PRIV_NOTICE:
    case PRIV_REPORT:
        return text_set(h, req, rec, rep);
    case PRIV_HELLO:
    case PRIV_LIST:
    case PRIV_IMAGE_IMPORT:
    case PRIV_IMAGE_STAT:
    case PRIV_IMAGE_REMOVE:
    case PRIV_DISK_ENSURE:
    case PRIV_DISK_STAT:
    case PRIV_DISK_ERASE:
    case PRIV_DISK_FORGET:
    case PRIV_GUEST_START:
    case PRIV_GUEST_STAT:
    case PRIV_GUEST_CLEAN:
    case PRIV_INSTANCE_FORGET:
        break;
    }
    return refuse(&rep->why, ERR_PROTOCOL);
}
