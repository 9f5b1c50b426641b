#!/usr/bin/env python3
"""The node keeps its promises with the control plane away: the guest is gone at its end, at most a second
early and never late, also with agent, helper and supervisor killed; nothing is billed beyond what is paid;
after the return both sides agree."""
import datetime, os, signal, sys, time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import platform_lab as lab

lab.enter()
t = lab.Tap()


def guest_pid(p):
    return lab.wait_for(p.guests, 5)[0]


def epoch(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def start_of(pid):
    return open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[19]


def gone_at(pid, born, limit):
    end = time.time() + limit
    while time.time() < end:
        try:
            if start_of(pid) != born or open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[0] == "Z":
                return time.time()
        except OSError:
            return time.time()
        time.sleep(0.01)
    return None


def kill_node(p):
    """The supervisor first, so that nobody starts the others again."""
    p.procs["node"].send_signal(signal.SIGKILL)
    p.procs.pop("node").wait()
    for name in ("agent", "suanli-priv"):
        for pid in p.pids(name):
            os.kill(pid, signal.SIGKILL)


def cut(what, for_, term_s, all_dead):
    p = lab.Platform(balance="1000", term_s=term_s, slice_s=1)
    p.add_image("mini", lab.mini_image(p.path("mini")))
    made = p.api("POST", "/v1/instances", {"cpu": 1, "memory": "128MiB", "system_disk": "256MiB", "for": for_,
                                           "name": "cut"})
    p.wait_state("cut", "running")
    pid = guest_pid(p)
    born = start_of(pid)
    p.stop("suanlid", signal.SIGKILL)
    if all_dead:
        kill_node(p)
    import sqlite3
    db = sqlite3.connect(p.path("store.db"))
    paid, ends = db.execute("select paid_until, ends_at from lease").fetchone()
    db.close()
    due = min(paid, ends if ends else paid) / 1000
    gone = gone_at(pid, born, due - time.time() + 10)
    late = None if gone is None else gone - due
    t.ok(late is not None and -1.0 <= late <= 0.05,
         f"{what}: the guest is gone at the end, at most 1 s early, never late",
         f"late by {late} s (paid_until {paid}, ends_at {ends})")
    t.note(f"{what}: {late if late is None else round(late, 3)} s against the end")
    if all_dead:
        p.start_node()
    time.sleep(2)
    p.start_daemon()
    seen = p.wait_state("cut", "stopped", seconds=60)
    t.ok(seen["reason"] in ("end_reached", "balance", "node_lost"), f"{what}: the end has its reason", seen["reason"])
    time.sleep(2)
    bill = p.api("GET", "/v1/bill")
    seat = [l for l in bill["lines"] if l["meter"] == "cpu"]
    last = max((epoch(l["to"]) for l in seat), default=0)
    t.ok(seat and last <= due + 0.001, f"{what}: nothing is billed after what was paid", f"{seat} {due}")
    t.equal(p.check(), [], f"{what}: after the return all invariants hold")
    t.equal(p.api("GET", "/v1/wallet")["held"]["amount"].strip("0."), "", f"{what}: no hold is left")
    node = p.node()
    t.equal(node["unknown"], [], f"{what}: no guest is unknown")
    p.close()


cut("control plane away, end of the term", "1h", 15, False)
cut("control plane away, end asked for", "12s", 600, False)
cut("control plane, agent, helper and supervisor dead", "1h", 15, True)
t.done()
