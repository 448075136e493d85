#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""rlx compile: what it stores runs as the graph does, and what cannot be run is refused."""
from cli import *

skip_without_tool()

NET = write("net.rlx", """graph "net" {
  dim n <= 8
  %x: f32[n,4] = input "x"
  %w: f32[4,4] = param "w"
  %h = matmul(%x, %w)
  %y = gelu(%h) "act"
  output "y" = %y
}
""")
out = TMP / "net.rlxc"
expect(0, "compile", NET, out, "--device", "cpu", out="steps for cpu")
got = expect_json("compile", NET, out, "--device", "cpu", "--dim", "n=3")
check(got["device"] == "cpu" and got["graph"] == "net" and got["steps"] >= 1, f"compile: {got}")

# As the graph itself, with named dimensions and all kinds of values.
args = ("--random-params=3", "--random-inputs=4", "--dim", "n=5", "--device", "cpu")
check(expect(0, "run", NET, *args) == expect(0, "run", out, *args), "a compiled graph runs as it")
x = write_npy("x.npy", "f", (2, 4), [1, 2, 3, 4, 5, 6, 7, 8])
expect(0, "run", out, "--input", f"x={x}", "--param", "w=zeros", "--device", "cpu",
       out="y: f32[2,4]")
expect(0, "explain", out, "--device", "cpu", out="matmul")

# Refused with a sentence: another device, other options, damage, what is no such file.
expect(1, "run", out, *args[:4], "--device", "ref", err="was compiled for device cpu")
expect(1, "run", out, *args, "--fast", err="as the graph was compiled")
data = bytearray(out.read_bytes())
data[len(data) - 3] ^= 4
bad = TMP / "bad.rlxc"
bad.write_bytes(data)
expect(1, "run", bad, *args, err="checksum")
bad.write_bytes(data[:200])
expect(1, "run", bad, *args, err="only 200 bytes")
expect(1, "compile", NET, NET, "--device", "cpu", err="a text file")
check(NET.read_text().startswith("graph"), "the graph is still there")
expect(1, "compile", NET, TMP / "no" / "folder.rlxc", "--device", "cpu", err="folder.rlxc")
expect(2, "compile", NET)

finish()
