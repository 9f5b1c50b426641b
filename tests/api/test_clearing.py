#!/usr/bin/env python3
"""Payment files against clearing and wallets (I28), one to one or in suspense with an age; topping up in another
currency as linked transfers with the spread as its own line."""
import decimal, hashlib, hmac, time, uuid
from rig import Daemon, Tap

tap = Tap()
d = Daemon(test_channel="yes").people()
A, B, OP = d.alice, d.bob, d.operator
ch = d.must("POST", "/v1/admin/channels", {"name": "pay1"}, OP)
KEY = bytes.fromhex(ch["key"])
NOW = int(time.time())


def money(o):
    return decimal.Decimal(o["amount"])


def order(amount, who=None, **more):
    return d.must("POST", "/v1/wallet/orders", {"amount": amount, "channel": "pay1", **more}, who or A)["id"]


def pay(o, amount, currency="CNY", reference=None):
    n = {"order": o, "amount": amount, "currency": currency, "reference": reference or "r-" + o, "time": int(time.time()),
         "nonce": uuid.uuid4().hex}
    text = "\n".join(["suanli-notice-1", "pay1", *(str(x) for x in n.values())])
    n["signature"] = hmac.new(KEY, text.encode(), hashlib.sha256).hexdigest()
    return d.call("POST", "/v1/channels/pay1/notices", n, key=False)


def bring(*lines, file="day.csv"):
    return d.call("POST", "/v1/admin/channels/pay1/lines", {"file": file, "line": list(lines)}, OP)


def counts(r):
    return [r.json[k] for k in ("matched", "suspense", "known", "conflicts")]


def line(o, amount, kind="payment", currency="CNY", reference=None, at=NOW):
    return f"{reference or 'r-' + o},{o},{kind},{amount},{currency},{at}"


def report():
    r = d.must("GET", "/v1/admin/clearing/report", token=OP)
    return {(c["channel"], c["waits"]["currency"]): c for c in r["channels"]}, r


def suspense():
    return {i["reference"]: i for i in d.must("GET", "/v1/admin/clearing", token=OP)["items"]}


def check(name):
    got = d.must("POST", "/v1/admin/check", {}, OP)
    tap.ok(got["pass"], name, [r for r in got["rows"] if r["pass"] is False])


# --- one to one ------------------------------------------------------------------------------------
first, second = order("10.00"), order("20.00")
for o, a in ((first, "10.00"), (second, "20.00")):
    tap.equal(pay(o, a).status, 200, f"{a} is credited")
sums, whole = report()
tap.equal((money(sums["pay1", "CNY"]["waits"]), len(whole["waiting"]), whole["clean"]), (30, 2, False),
          "what no file has shown waits in clearing")
mine = d.must("GET", "/v1/wallet/reconcile", token=A)
tap.equal(([money(x["credited"]) for x in mine["days"]], len(mine["waiting"]), mine["clean"]), ([30], 2, False),
          "the renter sees his own")
tap.equal(d.must("GET", "/v1/wallet/reconcile", token=B)["days"], [], "and nobody else's")
tap.equal(counts(bring(line(first, "10.00"), line(second, "20.00"))), [2, 0, 0, 0], "a file that says the same matches")
tap.equal(counts(bring(line(first, "10.00"), line(second, "20.00"))), [0, 0, 2, 0], "again it changes nothing")
tap.equal(counts(bring(line(first, "11.00"))), [0, 0, 0, 1], "other content under a known reference is told, not taken")
sums, whole = report()
tap.equal((money(sums["pay1", "CNY"]["waits"]), whole["clean"]), (0, True), "clearing is empty, the report clean")
mine = d.must("GET", "/v1/wallet/reconcile", token=A)
tap.equal(([money(x["shown"]) for x in mine["days"]], mine["clean"]), ([30], True), "and his page too")
play = d.must("POST", "/v1/wallet/orders", {"amount": "50.00", "channel": "test"}, A)["id"]
d.must("POST", f"/v1/wallet/orders/{play}/pay", {}, A)
sums, whole = report()
mine = d.must("GET", "/v1/wallet/reconcile", token=A)
tap.equal((("test", "CNY") in sums, whole["clean"], mine["clean"], [money(x["credited"]) for x in mine["days"]]),
          (False, True, True, [30]), "play money has no files: it neither waits nor counts")
check("the books hold (I28)")

# --- what does not fit -----------------------------------------------------------------------------
late, other, twice = order("5.00"), order("6.00"), order("7.00")
pay(other, "6.00"), pay(twice, "7.00")
got = bring(line("ord_nobody", "1.00"), line(late, "5.00", at=NOW - 86400), line(other, "6.50"),
            line(twice, "7.00", reference="r-second"), line(first, "3.00", kind="refund"))
tap.equal(counts(got), [0, 5, 0, 0], "what nobody can name is kept apart")
reasons = {i["order"]: i["reason"] for i in suspense().values()}
tap.equal(reasons, {"ord_nobody": "no_order", late: "not_credited", other: "amount", twice: "reference",
                    first: "not_refunded"}, "each with its reason")
tap.ok(suspense()["r-" + late]["age_s"] >= 86400, "and an age", suspense())
check("the books hold with money in suspense")
tap.equal(pay(late, "5.00").status, 200, "a late notice comes")
d.must("POST", "/v1/admin/channels/pay1/lines", {"file": "none.csv", "line": []}, OP)
tap.ok("r-" + late not in suspense(), "and its line is matched", suspense())
d.must("POST", "/v1/admin/refunds", {"project": "alice", "amount": "3.00", "order": first}, OP)
d.must("POST", "/v1/admin/channels/pay1/lines", {"file": "none.csv", "line": []}, OP)
tap.ok(all(i["order"] != first for i in suspense().values()), "a refund that the books sent matches too", suspense())

lost = order("9.00")
bring(line(lost, "9.00"))
item = suspense()["r-" + lost]
tap.equal(d.call("POST", f"/v1/admin/clearing/{suspense()['r-' + other]['id']}/resolve", {"as": "credit"}, OP).code,
          "validation", "another amount is never credited")
cash = money(d.must("GET", "/v1/wallet", token=A)["cash"])
done = d.must("POST", f"/v1/admin/clearing/{item['id']}/resolve", {"as": "credit"}, OP)
tap.equal((done["state"], money(d.must("GET", "/v1/wallet", token=A)["cash"]) - cash), ("matched", 9),
          "the operator credits what was paid and never told")
tap.equal(d.call("POST", f"/v1/admin/clearing/{item['id']}/resolve", {"as": "credit"}, OP).code, "validation", "once")
for i in list(suspense().values()):
    d.must("POST", f"/v1/admin/clearing/{i['id']}/resolve", {"as": "returned"}, OP)
tap.equal(suspense(), {}, "what is sent back is not in suspense any more")
check("the books hold after it")
for bad in ("nonsense", line(first, "1.001"), "a,b,payment,1.00,CNY,then"):
    r = bring(line("ord_x", "1.00", reference="never"), bad)
    tap.equal((r.code, "never" in suspense()), ("validation", False), f"a bad line refuses its part whole: {bad[:20]}")
tap.equal(d.call("POST", "/v1/admin/channels/none/lines", {"file": "f", "line": []}, OP).code, "not_found", "no such channel")
tap.equal(d.call("GET", "/v1/admin/clearing", token=A).code, "forbidden", "suspense is the operator's")

# --- another currency ------------------------------------------------------------------------------
tap.equal(d.call("POST", "/v1/wallet/orders", {"amount": "250", "channel": "pay1", "currency": "USD"}, A).code,
          "validation", "without a rate there is no order in dollars")
d.must("PUT", "/v1/admin/fx/USD/CNY", {"rate": "7.1234", "spread": "0.003"}, OP, key=False)
tap.equal(d.must("GET", "/v1/admin/fx", token=OP)["items"][0]["rate"], "71234/10000", "a rate is a pair of integers")
o = d.must("POST", "/v1/wallet/orders", {"amount": "250.00", "channel": "pay1", "currency": "USD"}, A)
x = o["exchange"]
tap.equal((x["fee"]["amount"], x["converted"]["amount"], x["credited"]["amount"]), ("0.75", "249.25", "1775.50745"),
          "the order says rate, spread and what it comes to (B89)")
d.must("PUT", "/v1/admin/fx/USD/CNY", {"rate": "6", "spread": "0"}, OP, key=False)
cash = money(d.must("GET", "/v1/wallet", token=A)["cash"])
tap.equal(pay(o["id"], "250.00", "CNY").code, "notice_mismatch", "yuan do not pay an order in dollars")
tap.equal(pay(o["id"], "250.00", "USD").status, 200, "dollars do")
tap.equal(money(d.must("GET", "/v1/wallet", token=A)["cash"]) - cash, decimal.Decimal("1775.50745"),
          "at the rate of the order, not of the day")
sums, _ = report()
tap.equal(money(sums["pay1", "USD"]["waits"]), 250, "the dollars wait in clearing")
tap.equal(counts(bring(line(o["id"], "250.00", currency="USD"))), [1, 0, 0, 0], "and are shown by the file")
for bad in ({"rate": "0"}, {"rate": "x"}, {"rate": "7", "spread": "1"}, {"rate": "1/0"}):
    tap.equal(d.call("PUT", "/v1/admin/fx/USD/CNY", bad, OP, key=False).code, "validation", f"no rate: {bad}")
tap.equal(d.call("PUT", "/v1/admin/fx/USD/USD", {"rate": "1"}, OP, key=False).code, "validation", "nor to itself")
tap.equal(d.call("GET", "/v1/admin/fx", token=A).code, "forbidden", "rates are the operator's")
check("the books hold with an exchange (I8)")
tap.equal(d.stop(), 0, "clean stop")
tap.done()
