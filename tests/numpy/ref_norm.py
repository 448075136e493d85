# SPDX-License-Identifier: MIT
"""Norms, the patterns around them, and softmax with NumPy and SciPy, in float64."""
import numpy as np
import scipy.special

EPS = 1e-5


def wide(*arrays):
    """The arrays in float64; None stays None."""
    return [None if a is None else np.asarray(a, np.float64) for a in arrays]


def pad_inputs(inputs, n):
    """Absent trailing operands may not be passed at all."""
    return wide(*inputs, *[None] * (n - len(inputs)))


def standardise(x, axes, eps):
    if x.size == 0:
        return x
    return (x - np.mean(x, axes, keepdims=True)) / np.sqrt(np.var(x, axes, keepdims=True) + eps)


def scale_rms(x, axes, eps):
    if x.size == 0:
        return x
    return x / np.sqrt(np.mean(np.square(x), axes, keepdims=True) + eps)


def affine(y, gamma, beta):
    if gamma is not None:
        y = y * gamma
    return y if beta is None else y + beta


def last_axes(attrs, x):
    # Axis 0 stands for the last one; all axes are written -rank.
    first = attrs.get("axis", 0) or -1
    return tuple(range(first % x.ndim, x.ndim))


def layer_norm(attrs, *inputs):
    x, gamma, beta = pad_inputs(inputs, 3)
    return affine(standardise(x, last_axes(attrs, x), attrs.get("eps", EPS)), gamma, beta)


def rms_norm(attrs, *inputs):
    x, gamma, beta = pad_inputs(inputs, 3)
    return affine(scale_rms(x, last_axes(attrs, x), attrs.get("eps", EPS)), gamma, beta)


def by_channel(w, rank):
    return None if w is None else w.reshape((-1,) + (1,) * (rank - 2))


def layer_norm2d(attrs, *inputs):
    x, gamma, beta = pad_inputs(inputs, 3)
    y = standardise(x, 1, attrs.get("eps", EPS))
    return affine(y, by_channel(gamma, x.ndim), by_channel(beta, x.ndim))


def norm_groups(attrs, inputs, n_groups):
    x, gamma, beta = pad_inputs(inputs, 3)
    if x.size == 0:
        return x
    groups = x.reshape(x.shape[0], n_groups or x.shape[1], -1)
    y = standardise(groups, 2, attrs.get("eps", EPS)).reshape(x.shape)
    return affine(y, by_channel(gamma, x.ndim), by_channel(beta, x.ndim))


def group_norm(attrs, *inputs):
    return norm_groups(attrs, inputs, attrs["groups"])


def instance_norm(attrs, *inputs):
    return norm_groups(attrs, inputs, None)


def batch_norm_inference(attrs, *inputs):
    x, *weights = pad_inputs(inputs, 5)
    gamma, beta, mean, var = (by_channel(w, x.ndim) for w in weights)
    return affine((x - mean) / np.sqrt(var + attrs.get("eps", EPS)), gamma, beta)


def ada_layer_norm(attrs, *inputs):
    x, scale, shift = wide(*inputs)
    return affine(standardise(x, (x.ndim - 1,), attrs.get("eps", EPS)), 1 + scale, shift)


def gated_residual(attrs, *inputs):
    x, y, gate = wide(*inputs)
    return x + gate * y


def round_to(x, dtype):
    """x rounded to a float type, as float64."""
    if dtype == "bf16":
        bits = x.astype(np.float32).view(np.uint32).astype(np.uint64)
        bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
        return bits.astype(np.uint32).view(np.float32).astype(np.float64)
    return x.astype({"f32": np.float32, "f16": np.float16}[dtype]).astype(np.float64)


def residual_norm(attrs, *inputs):
    x, residual, gamma, beta = pad_inputs(inputs, 4)
    total = round_to(x + residual, attrs["_in"][0])
    norm = scale_rms if attrs.get("rms") else standardise
    return affine(norm(total, (x.ndim - 1,), attrs.get("eps", EPS)), gamma, beta), total


def swiglu(attrs, *inputs):
    gate, up = pad_inputs(inputs, 2)
    if up is None:
        gate, up = np.split(gate, 2, -1)
    return gate * scipy.special.expit(gate) * up


def rows_of_minus_inf(x, axis):
    return np.all(np.isneginf(x), axis, keepdims=True)


def softmax(attrs, *inputs):
    x, = wide(*inputs)
    axis = attrs.get("axis", 0)
    if x.size == 0:
        return x
    return np.where(rows_of_minus_inf(x, axis), 0.0, scipy.special.softmax(x, axis))


def log_softmax(attrs, *inputs):
    x, = wide(*inputs)
    axis = attrs.get("axis", 0)
    if x.size == 0:
        return x
    # SciPy's version shifts by 0 where the maximum is not finite, which loses NaN for +inf.
    spoilt = np.any(np.isnan(x) | np.isposinf(x), axis, keepdims=True)
    y = np.where(spoilt, np.nan, scipy.special.log_softmax(x, axis))
    return np.where(rows_of_minus_inf(x, axis), -np.inf, y)


REFS = {
    "layer_norm": layer_norm,
    "rms_norm": rms_norm,
    "layer_norm2d": layer_norm2d,
    "group_norm": group_norm,
    "instance_norm": instance_norm,
    "batch_norm_inference": batch_norm_inference,
    "ada_layer_norm": ada_layer_norm,
    "gated_residual": gated_residual,
    "residual_norm": residual_norm,
    "swiglu": swiglu,
    "softmax": softmax,
    "log_softmax": log_softmax,
}
