#!/usr/bin/env python3
"""Logging in, tokens, projects, keys, users: as people meet them over HTTP."""
import json, os, subprocess, time, uuid
from rig import Daemon, Schema, Tap

tap = Tap()
d = Daemon()

# --- without anybody -----------------------------------------------------------------------------
r = d.call("GET", "/healthz")
tap.ok(r.status == 200 and r.json["status"] == "ok", "healthz answers without a token", r)
r = d.call("GET", "/readyz")
tap.ok(r.status == 200 and all(p["ok"] for p in r.json["parts"].values()), "readyz names each part", r)
r = d.call("GET", "/v1/me")
tap.ok(r.status == 401 and r.code == "auth_required", "no token: 401 auth_required", r)
tap.equal(r.headers["Content-Type"], "application/problem+json", "a refusal is a problem document")
tap.ok(r.headers["X-Request-Id"] == r.json["request_id"], "with the request id of the header", r.headers)
tap.equal(r.headers["WWW-Authenticate"], "Bearer", "and what would help")
for bad in ("Bearer x", "Basic YTpi", "Bearer " + "a" * 200, "slt_x"):
    r = d.call("GET", "/v1/me", headers={"Authorization": bad})
    tap.ok(r.status == 401 and r.code == "auth_invalid", f"{bad[:20]} is not a token", r)

# --- the first operator ----------------------------------------------------------------------------
code = d.admin_code()
tap.ok(len(code.replace("-", "")) == 20, "admin-code prints one code while the daemon runs", code)
r = d.call("POST", "/v1/login", {"code": code.lower().replace("-", " ")})
tap.ok(r.status == 200, "small letters and blanks are the same code", r)
operator = d.operator = r.json["token"]
tap.ok(r.json["role"] == "operator" and r.json["project"] == "admin" and r.json["expires_at"], "he is an operator", r)
r = d.call("POST", "/v1/login", {"code": code})
tap.ok(r.status == 401 and r.code == "code_invalid", "a code works once", r)
me = d.must("GET", "/v1/me", token=operator)
tap.ok(me["user"] == "admin" and me["role"] == "operator" and me["simulated"] is False, "me says so", me)

# --- users -----------------------------------------------------------------------------------------
r = d.call("POST", "/v1/admin/users", {"name": "alice"}, operator)
tap.ok(r.status == 200 and r.json["project"] == "alice", "a user comes with a project", r)
alice = d.login(r.json["code"])
tap.equal(d.call("POST", "/v1/admin/users", {"name": "alice"}, operator).code, "exists", "a name is taken once")
tap.equal(d.call("POST", "/v1/admin/users", {"name": "Al ice"}, operator).code, "validation", "a name is a name")
tap.equal(d.call("POST", "/v1/admin/users", {"name": "x", "role": "god"}, operator).code, "validation",
          "roles are known ones")
bob = d.user("bob")
r = d.call("POST", "/v1/admin/users/alice/code", {}, operator)
tap.ok(r.status == 200 and d.login(r.json["code"]), "a new code for a user", r)
tap.equal([u["name"] for u in d.must("GET", "/v1/admin/users", token=operator)["items"]],
          ["admin", "alice", "bob"], "users are listed")
tap.equal(d.call("GET", "/v1/admin/users", token=alice).code, "forbidden", "not by renters")

# --- tokens ----------------------------------------------------------------------------------------
t = d.must("POST", "/v1/tokens", {"label": "ci", "role": "viewer", "expires_in": "30d"}, alice)
tap.ok(t["role"] == "viewer" and t["expires_at"], "a token with less rights and a life", t)
tap.equal(d.call("POST", "/v1/keys", {"public_key": "x"}, t["token"]).code, "forbidden", "a viewer changes nothing")
tap.equal(d.call("POST", "/v1/tokens", {"label": "up"}, t["token"]).code, "forbidden", "nor makes tokens")
tap.equal(d.call("POST", "/v1/tokens", {"label": "x", "role": "operator"}, alice).code, "forbidden",
          "nobody gives what he has not")
tap.equal(d.call("POST", "/v1/tokens", {"label": "x", "role": "root"}, alice).code, "validation", "unknown role")
tap.equal(d.call("POST", "/v1/tokens", {"label": "x", "expires_in": "0s"}, alice).code, "validation", "a life is not 0")
rows = {x["id"]: x for x in d.must("GET", "/v1/tokens", token=alice)["items"]}
tap.ok(t["id"] in rows and rows[t["id"]]["label"] == "ci", "tokens are listed", rows)
tap.ok("slt_" not in json.dumps(list(rows.values())), "without their secrets")
tap.equal(d.call("DELETE", "/v1/tokens/" + t["id"], token=bob).code, "not_found", "others' tokens are not there")
tap.equal(d.call("DELETE", "/v1/tokens/" + t["id"], token=alice).status, 200, "revoke")
tap.equal(d.call("GET", "/v1/me", token=t["token"]).code, "auth_invalid", "a revoked token is dead at once")
short = d.must("POST", "/v1/tokens", {"label": "short", "expires_in": "1s"}, alice)["token"]
time.sleep(1.1)
tap.equal(d.call("GET", "/v1/me", token=short).code, "auth_invalid", "an expired token is dead")
raw = b""
for name in os.listdir(d.dir):
    if name.startswith("store.db"):
        raw += open(d.path(name), "rb").read()
tap.ok(alice.encode() not in raw and operator.encode() not in raw, "no token lies in the store")
tap.ok(code.encode() not in raw, "nor a code")

# --- projects --------------------------------------------------------------------------------------
p = d.must("POST", "/v1/projects", {"name": "lab"}, alice)
tap.ok(p["name"] == "lab" and p["members"] == [{"user": "alice", "role": "owner"}] and p["currency"] == "CNY",
       "a project begins with its owner", p)
tap.equal(d.call("POST", "/v1/projects", {"name": "lab"}, bob).code, "exists", "a project's name is taken once")
r = d.call("PUT", "/v1/projects/lab/members/bob", {"role": "viewer"}, alice)
tap.ok(r.status == 200 and {"user": "bob", "role": "viewer"} in r.json["members"], "a member is added", r)
tap.equal(d.call("PUT", "/v1/projects/lab/members/bob", {"role": "owner"}, bob).code, "forbidden",
          "a viewer does not promote himself")
tap.equal(d.call("PUT", "/v1/projects/lab/members/alice", {"role": "none"}, alice).code, "validation",
          "the last owner stays")
tap.equal(d.call("PUT", "/v1/projects/lab/members/nobody", {"role": "viewer"}, alice).code, "not_found", "unknown user")
me = d.must("GET", "/v1/me", token=bob, headers={"X-Suanli-Project": "lab"})
tap.ok(me["project"] == "lab" and me["role"] == "viewer", "a header chooses the project", me)
me = d.must("GET", "/v1/me", token=bob, headers={"X-Suanli-Project": p["id"]})
tap.equal(me["project"], "lab", "by id too")


def same_bytes(a, b):
    return a.status == b.status == 404 and a.raw.replace(a.json["request_id"].encode(), b"") == \
        b.raw.replace(b.json["request_id"].encode(), b"")


hidden = d.call("GET", "/v1/me", token=bob, headers={"X-Suanli-Project": "alice"})
d.must("PUT", "/v1/projects/lab/members/bob", {"role": "none"}, alice)
absent = d.call("GET", "/v1/me", token=bob, headers={"X-Suanli-Project": "alicf"})
absent.raw = absent.raw.replace(b"alicf", b"alice")
tap.ok(same_bytes(hidden, absent), "another's project and no project are the same bytes", f"{hidden}\n{absent}")
tap.equal(d.call("GET", "/v1/me", token=bob, headers={"X-Suanli-Project": "lab"}).status, 404,
          "who was removed is out at once")
a = d.call("PUT", "/v1/projects/alice/members/bob", {"role": "owner"}, bob)
b = d.call("PUT", "/v1/projects/alicf/members/bob", {"role": "owner"}, bob)
b.raw = b.raw.replace(b"alicf", b"alice")
tap.ok(same_bytes(a, b), "the same for its members", f"{a}\n{b}")
tap.equal([x["name"] for x in d.must("GET", "/v1/projects", token=alice)["items"]], ["alice", "lab"], "own projects")

# --- keys ------------------------------------------------------------------------------------------
subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "Alice@Laptop", "-f", d.path("k")], check=True)
line = open(d.path("k.pub")).read()
want = subprocess.run(["ssh-keygen", "-lf", d.path("k.pub")], capture_output=True, text=True).stdout.split()[1]
k = d.must("POST", "/v1/keys", {"public_key": line}, alice)
tap.ok(k["fingerprint"] == want and k["name"] == "alice-laptop", "a key, named after its comment", k)
tap.equal(d.call("POST", "/v1/keys", {"public_key": line, "name": "two"}, alice).code, "exists", "the same key once")
r = d.call("POST", "/v1/keys", {"public_key": open(d.path("k")).read()}, alice)
tap.ok(r.code == "validation" and "private" in r.json["detail"], "a private key is refused and says so", r)
tap.ok(d.must("POST", "/v1/keys", {"public_key": line}, bob), "another may have the same key")
tap.equal(d.call("DELETE", "/v1/keys/" + k["id"], token=bob).code, "not_found", "others' keys are not there")
tap.equal(d.call("DELETE", "/v1/keys/alice-laptop", token=alice).status, 200, "a key goes by its name")
tap.equal(d.must("GET", "/v1/keys", token=alice)["items"], [], "and is gone")

# --- languages, audit ------------------------------------------------------------------------------
r = d.call("GET", "/v1/me", headers={"Accept-Language": "zh-CN,zh;q=0.9"})
tap.ok("尚未登录" in r.json["detail"] and r.headers["Content-Language"] == "zh-CN", "Chinese on request", r)
r = d.call("POST", "/v1/login", {}, headers={"Accept-Language": "zh-CN"})
tap.ok(r.json["detail"] == "code：必填" and r.json["params"]["field"] == "code", "down to the words inside", r)
rows = d.must("GET", "/v1/audit?limit=200", token=operator)["items"]
acts = {(x["actor"], x["action"], x["result"]) for x in rows}
tap.ok(any(a == "alice" and r == "ok" and "project_create" in x for a, x, r in acts), "audit has what was done", acts)
tap.ok(any(r != "ok" for _, _, r in acts), "and what was refused", acts)
tap.equal(d.call("GET", "/v1/audit", token=alice).status, 200, "owners see their project's audit")

rows = d.must("GET", "/v1/errors")["items"]
tap.ok(len(rows) > 40 and all(r["en"] and r["zh-CN"] and (r["code"] == "interrupted" or r["en_next"] and r["zh-CN_next"])
                              and 400 <= r["status"] < 600 and r["exit"] > 0 for r in rows),
       "every error has both texts, a next step, a status and an exit code", rows)
import string
holes = [r["code"] for r in rows if {f for _, f, _, _ in string.Formatter().parse(r["en"] + r["en_next"]) if f} !=
         {f for _, f, _, _ in string.Formatter().parse(r["zh-CN"] + r["zh-CN_next"]) if f}]
tap.equal(holes, [], "with the same parameters in both languages")

# --- guessing --------------------------------------------------------------------------------------
codes = [d.call("POST", "/v1/login", {"code": "AAAA-AAAA-AAAA-AAAA-AAAA"}).code for _ in range(6)]
tap.ok("rate_limited" in codes and codes[0] == "code_invalid", "guessing is slowed down", codes)
r = d.call("POST", "/v1/login", {"code": "AAAA-AAAA-AAAA-AAAA-AAAA"})
tap.ok(r.status == 429 and int(r.headers["Retry-After"]) >= 1, "and told how long to wait", r)
tap.equal(d.call("GET", "/v1/me", token=alice).status, 200, "who is logged in is not touched")

# --- the Unix socket, stopping ---------------------------------------------------------------------
tap.equal(d.call("GET", "/v1/me", token=alice, unix=True).status, 200, "the Unix socket is the same API")
tap.equal(d.stop(), 0, "SIGTERM stops it cleanly")
d.start()
tap.equal(d.must("GET", "/v1/me", token=alice)["user"], "alice", "and a new start knows everybody")
tap.done()
