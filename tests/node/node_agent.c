/* node_agent.c: in tests this stands where the agent stands: it hands messages of a local socket
 * (STATE/agent/door) through to the root helper and back, one at a time. */
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "node/agent.h"

#include "base/str.h"

static bool message_pass(int client, int priv_fd, bool *ret_gone)
{
    static struct priv_req req;
    static struct priv_rep rep;
    ssize_t n = recv(client, &req, sizeof(req), 0);

    if (n <= 0)
        return false;
    if (send(priv_fd, &req, (size_t)n, MSG_NOSIGNAL) < 0 ||
        recv(priv_fd, &rep, sizeof(rep), 0) <= 0) {
        *ret_gone = true;
        return false;
    }
    return send(client, &rep, sizeof(rep), MSG_NOSIGNAL) > 0;
}

int agent_main(const struct node_config *cfg, int priv_fd)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int size = 1 << 18;
    bool gone = false;

    if (!str_printf(a.sun_path, sizeof(a.sun_path), "%s/agent/door", cfg->state))
        return 1;
    /* Its folder is made by the helper, which starts at the same time. */
    while (access(cfg->paths.staging, F_OK) < 0)
        usleep(5000);
    unlink(a.sun_path);
    int door = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (door < 0 || bind(door, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(door, 8) < 0)
        return 1;
    while (!gone) {
        int client = accept4(door, NULL, NULL, SOCK_CLOEXEC);
        if (client < 0)
            continue;
        setsockopt(client, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
        while (message_pass(client, priv_fd, &gone))
            ;
        close(client);
    }
    return 1;
}
