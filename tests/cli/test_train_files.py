#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""rlx train: what it writes (adapters of both kinds, merged and whole models, pictures), the
validation, and how it goes on: a killed run gives the bits of one without a pause, and what ends
badly leaves the last good checkpoint."""
import random
import time

from train_data import *

skip_without_tool()
texts = lines("texts.jsonl", {"text": ZOG}, {"text": ZOG + " Zog."}, {"text": "Zog flew home."})
MERGED, PEFT, PLOT = TMP / "merged.gguf", TMP / "peft", TMP / "loss.svg"


def same(a, b, what):
    check(a.read_bytes() == b.read_bytes(), f"{what}: {a.name} and {b.name} differ")


def story(*args):
    return expect_json(*STORY, *args)["text"]


# ---- Files ---------------------------------------------------------------------------------------

got = train(texts, "--steps", 25, "--batch", 2, "--merge", MERGED, "--peft", PEFT, "--plot", PLOT,
            "--type", "f16")
adapted = story("--lora", OUT)
check("Zog" in adapted, f"an adapter: {adapted!r}")
check(story("--lora", PEFT) == adapted, "the adapter of PEFT differs")
merged = expect_json("generate", "--model", MERGED, "--device", "cpu", *STORY[-4:])["text"]
check(merged == adapted, f"merged: {merged!r}, with the adapter: {adapted!r}")
config = json.loads((PEFT / "adapter_config.json").read_text())
check(config["r"] == 8 and config["lora_alpha"] == 16 and config["peft_type"] == "LORA" and
      sorted(config["target_modules"]) == ["down_proj", "gate_proj", "k_proj", "o_proj", "q_proj",
                                           "up_proj", "v_proj"], f"adapter_config.json: {config}")
picture = PLOT.read_text()
check("<svg" in picture and "loss of the steps" in picture, "--plot")
expect(0, "inspect", PEFT / "adapter_model.safetensors",
       out="base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight")

# All weights, written in the types of the model; weights that begin as random numbers.
whole = TMP / "whole.gguf"
got = train(texts, "--steps", 12, "--batch", 3, "--full", "--lr", 0.002, out=whole)
check(got["loss"][-1] < 0.5 * got["loss"][0], f"losses of all weights: {got['loss']}")
again = train(texts, "--steps", 1, "--batch", 3, "--full", model=["--model", whole, "--device",
                                                                  "cpu"])["loss"][0]
check(again < 1.3 * got["loss"][-1], f"the model read again: {again} after {got['loss']}")
check(whole.stat().st_size == MODEL.stat().st_size, "the types of the model are kept")
got = train(texts, "--steps", 3, "--batch", 3, "--from-scratch", out=TMP / "scratch.gguf")
check(5 < got["loss"][0] < 8, f"the first loss from scratch: {got['loss']}")

# ---- The validation ------------------------------------------------------------------------------

got = train(texts, "--steps", 12, "--validation", texts, "--evaluate", 3)
steps = [v["step"] for v in got["validation"]]
check(steps == [3, 6, 9, 12] and got["best_step"] == 12, f"validation: {got}")
got = train(texts, "--steps", 30, "--validation", 0.34, "--evaluate", 2, "--patience", 2)
losses = [v["loss"] for v in got["validation"]]
check(got["held_out"] == 1 and got["examples"] == 2, f"a share: {got}")
check(got["stopped_early"] == (got["steps"] < 30) and
      min(losses) == losses[got["best_step"] // 2 - 1], f"early stop: {got}")

# Two runs for an update are one of twice the batch, if all have as many tokens.
like = lines("like.jsonl", *({"text": "Zog " + c * 8} for c in "abcd"))
one = train(like, "--steps", 3, "--batch", 4)["loss"]
two = train(like, "--steps", 3, "--batch", 2, "--accumulate", 2)["loss"]
check(all(abs(a - b) < 1e-3 * a for a, b in zip(one, two)), f"--accumulate: {one} and {two}")

# ---- Going on ------------------------------------------------------------------------------------

EXACT = ["--steps", 24, "--batch", 2, "--policy", "exact", "--every", 2]
first, second = TMP / "first.gguf", TMP / "second.gguf"
want = train(texts, *EXACT, out=first)
seed = random.randrange(1000)
random.seed(seed)
killed = 0
for attempt in range(3):
    p = subprocess.Popen([TOOL, "train", *map(str, CPU), "--data", texts, "--out", second, "--lr",
                          "0.01", *map(str, EXACT), *(["--resume"] if attempt else [])],
                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    kept = TMP / "second.gguf.checkpoint"
    begin = time.monotonic()
    while not attempt and not kept.exists() and time.monotonic() - begin < 60:
        time.sleep(0.002)
    time.sleep(random.random() * 0.3)
    p.kill()
    p.wait()
    killed += p.returncode == -9
check(killed > 0, "no run was killed")
got = train(texts, *EXACT, "--resume", out=second)
check(got["loss"] == want["loss"], f"losses after kills (seed {seed}): {got} and {want}")
same(first, second, f"killed {killed} times (seed {seed})")
check(not list(TMP.glob("second.gguf.*")), "the checkpoint is removed at the end")

# ---- Bad ends ------------------------------------------------------------------------------------

C = TMP / "kept"
train(texts, "--steps", 3, "--checkpoint", C, out=first)
kept = C.read_bytes()
BAD = ["train", *CPU, "--data", texts, "--out", second, "--checkpoint", C, "--resume", "--steps",
       30]
second.unlink()
expect(1, *BAD, "--lr", 1e30, "--every", 1, "--warmup", 1, err="the learning rate is too high")
same(first, second, "the last good checkpoint")
check(C.read_bytes() == kept, "the checkpoint stays")
expect(1, *BAD, "--rank", 4, err="other options")
expect(1, "train", *CPU, "--data", like, "--out", second, "--checkpoint", C, "--resume",
       err="other examples")
expect(1, "train", *CPU, "--data", texts, "--out", second, "--checkpoint", first, "--resume",
       err="no checkpoint of a trainer")
cut = TMP / "cut"
cut.write_bytes(kept[:len(kept) // 2])
expect(1, "train", *CPU, "--data", texts, "--out", second, "--checkpoint", cut, "--resume",
       err="cut")
expect(0, "train", *CPU, "--data", texts, "--out", second, "--checkpoint", TMP / "new", "--resume",
       "--steps", 1, err="begins at the first step")

# A disk without room: files end after 200 blocks of 512 or 1024 bytes.
words = " ".join(map(str, [TOOL, *BAD, "--every", 2]))
r = subprocess.run(["bash", "-c", f"trap '' XFSZ; ulimit -f 200; exec {words}"],
                   capture_output=True, text=True, timeout=300)
check(r.returncode == 1 and "File too large" in r.stderr and "step 3" in r.stderr,
      f"a full disk: {r.returncode} {r.stderr}")
check(C.read_bytes() == kept and not list(TMP.glob("*.part-*")), "the checkpoint of a full disk")
finish()
