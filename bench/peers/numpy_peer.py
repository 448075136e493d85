#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""NumPy as a peer: its BLAS for products (OpenBLAS in the wheels), pocketfft for transforms, and
for the rest what one would write.
The driver sets OPENBLAS_NUM_THREADS."""
import os

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view as sliding

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


def indices(case, limit, which=1):
    shape = case.shapes[which]
    return np.array(peer.indices(shape, limit), np.int64).reshape(shape)


# ---- Places -------------------------------------------------------------------------------------

def make_gather_elements(case, x):
    index = indices(case, min(x.shape))
    return lambda: np.take_along_axis(x, index, -1)


def make_gather_nd(case, x):
    index = tuple(indices(case, min(x.shape)).T)
    return lambda: x[index]


def make_scatter_nd(case, x):
    index, update = tuple(indices(case, min(x.shape)).T), random(*case.shapes[2])

    def run():
        y = x.copy()
        y[index] = update
        return y
    return run


def make_scatter_add(case, x):
    index, update = indices(case, min(x.shape)), random(*case.shapes[2])

    def run():
        y = x.copy()
        np.add.at(y, index, update)
        return y
    return run


def make_im2col(case, x):
    """Windows of 3x3 with a border of 1, as columns [C 9, H W]."""
    n, c, h, w = x.shape

    def run():
        windows = sliding(np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1))), (3, 3), (2, 3))
        return windows.transpose(0, 1, 4, 5, 2, 3).reshape(n, c * 9, h * w)
    return run


# ---- Selections ---------------------------------------------------------------------------------

def make_any(case, x):
    x = x > 0
    return lambda: np.any(x, -1)


def make_pool3d(case, x):
    n, c, d, h, w = x.shape
    return lambda: x.reshape(n, c, d // 2, 2, h // 2, 2, w // 2, 2).max((3, 5, 7))


def largest(x, k):
    """The k largest of each row with their indices, larger ones first."""
    at = np.argpartition(x, -k, -1)[..., -k:]
    values = np.take_along_axis(x, at, -1)
    order = np.argsort(-values, -1)
    return np.take_along_axis(values, order, -1), np.take_along_axis(at, order, -1)


def make_knn(case, x):
    k = case.number("k", 8)

    def run():
        d = -x
        np.fill_diagonal(d, -np.inf)
        return largest(d, k)
    return run


def make_gate(case, x):
    """Of 8 groups the 4 whose two best sum to most; of those the 8 best experts."""
    rows, experts = x.shape

    def run():
        by_group = x.reshape(rows, 8, -1)
        best = np.partition(by_group, -2, -1)[..., -2:].sum(-1)
        keep = np.argpartition(best, -4, -1)[:, -4:]
        mask = np.full((rows, 8, 1), -np.inf, np.float32)
        np.put_along_axis(mask, keep[..., None], 0, 1)
        values, at = largest((by_group + mask).reshape(rows, experts), 8)
        return values / values.sum(-1, keepdims=True), at
    return run


# ---- Norms, experts, numbers --------------------------------------------------------------------

def normalise(x, axis):
    mean = x.mean(axis, keepdims=True)
    y = x - mean
    return y / np.sqrt((y * y).mean(axis, keepdims=True) + 1e-5)


def make_layer_norm2d(case, x):
    gamma, beta = random(x.shape[1], 1, 1), random(x.shape[1], 1, 1)
    return lambda: normalise(x, 1) * gamma + beta


def make_ada_layer_norm(case, x):
    scale, shift = random(x.shape[-1]), random(x.shape[-1])
    return lambda: normalise(x, -1) * (1 + scale) + shift


def make_gated_residual(case, x):
    y, gate = random(*x.shape), random(x.shape[-1])
    return lambda: x + gate * y


def make_grouped_matmul(case):
    m, n, k = case.shapes[0]
    count = case.shapes[1][0]
    x, w = random(m, k), random(count, k, n)
    ids = np.array(peer.indices([m], count))
    groups, out = [np.flatnonzero(ids == e) for e in range(count)], np.empty((m, n), np.float32)

    def run():
        for e, rows in enumerate(groups):
            out[rows] = x[rows] @ w[e]
        return out
    return run


def make_moe_weights(case, _):
    w = random(*case.shapes[0]).astype(np.float16)
    ids = np.array(peer.indices(case.shapes[1], w.shape[0]))
    return lambda: w[ids].astype(np.float32)


def make_quantize(case, x):
    scale = np.float32(1.25)
    return lambda: np.clip(np.rint(x / scale), -128, 127).astype(np.int8)


def make_dequantize(case, x):
    x = (x * 40).astype(np.int8)
    return lambda: x * np.float32(1.25)


def make_uniform(case, _):
    generator = np.random.Generator(np.random.Philox(1))
    return lambda: generator.random(case.shapes[0], np.float32)


# ---- Spectra ------------------------------------------------------------------------------------

def make_stft(case, x):
    """Frames of 400 samples, one every 160."""
    return lambda: np.fft.rfft(sliding(x, 400, -1)[:, ::160])


def power(x):
    return np.square(x[..., 0]) + np.square(x[..., 1])


def make_log_mel(case, x):
    filters = np.abs(random(*case.shapes[1])).T.copy()

    def run():
        y = np.log10(np.maximum(power(x) @ filters, 1e-10))
        return (np.maximum(y, y.max() - 8) + 4) / 4
    return run


def make_welch_peaks(case, x):
    return lambda: largest(power(x).mean(0), 8)


MAKE = {
    "matmul": make_matmul, "fft": make_fft, "grouped_matmul": make_grouped_matmul,
    "reduce_prod": one_thread(lambda case, x: lambda: np.prod(x, -1)),
    "histogram": one_thread(lambda case, x: lambda: np.histogram(x, 256, (-1, 1))),
    "nonzero": one_thread(lambda case, x: lambda: np.nonzero(x)),
    "gather_elements": one_thread(make_gather_elements),
    "gather_nd": one_thread(make_gather_nd), "scatter_nd": one_thread(make_scatter_nd),
    "scatter_add": one_thread(make_scatter_add), "im2col": one_thread(make_im2col),
    "reduce_any": one_thread(make_any), "pool3d": one_thread(make_pool3d),
    "knn": one_thread(make_knn), "group_limited_gate": one_thread(make_gate),
    "layer_norm2d": one_thread(make_layer_norm2d),
    "ada_layer_norm": one_thread(make_ada_layer_norm),
    "gated_residual": one_thread(make_gated_residual),
    "dequant_moe_weights": one_thread(make_moe_weights),
    "quantize": one_thread(make_quantize), "dequantize": one_thread(make_dequantize),
    "random_uniform": one_thread(make_uniform), "stft": one_thread(make_stft),
    "log_mel": one_thread(make_log_mel), "welch_peaks": one_thread(make_welch_peaks),
}
# Their type is not that of the numbers that the peer makes.
OTHER_TYPES = {"reduce_any": "bool", "dequantize": "i8", "dequant_moe_weights": "f16"}


def make(case):
    if case.op not in MAKE or case.dtype != OTHER_TYPES.get(case.op, "f32"):
        raise peer.Unsupported(f"NumPy: no call for {case.op}:{case.dtype}")
    return MAKE[case.op](case)


if __name__ == "__main__":
    peer.serve("numpy", f"NumPy {np.__version__}, {blas_version()}", make)
