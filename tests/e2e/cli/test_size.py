#!/usr/bin/env python3
"""suanli size as typed: without a server, with one, from files of every kind, and from files that are
hostile or broken. Prints TAP."""
import json, os, re, resource, shutil, socket, struct, subprocess, sys, tempfile, threading, time, unicodedata

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import fake as fakes

SUANLI = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else os.path.join(fakes.ROOT, "build/src/cli/suanli"))
TMP = tempfile.mkdtemp(prefix="suanli-size-")
AT = lambda *p: os.path.join(TMP, *p)
SANITIZED = b"__asan_init" in open(SUANLI, "rb").read()
tests, GIB = [], 1 << 30


def home_new(url=None):
    home = tempfile.mkdtemp(dir=TMP)
    os.makedirs(os.path.join(home, ".config/suanli"))
    if url:
        with open(os.path.join(home, ".config/suanli/config.toml"), "w") as f:
            f.write(f'[profile.default]\nurl = "{url}"\ntoken = "sk_secret"\n')
    return home


FRESH = home_new()


def run(*words, home=FRESH, memory=None, timeout=20):
    env = {"PATH": os.environ["PATH"], "HOME": home, "LC_ALL": "C.UTF-8"}
    env.update({k: v for k, v in os.environ.items() if k.endswith("SAN_OPTIONS")})
    limit = (lambda: resource.setrlimit(resource.RLIMIT_AS, (memory, memory))) if memory and not SANITIZED else None
    start = time.monotonic()
    p = subprocess.run([SUANLI, "size", *map(str, words)], env=env, cwd=home, stdin=subprocess.DEVNULL,
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=timeout, preexec_fn=limit)
    p.out, p.err, p.took = p.stdout.decode(), p.stderr.decode(), time.monotonic() - start
    return p


def doc(*words, **more):
    p = run(*words, "--json", **more)
    check(p.returncode == 0, p)
    return json.loads(p.out)


class Failed(Exception):
    pass


def check(cond, detail=""):
    if not cond:
        raise Failed(repr(detail)[:2000])


def test(f):
    tests.append(f)
    return f


def width(s):
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in s)


@test
def a_fresh_installation_answers_without_a_server():
    p = run("Qwen2.5-7B", "--task", "lora")
    check(p.returncode == 0 and not p.err, p)
    for part in ("7,615,616,512 parameters", "RTX 4090", "weights", "Take 1 x", "--task qlora", "GiB", "MIG", "trial"):
        check(part in p.out, (part, p.out))
    check("suanli login" in p.out, p.out)


@test
def screens_fit_eighty_columns_in_both_languages():
    for words in (["Qwen2.5-7B"], ["Llama-3.1-70B", "--task", "infer", "--framework", "vllm"], ["Mixtral-8x7B", "--task", "full"],
                  ["DeepSeek-V3", "--task", "infer"], ["--params", "13B", "--task", "qlora", "--seq", "4096"]):
        for lang in ("en", "zh"):
            p = run(*words, "--lang", lang)
            check(p.returncode == 0, p)
            wide = [l for l in p.out.splitlines() if width(l) > 80]
            check(not wide, wide)
            if lang == "zh":
                check("显存" in p.out and not re.search("MEMORY|TAKEN|CARDS THAT|What decides", p.out), p.out)


@test
def the_same_question_by_name_config_safetensors_and_numbers_agrees():
    config = {"model_type": "qwen2", "hidden_size": 896, "intermediate_size": 4864, "num_attention_heads": 14,
              "num_key_value_heads": 2, "num_hidden_layers": 24, "vocab_size": 151936, "tie_word_embeddings": True,
              "torch_dtype": "bfloat16", "max_position_embeddings": 32768}
    os.makedirs(AT("half"))
    with open(AT("half/config.json"), "w") as f:
        json.dump(config, f)
    named = doc("Qwen2.5-0.5B", "--task", "full")
    for words in ([AT("half")], [AT("half/config.json")], ["--config", AT("half/config.json")]):
        other = doc(*words, "--task", "full")
        check(other["total"] == named["total"] and other["model"]["params"] == named["model"]["params"], other["model"])
    tensors, at = {}, 0
    for name, shape in (("model.embed_tokens.weight", [151936, 896]), ("model.layers.0.rest", [357898112])):
        size = 2 * shape[0] * (shape[1] if len(shape) > 1 else 1)
        tensors[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + size]}
        at += size
    head = json.dumps(tensors).encode()
    with open(AT("half/model.safetensors"), "wb") as f:
        f.write(struct.pack("<Q", len(head)) + head)
        f.truncate(8 + len(head) + at)
    got = doc(AT("half"), "--task", "infer")
    check(got["model"]["source"] == "safetensors" and got["model"]["stored_bytes"] == at, got["model"])


def text(s):
    return struct.pack("<Q", len(s)) + s.encode()


def gguf(vocab=1000, parts=0):
    kv = [text("split.count") + struct.pack("<IH", 2, parts)] if parts else []
    kv += [text("general.architecture") + struct.pack("<I", 8) + text("llama"),
          text("tokenizer.ggml.tokens") + struct.pack("<IIQ", 9, 8, vocab) + b"".join(text(f"t{i}") for i in range(vocab))]
    for k, v in (("block_count", 2), ("embedding_length", 256), ("feed_forward_length", 512), ("attention.head_count", 4),
                 ("attention.head_count_kv", 2), ("context_length", 4096)):
        kv.append(text("llama." + k) + struct.pack("<II", 4, v))
    rows = [("token_embd.weight", 256, vocab, 12), ("output.weight", 256, vocab, 14), ("blk.0.ffn_gate.weight", 256, 512, 12)]
    out = b"GGUF" + struct.pack("<IQQ", 3, len(rows), len(kv)) + b"".join(kv)
    for name, x, y, t in rows:
        out += text(name) + struct.pack("<IQQIQ", 2, x, y, t, 0)
    return out


@test
def a_gguf_file_is_read_from_its_head_alone():
    with open(AT("cut.gguf"), "wb") as f:
        f.write(gguf(vocab=32000))
    got = doc(AT("cut.gguf"), "--task", "infer")
    check(got["model"]["source"] == "gguf" and got["job"]["framework"] == "llama.cpp", got["model"])
    check(got["model"]["stored_bytes"] == 32000 * 144 + 32000 * 210 + 512 * 144, got["model"])
    with open(AT("whole.gguf"), "wb") as f:
        f.write(gguf(vocab=32000))
        f.truncate(40 << 30)  # the tensors: a hole, never read
    p = run(AT("whole.gguf"), "--task", "infer", memory=600 << 20)
    check(p.returncode == 0, p)


@test
def a_gguf_file_in_parts_counts_all_of_them():
    os.makedirs(AT("parts"))
    for i in (1, 2, 3):
        with open(AT(f"parts/big-Q4_K_M-0000{i}-of-00003.gguf"), "wb") as f:
            f.write(gguf(parts=3) if i == 1 else b"GGUF")
            f.truncate(1 << 30)
    for path in (AT("parts"), AT("parts/big-Q4_K_M-00001-of-00003.gguf")):
        check(doc(path, "--task", "infer")["model"]["stored_bytes"] == 3 << 30, path)
    os.unlink(AT("parts/big-Q4_K_M-00002-of-00003.gguf"))
    p = run(AT("parts"), "--task", "infer")
    check(p.returncode == 3 and "00002-of-00003" in p.err, p)


def hostile():
    """Folders and files that must be refused, each with the code that names the fault."""
    config = {"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 100}

    def folder(name, **files):
        os.makedirs(AT(name), exist_ok=True)
        for f, data in files.items():
            with open(AT(name, f.replace("__", ".")), "wb") as out:
                out.write(data if isinstance(data, bytes) else json.dumps(data).encode())
        return AT(name)

    yield folder("empty"), "model_file"
    yield folder("no-json", config__json=b"\x00\x01\x02"), "model_file"
    yield folder("cut-json", config__json=json.dumps(config).encode()[:40]), "model_file"
    yield folder("wrong-type", config__json=dict(config, hidden_size="many")), "model_file"
    yield folder("huge-number", config__json=json.dumps(config).replace("64", "9223372036854775808").encode()), "model_file"
    yield folder("unknown", config__json=dict(config, model_type="zebra")), "model_kind"
    yield folder("heads", config__json=dict(config, num_key_value_heads=3)), "validation"
    yield folder("absurd", config__json=dict(config, num_hidden_layers=2147483647, hidden_size=2147483647)), "validation"
    yield folder("deep", config__json=b'{"a":' + b"[" * 3000000), "model_file"
    big = folder("big-json", config__json=b"{")
    os.truncate(os.path.join(big, "config.json"), 1 << 30)
    yield big, "model_file"
    big = folder("big-index", model__safetensors__index__json=b"{")
    os.truncate(os.path.join(big, "model.safetensors.index.json"), 1 << 30)
    yield big, "model_file"
    yield folder("head-2-63", model__safetensors=struct.pack("<Q", 1 << 63) + b"{}"), "model_file"
    yield folder("head-cut", model__safetensors=struct.pack("<Q", 1000) + b"{}"), "model_file"
    yield folder("head-short", model__safetensors=b"\x08"), "model_file"
    tensor = b'{"a":{"dtype":"BF16","shape":[9223372036854775807,2],"data_offsets":[0,8]}}'
    yield folder("shape-2-63", model__safetensors=struct.pack("<Q", len(tensor)) + tensor + b"\0" * 8), "model_file"
    wide = b'{"' + b"a" * (40 << 20)
    yield folder("head-40-mib", model__safetensors=struct.pack("<Q", len(wide)) + wide), "model_file"
    for name, data in (("magic", b"GGML" + b"\0" * 100), ("count", b"GGUF" + struct.pack("<IQQ", 3, 1 << 63, 1)),
                       ("array", b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text("x") + struct.pack("<IIQ", 9, 8, 1 << 62)),
                       ("string", b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 1 << 63)),
                       ("cut", gguf()[:-20]), ("empty", b"")):
        with open(AT(name + ".gguf"), "wb") as f:
            f.write(data)
        yield AT(name + ".gguf"), "model_file"
    os.mkfifo(AT("pipe.gguf"))
    yield AT("pipe.gguf"), "model_file"
    yield folder("pipe-folder"), "model_file"
    yield "/dev/zero", "model_file"
    yield AT("nowhere/config.json"), "not_found"
    os.symlink(AT("loop"), AT("loop"))
    yield AT("loop") + "/", "not_found"


@test
def what_is_hostile_or_broken_is_refused_by_name_at_once_in_flat_memory():
    for path, code in hostile():
        p = run(path, "--json", memory=400 << 20)
        check(p.returncode in (2, 3) and f'"code":"{code}"' in p.err + p.out, (path, code, p.out[:300], p.err[:300]))
        check(p.took < (5 if SANITIZED else 2), (path, p.took))
        for lang in ("en", "zh"):
            p = run(path, "--lang", lang)
            check(p.returncode in (2, 3) and p.err.count("\n") >= 2, (path, p.err))


def shard(path, shape):
    size = 2
    for n in shape:
        size *= n
    head = json.dumps({"model.layers.0.w": {"dtype": "BF16", "shape": shape, "data_offsets": [0, size]}}).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(head)) + head)
        f.truncate(8 + len(head) + size)


@test
def a_download_that_is_not_whole_is_never_sized_as_a_small_model():
    config = {"model_type": "llama", "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16,
              "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256, "tie_word_embeddings": True}
    for name, files in (("one-part", ["model-00001-of-00002.safetensors"]), ("too-small", ["model.safetensors"])):
        os.makedirs(AT(name))
        with open(AT(name, "config.json"), "w") as f:
            json.dump(config, f)
        for file in files:
            shard(AT(name, file), [1000000, 300])
        for word in (AT(name), AT(name, files[0])):
            p = run(word, "--json")
            check(p.returncode == 2 and "whole" in p.err + p.out, p)
    part = AT("one-part", "model-00001-of-00002.safetensors")
    shard(part, [1000000, 600])
    shard(AT("one-part", "model-00002-of-00002.safetensors"), [635814400])
    for word in (AT("one-part"), part):
        m = doc(word)["model"]
        check(m["stored_bytes"] == 2 * 1235814400, m)


@test
def many_files_with_large_headers_are_refused_at_once():
    os.makedirs(AT("many-heads"))
    text = b'{"__metadata__":{"a":"' + b"x" * (16 << 20) + b'"}}'
    with open(AT("many-heads/m00.safetensors"), "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
    for i in range(1, 40):
        os.link(AT("many-heads/m00.safetensors"), AT(f"many-heads/m{i:02}.safetensors"))
    p = run(AT("many-heads"), "--json", memory=1 << 28)
    check(p.returncode == 2 and "model_file" in p.err + p.out, p)
    check(p.took < (20 if SANITIZED else 3), p.took)


@test
def wrong_kinds_of_json_are_not_called_no_json():
    with open(AT("kinds.json"), "w") as f:
        json.dump({"model_type": 7, "architectures": 5}, f)
    p = run(AT("kinds.json"))
    check(p.returncode == 2 and "another kind" in p.err and "not JSON" not in p.err, p)


@test
def a_program_that_only_serves_is_refused_for_training():
    for program in ("vllm", "llama.cpp", "sglang", "tensorrt-llm"):
        p = run("Qwen2.5-7B", "--task", "lora", "--framework", program)
        check(p.returncode == 2 and "only serves" in p.err, p)


@test
def old_cards_are_marked_and_an_engine_says_what_it_takes():
    p = run("Qwen2.5-7B", "--task", "infer", "--framework", "vllm")
    check("V100 SXM2 32GB~" in p.out and "must run in fp16" in p.out and "fills 90 %" in p.out, p.out)
    check("A10~" not in p.out, p.out)
    check("fills" not in run("Qwen2.5-7B", "--task", "infer").out)


@test
def of_equal_cards_the_quickest_is_named_and_a_length_beyond_the_model_is_told():
    p = run("Qwen2.5-7B", "--task", "qlora")
    check("Take 1 x RTX 5080" in p.out and "runs on: A16" not in p.out, p.out)
    check(doc("Qwen2.5-7B", "--task", "qlora")["smallest"]["card"] == "RTX 5080")
    check("made for 32768 tokens" in run("Qwen2.5-7B", "--task", "infer", "--seq", 131072).out)
    check("made for" not in p.out, p.out)


@test
def an_unknown_architecture_has_a_way_on():
    os.makedirs(AT("zebra"), exist_ok=True)
    with open(AT("zebra/config.json"), "w") as f:
        json.dump({"model_type": "zebra", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
                   "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256}, f)
    p = run(AT("zebra"))
    check(p.returncode == 2 and "zebra" in p.err and "--like llama" in p.err, p)
    check(doc(AT("zebra"), "--like", "llama")["model"]["params"] == 8030261248)


@test
def wrong_words_are_refused_with_what_is_possible():
    for words, part in ((["Qwen2.5-7B", "--task", "dream"], "qlora"), (["Qwen2.5-7B", "--quant", "q9"], "nf4"),
                        (["Qwen2.5-7B", "--parallel", "tp=0"], "dp=8"), (["Qwen2.5-7B", "--seq", "0"], "seq"),
                        (["Qwen2.5-7B", "--targets", "x"], "attention"), (["qwen2.6-7b"], "Qwen2.5-7B"), ([], "--params")):
        p = run(*words)
        check(p.returncode in (2, 3) and part in p.err and not p.out, (words, p.err))


@test
def checkpointing_micro_batch_and_quantisation_lower_it():
    base = doc("Llama-3.1-8B", "--task", "lora", "--checkpointing", "none", "--micro-batch", "2", "--seq", "514")
    flags = {w["flags"]: w["total"]["expected"] for w in base["ways"]}
    for wanted in ("--checkpointing full", "--micro-batch 1", "--task qlora"):
        check(wanted in flags and flags[wanted] < base["total"]["expected"], (wanted, flags))
    done = doc("Llama-3.1-8B", "--task", "lora", "--checkpointing", "full", "--micro-batch", "2", "--seq", "514")
    check(done["total"]["expected"] == flags["--checkpointing full"], (done["total"], flags))


@test
def each_change_can_be_pasted_and_does_what_it_says():
    for words in (["Llama-3.1-8B"], ["Llama-3.1-8B", "--task", "full"], ["Qwen2.5-14B", "--task", "infer"],
                  ["Llama-3.1-70B", "--task", "infer", "--framework", "vllm"], ["Mixtral-8x7B", "--task", "qlora"]):
        for w in doc(*words)["ways"]:
            flags = w["flags"].split()
            kept = words[:1] if "--task" in flags else words
            got = doc(*kept, *flags)
            check(got["total"] == w["total"], (words, w, got["total"]))


@test
def cards_hold_what_they_are_said_to_hold():
    got = doc("Llama-3.1-70B", "--task", "infer", "--framework", "vllm", "--quant", "bf16")
    check(got["cards"], got)
    for p in got["cards"]:
        check(p["need"]["expected"] <= 0.92 * p["usable"], p)
        check((p["verdict"] == "fits") == (p["need"]["high"] <= p["usable"]), p)
        split = re.search(r"tp=(\d+)", p["parallel"] or "")
        tp = int(split.group(1)) if split else 1
        check(64 % tp == 0 and tp <= p["count"], p)
        if p["card"] in ("RTX 4090", "L40S"):
            check(tp == 1, ("no fast link, no tensor parallelism", p))


@test
def explain_shows_each_formula_with_its_source():
    p = run("Qwen2.5-7B", "--task", "infer", "--explain")
    check(p.returncode == 0 and "FORMULAS" in p.out and "[" in p.out, p.out[-800:])
    steps = doc("Qwen2.5-7B", "--explain")["steps"]
    check(steps and all(s["formula"] and s["source"] and s["bytes"] > 0 for s in steps), steps)


@test
def names_are_listed_and_completed():
    names = [i["name"] for i in json.loads(run("--list", "--json").out)["items"]]
    check("Qwen2.5-7B" in names and len(names) > 60, names)
    check("Qwen2.5-7B" in run("--list").out)
    p = subprocess.run([SUANLI, "__complete", "size", "Qwen2.5-7"], env={"HOME": FRESH, "PATH": os.environ["PATH"]},
                       stdout=subprocess.PIPE)
    check(p.stdout == b"Qwen2.5-7B\nQwen2.5-72B\n", p.stdout)


@test
def measured_cases_judge_the_estimate():
    rows = os.path.join(fakes.ROOT, "tests/golden/sizing-cases.tsv")
    d = doc("--cases", rows)
    check(len(d["rows"]) == 515 and sum(r["scored"] for r in d["rows"]) == sum(f["rows"] for f in d["families"]), d["families"])
    for f in d["families"]:
        check(not f["goal_median_ppm"] or (f["median_ppm"] <= f["goal_median_ppm"] and f["unsafe"] == 0), f)
    shown = run("--cases", rows)
    check(shown.returncode == 0 and "QLoRA" in shown.out and "A001" in shown.out, shown.out[-600:])
    for text in ("", "head\nonly\tthree\tcolumns\n", "head\n" + "x" * 9000 + "\n", "head\n" + "\t".join("abcdefg") + "\t1e5" + "\t0" * 7 + "\n"):
        with open(AT("cases.tsv"), "w") as f:
            f.write(text)
        p = run("--cases", AT("cases.tsv"))
        check(p.returncode == (2 if text else 0) and ("cases.tsv:2" in p.err) == bool(text), (text[:40], p.returncode, p.err))
    check(run("--cases", AT("none.tsv")).returncode == 2)


@test
def live_offers_give_prices_and_lines_to_paste():
    fake = fakes.Fake()
    try:
        got = doc("Qwen2.5-7B", "--task", "lora", home=home_new(fake.url))
        check(got["offers"] == "live" and got["cheapest"] and got["cheapest"]["cost"], got["offers"])
        check(all(s["rent"].startswith("suanli rent --gpu ") for s in got["plan"] if s["rent"]), got["plan"])
        p = run("Qwen2.5-7B", "--task", "lora", home=home_new(fake.url))
        check("HERE NOW" in p.out and "suanli rent --gpu" in p.out and " here" in p.out, p.out)
    finally:
        fake.reset()


@test
def runs_of_ours_move_the_interval_and_compare_sends_the_question():
    fake = fakes.Fake()
    home = home_new(fake.url)
    before = doc("Qwen2.5-7B", home=home)
    run_of = lambda family, measured: {"instance": "ins_1", "model_family": family, "framework": "transformers", "task": "lora",
                                       "estimate": 10 * GIB, "measured": measured, "at": "2026-01-01T00:00:00Z"}
    fake.over["size_runs"] = {"runs": [run_of("qwen2.5", 10 * GIB + i) for i in range(30)]}
    after = doc("Qwen2.5-7B", home=home)
    spread = lambda d: d["total"]["high"] - d["total"]["low"]
    check(after["total"]["expected"] == before["total"]["expected"] and spread(after) < spread(before) / 2, (before["total"], after["total"]))
    fake.over["size_runs"] = {"runs": [run_of("llama-3.1", 10 * GIB)] * 30}
    check(doc("Qwen2.5-7B", home=home)["total"] == before["total"])
    fake.reset()
    os.makedirs(AT("mine"), exist_ok=True)
    config = {"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 100}
    with open(AT("mine/config.json"), "w") as f:
        json.dump(config, f)
    for words, want in ((["Qwen2.5-7B", "--seq", "512"], {"model": "Qwen2.5-7B", "seq": 512}),
                        ([AT("mine"), "--task", "full"], {"model": AT("mine"), "task": "full", "config": config})):
        p = run(*words, "--compare", "work", home=home)
        check(p.returncode == 0 and "measured" in p.out, p)
        sent = [r for r in fake.requests if r["op"] == "size_compare"][-1]["body"]
        check(sent == {"instance": "work", "size": want}, sent)
    p = run(AT("cut.gguf"), "--compare", "work", home=home)
    check(p.returncode == 2 and "config.json" in p.err, p)


@test
def a_server_that_is_silent_or_gone_delays_nothing():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        gone = s.getsockname()[1]
    p = run("Qwen2.5-7B", home=home_new(f"http://127.0.0.1:{gone}"))
    check(p.returncode == 0 and "did not answer" in p.out and p.took < 3, (p.took, p.out[-600:]))
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen(8)  # accepts, never answers
        p = run("Qwen2.5-7B", home=home_new(f"http://127.0.0.1:{s.getsockname()[1]}"))
        check(p.returncode == 0 and "did not answer" in p.out and p.took < 6, (p.took, p.out[-600:]))


def main():
    only = sys.argv[2:]
    chosen = [t for t in tests if not only or t.__name__ in only]
    bad = 0
    print(f"1..{len(chosen)}", flush=True)
    for n, t in enumerate(chosen, 1):
        try:
            t()
            print(f"ok {n} - {t.__name__.replace('_', ' ')}", flush=True)
        except Exception as e:
            bad += 1
            print(f"not ok {n} - {t.__name__.replace('_', ' ')}", flush=True)
            print("\n".join("# " + l for l in (str(e) if isinstance(e, Failed) else repr(e)).splitlines()[:30]), flush=True)
    shutil.rmtree(TMP, ignore_errors=True)
    sys.exit(1 if bad else 0)


main()
