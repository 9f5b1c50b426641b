/* A pasted public key: refused, or its canonical line is taken again with the same fingerprint. */
#include <stdlib.h>

#include "app/sshkey.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct refusal why = {0};
    struct sshkey k, again;
    char *text = malloc(size + 1);

    CHECK(text);
    memcpy(text, data, size);
    text[size] = '\0';
    if (sshkey_parse(text, &k, &why) == ERR_OK) {
        CHECK(!strpbrk(k.text, "\r\n"));
        CHECK(sshkey_parse(k.text, &again, &why) == ERR_OK);
        CHECK(str_eq(k.fingerprint, again.fingerprint) && str_eq(k.text, again.text));
    } else {
        CHECK(why.code == ERR_VALIDATION);
    }
    free(text);
    return 0;
}
