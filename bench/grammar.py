#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Time of a mask beside LLGuidance: the same random schemas, texts and vocabulary (SmolLM2, else
the tiny model), one thread, in turn, as processor time of the thread. Prints average, median,
p99 and maximum in microseconds; a mask that was computed before is a copy in rlx, as in
generation.

usage: RLX_BUILD_DIR=build bench/grammar.py [SCHEMAS [SEED]]
"""
import json
import random
import sys
import time
from ctypes import byref
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1] / "tests"
sys.path[:0] = [str(TESTS / "grammar"), str(TESTS / "support")]
import rlx_grammar as rlx  # noqa: E402
from llguidance_peer import Tokens, choose, matcher, random_schema, to_int  # noqa: E402
from llguidance_peer import tokens_of  # noqa: E402
from packages import BUILD, SMOLLM2, TINY  # noqa: E402

N_STEPS = 30


def timed(call):
    begin = time.thread_time_ns()
    result = call()
    return (time.thread_time_ns() - begin) / 1000, result


def run_schema(lib, vocabulary, tokens, peer, r, times):
    schema = random_schema(r)
    theirs = matcher(peer, schema)
    if theirs is None:
        return
    state = rlx.State(rlx.Grammar(lib, "json_schema", json.dumps(schema), rlx.COMPACT), vocabulary)
    for _ in range(N_STEPS):
        their_time, a = timed(theirs.compute_bitmask)
        our_time, status = timed(lambda: lib.rlx_grammar_mask(state.handle, state.bits, state.words,
                                                              byref(state.error)))
        state.check(status)
        times["llguidance"].append(their_time)
        times["rlx"].append(our_time)
        token = choose(r, tokens_of(to_int(a) & to_int(state.bits)), tokens.tokens)
        if token in tokens.ends:
            return
        theirs.consume_token(token)
        state.accept(token)
        if theirs.is_stopped():
            return


def main():
    n_schemas = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    lib = rlx.load(BUILD / "librlx.so")
    vocabulary = rlx.Vocabulary(lib, SMOLLM2 if SMOLLM2.exists() else TINY)
    tokens = Tokens(vocabulary)
    peer = tokens.peer()
    times = {"rlx": [], "llguidance": []}
    for i in range(n_schemas):
        run_schema(lib, vocabulary, tokens, peer, random.Random(seed * 10000 + i), times)
    for name, us in times.items():
        us.sort()
        n = len(us)
        print(f"{name:10}  {n} masks, us: average {sum(us) / n:.1f}  median {us[n // 2]:.1f}  "
              f"p99 {us[n * 99 // 100]:.1f}  maximum {us[-1]:.1f}")


main()
