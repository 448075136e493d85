#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The programs of README.md, of docs/ and of examples/, and commands that they show, as a user has
them: compiled alone against an installed rlx with the flags of the README, run on every device that
is there, and what they print compared with what the text says or with expected/NAME.txt.

    run.py CMAKE CC [NAME...]      (RLX_SOURCE_DIR, RLX_BUILD_DIR and RLX_TOOL are set)

In a file of expected/ each line is what a program prints. Numbers may differ by 1.5 units of the
last digit that is there; <=X stands for any number up to X, ... for any text. Nothing may be
printed to standard error."""
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCE = Path(os.environ.get("RLX_SOURCE_DIR", HERE.parents[1]))
BUILD = Path(os.environ.get("RLX_BUILD_DIR", "build"))
TOOL = os.environ.get("RLX_TOOL", str(BUILD / "rlx"))
MODELS = Path(os.environ.get("RLX_MODELS", SOURCE / ".cache" / "models"))
TINY = SOURCE / "models" / "tiny-stories.gguf"
PAGES = [SOURCE / "README.md", *sorted((SOURCE / "docs").glob("*.md"))]

VERBOSE = os.environ.get("RLX_TEST_VERBOSE")
failures = []
counts = {"programs": 0, "runs": 0}


def check(ok, text):
    if not ok:
        failures.append(text)
        print(f"FAILED {text}")
    return ok


# ---- Devices -------------------------------------------------------------------------------------

SWIFTSHADER = Path("/usr/lib/chromium/vk_swiftshader_icd.json")
ICD = {"VK_ICD_FILENAMES": str(SWIFTSHADER), "VK_DRIVER_FILES": str(SWIFTSHADER)}
WGPU = SOURCE / ".cache" / "wgpu" / "libwgpu_native-release.so"
DAWN = SOURCE / ".cache" / "dawn" / "libwebgpu_wrapper.so"
# name: (what it needs or None, environment)
DEVICES = {
    "cpu": (None, {"RLX_DEVICE": "cpu"}),
    "cpu-generic": (None, {"RLX_DEVICE": "cpu", "RLX_CPU": "generic"}),
    "ref": (None, {"RLX_DEVICE": "ref"}),
    "vulkan": (None, {"RLX_DEVICE": "vulkan"}),
    "vulkan-device-memory": (None, {"RLX_DEVICE": "vulkan", "RLX_VULKAN_ARENA_DEBUG": "device"}),
    "vulkan-swiftshader": (SWIFTSHADER, {"RLX_DEVICE": "vulkan", **ICD}),
    "webgpu-wgpu": (WGPU, {"RLX_DEVICE": "webgpu", "RLX_WEBGPU_LIBRARY": str(WGPU)}),
    "webgpu-dawn": (DAWN, {"RLX_DEVICE": "webgpu", "RLX_WEBGPU_LIBRARY": str(DAWN),
                           **(ICD if SWIFTSHADER.exists() else {})}),
}


# SwiftShader takes minutes to compile the kernels of a model, so models run there only when every
# case is asked for.
SLOW = {"vulkan-swiftshader", "webgpu-dawn"}


def runs_models(device):
    return device not in SLOW or os.environ.get("RLX_TEST_EVERY") == "1"


def environment(more):
    # Mesa's layer complains where there is no display.
    return {**os.environ, "NODEVICE_SELECT": "1", "RLX_LOG": "warn", **more}


def find_devices():
    """The names of those that can be opened here; says why others cannot."""
    there = {}
    for name, (need, env) in DEVICES.items():
        if need and not need.exists():
            print(f"{name}: skipped, there is no {need}")
            continue
        done = subprocess.run([TOOL, "devices", "--json"], capture_output=True, text=True,
                              env=environment(env), check=False)
        listed = json.loads(done.stdout) if done.returncode == 0 else []
        if any(d["backend"] == env["RLX_DEVICE"] for d in listed):
            there[name] = env
            if not runs_models(name):
                print(f"{name}: models are skipped, their kernels take minutes to compile; "
                      "RLX_TEST_EVERY=1 runs them")
        else:
            print(f"{name}: skipped, rlx devices does not list it")
    return there


# ---- What is printed -----------------------------------------------------------------------------

NUMBER = re.compile(r"<=[-+.\de]+|\.\.\.|-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")


def unit(text):
    """The worth of the last digit of a number."""
    mantissa, _, exponent = text.lower().partition("e")
    return 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))


def is_same(want, got):
    """One line; `want` may have the forms that the head of this file describes."""
    parts, values = NUMBER.split(want), NUMBER.findall(want)
    pattern = re.escape(parts[0])
    for value, part in zip(values, parts[1:]):
        number = r"\s*(-?[\d.]+(?:[eE][-+]?\d+)?|-?nan|-?inf)"
        pattern += (".*" if value == "..." else number) + re.escape(part)
    found = re.fullmatch(pattern.replace(r"\ ", r"\s+"), got)
    if not found:
        return False
    numbers = [v for v in values if v != "..."]
    for value, text in zip(numbers, found.groups()):
        if value.startswith("<="):
            if not float(text) <= float(value[2:]):
                return False
        elif re.fullmatch(r"-?\d+", value):
            if value != text:
                return False
        elif not abs(float(text) - float(value)) <= 1.5 * unit(value):
            return False
    return True


def compare(what, want, got):
    want, got = want.rstrip().splitlines(), got.rstrip().splitlines()
    same = len(want) == len(got) and all(map(is_same, want, got))
    check(same, f"{what}: expected\n  " + "\n  ".join(want) + "\ngot\n  " + "\n  ".join(got))


def run(what, command, env, quiet=True, **how):
    """What the command prints, which succeeds and (quiet) complains of nothing; else None."""
    counts["runs"] += 1
    if VERBOSE:
        print(what, flush=True)
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True,
                          env=environment(env), timeout=600, check=False, **how)
    ok = check(done.returncode == 0, f"{what}: exit status {done.returncode}\n{done.stdout}")
    ok &= check(not quiet or not done.stderr, f"{what}: standard error has\n{done.stderr}")
    return done.stdout if ok else None


# ---- Programs ------------------------------------------------------------------------------------

class Compiler:
    """Compiles against an rlx that is installed in a folder, as the README says."""

    def __init__(self, cmake, cc, folder):
        self.cc, self.folder = cc, folder
        prefix = folder / "installed"
        done = subprocess.run([cmake, "--install", str(BUILD), "--prefix", str(prefix)],
                              capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"cmake --install: {done.stdout}{done.stderr}")
        pc = next(prefix.rglob("rlx.pc"))
        self.library = next(prefix.rglob("librlx.so")).parent
        self.flags = [f"-I{prefix / 'include'}", f"-L{self.library}", "-lrlx"]
        if shutil.which("pkg-config"):
            done = subprocess.run(["pkg-config", "--cflags", "--libs", "rlx"], check=True,
                                  env={**os.environ, "PKG_CONFIG_PATH": str(pc.parent)},
                                  capture_output=True, text=True)
            self.flags = done.stdout.split()

    def compile(self, name, text, *more):
        """With the flags that the head of the source adds to those of the README."""
        own = re.search(r"\$\(pkg-config --cflags --libs rlx\) ((?:-l\w+ ?)+)", text)
        more = [*(own.group(1).split() if own else []), *more]
        source, program = self.folder / f"{name}.c", self.folder / name
        source.write_text(text, encoding="utf-8")
        counts["programs"] += 1
        done = subprocess.run([self.cc, str(source), *self.flags, "-o", str(program), *more],
                              capture_output=True, text=True, check=False)
        said = done.stdout + done.stderr
        check(done.returncode == 0 and not said, f"{name}: does not compile cleanly:\n{said}")
        return program if done.returncode == 0 else None


def read_blocks(page, language):
    """(text, what follows it up to the next block) of the fenced blocks of a page."""
    text = page.read_text(encoding="utf-8")
    for found in re.finditer(rf"^```{language}\n(.*?)^```$", text, re.M | re.S):
        yield found.group(1), text[found.end():].partition("```")[0]


def without_head(text):
    """A source without its comment."""
    return re.sub(r"\A(/\*.*?\*/\n)+", "", text, flags=re.S)


def list_programs():
    """name: (source, what the page says that it prints, or None) of all programs."""
    programs = {}
    for page in PAGES:
        for i, (text, after) in enumerate(read_blocks(page, "c")):
            if "int main(" not in text:
                continue
            said = re.search(r"[Ii]t prints `([^`]*)`", after)
            programs[f"{page.stem}-{i + 1}"] = text, said and said.group(1)
    for path in sorted((SOURCE / "examples").glob("*.c")):
        programs[path.stem] = path.read_text(encoding="utf-8"), None
    return programs


def expected_of(name, text, said):
    """What a program prints without arguments, or None."""
    path = HERE / "expected" / f"{name}.txt"
    usage = re.search(r'"(usage: [^"]*)\\n"', text)
    if usage:
        return usage.group(1)
    return path.read_text(encoding="utf-8") if path.exists() else said


# ---- With a model --------------------------------------------------------------------------------

def run_chat(what, program, env):
    """The begin of an answer of a small model, which may go on for long: any words will do."""
    counts["runs"] += 1
    with subprocess.Popen([program, TINY, "Be brief."], env=environment(env), text=True,
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE) as process:
        process.stdin.write("Once upon a time\n")
        process.stdin.flush()
        got = process.stdout.read(60)
        process.kill()
        said = process.stderr.read()
    check(got.startswith("> ") and len(re.findall(r"[a-z]{2,}", got)) > 3 and not said,
          f"{what}: printed {got!r} {said!r}")


def run_embed(what, program, env):
    model = MODELS / "all-minilm-l6-v2"
    if not model.exists():
        print(f"{what} with a model: skipped, there is no {model}; tools/fetch/models.sh gets it")
        return
    got = run(what, [program, model, "A cat sleeps.", "A kitten naps.", "Taxes are due."], env)
    if got is not None:
        compare(what, (HERE / "expected" / "embed-model.txt").read_text(encoding="utf-8"), got)


def run_lora(what, program, env):
    """A sentence is learned, and told from its begin on."""
    with tempfile.TemporaryDirectory() as folder:
        examples = Path(folder) / "examples.jsonl"
        examples.write_text('{"text": "Once upon a time there was a purple robot named Zog."}\n')
        got = run(what, [program, TINY, examples, Path(folder) / "zog.gguf", "Once upon a time"],
                  env)
    if got is not None:
        compare(what, (HERE / "expected" / "lora-model.txt").read_text(encoding="utf-8"), got)


def run_json(what, program, env):
    """Any text that the schema of the program allows: which one is the device's choice."""
    got = run(what, [program], env)
    if got is None:
        return
    try:
        value = json.loads(got.splitlines()[0])
        ok = re.fullmatch("[A-Z][a-z]{2,8}", value["who"]) and 1 <= value["age"] <= 12 and \
            len(value["friends"]) <= 3 and set(value["friends"]) <= {"bird", "cat", "dog", "frog"}
    except (ValueError, KeyError, TypeError, IndexError):
        ok = False
    check(ok and got.splitlines()[-1].endswith("complete"), f"{what}: printed {got!r}")


def run_program(name, program, want, devices, library):
    if name == "json_schema":
        for device, env in devices.items():
            if runs_models(device):
                run_json(f"{name} on {device}", program, {**env, "LD_LIBRARY_PATH": str(library)})
        return
    if not check(want, f"{name}: neither its page nor expected/{name}.txt says what it prints"):
        return
    for device, env in devices.items():
        if name == "characters" and not runs_models(device):
            continue
        what = f"{name} on {device}"
        env = {**env, "LD_LIBRARY_PATH": f"{library}:{os.environ.get('LD_LIBRARY_PATH', '')}"}
        got = run(what, [program], env)
        if got is not None:
            compare(what, want, got)
        if name == "chat" and runs_models(device): # the copies of it are the same
            run_chat(what, program, env)
        elif name == "embed" and runs_models(device):
            run_embed(what, program, env)
        elif name == "lora" and runs_models(device):
            run_lora(what, program, env)


def check_copies(programs):
    """A program that is in several places is the same in all of them."""
    texts = {}
    for name, (text, _) in programs.items():
        key = re.search(r"usage: (\w+)", text)
        if key:
            texts.setdefault(key.group(1), {})[name] = without_head(text)
    for key, copies in texts.items():
        check(len(set(copies.values())) == 1, f"{key}: these are not the same: {list(copies)}")


# Declarations in front of pieces of code that are no programs.
PRELUDE = """#include <rlx/rlx.h>
#include <stdio.h>
#include <string.h>
void use(const int32_t *tokens);
rlx_piece_fn on_piece;
rlx_op_shape_fn swish_shape;
rlx_op_cpu_fn swish_cpu;
rlx_op_decompose_fn swish_decompose;
rlx_op_grid_fn swish_grid;
extern const uint32_t words[99];
void piece(const char *path, rlx_model *model, rlx_context *c, const int32_t *const *prompt,
           const size_t *length, rlx_graph *g, rlx_value x, const char *schema, rlx_error err);
void piece(const char *path, rlx_model *model, rlx_context *c, const int32_t *const *prompt,
           const size_t *length, rlx_graph *g, rlx_value x, const char *schema, rlx_error err)
{
"""


def check_pieces(compiler):
    for page in PAGES:
        for i, (text, _) in enumerate(read_blocks(page, "c")):
            if "int main(" not in text:
                compiler.compile(f"{page.stem}-{i + 1}", PRELUDE + text + "}\n", "-c", "-o",
                                 str(compiler.folder / "piece.o"))


# ---- Commands ------------------------------------------------------------------------------------

def shown_commands():
    """(words, what follows) of the commands of rlx that pages show after a dollar sign."""
    for page in PAGES:
        for text, _ in read_blocks(page, ""):
            for part in re.split(r"^\$ ", text, flags=re.M)[1:]:
                command, _, rest = part.replace("\\\n", " ").partition("\n")
                words = shlex.split(command)
                if Path(words[0]).name == "rlx":
                    yield words[1:], rest


def find_model(word):
    """The path of a model file as pages name it, or None."""
    places = [SOURCE / "models" / Path(word).name, MODELS / Path(word).name]
    return next((p for p in places if p.exists()), None)


def is_shown(command, shown, got):
    """Words are compared, not how lines are broken; statistics may follow. What quantize has done
    is a table below a line with a time."""
    if command == "quantize":
        rows = [line for line in got.splitlines() if line.startswith("  ")]
        return len(rows) > 2 and all(row in shown for row in rows)
    return got.split() and shown.split()[:len(got.split())] == got.split()


def check_shown(devices, folder):
    """What pages show of commands whose results are the same everywhere: those of the CPU."""
    n = 0
    for words, shown in shown_commands():
        if words[0] not in ("generate", "tokenize", "quantize"):
            continue
        named = [w for w in words[1:] if w.endswith(".gguf") and w != "small.gguf"]
        missing = [w for w in named if not find_model(w)]
        what = "rlx " + " ".join(words)
        if missing:
            print(f"{what}: skipped, there is no {missing[0]}; tools/fetch/models.sh gets it")
            continue
        words = [str(find_model(w)) if w in named else w for w in words if w != "--stats"]
        got = run(what, [TOOL, *words], devices["cpu"], quiet=words[0] != "quantize", cwd=folder)
        n += 1
        if got is not None:
            check(is_shown(words[0], shown, got), f"{what}: expected {shown!r}, got {got!r}")
    check(n > 1, "the pages show no commands whose results could be compared")


def check_commands(devices):
    """The command with the small model; software GPUs are slow, so they say less."""
    readme = (SOURCE / "README.md").read_text(encoding="utf-8")
    command = 'build/rlx generate --model models/tiny-stories.gguf --prompt "Once upon a time"'
    check(command in readme.replace("\n", " "), "README.md does not show the small model")
    for device, env in devices.items():
        if not runs_models(device):
            continue
        what = f"{command} on {device}"
        limit = [] if device == "cpu" else ["--max-tokens", "24"]
        # Without a limit the tool tells that the text was cut.
        got = run(what, [TOOL, "generate", "--model", TINY, "--prompt", "Once upon a time", *limit],
                  env, quiet=bool(limit))
        check(got and len(re.findall(r"[a-z]{2,}", got)) > 3, f"{what}: printed {got!r}")


def main():
    cmake, cc, *only = sys.argv[1:]
    devices = find_devices()
    check({"cpu", "ref"} <= devices.keys(), "the CPU device is not there")
    programs = list_programs()
    check({"README-1", "README-2", "hello", "chat"} <= programs.keys(), f"programs: {programs}")
    check_copies(programs)
    with tempfile.TemporaryDirectory(prefix="rlx-examples-") as folder:
        compiler = Compiler(cmake, cc, Path(folder))
        for name, (text, said) in programs.items():
            if only and name not in only:
                continue
            program = compiler.compile(name, text)
            if program:
                run_program(name, program, expected_of(name, text, said), devices,
                            compiler.library)
        if not only:
            check_pieces(compiler)
            check_commands(devices)
            check_shown(devices, folder)
    print(f"{counts['programs']} programs, {counts['runs']} runs on {len(devices)} devices: "
          f"{', '.join(devices)}; {len(failures)} failed")
    return 1 if failures or not counts["runs"] else 0


if __name__ == "__main__":
    sys.exit(main())
