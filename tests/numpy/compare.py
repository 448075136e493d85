#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares the reference device with NumPy and SciPy on the op cases.

`optest --device ref --dump DIR` writes the cases; the functions of ref_*.py compute them again, and
where PyTorch is installed those of torch_refs.py too. Each element must be within the limit that
the case carries for it (tests/ops/measure.c); integers and bools must be equal.

usage: compare.py [--filter TEXT] [--verbose] DIR
       compare.py --optest PROGRAM [--filter TEXT] DIR     runs optest first, a share of the cases
"""
import argparse
import importlib.util
import json
import subprocess
import sys
import time
import warnings
from pathlib import Path

try:
    import numpy as np
except ImportError:
    print("NumPy is not installed")
    sys.exit(77)

sys.path.append(str(Path(__file__).resolve().parents[1] / "support"))
from share import optest_share  # noqa: E402

# Operations that no library has and that no independent reference can check, with the reason.
WITHOUT_REFERENCE = {}

DTYPES = {"f64": np.float64, "f32": np.float32, "f16": np.float16, "bool": np.bool_,
          "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
          "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64}

# A unit in the last place of 1: the references return float64, results are rounded to their type.
EPSILON = {"f64": 2.0**-52, "f32": 2.0**-23, "f16": 2.0**-10, "bf16": 2.0**-7}
LARGEST = {"f64": np.finfo(np.float64).max, "f32": np.finfo(np.float32).max, "f16": 65504.0,
           "bf16": 3.3895313892515355e38}
LEAST = {"f64": 2.0**-1074, "f32": 2.0**-149, "f16": 2.0**-24, "bf16": 2.0**-133}


def load_module(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def load_refs(folder):
    """Operation to list of (name of the reference, function); whether all files could be loaded."""
    refs, whole = {}, True
    sys.path.insert(0, str(folder))
    for path in sorted(folder.glob("ref_*.py")):
        try:
            module = load_module(path)
        except ImportError as error:
            print(f"{path.name}: left out: {error}")
            whole = False
            continue
        for op, function in module.REFS.items():
            refs.setdefault(op, []).append((path.stem, function))
    torch_refs = folder / "torch_refs.py"
    if torch_refs.exists() and importlib.util.find_spec("torch"):
        for op, function in load_module(torch_refs).REFS.items():
            refs.setdefault(op, []).append(("torch_refs", function))
    return refs, whole


def load_tensor(data, desc):
    if desc is None:
        return None
    dtype = np.dtype(DTYPES[desc["stored"]])
    count = int(np.prod(desc["shape"], dtype=np.int64))
    array = np.frombuffer(data, dtype, count, desc["offset"]).reshape(desc["shape"])
    return array.copy()


def round_overflow(expected, dtype):
    """What is too large for the type becomes infinite, as in a rounding to that type."""
    limit = LARGEST[dtype] * (1 + EPSILON[dtype] / 4)
    with np.errstate(invalid="ignore"):
        return np.where(np.abs(expected) > limit, np.copysign(np.inf, expected), expected)


def load_limits(data, desc, shape):
    """The limit of each element, and that of a common factor; None where results must be equal."""
    if desc is None:
        return None
    count = int(np.prod(shape, dtype=np.int64))
    return np.frombuffer(data, np.float64, count, desc["offset"]).reshape(shape), desc["bias"]


def float_errors(expected, got, dtype, limits):
    """Errors in units of their limits. What must be equal may differ by the rounding alone."""
    expected = round_overflow(np.asarray(expected, np.float64), dtype)
    got = np.asarray(got, np.float64)
    limit = limits[0] if limits else np.zeros(got.shape)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        rounding = np.abs(np.where(np.isfinite(expected), expected, 0)) * EPSILON[dtype] / 2
        error = np.abs(got - expected) / (limit + rounding + LEAST[dtype])
    same = (expected == got) | (np.isnan(expected) & np.isnan(got))
    odd = np.isnan(expected) | np.isnan(got) | np.isinf(expected) | np.isinf(got)
    error = np.where(odd, np.inf, error)
    return np.where(same, 0.0, error)


def common_factor(expected, got, limits):
    """The least-squares factor between result and reference, as measure.c computes it, less 1."""
    limit, bias = limits
    with np.errstate(invalid="ignore"):
        good = np.isfinite(expected) & np.isfinite(got) & (np.abs(expected) >= 4 * limit)
    if bias == 0 or good.sum() < 8:
        return 0.0
    weight = 1 / limit[good]
    x, y = expected[good] * weight, got[good] * weight
    return float(np.dot(x, y) / np.dot(x, x) - 1)


def compare_output(expected, got, desc, limits):
    """None, or what is wrong."""
    dtype = desc["dtype"]
    expected = np.asarray(expected)
    if list(expected.shape) != desc["shape"]:
        return f"expected shape {list(expected.shape)}, got {desc['shape']}"
    if dtype in EPSILON:
        error = float_errors(expected, got, dtype, limits)
    else:
        error = np.where(expected.astype(got.dtype) == got, 0.0, np.inf)
    bad = np.flatnonzero(~(error <= 1))
    if bad.size:
        first = bad[0]
        limit = limits[0].reshape(-1)[first] if limits else 0
        return (f"element {first} of {got.size}: expected {expected.reshape(-1)[first]!r}, got "
                f"{got.reshape(-1)[first]!r}, limit {limit:.3g}; {bad.size} bad, worst error "
                f"{np.max(error):.3g} limits")
    if limits and dtype in EPSILON:
        factor = common_factor(np.asarray(expected, np.float64), got.astype(np.float64), limits)
        if abs(factor) > limits[1]:
            return f"results are {1 + factor:.6g} times the expected ones"
    return None


def check_case(case, data, function):
    """A list of what is wrong."""
    inputs = [load_tensor(data, desc) for desc in case["in"]]
    outputs = [load_tensor(data, desc) for desc in case["out"]]
    attrs = {key: value for key, value in case["attrs"].items() if key != "_"}
    attrs["_in"] = [desc and desc["dtype"] for desc in case["in"]]
    attrs["_out"] = [desc["dtype"] for desc in case["out"]]
    attrs["_out_shape"] = [desc["shape"] for desc in case["out"]]
    attrs["_op"] = case["op"]
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            expected = function(attrs, *inputs)
    except Exception as error:  # a mistake of the reference is a failure of the case
        return [f"reference raised {type(error).__name__}: {error}"]
    if expected is NotImplemented:
        return None
    if not isinstance(expected, (tuple, list)):
        expected = [expected]
    if len(expected) != len(outputs):
        return [f"expected {len(expected)} results, got {len(outputs)}"]
    wrong = []
    for i, (want, got) in enumerate(zip(expected, outputs)):
        limits = load_limits(data, case["limit"][i], case["out"][i]["shape"])
        what = compare_output(want, got, case["out"][i], limits)
        if what:
            wrong.append(f"out{i}: {what}")
    return wrong


class Counts:
    def __init__(self):
        self.passed, self.failed, self.skipped = 0, 0, 0
        self.families = {}
        self.missing = set()
        self.seconds = {}

    def add(self, case, verdict):
        setattr(self, verdict, getattr(self, verdict) + 1)
        family = self.families.setdefault(case["family"], dict(passed=0, failed=0, skipped=0))
        family[verdict] += 1


def run_case(case, data, refs, counts, verbose):
    functions = refs.get(case["op"], [])
    if not functions:
        counts.missing.add(case["op"])
        counts.add(case, "skipped")
        return
    verdict = "skipped"
    for name, function in functions:
        start = time.monotonic()
        wrong = check_case(case, data, function)
        counts.seconds[case["op"]] = (counts.seconds.get(case["op"], 0.0)
                                      + time.monotonic() - start)
        if wrong is None:
            continue  # this reference does not cover the case
        for line in wrong:
            print(f"FAIL {name}: {case['case']}\n  {line}")
        if wrong:
            verdict = "failed"
        elif verdict == "skipped":
            verdict = "passed"
    counts.add(case, verdict)
    if verbose and verdict != "failed":
        print(f"{verdict} {case['case']}")


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--optest")
    parser.add_argument("--filter", default="")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("folder", type=Path)
    args = parser.parse_args()
    incomplete = False
    if args.optest:
        command = [args.optest, "--device", "ref", "--dump", str(args.folder), *optest_share(4)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode != 0:
            print(done.stdout)
            print("FAIL optest --dump; comparing what it wrote")
            incomplete = True
    refs, whole = load_refs(Path(__file__).resolve().parent)
    data = (args.folder / "data.bin").read_bytes()
    counts = Counts()
    with open(args.folder / "cases.jsonl", encoding="utf-8") as lines:
        for line in lines:
            case = json.loads(line)
            if args.filter in case["case"]:
                run_case(case, data, refs, counts, args.verbose)
    for family, n in counts.families.items():
        print(f"{family:12} {n['passed']:6} passed, {n['failed']} failed, {n['skipped']} skipped")
    slow = sorted(counts.seconds.items(), key=lambda item: -item[1])[:5]
    print("slowest:", ", ".join(f"{op} {seconds:.1f} s" for op, seconds in slow))
    missing = sorted(counts.missing - WITHOUT_REFERENCE.keys())
    if missing and not whole:
        print("not compared, for want of a package:", " ".join(missing))
        missing = []
    if missing:
        print("FAIL operations without a reference:", " ".join(missing))
    if counts.passed == 0:
        print("FAIL no case was compared")
    print(f"{counts.passed} passed, {counts.failed} failed, {counts.skipped} skipped")
    return 1 if counts.failed or missing or incomplete or counts.passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
