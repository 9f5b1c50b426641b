#include "app/sshkey.h"

#include <sodium.h>

#include "base/msg.h"

#define BLOB_MAX 1024

struct reader {
    const unsigned char *p;
    size_t n;
    bool bad;
};
struct bytes {
    const unsigned char *p;
    size_t n;
};

static enum err fault(struct refusal *why, const char *text)
{
    enum err e = refusef(why, ERR_VALIDATION, "field", "public_key");

    refusal_set(why, "why", text);
    return e;
}

/* RFC 4251: uint32 length, then the bytes. */
static struct bytes take_string(struct reader *r)
{
    struct bytes b = {0};

    if (r->bad || r->n < 4)
        goto out;
    b.n = (size_t)r->p[0] << 24 | (size_t)r->p[1] << 16 | (size_t)r->p[2] << 8 | r->p[3];
    if (b.n > r->n - 4)
        goto out;
    b.p = r->p + 4;
    r->p += 4 + b.n;
    r->n -= 4 + b.n;
    return b;
out:
    r->bad = true;
    return (struct bytes){0};
}

static bool bytes_eq(struct bytes b, const char *s)
{
    return b.p && b.n == strlen(s) && memcmp(b.p, s, b.n) == 0;
}

/* Bits of a positive mpint; 0 when it is not one in its shortest form. */
static size_t mpint_bits(struct bytes b)
{
    size_t lead = 0;

    if (!b.p || b.n == 0 || (b.p[0] & 0x80))
        return 0;
    if (b.p[0] == 0) {
        if (b.n < 2 || !(b.p[1] & 0x80))
            return 0;
        lead = 1;
    }
    size_t bits = (b.n - lead) * 8;
    for (unsigned char c = b.p[lead]; c && !(c & 0x80); c = (unsigned char)(c << 1))
        bits--;
    return bits;
}

static const char *check_rsa(struct reader *r)
{
    struct bytes e = take_string(r), n = take_string(r);
    size_t e_bits = mpint_bits(e), n_bits = mpint_bits(n);

    if (r->bad || e_bits < 2 || e_bits > 64 || !(e.p[e.n - 1] & 1) || n_bits == 0 ||
        !(n.p[n.n - 1] & 1))
        return N_("the key is damaged");
    return n_bits >= SSHKEY_RSA_BITS_MIN ? NULL
                                         : N_("RSA keys need at least 2048 bits; use ed25519");
}

static const char *check_ed25519(struct reader *r)
{
    return take_string(r).n == 32 && !r->bad ? NULL : N_("the key is damaged");
}

static const char *check_ecdsa(struct reader *r, const char *curve, size_t point)
{
    struct bytes name = take_string(r), q = take_string(r);

    return !r->bad && bytes_eq(name, curve) && q.n == point && q.p[0] == 4
               ? NULL
               : N_("the key is damaged");
}

/* Security keys: the application is bound into the key. */
static const char *check_application(struct reader *r)
{
    struct bytes app = take_string(r);

    return !r->bad && app.n > 0 && app.n < 128 ? NULL : N_("the key is damaged");
}

static const char *check_blob(const char *kind, struct reader *r)
{
    const char *text = NULL;
    bool same = bytes_eq(take_string(r), kind);

    if (str_eq(kind, "ssh-ed25519")) {
        text = check_ed25519(r);
    } else if (str_eq(kind, "ssh-rsa")) {
        text = check_rsa(r);
    } else if (str_eq(kind, "ecdsa-sha2-nistp256")) {
        text = check_ecdsa(r, "nistp256", 65);
    } else if (str_eq(kind, "ecdsa-sha2-nistp384")) {
        text = check_ecdsa(r, "nistp384", 97);
    } else if (str_eq(kind, "ecdsa-sha2-nistp521")) {
        text = check_ecdsa(r, "nistp521", 133);
    } else if (str_eq(kind, "sk-ssh-ed25519@openssh.com")) {
        text = check_ed25519(r);
        text = text ? text : check_application(r);
    } else if (str_eq(kind, "sk-ecdsa-sha2-nistp256@openssh.com")) {
        text = check_ecdsa(r, "nistp256", 65);
        text = text ? text : check_application(r);
    } else {
        return N_("this kind of key is not taken; use ed25519, RSA or ECDSA");
    }
    return text ? text : same && r->n == 0 ? NULL : N_("the key is damaged");
}

/* What people paste by mistake. */
static const char *check_line(const char *s)
{
    if (strstr(s, "PRIVATE KEY"))
        return N_("this is a private key: keep it, send the .pub file");
    if (strpbrk(s, "\r\n"))
        return N_("one key on one line is expected");
    if (!str_starts(s, "ssh-") && !str_starts(s, "ecdsa-") && !str_starts(s, "sk-"))
        return N_("a line such as \"ssh-ed25519 AAAA… name\" is expected, without options");
    for (; *s; s++)
        if ((unsigned char)*s < 0x20 || *s == 0x7F)
            return N_("control characters are not taken");
    return NULL;
}

static void cut_comment(const char *s, char *buf, size_t size)
{
    size_t n = MIN(strlen(s), size - 1);

    while (n > 0 && ((unsigned char)s[n] & 0xC0) == 0x80)
        n--;
    while (n > 0 && s[n - 1] == ' ')
        n--;
    memcpy(buf, s, n);
    buf[n] = '\0';
    if (!str_utf8_ok(buf))
        buf[0] = '\0';
}

static bool print_key(const char *kind, const unsigned char *blob, size_t n, struct sshkey *k)
{
    char b64[KEY_TEXT_SIZE];
    unsigned char sum[crypto_hash_sha256_BYTES];

    if (sodium_base64_encoded_len(n, sodium_base64_VARIANT_ORIGINAL) > sizeof(b64))
        return false;
    CHECK(sodium_bin2base64(b64, sizeof(b64), blob, n, sodium_base64_VARIANT_ORIGINAL));
    if (!str_printf(k->text, sizeof(k->text), "%s %s%s%s", kind, b64, k->comment[0] ? " " : "",
                    k->comment))
        return false;
    CHECK(crypto_hash_sha256(sum, blob, n) == 0);
    CHECK(sodium_bin2base64(b64, sizeof(b64), sum, sizeof(sum),
                            sodium_base64_VARIANT_ORIGINAL_NO_PADDING));
    return str_printf(k->fingerprint, sizeof(k->fingerprint), "SHA256:%s", b64);
}

enum err sshkey_parse(const char *line, struct sshkey *ret_k, struct refusal *why)
{
    struct sshkey k = {0};
    char copy[KEY_TEXT_SIZE * 2], kind[48];
    unsigned char blob[BLOB_MAX];
    size_t n;

    line += strspn(line, " \t\r\n");
    size_t len = strlen(line);
    while (len > 0 && strchr(" \t\r\n", line[len - 1]))
        len--;
    if (len >= sizeof(copy))
        return fault(why, strstr(line, "PRIVATE KEY")
                              ? N_("this is a private key: keep it, send the .pub file")
                              : N_("the key is longer than a 4096-bit RSA key"));
    memcpy(copy, line, len);
    copy[len] = '\0';
    const char *text = check_line(copy);
    if (text)
        return fault(why, text);
    size_t kind_len = strcspn(copy, " ");
    const char *b64 = copy + kind_len + strspn(copy + kind_len, " ");
    size_t b64_len = strcspn(b64, " ");
    if (!str_printf(kind, sizeof(kind), "%.*s", (int)kind_len, copy))
        return fault(why, N_("this kind of key is not taken; use ed25519, RSA or ECDSA"));
    if (sodium_base642bin(blob, sizeof(blob), b64, b64_len, NULL, &n, NULL,
                          sodium_base64_VARIANT_ORIGINAL) != 0)
        return fault(why, N_("the key is damaged"));
    struct reader r = {blob, n, false};
    text = check_blob(kind, &r);
    if (text)
        return fault(why, text);
    cut_comment(b64 + b64_len + strspn(b64 + b64_len, " "), k.comment, sizeof(k.comment));
    if (!print_key(kind, blob, n, &k))
        return fault(why, N_("the key is longer than a 4096-bit RSA key"));
    *ret_k = k;
    return ERR_OK;
}
