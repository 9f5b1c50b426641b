/* journal.h: an append-only file of JSON records, one a line: "CRC32 {...}\n".
 *
 * What was synced is there after any crash. A tail that is not whole (torn write, power cut) is
 * dropped with a loud message; what came before it is kept. Compaction writes a new file and
 * renames it. An error of fsync is final: nothing more is written by this process (a page that
 * failed once may look clean the next time). Single thread. */
#pragma once

#include "base/json.h"

#define JOURNAL_RECORD_MAX 262144

struct journal;

/* A record that the fold does not know is its own business; it must not fail. */
typedef void journal_replay_fn(void *user, const json_t *record);
/* Writes the whole present state with journal_add. */
typedef void journal_dump_fn(void *user, struct journal *j);

/* Opens or makes dir/journal and replays it. ret_fresh: there was none.
 * Errors: ERR_STORE {why}. The folder descriptor stays open inside; j is owned by the caller. */
enum err journal_open(const char *dir, journal_replay_fn *replay, void *user,
                      struct journal **ret_journal, bool *ret_fresh, struct refusal *why);
void journal_close(struct journal *j); /* NULL is fine; what was not synced is lost */
/* Adds one record to the batch. json: one object, no newline in it. */
void journal_add(struct journal *j, const char *json);
/* Writes the batch and waits for the disk. ERR_STORE: stop acting, leave. */
enum err journal_sync(struct journal *j, struct refusal *why);
/* Starts the file anew with what dump adds, once it has grown well beyond its last such start. */
enum err journal_compact(struct journal *j, journal_dump_fn *dump, void *user, bool now,
                         struct refusal *why);
/* One line (without its newline) → the record; NULL when it is not whole. For replay and fuzzing.
 */
json_t *journal_line_parse(const char *line, size_t len);
