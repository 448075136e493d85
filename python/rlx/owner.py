# SPDX-License-Identifier: MIT
"""What objects that own a handle of C have in common."""
from __future__ import annotations

import threading
from typing import NoReturn, TypeVar

from ._c import lib
from .errors import InvalidError

T = TypeVar("T", bound="Owner")
_lock = threading.RLock()  # of the counts of users


class Single:
    """Something that has no copy, in this process or in another."""

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError(f"an rlx.{type(self).__name__} can neither be copied nor pickled: open "
                        "another one, in each process its own")


class Owner(Single):
    """Owns an object of C until `close`, the end of its `with` statement, or its own. While others
    use that object, it is freed with the last of them."""

    _handle: int | None = None
    _ended: int | None = None  # closed, but others use it
    _users = 0
    _uses: tuple[Owner, ...] = ()
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
        with _lock:
            handle, self._handle = self._handle, None
            if self._users:
                self._ended, handle = self._ended or handle, None
        if handle is not None:
            self._destroy(handle)

    def _destroy(self, handle: int) -> None:
        getattr(lib, self._free)(handle)
        self._use()

    def _use(self, *owners: Owner) -> None:
        """From now on this object needs those, and none else."""
        for owner in owners:
            owner._retain()
        before, self._uses = self._uses, owners
        for owner in before:
            owner._release()

    def _retain(self) -> None:
        with _lock:
            if self._handle is None:
                raise InvalidError(f"the {self._noun} is closed")
            self._users += 1

    def _release(self) -> None:
        with _lock:
            self._users -= 1
            handle = None if self._users else self._ended
            if handle is not None:
                self._ended = None
        if handle is not None:
            self._destroy(handle)

    def __enter__(self: T) -> T:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if lib is not None and self._handle is not None:
            self.close()
