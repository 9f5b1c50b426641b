#!/usr/bin/env python3
"""Real work: in a rented instance train a classifier on scikit-learn's bundled handwritten digits, copy
the script in and the model out, and hold the bill against the evidence."""
import os, pickletools, subprocess, sys, time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import platform_lab as lab

SCRIPT = """
import pickle, sys
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
x, y = load_digits(return_X_y=True)
a, b, c, d = train_test_split(x / 16.0, y, random_state=0)
model = LogisticRegression(max_iter=200).fit(a, c)
pickle.dump(model, open("/root/model.pkl", "wb"))
print("accuracy %.4f" % model.score(b, d))
"""

lab.recipe("ml")
lab.enter()
t = lab.Tap()
p = lab.Platform(balance="100")
p.add_image("ml", "recipe:ml", wait=900)
r = p.cli("rent", "--gpu", "RTX 4090", "--cpu", "2", "--memory", "2GiB", "--for", "1h", "--name", "digits", "--yes",
          timeout=300)
t.ok(r.rc == 0, "rent waits until the instance runs", r)
open(p.path("train.py"), "w").write(SCRIPT)
r = p.cli("cp", p.path("train.py"), "digits:/root/train.py")
t.ok(r.rc == 0, "the script is copied in", r)
r = p.cli("ssh", "digits", "--", "python3 /root/train.py", timeout=300)
accuracy = float(r.out.split()[-1]) if r.rc == 0 and r.out.split() else 0.0
t.ok(accuracy > 0.9, f"the classifier learns ({r.out.strip()})", r)
r = p.cli("cp", "digits:/root/model.pkl", p.path("model.pkl"))
model = open(p.path("model.pkl"), "rb").read() if r.rc == 0 else b""
t.ok(len(model) > 1000 and b"LogisticRegression" in model, f"the model is copied out ({len(model)} bytes)", r)
r = p.cli("show", "digits", "--report")
t.ok(r.rc == 0 and "RTX 4090" in r.out, "the first-boot report names the card", r)
time.sleep(5)
r = p.cli("stop", "digits", "--yes")
t.ok(r.rc == 0, "stop is accepted", r)
p.wait_state("digits", "stopped")
time.sleep(3)
bill, usage = p.cli("bill", "--json"), p.cli("usage", "export")
seconds = sum(int(line["quantity"]) for line in bill.json["lines"] if line["meter"] == "gpu")
t.ok(seconds >= 5, f"the card is billed for the whole seconds of the work ({seconds})", bill)
open(p.path("usage.jsonl"), "w").write(usage.out)
open(p.path("bill.json"), "w").write(bill.out)
r = subprocess.run([sys.executable, os.path.join(lab.ROOT, "tests", "e2e", "recompute.py"), p.path("usage.jsonl"),
                    p.path("bill.json")], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
t.ok(r.returncode == 0, "the bill equals price x evidenced whole seconds, recomputed from the export", r.stdout)
t.note(r.stdout.strip().replace("\n", "\n# "))
r = p.cli("release", "digits", "--yes", timeout=120)
t.ok(r.rc == 0, "release erases and says so", r)
t.equal(p.check(), [], "all invariants hold on the live store")
p.close()
t.done()
