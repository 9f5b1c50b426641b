"""A whole platform in a folder of its own, for tests: suanlid, suanli-node, an operator, a renter.

Everything runs in private mount and network namespaces: tests re-execute themselves through enter()
first, so that nothing outside is seen or touched. All processes are children and are ended by pid.
"""
import atexit, json, os, shutil, signal, socket, subprocess, sys, tempfile, time, uuid

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("SUANLI_BUILD", os.path.join(ROOT, "build", "release"))
LONG = os.environ.get("SUANLI_LONG") == "1"
RECIPES = os.path.join(BUILD, "recipes")  # built images, kept from run to run


def binary(name):
    folder = {"suanlid": "daemon", "suanli-node": "node", "suanli": "cli"}[name]
    return os.path.join(BUILD, "src", folder, name)


def enter():
    """Runs this program again as root in private namespaces; returns there."""
    if os.environ.get("SUANLI_NS") == "1":
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        return
    if os.geteuid() != 0:
        print("1..0 # SKIP needs root (mounts, namespaces)")
        sys.exit(0)
    env = dict(os.environ, SUANLI_NS="1")
    os.execvpe("unshare", ["unshare", "-mn", "--propagation", "private", sys.executable] + sys.argv, env)


def recipe(name):
    """Builds a recipe of images/ once; needs the machine's package sources, so it goes before enter()."""
    if os.environ.get("SUANLI_NS") == "1":
        return
    env = dict(os.environ, IMAGE_CACHE=os.path.join(BUILD, "image-cache"))
    p = subprocess.run([os.path.join(ROOT, "images", "build"), name, os.path.join(RECIPES, name)], env=env,
                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if p.returncode:
        print(f"not ok 1 - the image {name} is built from Debian packages\n# " + p.stdout[-2000:].replace("\n", "\n# "))
        sys.exit(1)
    subprocess.run(["chmod", "-R", "a+rX", RECIPES], check=True)


class Tap:
    """Counts and prints; every check is one line."""

    def __init__(self):
        self.n = self.failed = 0

    def ok(self, good, name, detail=""):
        self.n += 1
        print(f"{'' if good else 'not '}ok {self.n} - {name}", flush=True)
        if not good:
            self.failed += 1
            for line in str(detail).splitlines()[:40]:
                print(f"#   {line}", flush=True)
        return good

    def equal(self, got, want, name):
        return self.ok(got == want, name, f"got {got!r}\nwanted {want!r}")

    def skip(self, name, why):
        self.n += 1
        print(f"ok {self.n} - {name} # SKIP {why}", flush=True)

    def note(self, text):
        print("# " + text, flush=True)

    def done(self):
        print(f"1..{self.n}", flush=True)
        sys.exit(1 if self.failed else 0)


def wait_for(what, seconds=30, step=0.05):
    """The first true value of what(), or None after that many seconds."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = what()
        if value:
            return value
        time.sleep(step)
    return None


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Result:
    def __init__(self, p):
        self.rc, self.out, self.err = p.returncode, p.stdout, p.stderr

    @property
    def json(self):
        return json.loads(self.out)

    def __repr__(self):
        return f"rc={self.rc}\nstdout: {self.out}\nstderr: {self.err}"


class Platform:
    def __init__(self, gpu="sim:2*RTX 4090:512", term_s=600, slice_s=2, node=True, balance="1000", **daemon):
        self.dir = tempfile.mkdtemp(prefix="suanli-test-", dir=os.environ.get("SUANLI_TMP", "/tmp"))
        os.chmod(self.dir, 0o755)
        self.port = free_port()
        self.procs = {}
        self.gpu, self.term_s, self.slice_s, self.balance = gpu, term_s, slice_s, balance
        self.daemon_keys = daemon
        atexit.register(self.close)
        self.write_configs()
        self.start_daemon()
        self.first_users()
        if node:
            self.add_node()

    # --- processes -----------------------------------------------------------------------------
    def path(self, *names):
        return os.path.join(self.dir, *names)

    def spawn(self, name, cmd, **kw):
        log = open(self.path(f"{name}.log"), "ab")
        self.procs[name] = subprocess.Popen(cmd, stdin=subprocess.DEVNULL, stdout=log, stderr=log, **kw)
        log.close()
        return self.procs[name]

    def stop(self, name, sig=signal.SIGTERM, wait=20):
        p = self.procs.pop(name, None)
        if p and p.poll() is None:
            p.send_signal(sig)
            try:
                p.wait(wait)
            except subprocess.TimeoutExpired:
                p.kill()
                p.wait()
        return p

    def log(self, name, lines=40):
        try:
            return "".join(open(self.path(f"{name}.log"), errors="replace").readlines()[-lines:])
        except FileNotFoundError:
            return ""

    def write_configs(self):
        keys = {"listen": f"127.0.0.1:{self.port}", "unix_socket": self.path("suanlid.sock"),
                "store": self.path("store.db"), "backup_folder": self.path("backups"), "term_s": self.term_s,
                "zone": "Asia/Shanghai", "currency": "CNY"}
        keys.update(self.daemon_keys)
        os.makedirs(self.path("backups"), exist_ok=True)
        with open(self.path("suanlid.conf"), "w") as f:
            f.writelines(f"{k} = {v}\n" for k, v in keys.items())
        node = {"state": self.path("node"), "control": "unix:" + self.path("suanlid.sock"),
                "token_file": self.path("node.token"), "user": "nobody", "gpu": self.gpu,
                "gpu_knobs": self.path("knobs"), "slice_s": self.slice_s, "nat_out": "no",
                "images": RECIPES}
        with open(self.path("node.conf"), "w") as f:
            f.writelines(f"{k} = {v}\n" for k, v in node.items())

    def start_daemon(self):
        self.spawn("suanlid", [binary("suanlid"), "-c", self.path("suanlid.conf")])
        if not wait_for(lambda: self.http("GET", "/healthz")[0] == 200, 20):
            raise RuntimeError("suanlid did not start:\n" + self.log("suanlid"))

    def start_node(self):
        self.spawn("node", [binary("suanli-node"), "-c", self.path("node.conf")])

    # --- people --------------------------------------------------------------------------------
    def first_users(self):
        p = subprocess.run([binary("suanlid"), "admin-code", "-c", self.path("suanlid.conf")],
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        code = p.stdout.strip().split()[-1] if p.returncode == 0 else ""
        self.admin = self.login(code)
        for sku, price, unit in (("gpu.RTX 4090", "1.98", "hour"), ("cpu.seat", "0.12", "hour"),
                                 ("disk", "0.01", "GiB-day"), ("disk.stopped", "0.01", "GiB-day"),
                                 ("disk.detached", "0.01", "GiB-day"), ("egress", "0", "GiB")):
            self.api("POST", "/v1/admin/prices", {"sku": sku, "price": price, "unit": unit}, self.admin)
        self.renter, self.project = self.add_renter("alice", self.balance)

    def login(self, code):
        status, body = self.http("POST", "/v1/login", {"code": code, "label": "test"})
        if status >= 300:
            raise RuntimeError(f"login failed: {status} {body}")
        return json.loads(body)["token"]

    def add_renter(self, name, balance):
        user = self.api("POST", "/v1/admin/users", {"name": name}, self.admin)
        token = self.login(user["code"])
        project = user["project"]
        if balance:
            self.api("POST", "/v1/admin/topups", {"project": project, "amount": balance}, self.admin)
        key = self.path(f"{name}.key")
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
        self.api("POST", "/v1/keys", {"name": "test", "public_key": open(key + ".pub").read().strip()}, token)
        return token, project

    def add_node(self, name="n1"):
        made = self.api("POST", "/v1/admin/nodes", {"name": name}, self.admin)
        self.node_id = made["id"]
        fd = os.open(self.path("node.token"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.write(fd, made["token"].encode())
        os.close(fd)
        shutil.chown(self.path("node.token"), "nobody")
        self.start_node()
        if not wait_for(lambda: self.node()["state"] == "ready", 40):
            raise RuntimeError("the node did not come:\n" + self.log("node") + self.log("suanlid"))

    def node(self):
        return self.api("GET", "/v1/admin/nodes", token=self.admin)["items"][0]

    def add_image(self, name, source, default=True, wait=180):
        self.api("POST", "/v1/images", {"name": name, "source": source, "default": default}, self.admin)

        def ready():
            rows = {i["name"]: i for i in self.api("GET", "/v1/images", token=self.admin)["items"]}
            if rows[name]["state"] == "failed":
                raise RuntimeError(f"image {name} failed: {rows[name]}\n" + self.log("node"))
            return rows[name]["state"] == "ready"
        if not wait_for(ready, wait, 0.2):
            raise RuntimeError(f"image {name} never became ready\n" + self.log("node"))

    # --- the API -------------------------------------------------------------------------------
    def http(self, method, path, body=None, token=None, key=None, timeout=30, lang="en"):
        import http.client
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        headers = {"Accept-Language": lang}
        if token:
            headers["Authorization"] = "Bearer " + token
        if method in ("POST", "DELETE", "PUT"):
            headers["Idempotency-Key"] = key or uuid.uuid4().hex
        data = None
        if body is not None:
            data = json.dumps(body)
            headers["Content-Type"] = "application/json"
        try:
            c.request(method, path, data, headers)
            r = c.getresponse()
            return r.status, r.read().decode(errors="replace")
        except (OSError, http.client.HTTPException) as e:
            return 0, str(e)
        finally:
            c.close()

    def api(self, method, path, body=None, token=None, key=None):
        status, text = self.http(method, path, body, token or self.renter, key)
        if not 200 <= status < 300:
            raise RuntimeError(f"{method} {path}: {status} {text}")
        return json.loads(text) if text.strip() else None

    def retry(self, method, path, body=None, token=None, key=None, seconds=60):
        """Like api, but goes on with the same key while the other side is away."""
        key = key or uuid.uuid4().hex
        end = time.monotonic() + seconds
        while True:
            status, text = self.http(method, path, body, token or self.renter, key)
            if status and status not in (502, 503, 504):
                return status, text
            if time.monotonic() > end:
                return status, text
            time.sleep(0.2)

    def rent(self, key=None, **body):
        body.setdefault("for", "1h")
        if not body.get("gpu"):
            body.setdefault("cpu", 1)
            body.setdefault("memory", "256MiB")
        body.setdefault("system_disk", "1GiB")
        return self.api("POST", "/v1/instances", body, key=key)

    def show(self, instance):
        return self.api("GET", f"/v1/instances/{instance}")

    def wait_state(self, instance, *states, seconds=60):
        seen = {}

        def look():
            nonlocal seen
            seen = self.show(instance)
            return seen["state"] in states
        if not wait_for(look, seconds):
            raise RuntimeError(f"{instance} is {seen.get('state')}, not {states}: {json.dumps(seen)[:2000]}\n"
                               + self.log("node", 60) + self.log("suanlid", 20))
        return seen

    def check(self):
        """The rows of admin check that fail."""
        report = self.api("POST", "/v1/admin/check", {}, self.admin)
        return [r for r in report["rows"] if r["pass"] is False]

    # --- the CLI -------------------------------------------------------------------------------
    def cli(self, *args, who="alice", token=None, stdin=None, timeout=120, env=None):
        home = self.path("home-" + who)
        os.makedirs(home + "/.ssh", exist_ok=True)
        e = dict(os.environ, HOME=home, XDG_CONFIG_HOME=home + "/.config", LANG="C.UTF-8",
                 SUANLI_URL=f"http://127.0.0.1:{self.port}", SUANLI_TOKEN=token or self.renter,
                 SUANLI_IDENTITY=self.path("alice.key"))
        e.update(env or {})
        return Result(subprocess.run([binary("suanli"), *args], input=stdin, env=e, text=True, timeout=timeout,
                                     errors="replace", stdin=subprocess.DEVNULL if stdin is None else None,
                                     stdout=subprocess.PIPE, stderr=subprocess.PIPE))

    def ssh(self, instance, *command, key="alice.key", timeout=60, stdin=None, options=()):
        at = instance if isinstance(instance, dict) else self.show(instance)
        cmd = ["ssh", "-q", "-F", "none", "-i", self.path(key), "-o", "IdentitiesOnly=yes",
               "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "ConnectTimeout=10",
               *options, "-p", str(at["ssh"]["port"]), f"{at['ssh']['user']}@{at['ssh']['host']}", *command]
        return Result(subprocess.run(cmd, input=stdin, text=True, timeout=timeout, errors="replace",
                                     stdin=subprocess.DEVNULL if stdin is None else None,
                                     stdout=subprocess.PIPE, stderr=subprocess.PIPE))

    # --- the end -------------------------------------------------------------------------------
    def pids(self, name):
        """Processes of this platform's node by their name: suanli-guard, suanli-priv, agent, node-netns."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                comm = open(f"/proc/{pid}/comm").read().strip()
                words = open(f"/proc/{pid}/cmdline", "rb").read().split(b"\0")
                cwd = os.readlink(f"/proc/{pid}/cwd")
            except OSError:
                continue
            if name == "agent":
                match = b"--role=agent" in words
            else:
                match = comm == name
            if match and (cwd.startswith(self.dir) or any(self.dir.encode() in word for word in words)):
                found.append(int(pid))
        return found

    def guards(self):
        return self.pids("suanli-guard")

    def guests(self):
        """Pids of the guests' first processes."""
        found = []
        for guard in self.guards():
            try:
                found += map(int, open(f"/proc/{guard}/task/{guard}/children").read().split())
            except OSError:
                pass
        return sorted(found)

    def close(self):
        if not self.dir:
            return
        for name in list(self.procs):
            self.stop(name, wait=10)
        for pid in self.guests() + self.guards() + self.pids("node-netns"):
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        if not os.environ.get("SUANLI_KEEP"):
            shutil.rmtree(self.dir, ignore_errors=True)
        self.dir = None


def mini_image(folder):
    """An OCI layout with busybox alone: no SSH server, no glibc, no bash. Returns "oci:FOLDER:mini"."""
    tree = os.path.join(folder, "tree")
    layout = os.path.join(folder, "layout")
    os.makedirs(folder, exist_ok=True)
    if not os.path.exists(layout):
        for d in ("bin", "etc", "proc", "sys", "dev", "tmp", "root", "run", "var", "mnt"):
            os.makedirs(os.path.join(tree, d), exist_ok=True)
        shutil.copy("/bin/busybox", os.path.join(tree, "bin", "busybox"))
        for tool in subprocess.run(["/bin/busybox", "--list"], stdout=subprocess.PIPE, text=True).stdout.split():
            link = os.path.join(tree, "bin", tool)
            if not os.path.lexists(link):
                os.symlink("busybox", link)
        with open(os.path.join(tree, "etc", "passwd"), "w") as f:
            f.write("root:x:0:0:root:/root:/bin/sh\n")
        with open(os.path.join(tree, "etc", "group"), "w") as f:
            f.write("root:x:0:\n")
        os.chmod(os.path.join(tree, "tmp"), 0o1777)
        bundle = os.path.join(folder, "bundle")
        for cmd in (["umoci", "init", "--layout", layout], ["umoci", "new", "--image", layout + ":mini"],
                    ["umoci", "unpack", "--image", layout + ":mini", bundle]):
            subprocess.run(cmd, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        subprocess.run(f"cp -a {tree}/. {bundle}/rootfs/", shell=True, check=True)
        subprocess.run(["umoci", "repack", "--image", layout + ":mini", bundle], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        shutil.rmtree(bundle)
        shutil.rmtree(tree)
    subprocess.run(["chmod", "-R", "a+rX", folder], check=True)
    return f"oci:{layout}:mini"
