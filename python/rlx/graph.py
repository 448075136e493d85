# SPDX-License-Identifier: MIT
"""Graphs: values with operators, named dimensions, weights, and the text form."""
from __future__ import annotations

import ctypes as ct
import math
from typing import Any, Iterator, NamedTuple, Sequence, Union

import numpy as np

from . import _c
from ._c import check, encode, error, lib
from .arrays import (Array, Dim, DTypeLike, Host, dtype_name, dtype_number, host,
                     tensor_bytes)
from .errors import InvalidError
from .owner import Single

Number = Union[int, float, bool]
Operand = Union["Value", Number, Array]
_ZERO_IS_MEANT = {"alpha", "beta", "eps", "scale"}
_SMALLEST = 2.2250738585072014e-308  # RLX_ZERO

LEAF_KINDS = ("input", "param", "state", "output")


class Leaf(NamedTuple):
    """An input, param, state or output of a graph. Sizes that are bound when the graph runs are
    texts: the name of a dimension, or an expression of such."""

    name: str
    dtype: str
    shape: tuple[Dim, ...]


def _attribute(name: str, value: Any) -> str:
    """An attribute in the text form."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        if value == 0 and name in _ZERO_IS_MEANT:
            value = _SMALLEST
        return repr(value) if math.isfinite(value) else \
            "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(_attribute("", v) for v in value) + "]"
    if isinstance(value, (np.dtype, type)):
        return dtype_name(dtype_number(value))
    if isinstance(value, np.generic):
        return _attribute(name, value.item())
    return str(value)


class Graph(Single):
    """A graph under construction: named inputs, weights, operations and outputs.

    >>> import numpy as np, rlx
    >>> g = rlx.Graph("affine")
    >>> n = g.dim("n", 512)                       # bound by the inputs of each run
    >>> x = g.input("x", (n, 3))
    >>> w = g.param("w", np.eye(3, dtype=np.float32))
    >>> g.output("y", rlx.relu(x @ w - 1.0))
    >>> g.compile("cpu").run(None, {"x": np.float32([[0, 1, 2]])})
    [array([[0., 0., 1.]], dtype=float32)]
    """

    def __init__(self, name: str = "graph", *, _handle: int | None = None) -> None:
        self._handle = _handle or lib.rlx_graph_create(encode(name))
        if not self._handle:
            raise MemoryError("a graph")
        self.weights: dict[str, Host] = {}

    @property
    def handle(self) -> int:
        """The rlx_graph of C."""
        return int(self._handle)

    @classmethod
    def parse(cls, text: str) -> Graph:
        """Reads a graph from its text form (docs/text-form.md)."""
        data = text.encode()
        return cls(_handle=_c.handle(lib.rlx_graph_parse, data, len(data)))

    def __str__(self) -> str:
        """The text form."""
        out, n = ct.c_void_p(), ct.c_size_t()
        check(lib.rlx_graph_print(self.handle, ct.byref(out), ct.byref(n), error()))
        assert out.value is not None
        data = ct.string_at(out.value, n.value)
        lib.rlx_free(out)
        return data.decode("utf-8", "replace")

    def __repr__(self) -> str:
        name = lib.rlx_graph_name(self.handle).decode("utf-8", "replace")
        return f"<rlx.Graph {name!r}, {lib.rlx_graph_n_nodes(self.handle)} nodes>"

    def __del__(self) -> None:
        handle, self._handle = getattr(self, "_handle", None), None
        if handle and lib is not None:
            lib.rlx_graph_destroy(handle)

    # ---- Leaves ----------------------------------------------------------------------------------

    def dim(self, name: str, bound: int) -> Dimension:
        """A dimension that is bound when the graph runs, to a size from 0 to `bound`. It can be
        added, subtracted and multiplied, and divided by a number."""
        made = lib.rlx_dim_named(self.handle, encode(name), bound)
        self.check()
        return Dimension(self, made)

    def _dims(self, shape: Sequence[int | Dimension]) -> Any:
        for d in shape:
            if isinstance(d, Dimension) and d.graph is not self:
                raise InvalidError(f"the dimension {d} belongs to another graph")
        sizes = [d.number if isinstance(d, Dimension) else int(d) for d in shape]
        return (ct.c_int64 * max(len(sizes), 1))(*sizes)

    def _made(self, value: _c.Value) -> Value:
        self.check()
        return Value(self, value)

    def input(self, name: str, shape: Sequence[int | Dimension], dtype: DTypeLike = "f32") -> Value:
        """A tensor that is given anew for each run."""
        return self._made(lib.rlx_input(self.handle, encode(name), dtype_number(dtype), len(shape),
                                        self._dims(shape)))

    def state(self, name: str, shape: Sequence[int], dtype: DTypeLike = "f32") -> Value:
        """A tensor that stays on the device between runs, zero at first."""
        return self._made(lib.rlx_state(self.handle, encode(name), dtype_number(dtype), len(shape),
                                        self._dims(shape)))

    def param(self, name: str, value: Any = None, *, shape: Sequence[int] | None = None,
              dtype: DTypeLike = None) -> Value:
        """A weight: an array, which sessions of this graph are given, or only shape and type. Block
        types are given as bytes with their dtype and shape, or as float32 numbers without."""
        if value is None:
            if shape is None:
                raise InvalidError(f"param '{name}': expected a value, or a shape")
            number, sizes = dtype_number(dtype), tuple(shape)
        else:
            data = host(value, None if dtype is None else dtype_number(dtype))
            number, sizes = data.dtype, data.shape if shape is None else tuple(shape)
            if data.array.nbytes != tensor_bytes(number, sizes):
                raise InvalidError(f"param '{name}': {data.array.nbytes} bytes, expected "
                                   f"{tensor_bytes(number, sizes)}")
            self.weights[name] = data
        return self._made(lib.rlx_param(self.handle, encode(name), number, len(sizes),
                                        self._dims(sizes)))

    def constant(self, value: Any, dtype: DTypeLike = None) -> Value:
        """A literal; its data is copied."""
        data = host(value, None if dtype is None else dtype_number(dtype))
        return self._made(lib.rlx_constant(self.handle, data.dtype, len(data.shape),
                                           self._dims(data.shape), data.array.ctypes.data,
                                           data.array.nbytes))

    def output(self, name: str, value: Value) -> None:
        """Gives a value the name under which runs return it."""
        lib.rlx_output(self.handle, encode(name), self._own(value))
        self.check()

    # ---- Operations ------------------------------------------------------------------------------

    def op(self, name: str, *operands: Operand | None, **attributes: Any) -> tuple[Value, ...]:
        """Any operation of the catalogue (docs/ops.md), with its attributes by name; None for an
        operand that is left out. Numbers and arrays become constants of the type of the first
        value. Returns all results."""
        first = next((v for v in operands if isinstance(v, Value)), None)
        values = [self._own(v) if isinstance(v, Value) else _c.Value(0) if v is None
                  else self._literal(v, first) for v in operands]
        while values and operands[len(values) - 1] is None:
            values.pop()
        text = ", ".join(f"{k.rstrip('_')}={_attribute(k, v)}" for k, v in attributes.items()
                         if v is not None)
        out = (_c.Value * 64)()
        n = lib.rlx_op(self.handle, encode(name), (_c.Value * max(len(values), 1))(*values),
                       len(values), encode(text), out, len(out))
        self.check()
        return tuple(Value(self, _c.Value(out[i].id)) for i in range(min(n, len(out))))

    def _own(self, value: Value) -> _c.Value:
        if not isinstance(value, Value) or value.graph is not self:
            raise InvalidError(f"{value!r:.100} is no value of this graph")
        return value.raw

    def _literal(self, value: Operand, like: Value | None) -> _c.Value:
        if like is not None and isinstance(value, (bool, int, float, np.generic)):
            made: _c.Value = lib.rlx_scalar(self.handle, like._dtype, float(value))
            self.check()
            return made
        return self.constant(value).raw

    # ---- Looking ---------------------------------------------------------------------------------

    def leaves(self, kind: str) -> list[Leaf]:
        """The "input", "param", "state" or "output" leaves in order of creation."""
        return [leaf for leaf, _ in self._raw_leaves(kind)]

    def _raw_leaves(self, kind: str) -> Iterator[tuple[Leaf, _c.LeafInfo]]:
        info, i = _c.LeafInfo(), 0
        while lib.rlx_graph_leaf(self.handle, LEAF_KINDS.index(kind), i, ct.byref(info)):
            shape = tuple(self._size(d) for d in info.shape.dim[:info.shape.rank])
            yield Leaf(info.name.decode("utf-8", "replace"), dtype_name(info.dtype), shape), info
            i += 1

    def _size(self, dim: int) -> Dim:
        return dim if dim >= 0 else self._dim_text(dim)

    def _dim_text(self, dim: int) -> str:
        text = ct.create_string_buffer(lib.rlx_dim_text(self.handle, dim, None, 0) + 1)
        lib.rlx_dim_text(self.handle, dim, text, len(text))
        return text.value.decode()

    def check(self) -> None:
        """Raises the first error of an operation that was not allowed."""
        status = lib.rlx_graph_status(self.handle, error())
        if status:
            raise _c.fail(status)

    def compile(self, device: Any = "auto", **options: Any) -> Any:
        """`rlx.Session(graph, device, **options)`."""
        from .session import Session

        return Session(self, device, **options)


class Dimension:
    """A named dimension of a graph, or an expression of such."""

    def __init__(self, graph: Graph, number: int) -> None:
        self.graph, self.number = graph, number

    def _with(self, function: Any, a: int | Dimension, b: int | Dimension) -> Dimension:
        for v in (a, b):
            if isinstance(v, Dimension) and v.graph is not self.graph:
                raise InvalidError(f"the dimension {v} belongs to another graph")
        x, y = (v.number if isinstance(v, Dimension) else int(v) for v in (a, b))
        made = function(self.graph.handle, x, y)
        self.graph.check()
        return Dimension(self.graph, made)

    def __add__(self, other: int | Dimension) -> Dimension:
        return self._with(lib.rlx_dim_add, self, other)

    __radd__ = __add__

    def __sub__(self, other: int | Dimension) -> Dimension:
        return self._with(lib.rlx_dim_sub, self, other)

    def __rsub__(self, other: int) -> Dimension:
        return self._with(lib.rlx_dim_sub, other, self)

    def __mul__(self, other: int | Dimension) -> Dimension:
        return self._with(lib.rlx_dim_mul, self, other)

    __rmul__ = __mul__

    def __floordiv__(self, other: int) -> Dimension:
        return self._with(lib.rlx_dim_div, self, other)

    def __str__(self) -> str:
        return self.graph._dim_text(self.number)

    __repr__ = __str__


class Value:
    """A tensor of a graph. Operators and NumPy's slices make new values:

    >>> import rlx
    >>> g = rlx.Graph()
    >>> a, b = g.input("a", (2, 3)), g.input("b", (3, 4))
    >>> c = (a @ b + 1.0) / 2.0
    >>> c, c[0], c.T, c.sum(axis=1)
    (f32[2,4], f32[4], f32[4,2], f32[2])
    """

    __array_ufunc__ = None  # NumPy arrays leave operators to this class
    __hash__ = object.__hash__

    def __init__(self, graph: Graph, raw: _c.Value) -> None:
        self.graph, self.raw = graph, raw
        self._dtype = int(lib.rlx_value_dtype(graph.handle, raw))

    @property
    def dtype(self) -> str:
        """The name of its element type."""
        return dtype_name(self._dtype)

    @property
    def shape(self) -> tuple[Dim, ...]:
        """Its shape, outermost first; sizes that are bound later are texts."""
        shape = lib.rlx_value_shape(self.graph.handle, self.raw)
        return tuple(self.graph._size(d) for d in shape.dim[:shape.rank])

    @property
    def ndim(self) -> int:
        """How many axes it has."""
        return int(lib.rlx_value_shape(self.graph.handle, self.raw).rank)

    def __repr__(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"

    def named(self, name: str) -> Value:
        """Names the operation that made it, for messages and dumps."""
        lib.rlx_named(self.graph.handle, self.raw, encode(name))
        return self

    def op(self, name: str, *others: Operand | None, **attributes: Any) -> Value:
        """The first result of an operation on this value."""
        return self.graph.op(name, self, *others, **attributes)[0]

    def _on_right(self, name: str, other: Operand) -> Value:
        literal = Value(self.graph, self.graph._literal(other, self))
        return literal.op(name, self)

    def __add__(self, other: Operand) -> Value:
        return self.op("add", other)

    def __radd__(self, other: Operand) -> Value:
        return self._on_right("add", other)

    def __sub__(self, other: Operand) -> Value:
        return self.op("sub", other)

    def __rsub__(self, other: Operand) -> Value:
        return self._on_right("sub", other)

    def __mul__(self, other: Operand) -> Value:
        return self.op("mul", other)

    def __rmul__(self, other: Operand) -> Value:
        return self._on_right("mul", other)

    def __truediv__(self, other: Operand) -> Value:
        return self.op("div", other)

    def __rtruediv__(self, other: Operand) -> Value:
        return self._on_right("div", other)

    def __pow__(self, other: Operand) -> Value:
        return self.op("pow", other)

    def __rpow__(self, other: Operand) -> Value:
        return self._on_right("pow", other)

    def __mod__(self, other: Operand) -> Value:
        return self.op("mod", other, floored=True)

    def __matmul__(self, other: Operand) -> Value:
        return self.op("matmul", other)

    def __rmatmul__(self, other: Operand) -> Value:
        return self._on_right("matmul", other)

    def __neg__(self) -> Value:
        return self.op("neg")

    def __abs__(self) -> Value:
        return self.op("abs")

    def __invert__(self) -> Value:
        return self.op("not")

    def __and__(self, other: Operand) -> Value:
        return self.op("and", other)

    def __or__(self, other: Operand) -> Value:
        return self.op("or", other)

    def __xor__(self, other: Operand) -> Value:
        return self.op("xor", other)

    def __lt__(self, other: Operand) -> Value:  # type: ignore[misc, unused-ignore]
        return self.op("lt", other)

    def __le__(self, other: Operand) -> Value:  # type: ignore[misc, unused-ignore]
        return self.op("le", other)

    def __gt__(self, other: Operand) -> Value:  # type: ignore[misc, unused-ignore]
        return self.op("gt", other)

    def __ge__(self, other: Operand) -> Value:  # type: ignore[misc, unused-ignore]
        return self.op("ge", other)

    def __eq__(self, other: object) -> Value:  # type: ignore[override]
        return self.op("eq", other)  # type: ignore[arg-type]

    def __ne__(self, other: object) -> Value:  # type: ignore[override]
        return self.op("ne", other)  # type: ignore[arg-type]

    def __bool__(self) -> bool:
        raise InvalidError("a value of a graph is not known before a run: use rlx.where")

    def __getitem__(self, key: Any) -> Value:
        """NumPy's basic indexing: integers, slices, `...`, None."""
        keys = list(key) if isinstance(key, tuple) else [key]
        missing = self.ndim - sum(k is not None and k is not Ellipsis for k in keys)
        if missing < 0:
            raise InvalidError(f"{self.ndim - missing} indices for {self!r}")
        at = next((i for i, k in enumerate(keys) if k is Ellipsis), len(keys))
        keys[at:at + 1] = [slice(None)] * missing
        cuts: list[tuple[int, int, int, int]] = []
        axes: list[int | None] = []  # of the result; None: a new one
        axis = 0
        for k in keys:
            if k is None:
                axes.append(None)
                continue
            if k != slice(None):
                cuts.append((axis, *self._cut(axis, k)))
            if isinstance(k, slice):
                axes.append(axis)
            axis += 1
        names = ("axes", "starts", "stops", "steps")
        cut = self.op("slice", **dict(zip(names, map(list, zip(*cuts))))) if cuts else self
        if axes == list(range(cut.ndim)):
            return cut
        return cut.op("reshape", shape=[1 if a is None else cut.shape[a] for a in axes])

    def _cut(self, axis: int, k: Any) -> tuple[int, int, int]:
        """Start, stop and step of an index."""
        far = 2 ** 62
        if isinstance(k, slice):
            step = 1 if k.step is None else int(k.step)
            start = (0 if step > 0 else far) if k.start is None else int(k.start)
            stop = (far if step > 0 else -far) if k.stop is None else int(k.stop)
            return start, stop, step
        size, i = self.shape[axis], int(k)
        if isinstance(size, int) and not -size <= i < size:
            raise InvalidError(f"index {i} of axis {axis} of {self!r}")
        return i, far if i == -1 else i + 1, 1

    # ---- Methods that NumPy's arrays have --------------------------------------------------------

    @property
    def T(self) -> Value:
        """With its axes in reverse order."""
        return self.transpose()

    def transpose(self, *axes: int) -> Value:
        """With its axes in another order; reversed when none is given."""
        return self.op("transpose", perm=list(axes) or list(range(self.ndim))[::-1])

    def reshape(self, *shape: int | Dimension | Sequence[int | Dimension]) -> Value:
        """The same elements in another shape; one size may be -1."""
        sizes = shape[0] if len(shape) == 1 and isinstance(shape[0], (list, tuple)) else shape
        return self.op("reshape", shape=list(sizes))

    def astype(self, dtype: DTypeLike) -> Value:
        """With another element type: floats to integers truncate and saturate."""
        return self.op("cast", to=dtype_name(dtype_number(dtype)))

    def _reduce(self, kind: str, axis: int | Sequence[int] | None, keepdims: bool) -> Value:
        axes = None if axis is None else [axis] if isinstance(axis, int) else list(axis)
        return self.op("reduce_" + kind, axes=axes, keepdims=keepdims)

    def sum(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Value:
        """The sum over axes, or over all."""
        return self._reduce("sum", axis, keepdims)

    def mean(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Value:
        """The mean over axes, or over all."""
        return self._reduce("mean", axis, keepdims)

    def max(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Value:
        """The largest element over axes, or over all."""
        return self._reduce("max", axis, keepdims)

    def min(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Value:
        """The smallest element over axes, or over all."""
        return self._reduce("min", axis, keepdims)

