#!/usr/bin/env python3
"""A create that fails before it runs charges exactly 0 and leaves nothing: cancelled at many moments of its
path, and with each step made to fail in turn."""
import os, subprocess, sys, time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import platform_lab as lab

lab.enter()
t = lab.Tap()
p = lab.Platform(balance="1000", slice_s=1)
p.add_image("mini", lab.mini_image(p.path("mini")))
BODY = {"cpu": 1, "memory": "128MiB", "system_disk": "256MiB", "for": "1h"}

CGROUP = next(l.split("=")[1].split()[0] for l in subprocess.run(
    [lab.binary("suanli-node"), "-n", "-c", p.path("node.conf")], stdout=subprocess.PIPE, text=True).stdout.splitlines()
    if l.startswith("cgroup "))


def left_behind():
    """Everything a lease may own on the node, as one sorted text."""
    pid = p.pids("suanli-priv")[0]
    mounts = open(f"/proc/{pid}/mountinfo").read().splitlines()
    rows = ["mount " + m.split()[4] for m in mounts if "lea_" in m or "/disks/" in m]
    loops = subprocess.run(["losetup", "-n", "-O", "BACK-FILE"], stdout=subprocess.PIPE, text=True).stdout
    rows += ["loop " + l for l in loops.split() if p.dir in l]
    for root, dirs, _ in os.walk("/sys/fs/cgroup"):
        rows += ["cgroup " + os.path.join(root, d) for d in dirs if d.startswith("lea_") and CGROUP in root]
    nft = subprocess.run(["nft", "list", "ruleset"], stdout=subprocess.PIPE, text=True).stdout
    rows += ["element " + l.strip() for l in nft.splitlines() if " : 10.213." in l or "lea_" in l]
    rows += [f"file {n}" for n in os.listdir(p.path("node", "priv", "leases"))]
    rows += [f"disk {n}" for n in os.listdir(p.path("node", "priv", "disks")) if n.startswith("dsk_")]
    rows += [f"guard {g}" for g in p.guards()]
    return sorted(rows)


def settled(name):
    """Released or failed, the node quiet; the wallet whole."""
    lab.wait_for(lambda: p.show(name)["state"] in ("released", "failed", "stopped"), 60)
    return lab.wait_for(lambda: left_behind() == [], 40, 0.2) is not None


def wallet_is_whole(what):
    w = p.api("GET", "/v1/wallet")
    t.ok(float(w["cash"]["amount"]) == 1000 and float(w["held"]["amount"]) == 0, f"{what}: charged exactly 0, no hold",
         w)


def cancelled_at(ms):
    name = f"c{ms}"
    p.api("POST", "/v1/instances", dict(BODY, name=name))
    time.sleep(ms / 1000)
    was = p.show(name)["state"]
    p.retry("POST", f"/v1/instances/{name}/release", {})
    ok = settled(name)
    return was, ok, p.show(name)


def cancel_at_many_moments():
    moments = range(0, 600, 10) if lab.LONG else (0, 20, 50, 90, 140, 200, 280, 400)
    before_running = 0
    for ms in moments:
        was, ok, seen = cancelled_at(ms)
        before_running += was != "running"
        t.ok(ok, f"released after {ms} ms ({was}): nothing is left", "\n".join(left_behind()) + str(seen)[:800])
        if was != "running" and seen["reason"] != "user_release":
            t.note(f"reason {seen['reason']}")
        if was != "running":
            t.ok(float(seen["spent"]["amount"]) == 0, f"released after {ms} ms: costs exactly 0", seen["spent"])
    t.ok(before_running >= 2, "some were really cancelled before they ran", before_running)


def broken(what, breaks, mends, codes):
    name = "b-" + what.split()[0]
    breaks()
    before = p.api("GET", "/v1/wallet")["cash"]
    p.api("POST", "/v1/instances", dict(BODY, name=name))
    try:
        seen = p.wait_state(name, "failed", seconds=90)
    finally:
        mends()
    t.ok(seen["why"] and seen["why"]["code"] in codes and seen["why"]["next"], f"{what}: a typed cause and a next step",
         seen["why"])
    t.note(f"{what}: {seen['why']['code']}: {seen['why']['detail']}")
    t.equal(p.api("GET", "/v1/wallet")["cash"], before, f"{what}: costs exactly 0")
    t.equal(float(p.api("GET", "/v1/wallet")["held"]["amount"]), 0.0, f"{what}: no hold is left")
    p.retry("POST", f"/v1/instances/{name}/release", {})
    t.ok(lab.wait_for(lambda: left_behind() == [], 40, 0.2) is not None, f"{what}: nothing is left",
         "\n".join(left_behind()))


def rename(path):
    return (lambda: os.rename(path, path + ".away"), lambda: os.rename(path + ".away", path))


def only(folder, suffix):
    return next(os.path.join(folder, n) for n in os.listdir(folder) if n.endswith(suffix))


def no_folder(path):
    """Where the node, in its own mounts, has a folder there is an empty file."""
    node = lambda cmd: subprocess.run(["nsenter", "-m", "-t", str(p.pids("suanli-priv")[0]), "sh", "-ec", cmd], check=True)
    return (lambda: node(f"mv {path} {path}.away; touch {path}"), lambda: node(f"rm {path}; mv {path}.away {path}"))


def run_folder():
    mounts = open(f"/proc/{p.pids('suanli-priv')[0]}/mountinfo").read().split()
    return next(m for m in mounts if m.startswith("/run/suanli-") and m.count("/") == 2)


def planted(path, size):
    """Something else has the room that the pool still had when the instance was placed."""
    return (lambda: subprocess.run(["truncate", "-s", size, path], check=True), lambda: os.unlink(path))


def ssh_loader():
    """Without it no program of the SSH bundle starts."""
    return next(os.path.join(root, "ld.so") for root, _, files in os.walk(p.path("node", "priv"))
                if "ld.so" in files and "/ssh-" in root)


cancel_at_many_moments()
priv = lambda *names: p.path("node", "priv", *names)
broken("image missing on the node", *rename(only(priv("images"), ".erofs")), codes=("image_not_found",))
broken("disk-pool full", *planted(priv("disks", "other.img"), "8T"), codes=("no_space",))
broken("runtime failing", *no_folder(run_folder() + "/runtime"), codes=("runtime",))
broken("network failing", *no_folder(run_folder() + "/network"), codes=("network_setup",))
broken("ssh-server missing", *rename(ssh_loader()), codes=("timeout", "runtime"))
good = p.rent(system_disk="256MiB", memory="128MiB", name="after")
t.ok(p.wait_state("after", "running", seconds=60)["state"] == "running", "and with all in place again one runs", good)
p.retry("POST", "/v1/instances/after/release", {})
t.ok(lab.wait_for(lambda: left_behind() == [], 40, 0.2) is not None, "which leaves nothing either", left_behind())
t.equal(p.check(), [], "all invariants hold on the live store")
p.close()
t.done()
