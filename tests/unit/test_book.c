#include "../support/tap.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"
#include "node/book_record.h"
#include "node/link.h"

static char dir[64];
static const char boot_one[] = "11111111111111111111111111111111";
static const char boot_two[] = "22222222222222222222222222222222";

static int setup(void **state)
{
    (void)state;
    log_set(LOG_ERROR, "test");
    (void)str_printf(dir, sizeof(dir), "/tmp/test-book-XXXXXX");
    return mkdtemp(dir) != NULL ? 0 : -1;
}

static int teardown(void **state)
{
    static const char *const names[] = {"journal", "journal.bad", "journal.new", "journal.reserve",
                                        "node.key"};
    char path[128];

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        (void)str_printf(path, sizeof(path), "%s/%s", dir, names[i]);
        (void)unlink(path);
    }
    return rmdir(dir);
}

static void open_book(struct book *b, const char *boot)
{
    struct refusal why;
    bool fresh;

    assert_int_equal(book_open(b, dir, boot, &fresh, &why), ERR_OK);
}

/* The signature of the first slice that is kept, over what it says now. */
static bool signed_by_the_node(const struct book *b)
{
    const struct meter_slice *s = &b->slices.at[0];
    struct meter_slice again = *s;

    book_slice_sign(b, &again);
    return s->has_sig && memcmp(s->sig, again.sig, SIGN_SIZE) == 0;
}

static void sync_book(struct book *b)
{
    struct refusal why;

    assert_int_equal(book_sync(b, &why), ERR_OK);
}

static void take(struct book *b, utime_t sent, const char *text)
{
    struct want *w = NULL;
    struct refusal why;

    assert_int_equal(want_parse(text, strlen(text), sent, &w, &why), ERR_OK);
    assert_int_equal(w->bad, 0);
    book_take(b, w);
    want_free(w);
}

static void answer(char *buf, size_t size, const char *want, int epoch, int64_t paid, int64_t ends)
{
    assert_true(str_printf(
        buf, size,
        "{\"version\":1,\"ack_seq\":0,\"leases\":[{\"lease\":\"lea_a\",\"instance\":\"ins_a\","
        "\"name\":\"exp\",\"epoch\":%d,\"want\":\"%s\",\"reason\":null,\"paid_for_ms\":%" PRId64
        ",\"ends_in_ms\":%" PRId64 ",\"grace_ms\":30000,\"image\":\"sha256:x\",\"cpu_milli\":1000,"
        "\"memory_mib\":64,\"pids_max\":100,\"gpus\":[\"GPU-a\"],\"system_disk\":\"dsk_a\","
        "\"data\":[{\"disk\":\"dsk_b\",\"mount\":\"/root/data\"}],\"ports\":[{\"guest\":22,"
        "\"host\":20001}],\"argv\":[\"sleep\",\"1\"],\"env\":[\"A=b\"],\"keys\":[\"ssh-ed25519 "
        "A\"],"
        "\"idle_s\":1800,\"idle_action\":\"notice\",\"notices\":[]}],"
        "\"disks\":[{\"disk\":\"dsk_a\",\"instance\":null,\"size_mib\":100,\"want\":\"present\"}],"
        "\"images\":[{\"digest\":\"sha256:x\",\"source\":\"recipe:base\",\"want\":\"present\"}]}",
        epoch, want, paid, ends));
}

static struct lease_row *only(struct book *b)
{
    assert_int_equal(b->leases.len, 1);
    return b->leases.at[0];
}

static void started(struct book *b, utime_t ready)
{
    struct lease_row *l = only(b);

    book_lease_renew(b, l);
    l->phase = REC_STARTED;
    l->ready = ready;
    meter_begin(&l->meter, ready, 0, true);
    book_lease_save(b, l);
}

static void slice(struct book *b, utime_t t0, utime_t t1)
{
    struct meter_slice s = {.t0 = t0, .t1 = t1, .gpus_ok = true, .total = {t1, t1, t1}};

    book_slice_add(b, only(b), &s);
    only(b)->meter.t0 = t1;
}

static void test_a_restart_finds_everything_again(void **state)
{
    char text[2048];
    struct book b;

    (void)state;
    open_book(&b, boot_one);
    answer(text, sizeof(text), "run", 1, 600000, 9000000);
    take(&b, 1000, text);
    started(&b, 2000);
    only(&b)->address = 77;
    only(&b)->stop_reason = END_IDLE;
    only(&b)->report = mem_strdup("{\"ok\":true}");
    (void)refusef(&only(&b)->error, ERR_NO_SPACE, "where", "pool");
    book_lease_save(&b, only(&b));
    slice(&b, 2000, 10000);
    sync_book(&b);
    book_close(&b);
    open_book(&b, boot_one);
    struct lease_row *l = only(&b);
    assert_int_equal(l->phase, REC_STARTED);
    assert_int_equal(l->want.paid_until, 601000);
    assert_int_equal(l->want.ends_at, 9001000);
    assert_string_equal(l->want.argv + 6, "1");
    assert_string_equal(l->want.data[0].mount, "/root/data");
    assert_string_equal(l->want.keys, "ssh-ed25519 A\n");
    assert_int_equal(l->want.idle_action, IDLE_ACTION_NOTICE);
    assert_int_equal(l->address, 77);
    assert_int_equal(l->stop_reason, END_IDLE);
    assert_int_equal(l->error.code, ERR_NO_SPACE);
    assert_string_equal(l->error.params[0].value, "pool");
    assert_string_equal(l->report, "{\"ok\":true}");
    assert_true(l->meter.open);
    assert_int_equal(l->meter.t0, 10000);
    assert_int_equal(l->meter.at_t0.cpu_us, 10000);
    assert_int_equal(b.slices.len, 1);
    assert_int_equal(b.seq_next, 2);
    assert_int_equal(b.disks.len, 1);
    assert_int_equal(b.images.len, 1);
    book_close(&b);
}

static void test_a_reboot_ends_what_ran_at_its_last_evidence(void **state)
{
    char text[2048];
    struct book b;

    (void)state;
    open_book(&b, boot_one);
    answer(text, sizeof(text), "run", 1, 600000, 9000000);
    take(&b, 1000, text);
    started(&b, 2000);
    slice(&b, 2000, 10000);
    sync_book(&b);
    book_close(&b);
    open_book(&b, boot_two);
    struct lease_row *l = only(&b);
    assert_int_equal(l->phase, REC_ENDED);
    assert_int_equal(l->end, END_NODE_LOST);
    assert_int_equal(l->ended, 10000);
    assert_string_equal(l->boot, boot_one);
    assert_false(l->meter.open);
    assert_int_equal(b.slices.len, 1);
    assert_string_equal(b.slices.at[0].boot, boot_one);
    assert_true(signed_by_the_node(&b));
    assert_int_equal(b.seq_next, 1);
    assert_false(book_lease_settled(&b, l));
    book_slices_ack(&b, boot_two, 100);
    assert_int_equal(b.slices.len, 1);
    book_slices_ack(&b, boot_one, 1);
    assert_int_equal(b.slices.len, 0);
    book_close(&b);
}

static void test_a_lease_that_had_not_begun_is_told_anew_after_a_reboot(void **state)
{
    char text[2048];
    struct book b;

    (void)state;
    open_book(&b, boot_one);
    answer(text, sizeof(text), "run", 1, 600000, 9000000);
    take(&b, 1000, text);
    book_lease_renew(&b, only(&b));
    book_lease_save(&b, only(&b));
    sync_book(&b);
    book_close(&b);
    open_book(&b, boot_two);
    assert_int_equal(b.leases.len, 0);
    book_close(&b);
}

static void test_one_end_seen_through_two_delays_is_one_end(void **state)
{
    char text[2048];
    struct book b;

    (void)state;
    open_book(&b, boot_one);
    answer(text, sizeof(text), "run", 1, 600000, 9000000);
    take(&b, 1000, text);
    take(&b, 1200, text); /* 200 ms later by another delay */
    assert_int_equal(only(&b)->want.paid_until, 601000);
    take(&b, 990, text); /* earlier is always taken */
    assert_int_equal(only(&b)->want.paid_until, 600990);
    take(&b, 301000, text); /* a new term */
    assert_int_equal(only(&b)->want.paid_until, 901000);
    book_close(&b);
}

static void test_a_lower_epoch_changes_nothing(void **state)
{
    char text[2048];
    struct book b;

    (void)state;
    open_book(&b, boot_one);
    answer(text, sizeof(text), "run", 5, 600000, 9000000);
    take(&b, 1000, text);
    started(&b, 2000);
    answer(text, sizeof(text), "kill", 4, 1, 1);
    take(&b, 3000, text);
    assert_int_equal(only(&b)->want.want, REC_RUN);
    assert_int_equal(only(&b)->want.epoch, 5);
    assert_int_equal(only(&b)->want.paid_until, 601000);
    book_close(&b);
}

static void test_an_order_to_stop_keeps_the_shape(void **state)
{
    char text[2048];
    struct book b;

    (void)state;
    open_book(&b, boot_one);
    answer(text, sizeof(text), "run", 1, 600000, 9000000);
    take(&b, 1000, text);
    started(&b, 2000);
    take(&b, 3000,
         "{\"version\":2,\"ack_seq\":0,\"leases\":[{\"lease\":\"lea_a\",\"epoch\":1,"
         "\"want\":\"stop\",\"reason\":\"user_stop\",\"grace_ms\":5}]}");
    assert_int_equal(only(&b)->want.want, REC_STOP);
    assert_int_equal(only(&b)->want.reason, END_USER_STOP);
    assert_int_equal(only(&b)->want.grace_ms, 5);
    assert_string_equal(only(&b)->want.system_disk.s, "dsk_a");
    assert_int_equal(only(&b)->want.paid_until, 601000);
    book_close(&b);
}

static void test_a_forgotten_lease_stays_ended_over_restarts(void **state)
{
    char text[2048];
    struct book b;

    (void)state;
    open_book(&b, boot_one);
    answer(text, sizeof(text), "run", 3, 600000, 9000000);
    take(&b, 1000, text);
    started(&b, 2000);
    book_lease_drop(&b, only(&b), true);
    sync_book(&b);
    book_close(&b);
    open_book(&b, boot_one);
    assert_int_equal(b.leases.len, 0);
    take(&b, 4000, text);
    assert_int_equal(only(&b)->phase, REC_ENDED);
    assert_true(only(&b)->cleaned);
    answer(text, sizeof(text), "run", 4, 600000, 9000000);
    book_close(&b);
    open_book(&b, boot_one);
    take(&b, 4000, text);
    assert_int_equal(only(&b)->phase, REC_NONE);
    book_close(&b);
}

static void test_compaction_keeps_the_whole_state(void **state)
{
    char text[2048];
    struct book b;
    struct refusal why;

    (void)state;
    open_book(&b, boot_one);
    answer(text, sizeof(text), "run", 1, 600000, 9000000);
    take(&b, 1000, text);
    started(&b, 2000);
    for (utime_t t = 2000; t < 40000000; t += 10000) {
        slice(&b, t, t + 10000);
        if (b.slices.len == 20) {
            book_slices_ack(&b, boot_one, b.seq_next - 2);
            assert_int_equal(book_sync(&b, &why), ERR_OK);
        }
    }
    int64_t next = b.seq_next;
    utime_t at = only(&b)->meter.t0;
    size_t waiting = b.slices.len;
    sync_book(&b);
    book_close(&b);
    open_book(&b, boot_one);
    assert_int_equal(b.seq_next, next);
    assert_int_equal(only(&b)->meter.t0, at);
    assert_int_equal(b.slices.len, waiting);
    book_close(&b);
}

static void test_foreign_answers_are_bounded_and_never_guessed(void **state)
{
    static const char *const bad[] = {"",
                                      "[]",
                                      "{}",
                                      "{\"version\":1}",
                                      "{\"version\":-1,\"ack_seq\":0,\"leases\":[]}",
                                      "{\"version\":1,\"ack_seq\":\"x\",\"leases\":[]}",
                                      "{\"version\":1,\"ack_seq\":0,\"leases\":{}}"};
    static const char *const left_out[] = {
        "{\"lease\":\"../x\",\"epoch\":1,\"want\":\"stop\"}",
        "{\"lease\":\"lea_a\",\"epoch\":0,\"want\":\"stop\"}",
        "{\"lease\":\"lea_a\",\"epoch\":1,\"want\":\"dance\"}",
        "{\"lease\":\"lea_a\",\"epoch\":1}",
        "7",
        "{\"lease\":\"lea_a\",\"epoch\":1,\"want\":\"run\"}",
        "{\"lease\":\"lea_a\",\"epoch\":1,\"want\":\"stop\",\"paid_for_ms\":\"soon\"}"};
    struct want *w = NULL;
    struct refusal why;
    char text[2048];

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_int_not_equal(want_parse(bad[i], strlen(bad[i]), 0, &w, &why), ERR_OK);
    for (size_t i = 0; i < ARRAY_LEN(left_out); i++) {
        (void)str_printf(text, sizeof(text), "{\"version\":1,\"ack_seq\":0,\"leases\":[%s]}",
                         left_out[i]);
        assert_int_equal(want_parse(text, strlen(text), 0, &w, &why), ERR_OK);
        assert_int_equal(w->lease_count, 0);
        assert_int_equal(w->bad, 1);
        want_free(w);
    }
    answer(text, sizeof(text), "run", 1, 600000, 9000000);
    for (size_t cut = 0; cut < strlen(text); cut++)
        assert_int_not_equal(want_parse(text, cut, 0, &w, &why), ERR_OK);
}

static void test_waiting_after_failures_grows_and_is_jittered(void **state)
{
    (void)state;
    for (uint32_t n = 0; n < 100; n++)
        for (uint32_t random = 0; random < 100000; random += 777) {
            int64_t ms = link_backoff_ms(n, random);

            assert_true(ms >= 1000 && ms <= 30000);
        }
    assert_int_not_equal(link_backoff_ms(9, 1), link_backoff_ms(9, 5000));
    assert_true(link_backoff_ms(9, 0) >= 15000);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(test_a_restart_finds_everything_again, setup, teardown),
    cmocka_unit_test_setup_teardown(test_a_reboot_ends_what_ran_at_its_last_evidence, setup,
                                    teardown),
    cmocka_unit_test_setup_teardown(test_a_lease_that_had_not_begun_is_told_anew_after_a_reboot,
                                    setup, teardown),
    cmocka_unit_test_setup_teardown(test_one_end_seen_through_two_delays_is_one_end, setup,
                                    teardown),
    cmocka_unit_test_setup_teardown(test_a_lower_epoch_changes_nothing, setup, teardown),
    cmocka_unit_test_setup_teardown(test_an_order_to_stop_keeps_the_shape, setup, teardown),
    cmocka_unit_test_setup_teardown(test_a_forgotten_lease_stays_ended_over_restarts, setup,
                                    teardown),
    cmocka_unit_test_setup_teardown(test_compaction_keeps_the_whole_state, setup, teardown),
    cmocka_unit_test(test_foreign_answers_are_bounded_and_never_guessed),
    cmocka_unit_test(test_waiting_after_failures_grows_and_is_jittered),
};
RUN_TESTS(tests)
