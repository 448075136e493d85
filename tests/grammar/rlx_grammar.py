# SPDX-License-Identifier: MIT
"""rlx's grammars from Python, through librlx.so."""
import ctypes
from ctypes import POINTER, byref, c_bool, c_char, c_char_p, c_int32, c_size_t, c_uint32, c_uint64
from ctypes import c_void_p

OK, INVALID, UNSUPPORTED, NO_MEMORY, PARSE = 0, 1, 3, 5, 8
WRITE, COMPACT, READ = 0, 1, 2


class Error(ctypes.Structure):
    _fields_ = [("code", ctypes.c_int), ("text", c_char * 508)]


class Desc(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t), ("form", ctypes.c_int), ("max_bytes", c_uint64),
                ("max_work", c_uint64)]


class Failure(Exception):
    def __init__(self, status, text):
        super().__init__(text)
        self.status = status


def load(path):
    lib = ctypes.CDLL(str(path))
    for name in ("json_schema", "regex", "gbnf"):
        getattr(lib, "rlx_grammar_from_" + name).argtypes = [
            c_char_p, c_size_t, POINTER(Desc), POINTER(c_void_p), POINTER(Error)]
    lib.rlx_grammar_destroy.argtypes = [c_void_p]
    lib.rlx_grammar_matches.argtypes = [c_void_p, c_char_p, c_size_t, POINTER(c_bool),
                                        POINTER(Error)]
    lib.rlx_tokenizer_open.argtypes = [c_char_p, POINTER(c_void_p), POINTER(Error)]
    lib.rlx_vocabulary_create.argtypes = [c_void_p, POINTER(c_void_p), POINTER(Error)]
    lib.rlx_vocabulary_mask_words.argtypes = [c_void_p]
    lib.rlx_vocabulary_mask_words.restype = c_size_t
    lib.rlx_grammar_state_create.argtypes = [c_void_p, c_void_p, POINTER(c_void_p), POINTER(Error)]
    lib.rlx_grammar_state_destroy.argtypes = [c_void_p]
    lib.rlx_grammar_mask.argtypes = [c_void_p, POINTER(c_uint32), c_size_t, POINTER(Error)]
    lib.rlx_grammar_accept.argtypes = [c_void_p, c_int32, POINTER(Error)]
    lib.rlx_grammar_accept_bytes.argtypes = [c_void_p, c_char_p, c_size_t, POINTER(Error)]
    lib.rlx_grammar_is_complete.argtypes = [c_void_p]
    lib.rlx_grammar_is_complete.restype = c_bool
    return lib


class Grammar:
    """front: json_schema, regex or gbnf."""

    def __init__(self, lib, front, text, form=WRITE):
        self.lib, self.handle, self.error = lib, c_void_p(), Error()
        text = text.encode("utf-8", "surrogatepass")
        desc = Desc(ctypes.sizeof(Desc), form, 0, 0)
        self.check(getattr(lib, "rlx_grammar_from_" + front)(
            text, len(text), byref(desc), byref(self.handle), byref(self.error)))

    def check(self, status):
        if status:
            raise Failure(status, self.error.text.decode())

    def matches(self, text):
        text = text.encode()
        result = c_bool()
        self.check(self.lib.rlx_grammar_matches(self.handle, text, len(text), byref(result),
                                                byref(self.error)))
        return result.value

    def __del__(self):
        self.lib.rlx_grammar_destroy(self.handle)


class Vocabulary:
    def __init__(self, lib, path):
        self.lib, self.handle, self.tokenizer, error = lib, c_void_p(), c_void_p(), Error()
        for status in (lib.rlx_tokenizer_open(str(path).encode(), byref(self.tokenizer),
                                              byref(error)),
                       lib.rlx_vocabulary_create(self.tokenizer, byref(self.handle),
                                                 byref(error))):
            if status:
                raise Failure(status, error.text.decode())
        self.words = lib.rlx_vocabulary_mask_words(self.handle)


class State:
    def __init__(self, grammar, vocabulary):
        self.g, self.lib, self.handle = grammar, grammar.lib, c_void_p()
        self.error, self.words = Error(), vocabulary.words
        self.bits = (c_uint32 * self.words)()
        self.g.check(self.lib.rlx_grammar_state_create(grammar.handle, vocabulary.handle,
                                                       byref(self.handle), byref(grammar.error)))

    def mask(self):
        self.check(self.lib.rlx_grammar_mask(self.handle, self.bits, self.words,
                                             byref(self.error)))
        return self.bits

    def accept(self, token):
        self.check(self.lib.rlx_grammar_accept(self.handle, token, byref(self.error)))

    def accept_bytes(self, data):
        self.check(self.lib.rlx_grammar_accept_bytes(self.handle, data, len(data),
                                                     byref(self.error)))

    def is_complete(self):
        return self.lib.rlx_grammar_is_complete(self.handle)

    def check(self, status):
        if status:
            raise Failure(status, self.error.text.decode())

    def __del__(self):
        self.lib.rlx_grammar_state_destroy(self.handle)
