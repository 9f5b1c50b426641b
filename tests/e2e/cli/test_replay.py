#!/usr/bin/env python3
"""admin replay as typed: small histories whose waits are known, and the public ones where they are
kept (SUANLI_TRACES, else ../shared/traces beside the repository). Prints TAP."""
import json, os, subprocess, sys, tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
SUANLI = os.path.abspath(sys.argv[1])
TRACES = os.environ.get("SUANLI_TRACES") or os.path.join(ROOT, "../shared/traces")
HOME = tempfile.mkdtemp(prefix="suanli-replay-")
tests = []

class Failed(Exception):
    pass

class Skipped(Exception):
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
    p = subprocess.run([SUANLI, "admin", "replay", *map(str, words)], env=env, cwd=HOME,
                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=600)
    return p.returncode, p.stdout.decode(), p.stderr.decode()

def one(*words):
    rc, out, err = run(*words, "--json")
    check(rc == 0, err)
    return json.loads(out)

def policies(*words):
    return {p["policy"]: p | {g["cards"]: g for g in p["gangs"]} for p in one(*words)["policies"]}

def history(name, rows):
    """rows: (second, duration, cards)"""
    path = os.path.join(HOME, name)
    with open(path, "w") as f:
        f.write("timestamp,duration,num_gpus,gpu_time,cluster\n")
        for at, run_s, cards in rows:
            f.write(f"2026-01-{1 + at // 86400:02d} {at // 3600 % 24:02d}:{at // 60 % 60:02d}:{at % 60:02d},"
                    f"{run_s}.0,{cards},{run_s * cards}.0,a\n")
    return path

def trace(name):
    path = os.path.join(TRACES, name)
    if not os.path.exists(path):
        raise Skipped(f"{path} is not there")
    return path

@test
def waits_that_can_be_worked_out_by_hand():
    # one node of 8: four cards for 1000 s, then a gang of 8, then two small jobs of 500 s and 5000 s
    path = history("hand.csv", [(0, 1000, 4), (10, 1000, 8), (20, 500, 4), (30, 5000, 4)])
    fifo = policies("--jobs", path, "--gpus", 8, "--policy", "fifo", "--estimate", "true")
    # in line: the gang at 1000, both small ones at 2000
    check(fifo["fifo"]["8"]["mean_wait_s"] == 990 and fifo["fifo"]["4-7"]["longest_wait_s"] == 1980, fifo)
    # EASY: the short one fits before the gang, the long one would delay it
    check(fifo["easy"]["8"]["mean_wait_s"] == 990 and fifo["easy"]["4-7"]["longest_wait_s"] == 1970, fifo)
    check(fifo["easy"]["4-7"]["mean_wait_s"] == (0 + 0 + 1970) // 3, fifo)

@test
def a_gang_is_not_starved_by_an_endless_stream_of_small_jobs():
    rows = [(i * 75, 600, 1) for i in range(9000)] + [(3600, 3600, 16)]
    got = policies("--jobs", history("stream.csv", rows), "--gpus", 16, "--policy", "ours")["ours"]
    check(got["9-16"]["jobs"] == 1 and got["9-16"]["longest_wait_s"] <= 2 * 600, got["9-16"])
    check(got["1"]["longest_wait_s"] <= 2 * 3600 + 600, got["1"])

@test
def what_does_not_fit_holds_up_nobody():
    # node 1 is full for a day; a gang of 16 waits for it; the 8 free cards keep working meanwhile
    rows = [(0, 86400, 8), (10, 600, 16)] + [(20 + i, 600, 1) for i in range(64)]
    got = policies("--jobs", history("pass.csv", rows), "--gpus", 16)["ours"]
    check(got["1"]["longest_wait_s"] <= 8 * 600, got["1"])
    check(got["9-16"]["longest_wait_s"] == 86390, got["9-16"])

@test
def the_same_history_gives_the_same_answer_in_any_order():
    rows = [(i * 37 % 5000, 100 + i * 7919 % 9000, 1 << i % 5) for i in range(400)]
    times = {r[0] for r in rows}
    rows = [next(r for r in rows if r[0] == at) for at in times]  # one arrival a moment
    a = one("--jobs", history("a.csv", rows), "--gpus", 32)
    b = one("--jobs", history("b.csv", rows[::-1]), "--gpus", 32)
    for p in a["policies"] + b["policies"]:
        p.pop("cpu_ms")
    check(a == b)

@test
def bad_input_is_told_with_its_place():
    good = history("good.csv", [(0, 10, 1)])
    bad = os.path.join(HOME, "bad.csv")
    for text, words in ((b"timestamp,duration\n", "num_gpus"), (b"", "empty"),
                        (b"timestamp,duration,num_gpus\n2026-01-01 00:00:00,5,x\n", "bad.csv:2"),
                        (b"timestamp,duration,num_gpus\nnoon,5,1\n", "bad.csv:2"),
                        (b"timestamp,duration,num_gpus\n2026-01-01 00:00:00,-5,1\n", "bad.csv:2"),
                        (b"timestamp,duration,num_gpus\n2026-01-01 00:00:00,5,0\n", "bad.csv:2")):
        with open(bad, "wb") as f:
            f.write(text)
        rc, out, err = run("--jobs", bad, "--gpus", 8)
        check(rc == 2 and words in err and not out, (text, rc, out, err))
    for words in (["--jobs", good], ["--jobs", good, "--gpus", 9], ["--jobs", good, "--gpus", 0],
                  ["--jobs", good, "--gpus", 8, "--policy", "best"], ["--jobs", good, "--gpus", 8, "--load", "x"],
                  ["--jobs", good, "--gpus", 8, "--estimate", "guess"], ["--gpus", 8],
                  ["--jobs", good, "--gpus", 130, "--per-node", 65], ["--jobs", HOME + "/none.csv", "--gpus", 8]):
        rc, out, err = run(*words)
        check(rc == 2 and not out and err, (words, rc, out, err))
    rc, out, err = run("--jobs", history("big.csv", [(0, 10, 16)]), "--gpus", 8)
    check(rc == 2 and "16" in err, err)

@test
def philly_on_300_nodes_gangs_wait_half_as_long_as_with_easy():
    path = trace("philly/philly.csv")
    as_recorded = policies("--jobs", path, "--gpus", 2400)
    check(all(p["all"]["jobs"] == 82247 and p["all"]["longest_wait_s"] == 0 for p in as_recorded.values()))
    for load in ("60%", "70%", "80%", "95%"):
        got = policies("--jobs", path, "--gpus", 2400, "--load", load)
        ours, easy = got["ours"], got["easy"]
        gangs = [p["8 and more"]["mean_wait_s"] for p in (ours, easy)]
        longest = [p["all"]["longest_wait_s"] for p in (ours, easy)]
        used = [float(p[k]) for k in ("used", "used_waiting") for p in (ours, easy)]
        print(f"# load {load}: gangs {gangs[0]} s against {gangs[1]} s, longest {longest[0]} against {longest[1]}, "
              f"used while waiting {used[2]:.3f} against {used[3]:.3f}, CPU {ours['cpu_ms']} and {easy['cpu_ms']} ms")
        check(gangs[0] <= 0.5 * gangs[1], (load, gangs))
        check(longest[0] <= 2 * longest[1], (load, longest))
        check(used[0] >= used[1] - 1e-4 and used[2] >= used[3], (load, used))
        check(ours["cpu_ms"] <= 15 * max(easy["cpu_ms"], 50), (load, ours["cpu_ms"], easy["cpu_ms"]))

def table(name, head, rows):
    path = os.path.join(HOME, name)
    with open(path, "w") as f:
        f.write("\n".join([head] + [",".join(map(str, r)) for r in rows]) + "\n")
    return path

NODE_HEAD = "sn,cpu_milli,memory_mib,gpu,model"
TASK_HEAD = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,creation_time,deletion_time"

def spot(nodes, tasks, *words):
    got = one("--spot", "--nodes", nodes, "--tasks", tasks, *words)
    return got, {p["policy"]: p for p in got["policies"]}

@test
def spot_goes_for_on_demand_and_what_was_saved_is_not_lost():
    # one node of two cards: two spot tasks fill it for ever, an on-demand task comes when the first
    # has just saved and the second has not
    nodes = table("n.csv", NODE_HEAD, [("a", 64000, 1000, 2, "V100")])
    rows = [("s1", 1000, 1, 1, 1000, "", "BE", 0, 10 ** 6), ("s2", 1000, 1, 1, 1000, "", "BE", 900, 10 ** 6),
            ("d1", 1000, 1, 1, 1000, "V100", "LS", 1801, 5000), ("end", 1, 1, 0, 0, "", "LS", 2400, 2401)]
    tasks = table("t.csv", TASK_HEAD, rows)
    got, p = spot(nodes, tasks, "--rounds", 1, "--load", "recorded")
    check(got["tasks"] == 4 and got["cards"] == 2, got)
    for one_policy in p.values():
        check(one_policy["evicted"] == one_policy["reclaims"] == 1, one_policy)
        check(one_policy["on_demand_started"] == 2 and one_policy["on_demand_waited"] == 0, one_policy)
        check(one_policy["could_have_started"] == 0, one_policy)
    check(p["ours"]["lost_card_hours"] == "0.000" and p["youngest"]["lost_card_hours"] == "0.250", p)

@test
def spot_that_cannot_help_is_left_alone():
    nodes = table("n.csv", NODE_HEAD, [("a", 64000, 1000, 2, "V100"), ("b", 64000, 1000, 2, "T4")])
    rows = [("d0", 1000, 1, 2, 1000, "V100", "LS", 0, 10 ** 6), ("s1", 1000, 1, 2, 1000, "T4", "BE", 10, 10 ** 6),
            ("d1", 1000, 1, 1, 1000, "V100", "LS", 2000, 10 ** 6), ("never", 1, 1, 3, 1000, "", "LS", 2100, 2200),
            ("end", 1, 1, 0, 0, "", "LS", 2400, 2401)]
    got, p = spot(nodes, table("t.csv", TASK_HEAD, rows), "--rounds", 1)
    check(got["left_out"] == 1, got)
    for one_policy in p.values():
        check(one_policy["evicted"] == 0 and one_policy["on_demand_started"] == 2, one_policy)

@test
def spot_input_that_is_wrong_is_told_with_its_place():
    nodes = table("n.csv", NODE_HEAD, [("a", 64000, 1000, 2, "V100")])
    tasks = table("t.csv", TASK_HEAD, [("s1", 1000, 1, 1, 1000, "", "BE", 0, 10)])
    for n, t, words in (([("a", "x", 1, 1, "T4")], None, "bad.csv:2"), (None, [("s", 1, 1, 1, 1001, "", "BE", 0, 1)], "bad.csv:2"),
                        (None, [("s", 1, 1, 1, 0, "", "BE", 0, 1)], "bad.csv:2"), (None, [("s", 1, 1, 1, 5, "", "BE", 9, 1)], "bad.csv:2")):
        bad = table("bad.csv", NODE_HEAD if n else TASK_HEAD, n or t)
        rc, out, err = run("--spot", "--nodes", bad if n else nodes, "--tasks", bad if t else tasks)
        check(rc == 2 and words in err and not out, (n, t, rc, err))
    for words in (["--spot"], ["--spot", "--nodes", nodes], ["--spot", "--nodes", nodes, "--tasks", tasks, "--policy", "easy"],
                  ["--spot", "--nodes", nodes, "--tasks", tasks, "--rounds", "0"],
                  ["--spot", "--nodes", nodes, "--tasks", tasks, "--load", "0"]):
        rc, out, err = run(*words)
        check(rc == 2 and not out and err, (words, rc, out, err))

@test
def openb_at_110_percent_reclaim_loses_little_work():
    words = (trace("openb/openb_node_list_gpu_node.csv"), trace("openb/openb_pod_list_default.csv"))
    got, p = spot(*words)
    ours, youngest = p["ours"], p["youngest"]
    lost = [float(x["lost_card_hours"]) for x in (ours, youngest)]
    print(f"# load {got['load']}: lost {lost[0]} card-hours against {lost[1]}, evicted {ours['evicted']} against "
          f"{youngest['evicted']}, CPU {ours['cpu_ms']} and {youngest['cpu_ms']} ms")
    check(abs(float(got["load"]) - 1.1) < 0.005, got["load"])
    check(lost[0] <= 0.6 * lost[1], lost)
    check(ours["could_have_started"] == 0 and ours["reclaims"] > 1000, ours)

print(f"1..{len(tests)}")
failed = 0
for n, f in enumerate(tests, 1):
    name = f.__name__.replace("_", " ")
    try:
        f()
        print(f"ok {n} - {name}", flush=True)
    except Skipped as e:
        print(f"ok {n} - {name} # SKIP {e}", flush=True)
    except (Failed, subprocess.TimeoutExpired) as e:
        failed += 1
        print(f"not ok {n} - {name}\n# {e}", flush=True)
sys.exit(1 if failed else 0)
