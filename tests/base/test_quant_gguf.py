#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares the block decoders of rlx, bit for bit, with those of the Python package `gguf`.

    test_quant_gguf.py [--seed N]   compare with the program of test_quant.c in RLX_BUILD_DIR
    test_quant_gguf.py --tables     print src/base/quant_iq_tables.h
    test_quant_gguf.py --golden     print the golden rows of test_quant.c

Exit status: 0 all equal, 1 not, 2 wrong usage, 77 no numpy or gguf here (skipped).
"""
import argparse
import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from packages import import_wheels, skip  # noqa: E402

import_wheels("gguf")
try:
    import numpy as np
    from gguf import quants
    from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType as Q
except ImportError as e:
    skip(str(e))

# Type and the byte offsets of its f16 scales, which get sane values in half of the blocks.
TYPES = {
    "q4_0": [0], "q4_1": [0, 2], "q5_0": [0], "q5_1": [0, 2], "q8_0": [0],
    "q2_k": [80, 82], "q3_k": [108], "q4_k": [0, 2], "q5_k": [0, 2], "q6_k": [208], "q8_k": [],
    "iq4_nl": [0], "iq4_xs": [0], "mxfp4": [], "nvfp4": [], "iq1_s": [0], "iq1_m": [],
    "iq2_xxs": [0], "iq2_xs": [0], "iq2_s": [0], "iq3_xxs": [0], "iq3_s": [0],
    "tq1_0": [52], "tq2_0": [64],
}


def qtype(name):
    """The gguf type of that name, or None when this version of the package has none."""
    return getattr(Q, name.upper(), None)


def sizes(name):
    return GGML_QUANT_SIZES[qtype(name)]


def decode_q8_k(blocks):
    d = blocks[:, :4].copy().view("<f4")
    return d * blocks[:, 4:260].view(np.int8).astype(np.float32)


def reference(name, blocks):
    """[n, block bytes] of uint8 to [n, block size] of float32."""
    with np.errstate(all="ignore"):
        if name == "q8_k":
            return decode_q8_k(blocks)
        out = quants.dequantize(blocks, qtype(name))
    return np.ascontiguousarray(out, dtype=np.float32).reshape(len(blocks), sizes(name)[0])


def nan_scale(name, blocks):
    """Which blocks have a scale that is NaN: they are left out of the comparison."""
    bad = np.zeros(len(blocks), dtype=bool)
    for at in TYPES[name]:
        bad |= np.isnan(blocks[:, at:at + 2].copy().view("<f2")[:, 0])
    if name == "q8_k":
        bad |= np.isnan(blocks[:, :4].copy().view("<f4")[:, 0])
    if name == "iq1_m":
        nibbles = (blocks[:, 49::2] >> 4).astype(np.uint16)
        d = nibbles[:, 0] | nibbles[:, 1] << 4 | nibbles[:, 2] << 8 | nibbles[:, 3] << 12
        bad |= np.isnan(d.view("<f2"))
    return bad


def random_blocks(name, n, rng):
    """n blocks of random bytes, then n of which the scales are ordinary numbers."""
    blocks = rng.integers(0, 256, (2 * n, sizes(name)[1]), dtype=np.uint8)
    for at in TYPES[name]:
        scale = rng.normal(0, 0.1, (n, 1)).astype("<f2")
        blocks[n:, at:at + 2] = scale.view(np.uint8)
    if name == "q8_k":
        blocks[n:, :4] = rng.normal(0, 0.1, (n, 1)).astype("<f4").view(np.uint8)
    if name == "iq1_m":  # the nibbles of the scale lie in the top halves of four words
        scale = rng.normal(0, 0.1, n).astype("<f2").view(np.uint16)
        for i in range(4):
            top = (scale >> (4 * i) & 15).astype(np.uint8) << 4
            blocks[n:, 49 + 2 * i] = blocks[n:, 49 + 2 * i] & 15 | top
    return blocks[~nan_scale(name, blocks)]


def compare(program, name, n, rng):
    """Empty when our decoder gives the reference's bits, else what differs."""
    if qtype(name) is None or (name != "q8_k" and qtype(name) not in quants._type_traits):
        return None
    info = subprocess.run([program, "info", name], capture_output=True, text=True, check=True)
    want_info = f"{sizes(name)[0]} {sizes(name)[1]} {int(qtype(name))}"
    if info.stdout.strip() != want_info:
        return f"table says {info.stdout.strip()!r}, gguf says {want_info!r}"
    blocks = random_blocks(name, n, rng)
    want = reference(name, blocks)
    raw = subprocess.run([program, "decode", name], input=blocks.tobytes(), stdout=subprocess.PIPE,
                         check=True).stdout
    if len(raw) != want.nbytes:
        return f"expected {want.nbytes} bytes, got {len(raw)}"
    got = np.frombuffer(raw, dtype="<f4").reshape(want.shape)
    # inf * 0 and inf - inf are NaN on both sides; the sign of that NaN is the processor's choice
    same = (got.view("<u4") == want.view("<u4")) | (np.isnan(got) & np.isnan(want))
    if same.all():
        return ""
    row, col = np.argwhere(~same)[0]
    return (f"{np.count_nonzero(~same)} of {same.size} differ; first: block {row} element {col}: "
            f"expected {want[row, col]}, got {got[row, col]}; "
            f"the block is {blocks[row].tobytes().hex()}")


def compare_all(program, seed):
    print(f"gguf {importlib.metadata.version('gguf')}, seed {seed}")
    rng = np.random.default_rng(seed)
    passed = failed = skipped = 0
    for name in TYPES:
        text = compare(program, name, 1000, rng)
        if text is None:
            skipped += 1
            print(f"{name}: this gguf package cannot decode it")
        elif text:
            failed += 1
            print(f"{name}: {text}")
        else:
            passed += 1
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or not passed else 0


# ---- Generated parts of the sources ------------------------------------------------------------

HEADER = """\
/* SPDX-License-Identifier: MIT */
/* Grids of the iq types, printed by tests/base/test_quant_gguf.py --tables. A row of the iq1 and
 * iq2 grids is 8 fields of 2 bits, of the iq3 grids 4 of 3 bits, the first element lowest. */
#ifndef RX_BASE_QUANT_IQ_TABLES_H
#define RX_BASE_QUANT_IQ_TABLES_H

#include <stdint.h>
"""


def print_tables():
    grids = {"iq1_grid": (quants.IQ1_S, 2), "iq2_xxs_grid": (quants.IQ2_XXS, 2),
             "iq2_xs_grid": (quants.IQ2_XS, 2), "iq2_s_grid": (quants.IQ2_S, 2),
             "iq3_xxs_grid": (quants.IQ3_XXS, 3), "iq3_s_grid": (quants.IQ3_S, 3)}
    print(HEADER, end="")
    for name, (cls, bits) in grids.items():
        cls.init_grid()
        levels = [float(x) for x in cls.grid_map]
        rows = cls.grid.reshape(cls.grid_shape).tolist()
        words = [sum(levels.index(x) << (bits * i) for i, x in enumerate(row)) for row in rows]
        print(f"\nstatic const uint16_t {name}[{len(words)}] = {{")
        for i in range(0, len(words), 12):
            print("    " + " ".join(f"0x{w:04x}," for w in words[i:i + 12]))
        print("};")
    print("\n#endif")


def golden_block(seed, n):
    """The same bytes as fill_block in test_quant.c."""
    out = bytearray()
    for _ in range(n):
        seed = (seed * 1664525 + 1013904223) & 0xffffffff
        out.append(seed >> 24)
    return np.frombuffer(bytes(out), dtype=np.uint8).reshape(1, n)


def fnv1a(data):
    h = 0xcbf29ce484222325
    for byte in data:
        h = (h ^ byte) * 0x100000001b3 & 0xffffffffffffffff
    return h


def print_golden():
    for name in TYPES:
        seed = 1
        while True:  # the first seed whose block decodes to ordinary numbers
            x = reference(name, golden_block(seed, sizes(name)[1]))[0]
            if np.isfinite(x).all() and 1e-3 < np.abs(x).max() < 1e6:
                break
            seed += 1
        first, last = str(x[0]), str(x[-1])  # shortest decimals that give the same floats
        digest = fnv1a(x.tobytes())
        print(f"    {{RLX_{name.upper()}, {seed}, {first}f, {last}f, 0x{digest:016x}}},")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tables", action="store_true")
    parser.add_argument("--golden", action="store_true")
    args = parser.parse_args()
    if args.tables:
        return print_tables()
    if args.golden:
        return print_golden()
    program = os.path.join(os.environ.get("RLX_BUILD_DIR", "build-test"), "tests/base/test_quant")
    if not os.path.exists(program):
        parser.error(f"{program} is not there; build it and set RLX_BUILD_DIR")
    return compare_all(program, args.seed)


if __name__ == "__main__":
    sys.exit(main())
