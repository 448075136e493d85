#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Masks token by token against LLGuidance, on the vocabulary of SmolLM2 (else of the tiny model)
with random schemas in the compact form. LLGuidance allows only the tokenizer's own tokens where
bytes are forced: there its tokens must be among ours, elsewhere they are the same. Escapes are left
out: LLGuidance writes more of them.

Exit status: 0 all equal, 1 not, 77 LLGuidance cannot be had here.
"""
import json
import os
import random
import re
import sys
from ctypes import POINTER, byref, c_char_p, c_size_t, c_void_p, create_string_buffer
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).resolve().parents[1] / "support")]
import rlx_grammar as rlx  # noqa: E402
from llguidance_peer import Tokens, choose, matcher, random_schema, to_int  # noqa: E402
from llguidance_peer import tokens_of  # noqa: E402
from packages import BUILD, SMOLLM2, TINY  # noqa: E402

N_SCHEMAS, N_STEPS = 60, 24
SEED = int(os.environ.get("RLX_TEST_SEED", "1"))


def is_forced(lib, state):
    n = c_size_t()
    lib.rlx_grammar_forced_bytes(state.handle, create_string_buffer(1), 1, byref(n), None)
    return n.value > 0


def compare(lib, vocabulary, tokens, peer, skip, seed):
    """Masks that were compared, or the sentence of a difference."""
    r = random.Random(seed)
    schema = random_schema(r)
    theirs = matcher(peer, schema)
    if theirs is None:
        return 0
    state = rlx.State(rlx.Grammar(lib, "json_schema", json.dumps(schema), rlx.COMPACT), vocabulary)
    text, n = b"", 0
    for _ in range(N_STEPS):
        a, b = to_int(theirs.compute_bitmask()), to_int(state.mask())
        n += 1
        differ = (a ^ b) & ~skip
        escape = re.search(rb"(?<!\\)(\\\\)*\\(u[0-9a-fA-F]{0,3})?$", text)
        if differ and not escape and (a & ~b & ~skip or not is_forced(lib, state)):
            which = tokens.tokens[tokens_of(differ)[0]]
            return f"{json.dumps(schema)}: after {text}: {which} is allowed by one only"
        token = choose(r, tokens_of(a & b), tokens.tokens)
        if token in tokens.ends:
            break
        theirs.consume_token(token)
        state.accept(token)
        text += tokens.tokens[token]
        if theirs.is_stopped():
            break
    return n


def main():
    lib = rlx.load(BUILD / "librlx.so")
    lib.rlx_grammar_forced_bytes.argtypes = [c_void_p, c_char_p, c_size_t, POINTER(c_size_t),
                                             c_void_p]
    vocabulary = rlx.Vocabulary(lib, SMOLLM2 if SMOLLM2.exists() else TINY)
    tokens = Tokens(vocabulary)
    peer = tokens.peer()
    # Others are escaped by LLGuidance, and there is no U+007F inside of its strings.
    skip = sum(1 << i for i, t in enumerate(tokens.tokens) if b"\\" in t or b"\x7f" in t)
    n = failed = 0
    for i in range(N_SCHEMAS):
        got = compare(lib, vocabulary, tokens, peer, skip, SEED * 1000 + i)
        if isinstance(got, str):
            print(got)
            failed += 1
        else:
            n += got
    print(f"{n} masks of {N_SCHEMAS} random schemas (seed {SEED}), {failed} schemas differ")
    return failed > 0 or n < N_SCHEMAS


sys.exit(main())
