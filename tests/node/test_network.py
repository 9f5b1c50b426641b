#!/usr/bin/env python3
"""Network: default deny, spoofing, published ports, traffic out, restart, counters. test_network.py DRV

The run's own network namespace plays the machine; `wan` is the world outside, guests are namespaces."""
import os, re, socket, subprocess, sys, time
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import rig
from rig import drv, sh

A, B = "lea_aaaaaaaaaaaaaa", "lea_bbbbbbbbbbbbbb"
ADDR = {A: "10.213.0.10", B: "10.213.0.11"}
LINK, NAT = "sltest0", 1
state = None
running = []


def pin(lease):
    return f"{rig.tmp}/{lease}.ns"


def net(verb, *args, want="ok"):
    return drv(state, "net-" + verb, LINK, NAT, *args, want=want)


def inside(ns, cmd, **kw):
    return subprocess.run(["nsenter", f"--net={ns}"] + (["sh", "-c", cmd] if isinstance(cmd, str) else cmd),
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **kw)


def setup():
    global state, wan
    if state:
        return
    state, wan = f"{rig.tmp}/state", f"{rig.tmp}/wan"
    open(wan, "w").close()
    sh(["unshare", f"--net={wan}", "true"])
    sh("ip link add out0 type veth peer name in0 && ip addr add 198.51.100.1/24 dev out0 && ip link set out0 up")
    sh(["sh", "-c", f"exec 9<{wan}; ip link set in0 netns /proc/self/fd/9"])
    inside(wan, "ip link set lo up; ip addr add 198.51.100.2/24 dev in0; ip link set in0 up")
    net("init")


def serve(ns, port, udp=False, bind=""):
    """An echo server in a namespace (None: the machine) that first says who it thinks called."""
    code = f"""
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_{'DGRAM' if udp else 'STREAM'})
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(({bind!r}, {port}))
print('up', flush=True)
if {udp}:
    while True:
        d, a = s.recvfrom(100); s.sendto(a[0].encode(), a)
s.listen(50)
while True:
    c, a = s.accept(); c.sendall(a[0].encode()); c.close()
"""
    cmd = ([] if ns is None else ["nsenter", f"--net={ns}"]) + [sys.executable, "-c", code]
    p = subprocess.Popen(cmd, stdout=subprocess.PIPE, text=True)
    assert p.stdout.readline() == "up\n"
    running.append(p)
    return p


def ask(ns, host, port, udp=False, timeout=1.5, uid=None):
    """What the server there said, or an error's name."""
    code = f"""
import os, socket
if {uid}: os.setgid({uid}); os.setuid({uid})
s = socket.socket(socket.AF_INET, socket.SOCK_{'DGRAM' if udp else 'STREAM'})
s.settimeout({timeout})
try:
    s.connect(({host!r}, {port}))
    if {udp}: s.send(b'x')
    print(s.recv(100).decode())
except Exception as e: print('!' + type(e).__name__)
"""
    cmd = ([] if ns is None else ["nsenter", f"--net={ns}"]) + [sys.executable, "-c", code]
    return subprocess.run(cmd, stdout=subprocess.PIPE, text=True).stdout.strip()


def test_guest_is_wired():
    """a guest gets its address, gateway and no other interface; again is no change"""
    setup()
    t = time.monotonic()
    net("create", A, 10, pin(A))
    print(f"# created in {(time.monotonic() - t) * 1000:.0f} ms with exec of the test tool")
    net("create", A, 10, pin(A))
    net("create", B, 11, pin(B))
    out = inside(pin(A), "ip -o -4 addr; ip route; ls /proc/sys/net/ipv4/conf").stdout
    assert "10.213.0.10/32" in out and "default via 10.213.0.1 dev eth0" in out, out
    assert len(re.findall(r"^\d+: ", inside(pin(A), "ip -o link").stdout, re.M)) == 2
    net("create", B, 10, pin(B) + "2", want="network_setup")
    net("create", B, 1, pin(B) + "2", want="validation")
    net("create", B, 65533, pin(B) + "2", want="validation")


def test_default_deny():
    """instances cannot reach each other by TCP, UDP or ping"""
    serve(pin(B), 8000)
    serve(pin(B), 8001, udp=True)
    assert ask(pin(B), ADDR[B], 8000) == ADDR[B]
    assert ask(pin(A), ADDR[B], 8000).startswith("!")
    assert ask(pin(A), ADDR[B], 8001, udp=True).startswith("!")
    assert inside(pin(A), ["ping", "-c1", "-W1", ADDR[B]]).returncode != 0
    # nor on the link itself, as if they were neighbours
    inside(pin(A), f"ip route add {ADDR[B]} dev eth0; ip neigh replace {ADDR[B]} lladdr 06:53:0a:d5:00:0b dev eth0")
    assert ask(pin(A), ADDR[B], 8000).startswith("!")
    inside(pin(A), f"ip route del {ADDR[B]} dev eth0")


def test_published_ports():
    """a published port works from outside, from the machine's address and from 127.0.0.1, TCP and UDP"""
    serve(pin(A), 22)
    serve(pin(A), 53, udp=True)
    net("ports", A, 10, 22, 20001, 0, 53, 20002, 1)
    assert ask(wan, "198.51.100.1", 20001) == "198.51.100.2"
    assert ask(wan, "198.51.100.1", 20002, udp=True) == "198.51.100.2"
    for host in ("127.0.0.1", "198.51.100.1"):
        assert ask(None, host, 20001)[0] in "0123456789", host
        assert ask(None, host, 20002, udp=True)[0] in "0123456789", host
    assert ask(None, "127.0.0.1", 20001, uid=65534)[0] != "!"
    assert ask(None, "127.0.0.1", 20003).startswith("!")
    assert ask(pin(B), "198.51.100.1", 20001).startswith("!"), "no way round through the machine"


def test_ports_change():
    """the set of ports is replaced whole, live connections end with their port; a taken port is refused"""
    net("ports", B, 11, 8000, 20001, 0, want="in_use")
    net("ports", B, 11, 8000, 19999, 0, want="validation")
    p = serve(None, 20010)
    net("ports", B, 11, 8000, 20010, 0, want="in_use")
    p.kill()
    p.wait()
    net("ports", B, 11, 8000, 20011, 0)
    listen = subprocess.Popen(["nsenter", f"--net={pin(A)}", sys.executable, "-c", """
import socket, time
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); s.bind(('', 2222)); s.listen(); print('up', flush=True)
c, _ = s.accept(); time.sleep(1); c.sendall(b'late'); time.sleep(3)
"""], stdout=subprocess.PIPE, text=True)
    assert listen.stdout.readline() == "up\n"
    net("ports", A, 10, 22, 20001, 0, 2222, 20006, 0)
    long = subprocess.Popen([sys.executable, "-c", """
import socket
s = socket.create_connection(('127.0.0.1', 20006)); print('up', flush=True); s.settimeout(2)
try: print(s.recv(10))
except Exception as e: print(type(e).__name__)
"""], stdout=subprocess.PIPE, text=True)
    assert long.stdout.readline() == "up\n"
    net("ports", A, 10, 22, 20005, 0)
    assert long.communicate()[0] == "TimeoutError\n", "a live connection ends with its port"
    listen.kill()
    assert ask(None, "127.0.0.1", 20001).startswith("!")
    assert ask(None, "127.0.0.1", 20005)[0] != "!" and ask(None, "127.0.0.1", 20011)[0] != "!"
    net("ports", A, 10, 22, 20001, 0)


def test_traffic_out():
    """a guest reaches the world behind the machine's address, and the world cannot reach it back"""
    serve(wan, 80)
    serve(wan, 123, udp=True)
    assert ask(pin(A), "198.51.100.2", 80) == "198.51.100.1"
    assert ask(pin(A), "198.51.100.2", 123, udp=True) == "198.51.100.1"
    inside(wan, "ip route add 10.213.0.0/16 via 198.51.100.1")
    assert ask(wan, ADDR[B], 8000).startswith("!")
    inside(wan, "ip route del 10.213.0.0/16")


def test_machine_is_closed():
    """a guest reaches no socket of the machine or the node: not by address, link, loopback or link-local"""
    serve(None, 7000)
    sh("ip addr add 169.254.169.254/32 dev lo")
    for host in ("198.51.100.1", "10.213.255.253", "10.213.255.254", "10.213.0.1", "169.254.169.254"):
        assert ask(pin(A), host, 7000, timeout=0.7).startswith("!"), host
    # packets to loopback addresses sent out on purpose
    inside(pin(A), "ip route del local 127.0.0.0/8 dev lo table local; ip addr del 127.0.0.1/8 dev lo; "
           "echo 1 > /proc/sys/net/ipv4/conf/eth0/route_localnet; ip route add 127.0.0.0/8 via 10.213.0.1")
    assert ask(pin(A), "127.0.0.1", 7000, timeout=0.7).startswith("!")
    inside(pin(A), "ip route del 127.0.0.0/8; ip addr add 127.0.0.1/8 dev lo")
    assert ask(None, "127.0.0.1", 7000) == "127.0.0.1"


def test_other_users_of_the_machine():
    """users of the machine reach a guest by its published ports only"""
    assert ask(None, ADDR[B], 8000, uid=65534, timeout=0.7).startswith("!")
    assert ask(None, ADDR[B], 8000)[0] != "!"


def test_spoofing():
    """forged addresses, MACs and ARP answers are dropped"""
    sniff = f"""
import socket, time
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)); s.settimeout(0.3)
print('up', flush=True); end = time.time() + 2; seen = b''
while time.time() < end:
    try: seen += s.recv(2000)
    except TimeoutError: pass
print(b'forged-marker' in seen)
"""
    forge = """
import socket, struct
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW); s.bind(('eth0', 0))
def mac(t): return bytes.fromhex(t.replace(':', ''))
mine, gate = mac('06:53:0a:d5:00:0a'), mac('06:53:0a:d5:00:01')
def ip(src, dst):
    p = b'forged-marker'
    h = struct.pack('!BBHHHBBH4s4s', 0x45, 0, 20 + 8 + len(p), 1, 0, 64, 17, 0, socket.inet_aton(src), socket.inet_aton(dst))
    c = sum(struct.unpack('!10H', h)); c = (c & 0xffff) + (c >> 16); c = ~(c + (c >> 16)) & 0xffff
    return h[:10] + struct.pack('!H', c) + h[12:] + struct.pack('!HHHH', 9, 9, 8 + len(p), 0) + p
for src in ('10.213.0.11', '8.8.8.8', '127.0.0.1', '10.213.0.1'):
    s.send(gate + mine + b'\\x08\\x00' + ip(src, '198.51.100.2'))
s.send(gate + mac('02:00:00:00:00:99') + b'\\x08\\x00' + ip('10.213.0.10', '198.51.100.2'))
s.send(gate + mine + b'\\x81\\x00\\x00\\x01\\x08\\x00' + ip('10.213.0.10', '198.51.100.2'))
s.send(gate + mine + b'\\x86\\xdd' + b'\\x60' + b'\\0' * 39 + b'forged-marker')
for smac, sip in ((mine, '10.213.0.1'), (mine, '10.213.0.11'), (gate, '10.213.0.10')):
    a = struct.pack('!HHBBH', 1, 0x800, 6, 4, 2) + smac + socket.inet_aton(sip) + b'\\xff' * 6 + socket.inet_aton('10.213.0.11')
    s.send(b'\\xff' * 6 + mine + b'\\x08\\x06' + a + b'forged-marker')
good = ip('10.213.0.10', '198.51.100.2').replace(b'forged-marker', b'honest-marker')
s.send(gate + mine + b'\\x08\\x00' + good)
"""
    watchers = []
    for ns in (wan, pin(B)):
        p = subprocess.Popen(["nsenter", f"--net={ns}", sys.executable, "-c", sniff], stdout=subprocess.PIPE, text=True)
        assert p.stdout.readline() == "up\n"
        watchers.append(p)
    honest = subprocess.Popen(["nsenter", f"--net={wan}", sys.executable, "-c", sniff.replace("forged", "honest")],
                              stdout=subprocess.PIPE, text=True)
    honest.stdout.readline()
    r = inside(pin(A), [sys.executable, "-c", forge])
    assert r.returncode == 0, r.stdout
    assert [p.communicate()[0].strip() for p in watchers] == ["False", "False"]
    assert honest.communicate()[0].strip() == "True", "the honest packet shows that the forged ones could be seen"
    assert ask(pin(A), "198.51.100.2", 80) == "198.51.100.1"


def test_counters():
    """bytes are counted as the guest sees them"""
    before = net("counters", A)
    code = "import socket\ns=socket.create_connection(('198.51.100.2',81))\nfor i in range(80): s.sendall(b'x'*65536)\ns.close()"
    sink = subprocess.Popen(["nsenter", f"--net={wan}", sys.executable, "-c", """
import socket
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); s.bind(('', 81)); s.listen(); print('up', flush=True)
c, _ = s.accept()
while c.recv(1 << 20): pass
"""], stdout=subprocess.PIPE, text=True)
    sink.stdout.readline()
    inside(pin(A), [sys.executable, "-c", code])
    sink.wait()
    after = net("counters", A)
    sent = after.tx - before.tx
    assert 80 * 65536 < sent < 80 * 65536 * 1.1 and after.rx - before.rx < sent / 5, (before.line, after.line)
    net("counters", "lea_zzzzzzzzzzzzzz", want="not_found")


def test_restart_keeps_traffic():
    """a new helper adopts the network, also without its old mount namespace; a long connection goes on"""
    code = """
import socket, sys, time
s = socket.create_connection(('198.51.100.2', 82)); s.settimeout(3)
for i in range(30):
    s.sendall(b'ping'); assert s.recv(10) == b'pong'; time.sleep(0.1)
"""
    echo = subprocess.Popen(["nsenter", f"--net={wan}", sys.executable, "-c", """
import socket
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); s.bind(('', 82)); s.listen(); print('up', flush=True)
c, _ = s.accept()
while c.recv(10): c.sendall(b'pong')
"""], stdout=subprocess.PIPE, text=True)
    echo.stdout.readline()
    client = subprocess.Popen(["nsenter", f"--net={pin(A)}", sys.executable, "-c", code])
    time.sleep(0.3)
    net("init")
    time.sleep(0.3)
    # as after kill -9 of the helper: the pin of its mount namespace is gone, the holder lives
    sh(["umount", f"{state}/run/network/netns"])
    net("init")
    net("create", A, 10, pin(A))
    assert ask(None, "127.0.0.1", 20001)[0] != "!"
    # and the other way round: the holder is gone, the pin lives
    holder = int(open(f"{state}/priv/netns.holder").read().split()[0])
    os.kill(holder, 9)
    os.waitpid(holder, 0)
    net("init")
    assert int(open(f"{state}/priv/netns.holder").read().split()[0]) != holder
    assert client.wait() == 0
    echo.kill()


def test_strays():
    """what belongs to no known lease is listed, what belongs to one is not"""
    assert drv(state, "strays", A, B, want="ok").line.endswith("list=")
    line = drv(state, "strays", A, want="ok").line
    assert "link g0ad5000b " + B in line and A not in line, line
    os.makedirs(f"{state}/priv/leases/lea_eeeeeeeeeeeeee")
    inside(f"{state}/run/network/netns", "ip link del g0ad5000b")
    line = drv(state, "strays", A, want="ok").line
    assert "folder lea_eeeeeeeeeeeeee" in line and "element tcp 20011 to 10.213.0.11:8000" in line, line
    os.rmdir(f"{state}/priv/leases/lea_eeeeeeeeeeeeee")
    net("create", B, 11, pin(B))
    serve(pin(B), 8000)
    net("ports", B, 11, 8000, 20011, 0)
    assert drv(state, "strays", A, B, want="ok").line.endswith("list=")


def test_remove():
    """a removed guest leaves no port, link or element, and its address may be used at once"""
    net("remove", A, 10, pin(A))
    net("remove", A, 10, pin(A))
    assert not os.path.exists(pin(A))
    assert ask(None, "127.0.0.1", 20001).startswith("!")
    assert ADDR[A] not in sh("nft list ruleset") + inside(f"{state}/run/network/netns", "nft list ruleset; ip neigh; ip link").stdout
    net("create", "lea_cccccccccccccc", 10, pin("lea_cccccccccccccc"))
    serve(pin("lea_cccccccccccccc"), 22)
    net("ports", "lea_cccccccccccccc", 10, 22, 20001, 0)
    t = time.monotonic()
    assert ask(None, "127.0.0.1", 20001)[0] != "!"
    assert time.monotonic() - t < 0.8
    # removing a lease that lost the address to another changes nothing
    net("remove", A, 10, pin(A))
    assert ask(None, "127.0.0.1", 20001)[0] != "!"


def test_nat_off():
    """without leave for traffic out, forwarding stays as it is and guests reach nobody"""
    global NAT
    sh("echo 0 > /proc/sys/net/ipv4/ip_forward")
    NAT = 0
    net("init")
    assert open("/proc/sys/net/ipv4/ip_forward").read() == "0\n"
    assert ask(pin(B), "198.51.100.2", 80, timeout=0.7).startswith("!")
    assert ask(None, "127.0.0.1", 20011)[0] != "!", "published ports work on the machine itself"


def test_host_untouched_and_fini():
    """in the machine's namespace there is one link and one table, and both go"""
    sh("nft add table ip other; nft add chain ip other c '{ type filter hook input priority 0 ; }'; nft add rule ip other c counter")
    before = sh("nft list table ip other")
    net("init")
    assert sh("nft list table ip other") == before
    assert sorted(re.findall(r"^table (.*) {", sh("nft list ruleset"), re.M)) == ["ip drv_test", "ip other"]
    for p in running:
        p.kill()
        p.wait()
    net("fini")
    assert re.findall(r"^table (.*) {", sh("nft list ruleset"), re.M) == ["ip other"]
    assert LINK not in sh("ip link") and not os.path.exists(f"{state}/run/network/netns")


rig.main(globals())
