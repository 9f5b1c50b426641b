#!/usr/bin/env python3
"""Every route x every kind of caller, from the served OpenAPI document: who gets in and who does not.
Nothing here may answer 500, and nobody may be let in beyond his role."""
import re, time, uuid
from rig import Daemon, Schema, Tap

tap = Tap()
d = Daemon().people()
schema = Schema(d.must("GET", "/v1/openapi.json"))

member_of = {"alice": "owner", "carol": "viewer"}
d.user("dave")
dave = d.login(d.must("POST", "/v1/admin/users/dave/code", {}, d.operator)["code"])
d.must("PUT", "/v1/projects/alice/members/dave", {"role": "member"}, d.alice)
expired = d.must("POST", "/v1/tokens", {"label": "e", "expires_in": "1s"}, d.alice)["token"]
revoked = d.must("POST", "/v1/tokens", {"label": "r"}, d.alice)
d.must("DELETE", "/v1/tokens/" + revoked["id"], token=d.alice)
node = d.must("POST", "/v1/admin/nodes", {"name": "n1"}, d.operator)["token"]
time.sleep(1.1)

ALICE = {"X-Suanli-Project": "alice"}
CALLERS = {
    "nobody": (None, {}), "forged": ("slt_00000000000000000000000000000000", {}), "expired": (expired, {}),
    "revoked": (revoked["token"], {}), "other project": (d.bob, ALICE), "viewer": (d.carol, ALICE),
    "member": (dave, ALICE), "owner": (d.alice, ALICE), "node": (node, {}), "operator": (d.operator, {}),
}
LADDER = ["viewer", "member", "owner"]


def expect(least, caller):
    """The refusal that this caller must get, or None: he is let in (and then may be refused otherwise)."""
    if least == "public":
        return None
    if caller == "nobody":
        return "auth_required"
    if least == "node":
        return None if caller == "node" else "node_auth"
    if caller in ("forged", "expired", "revoked", "node"):
        return "auth_invalid"
    if caller == "other project":
        return "not_found"
    if least == "supplier":
        return None if caller == "operator" else "not_found"
    if least == "operator":
        return None if caller == "operator" else "forbidden"
    if caller == "operator":
        return None  # in his own project he is the owner
    return None if LADDER.index(caller) >= LADDER.index(least) else "forbidden"


def concrete(path):
    return re.sub(r"\{(\w+)\}", lambda m: "8888" if m.group(1) == "port" else "no-such", path)


inside = {"auth_required", "auth_invalid", "node_auth", "forbidden"}
streams = {op for op, (_, _, doc) in schema.ops.items()
           if "text/event-stream" in doc["responses"]["200"]["content"]}
for op, (method, path, doc) in sorted(schema.ops.items()):
    if op == "login":
        continue  # by its own tests; guesses are counted
    wrong, fives = [], []
    for caller, (token, headers) in CALLERS.items():
        want = expect(doc["x-least-role"], caller)
        # An argument nobody takes: whoever is let in stops there, so that nothing is made or destroyed.
        r = d.call(method, concrete(path) + "?no-such-argument=1", None if method == "GET" else {}, token,
                   headers=headers)
        got = r.code
        if r.status >= 500 and got != "unsupported":
            fives.append(f"{caller}: {r}")
        if want is None:
            if got in inside or got != "validation" and op != "node_sync":
                wrong.append(f"{caller}: {r.status} {got}, wanted in")
        elif got != want:
            wrong.append(f"{caller}: {r.status} {got}, wanted {want}")
    tap.ok(not wrong and not fives, f"{method} {path}: each kind of caller gets what his role gives",
           "\n".join(wrong + fives))

# --- tricks ------------------------------------------------------------------------------------------
for trick in ("/v1//admin/users", "/v1/admin//users", "/v1/./admin/users", "/v1/x/../admin/users", "/V1/admin/users",
              "/v1/admin/users/", "/v1/admin/users;x=1", "/v1/admin/%75sers", "/v1/admin%2fusers", "/v1/admin/users%00",
              "/v1/admin/users.", "//v1/admin/users", "/v1/admin/users%20"):
    r = d.call("GET", trick, token=d.operator)
    tap.ok(r.status == 404, f"{trick} is no way in", r)
for header in ("X-HTTP-Method-Override", "X-Method-Override", "X-HTTP-Method"):
    r = d.call("GET", "/v1/projects", token=d.carol, headers={header: "POST", **ALICE})
    tap.ok(r.status == 200 and "items" in r.json, f"{header} overrides nothing", r)
r = d.call("PATCH", "/v1/tokens", {}, d.alice)
tap.ok(r.status == 405 and r.headers["Allow"] == "GET, POST" and r.code == "method", "405 tells the methods", r)
for method in ("OPTIONS", "TRACE", "PROPFIND"):
    r = d.call(method, "/v1/me", token=d.alice)
    tap.ok(r.status == 405, f"{method} is not taken", r)
tap.ok(d.process.poll() is None, "the daemon lives")
tap.done()
