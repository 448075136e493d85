#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""rlx tune on Vulkan: what it prints, what it keeps and forgets, that every variant computes the
same, its errors. Which variant is the fastest is not tested."""
from cli import *

skip_without_tool()

GRAPH = write("tune.rlx", """graph "tune" {
  dim rows <= 64
  %x: f16[rows,256] = input "x"
  %w: f16[64,256] = param "w"
  %y = matmul(%x, %w) {trans_b=true}
  output "y" = %y
}
""")
VERDICTS = {"same", "slower", "faster", "wrong", "failed"}
VULKAN = ["--device", "vulkan"]

expect(2, "tune", err="expected one GRAPH, or --model MODEL")
expect(2, "tune", GRAPH, "--model", "x.gguf", err="expected one GRAPH")
expect(2, "tune", GRAPH, "--reset", err="--reset takes no graph")
expect(1, "tune", GRAPH, "--device", "cpu", err="device cpu has no kernel variants")
expect(1, "tune", "none.rlx", *VULKAN, err="none.rlx")
if not devices("vulkan"):
    finish()
    sys.exit(0)


def kept():
    return expect_json("devices", *VULKAN)[0]["calibration"]["kernels"]


cache = TMP / "cache"
os.environ["RLX_CACHE_DIR"] = str(cache)
before = kept()
tried = expect_json("tune", GRAPH, "--dim", "rows=1", "--dry-run", *VULKAN)
check(not tried["kept"] and kept() == before, "--dry-run keeps nothing")
trials = tried["trials"]
check(len({(t["kernel"], t["variant"]) for t in trials}) == len(trials) > 15, f"trials: {trials}")
check({t["verdict"] for t in trials} <= VERDICTS - {"wrong", "failed"}, f"verdicts: {trials}")
run = {t["kernel"] for t in trials if t["verdict"] != "same"}
check(run == {"gemv"}, f"of one row only gemv is run: {run}")
for t in trials:
    check((t["seconds"] > 0) == (t["verdict"] != "same") and t["run"] == str(GRAPH), f"trial {t}")

tuned = expect_json("tune", GRAPH, "--dim", "rows=1", *VULKAN)
check(tuned["kept"] and kept() == tuned["kernels"], f"kept {kept()}, found {tuned['kernels']}")
check(len(list(cache.glob("tuned-*.bin"))) == 1, "one file of the device")
expect(0, "tune", "--reset", *VULKAN, out="the usual kernels are used")
check(kept() == "", "--reset")

# A choice is taken, and gives the same.
ARGS = ["run", GRAPH, "--input", "x=random:1", "--param", "w=random:2", "--dim", "rows=1", *VULKAN]
usual = expect_json(*ARGS)["outputs"]
plain = expect(0, "explain", GRAPH, "--dump", "select", "--dim", "rows=1", *VULKAN)
for variant in ("64x4", "256x8"):
    env = {"RLX_KERNELS": f"gemv={variant}"}
    same = expect_json(*ARGS, env=env)["outputs"]
    check(abs(same[0]["mean"] - usual[0]["mean"]) < 1e-3, f"{variant}: {same}, not {usual}")
    other = expect(0, "explain", GRAPH, "--dump", "select", "--dim", "rows=1", *VULKAN, env=env)
    check(other != plain and "gemv" in other, f"{variant} is not in: {other}")

# A model: a prompt, then a step.
MODEL = SOURCE / "models" / "tiny-stories.gguf"
both = expect_json("tune", "-m", MODEL, "--prompt", 2, "--dry-run", *VULKAN)["trials"]
check({t["run"] for t in both} == {"prompt", "step"}, f"runs of a model: {both}")
check({"quant_gemv"} == {t["kernel"] for t in both if t["verdict"] == "slower" or t["seconds"]},
      f"kernels of a model: {both}")
check(not {t["verdict"] for t in both} & {"wrong", "failed"}, f"verdicts of a model: {both}")
expect(1, "tune", GRAPH, *VULKAN, env={"RLX_KERNELS": "gemv=64x4"}, err="unset it")
finish()
