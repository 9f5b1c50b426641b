#!/usr/bin/env python3
"""Computes a bill again from nothing but what a renter can download: recompute.py USAGE BILL

USAGE: `suanli usage export` (JSON lines), BILL: `suanli bill --json`. An independent reading of the
rules (whole numbers only):

  a window is (subject, meter, price version, month); its quantity is the sum of its lines
  a window costs floor(P * quantity / D) micro-units, where the price is P/D
  seconds of one subject are billed once; a second is billed only inside the evidence of its slice
  the bill's lines are exactly these windows, and its total is their sum

Get the bill first: what was used after it was written is left out (a line says to which second it
goes). Prints what differs and exits 1, or one line and exits 0."""
import json
import sys
from datetime import datetime
from decimal import Decimal

MICRO = Decimal(1_000_000)
faults = []


def fault(text):
    faults.append(text)


def micro(money):
    """{"amount": "1.234567", "currency": "CNY"} in whole micro-units"""
    value = Decimal(money["amount"]) * MICRO
    if value != value.to_integral_value():
        fault(f"amount {money['amount']} is finer than a micro-unit")
    return int(value)


def price(text):
    p, d = text.split("/")
    return int(p), int(d)


def read_usage(path):
    slices = []
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            row = json.loads(line)
            if "next" in row and len(row) == 1:
                fault(f"line {number}: the export is one page of several; get the others too")
                continue
            slices.append(row)
    return slices


def check_slice(row):
    """Quantity and evidence of one line."""
    start, end, per_second = row["billed_from_s"], row["billed_to_s"], row["per_second"]
    where = f"{row['subject']} {row['meter']} {start}-{end}"
    if row["meter"] not in ("egress", "ingress") and int(row["quantity"]) != (end - start) * per_second:
        fault(f"{where}: quantity {row['quantity']} is not seconds x {per_second}")
    if row["boot"] and start != end and end * 1000 > row["t1_ms"]:
        fault(f"{where}: billed beyond its evidence ({row['t1_ms']} ms)")
    if start > end or int(row["quantity"]) < 0:
        fault(f"{where}: runs backwards")


def check_seconds(slices):
    """No second of a subject is billed twice."""
    spans = {}
    for row in slices:
        if row["meter"] not in ("egress", "ingress") and row["billed_from_s"] < row["billed_to_s"]:
            spans.setdefault((row["subject"], row["meter"] == "node"), []).append((row["billed_from_s"], row["billed_to_s"]))
    for subject, list_of in spans.items():
        list_of.sort()
        for (_, end), (start, _) in zip(list_of, list_of[1:]):
            if start < end:
                fault(f"{subject}: second {start} is billed twice")


def key_of(row):
    return row["subject"], row["meter"], row["price_version"]


def seconds(text):
    return int(datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp())


def windows_of(slices, bill):
    ends = {key_of(line): seconds(line["to"]) for line in bill["lines"]}
    newest = max(ends.values(), default=0)
    windows = {}
    for row in slices:
        key, quantity = key_of(row), int(row["quantity"])
        if row["month"] != bill["month"] or not quantity:
            continue
        if key not in ends and row["billed_from_s"] >= newest:
            continue
        late = max(row["billed_to_s"] - ends.get(key, row["billed_to_s"]), 0)
        if late:
            quantity = max(quantity - late * row["per_second"], 0) if row["per_second"] else 0
        if not quantity:
            continue
        window = windows.setdefault(key, {"quantity": 0, "price": row["price"], "back": row["reversed"]})
        window["quantity"] += quantity
        if window["price"] != row["price"]:
            fault(f"{key}: one price version with two prices")
    return windows


def check_bill(bill, windows):
    total, back = 0, {}
    for line in bill["lines"]:
        key = key_of(line)
        if line["kind"] == "reversal":  # after its usage; the same number, below zero
            if micro(line["amount"]) != -back.pop(key, 0):
                fault(f"line {line['n']}: {line['amount']['amount']} is not what {key} cost")
            total += micro(line["amount"])
            continue
        window = windows.pop(key, None)
        if window is None:
            fault(f"line {line['n']}: no usage for {key}")
            continue
        p, d = price(window["price"])
        cost = p * window["quantity"] // d
        if int(line["quantity"]) != window["quantity"] or line["price"] != window["price"]:
            fault(f"line {line['n']}: {line['quantity']} at {line['price']}, the usage says "
                  f"{window['quantity']} at {window['price']}")
        if micro(line["amount"]) != cost:
            fault(f"line {line['n']}: {line['amount']['amount']}, computed {Decimal(cost) / MICRO}")
        total += cost
        if window["back"]:
            back[key] = cost
    for key in back:
        fault(f"usage of {key} was reversed and its reversal is not on the bill")
    for key in windows:
        fault(f"usage of {key} is not on the bill")
    if micro(bill["total"]) != total:
        fault(f"total {bill['total']['amount']}, computed {Decimal(total) / MICRO}")
    return total


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    slices = read_usage(sys.argv[1])
    with open(sys.argv[2], encoding="utf-8") as f:
        bill = json.load(f)
    for row in slices:
        check_slice(row)
    check_seconds(slices)
    total = check_bill(bill, windows_of(slices, bill))
    for text in faults:
        print(text)
    if faults:
        sys.exit(1)
    print(f"{bill['month']}: {len(bill['lines'])} lines from {len(slices)} records of usage, "
          f"{Decimal(total) / MICRO} {bill['total']['currency']}: the bill is right")


main()
