#include "cli/verbs.h"

#include "base/msg.h"
#include "base/str.h"

/* Names that operations.def uses for columns we read; the others are dropped here. */
#define OPF_READ VERB_READ
#define OPF_IDEM VERB_IDEM
#define OPF_DRYRUN VERB_DRYRUN
#define OPF_STREAM VERB_STREAM
#define OPF_FILE VERB_FILE

const struct verb verbs[] = {
#define OP(name, method, path, role, flags, cli, schema, summary)                                  \
    {#name, cli, #method, path, flags, #schema, summary},
#define ARG(op, place, name, type, required, help)
#include "app/operations.def"
#undef OP
#undef ARG
#define VERB(name, cli, summary) {"local_" #name, cli, NULL, NULL, 0, NULL, summary},
#define FLAG(verb, place, name, type, required, help)
#define EXAMPLE(cli, text)
#include "cli/verbs.def"
#undef VERB
#undef FLAG
#undef EXAMPLE
};
const size_t verb_count = ARRAY_LEN(verbs);

const struct arg args[] = {
#define OP(name, method, path, role, flags, cli, schema, summary)
#define ARG(op, place, name, type, required, help)                                                 \
    {#op, ARG_##place, #name, ARG_##type, required, help},
#include "app/operations.def"
#undef OP
#undef ARG
#define VERB(name, cli, summary)
#define FLAG(verb, place, name, type, required, help)                                              \
    {#verb, ARG_##place, #name, ARG_##type, required, help},
#define EXAMPLE(cli, text)
#include "cli/verbs.def"
#undef VERB
#undef FLAG
#undef EXAMPLE
};
const size_t arg_count = ARRAY_LEN(args);

const struct example examples[] = {
#define VERB(name, cli, summary)
#define FLAG(verb, place, name, type, required, help)
#define EXAMPLE(cli, text) {cli, text},
#include "cli/verbs.def"
#undef VERB
#undef FLAG
#undef EXAMPLE
};
const size_t example_count = ARRAY_LEN(examples);

const struct field fields[] = {
#define SCHEMA(name)
#define FIELD(schema, name, type, help) {#schema, #name, #type, help},
#include "app/schemas.def"
#undef SCHEMA
#undef FIELD
};
const size_t field_count = ARRAY_LEN(fields);

/* Words a verb takes beside its path: the everyday form of a flag. */
static const struct {
    const char *cli, *arg;
} word_args[] = {
    {"extend", "by"},        {"disk attach", "instance"}, {"offers", "filter"},
    {"bill", "month"},       {"key add", "public_key"},   {"disk create", "size"},
    {"disk grow", "size"},   {"usage export", "month"},   {"wallet statement", "month"},
    {"bill export", "month"}};

/* What fingers bring from docker, kubectl, Slurm and the clouds. */
static const struct {
    const char *typed, *real;
} synonyms[] = {{"run", "rent"},       {"create", "rent"},        {"launch", "rent"},
                {"up", "rent"},        {"sbatch", "rent"},        {"salloc", "rent"},
                {"ps", "ls"},          {"status", "ls"},          {"squeue", "ls"},
                {"list", "ls"},        {"sinfo", "offers"},       {"gpu", "offers"},
                {"gpus", "offers"},    {"search", "offers"},      {"cost", "bill"},
                {"balance", "wallet"}, {"log", "logs"},           {"describe", "show"},
                {"info", "show"},      {"images", "image ls"},    {"disks", "disk ls"},
                {"keys", "key ls"},    {"nodes", "admin node ls"}};

const struct verb *verb_find(const char *cli)
{
    for (size_t i = 0; i < verb_count; i++)
        if (*verbs[i].cli && str_eq(verbs[i].cli, cli))
            return &verbs[i];
    return NULL;
}

/* Number of words of cli when argv begins with all of them, else 0. */
static int words_match(const char *cli, int argc, char **argv)
{
    int n = 0;

    while (*cli) {
        size_t len = strcspn(cli, " ");
        if (n >= argc || strlen(argv[n]) != len || memcmp(argv[n], cli, len) != 0)
            return 0;
        n++;
        cli += len + (cli[len] == ' ');
    }
    return n;
}

const struct verb *verb_match(int argc, char **argv, int *ret_words)
{
    const struct verb *best = NULL;

    *ret_words = 0;
    for (size_t i = 0; i < verb_count; i++) {
        int n = words_match(verbs[i].cli, argc, argv);
        if (n > *ret_words) {
            *ret_words = n;
            best = &verbs[i];
        }
    }
    return best;
}

const char *verb_near(const char *typed)
{
    const char *best = NULL;
    size_t near = strlen(typed) < 4 ? 2 : 3;

    for (size_t i = 0; i < verb_count; i++) {
        size_t d = *verbs[i].cli ? str_distance(typed, verbs[i].cli) : near;
        if (d < near) {
            near = d;
            best = verbs[i].cli;
        }
    }
    return best;
}

const char *verb_synonym(const char *typed)
{
    for (size_t i = 0; i < ARRAY_LEN(synonyms); i++)
        if (str_eq(synonyms[i].typed, typed))
            return synonyms[i].real;
    return NULL;
}

const struct arg *verb_arg(const struct verb *v, size_t i)
{
    for (size_t k = 0; k < arg_count; k++)
        if (str_eq(args[k].verb, v->name) && i-- == 0)
            return &args[k];
    return NULL;
}

bool arg_is_word(const struct verb *v, const struct arg *a)
{
    for (size_t i = 0; i < ARRAY_LEN(word_args); i++)
        if (str_eq(word_args[i].cli, v->cli) && str_eq(word_args[i].arg, a->name))
            return true;
    return a->place == ARG_PATH;
}

const char *schema_field_type(const char *schema, const char *name)
{
    for (size_t i = 0; i < field_count; i++)
        if (str_eq(fields[i].schema, schema) && str_eq(fields[i].name, name))
            return fields[i].type;
    return NULL;
}

bool schema_list_of(const char *type, char *buf, size_t size)
{
    size_t n = strlen(type);

    if (!str_starts(type, "LIST_OF(") || n < 10)
        return false;
    return str_printf(buf, size, "%.*s", (int)(n - 9), type + 8);
}
