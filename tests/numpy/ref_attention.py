# SPDX-License-Identifier: MIT
"""Attention and rotary embedding with NumPy, in float64, from their definitions."""
import numpy as np
import scipy.special


def wide(a):
    return None if a is None else np.asarray(a, np.float64)


def read_pages(pool, pages):
    """[P, page, H, D] and [B, n] -> [B, n * page, H, D]; pages out of range are clamped."""
    n = pool.shape[0]
    index = np.where(pages < 0, pages.astype(np.int64) + n, pages)
    picked = pool[np.clip(index, 0, n - 1)]
    return picked.reshape(pages.shape[0], pages.shape[1] * pool.shape[1], *pool.shape[2:])


def visible_keys(attrs, batch, n_queries, n_keys, lengths):
    """bool [B, 1, Sq, Sk]: lengths, causal and window."""
    length = np.full(batch, n_keys) if lengths is None else np.broadcast_to(lengths, (batch,))
    length = np.clip(length.astype(np.int64), 0, n_keys)[:, None, None, None]
    key = np.arange(n_keys)[None, None, None, :]
    place = np.arange(n_queries)[None, None, :, None] + length - n_queries
    window = attrs.get("window", 0)
    visible = np.broadcast_to(key < length, (batch, 1, n_queries, n_keys))
    if attrs.get("causal") or window:
        visible = visible & (key <= place)
    if window:
        visible = visible & (key > place - window)
    return visible


def weigh(scores, sinks):
    """softmax over the last axis, with a sink that takes part in the sum; no visible key: zeros."""
    if sinks is not None:
        sink = np.broadcast_to(sinks[None, :, None, None], scores.shape[:3] + (1,))
        scores = np.concatenate([scores, sink], -1)
    if scores.shape[-1] == 0:
        return scores
    empty = np.all(np.isneginf(scores), -1, keepdims=True)
    with np.errstate(invalid="ignore"):
        weights = np.where(empty, 0.0, scipy.special.softmax(scores, -1))
    return weights if sinks is None else weights[..., :-1]


def add_values(weights, v):
    """Sums of the weighted values: keys without a weight take no part, whatever they hold."""
    if np.isfinite(v).all():
        return np.matmul(weights, v)
    weights = weights[..., None]
    return np.sum(np.where(weights != 0, weights * v[:, :, None], 0.0), 3)


def attention(attrs, *inputs):
    q, k, v, mask, lengths, sinks, pages = inputs + (None,) * (7 - len(inputs))
    q, k, v, sinks = wide(q), wide(k), wide(v), wide(sinks)
    if pages is not None:
        k, v = read_pages(k, pages), read_pages(v, pages)
    swapped = attrs.get("layout") == "bshd"
    if swapped:
        q, k, v = (np.swapaxes(a, 1, 2) for a in (q, k, v))
    if q.shape[1] != k.shape[1]:
        k, v = (np.repeat(a, q.shape[1] // k.shape[1], 1) for a in (k, v))

    scale = attrs.get("scale", 0) or 1 / np.sqrt(max(q.shape[3], 1))
    scores = np.matmul(q, np.swapaxes(k, 2, 3)) * scale
    cap = attrs.get("soft_cap", 0)
    if cap:
        scores = cap * np.tanh(scores / cap)
    visible = visible_keys(attrs, q.shape[0], q.shape[2], k.shape[2], lengths)
    if mask is not None and mask.dtype == np.bool_:
        visible = visible & mask
    elif mask is not None:
        visible = visible & ~np.isneginf(wide(mask))
        scores = scores + wide(mask)
    y = add_values(weigh(np.where(visible, scores, -np.inf), sinks), v)
    return np.swapaxes(y, 1, 2) if swapped else y


def ragged_attention(attrs, *inputs):
    """Row by row: the keys of its sequence, as many as its length says."""
    q, k, v, sequence, lengths, pages, sinks = inputs + (None,) * (7 - len(inputs))
    page = attrs["page"]
    pools = [wide(a).reshape(len(a) // page, page, *a.shape[1:]) for a in (k, v)]
    rows = np.where(sequence < 0, sequence + pages.shape[0], sequence)
    table = pages[np.clip(rows, 0, pages.shape[0] - 1)] if len(pages) else np.zeros(
        (len(q), pages.shape[1]), np.int64)
    more = {key: attrs[key] for key in ("scale", "soft_cap", "window", "page") if key in attrs}
    y = attention({"layout": "bshd", "causal": True, **more}, np.asarray(q)[:, None], *pools, None,
                  lengths, sinks, table)
    return y[:, 0]


def rope(attrs, *inputs):
    x, cos, sin, positions = inputs + (None,) * (4 - len(inputs))
    x, cos, sin = wide(x), wide(cos), wide(sin)
    swapped = attrs.get("layout") == "bshd"
    if swapped:
        x = np.swapaxes(x, 1, 2)
    if x.size == 0:
        return np.swapaxes(x, 1, 2) if swapped else x

    n = cos.shape[0]
    at = np.arange(x.shape[2]) if positions is None else np.asarray(positions, np.int64)
    at = np.clip(np.where((at < 0) & (at >= -n), at + n, at), 0, n - 1)
    shape = (x.shape[0], x.shape[2]) if at.ndim == 2 else (1, x.shape[2])
    angle = (cos[at] + 1j * sin[at]).reshape(shape + (-1,))[:, None]
    if attrs.get("backward"):
        angle = np.conj(angle)

    n_rot = attrs.get("n_rot", 0) or x.shape[3]
    head, rest = x[..., :n_rot], x[..., n_rot:]
    if attrs.get("interleaved"):
        turned = (head[..., 0::2] + 1j * head[..., 1::2]) * angle
        head = np.stack([turned.real, turned.imag], -1).reshape(head.shape)
    else:
        first, second = np.split(head, 2, -1)
        turned = (first + 1j * second) * angle
        head = np.concatenate([turned.real, turned.imag], -1)
    y = np.concatenate([head, rest], -1)
    return np.swapaxes(y, 1, 2) if swapped else y


REFS = {"attention": attention, "ragged_attention": ragged_attention, "rope": rope}
