#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What a call of a small graph costs from Python and from C: python_calls.py (with the package rlx
on the path, a C compiler and librlx of RLX_LIBRARY). Minima of 30 rounds."""
import os
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np

import rlx

SOURCE = Path(__file__).resolve().parents[1]
PROGRAM = r"""
#include <rlx/rlx.h>
#include <stdio.h>
#include <time.h>
int main(void)
{
    rlx_graph *g = rlx_graph_create("g");
    rlx_dim n = 16;
    rlx_value a = rlx_input(g, "a", RLX_F32, 1, &n), b = rlx_input(g, "b", RLX_F32, 1, &n);
    rlx_output(g, "c", rlx_add(g, rlx_mul(g, a, b), rlx_scalar(g, RLX_F32, 1)));
    rlx_device_desc one = {RLX_INIT(rlx_device_desc), .threads = 1};
    rlx_device *d;
    rlx_session *s;
    if (rlx_device_open("cpu", &one, &d, NULL) || rlx_session_create(d, g, NULL, &s, NULL))
        return 1;
    float x[16] = {0}, y[16] = {0}, z[16];
    rlx_const_tensor in[] = {{"a", x, sizeof x}, {"b", y, sizeof y}};
    rlx_tensor out = {"c", z, sizeof z};
    double best = 1e9;
    for (int round = 0; round < 30; round++) {
        struct timespec t0, t1;
        clock_gettime(CLOCK_MONOTONIC, &t0);
        for (int i = 0; i < 2000; i++)
            if (rlx_run(s, in, 2, &out, 1, NULL))
                return 1;
        clock_gettime(CLOCK_MONOTONIC, &t1);
        double t = (double)(t1.tv_sec - t0.tv_sec) + (double)(t1.tv_nsec - t0.tv_nsec) * 1e-9;
        best = t < best ? t : best;
    }
    printf("%g\n", best / 2000 * 1e6);
    return 0;
}
"""


def measure(call):
    best = 1e9
    for _ in range(30):
        begin = time.perf_counter()
        for _ in range(2000):
            call()
        best = min(best, time.perf_counter() - begin)
    return best / 2000 * 1e6


def in_c():
    library = Path(os.environ["RLX_LIBRARY"]).resolve()
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "calls.c").write_text(PROGRAM, encoding="utf-8")
        subprocess.run(["cc", "-O2", f"-I{SOURCE}/include", f"{folder}/calls.c", library,
                        f"-Wl,-rpath,{library.parent}", "-o", f"{folder}/calls"], check=True)
        return float(subprocess.run([f"{folder}/calls"], capture_output=True, text=True,
                                    check=True).stdout)


def main():
    g = rlx.Graph()
    g.output("c", g.input("a", (16,)) * g.input("b", (16,)) + 1.0)
    session = rlx.Session(g, rlx.Device("cpu", threads=1))
    feeds = {"a": np.zeros(16, np.float32), "b": np.zeros(16, np.float32)}
    for name, us in (("C, rlx_run", in_c()),
                     ("Python, session.run", measure(lambda: session.run(None, feeds))),
                     ("Python, a bound call", measure(session.bind(feeds)))):
        print(f"{name:<22}{us:6.2f} us")


main()
