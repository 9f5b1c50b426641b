#!/usr/bin/env python3
"""Guests: start, SSH in any image, limits, ends, deaths of guard and helper, clean-up.
test_guest.py DRV NODE PRIVCTL   (NODE is suanli-node with a door for PRIVCTL instead of the agent)"""
import glob, hashlib, io, json, os, platform, re, shutil, signal, subprocess, sys, tarfile, time
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import rig
from rig import sh

ARCH = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
NODE, PRIVCTL = os.path.abspath(sys.argv[2]), os.path.abspath(sys.argv[3])
SSH = ["-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR",
       "-o", "ConnectTimeout=3", "-o", "BatchMode=yes"]
APPLETS = "sh ls cat ps id mount uname df env sleep true false dd nproc ip hostname dmesg kill wc stty tty mknod " \
          "head seq grep tail rm mkdir ln chmod yes tee touch unshare test nc od".split()
node = None  # the running one
impossible = None  # why there is none
counter = 0


def entry(name, data=b"", **kw):
    t = tarfile.TarInfo(name)
    t.size, t.mode = len(data), 0o644
    for k, v in kw.items():
        setattr(t, k, v)
    return t, data


def folder(name, mode=0o755):
    return entry(name, type=tarfile.DIRTYPE, mode=mode)


def link(name, to):
    return entry(name, type=tarfile.SYMTYPE, linkname=to)


def tar(*entries):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as t:
        for info, data in entries:
            t.addfile(info, io.BytesIO(data) if data else None)
    return out.getvalue()


class Node:
    def __init__(self, name, conf="", net="10.77"):
        self.net = net
        self.top = f"{rig.tmp}/{name}"
        self.state = f"{self.top}/state"
        self.log = f"{self.top}/log"
        os.makedirs(self.top)
        with open(f"{self.top}/conf", "w") as f:
            f.write(f"state = {self.state}\nuser = nobody\nnet = {net}.0.0/16\nnat_out = no\n"
                    f"port_min = 21000\nport_max = 21099\n{conf}")
        h = 2166136261
        for c in self.state.encode():
            h = (h ^ c) * 16777619 & 0xffffffff
        self.tag, self.process = f"{h:08x}", None

    def start(self):
        self.process = subprocess.Popen([NODE, "-c", f"{self.top}/conf"], stderr=open(self.log, "a"))
        self.wait(lambda: os.path.exists(f"{self.state}/agent/door") and self.ask("hello"), 20)

    def wait(self, what, seconds=10):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            got = what()
            if got:
                return got
            time.sleep(0.02)
        raise AssertionError("waited in vain\n" + "".join(open(self.log).readlines()[-8:]))

    def run(self, op, *args):
        r = subprocess.run([PRIVCTL, f"{self.state}/agent/door", op] + list(args), stdout=subprocess.PIPE,
                           encoding="utf-8", errors="replace")
        out = {}
        for line in r.stdout.split("---\n")[0].splitlines():
            k, _, v = line.partition("=")
            out.setdefault(k, v)
        out["code"], out["text"] = r.returncode, r.stdout.partition("---\n")[2]
        return out

    def ask(self, op, *args, want="ok"):
        """Repeated while the helper is being replaced or busy."""
        for _ in range(300):
            out = self.run(op, *args)
            if out["code"] != 2 and out["error"] not in ("busy", "unavailable"):
                assert out["error"] == want, f"{op} {args}: {out}"
                return out
            time.sleep(0.05)
        raise AssertionError(f"{op}: no answer")

    def child(self, name):
        """The pid of the supervisor's child with this role (a dead helper's guards look alike but for the name)."""
        for pid in os.listdir("/proc"):
            try:
                words = open(f"/proc/{pid}/cmdline").read().split("\0")
                if open(f"/proc/{pid}/comm").read().strip() not in ("suanli-priv", "suanli-agent"):
                    continue
                if f"--role={name}" in words and f"--parent={self.process.pid}" in words:
                    if int(open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[1]) == self.process.pid:
                        return int(pid)
            except (OSError, ValueError):
                pass
        return 0

    def guard(self, lease):
        """The process of that name that holds the lease's folder."""
        for pid in os.listdir("/proc"):
            try:
                if open(f"/proc/{pid}/comm").read().strip() == "suanli-guard" and any(
                        os.readlink(f"/proc/{pid}/fd/{fd}").endswith(f"/leases/{lease}") for fd in os.listdir(f"/proc/{pid}/fd")):
                    return int(pid)
            except OSError:
                pass
        return 0

    def stop(self):
        self.process.terminate()
        assert self.process.wait(20) == 0


def layout(state, *layers, config=None):
    global counter
    counter += 1
    name = f"g{counter}"
    blobs = f"{state}/agent/staging/{name}/blobs/sha256"
    os.makedirs(blobs)

    def put(data):
        d = hashlib.sha256(data).hexdigest()
        with open(f"{blobs}/{d}", "wb") as f:
            f.write(data)
        return {"digest": "sha256:" + d, "size": len(data)}
    conf = put(json.dumps({"architecture": ARCH, "os": "linux", "config": config or {},
                           "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(l).hexdigest()
                                                                     for l in layers]}}).encode())
    conf["mediaType"] = "application/vnd.oci.image.config.v1+json"
    descs = [dict(put(l), mediaType="application/vnd.oci.image.layer.v1.tar") for l in layers]
    m = put(json.dumps({"schemaVersion": 2, "config": conf, "layers": descs}).encode())
    with open(f"{state}/agent/staging/{name}/index.json", "w") as f:
        json.dump({"schemaVersion": 2, "manifests": [m]}, f)
    sh(f"chown -R nobody: {state}/agent/staging/{name}")
    return m["digest"], name


def busybox(*more):
    """No SSH server, no C library, no users, no shadow, no /etc at all."""
    return tar(folder("bin"), folder("tmp", 0o1777), folder("root", 0o700),
               entry("bin/busybox", open("/bin/busybox", "rb").read(), mode=0o755),
               *[link(f"bin/{a}", "busybox") for a in APPLETS], *more)


def image_import(n, *layers, config=None):
    digest, name = layout(n.state, *layers, config=config)
    n.ask("image-import", f"digest={digest}", f"name={name}")
    got = n.wait(lambda: (lambda s: s if s["state"] in "23" else None)(n.ask("image-stat", f"digest={digest}")), 60)
    assert got["state"] == "2", got
    return digest


def setup():
    global node, image, impossible
    if node:
        return node
    if impossible:
        rig.skip(impossible)
    if not shutil.which("sshd", path="/usr/sbin") or not os.path.exists("/bin/busybox"):
        rig.skip("needs sshd and a static busybox")
    n = Node("one", "gpu = sim:2*RTX 4090:64\n")
    sh(f"ssh-keygen -q -t ed25519 -N '' -f {rig.tmp}/key -C test")
    n.start()
    if not n.ask("hello")["runtime"]:
        impossible = "no container runtime works here: " + n.ask("hello").get("why", "")
        rig.skip(impossible)
    image = image_import(n, busybox(), config={"Env": ["IMG=from image", "PATH=/bin:/opt/x"]})
    node = n
    return n


class Guest:
    """One lease with its own disk and address."""
    count = 0

    def __init__(self, n, *args, memory=256, pids=128, cpu=1000, hard=60000, soft="never", img=None, disk=None,
                 instance=None, size=256, wait=True):
        Guest.count += 1
        i = Guest.count
        self.n, self.lease, self.address = n, f"lea_g{i}", f"{n.net}.0.{10 + i}"
        self.instance = instance or f"ins_g{i}"
        self.port = 21000 + i
        self.disk = disk or f"dsk_g{i}"
        n.ask("disk-ensure", f"disk={self.disk}", f"size={size}")
        n.wait(lambda: n.ask("disk-stat", f"disk={self.disk}")["state"] == "1")
        self.start_args = [f"lease={self.lease}", f"instance={self.instance}", f"image={img or image}", "host=box",
                           f"disk={self.disk}", f"cpu={cpu}", f"memory={memory}", f"pids={pids}",
                           f"address={self.address}", "epoch=1", f"hard={hard}", f"soft={soft}",
                           f"port=22:{self.port}", *args]
        self.begun = boot()
        n.ask("start", *self.start_args)
        n.ask("keys", f"lease={self.lease}", f"text={open(rig.tmp + '/key.pub').read()}")
        if wait:
            self.ready()

    def stat(self):
        return self.n.ask("stat", f"lease={self.lease}")

    def until(self, test, seconds=15):
        return self.n.wait(lambda: (lambda s: s if test(s) else None)(self.stat()), seconds)

    def ready(self):
        s = self.until(lambda s: int(s["ready"]) or s["state"] == "ended")
        assert s["state"] == "running", f"{s}\n{self.log()}"
        return s

    def ended(self, seconds=15):
        return self.until(lambda s: s["state"] == "ended", seconds)

    def log(self):
        return self.n.ask("log", f"lease={self.lease}", "from=0")["text"]

    def ssh(self, command, check=True, data=None, opts=(), timeout=20):
        r = subprocess.run(["ssh", "-i", f"{rig.tmp}/key", *SSH, *opts, "-p", str(self.port), "root@127.0.0.1", command],
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, input=data, timeout=timeout)
        out = r.stdout.decode(errors="replace")
        assert not check or r.returncode == 0, f"{command}: {r.returncode}: {out}"
        return out if check else (r.returncode, out)

    def clean(self):
        s = self.stat()
        if s["state"] in ("running", "preparing"):
            self.n.ask("stop", f"lease={self.lease}", "epoch=1", "grace=0")
            s = self.ended()
        s0 = s
        self.n.ask("clean", f"lease={self.lease}")
        s = self.until(lambda s: s["state"] == "none" or s["fail"] != s0["fail"])
        assert s["state"] == "none", s


def boot():
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * 1000)


def alive(pid):
    try:
        return open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def kill9(pid):
    assert pid > 1, "no such process"
    os.kill(pid, signal.SIGKILL)


def world(n):
    """What a guest adds to the machine: mounts of the helper, cgroups, loops, interfaces, rules."""
    helper = n.child("priv")
    mounts = sorted(l.split(" ")[4] + " " + l.split(" - ")[1].split()[0]
                    for l in open(f"/proc/{helper}/mountinfo") if "/leases/" in l)
    loops = [l for l in sh("losetup -a").splitlines() if n.state in l]
    cgroups = sorted(p for c in glob.glob(f"/sys/fs/cgroup/*/suanli-{n.tag}") for p in glob.glob(c + "/lea_*"))
    holder = open(glob.glob(n.state + "/priv/netns.holder")[0]).read().split()[0]
    links = sh(f"nsenter -t {holder} -n ip -o link | sed 's/@.*//; s/^[0-9]*: //' | sort")
    rules = re.sub(r"counter packets \d+ bytes \d+", "counter", sh(f"nsenter -t {holder} -n nft list ruleset; nft list table ip suanli_{n.tag}"))
    run = sorted(os.listdir(f"/proc/{helper}/root/run/suanli-{n.tag}/leases"))
    return {"mounts": mounts, "loops": loops, "cgroups": cgroups, "links": links, "rules": rules, "run": run,
            "leases": os.listdir(n.state + "/priv/leases")}


def test_config_checks():
    """the configuration is checked with line numbers and printed back in a form that reads the same"""
    conf = f"{rig.tmp}/c"
    open(conf, "w").write("state = /x\n\n# c\nnet = 10.9.0.0/16\nport_min = 90000\n")
    r = subprocess.run([NODE, "-n", "-c", conf], stderr=subprocess.PIPE, text=True)
    assert r.returncode == 2 and f"{conf}:5" in r.stderr and "port_min" in r.stderr, r.stderr
    open(conf, "w").write("state = /x\nnope = 1\n")
    assert f"{conf}:2" in subprocess.run([NODE, "-n", "-c", conf], stderr=subprocess.PIPE, text=True).stderr
    open(conf, "w").write("state = /x\nnet = 10.9.0.0/16\ngpu = sim:2*RTX 4090:64\nslice_s = 5\n")
    first = sh([NODE, "-n", "-c", conf])
    open(conf, "w").write(first)
    assert sh([NODE, "-n", "-c", conf]) == first and "slice_s = 5" in first


def test_starts_and_ssh():
    """a guest starts in an image without SSH server, C library and users, and is reached over SSH"""
    n = setup()
    global before
    before = world(n)
    g = Guest(n, "env=FOO=bar baz", "env=PATH=/bin:/mine", hard=600000)
    s = g.stat()
    assert s["host_key"].startswith("ssh-ed25519 ")
    seen = g.ssh("id -u; echo $FOO; echo $IMG; echo $PATH; echo $LD_PRELOAD$OPENSSL_CONF; hostname").splitlines()
    assert seen == ["0", "bar baz", "from image", "/bin:/mine", "", "box"], seen
    assert g.ssh("exit 7", check=False)[0] == 7
    assert g.ssh("cat | wc -c", data=b"x" * 3000000).strip() == "3000000"
    print(f"# order to banner {int(s['ready']) - g.begun} ms, steps " +
          " ".join(str(int(s[f'step_us{i}']) // 1000) for i in range(5)))
    test_starts_and_ssh.g = g


def test_files_and_forwarding():
    """scp, sftp, port forwarding and a terminal work"""
    g, t = test_starts_and_ssh.g, rig.tmp
    data = os.urandom(300000)
    open(f"{t}/up", "wb").write(data)
    opts = ["-i", f"{t}/key", *SSH, "-P", str(g.port)]
    sh(["scp", *opts, f"{t}/up", "root@127.0.0.1:/root/f"])
    sh(["sftp", *opts, "root@127.0.0.1:/root/f", f"{t}/down"])
    assert open(f"{t}/down", "rb").read() == data
    p = subprocess.Popen(["ssh", "-i", f"{t}/key", *SSH, "-p", str(g.port), "-N", "-L", f"22990:127.0.0.1:22",
                          "root@127.0.0.1"])
    try:
        g.n.wait(lambda: subprocess.run("exec 3<>/dev/tcp/127.0.0.1/22990 && head -c4 <&3", shell=True, executable="/bin/bash",
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout == b"SSH-")
    finally:
        p.kill()
        p.wait()
    assert "/dev/pts/" in g.ssh("tty", opts=["-tt"])


def test_keys_and_banner():
    """keys change at once, the image's own keys count for nothing, report and notices show at login"""
    g, n, t = test_starts_and_ssh.g, setup(), rig.tmp
    sh(f"ssh-keygen -q -t ed25519 -N '' -f {t}/other -C o")
    other = lambda: subprocess.run(["ssh", "-i", f"{t}/other", *SSH, "-p", str(g.port), "root@127.0.0.1", "true"],
                                   stderr=subprocess.DEVNULL).returncode
    assert other() == 255
    g.ssh("mkdir -p ~/.ssh; tee ~/.ssh/authorized_keys", data=open(f"{t}/other.pub", "rb").read())
    assert other() == 255, "a key in the guest's own file was taken"
    n.ask("keys", f"lease={g.lease}", f"text={open(t + '/key.pub').read()}{open(t + '/other.pub').read()}")
    assert other() == 0
    n.ask("keys", f"lease={g.lease}", f"text={open(t + '/key.pub').read()}")
    assert other() == 255
    n.ask("keys", f"lease={g.lease}", 'text=command="x" ssh-ed25519 AAAA', want="validation")
    n.ask("report", f"lease={g.lease}", "text=You got one card.")
    n.ask("notice", f"lease={g.lease}", "text=Ends in \x1b[31mten minutes.")
    shown = subprocess.run(["ssh", "-tt", "-i", f"{t}/key", *SSH, "-p", str(g.port), "root@127.0.0.1"], input=b"exit\n",
                           stdout=subprocess.PIPE, timeout=20).stdout.decode()
    assert "You got one card." in shown and "Ends in ?[31mten minutes." in shown, shown


def test_nothing_foreign_visible():
    """from inside nothing of the machine or of others is seen, and the way out is shut"""
    g = test_starts_and_ssh.g
    assert [l.split()[-1] for l in g.ssh("ps -o args").splitlines()[1:] if "init" in l] == ["openssh"]
    assert sorted(g.ssh("ls /sys/class/net").split()) == ["eth0", "lo"]
    assert g.ssh("dmesg", check=False)[0] != 0
    assert g.ssh("ls /sys/fs /sys/kernel /sys/firmware /sys/module 2>&1 | grep -v ':$' | grep .", check=False)[0] != 0
    assert g.ssh("cat /proc/partitions /proc/diskstats /proc/swaps; for d in /proc/fs /sys/block /sys/class/block "
                 "/sys/class/bdi /sys/dev/block /sys/devices/virtual/block; do ls -A $d; done") == "", "others' disks are seen"
    status = g.ssh("cat /proc/self/status")
    assert re.search(r"NoNewPrivs:\s+1\n", status) and re.search(r"Seccomp:\s+2\n", status)
    caps = int(re.search(r"CapBnd:\s+(\w+)", status).group(1), 16)
    assert caps == 0x800405fb, hex(caps)
    assert g.ssh("cat /proc/self/uid_map").split()[1:] == [g.ssh("cat /proc/self/uid_map").split()[1], "65536"]
    assert int(g.ssh("cat /proc/self/uid_map").split()[1]) >= 65536 * 17
    assert g.ssh("ls /proc/1/fd").split() == ["0", "1", "2"], "a descriptor of the machine leaked"
    assert "/run/suanli" not in g.ssh("cat /proc/1/environ; ls -l /proc/1/cwd /proc/1/root /proc/1/exe")
    for refused in ("mount -t tmpfs x /tmp", "unshare -U true", "mknod /root/m b 8 0", "mknod /root/m c 1 1",
                    "hostname evil", "echo 1 > /proc/sys/kernel/printk", "echo b > /proc/sysrq-trigger",
                    "touch /.suanli/x", "touch /.suanli/lease/x", "echo > /.suanli/lease/authorized_keys",
                    "mount -o remount,rw /.suanli", "kill -9 1; sleep 0.2; test ! -d /proc/1"):
        assert g.ssh(refused, check=False)[0] != 0, refused
    assert sorted(g.ssh("ls /dev").split()) == sorted("core fd full mqueue null ptmx pts random shm stderr stdin stdout tty "
                                                      "urandom zero".split())


def test_refused_calls():
    """the system calls that are not on the published list give EPERM"""
    src, exe = f"{rig.tmp}/calls.c", f"{rig.tmp}/calls"
    names = ("bpf keyctl add_key request_key userfaultfd perf_event_open mount umount2 unshare setns pivot_root "
             "io_uring_setup io_uring_enter open_by_handle_at name_to_handle_at kexec_load process_vm_readv "
             "process_vm_writev quotactl acct swapon reboot init_module delete_module settimeofday clock_settime "
             "adjtimex syslog fsopen open_tree move_mount mount_setattr fspick fsconfig fsmount pidfd_getfd kcmp "
             "fanotify_init iopl ioperm vhangup memfd_secret").split()
    open(src, "w").write("#define _GNU_SOURCE\n#include <sys/syscall.h>\n#include <unistd.h>\n#include <errno.h>\n"
                         "#include <stdio.h>\n#include <sched.h>\n#include <sys/socket.h>\nint main(void){\n" +
                         "".join(f"errno=0; if(syscall(SYS_{x},0,0,0,0,0)!=-1||errno!=EPERM)printf(\"{x} %d\\n\",errno);\n"
                                 for x in names) +
                         "if(syscall(SYS_clone,0x10000000|17,0,0,0,0)!=-1)puts(\"newuser\");\n"
                         "errno=0;syscall(SYS_clone3,0,0);if(errno!=ENOSYS)puts(\"clone3\");\n"
                         "if(socket(AF_PACKET,SOCK_RAW,0)>=0||socket(40,1,0)>=0||socket(38,5,0)>=0)puts(\"socket\");\n"
                         "if(socket(AF_INET,SOCK_STREAM,0)<0)puts(\"inet\");return 0;}\n")
    sh(["gcc", "-static", "-o", exe, src])
    g = test_starts_and_ssh.g
    g.ssh("tee /root/calls > /dev/null; chmod 755 /root/calls", data=open(exe, "rb").read())
    assert g.ssh("/root/calls") == "", g.ssh("/root/calls")


def test_simulated_cards():
    """a card is a memory file that says it is simulated; the other card is not there; limits of the file hold"""
    n = setup()
    uuids = sh([PRIVCTL, "--cards", "sim:2*RTX 4090:64", n.state]).split()
    g = Guest(n, f"gpu={uuids[1]}")
    assert sorted(g.ssh("ls /dev/suanli-sim").split()) == ["SIMULATED", "card0"]
    text = g.ssh("cat /dev/suanli-sim/SIMULATED")
    assert "SIMULATED" in text and uuids[1] in text and uuids[0] not in text
    assert g.ssh("wc -c < /dev/suanli-sim/card0").strip() == str(64 << 20)
    assert g.ssh("touch /dev/suanli-sim/more", check=False)[0] != 0
    assert uuids[1] in g.ssh("echo $SUANLI_SIMULATED_GPUS")
    n.ask("start", "lease=lea_x", "instance=ins_x", f"image={image}", "host=b", "disk=dsk_x", "cpu=1000", "memory=64",
          "pids=64", "address=10.77.9.9", "epoch=1", f"gpu={uuids[1]}", want="in_use")
    n.ask("start", "lease=lea_x", "instance=ins_x", f"image={image}", "host=b", "disk=dsk_x", "cpu=1000", "memory=64",
          "pids=64", "address=10.77.9.9", "epoch=1", "gpu=GPU-none", want="validation")
    g.clean()


def fake_cards():
    """Two cards as the NVIDIA driver shows them, in this mount namespace only: nodes of harmless drivers that are
    outside of every runtime's default list, the driver's list of cards, libraries."""
    t = f"{rig.tmp}/nv"
    for d in ("dev", "up", "work", "bin_up", "bin_work"):
        os.makedirs(f"{t}/{d}")
    libs = "/usr/lib/x86_64-linux-gnu"
    sh(f"mount -t tmpfs dev {t}/dev && cp -a /dev/null /dev/zero /dev/full /dev/tty /dev/random /dev/urandom "
       f"/dev/loop* {t}/dev/ && mkdir {t}/dev/pts {t}/dev/shm && mount --rbind /dev/pts {t}/dev/pts && ln -s pts/ptmx {t}/dev/ptmx")
    sh(f"cd {t}/dev && mknod nvidia0 c 10 229 && mknod nvidia1 c 10 200 && mknod nvidiactl c 10 238 && chmod 666 nvidia*")
    sh(f"mount --rbind {t}/dev /dev")
    for n, bus in enumerate(("0000:01:00.0", "0000:02:00.0")):
        os.makedirs(f"{t}/proc/gpus/{bus}")
        with open(f"{t}/proc/gpus/{bus}/information", "w") as f:
            f.write(f"Model: \t\t NVIDIA GeForce RTX 4090\nGPU UUID: \t GPU-0000000{n}-1111-2222-3333-444444444444\n"
                    f"Device Minor: \t {n}\n")
    sh(f"mount -t overlay o {libs} -o lowerdir={libs},upperdir={t}/up,workdir={t}/work")
    with open(f"{libs}/libcuda.so.550.54", "w") as f:
        f.write("stub")
    os.symlink("libcuda.so.550.54", f"{libs}/libcuda.so.1")


def test_real_cards():
    """of two NVIDIA cards the leased one is there with the driver's files, the other is neither visible nor usable"""
    setup()
    if ARCH != "amd64":
        rig.skip("the fake knows one architecture's folders")
    fake_cards()
    n = Node("five", f"gpu = nvml\nnvidia_proc = {rig.tmp}/nv/proc\n", net="10.81")
    n.start()
    g = Guest(n, "gpu=GPU-00000001-1111-2222-3333-444444444444", img=image_import(n, busybox()))
    assert sorted(g.ssh("ls -d /dev/nv*").split()) == ["/dev/nvidia1", "/dev/nvidiactl"]
    seen = g.ssh("cat /usr/local/nvidia/lib64/libcuda.so.1; echo; echo $LD_LIBRARY_PATH; echo $NVIDIA_VISIBLE_DEVICES; "
                 "ls /usr/local/nvidia/lib64")
    assert seen.split() == ["stub", "/usr/local/nvidia/lib64", "void", "libcuda.so.1", "libcuda.so.550.54"], seen
    assert g.ssh("echo x > /usr/local/nvidia/lib64/libcuda.so.1", check=False)[0] != 0
    assert g.ssh("mknod /root/n c 10 229", check=False)[0] != 0
    allowed = open(glob.glob(f"/sys/fs/cgroup/devices/suanli-{n.tag}/{g.lease}/devices.list")[0]).read() \
        if os.path.exists("/sys/fs/cgroup/devices") else "c 10:200 rw\n"
    assert "c 10:200 rw" in allowed and "10:229" not in allowed and "a *:*" not in allowed, allowed
    g.clean()
    n.stop()


def test_limits():
    """memory, processes and disk bind, and hurt only their own lease"""
    n = setup()
    other = test_starts_and_ssh.g
    g = Guest(n, memory=64, pids=40, size=64)
    code, out = g.ssh("dd if=/dev/zero of=/dev/shm/x bs=1M count=200", check=False)
    assert code != 0
    code, out = g.ssh("for i in $(seq 80); do (sleep 3 >/dev/null 2>&1 &) ; done", check=False)
    assert "fork" in out or code != 0, out
    time.sleep(3.2)
    code, out = g.ssh("dd if=/dev/zero of=/root/big bs=1M count=200", check=False)
    assert code != 0 and "space" in out, out
    assert g.ssh("echo in").strip() == "in", "a full disk shut the door"
    g.ssh("rm /root/big")
    assert other.ssh("echo fine").strip() == "fine"
    m = n.ask("meter", f"lease={g.lease}")
    assert int(m["cpu_us"]) > 0 and int(m["rx"]) > 0 and int(m["tx"]) > 0
    g.clean()


def test_command_exit():
    """a guest with a command ends with it: exit code, output, no restart"""
    n = setup()
    g = Guest(n, "arg=sh", "arg=-c", "arg=echo hello from $FOO; sleep 0.3; exit 9", "env=FOO=me", wait=False)
    s = g.ended()
    assert s["exit_code"] == "9" and s["fail"] == "ok" and s["killed_at_deadline"] == "0", s
    assert g.log() == "hello from me\n", g.log()
    n.ask("start", *g.start_args)
    assert g.stat()["state"] == "ended"
    g.clean()


def test_output_ring():
    """a flood of output is bounded on disk and read on from the oldest byte kept"""
    n = setup()
    g = Guest(n, "arg=sh", "arg=-c", "arg=seq 1 400000", wait=False)
    g.ended(30)
    size = os.stat(f"{n.state}/priv/leases/{g.lease}/output").st_size
    assert size <= (1 << 20) + 8, size
    at, text = 0, ""
    while True:
        r = n.ask("log", f"lease={g.lease}", f"from={at}")
        if int(r["next"]) == at or not r["text"]:
            break
        at = int(r["next"])
        text += r["text"]
    assert text.endswith("399999\n400000\n") and len(text) == 1 << 20, (len(text), at, size)
    g.clean()


def test_stop():
    """stop signals first and kills after the grace"""
    n = setup()
    g = Guest(n, "arg=sh", "arg=-c", "arg=trap 'echo got it; exit 5' TERM; while true; do sleep 0.1; done")
    n.ask("stop", f"lease={g.lease}", "epoch=1", "grace=5000")
    s = g.ended()
    assert s["exit_code"] == "5" and "got it" in g.log(), s
    g.clean()
    g = Guest(n, "arg=sh", "arg=-c", "arg=trap '' TERM; while true; do sleep 0.1; done")
    t = boot()
    n.ask("stop", f"lease={g.lease}", "epoch=1", "grace=700")
    s = g.ended()
    assert s["exit_code"] == "137" and 650 <= int(s["ended"]) - t < 2000, s
    g.clean()


def test_deadline_alone():
    """with supervisor, helper and agent killed, the guard alone ends the guest: in time, never late"""
    setup()
    n = Node("two", net="10.78")
    n.start()
    img = image_import(n, busybox())
    g = Guest(n, hard=60000, img=img)
    end = boot() + 3500
    n.ask("deadline", f"lease={g.lease}", "epoch=1", "soft=2000", f"hard={end - boot()}")
    n.ask("deadline", f"lease={g.lease}", "epoch=0", "soft=9000", "hard=90000")
    s = g.stat()
    assert abs(int(s["hard"]) - end) < 50, "a lower epoch moved the end"
    guest, helper, agent = int(s["pid"]), n.child("priv"), n.child("agent")
    for pid in (n.process.pid, helper, agent):
        kill9(pid)
    n.process.wait()
    while alive(guest) and boot() < end + 1000:
        time.sleep(0.005)
    early = end - boot()
    # the signal before the end asks programs to end; an idle guest has its whole time
    assert not alive(guest) and 0 <= early <= 1000, f"{early} ms early"
    n.start()
    s = g.ended()
    assert s["exit_code"] == "137" and s["killed_at_deadline"] == "1", s
    g.clean()
    g = Guest(n, "arg=sh", "arg=-c", "arg=trap '' TERM; while true; do sleep 0.1; done", hard=4000, soft=1000, img=img)
    end = int(g.stat()["hard"])
    guest = int(g.stat()["pid"])
    while alive(guest) and boot() < end + 1000:
        time.sleep(0.005)
    early = end - boot()
    assert not alive(guest) and 0 <= early <= 1000, f"{early} ms early"
    s = g.ended()
    assert s["killed_at_deadline"] == "1" and s["exit_code"] == "137", s
    g.clean()
    n.stop()


def test_warning():
    """a grace before the end the guest's processes get TERM; the way in stays open until the end"""
    n = setup()
    g = Guest(n, hard=60000)
    p = subprocess.Popen(["ssh", "-i", f"{rig.tmp}/key", *SSH, "-p", str(g.port), "root@127.0.0.1",
                          "trap 'echo saved; exit 3' TERM; echo up; while true; do sleep 0.1; done"], stdout=subprocess.PIPE,
                         stderr=subprocess.DEVNULL)
    assert p.stdout.readline() == b"up\n"
    n.ask("deadline", f"lease={g.lease}", "epoch=1", "soft=200", "hard=6000")
    assert p.stdout.readline() == b"saved\n" and p.wait(5) == 3
    assert g.ssh("echo in").strip() == "in"
    g.clean()


def test_no_end_given():
    """a guest that nobody gave an end does not live for ever"""
    n = setup()
    g = Guest(n, hard="none")
    assert int(g.stat()["hard"]) <= boot() + 60000
    g.clean()


def test_guard_killed():
    """a guard killed with SIGKILL is replaced; the guest goes on, its end stays, its output too"""
    n = setup()
    g = Guest(n, "arg=sh", "arg=-c", "arg=trap '' PIPE; i=0; while true; do i=$((i+1)); echo line $i; sleep 0.1; done", hard=8000)
    s = g.stat()
    guest, hard, guard = int(s["pid"]), s["hard"], n.guard(g.lease)
    assert guard > 0
    kill9(guard)
    n.wait(lambda: n.guard(g.lease) not in (0, guard))
    s = g.until(lambda s: s["guard_alive"] == "1")
    assert alive(guest) and s["pid"] == str(guest) and s["state"] == "running" and s["hard"] == hard
    assert g.ssh("echo here").strip() == "here"
    at = len(g.log())
    n.wait(lambda: len(g.log()) > at)
    while alive(guest) and boot() < int(hard) + 1000:
        time.sleep(0.005)
    assert not alive(guest) and 0 <= int(hard) - boot() <= 1000
    s = g.ended()
    assert s["exit_code"] == "-1" and s["killed_at_deadline"] == "1", s
    lines = g.log().splitlines()
    assert lines == [f"line {i}" for i in range(1, len(lines) + 1)], "output was lost"
    g.clean()


def test_helper_killed():
    """a helper killed with SIGKILL comes back and finds every guest; nothing is started twice"""
    n = setup()
    g = Guest(n)
    s = g.stat()
    for victim in ("priv", "agent", "priv"):
        old = n.child(victim)
        kill9(old)
        n.wait(lambda: n.child(victim) not in (0, old))
        now = g.until(lambda s: s["state"] == "running")
        assert (now["pid"], now["started"], now["ready"]) == (s["pid"], s["started"], s["ready"])
        n.ask("start", *g.start_args)
        assert g.stat()["pid"] == s["pid"]
    n.ask("deadline", f"lease={g.lease}", "epoch=1", "soft=never", "hard=30000")
    assert g.ssh("echo still").strip() == "still"
    # the whole family but the guards
    for pid in (n.process.pid, n.child("priv"), n.child("agent")):
        kill9(pid)
    n.process.wait()
    n.start()
    now = g.until(lambda s: s["state"] == "running")
    assert now["pid"] == s["pid"] and now["guard_alive"] == "1"
    n.ask("keys", f"lease={g.lease}", f"text={open(rig.tmp + '/key.pub').read()}")
    assert g.ssh("echo still").strip() == "still"
    g.clean()


def test_killed_while_starting():
    """guard or helper killed at any moment of a start: the start is resumed, and nothing is left afterwards"""
    n = setup()
    for i, delay in enumerate((0.0, 0.005, 0.015, 0.03, 0.05, 0.08, 0.12)):
        g = Guest(n, wait=False)
        time.sleep(delay)
        if i % 2:
            kill9(n.wait(lambda: n.child("priv")))
        else:
            guard = n.guard(g.lease)
            if guard:
                kill9(guard)
        s = g.until(lambda s: (s["state"] == "running" and int(s["ready"])) or s["state"] == "ended")
        assert s["state"] == "running" and s["host_key"].startswith("ssh-ed25519 "), s
        assert g.ssh("echo up").strip() == "up"
        g.clean()


def test_host_key_stays():
    """the host key belongs to the instance: a stop and a start keep it, and the disk keeps its files"""
    n = setup()
    g = Guest(n, instance="ins_keep", disk="dsk_keep")
    key = g.stat()["host_key"]
    g.ssh("echo data > /root/kept; mkdir -p /etc; echo mine > /etc/hosts")
    g.clean()
    g = Guest(n, instance="ins_keep", disk="dsk_keep")
    assert g.stat()["host_key"] == key
    assert g.ssh("cat /root/kept; cat /etc/hosts").split() == ["data", "mine"]
    g.clean()
    n.ask("forget", "instance=ins_keep")
    assert not os.path.exists(f"{n.state}/priv/instances/ins_keep")


def test_hostile_root():
    """an image or a disk whose dev, proc or data path is a link is refused or resolved inside"""
    n = setup()
    for name, to in (("dev", "/tmp"), ("proc", "/etc"), ("root/data", "../../../../etc"), ("mnt", "/proc/1/root")):
        digest, staged = layout(n.state, busybox(link(name, to)))
        n.ask("image-import", f"digest={digest}", f"name={staged}")
        got = n.wait(lambda: (lambda s: s if s["state"] in "23" else None)(n.ask("image-stat", f"digest={digest}")), 60)
        if got["fail"] == "image_hostile":
            continue
        n.ask("disk-ensure", "disk=dsk_data", "size=64")
        n.wait(lambda: n.ask("disk-stat", "disk=dsk_data")["state"] == "1")
        g = Guest(n, "data=dsk_data:/root/data" if "root" in name else "data=dsk_data:/mnt/x", img=digest, wait=False)
        s = g.ended()
        assert s["fail"] == "image_hostile", (name, s)
        g.clean()


def test_data_disk():
    """a data disk is where it was asked for, is written by the guest's root, and outlives the lease"""
    n = setup()
    n.ask("disk-ensure", "disk=dsk_data", "size=64")
    n.wait(lambda: n.ask("disk-stat", "disk=dsk_data")["state"] == "1")
    g = Guest(n, "data=dsk_data:/root/data")
    g.ssh("echo kept > /root/data/f")
    g.clean()
    g = Guest(n, "data=dsk_data:/mnt/other")
    assert g.ssh("cat /mnt/other/f").strip() == "kept"
    n.ask("disk-erase", "disk=dsk_data", want="disk_in_use")
    g.clean()


def test_bad_messages():
    """a field outside its range is refused before anything happens"""
    n = setup()
    ok = dict(lease="lea_bad", instance="ins_bad", image=image, host="b", disk="dsk_bad", cpu="1000", memory="64",
              pids="64", address="10.77.3.3", epoch="1", port="22:21090")
    for key, value in (("lease", "lea_../x"), ("lease", "dsk_x"), ("instance", "x"), ("image", "sha256:zz"), ("host", "a/b"),
                       ("disk", "dsk_/etc"), ("cpu", "0"), ("memory", "1"), ("pids", "0"), ("address", "10.78.0.1"),
                       ("address", "10.77.0.1"), ("port", "22:80"), ("data", "dsk_x:/etc"), ("data", "dsk_x:/mnt/../etc"),
                       ("data", "dsk_bad:/root/x"), ("env", "NOEQ"), ("epoch", "-1")):
        args = dict(ok, **{key: value})
        n.ask("start", *[f"{k}={v}" for k, v in args.items()], want="validation")
    assert n.ask("stat", "lease=lea_bad")["state"] == "none"


def test_failed_start():
    """a start that fails says where and why, and leaves nothing"""
    n = setup()
    g = Guest(n, img="sha256:" + "0" * 64, wait=False)
    s = g.ended()
    assert s["fail"] == "image_not_found" and s["step"] == "1", s
    g.clean()


def test_all_killed():
    """even with supervisor, helper, agent, guard and namespace keeper killed at once, the guest is found, ended, cleaned"""
    n = Node("four", net="10.80")
    setup()
    n.start()
    g = Guest(n, "arg=sh", "arg=-c", "arg=trap '' TERM; while true; do sleep 0.1; done", img=image_import(n, busybox()), hard=9000)
    s = g.stat()
    holder = int(open(n.state + "/priv/netns.holder").read().split()[0])
    for pid in (n.process.pid, n.guard(g.lease), n.child("priv"), n.child("agent"), holder):
        kill9(pid)
    n.process.wait()
    n.start()
    now = g.until(lambda s: s["guard_alive"] == "1")
    assert now["pid"] == s["pid"] and now["state"] == "running", now
    end, guest = int(s["hard"]), int(s["pid"])
    while alive(guest) and boot() < end + 1000:
        time.sleep(0.01)
    assert not alive(guest) and 0 <= end - boot() <= 1000
    assert g.ended()["killed_at_deadline"] == "1"
    g.clean()
    assert not [l for l in sh("losetup -a").splitlines() if n.state in l]
    n.stop()


def test_flood():
    """a fork bomb, a flood of output and a full file table stay inside; the neighbour answers; nothing is left after"""
    n = setup()
    other = Guest(n)
    g = Guest(n, "arg=sh", "arg=-c", "arg=b() { b | b & b; }; yes flood & (sleep 1; b 2>/dev/null) & exec sleep 90", memory=96, pids=60, cpu=300)
    t = time.monotonic()
    for _ in range(5):
        assert other.ssh("echo fine").strip() == "fine"
    assert time.monotonic() - t < 15
    g.clean()
    other.clean()


def test_other_pair():
    """the other runtime and the other SSH server do as well: runc, dropbear"""
    setup()
    n = Node("three", "runtime = runc\nssh_server = dropbear\n", net="10.79")
    for program in ("runc", "dropbear"):
        if not shutil.which(program, path="/usr/sbin:/usr/bin"):
            rig.skip(f"no {program}")
    n.start()
    hello = n.ask("hello")
    assert (hello["runtime"], hello["ssh"]) == ("runc", "dropbear"), hello
    g = Guest(n, "env=FOO=bar", img=image_import(n, busybox()))
    assert g.ssh("id -u; exit 6", check=False) == (6, "0\n")
    known = subprocess.run(["ssh-keyscan", "-t", "ed25519", "-p", str(g.port), "127.0.0.1"], stdout=subprocess.PIPE,
                           stderr=subprocess.DEVNULL, text=True).stdout
    assert g.stat()["host_key"].split()[1] in known, known
    assert g.ssh("unshare -U true", check=False)[0] != 0
    g.clean()
    n.stop()


def test_nothing_left():
    """after all of it nothing of any guest is left: mounts, loops, cgroups, links, rules, folders"""
    n = setup()
    test_starts_and_ssh.g.clean()
    after = world(n)
    for key in before:
        assert after[key] == before[key], f"{key}: before {before[key]}\nafter {after[key]}"
    n.ask("list")
    time.sleep(1)
    assert "stray" not in n.ask("list"), n.ask("list")
    n.stop()


if __name__ == "__main__":
    rig.main(globals())
