# SPDX-License-Identifier: MIT
"""Helpers of the tests of the command line: running it, and NumPy files without NumPy."""
import json
import os
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

TOOL = os.environ.get("RLX_TOOL", "build/rlx")
SOURCE = Path(os.environ.get("RLX_SOURCE_DIR", Path(__file__).resolve().parents[2]))
GRAPHS = SOURCE / "examples" / "graphs"
SCRATCH = tempfile.TemporaryDirectory(prefix="rlx-cli-")
TMP = Path(SCRATCH.name)

failures = []
n_checks = 0


def skip_without_tool():
    if not os.access(TOOL, os.X_OK):
        print(f"skipped: no {TOOL}")
        sys.exit(77)


def run(*args, env=None, stdin=None):
    """(status, standard output, standard error) of `rlx args...`."""
    full = {k: v for k, v in os.environ.items() if k not in ("RLX_DEVICE", "RLX_THREADS")}
    full.update(env or {})
    r = subprocess.run([TOOL, *map(str, args)], capture_output=True, text=True, env=full,
                       input=stdin, timeout=300)
    return r.returncode, r.stdout, r.stderr


def devices(*backends):
    """The ids of the devices that are there, of these backends."""
    status, out, _ = run("devices", "--json")
    if status:
        return []
    return [d["id"] for d in json.loads(out) if d["backend"] in backends]


def check(condition, text):
    global n_checks
    n_checks += 1
    if not condition:
        failures.append(text)
        print(f"FAILED: {text[:2000]}")


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


def finish():
    print(f"{n_checks} checks, {len(failures)} failed")
    sys.exit(1 if failures or not n_checks else 0)
