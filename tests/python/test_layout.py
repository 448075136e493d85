#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The package's declarations of the C API are those of the headers: the arguments of each function,
and sizes, offsets and enumerators as the C compiler sees them."""
import ctypes as ct
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import package

package.need_numpy()
import rlx._c as c  # noqa: E402
from rlx.errors import Status  # noqa: E402

INCLUDE = package.SOURCE / "include"
NUMBERS = {"int": "i", "unsigned": "u", "int32_t": "I", "int64_t": "l", "uint32_t": "u",
           "uint64_t": "L", "size_t": "n", "bool": "b", "double": "d", "void": "-",
           "rlx_dim": "l", "rlx_value": "v", "rlx_shape": "H"}
ENUMS = {"rlx_status", "rlx_dtype", "rlx_leaf", "rlx_policy", "rlx_log_level", "rlx_ownership",
         "rlx_special"}
failures = []


def expect(same, what):
    if not same:
        failures.append(what)
        print("FAIL", what)


def letters(declared):
    """What a type of C may be in the table of _c.py."""
    declared = re.sub(r"\bconst\b", "", declared).strip()
    if "*" in declared or "[" in declared or declared.endswith("_fn"):
        word = declared.replace("*", " ").split()[0]
        if word == "char" and declared.count("*") == 1 and "[" not in declared:
            return "sp"
        return {"rlx_error": "E", "rlx_piece_fn": "F", "rlx_log_fn": "F"}.get(word, "p")
    word = declared.split()[0]
    return "i" if word in ENUMS else NUMBERS.get(word, "?")


def prototypes():
    for header in sorted(INCLUDE.glob("rlx/*.h")):
        text = re.sub(r"/\*.*?\*/", " ", header.read_text(encoding="utf-8"), flags=re.S)
        for result, name, arguments in re.findall(
                r"RLX_API ([\w\s]+?[\s*]+)(rlx_\w+)\(([^)]*)\);", text):
            arguments = [] if arguments.strip() == "void" else arguments.split(",")
            yield name, [letters(result)] + [letters(re.sub(r"\w+(\[\d*\])?$", r"x\1", a.strip()))
                                             for a in arguments]


def check_functions():
    known = dict(prototypes())
    callbacks = {id(c.LOG), id(c.PIECE_FN)}
    for name, (result, arguments) in c._signatures().items():
        got, want = [result, *arguments], known.get(name)
        expect(want is not None, f"{name} is not in the headers")
        if want:
            same = len(got) == len(want) and all(
                id(g) in callbacks if w == "F" else any(g is c._SHORT[letter] for letter in w)
                for g, w in zip(got, want))
            expect(same, f"{name}: the header has {' '.join(want)}")
    print(f"{len(c._signatures())} functions")


def check_structs():
    """A program of C prints what the package should have."""
    lines = []
    for name, struct in c.STRUCTS.items():
        lines.append(f'printf("{name} %zu", sizeof({name}));')
        lines += [f'printf(" %zu", offsetof({name}, {field[0]}));' for field in struct._fields_]
        lines.append('puts("");')
    lines += [f'printf("{s.name} %d\\n", RLX_{"OK" if s.name == "OK" else s.name});'
              for s in Status]
    source = "#include <stdio.h>\n#include <rlx/rlx.h>\nint main(void)\n{\n" + \
        "\n".join(lines) + "\nreturn 0;\n}\n"
    compiler = shutil.which("cc") or shutil.which("gcc")
    if not compiler:
        print("no C compiler: structs are not compared")
        return
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "layout.c").write_text(source, encoding="utf-8")
        program = os.path.join(folder, "layout")
        subprocess.run([compiler, "-std=c11", f"-I{INCLUDE}", "-o", program,
                        os.path.join(folder, "layout.c")], check=True)
        said = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    seen = {line.split()[0]: [int(n) for n in line.split()[1:]] for line in said.splitlines()}
    for name, struct in c.STRUCTS.items():
        got = [ct.sizeof(struct)] + [getattr(struct, field[0]).offset for field in struct._fields_]
        # Structs with a size may have grown at the end: the package then has an older version.
        same = got[1:] == seen[name][1:] and (
            got[0] <= seen[name][0] if issubclass(struct, c.Sized) else got[0] == seen[name][0])
        expect(same, f"{name}: {got}, C has {seen[name]}")
    for status in Status:
        expect(seen[status.name] == [int(status)], f"status {status.name}")
    print(f"{len(c.STRUCTS)} structs, {len(Status)} statuses")


check_functions()
check_structs()
sys.exit(bool(failures))
