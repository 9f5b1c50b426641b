/* Laws of the ledger: P2 (conservation, floors, rebuild) and P5 (holds never leak). A journal is
 * kept as the store would keep it; a second set of books is folded by ledger_check on its own. */
#include <stdlib.h>

#include "base/str.h"
#include "domain/ledger.h"
#include "tape.h"

#define JOURNAL_MAX 160
#define GROUP_MAX 4

/* In order of their ids, as ledger_check wants them. */
static const struct ledger_account chart[] = {
    {.id = "bank", .ledger = "CNY"},
    {.id = "cash", .ledger = "CNY", .flags = LEDGER_NO_OVERDRAFT},
    {.id = "fx.USD", .ledger = "USD"},
    {.id = "gift", .ledger = "CNY", .flags = LEDGER_NO_OVERDRAFT},
    {.id = "receivable", .ledger = "CNY", .flags = LEDGER_NO_OVERDRAFT, .limit = 1000},
    {.id = "revenue", .ledger = "CNY"},
    {.id = "wallet", .ledger = "USD", .flags = LEDGER_NO_OVERDRAFT},
};
#define ACCOUNTS ARRAY_LEN(chart)

struct world {
    struct ledger_account accounts[ACCOUNTS];
    struct ledger_transfer journal[JOURNAL_MAX];
    size_t journal_count;
    unsigned char head[LEDGER_HASH_SIZE];
    utime_t now_ms;
    int next_id;
};

static void init(struct world *w)
{
    *w = (struct world){.now_ms = 1000};
    memcpy(w->accounts, chart, sizeof(chart));
}

static bool proof(struct tape *t, const struct world *w, utime_t now_ms)
{
    struct ledger_account fold[ACCOUNTS];
    const struct ledger_transfer *by_id[JOURNAL_MAX], *resolutions[JOURNAL_MAX];
    struct ledger_book book = {w->accounts, ACCOUNTS, w->journal, w->journal_count,
                               now_ms,      fold,     by_id,      resolutions};
    struct refusal why = {0};
    char text[300];

    if (ledger_check(&book, &why) == ERR_OK)
        return true;
    refusal_text(&why, LANG_EN, text, sizeof(text));
    return tape_fail(t, "%s", text);
}

static struct ledger_transfer any_transfer(struct tape *t, struct world *w)
{
    struct ledger_transfer x = {.step = (enum ledger_step)tape_below(t, 5)};
    bool known = w->journal_count > 0 && tape_chance(t, 10);
    const struct ledger_transfer *old =
        w->journal_count > 0 ? &w->journal[tape_below(t, w->journal_count)] : NULL;
    const struct ledger_account *dr = &chart[tape_below(t, ACCOUNTS)];
    const struct ledger_account *cr = &chart[tape_below(t, ACCOUNTS)];

    if (!tape_chance(t, 10)) /* mostly within one ledger */
        while (!str_eq(cr->ledger, dr->ledger))
            cr = &chart[(size_t)(cr - chart + 1) % ACCOUNTS];
    if (known && old && tape_chance(t, 50))
        return *old; /* delivered again */
    bool fits = known && old ? str_copy(x.id, sizeof(x.id), old->id)
                             : str_printf(x.id, sizeof(x.id), "t%d", w->next_id++);
    CHECK(fits);
    if (x.step == LEDGER_POSTED || x.step == LEDGER_PENDING) {
        memcpy(x.dr, dr->id, sizeof(x.dr));
        memcpy(x.cr, cr->id, sizeof(x.cr));
        memcpy(x.ledger, dr->ledger, sizeof(x.ledger));
        x.amount = tape_chance(t, 5) ? tape_size(t, INT64_MAX) : tape_range(t, 0, 2000);
        x.expires_ms = x.step == LEDGER_PENDING ? w->now_ms + tape_range(t, 0, 500) : 0;
        memcpy(x.owner, "lease", 6);
    } else {
        fits = str_copy(x.pending, sizeof(x.pending), old ? old->id : "nothing");
        CHECK(fits);
        x.amount = x.step == LEDGER_POST ? tape_range(t, 0, 2000) : 0;
    }
    return x;
}

/* Applies, and journals as the store would in the same transaction. */
static enum err apply(struct world *w, struct ledger_transfer *group, size_t n, bool *ret_replayed)
{
    struct ledger_view v = {w->accounts, ACCOUNTS, w->journal, w->journal_count};
    enum err e = ledger_apply(&v, group, n, w->now_ms, w->head, ret_replayed, NULL);

    for (size_t i = 0; e == ERR_OK && !*ret_replayed && i < n; i++)
        w->journal[w->journal_count++] = group[i];
    return e;
}

/* A single posted transfer between two accounts: whether it must be taken, said in plain sums. */
static bool must_accept(const struct world *w, const struct ledger_transfer *x)
{
    const struct ledger_account *dr = NULL, *cr = NULL;

    for (size_t i = 0; i < ACCOUNTS; i++) {
        if (str_eq(w->accounts[i].id, x->dr))
            dr = &w->accounts[i];
        if (str_eq(w->accounts[i].id, x->cr))
            cr = &w->accounts[i];
    }
    CHECK(dr && cr);
    __int128 spent = (__int128)dr->dr_posted + dr->dr_pending + x->amount;
    bool floor = !(dr->flags & LEDGER_NO_OVERDRAFT) || spent <= (__int128)dr->cr_posted + dr->limit;
    return dr != cr && str_eq(dr->ledger, cr->ledger) && floor &&
           (__int128)dr->dr_posted + x->amount <= INT64_MAX &&
           (__int128)cr->cr_posted + x->amount <= INT64_MAX;
}

static bool law_commands(struct tape *t)
{
    static struct world w, before;

    init(&w);
    for (uint64_t commands = tape_below(t, 30); commands > 0; commands--) {
        struct ledger_transfer group[GROUP_MAX], sent[GROUP_MAX];
        size_t n = 1 + tape_below(t, GROUP_MAX);
        bool replayed = false;

        for (size_t i = 0; i < n; i++)
            sent[i] = group[i] = any_transfer(t, &w);
        before = w;
        bool plain = n == 1 && sent[0].step == LEDGER_POSTED && sent[0].booked_ms == 0;
        bool must = plain && must_accept(&w, &sent[0]);
        enum err e = apply(&w, group, n, &replayed);
        if (plain && !replayed && e != ERR_LEDGER_CONFLICT)
            TAPE_MUST(t, (e == ERR_OK) == must);
        if (e != ERR_OK || replayed) {
            TAPE_MUST(t, memcmp(&before, &w, sizeof(w)) == 0); /* nothing at all */
        } else { /* the same again changes nothing; with other content it is refused */
            TAPE_MUST(t, w.journal_count == before.journal_count + n);
            before = w;
            memcpy(group, sent, sizeof(group));
            TAPE_MUST(t, apply(&w, group, n, &replayed) == ERR_OK && replayed);
            memcpy(group, sent, sizeof(group));
            group[n - 1].effective_ms++;
            TAPE_MUST(t, apply(&w, group, n, &replayed) == ERR_LEDGER_CONFLICT);
            TAPE_MUST(t, memcmp(&before, &w, sizeof(w)) == 0);
        }
        w.now_ms += tape_range(t, 1, 100);
    }
    return proof(t, &w, 0);
}

/* One byte of the journal changed: the proof must say so. */
static bool law_tampering(struct tape *t)
{
    static struct world w;
    bool replayed;

    init(&w);
    for (int i = 0; i < 4; i++) {
        struct ledger_transfer x = {.ledger = "CNY",
                                    .dr = "bank",
                                    .cr = "cash",
                                    .amount = tape_range(t, 1, 1000),
                                    .kind = "topup"};
        bool fits = str_printf(x.id, sizeof(x.id), "t%d", i);
        CHECK(fits);
        TAPE_MUST(t, apply(&w, &x, 1, &replayed) == ERR_OK);
    }
    struct ledger_transfer *x = &w.journal[tape_below(t, 4)];
    switch (tape_below(t, 6)) {
    case 0:
        x->amount++;
        break;
    case 1:
        x->effective_ms++;
        break;
    case 2:
        x->booked_ms++;
        break;
    case 3:
        x->hash[tape_below(t, LEDGER_HASH_SIZE)] ^= 1;
        break;
    case 4:
        x->kind[0] = 'x';
        break;
    default:
        w.accounts[tape_below(t, 2)].cr_posted++;
        break;
    }
    TAPE_MUST(t, !proof(t, &w, 0));
    t->message[0] = '\0';
    return true;
}

/* ---- P5 ---- */

#define HOLDS_MAX 12

struct hold {
    char id[LEDGER_KEY_SIZE];
    int64_t amount, posted;
    bool made;
    int resolved;
};

static struct ledger_transfer resolution(struct tape *t, const struct world *w, struct hold *h,
                                         size_t index)
{
    struct ledger_transfer x = {.step =
                                    (enum ledger_step)tape_range(t, LEDGER_POST, LEDGER_EXPIRE)};
    bool fits = str_printf(x.id, sizeof(x.id), "r%zu.%" PRId64, index, w->now_ms) &&
                str_copy(x.pending, sizeof(x.pending), h->id);

    CHECK(fits);
    x.amount = x.step == LEDGER_POST ? tape_range(t, 0, h->amount + 1) : 0;
    return x;
}

static bool hold_step(struct tape *t, struct world *w, struct hold *h, size_t index)
{
    struct ledger_transfer x;
    bool replayed;

    if (!h->made) {
        x = (struct ledger_transfer){.step = LEDGER_PENDING,
                                     .ledger = "CNY",
                                     .dr = "cash",
                                     .cr = "revenue",
                                     .amount = tape_range(t, 0, 400),
                                     .owner = "lease",
                                     .expires_ms = w->now_ms + 1000};
        memcpy(x.id, h->id, sizeof(x.id));
        int64_t free_u = ledger_available(&w->accounts[1]);
        enum err e = apply(w, &x, 1, &replayed);
        TAPE_MUST(t, (e == ERR_OK) == (x.amount <= free_u));
        h->made = e == ERR_OK;
        h->amount = x.amount;
        return true;
    }
    x = resolution(t, w, h, index);
    bool early = x.step == LEDGER_EXPIRE && w->journal_count > 0;
    enum err e = apply(w, &x, 1, &replayed);
    if (h->resolved)
        TAPE_MUST(t, e == ERR_STATE);
    else
        TAPE_MUST(t, e == ERR_OK || early || x.amount > h->amount);
    if (e == ERR_OK) {
        h->resolved++;
        h->posted = x.amount;
        TAPE_MUST(t, h->posted <= h->amount);
    }
    return true;
}

/* Whatever was not resolved when the platform died is expired by its recovery. */
static bool recover(struct tape *t, struct world *w, struct hold *holds)
{
    int64_t posted = 0;
    bool replayed;

    w->now_ms += 100000;
    for (size_t i = 0; i < HOLDS_MAX; i++) {
        struct ledger_transfer x = {.step = LEDGER_EXPIRE};
        bool fits = str_printf(x.id, sizeof(x.id), "x%zu", i) &&
                    str_copy(x.pending, sizeof(x.pending), holds[i].id);
        CHECK(fits);
        posted += holds[i].posted;
        if (holds[i].made && !holds[i].resolved)
            TAPE_MUST(t, apply(w, &x, 1, &replayed) == ERR_OK);
    }
    TAPE_MUST(t, w->accounts[1].dr_pending == 0 && w->accounts[5].cr_pending == 0);
    TAPE_MUST(t, w->accounts[1].dr_posted == posted && w->accounts[5].cr_posted == posted);
    return proof(t, w, w->now_ms);
}

static bool law_holds(struct tape *t)
{
    static struct world w, committed;
    struct hold holds[HOLDS_MAX] = {0}, kept[HOLDS_MAX];
    struct ledger_transfer topup = {
        .id = "topup", .ledger = "CNY", .dr = "bank", .cr = "cash", .amount = 1000};
    bool replayed;

    init(&w);
    for (size_t i = 0; i < HOLDS_MAX; i++) {
        bool fits = str_printf(holds[i].id, sizeof(holds[i].id), "h%zu", i);
        CHECK(fits);
    }
    TAPE_MUST(t, apply(&w, &topup, 1, &replayed) == ERR_OK);
    for (uint64_t steps = tape_below(t, 50); steps > 0; steps--) {
        size_t i = tape_below(t, HOLDS_MAX);
        committed = w;
        memcpy(kept, holds, sizeof(kept));
        if (!hold_step(t, &w, &holds[i], i))
            return false;
        if (tape_chance(t, 15)) { /* killed before the commit */
            w = committed;
            memcpy(holds, kept, sizeof(holds));
        }
        w.now_ms += tape_range(t, 1, 300);
        TAPE_MUST(t, ledger_available(&w.accounts[1]) >= 0);
    }
    return recover(t, &w, holds);
}

int main(int argc, char **argv)
{
    static const struct tape_test tests[] = {
        {"P2 random commands keep conservation, floors, idempotency and the fold", law_commands, 0},
        {"a changed row or balance is found by the proof", law_tampering, 0},
        {"P5 no hold leaks and none is resolved twice, also across crashes", law_holds, 0},
    };

    return tape_main(tests, sizeof(tests) / sizeof(tests[0]), argc, argv);
}
