# SPDX-License-Identifier: MIT
"""Errors: the status of the library and its sentence, as exceptions."""
from __future__ import annotations

import enum
from typing import ClassVar


class Status(enum.IntEnum):
    """The statuses of `rlx/base.h`, by the same numbers."""

    OK = 0
    INVALID = 1
    NOT_FOUND = 2
    UNSUPPORTED = 3
    NO_DEVICE = 4
    NO_MEMORY = 5
    DEVICE_LOST = 6
    IO = 7
    PARSE = 8
    CANCELLED = 9
    TIMEOUT = 10
    INTERNAL = 11


class Error(Exception):
    """A call failed. `str(error)` is a sentence that names the object, what was expected and what
    was found; `error.status` is the kind of failure. Kinds that Python has a word for are also of
    that class, so that `except ValueError` works.

    >>> import rlx
    >>> try:
    ...     rlx.Device("gpu-of-tomorrow")
    ... except rlx.Error as error:
    ...     print(error.status.name)
    NO_DEVICE
    """

    status: Status = Status.INTERNAL
    _classes: ClassVar[dict[int, type[Error]]] = {}

    def __init_subclass__(cls, status: Status | None = None) -> None:
        """`status`: failures of this kind are raised as this class."""
        super().__init_subclass__()
        if status is not None:
            cls.status = status
            Error._classes[status] = cls

    def __init__(self, text: str, status: Status | None = None) -> None:
        super().__init__(text)
        if status is not None:
            self.status = status


class InvalidError(Error, ValueError, status=Status.INVALID):
    """An argument, shape, type, attribute or graph is wrong."""


class NotFoundError(Error, LookupError, status=Status.NOT_FOUND):
    """There is no object of that name."""


class UnsupportedError(Error, NotImplementedError, status=Status.UNSUPPORTED):
    """Correct, but this device or build cannot do it."""


class NoDeviceError(Error, status=Status.NO_DEVICE):
    """The device asked for is not there."""


class NoMemoryError(Error, MemoryError, status=Status.NO_MEMORY):
    """Memory of the host or of the device ran out."""


class DeviceLostError(Error, status=Status.DEVICE_LOST):
    """The driver reset or removed the device: open a new one."""


class FileError(Error, OSError, status=Status.IO):
    """A file could not be opened, read, mapped or written."""


class ParseError(Error, ValueError, status=Status.PARSE):
    """A file or a text has the wrong form."""


class CancelledError(Error, status=Status.CANCELLED):
    """The caller asked to stop."""


class WaitTimeoutError(Error, TimeoutError, status=Status.TIMEOUT):
    """The time given to wait was over."""


def make(status: int, text: str) -> Error:
    """The exception for a status of the library."""
    return Error._classes.get(status, Error)(text)
