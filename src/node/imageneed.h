/* imageneed.h: what an image says about the driver it needs and the framework it brings. Pure; the
 * config is a stranger's text, what is taken from it is short and plain. Any thread. */
#pragma once

#include "base/json.h"

struct image_need {
    char driver[32], cuda[16]; /* least version, digits and dots; "": none named */
    char framework[64];        /* "PyTorch 2.1.0, CUDA 12.1"; "": it does not say */
};

/* From the config kept at import (drivers.h, image_config). In this order:
 *   labels suanli.need.driver, suanli.need.cuda, suanli.framework: the word of who made the image
 *   NVIDIA_REQUIRE_*: "cuda>=12.4 brand=tesla,driver>=535 …": alternatives; one that speaks of a
 *     brand is for cards with a compatibility package and is passed over. All of the variables
 * hold. NVIDIA_DISABLE_REQUIRE takes them away, as it does in NVIDIA's own tools. PYTORCH_VERSION,
 * TENSORFLOW_VERSION and CUDA_VERSION for the framework. */
void image_need_read(const json_t *config, struct image_need *ret_n);
