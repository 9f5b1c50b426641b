#!/usr/bin/env python3
"""Money in and out by the API: vouchers, gifts, top-up orders and their signed notices, refunds, the
credit line, the statement. P13: a notice repeated, reordered, replayed or changed has one effect (I28)."""
import concurrent.futures, decimal, hashlib, hmac, random, signal, subprocess, time, uuid
from rig import Daemon, Tap

tap = Tap()
d = Daemon(test_channel="yes").people()
A, B, OP = d.alice, d.bob, d.operator


def wallet(who=None):
    w = d.must("GET", "/v1/wallet", token=who or A)
    return {k: decimal.Decimal(v["amount"]) for k, v in w.items() if isinstance(v, dict)}


def check(name):
    got = d.must("POST", "/v1/admin/check", {}, OP)
    tap.ok(got["pass"], name, [r for r in got["rows"] if r["pass"] is False])


# --- the test channel ------------------------------------------------------------------------------
o = d.must("POST", "/v1/wallet/orders", {"amount": "50.00"}, A)
tap.ok(o["test"] and o["channel"] == "test" and o["state"] == "open", "a top-up without channels is the test channel's", o)
tap.ok(o["id"] in o["pay"], "and says how to pay it", o)
tap.equal(wallet()["cash"], 0, "an order is no money")
tap.equal(d.call("POST", f"/v1/wallet/orders/{o['id']}/pay", {}, B).code, "not_found", "nobody else pays it")
paid = d.must("POST", f"/v1/wallet/orders/{o['id']}/pay", {}, A)
tap.ok(paid["state"] == "paid" and paid["test"], "it is paid", paid)
again = d.must("POST", f"/v1/wallet/orders/{o['id']}/pay", {}, A)
tap.equal((again["state"], wallet()["cash"]), ("paid", 50), "once")
tap.equal(d.call("POST", "/v1/wallet/orders", {"amount": "0.005"}, A).code, "validation", "no parts of a cent are ordered")
tap.equal(d.call("POST", "/v1/wallet/orders", {"amount": "0"}, A).code, "validation", "nor nothing")

# --- signed notices --------------------------------------------------------------------------------
ch = d.must("POST", "/v1/admin/channels", {"name": "pay1", "pay": "https://pay.example/{order}"}, OP)
KEY = bytes.fromhex(ch["key"])
tap.equal(len(KEY), 32, "a channel's key is shown once")
tap.ok(all("key" not in c for c in d.must("GET", "/v1/admin/channels", token=OP)["items"]), "and never again")
tap.equal(d.call("POST", "/v1/admin/channels", {"name": "pay1"}, OP).code, "exists", "a name is taken once")
tap.equal(d.call("POST", "/v1/admin/channels", {"name": "test"}, OP).code, "validation", "the test channel's name is its own")


def notice(order, amount, sign=None, key=KEY, channel="pay1", **more):
    n = {"order": order, "amount": amount, "currency": "CNY", "reference": "r-" + order, "time": int(time.time()),
         "nonce": uuid.uuid4().hex}
    n.update(more)
    text = "\n".join(["suanli-notice-1", channel, n["order"], n["amount"], n["currency"], n["reference"],
                      str(n["time"]), n["nonce"]])
    n["signature"] = (sign or (lambda t: hmac.new(key, t, hashlib.sha256).hexdigest()))(text.encode())
    return n


def send(n, channel="pay1"):
    return d.call("POST", f"/v1/channels/{channel}/notices", n, key=False)


def order(amount="10.00", who=None):
    return d.must("POST", "/v1/wallet/orders", {"amount": amount, "channel": "pay1"}, who or A)["id"]


before = wallet()["cash"]
first = order()
n = notice(first, "10.00")
with concurrent.futures.ThreadPoolExecutor(32) as pool:
    got = list(pool.map(lambda _: send(n), range(100)))
tap.equal({r.status for r in got}, {200}, "a notice replayed 100 times in parallel is answered 100 times")
tap.equal(len({r.raw for r in got}), 1, "the same")
tap.equal(wallet()["cash"] - before, 10, "and credits once")
with concurrent.futures.ThreadPoolExecutor(16) as pool:
    got = list(pool.map(lambda _: send(notice(first, "10.00")), range(50)))
tap.equal(({r.status for r in got}, wallet()["cash"] - before), ({200}, 10), "fresh nonces make it no other payment")

second = order()
wrong = dict(notice(second, "10.00"), amount="11.00")
tap.equal(send(wrong).code, "notice_signature", "an amount changed on the way is not signed")
tap.equal(send(notice(second, "11.00")).code, "notice_mismatch", "another amount is refused")
tap.equal(send(notice(second, "10.00", currency="USD")).code, "notice_mismatch", "another currency too")
tap.equal(send(notice(second, "10.00", reference="r-" + first)).code, "notice_mismatch", "one payment pays one order")
tap.equal(send(notice(second, "10.00", time=int(time.time()) - 400)).code, "notice_stale", "an old notice is refused")
tap.equal(send(notice(second, "10.00", time=int(time.time()) + 400)).code, "notice_stale", "one of the future too")
tap.equal(send(notice(second, "10.00", key=b"0" * 32)).code, "notice_signature", "another key signs nothing")
tap.equal(send(notice(second, "10.00"), "nobody").code, "notice_signature", "nor another channel")
tap.equal(send(notice(o["id"], "50.00")).code, "not_found", "a channel pays its own orders only")
tap.equal(send(notice(second, "10.00", nonce=n["nonce"])).code, "notice_replayed", "a nonce has one content")
tap.equal(wallet()["cash"] - before, 10, "none of these moved money")
seen = {(x["actor"], x["object"], x["result"]) for x in d.must("GET", "/v1/audit?limit=100", token=OP)["items"]
        if x["action"] == "channel_notice"}
want = {("channel pay1", second, r) for r in ("notice_signature", "notice_mismatch", "notice_stale", "notice_replayed")}
want |= {("channel pay1", o["id"], "not_found"), ("channel nobody", second, "notice_signature")}
tap.ok(want <= seen, "the operator's audit log shows each refused notice: channel, order, reason", want - seen)
tap.equal(send(notice(second, "10")).status, 200, "the right one does: 10 is 10.00")
tap.equal(send(notice(second, "10.00", reference="r-other")).code, "notice_mismatch", "a second payment of it is told apart")
tap.equal(wallet()["cash"] - before, 20, "and not credited")
check("the books hold after it (I28)")

# reordered, repeated, missing, over a crash
orders = [order(f"{i}.00") for i in range(1, 9)]
notices = [notice(x, f"{i}.00") for i, x in enumerate(orders, 1)] * 3
random.Random(5).shuffle(notices)
base = wallet()["cash"]
for i, x in enumerate(notices):
    if i == len(notices) // 2:
        d.stop(signal.SIGKILL)
        d.start()
    send(x)
tap.equal(wallet()["cash"] - base, 36, "repeated in any order, over a crash: each once")
missing = order("99.00")
tap.equal([x["state"] for x in d.must("GET", "/v1/wallet/orders", token=A)["items"] if x["id"] == missing], ["open"],
          "what is missing stays open")

# Ed25519, signed with openssl
subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", d.path("ed.pem")], check=True)
pub = subprocess.run(["openssl", "pkey", "-in", d.path("ed.pem"), "-pubout", "-outform", "DER"], check=True,
                     capture_output=True).stdout[-32:].hex()
tap.equal(d.call("POST", "/v1/admin/channels", {"name": "ed", "kind": "ed25519"}, OP).code, "validation",
          "an Ed25519 channel brings its public key")
ed = d.must("POST", "/v1/admin/channels", {"name": "ed", "kind": "ed25519", "public_key": pub}, OP)
tap.equal(ed["key"], None, "and gets no secret")


def ed_sign(text):
    with open(d.path("m"), "wb") as f:
        f.write(text)
    return subprocess.run(["openssl", "pkeyutl", "-sign", "-rawin", "-inkey", d.path("ed.pem"), "-in", d.path("m")],
                          check=True, capture_output=True).stdout.hex()


x = d.must("POST", "/v1/wallet/orders", {"amount": "3.00", "channel": "ed"}, A)["id"]
tap.equal(send(notice(x, "3.00", sign=lambda t: "00" * 64, channel="ed"), "ed").code, "notice_signature", "zeros sign nothing")
tap.equal(send(notice(x, "3.00", sign=ed_sign, channel="ed"), "ed").status, 200, "its notice counts")
tap.equal(d.call("POST", "/v1/wallet/orders", {"amount": "3.00"}, A).code, "validation", "of two channels one must be named")
d.must("DELETE", "/v1/admin/channels/ed", token=OP)
tap.equal(d.call("POST", "/v1/wallet/orders", {"amount": "3.00", "channel": "ed"}, A).code, "not_found", "one that is off takes no order")

# --- vouchers --------------------------------------------------------------------------------------
key = uuid.uuid4().hex
v = d.call("POST", "/v1/admin/vouchers", {"amount": "20.00", "count": 3, "per_project": 2, "note": "spring"}, OP, key=key)
again = d.call("POST", "/v1/admin/vouchers", {"amount": "20.00", "count": 3, "per_project": 2, "note": "spring"}, OP, key=key)
codes = v.json["codes"]
tap.ok(len(set(codes)) == 3 and all(len(c.replace("-", "")) == 28 for c in codes), "codes of 140 bits", v)
tap.ok(again.json["id"] == v.json["id"] and again.json["codes"] is None, "a repeat makes none and shows none", again)
got = d.must("POST", "/v1/vouchers", {"code": codes[0].lower().replace("-", " ")}, A)
tap.equal(got["left"]["amount"], "20.00", "a code is redeemed however it is typed")
tap.equal(d.call("POST", "/v1/vouchers", {"code": codes[0]}, A).code, "voucher_invalid", "once")
tap.equal(d.call("POST", "/v1/vouchers", {"code": codes[0]}, B).code, "voucher_invalid", "by nobody else either")
with concurrent.futures.ThreadPoolExecutor(16) as pool:
    got = list(pool.map(lambda i: d.call("POST", "/v1/vouchers", {"code": codes[1]}, A), range(3)))
tap.equal(sorted(r.status for r in got)[0], 200, "in parallel one wins")
tap.equal(wallet()["vouchers"], 40, "and it counts once")
time.sleep(1)
tap.equal(d.call("POST", "/v1/vouchers", {"code": codes[2]}, A).code, "voucher_limit", "a project redeems as many as it may")
d.must("DELETE", "/v1/admin/vouchers/" + v.json["id"], token=OP)
r = d.call("POST", "/v1/vouchers", {"code": codes[2]}, B)
tap.ok(r.code in ("voucher_invalid", "rate_limited"), "a revoked code is worth nothing", r)
tap.equal(wallet()["vouchers"], 40, "what was redeemed stays")
usd = d.must("POST", "/v1/admin/vouchers", {"amount": "5.00", "currency": "USD"}, OP)["codes"][0]
tap.equal(d.call("POST", "/v1/admin/vouchers", {"amount": "5.00", "scope": "gpu.none"}, OP).code, "validation", "a scope is known")
tap.equal(d.call("POST", "/v1/admin/vouchers", {"amount": "5.00", "expires": "2020-01-01T00:00:00Z"}, OP).code, "validation",
          "an end is to come")
for _ in range(8):
    r = d.call("POST", "/v1/vouchers", {"code": "0" * 28}, B)
tap.equal(r.code, "rate_limited", "guessing is slowed down")
d.stop()
d.start()
tap.equal(d.call("POST", "/v1/vouchers", {"code": usd}, B).code, "currency", "currencies are never mixed")
raw = b"".join(open(d.path(n), "rb").read() for n in ("store.db", "store.db-wal") if __import__("os").path.exists(d.path(n)))
tap.ok(codes[0].encode() not in raw and codes[2].encode() not in raw, "no code is in the store", "found")
tap.equal({x["state"] for x in d.must("GET", "/v1/vouchers", token=A)["items"]}, {"usable"}, "vouchers are listed")

# --- gifts, credit, refunds ------------------------------------------------------------------------
d.must("POST", "/v1/admin/topups", {"project": "bob", "amount": "7.00", "gift": True}, OP)
tap.equal((wallet(B)["gift"], wallet(B)["cash"], wallet(B)["available"]), (7, 0, 7), "a gift is no cash")
d.must("POST", "/v1/admin/topups", {"project": "bob", "amount": "2.00", "gift": True, "expires": "2999-01-01T00:00:00Z"}, OP)
tap.equal(wallet(B)["vouchers"], 2, "with an end it is kept apart")
tap.equal(d.call("POST", "/v1/admin/topups", {"project": "bob", "amount": "2.00", "expires": "2999-01-01T00:00:00Z"}, OP).code,
          "validation", "cash has no end")
tap.equal(d.call("POST", "/v1/admin/refunds", {"project": "bob", "amount": "1.00"}, OP).code, "refund_limit", "gifts are not paid out")
d.must("PUT", "/v1/admin/credit/bob", {"limit": "30.00"}, OP)
tap.equal((wallet(B)["credit_limit"], wallet(B)["available"]), (30, 39), "a credit line can pay")
tap.equal(d.call("PUT", "/v1/admin/credit/bob", {"limit": "-1"}, OP).code, "validation", "but not below zero")

cash = wallet()["cash"]
key = uuid.uuid4().hex
body = {"project": "alice", "amount": "12.00"}
r1, r2 = [d.call("POST", "/v1/admin/refunds", body, OP, key=key) for _ in range(2)]
tap.ok(r1.status == 200 and r1.raw == r2.raw and cash - wallet()["cash"] == 12, "a refund goes out once", r1)
tap.equal(sum(decimal.Decimal(p["amount"]["amount"]) for p in r1.json["parts"]), 12, "its parts add up")
tap.ok(all(p["to"].startswith("clearing.") for p in r1.json["parts"]), "to where it came from", r1)
tap.equal(d.call("POST", "/v1/admin/refunds", {"project": "alice", "amount": "11.00", "order": second}, OP).code, "refund_limit",
          "of an order at most what it brought")
d.must("POST", "/v1/admin/refunds", {"project": "alice", "amount": "10.00", "order": second}, OP)
tap.equal(d.call("POST", "/v1/admin/refunds", {"project": "alice", "amount": "0.01", "order": second}, OP).code, "refund_limit",
          "and not twice")
left = wallet()["cash"]
tap.equal(d.call("POST", "/v1/admin/refunds", {"project": "alice", "amount": str(left + 1)}, OP).code, "refund_limit",
          "in all at most the cash")
d.must("POST", "/v1/admin/topups", {"project": "alice", "amount": "5.00"}, OP)
d.must("POST", "/v1/admin/refunds", {"project": "alice", "amount": str(left + 5)}, OP)
tap.equal(wallet()["cash"], 0, "all of it can go back")

# --- statement -------------------------------------------------------------------------------------
s = d.must("GET", "/v1/wallet/statement", token=A)
sums, last = {}, {}
for m in s["moves"]:
    sums[m["source"]] = sums.get(m["source"], 0) + decimal.Decimal(m["amount"]["amount"])
    last[m["source"]] = decimal.Decimal(m["balance"]["amount"])
    if sums[m["source"]] != last[m["source"]]:
        tap.ok(False, "each row's balance is the sum so far", m)
tap.equal(last["cash"], 0, "the statement ends with the wallet's cash")
tap.equal(sum(v for k, v in last.items() if k.startswith("vch_")), 40, "and its vouchers")
tap.equal(d.call("GET", "/v1/wallet/statement?month=2026-13", token=A).code, "validation", "a month is a month")
tap.equal(d.must("GET", "/v1/wallet/statement?month=2020-01", token=A)["moves"], [], "a quiet month is empty")
check("the books hold at the end")

plain = Daemon().people()
tap.equal(plain.call("POST", "/v1/wallet/orders", {"amount": "5.00"}, plain.alice).code, "not_found",
          "without test_channel = yes there is no play money")
tap.done()
