#!/usr/bin/env python3
"""Fifty at once: for money that is enough for one, and for the last card."""
import concurrent.futures, time
from rig import Daemon, Tap
from fake_node import FakeNode

tap = Tap()
d = Daemon().people()
for sku, price, unit in (("gpu.RTX 4090", "1.98", "hour"), ("cpu.seat", "0.12", "hour"), ("disk", "0.02", "GiB-day"),
                         ("disk.stopped", "0.01", "GiB-day"), ("disk.detached", "0.01", "GiB-day"), ("egress", "0", "GiB")):
    d.must("POST", "/v1/admin/prices", {"sku": sku, "price": price, "unit": unit}, d.operator)
node = FakeNode(d, d.must("POST", "/v1/admin/nodes", {"name": "n1"}, d.operator)["token"], gpus=8)
d.must("POST", "/v1/images", {"name": "base", "source": "recipe:base", "default": True}, d.operator)
end = time.monotonic() + 10
while time.monotonic() < end and d.must("GET", "/v1/images", token=d.alice)["items"][0]["state"] != "ready":
    time.sleep(0.1)


def fifty(token):
    def rent(_):
        return d.call("POST", "/v1/instances", {"gpu": "4090", "for": "1h", "cpu": 1, "memory": "1GiB"}, token, timeout=60)
    with concurrent.futures.ThreadPoolExecutor(50) as pool:
        return list(pool.map(rent, range(50)))


# the start gate: the first hour (1.98) and a day of 20 GiB (0.40); 2.50 less one term is no second time
d.must("POST", "/v1/admin/topups", {"project": "alice", "amount": "2.5"}, d.operator)
got = fifty(d.alice)
codes = [r.code for r in got]
tap.equal(codes.count(None), 1, "money for one: one instance of fifty")
tap.equal(codes.count("balance"), 49, "and 49 are told what is short")
short = next(r for r in got if r.code == "balance").json
tap.ok(short["status"] == 402 and short["params"]["short"] and short["params"]["need"], "with the amounts", short)
tap.equal(len(d.must("GET", "/v1/instances", token=d.alice)["items"]), 1, "one is there")

# a quote that does not fit says all the same whether what it is about is simulated
for what, body in (("not enough money", {"gpu": "4090", "for": "1h"}), ("too many cards", {"gpu": "4090", "count": 16, "for": "1h"})):
    q = d.must("POST", "/v1/quotes", body, d.alice)
    tap.ok(not q["fits"] and q["simulated"] is True, f"quote, {what}: does not fit, and its cards are simulated", q)

# the last card: take all but one
d.must("POST", "/v1/admin/topups", {"project": "bob", "amount": "1000"}, d.operator)
d.must("POST", "/v1/instances", {"gpu": "4090", "count": 6, "for": "1h", "cpu": 1, "memory": "1GiB"}, d.bob)
got = fifty(d.bob)
codes = [r.code for r in got]
tap.equal(codes.count(None), 1, "the last card: one instance of fifty")
tap.equal(codes.count("capacity_none"), 49, "and 49 are told that nothing is free")
none = next(r for r in got if r.code == "capacity_none").json
tap.ok("n1" in none["params"]["why"] and none["next"], "with the reason and what would fit", none)
gpus = d.must("GET", "/v1/admin/nodes", token=d.operator)["items"][0]["gpus"]
tap.equal(len({g["lease"] for g in gpus}), 3, "eight cards, three leases")
report = d.must("POST", "/v1/admin/check", {}, d.operator)
tap.ok(report["pass"], "every invariant holds", report)
# --- the long poll of a node -------------------------------------------------------------------------
node.stop()
sync = lambda wait, timeout=30: d.call("POST", "/v1/node/sync", node.report(wait), node.token, key=False, timeout=timeout)
node.act(sync(0).json)
node.act(sync(0).json)
begin = time.monotonic()
r = sync(1500)
took = time.monotonic() - begin
tap.ok(r.status == 200 and 1.3 < took < 4, f"nothing new: held for as long as it asked ({took:.2f} s)", r)
node.act(r.json)
with concurrent.futures.ThreadPoolExecutor(1) as pool:
    begin = time.monotonic()
    held = pool.submit(sync, 20000)
    time.sleep(0.5)
    one = d.must("GET", "/v1/instances", token=d.alice)["items"][0]["id"]
    d.must("POST", f"/v1/instances/{one}/stop", {}, d.alice)
    r = held.result(30)
    took = time.monotonic() - begin
tap.ok(any(l["want"] == "stop" for l in r.json["leases"]) and took < 2, f"a stop reaches it at once ({took:.2f} s)", r)
with concurrent.futures.ThreadPoolExecutor(1) as pool:
    begin = time.monotonic()
    node.act(r.json)
    node.act(sync(0).json)
    held = pool.submit(sync, 20000)
    time.sleep(0.3)
    begin = time.monotonic()
    rc = d.stop()
    took = time.monotonic() - begin
    r = held.result(30)
tap.ok(rc == 0 and took < 3 and r.status in (200, 503), f"a held request does not hold up the end ({took:.2f} s)", (rc, r))
d.start()
tap.equal(d.stop(), 0, "clean stop")
tap.done()
