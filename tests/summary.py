#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What became of a run of ctest, from its report in the form of JUnit: counts, op cases, inputs of
fuzzers, the longest tests, what was skipped and why, what failed.

usage: summary.py REPORT
"""
import os
import re
import sys
import xml.etree.ElementTree as ElementTree

CASES = re.compile(r"^(\d+) passed, (\d+) failed, (\d+) skipped$", re.M)
INPUTS = re.compile(r"^\w+: (\d+) inputs in ", re.M)


def reason(output):
    """The line of a skipped test that says why, else its last one."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    said = [line for line in lines if "skip" in line.lower()]
    return (said or lines or ["no reason given"])[-1][:160]


def main():
    tests = ElementTree.parse(sys.argv[1]).getroot().findall("testcase")
    passed, skipped, failed = [], [], []
    cases, inputs = [0, 0, 0], 0
    for test in tests:
        name, output = test.get("name"), test.findtext("system-out") or ""
        if test.get("status") == "run":
            passed.append(name)
        elif test.find("skipped") is not None and test.get("status") != "disabled":
            skipped.append((name, reason(output)))
        else:
            failed.append(name)
        for counts in CASES.findall(output):
            cases = [a + int(b) for a, b in zip(cases, counts)]
        inputs += sum(map(int, INPUTS.findall(output)))
    longest = sorted(tests, key=lambda t: -float(t.get("time")))[:10]
    print("longest: " + ", ".join(f"{t.get('name')} {float(t.get('time')):.0f} s" for t in longest))
    for name, why in skipped:
        print(f"skipped: {name}: {why}")
    for name in failed:
        print(f"failed: {name}")
    print(f"{len(passed)} tests passed, {len(failed)} failed, {len(skipped)} skipped")
    if any(cases):
        print("op cases: {} passed, {} failed, {} skipped".format(*cases))
    if inputs:
        print(f"fuzzed inputs: {inputs}")
    seed = os.environ.get("RLX_TEST_SEED")
    if seed:
        print(f"the same shares again: RLX_TEST_SEED={seed} ./run test -R NAME")


if __name__ == "__main__":
    main()
