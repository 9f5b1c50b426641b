/* agent.c: the loop. Look at what is, decide (domain/reconcile), journal, act, measure, report.
 * Waiting happens in one place, link_wait(); everything else is short. */
#include "node/agent_int.h"

#include "base/log.h"

#include <errno.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define PASSES_MAX 8 /* of look and act before the loop waits again */
#define SOFT_MS 1000 /* progress does not cut a held request more often */
#define URGENT_MS 20 /* nor a change of state */
#define WAIT_MIN_MS 2
#define HELLO_MS 30000 /* free space moves */

utime_t agent_now(void)
{
    struct clock *c = clock_system();

    return c->boot_ms(c);
}

utime_t agent_mono(void)
{
    struct timespec ts;

    CHECK(clock_gettime(CLOCK_MONOTONIC, &ts) == 0);
    return (utime_t)ts.tv_sec * MS_PER_S + ts.tv_nsec / 1000000;
}

void agent_leave(struct agent *a, int exit_code, const char *what)
{
    if (a->leave)
        return;
    log_error("leaving: %s; guests go on under their guards", what);
    a->leave = true;
    a->exit_code = exit_code;
}

bool agent_sync(struct agent *a)
{
    struct refusal why;

    if (a->leave)
        return false;
    if (book_sync(&a->book, &why) == ERR_OK)
        return true;
    char text[256];
    refusal_text(&why, LANG_EN, text, sizeof(text));
    agent_leave(a, 1, text);
    return false;
}

/* ---- the link ---- */

static void answer_told(struct agent *a)
{
    VEC_FOREACH (l, &a->book.leases) {
        if ((*l)->sent_clean && !(*l)->told) {
            (*l)->told = true;
            book_lease_save(&a->book, *l);
        }
        if ((*l)->log_sent) {
            (*l)->log_from = (*l)->log_at + (*l)->log_len;
            free(TAKE((*l)->log_data));
            (*l)->log_len = 0;
            (*l)->log_sent = false;
        }
    }
}

static void answer_take(struct agent *a, const struct link_answer *x)
{
    struct want *w = NULL;
    struct refusal why;
    char text[256];
    utime_t now = agent_now();

    if (want_parse(x->body, x->len, x->sent_boot_ms, &w, &why) != ERR_OK) {
        refusal_text(&why, LANG_EN, text, sizeof(text));
        log_error("control plane: %s", text);
        a->failures++;
        a->retry_at = now + link_backoff_ms(a->failures, randombytes_random());
        return;
    }
    if (w->bad > 0)
        log_error("control plane: %zu entries not understood, first: %s", w->bad, w->bad_why);
    if (!a->connected)
        log_info("control plane reached");
    a->connected = true;
    a->failures = 0;
    answer_told(a);
    book_slices_ack(&a->book, a->sent_slices_boot, w->ack_seq);
    book_take(&a->book, w);
    agent_kill_unknown(a, w, now);
    if (agent_sync(a))
        a->seen = w->version;
    if (a->book.slices.len > 0)
        a->soft = true; /* more than one request carries, or new ones */
    want_free(w);
}

static void answer_fail(struct agent *a, const struct link_answer *x)
{
    /* What it says matters as well: a refusal is not an absence. */
    if (a->connected || a->failures == 0 || x->status != a->last_status)
        log_warn(
            "control plane not reached: status=%d %s %.300s; promises are kept from the journal",
            x->status, x->error, x->status != 0 ? x->body : "");
    a->last_status = x->status;
    a->connected = false;
    a->failures++;
    a->retry_at = agent_now() + link_backoff_ms(a->failures, randombytes_random());
}

static void link_step(struct agent *a)
{
    struct link_answer x;

    if (!link_take(a->link, &x))
        return;
    if (x.status == 200)
        answer_take(a, &x);
    else
        answer_fail(a, &x);
    free(x.body);
}

/* Evidence or output that was not offered yet. A request that carries it is not to be held: the
 * next piece would cut it before its answer, and nothing would ever be acknowledged. */
static bool request_news(struct agent *a)
{
    size_t n = a->book.slices.len;
    int64_t first = n > 0 ? a->book.slices.at[0].seq : 0;
    int64_t last = n > 0 ? a->book.slices.at[n - 1].seq : 0;
    bool news = n > 0 && (first != a->offered_first || last != a->offered_last);

    a->offered_first = first;
    a->offered_last = last;
    for (size_t i = 0; i < a->book.leases.len; i++)
        news = news || a->book.leases.at[i]->log_data != NULL;
    return news;
}

static void request_send(struct agent *a, utime_t now)
{
    struct refusal why;

    if (agent_hello(a, &why) != ERR_OK)
        return;
    /* With work at hand the first answer matters more than a held line. */
    int64_t wait = a->connected && !request_news(a) ? AGENT_WAIT_MS : 0;
    VEC_FOREACH (l, &a->book.leases) {
        (*l)->sent_clean = (*l)->phase == REC_ENDED && (*l)->cleaned;
        (*l)->log_sent = (*l)->log_data != NULL;
    }
    a->urgent = a->soft = false;
    a->sent_at = now;
    link_send(a->link, report_build(a, now, wait), wait);
}

/* When the next request wants to go. */
static utime_t request_due(const struct agent *a)
{
    if (a->failures > 0)
        return link_busy(a->link) ? UTIME_NEVER : a->retry_at;
    if (!link_busy(a->link))
        return a->sent_at == 0 ? 0 : a->sent_at + URGENT_MS;
    if (a->urgent)
        return a->sent_at + URGENT_MS;
    return a->soft ? a->sent_at + SOFT_MS : UTIME_NEVER;
}

/* ---- the loop ---- */

static void signals_take(struct agent *a)
{
    struct signalfd_siginfo s;

    while (read(a->signals, &s, sizeof(s)) == (ssize_t)sizeof(s))
        if (s.ssi_signo != SIGCHLD)
            a->leave = true;
}

static bool guests_metered(const struct agent *a)
{
    for (size_t i = 0; i < a->book.leases.len; i++)
        if (a->book.leases.at[i]->meter.open)
            return true;
    return false;
}

static int64_t wait_ms(const struct agent *a, utime_t now)
{
    utime_t due = MIN(agent_look_due(a, now), request_due(a));

    if (guests_metered(a))
        due = MIN(due, a->watch_at + MS_PER_S);
    return MIN(MAX(due - now, (utime_t)WAIT_MIN_MS), (utime_t)60000);
}

static void helper_hup(struct agent *a, const struct pollfd *p)
{
    struct pollfd x = {.fd = p->fd, .events = 0};

    if (poll(&x, 1, 0) > 0 && (x.revents & (POLLHUP | POLLERR)) != 0)
        agent_leave(a, 1, "the root helper is gone");
}

static void wait_events(struct agent *a)
{
    struct pollfd fds[3] = {{.fd = a->signals}, {.fd = a->helper.fd}};
    size_t count = 2;

    if (a->fetch.child != 0)
        fds[count++].fd = a->fetch.fd;
    link_wait(a->link, fds, count, wait_ms(a, agent_now()));
    signals_take(a);
    helper_hup(a, &fds[1]);
}

static void tick(struct agent *a)
{
    bool again = true;

    link_step(a); /* first: what it brings is acted on in this very tick */
    for (int i = 0; i < PASSES_MAX && again && !a->leave; i++) {
        agent_look(a, agent_now());
        again = !a->leave && agent_act(a, agent_now());
    }
    if (a->leave)
        return;
    watch_guests(a, agent_now());
    if (!agent_sync(a))
        return;
    utime_t now = agent_now();
    if (!a->leave && now >= request_due(a))
        request_send(a, now);
}

/* ---- birth and end ---- */

static void machine_read(struct agent *a)
{
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    long cores = sysconf(_SC_NPROCESSORS_ONLN);

    if (gethostname(a->hostname, sizeof(a->hostname) - 1) != 0)
        (void)str_copy(a->hostname, sizeof(a->hostname), "node");
    a->cores = cores > 0 ? cores : 1;
    a->memory_mib = pages > 0 && page > 0 ? (int64_t)pages * page >> 20 : 0;
}

static enum err signals_open(struct agent *a, struct refusal *why)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGCHLD);
    if (sigprocmask(SIG_BLOCK, &set, NULL) != 0)
        return refusef(why, ERR_SYSTEM, "call", "sigprocmask");
    a->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return a->signals >= 0 ? ERR_OK : refusef(why, ERR_SYSTEM, "call", "signalfd");
}

static enum err agent_open(struct agent *a, struct refusal *why)
{
    char dir[400], boot[BOOT_ID_SIZE], name[300];
    bool fresh = false;

    if (!clock_boot_id(boot) || sodium_init() < 0)
        return refusef(why, ERR_SYSTEM, "call", "boot id");
    TRY(signals_open(a, why));
    machine_read(a);
    TRY(gpu_open(a->cfg->gpu, a->cfg->state, a->cfg->gpu_knobs, &a->gpu, why));
    TRY(link_open(a->cfg->control, a->cfg->ca_file, a->cfg->token_file, &a->link, why));
    if (!str_printf(dir, sizeof(dir), "%s/agent", a->cfg->state) ||
        !str_printf(name, sizeof(name), "%s", a->cfg->state))
        return refusef(why, ERR_USAGE, "what", "state path");
    TRY(agent_hello(a, why)); /* once it answers, the helper has made our folder */
    if (mkdir(dir, 0700) != 0 && errno != EEXIST)
        return refusef(why, ERR_SYSTEM, "call", "mkdir %s", dir);
    TRY(book_open(&a->book, dir, boot, &fresh, why));
    agent_look(a, agent_now());
    if (fresh && a->unknown_count > 0) {
        /* The journal is gone while guests live: numbers that were told must not come again. */
        log_error("no journal, but %zu guests live here: they are told as unknown",
                  a->unknown_count);
        a->book.seq_next = agent_now();
    }
    log_info("agent ready: %zu leases, %zu slices not yet told, runtime=%s", a->book.leases.len,
             a->book.slices.len, a->hello.hello.runtime);
    return ERR_OK;
}

static void agent_close(struct agent *a)
{
    images_close(a);
    link_close(a->link);
    gpu_close(a->gpu);
    if (a->book.journal != NULL)
        book_close(&a->book);
    if (a->signals > 0)
        close(a->signals);
    free(a->table);
    free(a->actions);
    free(a);
}

int agent_main(const struct node_config *cfg, int priv_fd)
{
    struct agent *a = mem_alloc(sizeof(*a));
    struct refusal why = {.code = ERR_OK};

    a->cfg = cfg;
    a->helper.fd = priv_fd;
    a->fetch.fd = -1;
    a->table = mem_alloc(sizeof(*a->table));
    a->actions = mem_alloc(sizeof(*a->actions));
    if (agent_open(a, &why) != ERR_OK) {
        char text[256];

        refusal_text(&why, LANG_EN, text, sizeof(text));
        log_error("agent: %s", text);
        agent_close(a);
        return 1;
    }
    while (!a->leave) {
        tick(a);
        if (!a->leave)
            wait_events(a);
    }
    int code = a->exit_code;
    agent_close(a);
    return code;
}
