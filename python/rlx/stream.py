# SPDX-License-Identifier: MIT
"""Streams of pieces, for `for` and for `async for`."""
from __future__ import annotations

import asyncio
from typing import AsyncIterator, Generator, Iterator

from .options import Piece, Result
from .owner import Single


class Stream(Single):
    """A generation that runs: iterate over its pieces (`for`, or `async for` under asyncio), or ask
    for the whole `text`. Under asyncio `await` gives the result."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._tokens: list[int] = []

    # What kinds of streams differ in.

    def _next(self) -> Piece | None:
        raise NotImplementedError

    def _result(self) -> Result:
        raise NotImplementedError

    def cancel(self) -> None:
        """Ends the generation soon; what was made can still be taken."""
        raise NotImplementedError

    async def _next_async(self) -> Piece | None:
        """The next piece; a thread of asyncio's waits for it."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(None, self._take)

    # What is the same for all.

    def _take(self) -> Piece | None:
        piece = self._next()
        if piece is not None:
            self._note(piece)
        return piece

    def _note(self, piece: Piece) -> None:
        self._parts.append(piece)
        if piece.token >= 0:
            self._tokens.append(piece.token)

    def __iter__(self) -> Iterator[Piece]:
        return self

    def __next__(self) -> Piece:
        piece = self._take()
        if piece is None:
            raise StopIteration
        return piece

    def __aiter__(self) -> AsyncIterator[Piece]:
        return self

    async def __anext__(self) -> Piece:
        try:
            piece = await self._next_async()
        except asyncio.CancelledError:
            self.cancel()
            raise
        if piece is None:
            raise StopAsyncIteration
        return piece

    async def _all(self) -> Result:
        async for _ in self:
            pass
        return self._result()

    def __await__(self) -> Generator[object, None, Result]:
        return self._all().__await__()

    @property
    def result(self) -> Result:
        """Waits until it has ended; how it did."""
        for _ in self:
            pass
        return self._result()

    @property
    def text(self) -> str:
        """Waits until it has ended; all of its text."""
        return self.result.text


