# SPDX-License-Identifier: MIT
"""The share of a long test that is run, as ops/share.sh takes it."""
import os


def share(every):
    """(N, K): each N-th piece beginning with number K. RLX_TEST_EVERY replaces N, RLX_TEST_SEED
    chooses K."""
    every = int(os.environ.get("RLX_TEST_EVERY") or every)
    seed = int(os.environ.get("RLX_TEST_SEED") or 0)
    if every > 1:
        print(f"share: each {every}th from {seed % every}, RLX_TEST_SEED={seed}", flush=True)
    return every, seed % every


def optest_share(every):
    """The same as options of optest."""
    every, first = share(every)
    return ["--every", str(every), "--from", str(first)]
