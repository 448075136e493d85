#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The JSON-Schema-Test-Suite, drafts 2020-12 and 7: each instance, written in several ways, is in
the language of its schema where the suite calls it valid and nowhere else, or the schema is refused
by name when the grammar is made. In the form that models write nothing invalid is taken either.

Exit status: 0 all agree, 1 not, 77 the suite cannot be had here.
"""
import json
import sys
from collections import Counter
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).resolve().parents[1] / "support")]
import rlx_grammar as rlx  # noqa: E402
from packages import BUILD, schema_suite  # noqa: E402

# Draft: its URI, tests of the suite, of which at least so many are decided.
DRAFTS = {
    "draft2020-12": ("https://json-schema.org/draft/2020-12/schema", 1257, 1108),
    "draft7": ("http://json-schema.org/draft-07/schema#", 913, 844),
}
SPELLINGS = ({}, {"separators": (",", ":")}, {"indent": 1}, {"indent": "\t"},
             {"ensure_ascii": False})


def compile_schema(lib, schema, form):
    """The grammar, None for one without instances, or the sentence that refuses it."""
    try:
        return rlx.Grammar(lib, "json_schema", json.dumps(schema), form)
    except rlx.Failure as error:
        if error.status == rlx.INVALID:
            return None
        if error.status != rlx.UNSUPPORTED:
            raise
        return str(error)


def judge(case, test, read, write):
    texts = [json.dumps(test["data"], **how) for how in SPELLINGS]
    got = {read is not None and read.matches(text) for text in texts}
    if got != {test["valid"]}:
        print(f"    {case['description']}: {test['description']}: valid {test['valid']}, got {got}")
    if not test["valid"] and any(write is not None and write.matches(text) for text in texts):
        print(f"    {case['description']}: {test['description']}: taken in the written form")
        return "wrong accept"
    return "agree" if got == {test["valid"]} else "wrong reject" if test["valid"] else \
        "wrong accept"


def run_draft(lib, folder, uri):
    counts, why = Counter(), Counter()
    for path in sorted(folder.glob("*.json")):
        for case in json.loads(path.read_text(encoding="utf-8")):
            schema = case["schema"]
            if isinstance(schema, dict) and "$schema" not in schema:
                schema = {"$schema": uri, **schema}
            read = compile_schema(lib, schema, rlx.READ)
            write = compile_schema(lib, schema, rlx.WRITE)
            for test in case["tests"]:
                if isinstance(read, str):
                    counts["refused"] += 1
                    why[read] += 1
                else:
                    counts[judge(case, test, read, write)] += 1
    return counts, why


def main():
    lib = rlx.load(BUILD / "librlx.so")
    suite = schema_suite()
    failed = False
    for draft, (uri, n, decided) in DRAFTS.items():
        counts, why = run_draft(lib, suite / draft, uri)
        print(f"{draft}: {sum(counts.values())} tests, {dict(counts)}")
        for text, count in why.most_common():
            print(f"    {count} refused: {text}")
        failed |= sum(counts.values()) != n or counts["agree"] < decided or \
            counts["wrong accept"] > 0 or counts["wrong reject"] > 0
    return failed


sys.exit(main())
