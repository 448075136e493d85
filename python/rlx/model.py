# SPDX-License-Identifier: MIT
"""Models from files: generation, chats, embeddings, tokens."""
from __future__ import annotations

import ctypes as ct
import os
import queue
import threading
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any, Callable, NamedTuple, Sequence, Union, overload

import numpy as np
import numpy.typing as npt

from . import _c, options as opt
from ._c import check, encode, error, lib
from .arrays import dtype_number
from .completion import Completions
from .errors import CancelledError, InvalidError, NotFoundError, UnsupportedError
from .options import Message, Options, Piece, Prompt, Result
from .owner import Owner
from .session import choose_policy
from .stream import Stream

if TYPE_CHECKING:
    try:
        from typing import Unpack
    except ImportError:
        from typing_extensions import Unpack

    from .engine import Engine

Path = Union[str, "os.PathLike[str]"]
Progress = Callable[[str, int, int], Any]
_POOLINGS = {None: 0, "mean": 1, "first": 2, "last": 3}
_SLICE_MS = 200  # between two looks for a KeyboardInterrupt


class ModelInfo(NamedTuple):
    """What a model is, and what it takes on its device."""

    architecture: str
    name: str
    generates: bool
    embeds: bool
    parameters: int
    layers: int
    width: int
    vocabulary: int
    trained_context: int
    context: int
    sequences: int
    embedding_width: int
    policy: str
    weight_bytes: int
    cache_bytes: int
    work_bytes: int
    host_layers: int  # the first layers, on the CPU beside a GPU
    host_weight_bytes: int
    host_cache_bytes: int


def find_model(path: Path) -> str:
    """A path, or the path of the model that `rlx pull` has got under that name."""
    name = os.fspath(path)
    if os.path.exists(name) or not name or set(name) & set("/\\"):
        return name
    folder = store_folder() / name
    if not (folder / "rlx.json").is_file():
        raise NotFoundError(f"there is no file and no model '{name}'; 'rlx list' shows the models, "
                            "'rlx pull' gets them")
    whole = sorted(folder.glob("*.gguf"))
    return str(whole[0] if whole else folder)


def store_folder() -> FilePath:
    """Where `rlx pull` puts models: RLX_STORE, else rlx/models in the user's data folder."""
    if os.environ.get("RLX_STORE"):
        return FilePath(os.environ["RLX_STORE"])
    data = os.environ.get("XDG_DATA_HOME")
    return (FilePath(data) if data else FilePath.home() / ".local/share") / "rlx/models"


class Model(Completions, Owner):
    """A language model or an encoder: a GGUF file, a safetensors file (or its folder), or the name
    of a model that `rlx pull` has got.

    >>> import rlx
    >>> model = rlx.Model("models/tiny-stories.gguf", device="cpu")
    >>> [str(piece) for piece in model.generate("Once upon a time", max_tokens=6)]
    [' ', 't', 'h', 'e', 'r', 'e']
    >>> model.tokenize("a cat")
    [97, 32, 99, 97, 116]

    device: as of `rlx.Device`. context: tokens of a sequence, default what the model was trained
    for, at most 4096. policy: "auto" (fast for quantised files), "exact" or "fast". cache: the
    type of keys and values: "f16" (default), "f32" or "q8_0". gpu_layers: so many of the last
    layers are on the GPU, the others on the CPU; None: as many as fit. progress is called with what
    is done ("weights"), bytes so far and bytes in all; True stops.

    Threads may use one model at the same time: generations that overlap have contexts of their own,
    with shared weights. For many sequences at once see `engine`."""

    _noun, _free = "model", "rlx_model_close"

    def __init__(self, path: Path, *, device: str = "auto", threads: int = 0,
                 policy: str = "auto", context: int = 0, sequences: int = 0, prompt_chunk: int = 0,
                 cache: str | None = None, tokenizer: Path | None = None,
                 progress: Progress | None = None, gpu_layers: int | None = None) -> None:
        self._contexts: list[_Context] = []
        self._is_closed = False
        self._lock = threading.Lock()
        self._engine: Engine | None = None
        _c.start()
        self.path = find_model(path)
        desc = _c.ModelDesc(device=encode(device), threads=threads, policy=choose_policy(policy),
                            context=context, sequences=sequences, prompt_chunk=prompt_chunk,
                            cache=dtype_number(cache) if cache else 0,
                            tokenizer=encode(os.fspath(tokenizer)) if tokenizer else None,
                            gpu_layers=0 if gpu_layers is None else gpu_layers or -1)
        if progress is not None:
            said = progress
            desc.progress = _c.PROGRESS(
                lambda _, what, done, total: int(said(what.decode(), done, total) is True))
        self._handle = _c.handle(lib.rlx_model_open, encode(self.path), ct.byref(desc))
        raw = _c.ModelInfo()
        check(lib.rlx_model_get_info(self.handle, ct.byref(raw), error()))
        fields = {name: getattr(raw, name) for name in ModelInfo._fields}
        fields["architecture"] = (raw.architecture or b"").decode("utf-8", "replace")
        fields["name"] = (raw.name or b"").decode("utf-8", "replace")
        fields["policy"] = ("auto", "exact", "fast")[raw.policy]
        self.info = ModelInfo(**fields)

    # ---- Tokens ----------------------------------------------------------------------------------

    def _tokenizer(self) -> int:
        t = lib.rlx_model_tokenizer(self.handle)
        if not t:
            raise UnsupportedError(f"'{self.path}' has no tokenizer")
        return int(t)

    def tokenize(self, text: str | bytes, *, add_special: bool = False,
                 parse_special: bool = False) -> list[int]:
        """Token ids of a text, also as bytes. add_special adds what the model wants around it
        (BOS, ...), parse_special reads "<|im_start|>" and the like as the tokens they name."""
        if not isinstance(text, (str, bytes)):
            raise InvalidError(f"tokenize: expected a text, got {text!r}")
        data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape")
        out = _c.TokenList()
        cap = len(data) + 8
        while True:
            ids = (ct.c_int32 * cap)()
            out.ids, out.cap = ids, cap
            flags = (1 if add_special else 0) | (2 if parse_special else 0)
            check(lib.rlx_tokenizer_encode(self._tokenizer(), data, len(data), flags,
                                           ct.byref(out), error()))
            if out.n <= cap:
                return ids[:out.n]
            cap = out.n

    def detokenize(self, tokens: Sequence[int], *, skip_special: bool = False) -> str:
        """The text of token ids."""
        ids, out = opt.ids(tokens), _c.Text()
        cap = 16 * len(tokens) + 16
        while True:
            data = ct.create_string_buffer(cap)
            out.data, out.cap = ct.addressof(data), cap
            check(lib.rlx_tokenizer_decode(self._tokenizer(), ids, len(tokens), int(skip_special),
                                           ct.byref(out), error()))
            if out.n <= cap:
                return data.raw[:out.n].decode("utf-8", "replace")
            cap = out.n

    def format_chat(self, messages: Sequence[Message], *, add_reply: bool = True) -> str:
        """Messages in the form that the model was trained on."""
        if not messages:
            raise InvalidError("no messages: expected at least one")
        text = ct.c_void_p()
        check(lib.rlx_chat_format(self.handle, opt.c_messages(messages), len(messages), add_reply,
                                  ct.byref(text), error()))
        assert text.value is not None
        out = ct.string_at(text.value).decode("utf-8", "replace")
        lib.rlx_free(text)
        return out

    def _need(self, what: str, there: bool) -> None:
        if not there:
            raise UnsupportedError(f"'{self.path}' ({self.info.architecture}) cannot {what}")

    # ---- Generation ------------------------------------------------------------------------------

    def generate(self, prompt: Prompt, **options: Unpack[Options]) -> Generation:
        """Goes on from a text or from token ids, or answers the last of some messages
        ([{"role": "user", "content": "Hi"}]). Options: max_tokens (default: no limit), temperature
        (0: the most likely token each time), top_k, top_p, min_p, repeat_penalty, seed, stop (a
        text or several), grammar, and the others of `rlx.Options`. The result is an iterator of
        pieces; `text` is all of it:

        >>> import rlx
        >>> model = rlx.Model("models/tiny-stories.gguf", device="cpu")
        >>> run = model.generate("Once", max_tokens=6, temperature=0.8, seed=7)
        >>> run.text == "".join(model.generate("Once", max_tokens=6, temperature=0.8, seed=7))
        True
        >>> run.result.finish
        'length'
        """
        opt.check_names(options)
        self._need("generate text", self.info.generates)
        return Generation(self, prompt, options)

    def _borrow(self) -> _Context:
        """A context that nobody uses: the one used last, whose tokens a prompt may begin with."""
        with self._lock:
            if self._contexts:
                return self._contexts.pop()
        return _Context(_c.handle(lib.rlx_context_create, self.handle))

    def _give_back(self, context: _Context) -> None:
        with self._lock:
            if not self._is_closed:
                self._contexts.append(context)
                return
        context.close()

    def adapter(self, path: Path) -> opt.Adapter:
        """Opens a LoRA adapter of this model, a GGUF file or one of PEFT; `generate` and requests
        of an engine take it as `adapter`. It must not be closed before what uses it."""
        return opt.Adapter(self, os.fspath(path))

    def chat(self, system: str | None = None) -> Chat:
        """A conversation.

        >>> import rlx
        >>> model = rlx.Model("models/tiny-stories.gguf", device="cpu")
        >>> chat = model.chat()
        >>> answer = chat.say("Tell me a story.", max_tokens=8).text
        >>> [m["role"] for m in chat.messages]
        ['user', 'assistant']
        """
        self._need("generate text", self.info.generates)
        return Chat(self, system)

    def engine(self, **options: Any) -> Engine:
        """Many sequences at once: see `rlx.Engine` for options."""
        from .engine import Engine

        self._need("generate text", self.info.generates)
        return Engine(self, **options)

    def _shared_engine(self) -> Engine:
        with self._lock:
            if self._engine is None:
                self._engine = self.engine()
            return self._engine

    def generate_many(self, prompts: Sequence[Prompt], **options: Any) -> list[Result]:
        """Results for many prompts, computed together by an engine that the model keeps.

        >>> import rlx
        >>> model = rlx.Model("models/tiny-stories.gguf", device="cpu")
        >>> [r.text for r in model.generate_many(["Once upon", "One day"], max_tokens=12)]
        [' a time ther', ' on the one.']
        """
        if isinstance(prompts, (str, bytes)):
            raise InvalidError("generate_many: expected a list of prompts, got one text")
        engine = self._shared_engine()
        return [r.result for r in [engine.submit(p, **options) for p in prompts]]

    # ---- Scores and embeddings -------------------------------------------------------------------

    def score(self, text: str | Sequence[int]) -> npt.NDArray[np.float32]:
        """Log-probability of each token given those before it; that of the first is 0."""
        self._need("score text", self.info.generates)
        tokens = self.tokenize(text, add_special=True) if isinstance(text, str) else text
        out = np.zeros(len(tokens), np.float32)
        with self._lock:  # one scorer
            check(lib.rlx_score(self.handle, opt.ids(tokens), len(tokens), out.ctypes.data,
                                error()))
        return out

    @overload
    def embed(self, texts: str, *, pooling: str | None = None, normalize: bool = True
              ) -> npt.NDArray[np.float32]: ...

    @overload
    def embed(self, texts: Sequence[str], *, pooling: str | None = None, normalize: bool = True
              ) -> npt.NDArray[np.float32]: ...

    def embed(self, texts: str | Sequence[str], *, pooling: str | None = None,
              normalize: bool = True) -> npt.NDArray[np.float32]:
        """A vector for a text, or a matrix with a row for each of several. pooling: "mean",
        "first" or "last", default what the file says."""
        if pooling not in _POOLINGS:
            raise InvalidError(f"pooling {pooling!r}: expected 'mean', 'first' or 'last'")
        self._need("embed text", self.info.embeds)
        items = [texts] if isinstance(texts, str) else list(texts)
        if not all(isinstance(t, str) for t in items):
            raise InvalidError("embed: expected a text, or texts")
        out = np.empty((len(items), self.info.embedding_width), np.float32)
        list_, n = opt.texts(items)
        desc = _c.EmbedDesc(pooling=_POOLINGS[pooling], no_normalize=not normalize)
        if n:
            with self._lock:
                check(lib.rlx_embed(self.handle, list_, n, ct.byref(desc), out.ctypes.data, None,
                                    error()))
        first: npt.NDArray[np.float32] = out[0] if isinstance(texts, str) else out
        return first

    # ---- Ending ----------------------------------------------------------------------------------

    def close(self) -> None:
        """Ends it. Generations, chats, engines and adapters that it has go on; the memory is freed
        with the last of them."""
        engine, self._engine = self._engine, None
        if engine is not None:
            engine.close()
        with self._lock:
            self._is_closed = True
            contexts, self._contexts = self._contexts, []
        for context in contexts:
            context.close()
        super().close()

    def __repr__(self) -> str:
        return f"rlx.Model({self.path!r})"


class _Context(Owner):
    """An rlx_context, one user at a time."""

    _noun, _free = "context", "rlx_context_destroy"

    def __init__(self, handle: int) -> None:
        self._handle = handle
        self._adapter: tuple[opt.Adapter | None, float] = None, 1.0

    def use(self, adapter: opt.Adapter | None, scale: float) -> None:
        """From now on this adapter is part of the model."""
        if self._adapter != (adapter, scale):
            uses = (_c.AdapterUse * 1)(_c.AdapterUse(adapter.handle if adapter else None, scale))
            check(lib.rlx_context_set_adapters(self.handle, uses, int(adapter is not None),
                                               error()))
            self._use(*([adapter] if adapter else []))
            self._adapter = adapter, scale


class Generation(Stream):
    """A generation on a context of a model. One thread at a time."""

    def __init__(self, model: Model, prompt: Prompt, options: Options) -> None:
        super().__init__()
        self._model, self._handle = model, None
        self._done: Result | None = None
        fields, self._keep = opt.common(options)
        if opt.is_messages(prompt):
            prompt = model.format_chat(prompt)  # type: ignore[arg-type]
        fields.update(opt.prompt_fields(prompt))
        desc = _c.GenerateDesc(**fields)
        self._keep.append(desc)
        used = opt.adapter_of(options)
        grammar = options.get("grammar")
        self._context: _Context | None = model._borrow()
        self._needs: tuple[Owner, ...] = ()
        try:
            for owner in (model, *([grammar] if grammar else [])):
                owner._retain()
                self._needs += (owner,)
            self._context.use(*used)
            self._handle = _c.handle(lib.rlx_generation_create, self._context.handle,
                                     ct.byref(desc))
        except BaseException:
            self._end()
            raise
        self._cancelled = False

    def __repr__(self) -> str:
        how = f"{self._done.finish!r}" if self._done else "running"
        n = len(self._tokens)
        return f"<rlx.Generation, {how}, {n} tokens: iterate over it, or take .text>"

    def _next(self) -> Piece | None:
        if self._handle is None or self._cancelled:
            self._finish()
            return None
        piece, more = _c.Piece(), ct.c_bool()
        while True:
            status = lib.rlx_generation_next(self._handle, _SLICE_MS, ct.byref(piece),
                                             ct.byref(more), error())
            if status != 10:
                break
        if status:
            failure = _c.fail(status)
            self._finish()
            raise failure
        if not more.value:
            self._finish()
            return None
        text = ct.string_at(piece.text, piece.length).decode("utf-8", "replace")
        return Piece.make(text, piece.token)

    def _finish(self) -> None:
        if self._handle is None:
            return
        raw = _c.GenerateResult()
        check(lib.rlx_generation_get_result(self._handle, ct.byref(raw), error()))
        finish = "caller" if self._cancelled else opt.FINISH[raw.finish]
        self._done = Result("".join(self._parts), list(self._tokens), finish, raw.n_prompt,
                            raw.n_reused, raw.n_generated, raw.prompt_seconds, raw.seconds)
        self._end()

    def _end(self) -> None:
        handle, self._handle = self._handle, None
        context, self._context = self._context, None
        if handle is not None:
            lib.rlx_generation_destroy(handle)
        if context is not None:
            self._model._give_back(context)
        needs, self._needs = self._needs, ()
        for owner in needs:
            owner._release()

    def _result(self) -> Result:
        if self._done is None:
            raise CancelledError("the generation failed")
        return self._done

    def cancel(self) -> None:
        """Ends it: no piece follows."""
        self._cancelled = True

    def close(self) -> None:
        """Ends it and frees its context for others."""
        self._cancelled = True
        self._finish()

    def __del__(self) -> None:
        if lib is not None and getattr(self, "_context", None) is not None:
            self._end()


class Chat(Owner):
    """A conversation with a context of its own; it remembers what was said."""

    _noun, _free = "chat", "rlx_chat_destroy"

    def __init__(self, model: Model, system: str | None = None) -> None:
        self._lock = threading.Lock()
        self._answer: Answer | None = None
        self._handle = _c.handle(lib.rlx_chat_create, model.handle,
                                 encode(system) if system is not None else None)
        self._use(model)

    def say(self, text: str, **options: Unpack[Options]) -> Answer:
        """Says something; the answer is an iterator of pieces and is remembered. One answer at a
        time."""
        opt.check_names(options)
        if not self._lock.acquire(blocking=False):
            raise InvalidError("the chat is still answering")
        try:
            self._answer = Answer(self, text, options)
            return self._answer
        except BaseException:
            self._lock.release()
            raise

    def close(self) -> None:
        """Ends it, and an answer that is under way."""
        if self._answer is not None:
            self._answer.cancel()
        super().close()

    @property
    def messages(self) -> list[dict[str, str]]:
        """What was said so far."""
        out, message = [], _c.Message()
        for i in range(lib.rlx_chat_n_messages(self.handle)):
            if lib.rlx_chat_message(self.handle, i, ct.byref(message)):
                out.append({"role": message.role.decode("utf-8", "replace"),
                            "content": message.content.decode("utf-8", "replace")})
        return out

    def reset(self) -> None:
        """Forgets all but the system message."""
        check(lib.rlx_chat_reset(self.handle, error()))

    def undo(self) -> None:
        """Forgets the last question and its answer."""
        check(lib.rlx_chat_undo(self.handle, error()))

    def save(self, path: Path) -> None:
        """Writes messages and cache to a file."""
        check(lib.rlx_chat_save(self.handle, encode(os.fspath(path)), error()))

    def load(self, path: Path) -> None:
        """Reads what `save` wrote, for the same model."""
        check(lib.rlx_chat_load(self.handle, encode(os.fspath(path)), error()))


class Answer(Stream):
    """An answer of a chat. A thread generates it ahead of its reader."""

    def __init__(self, chat: Chat, text: str, options: Options) -> None:
        super().__init__()
        self._chat = chat
        self._pieces: queue.SimpleQueue[Piece | None] = queue.SimpleQueue()
        self._done: Result | None = None
        self._failure: Exception | None = None
        self._cancelled = False
        fields, keep = opt.common(options)
        fields.pop("plain")
        if options.get("adapter"):
            raise UnsupportedError("a chat has no adapter: use generate")
        desc = _c.GenerateDesc(**fields)
        data, handle = encode(text), chat.handle

        def take(_: Any, piece: Any) -> int:
            p = piece.contents
            words = ct.string_at(p.text, p.length).decode("utf-8", "replace")
            self._pieces.put(Piece.make(words, p.token))
            return int(self._cancelled)

        def work() -> None:
            raw, fn = _c.GenerateResult(), _c.PIECE_FN(take)
            try:
                check(lib.rlx_chat_say(handle, data, ct.byref(desc), fn, None, ct.byref(raw),
                                       error()))
                self._done = Result("", [], opt.FINISH[raw.finish], raw.n_prompt, raw.n_reused,
                                    raw.n_generated, raw.prompt_seconds, raw.seconds)
            except Exception as failure:
                self._failure = failure
            finally:
                keep.clear()
                chat._lock.release()
                for owner in needs:
                    owner._release()
                self._pieces.put(None)

        grammar = options.get("grammar")
        needs: list[Owner] = [chat, *([grammar] if grammar else [])]
        for owner in needs:
            owner._retain()
        self._thread = threading.Thread(target=work, name="rlx chat", daemon=True)
        self._thread.start()
        self._ended = False

    def _next(self) -> Piece | None:
        if self._ended:
            return None
        piece = self._pieces.get()
        if piece is None:
            self._ended = True
            self._thread.join()
            if self._failure is not None:
                raise self._failure
        return piece

    def _result(self) -> Result:
        if self._done is None:
            raise self._failure or CancelledError("the answer failed")
        return self._done._replace(text="".join(self._parts), tokens=list(self._tokens))

    def cancel(self) -> None:
        """Ends it soon; what was said is remembered."""
        self._cancelled = True
