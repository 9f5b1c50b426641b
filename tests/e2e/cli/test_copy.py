#!/usr/bin/env python3
"""ssh, exec and cp of the CLI through a real OpenSSH server on loopback. Prints TAP."""
import hashlib, json, os, shutil, signal, socket, subprocess, sys, tempfile, time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import fake as fakes

SUANLI = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else os.path.join(fakes.ROOT, "build/src/cli/suanli"))
SSHD = shutil.which("sshd") or "/usr/sbin/sshd"
TMP = tempfile.mkdtemp(prefix="suanli-copy-")
AT = lambda *p: os.path.join(TMP, *p)

def keygen(path):
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path], check=True)

def start_sshd():
    keygen(AT("host"))
    keygen(AT("user"))
    shutil.copy(AT("user.pub"), AT("authorized"))
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    os.makedirs("/run/sshd", exist_ok=True)
    p = subprocess.Popen([SSHD, "-D", "-e", "-f", "/dev/null", "-p", str(port), "-h", AT("host"), "-o", "ListenAddress=127.0.0.1",
                          "-o", f"AuthorizedKeysFile={AT('authorized')}", "-o", "StrictModes=no", "-o", "UsePAM=no",
                          "-o", "PermitRootLogin=yes", "-o", "PidFile=none"], stdin=subprocess.DEVNULL,
                         stderr=open(AT("sshd.log"), "w"))
    for _ in range(100):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return p, port
        except OSError:
            time.sleep(0.05)
    raise SystemExit("1..0 # SKIP sshd does not start here: " + open(AT("sshd.log")).read()[-200:])

if os.getuid() != 0 or not os.path.exists(SSHD):
    print("1..0 # SKIP needs root and OpenSSH's sshd")
    sys.exit(0)

F = fakes.Fake()
sshd, port = start_sshd()
import pwd
F.over["instance_get"] = {"ssh": {"host": "127.0.0.1", "port": port, "user": pwd.getpwuid(os.getuid()).pw_name,
                                  "host_key": " ".join(open(AT("host.pub")).read().split()[:2])}}
ENV = {"PATH": os.environ["PATH"], "HOME": AT("home"), "LC_ALL": "C.UTF-8", "SUANLI_URL": F.url, "SUANLI_TOKEN": "t",
       "SUANLI_IDENTITY": AT("user"), "XDG_RUNTIME_DIR": AT("run")}
os.makedirs(AT("home"))
os.makedirs(AT("run"))
os.makedirs(AT("far"))

def run(*words, cwd=None):
    p = subprocess.run([SUANLI, *words], env=ENV, cwd=cwd or TMP, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                       stderr=subprocess.PIPE, timeout=60)
    p.out, p.err = p.stdout.decode(), p.stderr.decode()
    return p

def check(cond, detail=""):
    if not cond:
        raise AssertionError(str(detail))

def digest(path):
    return hashlib.sha256(open(path, "rb").read()).hexdigest()

def write(path, data):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(data)

BIG = os.urandom(8 << 20)

def a_command_runs_and_its_exit_code_comes_back():
    r = run("exec", "work", "--", "sh", "-c", "echo 'a  b'; exit 7")
    check(r.returncode == 7 and r.out == "a  b\n", (r.out, r.err))
    r = run("ssh", "work", "--", "echo $((1+2))")
    check(r.returncode == 0 and r.out == "3\n", (r.out, r.err))

def a_wrong_host_key_is_refused_with_255():
    good = F.over["instance_get"]["ssh"]["host_key"]
    F.over["instance_get"]["ssh"]["host_key"] = " ".join(open(AT("user.pub")).read().split()[:2])
    r = run("ssh", "work", "--", "true")
    c = run("cp", AT("host.pub"), "work:" + AT("far/x"))
    F.over["instance_get"]["ssh"]["host_key"] = good
    check(r.returncode == 255, r.err)
    check(c.returncode == 8 and not os.path.exists(AT("far/x")), c.err)
    check(run("ssh", "work", "--", "true").returncode == 0)

def a_file_goes_there_and_comes_back_with_its_mode():
    write(AT("near/one 'q'.bin"), BIG)
    os.chmod(AT("near/one 'q'.bin"), 0o751)
    r = run("cp", AT("near/one 'q'.bin"), "work:" + AT("far"))
    far = AT("far/one 'q'.bin")
    check(r.returncode == 0 and digest(far) == digest(AT("near/one 'q'.bin")), r.err)
    check(os.stat(far).st_mode & 0o777 == 0o751)
    r = run("cp", "work:" + far, AT("back.bin"))
    check(r.returncode == 0 and open(AT("back.bin"), "rb").read() == BIG, r.err)

def a_folder_goes_whole_and_a_second_copy_sends_nothing():
    for i in range(5):
        write(AT(f"near/tree/d{i % 2}/子 {i}.txt"), b"x" * i)
    os.makedirs(AT("near/tree/empty"))
    os.symlink("/etc/passwd", AT("near/tree/link"))
    r = run("cp", AT("near/tree"), "work:" + AT("far/copy"), "--json")
    doc = json.loads(r.out)
    check(r.returncode == 0 and doc["files"] == 5, r.err)
    check(not os.path.lexists(AT("far/copy/link")) and "link" in r.err)
    same = subprocess.run(["diff", "-r", "--exclude=link", AT("near/tree"), AT("far/copy")])
    check(same.returncode == 0)
    r = run("cp", AT("near/tree"), "work:" + AT("far"), "--json")
    check(os.path.isdir(AT("far/tree/empty")), "a folder goes into a folder that exists")
    r = run("cp", AT("near/tree"), "work:" + AT("far"), "--json")
    check(json.loads(r.out)["files"] == 0 and json.loads(r.out)["skipped_files"] == 5, r.out)
    r = run("cp", "work:" + AT("far/copy"), AT("again"))
    check(subprocess.run(["diff", "-r", AT("far/copy"), AT("again")]).returncode == 0, r.err)

def many_small_files_go_fast_both_ways_and_a_changed_one_again():
    for i in range(300):
        write(AT(f"near/many/d{i % 7}/-f {i} 子.txt"), os.urandom(i * 7))
    write(AT("near/many/" + "n" * 120 + "/long"), b"long name")
    os.chmod(AT("near/many/d0/-f 0 子.txt"), 0o741)
    start = time.time()
    doc = json.loads(run("cp", AT("near/many"), "work:" + AT("far/many"), "--json").out)
    check(doc["files"] == 301 and subprocess.run(["diff", "-r", AT("near/many"), AT("far/many")]).returncode == 0, doc)
    check(os.stat(AT("far/many/d0/-f 0 子.txt")).st_mode & 0o777 == 0o741)
    os.makedirs(AT("back"))
    doc = json.loads(run("cp", "work:" + AT("far/many"), AT("back/many"), "--json").out)
    check(doc["files"] == 301 and subprocess.run(["diff", "-r", AT("near/many"), AT("back/many")]).returncode == 0, doc)
    check(time.time() - start < 30, time.time() - start)
    for i in range(2, 300):
        os.unlink(AT(f"far/many/d{i % 7}/-f {i} 子.txt"))
    write(AT("far/many/d1/-f 1 子.txt"), b"changed")
    doc = json.loads(run("cp", AT("near/many"), "work:" + AT("far"), "--json").out)
    check(doc["files"] == 299 and doc["skipped_files"] == 2, doc)
    check(subprocess.run(["diff", "-r", AT("near/many"), AT("far/many")]).returncode == 0)

def what_a_broken_copy_left_is_used_when_it_is_a_prefix():
    write(AT("near/big"), BIG)
    write(AT("far/big.suanli-part"), BIG[:3000000])
    doc = json.loads(run("cp", AT("near/big"), "work:" + AT("far/big"), "--json").out)
    check(doc["resumed_bytes"] == 3000000 and doc["bytes"] == len(BIG) - 3000000, doc)
    check(digest(AT("far/big")) == digest(AT("near/big")) and not os.path.exists(AT("far/big.suanli-part")))
    write(AT("down.suanli-part"), BIG[:1234567])
    doc = json.loads(run("cp", "work:" + AT("far/big"), AT("down"), "--json").out)
    check(doc["resumed_bytes"] == 1234567 and digest(AT("down")) == digest(AT("near/big")), doc)

def what_is_no_prefix_is_thrown_away():
    for bad in (b"z" * 3000000, BIG + b"longer"):
        write(AT("near/big2"), BIG)
        if os.path.exists(AT("far/big2")):
            os.unlink(AT("far/big2"))
        write(AT("far/big2.suanli-part"), bad)
        doc = json.loads(run("cp", AT("near/big2"), "work:" + AT("far/big2"), "--json").out)
        check(doc["resumed_bytes"] == 0 and digest(AT("far/big2")) == digest(AT("near/big2")), doc)
        write(AT("down2.suanli-part"), bad)
        doc = json.loads(run("cp", "work:" + AT("far/big2"), AT("down2"), "--json").out)
        check(doc["resumed_bytes"] == 0 and digest(AT("down2")) == digest(AT("near/big2")), doc)
        os.unlink(AT("down2"))

def interrupted_copies_go_on_where_they_were():
    write(AT("near/huge"), BIG * 12)
    p = subprocess.Popen([SUANLI, "cp", AT("near/huge"), "work:" + AT("far/huge")], env=ENV, stdin=subprocess.DEVNULL,
                         stderr=subprocess.PIPE)
    part = AT("far/huge.suanli-part")
    end = time.time() + 30
    while time.time() < end and (not os.path.exists(part) or os.path.getsize(part) < 1 << 20):
        time.sleep(0.005)
    p.send_signal(signal.SIGINT)
    err = p.communicate(timeout=30)[1].decode()
    check(p.returncode == 130 and "goes on from there" in err and os.path.exists(part), (p.returncode, err))
    doc = json.loads(run("cp", AT("near/huge"), "work:" + AT("far/huge"), "--json").out)
    check(doc["resumed_bytes"] > 0 and digest(AT("far/huge")) == digest(AT("near/huge")), doc)

def a_missing_source_is_not_found():
    check(run("cp", "work:" + AT("far/none"), AT("x")).returncode == 3)
    r = run("cp", AT("none"), "work:" + AT("far/none"))
    check(r.returncode != 0 and "none" in r.err)

def nothing_of_ours_is_left_behind():
    check(not os.listdir(AT("run")), os.listdir(AT("run")))

tests = [a_command_runs_and_its_exit_code_comes_back, a_wrong_host_key_is_refused_with_255,
         a_file_goes_there_and_comes_back_with_its_mode, a_folder_goes_whole_and_a_second_copy_sends_nothing,
         many_small_files_go_fast_both_ways_and_a_changed_one_again,
         what_a_broken_copy_left_is_used_when_it_is_a_prefix, what_is_no_prefix_is_thrown_away,
         interrupted_copies_go_on_where_they_were, a_missing_source_is_not_found, nothing_of_ours_is_left_behind]
bad = 0
print(f"1..{len(tests)}", flush=True)
for n, t in enumerate(tests, 1):
    try:
        t()
        print(f"ok {n} - {t.__name__.replace('_', ' ')}", flush=True)
    except Exception as e:
        bad += 1
        print(f"not ok {n} - {t.__name__.replace('_', ' ')}", flush=True)
        print("\n".join("# " + l for l in repr(e).splitlines()[:20]), flush=True)
sshd.terminate()
sshd.wait()
shutil.rmtree(TMP, ignore_errors=True)
sys.exit(1 if bad else 0)
