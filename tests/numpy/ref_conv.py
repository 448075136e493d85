# SPDX-License-Identifier: MIT
"""Convolutions, pools and resizing with NumPy, in float64: convolutions by adding up shifted
products, pools by sliding_window_view, resizing by one matrix for each axis."""
import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from ref_matrix import ACTIVATIONS as ACTS


def wide(inputs, n):
    """The inputs in float64, n of them; absent ones are None."""
    padded = list(inputs) + [None] * (n - len(inputs))
    return [None if a is None else np.asarray(a, np.float64) for a in padded]


def spatial(attrs, name, n, default):
    return attrs.get(name) or [default] * n


def pad_spatial(x, before, after, value=0):
    width = [(0, 0), (0, 0)] + list(zip(before, after))
    return np.pad(x, width, constant_values=value)


def windows(x, kernel, stride, dilation):
    """[N, C, spatial..] -> [N, C, places.., taps..]"""
    n = len(kernel)
    extent = [d * (k - 1) + 1 for k, d in zip(kernel, dilation)]
    axes = tuple(range(2, 2 + n))
    view = sliding_window_view(x, extent, axes)
    view = view[(slice(None),) * 2 + tuple(slice(None, None, s) for s in stride)]
    return view[(Ellipsis,) + tuple(slice(None, None, d) for d in dilation)]


def tap_places(n_out, size, offset, stride):
    """Which of n_out places see an element of the axis, and that element; others see padding."""
    at = np.arange(n_out) * stride + offset
    inside = (at >= 0) & (at < size)
    return np.flatnonzero(inside), at[inside]


def correlate(attrs, x, w):
    """[N, C, ..] and [O, C/groups, ..] -> [N, O, ..]: each tap adds the elements that it meets,
    times its weights. It meets no padding, which takes no part whatever the weight is."""
    n, groups = x.ndim - 2, attrs.get("groups", 1)
    pads, stride = spatial(attrs, "pads", 2 * n, 0), spatial(attrs, "stride", n, 1)
    dilation, out = spatial(attrs, "dilation", n, 1), attrs["_out_shape"][0]
    n_out, n_in = w.shape[0] // groups, w.shape[1]
    y = np.zeros((x.shape[0], *out[2:], groups, n_out))
    x = np.moveaxis(x.reshape(x.shape[0], groups, n_in, *x.shape[2:]), (1, 2), (-2, -1))
    w = w.reshape(groups, n_out, *w.shape[1:])
    for tap in np.ndindex(*w.shape[3:]):
        seen = [tap_places(out[2 + i], x.shape[1 + i], tap[i] * dilation[i] - pads[i], stride[i])
                for i in range(n)]
        batch = np.arange(x.shape[0])
        to, places = np.ix_(batch, *(t for t, _ in seen)), np.ix_(batch, *(p for _, p in seen))
        y[to] += np.einsum("...gc,goc->...go", x[places], w[(...,) + tap])
    return np.moveaxis(y, (-2, -1), (1, 2)).reshape(out)


def per_channel(v, rank):
    return v.reshape((-1,) + (1,) * (rank - 2))


def is_empty(attrs):
    return any(size == 0 for size in attrs["_out_shape"][0])


def finish(attrs, y, bias, residual):
    if bias is not None:
        y = y + per_channel(bias, y.ndim)
    act = ACTS[attrs.get("act", "none")]
    if residual is None:
        return act(y)
    return act(y + residual) if attrs.get("act_last") else act(y) + residual


def conv(attrs, *inputs):
    x, w, bias, residual = wide(inputs, 4)
    if is_empty(attrs):
        return np.zeros(attrs["_out_shape"][0])
    return finish(attrs, correlate(attrs, x, w), bias, residual)


def conv_transpose2d(attrs, *inputs):
    """Each tap adds the whole input, times its weight, to a shifted and strided part."""
    x, w, bias = wide(inputs, 3)
    if is_empty(attrs):
        return np.zeros(attrs["_out_shape"][0])
    groups = attrs.get("groups", 1)
    stride, dilation = spatial(attrs, "stride", 2, 1), spatial(attrs, "dilation", 2, 1)
    pads, extra = spatial(attrs, "pads", 4, 0), spatial(attrs, "output_pad", 2, 0)
    kernel, size = w.shape[2:], x.shape[2:]
    full = [(size[i] - 1) * stride[i] + dilation[i] * (kernel[i] - 1) + 1 + extra[i]
            if size[i] else attrs["_out_shape"][0][2 + i] + pads[i] + pads[2 + i] for i in (0, 1)]
    y = np.zeros((x.shape[0], w.shape[1] * groups, *full))
    for g, (xs, ws) in enumerate(zip(np.split(x, groups, 1), np.split(w, groups, 0))):
        part = y[:, g * w.shape[1]:(g + 1) * w.shape[1]]
        for i, j in np.ndindex(*kernel):
            rows = slice(i * dilation[0], i * dilation[0] + size[0] * stride[0], stride[0])
            columns = slice(j * dilation[1], j * dilation[1] + size[1] * stride[1], stride[1])
            target = part[:, :, rows, columns][:, :, :size[0], :size[1]]
            target += np.einsum("nchw,co->nohw", xs, ws[:, :, i, j])
    y = y[:, :, pads[0]:full[0] - pads[2], pads[1]:full[1] - pads[3]]
    return finish(attrs, y, bias, None)


def qconv2d(attrs, *inputs):
    x, w, scale, bias = wide(inputs, 4)
    if is_empty(attrs):
        return np.zeros(attrs["_out_shape"][0])
    y = correlate(attrs, x - attrs.get("x_zero", 0), w - attrs.get("w_zero", 0))
    if bias is not None:
        y = y + per_channel(bias, 4)
    y = y.astype(np.int64).astype(np.int32)
    if scale is None:
        return y
    factor = scale.astype(np.float32)
    factor = per_channel(factor, 4) if factor.ndim else factor
    rounded = np.rint(y.astype(np.float32) * factor).astype(np.float64) + attrs.get("y_zero", 0)
    limits = np.iinfo(attrs["_out"][0].replace("i8", "int8").replace("u8", "uint8"))
    return np.clip(rounded, limits.min, limits.max)


def im2col(attrs, x):
    if is_empty(attrs):
        return np.zeros(attrs["_out_shape"][0])
    pads = spatial(attrs, "pads", 4, 0)
    view = windows(pad_spatial(x, pads[:2], pads[2:]), attrs["kernel"],
                   spatial(attrs, "stride", 2, 1), spatial(attrs, "dilation", 2, 1))
    rows = np.moveaxis(view, (4, 5), (2, 3))  # [N, C, kh, kw, oh, ow]
    return rows.reshape(x.shape[0], -1, rows.shape[4] * rows.shape[5])


# ---- Pools ---------------------------------------------------------------------------------------


def pool(attrs, x):
    x = np.asarray(x, np.float64)
    n, kind = x.ndim - 2, attrs.get("kind", "max")
    kernel = attrs.get("kernel") or list(x.shape[2:])
    if is_empty(attrs):
        return np.zeros(attrs["_out_shape"][0])
    if 0 in x.shape[2:]:
        return np.full(attrs["_out_shape"][0], -np.inf if kind == "max" else 0.0)
    stride, dilation = spatial(attrs, "stride", n, 1), spatial(attrs, "dilation", n, 1)
    pads = spatial(attrs, "pads", 2 * n, 0)
    out = attrs["_out_shape"][0][2:]
    # Room for the last window, which may reach past the padding in ceil mode.
    past = [max(0, (o - 1) * s + d * (k - 1) + 1 - size - p - q) for o, s, d, k, size, p, q in
            zip(out, stride, dilation, kernel, x.shape[2:], pads[:n], pads[n:])]

    def cut(a, outside):
        a = pad_spatial(a, pads[:n], pads[n:], outside[0])
        a = pad_spatial(a, [0] * n, past, outside[1])
        a = windows(a, kernel, stride, dilation)
        return a[(slice(None),) * 2 + tuple(slice(0, o) for o in out)]

    taps = tuple(range(2 + n, 2 + 2 * n))
    if kind == "max":
        return np.max(cut(x, (-np.inf, -np.inf)), taps)
    if kind == "lp":
        p = attrs.get("p", 2)
        return np.sum(np.abs(cut(x, (0, 0)))**p, taps)**(1 / p)
    inside = cut(np.ones_like(x), (1 if attrs.get("count_include_pad") else 0, 0))
    count = np.sum(inside, taps)
    return np.where(count > 0, np.sum(cut(x, (0, 0)), taps) / np.maximum(count, 1), 0)


# ---- Resizing ------------------------------------------------------------------------------------


def resize_nearest_2x(attrs, x):
    return np.repeat(np.repeat(x, 2, 2), 2, 3)


def source(attrs, axis, rank, size, n):
    """Where the n places of an axis come from, as ONNX's Resize says."""
    x = np.arange(n, dtype=np.float64)
    scales = attrs.get("scale") or []
    given = scales[axis] if axis < len(scales) else 0
    scale = given or n / size

    def unscale(at):
        return at / given if given else at * size / n  # n / size would be rounded first

    coord = attrs.get("coord", "half_pixel")
    if coord == "asymmetric":
        return unscale(x), scale
    if coord == "align_corners":
        return x * ((size - 1) / (n - 1) if n > 1 else 0), scale
    if coord == "tf_crop_and_resize":
        roi = list(attrs.get("roi") or []) + [0] * (2 * rank)
        start, end = roi[axis], roi[rank + axis]
        if n == 1:
            return np.array([0.5 * (start + end) * (size - 1)]), scale
        return start * (size - 1) + x * (end - start) * (size - 1) / (n - 1), scale
    place = unscale(x + 0.5) - 0.5
    if coord == "pytorch_half_pixel" and n == 1:
        place = np.zeros(1)
    if coord == "half_pixel_symmetric":
        place += size / 2 * (1 - n / (scale * size))
    return place, scale


def snap(place):
    """Places that are whole or half numbers but for rounding."""
    near = np.round(place * 2) / 2
    return np.where(np.abs(near - place) < 1e-9, near, place)


def nearest_column(place, mode):
    round_to = {"round_prefer_floor": lambda p: np.ceil(p - 0.5),
                "round_prefer_ceil": lambda p: np.floor(p + 0.5),
                "floor": np.floor, "ceil": np.ceil}
    return int(round_to[mode](place))


def coefficients(attrs, ratio, scale):
    """First element, counted from floor(place), and weights; ratio = place - floor(place)."""
    cubic, a = attrs["mode"] == "cubic", attrs.get("cubic_a", -0.75)
    if not attrs.get("antialias"):
        scale = 1.0
    scale = min(scale, 1.0)
    support = 2 if cubic else 1
    first = int(np.floor(-support / scale)) + 1
    t = np.abs((np.arange(first, support + 1 - first) - ratio) * scale)
    if cubic:
        near = (a + 2) * t**3 - (a + 3) * t**2 + 1
        far = a * t**3 - 5 * a * t**2 + 8 * a * t - 4 * a
        weights = np.where(t <= 1, near, np.where(t < 2, far, 0))
    else:
        weights = np.clip(1 - t, 0, 1)
    return first, weights / weights.sum()


def axis_matrix(attrs, axis, rank, size, n):
    """[n, size] weights, and which of the n places are outside of a crop."""
    places, scale = source(attrs, axis, rank, size, n)
    places = snap(places)
    crop = attrs.get("coord") == "tf_crop_and_resize"
    outside = (places < 0) | (places > size - 1) if crop else np.zeros(n, bool)
    matrix = np.zeros((n, size))
    for row, place in enumerate(places):
        if attrs.get("mode", "nearest") == "nearest":
            column = nearest_column(place, attrs.get("nearest", "round_prefer_floor"))
            matrix[row, np.clip(column, 0, size - 1)] = 1
            continue
        base = int(np.floor(place))
        first, weights = coefficients(attrs, place - base, scale)
        columns = np.arange(base + first, base + first + len(weights))
        if attrs.get("exclude_outside"):
            weights = np.where((columns < 0) | (columns >= size), 0, weights)
            weights /= weights.sum()
        np.add.at(matrix[row], np.clip(columns, 0, size - 1), weights)
    return matrix, outside


def mix(matrix, y, axis):
    """The matrix times an axis of y; elements of weight 0 take no part."""
    y = np.moveaxis(y, axis, 0)
    rows = [np.tensordot(row[row != 0], y[row != 0], 1) for row in matrix]
    return np.moveaxis(np.stack(rows), 0, axis)


def resize(attrs, x):
    exact = attrs["_in"][0] in ("i32", "i64", "i8", "u8", "bool")
    y, rank, sizes = np.asarray(x, np.float64), x.ndim, attrs["_out_shape"][0]
    if 0 in sizes:
        return np.zeros(sizes)
    hidden = np.zeros(sizes, bool)
    for axis, n in enumerate(sizes):
        matrix, outside = axis_matrix(attrs, axis, rank, x.shape[axis], n)
        y = mix(matrix, y, axis)
        hidden |= outside.reshape((-1,) + (1,) * (rank - 1 - axis))
    y = np.where(hidden, attrs.get("extrapolation", 0), y)
    return np.round(y) if exact else y


REFS = {
    "conv1d": conv, "conv2d": conv, "conv3d": conv, "conv_transpose2d": conv_transpose2d,
    "qconv2d": qconv2d, "im2col": im2col, "pool1d": pool, "pool2d": pool, "pool3d": pool,
    "resize_nearest_2x": resize_nearest_2x, "resize": resize,
}
