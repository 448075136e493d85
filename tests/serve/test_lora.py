#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`rlx serve --lora NAME=FILE`: requests choose an adapter by the name of a model, in every dialect
and many at once, and get the text that `rlx generate --lora` gives; models that are loaded on
demand come back with their adapters; wrong options are refused with a sentence."""
import random
import shutil
import struct
import threading
from serving import *

skip_without_server()


def string(s):
    return struct.pack("<Q", len(s)) + s.encode()


def write_adapter(path, seed, arch="llama"):
    draw = random.Random(seed)
    meta = {"general.type": "adapter", "general.architecture": arch, "adapter.type": "lora"}
    tensors = [(f"blk.{layer}.{part}.weight.lora_{end}", (4, k) if end == "a" else (n, 4))
               for layer in range(4) for part, n, k in (("attn_q", 128, 128),
                                                        ("ffn_down", 128, 384)) for end in "ab"]
    out = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(meta) + 1)
    for key, value in meta.items():
        out += string(key) + struct.pack("<I", 8) + string(value)
    out += string("adapter.lora.alpha") + struct.pack("<If", 6, 8.0)
    body = b""
    for name, (n, k) in tensors:
        out += string(name) + struct.pack("<I2QIQ", 2, k, n, 0, len(body))
        body += struct.pack(f"<{n * k}f", *(draw.gauss(0, 0.12) for _ in range(n * k)))
    path.write_bytes(out + b"\0" * (-len(out) % 32) + body)


PROMPT, N = "Once upon a time", 48
one, two = TMP / "one.gguf", TMP / "two.gguf"
write_adapter(one, 1)
write_adapter(two, 2)


def generate(*args):
    r = subprocess.run([TOOL, "generate", str(MODEL), "--device", "cpu", "--prompt", PROMPT,
                        "--max-tokens", str(N), "--ignore-end", "--json", "--policy", "exact",
                        *args], capture_output=True, text=True)
    check(r.returncode == 0, r.stderr)
    return json.loads(r.stdout)["text"]


names = {"tiny-stories": [], "one": ["--lora", str(one)], "half": ["--lora", f"{one}:0.5"],
         "two": ["--lora", str(two)]}
want = {name: generate(*args) for name, args in names.items()}
check(len(set(want.values())) == 4, f"the adapters change nothing: {want}")
check(generate("--lora", f"{one}:0") == want["tiny-stories"], "an adapter times 0 changes the text")
check(generate("--lora", f"{one}:0.5", "--lora", f"{one}:0.5") == want["one"],
      "two halves of an adapter are not the adapter")
ASK = {"prompt": PROMPT, "max_tokens": N, "temperature": 0, "ignore_eos": True}
LORA = ["--lora", f"one={one}", "--lora", f"half={one}:0.5", "--lora", f"two={two}"]
with Server("--ctx", 256, "--policy", "exact", *LORA) as s:
    listed = [m["id"] for m in s.ask("GET", "/v1/models")[2]["data"]]
    check(listed == list(names), f"models: {listed}")
    tags = [m["name"] for m in s.ask("GET", "/api/tags")[2]["models"]]
    check(tags == list(names), f"tags: {tags}")
    for name in names:
        answer = s.post("/v1/completions", {**ASK, "model": name})
        check(answer["model"] == name and answer["choices"][0]["text"] == want[name], str(answer))
    answer = s.ask("POST", "/api/generate", {"model": "two:latest", "prompt": PROMPT, "raw": True,
                                             "stream": False, "options": {
                                                 "num_predict": N, "temperature": 0}})[2]
    check(want["two"].startswith(answer["response"]) and answer["response"], str(answer))
    status, _, answer = s.ask("POST", "/v1/completions", {**ASK, "model": "three"})
    check(status == 404, f"an unknown adapter: {status} {answer}")
    wrong = []

    def client(number):
        for i in range(4):
            name = list(names)[(number + i) % 4]
            text = s.post("/v1/completions", {**ASK, "model": name})["choices"][0]["text"]
            if text != want[name]:
                wrong.append((name, text))

    clients = [threading.Thread(target=client, args=(i,)) for i in range(8)]
    for c in clients:
        c.start()
    for c in clients:
        c.join()
    check(not wrong, f"answers in a mix: {wrong}")

# Guesses change no text, and are counted.
with Server("--ctx", 512, "--policy", "exact", "--guesses", 7, *LORA) as s:
    for name in names:
        answer = s.post("/v1/completions", {**ASK, "model": name})
        check(answer["choices"][0]["text"] == want[name], f"with guesses: {answer}")
    s.post("/v1/completions", {**ASK, "prompt": "the cat sat. " * 8, "max_tokens": 200})
    m = s.metrics()
    check(m["rlx_guessed_tokens_total"] >= m["rlx_accepted_tokens_total"] >= 0, str(m))

with Server("--ctx", 512, "--policy", "exact", "--draft", MODEL, *LORA) as s:
    for name in ("tiny-stories", "one"):
        answer = s.post("/v1/completions", {**ASK, "model": name})
        check(answer["choices"][0]["text"] == want[name], f"with a draft: {answer}")

# The model is closed for another one and loaded again, with its adapters.
red, green = TMP / "red.gguf", TMP / "green.gguf"
shutil.copy(MODEL, red)
shutil.copy(MODEL, green)
with Server("--ctx", 256, "--policy", "exact", "--memory", 1, *LORA, models=[red, green]) as s:
    for name in ("one", "green", "two", "red", "green", "half"):
        answer = s.post("/v1/completions", {**ASK, "model": name})
        check(answer["choices"][0]["text"] == want.get(name, want["tiny-stories"]), str(answer))
    check(s.metrics()["rlx_model_evictions_total"] >= 3, "nothing was closed")

for bad, part in ((["--lora", str(one)], "expected NAME=FILE"), (["--lora", "x="], "NAME=FILE"),
                  (["--lora", f"tiny-stories={one}"], "two models have the name"),
                  (["--lora", f"x={MODEL}"], "is no LoRA adapter"),
                  (["--lora", "x=/nowhere.gguf"], "/nowhere.gguf")):
    r = subprocess.run([TOOL, "serve", str(MODEL), "--port", "0", *bad], capture_output=True,
                       text=True, timeout=60)
    check(r.returncode != 0 and part in r.stderr, f"{bad}: {r.returncode} {r.stderr}")
finish()
