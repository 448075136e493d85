# SPDX-License-Identifier: MIT
"""LLGuidance over the vocabulary of an rlx tokenizer, and random schemas that both decide."""
import ctypes
import json
from ctypes import POINTER, byref, c_char_p, c_int32, c_size_t, c_uint, c_void_p

from packages import import_wheels

import_wheels("llguidance")
import llguidance  # noqa: E402

PATTERNS = ["^[a-z]+$", "^[A-Z][a-z]{2,5}[0-9]*$", "^(foo|bar)-[0-9]{3}$", "^\\d{4}-\\d{2}$"]
VALUES = ["red", "green", "blue", "light blue", True, None, 12, -3, "reddish"]


class Text(ctypes.Structure):
    _fields_ = [("data", c_char_p), ("cap", c_size_t), ("n", c_size_t)]


class TokenList(ctypes.Structure):
    _fields_ = [("ids", POINTER(c_int32)), ("cap", c_size_t), ("n", c_size_t)]


class Tokens:
    """The tokenizer as LLGuidance wants it."""

    def __init__(self, vocabulary):
        self.lib, self.handle = vocabulary.lib, vocabulary.tokenizer
        lib = self.lib
        lib.rlx_tokenizer_decode.argtypes = [c_void_p, POINTER(c_int32), c_size_t, c_uint,
                                             POINTER(Text), c_void_p]
        lib.rlx_tokenizer_encode.argtypes = [c_void_p, c_char_p, c_size_t, c_uint,
                                             POINTER(TokenList), c_void_p]
        lib.rlx_tokenizer_n_tokens.argtypes = [c_void_p]
        lib.rlx_tokenizer_is_end.argtypes = lib.rlx_token_get_kind.argtypes = [c_void_p, c_int32]
        lib.rlx_tokenizer_is_end.restype = ctypes.c_bool
        n = lib.rlx_tokenizer_n_tokens(self.handle)
        text_kinds = (1, 4, 6)  # normal, user defined, byte
        self.special_token_ids = [i for i in range(n) if
                                  lib.rlx_token_get_kind(self.handle, i) not in text_kinds]
        self.ends = [i for i in range(n) if lib.rlx_tokenizer_is_end(self.handle, i)]
        special = set(self.special_token_ids)
        self.tokens = [(b"\xff" if i in special else b"") + self.decode(i) for i in range(n)]
        self.eos_token_id, self.bos_token_id = self.ends[0], None

    def decode(self, token):
        buffer = ctypes.create_string_buffer(4096)
        text = Text(ctypes.cast(buffer, c_char_p), 4096, 0)
        self.lib.rlx_tokenizer_decode(self.handle, (c_int32 * 1)(token), 1, 0, byref(text), None)
        return buffer.raw[:text.n]

    def __call__(self, text):
        ids = (c_int32 * 8192)()
        out = TokenList(ids, 8192, 0)
        self.lib.rlx_tokenizer_encode(self.handle, text, len(text), 0, byref(out), None)
        return list(ids[:out.n])

    def peer(self):
        return llguidance.LLTokenizer(llguidance.TokenizerWrapper(self), eos_token=self.ends)


def matcher(peer, schema):
    """A matcher of compact JSON, or None when the schema is refused."""
    compact = {"whitespace_flexible": False, "item_separator": ",", "key_separator": ":"}
    grammar = llguidance.LLMatcher.grammar_from_json_schema(json.dumps(schema), overrides=compact)
    m = llguidance.LLMatcher(peer, grammar)
    return None if m.is_error() else m


def random_object(r, depth):
    names = r.sample(["name", "age", "id", "kind", "value", "items", "na"], r.randint(1, 4))
    return {"type": "object", "properties": {n: random_schema(r, depth + 1) for n in names},
            "required": [n for n in names if r.random() < .6],
            "additionalProperties": r.choice([False, False, {"type": "integer"}])}


def random_array(r, depth):
    schema = {"type": "array", "items": random_schema(r, depth + 1)}
    if r.random() < .4:
        schema["minItems"] = r.randint(0, 2)
    if r.random() < .4:
        schema["maxItems"] = r.randint(2, 4)
    return schema


def random_schema(r, depth=0):
    flat = ["string", "length", "pattern", "integer", "range", "number", "boolean", "null", "enum"]
    kind = r.choice(flat + ["object", "object", "array", "anyOf"] if depth < 3 else flat)
    low = r.randint(-50, 50)
    return {
        "string": lambda: {"type": "string"},
        "length": lambda: {"type": "string", "minLength": r.randint(0, 3),
                           "maxLength": r.randint(3, 40)},
        "pattern": lambda: {"type": "string", "pattern": r.choice(PATTERNS)},
        "integer": lambda: {"type": "integer"},
        "range": lambda: {"type": "integer", "minimum": low, "maximum": low + r.randint(1, 500)},
        "number": lambda: {"type": "number"},
        "boolean": lambda: {"type": "boolean"},
        "null": lambda: {"type": "null"},
        "enum": lambda: {"enum": r.sample(VALUES, r.randint(1, 5))},
        "object": lambda: random_object(r, depth),
        "array": lambda: random_array(r, depth),
        "anyOf": lambda: {"anyOf": [random_schema(r, depth + 1)
                                    for _ in range(r.randint(2, 3))]},
    }[kind]()


def choose(r, both, tokens):
    """A token of those that both allow, often one that ends something."""
    if r.random() < .5:
        both = [t for t in both if len(tokens[t]) <= 2 or b'"' in tokens[t]] or both
    return r.choice(both)


def to_int(bits):
    return int.from_bytes(bytes(bits), "little")


def tokens_of(mask):
    text = bin(mask)[:1:-1]
    return [i for i, bit in enumerate(text) if bit == "1"]
