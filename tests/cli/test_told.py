#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What the command line tells: ranges of numbers, options that are ignored, contexts that are too
long or do not fit, speeds that are the quotient of what stands beside them, progress in one row,
what a file is good for; and embed with files and standard input."""
import re

from cli import *

skip_without_tool()
MODEL = SOURCE / "models" / "tiny-stories.gguf"
CPU = ["--model", MODEL, "--device", "cpu"]
SHORT = [*CPU, "--prompt", "Once", "--max-tokens", 4]

# ---- Numbers -------------------------------------------------------------------------------------

for option, value, text in (("--ctx", 500000000, "--ctx expected at most 16777216"),
                            ("--prompt-chunk", 100000, "--prompt-chunk expected at most 65536"),
                            ("--threads", 5000, "--threads expected at most 1024"),
                            ("--top-k", 1 << 40, "--top-k expected at most 2147483647"),
                            ("--repeat-last", 300, "--repeat-last expected at most 256"),
                            ("--seed", 1 << 64, "--seed expected at most 9223372036854775807")):
    expect(2, "generate", *SHORT, option, value, err=text)
expect(0, "generate", *SHORT, env={"RLX_THREADS": "5000"},
       err="RLX_THREADS is ignored: expected a number from 1 to 1024, got '5000'")

for option, most in (("--port", 65535), ("--sequences", 512), ("--guesses", 15),
                     ("--memory", 1 << 30), ("--max-connections", 1 << 16),
                     ("--timeout", (1 << 31) - 1)):
    expect(2, "serve", MODEL, option, most + 1, err=f"{option} expected at most {most}, got")
expect(2, "serve", MODEL, "--port", "http", err="--port expected a number of at least 0")
expect(2, "bench", *CPU, "--prompt-tokens", (1 << 63) - 1, err="--prompt-tokens expected at most")

# ---- What is ignored -----------------------------------------------------------------------------

for option in (["--top-k", 4], ["--top-p", 0.5], ["--min-p", 0.1], ["--seed", 3]):
    expect(0, "generate", *SHORT, *option, err=f"{option[0]} has no effect without --temperature")
expect(0, "generate", *SHORT, "--repeat-last", 9, err="no effect without --repeat-penalty")
check("warning" not in run("generate", *SHORT, "--temperature", 1, "--seed", 3, "--top-k", 9)[2],
      "a warning of options that have an effect")
expect(0, "tokenize", "--model", MODEL, "a", "--device", "cpu", err="--device has no effect")
expect(0, "tokenize", "--model", MODEL, "a", "--threads", 1, err="--threads has no effect")
check("--device" not in expect(0, "list", "--help"), "list --help shows --device")
for option in (["--copies", 2], ["--chain"], ["--min-time", 1], ["--dim", "n=1"],
               ["--suite", "ops"], ["--trace", TMP / "t.json"], ["--plot", TMP / "p.svg"],
               ["--profile"]):
    expect(2, "bench", "--model", MODEL, *option, err=f"{option[0]} has no effect here")
for option in (["--tokens", 2], ["--prompt-tokens", 2], ["--sequences", 2], ["--dim", "n=1"]):
    expect(2, "bench", "add:f32:4", *option, err=f"{option[0]} has no effect here")
for command in (["generate", "--prompt", "Once"], ["chat"]):
    expect(2, *command, *CPU, "second.gguf", err="unexpected argument 'second.gguf'")
expect(2, "embed", *CPU, "--top", 3, "text", err="--top goes with --search")

# One name for the precision everywhere; --fast is what it was called in some commands.
MLP = GRAPHS / "mlp.rlx"
for how in (["--policy", "fast"], ["--fast"]):
    expect(0, "run", MLP, "--random-params", "--random-inputs", "--device", "cpu", *how)
    check(expect_json("generate", *SHORT, *how)["policy"] == "fast", f"generate {how}")
expect(2, "run", MLP, "--policy", "wild", err="--policy expected exact or fast, got 'wild'")
for command in "run explain compile bench generate chat serve embed perplexity train".split():
    text = expect(0, command, "--help", out="--policy exact|fast")
    check("--fast" not in text, f"{command} --help has two names for the precision")

# ---- Contexts ------------------------------------------------------------------------------------

expect(0, "generate", *SHORT, "--ctx", 600,
       err="--ctx 600 is more than the 512 tokens that the model was trained for")
check("trained for" not in run("generate", *SHORT, "--ctx", 512)[2], "--ctx 512 warns")
# On a device of 1 TB this would fit: then there is nothing to tell.
status, _, errors = run("generate", *SHORT, "--ctx", 1 << 24, "--cache", "f32")
check(status == 0 or ("out of memory" in errors and " GiB" in errors and
                      re.search(r"needs .*, cpu has .* GiB: the longest that fits is --ctx \d+\n",
                                errors)), f"a context that does not fit: {errors}")

# ---- Speeds --------------------------------------------------------------------------------------

UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1, "ns": 1e-9}
_, _, errors = run("generate", *CPU, "--prompt", "Once upon a time there was", "--max-tokens", 40,
                   "--ignore-end", "--stats")
pairs = re.findall(r"(\d+) tokens in ([\d.]+) ([a-z]+), ([\d.]+) tokens/s", errors)
check(len(pairs) == 2, f"two speeds: {errors}")
for n, time, unit, speed in pairs:
    quotient = int(n) / (float(time) * UNITS[unit])
    check(abs(quotient / float(speed) - 1) < 0.02, f"{n} tokens in {time} {unit}, not {speed}/s")
check(pairs and pairs[-1][0] == "39", f"tokens after the first one: {errors}")

# ---- Progress ------------------------------------------------------------------------------------


def widest_row(columns, *args):
    """The longest row that the command writes to a terminal of so many columns."""
    status, out = run_on_terminal(*args, columns=columns, stdout=subprocess.DEVNULL)
    check(status == 0, f"{args}: status {status}")
    rows = [r for r in re.split(r"[\r\n]|\x1b\[K", out.decode()) if "perplexity" in r]
    check(len(rows) > 2, f"{args}: no progress in {out!r}")
    return max(map(len, rows), default=0), rows


text = write("text.txt", "Once upon a time there was a fox. " * 40)
for columns in (80, 60, 30):
    most, rows = widest_row(columns, "perplexity", *CPU, text, "--ctx", 64)
    check(most < columns, f"progress of perplexity in {columns} columns: {rows[-1]!r}")
    check(("###" in rows[-1]) == (columns == 80), f"a bar in {columns} columns: {rows[-1]!r}")
check(any("perplexity" in r for r in rows), f"what counts is not cut: {rows[-1]!r}")

# A character of two columns has a row of its own where the terminal has one column.
status, out = run_on_terminal("inspect", "/none/\u65e5\u672c", columns=1)
rows = out.decode().split()
check(status == 1 and "\u65e5" in rows and "\u672c" in rows, f"one column: {rows}")

# ---- What a file is good for ---------------------------------------------------------------------

lines = expect(0, "inspect", MODEL).split("\n")
first = "\n".join(lines[:8])
for text in ("parameters    824 k, mostly", "architecture  llama, 4 layers of width",
             "context       trained for 512 tokens", "good for      generate (it has no chat",
             "memory"):
    check(text in first, f"inspect begins with {text!r}: {first}")
got = expect_json("inspect", MODEL)["model"]
check(got["runs"] and got["generates"] and not got["embeds"] and got["layers"] == 4, f"{got}")
folder = TMP / "folder [1]"
folder.mkdir()
expect(1, "inspect", folder, err="holds no model: expected model.safetensors")
(folder / "story.gguf").symlink_to(MODEL)
expect(0, "inspect", folder, out="story.gguf: gguf, ")
check(len(expect_json("inspect", MODEL, "--device", "cpu")["devices"]) == 1, "inspect --device")
odd = folder / "model.safetensors"
head = json.dumps({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}})
odd.write_bytes(struct.pack("<Q", len(head)) + head.encode() + bytes(4))
expect(0, "inspect", folder, out="cannot run    ")
got = expect_json("inspect", folder)["model"]
check(not got["runs"] and "config.json" in got["reason"], f"a folder without config.json: {got}")
# Names of dimensions, also those of outputs.
attention = expect_json("inspect", GRAPHS / "attention.rlx")
check(attention["outputs"][0]["type"] == "f32[1,seq,256]", f"outputs: {attention['outputs']}")

# ---- embed ---------------------------------------------------------------------------------------

encoder = SOURCE / ".cache" / "models" / "all-minilm-l6-v2"
if not encoder.exists():
    print("skipped: embed, for want of .cache/models/all-minilm-l6-v2 (tools/fetch/models.sh)")
    finish()
BERT = ["--model", encoder, "--device", "cpu"]
faq = write("faq.txt", "I cannot log in\n\nThe weather\nMy password is lost\n")
lines = faq.read_text().split("\n")[:-1]
want = [expect(0, "embed", *BERT, line) for line in lines]
expect(0, "inspect", encoder, out="good for      embed: vectors of 384 numbers")


def near(a, b):
    """The same vectors: rows of a batch of another size differ by rounding."""
    a, b = ([list(map(float, row.split())) for row in x.strip().split("\n")] for x in (a, b))
    return len(a) == len(b) and all(len(x) == len(y) == 384 and
                                    max(abs(p - q) for p, q in zip(x, y)) < 1e-3
                                    for x, y in zip(a, b))


for how in (["--file", faq], ["-f", faq], ["--file", "-"], ["-"], []):
    stdin = None if faq in how else faq.read_text()
    got = expect(0, "embed", *BERT, *how, stdin=stdin)
    check(near(got, "".join(want)), f"embed {how}: other vectors")
got = expect(0, "embed", *BERT, "More", "--file", faq)
check(near(got, expect(0, "embed", *BERT, "More") + "".join(want)), "TEXT and --file")
got = expect_json("embed", *BERT, "--search", faq, "password", "--top", 1)["results"][0]["matches"]
check(got == [{"score": got[0]["score"], "line": 4, "text": "My password is lost"}],
      f"lines count from 1, empty ones too: {got}")
finish()
