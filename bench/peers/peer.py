# SPDX-License-Identifier: MIT
"""What the peers written in Python share: the requests of bench/compare, as `rlx bench --pipe`
describes them, and the clock. A peer gives `make(case)`, which returns a function that does one run
or raises Unsupported."""
import json
import math
import sys
import time

MIN_SAMPLE = 2e-3  # seconds: shorter runs are put together
MAX_SAMPLES = 10
MASK = (1 << 64) - 1
WARM_UP = 20e-3  # seconds: a short run on a busy machine is seen at its best in this time


class Unsupported(Exception):
    """The peer has nothing to compare with this case."""


class Case:
    """OP:TYPE:SHAPE[,SHAPE...][:SHAPE][:ATTRIBUTE=VALUE]..., as rlx bench takes it; the operation
    `onnx` has files instead: a model and the folder of its inputs."""

    def __init__(self, text, files=()):
        self.files = files
        if files:
            self.op, self.dtype, self.shapes, self.attributes = text, "", [], {}
            return
        self.op, self.dtype, *rest = text.split(":")
        self.shapes, self.attributes = [], {}
        for part in rest:
            if "=" in part:
                key, value = part.split("=", 1)
                self.attributes[key] = value
            else:
                self.shapes += [[int(d) for d in s.split("x")] for s in part.split(",")]

    def number(self, key, default):
        return int(self.attributes.get(key, default))


def indices(shape, limit):
    """What `rlx bench` gives to inputs of indices: all over the axis, in no order."""
    n = math.prod(shape)
    return [((i * 0x9e3779b97f4a7c15 & MASK) >> 33) % limit for i in range(1, n + 1)]


class HostClock:
    """Wall and CPU time of functions that return when the work is done."""

    def __init__(self):
        self.run, self.inner = None, 1

    def open(self, run):
        self.run = run
        best = math.inf
        start, runs = time.perf_counter(), 0
        while runs < 3 or (runs < 20 and time.perf_counter() - start < WARM_UP):
            begin = time.perf_counter()
            run()
            best = min(best, time.perf_counter() - begin)
            runs += 1
        self.inner = max(1, math.ceil(MIN_SAMPLE / max(best, 1e-9)))

    def close(self):
        self.run = None

    def warm(self):
        self.run()

    def sample(self):
        run, inner = self.run, self.inner
        cpu, wall = time.process_time(), time.perf_counter()
        for _ in range(inner):
            run()
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        return [wall / inner, cpu / inner]


def take_samples(clock, seconds):
    clock.warm()  # what others pushed out of the caches comes back
    samples, begin = [], time.perf_counter()
    while not samples or (len(samples) < MAX_SAMPLES and time.perf_counter() - begin < seconds):
        samples.append(clock.sample())
    return samples


def answer_request(words, make, clock):
    if words[0] == "open":
        clock.close()
        if words[1] in ("prompt", "decode"):
            raise Unsupported("no language models")
        clock.open(make(Case(words[1], words[2:4] if words[1] == "onnx" else ())))
        return {}
    if words[0] == "time":
        return {"samples": take_samples(clock, float(words[1]))}
    clock.close()
    return {}


def serve(name, version, make, clock=None):
    clock = clock or HostClock()
    print(json.dumps({"name": name, "version": version}), flush=True)
    for line in sys.stdin:
        try:
            reply = answer_request(line.split(), make, clock)
        except Unsupported as why:
            reply = {"error": str(why), "unsupported": True}
        except Exception as why:  # whatever a peer raises is its answer, not the end of the run
            reply = {"error": f"{type(why).__name__}: {why}"[:400]}
        print(json.dumps(reply), flush=True)
