/* client.c: one request, one answer, by libcurl. The address is https://…, http:// on loopback, or
 * unix:/path of the server's socket. */
#include <curl/curl.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/idem.h"
#include "cli/transport.h"

static volatile sig_atomic_t was_interrupted;
static CURL *handle;
static bool quick; /* the call in work is not worth waiting for */

static void on_interrupt(int sig UNUSED)
{
    was_interrupted = 1;
}

void interrupt_watch(void)
{
    struct sigaction act = {.sa_handler = on_interrupt};

    sigaction(SIGINT, &act, NULL);
}

bool interrupted(void)
{
    return was_interrupted;
}

void pause_ms(int ms)
{
    struct timespec left = {ms / 1000, (long)(ms % 1000) * 1000000};

    if (!was_interrupted)
        nanosleep(&left, NULL);
}

bool answer_wait(void)
{
    struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
    sigset_t held, before;
    int n = -1;

    (void)sigemptyset(&held);
    (void)sigaddset(&held, SIGINT);
    (void)sigprocmask(SIG_BLOCK, &held, &before);
    if (!was_interrupted)
        n = ppoll(&in, 1, NULL, &before);
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
    return n > 0;
}

void answer_init(struct answer *a)
{
    *a = (struct answer){0};
    strbuf_init(&a->body, ANSWER_MAX);
}

static void answer_reset(struct answer *a)
{
    strbuf_reset(&a->body);
    json_decref(a->json);
    a->json = NULL;
    a->status = 0;
    a->exit = 0;
    a->sent = false;
    a->retry_after_s = 0;
    a->request_id[0] = '\0';
}

void answer_fini(struct answer *a)
{
    strbuf_fini(&a->body);
    json_decref(a->json);
    *a = (struct answer){0};
}

void url_escape(struct strbuf *out, const char *value)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~";

    for (; *value; value++) {
        if (strchr(plain, *value))
            strbuf_add_n(out, value, 1);
        else
            strbuf_addf(out, "%%%02X", (unsigned char)*value);
    }
}

static size_t on_body(char *data, size_t size, size_t count, void *user)
{
    struct answer *a = user;

    strbuf_add_n(&a->body, data, size * count);
    return a->body.overflow ? 0 : size * count;
}

static bool header_value(const char *line, size_t len, const char *name, char *buf, size_t size)
{
    size_t n = strlen(name);

    if (len <= n || strncasecmp(line, name, n) != 0 || line[n] != ':')
        return false;
    for (n++; n < len && line[n] == ' '; n++)
        ;
    while (len > n && (line[len - 1] == '\r' || line[len - 1] == '\n'))
        len--;
    return str_printf(buf, size, "%.*s", (int)(len - n), line + n);
}

static size_t on_header(char *data, size_t size, size_t count, void *user)
{
    struct answer *a = user;
    size_t len = size * count;
    char value[128];

    if (header_value(data, len, "X-Request-Id", value, sizeof(value)))
        str_copy(a->request_id, sizeof(a->request_id), value);
    else if (header_value(data, len, "Date", value, sizeof(value)))
        a->date_s = curl_getdate(value, NULL);
    else if (header_value(data, len, "Retry-After", value, sizeof(value)) &&
             str_parse_i64(value, 0, 3600, &a->retry_after_s) != ERR_OK)
        a->retry_after_s = 0;
    return len;
}

static int on_progress(void *user UNUSED, curl_off_t a UNUSED, curl_off_t b UNUSED,
                       curl_off_t d UNUSED, curl_off_t e UNUSED)
{
    return was_interrupted;
}

/* Plain http carries the token in the clear: only to this very machine. */
static bool is_loopback(const char *url)
{
    const char *host = url + strlen("http://");
    size_t n = strcspn(host, ":/?#");

    return memchr(host, '@', strcspn(host, "/")) == NULL &&
           ((n == 9 && strncmp(host, "localhost", 9) == 0) || str_starts(host, "[::1]") ||
            (n >= 7 && str_starts(host, "127.") && strspn(host, "0123456789.") == n));
}

enum err transport_url(struct cli *c, const char *path, CURL *curl, struct refusal *why)
{
    AUTO_STRBUF struct strbuf url = {0};
    const char *base = c->cfg.url;

    if (!base)
        return refuse(why, ERR_AUTH_REQUIRED);
    strbuf_init(&url, 64 * 1024);
    if (str_starts(base, "unix:")) {
        const char *socket = base + 5 + (str_starts(base, "unix://") ? 2 : 0);
        curl_easy_setopt(curl, CURLOPT_UNIX_SOCKET_PATH, socket);
        base = "http://localhost";
    } else if (!str_starts(base, "https://") &&
               !(str_starts(base, "http://") && is_loopback(base))) {
        enum err e = refusef(why, ERR_VALIDATION, "field", "url");
        refusal_set(why, "why", tr("https://HOST, http:// on this machine, or unix:/path"));
        return e;
    }
    size_t n = strlen(base);
    strbuf_addf(&url, "%.*s%s", (int)(n && base[n - 1] == '/' ? n - 1 : n), base, path);
    curl_easy_setopt(curl, CURLOPT_URL, strbuf_str(&url));
    return ERR_OK;
}

static void add_header(struct curl_slist **list, const char *name, const char *value)
{
    AUTO_STRBUF struct strbuf b = {0};

    strbuf_init(&b, 8192);
    strbuf_addf(&b, "%s: %s", name, value);
    *list = curl_slist_append(*list, strbuf_str(&b));
}

struct curl_slist *transport_headers(struct cli *c, const char *accept, const char *idem_key,
                                     bool has_body)
{
    struct curl_slist *list = NULL;

    add_header(&list, "Accept", accept);
    add_header(&list, "Accept-Language", c->lang == LANG_ZH ? "zh-CN" : "en");
    if (c->cfg.token) {
        AUTO_STRBUF struct strbuf b = {0};
        strbuf_init(&b, 8192);
        strbuf_addf(&b, "Bearer %s", c->cfg.token);
        add_header(&list, "Authorization", strbuf_str(&b));
    }
    if (idem_key)
        add_header(&list, "Idempotency-Key", idem_key);
    if (has_body)
        add_header(&list, "Content-Type", "application/json");
    list = curl_slist_append(list, "Expect:");
    return list;
}

void transport_options(struct cli *c, CURL *curl)
{
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_USERAGENT, "suanli/" CLI_VERSION);
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, 10L);
    curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, on_progress);
    if (str_starts(c->cfg.url, "http://127.") || str_starts(c->cfg.url, "unix:"))
        curl_easy_setopt(curl, CURLOPT_NOPROXY, "*");
    if (c->cfg.ca)
        curl_easy_setopt(curl, CURLOPT_CAINFO, c->cfg.ca);
}

enum err transport_error(struct cli *c, CURLcode code, struct refusal *why)
{
    if (code == CURLE_ABORTED_BY_CALLBACK)
        return refuse(why, ERR_INTERRUPTED);
    if (code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE) {
        enum err e = refusef(why, ERR_VALIDATION, "field", "TLS");
        refusal_setf(why, "why", "%s (--ca FILE)", curl_easy_strerror(code));
        return e;
    }
    return refusef(why, ERR_UNREACHABLE, "what", "%s (%s)", c->cfg.url, curl_easy_strerror(code));
}

static void answer_read(struct answer *a)
{
    if (a->body.len && json_parse(a->body.data, a->body.len, ANSWER_MAX, &a->json, NULL) != ERR_OK)
        a->json = NULL;
    enum err e;
    if (a->status >= 200 && a->status < 300)
        a->exit = 0;
    else if (err_find(field_str(a->json, "code"), &e) && e != ERR_OK)
        a->exit = err_exit(e);
    else
        a->exit = a->status >= 500 ? 9 : 1;
}

static enum err call_once(struct cli *c, const char *method, const char *path, const char *body,
                          const char *key, struct answer *a)
{
    if (!handle)
        handle = curl_easy_init();
    CHECK(handle);
    curl_easy_reset(handle);
    answer_reset(a);
    TRY(transport_url(c, path, handle, &a->why));
    struct curl_slist *headers =
        transport_headers(c, "application/json, application/problem+json", key, body != NULL);
    transport_options(c, handle);
    curl_easy_setopt(handle, CURLOPT_HTTPHEADER, headers);
    if (body) {
        curl_easy_setopt(handle, CURLOPT_POSTFIELDS, body);
        curl_easy_setopt(handle, CURLOPT_POSTFIELDSIZE, (long)strlen(body));
    }
    curl_easy_setopt(handle, CURLOPT_CUSTOMREQUEST, method);
    curl_easy_setopt(handle, CURLOPT_TIMEOUT, 120L);
    if (quick) {
        curl_easy_setopt(handle, CURLOPT_CONNECTTIMEOUT_MS, 500L);
        curl_easy_setopt(handle, CURLOPT_TIMEOUT_MS, 1500L);
    }
    curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(handle, CURLOPT_WRITEDATA, a);
    curl_easy_setopt(handle, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(handle, CURLOPT_HEADERDATA, a);
    CURLcode code = curl_easy_perform(handle);
    curl_slist_free_all(headers);
    a->sent = code != CURLE_COULDNT_CONNECT && code != CURLE_COULDNT_RESOLVE_HOST &&
              code != CURLE_PEER_FAILED_VERIFICATION && code != CURLE_SSL_CACERT_BADFILE &&
              code != CURLE_SSL_CONNECT_ERROR;
    if (code != CURLE_OK)
        return transport_error(c, code, &a->why);
    curl_easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &a->status);
    answer_read(a);
    return ERR_OK;
}

/* Safe to repeat: reads, and acts that carry a key. Obeys Retry-After, at most a minute in all. */
static enum err call_patient(struct cli *c, const char *method, const char *path, const char *body,
                             const char *key, struct answer *a)
{
    int64_t waited = 0;

    for (;;) {
        TRY(call_once(c, method, path, body, key, a));
        bool later = a->status == 429 || a->status == 503;
        int64_t wait = a->retry_after_s;
        if (quick || !later || wait <= 0 || waited + wait > 60 || (!key && !str_eq(method, "GET")))
            return ERR_OK;
        say(c, tr("The server is busy; trying again in %" PRId64 " s."), wait);
        for (int64_t i = 0; i < wait && !was_interrupted; i++)
            pause_ms(1000);
        waited += wait;
    }
}

static bool call_keyed(struct cli *c, const char *method, const char *path, const char *body,
                       struct answer *a, enum err *ret_e)
{
    AUTO_STRBUF struct strbuf act = {0};
    struct idem idem;

    strbuf_init(&act, 4 << 20);
    /* The quote and the seen price differ at each try; the act is what was asked for. */
    strbuf_addf(&act, "%s %s %s\n%s\n", method, c->cfg.url ? c->cfg.url : "", path,
                c->cfg.profile ? c->cfg.profile : "");
    AUTO_JSON json_t *o = NULL;
    if (body && json_parse(body, strlen(body), ANSWER_MAX, &o, NULL) == ERR_OK) {
        json_object_del(o, "quote");
        json_object_del(o, "price");
        char *sorted = json_dumps(o, JSON_SORT_KEYS | JSON_COMPACT);
        strbuf_add(&act, sorted ? sorted : "");
        free(sorted);
    }
    idem_open(&idem, &c->cfg, strbuf_str(&act), body);
    if (idem.again)
        say(c, "%s", tr("Going on with the same act as a moment ago (its answer was lost)."));
    *ret_e = call_patient(c, method, path, idem.body, idem.key, a);
    /* a problem document is the server's word that nothing was done; a proxy's 502 is not */
    bool answered = *ret_e == ERR_OK && (a->status < 500 || field_is(a->json, "code"));
    bool lost = (a->sent || idem.again) && !answered;
    if (!lost)
        idem_done(&idem);
    idem_fini(&idem);
    return lost;
}

bool api_call(struct cli *c, const char *method, const char *path, const char *body, unsigned flags,
              struct answer *a)
{
    enum err e;
    bool lost = false;

    quick = flags & CALL_QUICK;
    if (flags & CALL_IDEM)
        lost = call_keyed(c, method, path, body, a, &e);
    else
        e = call_patient(c, method, path, body, NULL, a);
    if (e != ERR_OK) {
        a->exit = err_exit(e);
        a->status = 0;
    } else if (a->status >= 200 && a->status < 300) {
        return true;
    }
    if (!(flags & CALL_QUIET)) {
        fail_answer(c, a);
        if (lost)
            say(c, "%s",
                tr("It is not known whether the server did it. The same command within a "
                   "minute goes on with the same act; nothing is done twice."));
    }
    return false;
}

bool api_get(struct cli *c, const char *path, struct answer *a)
{
    return api_call(c, "GET", path, NULL, 0, a);
}

void client_fini(void)
{
    if (handle)
        curl_easy_cleanup(handle);
    handle = NULL;
}
