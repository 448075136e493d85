#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Real models against references made with NumPy in float64 from the same weights: SmolLM2-135M
(log-probabilities of the five most likely tokens, greedy tokens) and all-MiniLM-L6-v2 (embeddings),
on the devices of RLX_TEST_DEVICES (default: cpu).

The models are those of tools/fetch/models.sh, in .cache/models or the folder RLX_MODELS.
Exit status: 0 all near enough, 1 not, 77 no models (skipped).
"""
import json
import math
import os
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE = Path(os.environ.get("RLX_SOURCE_DIR", Path(__file__).resolve().parents[2]))
TOOL = os.environ.get("RLX_TOOL", "build/rlx")
MODELS = Path(os.environ.get("RLX_MODELS", SOURCE / ".cache" / "models"))
SMOLLM2 = MODELS / "smollm2-135m-instruct.gguf"
MINILM = MODELS / "all-minilm-l6-v2"
DEVICES = os.environ.get("RLX_TEST_DEVICES", "cpu").split()

# Prompt, {token: log-probability} of the top five, greedy tokens.
TEXTS = [
    ("The capital of France is",
     {7042: -0.25808, 260: -2.74076, 4528: -4.38436,
      2250: -4.61988, 1315: -4.67783},
     [7042, 30, 198, 198, 504, 2988, 314, 42,
      216, 34, 32, 33, 40, 29, 32, 33]),
    ("Once upon a time, there was a",
     {1165: -2.78069, 3102: -2.94545, 4166: -3.19631,
      1805: -3.25446, 655: -3.43266},
     [1165, 3102, 32047, 281, 260, 1911, 282, 253,
      14055, 2240, 30, 378, 3102, 436, 1343, 327]),
]
# Sentence, the first numbers of its embedding.
SENTENCES = [
    ("This is an example sentence",
     [0.0676569, 0.0634959, 0.0487131, 0.0793049, 0.037448, 0.0026528,
      0.0393749, -0.0070984, 0.0593615, 0.031537, 0.060098, -0.0529052]),
    ("Each sentence is converted",
     [0.0864386, 0.1027627, 0.0053946, 0.0020444, -0.0099634, 0.0253855,
      0.0492876, -0.0306266, 0.0687255, 0.0101366, 0.0775398, -0.0900807]),
    ("The quick brown fox jumps over the lazy dog.",
     [0.0439336, 0.0589344, 0.0481784, 0.0775481, 0.0267444, -0.0376296,
      -0.0026051, -0.059943, -0.0024961, 0.0220728, 0.0480259, 0.0557553]),
]
# How far log-probabilities may be off.
LIMITS = {"exact": 0.01, "fast": 0.25}
failures = n_checks = 0


def check(ok, text):
    global failures, n_checks
    failures += not ok
    n_checks += 1
    print(("ok      " if ok else "FAILED  ") + text)


def run(*args):
    done = subprocess.run([TOOL, *map(str, args), "--json"], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"rlx {' '.join(map(str, args))}: {done.stderr}")
    return json.loads(done.stdout)


def log_probabilities(path):
    raw = path.read_bytes()
    start = 10 + struct.unpack("<H", raw[8:10])[0]
    logits = struct.unpack(f"<{(len(raw) - start) // 4}f", raw[start:])
    top = max(logits)
    total = top + math.log(sum(math.exp(x - top) for x in logits))
    return [x - total for x in logits]


def check_text(device, policy, prompt, top, greedy, folder):
    path = Path(folder) / "logits.npy"
    got = run("generate", "--model", SMOLLM2, "--device", device, "--policy", policy, "--prompt",
              prompt, "--max-tokens", len(greedy), "--logits", path)
    found = log_probabilities(path)
    worst = max(abs(found[token] - p) for token, p in top.items())
    best = max(range(len(found)), key=found.__getitem__)
    same = policy != "exact" or got["tokens"] == greedy
    check(worst < LIMITS[policy] and best == next(iter(top)) and same,
          f"{device} {policy} {prompt!r}: off by {worst:.5f}, tokens {got['tokens']}")


def check_sentences(device):
    got = run("embed", "--model", MINILM, "--device", device, *[s for s, _ in SENTENCES])
    for (sentence, want), vector in zip(SENTENCES, got["embeddings"]):
        worst = max(abs(a - b) for a, b in zip(want, vector))
        length = math.sqrt(sum(x * x for x in vector))
        check(worst < 1e-5 and abs(length - 1) < 1e-5 and len(vector) == 384,
              f"{device} {sentence!r}: off by {worst:.2g}")


def main():
    if not SMOLLM2.exists() and not MINILM.exists():
        print(f"skipped: no models in {MODELS}; tools/fetch/models.sh gets them")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        for device in DEVICES:
            for policy in LIMITS if SMOLLM2.exists() else []:
                for text in TEXTS:
                    check_text(device, policy, *text, folder)
            if MINILM.exists():
                check_sentences(device)
    print(f"{n_checks} checks, {failures} failed")
    sys.exit(failures > 0 or not n_checks)


main()
