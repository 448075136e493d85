#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the cases in this folder: models of one operator or a few, inputs, and outputs of
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


def write(name, op, operands, weights=(), n_out=1, domain="com.microsoft", **attributes):
    """One case; operands at the places in `weights` are part of the model, None is absent."""
    names = ["" if v is None else f"i{k}" for k, v in enumerate(operands)]
    given = {n: v for k, (n, v) in enumerate(zip(names, operands))
             if v is not None and k not in weights}
    outputs = [f"o{k}" for k in range(n_out)]
    ports = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
             for n, v in given.items()]
    graph = helper.make_graph(
        [helper.make_node(op, names, outputs, domain=domain, **attributes)], op, ports,
        [helper.make_empty_tensor_value_info(o) for o in outputs],
        [numpy_helper.from_array(operands[k], names[k]) for k in weights])
    sets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    if domain == "ai.onnx.ml":
        sets[1] = helper.make_opsetid(domain, 3)
    store(name, helper.make_model(graph, opset_imports=sets, ir_version=9), given)


def store(name, model, given):
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
    write("rms_norm", "SimplifiedLayerNormalization", [x, reals(8)], domain="", epsilon=1e-5)
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
    write_attention()
    write_more()
    write_pairs()
    write_attention_by_parts()
    write_sequences()
    write_weights_by_parts()


def write_attention():
    packed = [reals(2, 5, 24), reals(24, 48), reals(48)]
    ends = np.array([5, 3], np.int32)
    write("attention", "Attention", packed, (1, 2), num_heads=4)
    write("attention_causal", "Attention",
          packed + [np.array([[1, 1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 0, 0, 0]], np.int32),
                    reals(2, 2, 4, 3, 4)], (1, 2), 2, num_heads=4, unidirectional=1)
    write("attention_bias", "Attention", packed + [None, None, reals(1, 4, 5, 5)], (1, 2),
          num_heads=4)
    write("attention_ends", "Attention", packed + [ends], (1, 2), num_heads=4)
    write("attention_sizes", "Attention", [packed[0], reals(24, 40), reals(40)], (1, 2),
          num_heads=4, qkv_hidden_sizes=[16, 16, 8], scale=0.3)
    q = [codes(U, 2, 5, 24), codes(I, 24, 48), reals(48), scalar(0.01), scalar(0.02)]
    write("qattention", "QAttention", q + [ends, scalar(120, U), scalar(0, I)], (1, 2, 3, 4, 6, 7),
          num_heads=4)
    write("qattention_columns", "QAttention",
          q[:4] + [np.abs(reals(48)) * np.float32(0.01), None, scalar(120, U), codes(I, 48),
                   reals(2, 2, 4, 3, 4)], (1, 2, 3, 4, 6, 7), 2, num_heads=4, unidirectional=1)
    write("multi_head_mask", "MultiHeadAttention",
          [reals(2, 3, 16), reals(2, 5, 16), reals(2, 5, 16), None,
           np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]], np.int32), reals(2, 4, 3, 5)], num_heads=4)
    cos, sin = reals(16, 4), reals(16, 4)
    wide = reals(16, 8), reals(16, 8)
    group = {"num_heads": 4, "kv_num_heads": 2}
    write("group_query", "GroupQueryAttention",
          [reals(1, 5, 32), reals(1, 5, 16), reals(1, 5, 16), None, None,
           np.array([4], np.int32), np.array(5, np.int32)], (6,), 3, **group)
    write("group_query_prompt", "GroupQueryAttention",
          [reals(2, 5, 128), None, None, reals(2, 2, 0, 16), reals(2, 2, 0, 16),
           np.array([4, 4], np.int32), np.array(5, np.int32), *wide], (6, 7, 8), 3, do_rotary=1,
          **group)
    write("group_query_step", "GroupQueryAttention",
          [reals(1, 1, 64), reals(1, 1, 32), reals(1, 1, 32), reals(1, 2, 6, 16),
           reals(1, 2, 6, 16), np.array([6], np.int32), np.array(7, np.int32), *wide], (6, 7, 8),
          3, do_rotary=1, rotary_interleaved=1, local_window_size=3, softcap=5.0, **group)
    write("group_query_batch", "GroupQueryAttention",
          [reals(2, 1, 64), reals(2, 1, 32), reals(2, 1, 32), reals(2, 2, 8, 16),
           reals(2, 2, 8, 16), np.array([6, 3], np.int32), np.array(7, np.int32), *wide],
          (6, 7, 8), 3, do_rotary=1, **group)
    write("group_query_chunk", "GroupQueryAttention",
          [reals(1, 3, 32), reals(1, 3, 16), reals(1, 3, 16), reals(1, 2, 4, 8),
           reals(1, 2, 4, 8), np.array([6], np.int32), np.array(7, np.int32), None, None, None,
           reals(1, 4, 3, 7)], (6,), 3, scale=0.2, **group)
    write("rotary", "RotaryEmbedding",
          [reals(2, 3, 32), np.array([[0, 1, 2], [5, 6, 7]], np.int64), cos, sin], (2, 3))
    write("rotary_heads", "RotaryEmbedding",
          [reals(2, 4, 3, 16), np.array([2], np.int64), cos, sin], (2, 3), num_heads=4,
          rotary_embedding_dim=8, interleaved=1)


def write_more():
    a, b, other = codes(U, 4, 8), codes(I, 8, 5), codes(U, 4, 8)
    one, two = [scalar(0.02), scalar(120, U)], [scalar(0.03), scalar(100, U)]
    to = [scalar(0.05), scalar(128, U)]
    ids = np.array([[1, 3, 2], [0, 4, 4]], np.int32)
    write("embed_norm", "EmbedLayerNormalization",
          [ids, ids % 2, reals(5, 8), reals(6, 8), reals(2, 8), reals(8), reals(8),
           np.array([[1, 1, 1], [1, 1, 0]], np.int32)], (2, 3, 4, 5, 6), 2)
    write("old_layer_norm", "LayerNormalization", [reals(2, 3, 8), reals(8), reals(8)], domain="")
    write("fused_gemm", "FusedGemm", [reals(3, 4), reals(4, 5), reals(5)], transA=0,
          activation="LeakyRelu", activation_alpha=0.3)
    shape = {"K": 40, "N": 6, "bits": 4, "block_size": 32}
    write("matmul_4_bits_rest", "MatMulNBits",
          [reals(2, 40), codes(U, 6, 2, 16), np.abs(reals(12)) + np.float32(0.1)], (1, 2), **shape)
    write("matmul_8_bits", "MatMulNBits",
          [reals(2, 64), codes(U, 6, 2, 32), np.abs(reals(12)) + np.float32(0.1), codes(U, 12)],
          (1, 2, 3), K=64, N=6, bits=8, block_size=32)
    write("qgemm", "QGemm", [a, *one, b, scalar(0.03), scalar(3, I), codes(I, 5).astype(np.int32),
                             *to], (1, 2, 3, 4, 5, 6, 7, 8), alpha=0.5)
    write("qgemm_real", "QGemm", [a, *one, codes(I, 5, 8), np.abs(reals(5)), np.zeros(5, I)],
          (1, 2, 3, 4, 5), transB=1)
    write("qlinear_average_pool", "QLinearAveragePool",
          [codes(U, 1, 2, 5, 5), *one, scalar(0.0237), scalar(10, U)], (1, 2, 3, 4),
          kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2])
    write("qlinear_softmax", "QLinearSoftmax", [a, *one, scalar(1 / 256), scalar(0, U)],
          (1, 2, 3, 4), opset=13, axis=-1)
    write("qlinear_where", "QLinearWhere", [a > 128, a, *one, other, *two, *to],
          (2, 3, 5, 6, 7, 8))
    write("dynamic_lstm", "DynamicQuantizeLSTM",
          [reals(4, 1, 8), codes(I, 2, 8, 12), codes(I, 2, 3, 12), reals(2, 24), None, None, None,
           None, np.full(2, 0.02, np.float32), np.zeros(2, I), np.full(2, 0.03, np.float32),
           np.zeros(2, I)], (1, 2, 3, 8, 9, 10, 11), 3, direction="bidirectional", hidden_size=3)
    line = [codes(U, 1, 3, 9), scalar(0.02), scalar(120, U), codes(I, 4, 3, 3),
            np.abs(reals(4)) * np.float32(0.02), np.zeros(4, I), scalar(0.2), scalar(100, U),
            codes(I, 4).astype(np.int32)]
    write("qlinear_conv_line", "QLinearConv", line, tuple(range(1, 9)), domain="", pads=[1, 1],
          strides=[2])
    write("conv_integer_line", "ConvInteger", [line[0], line[3], line[2]], (1, 2), domain="")


def write_resizes():
    """A size that is whole in f32 only, TensorFlow's nearest element, integers."""
    def resize(name, x, scales, sizes=None, **attributes):
        by = [scalar(scales)] if sizes is None else [None, np.array(sizes)]
        write(name, "Resize", [x, None, *by], (1 + len(by),), domain="", **attributes)
    resize("resize_by_real_scale", reals(1, 1, 3, 10), [1, 1, 1, 1.3], mode="linear")
    resize("resize_nearest_half", reals(1, 2, 4, 7), None, [1, 2, 3, 12], mode="nearest",
           coordinate_transformation_mode="tf_half_pixel_for_nn", nearest_mode="floor")
    resize("resize_codes", codes(U, 1, 2, 4, 3), [1, 1, 2, 2], mode="linear")


def write_recurrent():
    """Activations with and without parameters, coupled gates, clipped sums, full lengths."""
    x, full = reals(4, 3, 6), np.full(3, 4, np.int32)
    lstm = [x, reals(2, 20, 6), reals(2, 20, 5), reals(2, 40)]
    gru = [x, reals(1, 15, 6), reals(1, 15, 5), reals(1, 30)]
    one = [x, *(v[:1] for v in lstm[1:])]
    weights = (1, 2, 3)
    write("lstm_hard_sigmoid", "LSTM", lstm, weights, 3, domain="", hidden_size=5,
          direction="bidirectional", activation_alpha=[0.25, 0.5, 0.125],
          activation_beta=[0.5, 0.5],
          activations=["HardSigmoid", "Elu", "Tanh", "HardSigmoid", "Softsign", "LeakyRelu"])
    write("lstm_coupled", "LSTM", one, weights, 3, domain="", hidden_size=5, input_forget=1)
    write("lstm_clip", "LSTM", one, weights, 3, domain="", hidden_size=5, clip=0.3)
    write("lstm_full", "LSTM", [*one, full], (*weights, 4), 3, domain="", hidden_size=5,
          activations=["Sigmoid", "Tanh", "Tanh"])
    write("gru_affine", "GRU", gru, weights, 2, domain="", hidden_size=5,
          activations=["Affine", "ScaledTanh"], activation_alpha=[0.2, 1.5],
          activation_beta=[0.4, 0.7])
    write("rnn_softplus", "RNN", [x, reals(1, 5, 6), reals(1, 5, 5)], (1, 2), 2, domain="",
          hidden_size=5, activations=["Softplus"])
    write("rnn_threshold", "RNN", [x, reals(1, 5, 6), reals(1, 5, 5)], (1, 2), 2, domain="",
          hidden_size=5, activations=["ThresholdedRelu"], activation_alpha=[0.4])


def trees(kind, classes):
    """Lists of two trees: all tests of numbers, one that missing numbers pass. Each leaf has
    weights of all `classes`."""
    rows = [(0, 0, 0, 0.1, "BRANCH_LEQ", 1, 2), (0, 1, 2, -0.2, "BRANCH_LT", 3, 4),
            (0, 2, 1, 0.3, "BRANCH_GT", 5, 6), (0, 5, 3, 1.0, "BRANCH_EQ", 7, 8),
            *((0, n, 0, 0.0, "LEAF", 0, 0) for n in (8, 3, 4, 6, 7)),
            (1, 7, 3, 0.5, "BRANCH_GTE", 1, 3), (1, 1, 0, 0.0, "LEAF", 0, 0),
            (1, 3, 3, -1.0, "BRANCH_NEQ", 2, 4), *((1, n, 0, 0.0, "LEAF", 0, 0) for n in (2, 4))]
    names = ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids")
    lists = {f"nodes_{name}": list(values) for name, values in zip(names, zip(*rows))}
    lists["nodes_missing_value_tracks_true"] = [int(n in (0, 7)) for _, n, *_ in rows]
    leaves = [(t, n, k) for t, n, _, _, mode, *_ in rows if mode == "LEAF" for k in classes]
    for name, column in zip(("treeids", "nodeids", "ids"), zip(*leaves)):
        lists[f"{kind}_{name}"] = list(column)
    return lists, len(leaves)


def write_models():
    """Operators of ai.onnx.ml."""
    x = reals(7, 4)
    x[:, 3] = [1, -1, 0.5, 1, -1, 0, 2]
    x[2, 0] = x[4, 3] = np.nan
    ml = {"domain": "ai.onnx.ml"}
    lists, n = trees("target", (0, 1))
    write("tree_regressor", "TreeEnsembleRegressor", [x], **ml, **lists, n_targets=2,
          target_weights=reals(n).tolist(), base_values=[0.5, -1.0])
    write("tree_average", "TreeEnsembleRegressor", [x], **ml, **lists, n_targets=2,
          target_weights=reals(n).tolist(), aggregate_function="AVERAGE")
    for name, classes, labels, post in (("three", (0, 1, 2), [5, -3, 9], "SOFTMAX"),
                                        ("two", (0, 1), [0, 1], "NONE"),
                                        ("one", (0,), [4, 7], "LOGISTIC")):
        lists, n = trees("class", classes)
        write(f"tree_classifier_{name}", "TreeEnsembleClassifier", [x], n_out=2, **ml, **lists,
              class_weights=reals(n).tolist(), classlabels_int64s=labels, post_transform=post)
    lists, n = trees("class", (0,))
    write("tree_classifier_likely", "TreeEnsembleClassifier", [x], n_out=2, **ml, **lists,
          class_weights=np.abs(reals(n) * np.float32(0.4)).tolist(), classlabels_int64s=[0, 1])
    y = reals(5, 3)
    write("linear_classifier", "LinearClassifier", [y], n_out=2, **ml, post_transform="SOFTMAX",
          coefficients=reals(9).tolist(), intercepts=reals(3).tolist(), classlabels_ints=[3, 1, 2])
    write("linear_classifier_two", "LinearClassifier", [y], n_out=2, **ml, intercepts=[0.25],
          coefficients=[0.5, -1.0, 2.0], classlabels_ints=[4, 2])
    lists, n = trees("class", (0,))
    write("tree_classifier_odds", "TreeEnsembleClassifier", [x], n_out=2, **ml, **lists,
          class_weights=np.linspace(0.1, 0.9, n).tolist(), classlabels_int64s=[0, 1],
          post_transform="LOGISTIC")
    write("linear_regressor", "LinearRegressor", [y], **ml, targets=2,
          coefficients=reals(6).tolist(), intercepts=reals(2).tolist())
    for kind in ("LINEAR", "POLY", "RBF", "SIGMOID"):
        write(f"svm_{kind.lower()}", "SVMRegressor", [y], **ml, kernel_type=kind, n_supports=4,
              kernel_params=[0.3, 0.2, 3.0], coefficients=reals(4).tolist(), rho=[0.4],
              support_vectors=reals(12).tolist())
    write("scaler", "Scaler", [y], **ml, offset=[1.0, 2.0, 3.0], scale=[0.5, 2.0, -1.0])
    write("imputer", "Imputer", [x], **ml, imputed_value_floats=reals(4).tolist(),
          replaced_value_float=float("nan"))
    for norm in ("MAX", "L1", "L2"):
        write(f"normalizer_{norm.lower()}", "Normalizer", [np.abs(y)], **ml, norm=norm)
    write("binarizer", "Binarizer", [y], **ml, threshold=0.25)
    write("feature_extractor", "ArrayFeatureExtractor", [y, np.array([2, 0])], **ml)
    write("grid_sample_cubic", "GridSample", [reals(1, 2, 5, 6), 1.2 * reals(1, 3, 4, 2)],
          domain="", mode="bicubic", padding_mode="border")


def pairs(name, op, operands, scale, given, steps=(), **attributes):
    """Operands (codes, scale, zero point, axis) through DequantizeLinear into an operator, `steps`
    behind it, and its result as u8; given[name] are operands that are inputs."""
    nodes, weights, names = [], {}, []
    for k, (q, s, zero, axis) in enumerate(operands):
        if f"q{k}" not in given:
            weights[f"q{k}"] = q
        weights[f"s{k}"], weights[f"z{k}"] = s, zero
        nodes.append(helper.make_node("DequantizeLinear", [f"q{k}", f"s{k}", f"z{k}"], [f"x{k}"],
                                      axis=axis))
        names.append(f"x{k}")
    nodes.append(helper.make_node(op, names, ["y"], **attributes))
    last = "y"
    for k, step in enumerate(steps):
        nodes.append(helper.make_node(step, [last], [f"y{k}"]))
        last = f"y{k}"
    weights["s"], weights["z"] = scalar(scale), scalar(0 if steps else 99, U)
    nodes.append(helper.make_node("QuantizeLinear", [last, "s", "z"], ["o0"]))
    inputs = {n: operands[int(n[1:])][0] for n in given}
    ports = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
             for n, v in inputs.items()]
    graph = helper.make_graph(nodes, op, ports, [helper.make_empty_tensor_value_info("o0")],
                              [numpy_helper.from_array(v, n) for n, v in weights.items()])
    store(name, helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)],
                                  ir_version=9), inputs)


def write_pairs():
    x = (codes(U, 1, 4, 9, 9), scalar(0.02), scalar(120, U), 1)
    scales = np.abs(reals(6)) * np.float32(0.02) + np.float32(0.001)
    weights = (codes(I, 6, 4, 3, 3), scales, np.zeros(6, I), 0)
    bias = (codes(I, 6).astype(np.int32) * 50, scales * np.float32(0.02), np.zeros(6, np.int32), 0)
    pairs("pairs_conv", "Conv", [x, weights, bias], 0.5, ["q0"], pads=[1, 1, 1, 1])
    pairs("pairs_conv_relu", "Conv", [x, weights, bias], 0.5, ["q0"], ["Relu"], strides=[2, 2])
    line = (codes(U, 1, 4, 9), scalar(0.02), scalar(120, U), 1)
    pairs("pairs_conv_line", "Conv", [line, (codes(I, 6, 4, 3), *weights[1:])], 0.5, ["q0"],
          dilations=[2])
    a, b = (codes(U, 4, 8), *x[1:3], 0), (codes(I, 8, 6), scalar(0.03), scalar(0, I), 0)
    pairs("pairs_matmul", "MatMul", [a, b], 0.2, ["q0"])
    pairs("pairs_matmul_columns", "MatMul", [a, (b[0], scales, np.zeros(6, I), 1)], 0.1, ["q0"])
    pairs("pairs_gemm", "Gemm", [a, (codes(I, 6, 8), *weights[1:]), bias], 0.2, ["q0"], transB=1)
    pairs("pairs_add", "Add", [a, (codes(U, 4, 8), scalar(0.04), scalar(7, U), 0)], 0.06,
          ["q0", "q1"])


def parts(name, nodes, inputs, weights):
    """A graph of nodes (op, operands, result, attributes) with the result o0."""
    made = [helper.make_node(op, ins, [out, "places"] if op == "TopK" else [out], **attributes)
            for op, ins, out, attributes in nodes]
    ports = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
             for n, v in inputs.items()]
    graph = helper.make_graph(made, name, ports, [helper.make_empty_tensor_value_info("o0")],
                              [numpy_helper.from_array(v, n) for n, v in weights.items()])
    store(name, helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)],
                                  ir_version=9), inputs)


def write_attention_by_parts():
    low = np.finfo(np.float32).min
    q, k, v = reals(2, 4, 3, 8), reals(2, 4, 5, 8), reals(2, 4, 5, 6)
    bias, seen = reals(2, 1, 3, 5), np.array(RNG.integers(0, 2, (2, 1, 3, 5)), bool)
    seen[..., 0] = True
    turn = ("Transpose", ["k"], "kt", {"perm": [0, 1, 3, 2]})
    scores = ("MatMul", ["q", "kt"], "s", {})
    parts("attention_parts", [
        turn, scores, ("Div", ["s", "root"], "d", {}), ("Add", ["d", "bias"], "m", {}),
        ("Where", ["seen", "m", "low"], "w", {}), ("Softmax", ["w"], "p", {"axis": 3}),
        ("MatMul", ["p", "v"], "o0", {})],
        {"q": q, "k": k, "v": v, "bias": bias, "seen": seen},
        {"root": scalar(np.sqrt(8)), "low": scalar(low)})
    parts("attention_parts_line", [
        ("Mul", ["q", "by"], "qs", {}), ("MatMul", ["qs", "kt"], "s", {}),
        ("Add", ["bias", "s"], "m", {}), ("Softmax", ["m"], "p", {"axis": -1}),
        ("MatMul", ["p", "v"], "o0", {})],
        {"q": reals(4, 3, 8), "kt": reals(4, 8, 5), "v": reals(4, 5, 6), "bias": reals(4, 1, 5)},
        {"by": scalar(0.3)})
    repeat = [(op, [n + suffix, *more], n + to, {}) for n in "kv" for op, more, suffix, to in
              (("Unsqueeze", ["one"], "", "u"), ("Expand", ["wide"], "u", "w"),
               ("Reshape", ["flat"], "w", "r"))]
    parts("attention_parts_groups", [
        *repeat, ("Transpose", ["kr"], "kt", {"perm": [0, 1, 3, 2]}), scores,
        ("Mul", ["s", "by"], "d", {}), ("Softmax", ["d"], "p", {"axis": -1}),
        ("MatMul", ["p", "vr"], "o0", {})],
        {"q": q, "k": reals(2, 2, 5, 8), "v": reals(2, 2, 5, 8)},
        {"by": scalar(0.3), "one": np.array([2]), "wide": np.array([2, 2, 2, 5, 8]),
         "flat": np.array([2, 4, 5, 8])})


def write_sequences():
    """A loop over the parts of a tensor, and an empty selection."""
    any_of = helper.make_tensor_sequence_value_info
    body = helper.make_graph(
        [helper.make_node("SequenceAt", ["parts", "i"], ["p"]),
         helper.make_node("Relu", ["p"], ["r"]),
         helper.make_node("SequenceInsert", ["seen", "r", "first"], ["more"]),
         helper.make_node("Identity", ["on"], ["go"])], "body",
        [helper.make_tensor_value_info("i", 7, []), helper.make_tensor_value_info("on", 9, []),
         any_of("seen", 1, None)],
        [helper.make_tensor_value_info("go", 9, []), any_of("more", 1, None)])
    parts("sequences", [
        ("SplitToSequence", ["x", "two"], "parts", {"axis": 0}),
        ("SequenceLength", ["parts"], "n", {}), ("SequenceEmpty", [], "none", {}),
        ("Loop", ["n", "true", "none"], "all", {"body": body}),
        ("SequenceErase", ["all", "last"], "few", {}), ("Optional", ["few"], "maybe", {}),
        ("OptionalGetElement", ["maybe"], "some", {}),
        ("ConcatFromSequence", ["some"], "o0", {"axis": 0})],
        {"x": reals(7, 3)}, {"two": np.array(2), "true": np.array(True), "first": np.array(0),
                             "last": np.array(-1)})
    parts("topk_none", [("TopK", ["x", "k"], "o0", {})], {"x": reals(4, 3)}, {"k": np.array([0])})


def write_weights_by_parts():
    """Rows chosen by a one-hot product, also by places beyond the table; a convolution and a
    product with weights that are computed from codes."""
    x = np.array([[0, 69, 3, -1, 70], [7, 7, -70, 2 ** 31 - 1, -2 ** 31]], np.int32)[..., None]
    rows = [("Cast", ["e"], "c", {"to": 1}), ("MatMul", ["c", "table"], "o0", {})]
    places = np.arange(70, dtype=np.int32)[None, None]
    parts("one_hot_rows", [("Equal", ["x", "places"], "e", {}), *rows], {"x": x},
          {"places": places, "table": reals(70, 9)})
    parts("one_hot_rows_turned", [("Equal", ["places", "x"], "e", {}), *rows],
          {"x": x.astype(np.int64)},
          {"places": places.astype(np.int64), "table": reals(70, 9)})
    real = [("Cast", ["w"], "r", {"to": 1}), ("Sub", ["r", "zero"], "d", {}),
            ("Mul", ["d", "scale"], "s", {})]
    by = {"zero": np.array([3], np.float32), "scale": np.array([0.02], np.float32)}
    parts("conv_of_codes", [*real, ("Conv", ["x", "s"], "o0", {})], {"x": reals(1, 30, 9)},
          {"w": codes(I, 20, 30, 3), **by})
    parts("matmul_of_codes", [*real, ("MatMul", ["x", "s"], "o0", {})], {"x": reals(3, 40)},
          {"w": codes(U, 40, 30), **by})


def write_unsorted():
    """A branch that uses the result of a node behind the If, and nodes in reverse order."""
    branch = [helper.make_graph([helper.make_node(op, ["late", "x"], ["b"])], op, [],
                                [helper.make_empty_tensor_value_info("b")])
              for op in ("Add", "Mul")]
    parts("unsorted", [
        ("Relu", ["chosen"], "o0", {}),
        ("If", ["yes"], "chosen", {"then_branch": branch[0], "else_branch": branch[1]}),
        ("Neg", ["exp"], "late", {}), ("Exp", ["x"], "exp", {})],
        {"x": reals(2, 3)}, {"yes": np.array(True)})


def write_recurrent_by_parts():
    """An LSTM whose weights are put together from others while it runs."""
    parts("lstm_of_parts", [
        ("Concat", ["w0", "w1"], "w", {"axis": 1}), ("Concat", ["r0", "r1"], "r", {"axis": 1}),
        ("LSTM", ["x", "w", "r"], "o0", {"hidden_size": 16})],
        {"x": reals(4, 3, 6)},
        {"w0": reals(1, 32, 6), "w1": reals(1, 32, 6), "r0": reals(1, 32, 16),
         "r1": reals(1, 32, 16)})


if __name__ == "__main__":
    write_all()
    write("dynamic_quantize_silence", "DynamicQuantizeLinear", [np.zeros((2, 3), np.float32)],
          (), 3, domain="")
    write_resizes()
    write_recurrent()
    write_models()
    write_unsorted()
    write_recurrent_by_parts()
