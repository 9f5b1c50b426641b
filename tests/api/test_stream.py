#!/usr/bin/env python3
"""Streams as they happen: events and output arrive at once, resume exactly, and end when they should;
what a node must know reaches it while it waits."""
import concurrent.futures, json, queue, signal, socket, subprocess, threading, time
from rig import Daemon, Tap
from fake_node import FakeNode

tap = Tap()
d = Daemon().people()
for sku, price, unit in (("cpu.seat", "0.12", "hour"), ("disk", "0.02", "GiB-day"), ("disk.stopped", "0.01", "GiB-day"),
                         ("disk.detached", "0.01", "GiB-day"), ("egress", "0", "GiB")):
    d.must("POST", "/v1/admin/prices", {"sku": sku, "price": price, "unit": unit}, d.operator)
d.must("POST", "/v1/admin/topups", {"project": "alice", "amount": "50"}, d.operator)
secret = d.must("POST", "/v1/admin/nodes", {"name": "n1"}, d.operator)["token"]
node = FakeNode(d, secret)
d.must("POST", "/v1/images", {"name": "base", "source": "recipe:base", "default": True}, d.operator)


class Stream:
    """A followed stream in a thread of its own; records come out of a queue, None at the end."""

    def __init__(self, path, token, last=None):
        self.records = queue.Queue()
        self.sock = socket.create_connection(("127.0.0.1", d.port), 30)
        head = f"GET {path} HTTP/1.0\r\nHost: x\r\nAuthorization: Bearer {token}\r\n"
        self.sock.sendall((head + (f"Last-Event-ID: {last}\r\n" if last else "") + "\r\n").encode())
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        data = b""
        try:
            while True:
                piece = self.sock.recv(65536)
                if not piece:
                    break
                data += piece
                while b"\n\n" in data:
                    block, data = data.split(b"\n\n", 1)
                    fields = dict(l.split(": ", 1) for l in block.decode().splitlines() if ": " in l)
                    if "data" in fields:
                        self.records.put((fields["id"], fields["event"], json.loads(fields["data"])))
        except OSError:
            pass
        self.records.put(None)

    def until(self, event, seconds=10):
        """The records up to one of this kind."""
        got, end = [], time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                r = self.records.get(timeout=max(0.01, end - time.monotonic()))
            except queue.Empty:
                break
            if r is None:
                break
            got.append(r)
            if r[1] == event:
                return got
        return got + [("", "missing: " + event, {})]

    def ended(self, seconds=10):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                if self.records.get(timeout=0.2) is None:
                    return True
            except queue.Empty:
                pass
        return False


end = time.monotonic() + 10
while time.monotonic() < end and d.must("GET", "/v1/images", token=d.alice)["items"][0]["state"] != "ready":
    time.sleep(0.1)
seat = {"cpu": 1, "memory": "1GiB", "for": "1h", "name": "s"}

# --- events ----------------------------------------------------------------------------------------
mine, theirs = Stream("/v1/events?follow=true", d.alice), Stream("/v1/events?follow=true", d.bob)
begin = time.monotonic()
d.must("POST", "/v1/instances", seat, d.alice)
story = mine.until("instance.running")
tap.equal(story[-1][1], "instance.running", "events come as they happen")
tap.ok(time.monotonic() - begin < 3, f"within moments ({time.monotonic() - begin:.2f} s)")
ids = [int(i) for i, _, _ in story]
tap.ok(ids == sorted(set(ids)), "each once and in order", ids)
tap.ok(all(str(e["id"]) == i and e["kind"] == k for i, k, e in story), "the record says the same as its frame", story)
d.stop(signal.SIGKILL)
d.start()
node.stop()
node = FakeNode(d, secret, boot=node.boot, seen=node.seen)
resumed = Stream("/v1/events?follow=true", d.alice, last=story[-2][0])
again = resumed.until("instance.running")
tap.equal([r[0] for r in again], [story[-1][0]], "after a crash it goes on exactly there")
tap.ok(theirs.records.qsize() == 0 or theirs.ended(), "others saw nothing of it")
chinese = d.call("GET", "/v1/events", token=d.alice, headers={"Accept-Language": "zh-CN"}).raw.decode()
tap.ok("s 正在" in chinese or "s 已" in chinese or any("\u4e00" <= c <= "\u9fff" for c in chinese), "in the reader's language", chinese)

# --- output ----------------------------------------------------------------------------------------
lease = d.must("GET", "/v1/instances/s", token=d.alice)["lease"]
end = time.monotonic() + 10
while time.monotonic() < end and lease not in node.leases:
    time.sleep(0.1)
out = Stream("/v1/instances/s/logs?follow=true", d.alice)
node.say(lease, b"one\n")
first = out.until("log")
tap.ok(first[-1][2]["text"] == "one\n" and first[-1][2]["from"] == 0, "output comes as it grows", first)
node.say(lease, "二\n".encode()[:2])
node.say(lease, "二\n".encode()[2:])
text, end = "", time.monotonic() + 5
while "\n" not in text and time.monotonic() < end:
    text += "".join(r[2].get("text", "") for r in out.until("log", 3))
tap.equal(text, "二\n", "a character that was cut comes whole")
whole = d.call("GET", "/v1/instances/s/logs", token=d.alice, headers={"Last-Event-ID": first[-1][0]}).raw.decode()
tap.ok("二" in whole and "one" not in whole, "output resumes by byte", whole)
big = (b"x" * 99 + b"\n") * 5000
node.say(lease, big)
got, end = 0, time.monotonic() + 10
while got < len(big) and time.monotonic() < end:
    got += sum(len(r[2].get("text", "")) for r in out.until("log", 3))
tap.equal(got, len(big), "half a megabyte comes whole")

# --- what a waiting node is told -------------------------------------------------------------------
subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", d.path("k")], check=True)
line = open(d.path("k.pub")).read().strip()
node.stop()
sync = lambda wait: d.call("POST", "/v1/node/sync", node.report(wait), secret, key=False, timeout=30)
for _ in range(3):
    node.act(sync(0).json)


def told(change):
    """Seconds until a held request was answered after the change, and the keys of the lease in it."""
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        held = pool.submit(sync, 15000)
        time.sleep(0.4)
        begin = time.monotonic()
        change()
        r = held.result(30)
        node.act(r.json)
        return time.monotonic() - begin, next(l["keys"] for l in r.json["leases"] if l["lease"] == lease)


took, keys = told(lambda: d.must("POST", "/v1/keys", {"public_key": line, "name": "k"}, d.alice))
tap.ok(took < 2 and any(k.startswith(line.split()[0] + " " + line.split()[1]) for k in keys),
       f"a new key reaches the node of a running instance at once ({took:.2f} s)", keys)
took, keys = told(lambda: d.must("DELETE", "/v1/keys/k", token=d.alice))
tap.ok(took < 2 and not keys, f"and a removed one leaves it ({took:.2f} s)", keys)
d.must("POST", "/v1/keys", {"public_key": line, "name": "k"}, d.bob)
took, keys = told(lambda: d.must("PUT", "/v1/projects/alice/members/bob", {"role": "member"}, d.alice))
tap.ok(took < 2 and len(keys) == 1, f"a new member's key comes with him ({took:.2f} s)", keys)
took, keys = told(lambda: d.must("PUT", "/v1/projects/alice/members/bob", {"role": "none"}, d.alice))
tap.ok(took < 2 and not keys, f"and goes with him ({took:.2f} s)", keys)

# --- the end ---------------------------------------------------------------------------------------
node = FakeNode(d, secret, boot=node.boot, seen=node.seen)
d.must("POST", "/v1/instances/s/release", {}, d.alice)
tap.ok(out.ended(20), "followed output ends with its instance")
tap.equal(d.stop(), 0, "clean stop")
node.stop()
tap.done()
