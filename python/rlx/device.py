# SPDX-License-Identifier: MIT
"""Devices and the memory on them."""
from __future__ import annotations

import ctypes as ct
from typing import Any, NamedTuple, Sequence

import numpy as np

from . import _c
from .arrays import (DLPACK_DEVICE, Array, DTypeLike, c_shape, dtype_name, dtype_number, empty,
                     host, numpy_dtype, tensor_bytes, to_dlpack)
from ._c import check, error, lib
from .errors import InvalidError
from .owner import Owner, Single


class DeviceInfo(NamedTuple):
    """What is known of a device."""

    id: str
    backend: str
    name: str
    driver: str
    detail: str
    memory: int
    threads: int
    is_default: bool
    is_test: bool
    is_software: bool


class BackendInfo(NamedTuple):
    """A kind of devices: whether there is one here, and if not why and what to do."""

    name: str
    available: bool
    reason: str


def _info(raw: _c.DeviceInfo) -> DeviceInfo:
    def text(name: str) -> str:
        return str(getattr(raw, name).decode("utf-8", "replace"))

    return DeviceInfo(text("id"), text("backend"), text("name"), text("driver"), text("detail"),
                      raw.memory, raw.threads, raw.is_default, raw.is_test, raw.is_software)


def devices() -> list[DeviceInfo]:
    """The devices that can be opened now, best first within each backend.

    >>> import rlx
    >>> [d.id for d in rlx.devices() if d.id == "cpu"]
    ['cpu']
    """
    _c.start()
    n = ct.c_size_t()
    found = (_c.DeviceInfo * 64)()
    found[0].struct_size = ct.sizeof(_c.DeviceInfo)
    check(lib.rlx_device_list(found, len(found), ct.byref(n), error()))
    return [_info(d) for d in found[:min(n.value, len(found))]]


def backends() -> list[BackendInfo]:
    """The backends of this build, and why one has no device."""
    _c.start()
    n = ct.c_size_t()
    found = (_c.BackendInfo * 16)()
    found[0].struct_size = ct.sizeof(_c.BackendInfo)
    check(lib.rlx_backend_list(found, len(found), ct.byref(n), error()))
    return [BackendInfo(b.name.decode(), b.available, b.reason.decode())
            for b in found[:min(n.value, len(found))]]


class Device(Owner):
    """An open device, which any number of sessions and threads may share.

    id: "auto" (the best one, or RLX_DEVICE), a backend ("cpu", "vulkan"), a numbered device
    ("vulkan:1") or a part of its name ("vulkan:llvmpipe"). threads: of the CPU device. Sessions and
    buffers keep it open until they are closed.

    >>> import rlx
    >>> with rlx.Device("cpu", threads=2) as device:
    ...     device.info.threads
    2
    """

    _noun, _free = "device", "rlx_device_close"

    def __init__(self, id: str = "auto", *, threads: int = 0) -> None:
        _c.start()
        self._handle = _c.handle(lib.rlx_device_open, _c.encode(id),
                                 ct.byref(_c.DeviceDesc(threads=threads)))

    @property
    def info(self) -> DeviceInfo:
        """What it is."""
        raw = _c.DeviceInfo()
        check(lib.rlx_device_get_info(self.handle, ct.byref(raw), error()))
        return _info(raw)

    def __repr__(self) -> str:
        return f"rlx.Device({self.info.id!r})" if self._handle else "rlx.Device(closed)"


class Buffer(Owner):
    """A tensor in memory of a device, which sessions of any graphs share (`Session.set_buffer`).

    On the CPU, and on GPUs whose memory the host shares, `map` gives the memory itself as a NumPy
    array, and DLPack gives it to other libraries; `read` and `write` copy, on any device.

    >>> import numpy as np, rlx
    >>> device = rlx.Device("cpu")
    >>> buffer = rlx.Buffer(device, (2, 2))
    >>> buffer.write([[1, 2], [3, 4]])
    >>> with buffer.map() as array:
    ...     array *= 10
    >>> buffer.read()
    array([[10., 20.],
           [30., 40.]], dtype=float32)
    """

    _noun, _free = "buffer", "rlx_buffer_destroy"

    def __init__(self, device: Device, shape: Sequence[int], dtype: DTypeLike = "f32") -> None:
        self.shape = tuple(int(n) for n in shape)
        self._dtype = dtype_number(dtype)
        desc = _c.BufferDesc(dtype=self._dtype, shape=c_shape(self.shape))
        self._handle = _c.handle(lib.rlx_buffer_create, device.handle, ct.byref(desc))
        self.nbytes = tensor_bytes(self._dtype, self.shape)

    @property
    def dtype(self) -> str:
        """The name of its element type."""
        return dtype_name(self._dtype)

    def write(self, value: Any) -> None:
        """Copies a whole tensor to the device, after the runs that use the buffer."""
        data = host(value, self._dtype)
        if data.array.nbytes != self.nbytes:
            raise InvalidError(f"a tensor of {data.array.nbytes} bytes for a buffer of "
                               f"{self.nbytes}")
        check(lib.rlx_buffer_write(self.handle, 0, data.array.ctypes.data, self.nbytes, error()))

    def read(self) -> Array:
        """A copy of it in host memory, after the runs that write it."""
        out = empty(self._dtype, self.shape)
        check(lib.rlx_buffer_read(self.handle, 0, out.ctypes.data, self.nbytes, error()))
        return out

    def map(self) -> Mapping:
        """The memory itself, in a `with` statement. Until its end no run may use the buffer."""
        return Mapping(self)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Array:
        array = self.read()
        return array if dtype is None else array.astype(dtype)

    def __dlpack_device__(self) -> tuple[int, int]:
        return DLPACK_DEVICE

    def __dlpack__(self, **_: Any) -> Any:
        """The memory itself. The buffer is mapped until the consumer lets go of the tensor."""
        mapping = Mapping(self)
        mapping.open()
        return to_dlpack(mapping, mapping.address, self._dtype, self.shape)


class Mapping(Single):
    """The memory of a buffer while it belongs to the host; until then the buffer is not freed."""

    def __init__(self, buffer: Buffer) -> None:
        self.address = 0
        self._buffer, self._handle = buffer, 0

    def open(self) -> None:
        """Waits for the runs that use the buffer and takes the memory."""
        at, handle = ct.c_void_p(), self._buffer.handle
        check(lib.rlx_buffer_map(handle, ct.byref(at), error()))
        self._buffer._retain()
        self.address, self._handle = at.value or 0, handle

    def close(self) -> None:
        """Gives the memory back to the device."""
        handle, self.address, self._handle = self._handle, 0, 0
        if handle:
            status = lib.rlx_buffer_unmap(handle, error())
            self._buffer._release()
            check(status)

    def __enter__(self) -> Array:
        self.open()
        data = (ct.c_uint8 * self._buffer.nbytes).from_address(self.address)
        flat: Array = np.ctypeslib.as_array(data).view(numpy_dtype(self._buffer._dtype))
        whole = flat.size == np.prod(self._buffer.shape, dtype=np.int64)
        return flat.reshape(self._buffer.shape) if whole else flat

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if lib is not None:
            self.close()
