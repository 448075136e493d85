# SPDX-License-Identifier: MIT
"""The C API by ctypes: structs, functions and statuses of `include/rlx`, as far as this package
uses them (tests/python/test_layout.py compares sizes and offsets with the headers). ctypes releases
the GIL during each call. A process that was forked from one that had used a device has none of its
threads: there every call raises an error that says so."""
from __future__ import annotations

import ctypes as ct
import operator
import os
import sys
import threading
from pathlib import Path
from typing import Any, Callable

from .errors import Error, Status, make

MAX_RANK, MAX_INTS = 8, 16
HERE = Path(__file__).resolve().parent

c_size = ct.c_size_t
p_void = ct.c_void_p
text = ct.c_char_p


class RlxError(ct.Structure):
    _fields_ = [("code", ct.c_int), ("text", ct.c_char * 508)]


class Shape(ct.Structure):
    _fields_ = [("rank", ct.c_int32), ("dim", ct.c_int64 * MAX_RANK)]


class Value(ct.Structure):
    _fields_ = [("id", ct.c_uint32)]


class ConstTensor(ct.Structure):
    _fields_ = [("name", text), ("data", p_void), ("bytes", c_size)]


class Tensor(ct.Structure):
    _fields_ = [("name", text), ("data", p_void), ("bytes", c_size)]


class LeafInfo(ct.Structure):
    _fields_ = [("name", text), ("value", Value), ("dtype", ct.c_int), ("shape", Shape)]


class TensorInfo(ct.Structure):
    _fields_ = [("name", text), ("dtype", ct.c_int), ("shape", Shape), ("bytes", c_size)]


class Binding(ct.Structure):
    _fields_ = [("kind", ct.c_int), ("name", text), ("buffer", p_void)]


def _all(kind: Any, names: str) -> list[tuple[str, Any]]:
    return [(name, kind) for name in names.split()]


# A seed may also be given as a negative number.
_RANGES = {ct.c_uint32: (0, 2**32 - 1), ct.c_int64: (-2**63, 2**63 - 1),
           ct.c_uint64: (-2**63, 2**64 - 1), ct.c_int: (-2**31, 2**31 - 1)}


class Sized(ct.Structure):
    """A struct that begins with its size. Whole numbers are checked: ctypes cuts what is too large.
    """

    def __init__(self, **fields: Any) -> None:
        for field in self._fields_:
            name, kind = field[0], field[1]
            if name in fields and kind in _RANGES and hasattr(fields[name], "__index__"):
                fields[name] = number = operator.index(fields[name])
                low, high = _RANGES[kind]
                if not low <= number <= high:
                    raise make(Status.INVALID, f"{name} {number}: expected a whole number from "
                                               f"{low} to {high}")
        super().__init__(struct_size=ct.sizeof(self), **fields)


class DeviceInfo(Sized):
    _fields_ = [("struct_size", c_size), ("id", ct.c_char * 32), ("backend", ct.c_char * 16),
                ("name", ct.c_char * 128), ("driver", ct.c_char * 128),
                ("detail", ct.c_char * 512), ("memory", ct.c_uint64), ("threads", ct.c_uint32),
                ("is_default", ct.c_bool), ("is_test", ct.c_bool), ("is_software", ct.c_bool)]


class BackendInfo(Sized):
    _fields_ = [("struct_size", c_size), ("name", ct.c_char * 16), ("available", ct.c_bool),
                ("reason", ct.c_char * 512)]


class DeviceDesc(Sized):
    _fields_ = [("struct_size", c_size), ("threads", ct.c_uint32)]


class BufferDesc(Sized):
    _fields_ = [("struct_size", c_size), ("dtype", ct.c_int), ("shape", Shape),
                ("bytes", c_size)]


class SessionDesc(Sized):
    _fields_ = [("struct_size", c_size), ("policy", ct.c_int), ("no_fusion", ct.c_bool),
                ("no_fold", ct.c_bool), ("keep_all", ct.c_bool), ("on_stage", p_void),
                ("on_stage_user", p_void), ("buffers", ct.POINTER(Binding)),
                ("n_buffers", c_size), ("savable", ct.c_bool), ("invariant", ct.c_bool)]


class MemoryInfo(Sized):
    _fields_ = [("struct_size", c_size),
                *_all(ct.c_uint64, "arena_bytes arena_bound unshared_bytes param_bytes "
                                   "state_bytes input_bytes constant_bytes")]


class ImportDim(ct.Structure):
    _fields_ = [("name", text), ("size", ct.c_int64)]


class ImportValue(ct.Structure):
    _fields_ = [("name", text), ("dtype", ct.c_int), ("shape", Shape), ("data", p_void)]


class ImportDesc(Sized):
    _fields_ = [("struct_size", c_size), ("dims", ct.POINTER(ImportDim)), ("n_dims", c_size),
                ("dim_bound", ct.c_int64), ("values", ct.POINTER(ImportValue)),
                ("n_values", c_size), ("device", p_void), ("inputs", ct.POINTER(ImportValue)),
                ("n_inputs", c_size), ("once", ct.c_bool)]


PROGRESS = ct.CFUNCTYPE(ct.c_int, p_void, text, ct.c_uint64, ct.c_uint64)
LOG = ct.CFUNCTYPE(None, p_void, ct.c_int, text)


class ModelDesc(Sized):
    _fields_ = [("struct_size", c_size), ("device", text), ("threads", ct.c_uint32),
                ("policy", ct.c_int), ("context", ct.c_int64), ("sequences", ct.c_int64),
                ("prompt_chunk", ct.c_int64), ("cache", ct.c_int), ("tokenizer", text),
                ("progress", PROGRESS), ("progress_user", p_void), ("no_map", ct.c_bool),
                ("gpu_layers", ct.c_int64)]


class ModelInfo(Sized):
    _fields_ = [("struct_size", c_size), ("architecture", text), ("name", text),
                ("generates", ct.c_bool), ("embeds", ct.c_bool),
                *_all(ct.c_int64, "parameters layers width vocabulary trained_context context "
                                  "sequences embedding_width"),
                ("policy", ct.c_int), *_all(ct.c_uint64, "weight_bytes cache_bytes work_bytes"),
                ("host_layers", ct.c_int64),
                *_all(ct.c_uint64, "host_weight_bytes host_cache_bytes")]


class SamplingDesc(Sized):
    _fields_ = [("struct_size", c_size), ("temperature", ct.c_double), ("top_k", ct.c_int64),
                ("top_p", ct.c_double), ("min_p", ct.c_double), ("repeat_penalty", ct.c_double),
                ("repeat_last", ct.c_int64), ("seed", ct.c_uint64),
                *_all(ct.c_double, "typical_p xtc_probability xtc_threshold dry_multiplier "
                                   "dry_base"),
                ("dry_allowed_length", ct.c_int64), ("dry_last", ct.c_int64),
                ("dry_breakers", ct.POINTER(text)), ("n_dry_breakers", c_size),
                ("mirostat", ct.c_int64), ("mirostat_tau", ct.c_double),
                ("mirostat_eta", ct.c_double)]


class Message(ct.Structure):
    _fields_ = [("role", text), ("content", text)]


class GenerateDesc(Sized):
    _fields_ = [("struct_size", c_size), ("prompt", text), ("tokens", ct.POINTER(ct.c_int32)),
                ("n_tokens", c_size), ("plain", ct.c_bool), ("sequence", c_size),
                ("max_tokens", ct.c_int64), ("sampling", ct.POINTER(SamplingDesc)),
                ("stop", ct.POINTER(text)), ("n_stop", c_size), ("ignore_end", ct.c_bool),
                ("shift", ct.c_bool), ("prompt_only", ct.c_bool), ("grammar", p_void)]


class Piece(ct.Structure):
    _fields_ = [("token", ct.c_int32), ("text", p_void), ("length", c_size)]


class GenerateResult(Sized):
    _fields_ = [("struct_size", c_size), ("finish", ct.c_int), ("n_prompt", c_size),
                ("n_reused", c_size), ("n_generated", c_size), ("prompt_seconds", ct.c_double),
                ("seconds", ct.c_double)]


PIECE_FN = ct.CFUNCTYPE(ct.c_int, p_void, ct.POINTER(Piece))


class AdapterInfo(Sized):
    _fields_ = [("struct_size", c_size), ("path", text), ("rank", ct.c_int64),
                ("products", ct.c_int64), ("parameters", ct.c_int64), ("scale", ct.c_double)]


class AdapterUse(ct.Structure):
    _fields_ = [("adapter", p_void), ("scale", ct.c_double)]


class EmbedDesc(Sized):
    _fields_ = [("struct_size", c_size), ("pooling", ct.c_int), ("no_normalize", ct.c_bool)]


class EngineDesc(Sized):
    _fields_ = [("struct_size", c_size), ("sequences", ct.c_int64), ("context", ct.c_int64),
                ("page", ct.c_int64), ("cache_bytes", ct.c_uint64), ("rows", ct.c_int64),
                ("step_ms", ct.c_double), ("queue", ct.c_int64), ("no_sharing", ct.c_bool),
                ("no_thread", ct.c_bool), ("adapters", ct.POINTER(p_void)),
                ("n_adapters", c_size)]


class EngineInfo(Sized):
    _fields_ = [("struct_size", c_size),
                *_all(ct.c_int64, "sequences context page rows pages held_pages kept_pages"),
                ("cache_bytes", ct.c_uint64), ("running", ct.c_int64), ("waiting", ct.c_int64),
                *_all(ct.c_uint64, "steps preemptions prompt_tokens cached_tokens "
                                   "generated_tokens"),
                ("step_seconds", ct.c_double)]


class TokenBias(ct.Structure):
    _fields_ = [("token", ct.c_int32), ("add", ct.c_float)]


class TokenProb(ct.Structure):
    _fields_ = [("token", ct.c_int32), ("log_prob", ct.c_float)]


class RequestPiece(ct.Structure):
    _fields_ = [("token", ct.c_int32), ("text", p_void), ("length", c_size),
                ("log_prob", ct.c_float), ("best", ct.POINTER(TokenProb)), ("n_best", c_size)]


REQUEST_FN = ct.CFUNCTYPE(ct.c_int, p_void, p_void, ct.POINTER(RequestPiece))


class RequestDesc(Sized):
    _fields_ = [("struct_size", c_size), ("prompt", text), ("tokens", ct.POINTER(ct.c_int32)),
                ("n_tokens", c_size), ("messages", ct.POINTER(Message)), ("n_messages", c_size),
                ("plain", ct.c_bool), ("sampling", ct.POINTER(SamplingDesc)),
                ("presence_penalty", ct.c_double), ("frequency_penalty", ct.c_double),
                ("bias", ct.POINTER(TokenBias)), ("n_bias", c_size), ("max_tokens", ct.c_int64),
                ("stop", ct.POINTER(text)), ("n_stop", c_size), ("ignore_end", ct.c_bool),
                ("grammar", p_void), ("log_probs", ct.c_bool), ("n_best", ct.c_int64),
                ("priority", ct.c_int64), ("deadline_ms", ct.c_int64), ("fn", REQUEST_FN),
                ("user", p_void), ("adapter", p_void), ("adapter_scale", ct.c_double)]


class RequestResult(Sized):
    _fields_ = [("struct_size", c_size), ("ended", ct.c_bool), ("status", ct.c_int),
                ("finish", ct.c_int), ("n_prompt", c_size), ("n_cached", c_size),
                ("n_generated", c_size), ("n_preempted", c_size), ("wait_seconds", ct.c_double),
                ("prompt_seconds", ct.c_double), ("seconds", ct.c_double)]


class TokenList(ct.Structure):
    _fields_ = [("ids", ct.POINTER(ct.c_int32)), ("cap", c_size), ("n", c_size)]


class Text(ct.Structure):
    _fields_ = [("data", p_void), ("cap", c_size), ("n", c_size)]


class GrammarDesc(Sized):
    _fields_ = [("struct_size", c_size), ("form", ct.c_int), ("max_bytes", ct.c_uint64),
                ("max_work", ct.c_uint64)]


class Npy(ct.Structure):
    _fields_ = [("dtype", ct.c_int), ("shape", Shape), ("bytes", c_size), ("data", p_void)]


class CrossEntropyDesc(Sized):
    _fields_ = [("struct_size", c_size), ("smoothing", ct.c_double), ("z_loss", ct.c_double)]


class OptimizerDesc(Sized):
    _fields_ = [("struct_size", c_size), ("kind", ct.c_int),
                *_all(ct.c_double, "lr beta1 beta2 eps weight_decay momentum"),
                ("nesterov", ct.c_bool), ("clip_norm", ct.c_double), ("accumulate", ct.c_int64),
                ("schedule", ct.c_int), ("warmup", ct.c_int64), ("steps", ct.c_int64),
                ("lr_end", ct.c_double)]


# What each struct is called in C, for the test that compares layouts.
STRUCTS: dict[str, type[ct.Structure]] = {
    "rlx_error": RlxError, "rlx_shape": Shape, "rlx_value": Value,
    "rlx_const_tensor": ConstTensor, "rlx_tensor": Tensor, "rlx_leaf_info": LeafInfo,
    "rlx_tensor_info": TensorInfo, "rlx_binding": Binding, "rlx_device_info": DeviceInfo,
    "rlx_backend_info": BackendInfo, "rlx_device_desc": DeviceDesc,
    "rlx_buffer_desc": BufferDesc, "rlx_session_desc": SessionDesc,
    "rlx_memory_info": MemoryInfo, "rlx_import_dim": ImportDim,
    "rlx_import_value": ImportValue, "rlx_import_desc": ImportDesc, "rlx_model_desc": ModelDesc,
    "rlx_model_info": ModelInfo, "rlx_sampling_desc": SamplingDesc, "rlx_message": Message,
    "rlx_generate_desc": GenerateDesc, "rlx_piece": Piece,
    "rlx_generate_result": GenerateResult, "rlx_embed_desc": EmbedDesc,
    "rlx_engine_desc": EngineDesc, "rlx_engine_info": EngineInfo, "rlx_token_bias": TokenBias,
    "rlx_token_prob": TokenProb, "rlx_request_piece": RequestPiece,
    "rlx_request_desc": RequestDesc, "rlx_request_result": RequestResult,
    "rlx_token_list": TokenList, "rlx_text": Text, "rlx_grammar_desc": GrammarDesc,
    "rlx_npy": Npy, "rlx_adapter_info": AdapterInfo, "rlx_adapter_use": AdapterUse,
    "rlx_cross_entropy_desc": CrossEntropyDesc, "rlx_optimizer_desc": OptimizerDesc,
}

# ---- Functions -------------------------------------------------------------------------------

_SHORT: dict[str, Any] = {
    "p": p_void, "s": text, "n": c_size, "i": ct.c_int, "u": ct.c_uint, "I": ct.c_int32,
    "l": ct.c_int64, "L": ct.c_uint64, "d": ct.c_double, "b": ct.c_bool, "v": Value,
    "E": ct.POINTER(RlxError), "H": Shape, "-": None,
}

# name: result, then arguments, a letter each; "p" is any pointer.
_FUNCTIONS = """
rlx_adapter_open ipspE                          rlx_adapter_close -p
rlx_adapter_get_info ippE                       rlx_context_set_adapters ippnE
rlx_version s                                   rlx_status_name si
rlx_free -p                                     rlx_set_log -LOGpi
rlx_dtype_name si                               rlx_dtype_from_name is
rlx_dtype_block_size li                         rlx_dtype_block_bytes li
rlx_to_float iippl                              rlx_from_float iippl
rlx_device_list ipnpE                           rlx_backend_list ipnpE
rlx_device_open isppE                           rlx_device_close -p
rlx_device_get_info ippE                        rlx_device_choose ipppE
rlx_buffer_create ipppE                         rlx_buffer_destroy -p
rlx_buffer_write ipnpnE                         rlx_buffer_read ipnpnE
rlx_buffer_map ippE                             rlx_buffer_unmap ipE
rlx_graph_create ps                             rlx_graph_destroy -p
rlx_graph_status ipE                            rlx_dim_named lpsl
rlx_dim_add lpll                                rlx_dim_sub lpll
rlx_dim_mul lpll                                rlx_dim_div lpll
rlx_dim_text nplpn                              rlx_dim_bound lpl
rlx_graph_dim bpnpp                             rlx_input vpsiip
rlx_param vpsiip                                rlx_state vpsiip
rlx_constant vpiippn                            rlx_scalar vpid
rlx_output -psv                                 rlx_named vpvs
rlx_value_dtype ipv                             rlx_value_shape Hpv
rlx_graph_leaf bpinp                            rlx_graph_n_nodes np
rlx_graph_name sp                               rlx_op npspnspn
rlx_graph_print ipppE                           rlx_graph_parse isnpE
rlx_op_name sn                                  rlx_graph_load ispE
rlx_session_create ippppE                       rlx_session_destroy -p
rlx_session_clone ippE                          rlx_session_save ipsE
rlx_session_load ipsppE                         rlx_session_set_param ipspniE
rlx_session_set_buffer ipispE                   rlx_session_bind ipslE
rlx_session_prepare ipE                         rlx_run ippnpnE
rlx_session_leaf bpinp                          rlx_session_memory ippE
rlx_session_state_read ipsnpnE                  rlx_session_state_write ipsnpnE
rlx_session_state_reset ipsE                    rlx_session_flags up
rlx_onnx_open ispE                              rlx_onnx_close -p
rlx_graph_import ipppE                          rlx_onnx_param bpnp
rlx_onnx_metadata sps                           rlx_model_open isppE
rlx_model_close -p                              rlx_model_get_info ippE
rlx_model_device pp                             rlx_model_tokenizer pp
rlx_context_create ippE                         rlx_context_destroy -p
rlx_context_cancel -p                           rlx_generation_create ipppE
rlx_generation_next iplppE                      rlx_generation_get_result ippE
rlx_generation_destroy -p                       rlx_score ippnpE
rlx_embed ippnpppE                              rlx_chat_format ippnbpE
rlx_chat_create ipspE                           rlx_chat_destroy -p
rlx_chat_say ipspPIECEppE                       rlx_chat_reset ipE
rlx_chat_undo ipE                               rlx_chat_n_messages np
rlx_chat_n_left_out np                          rlx_chat_message bpnp
rlx_chat_save ipsE                              rlx_chat_load ipsE
rlx_engine_create ipppE                         rlx_engine_destroy -p
rlx_engine_get_info ippE                        rlx_engine_submit ipppE
rlx_request_next iplppE                         rlx_request_wait iplE
rlx_request_cancel -p                           rlx_request_destroy -p
rlx_request_get_result ippE                     rlx_tokenizer_encode ipsnupE
rlx_tokenizer_decode ippnupE                    rlx_tokenizer_n_tokens Ip
rlx_tokenizer_special Ipi                       rlx_tokenizer_adds_end bp
rlx_tokenizer_chat_template sps                 rlx_token_text spIp
rlx_grammar_from_json_schema isnppE             rlx_grammar_from_regex isnppE
rlx_grammar_from_gbnf isnppE                    rlx_grammar_destroy -p
rlx_grammar_matches ipsnpE                      rlx_npy_load ispE
rlx_grad ipvpnp                                 rlx_vjp ipppnpnp
rlx_jvp vpvppn                                  rlx_stop_gradient vpv
rlx_cross_entropy vpvvp                         rlx_mse_loss vpvv
rlx_l1_loss vpvv                                rlx_huber_loss vpvvd
rlx_bce_loss vpvv                               rlx_kl_loss vpvv
rlx_optimizer ipvpnpp
"""


def _signatures() -> dict[str, tuple[Any, list[Any]]]:
    words = _FUNCTIONS.split()
    found = {}
    for name, letters in zip(words[::2], words[1::2]):
        types: list[Any] = []
        while letters:
            whole = {"LOG": LOG, "PIECE": PIECE_FN}
            word = next((w for w in whole if letters.startswith(w)), letters[0])
            types.append(whole.get(word) or _SHORT[word])
            letters = letters[len(word):]
        found[name] = (types[0], types[1:])
    return found


class Library:
    """The functions of librlx as attributes."""

    def __init__(self) -> None:
        path = os.environ.get("RLX_LIBRARY") or str(HERE / "lib" / _file_name())
        try:
            self.handle = ct.CDLL(path)
        except OSError as error:
            raise ImportError(
                f"the library of rlx cannot be loaded: {error}; RLX_LIBRARY can name another "
                "one") from None
        for name, (result, arguments) in _signatures().items():
            function = getattr(self.handle, name)
            function.restype, function.argtypes = result, arguments
            setattr(self, name, function)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)


def _file_name() -> str:
    return {"win32": "rlx.dll", "darwin": "librlx.dylib"}.get(sys.platform, "librlx.so")


lib = Library()

# ---- Errors --------------------------------------------------------------------------------------

_of_thread = threading.local()


def error() -> RlxError:
    """The place for errors of this thread's calls."""
    try:
        found: RlxError = _of_thread.error
    except AttributeError:
        found = _of_thread.error = RlxError()
    return found


def fail(status: int, err: RlxError | None = None) -> Error:
    """The exception for what the last call of this thread left."""
    said = (err or error()).text.decode("utf-8", "replace")
    return make(status, said or lib.rlx_status_name(status).decode())


def check(status: int) -> None:
    """Raises unless a call that was given `error()` succeeded."""
    if status:
        raise fail(status)


def handle(function: Callable[..., int], *args: Any) -> int:
    """The handle that a function writes to its last argument before the error."""
    out = p_void()
    check(function(*args, ct.byref(out), error()))
    assert out.value is not None
    return out.value


def utf8(given: str) -> bytes:
    """The bytes of a text."""
    if not isinstance(given, str):
        raise make(Status.INVALID, f"expected a text, got {given!r:.100}")
    try:
        return given.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as cause:
        raise make(Status.INVALID, f"the text {given!r:.100} has half of a surrogate pair at "
                                   f"character {cause.start}") from None


def encode(name: str) -> bytes:
    """A text for C. A zero byte would cut it."""
    data = utf8(name)
    if b"\0" in data:
        raise make(Status.INVALID, f"the text {name!r:.100} has a zero byte in it")
    return data


# ---- Fork ----------------------------------------------------------------------------------------

_started = False


def start() -> None:
    """Called before anything that has threads or memory of a driver."""
    global _started
    _started = True


def _in_child() -> None:
    if not _started:
        return

    def refuse(*_: Any) -> Any:
        raise Error("rlx cannot be used here: this process was forked from one that had opened a "
                    "device, and has none of its threads; start processes with the method "
                    "'spawn', or open devices after the fork", Status.INVALID)

    for name in _signatures():
        ends = name.endswith(("_destroy", "_close", "_cancel", "rlx_free"))
        setattr(lib, name, (lambda *_: None) if ends else refuse)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
