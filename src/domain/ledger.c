/* ledger.c: how a group is applied.
 *
 *   every id is there with the same content   → replayed, nothing changes
 *   some id is there                          → conflict
 *   else one transfer after another on the accounts of the view; the first refusal takes back what
 *   the earlier ones did, so a group is all or nothing without a copy of the view.
 *
 *   POSTED   dr_posted += a, cr_posted += a
 *   PENDING  dr_pending += a, cr_pending += a
 *   POST     pending −= whole hold on both sides, posted += a (a <= hold)
 *   VOID, EXPIRE   pending −= whole hold
 */
#include "domain/ledger.h"

#include <stdlib.h>

#include "base/sha256.h"
#include "base/str.h"

_Static_assert(LEDGER_HASH_SIZE == SHA256_SIZE, "one hash");

static void add_text(struct sha256 *h, const char *s)
{
    sha256_add(h, s, strlen(s) + 1);
}

static void add_i64(struct sha256 *h, int64_t v)
{
    unsigned char bytes[8];

    for (size_t i = 0; i < 8; i++)
        bytes[i] = (unsigned char)((uint64_t)v >> (56 - 8 * i));
    sha256_add(h, bytes, sizeof(bytes));
}

void ledger_content_hash(const struct ledger_transfer *t, unsigned char ret_hash[LEDGER_HASH_SIZE])
{
    struct sha256 h;

    sha256_init(&h);
    add_text(&h, t->id);
    add_text(&h, t->ledger);
    add_text(&h, t->dr);
    add_text(&h, t->cr);
    add_i64(&h, t->amount);
    add_i64(&h, t->step);
    add_text(&h, t->pending);
    add_text(&h, t->kind);
    add_text(&h, t->group);
    add_text(&h, t->owner);
    add_i64(&h, t->effective_ms);
    add_i64(&h, t->expires_ms);
    sha256_finish(&h, ret_hash);
}

void ledger_chain_step(const unsigned char prev[LEDGER_HASH_SIZE],
                       const unsigned char content[LEDGER_HASH_SIZE], utime_t booked_ms,
                       unsigned char ret_hash[LEDGER_HASH_SIZE])
{
    struct sha256 h;

    sha256_init(&h);
    sha256_add(&h, prev, LEDGER_HASH_SIZE);
    sha256_add(&h, content, LEDGER_HASH_SIZE);
    add_i64(&h, booked_ms);
    sha256_finish(&h, ret_hash);
}

void ledger_chain_hash(const struct ledger_transfer *t, const unsigned char prev[LEDGER_HASH_SIZE],
                       unsigned char ret_hash[LEDGER_HASH_SIZE])
{
    unsigned char content[LEDGER_HASH_SIZE];

    ledger_content_hash(t, content);
    ledger_chain_step(prev, content, t->booked_ms, ret_hash);
}

int64_t ledger_available(const struct ledger_account *a)
{
    __int128 rest = (__int128)a->cr_posted + a->limit - a->dr_posted - a->dr_pending;

    return rest <= 0 ? 0 : rest > INT64_MAX ? INT64_MAX : (int64_t)rest;
}

int64_t ledger_balance(const struct ledger_account *a)
{
    return a->cr_posted - a->dr_posted;
}

/* I3 */
static bool overdrawn(const struct ledger_account *a)
{
    return (a->flags & LEDGER_NO_OVERDRAFT) &&
           (__int128)a->dr_posted + a->dr_pending > (__int128)a->cr_posted + a->limit;
}

static struct ledger_account *find_account(const struct ledger_view *v, const char *id)
{
    for (size_t i = 0; i < v->account_count; i++)
        if (str_eq(v->accounts[i].id, id))
            return &v->accounts[i];
    return NULL;
}

/* A transfer of the view, or of the part of the group that is applied already. */
static const struct ledger_transfer *find_transfer(const struct ledger_view *v,
                                                   const struct ledger_transfer *group,
                                                   size_t applied, const char *id)
{
    for (size_t i = 0; i < v->existing_count; i++)
        if (str_eq(v->existing[i].id, id))
            return &v->existing[i];
    for (size_t i = 0; i < applied; i++)
        if (str_eq(group[i].id, id))
            return &group[i];
    return NULL;
}

static bool is_resolution(const struct ledger_transfer *t)
{
    return t->step == LEDGER_POST || t->step == LEDGER_VOID || t->step == LEDGER_EXPIRE;
}

static bool resolves(const struct ledger_transfer *list, size_t n, const char *pending)
{
    for (size_t i = 0; i < n; i++)
        if (is_resolution(&list[i]) && str_eq(list[i].pending, pending))
            return true;
    return false;
}

/* Moves both sides by (posted, pending); false and nothing changed when a sum does not fit. */
static bool move(struct ledger_account *dr, struct ledger_account *cr, int64_t posted,
                 int64_t pending)
{
    int64_t a, b, c, d;

    if (__builtin_add_overflow(dr->dr_posted, posted, &a) ||
        __builtin_add_overflow(dr->dr_pending, pending, &b) ||
        __builtin_add_overflow(cr->cr_posted, posted, &c) ||
        __builtin_add_overflow(cr->cr_pending, pending, &d))
        return false;
    dr->dr_posted = a;
    dr->dr_pending = b;
    cr->cr_posted = c;
    cr->cr_pending = d;
    return true;
}

/* What a transfer does to its two accounts; hold: the amount of the pending it resolves. */
static void effect(const struct ledger_transfer *t, int64_t hold, int64_t *ret_posted,
                   int64_t *ret_pending)
{
    switch (t->step) {
    case LEDGER_POSTED:
        *ret_posted = t->amount;
        *ret_pending = 0;
        return;
    case LEDGER_PENDING:
        *ret_posted = 0;
        *ret_pending = t->amount;
        return;
    case LEDGER_POST:
        *ret_posted = t->amount;
        *ret_pending = -hold;
        return;
    case LEDGER_VOID:
    case LEDGER_EXPIRE:
        *ret_posted = 0;
        *ret_pending = -hold;
        return;
    }
    CHECK(false);
}

/* Rules of a transfer that need no account. pending: what it resolves, NULL when not found. */
static enum err check_shape(const struct ledger_transfer *t, const struct ledger_transfer *pending,
                            utime_t booked_ms, struct refusal *why)
{
    if (!t->id[0] || t->amount < 0 || (t->step == LEDGER_PENDING && t->expires_ms <= 0) ||
        is_resolution(t) != (t->pending[0] != '\0'))
        return refusef(why, ERR_VALIDATION, "field", "transfer %s", t->id);
    if (!is_resolution(t))
        return ERR_OK;
    if (!pending || pending->step != LEDGER_PENDING) {
        enum err e = refusef(why, ERR_NOT_FOUND, "name", "%s", t->pending);
        refusal_set(why, "what", "hold");
        return e;
    }
    bool other = (t->dr[0] && !str_eq(t->dr, pending->dr)) ||
                 (t->cr[0] && !str_eq(t->cr, pending->cr)) ||
                 (t->ledger[0] && !str_eq(t->ledger, pending->ledger));
    bool too_much = t->step == LEDGER_POST ? t->amount > pending->amount : t->amount != 0;
    if (other || too_much || (t->step == LEDGER_EXPIRE && pending->expires_ms > booked_ms))
        return refusef(why, ERR_VALIDATION, "field", "transfer %s", t->id);
    return ERR_OK;
}

static enum err refuse_overdraft(struct refusal *why, const struct ledger_account *a, int64_t need)
{
    enum err e = refusef(why, ERR_LEDGER_OVERDRAFT, "account", "%s", a->id);

    refusal_setf(why, "need", "%" PRId64, need);
    refusal_setf(why, "have", "%" PRId64, ledger_available(a));
    return e;
}

static enum err apply_one(struct ledger_view *v, struct ledger_transfer *group, size_t index,
                          utime_t booked_ms, struct refusal *why)
{
    struct ledger_transfer *t = &group[index];
    const struct ledger_transfer *pending = NULL;
    int64_t posted, held;

    if (is_resolution(t)) {
        pending = find_transfer(v, group, index, t->pending);
        if (resolves(v->existing, v->existing_count, t->pending) ||
            resolves(group, index, t->pending))
            return refusef(why, ERR_STATE, "name", "%s", t->pending);
    }
    TRY(check_shape(t, pending, booked_ms, why));
    const struct ledger_transfer *form = pending ? pending : t;
    struct ledger_account *dr = find_account(v, form->dr), *cr = find_account(v, form->cr);
    if (!dr || !cr) {
        enum err e = refusef(why, ERR_NOT_FOUND, "name", "%s", dr ? form->cr : form->dr);
        refusal_set(why, "what", "account");
        return e;
    }
    if (dr == cr)
        return refusef(why, ERR_VALIDATION, "field", "transfer %s", t->id);
    if (!str_eq(dr->ledger, form->ledger) || !str_eq(cr->ledger, form->ledger)) {
        enum err e = refusef(why, ERR_CURRENCY, "what", "%s", t->id);
        refusal_set(why, "got", str_eq(dr->ledger, form->ledger) ? cr->ledger : dr->ledger);
        refusal_set(why, "want", form->ledger);
        return e;
    }
    if (!pending && ((dr->flags | cr->flags) & LEDGER_CLOSED))
        return refusef(why, ERR_STATE, "name", "%s", dr->flags & LEDGER_CLOSED ? dr->id : cr->id);
    effect(t, pending ? pending->amount : 0, &posted, &held);
    if (!move(dr, cr, posted, held))
        return refuse(why, ERR_MONEY_RANGE);
    if (!pending && overdrawn(dr)) {
        bool back = move(dr, cr, -posted, -held);
        CHECK(back);
        return refuse_overdraft(why, dr, t->amount);
    }
    return ERR_OK;
}

static void take_back(struct ledger_view *v, const struct ledger_transfer *group, size_t index)
{
    const struct ledger_transfer *t = &group[index];
    const struct ledger_transfer *pending =
        is_resolution(t) ? find_transfer(v, group, index, t->pending) : NULL;
    const struct ledger_transfer *form = pending ? pending : t;
    struct ledger_account *dr = find_account(v, form->dr), *cr = find_account(v, form->cr);
    int64_t posted, held;

    CHECK(dr && cr);
    effect(t, pending ? pending->amount : 0, &posted, &held);
    bool back = move(dr, cr, -posted, -held);
    CHECK(back);
}

/* Resolutions may leave out what their hold says; the journal says it in full. */
static void complete(const struct ledger_view *v, struct ledger_transfer *group, size_t index)
{
    struct ledger_transfer *t = &group[index];
    const struct ledger_transfer *pending =
        is_resolution(t) ? find_transfer(v, group, index, t->pending) : NULL;

    if (!pending)
        return;
    memcpy(t->dr, pending->dr, sizeof(t->dr));
    memcpy(t->cr, pending->cr, sizeof(t->cr));
    memcpy(t->ledger, pending->ledger, sizeof(t->ledger));
}

/* Counts the ids that are there already; a taken id with other content is a conflict. */
static enum err find_replay(const struct ledger_view *v, const struct ledger_transfer *group,
                            size_t n, size_t *ret_known, struct refusal *why)
{
    size_t known = 0;

    for (size_t i = 0; i < n; i++) {
        const struct ledger_transfer *old = find_transfer(v, NULL, 0, group[i].id);
        struct ledger_transfer full = group[i];
        unsigned char a[LEDGER_HASH_SIZE], b[LEDGER_HASH_SIZE];

        if (find_transfer(&(struct ledger_view){0}, group, i, group[i].id))
            return refusef(why, ERR_LEDGER_CONFLICT, "name", "%s", group[i].id);
        if (!old)
            continue;
        complete(v, &full, 0);
        ledger_content_hash(old, a);
        ledger_content_hash(&full, b);
        if (memcmp(a, b, sizeof(a)) != 0)
            return refusef(why, ERR_LEDGER_CONFLICT, "name", "%s", group[i].id);
        known++;
    }
    *ret_known = known;
    return ERR_OK;
}

enum err ledger_apply(struct ledger_view *view, struct ledger_transfer *group, size_t n,
                      utime_t booked_ms, unsigned char head[LEDGER_HASH_SIZE], bool *ret_replayed,
                      struct refusal *why)
{
    size_t known;

    if (n > LEDGER_GROUP_MAX)
        return refusef(why, ERR_TOO_LARGE, "max", "%d", LEDGER_GROUP_MAX);
    TRY(find_replay(view, group, n, &known, why));
    if (known > 0 && known < n)
        return refusef(why, ERR_LEDGER_CONFLICT, "name", "%s", group[0].group);
    *ret_replayed = n > 0 && known == n;
    if (*ret_replayed)
        return ERR_OK;
    for (size_t i = 0; i < n; i++) {
        enum err e = apply_one(view, group, i, booked_ms, why);
        if (e != ERR_OK) {
            while (i-- > 0)
                take_back(view, group, i);
            return e;
        }
    }
    for (size_t i = 0; i < n; i++) {
        complete(view, group, i);
        group[i].booked_ms = booked_ms;
        memcpy(group[i].prev_hash, head, LEDGER_HASH_SIZE);
        ledger_chain_hash(&group[i], head, group[i].hash);
        memcpy(head, group[i].hash, LEDGER_HASH_SIZE);
    }
    return ERR_OK;
}
