#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""rlx quantize, and the memory part of rlx inspect, on a small model that is made here; what was
written is also read with the Python package `gguf` where that is installed."""
import random
import struct

from cli import *

skip_without_tool()

WIDTH, HIDDEN, LAYERS, VOCAB = 256, 512, 8, 96


def text(s):
    return struct.pack("<Q", len(s.encode())) + s.encode()


def entry(key, kind, value):
    """u32, f32 or string metadata."""
    if kind == 8:
        return text(key) + struct.pack("<I", 8) + text(value)
    return text(key) + struct.pack("<If" if kind == 6 else "<II", kind, value)


def write_model(name, tensors, meta):
    """`tensors`: name -> shape, outermost first; random f32 data."""
    rng = random.Random(1)
    out = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(meta))
    out += b"".join(entry(*m) for m in meta)
    data = b""
    for key, shape in tensors.items():
        out += text(key) + struct.pack("<I", len(shape))
        out += struct.pack(f"<{len(shape)}Q", *reversed(shape)) + struct.pack("<IQ", 0, len(data))
        n = 1
        for d in shape:
            n *= d
        data += struct.pack(f"<{n}f", *[rng.gauss(0, 0.02) for _ in range(n)])
        data += bytes(-len(data) % 32)
    path = TMP / name
    path.write_bytes(out + bytes(-len(out) % 32) + data)
    return path


tensors = {"token_embd.weight": (VOCAB, WIDTH), "output_norm.weight": (WIDTH,)}
for i in range(LAYERS):
    tensors |= {f"blk.{i}.attn_norm.weight": (WIDTH,), f"blk.{i}.attn_v.weight": (128, WIDTH),
                f"blk.{i}.ffn_down.weight": (WIDTH, HIDDEN),
                f"blk.{i}.ffn_gate_inp.weight": (4, WIDTH), f"blk.{i}.odd.weight": (64, 96)}
META = [("general.architecture", 8, "llama"), ("general.name", 8, "tiny ä"),
        ("llama.block_count", 4, LAYERS), ("llama.embedding_length", 4, WIDTH),
        ("llama.feed_forward_length", 4, HIDDEN), ("llama.context_length", 4, 1000),
        ("llama.attention.head_count", 4, 8), ("llama.attention.head_count_kv", 4, 2),
        ("llama.vocab_size", 4, VOCAB), ("llama.epsilon", 6, 1e-5)]
model = write_model("model.gguf", tensors, META)
small = TMP / "small.gguf"


def types(*options):
    """What each tensor became, and what rlx inspect says about the file."""
    got = expect_json("quantize", model, small, *options)
    seen = expect_json("inspect", small)
    to = {t["name"]: t["to"] for t in got["tensors"]}
    check(to == {t["name"]: t["type"] for t in seen["tensors"]}, f"types in the file: {options}")
    check(seen["bytes"] == got["all"]["bytes_after"], f"bytes in the file: {options}")
    check(seen["metadata"]["general.name"] == "tiny ä", "metadata is kept")
    return to, got, seen


# A plain type: all matrices alike, the rest stays.
LIMITS = {"q8_0": 0.006, "q4_0": 0.09, "q4_1": 0.08, "q5_0": 0.045, "q5_1": 0.04, "q2_k": 0.3,
          "q3_k": 0.16, "q4_k": 0.08, "q5_k": 0.04, "q6_k": 0.02, "mxfp4": 0.12, "iq4_nl": 0.08,
          "f16": 1e-3, "bf16": 4e-3}
for kind, limit in LIMITS.items():
    to, got, seen = types("--type", kind)
    check(to["blk.0.attn_v.weight"] == to["token_embd.weight"] == kind, f"{kind}: {to}")
    check(to["blk.0.attn_norm.weight"] == to["blk.0.ffn_gate_inp.weight"] == "f32", f"{kind} norm")
    check(0 < got["types"][kind]["rms_error"] < limit, f"{kind}: {got['types'][kind]}")
    check(seen["metadata"]["general.quantization_version"] == 2, "quantization_version")

# Rows of 96 do not fit blocks of 256.
to, got, _ = types("--type", "q4_k")
check(to["blk.3.odd.weight"] == "q5_0" and got["fallbacks"] == LAYERS, "rows that do not fit")

# Mixtures: tied output in six bits, more bits for some layers.
to, got, seen = types()
check(to["token_embd.weight"] == "q6_k", "q4_k_m: output")
better = [i for i in range(LAYERS) if to[f"blk.{i}.ffn_down.weight"] == "q6_k"]
check(better == [0, 3, 6, 7], f"q4_k_m: layers {better}")
check(seen["metadata"]["general.file_type"] == 15, "q4_k_m: file_type")
to, _, _ = types("--type", "q3_k_l", "--token-embedding-type", "q8_0", "--keep", "blk.2.*")
check(to["token_embd.weight"] == "q8_0" and to["blk.1.attn_v.weight"] == "q5_k", "q3_k_l")
check(to["blk.2.attn_v.weight"] == "f32", "--keep")

# The same bytes with any number of threads; packed input with a warning; text output.
types("--threads", 1)
one = small.read_bytes()
types("--threads", 3)
check(small.read_bytes() == one, "threads change nothing")
expect(0, "quantize", small, TMP / "again.gguf", "--type", "q2_k", err="lose twice",
       out="rms error")
expect(0, "quantize", small, TMP / "wide.gguf", "--type", "f32", err="larger than the input")

# Memory: 8 layers of 2 heads of 32, K and V in f16.
memory = expect_json("inspect", model, "--context", 500)["memory"]
check(memory["kv_cache"] == 500 * 8 * 2 * (32 + 32) * 2, f"memory: {memory}")
expect(0, "inspect", model, out="memory for 1000 tokens")
check(expect_json("inspect", model)["devices"][0]["longest_context"] == 1000, "longest context")
window = write_model("window.gguf", {"a.weight": (2, 2)}, [
    ("general.architecture", 8, "gemma3"), ("gemma3.block_count", 4, 12),
    ("gemma3.embedding_length", 4, 64), ("gemma3.context_length", 4, 100000),
    ("gemma3.attention.head_count", 4, 2), ("gemma3.attention.key_length", 4, 16),
    ("gemma3.attention.value_length", 4, 16), ("gemma3.attention.sliding_window", 4, 512)])
cache = expect_json("inspect", window)["memory"]["kv_cache"]
check(cache == 2 * 2 * 32 * (2 * 100000 + 10 * 1024), f"windows: {cache}")
mamba = write_model("mamba.gguf", {"a.weight": (2, 2)}, [
    ("general.architecture", 8, "mamba"), ("mamba.block_count", 4, 3),
    ("mamba.embedding_length", 4, 64), ("mamba.context_length", 4, 4096),
    ("mamba.ssm.inner_size", 4, 128), ("mamba.ssm.state_size", 4, 16),
    ("mamba.ssm.conv_kernel", 4, 4)])
memory = expect_json("inspect", mamba)["memory"]
check((memory["kv_cache"], memory["state"]) == (0, 3 * 4 * (3 * 128 + 128 * 16)), f"ssm: {memory}")

# Errors.
expect(2, "quantize", model, small, "--type", "q4_k_x", err="did you mean 'q4_k")
expect(2, "quantize", model, small, "--output-type", "iq2_xs", err="no type 'iq2_xs'")
expect(2, "quantize", model, err="expected IN.gguf OUT.gguf")
expect(1, "quantize", TMP / "absent.gguf", small, err="cannot open")
expect(1, "quantize", model, TMP / "no" / "folder.gguf", err="cannot create")
check(not list(TMP.glob("*.part-*")), "nothing is left behind")

try:
    from gguf import GGUFReader
    reader = GGUFReader(str(small))
    check(len(reader.tensors) == len(tensors), "gguf: tensors")
    check(bytes(reader.fields["general.name"].parts[-1]).decode() == "tiny ä", "gguf: metadata")
except ImportError as e:
    print(f"not compared with the package gguf: {e}")

finish()
