#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the cases in this folder: models of one operator of com.microsoft, inputs, and outputs of
ONNX Runtime. Needs onnx and onnxruntime; tests only read what it wrote."""
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

HERE = Path(__file__).resolve().parent
RNG = np.random.default_rng(0)
U, I = np.uint8, np.int8


def reals(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def codes(dtype, *shape):
    limits = np.iinfo(dtype)
    return RNG.integers(limits.min, limits.max + 1, shape).astype(dtype)


def scalar(v, dtype=np.float32):
    return np.array(v, dtype)


def write(name, op, operands, weights=(), n_out=1, **attributes):
    """One case; operands at the places in `weights` are part of the model, None is absent."""
    names = ["" if v is None else f"i{k}" for k, v in enumerate(operands)]
    given = {n: v for k, (n, v) in enumerate(zip(names, operands))
             if v is not None and k not in weights}
    domain = "" if op == "SimplifiedLayerNormalization" else "com.microsoft"
    outputs = [f"o{k}" for k in range(n_out)]
    ports = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
             for n, v in given.items()]
    graph = helper.make_graph(
        [helper.make_node(op, names, outputs, domain=domain, **attributes)], op, ports,
        [helper.make_empty_tensor_value_info(o) for o in outputs],
        [numpy_helper.from_array(operands[k], names[k]) for k in weights])
    sets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=sets, ir_version=9)
    results = onnxruntime.InferenceSession(model.SerializeToString()).run(None, given)
    data = HERE / name / "test_data_set_0"
    data.mkdir(parents=True, exist_ok=True)
    (HERE / name / "model.onnx").write_bytes(model.SerializeToString())
    (HERE / name / "meta.json").write_text('{"rtol": 1e-4, "atol": 1e-5}\n')
    for kind, values in (("input", given.values()), ("output", results)):
        for k, v in enumerate(values):
            (data / f"{kind}_{k}.pb").write_bytes(numpy_helper.from_array(v).SerializeToString())


def write_all():
    x = reals(2, 3, 8)
    write("gelu", "Gelu", [x])
    write("bias_gelu", "BiasGelu", [x, reals(8)])
    write("fast_gelu", "FastGelu", [x, reals(8)])
    write("quick_gelu", "QuickGelu", [x])
    write("fused_matmul_a", "FusedMatMul", [reals(2, 8, 3), reals(2, 8, 4)], transA=1, alpha=0.5)
    write("fused_matmul_b", "FusedMatMul", [reals(2, 3, 8), reals(2, 4, 8)], transB=1)
    write("skip_layer_norm", "SkipLayerNormalization",
          [x, reals(2, 3, 8), reals(8), reals(8), reals(8)], epsilon=1e-5)
    write("skip_rms_norm", "SkipSimplifiedLayerNormalization", [x, reals(2, 3, 8), reals(8)],
          epsilon=1e-5)
    write("rms_norm", "SimplifiedLayerNormalization", [x, reals(8)], epsilon=1e-5)
    write("fused_conv", "FusedConv", [reals(1, 2, 5, 5), reals(3, 2, 3, 3), reals(3)],
          activation="LeakyRelu", activation_params=[0.1])
    q, scales = codes(U, 6, 2, 16), np.abs(reals(12)) + np.float32(0.1)
    shape = {"K": 64, "N": 6, "bits": 4, "block_size": 32}
    write("matmul_4_bits", "MatMulNBits", [reals(2, 64), q, scales], (1, 2), **shape)
    write("matmul_4_bits_zero", "MatMulNBits", [reals(2, 64), q, scales, codes(U, 6)], (1, 2, 3),
          **shape)
    a, b, other = codes(U, 4, 8), codes(I, 8, 5), codes(U, 4, 8)
    write("integer_to_float", "MatMulIntegerToFloat",
          [a, b, scalar(0.02), scalar(0.03), scalar(120, U), scalar(3, I), reals(5)])
    write("dynamic_matmul", "DynamicQuantizeMatMul",
          [reals(4, 8), b, scalar(0.03), scalar(0, I), reals(5)])
    one, two = [scalar(0.02), scalar(120, U)], [scalar(0.03), scalar(100, U)]
    to = [scalar(0.05), scalar(128, U)]
    write("qlinear_add", "QLinearAdd", [a, *one, other, *two, *to], (1, 2, 4, 5, 6, 7))
    write("qlinear_mul", "QLinearMul", [a, *one, other, *two, *to], (1, 2, 4, 5, 6, 7))
    write("qlinear_sigmoid", "QLinearSigmoid", [a, *one, scalar(1 / 256), scalar(0, U)],
          (1, 2, 3, 4))
    write("qlinear_leaky_relu", "QLinearLeakyRelu", [a, *one, scalar(0.02), scalar(10, U)],
          (1, 2, 3, 4), alpha=0.2)
    write("qlinear_global_pool", "QLinearGlobalAveragePool",
          [codes(U, 1, 2, 4, 4), *one, scalar(0.02), scalar(10, U)], (1, 2, 3, 4))
    write("qlinear_concat", "QLinearConcat", [*to, a, *one, other, *two], (0, 1, 3, 4, 6, 7),
          axis=1)
    write("multi_head", "MultiHeadAttention",
          [reals(2, 3, 16), reals(2, 5, 16), reals(2, 5, 16), reals(48)], (3,), num_heads=4)
    write("multi_head_past", "MultiHeadAttention",
          [reals(2, 3, 16), reals(2, 3, 16), reals(2, 3, 16), None, None, None,
           reals(2, 4, 5, 4), reals(2, 4, 5, 4)], n_out=3, num_heads=4)


if __name__ == "__main__":
    write_all()
