/* cmd_admin.c: the operator's acts on the server's own machine, carried out by suanlid: they need
 * its files, not its API. */
#include <errno.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/cli.h"

#define DAEMON_CONFIG "/etc/suanli/suanlid.conf"

/* Runs suanlid and takes what it prints. Exit code; 1 when it is not there. */
static int daemon_run(struct cli *c, const char *const *words, struct strbuf *out)
{
    int fd[2], status;
    char part[4096];
    ssize_t n;
    struct refusal why;

    fflush(NULL);
    if (pipe(fd) != 0)
        return 1;
    pid_t pid = fork();
    if (pid == 0) {
        if (dup2(fd[1], STDOUT_FILENO) < 0)
            _exit(127);
        close(fd[0]);
        close(fd[1]);
        execvp(words[0], (char *const *)(uintptr_t)words);
        _exit(127);
    }
    close(fd[1]);
    while ((n = read(fd[0], part, sizeof(part))) > 0 || (n < 0 && errno == EINTR))
        if (n > 0)
            strbuf_add_n(out, part, (size_t)n);
    close(fd[0]);
    if (pid < 0 || waitpid(pid, &status, 0) < 0 || !WIFEXITED(status))
        return 1;
    if (WEXITSTATUS(status) != 127)
        return WEXITSTATUS(status);
    (void)refusef(&why, ERR_UNSUPPORTED, "what", "%s", words[1]);
    refusal_set(&why, "why", tr("suanlid is not on this machine"));
    return fail(c, &why);
}

static const char *config_file(const struct call *call)
{
    return arg_str(call, "config") ? arg_str(call, "config") : DAEMON_CONFIG;
}

int cmd_admin_init(struct cli *c, struct call *call)
{
    const char *words[] = {"suanlid", "admin-code", "-c", config_file(call), NULL};
    AUTO_STRBUF struct strbuf out = {0};

    strbuf_init(&out, 64 * 1024);
    int e = daemon_run(c, words, &out);
    if (e)
        return e;
    char *code = out.data;
    for (char *p = code, *save; (p = strtok_r(p, " \n", &save)); p = NULL)
        code = p; /* the last word */
    if (c->json)
        printf("{\"code\":\"%s\"}\n", code ? code : "");
    else
        puts(code ? code : "");
    say(c, tr("A one-time code of the operator. Use it: suanli login --url https://HOST --code %s"),
        code ? code : "");
    return 0;
}

int cmd_admin_restore(struct cli *c, struct call *call)
{
    const char *words[] = {"suanlid", "restore",         arg_str(call, "copy"),
                           "-c",      config_file(call), NULL};
    AUTO_STRBUF struct strbuf out = {0};

    strbuf_init(&out, 64 * 1024);
    say(c, tr("The store is replaced by %s. The old one is kept beside it."),
        arg_str(call, "copy"));
    int e = confirm(c, "--yes", tr("Replace it?"));
    if (!e)
        e = daemon_run(c, words, &out);
    if (e)
        return e;
    if (c->json)
        puts("{\"restored\":true}");
    else
        fputs(strbuf_str(&out), stdout);
    return 0;
}
