#!/usr/bin/env python3
"""Counts a bill file again (docs/bill-file.md), sharing no code with the product: recompute_file.py FILE

Checksums, signatures (libsodium through ctypes), spans, windows of flat prices, the journal's chain,
what it charged, a closed month's printed lines, residue and taxes, balances, total and seal. Prints what differs and exits 1, or one line and exits 0."""
import base64, hashlib, json, os, struct, sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import signing

STEPS = ["posted", "pending", "post", "void", "expire"]
NAMES = ["seq", "running", "gpus_ok", "t0", "t1", "cpu_us", "memory_bytes", "rx_bytes", "tx_bytes", "disk_used_mib",
         "gpu_util_pct", "gpu_memory_mib"]


def content(t):
    def text(*keys):
        return b"".join(t[k].encode() + b"\0" for k in keys)
    return hashlib.sha256(
        text("id", "ledger", "dr", "cr") + struct.pack(">qq", int(t["amount"]), STEPS.index(t["step"])) +
        text("pending", "kind", "group", "owner") + struct.pack(">qq", t["effective_ms"], t["expires_ms"])).digest()


def half_up(n, d):
    return (2 * n + d) // (2 * d) if n >= 0 else -((-2 * n + d) // (2 * d))


def statement(st, lines, taxes, moved, residue, currency):
    """Largest remainder, residue, taxes inside and on top, what is payable, and what the journal moved."""
    m, bad = int(st["minor_u"]), []
    amounts = [int(x["amount_u"]) for x in lines]
    payable, rest = divmod(sum(amounts), m)
    printed = [a // m for a in amounts]
    order = sorted(range(len(amounts)), key=lambda i: (-(amounts[i] % m), i))
    for i in order[:payable - sum(printed)]:
        printed[i] += 1
    if printed != [int(x["printed_minor"]) for x in lines] or len(lines) != st["lines"]:
        bad.append("printed lines")
    if (payable, rest, rest) != (int(st["lines_minor"]), int(st["residue_u"]), residue):
        bad.append("residue")
    sums, want = [0, 0, 0], {}
    for t in taxes:
        base = sum(p for p, x in zip(printed, lines) if x["tax"] == t["n"])
        n, d = int(t["rate_n"]), int(t["rate_d"])
        net = half_up(base * d, d + n) if t["inclusive"] else base
        tax = base - net if t["inclusive"] else half_up(base * n, d)
        if [base, net, tax, net + tax] != [int(t[x]) for x in ("base_minor", "net_minor", "tax_minor", "gross_minor")]:
            bad.append(f"tax group {t['n']}")
        sums = [a + b for a, b in zip(sums, (net, tax, net + tax))]
        if tax > 0:
            account = f"tax.output.{t['country']}.{n}/{d}.{currency}"
            want[account] = want.get(account, 0) + tax * m
    if sums != [int(st[x]) for x in ("net_minor", "tax_minor", "payable_minor")]:
        bad.append("payable")
    if want != moved:
        bad.append(f"taxes {want}, the journal moved {moved}")
    if bad:
        sys.exit(f"statement {st['number']}: {', '.join(bad)}")


def main(path):
    digest = bytes(32)
    prices, keys, windows, charged, balance, accounts = {}, {}, {}, {}, {}, {}
    lease = boot = window = chain = head = st = None
    lines, taxes, moved, residue = [], [], {}, 0
    slices = 0
    for number, line in enumerate(open(path, "rb"), 1):
        def need(good, text):
            if not good:
                sys.exit(f"line {number}: {text}")
        need(line.endswith(b"\n"), "no end")
        body, _, tail = line[:-1].rpartition(b',"sum":"')
        before, digest = digest, hashlib.sha256(digest + body).digest()
        need(tail == digest.hex()[:16].encode() + b'"}', "checksum")
        o = json.loads(line)
        k = o["k"]
        if k == "head":
            head = o
        elif k == "price":
            prices[o["id"]] = (int(o["p"]), int(o["d"]), o["tiers"], o["cap_qty"])
        elif k == "lease":
            lease = o
        elif k == "key":
            keys[o["n"]] = o["key"]
        elif k == "boot":
            boot = o
        elif k == "slice":
            s = dict(zip(NAMES, o["v"]), lease=lease["id"], epoch=lease["epoch"])
            s["state"] = "running" if s["running"] else "void"
            slices += 1
            if boot["key"]:
                need(signing.good(keys[boot["key"]], signing.slice_bytes(boot["boot"], s), o["sig"]), "signature")
        elif k == "window":
            window = windows[o["id"]] = dict(o, sum=0)
        elif k == "span":
            if window["meter"] not in ("egress", "ingress"):
                need((o["to_s"] - o["from_s"]) * int(o["per_second"]) == int(o["qty"]), "span")
            window["sum"] += int(o["qty"])
        elif k == "statement":
            st = o
        elif k == "line":
            lines.append(o)
            need(o["n"] == len(lines), "line")
            if o["kind"] == "usage":
                w = windows[o["source"]]
                need(int(o["qty_to"]) <= int(w["qty"]) and o["price"] == w["price"], "line and window")
                need(o["qty_to"] != w["qty"] or o["amount_u"] == w["rated_u"], "what the line costs")
        elif k == "tax":
            taxes.append(o)
        elif k == "journal":
            chain = bytes.fromhex(o["hash"])
        elif k == "account":
            accounts[o["id"]] = int(o["closing_u"])
            balance[o["id"]] = int(o["opening_u"])
        elif k == "transfer":
            chain = hashlib.sha256(chain + content(o) + struct.pack(">q", o["booked_ms"])).digest()
            if o["step"] in ("posted", "post"):
                if st and o["owner"] == st["id"]:
                    if o["kind"] == "residue":
                        residue += int(o["amount"])
                    else:
                        moved[o["cr"]] = moved.get(o["cr"], 0) + int(o["amount"])
                for side, sign in (("dr", -1), ("cr", 1)):
                    if o[side] in balance:
                        balance[o[side]] += sign * int(o["amount"])
                    if o[side].startswith("revenue."):
                        charged[o["owner"]] = charged.get(o["owner"], 0) + sign * int(o["amount"])
        elif k == "rows":
            data = base64.b64decode(o["data"])
            need(len(data) == 40 * o["n"], "rows")
            for i in range(o["n"]):
                chain = hashlib.sha256(chain + data[40 * i:40 * i + 40]).digest()
        elif k == "day":
            need(chain.hex() == o["hash"], "the chain does not lead to this day's head")
        elif k == "total":
            need(int(o["rated_u"]) == sum(int(w["rated_u"]) for w in windows.values()), "total")
            need(int(o["posted_u"]) == sum(int(w["posted_u"]) for w in windows.values()), "total posted")
        elif k == "end":
            need(o["lines"] == number, "lines")
            need(signing.good(head["key"], b"suanli.bill.1\0\0\0" + before, o["seal"]), "seal")
    for w in windows.values():
        p, d, tiers, cap = prices[w["price"]]
        if int(w["qty"]) != w["sum"] or (not tiers and cap == "0" and p * w["sum"] // d != int(w["rated_u"])):
            sys.exit(f"window {w['id']}: {w}")
        if charged.get(w["id"], 0) != int(w["posted_u"]):
            sys.exit(f"window {w['id']}: charged {charged.get(w['id'])}, says {w['posted_u']}")
    if st:
        statement(st, lines, taxes, moved, residue, head["currency"])
    if balance != accounts:
        sys.exit(f"balances {balance}, said {accounts}")
    if k != "end":
        sys.exit("no end")
    print(f"{head['month']}: {len(windows)} windows, {slices} slices: the file is right")


main(sys.argv[1])
