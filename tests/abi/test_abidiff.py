#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The public headers against the committed description of their ABI, tests/abi/SONAME.abi: a change
that docs/abi.md does not allow fails, with abidiff's words. Then the test is tested: copies of the
headers with changes that must be seen and changes that must be let through."""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from pathlib import Path

import dump

root = Path(os.environ["RLX_SOURCE_DIR"])
here = root / "tests/abi"

# name, header, what to find, what to put there
BREAKS = [
    ("a field in an element of arrays", "session.h", r"(typedef struct rlx_tensor \{)",
     r"\1 int more;"),
    ("a field at the end of an element of arrays", "model.h", r"(\} rlx_message;)",
     r"int more; \1"),
    ("a field amid a descriptor", "session.h", r"(    rlx_policy policy;)", r"    int more;\n\1"),
    ("a field that has another type", "device.h", r"uint32_t threads; (/\* CPU:)",
     r"uint64_t threads; \1"),
    ("two fields that changed places", "ops.h", r"(    double top_p; .*\n)(    double min_p;\n)",
     r"\2\1"),
    ("a field in the padding of a descriptor", "device.h",
     r"(    uint64_t flags;   /\* RLX_DEVICE)", r"    uint32_t more;\n\1"),
    ("a parameter of another type", "graph.h", r"size_t n_in,", r"uint32_t n_in,"),
    ("a parameter more", "base.h", r"rlx_version\(void\)", r"rlx_version(int verbose)"),
    ("a result of another type", "graph.h", r"size_t rlx_graph_n_nodes", r"int rlx_graph_n_nodes"),
    ("a function that is gone", "npy.h", r"RLX_API rlx_status rlx_npy_\w+\([^;]*;", ""),
    ("an enumerator amid others", "base.h", r"(    RLX_NOT_FOUND,)", r"    RLX_MORE,\n\1"),
    ("an enumerator amid those with a count", "base.h", r"(    RLX_Q4_0,)", r"    RLX_MORE, \1"),
    ("another constant", "graph.h", r"#define RLX_MAX_RANK 8", "#define RLX_MAX_RANK 9"),
]
ADDITIONS = [
    ("a function", "base.h", r"(RLX_API const char \*rlx_version)",
     r"RLX_API int rlx_more(int x);\n\1"),
    ("a type", "base.h", r"(typedef enum rlx_dtype)",
     r"typedef struct rlx_more { int x; } rlx_more;\n\1"),
    ("a field at the end of a descriptor", "session.h", r"(\} rlx_session_desc;)",
     r"void *more; int and_more; \1"),
    ("a field at the end of an info", "device.h", r"(\} rlx_device_info;)", r"int64_t more; \1"),
    ("a last enumerator", "base.h", r"(    RLX_INTERNAL) ", r"\1, RLX_MORE "),
    ("an enumerator before a count", "base.h", r"(    RLX_N_DTYPES)", r"    RLX_MORE_TYPE,\n\1"),
]


def members(struct):
    return struct.findall("data-member")


def without_growth(old, new):
    """`new` with its structs that begin with struct_size as long as they are in `old`: the fields
    that were added at the end, and not in the padding of an older one, are taken away."""
    before = {s.get("name"): s for s in old.iter("class-decl")}
    for struct in new.iter("class-decl"):
        was, fields = before.get(struct.get("name")), members(struct)
        if was is None or not fields or fields[0].find("var-decl").get("name") != "struct_size":
            continue
        for field in fields[len(members(was)):]:
            if int(field.get("layout-offset-in-bits")) >= int(was.get("size-in-bits")):
                struct.remove(field)
                struct.set("size-in-bits", was.get("size-in-bits"))
    return new


def difference(include, old):
    """What abidiff says of the headers in `include`; empty when nothing forbidden changed."""
    with tempfile.TemporaryDirectory() as folder:
        new = Path(folder, "new.abi")
        tree = without_growth(ET.parse(old).getroot(), ET.fromstring(dump.abixml(include)))
        new.write_bytes(ET.tostring(tree))
        done = subprocess.run(
            ["abidiff", "--suppressions", str(here / "allowed.suppr"), "--no-added-syms",
             "--no-show-locs", "--no-corpus-path", str(old), str(new)],
            text=True, capture_output=True, check=False)
    if done.returncode & 3:  # the tool itself failed
        sys.exit(f"abidiff: {done.stdout}{done.stderr}")
    return done.stdout if done.returncode else ""


def mutated(change, old):
    name, header, pattern, by = change
    with tempfile.TemporaryDirectory() as include:
        shutil.copytree(root / "include/rlx", Path(include, "rlx"))
        target = Path(include, "rlx", header)
        text, n = re.subn(pattern, by, target.read_text(encoding="utf-8"), count=1)
        if n != 1:
            sys.exit(f"{name}: include/rlx/{header} has no {pattern}")
        target.write_text(text, encoding="utf-8")
        return difference(include, old)


def main():
    if not shutil.which("abidiff"):
        print("skipped: abidiff is not installed (Debian: abigail-tools)")
        return 77
    if sys.maxsize < 2**32:
        print("skipped: the ABI that is committed is that of 64-bit machines")
        return 77
    include = str(root / "include")
    old = here / (dump.soname(include) + ".abi")
    if not old.exists():
        print(f"{old.name} is missing: ./run abi writes it for this version")
        return 1
    failed = 0
    changed = difference(include, old)
    if changed:
        print(changed + f"\nPrograms made with {old.stem} would break: undo that, or raise the "
              "version as docs/abi.md says and run ./run abi")
        failed += 1
    for change in BREAKS:
        if not mutated(change, old):
            print(f"not noticed: {change[0]}")
            failed += 1
    for change in ADDITIONS:
        said = mutated(change, old)
        if said:
            print(f"refused: {change[0]}\n{said}")
            failed += 1
    print(f"{len(BREAKS)} changes seen, {len(ADDITIONS)} additions let through"
          if not failed else f"{failed} failed")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
