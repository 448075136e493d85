# SPDX-License-Identifier: MIT
"""Helpers of the tests of the command line: running it, and NumPy files without NumPy."""
import fcntl
import json
import os
import pty
import struct
import subprocess
import sys
import tempfile
import termios
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "support"))
from checks import check, finish  # noqa: E402

TOOL = os.environ.get("RLX_TOOL", "build/rlx")
SOURCE = Path(os.environ.get("RLX_SOURCE_DIR", Path(__file__).resolve().parents[2]))
GRAPHS = SOURCE / "examples" / "graphs"
SCRATCH = tempfile.TemporaryDirectory(prefix="rlx-cli-")
TMP = Path(SCRATCH.name)


def skip_without_tool():
    if not os.access(TOOL, os.X_OK):
        print(f"skipped: no {TOOL}")
        sys.exit(77)


def write_tiny_model():
    """The path of a random model of a few KiB; a build without the program that makes it skips."""
    writer = Path(os.environ.get("RLX_BUILD_DIR", "build")) / "tests" / "model" / "test_generate"
    if not os.access(writer, os.X_OK):
        print(f"skipped: no {writer}")
        sys.exit(77)
    path = TMP / "tiny.gguf"
    subprocess.run([writer, "--write", path], check=True)
    return path


def run(*args, env=None, stdin=None):
    """(status, standard output, standard error) of `rlx args...`."""
    full = {k: v for k, v in os.environ.items() if k not in ("RLX_DEVICE", "RLX_THREADS")}
    full.update(env or {})
    r = subprocess.run([TOOL, *map(str, args)], capture_output=True, text=True, env=full,
                       input=stdin, timeout=300)
    return r.returncode, r.stdout, r.stderr


def run_on_terminal(*args, stdin=b"", columns=80, stdout=None, env=None):
    """(status, bytes written) of `rlx args...` on a terminal of 24 rows, by default one without
    colours; `stdout` goes elsewhere."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    p = subprocess.Popen([TOOL, *(a if isinstance(a, bytes) else str(a) for a in args)],
                         stdin=subprocess.PIPE, stdout=theirs if stdout is None else stdout,
                         stderr=theirs, env={**os.environ, **(env or {"NO_COLOR": "1"})})
    os.close(theirs)
    p.stdin.write(stdin)
    p.stdin.close()
    out = b""
    try:
        while got := os.read(ours, 4096):
            out += got
    except OSError:  # the other end is closed
        pass
    os.close(ours)
    return p.wait(), out


def devices(*backends):
    """The ids of the devices that are there, of these backends."""
    status, out, _ = run("devices", "--json")
    if status:
        return []
    return [d["id"] for d in json.loads(out) if d["backend"] in backends]


def expect(status, *args, err="", out="", **how):
    """Runs, and checks the exit status and that `err` and `out` are in what was printed."""
    got, stdout, stderr = run(*args, **how)
    words = " ".join(map(str, args))
    check(got == status, f"rlx {words}: status {got}, expected {status}\n{stdout}{stderr}")
    check(err in stderr, f"rlx {words}: expected {err!r} in standard error, got {stderr!r}")
    check(out in stdout, f"rlx {words}: expected {out!r} in standard output, got {stdout!r}")
    return stdout


def expect_json(*args, status=0, **how):
    out = expect(status, *args, "--json", **how)
    try:
        return json.loads(out)
    except ValueError as e:
        check(False, f"rlx {' '.join(map(str, args))} --json: {e}\n{out}")
        return None


def write(name, text):
    path = TMP / name
    path.write_text(text)
    return path


def write_npy(name, letter, shape, values):
    """A version 1.0 file; `letter` as in the struct module: f, i, q, B, b, ?, e."""
    kinds = {"f": "<f4", "e": "<f2", "d": "<f8", "i": "<i4", "q": "<i8", "B": "|u1", "b": "|i1",
             "?": "|b1"}
    text = "," .join(map(str, shape)) + ("," if len(shape) == 1 else "")
    head = f"{{'descr': '{kinds[letter]}', 'fortran_order': False, 'shape': ({text}), }}"
    head += " " * (63 - (10 + len(head)) % 64) + "\n"
    data = struct.pack(f"<{len(values)}{letter}", *values)
    path = TMP / name
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + data)
    return path


def read_npy(path):
    """(descr, values) of a file as above."""
    raw = Path(path).read_bytes()
    n = struct.unpack("<H", raw[8:10])[0]
    head = eval(raw[10:10 + n].decode(), {"__builtins__": {}})
    letter = {v: k for k, v in (("f", "<f4"), ("i", "<i4"), ("q", "<i8"), ("e", "<f2"))}
    letter = letter[head["descr"]]
    data = raw[10 + n:]
    return head, list(struct.unpack(f"<{len(data) // struct.calcsize(letter)}{letter}", data))
