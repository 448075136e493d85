#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Losses and derivatives of whole models against PyTorch in f64: those of rlx train, by the
averages of AdamW in its checkpoint after one step, are at most twice as far as those of PyTorch in
f32 are. Ten steps of AdamW follow PyTorch's losses to 1e-4.

On the CPU tiny-stories, and SmolLM2 and MiniLM where they are (RLX_MODELS, .cache/models);
tiny-stories also on the devices of RLX_TEST_DEVICES (default: vulkan).
usage: test_train_torch.py [tiny|smollm2|minilm]..."""
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "support"))
import pytorch as found  # noqa: E402

found.need("torch, numpy")
import torch  # noqa: E402
from checks import check, finish  # noqa: E402
from torch_models import Bert, Gguf, Llama, Weights, safetensors  # noqa: E402

SOURCE = Path(os.environ.get("RLX_SOURCE_DIR", HERE.parents[1]))
TOOL = os.environ.get("RLX_TOOL", "build/rlx")
MODELS = Path(os.environ.get("RLX_MODELS", SOURCE / ".cache" / "models"))
TINY = SOURCE / "models" / "tiny-stories.gguf"
SMOLLM2 = MODELS / "smollm2-135m-instruct.gguf"
MINILM = MODELS / "all-minilm-l6-v2"
TEXTS = ["The green fox of Zogland bakes bread for all of its neighbours in the winter.",
         "Once upon a time there was a robot who wanted to learn how to swim."]
PAIRS = [("How do I bake bread?", "Mix flour and water, wait, and heat the oven."),
         ("Where do foxes live?", "In dens that they dig in forests and fields."),
         ("Who wrote this letter?", "The old baker sent it in spring.")]
LR = 1e-4


def run(*args):
    done = subprocess.run([TOOL, *map(str, args)], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"rlx {' '.join(map(str, args))}: {done.stderr}")
    return done.stdout


def train(model, data, out, device, steps, *more):
    """The losses."""
    got = run("train", "--model", model, "--data", data, "--out", out, "--full", "--device", device,
              "--policy", "exact", "--batch", len(data.read_text().splitlines()), "--steps", steps,
              "--lr", LR, "--schedule", "constant", "--clip", 1e30, "--json", *more)
    return json.loads(got)["loss"]


def tokens(model, text, ends):
    ids = json.loads(run("tokenize", model, text, "--json"))["ids"]
    return ids + ends


def lines(path, objects):
    path.write_text("".join(json.dumps(o) + "\n" for o in objects))
    return path


def far(a, b):
    """How far a tensor is from one in f64, by its norm."""
    norm = b.norm().item()
    return (a.double() - b).norm().item() / norm if norm else a.double().norm().item()


class Case:
    """A model: its loss in PyTorch by weights, and files for rlx."""

    def __init__(self, name, model, tensors, loss, data, out):
        self.name, self.model, self.tensors, self.loss = name, model, tensors, loss
        self.data, self.out = data, out

    def derive(self, dtype):
        w = Weights(self.tensors, dtype)
        loss = self.loss(w)
        loss.backward()
        return loss.item(), w.gradients()

    def check_derivatives(self, folder):
        kept = folder / "kept"
        loss, = train(self.model, self.data, self.out, "cpu", 1, "--checkpoint", kept)
        states = Gguf(kept).tensors
        want, exact = self.derive(torch.float64)
        own, plain = self.derive(torch.float32)
        limit = max(2 * abs(own - want), 1e-6 * want)
        check(abs(loss - want) <= limit, f"{self.name}: the loss {loss}, expected {want}, {own}")
        # One average is a rounding of a tenth of the derivative.
        missing = [n for n in exact if n + ".m" not in states]
        check(not missing, f"{self.name}: no derivatives of {missing}")
        worst = 0
        for name in exact:
            got = torch.from_numpy(states[name + ".m"].copy()).double().view_as(exact[name]) / 0.1
            mine, theirs = far(got, exact[name]), far(plain[name], exact[name])
            worst = max(worst, mine / max(theirs, 1e-7))
            check(mine <= 2 * max(theirs, 1e-7),
                  f"{self.name}: {name} is {mine:.2g} off, PyTorch {theirs:.2g}")
        print(f"{self.name}: {len(exact)} tensors, at most {worst:.2f} times as far from f64 as "
              "PyTorch in f32", flush=True)

    def check_steps(self, device, steps=10):
        got = train(self.model, self.data, self.out, device, steps)
        w = Weights(self.tensors, torch.float32)
        optimizer = torch.optim.AdamW(w.leaf.values(), LR, weight_decay=0)
        want = []
        for _ in range(steps):
            optimizer.zero_grad()
            loss = self.loss(w)
            loss.backward()
            optimizer.step()
            want.append(loss.item())
        worst = max(abs(a - b) / b for a, b in zip(got, want))
        check(len(got) == steps and worst <= 1e-4, f"{self.name}, {device}: {got}, expected {want}")
        print(f"{self.name}, {device}: {steps} steps, losses {want[0]:.4f} to {want[-1]:.4f}, at "
              f"most {worst:.2g} apart", flush=True)


def llama(name, path, folder):
    plain = folder / f"{name}.gguf"
    run("quantize", path, plain, "--type", "f32")
    file = Gguf(plain)
    model, end = Llama(file), file.meta["tokenizer.ggml.eos_token_id"]
    ids = [tokens(path, t, [end]) for t in TEXTS]
    return Case(name, plain, file.tensors, lambda w: model.loss(w, ids),
                lines(folder / "texts.jsonl", [{"text": t} for t in TEXTS]),
                folder / "out.gguf")


def bert(folder):
    model = Bert(json.loads((MINILM / "config.json").read_text()))
    pairs = [[tokens(MINILM, t, []) for t in pair] for pair in PAIRS]
    return Case("MiniLM", MINILM, safetensors(MINILM / "model.safetensors"),
                lambda w: model.loss(w, pairs),
                lines(folder / "pairs.jsonl", [{"query": q, "positive": p} for q, p in PAIRS]),
                folder / "out")


def devices():
    """Those of RLX_TEST_DEVICES that are here."""
    for device in os.environ.get("RLX_TEST_DEVICES", "vulkan").split():
        if subprocess.run([TOOL, "devices", "--device", device], capture_output=True).returncode:
            print(f"left out: no device {device}")
        else:
            yield device


def main():
    wanted = sys.argv[1:]
    torch.set_num_threads(2)
    with tempfile.TemporaryDirectory() as path:
        folder = Path(path)
        for name, file in (("tiny", TINY), ("smollm2", SMOLLM2), ("minilm", MINILM)):
            if wanted and name not in wanted:
                continue
            if not file.exists():
                print(f"left out: no {file.name} (tools/fetch/models.sh)")
                continue
            case = bert(folder) if name == "minilm" else llama(name, file, folder)
            case.check_derivatives(folder)
            case.check_steps("cpu")
            for device in devices() if name == "tiny" else ():
                case.check_steps(device)
    finish()


if __name__ == "__main__":
    main()
