/* golden-billing FILE: runs worked examples through the domain, one line a row, then
 * "N passed, N failed". Exit 0 only if no row failed and there was one; 2 when it cannot be read.
 */
#include <stdio.h>

#include "golden.h"

int main(int argc, char **argv)
{
    size_t passed = 0, failed = 0, cap = 0;
    char *line = NULL;

    if (argc != 2) {
        fprintf(stderr, "usage: golden-billing FILE\n");
        return 2;
    }
    FILE *f = fopen(argv[1], "re");
    if (!f) {
        fprintf(stderr, "golden-billing: %s cannot be read\n", argv[1]);
        return 2;
    }
    while (getline(&line, &cap, f) > 0) {
        struct strbuf text;

        if (golden_skips(line))
            continue;
        strbuf_init(&text, GOLDEN_LINE_MAX);
        bool ok = golden_line(line, &text);
        printf("%s\n", strbuf_str(&text));
        strbuf_fini(&text);
        passed += ok;
        failed += !ok;
    }
    free(line);
    fclose(f);
    printf("%zu passed, %zu failed\n", passed, failed);
    return failed == 0 && passed > 0 ? 0 : 1;
}
