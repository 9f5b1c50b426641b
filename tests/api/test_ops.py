#!/usr/bin/env python3
"""Every row of operations.def: one good and one refused case as data, each answer held against the
served OpenAPI document. A node that keeps the protocol (fake_node) makes instances run."""
import csv, decimal, hashlib, hmac, json, os, random, re, shutil, sqlite3, subprocess, time
from rig import SUANLID, Daemon, Schema, Tap
from fake_node import FakeNode

tap = Tap()
d = Daemon(price_second_pct=500, test_channel="yes").people()
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


def focus_checked_at_home(month, bill, number):
    """B80: from the text of the CSV alone, the rows of a number add up to what it asks for."""
    path, folder = d.path("focus.csv"), d.path("renter")
    os.makedirs(folder, exist_ok=True)
    away = {"HOME": folder, "PATH": os.environ["PATH"], "SUANLI_URL": f"http://127.0.0.1:{d.port}", "SUANLI_TOKEN": A}
    r = subprocess.run([os.path.join(os.path.dirname(os.path.dirname(SUANLID)), "cli", "suanli"), "--lang=en", "usage", "export",
                        month, "--focus", "--output", path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=away)
    if not tap.ok(r.returncode == 0, "usage export --focus writes a closed month", r.stdout):
        return
    with open(path, newline="", encoding="utf-8") as f:
        rows = list(csv.DictReader(f))
    sums = {}
    for row in rows:
        sums[row["InvoiceId"]] = sums.get(row["InvoiceId"], 0) + decimal.Decimal(row["BilledCost"])
    tap.equal(sums, {number: closing.minor([bill], "payable")}, "SUM(BilledCost) GROUP BY InvoiceId is what the month asks for")
    with open(path + ".meta.json", encoding="utf-8") as f:
        tap.equal(json.load(f)["Columns"], len(rows[0]), "the metadata counts the columns")


def bill_checked_at_home():
    """Exported, counted again offline by the product and by another program; each flipped byte is found."""
    path, here = d.path("bill.jsonl"), os.path.dirname(os.path.abspath(__file__))
    verify = [os.path.join(os.path.dirname(os.path.dirname(SUANLID)), "cli", "suanli"), "--lang=en", "bill", "verify"]
    away = {"HOME": "/nonexistent", "PATH": os.environ["PATH"]}

    def run(*command):
        return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=away)
    text = d.call("GET", "/v1/bill/export", token=A).raw
    text = text if isinstance(text, bytes) else text.encode()
    open(path, "wb").write(text)
    if os.environ.get("SUANLI_KEEP_BILL"):  # how tests/golden/bill.jsonl is made anew
        shutil.copy(path, os.environ["SUANLI_KEEP_BILL"])
    r = run(*verify, path)
    tap.ok(r.returncode == 0 and r.stdout.startswith("OK: "), "bill verify: OK, offline and without a login", r.stdout)
    r = run("python3", os.path.join(here, "..", "e2e", "recompute_file.py"), path)
    tap.ok(r.returncode == 0, "a bill file is counted again by an independent program", r.stdout)
    wrong, dice = [], random.Random(7)
    for _ in range(40):
        at = dice.randrange(len(text))
        other = bytes([(text[at] + dice.randrange(1, 256)) % 256])
        open(path, "wb").write(text[:at] + other + text[at + 1:])
        r = run(*verify, path)
        line = text[:at].count(b"\n") + 1
        if r.returncode != 1 or not any(f"Line {n}:" in r.stdout for n in (line, line + 1)):
            wrong.append((at, line, r.returncode, r.stdout[:200]))
    tap.ok(not wrong, "40 flipped bytes: each is found and its line named", wrong)
    open(path, "wb").write(text[:-1])
    tap.ok(run(*verify, path).returncode == 1, "a file without its last byte is not whole")
    open(path, "wb").write(text)
    tap.ok(run(*verify, path, "--head", "0" * 64).returncode == 0, "the head before all rows is in the chain")
    tap.ok(run(*verify, path, "--head", "1" * 64).returncode == 1, "a head that is not in the chain is missed")


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
for sku, price in (("package.10.month.gpu.RTX 4090", "15"), ("package.2.day.gpu", "2"), ("package.500.year.gpu", "5000")):
    case("price_set", OP, None, body={"sku": sku, "price": price})
case("price_set", OP, "validation", body={"sku": "package.10.hour.gpu", "price": "1"})
case("price_set", OP, "validation", body={"sku": "package.10.day.gpu", "price": "1", "refund": "pro_rata"})
case("price_set", OP, "validation", body={"sku": "package.10.day.gpu", "price": "1", "tier": ["2:1"]})
case("price_set", OP, None, body={"sku": "spot.gpu.RTX 4090", "price": "0.66"})
case("price_set", OP, "validation", body={"sku": "spot.gpu.RTX 4090", "price": "1", "day_cap": "5"})
case("price_list", OP, None)
case("price_list", A, "forbidden")
case("topup", OP, None, body={"project": "alice", "amount": "1000", "note": "welcome"})
case("topup", OP, "not_found", body={"project": "nowhere", "amount": "100"})
case("topup", OP, "validation", body={"project": "alice", "amount": "1", "expires": "2999-01-01T00:00:00Z"})
case("credit_set", OP, None, ["alice"], {"limit": "0"})
case("credit_set", OP, "not_found", ["nowhere"], {"limit": "5"})
case("channel_add", OP, None, body={"name": "pay1", "kind": "ed25519", "public_key": "ab" * 32})
case("channel_add", OP, "validation", body={"name": "Pay 1"})
case("channel_list", OP, None)
case("channel_list", A, "forbidden")
bought = case("order_create", A, None, body={"amount": "3.50", "channel": "test"})["id"]
case("order_create", A, "not_found", body={"amount": "3.50", "channel": "none"})
case("order_list", A, None)
case("order_list", A, "cursor", query="?cursor=AAAA")
case("order_pay_test", A, None, [bought])
case("order_pay_test", B, "not_found", [bought])
case("channel_notice", None, "notice_signature", ["pay1"],
     {"order": bought, "amount": "3.50", "currency": "CNY", "reference": "r", "time": 0, "nonce": "n", "signature": "00"})
paying = case("channel_add", OP, None, body={"name": "pay2"})
sale = case("order_create", A, None, body={"amount": "4.00", "channel": "pay2"})["id"]
note = {"order": sale, "amount": "4.00", "currency": "CNY", "reference": "r1", "time": int(time.time()), "nonce": "n1"}
lines = "\n".join(["suanli-notice-1", "pay2", *(str(x) for x in note.values())]).encode()
note["signature"] = hmac.new(bytes.fromhex(paying["key"]), lines, hashlib.sha256).hexdigest()
case("channel_notice", None, None, ["pay2"], note)
case("wallet_reconcile", A, None)
case("wallet_reconcile", None, "auth_required")
case("clearing_import", OP, None, ["pay2"], {"file": "day.csv", "line": [f"r9,{sale},payment,4.00,CNY,1772323200"]})
case("clearing_import", OP, "validation", ["pay2"], {"file": "day.csv", "line": ["nonsense"]})
suspended = case("clearing_list", OP, None)["items"]
case("clearing_list", A, "forbidden")
case("clearing_resolve", OP, "validation", [suspended[0]["id"]], {"as": "credit"})
case("clearing_resolve", OP, None, [suspended[0]["id"]], {"as": "returned"})
case("clearing_report", OP, None)
case("clearing_report", A, "forbidden")
case("fx_set", OP, None, ["USD", "CNY"], {"rate": "7.1234", "spread": "0.003"})
case("fx_set", OP, "validation", ["USD", "USD"], {"rate": "7.1234"})
case("fx_list", OP, None)
case("fx_list", A, "forbidden")
case("channel_remove", OP, None, ["pay2"])
case("channel_remove", OP, "not_found", ["pay9"])
case("refund_create", OP, None, body={"project": "alice", "amount": "1.00"}, query="?dry_run=true")
case("refund_create", OP, None, body={"project": "alice", "amount": "7.50"})
case("refund_create", OP, "refund_limit", body={"project": "alice", "amount": "100000"})
batch = case("voucher_create", OP, None, body={"amount": "0.01", "count": 2, "scope": "traffic"})
case("voucher_create", OP, "validation", body={"amount": "1", "scope": "everything"})
case("voucher_batch_list", OP, None)
case("voucher_batch_list", A, "forbidden")
case("voucher_redeem", A, None, body={"code": batch["codes"][0]})
case("voucher_redeem", A, "voucher_invalid", body={"code": batch["codes"][0]})
case("voucher_list", A, None)
case("voucher_list", None, "auth_required")
case("voucher_revoke", OP, None, [batch["id"]])
case("voucher_revoke", OP, "not_found", ["vba_none"])
case("wallet_statement", A, None)
case("wallet_statement", A, "validation", query="?month=March")
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
case("queue_list", OP, None)
case("queue_list", A, "forbidden")
case("queue_set", OP, None, ["alice"], {"share": 2, "priority": 1})
case("queue_set", OP, "not_found", ["nobody"], {"share": 2})
case("queue_set", OP, "validation", ["alice"], {"priority": 9})
case("queue_set", OP, None, ["alice"], {"share": 1, "priority": 0})
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
for _ in range(150):  # a second at least is billed, so that there is something to share later
    if float(d.must("GET", "/v1/bill", token=A)["total"]["amount"]) > 0.03:
        break
    time.sleep(0.1)
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
tap.equal([(o["gpu"], o["hours"]) for o in plans["package_offers"]], [("RTX 4090", 10), (None, 2), (None, 500)], "packages on offer")
case("package_buy", A, "validation", body={"hours": 0, "plan": "month"})
case("package_buy", A, "validation", body={"hours": 10, "plan": "hour"})
case("package_buy", A, "price_unknown", body={"hours": 11, "plan": "month", "gpu": "4090"})
case("package_buy", A, "not_found", body={"hours": 10, "plan": "month", "gpu": "9999"})
case("package_buy", A, "balance", body={"hours": 500, "plan": "year"})
case("package_buy", A, "offer_changed", body={"hours": 2, "plan": "day", "price": "1.99"})
case("package_buy", C, "forbidden", body={"hours": 2, "plan": "day"}, headers=AS_VIEWER)
case("package_buy", A, None, body={"hours": 2, "plan": "day", "dry_run": True})
tap.equal(d.must("GET", "/v1/plans", token=A)["packages"], [], "dry_run bought no package")
hours = case("package_buy", A, None, body={"hours": 10, "plan": "month", "gpu": "4090", "price": "15"})
tap.ok(hours["state"] == "open" and hours["bought_s"] == 36000 and hours["reserved_s"] > 0
       and hours["used_s"] + hours["reserved_s"] + hours["left_s"] == 36000, "what runs uses it at once", hours)
tap.equal(d.must("GET", "/v1/wallet", token=A)["package_lapses_at"], hours["lapses_at"], "the wallet says when it lapses")
case("revenue_get", OP, None)
case("revenue_get", OP, "validation", query="?month=2026-13")
case("revenue_get", A, "forbidden")
case("instance_create", A, "validation", body={"gpu": "4090", "plan": "day", "for": "1h"})
spot = case("quote_create", A, None, body={"gpu": "4090", "for": "1h", "spot": True})
tap.equal((spot["bid"]["amount"], spot["lines"][0]["amount"]["amount"]), (card["price_hour"]["amount"], "0.66"), "spot: the tick, and the bid")
case("quote_create", A, "bid_low", body={"gpu": "4090", "for": "1h", "spot": True, "bid": "0.5"})
case("quote_create", A, "validation", body={"gpu": "4090", "for": "1h", "bid": "0.5"})
cheap = case("instance_create", A, None, body={"gpu": "4090", "for": "1h", "spot": True, "bid": "1", "dry_run": True})
tap.ok(cheap["plan"] == "spot" and float(cheap["price_hour"]["amount"]) < 0.7, "rented at the spot price", cheap)
case("instance_create", A, "bid_low", body={"gpu": "4090", "for": "1h", "spot": True, "bid": "0.5"})
case("instance_create", A, "validation", body={"gpu": "4090", "plan": "day", "spot": True})
case("price_set", OP, None, body={"sku": "exclusive.gpu.RTX 4090", "price": "0.5"})
alone = case("quote_create", A, None, body={"gpu": "4090", "for": "2h", "exclusive": True})
tap.equal([l["amount"]["amount"] for l in alone["lines"] if l["meter"] == "node"], ["1.00"], "a node alone is a line of its own")
case("quote_create", A, "validation", body={"cpu": 1, "for": "1h", "exclusive": True})
case("quote_create", A, "validation", body={"gpu": "4090", "for": "1h", "exclusive": True, "spot": True})
case("instance_create", A, "validation", body={"gpu": "4090", "for": "1h", "exclusive": True, "spot": True})
case("instance_create", A, "capacity_none", body={"gpu": "4090", "for": "1h", "exclusive": True})
tap.equal([(o["exclusive_hour"]["amount"], o["alone_now"]) for o in d.must("GET", "/v1/offers", token=A)["items"] if o["gpu"] == "RTX 4090"], [("0.50", False)], "what it costs, and that it cannot be had now")
taken = case("instance_create", A, None, body={"gpu": "4090", "for": "1h", "spot": True, "bid": "1", "name": "cheap", "queue": True})
tap.equal((spot["free_if_reclaimed_s"], taken["free_if_reclaimed_s"], taken["reclaimed_at"]), (3600, 3600, None), "the free time is printed")
if taken["lease"]:
    case("instance_reclaim", OP, None, [taken["id"]], {"reason": "a gang waits", "dry_run": True})
    back = case("instance_reclaim", OP, None, [taken["id"]], {"reason": "a gang waits"})
    tap.ok(back["state"] == "preempting" and back["reclaimed_at"] or back["reason"] == "reclaimed", "it was taken back", back)
case("instance_reclaim", OP, "not_spot", [one["id"]])
case("instance_reclaim", OP, "not_found", ["none"])
case("instance_reclaim", OP, "not_found", ["cheap"], {"project": "nowhere"})
case("instance_reclaim", A, "forbidden", [one["id"]])
case("instance_release", A, None, ["cheap"])
case("instance_reclaim", OP, None, [taken["id"]]) # it is so already
gone = case("instance_create", A, None, body={"gpu": "4090", "for": "1h", "spot": True, "bid": "1", "name": "gone", "queue": True})
case("instance_release", A, None, ["gone"])
case("instance_reclaim", OP, "state", [gone["id"]])
case("instance_create", A, "validation", body={"cpu": 1, "plan": "day"})
case("instance_create", A, "offer_changed", body={"gpu": "4090", "plan": "day", "price": "19.99"})
case("instance_create", A, None, body={"gpu": "4090", "plan": "day", "price": "20", "dry_run": True})
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
case("bill_export", A, None)
case("bill_export", A, "validation", query="?month=2026-13")
case("bill_export", A, "cursor", query="?after=0,-,1,-,0,0,0,0,0,0,0,0,ff,00")
case("bill_explain", A, None, [1])
case("bill_explain", A, "not_found", [999])
case("usage_focus", A, None)
case("usage_focus", A, "validation", query="?month=2026-13")
case("ledger_heads", None, None)
case("ledger_heads", None, "cursor", query="?cursor=mine")
bill_checked_at_home()

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
case("supplier_statement", A, "not_found")
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
scarce = case("scarcity_list", OP, None)["items"]
case("scarcity_list", A, "forbidden")
row = next((s for s in scarce if s["model"] == "RTX 4090"), None)
tap.ok(row and row["cards"] >= row["free"] and row["asked_pct"] == 100 and row["max"] == "4.00",
       "all cards asked for lately were of one model", scarce)
told = re.search(r'suanli_model_scarcity\{modelName="RTX 4090"\} (\S+)', r)
tap.ok(told and abs(float(told[1]) - float(row["scarcity"])) < 0.2 and float(told[1]) > 0,
       "/metrics tells the price that placement counts", (told and told[0], scarce))
tap.ok('DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-fake-0",modelName="RTX 4090",Hostname="n1"' in r,
       "cards are under the names of the DCGM exporter", r[:2000])
node.stop()
node_sync = d.call("POST", "/v1/node/sync", node.report(0), made["token"], key=False)
tap.equal(schema.answer_faults("node_sync", node_sync), [], "a node is answered in the documented shape")
seen["node_sync"].add("good")
# --- the end of a month: usage of two months ago is put into the store, then everything by the API ---
import closing
moved = case("project_zone_set", A, None, ["lab"], {"zone": "UTC"})
tap.ok(moved["zone"] == "UTC" and moved["since"], "the zone changes with the next month", moved)
case("project_zone_set", A, "validation", ["lab"], {"zone": "Mars/Base"})
case("invoice_profile_get", A, None)
case("invoice_profile_get", None, "auth_required")
case("invoice_profile_set", A, None, body={"name": "某某大学", "tax_id": "12100000400000000A", "country": "CN"})
case("invoice_profile_set", A, "validation", body={"country": "China"})
case("invoice_profile_set", C, "forbidden", body={"name": "x"}, headers=AS_VIEWER)
case("seller_set", OP, None, body={"name": "算力云", "tax_id": "91110000000000000X", "country": "CN"})
case("seller_set", A, "forbidden", body={"name": "x"})
case("seller_get", OP, None)
case("seller_get", A, "forbidden")
case("buyer_check", OP, None, ["alice"], {"result": "valid", "note": "looked up"})
case("buyer_check", OP, "validation", ["bob"], {"result": "valid"})
case("tax_set", OP, None, body={"country": "CN", "rate": "6%", "class": "it-service", "from": "2026-01-01T00:00:00Z"})
case("tax_set", OP, "exists", body={"country": "CN", "rate": "7%", "from": "2026-01-01T00:00:00Z"})
case("tax_set", OP, "validation", body={"country": "CN", "rate": "six"})
case("tax_list", OP, None)
case("tax_list", A, "forbidden")
d.stop()
month = closing.used(d.path("store.db"), "alice", [("gpu.RTX 4090", 1000007), ("gpu.RTX 4090", 3)])
d.start()
case("close_run", OP, "month_open", body={"month": "2999-01"})
case("invoice_request", A, "month_open", body={"month": "2999-01"})
dry = case("close_run", OP, None, body={"month": month, "project": "alice", "dry_run": True})
shut = case("close_run", OP, None, body={"month": month, "project": "alice"})
tap.equal([dict(r, state="") for r in dry["projects"]], [dict(r, state="") for r in shut["projects"]],
          "a dry run says what closing does")
row = [r for r in shut["projects"] if r["month"] == month][0]
tap.ok(row["lines"] == 2 and row["number"].startswith("B-CNY-"), "the month is closed", row)
again = [r for r in case("close_run", OP, None, body={"month": month})["projects"] if r["project"] == "alice"]
tap.ok(again[-1]["state"] == "was_closed" and again[-1]["number"] == row["number"], "closing again changes nothing", again)
bill = case("bill_get", A, None, query=f"?month={month}")
lines = closing.minor(bill["lines"], "printed")
tap.equal(lines, closing.minor([bill], "payable"), "the printed lines of the closed bill add up to what is payable")
micro = sum(closing.micro(l["amount"]) for l in bill["lines"])
tap.equal(micro - closing.micro(bill["residue"]), closing.micro(bill["payable"]), "charges - residue = payable")
tap.equal(closing.micro(bill["net"]) + closing.micro(bill["tax"]), closing.micro(bill["payable"]), "net + tax = gross")
focus_checked_at_home(month, bill, bill["number"])
for by in ("day", "gpu", "user", "project"):
    cut = d.must("GET", f"/v1/bill?month={month}&by={by}", token=A)
    tap.equal(sum(closing.micro(g["amount"]) for g in cut["groups"]
                  if by != "project" or g["name"] == "alice"), closing.micro(cut["payable"]),
              f"the closed bill by {by} adds up to what is payable")
    names = [g["name"] for g in cut["groups"]]
    tap.ok(by == "project" or "residue" in names and len(names) > 1, f"the residue is a part of its own by {by}", names)
case("invoice_request", A, "invoice_unpaid", body={"month": month})
d.must("POST", "/v1/admin/topups", {"project": "alice", "amount": "100000"}, OP)
invoice = case("invoice_request", A, None, body={"month": month})
tap.equal(case("invoice_request", A, None, body={"month": month})["number"], invoice["number"],
          "the same month has one invoice")
case("invoice_request", B, "invoice_empty", body={"month": month})
number = invoice["number"]
case("invoice_list", A, None)
case("invoice_list", None, "auth_required")
case("invoice_get", A, None, [number])
case("invoice_get", B, "not_found", [number])
case("invoice_export", A, None, [number])
xml = case("invoice_export", A, None, [number], query="?format=xml")
closing.check_xml(tap, xml["content"], invoice["document"])
case("invoice_export", A, "validation", [number], query="?format=pdf")
case("invoice_pdf", A, None, [number])
case("invoice_pdf", B, "not_found", [number])
pdf = d.call("GET", f"/v1/invoices/{number}/pdf", token=A)
closing.check_pdf(tap, pdf.raw, invoice["document"])
case("invoice_number", OP, None, [number], {"gateway_number": "24312000000012345678"})
case("invoice_number", OP, "exists", [number], {"gateway_number": "24312000000012345679"})
case("invoice_credit", OP, "validation", [number], {"reason": "because"})
sales = d.must("GET", "/v1/admin/revenue", token=OP)
for part in ("sold", "accounts"):
    tap.equal(sum(closing.micro(x["amount"]) for x in sales[part]), sum(closing.micro(x["amount"]) for x in sales["totals"]),
              f"revenue by {part} adds up")
tap.ok({"on-demand", "disk", "tax"} <= {x["kind"] for x in sales["sold"]}, "each kind that was sold has its row", sales["sold"])
store = sqlite3.connect(f"file:{d.path('store.db')}?mode=ro", uri=True)
held = dict(store.execute("SELECT id, cr_posted - dr_posted FROM account WHERE id LIKE 'revenue.%' OR id LIKE 'breakage.%'"))
store.close()
tap.equal({x["account"]: closing.micro(x["amount"]) for x in sales["accounts"]}, {k: v for k, v in held.items() if v},
          "and all of it is the balance of the revenue accounts")
before = case("wallet_get", A, None)
part = case("invoice_credit", OP, None, [number], {"reason": "allowance", "amount": "1.00"})
after = case("wallet_get", A, None)
tap.equal(closing.micro(after["cash"]) - closing.micro(before["cash"]), 1000000, "an allowance goes back to the wallet")
tap.equal(closing.micro(part["payable"]), -1000000, "a credit note is below zero")
case("invoice_credit", OP, "validation", [number], {"reason": "mistake"})
report = case("check_run", OP, None)
tap.ok(report["pass"], "every invariant holds after close, invoice and credit note",
       json.dumps([r for r in report["rows"] if r["pass"] is False], indent=1))
lacking = {op: {"good", "refused"} - seen.get(op, set()) for op in schema.ops}
lacking = {op: sorted(v) for op, v in lacking.items() if v}
tap.equal(lacking, {}, "each operation has a good and a refused case")
tap.equal(d.stop(), 0, "clean stop")
tap.done()
