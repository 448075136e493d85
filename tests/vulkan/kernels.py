#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""rlx kernels: what drivers make of the kernels. On the Vulkan device that is there: the command,
its JSON, its errors. On Mesa's RADV without hardware, for Vega and RDNA 1 to 4: each
kernel that such a card would use for the suite compiles, and none keeps registers in memory.

kernels.py tool: the first part. kernels.py radv: the second; RLX_TEST_LAVAPIPE is where
tools/fetch/lavapipe.sh puts the driver. RLX_TEST_EVERY=1: all policies and families, else the share
that RLX_TEST_SEED chooses."""
import os
import subprocess
import sys
from pathlib import Path
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "cli"))
from cli import *

# As RADV_FORCE_FAMILY has them, and whether the driver offers matrices for them.
FAMILIES = {"vega10": False, "navi10": False, "navi21": False, "navi31": True, "gfx1201": False}


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def check_tool():
    if not devices("vulkan"):
        skip("no Vulkan device")
    cases = ["matmul:f32:64x64x64", "softmax:f32:64x64", "gelu:f32:1000", "minilm:f16:1x16"]
    all_of = expect_json("kernels", *cases)
    names = [k["kernel"] for k in all_of["kernels"]]
    check(any(n.startswith("matmul") for n in names) and "emitted" in names, f"kernels: {names}")
    check(all_of["failed"] == 0 and all_of["device"].startswith("vulkan:"), "kernels: the device")
    for k in all_of["kernels"]:
        check(k["local"] > 0 and k["dispatches"] >= 0 and k["used_by"] in cases, f"kernels: {k}")
    both = [(k["kernel"], k["constants"], k["local"]) for k in all_of["kernels"]
            if k["kernel"] != "emitted"]
    check(len(set(both)) == len(both), f"kernels: each is there once: {both}")
    only = expect_json("kernels", *cases, "--kernel", "matmul")["kernels"]
    check(only and all("matmul" in k["kernel"] for k in only), f"--kernel: {only}")
    exact = expect_json("kernels", "dequant_matmul:q4_0:128x256x256", "--policy", "exact")
    check(exact["kernels"], "kernels --policy exact")
    graph = sorted(GRAPHS.glob("*.rlx"))[0]
    check(expect_json("kernels", graph)["kernels"], f"kernels {graph}")
    expect(0, "kernels", cases[0], out="matmul")
    expect(1, "kernels", cases[0], "--device", "cpu", err="cannot be opened to compile only")
    expect(2, "kernels", "matmul:f99:4x4x4", err="unknown type")
    expect(1, "kernels", "no such file.rlx", err="no such file.rlx")


def prepare_radv():
    folder = os.environ["RLX_TEST_LAVAPIPE"]
    fetched = subprocess.run(["sh", SOURCE / "tools/fetch/lavapipe.sh", folder],
                             capture_output=True, text=True)
    if fetched.returncode == 77:
        skip(fetched.stdout.strip())
    check(fetched.returncode == 0, f"lavapipe.sh: {fetched.stdout}{fetched.stderr}")
    return {"VK_DRIVER_FILES": f"{folder}/radv.json", "VK_ICD_FILENAMES": f"{folder}/radv.json",
            "LD_LIBRARY_PATH": f"{folder}/lib"}


def check_family(family, env, policy):
    env = {**env, "RADV_FORCE_FAMILY": family}
    result = expect_json("kernels", "--strict", "--device", "vulkan", *policy, env=env)
    if not result:
        return
    kernels = result["kernels"]
    check(len(kernels) > 60 and result["failed"] == 0, f"{family}: {len(kernels)} kernels")
    for k in kernels:
        stats = k["statistics"]
        check(stats.get("VGPRs", 0) > 0, f"{family}: statistics of {k['kernel']}: {stats}")
        check(stats.get("Spilled VGPRs") == 0 and stats.get("Scratch size") == 0,
              f"{family}: registers in memory: {k}")
        # Tiles of attention fill the shared memory of Vega's units by themselves.
        least = 1 if family == "vega10" and k["kernel"].startswith("attention") else 2
        check(stats.get("Subgroups per SIMD", 0) >= least, f"{family}: occupancy: {k}")
    check_matrices(family, kernels, policy)


def check_matrices(family, kernels, policy):
    """Products and packed ones by matrices where there are some."""
    users = {k["used_by"].split(":")[0] for k in kernels if "coop" in k["kernel"]}
    want = {"matmul", "conv2d"} if FAMILIES[family] else set()
    if want and not policy:
        want.add("dequant_matmul")
    check(users >= want and bool(users) == FAMILIES[family], f"{family}: matrices for {users}")
    print(f"{family} {' '.join(policy)}: {len(kernels)} kernels, matrices for {sorted(users)}")


def check_radv():
    env = prepare_radv()
    runs = [(f, p) for f in FAMILIES for p in ([], ["--policy", "exact"])]
    seed = int(os.environ.get("RLX_TEST_SEED", "0"))
    if os.environ.get("RLX_TEST_EVERY") != "1": # matrices, and one other
        others = [r for r in runs if r[0] != "navi31"]
        runs = [("navi31", []), others[seed % len(others)]]
    for family, policy in runs:
        check_family(family, env, policy)


skip_without_tool()
check_tool() if sys.argv[1:] == ["tool"] else check_radv()
finish()
