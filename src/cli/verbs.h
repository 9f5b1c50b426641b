/* verbs.h: every verb of the CLI, from app/operations.def and cli/verbs.def. Static data. */
#pragma once

#include <stdio.h>

#include "base/base.h"

enum arg_place { ARG_PATH, ARG_QUERY, ARG_BODY, ARG_LOCAL };
enum arg_type {
    ARG_STR,
    ARG_I64,
    ARG_BOOL,
    ARG_DURATION,
    ARG_SIZE,
    ARG_TIME,
    ARG_MONEY,
    ARG_LIST,
    ARG_OBJ
};
enum verb_flags { VERB_READ = 1, VERB_IDEM = 2, VERB_DRYRUN = 4, VERB_STREAM = 8, VERB_FILE = 16 };

struct verb {
    const char *name;          /* "instance_create"; "local_ssh" */
    const char *cli;           /* "rent", "admin node ls" */
    const char *method, *path; /* NULL: a verb of the CLI alone */
    unsigned flags;
    const char *schema, *summary;
};
struct arg {
    const char *verb; /* verb.name */
    enum arg_place place;
    const char *name; /* with underscores */
    enum arg_type type;
    bool required;
    const char *help;
};
struct example {
    const char *cli, *text;
};
struct field {
    const char *schema, *name, *type, *help;
};

extern const struct verb verbs[];
extern const size_t verb_count;
extern const struct arg args[];
extern const size_t arg_count;
extern const struct example examples[];
extern const size_t example_count;
extern const struct field fields[];
extern const size_t field_count;

/* The verb with the most words that argv begins with; NULL when there is none. */
const struct verb *verb_match(int argc, char **argv, int *ret_words);
const struct verb *verb_find(const char *cli);
/* The nearest verb to what was typed; NULL when nothing is near. */
const char *verb_near(const char *typed);
/* Words of other tools: the real verb; NULL when there is none. */
const char *verb_synonym(const char *typed);
/* Arguments of a verb in their order; i counts up from 0. NULL at the end. */
const struct arg *verb_arg(const struct verb *v, size_t i);
/* A BODY or QUERY argument that is also taken as a word ("extend NAME 2h"). */
bool arg_is_word(const struct verb *v, const struct arg *a);
const char *schema_field_type(const char *schema, const char *name); /* NULL: no such field */
/* "member" of LIST_OF(member); NULL otherwise. */
bool schema_list_of(const char *type, char *buf, size_t size);
