#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Load on `rlx serve`, beside llama.cpp's server (PyPI xllamacpp, where it is installed) in turn:
1 to 64 clients stream chats of one model; tokens a second in all, time to the first token and
between tokens (p50, p95), errors. Each server has the processor to itself for its turn.

    bench/serve.py --model smollm2.gguf [--clients 1,4,16,64] [--requests 2] [--tokens 48]
                   [--threads 2] [--cores 0,1] [--python VENV/bin/python] [--json]

--cores pins both servers to those processors; the clients stay on the others (taskset).
"""
import argparse
import http.client
import json
import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

TOPICS = "rivers bread stars trains music bees glass winter maps bridges salt gardens".split()
PEER = """
import sys, time, xllamacpp as x
p = x.CommonParams()
p.model.path, p.n_parallel, p.n_ctx, p.port = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), 0
p.cpuparams.n_threads = p.cpuparams_batch.n_threads = int(sys.argv[4])
p.n_gpu_layers, p.kv_unified = 0, True
server = x.Server(p)
print("listening on", server.listening_address, flush=True)
time.sleep(1e6)
"""


def start(command, cores):
    if cores:
        command = ["taskset", "-c", cores, *command]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                               text=True)
    for line in process.stdout:
        found = re.search(r"listening on (?:http://)?([\w.]+):(\d+)", line)
        if found:
            return process, found.group(1), int(found.group(2))
    raise RuntimeError(f"{command[0]} does not listen")


def stream(host, port, body, times, errors):
    """One chat; the times of its pieces, the first of them that of the request."""
    c = http.client.HTTPConnection(host, port, timeout=600)
    stamps = [time.perf_counter()]
    try:
        c.request("POST", "/v1/chat/completions", json.dumps(body),
                  {"Content-Type": "application/json"})
        reply = c.getresponse()
        if reply.status != 200:
            raise RuntimeError(f"status {reply.status}: {reply.read()[:200]}")
        count = 0
        for line in reply:
            if line.startswith(b"data: {"):
                event = json.loads(line[6:])
                if "error" in event:
                    raise RuntimeError(str(event["error"]))
                if any(d["delta"].get("content") for d in event["choices"]):
                    stamps.append(time.perf_counter())
                if event.get("usage"):
                    count = event["usage"]["completion_tokens"]
        times.append((stamps, count))
    except (OSError, RuntimeError, http.client.HTTPException) as e:
        errors.append(repr(e))
    finally:
        c.close()


def quantile(values, q):
    values = sorted(values)
    return values[min(len(values) - 1, int(q * len(values)))] if values else float("nan")


def measure(host, port, clients, args):
    times, errors = [], []

    def client(number):
        for i in range(args.requests):
            text = (f"Tell me about {TOPICS[(number + i) % len(TOPICS)]}, part {number}.{i}. "
                    + "Be exact and give reasons. " * 8)
            stream(host, port, {"messages": [{"role": "user", "content": text}], "stream": True,
                                "stream_options": {"include_usage": True}, "temperature": 0,
                                "max_tokens": args.tokens, "ignore_eos": True}, times, errors)
    threads = [threading.Thread(target=client, args=(i,)) for i in range(clients)]
    begin = time.perf_counter()
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    seconds = time.perf_counter() - begin
    first = [s[1] - s[0] for s, _ in times if len(s) > 1]
    gaps = [b - a for s, _ in times for a, b in zip(s[1:], s[2:])]
    return {"clients": clients, "seconds": seconds, "errors": len(errors),
            "tokens_per_second": sum(n for _, n in times) / seconds,
            "first_ms": [1e3 * quantile(first, q) for q in (0.5, 0.95)],
            "between_ms": [1e3 * quantile(gaps, q) for q in (0.5, 0.95)],
            "what": errors[:1]}


def servers(args):
    most = max(args.clients)
    yield "rlx", [args.rlx, "serve", args.model, "--port", "0", "--device", "cpu", "--threads",
                  str(args.threads), "--ctx", "1024", "--sequences", str(most)]
    has_peer = subprocess.run([args.python, "-c", "import xllamacpp"], capture_output=True)
    if has_peer.returncode:
        print("llama.cpp is not measured: no xllamacpp (pip install xllamacpp)", file=sys.stderr)
        return
    yield "llama.cpp", [args.python, "-c", PEER, args.model, str(most), str(most * 512),
                        str(args.threads)]


def main():
    root = Path(__file__).resolve().parents[1]
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--model", default=str(root / ".cache/models/smollm2-135m-instruct.gguf"))
    p.add_argument("--rlx", default=str(root / "build/rlx"))
    p.add_argument("--python", default=sys.executable)
    p.add_argument("--clients", default="1,2,4,8,16,32,64")
    p.add_argument("--requests", type=int, default=3)
    p.add_argument("--tokens", type=int, default=48)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--cores")
    p.add_argument("--json", action="store_true")
    args = p.parse_args()
    args.clients = [int(n) for n in args.clients.split(",")]
    if args.cores:
        mine = {int(n) for n in args.cores.split(",")}
        os.sched_setaffinity(0, os.sched_getaffinity(0) - mine or mine)
    running, rows = [], []
    try:
        for name, command in servers(args):
            running.append((name, *start(command, args.cores)))
        for _, _, host, port in running:
            measure(host, port, 1, argparse.Namespace(requests=1, tokens=4))  # warm
        if not args.json:
            print(f"{'clients':>7} {'server':>10} {'tokens/s':>9} {'first p50':>10} {'p95':>8} "
                  f"{'between p50':>12} {'p95':>8} {'errors':>7}   (ms)")
        for clients in args.clients:
            for name, _, host, port in running:  # in turn
                row = {"server": name, **measure(host, port, clients, args)}
                rows.append(row)
                if not args.json:
                    print(f"{clients:7} {name:>10} {row['tokens_per_second']:9.1f} "
                          f"{row['first_ms'][0]:10.0f} {row['first_ms'][1]:8.0f} "
                          f"{row['between_ms'][0]:12.1f} {row['between_ms'][1]:8.1f} "
                          f"{row['errors']:7} {' '.join(row['what'])[:80]}", flush=True)
        if args.json:
            print(json.dumps(rows, indent=1))
    finally:
        for _, process, _, _ in running:
            process.terminate()
            process.wait(60)


if __name__ == "__main__":
    main()
