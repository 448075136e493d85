# SPDX-License-Identifier: MIT
"""Many sequences at once: requests of any number of threads and tasks share a model's steps."""
from __future__ import annotations

import asyncio
import ctypes as ct
from typing import TYPE_CHECKING, Any, Mapping, NamedTuple, Sequence

from . import _c, options as opt
from ._c import check, error, lib
from .errors import InvalidError
from .options import Piece, Prompt, Result
from .owner import Owner
from .stream import Stream

if TYPE_CHECKING:
    from .model import Model

_SLICE_MS = 200


class EngineInfo(NamedTuple):
    """What an engine has and has done."""

    sequences: int
    context: int
    page: int
    rows: int
    pages: int
    held_pages: int
    kept_pages: int
    cache_bytes: int
    running: int
    waiting: int
    steps: int
    preemptions: int
    prompt_tokens: int
    cached_tokens: int
    generated_tokens: int
    step_seconds: float


class Engine(Owner):
    """Requests share the steps of one model. Prompts that begin with the same tokens are computed
    once. Any thread and any task may submit.

    >>> import rlx
    >>> model = rlx.Model("models/tiny-stories.gguf", device="cpu")
    >>> with model.engine(sequences=4) as engine:
    ...     runs = [engine.submit(p, max_tokens=12) for p in ("Once upon", "One day")]
    ...     [r.text for r in runs]
    [' a time ther', ' on the one.']

    sequences: that run at once, default 32. context: tokens of each. cache_bytes: of keys and
    values. queue: requests that may wait. step_ms: how long a step may take while others
    generate. adapters: those that requests may use."""

    _noun, _free = "engine", "rlx_engine_destroy"

    def __init__(self, model: Model, *, sequences: int = 0, context: int = 0, page: int = 0,
                 cache_bytes: int = 0, rows: int = 0, step_ms: float = 0.0, queue: int = 0,
                 sharing: bool = True, adapters: Sequence[opt.Adapter] = ()) -> None:
        self.model = model
        desc = _c.EngineDesc(sequences=sequences, context=context, page=page,
                             cache_bytes=cache_bytes, rows=rows, step_ms=step_ms, queue=queue,
                             no_sharing=not sharing, n_adapters=len(adapters),
                             adapters=(ct.c_void_p * max(len(adapters), 1))(
                                 *[a.handle for a in adapters]))
        self._handle = _c.handle(lib.rlx_engine_create, model.handle, ct.byref(desc))
        self._use(model, *adapters)

    @property
    def info(self) -> EngineInfo:
        """What it has and has done so far."""
        raw = _c.EngineInfo()
        check(lib.rlx_engine_get_info(self.handle, ct.byref(raw), error()))
        return EngineInfo(*[getattr(raw, name) for name in EngineInfo._fields])

    def submit(self, prompt: Prompt, **options: Any) -> Request:
        """Hands over a request; iterate over it for its pieces. Options are those of
        `Model.generate`, and presence_penalty, frequency_penalty, logit_bias ({token: number}),
        log_probs, n_best (the most likely tokens of each step), priority, and deadline in
        seconds. WaitTimeoutError: the queue is full, submit again later."""
        opt.check_names(options, opt.REQUEST)
        return Request(self, prompt, options)

    generate = submit


def _read(p: Any) -> Piece:
    """A piece of C. Its text is valid during the callback, or until the next piece."""
    text = ct.string_at(p.text, p.length).decode("utf-8", "replace")
    best = [(b.token, b.log_prob) for b in p.best[:p.n_best]] if p.n_best else None
    return Piece.make(text, p.token, p.log_prob, best)


class Request(Stream, Owner):
    """A request of an engine. In a task (`async for`, `await`) its pieces come through the loop of
    asyncio, without a thread that waits for each."""

    _noun, _free = "request", "rlx_request_destroy"

    def __init__(self, engine: Engine, prompt: Prompt, options: Mapping[str, Any]) -> None:
        super().__init__()
        self._engine = engine
        fields, self._keep = opt.common(options)
        if opt.is_messages(prompt):
            fields["messages"] = opt.c_messages(prompt)  # type: ignore[arg-type]
            fields["n_messages"] = len(prompt)
        else:
            fields.update(opt.prompt_fields(prompt))
        bias = options.get("logit_bias") or {}
        fields["bias"] = (_c.TokenBias * max(len(bias), 1))(*[
            _c.TokenBias(int(token), add) for token, add in bias.items()])
        fields.update(n_bias=len(bias), n_best=options.get("n_best") or 0,
                      log_probs=bool(options.get("log_probs")),
                      presence_penalty=options.get("presence_penalty") or 0.0,
                      frequency_penalty=options.get("frequency_penalty") or 0.0,
                      priority=options.get("priority") or 0,
                      deadline_ms=round(1000 * (options.get("deadline") or 0)))
        adapter, scale = opt.adapter_of(options)
        fields.update(adapter=adapter.handle if adapter else None, adapter_scale=scale)
        self._pieces: asyncio.Queue[Piece | None] | None = None
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            pass
        else:
            fields["fn"] = self._callback(loop)
        desc = _c.RequestDesc(**fields)
        self._handle = _c.handle(lib.rlx_engine_submit, engine.handle, ct.byref(desc))
        if options.get("grammar"):
            self._use(options["grammar"])

    def _callback(self, loop: asyncio.AbstractEventLoop) -> Any:
        """What the thread of the engine calls with each piece, and with NULL at the end."""
        pieces: asyncio.Queue[Piece | None] = asyncio.Queue()
        self._pieces = pieces

        def take(_user: Any, _request: Any, piece: Any) -> int:
            try:
                loop.call_soon_threadsafe(pieces.put_nowait, _read(piece.contents) if piece
                                          else None)
            except RuntimeError:
                return 1  # the loop is closed
            return 0

        fn = _c.REQUEST_FN(take)
        self._keep.append(fn)
        return fn

    def _next(self) -> Piece | None:
        if self._pieces is not None:
            raise InvalidError("the request was submitted in a task: use 'async for' or 'await'")
        if self._handle is None:
            return None
        piece, more = _c.RequestPiece(), ct.c_bool()
        while True:
            status = lib.rlx_request_next(self._handle, _SLICE_MS, ct.byref(piece),
                                          ct.byref(more), error())
            if status != 10:
                break
        check(status)
        return _read(piece) if more.value else None

    async def _next_async(self) -> Piece | None:
        if self._pieces is None:
            return await super()._next_async()
        piece = await self._pieces.get()
        if piece is None:
            self._pieces.put_nowait(None)  # for whoever asks again
            raw = self._raw_result()
            if raw.status:
                check(lib.rlx_request_wait(self._handle, 0, error()))
            return None
        self._note(piece)
        return piece

    def _raw_result(self) -> _c.RequestResult:
        raw = _c.RequestResult()
        check(lib.rlx_request_get_result(self._handle, ct.byref(raw), error()))
        return raw

    def _result(self) -> Result:
        raw = self._raw_result()
        return Result("".join(self._parts), list(self._tokens), opt.FINISH[raw.finish],
                      raw.n_prompt, raw.n_cached, raw.n_generated, raw.prompt_seconds, raw.seconds)

    def cancel(self) -> None:
        """Ends it soon."""
        if self._handle is not None:
            lib.rlx_request_cancel(self._handle)
