#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares the error of the block encoders of rlx with those of the Python package `gguf`, for the
types it can encode, on fixed random numbers.

Exit status: 0 no worse anywhere, 1 worse, 77 no numpy or gguf here (skipped).
"""
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
    from gguf.constants import GGMLQuantizationType as Q
except ImportError as e:
    skip(str(e))

PROGRAM = os.path.join(os.environ.get("RLX_BUILD_DIR", "build"), "tests/base/test_quant_encode")
TYPES = "q4_0 q4_1 q5_0 q5_1 q8_0 q2_k q3_k q4_k q5_k q6_k iq4_nl mxfp4".split()
FILLS = "gauss laplace outlier shifted".split()


def run(*arguments, data=b""):
    return subprocess.run([PROGRAM, *arguments], input=data, stdout=subprocess.PIPE,
                          check=True).stdout


def error(x, y):
    return float(np.sqrt(np.mean((x.astype(np.float64) - y.reshape(x.shape)) ** 2)))


def theirs(x, kind):
    """The error of the package's encoder, or None where it has none."""
    try:
        return error(x, quants.dequantize(quants.quantize(x, kind), kind))
    except NotImplementedError:
        return None


def main():
    worse = compared = 0
    for name in TYPES:
        kind = getattr(Q, name.upper(), None)
        for fill in FILLS if kind is not None else []:
            x = np.frombuffer(run("fill", fill), dtype="<f4").reshape(-1, 256)
            want = theirs(x, kind)
            if want is None:
                print(f"{name:7} {fill:8} the package cannot encode it")
                continue
            blocks = np.frombuffer(run("encode", name, data=x.tobytes()), dtype=np.uint8)
            mine = error(x, quants.dequantize(blocks.reshape(x.shape[0], -1), kind))
            worse += mine > want
            compared += 1
            print(f"{name:7} {fill:8} gguf {want:.3e}, rlx {mine:.3e}, ratio {mine / want:.3f}")
    print(f"{compared} compared, {worse} worse")
    return 1 if worse or not compared else 0


if __name__ == "__main__":
    sys.exit(main())
