#!/usr/bin/env python3
"""kill -9 of the control plane, the agent, the helper and a guard at the n-th system call of create, stop,
release and the charge tick. After each: nothing lost, nothing doubled, the guest of a running lease keeps
its process, a retry with the same key finds the first result, all invariants hold.

A sample of n by default, every n with SUANLI_LONG=1."""
import json, os, random, signal, subprocess, sys, time, uuid

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import platform_lab as lab

lab.enter()
KILLNTH = os.path.join(lab.BUILD, "tests", "fault", "killnth")
SEED = int(os.environ.get("SUANLI_SEED", "0")) or int(time.time())
rng = random.Random(SEED)
t = lab.Tap()
t.note(f"seed {SEED}")
p = lab.Platform(balance="1000", term_s=30, slice_s=1)
p.add_image("mini", lab.mini_image(p.path("mini")))


def target_pid(target, wait=10):
    if target == "suanlid":
        return p.procs["suanlid"].pid
    if target == "guard":
        return lab.wait_for(lambda: p.guards()[:1], wait, 0.002)[0]
    return lab.wait_for(lambda: p.pids(target)[:1], wait)[0]


class Killer:
    """Attached to the target around one act."""

    def __init__(self, target, n):
        self.target, self.n = target, n
        self.p = subprocess.Popen([KILLNTH, str(target_pid(target)), str(n)], stdout=subprocess.PIPE, text=True)
        if self.p.stdout.readline().strip() != "attached":
            raise RuntimeError("cannot attach")

    def finish(self):
        if self.p.poll() is None:
            self.p.send_signal(signal.SIGTERM)
        try:
            line = self.p.communicate(timeout=10)[0].split()
        except subprocess.TimeoutExpired:
            self.p.kill()
            line = []
        return (int(line[1]), line[2]) if len(line) == 3 else (0, "lost")


def revive():
    """What a supervisor does for the control plane; the node has its own."""
    d = p.procs.get("suanlid")
    if d is None or d.poll() is not None:
        p.procs.pop("suanlid", None)
        p.start_daemon()


def act(target, n, method, path, body, until, seconds=60):
    """The call with the killer around it, retried with one key until answered, then until `until()`."""
    killer = Killer(target, n) if target else None
    key = uuid.uuid4().hex
    end = time.monotonic() + seconds
    answer = None
    while time.monotonic() < end:
        revive()
        status, text = p.http(method, path, body, p.renter, key, timeout=10)
        if status and status < 500:
            answer = (status, text)
            break
        time.sleep(0.1)
    done = False
    while time.monotonic() < end and not done:
        revive()
        try:
            done = until()
        except (RuntimeError, OSError, ValueError):
            done = False
        time.sleep(0.05)
    count, how = killer.finish() if killer else (0, "none")
    revive()
    return answer, done, count, how, key


def state(name):
    return p.show(name)["state"]


def one_life(target, ns, label):
    """create, stop and release, killed at ns[op]; returns the counts."""
    name = f"k{label}"
    counts = {}
    body = {"cpu": 1, "memory": "128MiB", "system_disk": "256MiB", "for": "1h", "name": name}
    problems = []
    if target == "guard":  # it is born during the create: attach as soon as it is there
        p.rent(**{k: v for k, v in body.items() if k != "for"})
        killer = Killer("guard", ns["create"])
        got = lab.wait_for(lambda: state(name) in ("running", "failed"), 60)
        counts["create"], how = killer.finish()
    else:
        answer, got, counts["create"], how, key = act(target, ns["create"], "POST", "/v1/instances", body,
                                                      lambda: state(name) in ("running", "failed"))
        if answer and answer[0] >= 300:
            problems.append(f"create answered {answer}")
        again = p.http("POST", "/v1/instances", body, p.renter, key)
        if answer and json.loads(again[1]).get("id") != json.loads(answer[1]).get("id"):
            problems.append(f"the same key found another result: {again}")
    if not got:
        problems.append(f"create never ended: {p.show(name)['state']}")
    rows = [i for i in p.api("GET", "/v1/instances?all=true")["items"] if i["name"] == name]
    if len(rows) != 1:
        problems.append(f"{len(rows)} instances of that name")
    if got and state(name) == "running":
        if target != "guard":
            before = p.guests()
            answer, got, counts["tick"], how, _ = act(target, ns["tick"], "GET", f"/v1/instances/{name}", None,
                                                      lambda: time.sleep(2.5) or True, 20)
            if p.guests() != before:
                problems.append(f"the guest changed: {before} {p.guests()}")
        r = p.ssh(p.show(name), "echo alive")
        if r.out != "alive\n":
            problems.append(f"the guest does not answer after the kill: {r}")
        t_kill = target if target != "guard" else "guard"
        answer, got, counts["stop"], how, _ = act(t_kill, ns["stop"], "POST", f"/v1/instances/{name}/stop", {},
                                                  lambda: state(name) == "stopped")
        if not got:
            problems.append(f"stop never ended: {state(name)}")
    elif got and target != "guard":
        problems.append(f"create failed: {p.show(name)['why']}")
    spent = p.show(name)["spent"]
    t_kill = target if target != "guard" else None
    answer, got, counts["release"], how, _ = act(t_kill, ns["release"], "POST", f"/v1/instances/{name}/release",
                                                 {}, lambda: state(name) == "released")
    if not got:
        problems.append(f"release never ended: {state(name)}: {p.show(name)} {p.api('GET', '/v1/disks')['items'][:2]}")
        problems += [f"node: {f}" for f in os.listdir(p.path("node", "priv", "disks"))]
    if p.show(name)["spent"] != spent and state(name) == "released":
        later = p.show(name)["spent"]
        if float(later["amount"]) - float(spent["amount"]) > 0.01:
            problems.append(f"charged after the stop: {spent} {later}")
    problems += [f"{r['id']}: {r['text']}" for r in p.check()]
    held = p.api("GET", "/v1/wallet")["held"]["amount"]
    if float(held) != 0:
        problems.append(f"a hold is left: {held}")
    for rest in ("suanli-guard", "suanli-start"):
        if not lab.wait_for(lambda: not p.pids(rest), 10):
            problems.append(f"a process {rest} is left")
    return counts, problems


def campaign(target):
    nothing = dict.fromkeys(("create", "tick", "stop", "release"), 0)
    total, problems = one_life(target, nothing, f"{target[-3:]}0")
    t.ok(not problems, f"{target}: a life without a kill", "\n".join(problems))
    t.note(f"{target}: system calls of a life: {total}")
    longest = max(total.values())
    if os.environ.get("SUANLI_POINTS"):
        points = [int(w) for w in os.environ["SUANLI_POINTS"].split()]
    elif lab.LONG:
        points = range(1, longest + 1)
    else:
        k = int(os.environ.get("SUANLI_KILLS", "4"))
        points = sorted({1, 2} | {rng.randint(1, longest) for _ in range(k - 2)})
    for n in points:
        ns = {op: min(n, max(1, total.get(op, 1))) for op in nothing}
        counts, problems = one_life(target, ns, f"{target[-3:]}{n}")
        t.ok(not problems, f"{target} killed at system call {ns}", "\n".join(problems) + "\n" + p.log("node", 15))


for who in os.environ.get("SUANLI_TARGETS", "suanlid agent suanli-priv guard").split():
    campaign(who)
p.close()
t.done()
