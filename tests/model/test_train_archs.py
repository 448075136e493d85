#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""rlx train with small random models of every architecture: a few steps of an adapter, where there
can be one, and of all weights, after which the loss has fallen; safetensors and GGUF files of one
model read each other's adapters; encoders learn from pairs."""
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import numpy as np
except ImportError as e:
    print(f"skipped: {e}")
    sys.exit(77)

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "support"))
from checks import check, finish  # noqa: E402
import make_models
import make_safetensors

TOOL = os.environ.get("RLX_TOOL", "build/rlx")
# Other facts of architectures that are here.
SKIPPED = ("llama-", "phi3-long", "mamba-norms", "glm4moe-air", "llama4-plain", "gpt-oss-mx")
TEXTS = [{"text": "the quick brown fox jumps over it"}, {"text": "a lazy dog sleeps"}]
PAIRS = [{"query": "the quick brown", "positive": "fox jumps over it"},
         {"query": "a lazy dog", "positive": "sleeps here"}]


def tokenizer():
    """A token for each printable character, as many as the models have."""
    vocabulary = {chr(c): c - 32 for c in range(32, 127)}
    vocabulary["<unk>"] = 95
    return json.dumps({"version": "1.0", "added_tokens": [], "normalizer": None,
                       "pre_tokenizer": None, "post_processor": None, "decoder": None,
                       "model": {"type": "BPE", "unk_token": "<unk>", "fuse_unk": False,
                                 "byte_fallback": False, "vocab": vocabulary, "merges": []}})


class Folder:
    def __init__(self, path):
        self.path = Path(path)
        self.write("tok.json", tokenizer())
        self.write("texts.jsonl", "".join(json.dumps(t) + "\n" for t in TEXTS))
        self.write("pairs.jsonl", "".join(json.dumps(t) + "\n" for t in PAIRS))

    def write(self, name, data):
        (self.path / name).parent.mkdir(exist_ok=True)
        if isinstance(data, str):
            data = data.encode()
        (self.path / name).write_bytes(data)

    def run(self, *args, command="train"):
        """What `rlx args...` prints as JSON; None when it fails."""
        done = subprocess.run([TOOL, command, *map(str, args), "--tokenizer",
                               str(self.path / "tok.json"), "--device", "cpu", "--json"],
                              capture_output=True, text=True, timeout=300)
        check(done.returncode == 0, f"rlx {command} {args}: {done.stderr}")
        return json.loads(done.stdout) if done.returncode == 0 else None

    def train(self, model, *args, data="texts.jsonl", out="out.gguf", batch=2):
        return self.run("--model", self.path / model, "--data", self.path / data, "--out",
                        self.path / out, "--ctx", 48, "--steps", 4, "--batch", batch,
                        "--accumulate", 2 // batch, *args)

    def text(self, model, *args):
        got = self.run("--model", self.path / model, "--prompt", "the quick", "--max-tokens", 24,
                       *args, command="generate")
        return got and got["text"]


def falls(what, got):
    loss = got["loss"] if got else [0, 1]
    check(loss[-1] < loss[0], f"{what}: losses {loss}")


def test_architectures(folder):
    for name, model in make_models.models().items():
        if name.startswith(SKIPPED):
            continue
        folder.write("model.gguf", model.data)
        if "bert" in name or name.startswith("t5"):
            falls(name, folder.train("model.gguf", "--lr", 0.001, data="pairs.jsonl"))
            continue
        falls(name + ", adapter", folder.train("model.gguf", "--lr", 0.001, batch=1))
        falls(name + ", all weights", folder.train("model.gguf", "--lr", 0.003, "--full"))


def in_pairs(array, heads):
    """Rows of halves of a head as those of pairs, as GGUF has them."""
    return array.reshape(heads, 2, -1, array.shape[-1]).swapaxes(1, 2).reshape(array.shape)


def test_safetensors(folder):
    """One model in both kinds of files: each kind's adapters, and what is merged, agree."""
    model = make_safetensors.models()["hf-llama"]
    folder.write("hf/model.safetensors", model.data)
    folder.write("hf/config.json", model.config)
    tensors = {}
    for name, array in model.tensors.items():
        heads = 4 if "attn_q" in name else 2 if "attn_k" in name else 0
        array = in_pairs(array, heads) if heads else array
        tensors[name] = (array.shape, "f32", make_models.encode(array, "f32")[0])
    folder.write("same.gguf", make_models.gguf(model.meta, tensors))
    check(folder.text("hf") == folder.text("same.gguf"), "the models differ before training")
    lora = ["--lr", 0.03]
    a = folder.train("hf", *lora, "--peft", folder.path / "p1", "--merge", folder.path / "whole",
                     out="a.gguf")
    b = folder.train("same.gguf", *lora, "--peft", folder.path / "p2", out="b.gguf")
    check(a and b and np.allclose(a["loss"], b["loss"], rtol=1e-4), f"losses: {a} and {b}")
    want = folder.text("hf", "--lora", folder.path / "a.gguf")
    check(want != folder.text("hf"), "an adapter that changes nothing")
    for on, adapter in (("hf", "p1"), ("hf", "p2"), ("hf", "b.gguf"), ("same.gguf", "a.gguf"),
                        ("same.gguf", "p1"), ("same.gguf", "p2"), ("same.gguf", "b.gguf")):
        got = folder.text(on, "--lora", folder.path / adapter)
        check(got == want, f"{on} with {adapter}: {got!r}, expected {want!r}")
    check(folder.text("whole") == want, "merged into safetensors")
    full = folder.train("hf", "--full", "--lr", 0.003, out="full")
    again = folder.train("full", "--full", "--lr", 0.003, out="again")
    check(full and again and again["loss"][0] < full["loss"][-1], f"all: {full}, then {again}")


def test_encoder(folder):
    model = make_safetensors.models()["hf-roberta"]
    folder.write("bert/model.safetensors", model.data)
    folder.write("bert/config.json", model.config)
    got = folder.train("bert", "--lr", 0.001, data="pairs.jsonl", out="bert2")
    falls("roberta", got)
    again = folder.train("bert2", "--lr", 0.001, data="pairs.jsonl", out="bert3")
    check(got and again and again["loss"][0] < got["loss"][0], f"again: {got}, then {again}")


def main():
    if not os.access(TOOL, os.X_OK):
        print(f"skipped: no {TOOL}")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as path:
        folder = Folder(path)
        test_safetensors(folder)
        test_encoder(folder)
        test_architectures(folder)
    finish()


if __name__ == "__main__":
    main()
