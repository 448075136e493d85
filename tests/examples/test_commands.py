#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every command of rlx that README.md, docs/ and --help show. Each is parsed (with --help behind
it, so that an option that is not there is found), and all but those that serve, talk, fetch or
measure for long are run in a folder with the files that they name. Where a page shows what is
printed, that is compared: words, numbers by their last digit, times and names of machines by their
place."""
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
TOOL = os.environ.get("RLX_TOOL", "build/rlx")
MODELS = Path(os.environ.get("RLX_MODELS", SOURCE / ".cache" / "models"))
TINY = SOURCE / "models" / "tiny-stories.gguf"
PAGES = [SOURCE / "README.md", *sorted((SOURCE / "docs").glob("*.md"))]
# Commands that wait for someone, fetch, forget or measure for long.
NOT_RUN = ("pull", "rm", "serve", "chat", "doctor", "kernels")
failures, counts = [], {"parsed": 0, "run": 0, "compared": 0}


def check(ok, text):
    if not ok:
        failures.append(text)
        print(f"FAILED {text}")
    return ok


# ---- What is shown -------------------------------------------------------------------------------

def split(text):
    """The words of a command in front of pipes, redirections and notes; None when it is none."""
    text = re.split(r"\s+#\s|\s{3,}(?![-\"'])", text.strip())[0]
    try:
        words = shlex.split(text)
    except ValueError:
        return None
    for i, word in enumerate(words):
        if word in ("|", ">", "<", "&&"):
            words = words[:i]
            break
    return words[1:] if len(words) > 1 and Path(words[0]).name == "rlx" else None


def block_commands(page):
    """(words, what is shown of its output) of the commands in the blocks of a page."""
    text = page.read_text(encoding="utf-8")
    for found in re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.M | re.S):
        language, block = found.groups()
        block = block.replace("\\\n", " ")
        if "$ " in block and language == "":
            for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
                line, _, shown = part.partition("\n")
                yield split(re.sub(r" +", " ", line)), shown
        elif language in ("", "sh"):
            for line in block.split("\n"):
                if re.match(r"(build/)?rlx ", line) and not line.startswith("rlx: ") \
                        and not re.match(r"rlx \w+: ", line):
                    yield split(line), ""


def inline_commands(page):
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    for found in re.findall(r"`((?:build/)?rlx [a-z]+ [^`]+)`", text):
        yield split(" ".join(found.split()))


def help_of(name):
    return subprocess.run([TOOL, name, "--help"], capture_output=True, text=True).stdout


def help_commands(name):
    for line in help_of(name).partition("Examples\n")[2].replace("\\\n", " ").split("\n"):
        if re.match(r"  rlx ", line):
            # What it does stands behind two blanks or more.
            yield split(re.split(r"(?<=\S)\s{2,}(?=[^-\s])", line.strip())[0])


def all_commands():
    """(where, words, what is shown; None: the command may be a part of one) of each, once."""
    seen = set()
    names = re.findall(r"^  ([a-z]+) ", subprocess.run([TOOL, "--help"], capture_output=True,
                                                        text=True).stdout, re.M)
    sources = [(f"rlx {n} --help", ((w, "") for w in help_commands(n))) for n in names]
    for page in PAGES:
        sources += [(page.name, block_commands(page)),
                    (page.name, ((w, None) for w in inline_commands(page)))]
    for where, commands in sources:
        for words, shown in commands:
            if words and words[0] in names and tuple(words) not in seen:
                seen.add(tuple(words))
                yield where, words, shown


# ---- The folder ----------------------------------------------------------------------------------

def make_folder(folder):
    """Files of the names that pages use; names of the store are files of this folder."""
    for name in ("model", "smol", "M", "model-f16", "M-f16", "IN", "story"):
        (folder / f"{name}.gguf").symlink_to(TINY)
    (folder / "models").mkdir()
    (folder / ".cache").mkdir()
    (folder / ".cache" / "models").symlink_to(MODELS)
    if (MODELS / "smollm2-135m-instruct.gguf").exists():
        (folder / "smollm2").symlink_to(MODELS / "smollm2-135m-instruct.gguf")
    for path in (TINY, *(MODELS.glob("*"))):
        (folder / "models" / path.name).symlink_to(path)
        if not (folder / path.name).exists():
            (folder / path.name).symlink_to(path)
    encoder = MODELS / "all-minilm-l6-v2"
    if encoder.exists():
        (folder / "minilm").symlink_to(encoder)
        shutil.copy(encoder / "tokenizer.json", folder)
    for path in (SOURCE / "examples" / "graphs").glob("*.rlx"):
        (folder / path.name).symlink_to(path)
    (folder / "decoder.rlx").symlink_to(SOURCE / "examples" / "graphs" / "decoder_step.rlx")
    (folder / "G.rlx").symlink_to(SOURCE / "examples" / "graphs" / "mlp.rlx")
    texts = {"faq.txt": FAQ, "q.txt": "Once", "wiki.txt": "Once upon a time there was a fox. " * 40,
             "person.json": '{"type": "object", "properties": {"age": {"type": "integer"}}}',
             "answer.gbnf": 'root ::= "yes" | "no"\n'}
    texts["text.txt"] = texts["wiki.txt"]
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    subprocess.run([TOOL, "imatrix", "model.gguf", "--file", "text.txt", "--out",
                    "model.imatrix.gguf", "--device", "cpu"], cwd=folder, check=True, timeout=60,
                   stdout=subprocess.DEVNULL)


FAQ = """How do I reset my password?
The page asks me to sign in again and again.
Where can I change my email address?
When will my parcel arrive?
Can I pay with a credit card?
"""


def lacks(words, folder):
    """Why the command is only parsed; None when it can be run."""
    if words[0] in NOT_RUN:
        return "waits or fetches"
    if "--help" in words or "-" in words:
        return "reads standard input"
    if words[0] == "bench" and ("--suite" in words or "--list" in words or "..." in words):
        return "measures for long"
    for word in words[1:]:
        name = word.partition("=")[2] or word
        if re.fullmatch(r"[A-Z][A-Z.]*|\.\.\.|[A-Z]+(\.\w+)?\.\.\.|FILE|GRAPH\.rlx", name) \
                and not (folder / name).exists():
            return f"{name} stands for something"
        made = {"out", "y.npy"} | ({words[-1], words[2]} if words[0] == "quantize" else set())
        if re.search(r"\.(onnx|npy|rlxc|gguf)(:[\d.]+)?$|/$", name) or name in ("weights", "node") \
                or name.startswith("test_data_set"):
            if name not in made and not (folder / name).exists():
                return f"there is no {name} here"
        if word in ("select", "order", "chain") or "vulkan" in name:
            return "needs a GPU"
        if re.search(r"(^|/)(all-minilm-l6-v2|minilm|smollm2[\w.-]*)$", word):
            if not (folder / word).exists():
                return f"there is no {word}; tools/fetch/models.sh gets it"
    return None


# ---- Comparing -----------------------------------------------------------------------------------

UNIT = r"(?: ?(?:ns|us|ms|s|B|KiB|MiB|GiB|TiB)\b)?"
NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?" + UNIT)


def shape(line):
    """A line without what differs between machines: names of devices, times, speeds."""
    line = re.sub(r" on cpu: .*?, policy", " on cpu: NAME, policy", line)
    if re.search(r"tokens/s|loaded in|memory: weights|q[0-9]_[0-9k]\w* of ", line):
        line = NUMBER.sub("#", line)
    return " ".join(line.split())


def compare(where, words, shown, got):
    """Each line that is shown is printed, in this order; '...' stands for lines left out. Words
    that are wrapped in the page are joined."""
    counts["compared"] += 1
    if words[0] in ("generate", "tokenize"):
        joined = " ".join(shape(l) for l in got.split("\n")).split()
        wanted = " ".join(shape(l) for l in shown.split("\n")).split()
        tail = wanted[-len(joined):] if len(wanted) > len(joined) else wanted
        check(joined == wanted or tail == joined, f"{where}: rlx {shlex.join(words)}: expected\n"
              f"{shown}\ngot\n{got}")
        return
    rest = [shape(l) for l in got.split("\n")]
    # A note to standard error that the page breaks into lines.
    shown = re.sub(r"^(rlx \w+: .*)\n(?=\w)", r"\1 ", shown, flags=re.M)
    for line in shown.rstrip("\n").split("\n"):
        want = shape(line)
        if want == "..." or not want:
            continue
        if re.match(r"(\* )?(cpu|vulkan:\d|webgpu:\d)\b", want):  # a machine in a table
            continue
        here = next((i for i, l in enumerate(rest) if near(want, l)), None)
        if not check(here is not None, f"{where}: rlx {shlex.join(words)}: no line {line!r} in\n"
                     f"{got}"):
            return
        rest = rest[here + 1:]


def near(want, got):
    """Equal but for 1.5 units of the last digit of numbers with a fraction."""
    fraction = re.compile(r"-?\d+\.\d+")
    if fraction.sub("#", want) != fraction.sub("#", got):
        return False
    return all(abs(float(a) - float(b)) <= 1.5 * 10.0 ** -len(a.partition(".")[2])
               for a, b in zip(fraction.findall(want), fraction.findall(got)))


def run_all(folder):
    env = {**os.environ, "RLX_DEVICE": "cpu", "RLX_STORE": str(folder / "store"),
           "RLX_CACHE_DIR": str(folder / "cache"), "NO_COLOR": "1"}
    for where, words, shown in all_commands():
        what = f"{where}: rlx {shlex.join(words)}"
        counts["parsed"] += 1
        if shown is None:
            known = help_of(words[0])
            for word in words:
                if word.startswith("--"):
                    check(word.partition("=")[0] in known, f"{what}: there is no {word}")
            continue
        done = subprocess.run([TOOL, *words, "--help"], capture_output=True, text=True, env=env,
                              cwd=folder, stdin=subprocess.DEVNULL, timeout=60)
        if not check(done.returncode == 0, f"{what}: {done.stderr}"):
            continue
        why = lacks(words, folder)
        if why:
            if shown:
                print(f"skipped: {what}: {why}")
            continue
        counts["run"] += 1
        if words[0] == "bench" and "--model" not in words and "model.gguf" not in words:
            words = [*words, "--min-time", "0.001"]
        done = subprocess.run([TOOL, *words], capture_output=True, text=True, env=env, cwd=folder,
                              stdin=subprocess.DEVNULL, timeout=300)
        if not check(done.returncode == 0, f"{what}: status {done.returncode}\n{done.stderr}"):
            continue
        if shown:
            notes = done.stderr if "--stats" in words or words[0] == "quantize" else ""
            compare(where, words, shown, notes + done.stdout if words[0] == "quantize"
                    else done.stdout + notes)


def main():
    if not os.access(TOOL, os.X_OK):
        print(f"skipped: no {TOOL}")
        return 77
    with tempfile.TemporaryDirectory(prefix="rlx-commands-") as name:
        folder = Path(name)
        make_folder(folder)
        run_all(folder)
    check(counts["parsed"] > 80 and counts["run"] > 40 and counts["compared"] > 2, f"{counts}")
    print(f"{counts['parsed']} commands parsed, {counts['run']} run, {counts['compared']} "
          f"compared; {len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
