/* suanli-node: the node's processes in one program.
 *
 *   suanli-node -c FILE            supervisor; starts the two below and keeps them up
 *   suanli-node --role=priv -c FILE     root helper, on descriptor 3
 *   suanli-node --role=agent -c FILE    agent, on descriptor 3
 *   suanli-node -n [-c FILE]       checks the configuration and prints it back
 *   suanli-node --clear -c FILE    ends its guests and takes its network off this machine
 *
 * Guards are forked by the helper and have no role of their own on the command line. */
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/log.h"
#include "node/agent.h"
#include "node/cgroup.h"
#include "node/guest.h"
#include "node/helperint.h"
#include "node/priv.h"
#include "node/supervise.h"

#define HELPER_FD 3

static int usage(FILE *out)
{
    fputs("usage: suanli-node [-n | --clear] [-c FILE]\n"
          "  -c FILE    configuration (default: built-in values)\n"
          "  -n         check the configuration, print it back, start nothing\n"
          "  --clear    end its guests and take its network off this machine; disks stay\n"
          "  --version\n",
          out);
    return out == stdout ? 0 : 2;
}

/* For good: no way back to root, and none by running a set-user-id program. */
static bool user_become(const char *name)
{
    struct passwd *pw = getpwnam(name);

    if (!pw) {
        log_error("event=no_such_user user=%s", name);
        return false;
    }
    if (pw->pw_uid == 0) {
        log_error("event=agent_must_not_be_root");
        return false;
    }
    return initgroups(name, pw->pw_gid) == 0 &&
           setresgid(pw->pw_gid, pw->pw_gid, pw->pw_gid) == 0 &&
           setresuid(pw->pw_uid, pw->pw_uid, pw->pw_uid) == 0 &&
           prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
}

static int role_run(const char *role, pid_t parent, const struct node_config *cfg)
{
    /* The supervisor dead, its two go too; a change of user would clear this, so it comes after. */
    if (strcmp(role, "agent") == 0) {
        log_set(LOG_INFO, "suanli-node agent");
        prctl(PR_SET_NAME, "suanli-agent");
        if (!user_become(cfg->user))
            return 1;
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        return getppid() != parent ? 1 : agent_main(cfg, HELPER_FD);
    }
    log_set(LOG_INFO, "suanli-node priv");
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    return getppid() != parent ? 1 : priv_main(cfg, HELPER_FD);
}

/* The guard first: it would take the end of its guest for one to be reported. */
static bool guest_end(void *arg, struct id lease)
{
    const struct node_paths *p = arg;
    struct guest_record *rec AUTO_FREE = mem_alloc(sizeof(*rec));
    struct refusal why = {0};

    if (guest_load(p, lease, rec, NULL) == ERR_OK && process_is(rec->guard_pid, rec->guard_start))
        kill(rec->guard_pid, SIGKILL);
    cgroup_kill(lease);
    if (cgroup_remove(lease, &why) != ERR_OK)
        log_warn("event=guest_lives lease=%s", lease.s);
    return true;
}

/* All of this node off the machine, but for what is in its folder. */
static int clear_all(struct node_config *cfg)
{
    cgroup_init(cfg->cgroup);
    helper_leases_each(&cfg->paths, guest_end, &cfg->paths);
    network_fini(&cfg->paths, &cfg->net);
    cgroup_fini();
    (void)rmdir(cfg->paths.run); /* empty: all in it was on a tmpfs of the node's own */
    return 0;
}

int main(int argc, char **argv)
{
    const char *file = NULL, *role = NULL;
    struct node_config cfg;
    struct refusal why = {0};
    bool check = false, clear = false;
    pid_t parent = 0;

    log_set(LOG_INFO, "suanli-node");
    if (argc == 2 && (strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "--help") == 0))
        return usage(stdout);
    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        puts("suanli-node " SUANLI_VERSION);
        return 0;
    }
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "-c") == 0 && i + 1 < argc)
            file = argv[++i];
        else if (strcmp(argv[i], "-n") == 0)
            check = true;
        else if (strcmp(argv[i], "--clear") == 0)
            clear = true;
        else if (strcmp(argv[i], "--role=priv") == 0 || strcmp(argv[i], "--role=agent") == 0)
            role = argv[i] + strlen("--role=");
        else if (strncmp(argv[i], "--parent=", 9) == 0)
            parent = (pid_t)strtol(argv[i] + 9, NULL, 10);
        else
            return usage(stderr);
    }
    if (config_load(file, &cfg, &why) != ERR_OK) {
        char text[512];
        refusal_text(&why, LANG_EN, text, sizeof(text));
        fprintf(stderr, "suanli-node: %s\n", text);
        return 2;
    }
    if (check) {
        config_print(&cfg, stdout);
        return 0;
    }
    if (clear)
        return clear_all(&cfg);
    return role ? role_run(role, parent, &cfg) : supervise_main(&cfg, file);
}
