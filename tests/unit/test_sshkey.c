#include "../support/tap.h"

#include "app/sshkey.h"

/* Made with ssh-keygen; fingerprints by ssh-keygen -l. */
static const struct {
    const char *line, *fingerprint;
} good[] = {
    {"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIMs8rV+h1+oW1YhX9Pm0TBVIsRdmCBwSGxDUV+u15j9U"
     " alice@laptop",
     "SHA256:u4QrKKKyn0NiQbpiihYaB3h9CaA1NWX1cOBmFjYTZHQ"},
    {"ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABAQD2hrKs5Coc2OhF/8fSVRCL1KtRkpgjhA5u23ZVf/NQ"
     "eF+IZJNwaNOaYq769lE1gaKZwOj4TkZsraOWBPSt049cTIbwSGWYmrix7O0M6uqJOdSVTjQ2C3S7hp8z"
     "wI6WmbzUg19fLyM2b6U72u/RtqYR3FDpCQgGDYxppH/HXYAFQOu4s4umfTLAMafG8+Sn631LTxRESkfs"
     "eMayIjcH67/uRO949QH6p457F7khLxiQB+Hgya5K44HzlKCFHeoWN6ALoElCOEcJEstCdA5pe3WnCIoB"
     "dHxNGUw5wLQD1JCD7AjYOjmOoGDdv95i0ppBNg4nk8GnUZJTkrTgGOaiIx35 alice@laptop",
     "SHA256:/8LTw8wUJmmHf1QEz8INTi7oasEiY03tKwEEwUGdeY4"},
    {"ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAACAQD7OCuk2yNnBORFmiBGXbqn9DwaXJUwvQ5+R4wlGFLO"
     "8f7D4jZ6gc9QNVHcOrgSDacjEL4WyuvkegSqkg8hffqHjIh2irj/I9fZ3Od1NVv7gEwE7/856LabD0OZ"
     "+LZzEigsLCHHGpSwmzM8st1jGe+9fOqLoK8XaIaU55hODJV9ub11qQd/Eb4U7UD9nW3J17IDPF9P0Orq"
     "7OmK+2CIQWI7Qn85RT/0J3RXZ7eVSEL6kT7XlVRPycd1uSi19tEEMSdyevOTXGW5QZACWLt9UdTIf+DL"
     "/F9vCwsYdVtU7qgDFt4iYmn1GWTbAFhFs5xmjD4b/dsjIEdfI1HIq54WaLGiJLOreD44ENHAqXBqLMCN"
     "VRqIU9/mUR+qPGo00umHWrxm2H4vEQYGhlmyNQ2ydn3LwMGJ3p0CtJyWfFr/REFv8tujmUz5TFagzFGF"
     "4z7GJlNyN1Hx1Sa85Vcq51io2VKAJVsomH1ifOQGyRHWy44Dh6bRhGEbMJ5dpxaubk7smXOVKyb7susa"
     "8iwNnAuBmJ5vsoVvPI5ne5WU2qeSx4d/8UR/Lbp0S7bBX/oaHuNNLNY1ZmxTb+E0Q/tU+J+pjbQksBf1"
     "vI/WjMvP3F6VGKLZu78AQuDxA/TCDql4xhu8CZCevf3xeKGrZXOkvwR1tusHrVU6nJ/pE9P9Q4FSri1l"
     "LQ== alice@laptop",
     "SHA256:PyIwPRPCQy7weXIE9Nf16BCTDrypX6pn1dRYcsTqUbc"},
    {"ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBA/LHCww"
     "ueP8c7KybvIyakoH9Bqw3mpFCH02isbnnKE7lS4ftDz6+Dcu1EYUIGyrlAMvYDRd8LwHmmNowv672rw="
     " alice@laptop",
     "SHA256:yZoCFavbsapYLDmBnOMjlNMR1t43lGskJ29tjN4qQpI"},
    {"ecdsa-sha2-nistp384 AAAAE2VjZHNhLXNoYTItbmlzdHAzODQAAAAIbmlzdHAzODQAAABhBDDO6Dbu"
     "JzsDhLVCZwFGNkNQjXPC3Tifrv4/B02j49fESZyD23a6qzTsjS5ALDDiRE0KzVHlCDqiKTZcWbsR2vNs"
     "9BCrd7+PiPxm+P2VVDhRQOkJhRaax4fUgts+jK3iJw== alice@laptop",
     "SHA256:oqSuXREF07XsUukZASlMcbkHrlUSGQDRJdLet8hI4+8"},
    {"ecdsa-sha2-nistp521 AAAAE2VjZHNhLXNoYTItbmlzdHA1MjEAAAAIbmlzdHA1MjEAAACFBAFQukRp"
     "cSN52uROTD6oA9HQa8Zar6zRPxEO71qCRGtiFiuNxy2b2M2LDl/jR5L5iaTnaIeOcV8dP5LbxQn1j/KS"
     "rQAvhxZbqgwHcHFdcXsBUVAmaxSEH7fHfDJ/ghXkhSb6X8NtNc1p4S/6PJAOn/gsP9Z3PBpnuths0hhx"
     "X+OM6jP3eQ== alice@laptop",
     "SHA256:aLqC1K2KIVineUeqMz76oaYEAkNdvUrd8TIztlzomDM"},
    /* security keys, from their published layout */
    {"sk-ssh-ed25519@openssh.com "
     "AAAAGnNrLXNzaC1lZDI1NTE5QG9wZW5zc2guY29tAAAAICFo/k5LU8863u66YC9eUO2170QduohPURkQnbLa/"
     "dczAAAABHNz"
     "aDo=",
     NULL},
};
static const char rsa_1024[] =
    "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAAAgQDac0j1rxGeioz4f2KAKPmy7qtsMyZztojj1uqBkvor"
    "aRt4zG9XNYhs+y/xHZYQ0wg07cxGnjvmrLi3EUXLZcVGyVZmvEbYODHFlLskFDTCy6G6lwCzKOG1VtDu"
    "Zznqk1YSfYMlatrbmaRyA6FraXE4TG7ew//6u+JPx/ZQoWcvqw== alice@laptop";

static void test_good_keys_are_taken_with_the_fingerprint_of_ssh_keygen(void **state)
{
    struct sshkey k;
    struct refusal why;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        assert_int_equal(sshkey_parse(good[i].line, &k, &why), ERR_OK);
        assert_string_equal(k.text, good[i].line);
        if (good[i].fingerprint)
            assert_string_equal(k.fingerprint, good[i].fingerprint);
    }
}

static void test_blanks_around_a_pasted_line_do_not_matter(void **state)
{
    struct sshkey k;
    char line[1200];

    (void)state;
    assert_true(str_printf(line, sizeof(line), "  %s \r\n", good[0].line));
    assert_int_equal(sshkey_parse(line, &k, NULL), ERR_OK);
    assert_string_equal(k.text, good[0].line);
    assert_string_equal(k.comment, "alice@laptop");
}

static void refused(const char *line)
{
    struct sshkey k;
    struct refusal why = {0};

    assert_int_equal(sshkey_parse(line, &k, &why), ERR_VALIDATION);
    assert_string_equal(why.params[0].value, "public_key");
    assert_true(why.params[1].value[0] != '\0');
}

static void test_what_is_no_good_public_key_is_refused(void **state)
{
    char line[1200];

    (void)state;
    refused("");
    refused("hello");
    refused("-----BEGIN OPENSSH PRIVATE KEY-----\nabc\n-----END OPENSSH PRIVATE KEY-----");
    refused("ssh-ed25519");
    refused("ssh-ed25519 ");
    refused("ssh-ed25519 AAAA");
    refused("ssh-ed25519 ====");
    refused("ssh-dss AAAAB3NzaC1kc3MAAACBAA==");
    refused(rsa_1024);
    /* options, another kind in front, a second line, a control character */
    assert_true(str_printf(line, sizeof(line), "command=\"id\" %s", good[0].line));
    refused(line);
    assert_true(str_printf(line, sizeof(line), "ssh-rsa %s", strchr(good[0].line, ' ') + 1));
    refused(line);
    assert_true(str_printf(line, sizeof(line), "%s\n%s", good[0].line, good[0].line));
    refused(line);
    assert_true(str_printf(line, sizeof(line), "%s\x1b[2J", good[0].line));
    refused(line);
}

static void test_every_prefix_of_a_key_is_refused(void **state)
{
    char line[1200];

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        const char *blob = strchr(good[i].line, ' ') + 1;
        size_t end = (size_t)(blob - good[i].line) + strcspn(blob, " ");
        for (size_t n = 0; n < end; n++) {
            assert_true(str_printf(line, sizeof(line), "%.*s", (int)n, good[i].line));
            refused(line);
        }
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_good_keys_are_taken_with_the_fingerprint_of_ssh_keygen),
    cmocka_unit_test(test_blanks_around_a_pasted_line_do_not_matter),
    cmocka_unit_test(test_what_is_no_good_public_key_is_refused),
    cmocka_unit_test(test_every_prefix_of_a_key_is_refused),
};
RUN_TESTS(tests)
