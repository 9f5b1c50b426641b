/* book_record.h: between book.c (what is known) and book_record.c (its form in the journal). */
#pragma once

#include "node/book.h"

#define VEC_DROP(v, item)                                                                          \
    do {                                                                                           \
        for (size_t _i = 0; _i < (v)->len; _i++)                                                   \
            if ((v)->at[_i] == (item)) {                                                           \
                (v)->at[_i] = (v)->at[--(v)->len];                                                 \
                break;                                                                             \
            }                                                                                      \
    } while (0)

/* The key of this node in dir/node.key; made when there is none yet. */
enum err book_key_open(struct book *b, const char *dir, struct refusal *why);
void book_slice_sign(const struct book *b, struct meter_slice *s);

/* Each adds one record; nothing is synced. */
void book_disk_save(struct book *b, const struct disk_row *d, bool gone);
void book_image_save(struct book *b, const struct image_row *m, bool gone);
void book_slice_save(struct book *b, const struct meter_slice *s, utime_t idle_at);
void book_drop_save(struct book *b, struct id lease, int64_t epoch); /* epoch 0: no tomb */
void book_ack_save(struct book *b, const char *boot, int64_t seq);
void book_seq_save(struct book *b);
/* The whole state, for compaction; and one record back into it. user: the struct book. */
void book_dump(void *user, struct journal *j);
void book_replay(void *user, const json_t *record);

/* In memory only. */
void book_tomb_add(struct book *b, struct id lease, int64_t epoch);
void book_lease_free(struct lease_row *l);
void book_slices_drop(struct book *b, const char *boot, int64_t seq);
utime_t book_idle_mark(const struct lease_row *l); /* last moment the lease was busy */
