# SPDX-License-Identifier: MIT
"""NumPy references of the quantised operations. Packed weights arrive decoded as float32."""
import numpy as np

from ref_matrix import expert_index, finish, wide

LIMITS = {"i8": np.int8, "u8": np.uint8, "i32": np.int32}


def saturate(y, dtype):
    """Whole numbers in float64 to an integer type; NaN to 0."""
    info = np.iinfo(LIMITS[dtype])
    return np.clip(np.nan_to_num(y, nan=0.0, posinf=np.inf, neginf=-np.inf),
                   info.min, info.max).astype(info.dtype)


def unpack_halves(w):
    """[N, K/2] bytes to [N, K] numbers from 0 to 15, low half first."""
    return np.stack([w & 15, w >> 4], axis=-1).reshape(w.shape[0], -1)


def dequant_matmul(attrs, x, w, scale=None, zero=None, bias=None, residual=None):
    if scale is not None:
        offset = 8 if attrs.get("bits") == 4 else 0
        w = wide(unpack_halves(w) if offset else w)
        block = attrs["block"]
        zeros = np.repeat(wide(zero), block, axis=1) if zero is not None else offset
        w = (w - zeros) * np.repeat(wide(scale), block, axis=1)
    with np.errstate(all="ignore"):
        return finish(wide(x) @ wide(w).T, attrs, bias, residual)


def dequant_grouped_matmul(attrs, x, w, ids):
    return np.einsum("mk,mnk->mn", wide(x), wide(w)[expert_index(ids, w.shape[0])])


def dequant_moe_weights(attrs, w, ids):
    return wide(w)[expert_index(ids, w.shape[0])]


def qmatmul(attrs, a, b, scale=None, bias=None):
    b = np.swapaxes(b, -1, -2) if attrs.get("trans_b") else b
    y = np.asarray(np.matmul(wide(a) - attrs.get("a_zero", 0), wide(b) - attrs.get("b_zero", 0)))
    y = (y if bias is None else y + wide(bias)).astype(np.int32)
    if scale is None:
        return y
    with np.errstate(all="ignore"):
        y = np.rint(y.astype(np.float32) * scale.astype(np.float32)).astype(np.float64)
        return saturate(y + attrs.get("y_zero", 0), attrs["_out"][0])


def spread(s, x, attrs):
    """Scales or zeros with the shape of x."""
    axis, block = attrs.get("axis", 0), attrs.get("block", 0)
    if s.ndim == 0:
        return s
    if block:
        return np.repeat(s, block, axis=axis)
    return s.reshape([-1 if i == axis else 1 for i in range(x.ndim)])


def quantize(attrs, x, scale, zero=None):
    with np.errstate(all="ignore"):
        y = np.rint(x.astype(np.float32) / spread(scale.astype(np.float32), x, attrs))
        y = y.astype(np.float64)
        if zero is not None:
            y = y + spread(zero.astype(np.float64), x, attrs)
        return saturate(y, attrs["_out"][0])


def dequantize(attrs, x, scale=None, zero=None):
    if scale is None:
        return wide(x)
    x = wide(x)
    if zero is not None:
        x = x - spread(wide(zero), x, attrs)
    with np.errstate(all="ignore"):
        return x * spread(wide(scale), x, attrs)


REFS = {
    "dequant_matmul": dequant_matmul,
    "dequant_grouped_matmul": dequant_grouped_matmul,
    "dequant_moe_weights": dequant_moe_weights,
    "qmatmul": qmatmul,
    "quantize": quantize,
    "dequantize": dequantize,
}
