#include "node/link.h"

#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/str.h"

#define ANSWER_MAX (8 << 20)
#define TOKEN_MAX 512
#define CONNECT_MS 5000
#define SLACK_MS 15000 /* beyond the hold: transfer and thought */

struct link {
    CURLM *multi;               /* owned */
    CURL *easy;                 /* owned; NULL: idle */
    struct curl_slist *headers; /* owned */
    char url[300], unix_path[256], ca_file[256], token_file[300];
    char *body; /* owned: what is being sent */
    struct strbuf in;
    char curl_error[CURL_ERROR_SIZE];
    utime_t sent;
    bool over;
    struct link_answer answer; /* valid when over; body owned */
};

static size_t on_data(char *data, size_t size, size_t count, void *user)
{
    struct link *l = user;

    strbuf_add_n(&l->in, data, size * count);
    return l->in.overflow ? 0 : size * count;
}

static enum err target_set(struct link *l, const char *control, struct refusal *why)
{
    static const char *const loopback[] = {
        "http://127.0.0.1:", "http://[::1]:", "http://localhost:"};

    if (str_starts(control, "unix:")) {
        if (str_copy(l->unix_path, sizeof(l->unix_path), control + strlen("unix:")) &&
            str_copy(l->url, sizeof(l->url), "http://localhost/v1/node/sync"))
            return ERR_OK;
    } else {
        bool fine = str_starts(control, "https://");

        for (size_t i = 0; i < ARRAY_LEN(loopback); i++)
            fine = fine || str_starts(control, loopback[i]);
        size_t len = strlen(control);
        while (len > 0 && control[len - 1] == '/')
            len--;
        if (fine && len < 200 &&
            str_printf(l->url, sizeof(l->url), "%.*s/v1/node/sync", (int)len, control))
            return ERR_OK;
    }
    return refusef(why, ERR_USAGE, "what", "control \"%s\" is neither unix:, https:// nor loopback",
                   control);
}

enum err link_open(const char *control, const char *ca_file, const char *token_file,
                   struct link **ret_link, struct refusal *why)
{
    AUTO_FREE struct link *l = mem_alloc(sizeof(*l));

    TRY(target_set(l, control, why));
    if (!str_copy(l->ca_file, sizeof(l->ca_file), ca_file) ||
        !str_copy(l->token_file, sizeof(l->token_file), token_file))
        return refusef(why, ERR_USAGE, "what", "a path is too long");
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != 0)
        return refusef(why, ERR_SYSTEM, "call", "curl_global_init");
    l->multi = curl_multi_init();
    CHECK(l->multi != NULL);
    strbuf_init(&l->in, ANSWER_MAX);
    *ret_link = TAKE(l);
    return ERR_OK;
}

void link_cancel(struct link *l)
{
    if (l->easy != NULL) {
        (void)curl_multi_remove_handle(l->multi, l->easy);
        curl_easy_cleanup(l->easy);
        l->easy = NULL;
    }
    curl_slist_free_all(l->headers);
    l->headers = NULL;
    free(TAKE(l->body));
    strbuf_fini(&l->in);
    strbuf_init(&l->in, ANSWER_MAX);
    if (l->over)
        free(TAKE(l->answer.body));
    l->over = false;
}

void link_close(struct link *l)
{
    if (l == NULL)
        return;
    link_cancel(l);
    (void)curl_multi_cleanup(l->multi);
    strbuf_fini(&l->in);
    free(l);
}

bool link_busy(const struct link *l)
{
    return l->easy != NULL || l->over;
}

static void token_header(struct link *l)
{
    char token[TOKEN_MAX] = "", line[TOKEN_MAX + 32];
    AUTO_CLOSE int fd = open(l->token_file, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, token, sizeof(token) - 1) : -1;

    token[n > 0 ? n : 0] = '\0';
    token[strcspn(token, "\r\n \t")] = '\0';
    if (token[0] != '\0' && str_printf(line, sizeof(line), "Authorization: Bearer %s", token))
        l->headers = curl_slist_append(l->headers, line);
    explicit_bzero(token, sizeof(token));
    explicit_bzero(line, sizeof(line));
}

void link_send(struct link *l, char *body, int64_t wait_ms)
{
    struct clock *c = clock_system();

    link_cancel(l);
    l->body = body;
    l->easy = curl_easy_init();
    CHECK(l->easy != NULL);
    l->headers = curl_slist_append(NULL, "Content-Type: application/json");
    l->headers = curl_slist_append(l->headers, "Expect:");
    token_header(l);
    l->curl_error[0] = '\0';
    curl_easy_setopt(l->easy, CURLOPT_URL, l->url);
    if (l->unix_path[0] != '\0')
        curl_easy_setopt(l->easy, CURLOPT_UNIX_SOCKET_PATH, l->unix_path);
    if (l->ca_file[0] != '\0')
        curl_easy_setopt(l->easy, CURLOPT_CAINFO, l->ca_file);
    curl_easy_setopt(l->easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(l->easy, CURLOPT_PROXY, "");
    curl_easy_setopt(l->easy, CURLOPT_HTTPHEADER, l->headers);
    curl_easy_setopt(l->easy, CURLOPT_POSTFIELDS, l->body);
    curl_easy_setopt(l->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)strlen(l->body));
    curl_easy_setopt(l->easy, CURLOPT_WRITEFUNCTION, on_data);
    curl_easy_setopt(l->easy, CURLOPT_WRITEDATA, l);
    curl_easy_setopt(l->easy, CURLOPT_ERRORBUFFER, l->curl_error);
    curl_easy_setopt(l->easy, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS);
    curl_easy_setopt(l->easy, CURLOPT_TIMEOUT_MS, (long)(wait_ms + SLACK_MS));
    curl_easy_setopt(l->easy, CURLOPT_NOSIGNAL, 1L);
    /* Before anything can leave: a later moment would let an end come late. */
    l->sent = c->boot_ms(c);
    CHECK(curl_multi_add_handle(l->multi, l->easy) == CURLM_OK);
}

static void finish(struct link *l, CURLcode code)
{
    long status = 0;
    struct link_answer a = {.sent_boot_ms = l->sent};

    curl_easy_getinfo(l->easy, CURLINFO_RESPONSE_CODE, &status);
    if (code == CURLE_OK)
        a.status = (int)status;
    else
        (void)str_printf(a.error, sizeof(a.error), "%.150s",
                         l->curl_error[0] != '\0' ? l->curl_error : curl_easy_strerror(code));
    a.len = l->in.len;
    a.body = strbuf_take(&l->in);
    link_cancel(l);
    l->answer = a;
    l->over = true;
}

void link_wait(struct link *l, struct pollfd *fds, size_t count, int64_t timeout_ms)
{
    struct curl_waitfd extra[16];
    int running = 0, left = 0, n = 0;
    CURLMsg *m;

    CHECK(count <= ARRAY_LEN(extra));
    for (size_t i = 0; i < count; i++)
        extra[i] = (struct curl_waitfd){.fd = fds[i].fd, .events = CURL_WAIT_POLLIN};
    (void)curl_multi_perform(l->multi, &running);
    if (l->easy == NULL || running > 0)
        (void)curl_multi_poll(l->multi, extra, (unsigned)count,
                              (int)MIN(MAX(timeout_ms, (int64_t)0), (int64_t)60000), &n);
    (void)curl_multi_perform(l->multi, &running);
    while ((m = curl_multi_info_read(l->multi, &left)) != NULL)
        if (m->msg == CURLMSG_DONE && m->easy_handle == l->easy) {
            finish(l, m->data.result);
            break;
        }
}

bool link_take(struct link *l, struct link_answer *ret_answer)
{
    if (!l->over)
        return false;
    *ret_answer = l->answer;
    l->answer.body = NULL;
    l->over = false;
    return true;
}

int64_t link_backoff_ms(uint32_t failures, uint32_t random)
{
    int64_t whole = failures > 5 ? 30000 : MIN(INT64_C(1000) << failures, INT64_C(30000));

    return MAX(whole / 2 + random % (whole / 2 + 1), INT64_C(1000));
}
