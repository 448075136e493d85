#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""NumPy as a peer: its BLAS for products (OpenBLAS in the wheels), pocketfft for transforms.
The driver sets OPENBLAS_NUM_THREADS."""
import os

import numpy as np

import peer


def blas_version():
    try:
        blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
        return f"{blas['name']} {blas['version']}"
    except (KeyError, TypeError):
        return "BLAS"


def random(*shape):
    return np.random.default_rng(1).standard_normal(shape, dtype=np.float32)


def make_matmul(case):
    m, n, k = case.shapes[0]
    a, b, out = random(m, k), random(k, n), np.empty((m, n), np.float32)
    return lambda: np.matmul(a, b, out=out)


def make_fft(case):
    if int(os.environ.get("OPENBLAS_NUM_THREADS", "1")) > 1:
        raise peer.Unsupported("pocketfft in NumPy runs on one thread")
    rows, n, _ = case.shapes[0]
    x = random(rows, n) + 1j * random(rows, n)
    x = x.astype(np.complex64)
    return lambda: np.fft.fft(x)


MAKE = {"matmul": make_matmul, "fft": make_fft}


def make(case):
    if case.op not in MAKE or case.dtype != "f32" or len(case.shapes[0]) != 3:
        raise peer.Unsupported("NumPy: f32 matmul and fft")
    return MAKE[case.op](case)


if __name__ == "__main__":
    peer.serve("numpy", f"NumPy {np.__version__}, {blas_version()}", make)
