#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""ONNX Runtime as a peer: each case is a graph with random weights as initializers, run through
bindings so that nothing is copied. RLX_BENCH_THREADS gives the threads inside an operator;
RLX_BENCH_PROVIDER=CUDA asks for that provider, and the CPU takes its place where it is absent.
Models from files need no package onnx."""
import math
import os

from pathlib import Path

import numpy as np
import onnxruntime

import peer

try:
    import onnx
    from onnx import TensorProto, helper, numpy_helper
except ImportError:
    onnx = None

THREADS = int(os.environ.get("RLX_BENCH_THREADS", "1"))
OPSET = 20
ASKED = os.environ.get("RLX_BENCH_PROVIDER", "CPU") + "ExecutionProvider"
PROVIDER = ASKED if ASKED in onnxruntime.get_available_providers() else "CPUExecutionProvider"


def make_session(model):
    options = onnxruntime.SessionOptions()
    if ASKED == "CPUExecutionProvider":
        options.intra_op_num_threads = THREADS
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model, options, providers=[PROVIDER])


def file_runner(path, folder):
    """A model from a file; the folder has NAME.npy for each input. Outputs are made by each run."""
    session = make_session(path)
    binding = session.io_binding()
    device = "cuda" if PROVIDER.startswith("CUDA") else "cpu"
    values = {p.stem: onnxruntime.OrtValue.ortvalue_from_numpy(np.load(p), device, 0)
              for p in Path(folder).glob("*.npy")}
    for port in session.get_inputs():
        binding.bind_ortvalue_input(port.name, values[port.name])
    for port in session.get_outputs():
        binding.bind_output(port.name, device)

    def run():
        session.run_with_iobinding(binding)
        return values
    return run


class Graph:
    """A graph that grows node by node; every value has a name."""

    def __init__(self):
        self.nodes, self.weights, self.inputs, self.feeds = [], [], [], {}
        self.random = np.random.default_rng(1)

    def weight(self, *shape):
        scale = 1 / math.sqrt(shape[-1])
        return self.constant(self.random.standard_normal(shape, dtype=np.float32) * scale)

    def constant(self, array):
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def input(self, *shape):
        name = f"x{len(self.inputs)}"
        self.inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
        self.feeds[name] = self.random.standard_normal(shape, dtype=np.float32)
        return name

    def tokens(self, *shape):
        self.inputs.append(helper.make_tensor_value_info("tokens", TensorProto.INT64, shape))
        self.feeds["tokens"] = self.random.integers(0, 1000, shape)
        return "tokens"

    def node(self, op, *inputs, **attributes):
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], **attributes))
        return name

    def session(self, output):
        result = helper.make_tensor_value_info(output, TensorProto.FLOAT, None)
        graph = helper.make_graph(self.nodes, "case", self.inputs, [result], self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
        model.ir_version = 9
        return make_session(model.SerializeToString())

    def runner(self, output):
        session = self.session(output)
        binding = session.io_binding()
        values = {n: onnxruntime.OrtValue.ortvalue_from_numpy(a) for n, a in self.feeds.items()}
        for name, value in values.items():
            binding.bind_ortvalue_input(name, value)
        shape = session.run(None, self.feeds)[0].shape
        result = onnxruntime.OrtValue.ortvalue_from_shape_and_type(shape, np.float32)
        binding.bind_ortvalue_output(output, result)
        keep = values, result

        def run():
            session.run_with_iobinding(binding)
            return keep
        return run


def make_matmul(g, case):
    m, n, k = case.shapes[0]
    return g.node("MatMul", g.input(m, k), g.weight(k, n))


def make_conv2d(g, case):
    n, channels, height, width = case.shapes[0]
    outputs, *size = case.shapes[1]
    groups, stride = case.number("groups", 1), case.number("stride", 1)
    pads = [case.number("pad", s // 2) for s in size] * 2
    weight = g.weight(outputs, channels // groups, *size)
    return g.node("Conv", g.input(n, channels, height, width), weight, group=groups, pads=pads,
                  strides=[stride, stride])


def make_gelu(g, case):
    return g.node("Gelu", g.input(*case.shapes[0]))


def make_softmax(g, case):
    return g.node("Softmax", g.input(*case.shapes[0]), axis=-1)


def norm(g, x, width):
    return g.node("LayerNormalization", x, g.weight(width), g.weight(width), axis=-1)


def make_layer_norm(g, case):
    return norm(g, g.input(*case.shapes[0]), case.shapes[0][-1])


def linear(g, x, inputs, outputs):
    return g.node("Add", g.node("MatMul", x, g.weight(inputs, outputs)), g.weight(outputs))


def make_minilm(g, case):
    """all-MiniLM-L6-v2 up to the mean over the tokens."""
    batch, tokens = case.shapes[0]
    width, heads, inner = 384, 12, 1536
    size = width // heads
    split = g.constant(np.array([batch, tokens, heads, size], np.int64))
    join = g.constant(np.array([batch, tokens, width], np.int64))
    scale = g.constant(np.array(1 / math.sqrt(size), np.float32))
    x = g.node("Gather", g.weight(30522, width), g.tokens(batch, tokens))
    x = norm(g, g.node("Add", x, g.weight(tokens, width)), width)
    for _ in range(6):
        q, k, v = (g.node("Reshape", linear(g, x, width, width), split) for _ in range(3))
        q = g.node("Transpose", q, perm=[0, 2, 1, 3])
        k = g.node("Transpose", k, perm=[0, 2, 3, 1])
        v = g.node("Transpose", v, perm=[0, 2, 1, 3])
        scores = g.node("Mul", g.node("MatMul", q, k), scale)
        y = g.node("MatMul", g.node("Softmax", scores, axis=-1), v)
        y = g.node("Reshape", g.node("Transpose", y, perm=[0, 2, 1, 3]), join)
        x = norm(g, g.node("Add", linear(g, y, width, width), x), width)
        y = g.node("Gelu", linear(g, x, width, inner))
        x = norm(g, g.node("Add", linear(g, y, inner, width), x), width)
    axes = g.constant(np.array([1], np.int64))
    return g.node("ReduceMean", x, axes, keepdims=0)


MAKE = {"matmul": make_matmul, "conv2d": make_conv2d, "gelu": make_gelu, "softmax": make_softmax,
        "layer_norm": make_layer_norm, "minilm": make_minilm}


def make(case):
    if case.op == "onnx":
        return file_runner(*case.files)
    if case.op not in MAKE or case.dtype != "f32" or not onnx:
        raise peer.Unsupported(f"ONNX Runtime: no graph for {case.op}:{case.dtype}")
    g = Graph()
    return g.runner(MAKE[case.op](g, case))


if __name__ == "__main__":
    version = f"ONNX Runtime {onnxruntime.__version__}, {PROVIDER}"
    peer.serve("onnxruntime", version, make)
