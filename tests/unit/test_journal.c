#include "../support/tap.h"

#include "node/journal.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char dir[64];

struct seen {
    int64_t at[512];
    size_t count;
};

static void see(void *user, const json_t *record)
{
    struct seen *s = user;

    assert_true(json_get_i64(record, "n", -1, &s->at[s->count]));
    s->count++;
}

static void count_only(void *user, const json_t *record)
{
    (void)record;
    ((struct seen *)user)->count++;
}

static void path_of(char *buf, size_t size, const char *name)
{
    assert_true(str_printf(buf, size, "%s/%s", dir, name));
}

static struct journal *reopen(struct seen *s, bool *fresh)
{
    struct journal *j = NULL;
    struct refusal why;

    s->count = 0;
    assert_int_equal(journal_open(dir, see, s, &j, fresh, &why), ERR_OK);
    return j;
}

static void add(struct journal *j, int64_t n)
{
    char text[64];

    assert_true(str_printf(text, sizeof(text), "{\"n\":%" PRId64 ",\"pad\":\"xyz\"}", n));
    journal_add(j, text);
}

static int setup(void **state)
{
    (void)state;
    (void)str_printf(dir, sizeof(dir), "/tmp/test-journal-XXXXXX");
    return mkdtemp(dir) != NULL ? 0 : -1;
}

static int teardown(void **state)
{
    static const char *const names[] = {"journal", "journal.bad", "journal.new", "journal.reserve"};
    char path[128];

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        path_of(path, sizeof(path), names[i]);
        (void)unlink(path);
    }
    return rmdir(dir);
}

static size_t file_load(const char *path, char *buf, size_t size)
{
    int fd = open(path, O_RDONLY);
    ssize_t n = read(fd, buf, size);

    close(fd);
    assert_true(n >= 0);
    return (size_t)n;
}

static void file_store(const char *path, const char *buf, size_t len)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, buf, len), (ssize_t)len);
    close(fd);
}

static void test_records_come_back_in_order(void **state)
{
    struct seen s;
    bool fresh = false;
    struct refusal why;

    (void)state;
    struct journal *j = reopen(&s, &fresh);
    assert_true(fresh);
    for (int64_t i = 0; i < 10; i++)
        add(j, i);
    assert_int_equal(journal_sync(j, &why), ERR_OK);
    add(j, 99); /* never synced */
    journal_close(j);
    j = reopen(&s, &fresh);
    assert_false(fresh);
    assert_int_equal(s.count, 10);
    for (int64_t i = 0; i < 10; i++)
        assert_int_equal(s.at[i], i);
    journal_close(j);
}

static void test_a_tail_cut_at_any_byte_keeps_what_came_before(void **state)
{
    static char text[8192];
    char path[128];
    struct seen s;
    bool fresh;
    struct refusal why;

    (void)state;
    struct journal *j = reopen(&s, &fresh);
    for (int64_t i = 0; i < 8; i++)
        add(j, i);
    assert_int_equal(journal_sync(j, &why), ERR_OK);
    journal_close(j);
    path_of(path, sizeof(path), "journal");
    size_t len = file_load(path, text, sizeof(text));
    for (size_t cut = 0; cut <= len; cut++) {
        size_t lines = 0;

        for (size_t i = 0; i < cut; i++)
            lines += text[i] == '\n' ? 1 : 0;
        file_store(path, text, cut);
        j = reopen(&s, &fresh);
        assert_int_equal(s.count, lines);
        add(j, 1000);
        assert_int_equal(journal_sync(j, &why), ERR_OK);
        journal_close(j);
        j = reopen(&s, &fresh);
        assert_int_equal(s.count, lines + 1);
        assert_int_equal(s.at[lines], 1000);
        journal_close(j);
    }
}

static void test_a_flipped_byte_is_never_believed(void **state)
{
    static char text[1024];
    char path[128];
    struct seen s;
    bool fresh;
    struct refusal why;

    (void)state;
    struct journal *j = reopen(&s, &fresh);
    add(j, 1);
    add(j, 2);
    assert_int_equal(journal_sync(j, &why), ERR_OK);
    journal_close(j);
    path_of(path, sizeof(path), "journal");
    size_t len = file_load(path, text, sizeof(text));
    for (size_t i = 0; i < len; i++) {
        text[i] ^= 1;
        file_store(path, text, len);
        text[i] ^= 1;
        j = reopen(&s, &fresh);
        assert_true(s.count < 2);
        for (size_t k = 0; k < s.count; k++)
            assert_int_equal(s.at[k], (int64_t)k + 1);
        journal_close(j);
    }
}

static void dump_one(void *user, struct journal *j)
{
    add(j, *(int64_t *)user);
}

static void test_compaction_leaves_the_present_state_only(void **state)
{
    struct seen s;
    bool fresh;
    struct refusal why;
    int64_t present = 77;

    (void)state;
    struct journal *j = reopen(&s, &fresh);
    for (int64_t i = 0; i < 100; i++)
        add(j, i);
    assert_int_equal(journal_compact(j, dump_one, &present, true, &why), ERR_OK);
    add(j, 78);
    assert_int_equal(journal_sync(j, &why), ERR_OK);
    journal_close(j);
    j = reopen(&s, &fresh);
    assert_int_equal(s.count, 2);
    assert_int_equal(s.at[0], 77);
    assert_int_equal(s.at[1], 78);
    journal_close(j);
}

/* A folder of 4 MiB of its own: the journal with its reserve fills half of it. */
static bool small_disk(void)
{
    return unshare(CLONE_NEWNS) == 0 && mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("tmpfs", dir, "tmpfs", 0, "size=4m") == 0;
}

static void full_disk_child(void)
{
    struct seen s;
    bool fresh;
    struct refusal why;
    char path[128];
    static char block[65536];

    if (!small_disk())
        _exit(77);
    struct journal *j = reopen(&s, &fresh);
    add(j, 1);
    assert_int_equal(journal_sync(j, &why), ERR_OK);
    path_of(path, sizeof(path), "hog");
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    while (write(fd, block, sizeof(block)) > 0)
        ;
    close(fd);
    /* The end of a lease can still be written: far more than a page of them. */
    for (int64_t i = 2; i < 1000; i++) {
        add(j, i);
        assert_int_equal(journal_sync(j, &why), ERR_OK);
    }
    journal_close(j);
    struct seen *all = mem_alloc(sizeof(*all));
    assert_int_equal(journal_open(dir, count_only, all, &j, &fresh, &why), ERR_OK);
    assert_int_equal(all->count, 999);
    _exit(0);
}

static void test_a_full_disk_still_takes_ends(void **state)
{
    int status = 0;

    (void)state;
    pid_t pid = fork();
    if (pid == 0) {
        full_disk_child();
        _exit(1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        skip(); /* no private mount here */
    assert_int_equal(status, 0);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(test_a_full_disk_still_takes_ends, setup, teardown),
    cmocka_unit_test_setup_teardown(test_records_come_back_in_order, setup, teardown),
    cmocka_unit_test_setup_teardown(test_a_tail_cut_at_any_byte_keeps_what_came_before, setup,
                                    teardown),
    cmocka_unit_test_setup_teardown(test_a_flipped_byte_is_never_believed, setup, teardown),
    cmocka_unit_test_setup_teardown(test_compaction_leaves_the_present_state_only, setup, teardown),
};
RUN_TESTS(tests)
