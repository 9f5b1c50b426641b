/* What is kept in memory of the store is what the store would say: whoever writes, whatever is
 * taken back. */
#include "store/rows_close.h"
#include "store/sql.h"

#include <unistd.h>

#include "../support/tap.h"

static void ok(enum err e)
{
    assert_int_equal(e, ERR_OK);
}

static struct id id_of(const char *text)
{
    struct id id = {""};

    assert_true(str_copy(id.s, sizeof(id.s), text));
    return id;
}

static struct store *open_store(const char *path)
{
    struct store *s = NULL;
    struct refusal why = {0};

    ok(store_open(path, STORE_WRITE, &s, &why));
    ok(store_migrate(s, &why));
    return s;
}

static void change_at(struct store *s, int64_t since_s)
{
    struct zone_change c = {.project = id_of("prj_one"), .zone = "UTC", .since_s = since_s};

    ok(zone_change_save(s, &c));
}

/* -1: there is none. */
static int64_t since(struct store *s)
{
    struct zone_change c;
    enum err e = zone_change_get(s, id_of("prj_one"), &c);

    assert_true(e == ERR_OK || e == ERR_NOT_FOUND);
    return e == ERR_OK ? c.since_s : -1;
}

static void a_write_is_seen_at_once(void **state UNUSED)
{
    AUTO_STORE struct store *s = open_store(":memory:");

    ok(store_begin(s));
    assert_int_equal(since(s), -1);
    change_at(s, 1);
    assert_int_equal(since(s), 1);
    assert_int_equal(since(s), 1);
    change_at(s, 2);
    assert_int_equal(since(s), 2);
    ok(sql_run(s, "UPDATE project_zone SET since_s=? WHERE project=?", "it", INT64_C(3),
               "prj_one"));
    assert_int_equal(since(s), 3);
    ok(sql_run(s, "DELETE FROM project_zone", ""));
    assert_int_equal(since(s), -1);
    ok(store_commit(s));
}

static void a_trigger_writes_too(void **state UNUSED)
{
    AUTO_STORE struct store *s = open_store(":memory:");
    struct topup_row t = {.id = "tra_one", .project = id_of("prj_one"), .amount = 1};

    ok(store_begin(s));
    ok(money_topup_save(s, &t)); /* prepared while there is no trigger */
    change_at(s, 1);
    ok(sql_script(s, "CREATE TRIGGER t AFTER INSERT ON topup BEGIN "
                     "UPDATE project_zone SET since_s=9; END"));
    assert_int_equal(since(s), 1);
    assert_true(str_copy(t.id, sizeof(t.id), "tra_two"));
    ok(money_topup_save(s, &t));
    assert_int_equal(since(s), 9);
    ok(store_commit(s));
}

static void what_is_taken_back_was_never_there(void **state UNUSED)
{
    AUTO_STORE struct store *s = open_store(":memory:");

    ok(store_begin(s));
    change_at(s, 1);
    ok(store_mark(s));
    change_at(s, 2);
    assert_int_equal(since(s), 2);
    ok(store_mark_undo(s));
    assert_int_equal(since(s), 1);
    ok(store_commit(s));
    ok(store_begin(s));
    change_at(s, 3);
    assert_int_equal(since(s), 3);
    store_rollback(s);
    ok(store_begin(s));
    assert_int_equal(since(s), 1);
    ok(store_commit(s));
}

static void another_connection_is_seen(void **state UNUSED)
{
    char path[] = "/tmp/suanli-kept-XXXXXX";
    AUTO_CLOSE int fd = mkstemp(path);

    assert_true(fd >= 0);
    {
        AUTO_STORE struct store *a = open_store(path);
        AUTO_STORE struct store *b = open_store(path);

        ok(store_begin(a));
        change_at(a, 1);
        assert_int_equal(since(a), 1);
        ok(store_commit(a));
        ok(store_begin(b));
        assert_int_equal(since(b), 1);
        change_at(b, 2);
        ok(store_commit(b));
        assert_int_equal(since(a), 2); /* no transaction: nothing is kept */
        ok(store_begin(a));
        assert_int_equal(since(a), 2);
        ok(store_commit(a));
    }
    assert_int_equal(unlink(path), 0);
}

static void each_key_has_its_own_rows(void **state UNUSED)
{
    AUTO_STORE struct store *s = open_store(":memory:");
    struct zone_change c = {.zone = "UTC"}, back;

    ok(store_begin(s)); /* so many that some share a slot */
    for (c.since_s = 0; c.since_s < 3000; c.since_s++) {
        assert_true(str_printf(c.project.s, ID_SIZE, "prj_%04" PRId64, c.since_s));
        ok(zone_change_save(s, &c));
    }
    for (int64_t i = 0; i < 6000; i++) {
        assert_true(str_printf(c.project.s, ID_SIZE, "prj_%04" PRId64, i % 3000));
        ok(zone_change_get(s, c.project, &back));
        assert_int_equal(back.since_s, i % 3000);
    }
    ok(store_commit(s));
}

static int64_t spent(struct store *s)
{
    struct budget_row b = {.project = id_of("prj_one"), .scope = BUDGET_PROJECT};
    int64_t u = -1;

    ok(money_scope_day_sum(s, &b, 0, 86400, &u));
    return u;
}

static int64_t rows(struct store *s)
{
    int64_t n = -1;

    ok(sql_one_i64(sql_open(s, "SELECT count(*) FROM scope_day", ""), &n));
    return n;
}

static void days_are_added_up_and_written_once(void **state UNUSED)
{
    AUTO_STORE struct store *s = open_store(":memory:");
    struct id project = id_of("prj_one"), lease = id_of("lea_one");

    ok(store_begin(s));
    ok(money_scope_save(s, lease, BUDGET_PROJECT, ""));
    ok(money_scope_save(s, lease, BUDGET_LABEL, "team=a"));
    for (int i = 0; i < 100; i++)
        ok(money_scope_day_add(s, project, lease, 0, 7));
    assert_int_equal(sql_sums(s)->len, 2);
    assert_int_equal(spent(s), 700);
    assert_int_equal(sql_sums(s)->len, 0);
    ok(money_scope_day_add(s, project, lease, 0, 1));
    ok(store_mark(s));
    ok(money_scope_day_add(s, project, lease, 0, 50));
    ok(store_mark_undo(s));
    ok(money_scope_day_add(s, project, lease, 0, 2));
    ok(store_commit(s));
    assert_int_equal(spent(s), 703);
    ok(store_begin(s));
    ok(money_scope_day_add(s, project, lease, 0, 50));
    store_rollback(s);
    assert_int_equal(spent(s), 703);
    ok(store_begin(s)); /* more days than are kept */
    for (int64_t i = 0; i < 100; i++)
        ok(money_scope_day_add(s, project, lease, i * 86400, 1));
    assert_int_equal(rows(s), 200);
    assert_int_equal(spent(s), 704);
    ok(store_commit(s));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_write_is_seen_at_once),
    cmocka_unit_test(a_trigger_writes_too),
    cmocka_unit_test(what_is_taken_back_was_never_there),
    cmocka_unit_test(another_connection_is_seen),
    cmocka_unit_test(each_key_has_its_own_rows),
    cmocka_unit_test(days_are_added_up_and_written_once),
};
RUN_TESTS(tests)
