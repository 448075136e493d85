# SPDX-License-Identifier: MIT
"""Errors: the status of the library and its sentence, as exceptions."""
from __future__ import annotations

import enum


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

    def __init__(self, text: str, status: Status | None = None) -> None:
        super().__init__(text)
        if status is not None:
            self.status = status


class InvalidError(Error, ValueError):
    """An argument, shape, type, attribute or graph is wrong."""

    status = Status.INVALID


class NotFoundError(Error, LookupError):
    """There is no object of that name."""

    status = Status.NOT_FOUND


class UnsupportedError(Error, NotImplementedError):
    """Correct, but this device or build cannot do it."""

    status = Status.UNSUPPORTED


class NoDeviceError(Error):
    """The device asked for is not there."""

    status = Status.NO_DEVICE


class NoMemoryError(Error, MemoryError):
    """Memory of the host or of the device ran out."""

    status = Status.NO_MEMORY


class DeviceLostError(Error):
    """The driver reset or removed the device: open a new one."""

    status = Status.DEVICE_LOST


class FileError(Error, OSError):
    """A file could not be opened, read, mapped or written."""

    status = Status.IO


class ParseError(Error, ValueError):
    """A file or a text has the wrong form."""

    status = Status.PARSE


class CancelledError(Error):
    """The caller asked to stop."""

    status = Status.CANCELLED


class WaitTimeoutError(Error, TimeoutError):
    """The time given to wait was over."""

    status = Status.TIMEOUT


_CLASSES: dict[int, type[Error]] = {
    c.status: c for c in (InvalidError, NotFoundError, UnsupportedError, NoDeviceError,
                          NoMemoryError, DeviceLostError, FileError, ParseError, CancelledError,
                          WaitTimeoutError)}


def make(status: int, text: str) -> Error:
    """The exception for a status of the library."""
    return _CLASSES.get(status, Error)(text)
