# SPDX-License-Identifier: MIT
"""What objects that own a handle of C have in common."""
from __future__ import annotations

from typing import TypeVar

from ._c import lib
from .errors import InvalidError

T = TypeVar("T", bound="Owner")


class Owner:
    """Owns an object of C until `close`, the end of its `with` statement, or its own."""

    _handle: int | None = None
    _noun = "object"
    _free = ""  # the function of C that ends it

    @property
    def handle(self) -> int:
        """The object of C."""
        if self._handle is None:
            raise InvalidError(f"the {self._noun} is closed")
        return self._handle

    def close(self) -> None:
        """Ends it; nothing happens when it has ended already."""
        handle, self._handle = self._handle, None
        if handle is not None:
            getattr(lib, self._free)(handle)

    def __enter__(self: T) -> T:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if lib is not None and self._handle is not None:
            self.close()
