/* op_audit.c: who did what, newest first. Operators see the whole platform. */
#include <stdio.h>

#include "app/op_people.h"

static void write_audit(struct op *op, const struct audit *a)
{
    json_object_begin(&op->out, NULL);
    json_i64(&op->out, "id", a->id);
    json_time(&op->out, "at", a->at);
    json_str(&op->out, "actor", a->actor);
    json_str(&op->out, "action", a->action);
    json_str(&op->out, "object", a->object[0] ? a->object : NULL);
    json_str(&op->out, "result", a->result);
    json_str(&op->out, "request_id", a->request_id[0] ? a->request_id : NULL);
    json_object_finish(&op->out);
}

enum err op_audit_list(struct op *op)
{
    struct audit_list list = {0};
    char pos[CURSOR_POS_SIZE];
    int64_t limit, before = 0;
    struct id everything = {""};

    TRY(cursor_read(op, &limit, pos));
    if (pos[0])
        TRY(str_parse_i64(pos, 1, INT64_MAX, &before));
    /* One more than asked tells whether there is a next page. */
    enum err e = people_try(op, store_audit_list(op->store,
                                                 op->who.is_operator ? everything : op->who.project,
                                                 before, limit + 1, &list));
    json_object_begin(&op->out, NULL);
    json_array_begin(&op->out, "items");
    size_t n = MIN(list.len, (size_t)limit);
    for (size_t i = 0; i < n; i++)
        write_audit(op, &list.at[i]);
    if (list.len > n)
        CHECK(str_printf(pos, sizeof(pos), "%" PRId64, list.at[n - 1].id));
    bool more = list.len > n;
    vec_fini(&list);
    TRY(e);
    TRY(cursor_finish(op, more ? pos : NULL));
    json_object_finish(&op->out);
    return ERR_OK;
}
