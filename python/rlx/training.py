# SPDX-License-Identifier: MIT
"""Derivatives of graphs, losses and optimisers: a graph whose runs are steps of training."""
from __future__ import annotations

import ctypes as ct
from typing import Any, Sequence

from . import _c
from ._c import lib
from .errors import InvalidError
from .graph import Graph, Value

_KINDS = ("adamw", "adam", "sgd", "lion")
_SCHEDULES = ("constant", "linear", "cosine")


def _raw(values: Sequence[Value]) -> Any:
    return (_c.Value * max(len(values), 1))(*[v.raw for v in values])


def _graph_of(values: Sequence[Value], what: str) -> Graph:
    if not values:
        raise InvalidError(f"{what}: expected at least one value")
    graph: Graph = values[0].graph
    if any(v.graph is not graph for v in values):
        raise InvalidError(f"{what}: expected values of one graph")
    return graph


def _made(graph: Graph, raw: _c.Value) -> Value:
    graph.check()
    return Value(graph, raw)


def vjp(y: Sequence[Value], dy: Sequence[Value], wrt: Sequence[Value]) -> list[Value]:
    """The derivatives by each of `wrt` of results y whose own derivatives are dy."""
    graph = _graph_of([*wrt, *y, *dy], "vjp")
    if len(y) != len(dy):
        raise InvalidError(f"vjp: {len(y)} results with {len(dy)} derivatives")
    out = (_c.Value * max(len(wrt), 1))()
    lib.rlx_vjp(graph.handle, _raw(y), _raw(dy), len(y), _raw(wrt), len(wrt), out)
    graph.check()
    return [Value(graph, _c.Value(out[i].id)) for i in range(len(wrt))]


def grad(loss: Value, wrt: Sequence[Value]) -> list[Value]:
    """The derivatives of `loss`, one element, by each of `wrt`.

    >>> import numpy as np, rlx
    >>> g = rlx.Graph()
    >>> x = g.input("x", (3,), "f64")
    >>> dx, = rlx.grad((x * x * x).sum(), [x])
    >>> g.output("dx", dx)
    >>> g.compile("cpu").run(None, {"x": np.array([1.0, 2.0, 3.0])})
    [array([ 3., 12., 27.])]
    """
    graph = _graph_of([loss, *wrt], "grad")
    out = (_c.Value * max(len(wrt), 1))()
    lib.rlx_grad(graph.handle, loss.raw, _raw(wrt), len(wrt), out)
    graph.check()
    return [Value(graph, _c.Value(out[i].id)) for i in range(len(wrt))]


def jvp(y: Value, wrt: Sequence[Value], tangents: Sequence[Value]) -> Value:
    """Forward mode: how y changes when each of `wrt` changes along its tangent."""
    graph = _graph_of([y, *wrt, *tangents], "jvp")
    if len(wrt) != len(tangents):
        raise InvalidError(f"jvp: {len(wrt)} values with {len(tangents)} tangents")
    return _made(graph, lib.rlx_jvp(graph.handle, y.raw, _raw(wrt), _raw(tangents), len(wrt)))


def stop_gradient(x: Value) -> Value:
    """x, through which no derivative flows."""
    return _made(x.graph, lib.rlx_stop_gradient(x.graph.handle, x.raw))


# ---- Losses --------------------------------------------------------------------------------------

def cross_entropy(logits: Value, labels: Value, smoothing: float = 0.0,
                  z_loss: float = 0.0) -> Value:
    """-log softmax(logits)[label], the mean over rows whose label is not negative."""
    graph = _graph_of([logits, labels], "cross_entropy")
    desc = _c.CrossEntropyDesc(smoothing=smoothing, z_loss=z_loss)
    return _made(graph, lib.rlx_cross_entropy(graph.handle, logits.raw, labels.raw,
                                              ct.byref(desc)))


def _loss(name: str, x: Value, target: Value, *more: float) -> Value:
    graph = _graph_of([x, target], name)
    return _made(graph, getattr(lib, "rlx_" + name)(graph.handle, x.raw, target.raw, *more))


def mse_loss(x: Value, target: Value) -> Value:
    """The mean of (x - target)^2."""
    return _loss("mse_loss", x, target)


def l1_loss(x: Value, target: Value) -> Value:
    """The mean of |x - target|."""
    return _loss("l1_loss", x, target)


def huber_loss(x: Value, target: Value, delta: float = 1.0) -> Value:
    """The mean of e^2 / 2 for e = |x - target| up to delta, of delta (e - delta / 2) beyond."""
    return _loss("huber_loss", x, target, delta)


def bce_loss(logits: Value, target: Value) -> Value:
    """Binary cross entropy of sigmoid(logits) and targets from 0 to 1."""
    return _loss("bce_loss", logits, target)


def kl_loss(x: Value, target: Value) -> Value:
    """The divergence of log-probabilities x from probabilities `target`, its mean over the rows."""
    return _loss("kl_loss", x, target)


# ---- Optimisers ----------------------------------------------------------------------------------

def _number(names: Sequence[str], name: str, what: str) -> int:
    if name not in names:
        raise InvalidError(f"optimize: {what} '{name}'; expected one of {', '.join(names)}")
    return names.index(name)


def optimize(loss: Value, params: Sequence[Value], kind: str = "adamw",
             schedule: str = "constant", **options: Any) -> Value:
    """Makes each run of the graph a step of training that lowers `loss` by changing the states
    `params`. Options as in rlx_optimizer_desc: lr, beta1, beta2, eps, weight_decay, momentum,
    nesterov, clip_norm, accumulate, warmup, steps, lr_end. Returns the norm of all derivatives.

    >>> import rlx
    >>> g = rlx.Graph()
    >>> w = g.state("w", (2,))
    >>> loss = rlx.mse_loss(w, g.input("x", (2,)))
    >>> g.output("loss", loss)
    >>> norm = rlx.optimize(loss, [w], "sgd", lr=1.0)
    >>> s = g.compile("cpu")
    >>> [s.run(None, {"x": [1.0, 3.0]})[0].tolist() for _ in range(2)], s.state("w").tolist()
    ([5.0, 0.0], [1.0, 3.0])
    """
    graph = _graph_of([loss, *params], "optimize")
    desc = _c.OptimizerDesc(kind=_number(_KINDS, kind, "kind"),
                            schedule=_number(_SCHEDULES, schedule, "schedule"), **options)
    norm = _c.Value()
    lib.rlx_optimizer(graph.handle, loss.raw, _raw(params), len(params), ct.byref(desc),
                      ct.byref(norm))
    return _made(graph, norm)
