#!/usr/bin/env python3
"""Disks: hard limit, owners, growth, pool, erase down to the layer below. test_disk.py DRV"""
import concurrent.futures, errno, os, signal, subprocess, sys, time
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import rig
from rig import drv, sh, as_ids

A, B = "dsk_aaaaaaaaaaaaaa", "dsk_bbbbbbbbbbbbbb"
L1, L2 = "lea_11111111111111", "lea_22222222222222"
pool = outer = state = None


def setup():
    """A disk of the machine's own: outer.img, ext4 in it; the pool lives there."""
    global pool, outer, state
    if pool:
        return
    outer, pool = f"{rig.tmp}/outer.img", f"{rig.tmp}/pool"
    os.mkdir(pool)
    sh(f"truncate -s 1536M {outer} && mkfs.ext4 -q {outer} && mount -o loop {outer} {pool}")
    state = f"{pool}/state"


def at(name):
    return f"{rig.tmp}/{name}"


def base_of(lease):
    return drv(state, "range-take", lease, want="ok").base


def hits(marker):
    """Marker occurrences in the raw outer disk."""
    os.sync()
    fd = os.open(outer, os.O_RDONLY)
    count, pos, end = 0, 0, os.fstat(fd).st_size
    while pos < end:
        try:
            pos = os.lseek(fd, pos, os.SEEK_DATA)
        except OSError:
            break
        hole = os.lseek(fd, pos, os.SEEK_HOLE)
        tail = b""
        while pos < hole:
            data = os.pread(fd, min(8 << 20, hole - pos), pos)
            count += (tail + data).count(marker)
            tail = data[-(len(marker) - 1):]
            pos += len(data)
    os.close(fd)
    return count


def test_ranges():
    """an id range is kept by its lease, given back, and rests before it is used again"""
    setup()
    a, b = base_of(L1), base_of(L2)
    assert a % 65536 == 0 and b - a == 65536 and base_of(L1) == a
    drv(state, "range-give", L1, want="ok")
    assert base_of("lea_33333333333333") == b + 65536
    assert base_of(L1) == b + 2 * 65536


def test_create():
    """a disk is made sparse, again is no change, too small and too large are refused"""
    t = time.monotonic()
    drv(state, "disk-ensure", A, 256, want="ok")
    drv(state, "disk-ensure", A, 256, want="ok")
    print(f"# made in {(time.monotonic() - t) * 500:.0f} ms with exec of the test tool")
    s = drv(state, "disk-stat", A)
    assert s.state == "ready" and s.size == 256 and s.inodes > 1000, s.line
    st = os.stat(f"{state}/priv/disks/{A}.img")
    assert st.st_blocks * 512 < 24 << 20 and st.st_mode & 0o777 == 0o600
    drv(state, "disk-ensure", B, 1, want="validation")
    drv(state, "disk-ensure", "dsk_../../x", 64, want="validation")
    assert drv(state, "disk-stat", B).state == "none"


def test_many_at_once():
    """disks made at the same time on a fresh node all come to be, whatever sizes they share"""
    for f in os.listdir(f"{state}/priv/disks"):
        if f.startswith("template-"):
            os.unlink(f"{state}/priv/disks/{f}")
    many = [(f"dsk_{'d' * 13}{i}", 64 + 16 * (i % 2)) for i in range(8)]
    with concurrent.futures.ThreadPoolExecutor(len(many)) as together:
        list(together.map(lambda d: drv(state, "disk-ensure", *d, want="ok"), many))
    for disk, size in many:
        s = drv(state, "disk-stat", disk)
        assert s.state == "ready" and s.size == size, s.line
        sh(f"e2fsck -f -n {state}/priv/disks/{disk}.img")
        drv(state, "disk-erase", disk, want="ok")
        drv(state, "disk-forget", disk, want="ok")
    assert not [f for f in os.listdir(f"{state}/priv/disks") if f.endswith(".new")]


def test_pool():
    """the pool is accounted in full: what was promised is not promised twice"""
    free = drv(state, "disk-pool").free
    drv(state, "disk-ensure", B, free - 10, want="ok")
    r = drv(state, "disk-ensure", "dsk_cccccccccccccc", 64, want="no_space")
    assert "64" in r.line
    drv(state, "disk-ensure", A, 512, want="no_space")
    drv(state, "disk-erase", B, want="ok")
    drv(state, "disk-forget", B, want="ok")
    assert drv(state, "disk-pool").free >= free - 1


def test_owners():
    """files keep ids 0..65535 on the disk and each lease sees its own range"""
    b1, b2 = base_of(L1), base_of(L2)
    drv(state, "disk-attach", A, L1, at("m1"), want="ok")
    drv(state, "disk-attach", A, L1, at("m1"), want="ok")
    assert os.stat(at("m1")).st_uid == b1
    assert as_ids(b1, lambda: (os.mkdir(at("m1/home")), os.chmod(at("m1/home"), 0o777))[0]) == "None"
    assert as_ids(b1 + 1000, lambda: open(at("m1/home/x"), "w").write("hello")) == "5"
    assert "Error" in as_ids(1000, lambda: open(at("m1/home/y"), "w"))
    r = drv(state, "disk-attach", A, L2, at("m2"), want="disk_in_use")
    assert drv(state, "disk-stat", A).state == "attached"
    drv(state, "disk-detach", A, at("m1"), want="ok")
    drv(state, "disk-detach", A, at("m1"), want="ok")
    drv(state, "disk-attach", A, L2, at("m2"), want="ok")
    assert os.stat(at("m2/home/x")).st_uid == b2 + 1000
    drv(state, "disk-detach", A, at("m2"), want="ok")


def fill(path):
    n = 0
    with open(path, "wb", buffering=0) as f:
        while True:
            try:
                n += f.write(b"z" * (1 << 20))
            except OSError as e:
                return f"{e.errno} {n >> 20}"


def test_limit():
    """size and inodes are hard limits, and a full disk still detaches, attaches and is metered"""
    b1 = base_of(L1)
    drv(state, "disk-attach", A, L1, at("m1"), want="ok")
    got, mib = as_ids(b1, lambda: fill(at("m1/big"))).split()
    assert int(got) == errno.ENOSPC and 150 < int(mib) < 256, (got, mib)
    used = drv(state, "disk-stat", A).used
    assert used > 200
    drv(state, "disk-detach", A, at("m1"), want="ok")
    assert abs(drv(state, "disk-stat", A).used - used) < 4
    drv(state, "disk-attach", A, L1, at("m1"), want="ok")
    os.unlink(at("m1/big"))
    inodes = drv(state, "disk-stat", A).inodes
    flood = as_ids(b1, lambda: len([os.mknod(at(f"m1/home/f{i}")) for i in range(inodes + 1)]))
    assert "No space" in flood, flood
    s = drv(state, "disk-stat", A)
    assert s.inodes_used >= s.inodes - 16 and os.stat(at("m1")), s.line
    drv(state, "disk-detach", A, at("m1"), want="ok")


def test_grow():
    """a detached disk grows with its data; an attached one as the probe says"""
    b1 = base_of(L1)
    online = drv(state, "disk-grow-probe").online
    drv(state, "disk-attach", A, L1, at("m1"), want="ok")
    r = drv(state, "disk-ensure", A, 320, want="ok" if online else "unsupported")
    print(f"# online grow: {r.line}")
    before = os.statvfs(at("m1")).f_blocks
    drv(state, "disk-detach", A, at("m1"), want="ok")
    drv(state, "disk-ensure", A, 384, want="ok")
    drv(state, "disk-ensure", A, 64, want="ok")
    assert drv(state, "disk-stat", A).size == 384
    drv(state, "disk-attach", A, L1, at("m1"), want="ok")
    assert os.statvfs(at("m1")).f_blocks > before
    assert open(at("m1/home/x")).read() == "hello"
    drv(state, "disk-detach", A, at("m1"), want="ok")


def plant(disk, lease, where, marker):
    drv(state, "disk-ensure", disk, 192, want="ok")
    drv(state, "disk-attach", disk, lease, where, want="ok")
    said = as_ids(base_of(lease), lambda: write_markers(where, marker))
    assert said == "None", said
    subprocess.run(["fstrim", where], stderr=subprocess.DEVNULL)
    drv(state, "disk-detach", disk, where, want="ok")


def write_markers(where, marker):
    """Markers in a live file, a deleted file, a small overwritten piece of a preallocated file, a truncated one."""
    block = (marker * (4096 // len(marker) + 1))[:4096]
    for name in ("live", "gone", "cut"):
        with open(f"{where}/{name}", "wb") as f:
            f.write(block * 4096)
            f.flush()
            os.fsync(f.fileno())
    os.unlink(f"{where}/gone")
    os.truncate(f"{where}/cut", 5)
    sh(["sync", "-f", where])
    # freed blocks, allocated again unwritten, written in pieces: the kernel zeroes their rests
    with open(f"{where}/pre", "wb") as f:
        os.posix_fallocate(f.fileno(), 0, 24 << 20)
        for i in range(0, 24 << 20, 1 << 20):
            os.pwrite(f.fileno(), b"p" * 4096, i)
        os.fsync(f.fileno())


def test_erase_reaches_the_layer_below():
    """after an erase nothing of a planted marker is left on the disk below; a plain unlink leaves it"""
    marker = os.urandom(16)
    plant(B, L1, at("m1"), marker)
    assert hits(marker) > 10000
    drv(state, "disk-erase", B, want="ok")
    s = drv(state, "disk-stat", B)
    assert s.state == "erased" and s.erased > 48 << 20, s.line
    print(f"# erased {s.erased >> 20} MiB in {s.ms} ms")
    assert hits(marker) == 0
    drv(state, "disk-ensure", B, 192, want="state")
    drv(state, "disk-forget", B, want="ok")
    assert drv(state, "disk-stat", B).state == "none"
    other = os.urandom(16)
    plant(B, L1, at("m1"), other)
    os.unlink(f"{state}/priv/disks/{B}.img")
    assert hits(other) > 10000, "the scanner finds what a mere unlink leaves"


def test_erase_refused_in_use():
    """a disk in use is not erased, and an unknown one is not there"""
    drv(state, "disk-attach", A, L1, at("m1"), want="ok")
    drv(state, "disk-erase", A, want="disk_in_use")
    assert drv(state, "disk-stat", A).state == "attached"
    drv(state, "disk-detach", A, at("m1"), want="ok")
    drv(state, "disk-erase", "dsk_zzzzzzzzzzzzzz", want="not_found")
    drv(state, "disk-forget", A, want="state")


def test_erase_survives_kills():
    """killed at any point, an erase bars the disk for ever and the next call completes it"""
    points = ["pwrite64:when=1", "pwrite64:when=40", "fsync:when=1", "fsync:when=2", "fsync:when=4",
              "fallocate:when=1", "unlink:when=1", "rename:when=1", "rename:when=2", "fsync:when=7"]
    for n, point in enumerate(points):
        disk, marker = f"dsk_kill{n:010d}", os.urandom(16)
        plant(disk, L1, at("m1"), marker)
        call, when = point.split(":")
        r = subprocess.run(["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={call}", "-e",
                            f"inject={call}:signal=KILL:{when}", rig.drv_path, state, "disk-erase", disk],
                           stdout=subprocess.PIPE, text=True)
        s = drv(state, "disk-stat", disk)
        if s.state == "ready":  # before the record: nothing has begun
            assert hits(marker) > 0
        elif s.state != "erased":
            assert s.state == "erasing", (point, s.line)
            drv(state, "disk-attach", disk, L2, at("m2"), want="state" if os.path.exists(
                f"{state}/priv/disks/{disk}.img") else "not_found")
            drv(state, "disk-ensure", disk, 192, want="state")
            drv(state, "disk-forget", disk, want="state")
        drv(state, "disk-erase", disk, want="ok")
        s = drv(state, "disk-stat", disk)
        assert s.state == "erased" and s.erased > 48 << 20, (point, s.line)
        assert hits(marker) == 0, point
        drv(state, "disk-forget", disk, want="ok")


def test_nothing_left():
    """no loop device and no mount of a disk is left behind"""
    drv(state, "disk-erase", A, want="ok")
    left = [l for l in sh("losetup -a", check=False).splitlines() if "/disks/dsk_" in l and rig.tmp in l]
    assert not left, left
    assert os.listdir(f"{state}/priv/disks") and not [f for f in os.listdir(f"{state}/priv/disks")
                                                      if f.endswith(".img")]


rig.main(globals())
