/* config.h: where the server is and who we are. Order: flag > SUANLI_* > ./.suanli.toml >
 * ~/.config/suanli/config.toml. The project file may choose a profile and defaults for renting; it
 * may not name a server, a token or a CA, so that a foreign folder cannot send a token elsewhere.
 */
#pragma once

#include "base/err.h"
#include "base/mem.h"

struct config {
    char *url, *token, *ca;                 /* owned; NULL: not set */
    char *profile, *lang, *identity;        /* owned */
    char *rent_for, *rent_image, *rent_gpu; /* owned: defaults of rent */
    char *folder;                           /* owned: ~/.config/suanli */
    char *state;                            /* owned: ~/.local/state/suanli */
    char *cache;                            /* owned: ~/.cache/suanli */
    const char *token_from;                 /* static: where the token was found */
};

/* One line of TOML's small corner: tables, key = "text" | 'text' | integer | true | false. */
struct toml_line {
    enum { TOML_EMPTY, TOML_TABLE, TOML_KEY } kind;
    char key[64]; /* table: its dotted name */
    char value[4096];
};
/* why gets line-less text; the caller adds file and line. */
enum err toml_line_parse(const char *line, struct toml_line *ret_l, struct refusal *why);

/* flags: values of --url, --ca, --profile, --lang, --token-file (NULL: not given). */
struct config_flags {
    const char *url, *ca, *profile, *lang, *token_file;
};
enum err config_load(struct config *cfg, const struct config_flags *flags, struct refusal *why);
void config_fini(struct config *cfg);
/* Writes url, token and ca into [profile.NAME] of the user's file: mode 0600, replaced whole,
 * everything else in it kept. */
enum err config_save_login(const struct config *cfg, const char *token, struct refusal *why);

/* Whole files below our folders; parents are made 0700. */
enum err file_read(const char *path, size_t max, char **ret_text, struct refusal *why);
enum err file_write(const char *path, const char *text, int mode, struct refusal *why);
enum err folder_make(const char *path, struct refusal *why);
char *path_join(const char *a, const char *b); /* owned by the caller */
