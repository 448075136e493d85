#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A worker that measures nothing: --self-test runs the driver with it. Every name has a time of its
own, so that the ratios are known. usage: fake_worker.py NAME THREADS"""
import json
import sys

SECONDS = {"rlx": 1e-3, "numpy": 2e-3, "onnxruntime": 1.5e-3, "torch": 0.5e-3, "llama.cpp": 3e-3}
WAVE = (1.0, 1.01, 0.99, 1.02, 0.98)  # the spread, the same in every run


def main():
    name, threads = sys.argv[1], int(sys.argv[2])
    print(json.dumps({"name": name, "version": "made up"}), flush=True)
    rounds = 0
    for line in sys.stdin:
        words = line.split()
        reply = {}
        if words[0] == "open":
            if name == "torch" and "fft" in words[1]:
                reply = {"error": "no transforms", "unsupported": True}
            elif name == "onnxruntime" and "groups" in words[1]:
                reply = {"error": "something broke"}
            else:
                reply = {"flops": 2e9, "bytes": 1e6}
        elif words[0] == "time":
            cpu = SECONDS[name] * (WAVE[rounds % len(WAVE)] if name != "rlx" else 1)
            rounds += 1
            reply = {"samples": [[cpu / threads, cpu]] * 3}
        elif words[0] == "steps":
            reply = {"steps": [["matmul", "gemm.fake", 5e-4], ["softmax", "rows.fake", 2e-4],
                               ["matmul", "gemm.fake", 3e-4]]}
        print(json.dumps(reply), flush=True)


main()
