# SPDX-License-Identifier: MIT
"""Sessions: graphs compiled for a device, in the manner of ONNX Runtime."""
from __future__ import annotations

import ctypes as ct
import os
import re
import threading
from typing import Any, Mapping, NamedTuple, Sequence, Union

import numpy as np

from . import _c
from ._c import check, encode, error, lib
from .arrays import (ORT_TYPES, Array, Dim, Host, c_shape, dtype_name, empty, host, numpy_dtype)
from .device import Buffer, Device
from .errors import InvalidError, NotFoundError
from .graph import LEAF_KINDS, Graph
from .owner import Owner

POLICIES = {"auto": 0, "exact": 1, "fast": 2}
Path = Union[str, "os.PathLike[str]"]


class NodeArg(NamedTuple):
    """An input or output as ONNX Runtime describes it. Sizes that are bound when the session runs
    are texts."""

    name: str
    shape: list[Dim]
    type: str
    dtype: str


class MemoryInfo(NamedTuple):
    """Bytes of a session on its device."""

    arena_bytes: int
    arena_bound: int
    unshared_bytes: int
    param_bytes: int
    state_bytes: int
    input_bytes: int
    constant_bytes: int


class _Port:
    """An input or output: what is known of it with the dimensions that are bound."""

    __slots__ = ("name", "c_name", "number", "dtype", "declared", "shape", "nbytes", "slot")

    def __init__(self, name: str, number: int, declared: tuple[Dim, ...]) -> None:
        self.name, self.c_name, self.number = name, encode(name), number
        self.dtype, self.declared = numpy_dtype(number), declared
        self.shape: tuple[int, ...] = ()
        self.nbytes = 0
        self.slot: Any = None


def choose_policy(policy: str) -> int:
    """The number of a policy."""
    try:
        return POLICIES[policy]
    except KeyError:
        raise InvalidError(f"policy {policy!r}: expected {', '.join(POLICIES)}") from None


class Session(Owner):
    """A graph compiled for a device. `model`: a Graph, an ONNX file, or a graph in a file (.rlx).

    >>> import numpy as np, rlx
    >>> g = rlx.Graph()
    >>> a, b = g.input("a", (2,)), g.input("b", (2,))
    >>> g.output("c", a * b + 1.0)
    >>> s = rlx.Session(g, "cpu")
    >>> s.run(["c"], {"a": np.float32([1, 2]), "b": np.float32([3, 4])})
    [array([4., 9.], dtype=float32)]
    >>> [(i.name, i.shape, i.type) for i in s.get_inputs()]
    [('a', [2], 'tensor(float)'), ('b', [2], 'tensor(float)')]

    device: an id as of `rlx.Device`, or one that is open. policy: "exact" computes f32 in f32,
    "fast" allows half precision and 8-bit products. params: weights that the graph does not have.
    Of ONNX files, dims gives sizes to named dimensions, values the inputs that decide shapes.
    Calls from several threads are put in order."""

    _noun, _free = "session", "rlx_session_destroy"
    _onnx: int | None = None

    def __init__(self, model: Graph | Path, device: str | Device = "auto", *, policy: str = "auto",
                 params: Mapping[str, Any] | None = None, dims: Mapping[str, int] | None = None,
                 values: Mapping[str, Any] | None = None, fusion: bool = True,
                 savable: bool = False, invariant: bool = False) -> None:
        self._lock = threading.RLock()
        self._keep: dict[str, Any] = {}
        _c.start()
        desc = _c.SessionDesc(policy=choose_policy(policy), no_fusion=not fusion, savable=savable,
                              invariant=invariant)
        graph = model if isinstance(model, Graph) else self._read(model, dims, values)
        self._device = device if isinstance(device, Device) else self._open(device, graph, desc)
        self._handle = _c.handle(lib.rlx_session_create, self._device.handle, graph.handle,
                                 ct.byref(desc))
        self._look(graph)
        if self._onnx:
            self._set_onnx_params()
        for name, value in {**graph.weights, **(params or {})}.items():
            self.set_param(name, value)

    @staticmethod
    def _open(device: str, graph: Graph, desc: _c.SessionDesc) -> Device:
        if device != "auto":
            return Device(device)
        chosen = ct.create_string_buffer(32)
        check(lib.rlx_device_choose(graph.handle, ct.byref(desc), chosen, error()))
        return Device(chosen.value.decode())

    def _read(self, path: Path, dims: Mapping[str, int] | None,
              values: Mapping[str, Any] | None) -> Graph:
        """The graph in a file."""
        name = os.fspath(path)
        if name.endswith(".onnx"):
            return self._import(name, dims or {}, values or {})
        if dims or values:
            raise InvalidError(f"'{name}': dims and values are for ONNX files")
        if not name.endswith(".rlx"):
            raise InvalidError(f"'{name}': expected an ONNX file (.onnx) or a graph (.rlx); "
                               "rlx.Model opens language models")
        with open(name, encoding="utf-8") as file:
            return Graph.parse(file.read())

    def _import(self, path: str, dims: Mapping[str, int], values: Mapping[str, Any]) -> Graph:
        self._onnx = _c.handle(lib.rlx_onnx_open, encode(path))
        hosts = {name: host(value) for name, value in values.items()}
        sizes = (_c.ImportDim * max(len(dims), 1))(*[
            _c.ImportDim(encode(name), size) for name, size in dims.items()])
        given = (_c.ImportValue * max(len(hosts), 1))(*[
            _c.ImportValue(encode(name), h.dtype, c_shape(h.shape), h.array.ctypes.data)
            for name, h in hosts.items()])
        desc = _c.ImportDesc(dims=sizes, n_dims=len(dims), values=given, n_values=len(hosts))
        return Graph(_handle=_c.handle(lib.rlx_graph_import, self._onnx, ct.byref(desc)))

    def _set_onnx_params(self) -> None:
        param, i = _c.ConstTensor(), 0
        while lib.rlx_onnx_param(self._onnx, i, ct.byref(param)):
            check(lib.rlx_session_set_param(self.handle, param.name, param.data, param.bytes, 1,
                                            error()))
            i += 1

    @classmethod
    def _wrap(cls, handle: int, device: Device, graph: Graph) -> Session:
        self = cls.__new__(cls)
        self._handle, self._device = handle, device
        self._lock, self._keep = threading.RLock(), {}
        self._look(graph)
        return self

    @classmethod
    def load(cls, path: Path, device: str | Device = "auto") -> Session:
        """A session that `save` wrote, without compiling. Weights are set anew (`set_param`)."""
        _c.start()
        name = encode(os.fspath(path))
        graph = Graph(_handle=_c.handle(lib.rlx_graph_load, name))
        opened = device if isinstance(device, Device) else cls._open(device, graph,
                                                                     _c.SessionDesc())
        return cls._wrap(_c.handle(lib.rlx_session_load, opened.handle, name, None), opened, graph)

    def clone(self) -> Session:
        """A second session with the same program and the same weights, not copied, and inputs,
        outputs and state of its own: one for each thread runs them at the same time."""
        with self._lock:
            other = self._wrap(_c.handle(lib.rlx_session_clone, self.handle), self._device,
                               self._graph)
            other._keep = dict(self._keep)
            other._use(self)  # weights may lie in the file of this one
        return other

    def save(self, path: Path) -> None:
        """Writes what the compiler made of the graph; needs `savable=True`."""
        check(lib.rlx_session_save(self.handle, encode(os.fspath(path)), error()))

    # ---- What it has -----------------------------------------------------------------------------

    @property
    def device(self) -> Device:
        """The device it is on."""
        return self._device

    def _look(self, graph: Graph) -> None:
        """Reads the ports, and lays out the arguments of rlx_run once."""
        self._graph = graph
        self._inputs, self._outputs = (
            {leaf.name: _Port(leaf.name, info.dtype, leaf.shape)
             for leaf, info in graph._raw_leaves(kind)} for kind in ("input", "output"))
        self._in = (_c.ConstTensor * max(len(self._inputs), 1))()
        self._out = (_c.Tensor * max(len(self._outputs), 1))()
        for slots, ports in ((self._in, self._inputs), (self._out, self._outputs)):
            for slot, port in zip(slots, ports.values()):
                port.slot = slot
                slot.name = port.c_name
        self._all_outputs = list(self._outputs.values())
        self._bound: dict[str, int] = {}
        self._measure()

    def _measure(self) -> None:
        """The sizes with the dimensions that are bound now."""
        info = _c.TensorInfo()
        for kind, ports in (("input", self._inputs), ("output", self._outputs)):
            for i, port in enumerate(ports.values()):
                lib.rlx_session_leaf(self.handle, LEAF_KINDS.index(kind), i, ct.byref(info))
                port.shape = tuple(info.shape.dim[:info.shape.rank])
                port.nbytes = info.bytes

    def _args(self, ports: Mapping[str, _Port]) -> list[NodeArg]:
        return [NodeArg(p.name, list(p.declared),
                        ORT_TYPES.get(dtype_name(p.number), dtype_name(p.number)),
                        dtype_name(p.number)) for p in ports.values()]

    def get_inputs(self) -> list[NodeArg]:
        """The inputs, in order."""
        return self._args(self._inputs)

    def get_outputs(self) -> list[NodeArg]:
        """The outputs, in order."""
        return self._args(self._outputs)

    def get_providers(self) -> list[str]:
        """The id of the device, where ONNX Runtime has execution providers."""
        return [self._device.info.id]

    @property
    def memory(self) -> MemoryInfo:
        """What it takes on the device."""
        raw = _c.MemoryInfo()
        check(lib.rlx_session_memory(self.handle, ct.byref(raw), error()))
        return MemoryInfo(*[getattr(raw, name) for name in MemoryInfo._fields])

    # ---- Weights, buffers, dimensions, state -----------------------------------------------------

    def set_param(self, name: str, value: Any) -> None:
        """Sets a weight. CPU devices use the array's memory in place: do not change it."""
        info, i = _c.TensorInfo(), 0
        while lib.rlx_session_leaf(self.handle, 1, i, ct.byref(info)):
            if info.name.decode("utf-8", "replace") == name:
                data = value if isinstance(value, Host) else host(value, info.dtype)
                check(lib.rlx_session_set_param(self.handle, info.name, data.array.ctypes.data,
                                                data.array.nbytes, 1, error()))
                self._keep[name] = data
                return
            i += 1
        raise NotFoundError(f"the session has no param '{name}'")

    def set_buffer(self, kind: str, name: str, buffer: Buffer | None) -> None:
        """Lets an "input", "param", "state" or "output" live in a buffer."""
        if kind not in LEAF_KINDS:
            raise InvalidError(f"kind {kind!r}: expected {', '.join(LEAF_KINDS)}")
        check(lib.rlx_session_set_buffer(self.handle, LEAF_KINDS.index(kind), encode(name),
                                         buffer.handle if buffer else None, error()))
        ports = self._inputs if kind == "input" else self._outputs
        if kind == "output" and name in ports:
            self._all_outputs = [p for p in ports.values() if p.name != name]
        self._keep[f"{kind} {name}"] = buffer

    def bind_dims(self, **dims: int) -> None:
        """Binds named dimensions for the runs to come. `run` does so by the shapes of its
        inputs."""
        with self._lock:
            for name, size in dims.items():
                check(lib.rlx_session_bind(self.handle, encode(name), size, error()))
                self._bound[name] = size
            self._measure()

    def state(self, name: str) -> Array:
        """A copy of a state."""
        info = self._state(name)
        out = empty(info.dtype, tuple(info.shape.dim[:info.shape.rank]))
        check(lib.rlx_session_state_read(self.handle, encode(name), 0, out.ctypes.data, info.bytes,
                                         error()))
        return out

    def set_state(self, name: str, value: Any) -> None:
        """Sets a whole state."""
        info = self._state(name)
        data = host(value, info.dtype)
        check(lib.rlx_session_state_write(self.handle, encode(name), 0, data.array.ctypes.data,
                                          data.array.nbytes, error()))

    def reset(self, name: str | None = None) -> None:
        """Sets a state, or all of them, to zero."""
        check(lib.rlx_session_state_reset(self.handle, encode(name) if name else None, error()))

    def _state(self, name: str) -> _c.TensorInfo:
        info, i = _c.TensorInfo(), 0
        while lib.rlx_session_leaf(self.handle, 2, i, ct.byref(info)):
            if info.name == name.encode():
                return info
            i += 1
        raise NotFoundError(f"the session has no state '{name}'")

    # ---- Running ---------------------------------------------------------------------------------

    def run(self, output_names: Sequence[str] | None, feeds: Mapping[str, Any], *,
            dims: Mapping[str, int] | None = None) -> list[Array]:
        """Runs once and returns the outputs that are named (None: all), as new arrays. Inputs are
        arrays, or anything with the buffer protocol or DLPack in host memory; inputs that are left
        out keep what they were given last. Named dimensions follow from the shapes of the inputs,
        or from `dims`."""
        with self._lock:
            handle = self.handle
            arrays = self._take(feeds, dims)
            if output_names is None:
                ports = self._all_outputs
            else:
                ports = [self._port(self._outputs, name, "output") for name in output_names]
            results = [np.empty(p.shape, p.dtype) for p in ports]
            slots = self._out
            for i, port in enumerate(ports):
                slot = slots[i]
                slot.name = port.c_name
                slot.bytes = port.nbytes
                slot.data = results[i].ctypes.data
            status = lib.rlx_run(handle, self._in, len(arrays), slots, len(ports), error())
        if status:
            raise _c.fail(status)
        return results

    @staticmethod
    def _port(ports: Mapping[str, _Port], name: str, kind: str) -> _Port:
        try:
            return ports[name]
        except KeyError:
            raise NotFoundError(f"the session has no {kind} '{name}': it has "
                                f"{', '.join(ports) or 'none'}") from None

    def _take(self, feeds: Mapping[str, Any], dims: Mapping[str, int] | None) -> list[Array]:
        """Fills the arguments of rlx_run; the arrays that come back keep the memory alive."""
        inputs, slots = self._inputs, self._in
        arrays: list[Array] = []
        fits = not dims
        for name, value in feeds.items():
            port = inputs.get(name)
            if port is None:
                port = self._port(inputs, name, "input")
            if type(value) is np.ndarray and value.dtype == port.dtype and \
                    value.flags.c_contiguous:
                array = value
            else:
                array = host(value, port.number).array
            fits = fits and array.shape == port.shape
            slot = slots[len(arrays)]
            slot.name = port.c_name
            slot.data = array.ctypes.data
            slot.bytes = array.nbytes
            arrays.append(array)
        if not fits:
            self._fit(dict(zip(feeds, arrays)), dims or {})
        return arrays

    def _fit(self, arrays: Mapping[str, Array], dims: Mapping[str, int]) -> None:
        """Binds the dimensions that shapes of inputs name."""
        found = dict(dims)
        for name, array in arrays.items():
            port = self._inputs[name]
            if len(array.shape) != len(port.declared):
                raise InvalidError(f"input '{name}': an array of shape {array.shape}, expected "
                                   f"{port.declared}")
            for axis, (size, declared) in enumerate(zip(array.shape, port.declared)):
                if isinstance(declared, int):
                    if size != declared:
                        raise InvalidError(f"input '{name}': axis {axis} has {size} elements, "
                                           f"expected {declared}")
                elif re.fullmatch(r"\w+", declared) and found.setdefault(declared, size) != size:
                    raise InvalidError(f"input '{name}': axis {axis} has {size} elements, but "
                                       f"dimension '{declared}' is {found[declared]}")
        changed = {k: v for k, v in found.items() if self._bound.get(k) != v}
        if changed:
            self.bind_dims(**changed)
        for name, array in arrays.items():
            if len(self._inputs[name].shape) < array.ndim:
                return  # the sizes of some values are impossible: the run says of which
            if array.shape != self._inputs[name].shape:
                raise InvalidError(f"input '{name}': an array of shape {array.shape}, expected "
                                   f"{self._inputs[name].shape}")

    def bind(self, inputs: Mapping[str, Any], outputs: Mapping[str, Array] | None = None) -> Bound:
        """A run with fixed memory, which costs least to call: each call reads the inputs' memory as
        it is then, and writes the outputs' memory.

        >>> import numpy as np, rlx
        >>> g = rlx.Graph()
        >>> g.output("y", g.input("x", (3,)) * 2.0)
        >>> x = np.zeros(3, np.float32)
        >>> run = rlx.Session(g, "cpu").bind({"x": x})
        >>> x[:] = [1, 2, 3]
        >>> run()["y"]
        array([2., 4., 6.], dtype=float32)
        """
        with self._lock:
            return Bound(self, self._take(inputs, None), list(inputs), outputs)

    def close(self) -> None:
        """Waits for running work and frees it; weights that clones use, with the last of these."""
        super().close()
        if self._ended is None:
            self._close_file()

    def _destroy(self, handle: int) -> None:
        super()._destroy(handle)
        self._close_file()

    def _close_file(self) -> None:
        onnx, self._onnx = self._onnx, None
        if onnx is not None:
            lib.rlx_onnx_close(onnx)

    def __del__(self) -> None:
        if lib is not None:
            self.close()


InferenceSession = Session


class Bound:
    """A run of a session with fixed memory (`Session.bind`)."""

    def __init__(self, session: Session, arrays: list[Array], names: list[str],
                 outputs: Mapping[str, Array] | None) -> None:
        self._session = session
        self._arrays = arrays
        self.outputs: dict[str, Array] = dict(outputs) if outputs is not None else {
            p.name: np.empty(p.shape, p.dtype) for p in session._all_outputs}
        self._in = (_c.ConstTensor * max(len(arrays), 1))(*[
            _c.ConstTensor(session._inputs[name].c_name, a.ctypes.data, a.nbytes)
            for name, a in zip(names, arrays)])
        self._out = (_c.Tensor * max(len(self.outputs), 1))()
        for slot, (name, array) in zip(self._out, self.outputs.items()):
            port = session._port(session._outputs, name, "output")
            if not isinstance(array, np.ndarray) or array.shape != port.shape or \
                    array.dtype != port.dtype or not array.flags.c_contiguous or \
                    not array.flags.writeable:
                raise InvalidError(f"output '{name}': expected a writable, contiguous array of "
                                   f"{port.dtype} with shape {port.shape}")
            slot.name, slot.data, slot.bytes = port.c_name, array.ctypes.data, array.nbytes
        self._n_in, self._n_out = len(arrays), len(self.outputs)
        self._error = _c.RlxError()

    def __call__(self) -> dict[str, Array]:
        """Runs once; the outputs by name, in the same memory each time."""
        session = self._session
        status = lib.rlx_run(session._handle or session.handle, self._in, self._n_in, self._out,
                             self._n_out, self._error)
        if status:
            raise _c.fail(status, self._error)
        return self.outputs


def load(path: Path, device: str | Device = "auto", **options: Any) -> Session:
    """A session of an ONNX file or of a graph in text form (.rlx); options as of `Session`.

    >>> import rlx
    >>> session = rlx.load("examples/graphs/mlp.rlx", "cpu")
    >>> [output.name for output in session.get_outputs()]
    ['p', 'class']
    """
    return Session(path, device, **options)
