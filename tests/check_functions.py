#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares the tables of elementwise functions in docs/ops.md with the rows of rlx/functions.def.

usage: check_functions.py [--write] [ROOT]
  --write   makes the tables anew instead
"""
import re
import sys
from pathlib import Path

ROW = re.compile(r"^RLX_FUNCTION([12])\((\w+),(.*?)\s(FLOATS|NUMBERS),", re.S | re.M)
TYPES = {"FLOATS": "floats", "NUMBERS": "floats, integers"}
TITLES = {"1": "one operand", "2": "two operands"}


def attributes(columns):
    """`alpha [0.2], beta [0.5]` of `alpha_beta, 0.2, 0.5`."""
    names, *defaults = [c.strip() for c in columns.split(",")]
    if names == "none":
        return ""
    return ", ".join(f"{n} [{float(d):.8g}]" for n, d in zip(names.split("_"), defaults))


def table(rows, operands):
    lines = ["| op | types | attributes | meaning |", "|---|---|---|---|"]
    for count, name, columns, types in rows:
        if count != operands:
            continue
        before, *texts = re.split(r'"((?:[^"\\]|\\.)*)"', columns)
        attrs = attributes(before) if count == "1" else ""
        lines.append(f"| `{name}` | {TYPES[types]} | {attrs} | {''.join(texts[::2])} |")
    return "\n".join(line.replace("|  |", "| |") for line in lines)


def main():
    args = [a for a in sys.argv[1:] if a != "--write"]
    root = Path(args[0]) if args else Path(__file__).resolve().parent.parent
    path = root / "docs/ops.md"
    rows = ROW.findall((root / "include/rlx/functions.def").read_text())
    old = new = path.read_text()
    for operands, title in TITLES.items():
        begin, end = f"<!-- functions of {title} -->\n", "\n<!-- end -->"
        if begin not in new:
            sys.exit(f"{path}: expected the line '{begin.strip()}'")
        head, rest = new.split(begin, 1)
        new = head + begin + table(rows, operands) + end + rest.split(end, 1)[1]
    if "--write" in sys.argv:
        path.write_text(new)
    elif new != old:
        for a, b in zip(old.split("\n"), new.split("\n")):
            if a != b:
                print(f"docs/ops.md: expected {b!r}\n             found    {a!r}")
                break
        sys.exit("docs/ops.md differs from rlx/functions.def: run tests/check_functions.py --write")
    print(f"{len(rows)} functions")


main()
