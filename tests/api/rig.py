"""A suanlid of its own in a temporary folder, on a port the kernel chose, and a client for it."""
import atexit, http.client, json, os, re, shutil, signal, socket, subprocess, sys, tempfile, time, uuid

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("SUANLI_BUILD", os.path.join(ROOT, "build"))
SUANLID = os.environ.get("SUANLID", os.path.join(BUILD, "src", "daemon", "suanlid"))


class Tap:
    def __init__(self):
        self.n = self.failed = 0

    def ok(self, good, name, detail=""):
        self.n += 1
        self.failed += not good
        print(f"{'' if good else 'not '}ok {self.n} - {name}", flush=True)
        if not good:
            for line in str(detail).splitlines()[:30]:
                print(f"#   {line[:600]}", flush=True)
        return bool(good)

    def equal(self, got, want, name):
        return self.ok(got == want, name, f"got    {got!r}\nwanted {want!r}")

    def done(self):
        print(f"1..{self.n}", flush=True)
        sys.exit(1 if self.failed else 0)


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.raw = status, headers, body

    @property
    def json(self):
        return json.loads(self.raw)

    @property
    def code(self):
        """The code of a problem document; None for an answer that is none."""
        return self.json.get("code") if self.status >= 400 else None

    def __repr__(self):
        return f"{self.status} {self.raw[:500]!r}"


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout):
        super().__init__("localhost", timeout=timeout)
        self.unix_path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.unix_path)


class Daemon:
    def __init__(self, start=True, **keys):
        self.dir = tempfile.mkdtemp(prefix="suanli-api-", dir=os.environ.get("SUANLI_TMP", "/tmp"))
        self.process = None
        self.port = 0
        self.keys = {"listen": "127.0.0.1:0", "unix_socket": self.path("s.sock"), "store": self.path("store.db"),
                     "backup_folder": self.path("backups"), "language": "en", "zone": "UTC"}
        self.keys.update(keys)
        os.mkdir(self.path("backups"))
        self.write_config()
        atexit.register(self.close)
        if start:
            self.start()

    def path(self, *names):
        return os.path.join(self.dir, *names)

    def write_config(self, name="suanlid.conf", **more):
        with open(self.path(name), "w") as f:
            f.writelines(f"{k} = {v}\n" for k, v in dict(self.keys, **more).items())
        return self.path(name)

    def log(self):
        try:
            return open(self.path("log"), errors="replace").read()
        except FileNotFoundError:
            return ""

    def start(self, wait=20):
        begin = len(self.log())
        with open(self.path("log"), "ab") as log:
            self.process = subprocess.Popen([SUANLID, "-c", self.path("suanlid.conf")], stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log)
        end = time.monotonic() + wait
        while time.monotonic() < end:
            m = re.search(r"event=started .*?port=(\d+)", self.log()[begin:])
            if m:
                self.port = int(m.group(1))
                return self
            if self.process.poll() is not None:
                break
            time.sleep(0.01)
        raise RuntimeError("suanlid did not start:\n" + self.log())

    def stop(self, sig=signal.SIGTERM, wait=20):
        if self.process is None:
            return None
        if self.process.poll() is None:
            self.process.send_signal(sig)
        try:
            rc = self.process.wait(wait)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            rc = "did not stop"
        self.process = None
        return rc

    def close(self):
        if self.dir:
            self.stop()
            shutil.rmtree(self.dir, ignore_errors=True)
            self.dir = None

    def tool(self, *args, lang="C"):
        return subprocess.run([SUANLID, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              env=dict(os.environ, LANG=lang), timeout=60)

    def admin_code(self):
        p = self.tool("admin-code", "-c", self.path("suanlid.conf"))
        if p.returncode:
            raise RuntimeError(p.stderr)
        return p.stdout.strip()

    def call(self, method, path, body=None, token=None, key=None, timeout=30, headers=None, raw=None, unix=False):
        h = {}
        if token:
            h["Authorization"] = "Bearer " + token
        if key is not False and method != "GET":
            h["Idempotency-Key"] = key or uuid.uuid4().hex
        data = raw
        if body is not None:
            data = json.dumps(body)
            h["Content-Type"] = "application/json"
        h.update(headers or {})
        c = UnixConnection(self.path("s.sock"), timeout) if unix else \
            http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            c.request(method, path, data, h, encode_chunked="Transfer-Encoding" in h)
            r = c.getresponse()
            return Answer(r.status, r.headers, r.read())
        finally:
            c.close()

    def must(self, *args, **kw):
        r = self.call(*args, **kw)
        if r.status != 200:
            raise RuntimeError(f"{args}: {r}\n{self.log()[-2000:]}")
        return r.json

    def login(self, code):
        return self.must("POST", "/v1/login", {"code": code, "label": "test"})["token"]

    def people(self):
        """An operator, two renters with a project of their own, a viewer and a member of alice's."""
        self.operator = self.login(self.admin_code())
        self.alice = self.user("alice")
        self.bob = self.user("bob")
        self.carol = self.user("carol")
        self.must("PUT", "/v1/projects/alice/members/carol", {"role": "viewer"}, self.alice)
        return self

    def user(self, name):
        return self.login(self.must("POST", "/v1/admin/users", {"name": name}, self.operator)["code"])


class Schema:
    """Holds values against the served OpenAPI document: the parts of JSON Schema that it uses."""

    def __init__(self, doc):
        self.doc = doc
        self.ops = {op["operationId"]: (method.upper(), path, op)
                    for path, item in doc["paths"].items() for method, op in item.items()}

    def faults(self, schema, value, where="$"):
        if "$ref" in schema:
            node = self.doc
            for part in schema["$ref"].lstrip("#/").split("/"):
                node = node[part]
            return self.faults(node, value, where)
        if "anyOf" in schema:
            tried = [self.faults(s, value, where) for s in schema["anyOf"]]
            return [] if any(not t for t in tried) else tried[0]
        types = schema.get("type", [])
        types = [types] if isinstance(types, str) else types
        if types and not any(self.is_type(t, value) for t in types):
            return [f"{where}: {value!r} is not {'/'.join(types)}"]
        found = []
        if isinstance(value, dict):
            props = schema.get("properties", {})
            found += [f"{where}: {n} is missing" for n in schema.get("required", []) if n not in value]
            for name, v in value.items():
                if name in props:
                    found += self.faults(props[name], v, f"{where}.{name}")
                elif props:
                    found.append(f"{where}: {name} is not in the document")
        elif isinstance(value, list):
            for i, v in enumerate(value):
                found += self.faults(schema.get("items", {}), v, f"{where}[{i}]")
        elif isinstance(value, str):
            if "pattern" in schema and not re.search(schema["pattern"], value):
                found.append(f"{where}: {value!r} does not fit {schema['pattern']}")
            if schema.get("format") == "date-time" and not re.fullmatch(
                    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", value):
                found.append(f"{where}: {value!r} is no time in UTC")
        return found

    @staticmethod
    def is_type(t, v):
        return {"string": isinstance(v, str), "integer": isinstance(v, int) and not isinstance(v, bool),
                "boolean": isinstance(v, bool), "object": isinstance(v, dict), "array": isinstance(v, list),
                "null": v is None, "number": isinstance(v, (int, float)) and not isinstance(v, bool)}[t]

    def answer_faults(self, op, answer):
        """What is wrong with an answer of this operation: status, content type, shape."""
        responses = self.ops[op][2]["responses"]
        content = responses.get(str(answer.status), responses["default"])["content"]
        got = answer.headers.get("Content-Type", "").split(";")[0]
        if got not in content:
            return [f"content type {got} is not {list(content)}"]
        schema = content[got]["schema"]
        if got == "application/x-ndjson":
            return [f for line in answer.raw.splitlines() if line for f in self.faults(schema, json.loads(line))]
        if got == "text/event-stream":
            data = [l[6:] for l in answer.raw.decode().splitlines() if l.startswith("data: ")]
            return [f for d in data for f in self.faults(schema, json.loads(d))]
        if schema.get("format") == "binary":
            return [] if answer.raw else ["no bytes"]
        return self.faults(schema, answer.json)
