# SPDX-License-Identifier: MIT
"""Graphs in Python: operators, weights, a run in the manner of ONNX Runtime, memory that is shared.

usage: graph.py [DEVICE]"""
from __future__ import annotations

import sys

import numpy as np

import rlx


def build() -> rlx.Graph:
    """A perceptron with one hidden layer, for any number of rows up to 64."""
    random = np.random.default_rng(0)
    g = rlx.Graph("perceptron")
    x = g.input("x", (g.dim("rows", 64), 8))
    w1 = g.param("w1", random.standard_normal((8, 16), np.float32))
    w2 = g.param("w2", random.standard_normal((16, 3), np.float32))
    hidden = rlx.relu(x @ w1 + 0.5)
    g.output("probabilities", rlx.softmax(hidden @ w2))
    return g


def main() -> None:
    device = rlx.Device(sys.argv[1] if len(sys.argv) > 1 else "cpu")
    with rlx.Session(build(), device) as session:
        for port in session.get_inputs() + session.get_outputs():
            print(port.name, port.type, port.shape)
        x = np.ones((2, 8), np.float32)
        (probabilities,) = session.run(None, {"x": x})
        print(probabilities.shape, probabilities.sum(axis=1))
        run = session.bind({"x": x})  # a call that costs least: the memory stays
        x *= 2
        print(run()["probabilities"].argmax(axis=1))


if __name__ == "__main__":
    main()
