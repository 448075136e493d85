#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""bench/compare with workers that measure nothing: the ratios are known, the table, the JSON and
the pictures are well-formed, a peer that cannot do a case is left out, one that breaks is named."""
import json
import os
import subprocess
import sys
import tempfile
import xml.dom.minidom
from pathlib import Path

ROOT = Path(os.environ.get("RLX_SOURCE_DIR", Path(__file__).resolve().parents[2]))
RATIOS = {"numpy": 2.0, "onnxruntime": 1.5, "torch": 0.5, "llama.cpp": 3.0}
failures = 0


def check(ok, text):
    global failures
    if not ok:
        failures += 1
        print(f"failed: {text}")


def compare(*arguments):
    said = subprocess.run([sys.executable, str(ROOT / "bench" / "compare"), *arguments], text=True,
                          capture_output=True, check=False, timeout=600)
    check(not said.stderr, f"compare {arguments}: {said.stderr}")
    return said


def check_json(run):
    for key in ("date", "commit", "machine", "versions", "roof", "options", "clock", "rows",
                "kernels", "measurements", "load_after"):
        check(key in run, f"JSON: {key}")
    check(run["machine"]["cpu"] and run["machine"]["cores"] > 0, "JSON: the machine")
    check(set(run["versions"]) == {"rlx", *RATIOS}, "JSON: a version for every peer")
    for row in run["rows"]:
        for clock in ("cpu", "wall"):
            r = row["ratio"][clock]
            check(abs(r["median"] / RATIOS[row["peer"]] - 1) < 0.02, f"ratio: {row}")
            check(r["p10"] <= r["median"] <= r["p90"], f"spread: {row}")
    peers = {(r["section"], r["peer"]) for r in run["rows"]}
    check(("FFT", "numpy") in peers and ("FFT", "torch") not in peers, "unsupported is left out")
    check(any("something broke" in note for note in run["notes"]), "what broke is named")
    check({r["threads"] for r in run["rows"]} == {1, 2}, "one thread and two")
    kernels = run["kernels"][0]["kernels"]
    check([round(k["seconds"], 7) for k in kernels] == [8e-4, 2e-4], f"kernels: {kernels}")
    samples = run["measurements"][0]["samples"]
    check(set(samples) >= {"rlx", "numpy"} and len(samples["rlx"]) == 3, "raw samples by round")


def check_picture(path, *words):
    xml.dom.minidom.parse(str(path))
    text = path.read_text(encoding="utf-8")
    for word in words:
        check(word in text, f"{path.name}: {word}")


with tempfile.TemporaryDirectory() as folder:
    out = Path(folder)
    said = compare("--self-test", "--rounds", "3", "--host", "here", "--out", folder,
                   "--clock", "cpu")
    check(said.returncode == 0, said.stdout[-500:])
    check("sgemm 1024^3" in said.stdout and "llama.cpp" in said.stdout, "the table")
    check("geometric mean 2.00" in said.stdout, "the mean of a peer")
    files = {p.suffix: p for p in out.iterdir() if p.suffix != ".svg"}
    check(set(files) == {".json", ".md"} and "-here-" in files[".json"].name, f"files: {files}")
    check_json(json.loads(files[".json"].read_text(encoding="utf-8")))
    check("| sgemm 17^3 | 1 | NumPy |" in files[".md"].read_text(encoding="utf-8"), "Markdown")
    pictures = {p.stem.rsplit("-", 1)[1]: p for p in out.glob("*.svg")}
    check(set(pictures) == {"speed", "ratio", "kernels"}, f"pictures: {pictures}")
    check_picture(pictures["speed"], "roof 100", "<polyline", "2 threads")
    check_picture(pictures["ratio"], "goal 0.95", "llama.cpp", "<rect")
    check_picture(pictures["kernels"], "gemm.fake", "80.0 %")

    gpu = out / "gpu"
    said = compare("--self-test", "--quick", "--device", "vulkan", "--peers", "torch", "--out",
                   str(gpu))
    check(said.returncode == 0 and "short" in said.stdout, "a GPU, and rows below their goal")
    run = json.loads(next(gpu.glob("*.json")).read_text(encoding="utf-8"))
    check(run["clock"] == "wall" and run["roof"] is None, "a GPU has wall time and no roof")
    check(compare("--self-test", "--only", "nothing", "--no-save").returncode == 1, "no case")

print("ok" if not failures else f"{failures} checks failed")
sys.exit(1 if failures else 0)
