#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The frame of the command line: help, usage errors, suggestions, colours, devices, doctor, ops."""
import re
import shutil
from cli import *

skip_without_tool()
COMMANDS = re.findall(r"^  (?!rlx )([a-z]+) +[a-z]", run("--help")[1], re.M)
check(len(COMMANDS) >= 27, f"commands of the overview: {COMMANDS}")

# Help: every command teaches, and the man page knows every command and option.
man = (SOURCE / "docs" / "rlx.1").read_text().replace("\\-", "-")
expect(0, "help", out="usage: rlx COMMAND")
expect(0, "--help", out="usage: rlx COMMAND")
expect(2, err="usage: rlx COMMAND")
for command in COMMANDS:
    text = expect(0, command, "--help", out=f"usage: rlx {command}")
    expect(0, "help", command, out=f"usage: rlx {command}")
    expect(0, command, "-h", out="--help")
    check(command == "version" or "Examples" in text, f"{command} --help has no examples")
    check(max(map(len, text.split("\n"))) <= 80, f"{command} --help: 80 columns")
    check(f"rlx {command}" in man, f"the man page has no {command}")
    for option in re.findall(r"^  (?:-[a-z], |    )(--[a-z-]+)", text, re.M):
        check(option in man, f"the man page has no {option} ({command})")
expect(0, "version", out="rlx ")
expect(0, "--version", out="rlx ")
check("version" in expect_json("version"), "version --json")

# Wrong usage is status 2, with the nearest word.
expect(2, "bnech", err="did you mean 'bench'?")
expect(2, "qqqqqqqq", err="unknown command 'qqqqqqqq'")
expect(2, "help", "runn", err="did you mean 'run'?")
expect(2, "run", "--inptu", "x=1", err="unknown option '--inptu'; did you mean '--input'?")
expect(2, "devices", "--zzzzzzzz", err="unknown option '--zzzzzzzz'")
expect(2, "devices", "-x", err="unknown option '-x'; long options begin with two dashes")
expect(2, "devices", "-model", err="unknown option '-model'")
expect(2, "devices", "-t", err="-t needs a value: -t N")
expect(2, "devices", "-thirteen", err="--threads expected a number of at least 0, got 'hirteen'")
check(expect_json("devices", "-d", "cpu", "-t1")[0]["threads"] == 1, "letters of options")

# What people type who come from elsewhere: options first, a model in the place of the command, the
# commands of ollama, the spellings of llama.cpp.
model = SOURCE / "models" / "tiny-stories.gguf"
STORE = {"RLX_STORE": str(TMP / "no-store")}
expect(0, "-v", out="rlx ")
expect(2, "--verison", err="did you mean '--version'?")
expect(2, "-m", model, "-p", "x", err="a command comes before its options, as in 'rlx generate -m")
expect(2, model, err=f"a command comes first, as in 'rlx inspect {model}'")
expect(2, "smollm2", env=STORE, err="a command comes first, as in 'rlx inspect smollm2'")
for word, meant in (("ls", "list"), ("show", "inspect"), ("remove", "rm"), ("server", "serve")):
    expect(2, word, err=f"did you mean '{meant}'?")
for command in ("run", "explain"):
    expect(1, command, model, err=f"is a model and not a graph: 'rlx chat {model}' talks to it")
    expect(1, command, "smollm2", env=STORE, err="'rlx chat smollm2' talks to it")
once = ["generate", "--model", model, "--device", "cpu", "--json"]
said = expect_json(*once[:-1], "--prompt", "Once", "--max-tokens", 5)["text"]
for spelling in (["Once", "--n-predict", 5], ["-p", "Once", "-n5", "--ctx-size", 64],
                 ["-p", "Once", "--predict=5", "-ngl", 0]):
    check(expect_json(*once[:-1], *spelling)["text"] == said, f"{spelling}")
expect(2, *once, "Once", "more", err="unexpected argument 'more'")
expect(2, *once, "-ngl", err="-ngl needs a value: -ngl auto|N")
expect(2, *once, "-prompt", "x", err="unknown option '-prompt'; did you mean '--prompt'?")
check(expect_json("bench", model, "--device", "cpu", "--prompt-tokens", 2, "--tokens", 2),
      "bench of a model by its path")
expect(1, "bench", "smollm2", env=STORE, err="'rlx pull smollm2' gets it")

# What is no file of the right kind, or has nothing in it.
write("empty", "")
write("one", "x")
expect(1, "generate", TMP / "one", "x", err="header at its start, found 78")
expect(1, "tokenize", "--model", TMP / "one", "x", err="one' is no GGUF file, and there is no")
expect(1, "quantize", TMP, TMP / "q.gguf", err="is a folder; expected a GGUF file, as 'rlx convert")
expect(1, "imatrix", model, "--file", TMP / "one", "-o", TMP / "i.gguf", err="has 2 tokens; expect")
expect(2, "rerank", model, "faq.txt", err="expected --query TEXT, or the query and then documents")
expect(1, "embed", model, stdin="", err="standard input has no lines of text")
expect(1, "verify", "--suite", TMP, err="there is nothing to verify in")
expect(1, "ops", "xyz", err="no operation is like that; 'rlx ops' shows all")
listed = expect_json("bench", "--list", "softmax*")
check(listed and all(row["case"].startswith("softmax") for row in listed), f"{listed}")
expect(0, "quantize", model, TMP / "q.gguf", "Q4_0", out="q4_0 of")
expect(2, "quantize", model, TMP / "q.gguf", "Q4_0", "--type", "q8_0", err="unexpected argument")

# What users of a terminal see first fits 80 columns and begins with what they came for.
overview = expect(0, "--help", out="Use a model")
check(max(map(len, overview.split("\n"))) <= 80, "the overview has 80 columns")
check(re.findall(r"^  ([a-z]+) ", overview, re.M)[:3] == ["generate", "chat", "embed"],
      "the overview begins with models")
expect(2, "devices", "extra", err="unexpected argument 'extra'")
expect(2, "devices", "--json=yes", err="--json takes no value")
expect(2, "devices", "--device", err="--device needs a value")
expect(2, "devices", "--threads", "many",
       err="--threads expected a number of at least 0, got 'many'")
expect(2, "devices", "--device", "cpu", "--device", "ref", err="--device was given 2 times")
expect(2, "run", err="expected GRAPH")
expect(2, "inspect", err="expected FILE")
expect(2, "bench", "--min-time", "0", "x", err="--min-time expected a number above 0")

# Completion: the scripts are valid in their shells, and bash completes with them.
COMPLETE = """eval "$("$1" completion bash)"
COMP_WORDS=(rlx $2); COMP_CWORD=$(( ${#COMP_WORDS[@]} - 1 ))
compopt() { :; }; _rlx; echo "${COMPREPLY[@]}" """


def completed(words):
    r = subprocess.run(["bash", "-c", COMPLETE, "bash", TOOL, words], capture_output=True,
                       text=True)
    check(r.returncode == 0 and not r.stderr, f"completion of '{words}': {r}")
    return r.stdout.split()


check(completed("gen") == ["generate"], "completion of a command")
check("--max-tokens" in completed("generate --max"), "completion of an option")
check(completed("generate --policy e") == ["exact"], "completion of a value")
check(completed("devices -d vul") == ["vulkan"], "completion behind a letter")
for shell in ("bash", "zsh", "fish"):
    script = expect(0, "completion", shell, out="rlx")
    if shutil.which(shell):
        r = subprocess.run([shell, "-n"], input=script, capture_output=True, text=True)
        check(r.returncode == 0 and not r.stderr, f"completion {shell}: {r.stderr}")
    for command in COMMANDS:
        check(command in script, f"completion {shell} has no {command}")
expect(2, "completion", "tcsh", err="expected bash, zsh or fish, got 'tcsh'")
expect(2, "completion", err="expected bash|zsh|fish")

# No escape sequences when the output is no terminal.
for args in (["devices"], ["ops"], ["doctor"], ["bogus"]):
    check("\033" not in "".join(run(*args)[1:]), f"{args}: colours in a pipe")


def on_terminal(env):
    """What `rlx devices` writes to a terminal."""
    return run_on_terminal("devices", env={"TERM": "xterm", **env})[1].decode()


check("\033[1m" in on_terminal({"NO_COLOR": ""}), "colours on a terminal")
check("\033" not in on_terminal({"NO_COLOR": "1"}), "NO_COLOR")
check("\033" not in on_terminal({"TERM": "dumb"}), "TERM=dumb")

# Results that cannot be written are a failure.
with open("/dev/full", "w") as full:
    r = subprocess.run([TOOL, "devices"], stdout=full, stderr=subprocess.PIPE, text=True)
check(r.returncode == 1 and "could not be written" in r.stderr, f"a full disk: {r}")

# Devices.
expect(0, "devices", out="cpu")
expect(0, "devices", "--all", out="null")
devices = expect_json("devices")
for key in "id backend name driver detail memory threads default test".split():
    check(all(key in d for d in devices), f"devices --json: no {key}")
check(sum(d["default"] for d in devices) == 1, "devices --json: one default")
check({"cpu", "ref", "null"} <= {d["backend"] for d in devices}, "devices --json: backends")
expect(0, "devices", "--device", "ref", out="ref")
expect(1, "devices", "--device", "nonsense", err="nonsense")
expect(0, "devices", "--device", "cpu", "--calibrate", out="products in flop/s")
check("?" not in expect(0, "devices", "--device", "cpu"), "a measured device is marked")
for d in expect_json("devices", "--device", "cpu"):
    rates = d["calibration"]
    check(rates["measured"] and all(v > 0 for k, v in rates.items() if k != "kernels"),
          "devices --calibrate: kept")
check(expect_json("devices", "--device", "cpu", "--threads", "1")[0]["threads"] == 1, "--threads 1")
if not any(d["backend"] == "vulkan" for d in devices):
    expect(0, "devices", out="vulkan")
    expect(1, "devices", "--device", "vulkan", err="vulkan")
    expect(1, "run", GRAPHS / "mlp.rlx", "--random-params", "--random-inputs", err="vulkan",
           env={"RLX_DEVICE": "vulkan"})

# Doctor.
expect(0, "doctor", out="no device gives wrong results")
report = expect_json("doctor")
check(report["ok"] and all(d["ok"] for d in report["devices"]), "doctor --json: ok")
check("RLX_DEVICE" in report["environment"], "doctor --json: environment")
check(report["backends"] and report["cache"]["path"], "doctor --json: backends and cache")
expect(0, "doctor", "--device", "cpu", out="cpu")
expect(1, "doctor", "--device", "nonsense", err="nonsense")
expect(0, "doctor", out="RLX_THREADS=1", env={"RLX_THREADS": "1"})
expect(0, "devices", err="RLX_LOG expected off", env={"RLX_LOG": "loud"})
expect(0, "devices", "--device", "cpu", env={"RLX_THREADS": "abc"},
       err="RLX_THREADS is ignored: expected a number from 1 to 1024, got 'abc'")
for args in (["doctor"], ["devices"], ["devices", "--all"]):
    lines = run(*args)[1].split("\n")
    check(max(map(len, lines)) <= 80, f"{args} fits 80 columns: {max(lines, key=len)}")

# Ops.
ops = expect_json("ops")
names = [row["op"] for row in ops]
check(len(names) == len(set(names)) and len(names) > 150, "ops --json: names")
check("copy" not in names and "region" in names and "reduce_sum" in names, "ops --json: catalogue")
for row in ops:
    check(set(row) == {"op", "cpu", "vulkan", "webgpu"}, f"ops --json: keys of {row}")
    check(row["cpu"] in ("native", "reference", "decomposed", "view"),
          f"ops --json: {row['op']} on the CPU")
    check({row["vulkan"], row["webgpu"]} <= {"native", "decomposed", "view", "host", "no"},
          str(row))
expect(0, "ops", out="operations\n")
expect(0, "ops", "softmax", out="log_softmax")
check(len(expect_json("ops", "softmax")) == 2, "ops softmax")
check(set(expect_json("ops", "--device", "cpu")[0]) == {"op", "cpu"}, "ops --device cpu")
expect(2, "ops", "--only", "most", err="--only expected native")
expect(2, "ops", "--device", "nonsense", err="--device expected cpu, vulkan or webgpu")

finish()
