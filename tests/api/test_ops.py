#!/usr/bin/env python3
"""Every row of operations.def: one good and one refused case as data, each answer held against the
served OpenAPI document. A node that keeps the protocol (fake_node) makes instances run."""
import json, os, re, subprocess, time
from rig import Daemon, Schema, Tap
from fake_node import FakeNode

tap = Tap()
d = Daemon(price_second_pct=500).people()
schema = Schema(d.must("GET", "/v1/openapi.json"))
subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", d.path("k")], check=True)
PUB = open(d.path("k.pub")).read().strip()
A, B, C, OP = d.alice, d.bob, d.carol, d.operator
AS_VIEWER = {"X-Suanli-Project": "alice"}
seen, facts = {}, {}


def case(op, who, want, path_args=(), body=None, query="", headers=None, name=None):
    """One call: want is None (good) or the code of the refusal."""
    method, path, _ = schema.ops[op]
    for a in path_args:
        path = re.sub(r"\{\w+\}", lambda m: str(a), path, count=1)
    r = d.call(method, path + query, None if method == "GET" else body or {}, who, headers=headers)
    title = name or f"{op} {' '.join(map(str, path_args))} {json.dumps(body) if body else ''}{query}".strip()[:110]
    faults = schema.answer_faults(op, r)
    good = (r.status == 200) if want is None else r.code == want
    tap.ok(good and not faults, f"{title}: {want or 'done'}", "\n".join([repr(r)] + faults[:8]))
    seen.setdefault(op, set()).add("good" if want is None else "refused")
    return r.json if r.status == 200 and r.headers["Content-Type"].startswith("application/json") else None


def wait(instance, *states, seconds=15):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        got = d.must("GET", f"/v1/instances/{instance}", token=A)
        if got["state"] in states:
            return got
        time.sleep(0.1)
    raise RuntimeError(f"{instance}: {got['state']}, not {states}; node: {node.fault}\n{d.log()[-2000:]}")


# --- who -------------------------------------------------------------------------------------------
code = case("user_code", OP, None, ["alice"])["code"]
case("user_code", OP, "not_found", ["nobody"])
case("login", None, None, body={"code": code})
case("login", None, "code_invalid", body={"code": code})
case("me", A, None)
case("me", None, "auth_required")
token = case("token_create", A, None, body={"label": "t", "role": "member", "expires_in": "1d"})
case("token_create", A, "validation", body={})
case("token_list", A, None)
case("token_list", A, "cursor", query="?cursor=AAAA")
case("token_revoke", B, "not_found", [token["id"]])
case("token_revoke", A, None, [token["id"]])
case("project_create", A, None, body={"name": "lab"})
case("project_create", A, "exists", body={"name": "lab"})
case("project_list", A, None)
case("project_list", A, "validation", query="?limit=0")
case("project_member_set", A, None, ["lab", "bob"], {"role": "member"})
case("project_member_set", B, "forbidden", ["lab", "bob"], {"role": "owner"})
key = case("key_add", A, None, body={"public_key": PUB, "name": "laptop"})
case("key_add", A, "validation", body={"public_key": "ssh-dss AAAA"})
case("key_list", A, None)
case("key_list", A, "validation", query="?sort=x")
case("user_list", OP, None)
case("user_list", A, "forbidden")
case("user_add", OP, None, body={"name": "erin"})
case("user_add", OP, "exists", body={"name": "erin"})

# --- prices, nodes, images -------------------------------------------------------------------------
for sku, price, unit in (("gpu.RTX 4090", "60", "hour"), ("cpu.seat", "0.12", "hour"), ("disk", "0.02", "GiB-day"),
                         ("disk.stopped", "0.01", "GiB-day"), ("disk.detached", "0.01", "GiB-day"),
                         ("egress", "0.5", "GiB")):
    case("price_set", OP, None, body={"sku": sku, "price": price, "unit": unit})
case("price_set", OP, None, body={"sku": "disk", "price": "9", "unit": "GiB-day"}, query="?dry_run=true")
case("price_set", OP, "validation", body={"sku": "disk", "price": "-1", "unit": "GiB-day"})
case("price_set", OP, None, body={"sku": "gpu.RTX 4090", "price": "0.3", "currency": "USD", "day_cap": "5"})
case("price_set", OP, None, body={"sku": "egress", "price": "0.1", "currency": "USD", "tier": ["100:0.05"]})
case("price_set", OP, "validation", body={"sku": "egress", "price": "0.1", "tier": ["5:0.1", "5:0.2"]})
waits = [case("price_set", OP, None, body={"sku": "cpu.seat", "price": "12"})["id"] for _ in range(2)]
second = d.login(d.must("POST", "/v1/admin/users", {"name": "second", "role": "operator"}, OP)["code"])
case("price_approve", OP, "approval_own", waits[:1])
case("price_approve", second, None, waits[:1], query="?dry_run=true")
case("price_withdraw", OP, None, waits[:1])
case("price_approve", second, "not_found", waits[:1])
case("price_withdraw", OP, "not_found", ["prc_none"])
case("price_set", OP, None, body={"sku": "gpu.H100", "price": "10"})
waits.append(case("price_set", OP, None, body={"sku": "gpu.H100", "price": "99"})["id"])
tap.equal(case("price_approve", second, None, waits[2:])["state"], "set", "agreed to by another, it counts")
case("price_withdraw", second, None, waits[1:2])
for sku, price in (("plan.day.gpu.RTX 4090", "20"), ("plan.year.gpu.RTX 4090", "4000")):
    case("price_set", OP, None, body={"sku": sku, "price": price, "refund": "clawback", "fee": 10})
case("price_set", OP, "validation", body={"sku": "plan.hour.gpu.RTX 4090", "price": "1"})
case("price_list", OP, None)
case("price_list", A, "forbidden")
case("topup", OP, None, body={"project": "alice", "amount": "1000", "note": "welcome"})
case("topup", OP, "not_found", body={"project": "nowhere", "amount": "100"})
made = case("node_add", OP, None, body={"name": "n1"})
case("node_add", OP, "exists", body={"name": "n1"})
case("supplier_add", OP, None, ["lab-b"], {"user": "bob", "share": "4/5", "dispute": "none"})
case("supplier_node_add", OP, None, ["lab-b", "n1"])
case("node_add", OP, None, body={"name": "n2"})
node = FakeNode(d, made["token"])
case("image_add", OP, None, body={"name": "base", "source": "recipe:base", "default": True})
case("image_add", OP, "validation", body={"name": "base", "source": "http://x/"})
case("image_add", OP, None, body={"name": "old", "source": "docker://x@sha256:" + "cd" * 32})
case("image_remove", OP, None, ["old"])
case("image_remove", OP, "not_found", ["old"])
case("image_list", A, None)
case("image_list", None, "auth_required")
case("node_sync", made["token"], "protocol", body={"proto": 2})
case("node_sync", A, "node_auth", body={"proto": 1})
end = time.monotonic() + 10
while time.monotonic() < end and d.must("GET", "/v1/images", token=A)["items"][0]["state"] != "ready":
    time.sleep(0.1)
listed = case("node_list", OP, None)
case("node_list", A, "forbidden")
tap.ok(next(n for n in listed["items"] if n["name"] == "n1")["gpus"], "the node's cards are known", listed)
case("node_trust", OP, None, ["n1"])
case("node_trust", OP, "not_found", ["n9"])
case("node_drain", OP, None, ["n1"])
case("node_drain", OP, "not_found", ["n9"])
case("instance_create", A, "capacity_none", body={"gpu": "4090", "for": "1h"}, name="a drained node takes nothing")
case("node_drain", OP, None, ["n1"], {"off": True})
node.unknown.append({"lease": "lea_stranger000000", "pid": 7})
end = time.monotonic() + 10
while time.monotonic() < end and not any(n["unknown"] for n in d.must("GET", "/v1/admin/nodes", token=OP)["items"]):
    time.sleep(0.1)
case("node_kill_unknown", OP, None, ["n1", "lea_stranger000000"])
case("node_kill_unknown", OP, "not_found", ["n1", "lea_nothere0000000"])

# --- renting ---------------------------------------------------------------------------------------
offers = case("offer_list", A, None)
case("offer_list", A, "validation", query="?filter=colour%3Dred")
card = next(o for o in offers["items"] if o["gpu"])
sized = case("size", A, None, body={"model": "Qwen2.5-7B", "task": "lora", "explain": True})
tap.ok(sized["offers"] == "live" and sized["model"]["params"] == 7615616512 and sized["steps"], "size counts exactly and shows how", sized)
here = sized["cheapest"]
tap.ok(here and here["offer_gpu"] == "RTX 4090" and here["price_hour"] == card["price_hour"] and here["cost"]["amount"] > "0",
       "size takes the live offers and their prices", here)
tap.ok(all(s["rent"] and s["cost"] for s in sized["plan"]), "each stage has a cost and a line to paste", sized["plan"])
case("size", A, None, body={"task": "infer", "config": {
    "model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 100}})
case("size", A, "model_unknown", body={"model": "nosuch"})
case("size", A, "model_kind", body={"config": {"model_type": "zebra"}})
case("size", A, "model_file", body={"config": {"model_type": "llama", "hidden_size": "big"}})
case("size", A, "validation", body={"model": "Qwen2.5-7B", "task": "dream"})
case("size", A, "validation", body={"model": "Qwen2.5-7B", "seq": 0})
case("size", A, "validation", body={})
case("size", None, "auth_required", body={"model": "Qwen2.5-7B"})
q = case("quote_create", A, None, body={"gpu": "4090", "for": "2h", "disk": ["data:10GiB"]})
case("quote_create", A, "validation", body={"gpu": "4090"} | {"for": "soon"})
case("disk_create", A, None, body={"name": "data", "size": "10GiB"}, query="?dry_run=true")
case("disk_create", A, None, body={"name": "data", "size": "10GiB"})
case("disk_create", A, "exists", body={"name": "data", "size": "10GiB"})
dry = case("instance_create", A, None, body={"gpu": "4090", "for": "1h", "name": "one", "dry_run": True})
tap.equal(d.must("GET", "/v1/instances", token=A)["items"], [], "dry_run made nothing")
case("instance_create", A, "validation", body={"gpu": "4090", "for": "1h", "then": "explode"})
case("instance_create", A, "offer_changed", body={"gpu": "4090", "for": "1h", "price": "1.50"})
case("instance_create", A, "not_found", body={"gpu": "H900", "for": "1h"})
case("instance_create", A, "capacity_never", body={"gpu": "4090", "count": 9, "for": "1h"})
case("instance_create", B, "balance", body={"gpu": "4090", "for": "1h"})
case("instance_create", C, "forbidden", body={"gpu": "4090", "for": "1h"}, headers=AS_VIEWER)
one = case("instance_create", A, None, body={
    "gpu": "4090", "for": "1h", "name": "one", "disk": ["data"], "label": ["team=a"], "port": ["8888"],
    "env": ["X=1"], "command": ["python3", "-c", "pass"]})
one = wait("one", "running")
tap.ok(one["ssh"] and one["billing_gpu"] and one["price_hour"] and one["simulated"], "it runs, reachable, charged", one)
case("image_remove", OP, "in_use", ["base"])
plans = case("plan_list", A, None)
tap.equal(sorted(o["plan"] for o in plans["offers"]), ["day", "year"], "what can be bought")
case("plan_list", A, "validation", query="?sort=x")
case("plan_convert", A, "validation", ["one"], {"plan": "hour"})
case("plan_convert", A, "price_unknown", ["one"], {"plan": "week"})
case("plan_convert", A, "balance", ["one"], {"plan": "year"})
case("plan_convert", A, None, ["one"], {"plan": "day", "dry_run": True})
tap.equal(d.must("GET", "/v1/plans", token=A)["items"], [], "dry_run bought nothing")
plan = case("plan_convert", A, None, ["one"], {"plan": "day", "renew": True})
case("plan_convert", A, "plan_covered", ["one"], {"plan": "day"})
again = d.must("GET", "/v1/instances/one", token=A)
tap.equal(again["ends_at"], plan["ends_at"], "the instance ends with its plan")
tap.ok(float(again["price_hour"]["amount"]) < 0.1, "only its disks cost by the hour now", again["price_hour"])
case("plan_renew", A, None, [plan["id"]], {"off": True})
case("plan_renew", A, "not_found", ["pln_none"])
case("plan_renew", C, "forbidden", [plan["id"]], headers=AS_VIEWER)
case("plan_release", A, "not_found", ["pln_none"])
left = case("plan_release", A, None, [plan["id"]], {"go_on": True, "dry_run": True})
tap.ok(left["state"] == "released" and float(left["given_back"]["amount"]) > 15, "what leaving gives back", left)
case("plan_release", A, None, [plan["id"]], {"go_on": True})
case("plan_release", A, "state", [plan["id"]])
case("plan_revenue", OP, None)
case("plan_revenue", OP, "validation", query="?month=2026-13")
case("plan_revenue", A, "forbidden")
case("instance_create", A, "validation", body={"gpu": "4090", "plan": "day", "for": "1h"})
case("instance_create", A, "validation", body={"cpu": 1, "plan": "day"})
day = case("instance_create", A, None, body={"gpu": "4090", "plan": "day", "name": "planned", "dry_run": True})
tap.ok(float(day["price_hour"]["amount"]) < 0.1, "rented on a plan: its cards cost nothing by the hour", day)
case("instance_list", A, None, query="?all=true")
case("instance_list", A, "validation", query="?all=maybe")
case("instance_get", A, None, ["one"])
case("instance_get", C, None, ["one"], headers=AS_VIEWER)
mine = d.call("GET", "/v1/instances/" + one["id"], token=B)
none = d.call("GET", "/v1/instances/ins_00000000000000", token=B)
tap.ok(mine.status == none.status == 404 and
       mine.raw.replace(one["id"].encode(), b"").replace(mine.json["request_id"].encode(), b"") ==
       none.raw.replace(b"ins_00000000000000", b"").replace(none.json["request_id"].encode(), b""),
       "another's instance and none are the same bytes", f"{mine}\n{none}")
case("instance_get", B, "not_found", [one["id"]])
case("instance_ports_set", A, None, ["one", 6006])
case("instance_ports_set", A, "validation", ["one", 0])
case("instance_ports_remove", A, None, ["one", 6006])
case("instance_ports_remove", A, "not_found", ["one", 6007])
case("instance_extend", A, None, ["one"], {"by": "1h", "dry_run": True})
case("instance_extend", A, None, ["one"], {"by": "1h"})
case("instance_extend", A, "validation", ["one"], {"by": "1h", "until": "2030-01-01T00:00:00Z"})
case("instance_start", A, "state", ["one"], {"for": "1h"})
case("instance_resize", A, "state", ["one"], {"gpu": "4090", "count": 2})
case("disk_remove", A, "disk_in_use", ["data"])
case("disk_detach", A, "state", ["data"])
node.say(one["lease"], b"hello \xff\n" + "世界\n".encode())
end = time.monotonic() + 5
while time.monotonic() < end and b"hello" not in d.call("GET", "/v1/instances/one/logs", token=A).raw:
    time.sleep(0.1)
case("instance_logs", A, None, ["one"])
text = d.call("GET", "/v1/instances/one/logs", token=A).raw.decode()
tap.ok("hello \ufffd" in text and "世界" in text, "output comes whole, what is no text is marked", text)
case("instance_logs", B, "not_found", ["one"])
time.sleep(1.5)
case("instance_stop", A, None, ["one"], query="?dry_run=true")
case("instance_stop", A, None, ["one"])
case("instance_stop", B, "not_found", ["one"])
stopped = wait("one", "stopped")
tap.ok(stopped["kept_until"] and not stopped["billing_gpu"] and "start" in stopped["actions"], "stopped, kept until", stopped)
case("disk_detach", A, None, ["data"])
case("disk_attach", A, None, ["data"], {"instance": "one"})
case("disk_attach", A, "not_found", ["data"], {"instance": "nothing"})
case("disk_grow", A, None, ["data"], {"size": "12GiB"})
case("disk_grow", A, "validation", ["data"], {"size": "1GiB"})
case("disk_list", A, None)
case("disk_list", A, "validation", query="?limit=1000")
case("disk_get", A, None, ["data"])
case("disk_get", B, "not_found", ["data"])
case("instance_resize", A, None, ["one"], {"gpu": "4090", "count": 2})
case("instance_start", A, None, ["one"], {"no_gpu": True, "for": "1h"})
wait("one", "running")
case("instance_release", A, None, ["one"], {"dry_run": True})
case("instance_release", B, "not_found", ["one"])
case("instance_release", A, None, ["one"])
wait("one", "released")
case("disk_remove", A, None, ["data"])
case("instance_stop", A, "state", [one["id"]], name="a released instance is not stopped")

# --- money -----------------------------------------------------------------------------------------
wallet = case("wallet_get", A, None)
case("wallet_get", None, "auth_required")
case("bill_get", A, None)
case("bill_get", A, "validation", query="?month=2026-13")
whole = case("bill_get", A, None, query="?by=day")
for by in ("day", "gpu", "user"):
    cut = d.must("GET", "/v1/bill?by=" + by, token=A)
    tap.equal(sum(round(float(g["amount"]["amount"]) * 10**6) for g in cut["groups"]),
              round(float(cut["total"]["amount"]) * 10**6), f"the bill by {by} adds up")
case("bill_get", A, "validation", query="?by=mood")
review = case("review_get", A, None)
tap.ok(len(review["past"]) == 3 and not review["steady"] and review["plan"] is None, "a new account is not steady", review)
case("review_get", A, "validation", query="?month=soon")
case("usage_export", A, None)

# --- the sizing learns from what was measured -----------------------------------------------------
question = {"model": "Qwen2.5-7B", "task": "lora"}
d.must("POST", "/v1/instances", {"name": "two", "gpu": "4090", "count": 2, "for": "1h"}, A)
wait("two", "running")
time.sleep(2)
case("size_compare", A, "not_found", body={"instance": "no-such", "size": question})
case("size_compare", A, "validation", body={"instance": "two", "size": question}, name="10 MiB are no run of a 7B model")
before = case("size", A, None, body=question)
node.gpu_memory_mib = 2 * (before["total"]["expected"] * 105 // 100 // (1 << 20))
end, learned = time.monotonic() + 15, None
while time.monotonic() < end and not learned:
    time.sleep(0.5)
    r = d.call("POST", "/v1/size/compare", {"instance": "two", "size": question}, A)
    learned = r.json if r.status == 200 else None
learned = case("size_compare", A, None, body={"instance": "two", "size": question})
tap.ok(learned["runs"] == 1 and learned["inside"] and abs(learned["measured"] / before["total"]["expected"] - 1.05) < 0.01,
       "the measured peak of a card is held against the estimate", learned)
runs = case("size_runs", A, None)["runs"]
tap.ok(len(runs) == 1 and runs[0]["model_family"] == "qwen2.5" and runs[0]["framework"] == "transformers", "one row an instance", runs)
after = case("size", A, None, body=question)
tap.ok(after["total"] == learned["learned"] and after["total"] != before["total"] and after["total"]["high"] >= learned["measured"],
       "the printed interval is the learned one", (before["total"], after["total"]))
other = case("size", A, None, body=question | {"framework": "axolotl"})
tap.ok(other["family_rows"] == before["family_rows"], "another framework learns nothing from it", other["family_rows"])
tap.ok(case("size_runs", B, None)["runs"] == [], "another project sees none of it")
case("size_runs", None, "auth_required")
node.gpu_memory_mib = 10
d.must("POST", "/v1/instances/two/release", {}, A)
wait("two", "released")
case("usage_export", A, "validation", query="?month=yesterday")
case("budget_create", A, None, ["vision"], {"cap": "50", "label": "team=vision", "on_cap": "notify"})
case("budget_create", A, "exists", ["vision"], {"cap": "50"})
case("budget_create", A, "not_found", ["hers"], {"cap": "50", "user": "nobody"})
case("budget_create", A, "validation", ["both"], {"cap": "5", "user": "nobody", "label": "a=b"})
case("budget_set", A, None, ["vision"], {"on_cap": "stop"})
case("budget_set", A, "validation", ["vision"], {"on_cap": "never"})
case("budget_remove", A, None, ["vision"])
case("budget_set", A, None, ["lab"], {"cap": "200", "period": "month"})
case("budget_set", C, "forbidden", ["lab"], {"cap": "1"}, headers=AS_VIEWER)
case("budget_list", A, None)
case("budget_list", None, "auth_required")
case("budget_remove", A, None, ["lab"])
case("budget_remove", A, "not_found", ["lab"])

# --- what happened ---------------------------------------------------------------------------------
case("event_list", A, None)
case("event_list", A, "not_found", query="?instance=nothing")
events = [l[7:] for l in d.call("GET", "/v1/events", token=A).raw.decode().splitlines() if l.startswith("event: ")]
tap.ok("instance.running" in events and "instance.stopped" in events, "the feed tells the story", events)
ids = [int(l[4:]) for l in d.call("GET", "/v1/events", token=A).raw.decode().splitlines() if l.startswith("id: ")]
rest = d.call("GET", "/v1/events", token=A, headers={"Last-Event-ID": str(ids[2])}).raw.decode()
tap.equal([int(l[4:]) for l in rest.splitlines() if l.startswith("id: ")], ids[3:], "and resumes where it was left")
tap.ok(all(i not in ids for i in [int(l[4:]) for l in d.call("GET", "/v1/events", token=B).raw.decode().splitlines()
                                  if l.startswith("id: ")]), "others' events are theirs")
case("audit_list", A, None)
case("audit_list", C, "forbidden", headers=AS_VIEWER)

# --- upkeep ----------------------------------------------------------------------------------------
case("supplier_add", OP, "exists", ["lab-b"], {"user": "carol"})
case("supplier_add", OP, "not_found", ["lab-c"], {"user": "nobody"})
case("supplier_add", OP, "validation", ["lab-c"], {"user": "carol", "share": "120"})
case("supplier_set", OP, None, ["lab-b"], {"share": "82", "threshold": "100"})
case("supplier_set", OP, "not_found", ["none"], {"share": "82"})
case("supplier_node_add", OP, "not_found", ["lab-b", "none"])
case("supplier_list", OP, None)
case("supplier_list", A, "forbidden")
case("admin_supplier_statement", OP, None, ["lab-b"])
case("admin_supplier_statement", OP, "validation", ["lab-b"], query="?month=soon")
case("supplier_statement", B, None)
case("supplier_statement", A, "forbidden")
case("supplier_set", OP, None, ["lab-b"], {"threshold": "0"})
paid = case("payout_run", OP, None, body={})["items"]
tap.ok(len(paid) == 1 and float(paid[0]["amount"]["amount"]) > 0, "what the node earned is paid out", paid)
case("payout_paid", OP, None, [paid[0]["id"]], {"reference": "20260401-17"})
case("payout_paid", OP, "validation", [paid[0]["id"]], {"reference": "20260401-18"})
case("payout_run", OP, "not_found", body={"supplier": "none"})
case("payout_list", OP, None)
case("payout_list", A, "forbidden")
case("payout_paid", OP, "not_found", ["pay_none"], {"reference": "1"})
case("payout_paid", A, "forbidden", ["pay_none"], {"reference": "1"})
case("supplier_node_remove", OP, None, ["lab-b", "n1"])
case("supplier_node_remove", OP, "not_found", ["lab-b", "n1"])
report = case("check_run", OP, None)
tap.ok(report["pass"], "every invariant holds", json.dumps(report, indent=1))
case("check_run", A, "forbidden")
case("backup", OP, None, body={"name": "a.db"})
case("backup", OP, "validation", body={"name": "../a.db"})
case("node_remove", OP, None, ["n2"])
case("node_remove", OP, "not_found", ["n2"])
case("key_remove", A, None, ["laptop"])
case("key_remove", A, "not_found", ["laptop"])

# --- the whole -------------------------------------------------------------------------------------
r = d.call("GET", "/metrics").raw.decode()
tap.ok('DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-fake-0",modelName="RTX 4090",Hostname="n1"' in r,
       "cards are under the names of the DCGM exporter", r[:2000])
node.stop()
node_sync = d.call("POST", "/v1/node/sync", node.report(0), made["token"], key=False)
tap.equal(schema.answer_faults("node_sync", node_sync), [], "a node is answered in the documented shape")
seen["node_sync"].add("good")
lacking = {op: {"good", "refused"} - seen.get(op, set()) for op in schema.ops}
lacking = {op: sorted(v) for op, v in lacking.items() if v}
tap.equal(lacking, {}, "each operation has a good and a refused case")
tap.equal(d.stop(), 0, "clean stop")
tap.done()
