/* guardio.h: the guard's three mouths: the guest's output, the ready probe, the starter's result.
 * No blocking call in any of them. */
#pragma once

#include "node/start.h"

/* ---- output: a FIFO that the guest writes to, kept in a ring file ---- */
struct output {
    int fifo;            /* owned; opened for both directions, so neither side ever sees an end */
    int ring;            /* owned */
    uint64_t total;      /* bytes ever read */
    utime_t pause_until; /* a guest that floods is read at a bounded pace */
};
bool output_open(struct output *o, const struct node_paths *p, struct id lease, uint64_t total);
/* The guest's end (owned by the caller): blocking; both directions, so that it never sees SIGPIPE.
 */
int output_writer_open(const struct node_paths *p, struct id lease);
int output_poll_fd(const struct output *o); /* -1 while pausing */
utime_t output_next(const struct output *o);
void output_pump(struct output *o, utime_t now);
void output_drain(struct output *o); /* what is there now, after the guest's end */

/* ---- probe: does something at the guest's port 22 speak SSH ---- */
struct probe {
    int fd; /* owned; -1: nothing to ask */
    uint32_t address;
    utime_t begun, next;
    bool connecting, connected;
    size_t got;
    char banner[4];
};
void probe_init(struct probe *pr);
void probe_begin(struct probe *pr, int fd, uint32_t address, utime_t now); /* takes fd, may be -1 */
int probe_poll_fd(const struct probe *pr);
short probe_poll_events(const struct probe *pr);
utime_t probe_next(const struct probe *pr);
/* One step; true exactly once, when the banner came. */
bool probe_step(struct probe *pr, utime_t now);

/* ---- the starter's result, with a descriptor (or -1) ---- */
void guardio_result_send(int sock, const struct start_result *r, int fd);
bool guardio_result_receive(int sock, struct start_result *ret_r, int *ret_fd);
