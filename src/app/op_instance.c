/* Operations on instances. What they do to leases, disks and money is lifecycle.h. */
#include "app/ask.h"
#include "app/cursor.h"
#include "app/lifecycle.h"
#include "app/line.h"
#include "app/op_plan.h"
#include "app/outbox.h"
#include "app/view.h"
#include "base/msg.h"
#include "base/units.h"

static const char *arg(const struct op *op, const char *name)
{
    const char *v = NULL;

    return json_get_str(op->body, name, NULL, &v) ? v : NULL;
}

static bool flag(const struct op *op, const char *name)
{
    bool v = false;

    return json_get_bool(op->body, name, false, &v) && v;
}

static enum err lookup(struct op *op, struct instance *ret_i)
{
    TRY(store_instance_lookup(op->store, op->who.project, op->path_arg[0], ret_i, &op->why));
    (void)str_copy(op->object, sizeof(op->object), ret_i->id.s);
    return ERR_OK;
}

/* create */

static enum err take_name(struct op *op, struct instance *i)
{
    const char *name = arg(op, "name");
    bool taken;

    if (!name) /* the letters of the id are as good as any name */
        return str_copy(i->name, sizeof(i->name), i->id.s + 4) ? ERR_OK : ERR_INTERNAL;
    if (!str_is_name(name))
        return ask_bad(op, "name", N_("1 to 63 of a-z, 0-9 and -"));
    TRY(store_instance_name_taken(op->store, i->project, name, &taken));
    if (taken) {
        (void)refusef(&op->why, ERR_EXISTS, "what", "%s", "instance");
        refusal_set(&op->why, "name", name);
        return ERR_EXISTS;
    }
    CHECK(str_copy(i->name, sizeof(i->name), name));
    return ERR_OK;
}

static enum err take_labels(struct op *op, struct instance *i)
{
    AUTO_STRBUF struct strbuf b;
    const json_t *v;
    size_t n;

    strbuf_init(&b, sizeof(i->labels) - 1);
    json_array_foreach(json_object_get(op->body, "label"), n, v)
    {
        const char *text = json_string_value(v);

        if (!strchr(text, '=') || strpbrk(text, ",\n\r\t") || text[0] == '=')
            return ask_bad(op, "label", N_("labels are k=v, without commas"));
        strbuf_addf(&b, "%s%s", b.len ? "," : "", text);
    }
    if (b.overflow)
        return ask_bad(op, "label", N_("too many labels"));
    CHECK(str_copy(i->labels, sizeof(i->labels), strbuf_str(&b)));
    return ERR_OK;
}

static enum err add_port(struct op *op, struct instance *i, int64_t guest)
{
    if (guest < 1 || guest > 65535)
        return ask_bad(op, "port", N_("1 to 65535"));
    for (int32_t n = 0; n < i->port_count; n++)
        if (i->ports[n].guest == guest)
            return ERR_OK;
    if (i->port_count == INSTANCE_PORTS_MAX)
        return ask_bad(op, "port", N_("too many ports"));
    i->ports[i->port_count++] = (struct port){.guest = (uint16_t)guest};
    return ERR_OK;
}

static enum err take_ports(struct op *op, struct instance *i)
{
    const json_t *v;
    size_t n;

    TRY(add_port(op, i, 22));
    json_array_foreach(json_object_get(op->body, "port"), n, v)
    {
        int64_t guest;

        if (str_parse_i64(json_string_value(v), 1, 65535, &guest) != ERR_OK)
            return ask_bad(op, "port", N_("1 to 65535"));
        TRY(add_port(op, i, guest));
    }
    return ERR_OK;
}

static enum err take_idle(struct op *op, struct instance *i)
{
    const char *idle = arg(op, "idle"), *action = arg(op, "idle_action"), *then = arg(op, "then");

    i->idle_s = core_config_of(op->core)->idle_s;
    if (idle && (duration_parse(idle, &i->idle_s) != ERR_OK || i->idle_s < 60))
        return ask_bad(op, "idle", N_("a duration of a minute or more"));
    if (action && !str_eq(action, "stop") && !str_eq(action, "notice"))
        return ask_bad(op, "idle_action", N_("stop or notice"));
    i->idle_action = action && str_eq(action, "notice") ? IDLE_ACTION_NOTICE : IDLE_ACTION_STOP;
    if (then && !str_eq(then, "stop") && !str_eq(then, "release"))
        return ask_bad(op, "then", N_("stop or release"));
    i->then = then && str_eq(then, "release") ? END_ACTION_RELEASE : END_ACTION_STOP;
    return ERR_OK;
}

static enum err take_spec(struct op *op, const struct instance *i)
{
    static const char *const keys[] = {"command", "env"};
    struct instance_spec spec = {.instance = i->id};
    char *text[2] = {NULL, NULL};
    enum err e;
    const json_t *v;
    size_t n;

    json_array_foreach(json_object_get(op->body, "env"), n,
                       v) if (!strchr(json_string_value(v), '=') ||
                              json_string_value(v)[0] == '=') return ask_bad(op, "env", N_("K=V"));
    for (size_t k = 0; k < 2; k++) {
        v = json_object_get(op->body, keys[k]);
        text[k] = json_is_array(v) ? json_dumps(v, JSON_COMPACT) : mem_strdup("[]");
        CHECK(text[k]);
    }
    spec.argv = text[0];
    spec.env = text[1];
    e = strlen(text[0]) + strlen(text[1]) > 32768
            ? ask_bad(op, "command", N_("command and environment are too long"))
            : store_spec_save(op->store, &spec);
    store_spec_fini(&spec);
    return e;
}

static enum err take_disks(struct op *op, struct instance *i)
{
    struct ask_disk asked[INSTANCE_DISKS_MAX];
    int32_t count;

    TRY(ask_disks(op, asked, &count));
    for (int32_t n = 0; n < count; n++) {
        struct disk d = {.id = core_id(op->core, "dsk"),
                         .project = i->project,
                         .kind = DISK_DATA,
                         .size_mib = asked[n].size_mib,
                         .created_at = op->now};

        if (asked[n].existing.s[0])
            TRY(store_disk_get(op->store, i->project, asked[n].existing, &d));
        CHECK(str_copy(d.name, sizeof(d.name), asked[n].name));
        TRY(ask_mount(op, i, &d));
        d.instance = i->id;
        TRY(store_disk_save(op->store, &d));
        i->data_disk[i->data_count++] = d.id;
    }
    return ERR_OK;
}

/* What the caller saw is what he gets, or he is told. */
static enum err check_price(struct op *op, const struct instance *i)
{
    const char *signed_quote = arg(op, "quote");
    int64_t for_s = life_for_s(op, i), seen_u = 0;
    struct funds_ask ask;
    struct funds_quote q;
    bool seen;

    TRY(life_ask(op, i, for_s, &ask));
    TRY(funds_quote(op->store, op->now, core_config_of(op->core)->term_s, &ask, &q, &op->why));
    TRY(ask_price(op, &seen_u, &seen));
    if (seen && !arg(op, "plan")) /* of a plan it is the plan's: plan_begin */
        TRY(funds_price_check(&q, seen_u, &op->why));
    if (signed_quote)
        TRY(funds_quote_check(op->store, op->now, signed_quote, &ask, &q, &op->why));
    return funds_gate(op->store, op->now, &ask, &q, &op->why);
}

static enum err queue_up(struct op *op, struct instance *i, const struct refusal *why)
{
    i->why = *why;
    TRY(store_instance_save(op->store, i));
    TRY(line_tell(op));
    return event_emit(op, i->project, i->id, "instance.queued", N_("{name} waits in line."),
                      "{s:s}", "name", i->name);
}

/* Rows that were written for a placing that failed must go while those of the instance stay. */
static enum err grant_or_queue(struct op *op, struct instance *i)
{
    struct node *n = mem_alloc(sizeof(*n));
    AUTO_FREE struct node *owned UNUSED = n;
    struct place_result r;
    struct id node;
    enum err e = line_admit(op, i, &node);

    if (e == ERR_OK && flag(op, "queue"))
        e = life_place(op, i, &r, n);
    if (e != ERR_CAPACITY_NONE || !flag(op, "queue"))
        return e == ERR_OK ? life_grant_on(op, i, INSTANCE_EV_PLACED, node) : e;
    return queue_up(op, i, &op->why);
}

static enum err take_instance(struct op *op, struct instance *i)
{
    struct image image;

    TRY(ask_shape(op, &i->shape));
    i->ends_at = UTIME_NEVER; /* a plan has its own end: plan_begin */
    if (!arg(op, "plan"))
        TRY(ask_end(op, &i->ends_at));
    TRY(ask_image(op, &image));
    CHECK(str_copy(i->image, sizeof(i->image), image.digest));
    CHECK(str_copy(i->image_name, sizeof(i->image_name), image.name));
    TRY(take_name(op, i));
    TRY(take_labels(op, i));
    TRY(take_idle(op, i));
    return ERR_OK;
}

enum err op_instance_create(struct op *op)
{
    struct instance i = {.id = core_id(op->core, "ins"),
                         .project = op->who.project,
                         .owner = op->who.user,
                         .state = INSTANCE_QUEUED,
                         .since = op->now,
                         .created_at = op->now,
                         .plan = PLAN_ON_DEMAND,
                         .version = 1};
    struct plan_row plan;

    (void)str_copy(op->object, sizeof(op->object), i.id.s);
    TRY(take_instance(op, &i));
    TRY(store_instance_save(op->store, &i));
    TRY(take_spec(op, &i));
    TRY(take_disks(op, &i));
    if (flag(op, "spot") || arg(op, "bid"))
        TRY(spot_begin(op, &i));
    if (arg(op, "plan"))
        TRY(plan_begin(op, &i, &plan));
    TRY(check_price(op, &i));
    TRY(take_ports(op, &i));
    TRY(grant_or_queue(op, &i));
    if (arg(op, "plan"))
        TRY(plan_settle(op, &i, &plan));
    TRY(store_instance_get(op->store, i.project, i.id, &i));
    return view_instance(op, NULL, &i);
}

/* read */

enum err op_instance_list(struct op *op)
{
    struct instance_list list = {0};
    char pos[CURSOR_POS_SIZE];
    int64_t limit;
    const char *all = NULL;
    struct id after = {""};
    enum err e;

    TRY(cursor_read(op, &limit, pos));
    if (!json_get_str(op->query, "all", "", &all) || !str_copy(after.s, sizeof(after.s), pos))
        return refuse(&op->why, ERR_CURSOR);
    e = store_instance_list(op->store, op->who.project, all[0] && !str_eq(all, "false"), after,
                            limit + 1, &list);
    json_object_begin(&op->out, NULL);
    json_array_begin(&op->out, "items");
    for (size_t n = 0; e == ERR_OK && n < list.len && n < (size_t)limit; n++)
        e = view_instance(op, NULL, &list.at[n]);
    if (e == ERR_OK)
        e = cursor_finish(op, list.len > (size_t)limit ? list.at[limit - 1].id.s : NULL);
    vec_fini(&list);
    TRY(e);
    json_object_finish(&op->out);
    return ERR_OK;
}

static enum err answer(struct op *op, struct instance *i)
{
    TRY(store_instance_get(op->store, i->project, i->id, i));
    return view_instance(op, NULL, i);
}

enum err op_instance_get(struct op *op)
{
    struct instance i;

    TRY(lookup(op, &i));
    return view_instance(op, NULL, &i);
}

/* stop, start, release */

enum err op_instance_stop(struct op *op)
{
    struct instance i;

    TRY(lookup(op, &i));
    if (i.state == INSTANCE_STOPPED || i.state == INSTANCE_STOPPING)
        return view_instance(op, NULL, &i); /* that is what was asked for */
    TRY(instance_allow(&i, INSTANCE_ACT_STOP, &op->why));
    TRY(life_stop(op, &i, END_USER_STOP));
    return answer(op, &i);
}

enum err op_instance_release(struct op *op)
{
    struct instance i;

    TRY(lookup(op, &i));
    if (i.state == INSTANCE_RELEASING || i.state == INSTANCE_RELEASED)
        return view_instance(op, NULL, &i);
    TRY(instance_allow(&i, INSTANCE_ACT_RELEASE, &op->why));
    TRY(life_release(op, &i, flag(op, "with_disks"), END_USER_RELEASE));
    return answer(op, &i);
}

enum err op_instance_start(struct op *op)
{
    struct instance i;
    struct id node;

    TRY(lookup(op, &i));
    TRY(instance_allow(&i, INSTANCE_ACT_START, &op->why));
    i.no_gpu = flag(op, "no_gpu");
    TRY(ask_end(op, &i.ends_at));
    TRY(line_admit(op, &i, &node));
    TRY(life_grant_on(op, &i, INSTANCE_EV_START, node));
    return answer(op, &i);
}

/* extend, resize */

static enum err new_end(struct op *op, struct instance *i)
{
    const char *by = arg(op, "by"), *until = arg(op, "until");
    bool no_end = flag(op, "no_end");
    int64_t s = 0;

    if (!!by + !!until + no_end != 1)
        return ask_bad(op, "by", N_("one of by, until and no_end"));
    if (no_end) {
        i->ends_at = UTIME_NEVER;
        return ERR_OK;
    }
    if (until)
        return ask_end(op, &i->ends_at);
    if (duration_parse(by, &s) != ERR_OK || s > 10ll * 366 * 86400)
        return ask_bad(op, "by", N_("a duration such as 4h"));
    if (i->ends_at == UTIME_NEVER)
        return ask_bad(op, "by", N_("it has no end; give until"));
    i->ends_at += s * MS_PER_S;
    return i->ends_at <= ASK_END_MAX ? ERR_OK : ask_bad(op, "by", N_("a duration such as 4h"));
}

enum err op_instance_extend(struct op *op)
{
    struct instance i;

    TRY(lookup(op, &i));
    TRY(instance_allow(&i, INSTANCE_ACT_EXTEND, &op->why));
    TRY(new_end(op, &i));
    TRY(life_end_set(op, &i));
    TRY(event_emit(op, i.project, i.id, "instance.extended", N_("The end of {name} was moved."),
                   "{s:s}", "name", i.name));
    return answer(op, &i);
}

static enum err grow_system(struct op *op, struct instance *i, int64_t mib)
{
    struct disk d;

    TRY(store_disk_get(op->store, i->project, i->system_disk, &d));
    if (mib == d.size_mib)
        return ERR_OK;
    TRY(ask_disk_grow(op, &d, true, "system_disk", mib));
    TRY(funds_disk_grow(op->store, op->now, d.id, mib, &op->why));
    d.size_mib = mib;
    TRY(store_disk_save(op->store, &d));
    return store_node_bump(op->store, d.node);
}

enum err op_instance_resize(struct op *op)
{
    struct instance i;
    struct shape was, s;
    const char *gpu = arg(op, "gpu");

    TRY(lookup(op, &i));
    TRY(instance_allow(&i, INSTANCE_ACT_RESIZE, &op->why));
    if (gpu || json_object_get(op->body, "count"))
        TRY(plan_refuse_resize(op, &i));
    was = i.shape;
    s = was;
    if (gpu || json_object_get(op->body, "count") || json_object_get(op->body, "cpu")) {
        TRY(ask_shape(op, &s));
        s.exclusive = was.exclusive && s.gpu_count > 0;
    } else {
        const char *memory = arg(op, "memory");

        if (memory && size_parse_mib(memory, &s.memory_mib) != ERR_OK)
            return ask_bad(op, "memory", N_("a size such as 8GiB"));
    }
    s.system_disk_mib = was.system_disk_mib;
    if (arg(op, "system_disk")) {
        if (size_parse_mib(arg(op, "system_disk"), &s.system_disk_mib) != ERR_OK)
            return ask_bad(op, "system_disk", N_("a size such as 8GiB"));
        TRY(grow_system(op, &i, s.system_disk_mib));
    }
    i.shape = s;
    i.no_gpu = false;
    i.version++;
    TRY(store_instance_save(op->store, &i));
    TRY(event_emit(op, i.project, i.id, "instance.resized", N_("{name} has another shape now."),
                   "{s:s}", "name", i.name));
    return answer(op, &i);
}

/* ports */

static enum err port_arg(struct op *op, int64_t *ret_port)
{
    if (str_parse_i64(op->path_arg[1], 1, 65535, ret_port) != ERR_OK)
        return ask_bad(op, "port", N_("1 to 65535"));
    return ERR_OK;
}

static enum err tell_node(struct op *op, const struct instance *i)
{
    return i->node.s[0] ? store_node_bump(op->store, i->node) : ERR_OK;
}

enum err op_instance_ports_set(struct op *op)
{
    struct node *n = mem_alloc(sizeof(*n));
    AUTO_FREE struct node *owned UNUSED = n;
    struct instance i;
    int64_t port;

    TRY(lookup(op, &i));
    TRY(instance_allow(&i, INSTANCE_ACT_PORTS, &op->why));
    TRY(port_arg(op, &port));
    TRY(add_port(op, &i, port));
    TRY(store_node_get(op->store, i.node, n));
    TRY(life_ports(op, &i, n));
    TRY(store_instance_save(op->store, &i));
    TRY(tell_node(op, &i));
    return answer(op, &i);
}

enum err op_instance_ports_remove(struct op *op)
{
    struct instance i;
    int64_t port;
    int32_t kept = 0;

    TRY(lookup(op, &i));
    TRY(port_arg(op, &port));
    if (port == 22)
        return ask_bad(op, "port", N_("SSH stays open"));
    for (int32_t n = 0; n < i.port_count; n++)
        if (i.ports[n].guest != port)
            i.ports[kept++] = i.ports[n];
    if (kept == i.port_count) {
        (void)refusef(&op->why, ERR_NOT_FOUND, "what", "%s", "port");
        refusal_set(&op->why, "name", op->path_arg[1]);
        refusal_set(&op->why, "verb", "show");
        return ERR_NOT_FOUND;
    }
    i.port_count = kept;
    TRY(store_instance_save(op->store, &i));
    TRY(tell_node(op, &i));
    return answer(op, &i);
}
