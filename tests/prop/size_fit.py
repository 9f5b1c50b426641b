#!/usr/bin/env python3
"""The constants in the tree are those that tools/size-fit makes of the cases in the tree: nobody
edited them, and the fit can be repeated. Prints TAP."""
import os, re, subprocess, sys, tempfile

PROGRAM, ROOT = sys.argv[1:3]


def numbers(path):
    text = open(path, encoding="utf-8").read()
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    return re.findall(r"[A-Za-z_][\w.+ -]*", text), [float(v) for v in re.findall(r"(?<![\w.\"-])\d+\.?\d*(?:e[-+]?\d+)?(?![\w\"])", text)]


def close(a, b):
    return abs(a - b) <= 2e-3 * max(abs(a), abs(b)) + 2e-3  # what another compiler may round


failed = 0
with tempfile.TemporaryDirectory() as tmp:
    made = [os.path.join(tmp, n) for n in ("size_fit.def", "size_folds.def")]
    subprocess.run([PROGRAM, os.path.join(ROOT, "tests/golden/sizing-cases.tsv"), *made], check=True)
    print("1..2")
    for n, (new, old) in enumerate(zip(made, ("src/domain/size_fit.def", "src/cli/size_folds.def")), 1):
        names, values = numbers(new)
        names_old, values_old = numbers(os.path.join(ROOT, old))
        off = [(a, b) for a, b in zip(values, values_old) if not close(a, b)]
        ok = names == names_old and len(values) == len(values_old) and not off
        failed += not ok
        print(f"{'ok' if ok else 'not ok'} {n} - {old} is what the fit makes ({len(values)} figures)")
        for a, b in off[:10]:
            print(f"# fitted {a}, in the tree {b}")
sys.exit(failed > 0)
