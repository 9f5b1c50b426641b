#!/usr/bin/env python3
"""kill -9 of the control plane at the n-th system call while it closes months, issues an invoice and
takes it back. After each: old or new state and nothing between, every law holds, and doing it again
gives what a run without a kill gives.

A sample of n by default, every n with SUANLI_LONG=1: kill_points.c kills the core at every call."""
import json, os, random, shutil, signal, subprocess, sys, time, uuid

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "api"))
import closing
from rig import Daemon, Tap

KILLNTH = os.path.join(os.environ["SUANLI_BUILD"], "tests", "fault", "killnth")
SEED = int(os.environ.get("SUANLI_SEED", "0")) or int(time.time())
rng = random.Random(SEED)
tap = Tap()
print(f"# seed {SEED}")
d = Daemon(zone="Asia/Shanghai").people()
d.must("POST", "/v1/admin/prices", {"sku": "gpu.RTX 4090", "price": "1.98"}, d.operator)
d.must("PUT", "/v1/admin/seller", {"name": "seller", "country": "CN"}, d.operator)
d.must("POST", "/v1/admin/tax-rules", {"country": "CN", "rate": "6%", "from": "2020-01-01T00:00:00Z"}, d.operator)
for who in ("alice", "bob"):
    d.must("PUT", "/v1/invoice-profile", {"name": who}, getattr(d, who))
    d.must("POST", "/v1/admin/topups", {"project": who, "amount": "1000"}, d.operator)
d.stop()
for who in ("alice", "bob"):
    closing.used(d.path("store.db"), who, [("gpu.RTX 4090", 7777)], back=3)
    month = closing.used(d.path("store.db"), who, [("gpu.RTX 4090", 9999), ("gpu.RTX 4090", 1)], back=2)
FIRST = {f: open(d.path(f), "rb").read() for f in os.listdir(d.dir) if f.startswith("store.db")}


def again():
    """The store as it was before anything closed."""
    for f in os.listdir(d.dir):
        if f.startswith("store.db"):
            os.unlink(d.path(f))
    for f, data in FIRST.items():
        with open(d.path(f), "wb") as out:
            out.write(data)
    d.start()


def until_answered(method, path, body, token, seconds=60):
    key, end = uuid.uuid4().hex, time.monotonic() + seconds
    while time.monotonic() < end:
        if d.process is None or d.process.poll() is not None:
            d.process = None
            d.start()
        try:
            r = d.call(method, path, body, token, key=key, timeout=20)
            if r.status < 500:
                return r
        except OSError:
            pass
        time.sleep(0.1)
    raise RuntimeError("never answered\n" + d.log()[-2000:])


def story():
    """Everything that a kill may hit; what it came to."""
    close = until_answered("POST", "/v1/admin/close", {"month": month}, d.operator)
    invoice = until_answered("POST", "/v1/invoices", {"month": month}, d.alice)
    credit = until_answered("POST", f"/v1/admin/invoices/{invoice.json['number']}/credits",
                            {"reason": "return"}, d.operator)
    bills = [until_answered("GET", f"/v1/bill?month={month}", None, t).json for t in (d.alice, d.bob)]
    wallet = until_answered("GET", "/v1/wallet", None, d.alice).json
    laws = [r for r in until_answered("POST", "/v1/admin/check", {}, d.operator).json["rows"] if r["pass"] is False]
    for b in bills:
        b.pop("closed_at")
    for r in (invoice, credit):
        r.json.pop("issued_at", None)
    facts = json.dumps([bills, wallet["cash"], invoice.json["number"], invoice.json["payable"],
                        credit.json["number"], credit.json["payable"]], sort_keys=True)
    return close.status, invoice.status, credit.status, laws, facts


def run(n):
    again()
    killer = subprocess.Popen([KILLNTH, str(d.process.pid), str(n)], stdout=subprocess.PIPE, text=True)
    if killer.stdout.readline().strip() != "attached":
        raise RuntimeError("cannot attach")
    told = story()
    if killer.poll() is None:
        killer.send_signal(signal.SIGTERM)
    words = killer.communicate(timeout=20)[0].split()
    d.stop()
    return told, int(words[1]) if len(words) == 3 else 0, words[2] if len(words) == 3 else "lost"


plain, total, _ = run(0)
tap.ok(plain[:3] == (200, 200, 200) and not plain[3], "without a kill everything closes and every law holds", plain)
print(f"# {total} system calls")
points = range(1, total + 1) if os.environ.get("SUANLI_LONG") else \
    sorted({rng.randint(1, max(1, total)) for _ in range(int(os.environ.get("SUANLI_KILLS", "4")))})
for n in points:
    told, _, how = run(n)
    tap.ok(told == plain, f"killed at system call {n} ({how}): old or new, and the same in the end",
           f"{told}\n{plain}")
tap.done()
