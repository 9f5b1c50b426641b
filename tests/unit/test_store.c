#include "store/sql.h"

#include <stdio.h>
#include <unistd.h>

#include "../support/tap.h"

static struct store *open_store(const char *path)
{
    struct store *s = NULL;
    struct refusal why = {0};

    assert_int_equal(store_open(path, STORE_WRITE, &s, &why), ERR_OK);
    assert_int_equal(store_migrate(s, &why), ERR_OK);
    return s;
}

static struct id id_of(const char *text)
{
    struct id id = {""};

    assert_true(str_copy(id.s, sizeof(id.s), text));
    return id;
}

static void add_base(struct store *s)
{
    struct project p = {.id = id_of("prj_one"), .name = "one", .currency = "CNY", .zone = "UTC"};
    struct user u = {.id = id_of("usr_one"), .name = "ann", .project = p.id};
    struct node n = {.id = id_of("nod_one"), .name = "box", .gpu_count = 1};

    assert_true(str_copy(n.gpus[0].uuid, UUID_SIZE, "GPU-1"));
    assert_int_equal(store_project_save(s, &p), ERR_OK);
    assert_int_equal(store_user_save(s, &u), ERR_OK);
    assert_int_equal(store_member_set(s, p.id, u.id, ROLE_OWNER), ERR_OK);
    assert_int_equal(store_node_save(s, &n), ERR_OK);
}

static struct instance make_instance(const char *id, const char *name)
{
    struct instance i = {.id = id_of(id),
                         .project = id_of("prj_one"),
                         .owner = id_of("usr_one"),
                         .state = INSTANCE_RUNNING,
                         .ends_at = UTIME_NEVER,
                         .node = id_of("nod_one")};

    assert_true(str_copy(i.name, sizeof(i.name), name));
    return i;
}

static struct lease make_lease(const char *id, const char *instance, const char *gpu)
{
    struct lease l = {.id = id_of(id), .instance = id_of(instance), .node = id_of("nod_one")};

    if (gpu) {
        l.gpu_count = 1;
        assert_true(str_copy(l.gpus[0], UUID_SIZE, gpu));
    }
    return l;
}

static void rows_come_back_as_they_went(void **state UNUSED)
{
    AUTO_STORE struct store *s = open_store(":memory:");
    struct instance i = make_instance("ins_aaaabbbb", "exp"), back;
    struct refusal why = {0};

    add_base(s);
    (void)refusef(&i.why, ERR_IMAGE_NOT_FOUND, "name", "a=b\nc");
    i.shape = (struct shape){"RTX 4090", 2, 4000, 8192, 20480, true};
    i.ports[0] = (struct port){22, 20001};
    i.ports[1] = (struct port){8888, 20002};
    i.port_count = 2;
    assert_int_equal(store_instance_save(s, &i), ERR_OK);
    assert_int_equal(store_instance_lookup(s, i.project, "exp", &back, &why), ERR_OK);
    assert_int_equal(back.why.code, ERR_IMAGE_NOT_FOUND);
    assert_string_equal(back.why.params[0].value, "a=b c");
    assert_int_equal(back.shape.memory_mib, 8192);
    assert_int_equal(back.port_count, 2);
    assert_int_equal(back.ports[1].host, 20002);
    assert_true(back.ends_at == UTIME_NEVER);
    assert_int_equal(store_instance_lookup(s, i.project, "ins_aaaa", &back, &why), ERR_OK);
    assert_int_equal(store_instance_lookup(s, id_of("prj_two"), "exp", &back, &why), ERR_NOT_FOUND);
}

static void a_start_of_two_ids_is_ambiguous(void **state UNUSED)
{
    AUTO_STORE struct store *s = open_store(":memory:");
    struct instance a = make_instance("ins_aaaabbbb", "a"), b = make_instance("ins_aaaacccc", "b");
    struct instance back;
    struct refusal why = {0};

    add_base(s);
    assert_int_equal(store_instance_save(s, &a), ERR_OK);
    assert_int_equal(store_instance_save(s, &b), ERR_OK);
    assert_int_equal(store_instance_lookup(s, a.project, "ins_aaaa", &back, &why), ERR_AMBIGUOUS);
    assert_int_equal(store_instance_lookup(s, a.project, "ins_aaaac", &back, &why), ERR_OK);
    assert_string_equal(back.name, "b");
    assert_int_equal(store_instance_lookup(s, a.project, "ins", &back, &why), ERR_NOT_FOUND);
}

static void a_card_is_in_one_live_lease(void **state UNUSED)
{
    AUTO_STORE struct store *s = open_store(":memory:");
    struct instance a = make_instance("ins_a", "a"), b = make_instance("ins_b", "b");
    struct lease la = make_lease("lea_a", "ins_a", "GPU-1"),
                 lb = make_lease("lea_b", "ins_b", "GPU-1");
    struct node n;

    add_base(s);
    assert_int_equal(store_instance_save(s, &a), ERR_OK);
    assert_int_equal(store_instance_save(s, &b), ERR_OK);
    assert_int_equal(store_lease_save(s, &la), ERR_OK);
    assert_int_equal(store_lease_save(s, &la), ERR_OK);
    assert_int_equal(store_node_get(s, id_of("nod_one"), &n), ERR_OK);
    assert_string_equal(n.gpus[0].lease.s, "lea_a");
    assert_int_equal(store_lease_save(s, &lb), ERR_CAPACITY_NONE);
    la.state = LEASE_CLOSED;
    assert_int_equal(store_lease_save(s, &la), ERR_OK);
    assert_int_equal(store_lease_save(s, &lb), ERR_OK);
}

static void a_savepoint_takes_one_command_back(void **state UNUSED)
{
    AUTO_STORE struct store *s = open_store(":memory:");
    int64_t v;

    assert_int_equal(store_begin(s), ERR_OK);
    assert_int_equal(store_mark(s), ERR_OK);
    assert_int_equal(store_meta_set_i64(s, "a", 1), ERR_OK);
    assert_int_equal(store_mark_keep(s), ERR_OK);
    assert_int_equal(store_mark(s), ERR_OK);
    assert_int_equal(store_meta_set_i64(s, "a", 2), ERR_OK);
    assert_int_equal(store_mark_undo(s), ERR_OK);
    assert_int_equal(store_commit(s), ERR_OK);
    assert_int_equal(store_meta_get_i64(s, "a", 0, &v), ERR_OK);
    assert_int_equal(v, 1);
}

static void a_failed_commit_stops_all_writing(void **state UNUSED)
{
    AUTO_STORE struct store *s = open_store(":memory:");
    struct refusal why = {0};

    store_fail_commit(s, 1);
    assert_int_equal(store_begin(s), ERR_OK);
    assert_int_equal(store_meta_set_i64(s, "a", 1), ERR_OK);
    assert_int_equal(store_commit(s), ERR_STORE);
    store_rollback(s);
    assert_true(store_is_broken(s));
    assert_int_equal(store_begin(s), ERR_STORE);
    assert_int_equal(store_meta_set_i64(s, "a", 1), ERR_STORE);
    assert_int_equal(store_refuse(s, &why), ERR_STORE);
    assert_non_null(strstr(why.params[0].value, "full"));
}

static void a_reader_sees_only_what_is_committed(void **state UNUSED)
{
    char path[] = "/tmp/test-store-XXXXXX", file[64];
    struct refusal why = {0};
    struct store *w, *r = NULL;
    bool found;
    char text[16];

    assert_non_null(mkdtemp(path));
    assert_true(str_printf(file, sizeof(file), "%s/s.db", path));
    w = open_store(file);
    assert_int_equal(store_open(file, STORE_READ, &r, &why), ERR_OK);
    assert_int_equal(store_begin(w), ERR_OK);
    assert_int_equal(store_meta_set(w, "k", "v"), ERR_OK);
    assert_int_equal(store_meta_get(r, "k", text, sizeof(text), &found), ERR_OK);
    assert_false(found);
    assert_int_equal(store_commit(w), ERR_OK);
    assert_int_equal(store_meta_get(r, "k", text, sizeof(text), &found), ERR_OK);
    assert_true(found);
    assert_int_equal(store_meta_set(r, "k", "x"), ERR_STORE);
    store_close(r);
    store_close(w);
    for (size_t i = 0; i < 3; i++) {
        static const char *const ends[] = {"", "-wal", "-shm"};

        assert_true(str_printf(file, sizeof(file), "%s/s.db%s", path, ends[i]));
        (void)unlink(file);
    }
    assert_int_equal(rmdir(path), 0);
}

static void a_changed_migration_is_refused(void **state UNUSED)
{
    AUTO_STORE struct store *s = open_store(":memory:");
    struct refusal why = {0};

    assert_int_equal(store_migrate(s, &why), ERR_OK);
    assert_int_equal(sql_run(s, "UPDATE migration SET checksum='0' WHERE number=1", ""), ERR_OK);
    assert_int_equal(store_migrate(s, &why), ERR_CORRUPT);
}

static void output_is_kept_once_and_bounded(void **state UNUSED)
{
    AUTO_STORE struct store *s = open_store(":memory:");
    struct instance a = make_instance("ins_a", "a");
    struct lease l = make_lease("lea_a", "ins_a", NULL);
    AUTO_STRBUF struct strbuf out;
    int64_t from;

    add_base(s);
    strbuf_init(&out, 2 * LOG_KEEP);
    assert_int_equal(store_instance_save(s, &a), ERR_OK);
    assert_int_equal(store_lease_save(s, &l), ERR_OK);
    assert_int_equal(store_log_add(s, l.id, 0, "hello ", 6), ERR_OK);
    assert_int_equal(store_log_add(s, l.id, 0, "hello world", 11), ERR_OK);
    assert_int_equal(store_log_read(s, l.id, 4, &out, &from), ERR_OK);
    assert_string_equal(strbuf_str(&out), "o world");
    assert_int_equal(from, 4);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(rows_come_back_as_they_went),
    cmocka_unit_test(a_start_of_two_ids_is_ambiguous),
    cmocka_unit_test(a_card_is_in_one_live_lease),
    cmocka_unit_test(a_savepoint_takes_one_command_back),
    cmocka_unit_test(a_failed_commit_stops_all_writing),
    cmocka_unit_test(a_reader_sees_only_what_is_committed),
    cmocka_unit_test(a_changed_migration_is_refused),
    cmocka_unit_test(output_is_kept_once_and_bounded),
};
RUN_TESTS(tests)
