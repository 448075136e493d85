# SPDX-License-Identifier: MIT
"""Element types, and host memory of other libraries without copies: the buffer protocol, NumPy's
array interface and DLPack. NumPy has no bf16; such tensors come in through DLPack or ml_dtypes, and
go out as ml_dtypes.bfloat16 where that package is installed, else as their bits in uint16."""
from __future__ import annotations

import ctypes as ct
from typing import Any, NamedTuple, Sequence, Union

import numpy as np
import numpy.typing as npt

from ._c import MAX_RANK, Shape, lib
from .errors import InvalidError

Array = npt.NDArray[Any]
DTypeLike = Union[str, "np.dtype[Any]", type, None]
Dim = Union[int, str]

_NAMES = {"f32": np.float32, "f16": np.float16, "f64": np.float64, "i8": np.int8, "u8": np.uint8,
          "i16": np.int16, "u16": np.uint16, "i32": np.int32, "u32": np.uint32, "i64": np.int64,
          "u64": np.uint64, "bool": np.bool_}


def _bfloat16() -> np.dtype[Any]:
    try:
        import ml_dtypes  # type: ignore[import-not-found, import-untyped, unused-ignore]

        found: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
        return found
    except ImportError:
        return np.dtype(np.uint16)


_NUMBER = {name: int(lib.rlx_dtype_from_name(name.encode())) for name in [*_NAMES, "bf16"]}
_NUMPY: dict[int, np.dtype[Any]] = {_NUMBER[name]: np.dtype(t) for name, t in _NAMES.items()}
_FROM_NUMPY = {t: number for number, t in _NUMPY.items()}
BF16, F32 = _NUMBER["bf16"], _NUMBER["f32"]
_NUMPY[BF16] = _bfloat16()
_FROM_NUMPY.setdefault(_NUMPY[BF16], BF16)

# As ONNX Runtime names them.
ORT_TYPES = {"f32": "tensor(float)", "f16": "tensor(float16)", "bf16": "tensor(bfloat16)",
             "f64": "tensor(double)", "i8": "tensor(int8)", "u8": "tensor(uint8)",
             "i16": "tensor(int16)", "u16": "tensor(uint16)", "i32": "tensor(int32)",
             "u32": "tensor(uint32)", "i64": "tensor(int64)", "u64": "tensor(uint64)",
             "bool": "tensor(bool)"}


def dtype_number(dtype: DTypeLike) -> int:
    """The number of an element type given by the name of rlx ("f32", "q4_0"), or as NumPy's."""
    if dtype is None:
        return F32
    if isinstance(dtype, str):
        number = int(lib.rlx_dtype_from_name(dtype.encode()))
        if number:
            return number
    try:
        return _FROM_NUMPY[np.dtype(dtype)]
    except (TypeError, KeyError):
        raise InvalidError(f"element type {dtype!r}: expected a NumPy type of real numbers, or a "
                           "name such as 'f32', 'bf16' or 'q4_0'") from None


def dtype_name(number: int) -> str:
    """"f32", "q4_0", ..."""
    return str(lib.rlx_dtype_name(number).decode())


def numpy_dtype(number: int) -> np.dtype[Any]:
    """The NumPy type whose elements have the bytes of a type; packed types are bytes."""
    return _NUMPY.get(number, np.dtype(np.uint8))


def tensor_bytes(number: int, shape: Sequence[int]) -> int:
    """The bytes of a dense tensor."""
    n = 1
    for size in shape:
        n *= size
    return n // int(lib.rlx_dtype_block_size(number)) * int(lib.rlx_dtype_block_bytes(number))


def c_shape(shape: Sequence[int]) -> Shape:
    """A shape of numbers for C."""
    if len(shape) > MAX_RANK:
        raise InvalidError(f"a tensor of rank {len(shape)}: at most {MAX_RANK}")
    return Shape(len(shape), (ct.c_int64 * MAX_RANK)(*shape))


def empty(number: int, shape: tuple[int, ...]) -> Array:
    """New memory for a tensor of a type."""
    dtype = _NUMPY.get(number)
    if dtype is not None:
        return np.empty(shape, dtype)
    return np.empty(tensor_bytes(number, shape), np.uint8)


# ---- Memory of others ----------------------------------------------------------------------------


class Host(NamedTuple):
    """A dense tensor in memory of the host; `array` keeps the memory alive."""

    array: Array
    dtype: int
    shape: tuple[int, ...]


def host(value: Any, dtype: int | None = None) -> Host:
    """A value as a dense tensor in host memory: without a copy where it is one already. `dtype`:
    lists and Python numbers become that type, and float32 becomes bf16; anything else must have
    the type that is asked for."""
    if isinstance(value, np.ndarray):
        array, number = value, _FROM_NUMPY.get(value.dtype)
    elif hasattr(value, "__dlpack__") and not hasattr(value, "__array_interface__"):
        array, number = from_dlpack(value)
    else:
        plain = isinstance(value, (bool, int, float, list, tuple))
        wanted = _NUMPY.get(dtype) if plain and dtype is not None and dtype != BF16 else None
        array = np.asarray(value, np.float32 if plain and dtype == BF16 else wanted)
        number = _FROM_NUMPY.get(array.dtype)
    if number is None:
        raise InvalidError(f"an array of {array.dtype}: rlx has no such type")
    if dtype is not None and number != dtype:
        array, number = _convert(array, number, dtype)
    if not array.flags.c_contiguous:
        array = np.ascontiguousarray(array)
    return Host(array, number, array.shape)


def _convert(array: Array, number: int, dtype: int) -> tuple[Array, int]:
    """The conversions that need nobody's consent."""
    if dtype == BF16 and number == F32:
        out = np.empty(array.shape, _NUMPY[BF16])
        source = np.ascontiguousarray(array)
        if lib.rlx_from_float(BF16, source.ctypes.data, out.ctypes.data, array.size):
            raise InvalidError("float32 numbers cannot be converted to bf16")
        return out, BF16
    if dtype == BF16 and array.dtype == np.uint16:
        return array, BF16
    if dtype not in _NUMPY and array.dtype == np.uint8:
        return array, dtype  # the bytes of packed blocks
    raise InvalidError(f"an array of {dtype_name(number)}: expected {dtype_name(dtype)}")


# ---- DLPack: https://dmlc.github.io/dlpack/latest/c_api.html ----------------------------------


class _DLTensor(ct.Structure):
    _fields_ = [("data", ct.c_void_p), ("device_type", ct.c_int32), ("device_id", ct.c_int32),
                ("ndim", ct.c_int32), ("code", ct.c_uint8), ("bits", ct.c_uint8),
                ("lanes", ct.c_uint16), ("shape", ct.POINTER(ct.c_int64)),
                ("strides", ct.POINTER(ct.c_int64)), ("byte_offset", ct.c_uint64)]


class _Managed(ct.Structure):
    _fields_ = [("tensor", _DLTensor), ("context", ct.c_void_p), ("deleter", ct.c_void_p)]


_CPU = 1
_BFLOAT = 4
_DELETER = ct.CFUNCTYPE(None, ct.POINTER(_Managed))
_DESTRUCTOR = ct.CFUNCTYPE(None, ct.c_void_p)
_NAME, _USED = b"dltensor", b"used_dltensor"
_api = ct.pythonapi
_new = _api.PyCapsule_New
_new.restype, _new.argtypes = ct.py_object, [ct.c_void_p, ct.c_char_p, ct.c_void_p]
_pointer = _api.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ct.c_void_p, [ct.py_object, ct.c_char_p]
_rename = _api.PyCapsule_SetName
_rename.restype, _rename.argtypes = ct.c_int, [ct.py_object, ct.c_char_p]
_valid_at = ct.PYFUNCTYPE(ct.c_int, ct.c_void_p, ct.c_char_p)(("PyCapsule_IsValid", _api))
_get_at = ct.PYFUNCTYPE(ct.c_void_p, ct.c_void_p, ct.c_char_p)(("PyCapsule_GetPointer", _api))


class _Borrowed:
    """Memory that a DLPack producer owns; given back when nobody looks at it any more."""

    def __init__(self, managed: Any, interface: dict[str, Any]) -> None:
        self._managed = managed
        self.__array_interface__ = interface

    def __del__(self) -> None:
        deleter = self._managed.contents.deleter
        if deleter:
            ct.cast(deleter, _DELETER)(self._managed)


def from_dlpack(value: Any) -> tuple[Array, int | None]:
    """The memory behind `value.__dlpack__()` as an array, and the number of its type. bf16 comes as
    its NumPy stand-in. Devices other than the host are refused: copy the tensor to the CPU."""
    device = value.__dlpack_device__()
    if int(device[0]) != _CPU:
        raise InvalidError(f"a DLPack tensor on device {tuple(map(int, device))}: rlx reads memory "
                           "of the host; copy the tensor to the CPU")
    capsule = value.__dlpack__()
    managed = ct.cast(_pointer(capsule, _NAME), ct.POINTER(_Managed))
    _rename(capsule, _USED)
    t = managed.contents.tensor
    shape = tuple(t.shape[i] for i in range(t.ndim))
    width = t.bits // 8
    kind = {0: "i", 1: "u", 2: "f", _BFLOAT: "u", 6: "b"}.get(t.code)
    if kind is None or t.lanes != 1 or t.bits % 8:
        raise InvalidError(f"a DLPack tensor of type code {t.code}, {t.bits} bits: rlx has no such "
                           "type")
    strides = tuple(t.strides[i] * width for i in range(t.ndim)) if t.strides else None
    if not np.prod(shape, dtype=np.int64):
        array: Array = np.empty(shape, f"{kind}{width}")
    else:
        array = np.asarray(_Borrowed(managed, {
            "version": 3, "typestr": f"<{kind}{width}" if width > 1 else f"|{kind}{width}",
            "shape": shape, "strides": strides,
            "data": ((t.data or 0) + t.byte_offset, True)}))
    if t.code == _BFLOAT:
        return array.view(_NUMPY[BF16]), BF16
    return array, _FROM_NUMPY.get(array.dtype)


# Exported tensors by the address of their DLManagedTensor: what must live until its deleter runs.
_exported: dict[int, tuple[Any, ...]] = {}


def _delete(managed: Any) -> None:
    _exported.pop(ct.addressof(managed.contents), None)


def _drop(capsule: int) -> None:
    """A capsule that nobody took."""
    if _valid_at(capsule, _NAME):
        _exported.pop(_get_at(capsule, _NAME), None)


_delete_c, _drop_c = _DELETER(_delete), _DESTRUCTOR(_drop)


def to_dlpack(keeper: Any, address: int, dtype: int, shape: tuple[int, ...]) -> Any:
    """A capsule for dense host memory at `address`, which lives while `keeper` does."""
    array = _NUMPY.get(dtype)
    if array is None:
        raise InvalidError(f"a tensor of {dtype_name(dtype)}: DLPack has no such type")
    code = _BFLOAT if dtype == BF16 else {"i": 0, "u": 1, "f": 2, "b": 6}[array.kind]
    sizes = (ct.c_int64 * max(len(shape), 1))(*shape)
    steps = (ct.c_int64 * max(len(shape), 1))()
    step = 1
    for i in reversed(range(len(shape))):
        steps[i], step = step, step * shape[i]
    managed = _Managed(_DLTensor(address, _CPU, 0, len(shape), code, 8 * array.itemsize, 1, sizes,
                                 steps, 0), None, ct.cast(_delete_c, ct.c_void_p).value)
    at = ct.addressof(managed)
    _exported[at] = (managed, sizes, steps, keeper)
    return _new(at, _NAME, ct.cast(_drop_c, ct.c_void_p).value)


DLPACK_DEVICE: tuple[int, int] = (_CPU, 0)
