#!/usr/bin/env python3
"""suanlid as a program: configuration, one daemon a store, TLS, backup and restore, crash."""
import json, os, shutil, signal, socket, ssl, subprocess, time
from rig import Daemon, Tap

tap = Tap()
d = Daemon(start=False)

# --- configuration ---------------------------------------------------------------------------------
p = d.tool("-n", "-c", d.write_config())
tap.ok(p.returncode == 0 and "term_s = 600" in p.stdout, "-n prints the configuration back", p)
with open(d.path("again.conf"), "w") as f:
    f.write(p.stdout)
tap.equal(d.tool("-n", "-c", d.path("again.conf")).stdout, p.stdout, "what it prints it reads the same")
tap.ok("# 地址和端口" in d.tool("-n", lang="zh_CN.UTF-8").stdout, "in the reader's language")
p = d.tool("-n", "-c", d.write_config("bad.conf", lisen="x"))
tap.ok(p.returncode == 2 and "did you mean listen?" in p.stderr and "bad.conf:" in p.stderr,
       "a mistake names file, line and the near key", p)
p = d.tool("-c", d.write_config("open.conf", listen="0.0.0.0:0"))
tap.ok(p.returncode == 2 and "tls_cert" in p.stderr, "plain HTTP beyond loopback is refused", p)
for args in ([], ["-c"], ["--nonsense"], ["restore", "-c", "x"], ["dance", "-c", "x"]):
    tap.equal(d.tool(*args).returncode, 2, f"usage: {' '.join(args) or 'nothing'}")

# --- the billing zone ---------------------------------------------------------------------------------
z = Daemon(start=False)
p = z.tool("-c", z.write_config("nowhere.conf", zone="Europe/Nowhere"))
tap.ok(p.returncode == 2 and "zone" in p.stderr, "a zone that is not in the tz database is refused", p)
z.write_config(zone="Europe/Berlin")
z.start().people()
tap.equal(z.must("GET", "/v1/bill?month=2026-03", token=z.alice)["zone"], "Europe/Berlin", "any other bills by its months")
z.stop()
z.write_config(zone="UTC")
z.start()
tap.equal(z.must("GET", "/v1/bill?month=2026-03", token=z.alice)["zone"], "Europe/Berlin",
          "a project keeps its zone when the configuration names another")
z.close()

# --- first prices ----------------------------------------------------------------------------------
e = Daemon(start=False)
with open(e.path("prices"), "w") as f:
    f.write("# first prices\ngpu.RTX 4090   1.98 hour\ncpu.seat 0.12 hour # cores\n\ndisk 0.02 GiB-day\n")
e.write_config(prices=e.path("prices"))
e.start()
token = e.login(e.admin_code())
prices = {p["sku"]: p["price"]["amount"] for p in e.must("GET", "/v1/admin/prices", token=token)["items"]}
tap.equal({k: float(v) for k, v in prices.items()}, {"gpu.RTX 4090": 1.98, "cpu.seat": 0.12, "disk": 0.02},
          "first prices come from a file")
e.stop()
with open(e.path("prices"), "a") as f:
    f.write("nonsense\n")
e.start()
tap.equal(len(e.must("GET", "/v1/admin/prices", token=token)["items"]), 3, "which is not read when there are some")
e.stop()
f = Daemon(start=False)
with open(f.path("prices"), "w") as h:
    h.write("disk 0.02 GiB-day\ndisk x GiB-day\n")
f.write_config(prices=f.path("prices"))
p = f.tool("-c", f.path("suanlid.conf"))
tap.ok(p.returncode == 2 and "prices:2" in p.stderr, "a mistake in it names its line", p)

# --- start, lock -----------------------------------------------------------------------------------
code = d.admin_code()
tap.ok(code, "admin-code works before the first start")
begin = time.monotonic()
d.start()
took = time.monotonic() - begin
tap.ok(took < 5, f"it starts quickly ({took:.2f} s)", took)
tap.ok(os.stat(d.path("store.db")).st_mode & 0o077 == 0, "the store is its owner's only")
operator = d.login(code)
p = d.tool("-c", d.path("suanlid.conf"))
tap.ok(p.returncode != 0 and f"pid {d.process.pid}" in p.stderr, "a second daemon refuses and says who has it", p)
tap.equal(d.call("GET", "/v1/me", token=operator).status, 200, "the first one is not disturbed")

# --- metrics ---------------------------------------------------------------------------------------
r = d.call("GET", "/metrics")
lines = r.raw.decode().splitlines()
tap.ok(r.status == 200 and any(l.startswith("suanli_http_requests_total ") for l in lines), "metrics for this machine", r)
typed = {l.split()[2] for l in lines if l.startswith("# TYPE")}
tap.ok(all(l.split("{")[0].split()[0] in typed for l in lines if l and l[0] != "#"), "each metric has a type")

# --- backup, restore -------------------------------------------------------------------------------
d.must("POST", "/v1/projects", {"name": "before"}, operator)
b = d.must("POST", "/v1/admin/backup", {"name": "one.db"}, operator)
tap.ok(os.path.getsize(d.path("backups", "one.db")) >= 4096, "a backup is a file in its folder", b)
d.must("POST", "/v1/projects", {"name": "after"}, operator)
p = d.tool("restore", d.path("backups", "one.db"), "-c", d.path("suanlid.conf"))
tap.ok(p.returncode == 5 and "pid" in p.stderr, "restore refuses while a daemon has the store", p)
d.stop()
with open(d.path("garbage.db"), "wb") as f:
    f.write(b"SQLite format 3\0" + os.urandom(8000))
p = d.tool("restore", d.path("garbage.db"), "-c", d.path("suanlid.conf"))
tap.ok(p.returncode != 0, "a damaged copy is refused", p)
d.start()
names = [x["name"] for x in d.must("GET", "/v1/projects", token=operator)["items"]]
tap.ok("after" in names, "and changed nothing", names)
d.stop()
p = d.tool("restore", d.path("backups", "one.db"), "-c", d.path("suanlid.conf"))
tap.equal(p.returncode, 0, "a good copy is put in place")
tap.ok(any("before-restore" in n for n in os.listdir(d.dir)), "the old store stays beside it", os.listdir(d.dir))
d.start()
names = [x["name"] for x in d.must("GET", "/v1/projects", token=operator)["items"]]
tap.ok("before" in names and "after" not in names, "the restored store is what the copy was", names)

# --- recovery: nothing starts until the nodes have spoken ------------------------------------------
from fake_node import FakeNode
for sku, price, unit in (("cpu.seat", "0.12", "hour"), ("disk", "0.01", "GiB-day"), ("egress", "0", "GiB"),
                         ("disk.stopped", "0.01", "GiB-day"), ("disk.detached", "0.01", "GiB-day")):
    d.must("POST", "/v1/admin/prices", {"sku": sku, "price": price, "unit": unit}, operator)
d.must("POST", "/v1/admin/topups", {"project": "admin", "amount": "10"}, operator)
d.must("POST", "/v1/images", {"name": "base", "source": "recipe:base", "default": True}, operator)
secret = d.must("POST", "/v1/admin/nodes", {"name": "n1"}, operator)["token"]
node = FakeNode(d, secret)
end = time.monotonic() + 10
while time.monotonic() < end and d.must("GET", "/v1/images", token=operator)["items"][0]["state"] != "ready":
    time.sleep(0.1)
seat = {"cpu": 1, "memory": "1GiB", "for": "1h"}
d.must("POST", "/v1/admin/backup", {"name": "two.db"}, operator)
late = d.must("POST", "/v1/instances", {"name": "late", **seat}, operator)
node.stop()
d.stop()
p = d.tool("restore", d.path("backups", "two.db"), "-c", d.path("suanlid.conf"))
tap.equal(p.returncode, 0, "an older copy is put in place")
d.start()
r = d.call("POST", "/v1/instances", seat, operator)
tap.ok(r.status == 503 and r.code == "unavailable" and "n1" in r.json["detail"], "no new lease until n1 reported", r)
r = d.call("GET", "/readyz")
tap.ok(r.status == 503 and not r.json["parts"]["recovery"]["ok"], "readyz says why", r)
again = FakeNode(d, secret, boot=node.boot, unknown=[{"lease": late["lease"], "pid": 4711}])
end = time.monotonic() + 10
while time.monotonic() < end and d.call("GET", "/readyz").status != 200:
    time.sleep(0.1)
r = d.call("POST", "/v1/instances", seat, operator)
tap.ok(r.status == 200, "once it has, leases start again", r)
end = time.monotonic() + 10
rows = []
while time.monotonic() < end and not rows:
    rows = d.must("GET", "/v1/admin/nodes", token=operator)["items"][0]["unknown"]
    time.sleep(0.1)
tap.equal(rows, [late["lease"]], "and the guest that the copy does not know is told to the operator")
again.stop()
shutil.copy(d.path("backups", "two.db"), d.path("older.db"))
d.stop()
for tail in ("-wal", "-shm"):
    if os.path.exists(d.path("store.db" + tail)):
        os.unlink(d.path("store.db" + tail))
os.rename(d.path("older.db"), d.path("store.db"))
d.start()
third = FakeNode(d, secret, boot=node.boot, seen=again.seen + 1000)
end = time.monotonic() + 10
while time.monotonic() < end and "event=older_store" not in d.log():
    time.sleep(0.1)
tap.ok("event=older_store node=n1" in d.log(), "a copy put in place by hand is noticed by what its node has seen", d.log())
third.stop()

# --- crash -----------------------------------------------------------------------------------------
for i in range(5):
    d.must("POST", "/v1/projects", {"name": f"crash-{i}"}, operator)
    d.stop(signal.SIGKILL)
    d.start()
names = [x["name"] for x in d.must("GET", "/v1/projects", token=operator)["items"]]
tap.ok(all(f"crash-{i}" in names for i in range(5)), "kill -9 after an answer loses nothing", names)

# --- TLS -------------------------------------------------------------------------------------------
subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1",
                "-keyout", d.path("tls.key"), "-out", d.path("tls.crt")], check=True, stderr=subprocess.DEVNULL)
d.stop()
os.chmod(d.path("tls.key"), 0o644)
d.write_config(tls_cert=d.path("tls.crt"), tls_key=d.path("tls.key"), listen="0.0.0.0:0")
p = d.tool("-c", d.path("suanlid.conf"))
tap.ok(p.returncode == 2 and "others can read" in p.stderr, "a key that others can read is refused", p)
os.chmod(d.path("tls.key"), 0o600)
d.start()
context = ssl.create_default_context(cafile=d.path("tls.crt"))
with socket.create_connection(("127.0.0.1", d.port), 10) as raw, context.wrap_socket(raw, server_hostname="127.0.0.1") as s:
    s.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    data = b""
    while True:
        piece = s.recv(4096)
        if not piece:
            break
        data += piece
    tap.ok(b"200 OK" in data and s.version() in ("TLSv1.2", "TLSv1.3"), "TLS by files, verified", data)
tap.ok(b"Strict-Transport-Security" in data, "and says to stay with it", data)
with socket.create_connection(("127.0.0.1", d.port), 10) as raw:
    raw.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
    tap.ok(b"200" not in raw.recv(1000), "plain HTTP gets nothing there")
tap.equal(d.stop(), 0, "it stops cleanly")
tap.done()
