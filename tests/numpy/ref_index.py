# SPDX-License-Identifier: MIT
"""NumPy references of the index family. Indices out of range are clamped."""
import numpy as np

FLOATS = ("f32", "f16", "bf16")


def wrap_index(index, n):
    """Negative indices counted from the end, then clamped to 0 .. n-1."""
    index = index.astype(np.int64)
    return np.clip(np.where((index < 0) & (index >= -n), index + n, index), 0, max(n - 1, 0))


def gather(a, x, index):
    axis = a.get("axis", 0)
    return np.take(x, wrap_index(index, x.shape[axis]), axis=axis)


def gather_elements(a, x, index):
    axis = a.get("axis", 0)
    cut = tuple(slice(None) if i == axis else slice(n) for i, n in enumerate(index.shape))
    return np.take_along_axis(x[cut], wrap_index(index, x.shape[axis]), axis=axis)


def tuple_indices(index, sizes):
    """One index array for each entry of the tuples on the last axis."""
    return tuple(wrap_index(index[..., i], sizes[i]) for i in range(index.shape[-1]))


def gather_nd(a, x, index):
    batch = a.get("batch_dims", 0)
    grid = np.indices(index.shape[:-1], sparse=True)[:batch]
    return x[tuple(grid) + tuple_indices(index, x.shape[batch:])]


def combine(a, x, where, update, mode):
    """x with update brought in at the index `where`, in order."""
    y = x.astype(np.float64) if a["_in"][0] in FLOATS else x.copy()
    functions = {"add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum}
    if mode in functions:
        with np.errstate(all="ignore"):
            functions[mode].at(y, where, update.astype(y.dtype))
        return y
    flat = [np.ravel(w) for w in np.broadcast_arrays(*where)]
    rows = update.reshape((-1,) + update.shape[np.broadcast(*where).ndim:])
    for i, row in enumerate(rows[:flat[0].size]):  # the last one wins
        y[tuple(w[i] for w in flat)] = row
    return y


def scatter_elements(a, x, index, update):
    axis = a.get("axis", 0)
    where = list(np.indices(index.shape))
    where[axis] = wrap_index(index, x.shape[axis])
    return combine(a, x, tuple(where), update, a.get("mode", "none"))


def scatter_nd(a, x, index, update):
    if update.size == 0:
        return x.copy()
    return combine(a, x, tuple_indices(index, x.shape), update, a.get("mode", "none"))


def scatter_add(a, x, index, update):
    axis = a.get("axis", 0)
    where = (slice(None),) * axis + (wrap_index(index, x.shape[axis]),)
    return combine(a, x, where, update, "add")


REFS = {
    "gather": gather, "gather_elements": gather_elements, "gather_nd": gather_nd,
    "scatter_elements": scatter_elements, "scatter_nd": scatter_nd, "scatter_add": scatter_add,
}
