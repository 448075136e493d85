# SPDX-License-Identifier: MIT
"""NumPy and SciPy references of spectra and selections."""
import numpy as np
import scipy.fft


def to_complex(x):
    """By assignment: 1j times an infinity has a real part, NaN."""
    z = np.empty(x.shape[:-1], np.complex128)
    z.real, z.imag = x[..., 0], x[..., 1]
    return z


def to_pairs(z):
    return np.stack([z.real, z.imag], -1)


def power_of(x):
    x = np.asarray(x, np.float64)
    return x[..., 0] ** 2 + x[..., 1] ** 2


def taken(v, n, axis, halved):
    """What of v a transform of n points takes: halved, the first half of the bins, of which the
    first and the middle one are real."""
    v = np.moveaxis(v, axis, -1)
    if not halved:
        return v if n is None else v[..., :n]
    n = n or 2 * (v.shape[-1] - 1)
    v = v[..., :n // 2 + 1].copy()
    v.imag[..., 0] = 0
    if n % 2 == 0 and v.shape[-1] == n // 2 + 1:
        v.imag[..., -1] = 0
    return v


def transform(function, complex_in, complex_out):
    def run(a, x):
        if 0 in a["_out_shape"][0] or x.size == 0:
            return np.zeros(a["_out_shape"][0])
        v = to_complex(x) if complex_in else np.asarray(x, np.float64)
        n, axis = a.get("n"), a.get("axis", 0)
        halved = complex_in and not complex_out
        lines = taken(v, n, axis, halved)
        n = n or (2 * (v.shape[axis] - 1) if halved else v.shape[axis])
        y = function(lines, n=n, axis=-1, norm=a.get("norm", "backward"))
        # A line that is not finite is NaN as a whole.
        nan = complex(np.nan, np.nan) if complex_out else np.nan
        y = np.where(np.isfinite(lines).all(-1, keepdims=True), y, nan)
        y = np.moveaxis(y, -1, axis)
        return to_pairs(y) if complex_out else y
    return run


def stft(a, x, window=None):
    n, hop = a["n"], a["hop"]
    if 0 in a["_out_shape"][0]:
        return np.zeros(a["_out_shape"][0])
    frames = np.lib.stride_tricks.sliding_window_view(np.asarray(x, np.float64), n, -1)
    frames = frames[..., ::hop, :]
    if window is not None:
        frames = frames * np.asarray(window, np.float64)
    y = (scipy.fft.fft if a.get("two_sided") else scipy.fft.rfft)(frames)
    whole = np.isfinite(frames).all(-1, keepdims=True)
    return to_pairs(np.where(whole, y, complex(np.nan, np.nan)))


def log_mel(a, x, filters):
    power = power_of(x)
    y = np.log10(np.maximum(power @ np.asarray(filters, np.float64).T, 1e-10))
    axes = (-1,) if a.get("peak_per_frame") else (-2, -1)
    peak = np.max(y, axis=axes, keepdims=True, initial=-np.inf)
    return (np.maximum(y, peak - 8) + 4) / 4


def welch_peaks(a, x):
    power = np.mean(power_of(x), axis=-2)
    if not np.isfinite(power).all():
        return NotImplemented  # NumPy sorts NaN in its own way
    power[..., 1:-1] *= 2
    # Equal in exact arithmetic must be equal here: abs and square round in other places.
    power = np.round(power, 10)
    places = np.argsort(-power, axis=-1, kind="stable")[..., :a["k"]]
    return np.take_along_axis(power, places, -1), places


def knn(a, x):
    n, k = x.shape[0], a["k"]
    distances, places = np.full((n, k), np.inf), np.full((n, k), -1)
    for row in range(n):
        others = np.delete(np.arange(n), row)
        nearest = others[np.argsort(x[row, others], kind="stable")][:k]
        places[row, :len(nearest)] = nearest
        distances[row, :len(nearest)] = x[row, nearest]
    return distances, places


def group_limited_gate(a, x):
    rows, experts = x.shape
    groups, keep, k = a["groups"], a["keep_groups"], a["k"]
    scores = np.asarray(x, np.float32)
    grouped = scores.reshape(rows, groups, experts // groups)
    best = np.sort(grouped, -1)[..., ::-1][..., :2].sum(-1, dtype=np.float32)
    kept = np.argsort(-best, axis=-1, kind="stable")[:, :keep]
    mask = np.zeros((rows, groups), bool)
    np.put_along_axis(mask, kept, True, -1)
    allowed = np.where(np.repeat(mask, experts // groups, -1), scores, -np.inf)
    places = np.argsort(-allowed, axis=-1, kind="stable")[:, :k]
    weights = np.take_along_axis(np.asarray(x, np.float64), places, -1)
    if k > 1:
        weights = weights / (weights.sum(-1, keepdims=True) + 1e-20)
    return weights * a["scale"], places


REFS = {
    "fft": transform(scipy.fft.fft, True, True),
    "ifft": transform(scipy.fft.ifft, True, True),
    "rfft": transform(scipy.fft.rfft, False, True),
    "irfft": transform(scipy.fft.irfft, True, False),
    "stft": stft,
    "log_mel": log_mel,
    "welch_peaks": welch_peaks,
    "knn": knn,
    "group_limited_gate": group_limited_gate,
}
