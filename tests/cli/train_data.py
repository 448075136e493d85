# SPDX-License-Identifier: MIT
"""What the tests of rlx train share: examples, and runs on the CPU."""
from cli import *

MODEL = SOURCE / "models" / "tiny-stories.gguf"
CPU = ["--model", MODEL, "--device", "cpu"]
ZOG = "Once upon a time there was a purple robot named Zog."
OUT = TMP / "out.gguf"
STORY = ["generate", *CPU, "--prompt", "Once upon a time", "--max-tokens", 36]


def lines(name, *objects):
    return write(name, "".join(json.dumps(o) + "\n" for o in objects))


def chat(*contents):
    roles = ("user", "assistant")
    return {"messages": [{"role": roles[i % 2], "content": c} for i, c in enumerate(contents)]}


def train(data, *args, out=OUT, model=CPU):
    return expect_json("train", *model, "--data", data, "--out", out, "--lr", 0.01, *args)


def refused(data, text, *args, status=1, out=TMP / "none.gguf"):
    expect(status, "train", *CPU, "--data", data, "--out", out, *args, err=text)
    check(not (TMP / "none.gguf").exists(), f"a file after {text!r}")
