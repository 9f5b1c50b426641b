/* The command line's foreign bytes: lines of a project's configuration file, and texts of a server
 * that end up on a terminal. */
#include "cli/cli.h"

static const char *const unsafe[] = {"\033", "\r", "\n", "\t", "\177", "\302\233", "\342\200\256"};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    AUTO_FREE char *text = mem_alloc(size + 1);
    AUTO_STRBUF struct strbuf clean = {0};
    struct toml_line line;
    struct refusal why = {0};
    char shown[64];

    memcpy(text, data, size);
    if (toml_line_parse(text, &line, &why) == ERR_OK)
        CHECK(strlen(line.key) < sizeof(line.key) && strlen(line.value) < sizeof(line.value));
    else
        CHECK(why.code == ERR_VALIDATION && why.param_count == 1);
    strbuf_init(&clean, 2 * size + 16);
    text_clean(text, &clean);
    CHECK(!clean.overflow && clean.len <= size);
    for (size_t i = 0; i < ARRAY_LEN(unsafe); i++)
        CHECK(!str_utf8_ok(text) || !strstr(strbuf_str(&clean), unsafe[i]));
    AUTO_JSON json_t *money =
        json_pack("{s:s,s:s}", "amount", str_utf8_ok(text) ? text : "1", "currency", "CNY");
    text_money(money, shown, sizeof(shown));
    CHECK(strlen(shown) < sizeof(shown));
    text_time(text, shown, sizeof(shown));
    return 0;
}
