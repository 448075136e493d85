#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Importance matrices of tiny models against NumPy in double precision: sums of squares of what
each matrix is multiplied with, of experts those of each one; 'rlx quantize --imatrix' with them."""

import os
import struct
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError as e:
    print(f"skipped: {e}")
    sys.exit(77)

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from checks import check, finish  # noqa: E402
import forward
import make_models

BUILD = os.environ.get("RLX_BUILD_DIR", "build")
PROGRAM = os.path.join(BUILD, "tests", "model", "test_imatrix")
RLX = os.path.join(BUILD, "rlx")
TEXTS = [list(np.random.default_rng(n).integers(0, 96, n)) for n in (20, 9)]
NAMES = ("llama", "mixtral", "deepseek2-plain", "glm4moe", "qwen3next", "gemma2")


def read_gguf(path):
    """Names and f32 tensors."""
    with open(path, "rb") as f:
        data = f.read()
    n_tensors, n_meta = struct.unpack_from("<QQ", data, 8)
    at = 24

    def text():
        nonlocal at
        n, = struct.unpack_from("<Q", data, at)
        at += 8 + n
        return data[at - n:at].decode()
    for _ in range(n_meta):
        text()
        kind, = struct.unpack_from("<I", data, at)
        at += 4
        if kind == 9:
            at += 4
            n, = struct.unpack_from("<Q", data, at)
            at += 8
            for _ in range(n):
                text()
        elif kind == 8:
            text()
        else:
            at += 4
    infos = []
    for _ in range(n_tensors):
        name = text()
        rank, = struct.unpack_from("<I", data, at)
        dims = struct.unpack_from("<%dQ" % rank, data, at + 4)
        _, offset = struct.unpack_from("<IQ", data, at + 4 + 8 * rank)
        at += 16 + 8 * rank
        infos.append((name, dims[::-1], offset))
    base = (at + 31) // 32 * 32
    return {name: np.frombuffer(data, "<f4", int(np.prod(dims)), base + offset).reshape(dims)
            for name, dims, offset in infos}


def record(model):
    """Sums of squares by tensor: [columns], or of experts [experts, columns] with counts."""
    sums, counts = {}, {}
    linear, expert = forward.Reader.linear, forward.one_expert

    def note(name, e, n, x):
        sums.setdefault(name, np.zeros((n, x.shape[-1])))[e] += (x * x).reshape(
            -1, x.shape[-1]).sum(0)
        counts.setdefault(name, np.zeros(n))[e] += x.size // x.shape[-1]

    def noted_linear(self, name, x):
        note(self.prefix + name + ".weight", 0, 1, x)
        return linear(self, name, x)

    def noted_expert(r, e, x):
        bank = r.get("ffn_gate_exps.weight")
        inner = forward.silu(bank[e] @ x) * (r.get("ffn_up_exps.weight")[e] @ x)
        for part, v in (("gate", x), ("up", x), ("down", inner)):
            note("%sffn_%s_exps.weight" % (r.prefix, part), e, len(bank), v)
        return expert(r, e, x)
    forward.Reader.linear, forward.one_expert = noted_linear, noted_expert
    try:
        for text in TEXTS:
            forward.logits(model, text, 64)
    finally:
        forward.Reader.linear, forward.one_expert = linear, expert
    return sums, counts


def test_model(name, model, folder):
    path, out = os.path.join(folder, name + ".gguf"), os.path.join(folder, name + ".imatrix.gguf")
    with open(path, "wb") as f:
        f.write(model.data)
    text = "/".join(",".join(map(str, t)) for t in TEXTS)
    done = subprocess.run([PROGRAM, path, out, text], capture_output=True, text=True, timeout=60)
    check(done.returncode == 0, "%s: %s%s" % (name, done.stdout, done.stderr))
    if done.returncode:
        return
    found = read_gguf(out)
    sums, counts = record(model)
    n = 0
    for tensor, want in sums.items():
        got = found.get(tensor + ".in_sum2")
        if tensor.endswith("_shexp.weight") and got is None:
            continue
        check(got is not None and got.shape == want.shape, "%s: no %s" % (name, tensor))
        if got is None or got.shape != want.shape:
            continue
        error = np.abs(got - want).max() / want.max()
        check(error < 1e-4, "%s, %s: off by %.1e" % (name, tensor, error))
        check((found[tensor + ".counts"].reshape(-1) == counts[tensor]).all(),
              "%s, %s: counts" % (name, tensor))
        n += 1
    check(n >= 8, "%s: %d tensors" % (name, n))
    small = os.path.join(folder, "small.gguf")
    done = subprocess.run([RLX, "quantize", path, small, "--type", "q4_0", "--imatrix", out],
                          capture_output=True, text=True, timeout=60)
    check(done.returncode == 0 and "tensors weighted by" in done.stdout,
          "%s: quantize: %s%s" % (name, done.stdout, done.stderr))


def main():
    models = make_models.models()
    with tempfile.TemporaryDirectory() as folder:
        for name in NAMES:
            test_model(name, models[name], folder)
        done = subprocess.run([RLX, "quantize", os.path.join(folder, "gemma2.gguf"),
                               os.path.join(folder, "x.gguf"), "--imatrix",
                               os.path.join(folder, "llama.gguf")], capture_output=True, text=True)
        check(done.returncode == 1 and "no importance matrix" in done.stderr, done.stderr)
    finish()


if __name__ == "__main__":
    main()
