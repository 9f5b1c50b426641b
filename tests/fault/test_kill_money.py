#!/usr/bin/env python3
"""kill -9 of the control plane at the n-th system call while money moves by hand: a payment file is
imported, a supplier is paid out, a renter gets cash back, an instance goes over to a plan and leaves it
early. After each kill the store opens, every law holds and the state is that before the step or that
after it; the same request with the same key then has its one effect.

A sample of n by default, every n with SUANLI_LONG=1: kill_points.c kills the core at every call."""
import hashlib, hmac, json, os, random, signal, subprocess, sys, time, uuid

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "api"))
import closing
from fake_node import FakeNode
from rig import Daemon, Tap

KILLNTH = os.path.join(os.environ["SUANLI_BUILD"], "tests", "fault", "killnth")
SEED = int(os.environ.get("SUANLI_SEED", "0")) or int(time.time())
rng = random.Random(SEED)
tap = Tap()
print(f"# seed {SEED}")
d = Daemon().people()


def wait_for(what, seconds=30):
    end = time.monotonic() + seconds
    while not what():
        if time.monotonic() > end:
            raise RuntimeError("never\n" + d.log()[-2000:])
        time.sleep(0.1)


def order(key, amount, told):
    """A top-up order of alice; told: its channel says that it was paid."""
    o = d.must("POST", "/v1/wallet/orders", {"amount": amount, "channel": "pay1"}, d.alice)["id"]
    if told:
        n = {"order": o, "amount": amount, "currency": "CNY", "reference": "r-" + o, "time": int(time.time()),
             "nonce": uuid.uuid4().hex}
        text = "\n".join(["suanli-notice-1", "pay1", *(str(x) for x in n.values())])
        n["signature"] = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
        d.must("POST", "/v1/channels/pay1/notices", n, key=False)
    return o


def world():
    """Two orders (one whose notice was lost), and a stopped instance whose machine is a supplier's."""
    for sku, price in (("gpu.RTX 4090", "3600"), ("cpu.seat", "0.01"), ("plan.day.gpu.RTX 4090", "20"),
                       ("disk", "0.000001"), ("disk.stopped", "0.000001"), ("disk.detached", "0.000001")):
        d.must("POST", "/v1/admin/prices", {"sku": sku, "price": price}, d.operator)
    key = bytes.fromhex(d.must("POST", "/v1/admin/channels", {"name": "pay1"}, d.operator)["key"])
    orders = [order(key, "5000.00", True), order(key, "6.00", False)]
    made = d.must("POST", "/v1/admin/nodes", {"name": "n1"}, d.operator)
    d.must("POST", "/v1/admin/suppliers/lab", {"user": "bob", "share": "2/3", "dispute": "none"}, d.operator)
    d.must("PUT", "/v1/admin/suppliers/lab/nodes/n1", {}, d.operator)
    node = FakeNode(d, made["token"])
    d.must("POST", "/v1/images", {"name": "base", "source": "recipe:base", "default": True}, d.operator)
    wait_for(lambda: d.must("GET", "/v1/images", token=d.alice)["items"][0]["state"] == "ready")
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", d.path("k")], check=True)
    d.must("POST", "/v1/keys", {"public_key": open(d.path("k.pub")).read().strip()}, d.alice)
    d.must("POST", "/v1/instances", {"gpu": "4090", "for": "1h", "name": "one"}, d.alice)
    state = lambda: d.must("GET", "/v1/instances/one", token=d.alice)["state"]
    wait_for(lambda: state() == "running")
    time.sleep(2)
    d.must("POST", "/v1/instances/one/stop", {}, d.alice)
    wait_for(lambda: state() == "stopped")
    node.stop()
    d.stop()
    return orders


PAID, LOST = world()
FIRST = {f: open(d.path(f), "rb").read() for f in os.listdir(d.dir) if f.startswith("store.db")}
NOW = int(time.time())
LINES = [f"r-{PAID},{PAID},payment,5000.00,CNY,{NOW}", f"r-{LOST},{LOST},payment,6.00,CNY,{NOW}",
         f"r-alien,ord_alien,payment,7.00,CNY,{NOW}"]
# (what, method, path, body, who); {plan}: the plan that was bought
STEPS = [
    ("import", "POST", "/v1/admin/channels/pay1/lines", {"file": "day.csv", "line": LINES}, d.operator),
    ("payout", "POST", "/v1/admin/payouts", {}, d.operator),
    ("refund", "POST", "/v1/admin/refunds", {"project": "alice", "amount": "3.00", "order": PAID}, d.operator),
    ("convert", "POST", "/v1/instances/one/plan", {"plan": "day"}, d.alice),
    ("leave", "POST", "/v1/plans/{plan}/release", {"go_on": True}, d.alice),
]


def again():
    """The store as it was before the first step."""
    for f in os.listdir(d.dir):
        if f.startswith("store.db"):
            os.unlink(d.path(f))
    for f, data in FIRST.items():
        with open(d.path(f), "wb") as out:
            out.write(data)
    d.start()


def facts():
    """What the steps change. A plan that was left costs what was used of it, which depends on the
    second: cash and that together do not."""
    get = lambda path, who=d.operator: d.must("GET", path, token=who)
    plans = get("/v1/plans", d.alice)["items"]
    cost = sum(closing.micro(p["paid" if p["state"] == "running" else "used"]) for p in plans)
    report = get("/v1/admin/clearing/report")
    sums = [[c[k]["amount"] for k in ("credited", "sent_back", "shown", "shown_back", "suspense")]
            for c in report["channels"]]
    return {"cash": closing.micro(get("/v1/wallet", d.alice)["cash"]) + cost,
            "held": get("/v1/wallet", d.alice)["held"]["amount"],
            "plans": [(p["state"], p["paid"]["amount"]) for p in plans],
            "payouts": [p["amount"]["amount"] for p in get("/v1/admin/payouts")["items"]],
            "suspense": sorted((i["order"], i["reason"]) for i in get("/v1/admin/clearing")["items"]),
            "clearing": sums}


def broken_laws():
    return [r for r in d.must("POST", "/v1/admin/check", {}, d.operator)["rows"] if r["pass"] is False]


def ask(method, path, body, who, key):
    """The answer, or None when the control plane died of it or before."""
    try:
        r = d.call(method, path, body, who, key=key, timeout=20)
        return r if r.status < 500 else None
    except OSError:
        return None


def revive():
    """What a supervisor does. True: it was dead."""
    if d.process.poll() is None:
        return False
    d.process.wait()
    d.process = None
    d.start()
    return True


def between(old, new, what, problems):
    """After a kill: old or new, and lawful."""
    got, laws = facts(), broken_laws()
    if got not in (old, new or got):
        problems.append(f"{what}: between\n  old {old}\n  new {new}\n  got {got}")
    problems.extend(f"{what}: {r['id']} {r['text']}" for r in laws)


def story(n, want):
    """All steps, killed at the n-th system call; want: facts after each step of a story without a kill,
    or none yet. Returns the facts and what was wrong."""
    again()
    killer = subprocess.Popen([KILLNTH, str(d.process.pid), str(n)], stdout=subprocess.PIPE, text=True)
    if killer.stdout.readline().strip() != "attached":
        raise RuntimeError("cannot attach")
    problems, seen, plan, last, dead = [], [], "", want[0] if want else None, False
    for i, (what, method, path, body, who) in enumerate(STEPS):
        key, answer, new = uuid.uuid4().hex, None, want[i + 1] if want else None
        end = time.monotonic() + 60
        while answer is None and time.monotonic() < end:
            answer = ask(method, path.format(plan=plan), body, who, key)
            if revive():
                dead = True
                between(last, new, f"killed in {what}", problems)
        if answer is None or answer.status != 200:
            problems.append(f"{what}: {answer}")
            break
        if what == "convert":
            plan = answer.json["id"]
        if dead or n == 0:  # asked again, nothing more happens
            twice = ask(method, path.format(plan=plan), body, who, key)
            if twice is None or twice.status != 200 or ("id" in answer.json and twice.json != answer.json):
                problems.append(f"{what} again: {twice}, not {answer}")
            last = facts()
            seen.append(last)
            if new and last != new:
                problems.append(f"{what}:\n  wanted {new}\n  got {last}")
        else:
            last = new
    if killer.poll() is None:
        killer.send_signal(signal.SIGTERM)
    words = killer.communicate(timeout=20)[0].split()
    if revive():
        between(last, last, "killed after the last step", problems)
    problems.extend(f"in the end: {r['id']} {r['text']}" for r in broken_laws())
    if want and facts() != want[-1]:
        problems.append(f"in the end:\n  wanted {want[-1]}\n  got {facts()}")
    d.stop()
    return seen, problems, int(words[1]) if len(words) == 3 else 0, words[2] if len(words) == 3 else "lost"


again()
start = facts()
d.stop()
after, wrong, _, _ = story(0, None)
tap.ok(not wrong, "without a kill every step is done, once, and every law holds", "\n".join(wrong))
steps = [start] + after
tap.ok(all(a != b for a, b in zip(steps, steps[1:])), "each step changes what is looked at", json.dumps(steps, indent=1))
_, wrong, total, how = story(10**9, steps)
tap.ok(not wrong, "a story that nobody looks at between ends the same", "\n".join(wrong))
print(f"# {total} system calls")
if os.environ.get("SUANLI_POINTS"):
    points = [int(w) for w in os.environ["SUANLI_POINTS"].split()]
elif os.environ.get("SUANLI_LONG"):
    points = range(1, total + 1)
else:
    fixed = {max(1, total * i // 4) for i in range(1, 4)}
    points = sorted(fixed | {rng.randint(1, total) for _ in range(int(os.environ.get("SUANLI_KILLS", "2")))})
for n in points:
    _, wrong, _, how = story(n, steps)
    tap.ok(not wrong, f"killed at system call {n} ({how}): old or new, and one effect", "\n".join(wrong))
tap.done()
