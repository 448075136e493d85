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


def one_thread(run):
    """Functions of NumPy that never use more than one thread."""
    def make_single(case):
        if int(os.environ.get("OPENBLAS_NUM_THREADS", "1")) > 1:
            raise peer.Unsupported("NumPy runs this on one thread")
        return run(case, random(*case.shapes[0]))
    return make_single


def make_gather_elements(case, x):
    index = np.random.default_rng(1).integers(0, x.shape[-1], case.shapes[1])
    return lambda: np.take_along_axis(x, index, -1)


def make_scatter_add(case, x):
    index = np.random.default_rng(1).integers(0, x.shape[0], case.shapes[1])
    update = random(*case.shapes[2])

    def run():
        y = x.copy()
        np.add.at(y, index, update)
        return y
    return run


MAKE = {
    "matmul": make_matmul, "fft": make_fft,
    "reduce_prod": one_thread(lambda case, x: lambda: np.prod(x, -1)),
    "histogram": one_thread(lambda case, x: lambda: np.histogram(x, 256, (-1, 1))),
    "nonzero": one_thread(lambda case, x: lambda: np.nonzero(x)),
    "gather_elements": one_thread(make_gather_elements),
    "scatter_add": one_thread(make_scatter_add),
}


def make(case):
    if case.op not in MAKE or case.dtype != "f32":
        raise peer.Unsupported(f"NumPy: no call for {case.op}:{case.dtype}")
    return MAKE[case.op](case)


if __name__ == "__main__":
    peer.serve("numpy", f"NumPy {np.__version__}, {blas_version()}", make)
