"""A node that keeps docs/node-protocol.md and nothing else: what is wanted there is there at once.
For tests of the control plane alone; real guests are the business of tests/node and tests/e2e."""
import base64, hashlib, json, os, sys, threading, time, uuid

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import signing


def boot_ms():
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * 1000)


class FakeNode:
    DIGEST = "sha256:" + "ab" * 32

    def __init__(self, daemon, token, gpus=2, boot=None, unknown=(), seen=0):
        self.daemon, self.token, self.gpus = daemon, token, gpus
        self.boot = boot or uuid.uuid4().hex
        self.seq, self.seen = 0, seen
        # of the node, not of its boot; None: an old version that does not sign
        self.key = signing.Key(hashlib.sha256(token.encode()).digest())
        self.leases, self.disks, self.images, self.resolved = {}, {}, {}, {}
        self.slices, self.logs, self.unknown, self.killed = [], [], list(unknown), []
        self.gpu_memory_mib = 10  # of all cards of a lease, as its slices tell
        self.hold = False      # True: guests stay "preparing"
        self.stopping = False
        self.fault = None
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def stop(self):
        self.stopping = True
        self.thread.join(10)

    def say(self, lease, text):
        at = self.leases[lease]
        self.logs.append({"lease": lease, "from": at["said"], "data_b64": base64.b64encode(text).decode()})
        at["said"] += len(text)

    def inventory(self):
        return {**({"key": self.key.hex} if self.key else {}), "hostname": "fake", "cores": 16, "memory_mib": 65536, "disk_mib": 500000, "disk_free_mib": 400000,
                "kernel": "6.1", "runtime": "crun", "cgroup": "v2", "simulated": True, "driver": "550.54",
                "cuda": "12.4", "online_grow": True, "nat_out": True, "ssh_host": "127.0.0.1", "port_min": 20000,
                "port_max": 20999,
                "gpus": [{"uuid": f"GPU-fake-{i}", "model": "RTX 4090", "memory_mib": 24564, "simulated": True,
                          "healthy": True, "util_pct": 0, "power_w": 60, "temp_c": 40, "ecc_errors": 0}
                         for i in range(self.gpus)]}

    def report(self, wait_ms):
        now = boot_ms()
        for lease, at in self.leases.items():
            if at["state"] == "running" and now - at["slice_from"] >= 1000:
                self.seq += 1
                self.slices.append({"seq": self.seq, "lease": lease, "epoch": at["epoch"], "state": "running",
                                    "t0": at["slice_from"], "t1": min(now, at["slice_from"] + 10000), "cpu_us": 5,
                                    "memory_bytes": 1, "rx_bytes": 1, "tx_bytes": 1, "disk_used_mib": 1,
                                    "gpu_util_pct": 50, "gpu_memory_mib": self.gpu_memory_mib, "gpus_ok": 1})
                if self.key:
                    self.slices[-1]["sig"] = self.key.sign(signing.slice_bytes(self.boot, self.slices[-1]))
                at["slice_from"] = self.slices[-1]["t1"]
        return {"proto": 1, "boot": self.boot, "boot_ms": now, "seen": self.seen, "wait_ms": wait_ms, "full": True,
                "inventory": self.inventory(),
                "leases": [{k: v for k, v in at.items() if k not in ("slice_from", "said")}
                           for at in self.leases.values()],
                "disks": list(self.disks.values()), "images": list(self.images.values()),
                "resolved": [{"source": s, "digest": g} for s, g in self.resolved.items()],
                "unknown": self.unknown, "strays": [], "slices": self.slices[:200], "logs": self.logs}

    def act(self, want):
        self.seen = want["version"]
        self.slices = [s for s in self.slices if s["seq"] > want["ack_seq"]]
        for l in want["leases"]:
            at = self.leases.setdefault(l["lease"], {
                "lease": l["lease"], "instance": l["instance"], "epoch": l["epoch"], "state": "preparing", "step": 1,
                "step_count": 5, "detail": "image", "pid": 1, "ready_boot_ms": None, "ended_boot_ms": None,
                "end": None, "exit_code": None, "error": None, "host_key": "ssh-ed25519 AAAA", "ports": l["ports"],
                "report_ok": True, "clean": False, "slice_from": 0, "said": 0})
            self.lease(at, l)
        for d in want["disks"]:
            at = self.disks.setdefault(d["disk"], {"disk": d["disk"], "state": "ready", "used_mib": 1})
            at["size_mib"] = d["size_mib"]
            if d["want"] == "erased":
                at.update(state="erased", erase={"method": "basic", "bytes": 4096, "ms": 3})
        for i in want["images"]:
            self.images[i["digest"]] = {"digest": i["digest"], "state": "ready", "bytes": 1000}
        self.resolved = {s: self.DIGEST for s in want.get("resolve", [])}
        self.killed += want["kill_unknown"]
        self.unknown = [u for u in self.unknown if u["lease"] not in self.killed]

    def lease(self, at, l):
        now = boot_ms()
        if l["want"] == "run" and at["state"] == "preparing" and not self.hold:
            at.update(state="running", ready_boot_ms=now, slice_from=now, step=5)
        elif l["want"] in ("stop", "kill") and at["state"] != "ended":
            at.update(state="ended", ended_boot_ms=now, end=l["reason"] or "user_stop", exit_code=0, clean=True)
        elif l["want"] == "clean":
            at.update(state="ended", clean=True, ended_boot_ms=at["ended_boot_ms"] or now)

    def run(self):
        while not self.stopping:
            try:
                said = len(self.logs)
                r = self.daemon.call("POST", "/v1/node/sync", self.report(500), self.token, key=False, timeout=10)
                if r.status == 200:
                    self.logs = self.logs[said:]
                    self.act(r.json)
                else:
                    self.fault = repr(r)
                    time.sleep(0.1)
            except OSError as e:
                self.fault = repr(e)
                time.sleep(0.1)
