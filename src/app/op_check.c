/* op_check.c: proves on the live store what must always hold: the books (I1…), the store's own
 * integrity, and every instance and lease by the rules of its state machine. */
#include "app/funds_check.h"
#include "app/op_money.h"
#include "base/msg.h"
#include "domain/instance.h"
#include "domain/lease.h"

static void write_row(struct op *op, const char *id, bool pass, const char *text)
{
    json_object_begin(&op->out, NULL);
    json_str(&op->out, "id", id);
    json_flag(&op->out, "pass", pass);
    json_str(&op->out, "text", pass ? NULL : text);
    json_object_finish(&op->out);
}

static void write_law(struct op *op, const struct funds_check_row *r)
{
    if (!r->told) {
        write_row(op, r->id, r->pass, r->text);
        return;
    }
    json_object_begin(&op->out, NULL);
    json_str(&op->out, "id", r->id);
    json_none(&op->out, "pass");
    json_str(&op->out, "text", msg_tr(op->lang, r->text));
    json_object_finish(&op->out);
}

static void write_refusal(struct op *op, const char *id, const struct refusal *why, bool *io_pass)
{
    bool pass = why->code == ERR_OK;
    char text[TEXT_SIZE];

    refusal_text(why, op->lang, text, sizeof(text));
    write_row(op, id, pass, text);
    *io_pass &= pass;
}

/* The first instance or lease whose row breaks a rule. */
static enum err check_lives(struct op *op, struct refusal *ret_why)
{
    struct instance_list instances = {0};
    struct lease_list leases = {0};
    enum err e = store_instance_list_any(op->store, &instances);

    if (e == ERR_OK)
        e = store_lease_list_any(op->store, &leases);
    for (size_t i = 0; i < leases.len && e == ERR_OK && ret_why->code == ERR_OK; i++)
        (void)!lease_check(&leases.at[i], ret_why);
    for (size_t i = 0; i < instances.len && e == ERR_OK && ret_why->code == ERR_OK; i++) {
        const struct lease *mine = NULL;

        for (size_t k = 0; k < leases.len; k++)
            if (str_eq(leases.at[k].id.s, instances.at[i].lease.s))
                mine = &leases.at[k];
        (void)!instance_check(&instances.at[i], mine, ret_why);
    }
    vec_fini(&instances);
    vec_fini(&leases);
    return e;
}

enum err op_check_run(struct op *op)
{
    struct refusal store = {0}, lives = {0};
    struct funds_check books;
    bool pass, clear = false;

    CHECK(json_get_bool(op->body, "clear_clock", false, &clear));
    TRY(funds_check_run(op->store, op->now, &books, &op->why));
    TRY(check_lives(op, &lives));
    (void)!store_integrity(op->store, &store);
    pass = books.pass;
    json_object_begin(&op->out, NULL);
    json_array_begin(&op->out, "rows");
    for (size_t i = 0; i < books.n; i++)
        write_law(op, &books.rows[i]);
    write_refusal(op, "S1", &store, &pass);
    write_refusal(op, "S2", &lives, &pass);
    json_array_finish(&op->out);
    json_flag(&op->out, "pass", pass);
    json_object_finish(&op->out);
    return clear ? core_clock_clear(op) : ERR_OK;
}
