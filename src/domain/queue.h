/* queue.h: who of those that wait starts now, and when the others will. Pure: no clock, no I/O.
 *
 * The pool is seen as cards per node, nothing more; which card, which cores and whether the network
 * suits is the placement's business. A demand asks for `cards` on each of `nodes` nodes, all at
 * once. Its run time is an estimate: what ends late only delays, what ends early lets others in.
 *
 * Order (QUEUE_DUE): everybody has a due date: arrival plus a patience that grows with the estimate
 * of the run time and ends at patience_max_s. Demands for whole nodes (gangs) go a
 * lead before others of their age, since whole nodes are rare. The earlier due date goes first, so
 * short work passes long work, and nobody is passed for ever: what arrives patience_max_s plus the
 * lead later comes later.
 * Each priority step divides the patience by four. A project may borrow what others leave: the
 * demands of one that has its share already wait behind those of projects below theirs, unless they
 * are older by the longest patience and lead.
 *
 * Who is due but does not fit gets a reservation: the nodes where it fits first, by the estimates,
 * and the moment. Those behind may use these nodes until then, and all other nodes at any time
 * (backfill). With QUEUE_ARRIVAL and one reservation this is the textbook FIFO + EASY.
 *
 * Borrowing ends: with min_run_s set, when the first in line asks for one node, would stay within
 * its project's share and does not fit, leases of projects above their share that ran at least so
 * long are asked back: those of one node, the least work first, and never so many that their own
 * project falls below its share.
 *
 * A demand may suit some nodes only (its model of card, its disks, its driver): its `suit` is a set
 * of nodes told before (queue_suit_add). It starts there, holds there, and waits for nothing else.
 *
 * All functions: single thread, no ownership of arguments taken, deterministic; the order in which
 * nodes, demands or projects were added changes nothing (ties go by the nodes' keys and the
 * demands' ids). */
#pragma once

#include "base/mem.h"
#include "base/vec.h"

#define QUEUE_NODE_CARDS_MAX 64
#define QUEUE_PROJECTS_MAX 4096
#define QUEUE_RESERVATIONS_MAX 64
#define QUEUE_PRIORITY_MAX 8

enum queue_order { QUEUE_ARRIVAL, QUEUE_DUE };

struct queue_rules {
    enum queue_order order;
    bool backfill;              /* false: who is due and does not fit holds up all behind */
    int reservations;           /* how many that do not fit get one: 0 … QUEUE_RESERVATIONS_MAX */
    double patience_per_run;    /* seconds of patience for a second of estimated run */
    double patience_of_backlog; /* at most this part of the time that all who wait would take */
    int64_t patience_min_s, patience_max_s; /* … but never outside of these */
    int64_t whole_lead_s; /* by so much demands for whole nodes go before others of their age */
    int64_t min_run_s;    /* a borrowed lease is asked back only after it ran so long; 0: never */
};
extern const struct queue_rules queue_rules_ours, queue_rules_easy, queue_rules_fifo;

struct queue_demand {
    uint64_t id; /* of the caller; unique among the waiting */
    int32_t project, priority;
    int32_t suit;         /* of queue_suit_add; 0: every node will do */
    int32_t nodes, cards; /* cards on each node */
    int64_t since_s;      /* when it began to wait */
    int64_t run_s;        /* estimate, > 0 */
};

struct queue_run {
    struct queue_demand demand;
    int64_t started_s;
    int64_t ends_s; /* by the estimate */
    int32_t *node;  /* owned; demand.nodes indexes */
    bool there;
};

struct queue_reservation {
    uint64_t id;
    int64_t start_s;
    int32_t project, suit, nodes, cards;
    int32_t first_node; /* one of them */
};

struct queue_plan {
    VEC(int32_t) start; /* slots of struct queue.run */
    VEC(struct queue_reservation) reservation;
    VEC(int32_t)
    give_back; /* slots to be ended, and to wait anew, so that the first in line gets
                * its share; told again until it is done */
};
void queue_plan_fini(struct queue_plan *p);

struct queue_node {
    uint64_t key; /* breaks ties */
    int32_t cards, busy;
    int64_t end_s[QUEUE_NODE_CARDS_MAX]; /* of the busy cards, by the estimates, ascending */
    int64_t held_s;                      /* reserved from then on; INT64_MAX: not reserved */
    int32_t spare;                       /* cards that the reservation leaves */
    int32_t prev, next;                  /* in the list of nodes with as many free cards */
};

struct queue_project {
    int64_t share;          /* weight; the sum over all projects is the pool */
    int32_t limit;          /* cards at most; 0: no limit */
    int64_t used, promised; /* cards; promised: while deciding */
};

struct queue_pick { /* a node, and what speaks for it: the smaller the better */
    int64_t at;
    uint64_t key;
    int32_t node;
};

struct queue_suit {
    bool *fits;     /* owned; by node */
    int32_t widest; /* cards of its largest node; 0: it has none */
};

struct queue_class;
struct queue {
    struct queue_rules rules;
    VEC(struct queue_node) nodes;
    VEC(struct queue_run) run;
    VEC(int32_t) spare_slots;
    VEC(struct queue_class *) classes; /* the waiting: one list per shape, estimate, project */
    VEC(struct queue_project) projects;
    VEC(struct queue_suit) suits;               /* suit 1 is the first */
    VEC(int32_t) held;                          /* nodes with a reservation */
    VEC(int64_t) when;                          /* scratch */
    int32_t when_cards;                         /* … for so many cards */
    VEC(struct queue_pick) picked;              /* scratch */
    VEC(int32_t) nodes_picked;                  /* scratch */
    int32_t by_free[QUEUE_NODE_CARDS_MAX + 1];  /* first node with so many free cards, or -1 */
    int32_t nodes_of[QUEUE_NODE_CARDS_MAX + 1]; /* nodes with so many cards */
    int64_t cards, free, share_sum;
    double backlog; /* card-seconds of the waiting, by the estimates */
    double cap_s;   /* longest patience while deciding */
    size_t waiting;
    int64_t now_s;
    uint64_t ratio[32]; /* how long leases ran against their estimates: histogram in 1/16 */
};
void queue_init(struct queue *q, const struct queue_rules *rules);
void queue_fini(struct queue *q);
/* cards: 1 … QUEUE_NODE_CARDS_MAX. Returns the index of the node. */
int32_t queue_node_add(struct queue *q, uint64_t key, int32_t cards);
/* share >= 0, limit >= 0 (0: none). Returns the index; project 0 exists from the start. */
int32_t queue_project_add(struct queue *q, int64_t share, int32_t limit);
/* fits: for each node so far, is it in the set? No node comes afterwards. Returns the suit. */
int32_t queue_suit_add(struct queue *q, const bool *fits);

/* Could it run if the pool were empty and nobody else were there? */
bool queue_possible(const struct queue *q, const struct queue_demand *d);
/* The demand waits from now on. CHECK: its numbers are in range and it is possible. */
void queue_enter(struct queue *q, const struct queue_demand *d);
/* Nobody wants it any more. False: it does not wait. */
bool queue_leave(struct queue *q, const struct queue_demand *d);
/* A lease that runs already, on these nodes. CHECK: the cards are free. Returns its slot. */
int32_t queue_run_add(struct queue *q, const struct queue_demand *d, int64_t started_s,
                      const int32_t *nodes);
/* A run is over; its slot is free afterwards. */
void queue_end(struct queue *q, int32_t slot, int64_t now_s);
/* It never ran: what a start took is given back, and nothing is learned from it. */
void queue_take_back(struct queue *q, int32_t slot);
/* A lease that is over ran ran_s where run_s was announced: estimates learn from it. */
void queue_learn(struct queue *q, int64_t run_s, int64_t ran_s);
/* Starts all that may start (they run from now on) and says who gets what when. ret_plan is
 * emptied first and keeps its memory between calls. now_s never goes back. */
void queue_decide(struct queue *q, int64_t now_s, struct queue_plan *ret_plan);
/* The due date of one that waits, as the last queue_decide saw the line: the place in it. Ties go
 * by since_s, then by id. */
int64_t queue_due(const struct queue *q, const struct queue_demand *d);

#define QUEUE_EXPERIENCE 20 /* so many leases must have ended before their ratios are believed */
struct queue_estimate {
    int64_t early_s, likely_s, late_s; /* of the start; INT64_MAX: not within the steps */
};
struct queue_wait {
    uint64_t id;
    struct queue_estimate start;
};
/* When those start that the last queue_decide left waiting, if nobody else came: the queue is
 * played forward three times, with run times as the shortest tenth, the middle and the longest
 * tenth of leases ran against their estimates so far (without experience: the estimate itself). At
 * most `steps` ends are played, for all of them together; each costs as much as a queue_decide.
 * waits: their ids, ascending; the estimates are filled in. */
void queue_estimate_all(const struct queue *q, int steps, struct queue_wait *waits, size_t count);
void queue_estimate(const struct queue *q, uint64_t id, int steps, struct queue_estimate *ret_e);
