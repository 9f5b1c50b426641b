/* sshbundle.c: the read-only folder that every guest sees as /.suanli. Copied, not linked, so that
 * an upgrade of the machine's own SSH server changes nothing under a running guest. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "node/paths.h"
#include "node/sshd.h"
#include "node/sys.h"

#define FILES_MAX 96

struct bundle_file {
    char from[256], to[80];
};

struct bundle {
    struct bundle_file files[FILES_MAX];
    size_t count;
    uint64_t sum; /* over names, sizes and times: another set is another folder */
    char loader[64];
};

static void sum_add(uint64_t *h, const void *p, size_t n)
{
    const unsigned char *b = p;

    for (size_t i = 0; i < n; i++)
        *h = (*h ^ b[i]) * 1099511628211u;
}

static bool file_add(struct bundle *b, const char *from, const char *to)
{
    struct stat st;

    for (size_t i = 0; i < b->count; i++) {
        if (str_eq(b->files[i].to, to))
            return true;
    }
    if (b->count == FILES_MAX || stat(from, &st) < 0 || !S_ISREG(st.st_mode))
        return false;
    struct bundle_file *f = &b->files[b->count];
    if (!str_copy(f->from, sizeof(f->from), from) || !str_copy(f->to, sizeof(f->to), to))
        return false;
    sum_add(&b->sum, f->to, strlen(f->to));
    sum_add(&b->sum, &st.st_size, sizeof(st.st_size));
    sum_add(&b->sum, &st.st_mtim, sizeof(st.st_mtim));
    b->count++;
    return true;
}

/* One line of the loader's list: "\tlibx.so.1 => /lib/libx.so.1 (0x…)" */
static bool library_add(struct bundle *b, char *line)
{
    char *path = strstr(line, "=> "), to[80];

    path = path ? path + 3 : NULL;
    if (!path || *path != '/')
        return true; /* the loader itself, the kernel's page */
    path[strcspn(path, " \n")] = '\0';
    const char *name = line + strspn(line, " \t");
    int n = (int)strcspn(name, " ");
    return str_printf(to, sizeof(to), "lib/%.*s", n, name) && file_add(b, path, to);
}

/* The loader lists what a program needs; nothing of the program runs. */
static bool libraries_add(struct bundle *b, const char *program)
{
    int out[2], status;
    char line[512];
    bool ok = true;

    if (pipe2(out, O_CLOEXEC) < 0)
        return false;
    pid_t pid = fork();
    if (pid == 0) {
        static const char *const env[] = {NULL};
        dup2(out[1], STDOUT_FILENO);
        execle(b->loader, b->loader, "--list", program, (char *)NULL, env);
        _exit(127);
    }
    close(out[1]);
    FILE *f = fdopen(out[0], "r");
    CHECK(f);
    while (fgets(line, sizeof(line), f))
        ok = ok && library_add(b, line);
    fclose(f);
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0 && ok;
}

/* PT_INTERP of a program. */
static bool loader_find(const char *program, char *buf, size_t size)
{
    AUTO_CLOSE int fd = open(program, O_RDONLY | O_CLOEXEC);
    Elf64_Ehdr eh;
    Elf64_Phdr ph;

    if (fd < 0 || pread(fd, &eh, sizeof(eh), 0) != (ssize_t)sizeof(eh) ||
        memcmp(eh.e_ident, ELFMAG, SELFMAG) != 0 || eh.e_ident[EI_CLASS] != ELFCLASS64)
        return false;
    for (int i = 0; i < eh.e_phnum; i++) {
        off_t at = (off_t)(eh.e_phoff + (uint64_t)i * sizeof(ph));
        if (pread(fd, &ph, sizeof(ph), at) != (ssize_t)sizeof(ph))
            return false;
        if (ph.p_type != PT_INTERP)
            continue;
        ssize_t n = pread(fd, buf, MIN(size - 1, (size_t)ph.p_filesz), (off_t)ph.p_offset);
        if (n <= 0)
            return false;
        buf[n] = '\0';
        return true;
    }
    return false;
}

/* suanli-init and the shim lie beside us: in the build tree or where they were installed. */
static bool own_file(const char *name, char *path, size_t size)
{
    static const char *const places[] = {"../init",
                                         "../lib/suanli",
                                         "../libexec/suanli",
                                         "../../src/init",
                                         "../lib/x86_64-linux-gnu/suanli",
                                         "."};
    char exe[256], *slash;
    ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

    if (n <= 0)
        return false;
    exe[n] = '\0';
    slash = strrchr(exe, '/');
    if (!slash)
        return false;
    *slash = '\0';
    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        if (str_printf(path, size, "%s/%s/%s", exe, places[i], name) && access(path, R_OK) == 0)
            return true;
    }
    return false;
}

static bool static_busybox(const char *path)
{
    char interp[64];

    return access(path, X_OK) == 0 && !loader_find(path, interp, sizeof(interp));
}

/* What there is decides: OpenSSH's server, else dropbear, else none. */
static const char *bundle_collect(struct bundle *b, const char *want, char *why_not, size_t size)
{
    static const char *const servers[][3] = {{"openssh", "/usr/sbin/sshd", "sshd"},
                                             {"dropbear", "/usr/sbin/dropbear", "dropbear"}};
    const char *server = "none";
    char path[300];

    if (!own_file("suanli-init", path, sizeof(path)) || !file_add(b, path, "init")) {
        (void)str_copy(why_not, size, "suanli-init is not installed");
        return NULL;
    }
    for (size_t i = 0; i < ARRAY_LEN(servers) && str_eq(server, "none"); i++) {
        if (!(str_eq(want, "auto") || str_eq(want, servers[i][0])) ||
            !loader_find(servers[i][1], b->loader, sizeof(b->loader)))
            continue;
        if (libraries_add(b, servers[i][1]) && file_add(b, b->loader, "ld.so") &&
            own_file("names.so", path, sizeof(path)) && file_add(b, path, "names.so") &&
            libraries_add(b, path) && file_add(b, servers[i][1], servers[i][2]))
            server = servers[i][0];
    }
    if (static_busybox("/bin/busybox"))
        (void)file_add(b, "/bin/busybox", "bin/sh");
    return server;
}

static enum err bundle_write(const struct node_paths *p, const struct bundle *b, const char *name,
                             struct refusal *why)
{
    AUTO_CLOSE int priv = open(p->priv, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (priv < 0)
        return sys_fail(why, "open of the private folder");
    sys_remove_tree(priv, "ssh.new");
    if (mkdirat(priv, "ssh.new", 0755) < 0)
        return sys_fail(why, "mkdir");
    AUTO_CLOSE int dir = openat(priv, "ssh.new", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0 || mkdirat(dir, "lib", 0755) < 0 || mkdirat(dir, "bin", 0755) < 0 ||
        mkdirat(dir, "lease", 0755) < 0)
        return sys_fail(why, "mkdir");
    for (size_t i = 0; i < b->count; i++) {
        if (!sys_file_copy(b->files[i].from, dir, b->files[i].to, 0755))
            return sys_fail(why, "copy of the SSH server");
    }
    if (syncfs(dir) < 0 || renameat(priv, "ssh.new", priv, name) < 0)
        return sys_fail(why, "rename");
    return ERR_OK;
}

enum err sshd_bundle_init(const struct node_paths *p, const char *want, char ret_server[16],
                          struct refusal *why)
{
    struct bundle *b AUTO_FREE = mem_alloc(sizeof(*b));
    char name[64], path[GUEST_PATH_SIZE], target[GUEST_PATH_SIZE], why_not[100] = "";
    const char *server;

    b->sum = 14695981039346656037u;
    server = bundle_collect(b, want, why_not, sizeof(why_not));
    if (!server)
        return refusef(why, ERR_RUNTIME, "why", "%s", why_not);
    /* A guest without SSH would never count as reachable. */
    if (str_eq(server, "none"))
        return refusef(
            why, ERR_RUNTIME, "why",
            "no SSH server to inject: names.so beside suanli-node and one of the packages "
            "openssh-server, dropbear-bin are needed");
    CHECK(str_printf(name, sizeof(name), "ssh-%016" PRIx64, b->sum));
    CHECK(str_printf(path, sizeof(path), "%s/%s", p->priv, name));
    CHECK(str_printf(target, sizeof(target), "%s/ssh", p->run));
    if (access(path, F_OK) < 0)
        TRY(bundle_write(p, b, name, why));
    TRY(sys_dir_ensure(target, 0755, 0, 0, why));
    if (sys_is_mount(target))
        umount2(target, MNT_DETACH | UMOUNT_NOFOLLOW);
    if (mount(path, target, NULL, MS_BIND, NULL) < 0 ||
        mount(NULL, target, NULL, MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV, NULL) <
            0)
        return sys_fail(why, "bind of the SSH server");
    CHECK(str_copy(ret_server, 16, server));
    return ERR_OK;
}
