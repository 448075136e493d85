#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every struct of the public headers keeps the policy of docs/abi.md: it begins with struct_size or
is in one of the lists of those that do not, and frozen ones are marked as such in their header;
none with a size is a member of another struct. tests/runtime/test_null_args.c calls every function
that takes one with sizes of zero, of an older and of a newer version."""
import os
import re
import sys
from pathlib import Path

root = Path(os.environ["RLX_SOURCE_DIR"])
text = "".join(h.read_text(encoding="utf-8") for h in sorted((root / "include/rlx").glob("*.h")))
marked = set(re.findall(r"^\} (\w+); /\* frozen \*/$", text, flags=re.M))
text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
policy = (root / "docs/abi.md").read_text(encoding="utf-8")
listed, frozen = set(), set()
lists = r"<!-- ([^>]*): read by tests/abi/test_structs.py -->(.*?)<!-- end -->"
for kind, part in re.findall(lists, policy, flags=re.S):
    listed.update(re.findall(r"`(rlx_\w+)`", part))
    if kind == "frozen":
        frozen.update(re.findall(r"`(rlx_\w+)`", part))

structs = dict(re.findall(r"^typedef struct (\w+) \{(.*?)\} \w+;", text, flags=re.M | re.S))
sized = {name for name, body in structs.items() if body.split()[:2] == ["size_t", "struct_size;"]}
failed = []
if len(sized) < 30 or not listed:
    failed.append(f"only {len(sized)} structs with a size and {len(listed)} without were found")
for name, body in structs.items():
    if "struct_size" in body and name not in sized:
        failed.append(f"{name}: struct_size is not its first member")
    if (name in sized) == (name in listed):
        failed.append(f"{name}: " + ("has a size, but docs/abi.md lists it as one without"
                                     if name in sized else
                                     "begins with no struct_size and docs/abi.md does not list it"))
    for other in sized:
        if re.search(rf"\b{other}\b(?!\s*\*)", body):
            failed.append(f"{name} holds a {other}, which may grow; use a pointer")
failed += [f"docs/abi.md lists {name}, which is no public struct" for name in listed - set(structs)]
failed += [f"{name}: marked /* frozen */ in its header or listed as such in docs/abi.md, not both"
           for name in sorted(marked ^ frozen)]
for name in sorted(n for n in structs if n.endswith("_desc") and n not in sized):
    failed.append(f"{name}: a descriptor begins with struct_size")
print("\n".join(failed) or f"{len(sized)} structs with a size, {len(listed)} without")
sys.exit(bool(failed))
