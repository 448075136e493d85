#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes src/model/unicode_tables.h: general categories, decompositions, compositions, combining
classes and lower case, as compact ranges. The data comes from the PyPI package unicodedata2 (here
16.0.0) where it is installed, else from Python's own unicodedata.

usage: make_tables.py [OUT]
"""
import sys
from pathlib import Path

try:
    import unicodedata2 as ud
except ImportError:
    import unicodedata as ud

# The order of rx_category in src/model/unicode.h.
CATEGORIES = ("Cn Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po "
              "Sm Sc Sk So Zs Zl Zp Cc Cf Cs Co").split()
LAST = 0x10FFFF
PAGED = 0x20000  # below: pages of 256 code points; above: few long ranges
HANGUL = range(0xAC00, 0xD7A4)  # by rule, not by table


def category(c):
    return CATEGORIES.index(ud.category(chr(c)))


def array(kind, name, values):
    lines, line = [], "    "
    for v in values:
        if len(line) + len(str(v)) + 1 > 100:
            lines.append(line)
            line = "    "
        line += f"{v},"
    return "\n".join([f"static const {kind} {name}[] = {{", *lines, line, "};", ""])


def category_tables():
    index, entries = [], []
    for page in range(PAGED // 256):
        index.append(len(entries))
        before = None
        for low in range(256):
            c = category(page * 256 + low)
            if c != before:
                entries.append(low << 5 | c)
            before = c
    index.append(len(entries))
    ranges, before = [], None
    for c in range(PAGED, LAST + 1):
        if category(c) != before:
            before = category(c)
            ranges += [c << 5 | before]
    return [array("uint16_t", "category_pages", index),
            array("uint16_t", "category_entries", entries),
            array("uint32_t", "category_ranges", ranges)]


def decompositions():
    """code point -> (is_compatibility, full decomposition); both where the two differ"""
    for c in range(LAST + 1):
        if c in HANGUL or 0xD800 <= c < 0xE000:
            continue
        nfd, nfkd = ud.normalize("NFD", chr(c)), ud.normalize("NFKD", chr(c))
        if nfd != chr(c):
            yield c, 0, nfd
        if nfkd != nfd:
            yield c, 1, nfkd


def decomposition_tables():
    """Runs of neighbours with the same kind and length; their letters lie one after the other."""
    runs, letters = {0: [], 1: []}, []
    for kind in (0, 1):
        for c, k, text in decompositions():
            if k != kind:
                continue
            last = runs[kind][-1] if runs[kind] else None
            if last and last[0] + last[1] == c and last[2] == len(text):
                last[1] += 1
            else:
                runs[kind].append([c, 1, len(text), len(letters)])
            letters += map(ord, text)
    flat = {kind: [v for run in runs[kind] for v in run] for kind in (0, 1)}
    return [array("uint32_t", "canonical_runs", flat[0]),
            array("uint32_t", "compatible_runs", flat[1]),
            array("uint32_t", "decomposed_letters", letters)]


def composition_table():
    pairs = []
    for c in range(LAST + 1):
        text = ud.decomposition(chr(c))
        if c in HANGUL or not text or text.startswith("<"):
            continue
        parts = [int(p, 16) for p in text.split()]
        if len(parts) == 2 and ud.normalize("NFC", chr(c)) == chr(c):
            pairs.append((*parts, c))
    return [array("uint32_t", "composition_pairs", [v for p in sorted(pairs) for v in p])]


def class_table():
    ranges = []
    for c in range(LAST + 1):
        k = ud.combining(chr(c))
        if k and ranges and ranges[-1][1] == c - 1 and ranges[-1][2] == k:
            ranges[-1][1] = c
        elif k:
            ranges.append([c, c, k])
    return [array("uint32_t", "combining_ranges", [v for r in ranges for v in r])]


def lower_table():
    """Ranges (first, last, step, distance); U+0130, which becomes two letters, is left out."""
    ranges = []
    for c in range(0x80, LAST + 1):
        low = chr(c).lower()
        if c == 0x130 or low == chr(c) or ud.category(chr(c)) == "Cn":
            continue
        distance, last = ord(low) - c, ranges[-1] if ranges else None
        if last and last[3] == distance and c - last[1] <= 2 and \
                (last[0] == last[1] or last[2] == c - last[1]):
            last[1], last[2] = c, c - last[1]
        else:
            ranges.append([c, c, 1, distance])
    return [array("int32_t", "lower_ranges", [v for r in ranges for v in r])]


def main():
    out = Path(sys.argv[1] if len(sys.argv) > 1 else
               Path(__file__).parents[2] / "src/model/unicode_tables.h")
    text = ["/* SPDX-License-Identifier: MIT */",
            f"/* Facts of Unicode {ud.unidata_version}, for unicode.c. Made by "
            "tools/unicode/make_tables.py; not edited. */", ""]
    text += category_tables() + decomposition_tables() + composition_table()
    text += class_table() + lower_table()
    out.write_text("\n".join(text).rstrip("\n") + "\n", encoding="utf-8")
    print(f"{out}: Unicode {ud.unidata_version}, {out.stat().st_size} bytes")


if __name__ == "__main__":
    main()
