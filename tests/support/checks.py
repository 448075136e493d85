# SPDX-License-Identifier: MIT
"""Checks of a test script: what failed is printed at once, and counted at the end."""
import sys

failures = []
n_checks = 0


def check(condition, text):
    global n_checks
    n_checks += 1
    if not condition:
        failures.append(text)
        print(f"FAILED: {text[:2000]}", flush=True)


def finish():
    print(f"{n_checks} checks, {len(failures)} failed")
    sys.exit(1 if failures or not n_checks else 0)
