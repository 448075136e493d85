# SPDX-License-Identifier: MIT
"""NumPy and SciPy references of the reductions, argmax and the running forms."""
import numpy as np
from scipy.special import logsumexp

INTS = {"i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "u8": np.uint8,
        "u16": np.uint16, "u32": np.uint32, "u64": np.uint64}


def is_float(a):
    return a["_in"][0] in ("f64", "f32", "f16", "bf16")


def wide(a, x):
    """Floats as float64; integers as they are, so that sums wrap in their own type."""
    return np.asarray(x, np.float64) if is_float(a) else x


def bounds(a):
    """Lowest and highest value of the type."""
    if is_float(a):
        return -np.inf, np.inf
    info = np.iinfo(INTS[a["_in"][0]])
    return info.min, info.max


def axes_of(a, x):
    return tuple(a["axes"]) if a.get("axes") else tuple(range(x.ndim))


def reduction(function):
    def run(a, x):
        return function(a, wide(a, x), axis=axes_of(a, x), keepdims=bool(a.get("keepdims")))
    return run


def dtype_of(x):
    return {} if x.dtype == np.float64 else {"dtype": x.dtype}


def reduce_sum(a, x, **k):
    return np.sum(x, **dtype_of(x), **k)


def reduce_mean(a, x, **k):
    if is_float(a):
        return np.mean(x, **k)
    unsigned = x.dtype == np.uint64
    total = np.sum(x, dtype=np.uint64 if unsigned else np.int64, **k)
    n = x.size // max(total.size, 1)
    if unsigned and n:
        return total // np.uint64(n)
    return np.trunc(total / n).astype(x.dtype) if n else np.zeros_like(total).astype(x.dtype)


def reduce_max(a, x, **k):
    return np.max(x, initial=bounds(a)[0], **k)


def reduce_min(a, x, **k):
    return np.min(x, initial=bounds(a)[1], **k)


def reduce_prod(a, x, **k):
    return np.prod(x, **dtype_of(x), **k)


def reduce_l1(a, x, **k):
    return np.sum(np.abs(x), **dtype_of(x), **k)


def reduce_l2(a, x, **k):
    return np.sqrt(np.sum(np.square(x), **k))


def reduce_sum_square(a, x, **k):
    return np.sum(np.square(x), **dtype_of(x), **k)


def reduce_log_sum(a, x, **k):
    return np.log(np.sum(x, **k))


def reduce_log_sum_exp(a, x, **k):
    if x.size == 0:
        return np.log(np.sum(np.exp(x), **k))
    return np.reshape(logsumexp(x, **k), a["_out_shape"][0])  # SciPy makes a scalar rank 1


def arg(function):
    def run(a, x):
        axis = a.get("axis", 0)
        n = x.shape[axis]
        if x.size == 0:
            return np.zeros(a["_out_shape"][0])
        v = wide(a, x)
        if not a.get("last"):
            place = function(v, axis=axis)
        else:
            place = n - 1 - function(np.flip(v, axis), axis=axis)
        return np.expand_dims(place, axis) if a.get("keepdims") else place
    return run


def running(function, start):
    """start(a): what comes before the first element."""
    def run(a, x):
        axis = a.get("axis", 0)
        v = np.moveaxis(wide(a, x), axis, 0)
        if a.get("reverse"):
            v = v[::-1]
        kind = {} if function is np.maximum else dtype_of(v)
        y = function.accumulate(v, axis=0, **kind) if v.size else v
        if a.get("exclusive") and len(y):
            first = np.full_like(y[:1], start(a))
            y = np.concatenate([first, y[:-1]], axis=0)
        if a.get("reverse"):
            y = y[::-1]
        return np.moveaxis(y, 0, axis)
    return run


REFS = {
    "reduce_sum": reduction(reduce_sum),
    "reduce_mean": reduction(reduce_mean),
    "reduce_max": reduction(reduce_max),
    "reduce_min": reduction(reduce_min),
    "reduce_prod": reduction(reduce_prod),
    "reduce_l1": reduction(reduce_l1),
    "reduce_l2": reduction(reduce_l2),
    "reduce_log_sum": reduction(reduce_log_sum),
    "reduce_log_sum_exp": reduction(reduce_log_sum_exp),
    "reduce_sum_square": reduction(reduce_sum_square),
    "reduce_any": lambda a, x: np.any(x, axes_of(a, x), keepdims=bool(a.get("keepdims"))),
    "reduce_all": lambda a, x: np.all(x, axes_of(a, x), keepdims=bool(a.get("keepdims"))),
    "argmax": arg(np.argmax),
    "argmin": arg(np.argmin),
    "cumsum": running(np.add, lambda a: 0),
    "cumprod": running(np.multiply, lambda a: 1),
    "cummax": running(np.maximum, lambda a: bounds(a)[0]),
}
