#!/usr/bin/env python3
"""What a hostile client sends: the parser, sizes, slow clients, cursors, filters, streams."""
import json, os, resource, signal, socket, threading, time, uuid
from rig import SUANLID, Daemon, Tap

tap = Tap()
d = Daemon().people()


def wire(data, wait=3, close=False):
    """Raw bytes in, raw bytes out."""
    with socket.create_connection(("127.0.0.1", d.port), wait) as s:
        try:
            for piece in data if isinstance(data, list) else [data]:
                s.sendall(piece)
            if close:
                s.shutdown(socket.SHUT_WR)
            got = b""
            while True:
                piece = s.recv(65536)
                if not piece:
                    return got
                got += piece
                if b"\r\n\r\n" in got and not close and b"Connection: close" not in got:
                    return got
        except (socket.timeout, ConnectionError):
            return got if "got" in dir() else b""


def status(answer):
    return int(answer.split()[1]) if answer.startswith(b"HTTP/1.1 ") else 0


AUTH = b"Host: x\r\nAuthorization: Bearer " + d.alice.encode() + b"\r\n"
KEYED = AUTH + b"Content-Type: application/json\r\nIdempotency-Key: abuse\r\n"
GOOD = b"GET /v1/me HTTP/1.1\r\n" + AUTH + b"\r\n"
tap.equal(status(wire(GOOD)), 200, "a plain request by hand")

for name, request in {
    "length and chunked": b"POST /v1/projects HTTP/1.1\r\n" + KEYED +
                          b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two lengths": b"POST /v1/projects HTTP/1.1\r\n" + KEYED + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{} ",
    "a length that is no number": b"POST /v1/projects HTTP/1.1\r\n" + KEYED + b"Content-Length: x\r\n\r\n{}",
    "a negative length": b"POST /v1/projects HTTP/1.1\r\n" + KEYED + b"Content-Length: -1\r\n\r\n",
    "a length of 2^64": b"POST /v1/projects HTTP/1.1\r\n" + KEYED + b"Content-Length: 18446744073709551616\r\n\r\n",
    "two authorizations": b"GET /v1/me HTTP/1.1\r\n" + AUTH + b"Authorization: Bearer x\r\n\r\n",
    "no host": b"GET /v1/me HTTP/1.1\r\n\r\n",
    "a header of 40 kB": b"GET /v1/me HTTP/1.1\r\n" + AUTH + b"X: " + b"a" * 40000 + b"\r\n\r\n",
    "5000 headers": b"GET /v1/me HTTP/1.1\r\n" + AUTH + b"A: b\r\n" * 5000 + b"\r\n",
    "an address of 8 kB": b"GET /v1/me?" + b"a" * 8000 + b" HTTP/1.1\r\n" + AUTH + b"\r\n",
    "a language of 600 letters": b"GET /v1/me HTTP/1.1\r\n" + AUTH + b"Accept-Language: " + b"z" * 600 + b"\r\n\r\n",
    "no protocol": b"GET /v1/me\r\n\r\n",
    "noise": os.urandom(2000) + b"\r\n\r\n",
}.items():
    got = wire(request)
    tap.ok(not got or 400 <= status(got) < 500, f"{name}: refused or cut", got[:300])
tap.equal(status(wire(GOOD)), 200, "and others are served on")

for name, body, code in (
        ("not JSON", b"{", "bad_json"), ("100,000 levels", b"[" * 100000, "bad_json"),
        ("doubled members", b'{"name":"a","name":"b"}', "bad_json"), ("1e400", b'{"name":1e400}', "bad_json"),
        ("2^63", b'{"name":9223372036854775808}', "bad_json"), ("NUL in a text", b'{"name":"a\\u0000b"}', "bad_json"),
        ("overlong UTF-8", b'{"name":"\xc0\xaf"}', "bad_json"), ("a lone surrogate", b'{"name":"\\ud800"}', "bad_json"),
        ("an array", b"[]", "bad_json"), ("a number", b"1", "bad_json"), ("an unknown member", b'{"nom":1}', "validation"),
        ("a wrong type", b'{"name":{"a":1}}', "validation"), ("300 kB", b'{"name":"' + b"a" * 300000 + b'"}', "too_large")):
    r = d.call("POST", "/v1/projects", raw=body, token=d.alice)
    tap.ok(r.code == code and 400 <= r.status < 500, f"body with {name}: {code}", r)
r = d.call("POST", "/v1/projects", raw=iter([b'{"name":"', b"a" * 400000, b'"}']), token=d.alice,
           headers={"Transfer-Encoding": "chunked"})
tap.ok(r.status == 413, "a chunked body that grows too large", r)
r = d.call("POST", "/v1/projects", raw=iter([b'{"na', b'me":"chunky"}']), token=d.alice,
           headers={"Transfer-Encoding": "chunked"})
tap.ok(r.status == 200, "a chunked body of the right size is fine", r)
r = d.call("POST", "/v1/projects", raw=b'{"name":"form"}', token=d.alice, headers={"Content-Type": "text/plain"})
tap.equal(r.code, "bad_json", "JSON under another content type is refused")

# --- cursors ---------------------------------------------------------------------------------------
for i in range(7):
    d.must("POST", "/v1/tokens", {"label": f"t{i}"}, d.alice)
seen, cursor, pages = [], None, 0
while True:
    page = d.must("GET", "/v1/tokens?limit=3" + (f"&cursor={cursor}" if cursor else ""), token=d.alice)
    seen += [t["id"] for t in page["items"]]
    pages += 1
    cursor = page["next_cursor"]
    if not cursor:
        break
    last = cursor
tap.ok(len(seen) == len(set(seen)) == 8 and pages == 3, "pages show each item once", (seen, pages))
tap.equal(d.call("GET", f"/v1/tokens?cursor={last}", token=d.bob).code, "cursor", "another's cursor is none of ours")
tap.equal(d.call("GET", f"/v1/keys?cursor={last}", token=d.alice).code, "cursor", "another list's neither")
for bad in (last[:-1], last[:-2] + "AA", "x", "AAAA", "%00", last + "A", "1%27%20OR%201=1"):
    r = d.call("GET", f"/v1/tokens?cursor={bad}", token=d.alice)
    tap.ok(r.code in ("cursor", "validation"), f"altered cursor {bad[:12]}", r)
first = d.must("GET", "/v1/audit?limit=2", token=d.operator)
more = d.must("GET", f"/v1/audit?limit=2&cursor={first['next_cursor']}", token=d.operator)
tap.ok([a["id"] for a in first["items"] + more["items"]] ==
       list(range(first["items"][0]["id"], first["items"][0]["id"] - 4, -1)), "audit pages go on", (first, more))

# --- slow clients ----------------------------------------------------------------------------------
before = int(open(f"/proc/{d.process.pid}/statm").read().split()[1])
slow = []
limit = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, limit[1]), limit[1]))
for i in range(1000):
    s = socket.create_connection(("127.0.0.1", d.port), 5)
    s.sendall(b"GET /v1/me HTTP/1.1\r\nX-Slow: " if i % 2 else
              b"POST /v1/projects HTTP/1.1\r\n" + KEYED + b"Content-Length: 1000\r\n\r\n{")
    slow.append(s)
times = []
for i in range(60):
    begin = time.monotonic()
    ok = d.call("GET", "/v1/me", token=d.alice).status == 200
    times.append(time.monotonic() - begin if ok else 99)
    for s in slow[i::60]:
        try:
            s.sendall(b"a")
        except OSError:
            pass
times.sort()
tap.ok(times[-2] < 0.2, f"1000 slow clients do not slow others (worst but one {times[-2] * 1000:.0f} ms)", times[-5:])
after = int(open(f"/proc/{d.process.pid}/statm").read().split()[1])
program = open(SUANLID, "rb").read()
room = 512 if b"__asan_init" in program or b"__tsan_init" in program else 64  # a sanitizer takes its own
tap.ok((after - before) * 4 < room * 1024, f"nor take much memory ({(after - before) * 4} kB)", "")
for s in slow:
    s.close()

# --- streams ---------------------------------------------------------------------------------------
r = d.call("GET", "/v1/events", token=d.alice)
tap.ok(r.status == 200 and r.headers["Content-Type"] == "text/event-stream", "events are a stream that ends", r)
token = d.must("POST", "/v1/tokens", {"label": "stream"}, d.alice)
s = socket.create_connection(("127.0.0.1", d.port), 5)
s.sendall(b"GET /v1/events?follow=true HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + token["token"].encode() +
          b"\r\n\r\n")
head = s.recv(4096)
tap.ok(head.startswith(b"HTTP/1.1 200"), "a followed stream stays open", head)
d.must("DELETE", "/v1/tokens/" + token["id"], token=d.alice)
s.settimeout(4)
try:
    rest = b""
    while True:
        piece = s.recv(4096)
        if not piece:
            break
        rest += piece
        if rest.endswith(b"0\r\n\r\n"):
            break
    closed = True
except socket.timeout:
    closed = False
tap.ok(closed, "a revoked token ends its streams")
tap.equal(d.call("GET", "/v1/events", token=d.alice, headers={"Last-Event-ID": "x"}).code, "cursor",
          "a Last-Event-ID that is none of ours")
def streams():
    return int(d.call("GET", "/metrics").raw.decode().split("\nsuanli_http_streams ")[1].split()[0])


for i in range(60):  # who hangs up before, while or after it is answered leaves nothing behind
    with socket.create_connection(("127.0.0.1", d.port), 5) as s:
        s.sendall(b"GET /v1/events?follow=true HTTP/1.1\r\n" + AUTH + b"\r\n")
        time.sleep(0.01 * (i % 3))
end = time.monotonic() + 5
while streams() and time.monotonic() < end:
    time.sleep(0.1)
tap.equal(streams(), 0, "streams whose client has hung up are gone")
open_streams = []
for i in range(20):
    s = socket.create_connection(("127.0.0.1", d.port), 5)
    s.sendall(b"GET /v1/events?follow=true HTTP/1.1\r\n" + AUTH + b"\r\n")
    s.recv(100)
    open_streams.append(s)
tap.equal(d.stop(), 0, "it stops cleanly with streams open")
tap.done()
