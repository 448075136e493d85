#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""PyTorch's own samples of its operations (OpInfo) in those of rlx: results and derivatives, in f64
and in f32, against PyTorch in f64. Needs PyTorch with what its testing module imports.

usage: test_opinfo.py [-v] [NAME]...    (parts of names of operations)"""
import collections
import sys
import warnings

import package

package.need_numpy()
sys.path.append(str(package.SOURCE / "tests" / "support"))
import pytorch as found  # noqa: E402

found.need("torch.testing._internal.common_methods_invocations, numpy")
warnings.filterwarnings("ignore")
import numpy as np  # noqa: E402
import torch  # noqa: E402
from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402

import rlx  # noqa: E402
from opinfo_ops import COMPLEX, OPS, Skip, flatten, names_of  # noqa: E402

F64, F32 = torch.float64, torch.float32
# Of an element: times its own size, and times the largest one of the result. In f32 four times
# PyTorch's own error is allowed too.
LIMITS = {"f64": (1e-9, 1e-9), "f32": (5e-5, 5e-5)}
INEXACT = {"nn.functional.hardsigmoid": 1e-7}  # PyTorch's derivative has 1/6 in f32
FEWEST = 5000  # samples of the whole test

device = rlx.Device("cpu", threads=1)
counts = collections.Counter()
skips = collections.Counter()
operations = set()
failures = []


# ---- PyTorch -------------------------------------------------------------------------------------

def is_float(t):
    return isinstance(t, torch.Tensor) and (t.is_floating_point() or t.is_complex())


def as_array(t):
    t = t.detach()
    return (torch.view_as_real(t.resolve_conj().contiguous()) if t.is_complex() else t).numpy()


def converted(t, dtype):
    """Operands in a type of floats, as leaves."""
    if isinstance(t, (list, tuple)):
        return type(t)(converted(v, dtype) for v in t)
    if not is_float(t) or t.dtype not in (F64, F32, torch.complex128, torch.complex64):
        return t
    kind = (torch.complex64 if dtype == F32 else torch.complex128) if t.is_complex() else dtype
    return t.detach().to(kind).requires_grad_(t.requires_grad)


class Sample:
    """A sample's operands in a type."""

    def __init__(self, sample, dtype):
        self.input = converted(sample.input, dtype)
        self.args = converted(tuple(sample.args), dtype)
        self.kwargs = {k: converted(v, dtype) for k, v in sample.kwargs.items() if v is not None}

    def learned(self):
        return [t for t in flatten([self.input, self.args, list(self.kwargs.values())])
                if is_float(t) and t.requires_grad]


def directions(results):
    """By result: the derivative that is given; None where nothing flows back."""
    r = np.random.default_rng(1)
    return [r.standard_normal(as_array(t).shape).astype(np.float32)
            if is_float(t) and t.requires_grad else None for t in results]


def as_tensor(array, like):
    t = torch.from_numpy(np.array(array, np.float64, order="C"))
    return (torch.complex(t[..., 0], t[..., 1]) if like.is_complex() else t).to(like.dtype)


def pytorch(op, sample):
    """Results, directions and derivatives."""
    results = op(sample.input, *sample.args, **sample.kwargs)
    results = flatten(list(results) if isinstance(results, tuple) else results)
    dy = directions(results)
    back = [(t, as_tensor(d, t)) for t, d in zip(results, dy) if d is not None]
    if not back:
        return results, dy, []
    learned = sample.learned()
    by = torch.autograd.grad([t for t, _ in back], learned, [d for _, d in back],
                             allow_unused=True)
    return results, dy, [torch.zeros_like(t) if d is None else d for t, d in zip(learned, by)]


# ---- rlx -----------------------------------------------------------------------------------------

class Feeder:
    """Tensors of a sample as inputs of a graph."""

    def __init__(self):
        self.graph = rlx.Graph("opinfo")
        self.feeds, self.learned = {}, []

    def input(self, array):
        name = f"x{len(self.feeds)}"
        self.feeds[name] = array
        return self.graph.input(name, array.shape, array.dtype)

    def value(self, t):
        if isinstance(t, (list, tuple)) and any(isinstance(v, torch.Tensor) for v in t):
            return [self.value(v) for v in t]
        if isinstance(t, torch.dtype):
            raise Skip("a type of the result")
        if not isinstance(t, torch.Tensor):
            return t
        if not is_float(t) and t.dtype not in (torch.int64, torch.int32, torch.bool):
            raise Skip(f"{t.dtype}")
        made = self.input(np.array(as_array(t), order="C"))
        if t.requires_grad:
            self.learned.append(made)
        return made


def build(name, sample):
    """The graph and its results."""
    feeder = Feeder()
    first = sample.input
    if isinstance(first, torch.Tensor) and first.is_complex() != (name in COMPLEX):
        raise Skip("complex numbers")
    kwargs = dict(sample.kwargs)
    if kwargs.pop("dtype", F64) != F64:
        raise Skip("a type of the result")
    x = feeder.value(first)
    args = [feeder.value(a) for a in sample.args]
    made = OPS[name](x, *args, **{k: feeder.value(v) for k, v in kwargs.items()})
    return feeder, flatten(made)


def run(feeder, made, dy, dtype):
    """Results, then derivatives."""
    back = [(v, feeder.input(d.astype(dtype))) for v, d in zip(made, dy) if d is not None]
    if back:
        made = made + rlx.vjp([v for v, _ in back], [d for _, d in back], feeder.learned)
    for i, v in enumerate(made):
        feeder.graph.output(f"y{i}", v)
    return feeder.graph.compile(device).run(None, feeder.feeds)


# ---- Comparing -----------------------------------------------------------------------------------

def differ(got, want, limits, slack=0.0):
    """What is wrong with an array; None: nothing."""
    if got.shape != want.shape:
        return f"the shape {got.shape}, expected {want.shape}"
    if not np.issubdtype(want.dtype, np.floating):
        return None if np.array_equal(got, want) else f"{got.ravel()}, expected {want.ravel()}"
    got, want = got.astype(np.float64), want.astype(np.float64)
    finite = np.isfinite(want)
    largest = np.abs(want[finite]).max(initial=1e-3)
    near = np.abs(got - want) <= limits[0] * np.abs(want) + limits[1] * largest + slack
    bad = ~np.where(finite, near, (got == want) | (np.isnan(got) & np.isnan(want)))
    if not bad.any():
        return None
    i = np.argmax(bad)
    return f"{got.ravel()[i]!r} at {i}, expected {want.ravel()[i]!r} ({bad.sum()} of {bad.size})"


def own_errors(op, sample, expected):
    """How far PyTorch is from itself in f64, by array."""
    results, _, derivatives = pytorch(op, Sample(sample, F32))
    errors = [np.abs(as_array(t).astype(np.float64) - want) if is_float(t) else np.zeros(1)
              for t, want in zip(results + derivatives, expected)]
    return [e[np.isfinite(e)].max(initial=0) for e in errors]


def compare(op, name, sample, got, results, derivatives, dtype):
    expected = [as_array(t) for t in results + derivatives]
    if len(got) != len(expected):
        return f"{len(got)} arrays, expected {len(expected)}"
    limits = LIMITS[dtype] if name not in INEXACT else (max(LIMITS[dtype][0], INEXACT[name]),) * 2
    wrong = [differ(a, b, limits) for a, b in zip(got, expected)]
    if any(wrong) and dtype == "f32":
        slack = own_errors(op, sample, expected)
        wrong = [differ(a, b, limits, 4 * s) for a, b, s in zip(got, expected, slack)]
    n = len(results)
    for i, text in enumerate(wrong):
        if text:
            return f"result {i}: {text}" if i < n else f"derivative {i - n}: {text}"
    return None


def check_sample(op, name, sample, dtype):
    """Raises Skip; gives what is wrong, or None. In f32 both sides begin with the same numbers."""
    short = Sample(sample, F32 if dtype == "f32" else F64)
    feeder, made = build(name, short)
    results, dy, derivatives = pytorch(op, Sample(short, F64))
    counts["samples"] += 1
    counts["derivatives"] += len(derivatives)
    if len(made) != len(results):
        return f"{len(made)} results, expected {len(results)}"
    got = run(feeder, made, dy, np.float32 if dtype == "f32" else np.float64)
    return compare(op, name, short, got, results, derivatives, dtype)


def try_sample(op, name, sample, dtype):
    try:
        return check_sample(op, name, sample, dtype)
    except (rlx.Error, TypeError) as e:
        return f"{type(e).__name__}: {e}"


def check_op(op, name, dtype, verbose):
    tried = 0
    samples = op.sample_inputs("cpu", F64, requires_grad=op.supports_autograd)
    for i, sample in enumerate(samples):
        try:
            wrong = try_sample(op, name, sample, dtype)
        except Skip as e:
            skips[f"{name}: {e}"] += 1
            continue
        tried += 1
        if wrong:
            failures.append(name)
            print(f"FAILED {dtype} {name}, sample {i}: {wrong}\n    {str(sample.summary())[:300]}")
    if tried:
        operations.add(name)
    if verbose:
        print(f"{name} {dtype}: {tried} samples", flush=True)


def main():
    verbose = "-v" in sys.argv
    wanted = [a for a in sys.argv[1:] if a != "-v"]
    torch.manual_seed(1)
    torch.set_num_threads(1)
    for op in op_db:
        name = names_of(op)
        if name in OPS and F64 in op.dtypes and (not wanted or any(w in name for w in wanted)):
            for dtype in ("f64", "f32"):
                check_op(op, name, dtype, verbose)
    if verbose:
        for text, n in sorted(skips.items()):
            print(f"left out {n}: {text}")
    print(f"PyTorch {torch.__version__}: {len(operations)} operations, {counts['samples']} "
          f"samples, {counts['derivatives']} derivatives, {sum(skips.values())} left out, "
          f"{len(failures)} failed")
    sys.exit(1 if failures or (not wanted and counts["samples"] < FEWEST) else 0)


if __name__ == "__main__":
    main()
