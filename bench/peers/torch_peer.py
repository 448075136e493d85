#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""PyTorch as a peer: calls on the CPU, replayed CUDA graphs on a GPU (the best that PyTorch does
with work that is launched again and again). usage: torch_peer.py cpu|cuda"""
import math
import os
import sys
import time

from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

import onnx_torch
import peer

DEVICE = sys.argv[1] if len(sys.argv) > 1 else "cpu"
TYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
HEAT = 0.4  # seconds of work until a GPU has raised its clocks


class GraphClock:
    """Time between two events on the GPU around `inner` replays of the work."""

    def __init__(self):
        self.run, self.graph, self.inner = None, None, 1

    def open(self, run):
        self.run = run  # its tensors are what the graph reads
        for _ in range(3):
            run()
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            run()
        begin, self.inner = time.perf_counter(), 8
        while time.perf_counter() - begin < HEAT:
            seconds = self.sample()[0]
        self.inner = min(256, max(1, math.ceil(1e-3 / max(seconds, 1e-9))))

    def close(self):
        self.graph = self.run = None
        torch.cuda.empty_cache()

    def warm(self):
        self.graph.replay()

    def sample(self):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(self.inner):
            self.graph.replay()
        end.record()
        torch.cuda.synchronize()
        seconds = begin.elapsed_time(end) * 1e-3 / self.inner
        return [seconds, None]


def rand(case, *shape):
    return torch.randn(*shape, device=DEVICE, dtype=TYPES[case.dtype])


def make_matmul(case):
    m, n, k = case.shapes[0]
    a, b = rand(case, m, k), rand(case, k, n)
    return lambda: a @ b


def make_attention(case):
    batch, heads, tokens, size = case.shapes[0]
    kv = case.number("kv", heads)
    q, k, v = (rand(case, batch, h, tokens, size) for h in (heads, kv, kv))
    causal = case.attributes.get("causal") == "true"
    if kv == heads:
        return lambda: F.scaled_dot_product_attention(q, k, v, is_causal=causal)
    return lambda: F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True)


def make_conv2d(case):
    n, channels, height, width = case.shapes[0]
    outputs, *size = case.shapes[1]
    groups, stride = case.number("groups", 1), case.number("stride", 1)
    x, w = rand(case, n, channels, height, width), rand(case, outputs, channels // groups, *size)
    pad = [case.number("pad", s // 2) for s in size]
    return lambda: F.conv2d(x, w, stride=stride, padding=pad, groups=groups)


def make_layer_norm(case):
    x = rand(case, *case.shapes[0])
    gamma, beta = (rand(case, x.shape[-1]) for _ in range(2))
    return lambda: F.layer_norm(x, x.shape[-1:], gamma, beta)


def make_rms_norm(case):
    x = rand(case, *case.shapes[0])
    gamma = rand(case, x.shape[-1])
    return lambda: F.rms_norm(x, x.shape[-1:], gamma)


def make_fft(case):
    rows, n, _ = case.shapes[0]
    x = torch.complex(rand(case, rows, n), rand(case, rows, n))
    return lambda: torch.fft.fft(x)


def make_top_k(case):
    x, k = rand(case, *case.shapes[0]), case.number("k", 8)
    return lambda: torch.topk(x, k)


def make_minilm(case):
    """all-MiniLM-L6-v2 up to the mean over the tokens."""
    batch, tokens = case.shapes[0]
    width, heads, inner, layers = 384, 12, 1536, 6
    embedding, places = rand(case, 30522, width), rand(case, tokens, width)
    ids = torch.randint(0, 1000, (batch, tokens), device=DEVICE)

    def linear(inputs, outputs):
        return rand(case, outputs, inputs) / math.sqrt(inputs), rand(case, outputs)

    def norm():
        return rand(case, width), rand(case, width)

    first = norm()
    stack = [([linear(width, width) for _ in range(4)], norm(), linear(width, inner),
              linear(inner, width), norm()) for _ in range(layers)]

    def by_heads(x, weight):
        return F.linear(x, *weight).view(batch, tokens, heads, width // heads).transpose(1, 2)

    def run():
        x = F.layer_norm(F.embedding(ids, embedding) + places, (width,), *first)
        for (q, k, v, out), after_attention, up, down, after_all in stack:
            y = F.scaled_dot_product_attention(*(by_heads(x, w) for w in (q, k, v)))
            y = F.linear(y.transpose(1, 2).reshape(batch, tokens, width), *out)
            x = F.layer_norm(x + y, (width,), *after_attention)
            y = F.linear(F.gelu(F.linear(x, *up)), *down)
            x = F.layer_norm(x + y, (width,), *after_all)
        return x.mean(1)
    return run


# ---- Places and selections ----------------------------------------------------------------------

def indices(case, limit, which=1):
    shape = case.shapes[which]
    return torch.tensor(peer.indices(shape, limit), device=DEVICE).reshape(shape)


def make_gather_elements(case):
    x = rand(case, *case.shapes[0])
    index = indices(case, min(x.shape))
    return lambda: torch.gather(x, -1, index)


def make_gather_nd(case):
    x = rand(case, *case.shapes[0])
    index = indices(case, min(x.shape)).unbind(-1)
    return lambda: x[index]


def make_scatter_nd(case):
    x, update = rand(case, *case.shapes[0]), rand(case, *case.shapes[2])
    index = indices(case, min(x.shape)).unbind(-1)
    return lambda: x.index_put(index, update)


def make_scatter_add(case):
    x, update = rand(case, *case.shapes[0]), rand(case, *case.shapes[2])
    index = indices(case, min(x.shape))
    return lambda: x.index_add(0, index, update)


def make_any(case):
    x = torch.randn(*case.shapes[0], device=DEVICE) > 0
    return lambda: x.any(-1)


def make_knn(case):
    x, k = rand(case, *case.shapes[0]), case.number("k", 8)
    return lambda: torch.topk(x.clone().fill_diagonal_(math.inf), k, largest=False)


def make_gate(case):
    """Of 8 groups the 4 whose two best sum to most; of those the 8 best experts."""
    x = rand(case, *case.shapes[0])
    rows, experts = x.shape

    def run():
        by_group = x.view(rows, 8, -1)
        keep = by_group.topk(2).values.sum(-1).topk(4).indices
        mask = torch.full((rows, 8), -math.inf, device=DEVICE).scatter_(1, keep, 0.0)
        values, at = (by_group + mask[..., None]).view(rows, experts).topk(8)
        return values / values.sum(-1, keepdim=True), at
    return run


# ---- Norms, experts, numbers --------------------------------------------------------------------

def make_layer_norm2d(case):
    x = rand(case, *case.shapes[0])
    gamma, beta = (rand(case, x.shape[1]) for _ in range(2))
    return lambda: F.layer_norm(x.permute(0, 2, 3, 1), x.shape[1:2], gamma,
                                beta).permute(0, 3, 1, 2).contiguous()


def make_ada_layer_norm(case):
    x = rand(case, *case.shapes[0])
    scale, shift = (rand(case, x.shape[-1]) for _ in range(2))
    return lambda: F.layer_norm(x, x.shape[-1:], 1 + scale, shift)


def make_gated_residual(case):
    x, y, gate = (rand(case, *s) for s in case.shapes)
    return lambda: torch.addcmul(x, gate, y)


def make_grouped_matmul(case):
    """One product for each matrix that has rows."""
    m, n, k = case.shapes[0]
    count, ids = case.shapes[1][0], torch.tensor(peer.indices([m], case.shapes[1][0]))
    x, w = rand(case, m, k), rand(case, count, k, n)
    groups = [(e, torch.nonzero(ids == e)[:, 0].to(DEVICE)) for e in range(count)]
    out = torch.empty(m, n, device=DEVICE, dtype=x.dtype)

    def run():
        for e, rows in groups:
            out[rows] = x[rows] @ w[e]
        return out
    return run


def make_moe_weights(case):
    w = rand(case, *case.shapes[0])
    ids = indices(case, w.shape[0])
    return lambda: w[ids].float()


def make_ragged(case):
    """Without pages: keys and values of each sequence are in one place."""
    n, heads, tokens, size = case.shapes[0]
    q = rand(case, n, heads, 1, size)
    k, v = (rand(case, n, case.number("kv", heads), tokens, size) for _ in range(2))
    return lambda: F.scaled_dot_product_attention(q, k, v)


def make_quantize(case):
    x = rand(case, *case.shapes[0])
    return lambda: torch.quantize_per_tensor(x, 1.25, 0, torch.qint8)


def make_dequantize(case):
    x = torch.quantize_per_tensor(torch.randn(*case.shapes[0]), 0.05, 0, torch.qint8)
    return lambda: x.dequantize()


# ---- Spectra ------------------------------------------------------------------------------------

def make_stft(case):
    """Frames of 400 samples, one every 160."""
    x, window = rand(case, *case.shapes[0]), torch.ones(400, device=DEVICE)
    return lambda: torch.stft(x, 400, 160, window=window, center=False, return_complex=True)


def power(x):
    return x[..., 0].square() + x[..., 1].square()


def make_log_mel(case):
    x, filters = rand(case, *case.shapes[0]), rand(case, *case.shapes[1]).abs().t().contiguous()

    def run():
        y = (power(x) @ filters).clamp_min(1e-10).log10()
        return (torch.maximum(y, y.max() - 8) + 4) / 4
    return run


def make_welch_peaks(case):
    x, k = rand(case, *case.shapes[0]), case.number("k", 8)
    return lambda: power(x).mean(0).topk(k)


def unary(fn):
    def make_unary(case):
        x = rand(case, *case.shapes[0])
        return lambda: fn(x)
    return make_unary


MAKE = {
    "matmul": make_matmul, "attention": make_attention, "conv2d": make_conv2d,
    "layer_norm": make_layer_norm, "rms_norm": make_rms_norm, "fft": make_fft,
    "top_k": make_top_k, "minilm": make_minilm, "gelu": unary(F.gelu),
    "softmax": unary(lambda x: torch.softmax(x, -1)),
    "cumsum": unary(lambda x: torch.cumsum(x, -1)), "reduce_sum": unary(lambda x: x.sum(-1)),
    "transpose": unary(lambda x: x.t().contiguous()), "copy": unary(lambda x: x.clone()),
    "gather_elements": make_gather_elements, "gather_nd": make_gather_nd,
    "scatter_nd": make_scatter_nd, "scatter_add": make_scatter_add,
    "im2col": unary(lambda x: F.unfold(x, 3, padding=1)), "nonzero": unary(torch.nonzero),
    "histogram": unary(lambda x: torch.histc(x, 256, -1, 1)),
    "reduce_prod": unary(lambda x: x.prod(-1)), "reduce_any": make_any,
    "pool3d": unary(lambda x: F.max_pool3d(x, 2)), "knn": make_knn,
    "group_limited_gate": make_gate, "layer_norm2d": make_layer_norm2d,
    "ada_layer_norm": make_ada_layer_norm, "gated_residual": make_gated_residual,
    "grouped_matmul": make_grouped_matmul, "dequant_grouped_matmul": make_grouped_matmul,
    "dequant_moe_weights": make_moe_weights, "ragged_attention": make_ragged,
    "quantize": make_quantize, "dequantize": make_dequantize,
    "random_uniform": unary(torch.rand_like), "stft": make_stft, "log_mel": make_log_mel,
    "welch_peaks": make_welch_peaks,
}
# Operations whose requests name a type that tensors of numbers do not have.
TYPED = {"reduce_any", "dequantize"}


def make_onnx(case):
    """A model from a file; the folder has NAME.npy for each input."""
    path, folder = case.files
    given = {p.stem: np.load(p) for p in Path(folder).glob("*.npy")}
    try:
        return onnx_torch.Model(path, given, DEVICE).run
    except NotImplementedError as why:
        raise peer.Unsupported(f"PyTorch: {why}") from None


def make(case):
    if case.op == "onnx":
        return make_onnx(case)
    if case.op not in MAKE or (case.dtype not in TYPES and case.op not in TYPED):
        raise peer.Unsupported(f"PyTorch: no call for {case.op}:{case.dtype}")
    return MAKE[case.op](case)


if __name__ == "__main__":
    if DEVICE == "cuda" and not torch.cuda.is_available():
        sys.exit("PyTorch finds no CUDA device")
    torch.set_grad_enabled(False)
    torch.set_num_threads(int(os.environ.get("RLX_BENCH_THREADS", "1")))
    what = torch.cuda.get_device_name() if DEVICE == "cuda" else "CPU"
    peer.serve("torch", f"PyTorch {torch.__version__} on {what}", make,
               GraphClock() if DEVICE == "cuda" else None)
