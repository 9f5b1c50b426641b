/* ledger_check.c: the proof over a whole book (I1–I6, I8, I19). It folds the journal again on its
 * own, without the code that wrote it. */
#include "domain/ledger.h"

#include <stdlib.h>

#include "base/str.h"

static enum err broken(struct refusal *why, const char *invariant, const char *id, const char *what)
{
    enum err e = refusef(why, ERR_CORRUPT, "what", "%s %s", invariant, id);

    refusal_set(why, "why", what);
    return e;
}

static int by_pending(const void *a, const void *b)
{
    const struct ledger_transfer *const *x = a, *const *y = b;

    return strcmp((*x)->pending, (*y)->pending);
}

static int key_to_pending(const void *key, const void *item)
{
    const struct ledger_transfer *const *t = item;

    return strcmp(key, (*t)->pending);
}

static int by_id(const void *a, const void *b)
{
    const struct ledger_transfer *const *x = a, *const *y = b;

    return strcmp((*x)->id, (*y)->id);
}

static int key_to_transfer(const void *key, const void *item)
{
    const struct ledger_transfer *const *t = item;

    return strcmp(key, (*t)->id);
}

static int key_to_account(const void *key, const void *item)
{
    const struct ledger_account *a = item;

    return strcmp(key, a->id);
}

static const struct ledger_transfer *find_sorted(const struct ledger_transfer **sorted, size_t n,
                                                 const char *id)
{
    const struct ledger_transfer **t = bsearch(id, sorted, n, sizeof(*sorted), key_to_transfer);

    return t ? *t : NULL;
}

/* One account against the fold of the journal, and the signs and floors that always hold. */
static enum err check_account(const struct ledger_account *stored,
                              const struct ledger_account *fold, struct refusal *why)
{
    if (stored->dr_posted != fold->dr_posted || stored->cr_posted != fold->cr_posted ||
        stored->dr_pending != fold->dr_pending || stored->cr_pending != fold->cr_pending)
        return broken(why, "I2", stored->id, "the balance is not the fold of its transfers");
    if (stored->dr_pending < 0 || stored->cr_pending < 0)
        return broken(why, "I6", stored->id, "more was resolved than was held");
    if ((stored->flags & LEDGER_NO_OVERDRAFT) && (__int128)stored->dr_posted + stored->dr_pending >
                                                     (__int128)stored->cr_posted + stored->limit)
        return broken(why, "I3", stored->id, "debits and holds pass the credits");
    return ERR_OK;
}

static enum err check_sums(const struct ledger_account *accounts, size_t n, struct refusal *why)
{
    for (size_t i = 0; i < n; i++) {
        __int128 posted = 0, pending = 0;
        bool first = true;

        for (size_t j = 0; j < i && first; j++)
            first = !str_eq(accounts[j].ledger, accounts[i].ledger);
        for (size_t j = i; j < n && first; j++)
            if (str_eq(accounts[j].ledger, accounts[i].ledger)) {
                posted += (__int128)accounts[j].dr_posted - accounts[j].cr_posted;
                pending += (__int128)accounts[j].dr_pending - accounts[j].cr_pending;
            }
        if (posted != 0 || pending != 0)
            return broken(why, "I1", accounts[i].ledger, "debits are not equal to credits");
    }
    return ERR_OK;
}

/* Chain, shape and owner of one row; holds that should be gone. */
static enum err check_row(const struct ledger_transfer *t, const unsigned char *prev,
                          const struct ledger_transfer *pending, struct refusal *why)
{
    unsigned char hash[LEDGER_HASH_SIZE];

    ledger_chain_hash(t, prev, hash);
    if (memcmp(t->prev_hash, prev, LEDGER_HASH_SIZE) != 0 ||
        memcmp(t->hash, hash, LEDGER_HASH_SIZE) != 0)
        return broken(why, "I4", t->id, "the row does not fit the hash chain");
    if (t->amount < 0)
        return broken(why, "I15", t->id, "the amount is negative");
    if (t->step == LEDGER_POSTED)
        return ERR_OK;
    if (t->step == LEDGER_PENDING)
        return t->expires_ms > 0 && t->owner[0]
                   ? ERR_OK
                   : broken(why, "I19", t->id, "the hold has no owner or no expiry");
    if (!pending || pending->step != LEDGER_PENDING)
        return broken(why, "I6", t->id, "it resolves no hold");
    if (!str_eq(t->dr, pending->dr) || !str_eq(t->cr, pending->cr) ||
        !str_eq(t->ledger, pending->ledger) || t->amount > pending->amount)
        return broken(why, "I6", t->id, "it does not match its hold");
    return ERR_OK;
}

/* Adds what one row did to one account; a sum that does not fit cannot have been stored. */
static enum err fold_row(struct ledger_account *a, const struct ledger_transfer *t, int64_t hold,
                         struct refusal *why)
{
    bool dr = str_eq(t->dr, a->id);
    int64_t *posted = dr ? &a->dr_posted : &a->cr_posted;
    int64_t *pending = dr ? &a->dr_pending : &a->cr_pending;

    bool counts = t->step == LEDGER_POSTED || t->step == LEDGER_POST;
    int64_t held = t->step == LEDGER_PENDING ? t->amount : -hold;

    if (micro_add(*posted, counts ? t->amount : 0, posted) != ERR_OK ||
        micro_add(*pending, held, pending) != ERR_OK)
        return broken(why, "I2", a->id, "the sum of its transfers does not fit");
    return ERR_OK;
}

/* Sorts the journal by id and its resolutions by hold; both must be unique. */
static enum err build_index(const struct ledger_book *b, size_t *ret_resolutions,
                            struct refusal *why)
{
    size_t count = 0;

    for (size_t i = 0; i < b->journal_count; i++) {
        b->by_id[i] = &b->journal[i];
        if (b->journal[i].step != LEDGER_POSTED && b->journal[i].step != LEDGER_PENDING)
            b->resolutions[count++] = &b->journal[i];
    }
    qsort(b->by_id, b->journal_count, sizeof(b->by_id[0]), by_id);
    qsort(b->resolutions, count, sizeof(b->resolutions[0]), by_pending);
    for (size_t i = 1; i < b->journal_count; i++)
        if (str_eq(b->by_id[i - 1]->id, b->by_id[i]->id))
            return broken(why, "I5", b->by_id[i]->id, "the id is there twice");
    for (size_t i = 1; i < count; i++)
        if (str_eq(b->resolutions[i - 1]->pending, b->resolutions[i]->pending))
            return broken(why, "I6", b->resolutions[i]->pending, "the hold is resolved twice");
    for (size_t i = 1; i < b->account_count; i++)
        if (strcmp(b->accounts[i - 1].id, b->accounts[i].id) >= 0)
            return broken(why, "I5", b->accounts[i].id, "accounts are not in order of their ids");
    *ret_resolutions = count;
    return ERR_OK;
}

static struct ledger_account *find_fold(const struct ledger_book *b, const char *id)
{
    return bsearch(id, b->fold, b->account_count, sizeof(b->fold[0]), key_to_account);
}

static enum err check_journal(const struct ledger_book *b, size_t resolutions, struct refusal *why)
{
    static const unsigned char zero[LEDGER_HASH_SIZE];
    const unsigned char *prev = zero;

    for (size_t i = 0; i < b->journal_count; i++) {
        const struct ledger_transfer *t = &b->journal[i], *pending = NULL;
        struct ledger_account *dr = find_fold(b, t->dr), *cr = find_fold(b, t->cr);

        if (t->pending[0])
            pending = find_sorted(b->by_id, b->journal_count, t->pending);
        TRY(check_row(t, prev, pending, why));
        prev = t->hash;
        if (!dr || !cr)
            return broken(why, "I2", t->id, "it names an account that is not there");
        if (dr == cr || !str_eq(dr->ledger, t->ledger) || !str_eq(cr->ledger, t->ledger))
            return broken(why, "I8", t->id, "its accounts are not two of one ledger");
        if (t->step == LEDGER_PENDING && t->expires_ms < b->now_ms &&
            !bsearch(t->id, b->resolutions, resolutions, sizeof(b->resolutions[0]), key_to_pending))
            return broken(why, "I19", t->id, "the hold outlived its expiry");
        TRY(fold_row(dr, t, pending ? pending->amount : 0, why));
        TRY(fold_row(cr, t, pending ? pending->amount : 0, why));
    }
    return ERR_OK;
}

enum err ledger_check(const struct ledger_book *b, struct refusal *why)
{
    size_t resolutions;

    for (size_t i = 0; i < b->account_count; i++) {
        b->fold[i] = b->accounts[i];
        b->fold[i].dr_posted = b->fold[i].dr_pending = 0;
        b->fold[i].cr_posted = b->fold[i].cr_pending = 0;
    }
    TRY(build_index(b, &resolutions, why));
    TRY(check_journal(b, resolutions, why));
    for (size_t i = 0; i < b->account_count; i++)
        TRY(check_account(&b->accounts[i], &b->fold[i], why));
    return check_sums(b->accounts, b->account_count, why);
}
