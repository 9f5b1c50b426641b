#!/usr/bin/env python3
"""The agent against a control plane made here and a root helper that only remembers (fake_node):
test_agent.py FAKE_NODE. Every promise of docs/node-protocol.md that the agent alone can keep."""
import base64, json, os, shutil, socketserver, ssl, subprocess, sys, tempfile, threading, time
from http.server import BaseHTTPRequestHandler

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import signing

FAKE = sys.argv[1]
FULL = os.environ.get("SUANLI_LONG") == "1"
DIGEST = "sha256:" + "a" * 64
GRACE = 300


def boot_ms():
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * 1000)


class Control:
    """Keeps what is wanted and what was told; answers like suanlid."""

    def __init__(self, path, tls=False):
        self.path, self.lock = path, threading.Condition()
        self.leases, self.disks, self.images, self.kill = {}, {}, {}, []
        self.version, self.cut, self.last, self.count = 1, False, None, 0
        self.slices, self.conflicts, self.ended, self.logs, self.running_seen = {}, [], {}, {}, set()
        self.unknown, self.resolve, self.resolved = [], [], []
        self.say = None  # (status, body) instead of the truth
        control = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                at = boot_ms()
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if control.cut:
                    self.close_connection = True
                    return
                if control.say is not None:
                    status, data = control.say
                    self.send_response(status)
                    self.send_header("Content-Length", str(len(data)))
                    self.end_headers()
                    self.wfile.write(data)
                    return
                assert self.headers["Authorization"] == "Bearer secret"
                answer = control.sync(body, at)
                if answer is None:
                    self.close_connection = True
                    return
                data = json.dumps(answer).encode()
                try:
                    self.send_response(200)
                    self.send_header("Content-Length", str(len(data)))
                    self.end_headers()
                    self.wfile.write(data)
                except (BrokenPipeError, ConnectionResetError):
                    pass

            def log_message(self, *a):
                pass

        base = socketserver.TCPServer if tls else socketserver.UnixStreamServer

        class Server(socketserver.ThreadingMixIn, base):
            daemon_threads = True

            def handle_error(self, *a):
                pass

        self.server = Server(("127.0.0.1", 0) if tls else path, Handler)
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(path + ".crt", path + ".key")
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def sync(self, body, at):
        with self.lock:
            self.take(body)
            end = time.monotonic() + body["wait_ms"] / 1000
            mine = self.count
            while body["seen"] == self.version and not self.cut and self.count == mine:
                left = end - time.monotonic()
                if left <= 0 or not self.lock.wait(left):
                    break
            if self.cut:
                return None
            boot = body.get("slices_boot", body["boot"])
            seqs = [s for b, s in self.slices if b == boot]
            leases = []
            for x in self.leases.values():
                y = dict(x)
                for key, name in (("paid_until", "paid_for_ms"), ("ends_at", "ends_in_ms")):
                    t = y.pop(key, None)
                    y[name] = None if t is None else t - at
                leases.append(y)
            kill, self.kill = self.kill, []
            return {"version": self.version, "ack_seq": max(seqs, default=0), "node": "nod_x",
                    "leases": leases, "disks": list(self.disks.values()),
                    "images": list(self.images.values()), "kill_unknown": kill, "resolve": self.resolve}

    def take(self, body):
        self.last, self.count = body, self.count + 1
        self.unknown = [u["lease"] for u in body["unknown"]]
        boot = body.get("slices_boot", body["boot"])
        for s in body["slices"]:
            assert signing.good(body["inventory"]["key"], signing.slice_bytes(boot, s), s["sig"]), s
            known = self.slices.get((boot, s["seq"]))
            if known is None:
                self.slices[boot, s["seq"]] = s
            elif known != s:
                self.conflicts.append((known, s))
        for x in body["leases"]:
            if x["state"] == "running":
                self.running_seen.add(x["lease"])
            if x["state"] == "ended":
                self.ended[x["lease"]] = x
        self.resolved = body["resolved"]
        for x in body["logs"]:
            self.logs[x["lease"]] = base64.b64decode(x["data_b64"]).decode()
        self.lock.notify_all()

    def change(self, f):
        with self.lock:
            f()
            self.version += 1
            self.lock.notify_all()

    def lease(self, name):
        return next((x for x in (self.last or {"leases": []})["leases"] if x["lease"] == name), None)

    def close(self):
        with self.lock:
            self.cut = True
            self.lock.notify_all()
        self.server.shutdown()
        self.server.server_close()


class Rig:
    def __init__(self, gpu="none", tls=False, other_ca=False):
        self.dir = tempfile.mkdtemp(prefix="suanli-agent-")
        os.makedirs(self.dir + "/state/agent/staging")
        open(self.dir + "/token", "w").write("secret\n")
        self.knobs = self.dir + "/knobs"
        where, ca = f"unix:{self.dir}/ctl", ""
        if tls:
            for name in ("ctl", "other"):
                subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                                "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1", "-addext",
                                "subjectAltName=IP:127.0.0.1", "-keyout", f"{self.dir}/{name}.key", "-out",
                                f"{self.dir}/{name}.crt"], check=True, stderr=subprocess.DEVNULL)
            ca = f"ca_file = {self.dir}/{'other' if other_ca else 'ctl'}.crt\n"
        self.control = Control(self.dir + "/ctl", tls)
        if tls:
            where = f"https://127.0.0.1:{self.control.server.server_address[1]}"
        open(self.dir + "/conf", "w").write(
            f"state = {self.dir}/state\ncontrol = {where}\ntoken_file = {self.dir}/token\n{ca}"
            f"gpu = {gpu}\ngpu_knobs = {self.knobs}\nslice_s = 2\n")
        self.events, self.n = [], 0
        self.err = open(self.dir + "/log", "w")
        self.p = subprocess.Popen([FAKE, self.dir + "/conf"], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, stderr=self.err, text=True)
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.p.stdout:
            self.events.append(json.loads(line))

    def do(self, text):
        self.p.stdin.write(text + "\n")
        self.p.stdin.flush()

    def seen(self, op, id=None):
        return [e for e in self.events if e["op"] == op and (id is None or e["id"] == id)]

    def wait(self, what, f, seconds=15):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            v = f()
            if v:
                return v
            time.sleep(0.02)
        raise AssertionError(f"waited {seconds} s for: {what}; last={json.dumps(self.control.last)[:1500]}"
                             f" events={self.events[-12:]}")

    def rent(self, for_s=600, ends_s=None, **more):
        self.n += 1
        lease, disk = f"lea_{self.n}", f"dsk_{self.n}"

        def f():
            now = boot_ms()
            self.control.images[DIGEST] = {"digest": DIGEST, "source": "recipe:base", "want": "present"}
            self.control.disks[disk] = {"disk": disk, "instance": f"ins_{self.n}", "size_mib": 100,
                                        "want": "present"}
            x = {"lease": lease, "instance": f"ins_{self.n}", "name": "exp", "epoch": 1, "want": "run",
                 "grace_ms": GRACE, "image": DIGEST, "cpu_milli": 1000, "memory_mib": 64,
                 "pids_max": 100, "gpus": [], "system_disk": disk, "data": [], "argv": [], "env": [],
                 "ports": [{"guest": 22, "host": 20001}], "keys": ["ssh-ed25519 AAAA me"],
                 "idle_s": 0, "paid_until": now + for_s * 1000,
                 "ends_at": None if ends_s is None else now + int(ends_s * 1000)}
            x.update(more)
            self.control.leases[lease] = x
        self.control.change(f)
        return lease

    def running(self, lease):
        return self.wait("running", lambda: lease in self.control.running_seen)

    def stop(self, lease, **more):
        self.control.change(lambda: self.control.leases[lease].update(
            {"want": "stop", "reason": "user_stop", **more}))

    def clean_end(self, lease, seconds=15):
        return self.wait("clean end", lambda: (self.control.ended.get(lease) or {}).get("clean")
                         and self.control.ended[lease], seconds)

    def settled(self, lease, seconds=15):
        """Ended, clean, all evidence told; then the control plane forgets it and so does the node."""
        x = self.clean_end(lease, seconds)
        self.wait("all slices", lambda: self.cover(lease) is not None, seconds)
        self.control.change(lambda: self.control.leases.pop(lease, None))
        self.wait("forgotten", lambda: self.control.lease(lease) is None, seconds)
        return x

    def cover(self, lease):
        """(live ms, slices) when the slices cover ready to end whole; None while some are missing."""
        x = self.control.ended[lease]
        slices = sorted((s for s in self.control.slices.values() if s["lease"] == lease),
                        key=lambda s: s["t0"])
        if not x["ready_boot_ms"]:
            assert not slices, "slices of a lease that never ran"
            return 0, []
        t = x["ready_boot_ms"]
        for s in slices:
            assert s["t0"] >= t, f"overlap at {s} after {t}"
            if s["t0"] > t:
                return None
            assert 0 < s["t1"] - s["t0"] <= 10000
            t = s["t1"]
        if t < x["ended_boot_ms"]:
            return None
        assert t == x["ended_boot_ms"], (t, x["ended_boot_ms"])
        return sum(s["t1"] - s["t0"] for s in slices if s["state"] == "running"), slices

    def close(self):
        assert not self.control.conflicts, self.control.conflicts[:1]
        assert not self.seen("START_WITHOUT_DISK")
        try:
            self.do("quit")
            self.p.wait(10)
        finally:
            self.p.kill()
            self.control.close()
            shutil.rmtree(self.dir)


# ---- tests ----

def life_of_a_lease(r):
    lease = r.rent()
    r.running(lease)
    x = r.control.lease(lease)
    assert x["host_key"] == "ssh-ed25519 AAAAfake" and x["ports"] == [{"guest": 22, "host": 20001}], x
    assert 0 < x["run_for_ms"] <= 600000, x
    ops = [e["op"] for e in r.events]
    assert ops.index("disk_made") < ops.index("started") and ops.index("image_imported") < ops.index("started")
    assert r.wait("keys", lambda: r.seen("keys_set", lease)) and r.seen("report", lease)
    time.sleep(3)
    r.stop(lease)
    x = r.settled(lease)
    assert x["end"] == "user_stop" and x["report"]["memory_mib"] is None or x["report"], x
    live, slices = r.cover(lease)
    assert live == x["ended_boot_ms"] - x["ready_boot_ms"]
    assert abs(sum(s["cpu_us"] for s in slices) - live * 500) < 1200000, slices
    assert len(r.seen("started", lease)) == 1


def the_end_comes_with_the_control_plane_and_the_agent_gone(r):
    lease = r.rent(ends_s=4)
    r.running(lease)
    ends = r.control.leases[lease]["ends_at"]
    r.control.cut = True
    with r.control.lock:
        r.control.lock.notify_all()
    r.do("down")
    ended = r.wait("ended", lambda: r.seen("ended", lease), 8)[0]
    assert ends - 1000 <= ended["boot_ms"] <= ends, (ends, ended)
    time.sleep(0.5)
    r.do("up")
    r.control.cut = False
    x = r.settled(lease, 40)
    assert x["end"] == "end_reached", x
    live, _ = r.cover(lease)
    assert live == x["ended_boot_ms"] - x["ready_boot_ms"]


def paid_time_is_the_bound_when_nobody_renews_it(r):
    lease = r.rent(for_s=3, ends_s=100)
    r.running(lease)
    paid = r.control.leases[lease]["paid_until"]
    x = r.settled(lease)
    assert x["end"] == "balance", x
    assert paid - 1000 <= x["ended_boot_ms"] <= paid, (paid, x)


def a_renewed_term_moves_the_end_at_once(r):
    lease = r.rent(for_s=3)
    r.running(lease)
    r.control.change(lambda: r.control.leases[lease].update({"paid_until": boot_ms() + 60000}))
    r.wait("deadline", lambda: [e for e in r.seen("deadline", lease) if e["hard"] > boot_ms() + 50000])
    time.sleep(3.5)
    assert not r.seen("ended", lease)
    n = len(r.seen("deadline", lease))
    time.sleep(3)
    assert len(r.seen("deadline", lease)) <= n + 2, "the same end is pushed again and again"
    r.stop(lease)
    r.settled(lease)


def an_idle_seat_is_stopped_without_the_control_plane(r):
    r.do("cpu 0")
    lease = r.rent(idle_s=6)
    r.running(lease)
    r.control.cut = True
    with r.control.lock:
        r.control.lock.notify_all()
    time.sleep(1)
    r.do("kill")
    ended = r.wait("ended", lambda: r.seen("ended", lease), 20)[0]
    notices = r.seen("notice", lease)
    assert notices and notices[0]["boot_ms"] < ended["boot_ms"], notices
    r.control.cut = False
    x = r.settled(lease, 40)
    assert x["end"] == "idle", x
    r.do("cpu 500")


def evidence_goes_on_while_the_agent_is_away(r):
    lease = r.rent()
    r.running(lease)
    time.sleep(1.2)
    r.do("down")
    time.sleep(3)
    r.do("up")
    time.sleep(1.5)
    r.stop(lease)
    x = r.settled(lease)
    live, _ = r.cover(lease)
    assert live == x["ended_boot_ms"] - x["ready_boot_ms"]


def a_guest_that_exits_is_told_with_its_code(r):
    lease = r.rent()
    r.running(lease)
    r.do(f"exit {lease} 3")
    x = r.settled(lease)
    assert x["end"] == "guest_exit" and x["exit_code"] == 3, x


def a_guest_whose_guard_died_ends_as_lost(r):
    lease = r.rent()
    r.running(lease)
    time.sleep(1.1)
    r.do(f"guard {lease}")
    x = r.settled(lease)
    assert x["end"] == "node_lost", x


def a_missing_image_fails_the_lease_before_it_runs(r):
    other = "sha256:" + "b" * 64
    r.control.images[other] = {"digest": other, "source": "docker://missing", "want": "present"}
    lease = r.rent(image=other)
    x = r.settled(lease)
    assert x["end"] == "start_failed" and x["error"]["code"] == "image_not_found", x
    assert not r.seen("started", lease) and not x["ready_boot_ms"]
    del r.control.images[other]


def a_failed_start_is_told_with_its_cause(r):
    r.do("fail guest_start 1")
    lease = r.rent()
    x = r.settled(lease)
    assert x["end"] == "start_failed" and x["error"]["code"] == "runtime", x


def a_failed_disk_is_told_with_its_cause(r):
    r.do("fail disk_ensure 1")
    lease = r.rent()
    x = r.settled(lease)
    assert x["end"] == "start_failed" and x["error"]["code"] == "runtime", x
    assert not r.seen("started", lease)


def a_source_without_a_digest_is_looked_up_and_taken_in(r):
    r.control.change(lambda: r.control.resolve.extend(["recipe:base", "docker://missing/x"]))
    row = r.wait("digest", lambda: next((x for x in r.control.resolved if x["digest"]), None))
    assert row == {"source": "recipe:base", "digest": "sha256:" + "c" * 64, "error": None}, row
    bad = r.wait("error", lambda: next((x for x in r.control.resolved if x["error"]), None))
    assert bad["error"]["code"] == "image_not_found" and bad["digest"] is None, bad
    r.control.change(lambda: (r.control.resolve.clear(), r.control.images.update(
        {row["digest"]: {"digest": row["digest"], "source": "recipe:base", "want": "present"}})))
    r.wait("ready", lambda: [i for i in r.control.last["images"]
                             if i["digest"] == row["digest"] and i["state"] == "ready"])
    assert len(r.seen("image_imported", row["digest"])) == 1
    r.wait("staging empty", lambda: not os.listdir(r.dir + "/state/agent/staging"))


def unknown_guests_are_told_and_left_alone(r):
    r.do("plant lea_stranger")
    r.do("kill")
    r.wait("unknown", lambda: "lea_stranger" in r.control.unknown)
    time.sleep(1)
    assert not r.seen("stop", "lea_stranger")
    r.control.change(lambda: r.control.kill.append("lea_stranger"))
    r.wait("gone", lambda: r.seen("cleaned", "lea_stranger"))
    r.wait("told", lambda: "lea_stranger" not in r.control.unknown)


def a_lease_that_is_no_longer_named_is_not_touched(r):
    lease = r.rent()
    r.running(lease)
    kept = r.control.leases[lease]
    r.control.change(lambda: r.control.leases.pop(lease))
    r.wait("unknown", lambda: lease in r.control.unknown)
    time.sleep(1)
    assert not r.seen("stop", lease)
    r.control.change(lambda: r.control.leases.update({lease: kept}))
    r.wait("named", lambda: lease not in r.control.unknown)
    r.stop(lease)
    r.settled(lease)
    assert len(r.seen("started", lease)) == 1


def an_ended_lease_never_starts_again(r):
    lease = r.rent()
    r.running(lease)
    kept = dict(r.control.leases[lease])
    r.stop(lease)
    r.settled(lease)
    r.do("kill")
    r.control.change(lambda: r.control.leases.update({lease: kept}))
    r.control.ended.pop(lease)
    r.wait("told as ended", lambda: r.control.ended.get(lease))
    time.sleep(0.5)
    assert len(r.seen("started", lease)) == 1
    r.control.change(lambda: r.control.leases.pop(lease))


def a_lower_epoch_is_ignored(r):
    lease = r.rent(epoch=5)
    r.running(lease)
    r.control.change(lambda: r.control.leases[lease].update({"epoch": 4, "want": "kill"}))
    time.sleep(1.5)
    assert not r.seen("stop", lease)
    r.stop(lease, epoch=5)
    r.settled(lease)


def disks_are_erased_told_and_forgotten(r):
    lease = r.rent()
    disk = f"dsk_{r.n}"
    r.running(lease)
    r.control.change(lambda: r.control.disks[disk].update({"want": "erased"}))
    time.sleep(0.5)
    assert not r.seen("erase", disk), "an attached disk is not erased"
    r.stop(lease)
    r.settled(lease)
    told = r.wait("erased", lambda: next((d for d in r.control.last["disks"] if d["disk"] == disk
                                          and d["state"] == "erased"), None))
    assert told["erase"]["method"] == "basic" and told["erase"]["bytes"] == 4096, told
    r.control.change(lambda: r.control.disks.pop(disk))
    r.wait("forgotten", lambda: r.seen("disk_forgotten", disk) and r.seen("instance_forget"))


def a_full_disk_is_noticed(r):
    lease = r.rent()
    r.running(lease)
    before = len(r.seen("notice", lease))
    r.do("used 96")
    r.wait("notice", lambda: len(r.seen("notice", lease)) > before, 25)
    r.do("used 10")
    r.stop(lease)
    r.settled(lease)


def output_is_pumped_when_wanted(r):
    r.do("log hello-from-the-guest")
    lease = r.rent(want_logs=True)
    r.wait("log", lambda: r.control.logs.get(lease) == "hello-from-the-guest")
    text = "hello-from-the-guest"
    for more in ("-and-more", "-and-on", "-and-on-it-goes"):  # while nothing new is wanted of the node
        text += more
        r.do("log " + text)
        r.wait("the log goes on", lambda: r.control.logs.get(lease) == more, 6)
    r.wait("evidence is acknowledged", lambda: len(r.control.last["slices"]) < 3, 6)
    r.stop(lease)
    r.settled(lease)


def a_lost_card_stops_the_evidence(r):
    card = r.wait("card", lambda: (r.control.last or {}).get("inventory", {}).get("gpus"))[0]
    assert card["simulated"] and r.control.last["inventory"]["simulated"]
    lease = r.rent(gpus=[card["uuid"]], gpu_model="RTX 4090", gpu_memory_mib=24564, simulated=True)
    r.running(lease)
    assert r.control.lease(lease)["report_ok"] is True, r.control.lease(lease)["report"]
    time.sleep(2.2)
    open(r.knobs, "w").write("0 lost 1\n")
    r.wait("told", lambda: not r.control.lease(lease)["gpus_ok"])
    time.sleep(3)
    open(r.knobs, "w").write("0 util 50\n")
    r.wait("told", lambda: r.control.lease(lease)["gpus_ok"])
    time.sleep(2.2)
    r.stop(lease)
    x = r.settled(lease)
    live, slices = r.cover(lease)
    gap = x["ended_boot_ms"] - x["ready_boot_ms"] - live
    assert 2500 < gap < 6500, gap
    assert any(s["state"] == "void" and s["gpus_ok"] == 0 for s in slices)
    os.unlink(r.knobs)


def a_card_that_is_not_what_is_paid_for_is_reported(r):
    card = r.control.last["inventory"]["gpus"][0]
    lease = r.rent(gpus=[card["uuid"]], gpu_model="H100", gpu_memory_mib=80000, simulated=True)
    r.running(lease)
    x = r.control.lease(lease)
    assert x["report_ok"] is False and x["report"]["gpus"][0]["ok"] is False, x
    r.stop(lease)
    r.settled(lease)


def killed_at_any_request_nothing_is_lost_or_doubled(r):
    step = 1 if FULL else 9
    r.do("slow 10")
    for kind in ("killat", "killafter"):
        for n in range(0, 75, step):
            r.do(f"{kind} {n}")
            lease = r.rent()
            r.running(lease)
            r.stop(lease, grace_ms=10)
            x = r.settled(lease, 20)
            assert x["end"] == "user_stop", x
            assert len(r.seen("started", lease)) == 1, (kind, n)
            r.do(f"{kind} -1")


def nonsense_from_the_control_plane_changes_nothing(r):
    lease = r.rent()
    r.running(lease)
    for say in ((401, b"{}"), (200, b"not json"), (200, b'{"version":1}'), (500, b""), (200, b"x" * 100000)):
        r.control.say = say
        with r.control.lock:
            r.control.lock.notify_all()
        time.sleep(1)
    assert not r.seen("stop", lease) and not r.seen("ended", lease)
    r.control.say = None
    n = r.control.count
    r.wait("back", lambda: r.control.count > n + 1, 40)
    r.stop(lease)
    r.settled(lease)


def the_link_works_over_tls_with_our_own_certificate(_):
    r = Rig(tls=True)
    r.wait("first word", lambda: r.control.last)
    lease = r.rent()
    r.running(lease)
    r.stop(lease)
    r.settled(lease)
    r.close()


def a_stranger_at_the_other_end_hears_nothing(_):
    r = Rig(tls=True, other_ca=True)
    time.sleep(3)
    assert r.control.last is None and "not reached" in open(r.dir + "/log").read()
    r.close()


TESTS = [life_of_a_lease, the_end_comes_with_the_control_plane_and_the_agent_gone,
         paid_time_is_the_bound_when_nobody_renews_it, a_renewed_term_moves_the_end_at_once,
         an_idle_seat_is_stopped_without_the_control_plane, evidence_goes_on_while_the_agent_is_away,
         a_guest_that_exits_is_told_with_its_code, a_guest_whose_guard_died_ends_as_lost,
         a_missing_image_fails_the_lease_before_it_runs, a_failed_start_is_told_with_its_cause,
         a_failed_disk_is_told_with_its_cause,
         a_source_without_a_digest_is_looked_up_and_taken_in, unknown_guests_are_told_and_left_alone,
         a_lease_that_is_no_longer_named_is_not_touched, an_ended_lease_never_starts_again,
         a_lower_epoch_is_ignored, disks_are_erased_told_and_forgotten, a_full_disk_is_noticed,
         output_is_pumped_when_wanted, nonsense_from_the_control_plane_changes_nothing,
         the_link_works_over_tls_with_our_own_certificate, a_stranger_at_the_other_end_hears_nothing, killed_at_any_request_nothing_is_lost_or_doubled]
GPU_TESTS = [a_lost_card_stops_the_evidence, a_card_that_is_not_what_is_paid_for_is_reported]


def main():
    only = sys.argv[2:]
    plan = [(t, "none") for t in TESTS] + [(t, "sim:2*RTX 4090:24564") for t in GPU_TESTS]
    plan = [(t, g) for t, g in plan if not only or t.__name__ in only]
    print(f"1..{len(plan)}", flush=True)
    rigs, failed = {}, False
    for i, (test, gpu) in enumerate(plan, 1):
        if gpu not in rigs:
            rigs[gpu] = Rig(gpu)
        r = rigs[gpu]
        name = test.__name__.replace("_", " ")
        try:
            test(r)
            assert not r.seen("agent_died"), r.seen("agent_died")
            print(f"ok {i} - {name}", flush=True)
        except Exception as e:
            failed = True
            print(f"not ok {i} - {name}", flush=True)
            for line in (f"{type(e).__name__} line {e.__traceback__.tb_next.tb_lineno if e.__traceback__.tb_next else 0}: {e}"
                         + "\nlog: " + "".join(open(r.dir + "/log").readlines()[-12:])).split("\n"):
                print("# " + line[:3000], flush=True)
            # a rig in an unknown state proves nothing about the next test
            r.p.kill()
            r.control.close()
            shutil.rmtree(r.dir)
            del rigs[gpu]
    for r in rigs.values():
        r.close()
    sys.exit(1 if failed else 0)


main()
