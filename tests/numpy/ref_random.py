# SPDX-License-Identifier: MIT
"""NumPy references of random numbers and of sampling. NumPy's own Philox is the 64-bit one, so the
32-bit generator is written here again, on arrays."""
import numpy as np

LOW = np.uint64(0xFFFFFFFF)
HALF = np.uint64(32)
# Smallest f16 and bf16 steps below hi are found through the bit patterns of these types.
NARROW = {"f16": 11, "bf16": 8}


def philox(blocks, seed):
    """Words [len(blocks), 4] of philox4x32-10."""
    seed = int(seed) & (2**64 - 1)
    key = [seed & 0xFFFFFFFF, seed >> 32]
    blocks = np.asarray(blocks, np.uint64)
    c = [blocks & LOW, blocks >> HALF, np.zeros_like(blocks), np.zeros_like(blocks)]
    for _ in range(10):
        a, b = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [(b >> HALF) ^ c[1] ^ np.uint64(key[0]), b & LOW,
             (a >> HALF) ^ c[3] ^ np.uint64(key[1]), a & LOW]
        key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return np.stack(c, -1)


def words_of(a, seed):
    n = int(np.prod(a["_out_shape"][0], dtype=np.int64))
    return philox(np.arange((n + 3) // 4), a.get("seed", 0) if seed is None else seed), n


def round_to(x, dtype):
    """f32 numbers rounded to f16 or bf16, as float64."""
    if dtype == "f16":
        return x.astype(np.float16).astype(np.float64)
    if dtype == "bf16":
        bits = x.astype(np.float32).view(np.uint32).astype(np.uint64)
        bits = (bits + np.uint64(0x7FFF) + (bits >> np.uint64(16) & np.uint64(1))) >> np.uint64(16)
        return (bits << np.uint64(16)).astype(np.uint32).view(np.float32).astype(np.float64)
    return x.astype(np.float64)


def last_below(hi, dtype):
    """The largest number of the type below hi."""
    hi = np.float32(hi)
    if dtype == "f32":
        return np.nextafter(hi, np.float32(-np.inf))
    step = np.float64(2.0) ** (np.floor(np.log2(abs(np.float64(hi)))) - NARROW[dtype])
    below = np.float64(hi)
    while not round_to(np.array([below], np.float32), dtype)[0] < hi:
        below -= step
    return np.float32(round_to(np.array([below], np.float32), dtype)[0])


def random_uniform(a, seed=None):
    words, n = words_of(a, seed)
    u = (words.reshape(-1)[:n] >> np.uint64(8)).astype(np.float32) * np.float32(2.0**-24)
    lo, hi = a.get("lo", 0), a.get("hi", 0)
    y = np.float32(lo) + u * np.float32(hi - lo)
    y = np.minimum(y, last_below(hi, a["_out"][0]))
    return round_to(y, a["_out"][0]).reshape(a["_out_shape"][0])


def random_normal(a, seed=None):
    words, n = words_of(a, seed)
    pairs = (words >> np.uint64(8)).astype(np.float64).reshape(-1, 2)
    radius = np.sqrt(-2 * np.log((pairs[:, 0] + 1) * 2.0**-24))
    angle = 2 * np.pi * pairs[:, 1] * 2.0**-24
    y = np.stack([radius * np.cos(angle), radius * np.sin(angle)], -1).reshape(-1)[:n]
    return (a.get("lo", 0) + a.get("hi", 1) * y).reshape(a["_out_shape"][0])


def sample_row(logits, settings, word):
    temperature, top_k, top_p, min_p = settings
    logits = np.where(np.isnan(logits), -np.inf, logits)
    order = np.argsort(-logits, kind="stable")
    if not temperature >= 2.0**-126:
        return order[0]
    if 1 <= top_k < len(order):
        order = order[:int(top_k)]
    first = logits[order[0]]
    below = np.where(logits[order] == first, 0.0, first - logits[order])
    p = np.exp(-below / temperature) if np.isfinite(temperature) else np.isfinite(below) * 1.0
    if min_p > 0:
        keep = p >= min_p
        keep[0] = True
        order, p = order[keep], p[keep]
    if 0 < top_p < 1:
        n = np.searchsorted(np.cumsum(p), top_p * p.sum() * (1 - 1e-12)) + 1
        order, p = order[:n], p[:n]
    total = np.cumsum(p)
    place = np.searchsorted(total, word * 2.0**-32 * total[-1], side="right")
    return order[min(place, len(order) - 1)]


def sample(a, x, seed=None, params=None):
    rows = np.asarray(x, np.float64).reshape(-1, x.shape[-1])
    if params is None:
        params = [a.get(k, 0) for k in ("temperature", "top_k", "top_p", "min_p")]
    settings = np.broadcast_to(np.asarray(params, np.float64), (len(rows), 4)).copy()
    k = settings[:, 1]
    settings[:, 1] = np.where((k >= 1) & (k < 2.0**31), k, 0)
    if np.ndim(seed) == 1:
        words = [philox([0], s)[0, 0] for s in seed]
    else:
        words = philox(np.arange(len(rows)), a.get("seed", 0) if seed is None else seed)[:, 0]
    picks = [sample_row(row, s, float(w)) for row, s, w in zip(rows, settings, words)]
    return np.array(picks, np.int32).reshape(x.shape[:-1])


REFS = {"random_uniform": random_uniform, "random_normal": random_normal, "sample": sample}
