#!/usr/bin/env python3
"""The CLI as typed, against a fake server. Prints TAP."""
import json, os, pty, re, select, shlex, shutil, signal, subprocess, sys, tempfile, threading, time, unicodedata, hashlib
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support"))
import signing

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import fake as fakes

SUANLI = sys.argv[1] if len(sys.argv) > 1 else os.path.join(fakes.ROOT, "build/src/cli/suanli")
SUANLI = os.path.abspath(SUANLI)
TMP = tempfile.mkdtemp(prefix="suanli-cli-")
F = fakes.Fake()
results = []

class Result:
    def __init__(self, rc, out, err):
        self.rc, self.out, self.err = rc, out, err
    def __repr__(self):
        return f"rc={self.rc}\nout={self.out}\nerr={self.err}"

def home_new(url=None, token="sk_secret"):
    home = tempfile.mkdtemp(dir=TMP)
    os.makedirs(os.path.join(home, ".config/suanli"))
    os.makedirs(os.path.join(home, ".ssh"), mode=0o700)
    if token:
        with open(os.path.join(home, ".config/suanli/config.toml"), "w") as f:
            f.write(f'# mine\n[profile.default]\nurl = "{url or F.url}"\ntoken = "{token}"\n')
    with open(os.path.join(home, ".ssh/id_ed25519.pub"), "w") as f:
        f.write("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ mei@laptop\n")
    return home

HOME = home_new()

def environ(home=None, **more):
    env = {"PATH": os.environ["PATH"], "HOME": home or HOME, "LC_ALL": "C.UTF-8", "TZ": "Asia/Shanghai"}
    env.update({k: v for k, v in os.environ.items() if k.endswith("SAN_OPTIONS")})
    env.update({k: v for k, v in more.items() if v is not None})
    return env

def run(words, home=None, cwd=None, stdin=subprocess.DEVNULL, timeout=30, **env):
    words = shlex.split(words) if isinstance(words, str) else words
    p = subprocess.run([SUANLI, *words], env=environ(home, **env), cwd=cwd or home or HOME, stdin=stdin,
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=timeout)
    return Result(p.returncode, p.stdout.decode(), p.stderr.decode())

def run_pty(words, keys=None, home=None, timeout=20):
    """On a terminal: keys is a list of (text to wait for, what is typed then)."""
    pid, fd = pty.fork()
    if pid == 0:
        os.chdir(home or HOME)
        os.execve(SUANLI, [SUANLI, *shlex.split(words)], environ(home, TERM="xterm"))
    seen, keys, end = "", list(keys or []), time.time() + timeout
    while time.time() < end:
        ready, _, _ = select.select([fd], [], [], 0.1)
        if ready:
            try:
                data = os.read(fd, 65536)
            except OSError:
                break
            if not data:
                break
            seen += data.decode(errors="replace")
        if keys and keys[0][0] in seen:
            os.write(fd, keys.pop(0)[1].encode())
    else:
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    os.close(fd)
    return Result(os.waitstatus_to_exitcode(status), seen, "")

class Failed(Exception):
    pass

def check(cond, detail=""):
    if not cond:
        raise Failed(str(detail))

def one_json(text):
    value, end = json.JSONDecoder().raw_decode(text)
    check(text[end:] == "\n", "more than one document: " + text)
    return value

def width(s):
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in s)

def last(op):
    return [r for r in F.requests if r["op"] == op][-1]

tests = []
def test(f):
    tests.append(f)
    return f

EXAMPLES = [(cli, text) for cli, text in fakes.rows("src/cli/verbs.def", "EXAMPLE")]
LOCAL = [r[1] for r in fakes.rows("src/cli/verbs.def", "VERB")]

@test
def every_operation_and_verb_has_an_example():
    have = {cli for cli, _ in EXAMPLES}
    lacking = [c for c in [o["cli"] for o in fakes.OPS] + LOCAL if c and c not in have]
    check(not lacking, lacking)

def tiny_bill(path):
    """A bill file of a month in which nothing was used, sealed with a key of its own."""
    key, digest, lines = signing.Key(bytes(32)), bytes(32), []
    for number in range(3):
        o = [{"k": "head", "format": "suanli.bill.1", "rules": 1, "project": "prj_a", "name": "a", "month": "2026-03",
              "zone": "UTC", "currency": "CNY", "from_s": 1772323200, "to_s": 1775001600, "cut_s": 1775001600,
              "open": False, "key": key.hex},
             {"k": "total", "windows": 0, "rated_u": "0", "posted_u": "0"},
             {"k": "end", "lines": 3, "seal": key.sign(b"suanli.bill.1\0\0\0" + digest)}][number]
        body = json.dumps(o, separators=(",", ":"))[:-1]
        digest = hashlib.sha256(digest + body.encode()).digest()
        lines.append(f'{body},"sum":"{digest.hex()[:16]}"}}\n')
    with open(path, "w") as f:
        f.writelines(lines)

def example_home():
    home = home_new()
    for name in ("code.txt", "id_ed25519.pub"):
        with open(os.path.join(home, name), "w") as f:
            f.write("ssh-ed25519 AAAA mei\n" if "pub" in name else "K7QF-2M9X\n")
    tiny_bill(os.path.join(home, "bill-2026-03.jsonl"))
    with open(os.path.join(home, "jobs.csv"), "w") as f:
        f.write("timestamp,duration,num_gpus\n2026-01-01 00:00:00,60.0,1\n2026-01-01 00:01:00,60.0,8\n")
    with open(os.path.join(home, "nodes.csv"), "w") as f:
        f.write("sn,cpu_milli,memory_mib,gpu,model\nn1,16000,65536,2,A\nn2,32000,131072,4,B\nn3,8000,32768,0,\n")
    with open(os.path.join(home, "tasks.csv"), "w") as f:
        f.write("name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time\n"
                "t1,4000,8192,1,1000,,BE,Running,0,900\nt2,4000,8192,1,500,B,LS,Running,60,700\n"
                "t3,2000,4096,0,0,,LS,Running,60,700\nt4,8000,16384,4,1000,,LS,Running,90,800\n"
                "t5,1000,1024,1,1000,C,LS,Running,95,800\n")
    with open(os.path.join(home, "2026-03-31.csv"), "w") as f:
        f.write("reference,order,kind,amount,currency,time\npay-1,ord_a,payment,100.00,CNY,1774915200\n")
    shutil.copy(os.path.join(fakes.ROOT, "tests/golden/bill.jsonl"), os.path.join(home, "bill-2026-03.jsonl"))
    return home

def fake_path(home, *programs):
    """A folder before PATH whose ssh and editors tell their words and end well."""
    folder = os.path.join(home, "bin")
    os.makedirs(folder, exist_ok=True)
    for name in programs:
        path = os.path.join(folder, name)
        with open(path, "w") as f:
            f.write('#!/bin/sh\nfor a; do printf "%s\\n" "$a"; done >>"$HOME/ssh.log"\n'
                    'case $0 in */suanlid) echo K7QF-2M9X;; esac\nexit ${SSH_EXIT:-0}\n')
        os.chmod(path, 0o755)
    return folder + ":" + os.environ["PATH"]

def split_example(text):
    words = shlex.split(text)[1:]
    words = [F.url if w.startswith("https://") else w for w in words]
    return [os.path.join(fakes.ROOT, w) if w.startswith("tests/") else w for w in words]  # files of the repository

@test
def every_example_of_the_help_runs():
    for cli, text in EXAMPLES:
        if cli in ("cp", "key add") or "--follow" in text:
            continue
        F.reset()
        home = example_home()
        r = run(split_example(text), home=home, PATH=fake_path(home, "ssh", "code", "suanlid"))
        check(r.rc == 0, f"{text}: {r}")
    F.reset()
    home = example_home()
    check(run("key add id_ed25519.pub --name laptop", home=home).rc == 0)
    check(last("key_add")["body"] == {"name": "laptop", "public_key": "ssh-ed25519 AAAA mei"}, last("key_add"))
    check(run("key add", home=home).rc == 0)
    check(last("key_add")["body"]["public_key"].startswith("ssh-ed25519 AAAAC3"))

@test
def every_help_shows_its_examples_and_fits_eighty_columns():
    for lang in ("en", "zh"):
        for cli in {c for c, _ in EXAMPLES}:
            r = run(cli + " --help --lang " + lang)
            check(r.rc == 0 and "suanli " + cli in r.out, f"{cli}: {r}")
            long = [l for l in r.out.splitlines() if width(l) > 80 and "suanli " not in l]
            check(not long, f"{cli}: {long}")

@test
def every_verb_with_json_prints_one_document():
    script = {"exec", "completion", "man"}  # their output is a script, a page, a command's own
    for cli, text in EXAMPLES:
        if cli == "cp":
            continue
        F.reset()
        home = example_home()
        words = split_example(text)
        at = words.index("--") if "--" in words else len(words)
        r = run(words[:at] + ["--json"] + words[at:], home=home, PATH=fake_path(home, "ssh", "code", "suanlid"))
        doc = one_json(r.out)
        if cli in script:
            check(r.rc == 2 and doc["code"] == "usage", f"{text}: {r}")
        else:
            check(r.rc == 0, f"{text}: {r}")

@test
def json_is_the_answer_of_the_api_untouched():
    F.reset()
    F.over["instance_get"] = {"later_field": [1, {"a": "b"}], "price_hour": fakes.money("1.234567")}
    doc = one_json(run("show work --json").out)
    check(doc["later_field"] == [1, {"a": "b"}] and doc["price_hour"]["amount"] == "1.234567", doc)

@test
def lists_of_several_pages_come_whole():
    F.reset()
    F.script["instance_list"] = [{"items": [fakes.shape("instance")], "next_cursor": "c1"},
                                 {"items": [dict(fakes.shape("instance"), id="ins_two")], "next_cursor": None}]
    r = run("ls -q")
    check(r.out.split() == ["ins_k3v9abcdefghij", "ins_two"], r)
    check(last("instance_list")["query"]["cursor"] == "c1")

@test
def quiet_prints_ids():
    F.reset()
    check(run("ls -q").out == "ins_k3v9abcdefghij\n")
    check(run("rent --gpu 4090 --for 1h -q").out == "ins_k3v9abcdefghij\n")
    check(run("disk create data --size 1GiB -q").out == "dsk_a\n")

@test
def nothing_asks_or_hangs_without_a_terminal():
    for cli, text in EXAMPLES:
        if cli == "cp":
            continue
        F.reset()
        home = example_home()
        r = run([w for w in split_example(text) if w != "--yes"], home=home, PATH=fake_path(home, "ssh", "code", "suanlid"))
        check(r.rc in (0, 2), f"{text}: {r}")
    for words, flag in (("release work", "--yes"), ("disk rm data", "--yes"), ("admin node rm box1", "--yes"), ("admin restore x", "--yes"),
                        ("login --url " + F.url, "--code")):
        F.reset()
        r = run(words)
        check(r.rc == 2 and flag in r.err and not F.acts, f"{words}: {r}")

@test
def missing_words_and_wrong_values_are_usage_errors():
    for words in ("show", "extend", "extend work", "rent", "port open work", "port open work x", "disk create data --size 5",
                  "rent --gpu 4090 --for 5", "extend work 1.5h", "rent --gpu 4090 --until 25:00", "budget set m --cap -5",
                  "ls --wat", "ls one", "rent --gpu", "rent --gpu a --gpu b", "admin topup vision 1e3", "cp a b",
                  "cp a:x b:y", "disk", "admin node", "ls -- x", "exec work", "nonsense", "help nonsense", "rent --for=x --gpu a"):
        F.reset()
        r = run(words)
        check(r.rc == 2 and not F.requests, f"{words}: {r}")

@test
def near_verbs_and_flags_are_named():
    check("rent" in run("rnt").err and run("rnt").rc == 2)
    check("--count" in run("rent --cont 2").err)
    check("stop or release" in run("rm work").err)
    check("disk ls" in run("disks").err)

@test
def synonyms_do_it_and_say_the_real_name():
    F.reset()
    r = run("ps")
    check(r.rc == 0 and "ls" in r.err and "work" in r.out, r)
    check("offers" in run("sinfo").err and "ls" in run("squeue").err)

@test
def near_cards_and_instances_are_named():
    F.reset()
    F.over["offer_list"] = {"items": []}
    F.script["offer_list"] = [{"items": []}, {"items": [fakes.shape("offer")]}]
    r = run("offers gpu=4009")
    check("RTX 4090" in r.err and r.rc == 0, r)
    F.reset()
    F.over["quote_create"] = {"fits": False, "why": fakes.problem("capacity_never", 409, "No machine here", "no 4009")[1]}
    r = run("rent --gpu 4009")
    check(r.rc == 6 and "RTX 4090" in r.err and not F.acts, r)
    F.reset()
    F.fail["instance_get"] = fakes.problem("not_found", 404, "There is no instance wrok.")
    r = run("show wrok")
    check(r.rc == 3 and "work" in r.err, r)

@test
def exit_codes_follow_the_table():
    table = [(r[0].lower(), int(r[1]), int(r[2])) for r in fakes.rows("src/base/errors.def", "ERR") if len(r) > 2]
    table = re.findall(r"^ERR\((\w+), (\d+), (\d+),", open(fakes.ROOT + "/src/base/errors.def").read(), re.M)
    check(len(table) > 40)
    for code, http, want in table:
        if code in ("RATE_LIMITED",):
            continue
        F.reset()
        F.fail["wallet_get"] = fakes.problem(code.lower(), int(http) if int(http) > 399 else 500, "what")
        r = run("wallet")
        check(r.rc == int(want), f"{code}: {r}")

@test
def errors_say_what_why_next_code_and_request_id():
    F.reset()
    F.fail["instance_create"] = fakes.problem("balance", 402, "Short by 3.", "1.90 is needed, 0.10 is there", "suanli wallet")
    r = run("rent --gpu 4090")
    check(r.rc == 7, r)
    lines = r.err.strip().splitlines()[-4:]
    check(lines == ["error: Short by 3.   [balance]", "  why: 1.90 is needed, 0.10 is there", "  try: suanli wallet",
                    "  request id: req_77"], lines)
    r = run("rent --gpu 4090 --lang zh")
    check("错误：Short by 3.   [balance]" in r.err and "建议：suanli wallet" in r.err and "请求 id：req_77" in r.err, r)
    check(last("instance_create")["lang"] == "zh-CN")
    F.reset()
    r = run("wallet", home=home_new(token=None), LC_ALL="zh_CN.UTF-8")
    check(r.rc == 4 and "尚未登录" in r.err, r)
    doc = one_json(run("wallet --json", home=home_new(token=None)).out)
    check(doc["code"] == "auth_required" and doc["next"] == "suanli login")

@test
def language_comes_from_flag_then_environment():
    F.reset()
    run("ls", LANG="zh_CN.UTF-8", LC_ALL="")
    check(last("instance_list")["lang"] == "zh-CN")
    run("ls", LANG="zh_CN.UTF-8", LC_ALL="C.UTF-8")
    check(last("instance_list")["lang"] == "en")
    run("ls --lang zh", LANG="en_US.UTF-8")
    check(last("instance_list")["lang"] == "zh-CN")

@test
def chinese_screens_are_chinese():
    F.reset()
    for words in ("", "offers", "ls", "show work", "wallet", "bill", "help all", "rent --help", "help flags", "help exit-codes"):
        r = run(words + " --lang zh")
        text = r.out
        for verb in sorted({c for c, _ in EXAMPLES}, key=len, reverse=True):
            text = text.replace(verb, "")
        left = re.findall(r"[A-Za-z]{4,}(?: [A-Za-z]{3,}){2,}", text)
        left = [l for l in left if "suanli" not in l and "shared kernel" not in l and "offers rent" not in l]
        check(r.rc == 0 and not left, f"{words}: {left}")

@test
def every_text_of_the_cli_has_its_chinese_with_the_same_places():
    catalogue = {}
    for name in os.listdir(fakes.ROOT + "/po/zh_CN"):
        key = None
        for line in open(os.path.join(fakes.ROOT, "po/zh_CN", name), encoding="utf-8"):
            m = re.match(r'(msgid|msgstr) "(.*)"$', line.strip())
            if m and m[1] == "msgid":
                key = m[2]
            elif m:
                catalogue[key] = m[2]
    folder = os.path.join(fakes.ROOT, "src/cli")
    spec = lambda s: [re.sub(r"\d+\$", "", x) for x in re.findall(r"%(?:\d+\$)?[-+.\d*]*(?:l|z)?[a-z%]", s)]
    lacking = []
    for name in sorted(os.listdir(folder)):
        text = open(os.path.join(folder, name), encoding="utf-8").read()
        for m in re.finditer(r'\b(?:tr|N_)\(\s*((?:"(?:\\.|[^"\\])*"|\s|PRId64)+)\)', text):
            parts = re.findall(r'"((?:\\.|[^"\\])*)"|(PRId64)', m[1])
            key = "".join("ld" if number else piece for piece, number in parts)
            if key not in catalogue:
                lacking.append(f"{name}: {key}")
            else:
                check(sorted(spec(key)) == sorted(spec(catalogue[key])), key)
    check(not lacking, "\n".join(lacking))

@test
def tables_stand_in_columns_with_wide_letters():
    F.reset()
    a = dict(fakes.shape("instance"), name="训练任务", state_text="运行中")
    b = dict(fakes.shape("instance"), name="x", state_text="stopped", rate_now=fakes.money("12.000000"))
    F.over["instance_list"] = {"items": [a, b]}
    r = run("ls")
    want = ("NAME      STATE    WHAT                      ENDS                         NOW  SPENT  NOTE\n"
            "训练任务  运行中   1 x RTX 4090 (simulated)  2026-03-01 18:05+08:00   ¥1.88/h  ¥4.21\n"
            "x         stopped  1 x RTX 4090 (simulated)  2026-03-01 18:05+08:00  ¥12.00/h  ¥4.21\n")
    check(r.out == want, r)
    lines = r.out.splitlines()
    at = {width(l[:l.index("1 x RTX")]) for l in lines[1:]}
    check(len(at) == 1, r)

@test
def names_cannot_move_the_cursor():
    F.reset()
    evil = "a\x1b[2Jb\nc\u202ed\u200b\x9be"
    F.over["instance_list"] = {"items": [dict(fakes.shape("instance"), name=evil)]}
    F.over["instance_get"] = {"name": evil, "report": {evil: evil}}
    F.over["disk_list"] = {"items": [dict(fakes.shape("disk"), name=evil)]}
    F.fail["wallet_get"] = fakes.problem("busy", 500, evil, evil, evil)
    for words in ("ls", "show work", "show work --report", "disk ls", "wallet"):
        r = run(words)
        bad = [c for c in r.out + r.err if (ord(c) < 32 and c != "\n") or 127 <= ord(c) < 160 or c in "\u202e\u200b"]
        check(not bad and "a[2Jb" in r.out + r.err, f"{words}: {r}")

@test
def simulated_cards_are_said_wherever_they_appear():
    F.reset()
    for words in ("offers", "ls", "show work", "bill", "wallet", "admin node ls", "whoami"):
        r = run(words)
        for line in (r.out + r.err).splitlines():
            check("4090" not in line or "simulated" in line.lower(), f"{words}: {line}")
    r = run("rent --gpu 4090 --for 4h")
    check("simulated" in r.out and "simulated" in r.err, r)

@test
def offers_filter_words_travel_as_one_filter():
    F.reset()
    run(["offers", "gpu=4090", "vram>=24", "price<3"])
    check(last("offer_list")["query"]["filter"] == "gpu=4090 vram>=24 price<3")

@test
def rent_shows_all_prices_before_it_spends():
    F.reset()
    r = run("rent --gpu 4090 --for 4h --disk data:200GB --memory 8GiB --then release -- python3 'a b.py'")
    for text in ("¥1.88/h", "¥0.02/h", "¥7.52", "¥1.90", "¥98.10", "¥0.313334", "190735MiB", "8GiB", "4h"):
        check(text in r.err, f"{text}: {r}")
    check([x["op"] for x in F.requests][:2] == ["quote_create", "instance_create"], F.requests)
    body = last("instance_create")["body"]
    check(body["quote"] == "signed.text" and body["command"] == ["python3", "a b.py"] and body["then"] == "release", body)
    check(r.out.startswith("Running. ¥1.88/h. ") and "suanli ssh work" in r.out, r)

@test
def rent_has_an_end_by_default():
    F.reset()
    run("rent --gpu 4090")
    check(last("instance_create")["body"]["for"] == "4h")
    run("rent --gpu 4090 --no-end")
    check("for" not in last("instance_create")["body"] and last("instance_create")["body"]["no_end"] is True)
    run("rent --gpu 4090", SUANLI_FOR="2h")
    check(last("instance_create")["body"]["for"] == "2h")
    run("rent --gpu 4090 --until '2030-01-31 08:00'")
    check(last("instance_create")["body"]["until"] == "2030-01-31T00:00:00Z")

@test
def rent_waits_and_shows_the_steps():
    F.reset()
    step = lambda n, text: {"state": "preparing", "state_text": "preparing", "step": {"n": n, "count": 5, "text": text}}
    F.script["instance_get"] = [step(1, "image")] * 4 + [step(4, "network")] * 3 + [{"state": "running"}]
    r = run("rent --gpu 4090 --for 1h")
    check(r.rc == 0 and "preparing 4/5: network" in r.err and "Running." in r.out, r)

@test
def a_start_that_fails_says_why():
    F.reset()
    F.script["instance_get"] = [{"state": "failed", "why": fakes.problem("image_pull", 502, "The image could not be fetched")[1]}]
    r = run("rent --gpu 4090 --for 1h")
    check(r.rc == 1 and "[image_pull]" in r.err and r.out == "", r)
    doc = one_json(run("rent --gpu 4090 --for 1h --json").out)
    check(doc["state"] == "failed")

@test
def no_wait_returns_at_once():
    F.reset()
    F.over["instance_create"] = {"state": "preparing", "state_text": "preparing"}
    r = run("rent --gpu 4090 --for 1h --no-wait")
    check(r.rc == 0 and "instance_get" not in [x["op"] for x in F.requests], r)

@test
def dry_run_spends_and_destroys_nothing():
    for words in ("rent --gpu 4090", "stop work", "start work", "extend work 1h", "resize work --count 2", "release work",
                  "disk create d --size 1GiB", "disk grow d --size 2GiB", "disk rm d", "admin price set disk 1",
                  "admin topup vision 5"):
        F.reset()
        r = run(words + " --dry-run")
        check(r.rc == 0 and not F.acts and "ry run" in r.err, f"{words}: {r}")
        check([x for x in F.requests if x["query"].get("dry_run") == "true"], f"{words}: {F.requests}")
    F.reset()
    r = run("budget rm m --dry-run")
    check(r.rc == 2 and not F.requests, r)

@test
def a_lost_answer_is_continued_by_the_same_command():
    F.reset()
    home = home_new()
    F.drop["instance_create"] = 2  # the client itself tries a broken connection once more
    r = run("rent --gpu 4090 --for 1h", home=home)
    check(r.rc == 8 and "same act" in r.err, r)
    F.over["quote_create"] = {"quote": "another.signature"}
    r = run("rent --gpu 4090 --for 1h", home=home)
    check(r.rc == 0 and F.acts == ["instance_create"] and "same act" in r.err, r)
    creates = [x for x in F.requests if x["op"] == "instance_create"]
    check(creates[0]["key"] == creates[1]["key"] and creates[0]["body"] == creates[1]["body"], creates)
    run("rent --gpu 4090 --for 1h", home=home)
    check(F.acts == ["instance_create"] * 2)

@test
def a_refusal_of_the_server_is_an_answer():
    F.reset()
    home = home_new()
    F.fail["disk_grow"] = fakes.problem("unsupported", 501, "disk grow is not possible here")
    r = run("disk grow data --size 2GiB", home=home)
    check(r.rc == 1 and "same act" not in r.err, r)
    check(not os.listdir(os.path.join(home, ".local/state/suanli/pending")))

@test
def another_command_is_another_act():
    F.reset()
    home = home_new()
    F.drop["instance_create"] = 2  # the client itself tries a broken connection once more
    run("rent --gpu 4090 --for 1h", home=home)
    run("rent --gpu 4090 --for 2h", home=home)
    check(F.acts == ["instance_create"] * 2)

@test
def the_same_command_at_once_elsewhere_is_another_act():
    F.reset()
    home = home_new()
    todo = [threading.Thread(target=run, args=("rent --gpu 4090 --for 1h",), kwargs={"home": home}) for _ in range(8)]
    [x.start() for x in todo]
    [x.join() for x in todo]
    check(F.acts == ["instance_create"] * 8, F.acts)
    left = os.listdir(os.path.join(home, ".local/state/suanli/pending"))
    check(not left, left)

@test
def an_old_lost_answer_is_forgotten():
    F.reset()
    home = home_new()
    F.drop["instance_create"] = 2  # the client itself tries a broken connection once more
    run("rent --gpu 4090 --for 1h", home=home)
    folder = os.path.join(home, ".local/state/suanli/pending")
    for name in os.listdir(folder):
        os.utime(os.path.join(folder, name), (time.time() - 90,) * 2)
    run("rent --gpu 4090 --for 1h", home=home)
    check(F.acts == ["instance_create"] * 2)

@test
def ctrl_c_while_waiting_says_what_goes_on():
    F.reset()
    F.script["instance_get"] = [{"state": "preparing", "state_text": "preparing", "step": {"n": 2, "count": 5, "text": "disk"}}]
    r = run_pty("rent --gpu 4090 --for 1h", [("Enter rents it", "\n"), ("2/5", "\x03")])
    check(r.rc == 130 and "goes on starting" in r.out and "suanli release work" in r.out, r)
    F.reset()
    r = run_pty("rent --gpu 4090 --for 1h", [("Enter rents it", "\x03")])
    check(r.rc in (130, -2) and not F.acts, r)

@test
def release_asks_on_a_terminal():
    F.reset()
    data = dict(fakes.shape("instance_disk"), kind="data", name="datasets")
    F.over["instance_get"] = {"disks": [fakes.shape("instance_disk"), data]}
    r = run_pty("release work", [("[y/N]", "n\n")])
    check(r.rc == 130 and not F.acts and "lost   system disk root" in r.out and "kept   disk datasets" in r.out, r)
    r = run_pty("release work --with-disks", [("[y/N]", "y\n")])
    check(r.rc == 0 and F.acts == ["instance_release"] and "lost   data disk datasets" in r.out, r)

@test
def release_waits_until_erased_or_says_eleven():
    F.reset()
    F.script["instance_get"] = [{"state": "running"}, {"state": "releasing", "state_text": "releasing"}]
    r = run("release work --yes --timeout 1s")
    check(r.rc == 11 and "[erase_pending]" in r.err, r)
    F.reset()
    F.script["instance_get"] = [{"state": "running"}, {"state": "releasing"}, {"state": "releasing"}, {"state": "released"}]
    r = run("release work --yes")
    check(r.rc == 0 and "erased" in r.out, r)

@test
def stop_says_three_facts():
    F.reset()
    F.over["instance_get"] = {"kept_until": "2026-03-16T10:05:00Z", "state": "stopped"}
    r = run("stop work")
    check(r.rc == 0 and "nothing from now on" in r.err and "¥0.02/h" in r.err and "2026-03-16 18:05+08:00" in r.err, r)

@test
def a_wait_with_timeout_ends_with_eight():
    F.reset()
    F.script["instance_get"] = [{"state": "stopping"}]
    r = run("stop work --timeout 1s")
    check(r.rc == 8 and "[timeout]" in r.err, r)

@test
def money_is_shown_by_text():
    F.reset()
    for amount, currency, want in (("1.880000", "CNY", "¥1.88"), ("2", "CNY", "¥2.00"), ("0.000019", "CNY", "¥0.000019"),
                                   ("-0.5", "USD", "-$0.50"), ("9007199254740993.123456", "CNY", "¥9007199254740993.123456"),
                                   ("120.000000", "JPY", "JPY 120"), ("1.100000", "KWD", "KWD 1.10")):
        F.over["wallet_get"] = {"cash": fakes.money(amount, currency)}
        r = run("wallet")
        check(re.search(r"^cash +" + re.escape(want) + "$", r.out, re.M), f"{want}: {r}")

@test
def times_are_local_with_offset():
    F.reset()
    check("2026-03-01 18:05+08:00" in run("show work").out)
    check("2026-03-01 10:05+00:00" in run("show work --utc").out)

@test
def login_keeps_the_token_for_its_owner_only():
    F.reset()
    home = home_new()
    path = os.path.join(home, ".config/suanli/config.toml")
    with open(path, "w") as f:
        f.write('# keep me\nlang = "en"\n[profile.other]\nurl = "https://other"\ntoken = "other"\n')
    r = run(["login", "--url", F.url, "--code", "K7QF"], home=home)
    check(r.rc == 0 and last("login")["body"]["code"] == "K7QF" and last("login")["auth"] is None, r)
    text = open(path).read()
    check(os.stat(path).st_mode & 0o777 == 0o600 and "# keep me" in text and '"other"' in text, text)
    check(run("whoami", home=home).rc == 0 and last("me")["auth"] == "Bearer sk_secret")
    VALUES = fakes.VALUES
    VALUES["token"] = "sk_new"
    r = run(["login", "--code-file", "-"], home=home, stdin=open(os.path.join(example_home(), "code.txt")))
    VALUES["token"] = "sk_secret"
    check(r.rc == 0 and last("login")["body"]["code"] == "K7QF-2M9X", r)
    check(open(path).read().count("token = ") == 2 and "sk_new" in open(path).read())

@test
def login_asks_on_a_terminal_and_does_not_echo():
    F.reset()
    r = run_pty("login --url " + F.url, [("code:", "SECRET-9\n")], home=home_new(token=None))
    check(r.rc == 0 and last("login")["body"]["code"] == "SECRET-9" and "SECRET-9" not in r.out, r)

@test
def a_token_goes_only_where_it_was_made():
    F.reset()
    home = home_new(url="https://elsewhere.example")
    r = run(["wallet", "--url", F.url], home=home)
    check(last("wallet_get")["auth"] is None)
    r = run("wallet", home=home, SUANLI_URL=F.url)
    check(last("wallet_get")["auth"] is None)
    run(["wallet", "--url", F.url + "/"])
    check(last("wallet_get")["auth"] == "Bearer sk_secret")
    r = run("wallet", home=home, SUANLI_URL=F.url, SUANLI_TOKEN="mine")
    check(last("wallet_get")["auth"] == "Bearer mine")

@test
def plain_http_is_for_this_machine_only():
    for url in ("http://gpu.example.org", "http://127.0.0.1.example.org", "http://127.0.0.1:80@evil.example", "ftp://x"):
        r = run(["wallet", "--url", url], SUANLI_TOKEN="t")
        check(r.rc == 2, f"{url}: {r}")

@test
def configuration_has_its_order_and_its_line_numbers():
    F.reset()
    home = home_new()
    path = os.path.join(home, ".config/suanli/config.toml")
    text = open(path).read()
    open(path, "w").write('for = "1h" # mine\nimage = \'own\'\n' + text)
    work = tempfile.mkdtemp(dir=TMP)
    run("rent --gpu 4090", home=home, cwd=work)
    check(last("instance_create")["body"]["for"] == "1h" and last("instance_create")["body"]["image"] == "own")
    open(os.path.join(work, ".suanli.toml"), "w").write('for = "2h"\n')
    run("rent --gpu 4090", home=home, cwd=work)
    check(last("instance_create")["body"]["for"] == "2h")
    run("rent --gpu 4090", home=home, cwd=work, SUANLI_FOR="3h")
    check(last("instance_create")["body"]["for"] == "3h")
    run("rent --gpu 4090 --for 5h", home=home, cwd=work, SUANLI_FOR="3h")
    check(last("instance_create")["body"]["for"] == "5h")
    for bad in ('url = "https://evil.example"', 'token = "x"', "wat = 1", "for = 1.5", 'for = "x', "[profile.x]", "= 3",
                'for = "a" "b"', "for"):
        open(os.path.join(work, ".suanli.toml"), "w").write("# one\n" + bad + "\n")
        r = run("ls", home=home, cwd=work)
        check(r.rc == 2 and ".suanli.toml:2" in r.err, f"{bad}: {r}")

@test
def unix_socket_and_tls_addresses_work():
    sock = os.path.join(TMP, "api.sock")
    u = fakes.Fake(unix=sock)
    r = run(["wallet", "--url", u.url], SUANLI_TOKEN="t")
    check(r.rc == 0 and "¥98.10" in r.out, r)
    cert, key = os.path.join(TMP, "c.pem"), os.path.join(TMP, "k.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-keyout", key, "-out", cert, "-days", "2", "-subj", "/CN=127.0.0.1", "-addext",
                    "subjectAltName=IP:127.0.0.1"], check=True, stderr=subprocess.DEVNULL)
    s = fakes.Fake(tls=(cert, key))
    r = run(["wallet", "--url", s.url, "--ca", cert], SUANLI_TOKEN="t")
    check(r.rc == 0, r)
    home = home_new(token=None)
    r = run(["login", "--url", s.url, "--ca", "c.pem", "--code", "x"], home=home, cwd=TMP)
    check(r.rc == 0 and run("whoami -q", home=home).out == "mei\n", r)
    r = run(["wallet", "--url", s.url], SUANLI_TOKEN="t")
    check(r.rc != 0 and "--ca" in r.err and len([x for x in s.requests if x["op"] == "wallet_get"]) == 1, r)

@test
def logs_follow_and_resume_where_they_broke():
    F.reset()
    chunk = lambda n, text: (n, {"from": n, "text": text})
    F.streams["instance_logs"] = [[chunk(0, "one\n"), chunk(4, "two\n")], [chunk(8, "three\n")], []]
    p = subprocess.Popen([SUANLI, "logs", "work", "-f"], env=environ(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    got = b""
    while b"three" not in got:
        got += os.read(p.stdout.fileno(), 4096) or check(False, got)
    p.send_signal(signal.SIGINT)
    check(p.wait(10) == 130 and got == b"one\ntwo\nthree\n", got)
    p.stdout.close()
    ids = [x["last_id"] for x in F.requests if x["op"] == "instance_logs"]
    check(ids[:2] == [None, "4"], ids)

@test
def events_and_usage_stream_as_lines():
    F.reset()
    F.streams["event_list"] = [[(1, fakes.shape("event")), (2, fakes.shape("event"))]]
    check(run("events").out.count("instance.running") == 2)
    r = run("usage export")
    check(json.loads(r.out)["billed_from_s"] == 1, r)
    row = fakes.shape("usage_slice")
    F.streams["usage_export"] = [[(1, row), (2, {"next": "lea_a:7"})], [(3, row), (4, {"next": "disks:9"})],
                                 [(5, row)]]
    r = run("usage export --month 2026-03")
    check(len(r.out.splitlines()) == 3 and "next" not in r.out, r)
    pages = [x["query"].get("after") for x in F.requests if x["op"] == "usage_export"][-3:]
    check([p if isinstance(p, (str, type(None))) else p[0] for p in pages] == [None, "lea_a:7", "disks:9"], pages)
    F.streams["event_list"] = [[(1, fakes.shape("event")), (2, fakes.shape("event"))]]
    check(len(one_json(run("events --json").out)["items"]) == 2)

@test
def ssh_knows_the_host_key_and_passes_the_exit_code():
    F.reset()
    home = home_new()
    path = fake_path(home, "ssh")
    r = run(["ssh", "work", "--", "echo", "a b", "$X"], home=home, PATH=path, SSH_EXIT="7")
    words = open(os.path.join(home, "ssh.log")).read().splitlines()
    check(r.rc == 7 and words[-1] == "echo 'a b' '$X'" and words[-2] == "root@127.0.0.1", words)
    check("-oStrictHostKeyChecking=yes" in words and "-oHostKeyAlias=ins_k3v9abcdefghij" in words, words)
    known = open(os.path.join(home, ".config/suanli/known_hosts")).read()
    check(known == "ins_k3v9abcdefghij ssh-ed25519 AAAAC3Nza\n", known)
    F.over["instance_get"] = {"state": "stopped", "state_text": "stopped", "actions": ["start", "release"]}
    r = run("ssh work", home=home, PATH=path)
    check(r.rc == 5 and "suanli start work" in r.err, r)
    F.over["instance_get"] = {"ssh": {"host": "-oProxyCommand=x", "port": 1, "user": "root", "host_key": "ssh-ed25519 A"}}
    check(run("ssh work", home=home, PATH=path).rc == 1)

@test
def ssh_config_is_one_include_at_the_top_once():
    F.reset()
    home = home_new()
    config = os.path.join(home, ".ssh/config")
    mine = "Host *\n  User nobody\n\nHost work\n  HostName elsewhere\n"
    open(config, "w").write(mine)
    r = run("ssh-config", home=home)
    check(r.rc == 0 and "Host work" in r.err and r.out == "work\n", r)
    first = open(config).read()
    check(first == 'Include "~/.config/suanli/ssh_config"\n' + mine, first)
    own = open(os.path.join(home, ".config/suanli/ssh_config")).read()
    check("Host work ins_k3v9abcdefghij\n  HostName 127.0.0.1" in own and "~/.config/suanli/known_hosts" in own, own)
    run("ssh-config", home=home)
    check(open(config).read() == first)
    open(config, "w").write(mine + 'Include "~/.config/suanli/ssh_config"\n')  # the Host * trap
    run("ssh-config", home=home)
    check(open(config).read() == first)
    run("ssh-config --remove", home=home)
    check(open(config).read() == mine and not os.path.exists(os.path.join(home, ".config/suanli/ssh_config")))

@test
def code_opens_the_editor_or_prints_the_command():
    F.reset()
    home = home_new()
    r = run("code work", home=home, PATH="/usr/bin:/bin")
    check(r.rc == 0 and "vscode-remote://ssh-remote+work/" in r.out, r)
    r = run("code work --folder /data", home=home, PATH=fake_path(home, "code"))
    check("ssh-remote+work/data" in open(os.path.join(home, "ssh.log")).read(), r)

@test
def doctor_names_a_fix_for_what_is_wrong():
    F.reset()
    r = run("doctor")
    check(r.rc == 0 and "BAD" not in r.out, r)
    home = home_new(token=None)
    r = run(["doctor", "--url", F.url], home=home)
    check(r.rc == 1 and "suanli login" in r.out, r)
    r = run(["doctor", "--url", "http://127.0.0.1:1"], home=home)
    check(r.rc == 1 and "BAD" in r.out)
    doc = one_json(run("doctor --json").out)
    check(doc["ok"] is True and {c["check"] for c in doc["checks"]} >= {"server", "clock", "who you are", "SSH keys", "ssh client"})

@test
def completion_knows_verbs_flags_and_live_names():
    F.reset()
    home = home_new()
    complete = lambda *w: run(["__complete", *w], home=home).out.split("\n")[:-1]
    check({"rent", "release", "resize", "review"} == set(complete("re")), complete("re"))
    check({"ls", "create", "show", "grow", "attach", "detach", "rm"} == set(complete("disk", "")), complete("disk", ""))
    check(set(complete("admin", "node", "")) >= {"ls", "add", "drain"})
    check("--system-disk" in complete("rent", "--sys") and "--json" in complete("ls", "--"))
    check(complete("stop", "") == ["work"] and complete("rent", "--gpu", "") == ["RTX 4090"])
    n = len(F.requests)
    start = time.time()
    complete("stop", "w")
    check(len(F.requests) == n and time.time() - start < 1)
    for shell in ("bash", "zsh", "fish"):
        check("__complete" in run("completion " + shell).out)
    check(run("completion tcsh").rc == 2)

@test
def bash_completion_script_loads_and_completes():
    if not shutil.which("bash"):
        return
    home = home_new()
    script = run("completion bash", home=home).out
    os.makedirs(os.path.join(home, "bin"))
    os.symlink(SUANLI, os.path.join(home, "bin/suanli"))
    r = subprocess.run(["bash", "-c", script + "COMP_WORDS=(suanli disk at); COMP_CWORD=2; _suanli; echo ${COMPREPLY[@]}"],
                       env=environ(home, PATH=os.path.join(home, "bin") + ":" + os.environ["PATH"]),
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    check(r.stdout == b"attach\n", r)

@test
def manual_pages_lint():
    groff = shutil.which("groff")
    for words in ("man", "man rent", "man 'admin node ls'"):
        r = run(words)
        check(r.rc == 0 and r.out.startswith(".TH SUANLI"), r)
        if groff:
            p = subprocess.run([groff, "-man", "-ww", "-z", "-Tutf8", "-k"], input=r.out.encode(), stderr=subprocess.PIPE)
            check(p.returncode == 0 and not p.stderr, p.stderr)

@test
def colour_is_for_terminals_and_never_with_no_color():
    F.reset()
    check("\x1b" not in run("ls").out)
    check("\x1b[1m" in run_pty("ls").out)
    check("\x1b[1m" not in run_pty("ls --no-color").out)

@test
def a_busy_server_is_waited_for_as_it_says():
    F.reset()
    calls = []
    def busy(h):
        calls.append(1)
        if len(calls) == 1:
            return h.reply(*fakes.problem("busy", 503, "The server is busy."), headers=(("Retry-After", "1"),))
        return h.reply(200, fakes.shape("wallet"))
    F.fail["wallet_get"] = busy
    r = run("wallet")
    check(r.rc == 0 and len(calls) == 2 and "1 s" in r.err, r)

@test
def no_words_show_help_or_what_runs():
    F.reset()
    check("work" in run("").out)
    r = run("", home=home_new(token=None))
    check(r.rc == 0 and "suanli login" in r.out, r)

@test
def an_unreachable_server_is_eight():
    r = run("wallet --url http://127.0.0.1:1", SUANLI_TOKEN="t")
    check(r.rc == 8 and "[unreachable]" in r.err, r)

@test
def tco_answers_without_a_server_and_says_why():
    home = home_new(token=None)
    r = run("tco", home=home)
    check(r.rc == 0 and "Verdict: buy" in r.out and "14.9820 months, so month 15" in r.out and "26.6362 %" in r.out, r)
    check("730 h" in r.out and "8,760 h" in r.out and "--price" in r.out and "BECAUSE" in r.out, r)
    check("Most sensitive to: rental price, staff, utilisation" in r.out, r)
    r = run("tco --price 1 --data-stays", home=home)
    check("Verdict: buy" in r.out and "because of rule 1" in r.out and "the figures alone: rent" in r.out, r)
    doc = one_json(run("tco --json --rate 8%", home=home).out)
    check(doc["verdict"] == "own" and doc["present_value_of_buying"] == {"amount": "1138785.56", "currency": "CNY"}, doc)
    check(sum(float(v["amount"]) for v in doc["own_lines"].values()) == float(doc["own"]["amount"]), doc)
    check(run("tco --cards 8 --capex 1200000 --hosting 50000 --utilisation 0.4 --price 18 -q", home=home).out == "too_close\n")

@test
def tco_refuses_what_cannot_be_with_a_next_step():
    home = home_new(token=None)
    for words, flag in (("--utilisation 1.2", "--utilisation"), ("--price x", "--price"), ("--vat 20", "--vat"),
                        ("--years 0", "--years"), ("--weeks 2 --years 3", "--weeks"), ("--currency EUR", "--price"),
                        ("--currency QQQ", "--currency"), ("--demand 8", "--demand"), ("--demand 8:0.6,4:0.6", "--demand"),
                        ("--job 4h", "--spot"), ("--months 2", "--from-usage"), ("--utilisation 1e9", "--utilisation"),
                        ("--cards 0", "--cards"), ("--spot 8 --checkpoint soon", "--checkpoint")):
        for lang in ("en", "zh"):
            r = run(f"tco {words} --lang {lang}", home=home)
            check(r.rc == 2 and flag in r.err and ("try: " in r.err or "建议：" in r.err), f"{words}: {r}")

@test
def tco_asks_on_a_terminal_when_nothing_is_given():
    r = run_pty("tco", [("[8]: ", "4\n"), ("[60%]: ", "\n"), ("[20]: ", "30\n"), ("a card]: ", "\n"), ("Hosting a year", "\n"),
                        ("Persons", "\n"), ("Years", "2\n")])
    check(r.rc == 0 and "4 cards, used 60 %, 2 years" in r.out and "500000.00 CNY" in r.out, r)

@test
def tco_takes_hours_price_and_idle_share_from_the_account():
    F.reset()
    now = int(time.time())
    line = dict(fakes.shape("bill_line"), meter="gpu", quantity=str(2 * 36000), amount=fakes.money("40.000000"))
    disk = dict(line, meter="disk", amount=fakes.money("9.000000"))
    F.over["bill_get"] = {"lines": [line, disk]}
    piece = lambda begin, end, busy: dict(fakes.shape("usage_slice"), meter="gpu", gpu_count=1, billed_from_s=now - begin,
                                          billed_to_s=now - end, gpu_util_pct=busy, next=None)
    F.streams["usage_export"] = [[(1, piece(36000, 18000, 90)), (2, piece(18000, 0, 1)), (3, piece(36000, 0, 90))]] * 4
    r = run("tco --from-usage --months 1 --json")
    doc = one_json(r.out)
    check(r.rc == 0 and doc["input"]["cards"] == 2 and doc["input"]["price_hour"] == 2, r)
    check(doc["input"]["usage"]["card_hours"] == 20 and abs(doc["input"]["usage"]["idle_share"] - 0.25) < 1e-6, doc)
    check(abs(doc["input"]["utilisation"] - 1) < 0.01, doc)
    check("25.0 % of it idle" in run("tco --from-usage --months 1").out)
    r = run("tco --from-usage --months 1 --currency USD")
    check(r.rc == 2 and "[currency]" in r.err, r)
    F.over["bill_get"] = {"lines": []}
    r = run("tco --from-usage --months 1")
    check(r.rc == 2 and "--utilisation" in r.err, r)

@test
def market_shows_dated_prices_and_keeps_the_old_ones():
    home = home_new(token=None)
    r = run("market", home=home)
    check(r.rc == 0 and "18-35 CNY" in r.out and "2026-11-30" in r.out and "suanli offers" in r.err, r)
    row = '[%s]\nprovider = "P"\ncard = "H100"\nlow = "%s"\nhigh = "9"\ncurrency = "USD"\ndate = "%s"\nsource = "s"\n'
    path = os.path.join(home, "m.toml")
    def put(text):
        with open(path, "w") as f:
            f.write(text)
    put(row % ("a", "3", "2026-01-01") + row % ("b", "2", "2026-02-01"))
    check([i["low"]["amount"] for i in one_json(run(f"market --file {path} --json", home=home).out)["items"]] == ["2"])
    check(len(one_json(run(f"market --file {path} --history --json", home=home).out)["items"]) == 2)
    for text in (row % ("a", "10", "2026-01-01"), row % ("a", "1", "then"), "low = \"1\"\n", "[a]\nwhat = \"x\"\n", "[a\n",
                 "[a]\nprovider = \"x\"\n", "\0\1\2", (row % ("a", "3", "2026-01-01")) * 2000):
        put(text)
        r = run(f"market --file {path}", home=home)
        check(r.rc in (0, 2) and (r.rc == 2 or not r.out.count("H100")) and "Traceback" not in r.err, f"{text[:60]}: {r}")
    r = run("market --file /nonexistent", home=home)
    check(r.rc == 2 and "--file" in r.err, r)

@test
def a_price_is_noted_with_its_day_and_never_changed():
    home = home_new(token=None)
    add = lambda low, day, more="": run(f"market add --provider 'Cloud X' --card A100-80 --low {low} --currency CNY --source seen --date {day} {more}",
                                        home=home)
    check(add("12", "2026-01-01").rc == 0 and add("11.5", "2027-02-01").rc == 0)
    r = add("3", "2026-01-01")
    check(r.rc == 2 and "never changed" in r.err, r)
    mine = lambda words: [(i["date"], i["low"]["amount"]) for i in one_json(run(words + " --json", home=home).out)["items"]
                          if i["provider"] == "Cloud X"]
    check(mine("market") == [("2027-02-01", "11.5")], mine("market"))
    check(sorted(mine("market --history")) == [("2026-01-01", "12"), ("2027-02-01", "11.5")], mine("market --history"))
    check("Aliyun" in run("market", home=home).out)  # the installed book is still there
    for words in ("--low x", "--low 5 --high 3", "--low 5 --date then", "--low 5 --currency ABC", "--low 5 --source 'a\"b'"):
        given = " ".join(f"--{n} {v}" for n, v in (("provider", "P"), ("card", "C"), ("currency", "CNY"), ("source", "s")) if f"--{n}" not in words)
        check(run(f"market add {given} {words}", home=home).rc == 2, words)
    path = os.path.join(home, "other.toml")
    check(run(f"market add --provider P --card C --low 5 --currency CNY --source s --file {path}", home=home).rc == 0)
    check(len(one_json(run(f"market --file {path} --json", home=home).out)["items"]) == 1)

@test
def ls_is_quick():
    F.reset()
    start = time.time()
    for _ in range(5):
        run("ls")
    check((time.time() - start) / 5 < 1.0, (time.time() - start) / 5)

def main():
    only = sys.argv[2:] 
    chosen = [t for t in tests if not only or t.__name__ in only]
    bad = 0
    print(f"1..{len(chosen)}", flush=True)
    for n, t in enumerate(chosen, 1):
        name = t.__name__.replace("_", " ")
        try:
            t()
            print(f"ok {n} - {name}", flush=True)
        except Exception as e:
            bad += 1
            print(f"not ok {n} - {name}", flush=True)
            text = str(e) if isinstance(e, Failed) else repr(e)
            print("\n".join("# " + l for l in text.splitlines()[:30]), flush=True)
    shutil.rmtree(TMP, ignore_errors=True)
    sys.exit(1 if bad else 0)

main()
