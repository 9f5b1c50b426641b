/* model_file.h: a model from a path: a config.json, a safetensors file or its index, a GGUF file,
 * or a folder with them. Reads heads of files only, bounded (domain/model.h); follows nothing that
 * is not a regular file. */
#pragma once

#include "domain/size.h"

/* Does the word mean a file or folder rather than a model's name? */
bool model_file_meant(const char *word);
/* ret_source: static, "config.json", "safetensors", "gguf". Refusals: ERR_NOT_FOUND, ERR_SYSTEM,
 * ERR_MODEL_FILE, ERR_MODEL_KIND, ERR_VALIDATION. */
enum err model_file_load(const char *path, const char *like, struct size_model *ret_m,
                         const char **ret_source, struct refusal *why);
