#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""rlx run and inspect: inputs and outputs, named dimensions, state, debugging, every error."""
from cli import *

skip_without_tool()

ADD = write("add.rlx", """graph "add" {
  dim n <= 8
  %x: f32[n,2] = input "x"
  %w: f32[2] = param "w"
  %y = add(%x, %w) "sum"
  output "y" = %y
}
""")
x = write_npy("x.npy", "f", (3, 2), [1, 2, 3, 4, 5, 6])
w = write_npy("w.npy", "f", (2,), [10, 20])

# Files in and out; the named dimension comes from the file.
y = TMP / "y.npy"
expect(0, "run", ADD, "--input", f"x={x}", "--param", f"w={w}", "--output", f"y={y}",
       out="y: f32[3,2]")
check(read_npy(y)[1] == [11, 22, 13, 24, 15, 26], f"y.npy holds {read_npy(y)}")
expect(0, "run", ADD, "--input", f"x={x}", "--param-dir", TMP, out="[[11.0000, 22.0000]")
expect(0, "run", "-", "--input", "x=ones", "--param", "w=zeros", "--dim", "n=2",
       stdin=ADD.read_text(), out="[[1.0000, 1.0000]")
got = expect_json("run", ADD, "--input", "x=range", "--param", "w=ones", "--dim", "n=3",
                  "--repeat", 3)
check(got["runs"] == 3 and got["ms_median"] >= got["ms_best"] >= 0, "run --json: times")
check(got["outputs"][0]["shape"] == [3, 2] and got["outputs"][0]["max"] == 6, "run --json: outputs")
expect(0, "run", ADD, "--input", "x=ones", "--param", "w=ones", "--repeat", 3, out="3 runs on")

# Random numbers: the same seed gives the same, another does not.
outs = [expect(0, "run", ADD, "--input", f"x=random:{s}", "--random-params") for s in (1, 1, 2)]
check(outs[0] == outs[1] and outs[0] != outs[2], "random:SEED")
expect(0, "run", ADD, "--random-inputs=5", "--random-params=6")

# Types: f64 and f16 files serve f32, integers must fit.
d = write_npy("d.npy", "d", (1, 2), [0.5, 1.5])
expect(0, "run", ADD, "--input", f"x={d}", "--param", "w=zeros", out="[[0.5000, 1.5000]]")
h = write_npy("h.npy", "e", (1, 2), [0.5, 1.5])
expect(0, "run", ADD, "--input", f"x={h}", "--param", "w=zeros", out="[[0.5000, 1.5000]]")
ID = write("ids.rlx", """graph "ids" {
  %t: f32[4,2] = param "t"
  %i: i32[2] = input "i"
  %y = gather(%t, %i)
  output "y" = %y
}
""")
i64 = write_npy("i64.npy", "q", (2,), [3, -1])
expect(0, "run", ID, "--input", f"i={i64}", "--param", "t=range", out="[[6.0000, 7.0000]")
big = write_npy("big.npy", "q", (2,), [1 << 40, 0])
expect(1, "run", ID, "--input", f"i={big}", "--param", "t=range", err="does not fit i32")
expect(1, "run", ID, "--input", f"i={x}", "--param", "t=range", err="expected i32[2]")
expect(1, "run", ID, "--input", f"i={w}", "--param", "t=range", err="expected numbers of type i32")
far = write_npy("far.npy", "i", (2,), [9, 0])
expect(0, "run", ID, "--input", f"i={far}", "--param", "t=range", err="out of range")
for kind in ("q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q2_k", "q3_k", "q4_k", "q5_k", "q6_k", "q8_k",
             "iq4_nl", "iq4_xs", "mxfp4", "iq1_s", "iq1_m", "iq2_xxs", "iq2_xs", "iq2_s", "iq3_xxs",
             "iq3_s", "tq1_0", "tq2_0", "nvfp4"):
    packed = write("packed.rlx", f"""graph "packed" {{
  %w: {kind}[3,256] = param "w"
  %x: f32[1,256] = input "x"
  %y = dequant_matmul(%x, %w)
  output "y" = %y
}}
""")
    out = expect_json("run", packed, "--random-params", "--input", "x=ones")["outputs"][0]
    check(out["nan"] == out["inf"] == 0 and 0 < out["max_abs"] < 1e4, f"random {kind}: {out}")
expect(1, "run", packed, "--param", "w=ones", "--input", "x=ones", err="packed type")
expect(1, "run", packed, "--param", f"w={w}", "--input", "x=ones", err="bytes of u8")

# The example graphs run on every device, and state goes on from run to run.
for graph in sorted(GRAPHS.glob("*.rlx")):
    for device in ("cpu", "ref", "null"):
        expect(0, "run", graph, "--random-params", "--random-inputs", "--device", device)
    expect(0, "run", graph, "--random-params", "--random-inputs", "--compare", "ref", out="ok")
    expect(0, "run", graph, "--random-params", "--random-inputs", "--dump-nodes", out="max abs")
    expect(0, "run", graph, "--random-params", "--random-inputs", "--profile", out="share")
    expect(0, "run", graph, "--random-params", "--random-inputs", "--find-nan", out="no NaN")
    check(expect_json("run", graph, "--random-params", "--random-inputs", "--dump-nodes"), "dump")
    check(expect_json("run", graph, "--random-params", "--random-inputs", "--profile"), "profile")
    rows = expect_json("run", graph, "--random-params", "--random-inputs", "--compare", "ref")
    check(rows and all(r["compared"] and r["ok"] for r in rows), f"compare --json {graph.name}")
    check(any("output" in r for r in rows), f"compare --json {graph.name}: outputs")
COUNT = write("count.rlx", """graph "count" {
  %s: f32[1] = state "s"
  %one: f32[1] = constant [1]
  %zero: i32[] = constant [0]
  %n = add(%s, %one)
  %t = state_write(%s, %n, %zero)
  output "y" = %t
}
""")
expect(0, "run", COUNT, "--repeat", 5, out="[5.0000]")

# Debugging finds what is wrong.
NAN = write("nan.rlx", """graph "nan" {
  %x: f32[2] = input "x"
  %a = neg(%x)
  %b = log(%a) "bad"
  %c = exp(%b)
  output "y" = %c
}
""")
expect(1, "run", NAN, "--input", "x=ones", "--no-fusion", "--find-nan", out="bad", err="NaN or inf")
expect(1, "run", NAN, "--input", "x=ones", "--compare", "null", err="part at the last row")

# Where a device decomposes, what both have is compared, the outputs always, and the rest is told.
PARTS = write("parts.rlx", """graph "parts" {
  %x: f32[4,8] = input "x"
  %a = roll(%x) {axis=0, shift=1}
  %c = reshape(%a) {shape=[1,1,4,8]}
  %b = resize_nearest_2x(%c) "larger"
  output "y" = %a
  output "z" = %b
}
""")
ALL = ["run", PARTS, "--random-inputs"]
expect(0, *ALL, "--compare", "ref", out="and 2 outputs")
expect(1, *ALL, "--compare", "null", out="DIVERGES", err="part at the last row")
for device in devices("vulkan", "webgpu"):
    out = expect(0, *ALL, "--device", device, "--compare", "ref", out="and 2 outputs")
    check(f"of {device} without a counterpart on ref" in out, f"what was not compared: {out}")
    rows = expect_json(*ALL, "--device", device, "--compare", "ref")
    check({r["output"] for r in rows if "output" in r} == {"y", "z"}, f"outputs: {rows}")
    check(any(not r["compared"] for r in rows), f"rows that were not compared: {rows}")
    check(all(r["ok"] for r in rows if r["compared"]), f"parts on {device}: {rows}")
    expect(1, *ALL, "--device", device, "--compare", "null", err="part at the last row")

# RLX_VULKAN_ARENA_DEBUG tells of the memory.
for device in devices("vulkan"):
    expect(0, "run", ADD, "--input", "x=ones", "--param", "w=ones", "--device", device,
           env={"RLX_VULKAN_ARENA_DEBUG": "1"},
           err="vulkan arena: the arena of the program: ")
    _, _, log = run("run", ADD, "--input", "x=ones", "--param", "w=ones", "--device", device,
                    env={"RLX_VULKAN_ARENA_DEBUG": "0"})
    check("arena" not in log, f"RLX_VULKAN_ARENA_DEBUG=0: {log}")

# Every mistake is a sentence.
given = ["--input", "x=ones", "--param", "w=ones"]
expect(1, "run", "absent.rlx", err="cannot open 'absent.rlx'")
expect(1, "run", ADD, err="no value for 1 parameter")
expect(1, "run", ADD, "--random-params", err="no value for 1 input:\n  x: f32[n,2]")
expect(1, "run", ADD, *given, "--input", "z=ones", err="the graph has no 'z'; it has: x")
expect(1, "run", ADD, *given, "--param", "ww=ones", err="did you mean 'w'?")
expect(1, "run", ADD, *given, "--output", "q=q.npy", err="the graph has no 'q'; it has: y")
expect(1, "run", ADD, *given, "--dim", "m=2", err="the graph has no 'm'; it has: n")
expect(1, "run", ADD, *given, "--dim", "n=9", err="9")
expect(2, "run", ADD, *given, "--dim", "n=two", err="expected a number of at least 0, got 'two'")
expect(2, "run", ADD, "--input", "x", err="expected NAME=VALUE, got 'x'")
expect(1, "run", ADD, "--input", "x=absent.npy", "--param", "w=ones", err="absent.npy")
expect(1, "run", ADD, "--input", f"x={w}", "--param", "w=ones", err="expected f32[8,2]")
expect(1, "run", ADD, "--input", f"x={x}", "--param", "w=ones", "--dim", "n=2",
       err="expected f32[2,2]")
expect(1, "run", ADD, *given, "--output", "y=/nonexistent/y.npy", err="/nonexistent/y.npy")
expect(1, "run", ADD, *given, "--device", "nonsense", err="nonsense")
expect(1, "run", ADD, *given, "--compare", "nonsense", err="nonsense")
expect(2, "run", ADD, *given, "--profile", "--dump-nodes", err="only one of")
expect(2, "run", ADD, *given, "--profile", "--output", "y=y.npy", err="--output does not go with")
bad = write("bad.npy", "not a NumPy file")
expect(1, "run", ADD, "--input", f"x={bad}", "--param", "w=ones", err="bad.npy")

MISTAKES = {
    "unknown operation": ("%y = sofmax(%x)", "line 3, column 8: unknown operation 'sofmax'"),
    "shape": ("%w: f32[3] = input \"w\"\n  %y = add(%x, %w)", "add"),
    "type": ("%w: i32[2] = input \"w\"\n  %y = add(%x, %w)", "add"),
    "axis": ("%y = softmax(%x) {axis=5}", "axis"),
    "attribute": ("%y = softmax(%x) {axes=0}", "softmax has no attribute 'axes'"),
    "unknown value": ("%y = relu(%z)", "z"),
    "stated type": ("%y: f32[3] = relu(%x)", "the text says f32[3]"),
    "twice": ("%x: f32[2] = input \"z\"\n  %y = relu(%x)", "defined twice"),
    "name twice": ("%w: f32[2] = input \"x\"\n  %y = relu(%w)", "x"),
    "arity": ("%y = add(%x)", "add"),
}
for what, (line, sentence) in MISTAKES.items():
    text = f'graph "g" {{\n  %x: f32[2] = input "x"\n  {line}\n  output "y" = %y\n}}\n'
    expect(1, "run", write("mistake.rlx", text), err=sentence)

# Inspect.
expect(0, "inspect", x, out="f32[3,2]")
facts = expect_json("inspect", x)
check(facts["shape"] == [3, 2] and facts["min"] == 1 and facts["mean"] == 3.5, f"inspect: {facts}")
for graph in sorted(GRAPHS.glob("*.rlx")):
    expect(0, "inspect", graph, out="operations")
    facts = expect_json("inspect", graph)
    check(facts["flops"] > 0 and facts["param_bytes"] > 0 and facts["ops"], f"inspect {graph.name}")
check(expect_json("inspect", ADD)["dims"] == {"n": 8}, "inspect: dims")
expect(1, "inspect", "absent.npy", err="no file and no model 'absent.npy'")
expect(1, "inspect", bad, err="bad.npy")

finish()
