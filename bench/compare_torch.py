#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares rlx with PyTorch on the same machine:
  compare_torch.py RLX_TOOL [--device D] [--json FILE]

rlx times a whole run (submit and wait included), PyTorch a replayed CUDA graph or, on the CPU, a
call. Both are repeated in turn; the table has the medians and PyTorch's time divided by ours."""
import argparse
import json
import statistics
import subprocess
import sys
import time

try:
    import torch
    import torch.nn.functional as F
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

ROUNDS = 3


def cases(device):
    """(name of the rlx case, function that makes the PyTorch call)"""
    gpu = device == "cuda"

    def rand(*shape, dtype=torch.float32):
        return torch.randn(*shape, device=device, dtype=dtype)

    def matmul(n, dtype):
        a, b = rand(n, n, dtype=dtype), rand(n, n, dtype=dtype)
        return lambda: a @ b

    def rows(fn, n=4096):
        x = rand(n, n)
        return lambda: fn(x)

    def attention(s):
        q, k, v = (rand(1, 32, s, 128, dtype=torch.float16) for _ in range(3))
        return lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True)

    small = [
        ("matmul:f32:1024x1024x1024", lambda: matmul(1024, torch.float32)),
        ("softmax:f32:4096x4096", lambda: rows(lambda x: torch.softmax(x, -1))),
        ("layer_norm:f32:4096x4096", lambda: rows(lambda x: F.layer_norm(x, (4096,)))),
        ("cumsum:f32:4096x4096", lambda: rows(lambda x: torch.cumsum(x, -1))),
    ]
    if not gpu:
        return small
    flat = 1 << 26
    return small + [
        ("matmul:f32:4096x4096x4096", lambda: matmul(4096, torch.float32)),
        ("matmul:f16:1024x1024x1024", lambda: matmul(1024, torch.float16)),
        ("matmul:f16:4096x4096x4096", lambda: matmul(4096, torch.float16)),
        ("matmul:f16:8192x8192x8192", lambda: matmul(8192, torch.float16)),
        ("matmul:bf16:8192x8192x8192", lambda: matmul(8192, torch.bfloat16)),
        ("gelu:f32:67108864", lambda: (lambda x: lambda: F.gelu(x))(rand(flat))),
        ("reduce_sum:f32:67108864", lambda: (lambda x: lambda: x.sum())(rand(flat))),
        ("transpose:f32:8192x8192", lambda: rows(lambda x: x.t().contiguous(), 8192)),
        ("top_k:f32:4096x4096", lambda: rows(lambda x: torch.topk(x, 64))),
        ("attention:f16:1x32x512x128:causal=true", lambda: attention(512)),
        ("attention:f16:1x32x4096x128:causal=true", lambda: attention(4096)),
    ]


def time_torch(make, gpu):
    call = make()
    for _ in range(3):
        call()
    if not gpu:
        times = []
        for _ in range(7):
            begin = time.perf_counter()
            call()
            times.append(time.perf_counter() - begin)
        return 1e3 * statistics.median(times)
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        call()
    times = []
    for _ in range(20):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end))
    return statistics.median(times)


def time_rlx(tool, device, name):
    said = subprocess.run([tool, "bench", "--json", "--device", device, name], text=True,
                          capture_output=True, check=False)
    if said.returncode:
        return None
    return json.loads(said.stdout)[0]["ms_median"]


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("tool")
    options.add_argument("--device", default="vulkan")
    options.add_argument("--json")
    o = options.parse_args()
    gpu = o.device != "cpu" and torch.cuda.is_available()
    rows = []
    print(f"{'case':42} {'rlx ms':>10} {'torch ms':>10} {'ratio':>7}")
    for name, make in cases("cuda" if gpu else "cpu"):
        ours, theirs = [], []
        for _ in range(ROUNDS):
            theirs.append(time_torch(make, gpu))
            ours.append(time_rlx(o.tool, o.device, name))
        if None in ours:
            print(f"{name:42} {'failed':>10}")
            continue
        row = {"case": name, "rlx_ms": statistics.median(ours),
               "torch_ms": statistics.median(theirs)}
        row["ratio"] = row["torch_ms"] / row["rlx_ms"]
        rows.append(row)
        print(f"{name:42} {row['rlx_ms']:10.4f} {row['torch_ms']:10.4f} {row['ratio']:7.2f}",
              flush=True)
    if o.json:
        with open(o.json, "w", encoding="utf-8") as f:
            json.dump({"torch": torch.__version__, "device": o.device, "rows": rows}, f, indent=1)


if __name__ == "__main__":
    main()
