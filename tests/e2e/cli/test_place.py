#!/usr/bin/env python3
"""admin place as typed: a fleet and demands made here, its log held against the files by a checker of
its own; what is wrong with a file is told with its place. Prints TAP."""
import json, os, random, subprocess, sys, tempfile

SUANLI = os.path.abspath(sys.argv[1])
HOME = tempfile.mkdtemp(prefix="suanli-place-")
NODE_HEAD = "sn,cpu_milli,memory_mib,gpu,model"
TASK_HEAD = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec"
tests = []

class Failed(Exception):
    pass

def test(f):
    tests.append(f)
    return f

def check(cond, detail=""):
    if not cond:
        raise Failed(str(detail))

def run(*words):
    env = {"PATH": os.environ["PATH"], "HOME": HOME, "LC_ALL": "C.UTF-8"}
    env.update({k: v for k, v in os.environ.items() if k.endswith("SAN_OPTIONS")})
    p = subprocess.run([SUANLI, "admin", "place", *map(str, words)], env=env, cwd=HOME, stdin=subprocess.DEVNULL,
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300)
    return p.returncode, p.stdout.decode(), p.stderr.decode()

def table(name, head, rows):
    path = os.path.join(HOME, name)
    with open(path, "w") as f:
        f.write("\n".join([head] + [",".join(map(str, r)) for r in rows]) + "\n")
    return path

R = random.Random(42)
FLEET = [("n%02d" % i, *R.choice([(96000, 393216, 8, "A"), (32000, 131072, 4, "B"), (64000, 262144, 2, "C"), (16000, 65536, 0, "")]))
         for i in range(40)]
DEMANDS = [("t%04d" % i, *R.choice([(8000, 16384, 1, 1000, ""), (4000, 8192, 1, 810, ""), (6000, 8192, 1, 470, ""), (3000, 4096, 1, 190, "A|B"),
                                    (12000, 16384, 1, 1000, "C"), (80000, 262144, 8, 1000, ""), (16000, 32768, 2, 1000, ""),
                                    (8000, 16384, 0, 0, ""), (1000, 1024, 1, 1000, "D")])) for i in range(600)]
NODES, TASKS = table("nodes.csv", NODE_HEAD, FLEET), table("tasks.csv", TASK_HEAD, DEMANDS)

def fits(n, t):
    cpu, mem, count, milli, spec = t
    if n["cpu"] < cpu or n["mem"] < mem:
        return False
    if not count:
        return True
    return (not spec or n["model"] in spec.split("|")) and sum(g >= milli for g in n["gpu"]) >= count

def replayed(log):
    """Allocated milli, or Failed at the first broken constraint or needless refusal."""
    nodes = {r[0]: dict(cpu=r[1], mem=r[2], gpu=[1000] * r[3], model=r[4]) for r in FLEET}
    lines = open(log).read().splitlines()
    check(len(lines) == len(DEMANDS), len(lines))
    used = 0
    for line, (name, *t) in zip(lines, DEMANDS):
        who, node, cards = line.split(",")
        check(who == name, line)
        if not node:
            check(not cards and not any(fits(n, t) for n in nodes.values()), f"needless refusal: {line}")
            continue
        n, at = nodes[node], [int(c) for c in cards.split("-")] if cards else []
        check(fits(n, t) and len(set(at)) == t[2] and all(n["gpu"][c] >= t[3] for c in at), line)
        n["cpu"] -= t[0]
        n["mem"] -= t[1]
        for c in at:
            n["gpu"][c] -= t[3]
        used += t[2] * t[3]
    return used

@test
def the_log_breaks_nothing_and_refuses_nothing_needlessly():
    whole = sum(1000 * r[3] for r in FLEET)
    for policy in ("fast", "look-ahead"):
        for mix in ([], ["--mix", TASKS]):
            log = os.path.join(HOME, "log")
            rc, out, err = run("--nodes", NODES, "--tasks", TASKS, "--policy", policy, "--log", log, "--json", *mix)
            check(rc == 0, err)
            d = json.loads(out)
            used = replayed(log)
            check(abs(d["allocated_pct"] - 100 * used / whole) < 0.01, (d, used))
            check(d["placed"] + d["refused"] == len(DEMANDS) and d["mix"] == ("given" if mix else "learnt"), d)
            check(d["never"] == sum(t[5] == "D" for t in DEMANDS), d)

@test
def the_order_of_the_nodes_changes_nothing():
    logs = []
    for order in ("name", "hash", "typed"):
        log = os.path.join(HOME, "log." + order)
        rc, out, err = run("--nodes", NODES, "--tasks", TASKS, "--order", order, "--seed", 7, "--log", log)
        check(rc == 0, err)
        check("ALLOCATED %" in out and "SCARCITY" in out and max(map(len, out.splitlines())) <= 80, out)
        logs.append(open(log).read())
    check(logs[0] == logs[1] == logs[2])

@test
def a_file_that_is_wrong_is_told_with_its_place():
    for name, head, rows, words in (
            ("nodes", "sn,cpu_milli,gpu,model", [("a", 1, 1, "A")], "memory_mib"), ("nodes", NODE_HEAD, [], "no row"),
            ("nodes", NODE_HEAD, [("a", "x", 1, 1, "A")], "bad.csv:2"), ("nodes", NODE_HEAD, [("a", 1, 1, 99, "A")], "bad.csv:2"),
            ("nodes", NODE_HEAD, [("a", 1, 1, 1, "A"), ("a", 1, 1, 1, "A")], "twice"), ("nodes", NODE_HEAD, [("a", 1, 1, 1, "")], "model"),
            ("tasks", TASK_HEAD, [("t", 1, 1, 1, 0, "")], "bad.csv:2"), ("tasks", TASK_HEAD, [("t", -1, 1, 0, 0, "")], "bad.csv:2"),
            ("mix", TASK_HEAD, [("", 1, 1, 0, 0, "")], "bad.csv:2")):
        files = {"nodes": NODES, "tasks": TASKS} | {name: table("bad.csv", head, rows)}
        rc, out, err = run(*[w for k, v in files.items() for w in ("--" + k, v)])
        check(rc == 2 and words in err and not out, (name, rows, rc, err))
    for words in (["--nodes", NODES], ["--nodes", "missing.csv", "--tasks", TASKS], ["--nodes", NODES, "--tasks", TASKS, "--order", "x"],
                  ["--nodes", NODES, "--tasks", TASKS, "--policy", "x"], ["--nodes", NODES, "--tasks", TASKS, "--seed", "x"],
                  ["--nodes", NODES, "--tasks", TASKS, "--log", os.path.join(HOME, "none", "log")]):
        rc, out, err = run(*words)
        check(rc == 2 and not out and err, (words, rc, err))

print(f"1..{len(tests)}")
failed = 0
for n, f in enumerate(tests, 1):
    name = f.__name__.replace("_", " ")
    try:
        f()
        print(f"ok {n} - {name}", flush=True)
    except (Failed, subprocess.TimeoutExpired) as e:
        failed += 1
        print(f"not ok {n} - {name}\n# {e}", flush=True)
sys.exit(1 if failed else 0)
