#!/usr/bin/env python3
"""Images: import, owners, refusals of hostile layers, nothing half. test_image.py DRV"""
import gzip, hashlib, io, json, os, platform, signal, stat, subprocess, sys, tarfile, time
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import rig
from rig import drv, sh, as_ids

L1, L2 = "lea_11111111111111", "lea_22222222222222"
ARCH = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
state = canary = None
count = 0


def setup():
    global state, canary
    if state:
        return
    pool = f"{rig.tmp}/pool"
    os.mkdir(pool)
    sh(f"truncate -s 700M {rig.tmp}/pool.img && mkfs.ext4 -q {rig.tmp}/pool.img && mount -o loop {rig.tmp}/pool.img {pool}")
    state = f"{pool}/state"
    if drv(state, "image-driver").driver == "none":
        rig.skip("this kernel has no EROFS")
    canary = f"{rig.tmp}/canary"
    with open(canary, "w") as f:
        f.write("alive")
    os.chmod(canary, 0o666)


def entry(name, data=b"", **kw):
    t = tarfile.TarInfo(name)
    t.size, t.mode = len(data), 0o644
    for k, v in kw.items():
        setattr(t, k, v)
    return t, data


def folder(name, mode=0o755, **kw):
    return entry(name, type=tarfile.DIRTYPE, mode=mode, **kw)


def link(name, to, hard=False):
    return entry(name, type=tarfile.LNKTYPE if hard else tarfile.SYMTYPE, linkname=to)


def tar(*entries, format=tarfile.PAX_FORMAT):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=format) as t:
        for info, data in entries:
            t.addfile(info, io.BytesIO(data) if data else None)
    return out.getvalue()


def layout(*layers, arch=ARCH, config=None, compress=gzip.compress, diff_ids=None):
    """An OCI layout of these tars in the staging folder: (digest, name)."""
    global count
    setup()
    drv(state, "image-driver")
    count += 1
    name = f"img{count}"
    blobs = f"{state}/agent/staging/{name}/blobs/sha256"
    os.makedirs(blobs)

    def put(data):
        d = hashlib.sha256(data).hexdigest()
        with open(f"{blobs}/{d}", "wb") as f:
            f.write(data)
        return {"digest": "sha256:" + d, "size": len(data)}
    conf = put(json.dumps({"architecture": arch, "os": "linux", "config": config or {"Env": ["A=b"], "Cmd": ["sh"]},
                           "rootfs": {"type": "layers", "diff_ids": diff_ids or
                                      ["sha256:" + hashlib.sha256(l).hexdigest() for l in layers]}}).encode())
    conf["mediaType"] = "application/vnd.oci.image.config.v1+json"
    descs = []
    for l in layers:
        descs.append(dict(put(compress(l)), mediaType="application/vnd.oci.image.layer.v1.tar+gzip"))
    m = put(json.dumps({"schemaVersion": 2, "config": conf, "layers": descs}).encode())
    with open(f"{state}/agent/staging/{name}/index.json", "w") as f:
        json.dump({"schemaVersion": 2, "manifests": [m]}, f)
    return m["digest"], name


def refused(*layers, code="image_hostile", word=None, limits=(), **kw):
    digest, name = layout(*layers, **kw)
    r = drv(state, "image-import", digest, name, *limits, want=code)
    assert not word or word in r.line, r.line
    nothing_left(digest)
    return r


def nothing_left(digest):
    assert drv(state, "image-stat", digest).state == "none"
    left = [f for f in os.listdir(f"{state}/priv/images") if digest[7:] in f]
    assert not left, left
    assert open(canary).read() == "alive" and os.stat(canary).st_nlink == 1
    assert sorted(os.listdir(rig.tmp)) == before or not before, sorted(os.listdir(rig.tmp))


before = None


def good_layers():
    one = tar(folder("./"), folder("usr"), folder("usr/bin"), folder("etc"), folder("home", uid=1000, gid=1000),
              entry("usr/bin/tool", b"#!/bin/sh\n", mode=0o4755), entry("etc/gone", b"x"), entry("etc/kept", b"kept"),
              link("bin", "usr/bin"), link("usr/bin/same", "usr/bin/tool", hard=True),
              entry("home/own", b"mine", uid=1000, gid=1001), folder("opt"), folder("opt/deep"), entry("opt/deep/f", b"f"),
              entry("etc/" + "long" * 30, b"long name"), link("loop1", "loop2"), link("loop2", "loop1"), link("out", "/etc/passwd"))
    two = tar(folder("etc"), entry("etc/.wh.gone"), folder("opt"), entry("opt/.wh..wh..opq"), entry("opt/new", b"new"))
    return one, two


def test_import_and_mount():
    """an image is imported by digest, mounted with its owners in the lease's range, and config kept"""
    global before
    digest, name = layout(*good_layers())
    os.makedirs(f"{rig.tmp}/m1")
    os.makedirs(f"{rig.tmp}/m2")
    t = time.monotonic()
    drv(state, "image-import", digest, name, want="ok")
    print(f"# import {(time.monotonic() - t) * 1000:.0f} ms, driver {drv(state, 'image-driver').driver}")
    drv(state, "image-import", digest, name, want="ok")
    assert drv(state, "image-stat", digest).state == "ready"
    assert os.stat(f"{state}/priv/images/{digest[7:]}.erofs").st_uid == 0
    assert '"env":["A=b"],"argv":["sh"]' in drv(state, "image-config", digest).json
    for lease, at in ((L1, "m1"), (L2, "m2")):
        base = drv(state, "range-take", lease).base
        root = f"{rig.tmp}/{at}"
        t = time.monotonic()
        drv(state, "image-mount", digest, lease, root, want="ok")
        drv(state, "image-mount", digest, lease, root, want="ok")
        st = os.stat(f"{root}/home/own")
        assert (st.st_uid, st.st_gid) == (base + 1000, base + 1001)
        assert os.stat(f"{root}/usr/bin/tool").st_mode & 0o7777 == 0o4755
        assert os.stat(root).st_uid == base and os.path.isdir(f"{root}/proc") and os.path.isdir(f"{root}/dev")
        assert not os.path.exists(f"{root}/etc/gone") and open(f"{root}/etc/kept").read() == "kept"
        assert os.listdir(f"{root}/opt") == ["new"] and os.readlink(f"{root}/bin") == "usr/bin"
        assert os.stat(f"{root}/usr/bin/same").st_ino == os.stat(f"{root}/usr/bin/tool").st_ino
    drv(state, "image-remove", digest, want="in_use")
    sh(["umount", f"{rig.tmp}/m1"])
    sh(["umount", f"{rig.tmp}/m2"])
    before = sorted(os.listdir(rig.tmp))
    drv(state, "image-remove", digest, want="ok")
    drv(state, "image-remove", digest, want="ok")
    nothing_left(digest)
    drv(state, "image-mount", digest, L1, f"{rig.tmp}/m1", want="image_not_found")


def test_needs():
    """what an image asks of the driver is read from its environment and its labels"""
    env = ["NVIDIA_REQUIRE_CUDA=brand=tesla,driver>=470,driver<471 cuda>=12.4.1", "NVIDIA_REQUIRE_X=driver>=535.54"]
    for config, driver, cuda in (({"Env": env}, "535.54", "12.4.1"),
                                 ({"Env": env, "Labels": {"suanli.need.cuda": "11.8.0"}}, "535.54", "11.8.0"),
                                 ({"Env": env + ["NVIDIA_DISABLE_REQUIRE=1"]}, "", ""), ({"Env": ["A=b"]}, "", "")):
        digest, name = layout(*good_layers(), config=config)
        drv(state, "image-import", digest, name, want="ok")
        r = drv(state, "image-stat", digest)
        assert (r.driver, r.cuda) == (driver, cuda), r.line
        drv(state, "image-remove", digest, want="ok")


def test_plain_and_zstd_layers():
    """uncompressed and zstd layers are taken as well"""
    digest, name = layout(*good_layers(), compress=lambda l: l)
    drv(state, "image-import", digest, name, want="ok")
    drv(state, "image-remove", digest, want="ok")
    if subprocess.run(["sh", "-c", "command -v zstd"], stdout=subprocess.DEVNULL).returncode:
        rig.skip("no zstd here")
    digest, name = layout(*good_layers(), compress=lambda l: subprocess.run(["zstd", "-qc"], input=l, stdout=subprocess.PIPE).stdout)
    drv(state, "image-import", digest, name, want="ok")
    drv(state, "image-remove", digest, want="ok")


def test_digests():
    """a wrong digest, a changed blob, a changed layer and a missing folder are told apart"""
    digest, name = layout(*good_layers())
    r = drv(state, "image-import", "sha256:" + "0" * 64, name, want="image_digest")
    assert "0" * 64 in r.line
    drv(state, "image-import", digest, "nothere", want="image_not_found")
    drv(state, "image-import", digest, "../agent", want="validation")
    drv(state, "image-import", "sha256:../../x", name, want="validation")
    blobs = f"{state}/agent/staging/{name}/blobs/sha256"
    for blob in sorted(os.listdir(blobs)):
        data = open(f"{blobs}/{blob}", "rb").read()
        with open(f"{blobs}/{blob}", "wb") as f:
            f.write(data[:-1] + bytes([data[-1] ^ 1]))
        drv(state, "image-import", digest, name, want="image_digest")
        with open(f"{blobs}/{blob}", "wb") as f:
            f.write(data)
        nothing_left(digest)
    layer = good_layers()[0]
    refused(layer, code="image_digest", diff_ids=["sha256:" + "1" * 64])
    os.rename(f"{blobs}/{digest[7:]}", f"{state}/agent/aside")
    os.symlink(f"{state}/agent/aside", f"{blobs}/{digest[7:]}")
    drv(state, "image-import", digest, name, want="image_hostile")
    refused(layer, code="image_driver", arch="s390x")


def test_paths_that_leave():
    """parent and absolute paths are refused"""
    refused(tar(entry(f"../../../../../../..{canary}", b"dead")), word="leaves")
    refused(tar(entry("a/../../x", b"dead")), word="leaves")
    refused(tar(entry(canary, b"dead")), word="absolute")
    refused(tar(entry("/etc/x", b"dead")), word="absolute")
    long = "../" * 60 + canary
    refused(tar(entry(long, b"dead"), format=tarfile.GNU_FORMAT), word="leaves")
    refused(tar(entry(long, b"dead"), format=tarfile.PAX_FORMAT), word="leaves")


def test_write_through_links():
    """a link followed by an entry below it is refused; over two layers it stays inside the image"""
    refused(tar(link("esc", rig.tmp), entry("esc/canary", b"dead")), word="below a link")
    refused(tar(link("esc", "../../../../.."), entry(f"esc{canary}", b"dead")), word="below a link")
    refused(tar(link("a", "b"), link("b", "a"), entry("a/x", b"dead")), word="below a link")
    refused(tar(link("esc", rig.tmp), entry("esc/.wh.canary")), word="below a link")
    digest, name = layout(tar(link("esc", rig.tmp)), tar(entry("esc/canary", b"dead"), entry("esc/.wh.pool.img")))
    r = drv(state, "image-import", digest, name)
    assert open(canary).read() == "alive" and os.path.exists(f"{rig.tmp}/pool.img"), r.line
    drv(state, "image-remove", digest, want="ok")
    nothing_left(digest)


def test_hard_links():
    """hard links to the machine's files are refused"""
    refused(tar(link("h", canary, hard=True), entry("h", b"dead")), word="hard link")
    refused(tar(link("h", "../../../.." + canary, hard=True)), word="leaves")
    refused(tar(link("esc", rig.tmp), link("h", "esc/canary", hard=True)), word="hard link")
    refused(tar(link("h1", "h2", hard=True), link("h2", "h1", hard=True)))


def test_device_nodes():
    """device nodes are refused, a pipe is not"""
    for kind in (tarfile.CHRTYPE, tarfile.BLKTYPE):
        refused(tar(entry("node", type=kind, devmajor=8, devminor=0)), word="device node")
    digest, name = layout(tar(entry("pipe", type=tarfile.FIFOTYPE)))
    drv(state, "image-import", digest, name, want="ok")
    drv(state, "image-remove", digest, want="ok")


def test_whiteouts():
    """malformed whiteouts are refused"""
    for name in (".wh.", ".wh..", ".wh...", "a/.wh..", ".wh..wh.plnk", ".wh..wh..."):
        refused(tar(folder("a"), entry(name)), word="whiteout")
    refused(tar(folder(".wh.dir")), word="whiteout")
    refused(tar(link(".wh.x", canary)), word="whiteout")


def test_names():
    """names with control characters, too long or too deep are refused"""
    refused(tar(entry("new\nline", b"x")), word="control")
    refused(tar(entry("esc\x1b[2J", b"x")), word="control")
    refused(tar(entry("n" * 300, b"x")), word="long")
    refused(tar(entry("/".join(["d"] * 200), b"x")), word="deep")
    info, data = entry("plain", b"x")
    info.pax_headers = {"path": "a\0b"}
    refused(tar((info, data)))
    gnu = tar(entry("x" * 150, b"x"), format=tarfile.GNU_FORMAT)
    refused(gnu.replace(b"x" * 150, b"x" * 70 + b"\0" + b"x" * 79, 1), word="zero byte")


def test_doubles():
    """an entry that is there twice in one layer is refused, over layers the later one wins"""
    refused(tar(entry("a", b"1"), entry("a", b"2")), word="twice")
    refused(tar(entry("a", b"1"), entry("./a", b"2")), word="twice")
    digest, name = layout(tar(entry("a", b"1")), tar(entry("a", b"2")))
    drv(state, "image-import", digest, name, want="ok")
    drv(state, "image-mount", digest, L1, f"{rig.tmp}/m1", want="ok")
    assert open(f"{rig.tmp}/m1/a").read() == "2"
    sh(["umount", f"{rig.tmp}/m1"])
    drv(state, "image-remove", digest, want="ok")


def test_kernel_folders():
    """proc, sys and dev must be plain folders"""
    for name in ("proc", "sys", "dev"):
        refused(tar(link(name, "/etc")), word="plain folder")
        refused(tar(entry(name, b"x")), word="plain folder")


def test_overlay_attributes():
    """attributes that would steer an overlay mount are refused"""
    for key in ("trusted.overlay.redirect", "user.overlay.opaque"):
        info, data = entry("a", b"x")
        info.pax_headers = {f"SCHILY.xattr.{key}": "y"}
        refused(tar((info, data)), word="overlay")


def test_floods():
    """too many entries, bombs, sparse giants and endless work are refused within the limits"""
    refused(tar(*[entry(f"f{i}") for i in range(2000)]), limits=(1 << 30, 1000, 60000), word="entries")
    bomb = tar(entry("zeros", bytes(40 << 20)))
    r = refused(bomb, limits=(16 << 20, 1000, 60000), word="larger")
    used = os.statvfs(f"{state}")
    assert (used.f_blocks - used.f_bfree) * used.f_frsize < 200 << 20
    info, data = entry("sparse", b"x" * 512)
    info.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "huge",
                        "GNU.sparse.realsize": str(1 << 50)}
    refused(tar((info, data)), word="sparse")
    t = bytearray(tar(entry("huge", b"x"), format=tarfile.GNU_FORMAT))
    t[124:136] = b"\x80" + (1 << 50).to_bytes(11, "big")
    t[148:156] = b" " * 8
    t[148:156] = b"%06o\0 " % sum(t[:512])
    refused(bytes(t), word="larger")
    refused(tar(*[entry(f"f{i}", b"x" * 2000) for i in range(3000)]), limits=(1 << 30, 10000, 40), word="long")


def test_no_space():
    """an image that does not fit the store is refused as such"""
    refused(tar(entry("big", os.urandom(1 << 20) * 400)), code="no_space")


def test_damaged():
    """cut archives, cut compression, broken headers and broken manifests are refused"""
    whole = tar(entry("a", b"x" * 3000))
    refused(whole[:2000], word="damaged")
    refused(b"\0" * 512 + whole, word="damaged")
    refused(b"A" * 1024, word="damaged")
    refused(whole[:100] + b"Z" + whole[101:], word="damaged")
    refused(whole, compress=lambda l: gzip.compress(l)[:-10], word="uncompressed")
    digest, name = layout(whole)
    blobs = f"{state}/agent/staging/{name}/blobs/sha256"
    for body in (b"", b"{", b"[]", b"{}", b'{"config":{"digest":"sha256:../x","size":1},"layers":[]}', b"[" * 5000):
        d = hashlib.sha256(body).hexdigest()
        with open(f"{blobs}/{d}", "wb") as f:
            f.write(body)
        drv(state, "image-import", "sha256:" + d, name, want="image_hostile")
        nothing_left("sha256:" + d)


def test_fetch_from_folders():
    """a layout of this machine and a built recipe are fetched, found out and checked"""
    digest, name = layout(*good_layers())
    source = f"{state}/agent/staging/{name}"
    for where in ("oci:" + source, "oci:" + source + ":tag"):
        assert drv(state, "fetch", where, "-", "f1", 0, want="ok").digest == digest
        drv(state, "fetch", where, digest, "f1", 0, want="ok")
    drv(state, "fetch", "oci:" + source, "sha256:" + "0" * 64, "f2", 0, want="image_digest")
    drv(state, "fetch", "oci:/nothere", "-", "f2", 0, want="image_not_found")
    drv(state, "fetch", "oci:relative", "-", "f2", 0, want="image_not_found")
    drv(state, "fetch", "recipe:base", "-", "f2", 0, want="image_not_found")
    drv(state, "fetch", "recipe:../base", "-", "f2", 0, want="image_not_found")
    drv(state, "fetch", "ftp://x", "-", "f2", 0, want="image_not_found")
    os.makedirs(f"{state}/recipes")
    os.rename(source, f"{state}/recipes/base")
    assert drv(state, "fetch", "recipe:base", "-", "f3", 0, want="ok").digest == digest
    drv(state, "image-import", digest, "f3", want="ok")
    drv(state, "image-remove", digest, want="ok")


def test_fetch_from_a_registry():
    """an image comes from a registry by tag and digest; forbidden addresses see no connection"""
    import http.server, threading
    digest, name = layout(*good_layers())
    blobs, seen = f"{state}/agent/staging/{name}/blobs/sha256", []

    class Registry(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            seen.append(self.path)
            last = self.path.rsplit("/", 1)[-1]
            hexa = digest[7:] if last == "1.0" else last.partition(":")[2]
            known = self.path.startswith("/v2/some/image/") and os.path.exists(f"{blobs}/{hexa}") and hexa
            body = b"{}" if self.path == "/v2/" else open(f"{blobs}/{hexa}", "rb").read() if known else \
                b'{"errors":[{"code":"MANIFEST_UNKNOWN","message":"manifest unknown"}]}'
            self.send_response(200 if known or self.path == "/v2/" else 404)
            kind = "application/vnd.oci.image.manifest.v1+json" if "/manifests/" in self.path and known else "application/json"
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)
        do_HEAD = do_GET

        def log_message(self, *a):
            pass
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Registry)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    ref = f"docker://127.0.0.1:{server.server_port}/some/image"
    for host in (f"127.0.0.1:{server.server_port}", f"localhost:{server.server_port}", "169.254.169.254", "10.1.2.3",
                 "192.168.0.1:5000", "172.20.0.1", "100.64.1.1", "[::1]:80", "[fe80::1]", "[fd00::1]", "[::ffff:127.0.0.1]:80", "0.0.0.0"):
        r = drv(state, "fetch", f"docker://{host}/some/image:1.0", "-", "r1", 0, want="image_pull")
        assert "private network" in r.line or "[" in host, r.line
    assert seen == []
    assert drv(state, "fetch", ref + ":1.0", "-", "r1", 1, want="ok").digest == digest
    drv(state, "fetch", ref + ":1.0", digest, "r2", 1, want="ok")
    drv(state, "fetch", f"{ref}@{digest}", "-", "r3", 1, want="ok")
    drv(state, "fetch", ref + ":9", "-", "r4", 1, want="image_not_found")
    for bad in (ref + ":$(id)", "docker://some/image", "docker://image", ref + "@sha256:1", "docker://-h.x/a"):
        drv(state, "fetch", bad, "-", "r4", 1, want="image_pull")
    assert [f for f in os.listdir(f"{state}/agent/staging") if f.endswith(".pull")] == []
    drv(state, "image-import", digest, "r2", want="ok")
    drv(state, "image-remove", digest, want="ok")
    # Guarded: a public address (of documentation, here on lo) serves, but sends us round to a private one.
    sh("ip addr add 198.51.100.7/32 dev lo")
    public = http.server.ThreadingHTTPServer(("198.51.100.7", 0), Registry)
    threading.Thread(target=public.serve_forever, daemon=True).start()
    conf = f"{state}/registries.conf"
    with open(conf, "w") as f:
        f.write(f'[[registry]]\nlocation = "198.51.100.7:{public.server_port}"\ninsecure = true\n')
    sh(["mount", "--bind", conf, "/etc/containers/registries.conf"])
    ref = f"docker://198.51.100.7:{public.server_port}/some/image:1.0"
    assert drv(state, "fetch", ref, "-", "r5", 0, want="ok").digest == digest
    inner = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Registry)
    threading.Thread(target=inner.serve_forever, daemon=True).start()
    plain = Registry.do_GET

    def turned(self):
        if "/blobs/" not in self.path or self.server is inner:
            return plain(self)
        self.send_response(307)
        self.send_header("Location", f"http://127.0.0.1:{inner.server_port}{self.path}")
        self.send_header("Content-Length", "0")
        self.end_headers()
    seen.clear()
    Registry.do_GET = turned
    assert drv(state, "fetch", ref, digest, "r6", 1, want="ok").digest == digest, "allowed, it would work"
    assert [p for p in seen if "/blobs/" in p]
    seen.clear()
    r = drv(state, "fetch", ref, digest, "r7", 0, want="image_pull")
    assert "private network" in r.line and not [p for p in seen if "/blobs/" in p], r.line
    for s in (server, public, inner):
        s.shutdown()
    sh(["umount", "/etc/containers/registries.conf"])


def test_killed_imports():
    """killed at any moment, an import leaves nothing selectable and the next one completes"""
    for n in range(8):
        digest, name = layout(tar(entry("n", str(n).encode()), entry("zeros", bytes(4 << 20))))
        p = subprocess.Popen([rig.drv_path, state, "image-import", digest, name], stdout=subprocess.DEVNULL)
        time.sleep(0.01 + n * 0.03)
        p.kill()
        p.wait()
        s = drv(state, "image-stat", digest).state
        if s != "ready":
            deadline = time.monotonic() + 3
            while s == "working" and time.monotonic() < deadline:
                time.sleep(0.02)
                s = drv(state, "image-stat", digest).state
            assert s == "none", s
        drv(state, "image-import", digest, name, want="ok")
        assert drv(state, "image-stat", digest).state == "ready"
        drv(state, "image-remove", digest, want="ok")
        nothing_left(digest)


rig.main(globals())
