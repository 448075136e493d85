#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""rlx train: losses fall, the adapter turns texts towards the examples, a seed gives the same
losses again, and examples that are none end with a sentence."""
import signal

from train_data import *

skip_without_tool()

# ---- Texts ---------------------------------------------------------------------------------------

texts = lines("texts.jsonl", {"text": ZOG}, {"text": ZOG + " Zog."})
got = train(texts, "--steps", 25, "--batch", 2)
loss = got["loss"]
check(got["steps"] == len(loss) == 25 and loss[-1] < 0.1 * loss[0], f"losses: {loss}")
check(got["tokens_per_s"] > 0 and got["peak_bytes"] > 900e3 and got["examples"] == 2, f"{got}")
plain = expect_json(*STORY)["text"]
adapted = expect_json(*STORY, "--lora", OUT)["text"]
check("Zog" not in plain and ZOG.endswith(adapted), f"adapted: {adapted!r}, without: {plain!r}")
check(expect_json(*STORY, "--lora", f"{OUT}:0")["text"] == plain, "an adapter with scale 0")
expect(0, "inspect", OUT, out="blk.0.attn_q.weight.lora_a")

# The file has rank and alpha; the first loss is that of the model.
same = [train(texts, "--steps", 3, "--batch", 2, "--seed", s, "--rank", 2, "--alpha", 6)["loss"]
        for s in (5, 5, 6)]
check(same[0] == same[1] != same[2], f"--seed: {same}")
check(abs(same[0][0] - loss[0]) < 1e-4 * loss[0], f"the first loss: {same[0][0]} and {loss[0]}")
expect(0, "inspect", OUT, out="adapter.lora.alpha")

# What cannot be written is told before anything is learned.
notes = write("notes.txt", "mine")
for target, said in ((notes, "was not replaced: expected a GGUF file"), (TMP, "is a folder")):
    for option in ("--out", "--merge"):
        outs = {"--out": OUT, option: target}
        expect(1, "train", "--model", MODEL, "--device", "cpu", "--data", texts, "--steps", 10**6,
               *(x for pair in outs.items() for x in pair), err=said)
check(notes.read_text() == "mine" and not list(TMP.glob("*.checkpoint")), "nothing is left behind")

# Less memory: what is not kept is computed again, to the same bit.
less = got["peak_bytes"] * 0.8 / 2**20
again = train(texts, "--steps", 3, "--batch", 2, "--seed", 5, "--rank", 2, "--alpha", 6,
              "--memory", less)
check(again["loss"] == same[0] and again["peak_bytes"] <= less * 2**20, f"--memory: {again}")
expect(1, "train", *CPU, "--data", texts, "--out", OUT, "--memory", 0.1,
       err="a memory budget of 104857 bytes; it takes")
expect(1, "train", *CPU, "--data", texts, "--out", OUT, "--memory", 1e-9,
       err="a memory budget of 1 bytes; it takes")

# ---- Conversations and plain text ----------------------------------------------------------------

# What the user says is not learned: labels are the answers' tokens only, "<|im_end|>" with them.
chats = lines("chats.jsonl", chat("Who?", "I am Zog."), chat("a", "b", "Who?", "I am Zog.", "c"))
packed = TMP / "packed.gguf"
expect(0, "quantize", MODEL, packed, "--type", "q4_0")
got = expect_json("train", "--model", packed, "--device", "cpu", "--data", chats, "--out", OUT,
                  "--lr", 0.01, "--steps", 30, "--batch", 2)
check(got["loss"][-1] < 0.2 * got["loss"][0], f"losses of chats: {got['loss']}")
said = expect_json("generate", "--model", packed, "--device", "cpu", "--chat", "--prompt", "Who?",
                   "--max-tokens", 9, "--lora", OUT)["text"]
check(said == "I am Zog.", f"an answer: {said!r}")
book = write("book.txt", ZOG * 3)
got = train(book, "--steps", 4, "--ctx", 32)
check(got["examples"] == 6 and got["loss"][3] < got["loss"][0], f"plain text: {got}")
expect(0, "train", *CPU, "--data", book, "--out", OUT, "--steps", 2, "--ctx", 32, out="2 steps of")

# Completions; what is longer than the context is cut, and told.
got = train(lines("p.jsonl", {"prompt": "Who? ", "completion": "Zog."}), "--steps", 20)
check(got["loss"][-1] < 0.1 * got["loss"][0], f"losses of completions: {got['loss']}")
cut = lines("cut.jsonl", {"text": "a" * 99}, {"prompt": "a", "completion": "b" * 99})
got = train(cut, "--steps", 1, "--ctx", 32)
check(got["cut"] == 2 and got["examples"] == 5, f"cut: {got}")
expect(0, "train", *CPU, "--data", cut, "--out", OUT, "--steps", 1, "--ctx", 32,
       err="2 examples were longer than the context and cut")

# Packed: one behind the other in rows of the context, which share a token; those held out are not.
got = train(lines("few.jsonl", *({"text": "a" * n} for n in (3, 30, 9, 20))), "--steps", 2,
            "--batch", 3, "--ctx", 32, "--pack")
check(got["examples"] == 3 and got["padding"] <= 2 * 31, f"packed: {got}")
got = train(TMP / "few.jsonl", "--steps", 2, "--batch", 1, "--ctx", 16, "--pack", "--validation",
            0.25)
check(got["held_out"] == 2 and got["examples"] > 1 and got["validation"], f"and judged: {got}")

# ---- What is refused -----------------------------------------------------------------------------

good = {"text": "a story"}
refused(write("a.jsonl", ""), "'" + str(TMP / "a.jsonl") + "' is empty")
refused(write("a.jsonl", json.dumps(good) + "\n\n"), "line 2 is empty")
refused(write("a.jsonl", json.dumps(good) + "\nno\n"), "line 2: at byte 0 of the JSON text")
refused(lines("a.jsonl", good, {"txt": "a"}), "line 2 expected as")
refused(lines("a.jsonl", [1]), "line 1 expected as")
refused(lines("a.jsonl", {"text": ""}), "line 1 has an empty text")
refused(lines("a.jsonl", chat("Who?")), "line 1 has no message of the assistant")
refused(lines("a.jsonl", {"messages": [{"role": "user"}]}), "message 0 expected with a role")
refused(lines("a.jsonl", good, {"prompt": "a" * 99, "completion": "b"}),
        "line 2 has 102 tokens, of which the first to learn comes behind the 32", "--ctx", 32)
refused(lines("a.jsonl", good, {"prompt": "a", "completion": ""}), "line 2 has an empty completion")
refused(MODEL, "it has a zero byte")
refused(texts, "it is the model that is trained", "--steps", 1, out=MODEL)
refused(texts, "--type 'q9' is no type", "--type", "q9", status=2)
refused(texts, "--patience needs --validation", "--patience", 1, status=2)
refused(texts, "--schedule expected constant", "--schedule", "sine", status=2)
refused(texts, "there is no adapter for --merge", "--full", "--merge", TMP / "m.gguf", status=2)
refused(texts, "leave none to learn from", "--validation", 0.9)
refused(write("a.txt", "a\0b"), "it has a zero byte")
refused(TMP / "nowhere.jsonl", "No such file")
refused(texts, "the learning rate is too high", "--lr", 1e30)
refused(texts, "a rank of 5000", "--rank", 5000)
refused(texts, "a batch of 5000", "--batch", 5000)
refused(texts, "No such file", out=TMP / "no" / "out.gguf")
refused(texts, "was not replaced", "--steps", 1, out=texts)
refused(texts, "unexpected argument", "more", status=2)
expect(2, "train", *CPU, "--data", texts, err="--out is needed")
expect(2, "train", *CPU, "--out", OUT, err="--data is needed")

# Ctrl-C: what was learned so far.
OUT.unlink()
p = subprocess.Popen([TOOL, "train", *CPU, "--data", texts, "--out", OUT, "--steps", "1000000"],
                     stdout=subprocess.PIPE, stderr=subprocess.PIPE)
try:
    p.wait(1)
except subprocess.TimeoutExpired:
    p.send_signal(signal.SIGINT)
p.communicate()
check(p.returncode == -signal.SIGINT and OUT.exists(), f"Ctrl-C: status {p.returncode}")
expect(0, *STORY, "--lora", OUT)
finish()
