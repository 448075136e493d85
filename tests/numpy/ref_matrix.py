# SPDX-License-Identifier: MIT
"""NumPy references of matmul, dot_general, lora_matmul and grouped_matmul."""
import numpy as np
from scipy import special

from ref_elementwise import gelu_tanh

ACTIVATIONS = {
    "none": lambda x: x,
    "relu": lambda x: np.maximum(x, 0),
    "gelu": lambda x: x * special.ndtr(x),
    "gelu_tanh": gelu_tanh,
    "silu": lambda x: x * special.expit(x),
    "sigmoid": special.expit,
    "tanh": np.tanh,
    "hard_swish": lambda x: x * np.clip(x + 3, 0, 6) / 6,
}


def wide(x):
    """Integers as int64, floats as float64."""
    return x.astype(np.int64 if np.issubdtype(x.dtype, np.integer) else np.float64)


def finish(y, attrs, bias, residual):
    """The epilogue of a product; the axis of the bias is the last one."""
    act = ACTIVATIONS[attrs.get("act", "none")]
    if bias is not None:
        y = y + (wide(bias) if y.ndim and y.shape[-1] == bias.shape[0] else wide(bias)[0])
    if residual is None:
        return act(y)
    if attrs.get("act_last"):
        return act(y + wide(residual))
    return act(y) + wide(residual)


def to_result(y, attrs):
    """i32 sums wrap."""
    return y.astype(np.int32) if attrs["_out"][0] == "i32" else y


def matmul(attrs, a, b, bias=None, residual=None):
    b = np.swapaxes(b, -1, -2) if attrs.get("trans_b") else b
    with np.errstate(all="ignore"):
        return to_result(finish(np.matmul(wide(a), wide(b)), attrs, bias, residual), attrs)


def dot_general(attrs, a, b):
    batch_a, batch_b = list(attrs.get("batch_a", [])), list(attrs.get("batch_b", []))
    contract_a, contract_b = list(attrs.get("contract_a", [])), list(attrs.get("contract_b", []))
    labels_a = list(range(a.ndim))
    labels_b = [100 + i for i in range(b.ndim)]
    for i, j in zip(batch_a + contract_a, batch_b + contract_b):
        labels_b[j] = labels_a[i]
    free_a = [i for i in range(a.ndim) if i not in batch_a + contract_a]
    free_b = [i for i in range(b.ndim) if i not in batch_b + contract_b]
    result = batch_a + free_a + [labels_b[i] for i in free_b]
    names = {label: n for n, label in enumerate(dict.fromkeys(labels_a + labels_b))}
    y = np.einsum(wide(a), [names[i] for i in labels_a], wide(b), [names[i] for i in labels_b],
                  [names[i] for i in result])
    return to_result(np.asarray(y), attrs)


def lora_matmul(attrs, x, w, down, up):
    x, w, down, up = wide(x), wide(w), wide(down), wide(up)
    return x @ w.T + attrs.get("scale", 1.0) * ((x @ down.T) @ up.T)


def expert_index(ids, n):
    """Negative numbers count from the end, others outside are clamped."""
    ids = ids.astype(np.int64)
    return np.clip(np.where((ids < 0) & (ids >= -n), ids + n, ids), 0, n - 1)


def grouped_matmul(attrs, x, experts, ids):
    bank = wide(experts)[expert_index(ids, experts.shape[0])]
    return np.einsum("mk,mnk->mn" if attrs.get("trans_b") else "mk,mkn->mn", wide(x), bank)


REFS = {
    "matmul": matmul,
    "dot_general": dot_general,
    "lora_matmul": lora_matmul,
    "grouped_matmul": grouped_matmul,
}
