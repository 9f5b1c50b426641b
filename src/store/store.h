/* store.h: the books on disk. Rows of types.h and of this header, in and out, in transactions.
 *
 * SQLite in WAL with synchronous=FULL. Exactly one connection of the process is opened with
 * STORE_WRITE (it writes and checkpoints; the core thread owns it); readers open their own with
 * STORE_READ. A connection belongs to one thread at a time.
 *
 * Functions return ERR_OK, ERR_NOT_FOUND (get of one row), or ERR_STORE after which store_refuse()
 * tells why. `lookup` finds by name, id or unambiguous start of an id and fills the refusal itself
 * (ERR_NOT_FOUND, ERR_AMBIGUOUS). Every function about a project's objects takes the project, and
 * the query has it in its WHERE; those that end in _any are for ticks and nodes only. `save` writes
 * the whole row (insert or replace by its id). Lists are owned by the caller: vec_fini(&list).
 *
 * When writing fails for a reason of the disk (full, I/O, failed fsync) the store breaks: it
 * refuses every further write and commit until the process starts again. */
#pragma once

#include "base/str.h"
#include "base/vec.h"
#include "domain/types.h"

struct store;
enum store_mode { STORE_WRITE, STORE_READ };

/* path ":memory:" makes a private store for tests. STORE_WRITE makes the file when it is missing.
 * ERR_STORE, ERR_CORRUPT. */
enum err store_open(const char *path, enum store_mode mode, struct store **ret_s,
                    struct refusal *why);
/* How many pages of 4 KiB the log may have before a commit moves it into the file; 8192 unless set. */
enum err store_log_max(struct store *s, int pages);
void store_close(struct store *s); /* NULL is fine */
void store_close_ptr(struct store **s);
#define AUTO_STORE CLEANUP(store_close_ptr)
/* Brings the schema up to date, each migration in its own transaction. ERR_CORRUPT when a migration
 * that was applied has another checksum now, or the store is newer than this program. */
enum err store_migrate(struct store *s, struct refusal *why);
/* A consistent copy into a new file, while others read and write. Fsynced. */
enum err store_backup(struct store *s, const char *path, int64_t *ret_bytes, struct refusal *why);
/* Fills why with ERR_STORE and the last failure; returns ERR_STORE. */
enum err store_refuse(struct store *s, struct refusal *why);
/* Reads every page and every reference. ERR_CORRUPT {what, why}. Long on a large store. */
enum err store_integrity(struct store *s, struct refusal *why);
bool store_is_broken(const struct store *s);

enum err store_begin(struct store *s);  /* BEGIN IMMEDIATE (a reader: one snapshot) */
enum err store_commit(struct store *s); /* durable when it returns ERR_OK */
void store_rollback(struct store *s);   /* harmless outside a transaction */
enum err store_mark(struct store *s);   /* savepoint of one command; one level */
enum err store_mark_keep(struct store *s);
enum err store_mark_undo(struct store *s);
/* Rows changed since the connection was opened: equal before and after: nothing to commit. */
int64_t store_changes(struct store *s);
/* Tests: the n-th commit from now fails as a full disk would (0: never, and what was rolled back
 * is forgiven, as by a new process on the same file). */
void store_fail_commit(struct store *s, int n);

/* meta: single values: "signing.key", "platform.id", ... Absent: ret_found false, buf "". */
enum err store_meta_get(struct store *s, const char *key, char *buf, size_t size, bool *ret_found);
enum err store_meta_set(struct store *s, const char *key, const char *value);
enum err store_meta_get_i64(struct store *s, const char *key, int64_t def, int64_t *ret_v);
enum err store_meta_set_i64(struct store *s, const char *key, int64_t v);

/* who */
struct user {
    struct id id;
    char name[NAME_SIZE];
    bool is_operator;
    struct id project; /* where he logs in when he says nothing */
    utime_t created_at;
};
struct user_list {
    struct user *at;
    size_t len, cap;
};
struct project {
    struct id id;
    char name[NAME_SIZE], currency[CURRENCY_SIZE], zone[NAME_SIZE];
    utime_t created_at;
};
struct project_list {
    struct project *at;
    size_t len, cap;
};
struct member {
    struct id project, user;
    char user_name[NAME_SIZE];
    enum role role;
};
struct member_list {
    struct member *at;
    size_t len, cap;
};
#define HASH_TEXT_SIZE 65
struct token {
    struct id id, user, project;
    char hash[HASH_TEXT_SIZE]; /* hex; the secret itself is nowhere */
    char label[NAME_SIZE];
    enum role role;
    utime_t created_at, used_at, expires_at; /* UTIME_NEVER: none */
};
struct token_list {
    struct token *at;
    size_t len, cap;
};
#define KEY_TEXT_SIZE 1100
struct ssh_key {
    struct id id, user;
    char name[NAME_SIZE];
    char public_key[KEY_TEXT_SIZE];
    char fingerprint[NAME_SIZE];
    utime_t created_at;
};
struct ssh_key_list {
    struct ssh_key *at;
    size_t len, cap;
};
enum err store_user_get(struct store *s, struct id id, struct user *ret_u);
enum err store_user_get_name(struct store *s, const char *name, struct user *ret_u);
enum err store_user_lookup(struct store *s, const char *text, struct user *ret_u,
                           struct refusal *why);
enum err store_user_save(struct store *s, const struct user *u);
enum err store_user_list(struct store *s, struct user_list *ret_l);
enum err store_project_get(struct store *s, struct id id, struct project *ret_p);
enum err store_project_get_name(struct store *s, const char *name, struct project *ret_p);
enum err store_project_lookup(struct store *s, const char *text, struct project *ret_p,
                              struct refusal *why);
enum err store_project_save(struct store *s, const struct project *p);
enum err store_project_list(struct store *s, struct project_list *ret_l); /* all */
enum err store_project_list_of(struct store *s, struct id user, struct project_list *ret_l);
enum err store_member_role(struct store *s, struct id project, struct id user, enum role *ret_r);
enum err store_member_set(struct store *s, struct id project, struct id user, enum role r);
enum err store_member_list(struct store *s, struct id project, struct member_list *ret_l);
enum err store_token_get_hash(struct store *s, const char *hash, struct token *ret_t);
enum err store_token_get(struct store *s, struct id user, struct id id, struct token *ret_t);
enum err store_token_save(struct store *s, const struct token *t);
enum err store_token_remove(struct store *s, struct id user, struct id id);
enum err store_token_list(struct store *s, struct id user, struct token_list *ret_l);
/* One-time login codes, by hash: taken once (ERR_NOT_FOUND: unknown, used, expired). */
enum err store_code_save(struct store *s, const char *hash, struct id user, utime_t expires_at);
enum err store_code_take(struct store *s, const char *hash, utime_t now, struct id *ret_user);
enum err store_key_save(struct store *s, const struct ssh_key *k);
enum err store_key_remove(struct store *s, struct id user, struct id id);
enum err store_key_lookup(struct store *s, struct id user, const char *text, struct ssh_key *ret_k,
                          struct refusal *why);
enum err store_key_list(struct store *s, struct id user, struct ssh_key_list *ret_l);
/* Of everybody who may enter the project's instances: its members and owners. */
enum err store_key_list_project(struct store *s, struct id project, struct ssh_key_list *ret_l);

/* nodes */
struct node_list {
    struct node *at;
    size_t len, cap;
};
struct node_boot { /* one boot of one node: its clock and how much of its evidence is in */
    struct id node;
    char boot[33];
    utime_t anchor_ms; /* ledger clock minus the node's boot clock */
    int64_t ack_seq;
    int64_t last_boot_ms; /* boot clock of its newest report: older ones come too late */
    utime_t first_at;
};
struct node_unknown { /* a guest on a node that belongs to no lease */
    struct id node;
    char lease[ID_SIZE];
    int64_t pid;
    utime_t seen_at;
};
struct node_unknown_list {
    struct node_unknown *at;
    size_t len, cap;
};
enum err store_node_get(struct store *s, struct id id, struct node *ret_n);
enum err store_node_lookup(struct store *s, const char *text, struct node *ret_n,
                           struct refusal *why);
enum err store_node_get_hash(struct store *s, const char *token_hash, struct node *ret_n);
enum err store_node_save(struct store *s, const struct node *n);            /* with its cards */
enum err store_node_seen(struct store *s, struct id node, utime_t seen_at); /* nothing else moved */
enum err store_node_set_hash(struct store *s, struct id node, const char *token_hash);
enum err store_node_version(struct store *s, struct id node, int64_t *ret_v);
enum err store_node_bump(struct store *s, struct id node); /* something else is wanted there now */
/* What live leases, disks and ports take of a node. */
struct node_used {
    int64_t cpu_milli, memory_mib, disk_mib, ports, leases;
    bool exclusive; /* one lease has it alone */
};
enum err store_node_used(struct store *s, struct id node, struct node_used *ret_u);
enum err store_node_list(struct store *s, struct node_list *ret_l);
/* Its token and name are free; instances that were there keep naming it. */
enum err store_node_remove(struct store *s, struct id id);
enum err store_node_boot_get(struct store *s, struct id node, const char *boot,
                             struct node_boot *ret_b);
enum err store_node_boot_save(struct store *s, const struct node_boot *b);
enum err store_unknown_save(struct store *s, const struct node_unknown *u);
enum err store_unknown_clear(struct store *s, struct id node, utime_t before); /* not seen since */
enum err store_unknown_list(struct store *s, struct id node, struct node_unknown_list *ret_l);

/* instances */
struct instance_list {
    struct instance *at;
    size_t len, cap;
};
struct instance_spec { /* what a guest is started with besides its shape; JSON arrays of strings */
    struct id instance;
    char *argv, *env; /* owned */
};
enum err store_instance_get(struct store *s, struct id project, struct id id,
                            struct instance *ret_i);
enum err store_instance_get_any(struct store *s, struct id id, struct instance *ret_i);
enum err store_instance_lookup(struct store *s, struct id project, const char *text,
                               struct instance *ret_i, struct refusal *why);
/* With its published ports. Host ports are unique per node among instances that are not gone. */
enum err store_instance_save(struct store *s, const struct instance *i);
/* all: released and failed ones too. after: id of the last one seen, or empty; limit 0: all. */
enum err store_instance_list(struct store *s, struct id project, bool all, struct id after,
                             int64_t limit, struct instance_list *ret_l);
enum err store_instance_list_state(struct store *s, enum instance_state state,
                                   struct instance_list *ret_l);
enum err store_instance_list_any(struct store *s, struct instance_list *ret_l); /* whole store */
enum err store_instance_name_taken(struct store *s, struct id project, const char *name,
                                   bool *ret_taken);
enum err store_host_port_taken(struct store *s, struct id node, int64_t port, bool *ret_taken);
/* Was any lease of it ever ready? */
enum err store_instance_ran(struct store *s, struct id instance, bool *ret_ran);
enum err store_spec_save(struct store *s, const struct instance_spec *p);
enum err store_spec_get(struct store *s, struct id instance, struct instance_spec *ret_p);
void store_spec_fini(struct instance_spec *p);

/* leases */
struct lease_list {
    struct lease *at;
    size_t len, cap;
};
struct lease_fact { /* what its node last said about it */
    struct id lease;
    int32_t step, step_count;
    char detail[TEXT_SIZE];
    int64_t disk_used_mib, memory_peak_mib, gpu_memory_peak_mib, idle_s;
    int32_t idle_cards; /* of a lease that does work on others */
    bool cards_ok, report_ok;
    char *report; /* owned; JSON or NULL */
    utime_t said_at;
};
struct lease_gap { /* the node was not heard: nothing in it is charged */
    struct id lease;
    utime_t from_ms, to_ms; /* UTIME_NEVER: still going on */
};
struct lease_gap_list {
    struct lease_gap *at;
    size_t len, cap;
};
enum err store_lease_get(struct store *s, struct id id, struct lease *ret_l);
/* Takes the cards (S1: a card that another live lease has is ERR_CAPACITY_NONE) and frees them when
 * the lease is LEASE_CLOSED. */
enum err store_lease_save(struct store *s, const struct lease *l);
enum err store_lease_list_live(struct store *s, struct lease_list *ret_l); /* not closed */
enum err store_lease_list_node(struct store *s, struct id node,
                               struct lease_list *ret_l); /* same */
enum err store_lease_list_instance(struct store *s, struct id instance, struct lease_list *ret_l);
enum err store_lease_list_any(struct store *s, struct lease_list *ret_l); /* whole store */
/* What is asked for by kind, the most frequent first: live leases, those that ended after `since`,
 * and instances that wait. */
#define DEMAND_KINDS_MAX 512
struct demand_list {
    struct demand_seen *at;
    size_t len, cap;
};
enum err store_demand_lately(struct store *s, utime_t since, struct demand_list *ret_l);
enum err store_fact_get(struct store *s, struct id lease, struct lease_fact *ret_f);
enum err store_fact_save(struct store *s, const struct lease_fact *f);
void store_fact_fini(struct lease_fact *f);
enum err store_gap_save(struct store *s, const struct lease_gap *g); /* by lease and from_ms */
enum err store_gap_list(struct store *s, struct id lease, struct lease_gap_list *ret_l);
/* The last LOG_KEEP bytes of a lease's output. from: offset of the first byte. */
#define LOG_KEEP (1 << 20)
enum err store_log_add(struct store *s, struct id lease, int64_t from, const void *data, size_t n);
/* ret_from: where the text begins (>= from when older output is gone). */
enum err store_log_read(struct store *s, struct id lease, int64_t from, struct strbuf *out,
                        int64_t *ret_from);
/* The output of all its leases goes with an instance. */
enum err store_log_remove(struct store *s, struct id instance);
enum err store_log_end(struct store *s, struct id lease, int64_t *ret_end);

/* disks */
struct disk_list {
    struct disk *at;
    size_t len, cap;
};
enum err store_disk_get(struct store *s, struct id project, struct id id, struct disk *ret_d);
enum err store_disk_get_any(struct store *s, struct id id, struct disk *ret_d);
enum err store_disk_lookup(struct store *s, struct id project, const char *text, struct disk *ret_d,
                           struct refusal *why);
enum err store_disk_save(struct store *s, const struct disk *d);
enum err store_disk_list(struct store *s, struct id project, bool all, struct disk_list *ret_l);
enum err store_disk_list_node(struct store *s, struct id node,
                              struct disk_list *ret_l); /* not erased */
enum err store_disk_list_instance(struct store *s, struct id instance, struct disk_list *ret_l);
enum err store_disk_list_any(struct store *s, struct disk_list *ret_l); /* whole store */

/* images */
struct image_list {
    struct image *at;
    size_t len, cap;
};
struct node_image {
    struct id node;
    char digest[DIGEST_SIZE], state[16]; /* working, ready, failed */
    int64_t bytes;
    char error[TEXT_SIZE];
};
struct node_image_list {
    struct node_image *at;
    size_t len, cap;
};
enum err store_image_get(struct store *s, const char *name_or_digest, struct image *ret_i);
enum err store_image_default(struct store *s, struct image *ret_i);
enum err store_image_save(struct store *s, const struct image *i); /* by name */
enum err store_image_needs_set(struct store *s, const char *digest, const char *driver,
                               const char *cuda); /* every name of it */
enum err store_image_remove(struct store *s, const char *name);
enum err store_image_list(struct store *s, struct image_list *ret_l);
enum err store_node_image_save(struct store *s, const struct node_image *i);
enum err store_node_image_list(struct store *s, const char *digest, struct node_image_list *ret_l);

/* Idempotency: key per project; the answer is stored with the effect. */
struct idem {
    struct id project;
    char key[TEXT_SIZE], hash[HASH_TEXT_SIZE]; /* of operation, path and body */
    char *answer;                              /* owned */
    utime_t at;
};
enum err store_idem_get(struct store *s, struct id project, const char *key, struct idem *ret_i);
enum err store_idem_save(struct store *s, const struct idem *i);
enum err store_idem_prune(struct store *s, utime_t before);
void store_idem_fini(struct idem *i);

/* Audit: one row per changing command, also refused ones. Never changed. */
struct audit {
    int64_t id; /* set by add */
    utime_t at;
    struct id project, user; /* empty: the platform */
    char actor[NAME_SIZE], action[NAME_SIZE], object[NAME_SIZE];
    char result[NAME_SIZE]; /* "ok" or the code of the refusal */
    char request_id[ID_SIZE];
};
struct audit_list {
    struct audit *at;
    size_t len, cap;
};
enum err store_audit_add(struct store *s, struct audit *a);
/* Newest first, ids below before (0: from the newest). project empty: all. */
enum err store_audit_list(struct store *s, struct id project, int64_t before, int64_t limit,
                          struct audit_list *ret_l);

/* The event feed: what happened, in the order of commits. */
struct event {
    int64_t id; /* set by add */
    utime_t at;
    struct id project, instance; /* project empty: for operators only */
    char kind[NAME_SIZE];        /* instance.running, lease.idle_notice, ... */
    char text[TEXT_SIZE];        /* English key of the catalogue; {key} is filled from data */
    char data[1024];             /* JSON object */
};
struct event_list {
    struct event *at;
    size_t len, cap;
};
enum err store_event_add(struct store *s, struct event *e);
/* Ids above after, oldest first. project empty: every project (operators). */
enum err store_event_list(struct store *s, struct id project, struct id instance, int64_t after,
                          int64_t limit, struct event_list *ret_l);
enum err store_event_last(struct store *s, int64_t *ret_id);

/* Outbox: effects that are repeated until their receiver has acted on them. A node has acted when
 * it says that it saw a version >= the row's. */
struct outbox {
    int64_t id; /* set by add */
    struct id node;
    char kind[16];        /* notice, kill_unknown */
    char target[ID_SIZE]; /* lease */
    int64_t version;      /* of the node's desired state that carries it */
    char body[TEXT_SIZE];
    utime_t at;
};
struct outbox_list {
    struct outbox *at;
    size_t len, cap;
};
enum err store_outbox_add(struct store *s, struct outbox *o);
enum err store_outbox_list(struct store *s, struct id node, struct outbox_list *ret_l);
enum err store_outbox_ack(struct store *s, struct id node, int64_t seen);
