/* names.so: loaded into our SSH server only (ld.so --preload), so that it works in images that have
 * no users, no shadow entry, or name services that our C library cannot load. Sessions do not see
 * it: it is no environment variable, and they run the image's own loader.
 *
 * - Users come from /etc/passwd of the image; "sshd" (the server's unprivileged half) and "root"
 *   exist in any case; a shell that is not there is replaced by one that is.
 * - Shadow entries are not looked at: there are no passwords here, and a locked password must not
 *   lock out a key.
 * - The message of the day and the keys are those of our read-only folder, not of the image: an
 *   image cannot bring a key of its author along. */
/* Both fopen and fopen64 are defined here, so no header may map one to the other. */
#include <dlfcn.h>
#include <fcntl.h>
#include <nss.h>
#include <pwd.h>
#include <shadow.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LEASE "/.suanli/lease/"

struct passwd *getpwnam(const char *name);
struct passwd *getpwuid(uid_t uid);
struct spwd *getspnam(const char *name);
FILE *fopen(const char *path, const char *mode);
FILE *fopen64(const char *path, const char *mode);
_Static_assert(sizeof(struct stat) == sizeof(struct stat64), "one form of stat");

/* Before anything looks a name up: only files, whatever the image's nsswitch.conf says. */
__attribute__((constructor)) static void names_files_only(void)
{
    static const char *const bases[] = {"passwd",     "group", "shadow",
                                        "initgroups", "hosts", "services"};

    for (size_t i = 0; i < sizeof(bases) / sizeof(bases[0]); i++)
        __nss_configure_lookup(bases[i], "files");
}

static char *shell_that_exists(char *shell)
{
    static char known[][24] = {"/bin/bash", "/bin/sh", "/bin/ash", "/.suanli/bin/sh"};

    if (shell && *shell && access(shell, X_OK) == 0)
        return shell;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (access(known[i], X_OK) == 0)
            return known[i];
    }
    return shell;
}

static struct passwd *root_entry(void)
{
    static char name[] = "root", none[] = "*", home[] = "/root", top[] = "/", shell[] = "/bin/sh";
    static struct passwd root;

    root = (struct passwd){.pw_name = name,
                           .pw_passwd = none,
                           .pw_gecos = name,
                           .pw_dir = access(home, X_OK) == 0 ? home : top,
                           .pw_shell = shell_that_exists(shell)};
    return &root;
}

static struct passwd *server_entry(void)
{
    static char name[] = "sshd", none[] = "*", home[] = "/run/sshd", shell[] = "/bin/false";
    static struct passwd sshd;

    sshd = (struct passwd){.pw_name = name,
                           .pw_passwd = none,
                           .pw_gecos = name,
                           .pw_dir = home,
                           .pw_shell = shell,
                           .pw_uid = 65533,
                           .pw_gid = 65533};
    return &sshd;
}

struct passwd *getpwnam(const char *name)
{
    struct passwd *(*next)(const char *) =
        (struct passwd * (*)(const char *)) dlsym(RTLD_NEXT, "getpwnam");
    struct passwd *pw;

    if (strcmp(name, "sshd") == 0)
        return server_entry();
    pw = next ? next(name) : NULL;
    if (!pw)
        return strcmp(name, "root") == 0 ? root_entry() : NULL;
    pw->pw_shell = shell_that_exists(pw->pw_shell);
    return pw;
}

struct passwd *getpwuid(uid_t uid)
{
    struct passwd *(*next)(uid_t) = (struct passwd * (*)(uid_t)) dlsym(RTLD_NEXT, "getpwuid");
    struct passwd *pw = next ? next(uid) : NULL;

    if (!pw)
        return uid == 0 ? root_entry() : NULL;
    pw->pw_shell = shell_that_exists(pw->pw_shell);
    return pw;
}

struct spwd *getspnam(const char *name)
{
    (void)name;
    return NULL;
}

static int ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), k = strlen(end);

    return n > k && strcmp(s + n - k, end) == 0;
}

static const char *path_of_ours(const char *path)
{
    if (strcmp(path, "/etc/motd") == 0)
        return LEASE "motd";
    if (ends_with(path, "/.ssh/authorized_keys"))
        return LEASE "authorized_keys";
    return ends_with(path, "/.ssh") ? LEASE : path;
}

static FILE *file_of_ours(const char *path, const char *mode)
{
    FILE *(*next)(const char *, const char *) =
        (FILE * (*)(const char *, const char *)) dlsym(RTLD_NEXT, "fopen");

    return next(path_of_ours(path), mode);
}

FILE *fopen(const char *path, const char *mode)
{
    return file_of_ours(path, mode);
}

FILE *fopen64(const char *path, const char *mode)
{
    return file_of_ours(path, mode);
}

/* Dropbear looks at the owner of the keys' folder, which is nobody of this guest. */
int stat(const char *path, struct stat *ret_stat)
{
    const char *ours = path_of_ours(path);
    int r = fstatat(AT_FDCWD, ours, ret_stat, 0);

    if (r == 0 && ours != path)
        ret_stat->st_uid = 0;
    return r;
}

int stat64(const char *path, struct stat64 *ret_stat)
{
    return stat(path, (struct stat *)ret_stat);
}
