# SPDX-License-Identifier: MIT
"""NumPy references of order and places."""
import numpy as np

INTS = {"i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "u8": np.uint8,
        "u16": np.uint16, "u32": np.uint32, "u64": np.uint64}
FLOATS = ("f64", "f32", "f16", "bf16")


def descending_places(x, axis):
    """A stable order from large to small: that of the reversed line, reversed. NumPy sorts NaN last
    when ascending, so it comes first here."""
    n = x.shape[axis]
    places = np.argsort(np.flip(x, axis), axis=axis, kind="stable")
    return n - 1 - np.flip(places, axis)


def order_of(x, axis, descending):
    return descending_places(x, axis) if descending else np.argsort(x, axis=axis, kind="stable")


def top_k(a, x):
    axis, k, descending = a.get("axis", 0), a["k"], not a.get("smallest")
    places = order_of(x, axis, descending)
    places = np.take(places, np.arange(min(k, x.shape[axis])), axis=axis)
    values = np.take_along_axis(x, places, axis)
    missing = k - places.shape[axis]
    if missing > 0:
        pads = [(0, 0)] * x.ndim
        pads[axis] = (0, missing)
        if a["_in"][0] in FLOATS:
            last = -np.inf if descending else np.inf
        else:
            info = np.iinfo(INTS[a["_in"][0]])
            last = info.min if descending else info.max
        values = np.pad(values, pads, constant_values=last)
        places = np.pad(places, pads, constant_values=-1)
    return values, places


def argsort(a, x):
    return order_of(x, a.get("axis", 0), a.get("descending"))


def sort(a, x):
    return np.take_along_axis(x, argsort(a, x), a.get("axis", 0))


def histogram(a, x):
    v = np.asarray(x, np.float64).reshape(-1)
    return np.histogram(v[~np.isnan(v)], a["bins"], (a.get("lo", 0), a.get("hi", 0)))[0]


def one_hot(a, x):
    depth, axis = a["depth"], a.get("axis", 0)
    on, off = a.get("on", 0), a.get("off", 0)
    index = np.expand_dims(np.asarray(x, np.int64), axis)
    if a["_in"][0] != "u64":
        index = np.where(index < 0, index + depth, index)
    shape = [1] * index.ndim
    shape[axis] = depth
    return np.where(index == np.arange(depth).reshape(shape), float(on), float(off))


def range_(a):
    i = np.arange(a.get("n", 0))
    start, step = a.get("start", 0), a.get("step", 1)
    if a["_out"][0] in FLOATS:
        return start + i * float(step)
    return (int(start) + i * int(step)).astype(INTS[a["_out"][0]])


def nonzero(a, x):
    found = np.array(np.nonzero(x)) if x.ndim else np.zeros((0, int(x != 0)), np.int64)
    places = np.full((x.ndim, x.size), -1, np.int64)
    places[:, :found.shape[1]] = found
    return places, np.array(np.count_nonzero(x))


REFS = {"top_k": top_k, "sort": sort, "argsort": argsort, "histogram": histogram,
        "one_hot": one_hot, "range": range_, "nonzero": nonzero}
