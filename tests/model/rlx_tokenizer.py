# SPDX-License-Identifier: MIT
"""rlx's tokenizer from Python, through librlx.so, and a writer of GGUF files with metadata only."""
import ctypes
import struct
from ctypes import POINTER, byref, c_char, c_char_p, c_int32, c_size_t, c_uint, c_void_p

ADD_SPECIAL, PARSE_SPECIAL, TRUNCATE = 1, 2, 4


class Error(ctypes.Structure):
    _fields_ = [("code", ctypes.c_int), ("text", c_char * 508)]


class TokenList(ctypes.Structure):
    _fields_ = [("ids", POINTER(c_int32)), ("cap", c_size_t), ("n", c_size_t)]


class Text(ctypes.Structure):
    _fields_ = [("data", c_char_p), ("cap", c_size_t), ("n", c_size_t)]


class Tokenizer:
    library = None

    def __init__(self, path):
        self.handle = c_void_p()
        self.error = Error()
        self.check(self.library.rlx_tokenizer_open(str(path).encode(), byref(self.handle),
                                                   byref(self.error)))
        self.stream = c_void_p()
        self.check(self.library.rlx_text_stream_create(self.handle, 0, byref(self.stream),
                                                       byref(self.error)))
        self.cap = 1 << 16
        self.buffer = (c_int32 * self.cap)()

    @classmethod
    def load(cls, path):
        cls.library = lib = ctypes.CDLL(str(path))
        lib.rlx_tokenizer_encode.argtypes = [c_void_p, c_char_p, c_size_t, c_uint,
                                             POINTER(TokenList), POINTER(Error)]
        lib.rlx_tokenizer_decode.argtypes = [c_void_p, POINTER(c_int32), c_size_t, c_uint,
                                             POINTER(Text), POINTER(Error)]
        lib.rlx_text_stream_push.argtypes = [c_void_p, c_int32, POINTER(c_size_t)]
        lib.rlx_text_stream_finish.argtypes = [c_void_p, POINTER(c_size_t)]
        lib.rlx_text_stream_push.restype = lib.rlx_text_stream_finish.restype = POINTER(c_char)

    def check(self, status):
        if status:
            raise RuntimeError(self.error.text.decode(errors="replace"))

    def encode(self, text, flags=0):
        data = text.encode() if isinstance(text, str) else text
        out = TokenList(self.buffer, self.cap, 0)
        self.check(self.library.rlx_tokenizer_encode(self.handle, data, len(data), flags,
                                                     byref(out), byref(self.error)))
        if out.n > self.cap and not flags & TRUNCATE:
            self.cap = out.n
            self.buffer = (c_int32 * self.cap)()
            return self.encode(text, flags)
        return self.buffer[:out.n]

    def decode(self, ids, skip_special=False):
        array = (c_int32 * len(ids))(*ids)
        data = ctypes.create_string_buffer(64 + 64 * len(ids))
        out = Text(ctypes.cast(data, c_char_p), len(data), 0)
        self.check(self.library.rlx_tokenizer_decode(self.handle, array, len(ids), skip_special,
                                                     byref(out), byref(self.error)))
        return data.raw[:out.n]

    def stream_decode(self, ids):
        """Pieces of text, each of which must be whole characters."""
        n, pieces = c_size_t(), []
        for i in ids:
            piece = self.library.rlx_text_stream_push(self.stream, i, byref(n))
            pieces.append(piece[:n.value])
        piece = self.library.rlx_text_stream_finish(self.stream, byref(n))
        return pieces + [piece[:n.value]]

    def close(self):
        self.library.rlx_text_stream_destroy(self.stream)
        self.library.rlx_tokenizer_close(self.handle)


def gguf_value(value):
    if isinstance(value, bool):
        return 7, struct.pack("<B", value)
    if isinstance(value, int):
        return 4, struct.pack("<I", value)
    if isinstance(value, float):
        return 6, struct.pack("<f", value)
    if isinstance(value, str):
        value = value.encode()
    if isinstance(value, bytes):
        return 8, struct.pack("<Q", len(value)) + value
    if isinstance(value, bytearray):
        return 9, struct.pack("<IQ", 0, len(value)) + bytes(value)
    kinds = [gguf_value(v) for v in value]
    return 9, struct.pack("<IQ", kinds[0][0], len(kinds)) + b"".join(k[1] for k in kinds)


def write_gguf(path, meta):
    out = b"GGUF" + struct.pack("<IQQ", 3, 0, len(meta))
    for key, value in meta.items():
        kind, data = gguf_value(value)
        out += struct.pack("<Q", len(key)) + key.encode() + struct.pack("<I", kind) + data
    path.write_bytes(out)
