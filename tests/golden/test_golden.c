/* Every row of the golden files is a test; then the evaluator itself: it must not be generous. */
#include <stdio.h>

#include "golden.h"

static size_t count;
static bool all_ok = true;

static void report(bool ok, const char *name)
{
    printf("%s %zu - %s\n", ok ? "ok" : "not ok", ++count, name);
    all_ok = all_ok && ok;
}

static void run_file(const char *path)
{
    char *line = NULL;
    size_t cap = 0;
    FILE *f = fopen(path, "re");

    if (!f) {
        report(false, path);
        return;
    }
    while (getline(&line, &cap, f) > 0) {
        struct strbuf text;

        if (golden_skips(line))
            continue;
        strbuf_init(&text, GOLDEN_LINE_MAX);
        bool ok = golden_line(line, &text);
        report(ok, strbuf_str(&text));
        strbuf_fini(&text);
    }
    free(line);
    fclose(f);
}

static void must_fail(const char *name, const char *line)
{
    struct strbuf text;

    strbuf_init(&text, GOLDEN_LINE_MAX);
    report(!golden_line(line, &text), name);
    strbuf_fini(&text);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        run_file(argv[i]);
    must_fail("an unknown area fails",
              "X\tmagic\tt\t{\"price_u\":1,\"per\":1,\"qty\":1}\t{\"charge_u\":1}\td");
    must_fail(
        "an unknown input key fails",
        "X\tper-second\tt\t{\"price_u\":1,\"per\":1,\"qty\":1,\"moon\":1}\t{\"charge_u\":1}\td");
    must_fail(
        "an unknown key deep in the inputs fails",
        "X\tdedupe\tt\t{\"price_u\":1,\"per\":1,\"deliveries\":[{\"id\":\"a\",\"t0\":0,\"t1\":1,"
        "\"x\":1}]}\t{\"qty\":1}\td");
    must_fail("an expectation that is not computed fails",
              "X\tper-second\tt\t{\"price_u\":1,\"per\":1,\"qty\":1}\t{\"weight_u\":1}\td");
    must_fail("a wrong number fails",
              "B01\tper-second\tt\t{\"price_u\":1980000,\"per\":3600,\"qty\":3600}\t"
              "{\"charge_u\":1980001}\td");
    must_fail("an empty expectation fails",
              "X\tper-second\tt\t{\"price_u\":1,\"per\":1,\"qty\":1}\t{}\td");
    must_fail("a row that is not JSON fails", "X\tper-second\tt\t{price}\t{}\td");
    must_fail("a short row fails", "X\tper-second\tt");
    must_fail("a missing price fails",
              "X\tper-second\tt\t{\"per\":1,\"qty\":1}\t{\"charge_u\":0}\td");
    printf("1..%zu\n", count);
    return all_ok ? 0 : 1;
}
