"""A server that answers every operation with canned shapes made from schemas.def, over loopback or a
Unix socket, so that the CLI can be tested as typed without the platform."""
import http.server, json, os, re, socketserver, threading, time, urllib.parse

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

def rows(path, macro):
    """The arguments of each MACRO(...) row, strings unquoted."""
    text = re.sub(r"/\*.*?\*/", "", open(os.path.join(ROOT, path), encoding="utf-8").read(), flags=re.S)
    for m in re.finditer(r"^%s\((.*)\)\s*$" % macro, text, re.M):
        parts = re.findall(r'N_\("(?:\\.|[^"\\])*"\)|"(?:\\.|[^"\\])*"|LIST_OF\(\w+\)|[^,\s][^,]*', m[1])
        parts = [p.strip() for p in parts if p.strip()]
        yield [re.sub(r'^(?:N_\()?"(.*?)"\)?$', r"\1", p) for p in parts]

OPS = [dict(zip(("name", "method", "path", "role", "flags", "cli", "schema"), r)) for r in
       rows("src/app/operations.def", "OP")]
FIELDS = {}
for r in rows("src/app/schemas.def", "FIELD"):
    FIELDS.setdefault(r[0], []).append((r[1], r[2]))

def money(amount, currency="CNY"):
    return {"amount": amount, "currency": currency}

T0 = "2026-03-01T02:00:00Z"
VALUES = {  # schema.field or field → value; the rest follows from the type
    "id": "ins_k3v9abcdefghij", "currency": "CNY", "zone": "Asia/Shanghai", "gpu": "RTX 4090", "name": "work",
    "offer.id": "off_a", "quote.id": "quo_a", "event.id": 7, "audit.id": 3, "vram_mib": 24576, "free": 3,
    "count_max": 2, "gpu_count": 1, "cpu": 8, "cpu_max": 16, "memory_mib": 32768, "memory_mib_max": 65536,
    "size_mib": 20480, "used_mib": 512, "state": "running", "state_text": "running", "reason": None,
    "reason_text": None, "why": None, "price_hour": money("1.880000"), "rate_now": money("1.880000"),
    "price_hour_stopped": money("0.020000"), "spent": money("4.210000"), "hold": money("0.313334"),
    "start_need": money("1.900000"), "available": money("98.100000"), "total": money("7.520000"),
    "tax": money("0.000000"), "fits": True, "simulated": True, "no_gpu": False, "then": "stop", "kept_until": None,
    "ends_at": "2026-03-01T10:05:00Z", "quote.quote": "signed.text", "actions": ["stop", "extend", "release"],
    "user": "mei", "project": "vision", "role": "member", "token": "sk_secret", "owed": money("0"),
    "ssh.host": "127.0.0.1", "ssh.port": 22, "ssh.user": "root", "host_key": "ssh-ed25519 AAAAC3Nza",
    "driver": "550.54", "isolation": "shared kernel", "trust": "operator", "node": "box1", "node.state": "ready",
    "disk.state": "ready", "disk.name": "data", "disk.id": "dsk_a", "instance_disk.kind": "system", "instance_disk.name": "root",
    "mount": "/", "report": {"cards": [{"model": "RTX 4090", "memory_mib": 24576}], "driver": "550.54"},
    "step": None, "image": "debian", "truth_age_s": 2, "pass": True, "unknown": [], "quantity": "14400",
    "unit": "card-second", "formula": "floor(P*Q/D)", "sku": "gpu.RTX 4090", "price_version": "prc_a", "month": "2026-03",
    "quote_line.price": "1880000/3600", "bill_line.price": "1880000/3600", "usage_slice.price": "1880000/3600",
    "guest": 8888, "host": 41000, "address": "127.0.0.1:41000", "subject_name": "work", "subject": "ins_k3v9abcdefghij",
    "next_cursor": None, "code": "K7QF-2M9X", "text": "hello", "erased": None, "check_row.text": None,
    "instance": "work", "kind": "instance.running", "lasts_s": 187860, "burn_hour": money("1.880000"),
}

def shape(schema):
    out = {}
    for name, kind in FIELDS.get(schema, []):
        key = f"{schema}.{name}"
        if key in VALUES or name in VALUES:
            value = VALUES[key] if key in VALUES else VALUES[name]
            out[name] = json.loads(json.dumps(value))
        elif kind.startswith("LIST_OF"):
            inner = kind[8:-1]
            out[name] = ["x"] if inner == "STR" else [shape(inner)]
        elif kind == "OBJ":
            out[name] = {}
        elif kind in ("STR", "I64", "BOOL", "TIME", "MONEY"):
            out[name] = {"STR": name, "I64": 1, "BOOL": False, "TIME": T0, "MONEY": money("1.000000")}[kind]
        else:
            out[name] = shape(kind)
    return out

def problem(code, status, title, detail="", next_="", **params):
    return status, {"type": f"/v1/errors#{code}", "code": code, "status": status, "title": title,
                    "detail": detail or title, "next": next_, "request_id": "req_77", "params": params}

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *a):
        pass

    def address_string(self):
        return "local"

    def reply(self, status, body, kind="application/json", headers=()):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for k, v in (("Content-Type", kind), ("Content-Length", str(len(data))), *headers):
            self.send_header(k, v)
        self.end_headers()
        self.wfile.write(data)

    def match(self, path):
        for op in OPS:
            pattern = "^" + re.sub(r"\\?\{(\w+)\\?\}", r"(?P<\1>[^/]+)", op["path"]) + "$"
            m = re.match(pattern, path)
            if m and op["method"] == self.command:
                return op, {k: urllib.parse.unquote(v) for k, v in m.groupdict().items()}
        return None, None

    def handle_any(self):
        s = self.server.fake
        url = urllib.parse.urlsplit(self.path)
        size = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(size)) if size else None
        query = dict(urllib.parse.parse_qsl(url.query))
        if url.path == "/healthz":
            return self.reply(200, {"ok": True})
        if url.path == "/v1/openapi.json":
            return self.reply(200, {"info": {"version": "1"}})
        op, words = self.match(url.path)
        if not op:
            return self.reply(*problem("not_found", 404, "There is no such address."))
        key = self.headers.get("Idempotency-Key")
        s.requests.append({"op": op["name"], "words": words, "query": query, "body": body, "key": key,
                           "auth": self.headers.get("Authorization"), "lang": self.headers.get("Accept-Language"),
                           "last_id": self.headers.get("Last-Event-ID"), "path": self.path})
        if "OPF_IDEM" in op["flags"] and not key and query.get("dry_run") != "true":
            return self.reply(*problem("idempotency_missing", 400, "needs a key"))
        if key and key in s.replies:
            answer = s.replies[key]
        else:
            answer = s.answer(op["name"], op, words, query, body)
            if key:
                s.acts.append(op["name"])
                s.replies[key] = answer
        if s.drop.get(op["name"], 0) > 0:
            s.drop[op["name"]] -= 1
            self.close_connection = True
            return self.connection.close()
        if callable(answer):
            return answer(self)
        return self.reply(*answer)

    do_GET = do_POST = do_PUT = do_DELETE = handle_any

class TcpServer(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True

    def handle_error(self, request, address):
        pass

class UnixServer(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True

class Fake:
    def __init__(self, unix=None, tls=None):
        self.reset()
        self.server = UnixServer(unix, Handler) if unix else TcpServer(("127.0.0.1", 0), Handler)
        self.server.fake = self
        if tls:
            import ssl
            ctx = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            ctx.load_cert_chain(*tls)
            self.server.socket = ctx.wrap_socket(self.server.socket, server_side=True)
        port = None if unix else self.server.server_address[1]
        self.url = f"unix:{unix}" if unix else f"{'https' if tls else 'http'}://127.0.0.1:{port}"
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def reset(self):
        self.requests, self.acts, self.replies, self.drop = [], [], {}, {}
        self.fail = {}        # op → (status, problem)
        self.over = {}        # op → dict laid over the answer
        self.script = {}      # op → list of overlays, one an answer; the last stays
        self.streams = {}     # op → list of [(id, object), …], one list a connection

    def wait_requests(self, n):
        end = time.time() + 5
        while len(self.requests) < n and time.time() < end:
            time.sleep(0.01)

    def stream(self, name, objects):
        parts = self.streams.get(name)
        batch = parts.pop(0) if parts else objects
        def send(h):
            h.send_response(200)
            h.send_header("Content-Type", "text/event-stream")
            h.send_header("Connection", "close")
            h.end_headers()
            for i, o in batch:
                h.wfile.write(f"id: {i}\ndata: {json.dumps(o)}\n\n".encode())
                h.wfile.flush()
            h.close_connection = True
        return send

    def answer(self, name, op, words, query, body):
        if name in self.fail:
            return self.fail[name]
        if "OPF_STREAM" in op["flags"]:
            return self.stream(name, [(1, shape(op["schema"]))])
        if op["schema"] == "none":
            return 204, b""
        o = shape(op["schema"])
        state = {"instance_stop": "stopped", "instance_release": "released"}.get(name)
        if state:
            o.update(state=state, state_text=state)
        if op["schema"] == "instance" and self.acts and name == "instance_get":
            last = [a for a in self.acts if a in ("instance_stop", "instance_release", "instance_start")]
            if last:
                state = {"instance_stop": "stopped", "instance_release": "released"}.get(last[-1], "running")
                o.update(state=state, state_text=state)
        o.update(self.over.get(name, {}))
        if self.script.get(name):
            steps = self.script[name]
            o.update(steps.pop(0) if len(steps) > 1 else steps[0])
        return (201 if op["method"] == "POST" else 200), o
