/* A layer's tar: the verdict does not depend on how the bytes are cut into pieces, and a refusal
 * says why. The first byte chooses the cut. */
#include "node/tar.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static enum err scan(const uint8_t *data, size_t size, size_t piece, struct refusal *why)
{
    static const struct tar_limits limits = {
        .bytes_max = 1 << 20, .entries_max = 64, .depth_max = 8, .path_max = 512};
    struct tar_scan t;
    enum err e = ERR_OK;

    tar_scan_init(&t, &limits);
    tar_layer_begin(&t);
    for (size_t at = 0; e == ERR_OK && at < size; at += piece)
        e = tar_feed(&t, data + at, MIN(piece, size - at), why);
    if (e == ERR_OK)
        e = tar_layer_finish(&t, why);
    CHECK(e != ERR_OK || (t.entries <= limits.entries_max && t.bytes == (int64_t)size));
    tar_scan_fini(&t);
    return e;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct refusal whole = {0}, cut = {0};

    if (size < 1)
        return 0;
    enum err e = scan(data + 1, size - 1, SIZE_MAX, &whole);
    CHECK(scan(data + 1, size - 1, (size_t)data[0] + 1, &cut) == e);
    CHECK(e == ERR_OK || (e == ERR_IMAGE_HOSTILE && whole.code == e && whole.param_count == 1));
    return 0;
}
