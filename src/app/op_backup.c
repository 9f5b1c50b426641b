/* op_backup.c: a consistent copy of the store into the folder that the operator configured. */
#include "app/op_money.h"
#include "base/msg.h"

/* A plain file name: it cannot leave the folder, hide, or be an option of a command. */
static bool is_file_name(const char *s)
{
    size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-");

    return n > 0 && s[n] == '\0' && n < NAME_SIZE && s[0] != '.' && s[0] != '-';
}

enum err op_backup(struct op *op)
{
    const char *dir = core_config_of(op->core)->backup_dir, *name = people_arg(op, "name", "");
    char path[TEXT_SIZE + NAME_SIZE + 2];
    int64_t bytes = 0;

    if (!dir[0]) {
        (void)refusef(&op->why, ERR_UNSUPPORTED, "what", "backup");
        refusal_set(&op->why, "why", "no backup folder is configured");
        return ERR_UNSUPPORTED;
    }
    if (!is_file_name(name))
        return people_invalid(op, "name", N_("letters, digits, '.', '_' and '-', no folder"));
    CHECK(str_printf(path, sizeof(path), "%s/%s", dir, name));
    (void)str_copy(op->object, sizeof(op->object), name);
    TRY(store_backup(op->store, path, &bytes, &op->why));
    json_object_begin(&op->out, NULL);
    json_str(&op->out, "file", path);
    json_i64(&op->out, "bytes", bytes);
    json_object_finish(&op->out);
    return ERR_OK;
}
