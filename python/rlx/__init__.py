# SPDX-License-Identifier: MIT
"""rlx: neural-network graphs and language models on any GPU or the CPU.

    import rlx
    model = rlx.Model("model.gguf")               # or a name that `rlx pull` has got
    for piece in model.generate("Once upon a time", max_tokens=64):
        print(piece, end="", flush=True)

    session = rlx.load("model.onnx")
    outputs = session.run(None, {"x": array})
"""
from __future__ import annotations

from ._c import lib as _lib
from .device import BackendInfo, Buffer, Device, DeviceInfo, backends, devices
from .engine import Engine, EngineInfo, Request
from .errors import (CancelledError, DeviceLostError, Error, FileError, InvalidError,
                     NoDeviceError, NoMemoryError, NotFoundError, ParseError, Status,
                     UnsupportedError, WaitTimeoutError)
from .graph import Dimension, Graph, Leaf, Value
from .model import Answer, Chat, Generation, Model, ModelInfo
from .ops import (acos, acosh, argmax, asin, asinh, atan, atan2, atanh, attention, catalogue, ceil,
                  clamp, concat, conv2d, cos, cosh, dequant_matmul, elu, erf, exp, exp2, floor,
                  gather, gelu, gelu_tanh, hard_swish, is_inf, is_nan, layer_norm, leaky_relu, log,
                  log2, log_sigmoid, log_softmax, matmul, maximum, minimum, mish, reciprocal, relu,
                  rms_norm, round, rsqrt, sigmoid, sign, silu, sin, sinh, softmax, softplus,
                  softsign, sqrt, state_write, tan, tanh, top_k, where)
from .options import Adapter, Grammar, Options, Piece, Result
from .session import Bound, InferenceSession, MemoryInfo, NodeArg, Session, load
from .stream import Stream
from .training import (bce_loss, cross_entropy, grad, huber_loss, jvp, kl_loss, l1_loss, mse_loss,
                       optimize, stop_gradient, vjp)

__version__: str = _lib.rlx_version().decode()

__all__ = [
    "__version__", "Adapter", "Answer", "BackendInfo", "Bound", "Buffer", "CancelledError",
    "Chat", "Device", "DeviceInfo", "DeviceLostError", "Dimension", "Engine", "EngineInfo",
    "Error", "FileError", "Generation", "Grammar", "Graph", "InferenceSession", "InvalidError",
    "Leaf", "MemoryInfo", "Model", "ModelInfo", "NoDeviceError", "NoMemoryError", "NodeArg",
    "NotFoundError", "Options", "ParseError", "Piece", "Request", "Result", "Session", "Status",
    "Stream", "UnsupportedError", "Value", "WaitTimeoutError", "acos", "acosh", "argmax",
    "asin", "asinh", "atan", "atan2", "atanh", "attention", "backends", "bce_loss", "catalogue",
    "ceil", "clamp", "concat", "conv2d", "cos", "cosh", "cross_entropy", "dequant_matmul",
    "devices", "elu", "erf", "exp", "exp2", "floor", "gather", "gelu", "gelu_tanh", "grad",
    "hard_swish", "huber_loss", "is_inf", "is_nan", "jvp", "kl_loss", "l1_loss", "layer_norm",
    "leaky_relu", "load", "log", "log2", "log_sigmoid", "log_softmax", "matmul", "maximum",
    "minimum", "mish", "mse_loss", "optimize", "reciprocal", "relu", "rms_norm", "round",
    "rsqrt", "sigmoid", "sign", "silu", "sin", "sinh", "softmax", "softplus", "softsign",
    "sqrt", "state_write", "stop_gradient", "tan", "tanh", "top_k", "vjp", "where",
]
