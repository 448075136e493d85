# SPDX-License-Identifier: MIT
"""The operations of docs/ops.md as functions of values, the usual ones; `Graph.op` has all."""
from __future__ import annotations

from typing import Callable, Sequence

from .arrays import DTypeLike, dtype_name, dtype_number
from .graph import Graph, Operand, Value


def _unary(name: str) -> Callable[[Value], Value]:
    def function(x: Value) -> Value:
        return x.op(name)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"The operation `{name}` of each element."
    return function


def _binary(name: str) -> Callable[[Value, Operand], Value]:
    def function(a: Value, b: Operand) -> Value:
        return a.op(name, b)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"The operation `{name}` of elements, which broadcast."
    return function


relu, gelu, gelu_tanh = _unary("relu"), _unary("gelu"), _unary("gelu_tanh")
silu, sigmoid, tanh = _unary("silu"), _unary("sigmoid"), _unary("tanh")
exp, exp2, log, log2 = _unary("exp"), _unary("exp2"), _unary("log"), _unary("log2")
sqrt, rsqrt, reciprocal = _unary("sqrt"), _unary("rsqrt"), _unary("reciprocal")
sin, cos, tan = _unary("sin"), _unary("cos"), _unary("tan")
asin, acos, atan = _unary("asin"), _unary("acos"), _unary("atan")
sinh, cosh, asinh = _unary("sinh"), _unary("cosh"), _unary("asinh")
acosh, atanh, erf = _unary("acosh"), _unary("atanh"), _unary("erf")
floor, ceil, round, sign = _unary("floor"), _unary("ceil"), _unary("round"), _unary("sign")
softplus, softsign, mish = _unary("softplus"), _unary("softsign"), _unary("mish")
hard_swish, log_sigmoid = _unary("hard_swish"), _unary("log_sigmoid")
is_nan, is_inf = _unary("is_nan"), _unary("is_inf")
maximum, minimum, atan2 = _binary("max"), _binary("min"), _binary("atan2")


def elu(x: Value, alpha: float | None = None) -> Value:
    """x > 0 ? x : alpha (exp(x) - 1)"""
    return x.op("elu", alpha=alpha)


def leaky_relu(x: Value, alpha: float | None = None) -> Value:
    """x < 0 ? alpha x : x"""
    return x.op("leaky_relu", alpha=alpha)


def clamp(x: Value, lo: float, hi: float) -> Value:
    """min(max(x, lo), hi)"""
    return x.op("clamp", lo=float(lo), hi=float(hi))


def where(condition: Value, a: Operand, b: Operand) -> Value:
    """The elements of a where the condition is true, else those of b."""
    graph = condition.graph
    like = next((v for v in (a, b) if isinstance(v, Value)), None)
    values = [v if isinstance(v, Value) else Value(graph, graph._literal(v, like))
              for v in (a, b)]
    return condition.op("where", *values)


def matmul(a: Value, b: Value, bias: Value | None = None, residual: Value | None = None, *,
           trans_b: bool = False, act: str = "none", out: DTypeLike = None) -> Value:
    """act(a @ b + bias) + residual; with trans_b, b is [.., N, K]."""
    return a.op("matmul", b, bias, residual, trans_b=trans_b, act=act,
                out=None if out is None else dtype_name(dtype_number(out)))


def dequant_matmul(x: Value, w: Value) -> Value:
    """x [.., K] times a packed weight [N, K]."""
    return x.op("dequant_matmul", w)


def softmax(x: Value, axis: int = -1) -> Value:
    """Softmax along an axis."""
    return x.op("softmax", axis=axis)


def log_softmax(x: Value, axis: int = -1) -> Value:
    """The logarithm of softmax along an axis."""
    return x.op("log_softmax", axis=axis)


def layer_norm(x: Value, gamma: Value | None = None, beta: Value | None = None, *,
               eps: float | None = None) -> Value:
    """Layer normalisation over the last axis."""
    return x.op("layer_norm", gamma, beta, eps=eps)


def rms_norm(x: Value, gamma: Value | None = None, *, eps: float | None = None) -> Value:
    """Root-mean-square normalisation over the last axis."""
    return x.op("rms_norm", gamma, eps=eps)


def attention(q: Value, k: Value, v: Value, mask: Value | None = None, *, causal: bool = False,
              scale: float | None = None, layout: str = "bhsd") -> Value:
    """Scaled dot-product attention; layout "bhsd" or "bshd"."""
    return q.op("attention", k, v, mask, causal=causal, scale=scale, layout=layout)


def conv2d(x: Value, w: Value, bias: Value | None = None, *, stride: Sequence[int] | None = None,
           pads: Sequence[int] | None = None, dilation: Sequence[int] | None = None,
           groups: int | None = None, act: str = "none") -> Value:
    """A convolution of x [N,C,H,W] with w [O,C/groups,kh,kw]; pads: begins, then ends."""
    return x.op("conv2d", w, bias, stride=stride, pads=pads, dilation=dilation, groups=groups,
                act=act)


def concat(values: Sequence[Value], axis: int = 0) -> Value:
    """Values one behind the other along an axis."""
    return values[0].op("concat", *values[1:], axis=axis)


def gather(x: Value, index: Value, axis: int = 0) -> Value:
    """Slices of x along an axis."""
    return x.op("gather", index, axis=axis)


def argmax(x: Value, axis: int = -1) -> Value:
    """The index of the largest element along an axis."""
    return x.op("argmax", axis=axis)


def top_k(x: Value, k: int, axis: int = -1) -> tuple[Value, Value]:
    """The k largest elements along an axis, and their indices."""
    values, indices = x.graph.op("top_k", x, k=k, axis=axis)
    return values, indices


def state_write(state: Value, value: Value, position: Operand = 0, axis: int = 0) -> Value:
    """A state with `value` written from a position along an axis."""
    graph: Graph = state.graph
    if not isinstance(position, Value):
        position = graph.constant(position, "i32" if isinstance(position, int) else None)
    return state.op("state_write", value, position, axis=axis)


def catalogue() -> list[str]:
    """The names of all operations."""
    from ._c import lib

    names: list[str] = []
    while (name := lib.rlx_op_name(len(names))) is not None:
        names.append(name.decode())
    return names
