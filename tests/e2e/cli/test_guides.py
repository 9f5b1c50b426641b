#!/usr/bin/env python3
"""Every command that README and guides print, in both languages, typed against a fake server. Prints TAP."""
import glob, json, os, re, shlex, shutil, subprocess, sys, tempfile, time, unicodedata

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import fake as fakes

SUANLI = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else os.path.join(fakes.ROOT, "build/src/cli/suanli"))
TMP = tempfile.mkdtemp(prefix="suanli-guides-")
F = fakes.Fake()
tests = []
PAGES = {"en": "README.md", "zh-CN": "README.zh-CN.md"}
CONFIG = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "intermediate_size": 11008,
          "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32, "vocab_size": 32000}


class Failed(Exception):
    pass


def check(cond, detail=""):
    if not cond:
        raise Failed(str(detail)[:3000])


def test(f):
    tests.append(f)
    return f


def pages(language):
    return [os.path.join(fakes.ROOT, PAGES[language])] + sorted(glob.glob(f"{fakes.ROOT}/docs/guide/{language}/*.md"))


def text_of(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def blocks(path):
    """The lines that a page shows to be typed: fences of sh and indented lines."""
    fence = None
    for line in text_of(path).splitlines():
        mark = re.match(r"```(\w*)$", line)
        if mark:
            fence = mark[1] if fence is None else None
        elif fence == "sh" or (fence is None and line.startswith("    ")):
            yield line.strip()


def typed(path):
    """The commands of suanli among them, as words; a comment is left out."""
    for line in blocks(path):
        found = re.match(r"(?:\(umask 077; )?(?:\./)?suanli (.*)$", line)
        if found:
            yield shlex.split(re.sub(r" \| .*$", "", found[1]), comments=True)


def inline(path):
    """Commands named inside a sentence: `suanli wallet`, with flags when they stand there."""
    flat = re.sub(r"\s+", " ", re.sub(r"```.*?```", "", text_of(path), flags=re.S))
    for found in re.findall(r"`(?:\./)?suanli ([a-z][^`]*)`", flat):
        yield found


def home_new():
    home = tempfile.mkdtemp(dir=TMP)
    os.makedirs(os.path.join(home, ".config/suanli"))
    os.makedirs(os.path.join(home, ".ssh"), mode=0o700)
    profiles = "".join(f'[profile.{p}]\nurl = "{F.url}"\ntoken = "sk_secret"\n' for p in ("default", "operator"))
    files = {".config/suanli/config.toml": profiles, ".ssh/id_ed25519.pub": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ mei@laptop\n",
             "2026-03-31.csv": "reference,order,kind,amount,currency,time\npay-1,ord_a,payment,100.00,CNY,1774915200\n",
             "jobs.csv": "timestamp,duration,num_gpus\n2026-01-01 00:00:00,60.0,1\n2026-01-01 00:01:00,60.0,8\n",
             "nodes.csv": "sn,cpu_milli,memory_mib,gpu,model\nn1,16000,65536,2,A\nn2,32000,131072,4,B\n",
             "tasks.csv": "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,creation_time,deletion_time\n"
                          "t1,4000,8192,1,1000,,BE,0,900\nt2,4000,8192,1,500,B,LS,60,700\n",
             "my-model/config.json": json.dumps(CONFIG)}
    for name, content in files.items():
        os.makedirs(os.path.dirname(os.path.join(home, name)), exist_ok=True)
        with open(os.path.join(home, name), "w", encoding="utf-8") as f:
            f.write(content)
    shutil.copy(os.path.join(fakes.ROOT, "tests/golden/bill.jsonl"), os.path.join(home, "march.jsonl"))
    os.makedirs(os.path.join(home, "bin"))
    with open(os.path.join(home, "bin/ssh"), "w") as f:
        f.write("#!/bin/sh\nexit 0\n")
    os.chmod(os.path.join(home, "bin/ssh"), 0o755)
    return home


def run(words, home):
    words = [F.url if w.startswith("https://gpu.example.org") else w for w in words]
    words = [os.path.join(fakes.ROOT, w) if w.startswith("tests/") else w for w in words]
    env = {"PATH": home + "/bin:" + os.environ["PATH"], "HOME": home, "LC_ALL": "C.UTF-8", "TZ": "Asia/Shanghai"}
    env.update({k: v for k, v in os.environ.items() if k.endswith("SAN_OPTIONS")})
    p = subprocess.run([SUANLI, *words], env=env, cwd=home, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                       stderr=subprocess.PIPE, timeout=60)
    return p.returncode, p.stdout.decode(), p.stderr.decode()


def some_use():
    """An account that has used ten hours of a card, for what counts from usage."""
    now = int(time.time())
    F.over["bill_get"] = {"lines": [dict(fakes.shape("bill_line"), meter="gpu", quantity="36000", amount=fakes.money("20"))]}
    piece = dict(fakes.shape("usage_slice"), meter="gpu", gpu_count=1, billed_from_s=now - 36000, billed_to_s=now,
                 gpu_util_pct=90, next=None)
    F.streams["usage_export"] = [[(1, piece)] for _ in range(4)]


def plain(words):
    """What a page must not carry in a command: ${…}, a placeholder that is no word."""
    return [w if "$(" not in w else "2026-03-01-1200" for w in words]


def asks(words):
    """Whether the command is one that asks before it acts; a test has no terminal to answer on."""
    return ["--yes"] if "--yes" not in words and "--dry-run" not in words else []


@test
def every_command_of_readme_and_guides_works_as_printed():
    count, bad = 0, []
    for language in PAGES:
        for path in pages(language):
            for words in typed(path):
                if words[0] == "cp" or ".gguf" in " ".join(words):  # copies and model files have tests of their own
                    continue
                words = [w for w in words if w != "--follow"]
                if words[:1] == ["--profile"] and "--ca" in words:  # a certificate that is not there
                    at = words.index("--ca")
                    words = words[:at] + words[at + 2:]
                F.reset()
                some_use()
                home, words = home_new(), plain(words)
                rc, out, err = run(words, home)
                if rc == 2 and "--yes" in err:
                    rc, out, err = run(words + asks(words), home)
                count += 1
                if rc != 0:
                    bad.append(f"{os.path.relpath(path, fakes.ROOT)}: suanli {shlex.join(words)}: {rc}\n{out[-300:]}{err[-600:]}")
    check(not bad, "\n".join(bad))
    check(count > 150, count)


@test
def every_command_named_in_a_sentence_and_each_of_its_flags_is_there():
    helps, bad = {}, []
    home = home_new()
    for language in PAGES:
        for path in pages(language):
            for text in inline(path):
                words = [w for w in text.split() if not w.startswith("--")]
                for n in range(min(3, len(words)), 0, -1):  # the longest verb that is one
                    verb = " ".join(words[:n])
                    if verb not in helps:
                        helps[verb] = run(["help", *words[:n]], home)
                    if helps[verb][0] == 0:
                        break
                rc, out, err = helps[verb]
                lacking = [f for f in re.findall(r"--[a-z][a-z-]*", text.split(" -- ")[0]) if f not in out]
                if rc != 0 or lacking:
                    bad.append(f"{os.path.relpath(path, fakes.ROOT)}: suanli {text}: {rc} {lacking} {err}")
    check(not bad, "\n".join(bad))
    check(len(helps) > 20, helps.keys())


@test
def both_languages_print_the_same_commands():
    for en, zh in zip(pages("en"), pages("zh-CN")):
        one, two = list(typed(en)), list(typed(zh))
        check(one == two, [os.path.basename(en), [w for w in one if w not in two], [w for w in two if w not in one]])


@test
def every_link_of_readme_and_docs_leads_somewhere():
    for path in [*pages("en"), *pages("zh-CN"), *glob.glob(f"{fakes.ROOT}/docs/*.md")]:
        for target in re.findall(r"\]\(([^)#]+)", text_of(path)):
            there = target.startswith("http") or os.path.exists(os.path.join(os.path.dirname(path), target))
            check(there, f"{path}: {target}")


@test
def readme_leads_to_every_page():
    for language, readme in PAGES.items():
        text = text_of(os.path.join(fakes.ROOT, readme))
        lacking = [p for p in pages(language)[1:] if os.path.relpath(p, fakes.ROOT) not in text]
        lacking += [p for p in glob.glob(f"{fakes.ROOT}/docs/*.md") if f"docs/{os.path.basename(p)}" not in text]
        check(not lacking, lacking)


def view_lists():
    return dict(re.findall(r'\{"(\w+)", "([^"]*)"\}', text_of(fakes.ROOT + "/src/cli/view.c")))


def own_screens():
    return set(re.findall(r'\{"([a-z -]+)", cmd_', text_of(fakes.ROOT + "/src/cli/main.c"))) - {"wallet topup", "wallet pay"}


@test
def no_list_of_a_screen_is_ids_alone():
    lacking = []
    for op in fakes.OPS:
        for name, kind in fakes.FIELDS.get(op["schema"], []):
            inner = kind[8:-1] if kind.startswith("LIST_OF") else ""
            if op["cli"] and op["cli"] not in own_screens() and name == "items" and inner in fakes.FIELDS:
                lacking += [] if inner in view_lists() else [(op["cli"], inner)]
    check(not lacking, lacking)


@test
def every_title_of_a_column_is_there_in_chinese():
    known = set()
    for path in glob.glob(fakes.ROOT + "/po/zh_CN/*.po"):
        known |= set(re.findall(r'^msgid "(.*)"$', text_of(path), re.M))
    lists, named, seen = view_lists(), set(), set()

    def walk(schema):
        if schema in seen:
            return
        seen.add(schema)
        for name, kind in fakes.FIELDS.get(schema, []):
            if kind.startswith("LIST_OF") and kind[8:-1] in lists or name in ("items", "next_cursor"):
                continue
            named.add(name)
            walk(kind)

    for op in fakes.OPS:
        if op["cli"] and op["cli"] not in own_screens():
            walk(op["schema"])
    for columns in lists.values():
        named.update(columns.split())
    titles = {re.sub(r"_s$", "", n.replace("_mib", "")).replace("_", " ").upper() for n in named}
    check(titles <= known and len(titles) > 100, sorted(titles - known))


@test
def the_bill_fits_eighty_columns_and_numbers_its_lines():
    F.reset()
    line = dict(fakes.shape("bill_line"), n=1, **{"from": "2026-03-01T02:00:00Z", "to": "2026-03-31T02:00:00Z"},
                price_version="prc_mx6451b8e3fmz4", formula="floor((2592000 card-second x 1980000) / 3600) = 1425600000 u")
    F.over["bill_get"] = {"lines": [line, dict(line, n=2)], "by": None}
    for language in ("en", "zh"):
        rc, out, err = run(["bill", "2026-03", "--lang", language], home_new())
        check(rc == 0 and "\n  1  " in out and "\n  2  " in out and "prc_mx6451b8e3fmz4" in out, out + err)
        wide = [l for l in out.splitlines() if sum(2 if unicodedata.east_asian_width(x) in "WF" else 1 for x in l) > 80]
        check(not wide, wide)


@test
def wide_lists_fit_eighty_columns():
    at = "2026-03-31T02:00:00Z"
    rows = {"disk ls": ("disk_list", dict(fakes.shape("disk"), id="dsk_mx6451b8e3fmz4", name="data-imagenet", state="detached",
                                          size_mib=10485760, used_mib=10485000, instance="ins_mx6451b8e3fmz4", kept_until=at)),
            "admin node ls": ("node_list", dict(fakes.shape("node"), name="node-07b", state="draining", simulated=False,
                                                gpus=[dict(fakes.shape("node_gpu"), model="RTX 4090", simulated=False)] * 8,
                                                unknown=["lea_mx6451b8e3fmz4"])),
            "admin voucher ls": ("voucher_batch_list", dict(fakes.shape("voucher_batch"), id="vba_mx6451b8e3fmz4",
                                                            amount=fakes.money("12345.00"), scope="compute", count=100000,
                                                            redeemed=100000, expires=at))}
    for verb, (op, row) in rows.items():
        for language in ("en", "zh"):
            F.reset()
            F.over[op] = {"items": [row]}
            rc, out, err = run(verb.split() + ["--lang", language], home_new())
            wide = [l for l in out.splitlines() if sum(2 if unicodedata.east_asian_width(x) in "WF" else 1 for x in l) > 80]
            check(rc == 0 and row.get("name", row["id"]) in out and not wide, (verb, out + err))


@test
def an_order_in_another_currency_reads_as_words():
    F.reset()
    F.over["order_create"] = {"exchange": {"rate": "71234/10000", "fee": fakes.money("0.75", "USD"),
                                           "converted": fakes.money("249.25", "USD"), "credited": fakes.money("1775.50745")}}
    rc, out, err = run(["wallet", "topup", "250", "--currency", "USD"], home_new())
    check(rc == 0 and "7.1234\n" in out and "$0.75\n" in out and "1775.50745\n" in out and "{" not in out, out + err)


@test
def a_group_of_verbs_alone_says_so():
    rc, out, err = run(["admin", "seller"], home_new())
    check(rc == 2 and "admin seller" in err and "suanli help admin" in err, err)


def main():
    print(f"1..{len(tests)}")
    failed = 0
    for i, f in enumerate(tests, 1):
        try:
            f()
            print(f"ok {i} - {f.__name__}", flush=True)
        except Exception as e:
            failed += 1
            print(f"not ok {i} - {f.__name__}", flush=True)
            print("# " + str(e).replace("\n", "\n# "), flush=True)
    shutil.rmtree(TMP, ignore_errors=True)
    return 1 if failed else 0


sys.exit(main())
