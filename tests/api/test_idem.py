#!/usr/bin/env python3
"""Idempotency-Key: the same key and body is one act, however often, in parallel and over a crash."""
import concurrent.futures, json, signal, uuid
from rig import Daemon, Tap

tap = Tap()
d = Daemon().people()


def many(n, fn):
    with concurrent.futures.ThreadPoolExecutor(n) as pool:
        return list(pool.map(lambda _: fn(), range(n)))


r = d.call("POST", "/v1/projects", {"name": "nokey"}, d.alice, key=False)
tap.ok(r.status == 400 and r.code == "idempotency_missing", "creating needs a key", r)
tap.equal(d.call("POST", "/v1/projects", {"name": "x"}, d.alice, key="a b").code, "validation", "a key has no blanks")
tap.equal(d.call("POST", "/v1/projects", {"name": "x"}, d.alice, key="k" * 200).code, "validation", "nor 200 letters")

key = uuid.uuid4().hex
got = many(100, lambda: d.call("POST", "/v1/projects", {"name": "one"}, d.alice, key=key, timeout=60))
tap.equal({(r.status) for r in got}, {200}, "the same key 100 times in parallel")
tap.equal(len({r.raw for r in got}), 1, "is one answer, byte for byte")
tap.equal(sum(r.headers.get("Idempotency-Replayed") == "true" for r in got), 99, "and 99 say that they are replayed")
names = [p["name"] for p in d.must("GET", "/v1/projects", token=d.alice)["items"]]
tap.equal(names.count("one"), 1, "and one project")

r = d.call("POST", "/v1/projects", {"name": "two"}, d.alice, key=key)
tap.ok(r.status == 422 and r.code == "idempotency_mismatch", "another body under the key is refused", r)
r = d.call("POST", "/v1/tokens", {"label": "one"}, d.alice, key=key)
tap.equal(r.code, "idempotency_mismatch", "another operation too")
r = d.call("POST", "/v1/projects", {"name": "bobs"}, d.bob, key=key)
tap.ok(r.status == 200 and r.json["name"] == "bobs", "keys are the project's own", r)

key = uuid.uuid4().hex
first = d.call("POST", "/v1/projects", {"name": "kept"}, d.alice, key=key)
d.stop(signal.SIGKILL)
d.start()
again = d.call("POST", "/v1/projects", {"name": "kept"}, d.alice, key=key)
tap.ok(again.status == 200 and again.raw == first.raw, "after a crash the key finds the first answer", again)

key = uuid.uuid4().hex
a = d.call("POST", "/v1/projects", {"name": "one"}, d.alice, key=key)
tap.equal(a.code, "exists", "a refused act")
d2 = d.call("POST", "/v1/projects", {"name": "one"}, d.alice, key=key)
tap.equal(d2.code, "exists", "is refused again")

key = uuid.uuid4().hex
t1 = d.call("POST", "/v1/tokens", {"label": "secret"}, d.alice, key=key)
t2 = d.call("POST", "/v1/tokens", {"label": "secret"}, d.alice, key=key)
tap.ok(t1.status == t2.status == 200 and t1.json["id"] == t2.json["id"], "a token is made once", f"{t1}\n{t2}")
d.stop()
import os
raw = b"".join(open(d.path(n), "rb").read() for n in os.listdir(d.dir) if n.startswith("store.db"))
tap.ok(t1.json["token"].encode() not in raw, "and its secret is not kept for the replay", "found in the store")
tap.done()
