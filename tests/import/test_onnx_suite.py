#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""ONNX's own node cases, made by the package `onnx` and checked with `rlx verify --suite`: at least
as many pass as when this was written, and none of those that are in reach gives a wrong result.

Exit status: 0 so it is, 1 not, 77 the package cannot be had here.
"""
import json
import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from packages import BUILD, import_wheels, skip  # noqa: E402

TOOL = os.environ.get("RLX_TOOL", "build/rlx")
# Cases of 1,884 that pass on each device; a number may only grow.
FLOORS = {"cpu": 1789, "ref": 1789}
# Wrong beyond the suite's tolerances, and why.
ROUNDING = ("bf16", "fp16", "float16")  # rounded at other places than in ONNX's reference
KNOWN = {
    "test_dft": "rounding of f32", "test_dft_axis": "rounding of f32",
    "test_dft_opset19": "rounding of f32", "test_dft_axis_opset19": "rounding of f32",
    "test_dft_inverse": "expects a rounding error of 2e-7",
    "test_dft_inverse_opset19": "expects a rounding error of 2e-7",
    **{f"test_bernoulli{a}{b}": "random numbers" for a in ("", "_double", "_seed")
       for b in ("", "_expanded")},
    "test_bitshift_right_int32_negative_shift": "negative shifts",
    "test_bitshift_right_int8_negative_shift": "negative shifts",
}


def write_case(folder, case, numpy_helper):
    """One case in the layout of ONNX's suites; sequences and optionals are left out."""
    folder.mkdir(parents=True)
    (folder / "model.onnx").write_bytes(case.model.SerializeToString())
    (folder / "meta.json").write_text(json.dumps({"rtol": case.rtol, "atol": case.atol}))
    for k, (inputs, outputs) in enumerate(case.data_sets):
        place = folder / f"test_data_set_{k}"
        place.mkdir()
        for kind, values in (("input", inputs), ("output", outputs)):
            for i, value in enumerate(values):
                if hasattr(value, "SerializeToString"):
                    data = value.SerializeToString()
                elif isinstance(value, (list, dict)) or value is None:
                    continue
                else:
                    data = numpy_helper.from_array(value).SerializeToString()
                (place / f"{kind}_{i}.pb").write_bytes(data)


def make_suite(folder):
    import onnx.backend.test.case.node as node
    from onnx import numpy_helper
    warnings.simplefilter("ignore")
    new = folder.with_suffix(f".{os.getpid()}")
    shutil.rmtree(new, ignore_errors=True)
    cases = list(node.collect_testcases(None))
    for case in cases:
        write_case(new / case.name, case, numpy_helper)
    new.rename(folder)


def check_device(suite, device):
    run = subprocess.run([TOOL, "verify", "--suite", suite, "--device", device, "--json"],
                         check=False, capture_output=True, text=True)
    if not run.stdout:
        print(f"{device}: {run.stderr.strip()}")
        return False
    result = json.loads(run.stdout)
    print(f"{device}: {result['passed']} passed, {result['failed']} failed, "
          f"{result['skipped']} skipped of {len(result['cases'])}")
    wrong = [c for c in result["cases"] if c["result"] == "failed" and c["case"] not in KNOWN
             and not any(t in c["case"] for t in ROUNDING)]
    for c in wrong:
        print(f"  {c['case']}: {c['reason']}")
    if result["passed"] < FLOORS[device]:
        print(f"  expected at least {FLOORS[device]} to pass")
    return not wrong and result["passed"] >= FLOORS[device]


def main():
    import_wheels("onnx", "ml_dtypes", "numpy", "protobuf", "typing_extensions")
    try:
        import onnx  # noqa: F401
    except (ImportError, AttributeError) as e:
        skip(f"onnx: {e}")
    suite = BUILD.resolve() / "onnx-node"
    if not suite.exists():
        make_suite(suite)
    return 0 if all([check_device(str(suite), d) for d in FLOORS]) else 1


if __name__ == "__main__":
    sys.exit(main())
