"""The rig of the node tests: private namespaces, TAP, the drivers through the program drv.

A test file calls rig.main(globals()): functions named test_* run in order of appearance; a docstring is the
name. rig.skip(reason) inside one skips it. Everything made lives below rig.tmp and in the private
namespaces, so nothing outlives the run."""
import ctypes, os, shlex, subprocess, sys, tempfile, traceback

tmp = None
drv_path = None


class Skip(Exception):
    pass


def skip(reason):
    raise Skip(reason)


def sh(cmd, check=True, **kw):
    r = subprocess.run(cmd, shell=isinstance(cmd, str), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                       text=True, **kw)
    if check and r.returncode:
        raise AssertionError(f"{cmd}: {r.returncode}: {r.stdout}")
    return r.stdout


class Result:
    """code, and the parameters or facts as attributes."""

    def __init__(self, line):
        self.line = line
        self.code, _, rest = line.partition(" ")
        self.facts = {}
        for word in rest.split(" "):
            k, eq, v = word.partition("=")
            if eq:
                self.facts[k] = int(v) if v.lstrip("-").isdigit() else v

    def __getattr__(self, name):
        return self.facts[name]


def drv(state, *args, want=None, **kw):
    r = subprocess.run([drv_path, state] + [str(a) for a in args], stdout=subprocess.PIPE, text=True, **kw)
    assert r.returncode == 0, f"drv {args}: died with {r.returncode}"
    got = Result(r.stdout.strip())
    if want:
        assert got.code == want, f"drv {shlex.join(map(str, args))}: {got.line} (wanted {want})"
    return got


def as_ids(uid, call):
    """Runs call() in a child with this uid and gid and no capabilities; returns what it returned as text."""
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            out = call()
        except BaseException as e:
            out = f"{type(e).__name__}: {e}"
        os.write(w, str(out).encode())
        os._exit(0)
    os.close(w)
    with os.fdopen(r) as f:
        out = f.read()
    os.waitpid(pid, 0)
    return out


def main(env):
    global tmp, drv_path
    drv_path = os.path.abspath(sys.argv[1])
    tests = [(k, v) for k, v in env.items() if k.startswith("test_")]
    if os.geteuid() != 0:
        print("1..0 # SKIP needs root")
        return
    if not os.environ.get("RIG_INSIDE"):
        os.environ["RIG_INSIDE"] = "1"
        os.execvp("unshare", ["unshare", "-mnp", "--fork", "--kill-child", "--mount-proc", "--propagation",
                              "private", sys.executable] + sys.argv)
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # adopt orphans
    sh("ip link set lo up")
    names = [os.environ["RIG_ONLY"]] if os.environ.get("RIG_ONLY") else None
    tests = [t for t in tests if not names or t[0] in names]
    print(f"1..{len(tests)}", flush=True)
    failed = 0
    with tempfile.TemporaryDirectory(prefix="rig-", dir="/var/tmp", ignore_cleanup_errors=True) as tmp:
        os.chmod(tmp, 0o755)
        for n, (key, test) in enumerate(tests, 1):
            name = (test.__doc__ or key).strip().splitlines()[0]
            try:
                test()
                print(f"ok {n} - {name}", flush=True)
            except Skip as e:
                print(f"ok {n} - {name} # SKIP {e}", flush=True)
            except BaseException:
                failed += 1
                print("".join("# " + l + "\n" for l in traceback.format_exc()[-4000:].splitlines()), end="")
                print(f"not ok {n} - {name}", flush=True)
        os.chdir("/")
        with open("/proc/self/mountinfo") as f:
            for point in sorted((l.split()[4] for l in f), reverse=True):
                if point.startswith(tmp):
                    subprocess.run(["umount", "-l", point], stderr=subprocess.DEVNULL)
    sys.exit(1 if failed else 0)
