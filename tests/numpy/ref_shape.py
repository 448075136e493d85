# SPDX-License-Identifier: MIT
"""NumPy references of the shape family."""
import numpy as np

INT_TYPES = {"i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "u8": np.uint8,
             "u16": np.uint16, "u32": np.uint32, "u64": np.uint64}


def out_shape(a, i=0):
    return tuple(a["_out_shape"][i])


def reshape(a, x):
    return np.reshape(x, out_shape(a))


def transpose(a, x):
    return np.transpose(x, a.get("perm") or None)


def narrow(a, x):
    start = a.get("start", 0)
    return np.take(x, np.arange(start, start + a.get("length", 0)), axis=a.get("axis", 0))


def slice_(a, x):
    cut = [slice(None)] * x.ndim
    lists = (a.get(k, []) for k in ("axes", "starts", "stops", "steps"))
    for axis, start, stop, step in zip(*lists):
        cut[axis] = slice(start, stop, step)
    return x[tuple(cut)]


def expand(a, x):
    return np.broadcast_to(x, out_shape(a))


def concat(a, *xs):
    return np.concatenate(xs, axis=a.get("axis", 0))


def split(a, x):
    axis = a.get("axis", 0)
    sizes = [s[axis] for s in a["_out_shape"]]
    return tuple(np.split(x, np.cumsum(sizes)[:-1], axis=axis))


def tile(a, x):
    return np.tile(x, a.get("repeats", [1] * x.ndim))


def as_type(value, name):
    """The padding value as an element: integers truncate and saturate."""
    if name == "bool":
        return value != 0
    if name in INT_TYPES:
        limits = np.iinfo(INT_TYPES[name])
        return 0 if np.isnan(value) else int(min(max(np.trunc(value), limits.min), limits.max))
    return value


def pad(a, x):
    before = a.get("before", [0] * x.ndim)
    after = a.get("after", [0] * x.ndim)
    crop = tuple(slice(max(-b, 0), n - max(-e, 0)) for b, e, n in zip(before, after, x.shape))
    x = x[crop]
    widths = [(max(b, 0), max(e, 0)) for b, e in zip(before, after)]
    if not widths:  # np.pad takes no scalars
        return x
    mode = a.get("mode", "constant")
    if mode == "constant":
        value = as_type(a.get("value", 0.0), a["_in"][0])
        with np.errstate(over="ignore"):
            return np.pad(x, widths, constant_values=value)
    if mode == "wrap":  # np.pad wraps wrongly before NumPy 1.25 when it goes round more than once
        for axis, (b, e) in enumerate(widths):
            n = x.shape[axis]
            if n:
                x = np.take(x, np.arange(-b, n + e) % n, axis=axis)
            else:
                x = np.zeros(x.shape[:axis] + (b + e,) + x.shape[axis + 1:], x.dtype)
        return x
    if mode == "edge" and 0 in x.shape:
        return np.zeros(out_shape(a), x.dtype)
    return np.pad(x, widths, mode=mode)


def reverse(a, x):
    return np.flip(x, axis=tuple(a.get("axes", [])))


def roll(a, x):
    return np.roll(x, a.get("shift", 0), axis=a.get("axis", 0))


def trilu(a, x):
    # NumPy multiplies the diagonal into an index range, so keep it within the matrix
    k = int(np.clip(a.get("k", 0), -x.shape[-2] - 1, x.shape[-1] + 1))
    return np.triu(x, k) if a.get("upper") else np.tril(x, k)


REFS = {
    "reshape": reshape, "transpose": transpose, "narrow": narrow, "slice": slice_,
    "expand": expand, "copy": lambda a, x: x.copy(), "concat": concat, "split": split,
    "tile": tile, "pad": pad, "reverse": reverse, "roll": roll, "trilu": trilu,
    "stop_gradient": lambda a, x: x.copy(),
}
