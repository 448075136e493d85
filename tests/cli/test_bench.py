#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""rlx bench and explain: cases, JSON, pictures, traces, every error."""
import re
import xml.dom.minidom
from cli import *

skip_without_tool()

QUICK = ["--min-time", "0.001"]
KEYS = {"case", "device", "ms_median", "ms_best", "gflops", "gbps"}

# One small case of every form.
CASES = """
matmul:f32:16x16x16 matmul:f16:3x8x16x5 matmul:f32:5x7x3:trans_b=true dequant_matmul:q4_0:2x8x64
dequant_matmul:q4_k:1x4x256 attention:f32:1x4x8x16 attention:f32:1x4x8x16:kv=2:causal=true
attention:f16:1x4x1x16,1x2x9x16 conv2d:f32:1x4x8x8:6x3x3 conv2d:f32:1x4x9x9:8x3x3:stride=2:pad=1
conv2d:f32:1x4x8x8:4x3x3:groups=4 conv1d:f32:1x4x16:4x3 conv3d:f32:1x2x4x4x4:2x3x3x3
conv2d:f32:1x4x8x8:6x3x3:pad=0:dilation=[2,2] top_k:f32:4x16:k=3
conv_transpose2d:f32:1x4x8x8:6x3x3 layer_norm:f32:4x16 rms_norm:f16:4x16 residual_norm:f32:4x16
group_norm:f32:1x16x4x4 instance_norm:f32:1x4x4x4 layer_norm2d:f32:1x4x4x4
batch_norm_inference:f32:1x4x4x4 rope:f32:1x2x4x8 gather:f32:10x4,3 gather:q4_0:10x64,3
lstm:f32:3x2x4x5 gru:f32:3x2x4x5 rnn:f32:3x2x4x5 selective_scan:f32:1x4x8x4 where:f32:4x4
fma:f32:4x4 add:f32:4x4 add:f32:4x4,4 mul:bf16:16 swiglu:f32:4x8 concat:f32:4x4,4x2 softmax:f32:4x8
log_softmax:f32:4x8 cumsum:f32:4x8 top_k:f32:4x16 sort:f32:4x8 argsort:f32:4x8 argmax:f32:4x8
reduce_sum:f32:4x8 reduce_mean:f32:4x8:axes=[0] reduce_any:bool:4x8 rfft:f32:4x10 fft:f32:2x12x2
irfft:f32:2x6x2 stft:f32:2x800 pool2d:f32:1x2x8x8 im2col:f32:1x2x8x8 histogram:f32:100
cast:f32:4x4 clamp:f32:4x4 one_hot:i32:8 roll:f32:4x4 reverse:f32:4x4 copy:f32:4x4 transpose:f32:4x6
gelu:f32:100 exp:f16:100 resize_nearest_2x:f32:1x2x4x4
gather_elements:f32:8x9,8x5 gather_nd:f32:8x9,5x2 scatter_nd:f32:8x9,5x2,5 scatter_add:f32:8x3,5,5x3
grouped_matmul:f32:5x7x6,3 dequant_grouped_matmul:q8_0:5x7x32,3 dequant_moe_weights:f16:4x3x5,2
ragged_attention:f32:3x4x32x16:kv=2 quantize:f32:4x5 dequantize:i8:4x5 random_uniform:f16:4x5
log_mel:f32:6x20x2,5x20 welch_peaks:f32:4x33x2 knn:f32:20x20 pool3d:f32:1x2x4x4x4
group_limited_gate:f32:3x32 ada_layer_norm:f32:4x8,8,8 gated_residual:f32:4x8,4x8,8
""".split()
results = expect_json("bench", *CASES, *QUICK)
check([r["case"] for r in results] == CASES, "bench --json: every case, in order")
for r in results:
    check(KEYS <= set(r), f"bench --json: keys of {r}")
    check(r["ms_median"] >= r["ms_best"] > 0 and r["gbps"] > 0, f"bench: {r}")
flops = {r["case"]: r["flops"] for r in results}
check(flops["matmul:f32:16x16x16"] == 2 * 16 ** 3, "flop of matmul")
check(flops["conv2d:f32:1x4x8x8:6x3x3"] == 2 * 6 * 4 * 9 * 64, "flop of conv2d")
check(flops["attention:f32:1x4x8x16"] == 4 * 4 * 8 * 8 * 16, "flop of attention")
check(flops["grouped_matmul:f32:5x7x6,3"] == 2 * 5 * 7 * 6, "flop of grouped products")
check(flops["ragged_attention:f32:3x4x32x16:kv=2"] == 4 * 3 * 4 * 32 * 16, "flop of ragged rows")

expect(0, "bench", "add:f32:4x4", *QUICK, out="GFLOP/s")
both = expect_json("bench", "add:f32:4x4", "--device", "cpu,ref", *QUICK)
check([r["device"] for r in both] == ["cpu", "ref"], "bench: devices with a comma")
both = expect_json("bench", "add:f32:4x4", "--device", "cpu", "--device", "ref", *QUICK)
check([r["device"] for r in both] == ["cpu", "ref"], "bench: --device twice")
expect(0, "bench", "matmul:f32:4x4x4", "--threads", 1, *QUICK)
expect(0, "bench", "--list", out="MxNxK or BATCHxMxNxK")
names = expect(0, "bench", "--list", "soft*").split()
check(names and all(n.startswith("soft") for n in names), "bench --list PATTERN")
expect(0, "bench", "rfft*", *QUICK, out="rfft:f32:256x1024")

# Pictures are well-formed.
bars, lines = TMP / "bars.svg", TMP / "lines.svg"
expect(0, "bench", "add:f32:4x4", "matmul:f32:16x16x16", "--device", "cpu,ref", "--plot", bars,
       *QUICK)
expect(0, "bench", *(f"gelu:f32:{n}" for n in (16, 64, 256)), "--plot", lines, *QUICK)
check("add:f32:4x4" in bars.read_text() and "<rect" in bars.read_text(), "bars")
check("<polyline" in lines.read_text(), "speed against size")
for picture in (bars, lines):
    xml.dom.minidom.parse(str(picture))

# Many sequences at once.
curve = TMP / "curve.svg"
MANY = ["bench", "--model", SOURCE / "models" / "tiny-stories.gguf", "--device", "cpu",
        "--prompt-tokens", 8, "--tokens", 3]
points = expect_json(*MANY, "--sequences", "1,3,4", "--plot", curve)
check([p["sequences"] for p in points] == [1, 3, 4], f"bench --sequences: {points}")
for p in points:
    check(p["prompt_tokens_per_s"] > 0 and p["ms_per_step"] > 0, f"bench --sequences: {p}")
    check(abs(p["decode_tokens_per_s"] * p["ms_per_step"] / 1e3 / p["sequences"] - 1) < 1e-3,
          f"bench --sequences: a step has a token of each: {p}")
xml.dom.minidom.parse(str(curve))
check("<polyline" in curve.read_text() and "sequences" in curve.read_text(), "the curve")
expect(0, *MANY, "--sequences", 2, "--profile", out="decode tokens/s", err="2 sequences: a step")
asked = "open sequences 3x2 %s fast\ntime 0\nclose\nopen sequences 3 x\n" % MANY[2]
replies = [json.loads(x) for x in expect(0, "bench", "--pipe", "--device", "cpu", stdin=asked)
           .splitlines()]
check(replies[2]["samples"][0][0] > 0 and "NxTOKENS" in replies[4]["error"], f"pipe: {replies}")
ONNX_CASES = SOURCE / "tests" / "import" / "onnx-cases"
asked = (f"open onnx {ONNX_CASES}/gelu/model.onnx {TMP} fast\ntime 0\nsteps\n"
         f"open onnx {TMP}/none.onnx {TMP}\ntime 0\n")
replies = [json.loads(x) for x in expect(0, "bench", "--pipe", "--device", "cpu", stdin=asked,
                                         err="none.onnx").splitlines()]
check(replies[2]["samples"][0][0] > 0 and replies[3]["steps"], f"pipe: an ONNX model: {replies}")
check("error" in replies[4] and "error" in replies[5], f"pipe: no such model: {replies}")
for bad in ("0", "1,", "x", "4,513"):
    expect(2, *MANY, "--sequences", bad, err="--sequences expected")
expect(2, "bench", "--sequences", "1", err="--sequences has no effect here; it goes with --model")

# Mistakes.
expect(2, "bench", err="expected cases such as matmul:f32:1024x1024x1024")
expect(2, "bench", "matmull:f32:4x4x4", err="did you mean 'matmul'?")
expect(2, "bench", "matmul", err="expected OP:TYPE:SHAPE")
expect(2, "bench", "matmul:f33:4x4x4", err="unknown type 'f33'")
expect(2, "bench", "matmul:f32:4x4xq", err="expected a shape such as 64x128, got '4x4xq'")
expect(2, "bench", "matmul:f32:a=1", err="a shape is missing")
expect(1, "bench", "grouped_matmul:f32:4x4x4", err="expected MxNxK and the number of matrices")
expect(1, "bench", "ragged_attention:f32:2x4x33x8", err="TOKENS a multiple of 16")
expect(1, "bench", "scatter_add:f32:4x4,2", err="the shapes of x, of the indices and")
expect(2, "bench", "nothing*", err="matches no case of the suite")
expect(2, "bench", "--suite", "everything", err="--suite expected ops")
expect(1, "bench", "matmul:f32:4x4", *QUICK, err="expected MxNxK")
expect(1, "bench", "softmax:f32:4x4:axis=7", *QUICK, err="axis")
expect(1, "bench", "add:f32:4x4", "--device", "nonsense", err="nonsense")
expect(1, "bench", "add:f32:4x4", "--plot", "/nonexistent/x.svg", *QUICK, err="cannot write")
some = expect_json("bench", "matmul:f32:4x4", "add:f32:4x4", *QUICK, status=1)
check([r["case"] for r in some] == ["add:f32:4x4"], "bench: a case that fails leaves the others")

# Explain.
for graph in sorted(GRAPHS.glob("*.rlx")):
    picture, trace = TMP / "plan.svg", TMP / "trace.json"
    expect(0, "explain", graph, "--profile", "--memory-svg", picture, "--trace", trace,
           out="Stages")
    xml.dom.minidom.parse(str(picture))
    events = json.loads(trace.read_text())["traceEvents"]
    check(sum(e["ph"] == "X" for e in events) > 1, f"trace of {graph.name}")
    facts = expect_json("explain", graph)
    check([s["stage"] for s in facts["stages"]] ==
          ["verify", "fold", "legalise", "fuse", "plan", "schedule"], f"stages of {graph.name}")
    check(len(facts["steps"]) == sum(e["ph"] == "X" for e in events), "steps and events")
    check(facts["memory"]["arena"] <= 1.1 * facts["memory"]["bound"], f"plan of {graph.name}")
    for stage in ("verify", "fold", "legalise", "fuse"):
        text = expect(0, "explain", graph, "--dump", stage, out="graph ")
        expect(0, "inspect", "-", stdin=text, out="operations")
    expect(0, "explain", graph, "--dump", "plan", out="arena")
    expect(0, "explain", graph, "--dump", "schedule", out="program")
mlp = GRAPHS / "mlp.rlx"

# The kernels that explain names, and those of the report, are those of a run.
REPORT = {"RLX_DISPATCH_REPORT": "1"}
for graph in sorted(GRAPHS.glob("*.rlx")):
    for device in ["cpu", "ref"] + devices("vulkan", "webgpu"):
        for dims in [], [f"--dim={d}=1" for d in expect_json("inspect", graph)["dims"]]:
            common = [graph, "--device", device, *dims]
            steps = expect_json("explain", *common)["steps"]
            _, _, log = run("run", *common, "--random-params", "--random-inputs", env=REPORT)
            told = re.findall(r"dispatch \d+: .*, kernel (.*)", log)
            check(told and told == [s["kernel"] for s in steps],
                  f"kernels of {graph.name} on {device} {dims}: {steps} {log}")
            check("not chosen yet" not in told, f"kernels of {graph.name}: {told}")
expect(0, "explain", mlp, "--cost", out="estimate")
costs = expect_json("explain", mlp, "--cost", "--device", "cpu")["cost"]
check([c["device"] for c in costs] == ["cpu"] and costs[0]["estimate_ms"] > 0 and
      costs[0]["measured_ms"] > 0, "explain --cost: the device asked for")
expect(0, "explain", mlp, "--no-fusion", "--device", "ref", out="on ref")
expect(2, "explain", mlp, "--dump", "nothing", err="--dump expected one of verify, fold")
expect(1, "explain", mlp, "--memory-svg", "/nonexistent/x.svg", err="cannot write")
expect(0, "explain", mlp, "--memory-svg", TMP / "plan.svg", err="Drew the memory plan to ")
expect(2, "bench", "--model", "x.gguf", "--plot", "x.svg", err="--plot has no effect here")
expect(1, "explain", mlp, "--trace", "/nonexistent/x.json", err="cannot write")
expect(1, "explain", "absent.rlx", err="cannot open 'absent.rlx'")

finish()
