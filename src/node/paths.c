#include "node/paths.h"

#include "node/sys.h"

bool paths_id_ok(struct id id)
{
    size_t i = 0, n = strnlen(id.s, sizeof(id.s));

    while (i < n && id.s[i] >= 'a' && id.s[i] <= 'z')
        i++;
    if (i < 2 || i > 4 || n < i + 2 || n >= sizeof(id.s) || id.s[i] != '_')
        return false;
    for (i++; i < n; i++)
        if (!((id.s[i] >= 'a' && id.s[i] <= 'z') || (id.s[i] >= '0' && id.s[i] <= '9')))
            return false;
    return true;
}

bool paths_digest_ok(const char *digest)
{
    if (strnlen(digest, PRIV_DIGEST_SIZE) != 71 || strncmp(digest, "sha256:", 7) != 0)
        return false;
    return strspn(digest + 7, "0123456789abcdef") == 64;
}

bool paths_name_ok(const char *name)
{
    size_t n = strnlen(name, 64);

    return n > 0 && n < 64 && name[0] != '.' &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == n;
}

enum err paths_init(const char *state, uid_t agent_uid, gid_t agent_gid,
                    struct node_paths *ret_paths, struct refusal *why)
{
    struct node_paths p = {0};
    char agent[280];

    if (state[0] != '/' || !str_copy(p.state, sizeof(p.state), state) || strlen(state) > 200)
        return refusef(why, ERR_VALIDATION, "field", "state folder");
    str_printf(agent, sizeof(agent), "%s/agent", state);
    str_printf(p.staging, sizeof(p.staging), "%s/agent/staging", state);
    str_printf(p.priv, sizeof(p.priv), "%s/priv", state);
    str_printf(p.images, sizeof(p.images), "%s/priv/images", state);
    str_printf(p.disks, sizeof(p.disks), "%s/priv/disks", state);
    str_printf(p.leases, sizeof(p.leases), "%s/priv/leases", state);
    str_printf(p.instances, sizeof(p.instances), "%s/priv/instances", state);
    TRY(sys_dir_ensure(state, 0755, 0, 0, why));
    TRY(sys_dir_ensure(agent, 0700, agent_uid, agent_gid, why));
    TRY(sys_dir_ensure(p.staging, 0700, agent_uid, agent_gid, why));
    TRY(sys_dir_ensure(p.priv, 0700, 0, 0, why));
    TRY(sys_dir_ensure(p.images, 0700, 0, 0, why));
    TRY(sys_dir_ensure(p.disks, 0700, 0, 0, why));
    TRY(sys_dir_ensure(p.leases, 0700, 0, 0, why));
    TRY(sys_dir_ensure(p.instances, 0700, 0, 0, why));
    *ret_paths = p;
    return ERR_OK;
}
