#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Files that survive: what rlx may replace and what not, full disks, signals and kills while files
are written, and pipes, folders and sockets where a file is expected."""
import random
import resource
import signal
import socket
import time

from cli import *

skip_without_tool()
MODEL = write_tiny_model()
BYTES = MODEL.read_bytes()
CPU = ["--model", MODEL, "--device", "cpu"]
CHAT = ["chat", *CPU, "--ctx", 256, "--max-tokens", 8, "--temperature", 0]
MLP = ["run", GRAPHS / "mlp.rlx", "--random-params", "--random-inputs"]
seed = random.randrange(1 << 30)
rng = random.Random(seed)
print(f"seed {seed}")


def place(name):
    """A folder of its own, so that what is left behind is seen."""
    folder = TMP / name
    folder.mkdir()
    return folder


def names(folder):
    return sorted(p.name for p in folder.iterdir())


def start(*args, limit=None, **how):
    """A process that is still running; `limit`: of the bytes of a file, as a full disk."""
    how.setdefault("stdin", subprocess.DEVNULL)
    before = limit and (lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
    return subprocess.Popen([TOOL, *map(str, args)], stdout=subprocess.PIPE, preexec_fn=before,
                            stderr=subprocess.PIPE, text=True, **how)


def fails_full(limit, path, *args, **how):
    """With that little room on the disk the command fails and names the file."""
    stdin = how.pop("stdin", "")
    p = start(*args, limit=limit, stdin=subprocess.PIPE, **how)
    out, err = p.communicate(stdin)
    check(p.returncode == 1 and str(path) in err and "File too large" in err,
          f"full disk: {args}: {p.returncode} {err}")


# ---- Chats ---------------------------------------------------------------------------------------

expect(1, *CHAT, "--save", MODEL, stdin="Hi\n",
       err="expected a saved chat or context, found a GGUF")
check(MODEL.read_bytes() == BYTES, "/save onto the open model changed it")
expect(0, *CHAT, stdin="Hi\n")
notes = write("notes.txt", "Milk, bread.\n")
expect(1, *CHAT, "--save", notes, stdin="Hi\n", err="found a text file")
check(notes.read_text() == "Milk, bread.\n", "/save onto notes changed them")

here = place("chats")
talk, link = here / "talk", here / "link"
expect(0, *CHAT, "--save", talk, stdin="Hi\n")
old = talk.read_bytes()
link.symlink_to("talk")
expect(0, *CHAT, "--load", talk, "--save", link, stdin="More\n")
new = talk.read_bytes()
check(link.is_symlink() and len(new) > len(old), "/save through a link")
link.unlink()
fails_full(1000, talk, *CHAT, "--save", talk, stdin="Hi\n")
check(talk.read_bytes() == new and names(here) == ["talk"], f"a full disk: {names(here)}")
expect(1, *CHAT, "--save", here, stdin="Hi\n", err="it is a folder")
expect(0, *CHAT, "--save", "/dev/null", stdin="Hi\n")

# Killed again and again while it is saving.
for i in range(20):
    p = start(*CHAT, "--load", talk, "--save", talk, "--max-tokens", 1, stdin=subprocess.PIPE)
    try:
        p.stdin.write("Hi\n" * 400)
        p.stdin.flush()
    except BrokenPipeError:
        pass
    p.stdout.readline()
    time.sleep(rng.random() * 0.05)
    p.kill()
    p.communicate()
    got, _, err = run(*CHAT, "--load", talk, stdin="")
    if got != 0:
        check(False, f"kill {i}: {err}")
        break
expect(0, *CHAT, "--save", talk, stdin="Hi\n")
check(names(here) == ["talk"], f"left behind: {names(here)}")

# ---- quantize ------------------------------------------------------------------------------------


def text(s):
    return struct.pack("<Q", len(s)) + s.encode()


def write_model(path, n_tensors, split=None, rows=1024):
    """Matrices of zeros, which take no room on the disk."""
    shape = (1024, rows)
    bytes_each = 4 * shape[0] * shape[1]
    meta = [text("general.architecture") + struct.pack("<I", 8) + text("llama")]
    for key, value in (split or {}).items():
        meta.append(text(f"split.{key}") + struct.pack("<IH", 2, value))
    head = b"GGUF" + struct.pack("<IQQ", 3, n_tensors, len(meta)) + b"".join(meta)
    for i in range(n_tensors):
        name = f"blk.{i + (split or {'no': 0})['no'] * n_tensors}.w"
        head += text(name) + struct.pack("<IQQIQ", 2, *shape, 0, i * bytes_each)
    path.write_bytes(head)
    os.truncate(path, len(head) + -len(head) % 32 + n_tensors * bytes_each)
    return path


here = place("models")
big, out = write_model(here / "big.gguf", 8), here / "out.gguf"
input_bytes = big.read_bytes()
(here / "symbolic.gguf").symlink_to("big.gguf")
os.link(big, here / "hard.gguf")
for name in ("big.gguf", "symbolic.gguf", "hard.gguf"):
    expect(1, "quantize", big, here / name, "--type", "q8_0", err="is the input itself")
    expect(1, "quantize", here / name, big, "--type", "q8_0", err="is the input itself")
check(big.read_bytes() == input_bytes and (here / "symbolic.gguf").is_symlink(),
      "quantize changed its input")
(here / "symbolic.gguf").unlink()
(here / "hard.gguf").unlink()
parts = [write_model(here / f"s-0000{i + 1}-of-00002.gguf", 1, {"no": i, "count": 2})
         for i in (0, 1)]
expect(1, "quantize", parts[0], parts[1], "--type", "q8_0", err="is the input itself")
for part in parts:
    part.unlink()
readme = here / "README"
readme.write_text("about\n")
expect(1, "quantize", big, readme, err="expected a GGUF file, found a text file")
readme.unlink()
out.write_bytes(b"GGUF of old")
fails_full(1 << 20, out, "quantize", big, out, "--type", "q8_0")
check(out.read_bytes() == b"GGUF of old" and names(here) == ["big.gguf", "out.gguf"],
      f"quantize on a full disk: {names(here)}")

# 16 GiB of zeros: no machine is done with them before the signal comes.
huge = write_model(here / "huge.gguf", 64, rows=1 << 16)
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL):
    p = start("quantize", huge, out, "--type", "q2_k", "--threads", 1)
    time.sleep(0.2 + rng.random() * 0.2)
    p.send_signal(number)
    _, err = p.communicate()
    check(p.returncode == -number, f"{number.name}: status {p.returncode}: {err}")
    check("was not written" in err or number == signal.SIGKILL, f"{number.name}: {err}")
    check(out.read_bytes() == b"GGUF of old", f"{number.name}: the older file changed")
    if number != signal.SIGKILL:
        check(names(here) == ["big.gguf", "huge.gguf", "out.gguf"], f"{number.name}: {names(here)}")
huge.unlink()
expect(0, "quantize", big, out, "--type", "q8_0")
check(names(here) == ["big.gguf", "out.gguf"], f"left behind: {names(here)}")

# ---- NumPy files, pictures, traces ---------------------------------------------------------------

here = place("outputs")
y = here / "y.npy"
expect(0, *MLP, "--output", f"p={y}")
expect(0, *MLP, "--output", f"p={y}")
check(read_npy(y)[0]["descr"] == "<f4", "--output twice")
good = y.read_bytes()
fails_full(100, y, *MLP, "--output", f"p={y}")
check(y.read_bytes() == good and names(here) == ["y.npy"], "--output on a full disk")
expect(0, *MLP, "--output", "p=/dev/null")
check(b"\x93NUMPY" in subprocess.run([TOOL, *map(str, MLP), "--output", "p=/dev/stdout"],
                                     stdout=subprocess.PIPE).stdout, "--output p=/dev/stdout")
reports = {
    "--memory-svg": ["explain", GRAPHS / "mlp.rlx", "--memory-svg"],
    "--trace": ["explain", GRAPHS / "mlp.rlx", "--profile", "--trace"],
    "--plot": ["bench", "relu:f32:8", "--min-time", 0.001, "--plot"],
    "bench --trace": ["bench", "relu:f32:8", "--min-time", 0.001, "--trace"],
}
for what, command in reports.items():
    file = here / "report"
    expect(0, *command, file)
    first = file.read_bytes()
    expect(0, *command, file)
    fails_full(50, file, *command, file)
    check(file.read_bytes()[:20] == first[:20] and names(here) == ["report", "y.npy"],
          f"{what} on a full disk: {names(here)}")
    expect(1, *command, y, err="found a NumPy file")
    expect(1, *command, notes, err="found a text file")
    expect(1, *command, here / "no" / "file", err="cannot write")
    file.unlink()
check(y.read_bytes() == good and notes.read_text() == "Milk, bread.\n", "reports replaced others")

# ---- Reading -------------------------------------------------------------------------------------

here = place("inputs")
pipe, listener = here / "pipe", socket.socket(socket.AF_UNIX)
os.mkfifo(pipe)
listener.bind(str(here / "socket"))
for path, word in ((pipe, "pipe"), (here, "folder"), (here / "socket", "socket"),
                   (Path("/dev/zero"), "device")):
    # A socket cannot even be opened; a folder may be that of a model.
    said = {"socket": "cannot open", "folder": ""}.get(word, f"it is a {word}")
    said = {"device": "device"}.get(word, said)
    for command in (["inspect", path], ["run", path], ["explain", path],
                    ["generate", "--model", path, "--prompt", "x"],
                    ["generate", *CPU, "--prompt-file", path], ["perplexity", *CPU, path],
                    [*CHAT, "--load", path], ["quantize", path, here / "out.gguf"],
                    ["run", GRAPHS / "mlp.rlx", "--random-params", "--input", f"x={path}"]):
        expect(1, *command, err=said, stdin="")
    expect(1, "tokenize", "--model", path, "x", err="no tokenizer at")
check(names(here) == ["pipe", "socket"], f"left behind: {names(here)}")
graph = (GRAPHS / "mlp.rlx").read_text()
expect(0, "run", "-", "--random-params", "--random-inputs", stdin=graph)
expect(0, "run", "/dev/stdin", "--random-params", "--random-inputs", stdin=graph)
expect(0, "generate", *CPU, "--prompt-file", "/dev/stdin", "--max-tokens", 2, stdin="Hello")
finish()
