#!/usr/bin/env python3
"""The life of an instance as a renter sees it, on a real node: rent, ssh, stop, start, release; the
price is the same everywhere; fifty at once get one; what was there is gone afterwards."""
import concurrent.futures, json, os, subprocess, sys, time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import platform_lab as lab

lab.enter()
t = lab.Tap()
p = lab.Platform(balance="1000")
p.add_image("mini", lab.mini_image(p.path("mini")))
recompute = os.path.join(lab.ROOT, "tests", "e2e", "recompute.py")


def micro(money):
    whole, _, part = money["amount"].partition(".")
    return int(whole + part.ljust(6, "0"))


def one_life():
    offer = next(o for o in p.api("GET", "/v1/offers")["items"] if o["gpu"])
    t.equal(offer["simulated"], True, "a simulated card is said in the offer")
    ask = {"gpu": "RTX 4090", "count": 1, "for": "1h", "system_disk": "1GiB"}
    quote = p.api("POST", "/v1/quotes", ask)
    made = p.api("POST", "/v1/instances", dict(ask, name="life", quote=quote["quote"]))
    t.ok(made["state"] in ("queued", "preparing"), "rent answers at once, before the guest runs", made["state"])
    run = p.wait_state("life", "running")
    t.equal(quote["price_hour"], run["price_hour"], "quote and instance show the same price per hour")
    t.equal(run["simulated"], True, "the instance says that its card is simulated")
    r = p.ssh(run, "echo hello; exit 7")
    t.ok(r.rc == 7 and r.out == "hello\n", "a command runs over SSH and its exit code comes back", r)
    host_key = run["ssh"]["host_key"]
    time.sleep(3)
    stopped = p.api("POST", "/v1/instances/life/stop", {})
    t.ok(stopped["billing_gpu"] is False, "from the accepted stop on the card meter is off", stopped)
    stopped = p.wait_state("life", "stopped")
    t.ok(stopped["kept_until"], "a stopped instance says until when its data is kept")
    spent = stopped["spent"]
    time.sleep(2)
    p.api("POST", "/v1/instances/life/start", {"for": "1h"})
    again = p.wait_state("life", "running")
    t.equal(again["ssh"]["host_key"], host_key, "the host key survives stop and start")
    t.ok(micro(again["spent"]) >= micro(spent), "spending never goes down")
    p.api("POST", "/v1/instances/life/release", {})
    gone = p.wait_state("life", "released")
    disks = [d for d in p.api("GET", "/v1/disks")["items"] if d["kind"] == "system" and d["erased"] is None]
    t.equal(disks, [], "after a release no system disk is left")
    bill = p.api("GET", "/v1/bill")
    t.ok(bill["simulated"] and all(l["simulated"] for l in bill["lines"] if l["meter"] == "gpu"),
         "the bill says that the cards were simulated", bill)
    t.equal(sum(micro(l["amount"]) for l in bill["lines"]), micro(bill["total"]), "lines add up to the total")
    return gone


def recomputed(name):
    bill = p.http("GET", "/v1/bill", token=p.renter)[1]  # first: usage goes on
    usage = p.http("GET", "/v1/usage", token=p.renter)[1]
    for file, text in (("usage.jsonl", usage), ("bill.json", bill)):
        open(p.path(file), "w").write(text)
    r = subprocess.run([sys.executable, recompute, p.path("usage.jsonl"), p.path("bill.json")],
                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    t.ok(r.returncode == 0, name, r.stdout)


def wallet_agrees():
    wallet = p.api("GET", "/v1/wallet")
    bill = p.api("GET", "/v1/bill")
    left = 1000 * 10**6 - micro(bill["total"])
    t.ok(abs(micro(wallet["cash"]) - micro(wallet["owed"]) - left) == 0 or micro(wallet["held"]) > 0,
         "cash is what was paid in less the bill, to the last unit", f"{wallet}\n{bill['total']}")


def many(n, body, token):
    def one(i):
        return p.http("POST", "/v1/instances", dict(body, name=f"many-{i}"), token=token, timeout=60)
    with concurrent.futures.ThreadPoolExecutor(n) as pool:
        return list(pool.map(one, range(n)))


def release_all(token):
    for i in p.api("GET", "/v1/instances", token=token)["items"]:
        p.retry("POST", f"/v1/instances/{i['id']}/release", {"with_disks": True}, token=token)
    lab.wait_for(lambda: not p.api("GET", "/v1/instances", token=token)["items"], 90, 0.3)


def fifty_with_money_for_one():
    token, _ = p.add_renter("poor", "0.40")
    body = {"cpu": 1, "memory": "128MiB", "system_disk": "1GiB", "for": "2h"}
    need = p.api("POST", "/v1/quotes", body, token=token)["start_need"]["amount"]
    t.note(f"start needs {need}")
    token, _ = p.add_renter("once", need)
    got = many(50, body, token)
    made = [b for s, b in got if 200 <= s < 300]
    no = [json.loads(b)["code"] for s, b in got if s == 402]
    t.ok(len(made) == 1 and no == ["balance"] * 49, "fifty at once with money for one start: one, and 49 told why",
         f"{len(made)} made, {sorted(set(no))} x {len(no)}: {[g for g in got if g[0] not in (201, 202, 200, 402)][:2]}")
    release_all(token)


def fifty_for_the_last_card():
    rich, _ = p.add_renter("rich", "100000")
    p.api("POST", "/v1/instances", {"gpu": "RTX 4090", "name": "first", "for": "1h", "system_disk": "1GiB"}, token=rich)
    got = many(50, {"gpu": "RTX 4090", "for": "1h", "system_disk": "1GiB"}, rich)
    made = [b for s, b in got if 200 <= s < 300]
    refused = [json.loads(b) for s, b in got if not 200 <= s < 300]
    t.ok(len(made) == 1 and {r["code"] for r in refused} == {"capacity_none"} and len(refused) == 49,
         "fifty at once for the last card: one, and 49 told that none is free",
         f"{len(made)} made, {[r.get('code') for r in refused][:5]}")
    t.ok(all(r["detail"] and r["next"] for r in refused), "each refusal says why and what would fit", refused[:1])
    t.note(f"refusal: {refused[0]['detail']} | {refused[0]['next']}" if refused else "")
    release_all(rich)


def a_node_alone():
    """Nobody comes beside who has the node alone; after his stop others do, and his start waits for them."""
    ask = {"gpu": "RTX 4090", "for": "1h", "system_disk": "1GiB"}
    seat = {"cpu": 1, "memory": "128MiB", "for": "1h", "system_disk": "1GiB"}
    other, _ = p.add_renter("beside", "100")

    def given(path, body, token, seconds):
        return lab.wait_for(lambda: (lambda a: a if 200 <= a[0] < 300 else None)(
            p.http("POST", path, body, token=token)), seconds, 0.3)

    status, text = p.http("POST", "/v1/instances", dict(ask, exclusive=True), token=p.renter)
    t.ok(status == 409 and json.loads(text)["code"] == "price_unknown", "without a price no node is had alone", text)
    p.api("POST", "/v1/admin/prices", {"sku": "exclusive.gpu.RTX 4090", "price": "3", "unit": "hour"}, p.admin)
    r = p.cli("rent", "--gpu", "RTX 4090", "--for", "1h", "--system-disk", "1GiB", "--exclusive", "--name", "alone",
              "--no-wait", "--yes", "--json")
    t.equal(r.rc, 0, "rent --exclusive")
    run = p.wait_state("alone", "running")
    t.ok(run["exclusive"], "the instance says that it is alone", run)
    status, text = p.http("POST", "/v1/instances", seat, token=other)
    t.ok(status == 409 and json.loads(text)["code"] == "capacity_none" and "alone" in text,
         "a seat beside it is refused, though cores are free", text)
    time.sleep(3)
    p.api("POST", "/v1/instances/alone/stop", {})
    p.wait_state("alone", "stopped")
    t.ok(given("/v1/instances", dict(seat, name="now"), other, 30), "after its stop the same seat is given")
    status, text = p.http("POST", "/v1/instances/alone/start", {"for": "1h"}, token=p.renter)
    t.ok(status == 409 and json.loads(text)["code"] == "capacity_none", "its start needs an empty node", text)
    release_all(other)
    lines = {l["meter"]: l for l in p.api("GET", "/v1/bill")["lines"] if l["subject"] == run["id"]}
    node, cards = lines["node"], int(lines["gpu"]["quantity"])
    t.equal((int(node["quantity"]), micro(node["amount"])), (cards, 3 * 10**6 * cards // 3600),
            "the node is charged for the seconds of its one card, at its price")
    r = p.cli("bill", "explain", str(node["n"]))
    t.ok(r.rc == 0 and "exclusive.gpu" in r.out, "bill explain shows its sum", r)
    back = given("/v1/instances/alone/start", {"for": "1h"}, p.renter, 60)
    t.ok(back and json.loads(back[1])["exclusive"], "it starts again, alone as before", back)
    release_all(p.renter)
    recomputed("and the bill with it is recomputed from the usage export")


def moved_price_is_refused():
    ask = {"gpu": "RTX 4090", "for": "1h", "system_disk": "1GiB"}
    quote = p.api("POST", "/v1/quotes", ask)
    p.api("POST", "/v1/admin/prices", {"sku": "gpu.RTX 4090", "price": "2.50", "unit": "hour"}, p.admin)
    status, text = p.http("POST", "/v1/instances", dict(ask, name="dearer", quote=quote["quote"]), token=p.renter)
    problem = json.loads(text)
    t.ok(status == 409 and problem["code"] == "offer_changed", "a price that moved after the quote is refused", text)
    r = p.cli("rent", "--gpu", "RTX 4090", "--for", "1h", "--system-disk", "1GiB", "--quote", quote["quote"],
              "--no-wait", "--yes", "--json")
    t.equal(r.rc, 5, "and the command line exits with 5")


def nothing_is_left():
    release_all(p.renter)
    left = lab.wait_for(lambda: not p.guards(), 30) is not None
    t.ok(left, "no guard is left", p.guards())
    ns = subprocess.run(["sh", "-c", "ls /sys/class/net; losetup -n -O BACK-FILE"], stdout=subprocess.PIPE, text=True).stdout
    t.ok(p.dir not in ns, "no loop device of this platform is left", ns)
    t.equal(p.check(), [], "all invariants hold on the live store")


one_life()
recomputed("the bill equals price x evidenced whole seconds, recomputed from the usage export")
wallet_agrees()
fifty_with_money_for_one()
fifty_for_the_last_card()
a_node_alone()
moved_price_is_refused()
nothing_is_left()
p.close()
t.done()
