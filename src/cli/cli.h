/* cli.h: what every file of the command line shares. One process, one thread, one command.
 * Results go to stdout, talk and progress to stderr. Commands return the exit code (product.md 5).
 */
#pragma once

#include <stdio.h>

#include "base/json.h"
#include "base/msg.h"
#include "cli/config.h"
#include "cli/verbs.h"

#define CLI_VERSION "0.1.0"
#define API_VERSION "1"
#define ANSWER_MAX ((size_t)64 << 20)
#define ANSWER_ID_SIZE 64

struct cli {
    struct config cfg;
    enum lang lang;
    bool json, quiet, yes, dry_run, no_wait;
    bool utc;            /* --utc */
    bool color;          /* stdout may carry colour */
    bool ask;            /* stdin and stderr are terminals: questions are possible */
    bool bar;            /* stderr is a terminal: progress may rewrite its line */
    int64_t timeout_s;   /* --timeout; 0: not given */
    const char *program; /* argv[0], for completion scripts */
    const char *command; /* words of the verb in work, for usage errors */
};

/* What was typed after the verb, checked against its rows. */
struct call {
    const struct verb *verb;
    json_t *args; /* owned: object, name → string, integer, bool or list of strings */
    char **rest;  /* borrowed from argv: the words after "--" */
    int rest_count;
    bool has_rest;
};

/* One answer of the API, whole. */
struct answer {
    long status; /* 0: none came */
    bool sent;   /* the request may have reached the server */
    struct strbuf body;
    json_t *json; /* owned; NULL when the body is not JSON */
    char request_id[ANSWER_ID_SIZE];
    int64_t date_s, retry_after_s; /* of the headers; 0: not given */
    struct refusal why;            /* when nothing came */
    int exit;                      /* exit code this answer means */
};
void answer_init(struct answer *a);
void answer_fini(struct answer *a);
#define AUTO_ANSWER CLEANUP(answer_fini)

/* text.c */
void tr_set(enum lang lang);
const char *tr(const char *english) __attribute__((format_arg(1)));
void say(struct cli *c, const char *fmt, ...) PRINTF_LIKE(2, 3); /* talk: a line on stderr */
/* Prints a refusal of ours; returns its exit code. */
int fail(struct cli *c, const struct refusal *why);
/* The same for a refusal whose words are keys of the catalogue; they are replaced in place. */
int fail_words(struct cli *c, struct refusal *why);
int fail_usage(struct cli *c, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Prints the problem document of an answer that is not 2xx; returns its exit code. */
int fail_answer(struct cli *c, const struct answer *a);
/* Prints `why` of an object (a problem); returns its exit code. */
int fail_problem(struct cli *c, const json_t *problem);
/* Copies without control characters, escape sequences and direction marks: safe on a terminal. */
void text_clean(const char *s, struct strbuf *out);
/* Field access for screens: absent, null or another type gives "", 0, false. */
const char *field_str(const json_t *o, const char *key);
int64_t field_i64(const json_t *o, const char *key);
bool field_bool(const json_t *o, const char *key);
bool field_is(const json_t *o, const char *key); /* there and not null */
/* "¥1.88" out of {"amount":"1.880000","currency":"CNY"}; by text, nothing is computed. "-" for
 * null. */
void text_money(const json_t *money, char *buf, size_t size);
bool money_is_zero(const json_t *money);
/* Local time with offset: "18:05+08:00" today, else "2026-12-15 18:05+08:00"; "-" for "". */
void text_time(const char *rfc3339, char *buf, size_t size);
/* From here on times are shown in the zone that a bill or statement names, unless UTC was asked
 * for. */
void text_zone(const struct cli *c, const char *zone);
void text_time_exact(const char *rfc3339, char *buf, size_t size); /* date and seconds, always */
void text_duration(int64_t s, char *buf, size_t size); /* the two largest units: "3h 12m" */
/* Card-seconds as "99h 50m", cut down to the minute. */
void text_card_hours(int64_t seconds, char *buf, size_t size);
void text_bytes(int64_t bytes, char *buf, size_t size);
void text_card(const json_t *o, struct strbuf *out); /* "2 x RTX 4090 (simulated)" of an instance */

/* client.c: the API. */
enum { CALL_QUIET = 1, CALL_IDEM = 2, CALL_QUICK = 4 };
/* CALL_QUICK: gives up after a second and a half and is not repeated; for what is nice to have.
 * Sends and reads the whole answer; body NULL for none. With CALL_IDEM the request carries a stored
 * Idempotency-Key. False when it is not 2xx: the error was printed (unless CALL_QUIET) and a->exit
 * is set. */
bool api_call(struct cli *c, const char *method, const char *path, const char *body, unsigned flags,
              struct answer *a);
bool api_get(struct cli *c, const char *path, struct answer *a);
/* Feeds a stream: event-stream, JSON lines or a list. on_item gets each object; false ends. With
 * follow it connects again after a break, from the last id. */
typedef bool api_item(void *user, const json_t *item, const char *raw);
bool api_stream(struct cli *c, const char *path, bool follow, api_item *on_item, void *user,
                struct answer *a);
/* Appends value percent-encoded. */
void url_escape(struct strbuf *out, const char *value);
void client_fini(void);

/* Ctrl-C while waiting: the flag instead of death. */
void interrupt_watch(void);
bool interrupted(void);
void pause_ms(int ms); /* ends early when interrupted */
/* Before a question's answer is read: until stdin has something. false: interrupted, also when
 * Ctrl-C came before this waited. */
bool answer_wait(void);

/* args.c */
int args_parse(struct cli *c, const struct verb *verb, int argc, char **argv,
               struct call *ret_call);
void call_fini(struct call *call);
const char *arg_str(const struct call *call, const char *name); /* NULL when not given */
bool arg_bool(const struct call *call, const char *name);
/* Path with its words and query, and the JSON body (owned by the caller; NULL for GET and DELETE).
 */
void call_path(struct cli *c, const struct call *call, struct strbuf *out);
char *call_body(struct cli *c, const struct call *call);
bool call_send(struct cli *c, const struct call *call, struct answer *a);

/* view.c: one answer on stdout, by --json, -q or as a table made from schemas.def. */
int view_print(struct cli *c, const struct verb *verb, const struct answer *a);
void view_json(const struct answer *a);
void view_id(const json_t *o);

/* progress.c */
void progress_line(struct cli *c, const char *fmt, ...) PRINTF_LIKE(2, 3); /* rewritten in place */
void progress_end(struct cli *c);
/* Waits until the instance reaches `want` (or fails); a holds the last answer. Exit code: 0,
 * that of its problem, 8 or 11 on --timeout, 130 on Ctrl-C. */
int wait_state(struct cli *c, const char *id, const char *want, int64_t timeout_s,
               struct answer *a);

/* ssh.c */
struct ssh_words {
    char *word[64]; /* owned; NULL-terminated */
    int count;
};
void ssh_word(struct ssh_words *w, const char *fmt, ...) PRINTF_LIKE(2, 3);
void ssh_words_fini(struct ssh_words *w);
/* The OpenSSH client's words for an instance, target last; writes our known_hosts. */
int ssh_words_make(struct cli *c, const json_t *instance, struct ssh_words *ret_w);
/* Loads the instance and waits until SSH can be tried. Exit code. */
int ssh_instance(struct cli *c, const char *name, struct answer *a);
void shell_quote(struct strbuf *out, const char *word);
int confirm(struct cli *c, const char *flag, const char *question); /* 0 yes, else exit code */

/* help.c, complete.c, man.c */
int help_short(struct cli *c, FILE *to);
int help_verb(struct cli *c, const struct verb *v, FILE *to);
int complete_print(struct cli *c, int argc, char **argv);
void man_print(struct cli *c, const struct verb *v);

typedef int cmd_run(struct cli *c, struct call *call);
cmd_run cmd_api, cmd_login, cmd_whoami, cmd_doctor, cmd_offers, cmd_quote, cmd_rent, cmd_ls,
    cmd_show, cmd_stop, cmd_reclaim, cmd_start, cmd_extend, cmd_resize, cmd_release, cmd_ssh,
    cmd_exec, cmd_cp, cmd_code, cmd_ssh_config, cmd_logs, cmd_events, cmd_usage, cmd_wallet,
    cmd_bill, cmd_key_add, cmd_disk_rm, cmd_completion, cmd_help, cmd_man, cmd_version, cmd_check,
    cmd_port, cmd_admin_init, cmd_admin_restore, cmd_admin_place, cmd_replay, cmd_tco, cmd_market,
    cmd_plan_ls, cmd_review, cmd_reconcile_import, cmd_size;
cmd_run cmd_invoice_pdf, cmd_invoice_export, cmd_invoice_show;
cmd_run cmd_statement, cmd_topup;
cmd_run cmd_bill_export, cmd_bill_verify, cmd_bill_explain;
cmd_run cmd_market_add;
/* usage export --focus. */
int usage_focus(struct cli *c, struct call *call);
