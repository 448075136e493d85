#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares `rlx inspect --json` with what the Python package `gguf` wrote: metadata of every kind
and tensors of plain and packed types, in one file and split into three.

Exit status: 0 all equal, 1 not, 77 no numpy or gguf here (skipped).
"""
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from packages import import_wheels, skip  # noqa: E402

import_wheels("gguf")
try:
    import numpy as np
    from gguf import GGMLQuantizationType as Q, GGUFReader, GGUFWriter
    from gguf.constants import GGML_QUANT_SIZES
except ImportError as e:
    skip(str(e))

TOOL = os.environ.get("RLX_TOOL", "build/rlx")
TYPES = "Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K IQ4_NL IQ4_XS BF16".split()
META = {
    "t.u8": ("uint8", 200), "t.i8": ("int8", -7), "t.u16": ("uint16", 65535),
    "t.i16": ("int16", -300), "t.u32": ("uint32", 2**32 - 1), "t.i32": ("int32", -(2**31)),
    "t.u64": ("uint64", 2**62), "t.i64": ("int64", -(2**62)), "t.f32": ("float32", 0.5),
    "t.f64": ("float64", -1e100), "t.bool": ("bool", True), "t.text": ("string", "zwölf \"x\"\n"),
    "t.tokens": ("array", [f"tok{i}·" for i in range(3000)]), "t.ints": ("array", [1, -2, 3]),
    "t.floats": ("array", [0.25, -4.0]), "t.bools": ("array", [True, False]),
}


def write_model(path, split):
    writer = GGUFWriter(str(path), "test", split_max_tensors=split)
    for key, (kind, value) in META.items():
        getattr(writer, f"add_{kind}")(key, value)
    rng = np.random.default_rng(1)
    writer.add_tensor("plain.f32", rng.standard_normal((3, 5, 7)).astype(np.float32))
    writer.add_tensor("plain.f16", rng.standard_normal((2, 9)).astype(np.float16))
    writer.add_tensor("plain.i32", np.arange(11, dtype=np.int32))
    writer.add_tensor("plain.f64", np.arange(3, dtype=np.float64))
    for name in TYPES:
        block, size = GGML_QUANT_SIZES[Q[name]]
        raw = rng.integers(0, 256, (2, 512 // block * size), dtype=np.uint8)
        writer.add_tensor(f"packed.{name}", raw, raw_dtype=Q[name])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def inspect(path):
    done = subprocess.run([TOOL, "inspect", str(path), "--json"], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"rlx inspect {path.name}: {done.stderr}")
    return json.loads(done.stdout)


def same(got, want):
    if isinstance(want, list):
        return len(got) == len(want) and all(map(same, got, want))
    if isinstance(want, float):
        return abs(got - want) <= 1e-6 * abs(want)
    return type(got) is type(want) and got == want


def compare(path, files):
    found = inspect(path)
    mistakes = []
    for key, (_, want) in META.items():
        if not same(found["metadata"].get(key), want):
            mistakes.append(f"{key}: expected {want!r:.60}, got {found['metadata'].get(key)!r:.60}")
    tensors = {t["name"]: t for t in found["tensors"]}
    want = [t for f in files for t in GGUFReader(str(f)).tensors]
    if len(tensors) != len(want):
        mistakes.append(f"expected {len(want)} tensors, got {len(tensors)}")
    for t in want:
        facts = (t.tensor_type.name.lower(), [int(d) for d in reversed(t.shape)], int(t.n_bytes))
        mine = tensors.get(t.name, {})
        if (mine.get("type", "").lower(), mine.get("shape"), mine.get("bytes")) != facts:
            mistakes.append(f"{t.name}: expected {facts}, got {mine}")
    if found["parameters"] != sum(int(t.n_elements) for t in want):
        mistakes.append(f"{found['parameters']} parameters")
    print(f"{path.name}: {len(META)} keys, {len(want)} tensors, {len(mistakes)} mistakes")
    for line in mistakes:
        print("  " + line)
    return not mistakes


def main():
    with tempfile.TemporaryDirectory() as folder:
        whole, parts = Path(folder, "whole.gguf"), Path(folder, "parts.gguf")
        write_model(whole, 0)
        write_model(parts, 6)
        files = sorted(Path(folder).glob("parts-*.gguf"))
        good = compare(whole, [whole]) and len(files) == 3
        return 0 if all([compare(f, files) for f in files] + [good]) else 1


if __name__ == "__main__":
    sys.exit(main())
