#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""--gpu-layers: layers on a GPU and on the CPU give the tokens of the CPU, wherever they are
divided; a GPU with too little memory (RLX_LIMITS) gets the layers that fit."""
from cli import *

skip_without_tool()
MODEL = SOURCE / "models" / "tiny-stories.gguf"
ASK = ["--model", MODEL, "--prompt", "Once upon a time", "--max-tokens", 12, "--ctx", 256,
       "--prompt-chunk", 64]
LAYERS = 4


def generate(*args, **how):
    return expect_json("generate", *ASK, *args, **how)


want = generate("--device", "cpu", "--policy", "exact")
check(want["host_layers"] == 0, f"on the CPU: {want}")
for wrong in ("-1", "many", "3x", ""):
    expect(2, "generate", *ASK, "--gpu-layers", wrong, err="--gpu-layers expected auto or a number")
expect(0, "generate", *ASK, "--device", "cpu", "--gpu-layers", 2,
       err="--gpu-layers has no effect: all layers are on cpu")
expect(2, "bench", "add:f32:8", "--gpu-layers", 2, err="it goes with --model")
gpus = devices("vulkan")
if not gpus:
    print("no GPU: not divided")
    sys.exit(finish())
GPU = ["--device", gpus[0], "--policy", "exact"]

for n in range(LAYERS + 1):
    got = generate(*GPU, "--gpu-layers", n)
    check(got["tokens"] == want["tokens"], f"--gpu-layers {n}: other tokens than on the CPU")
    on_host = LAYERS - n if 0 < n < LAYERS else 0
    check(got["host_layers"] == on_host, f"--gpu-layers {n}: {got['host_layers']} on the host")
    check(got["device"] == ("cpu" if n == 0 else gpus[0]), f"--gpu-layers {n}: {got['device']}")
whole = generate(*GPU)
check(whole["host_layers"] == 0, f"auto with enough memory: {whole}")
expect(0, "generate", *ASK, *GPU, "--gpu-layers", 3, "--stats",
       err="layers: 1 to 1 on the CPU (weights ")

# A GPU that has two thirds of what the model needs; and one that has room for nothing.
need = sum(whole[k] for k in ("weight_bytes", "cache_bytes", "work_bytes"))
small = {"RLX_LIMITS": f"memory={need * 2 // 3}"}
got = generate(*GPU, env=small)
check(got["tokens"] == want["tokens"] and 0 < got["host_layers"] < LAYERS and
      got["device"] == gpus[0], f"two thirds of the memory: {got}")
expect(1, "generate", *ASK, *GPU, "--gpu-layers", LAYERS, env=small, err="not enough memory")
got = generate(*GPU, env={"RLX_LIMITS": "memory=100000"})
check(got["tokens"] == want["tokens"] and got["device"] == "cpu", f"no memory: {got}")
memory = next(d["memory"] for d in json.loads(run("devices", "--json", env=small)[1])
              if d["id"] == gpus[0])
check(memory == need * 2 // 3, f"rlx devices: {memory} bytes of memory")
bench = expect_json("bench", "--model", MODEL, *GPU, "--gpu-layers", 3, "--prompt-tokens", 8,
                    "--tokens", 4)
check(bench["host_layers"] == 1 and bench["tokens_per_s"] > 0, f"bench: {bench}")

sys.exit(finish())
