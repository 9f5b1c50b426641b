#!/usr/bin/env python3
"""The CLI against the real suanlid with a node that keeps the protocol and nothing else: the life of
an instance as a renter types it. Prints TAP."""
import json, os, subprocess, sys, time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "api"))
SUANLI, SUANLID = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
os.environ["SUANLID"] = SUANLID
import fake_node, rig

t = rig.Tap()
d = rig.Daemon()
home = d.path("home")
os.mkdir(home)

class Result:
    def __init__(self, p):
        self.rc, self.out, self.err = p.returncode, p.stdout, p.stderr
    def __repr__(self):
        return f"rc={self.rc}\n{self.out}\n{self.err}\n{d.log()[-800:]}"

def run(*words, who="alice"):
    env = {"PATH": os.environ["PATH"], "HOME": home, "LC_ALL": "C.UTF-8", "TZ": "Asia/Shanghai", "SUANLI_PROFILE": who}
    return Result(subprocess.run([SUANLI, *words], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, text=True, timeout=60))

def admin(*words):
    return run(*words, who="admin")

def wait(what, seconds=15):
    end = time.monotonic() + seconds
    while time.monotonic() < end and not what():
        time.sleep(0.05)
    return what()

url = f"http://127.0.0.1:{d.port}"
r = admin("login", "--url", url, "--code", d.admin_code())
t.ok(r.rc == 0 and os.stat(home + "/.config/suanli/config.toml").st_mode & 0o777 == 0o600, "the operator logs in", r)
r = admin("login", "--code", "WRNG-CODE-0000-0000")
t.ok(r.rc == 4, "a wrong code is refused with 4", r)
prices = [("gpu.RTX 4090", "1.98", "hour"), ("cpu.seat", "0.12", "hour"), ("disk", "0.01", "GiB-day"),
          ("disk.stopped", "0.01", "GiB-day"), ("disk.detached", "0.01", "GiB-day"), ("egress", "0", "GiB")]
r = [admin("admin", "price", "set", s, p, "--unit", u) for s, p, u in prices]
t.ok(all(x.rc == 0 for x in r), "prices are set", r)
code = json.loads(admin("admin", "user", "add", "alice", "--json").out)["code"]
r = run("login", "--url", url, "--code", code)
t.ok(r.rc == 0 and "alice" in r.err, "a renter logs in with the one-time code", r)
t.ok(admin("admin", "topup", "alice", "100", "--dry-run").rc == 0 and "¥0.00" in run("wallet").out,
     "a top-up tried dry changes nothing")
t.ok(admin("admin", "topup", "alice", "100").rc == 0 and "¥100.00" in run("wallet").out, "a top-up is in the wallet")
node = fake_node.FakeNode(d, json.loads(admin("admin", "node", "add", "box1", "--json").out)["token"])
t.ok(wait(lambda: '"ready"' in admin("admin", "node", "ls", "--json").out), "the node is listed as ready", node.fault)
admin("image", "add", "debian", "--source", "docker://registry.example.org/debian:12", "--default")
t.ok(wait(lambda: "ready" in run("image", "ls").out), "the image is ready")

r = run("offers", "gpu=4090", "price<3")
t.ok(r.rc == 0 and "RTX 4090 (simulated)" in r.out and "¥1.98/h" in r.out, "offers show the card, simulated, with its price", r)
r = run("offers", "gpu=4009")
t.ok(r.rc == 0 and r.out == "" and "RTX 4090" in r.err, "a card that is not there: the near one is named", r)
admin("admin", "price", "set", "plan.day.gpu.RTX 4090", "30", "--refund", "clawback", "--fee", "10")
admin("admin", "price", "set", "spot.gpu.RTX 4090", "0.66")
r = run("plan", "ls")
t.ok(r.rc == 0 and "¥30.00" in r.out and "¥47.52" in r.out and "clawback 10%" in r.out,
     "plans are shown beside the hourly price, with their rule", r)
r = run("rent", "--gpu", "4090", "--plan", "day", "--dry-run")
t.ok(r.rc == 0 and "¥30.00" in r.err and "nothing was rented" in r.err, "a plan is rented dry, with its price", r)
r = run("rent", "--gpu", "4090", "--plan", "week", "--dry-run")
t.ok(r.rc == 6 and "[price_unknown]" in r.err, "a plan that is not offered is refused", r)
r = run("rent", "--gpu", "4090", "--for", "1h", "--spot", "--dry-run")
t.ok(r.rc == 0 and "at most" in r.err and "¥0.66" in r.err, "the spot price and the bid are shown", r)
r = run("rent", "--gpu", "4090", "--for", "1h", "--spot", "--bid", "0.5", "--dry-run")
t.ok(r.rc == 6 and "[bid_low]" in r.err, "a bid below the market is 6", r)
r = run("rent", "--gpu", "4090", "--for", "1h", "--exclusive", "--dry-run")
t.ok(r.rc == 6 and "[price_unknown]" in r.err and "exclusive.gpu.RTX 4090" in r.err, "a node alone without a price is 6, and says which", r)
admin("admin", "price", "set", "exclusive.gpu.RTX 4090", "3")
r = run("rent", "--gpu", "4090", "--for", "1h", "--exclusive", "--dry-run")
t.ok(r.rc == 0 and "exclusive.gpu.RTX 4090" in r.err and "¥3.00" in r.err and "alone" in r.err, "a node alone is shown with its surcharge", r)
quote = json.loads(run("quote", "--gpu", "4090", "--for", "1h", "--disk", "data:10GiB", "--json").out)
r = run("rent", "--gpu", "4090", "--for", "1h", "--name", "work", "--disk", "data:10GiB", "--dry-run")
t.ok(r.rc == 0 and "¥" in r.err and run("ls", "-q").out == "", "a dry rent shows prices and rents nothing", r)
r = run("rent", "--gpu", "4090", "--for", "1h", "--name", "work", "--disk", "data:10GiB")
t.ok(r.rc == 0 and r.out.startswith("Running. ¥1.99") and "Stops " in r.out, "rent ends with the running line", r)
show = json.loads(run("show", "work", "--json").out)
t.equal(quote["price_hour"], show["price_hour"], "quote and instance agree on the price per hour")
r = run("rent", "--gpu", "4090", "--count", "2", "--for", "1h")
t.ok(r.rc == 6 and "[capacity_none]" in r.err and "try:" in r.err, "no capacity is 6, with what would fit", r)
r = run("show", "wrok")
t.ok(r.rc == 3 and "work" in r.err, "an unknown name is 3; the near one is named", r)
node.say(show["lease"], b"epoch 1\nepoch 2\n")
t.ok(wait(lambda: run("logs", "work").out == "epoch 1\nepoch 2\n"), "logs show what the guest's command said")
p = subprocess.Popen([SUANLI, "logs", "-f", "work"], env={"PATH": os.environ["PATH"], "HOME": home, "SUANLI_PROFILE": "alice"},
                     stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
got = os.read(p.stdout.fileno(), 4096)
node.say(show["lease"], b"epoch 3\n")
end = time.monotonic() + 10
while b"epoch 3" not in got and time.monotonic() < end:
    got += os.read(p.stdout.fileno(), 4096)
p.send_signal(2)
t.ok(p.wait(10) == 130 and got == b"epoch 1\nepoch 2\nepoch 3\n", "logs -f goes on as it grows; Ctrl-C is 130", got)
r = run("extend", "work", "2h")
t.ok(r.rc == 0 and "work ends" in r.out, "extend moves the end", r)
r = run("port", "open", "work", "8888")
t.ok(r.rc == 0 and "8888 → 127.0.0.1:" in r.out, "an opened port has its address", r)
t.ok(run("port", "close", "work", "8888").rc == 0, "and is closed again")
run("budget", "set", "tiny", "--cap", "100")
b = json.loads(run("budget", "ls", "--json").out)["items"][0]
# less than a second of the next rental above what is spent and held now
cap = f"{float(b['spent']['amount']) + float(b['held']['amount']) + 0.0004:.6f}"
r = run("budget", "set", "tiny", "--cap", cap)
r2 = run("rent", "--gpu", "4090", "--for", "1h", "--no-wait")
t.ok(r.rc == 0 and "¥" + cap.rstrip("0") in r.out, "a budget is set", r)
t.ok(r2.rc == 7 and "[budget]" in r2.err, "a rent that would pass the budget is 7", r2)
run("budget", "rm", "tiny")
time.sleep(2)  # some seconds to be charged for
r = run("stop", "work")
t.ok(r.rc == 0 and "nothing from now on" in r.err and "kept until" in r.err, "stop says its three facts", r)
r = run("stop", "work")
t.ok(r.rc in (0, 5), "stop again is already so, or a typed conflict", r)
r = run("resize", "work", "--gpu", "4090", "--count", "2")
t.ok(r.rc == 0 and "2 x RTX 4090 (simulated)" in r.out, "a stopped instance is resized", r)
r = run("start", "work", "--no-gpu", "--for", "30m")
t.ok(r.rc == 0 and "Running." in r.out, "it starts without cards", r)
r = run("release", "work")
t.ok(r.rc == 2 and "--yes" in r.err, "release without a terminal wants --yes", r)
r = run("release", "work", "--yes")
t.ok(r.rc == 0 and "kept   disk data" in r.err and "erased" in r.out, "release keeps the data disk and waits for the erase", r)
t.ok("data" in run("disk", "ls").out and run("disk", "rm", "data", "--yes").rc == 0, "the data disk is there and erased when told")
r = run("rent", "--gpu", "4090", "--for", "1h", "--spot", "--name", "cheap")
t.ok(r.rc == 0 and r.out.startswith("Running."), "a card is rented at the spot price", r)
time.sleep(2)  # some seconds to be charged for
r = admin("admin", "reclaim", "cheap", "--project", "alice", "--reason", "a gang waits", "--dry-run")
t.ok(r.rc == 0 and run("show", "cheap").out.find("reclaimed  ") < 0, "a reclaim tried dry changes nothing", r)
t.ok(run("admin", "reclaim", "cheap").rc == 4, "a renter may not reclaim: 4")
r = admin("admin", "reclaim", "cheap", "--project", "alice", "--reason", "a gang waits")
show = run("show", "cheap")
t.ok(r.rc == 0 and "a gang waits" in show.out and "preempting" in show.out, "the renter sees that it is taken back, and why", [r, show])
t.ok(admin("admin", "reclaim", "cheap", "--project", "alice").rc == 0 and run("show", "cheap").out.count("a gang waits") == 1,
     "again: the first decision stands")
run("stop", "cheap")  # in its notice: it was taken back all the same
kinds = lambda: {l["kind"]: l for l in json.loads(run("bill", "--json").out)["lines"] if l["sku"].startswith("spot.")}
t.ok(wait(lambda: "reversal" in kinds()), "the bill has its reversal", run("bill"))
seen = kinds()
t.equal(seen["reversal"]["amount"]["amount"], "-" + seen["usage"]["amount"]["amount"], "all of its cards, no more")
r = run("bill", "explain", str(seen["reversal"]["n"]))
t.ok(r.rc == 0 and "Together: -" in r.out and f"= {seen['reversal']['amount']['amount']} CNY" in r.out, "the reversal is explained", r)
t.ok("reclaimed" in run("show", "cheap").out and "was given back" in run("events").out, "it was reclaimed and cost nothing, says the feed")
run("release", "cheap", "--yes")
bill = json.loads(run("bill", "--json").out)
t.ok(bill["simulated"] is True and run("bill").rc == 0, "the bill says that the cards are simulated", bill)
lines = [json.loads(l) for l in run("usage", "export").out.splitlines()]
t.ok(lines and all("billed_from_s" in l for l in lines) and {l["gpu"] for l in lines if l["reversed"]} == {"RTX 4090"}, "usage export is one JSON object a line")
t.ok("instance.released" in run("events").out and "instance_release" in run("audit").out, "events and audit tell the story")
r = run("wallet", "--lang", "zh")
t.ok("可用" in r.out, "the wallet speaks Chinese", r)
key = d.path("key")
subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
r = run("key", "add", key + ".pub", "--name", "laptop")
t.ok(r.rc == 0 and "SHA256:" in r.out and run("key", "rm", "laptop").rc == 0, "an SSH key is added and removed", r)
t.ok(run("admin", "node", "ls").rc == 4, "a renter may not look at nodes: 4")
t.ok(admin("admin", "check").rc == 0, "all invariants hold")
t.ok(admin("doctor").rc in (0, 1) and "ok   who you are" in admin("doctor").out, "doctor runs")
node.stop()
t.done()
