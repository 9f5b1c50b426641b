/* agent_int.h: inside of the agent. One thread, one struct; the files by what they do:
 *
 *   agent.c        the loop, the link to the control plane
 *   agent_look.c   asks the helper and the cards what is; fills the rows of the book
 *   agent_act.c    makes the table for domain/reconcile, does what it says: journal, then act
 *   watch.c        running guests: metering, idle rule, notices, logs
 *   images.c       fetching images in a child process
 *   firstboot.c    what the renter got against what he pays for
 *   report.c       the request to the control plane */
#pragma once

#include <sys/types.h>

#include "node/agent.h"
#include "node/book.h"
#include "node/gpu.h"
#include "node/helper.h"
#include "node/link.h"

#define AGENT_STEPS 5
#define AGENT_UNKNOWN_MAX 64
#define AGENT_STRAYS_MAX 32
#define AGENT_SLICES_PER_REQUEST 200
#define AGENT_WAIT_MS 20000

struct unknown_guest {
    struct id lease;
    int32_t pid;
};

/* One image at a time is fetched; others wait for it. */
struct fetch {
    pid_t child; /* 0: none */
    int fd;      /* owned: the child's word (struct refusal); -1 */
    char source[WANT_SOURCE_SIZE];
    char digest[PRIV_DIGEST_SIZE]; /* "": to be found out */
    char name[64];                 /* of the folder below staging */
};

struct agent {
    const struct node_config *cfg; /* borrowed */
    struct helper helper;
    struct link *link; /* owned */
    struct book book;
    struct gpu *gpu; /* owned */
    struct gpu_list cards;
    bool cards_known;
    utime_t cards_at;
    struct priv_rep hello; /* the helper's facts */
    char hostname[65];
    int64_t cores, memory_mib;
    struct rec_table *table;                      /* owned scratch */
    struct rec_actions *actions;                  /* owned scratch */
    struct lease_row *rows[RECONCILE_LEASES_MAX]; /* row of each line of the table; borrowed */
    struct disk_row *disks[RECONCILE_DISKS_MAX];
    struct image_row *images[RECONCILE_IMAGES_MAX];
    struct unknown_guest unknown[AGENT_UNKNOWN_MAX];
    size_t unknown_count;
    char strays[AGENT_STRAYS_MAX][96];
    size_t stray_count;
    utime_t list_at;
    struct fetch fetch;
    bool staging_swept; /* what an earlier life left there is gone */
    utime_t watch_at;   /* last sample of running guests */
    utime_t disks_warn_at;
    /* link */
    int64_t seen;    /* version last acted on */
    bool urgent;     /* a state changed: say so now */
    bool soft;       /* progress, logs, slices: soon */
    utime_t sent_at; /* of the request in flight */
    uint32_t failures;
    int last_status; /* of the last failure */
    utime_t retry_at;
    char sent_slices_boot[BOOT_ID_SIZE];
    int64_t offered_first, offered_last; /* seq of the slices at hand at the last request */
    bool connected;
    int signals; /* owned: signalfd */
    bool leave;
    int exit_code;
};

utime_t agent_now(void);  /* boot ms */
utime_t agent_mono(void); /* ms of CLOCK_MONOTONIC */
/* The journal failed or the helper is gone: nothing may be promised any more. */
void agent_leave(struct agent *a, int exit_code, const char *what);
bool agent_sync(struct agent *a); /* book_sync; leaves on failure */

/* agent_look.c */
enum err agent_hello(struct agent *a, struct refusal *why);
void agent_look(struct agent *a, utime_t now);
utime_t agent_look_due(const struct agent *a, utime_t now); /* when the next look is wanted */
bool agent_cards_ok(const struct agent *a, const struct want_lease *w);
void agent_disks_look_again(struct agent *a, const struct lease_row *l);
void agent_cards_read(struct agent *a, utime_t now);

/* agent_act.c */
bool agent_act(struct agent *a, utime_t now);            /* true: something was done, look again */
void disk_order_failed(struct disk_row *d, utime_t now); /* counts, and sets the next try */
void agent_kill_unknown(struct agent *a, const struct want *w, utime_t now);

/* watch.c */
void watch_guests(struct agent *a, utime_t now);
void watch_begin(struct agent *a, struct lease_row *l); /* became reachable */
void watch_end(struct agent *a, struct lease_row *l, utime_t now);
void watch_notice(struct agent *a, struct lease_row *l, const char *text);

/* images.c */
void images_fetch(struct agent *a, struct image_row *m);
void images_look(struct agent *a, utime_t now);
utime_t images_due(const struct agent *a, utime_t now);
void images_close(struct agent *a);

/* firstboot.c */
void firstboot_report(struct agent *a, struct lease_row *l);

/* report.c: the request as text, owned by the caller. */
char *report_build(struct agent *a, utime_t now, int64_t wait_ms);
