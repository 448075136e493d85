# SPDX-License-Identifier: MIT
"""What generations are asked for, as C has it, and what they give."""
from __future__ import annotations

import ctypes as ct
import difflib
import json
from typing import Any, Iterable, Mapping, NamedTuple, Sequence, TypedDict, Union

from . import _c
from ._c import encode, error, lib
from .errors import InvalidError
from .owner import Owner

Message = Mapping[str, Any]
Prompt = Union[str, Sequence[int], Sequence[Message]]

FINISH = ("end", "stop", "length", "context", "caller", "deadline")


class Options(TypedDict, total=False):
    """Options of all generations. Without any a generation is greedy: it always takes the most
    likely token, until the model ends or the context is full."""

    max_tokens: int
    temperature: float
    top_k: int
    top_p: float
    min_p: float
    repeat_penalty: float
    typical_p: float
    xtc_probability: float
    xtc_threshold: float
    dry_multiplier: float
    dry_base: float
    dry_allowed_length: int
    dry_last: int
    dry_breakers: Sequence[str]
    mirostat: int
    mirostat_tau: float
    mirostat_eta: float
    seed: int
    stop: Union[str, Sequence[str]]
    grammar: "Grammar | None"
    ignore_end: bool
    plain: bool
    adapter: "Adapter | None"
    adapter_scale: float


class Piece(str):
    """A piece of output: its text, which may be empty, with the token that it came with."""

    token: int
    log_prob: float
    best: list[tuple[int, float]]

    @classmethod
    def make(cls, text: str, token: int, log_prob: float = 0.0,
             best: list[tuple[int, float]] | None = None) -> Piece:
        """A piece with its token (-1: text that was held back, at the end)."""
        self = cls(text)
        self.token, self.log_prob, self.best = token, log_prob, best or []
        return self


class Result(NamedTuple):
    """How a generation ended. finish: "end" (by the model), "stop", "length", "context",
    "caller" or "deadline"."""

    text: str
    tokens: list[int]
    finish: str
    n_prompt: int
    n_reused: int
    n_generated: int
    prompt_seconds: float
    seconds: float


class Grammar(Owner):
    """What a model may write: a JSON Schema, a regular expression, or GBNF.

    >>> import rlx
    >>> g = rlx.Grammar.regex("[a-c]+[0-9]")
    >>> g.matches("abc1"), g.matches("abc")
    (True, False)
    >>> rlx.Grammar.json_schema({"type": "integer", "minimum": 3}).matches("7")
    True
    """

    _noun, _free = "grammar", "rlx_grammar_destroy"

    def __init__(self, handle: int) -> None:
        self._handle = handle

    @classmethod
    def _make(cls, function: Any, text: str, form: int = 0) -> Grammar:
        data = _c.utf8(text)
        return cls(_c.handle(function, data, len(data), ct.byref(_c.GrammarDesc(form=form))))

    @classmethod
    def json_schema(cls, schema: str | Mapping[str, Any] | bool, *, compact: bool = False
                    ) -> Grammar:
        """The JSON texts that are valid under a schema; compact: without white space."""
        text = schema if isinstance(schema, str) else json.dumps(schema)
        return cls._make(lib.rlx_grammar_from_json_schema, text, int(compact))

    @classmethod
    def regex(cls, expression: str) -> Grammar:
        """The texts that match a regular expression (of ECMA 262) as a whole."""
        return cls._make(lib.rlx_grammar_from_regex, expression)

    @classmethod
    def gbnf(cls, text: str) -> Grammar:
        """The texts of a grammar in the form that llama.cpp reads, from rule `root`."""
        return cls._make(lib.rlx_grammar_from_gbnf, text)

    from_string = gbnf  # its name in llama-cpp-python

    def matches(self, text: str) -> bool:
        """Whether a whole text is in the language."""
        data, yes = _c.utf8(text), ct.c_bool()
        _c.check(lib.rlx_grammar_matches(self.handle, data, len(data), ct.byref(yes), error()))
        return yes.value


class AdapterInfo(NamedTuple):
    """What is known of an adapter; scale: that its file asks for."""

    path: str
    rank: int
    products: int
    parameters: int
    scale: float


class Adapter(Owner):
    """A LoRA adapter of a model (`Model.adapter`): small matrices that change its products."""

    _noun, _free = "adapter", "rlx_adapter_close"

    def __init__(self, model: Any, path: str) -> None:
        self._handle = _c.handle(lib.rlx_adapter_open, model.handle, encode(path))
        self._use(model)
        raw = _c.AdapterInfo()
        _c.check(lib.rlx_adapter_get_info(self.handle, ct.byref(raw), error()))
        self.info = AdapterInfo(path, raw.rank, raw.products, raw.parameters, raw.scale)


SAMPLING = ("temperature", "top_k", "top_p", "min_p", "repeat_penalty", "seed", "typical_p",
            "xtc_probability", "xtc_threshold", "dry_multiplier", "dry_base",
            "dry_allowed_length", "dry_last", "mirostat", "mirostat_tau", "mirostat_eta")
REQUEST = ("presence_penalty", "frequency_penalty", "logit_bias", "log_probs", "n_best",
           "priority", "deadline")


def texts(values: str | Sequence[str] | None) -> tuple[Any, int]:
    """An array of texts for C."""
    if values is not None and not isinstance(values, Iterable):
        raise InvalidError(f"expected a text or texts, got {values!r}")
    items = [values] if isinstance(values, str) else list(values or ())
    return (ct.c_char_p * max(len(items), 1))(*map(encode, items)), len(items)


def ids(values: Sequence[int]) -> Any:
    """An array of token ids for C."""
    try:
        return (ct.c_int32 * max(len(values), 1))(*values)
    except (TypeError, AttributeError):
        raise InvalidError(f"expected token ids, got {values!r}") from None


def prompt_fields(prompt: Prompt) -> dict[str, Any]:
    """A prompt that is a text or token ids."""
    if isinstance(prompt, str):
        return {"prompt": encode(prompt)}
    return {"tokens": ids(prompt), "n_tokens": len(prompt)}  # type: ignore[arg-type]


def is_messages(prompt: Prompt) -> bool:
    """Whether a prompt is a conversation."""
    if isinstance(prompt, Mapping) or not (hasattr(prompt, "__len__")
                                           and hasattr(prompt, "__getitem__")):
        raise InvalidError(f"a prompt: expected a text, token ids, or messages, got {prompt!r}")
    return not isinstance(prompt, str) and len(prompt) > 0 and isinstance(prompt[0], Mapping)


def content(message: Message, i: int) -> str:
    """The text of a message, whose content may be in parts."""
    value = message.get("content")
    if isinstance(value, (list, tuple)):
        parts = [p.get("text") if isinstance(p, Mapping) and p.get("type", "text") == "text"
                 else None for p in value]
        if None in parts:
            raise InvalidError(f"message {i}: a part that is no text")
        value = "".join(str(p) for p in parts)
    if not isinstance(value, str):
        raise InvalidError(f"message {i}: expected a content, found {value!r}")
    return value


def c_messages(messages: Sequence[Message]) -> Any:
    """Messages for C."""
    out = (_c.Message * max(len(messages), 1))()
    for i, m in enumerate(messages):
        if not isinstance(m, Mapping) or not isinstance(m.get("role"), str):
            raise InvalidError(f"message {i}: expected a role and a content, found {m!r}")
        out[i] = _c.Message(encode(m["role"]), encode(content(m, i)))
    return out


def sampling(options: Mapping[str, Any]) -> _c.SamplingDesc:
    """The sampling of options."""
    given = {k: options[k] for k in SAMPLING if options.get(k) is not None}
    if options.get("dry_breakers") is not None:
        given["dry_breakers"], given["n_dry_breakers"] = texts(options["dry_breakers"])
    try:
        return _c.SamplingDesc(**given)
    except TypeError:
        raise InvalidError(f"sampling {given!r}: expected numbers") from None


def unknown(name: str, known: Sequence[str]) -> TypeError:
    """What is said of an option that does not exist."""
    near = difflib.get_close_matches(name, known, 1)
    meant = f"did you mean '{near[0]}'?" if near else f"expected {', '.join(known)}"
    return TypeError(f"there is no option '{name}'; {meant}")


def check_names(options: Mapping[str, Any], extra: Sequence[str] = ()) -> None:
    """Refuses options that do not exist."""
    known = [*Options.__annotations__, *extra]
    for name in options:
        if name not in known:
            raise unknown(name, known)
    n = options.get("max_tokens")
    if n is not None and (not hasattr(n, "__index__") or n < 0):
        raise InvalidError(f"max_tokens {n!r}: expected a whole number, 0 for no limit")


def adapter_of(options: Mapping[str, Any]) -> tuple[Adapter | None, float]:
    """The adapter of options and how much of it; 1 is what its file asks for."""
    adapter, scale = options.get("adapter"), options.get("adapter_scale")
    if adapter is not None and not isinstance(adapter, Adapter):
        raise InvalidError(f"adapter {adapter!r}: expected one of Model.adapter")
    return adapter, 1.0 if scale is None else float(scale)


def common(options: Mapping[str, Any]) -> tuple[dict[str, Any], list[Any]]:
    """The fields that generations and requests share, and what must live as long."""
    drawn = sampling(options)
    stop, n_stop = texts(options.get("stop"))
    grammar = options.get("grammar")
    if grammar is not None and not isinstance(grammar, Grammar):
        raise InvalidError(f"grammar {grammar!r}: expected an rlx.Grammar")
    fields = {"max_tokens": options.get("max_tokens") or 0, "sampling": ct.pointer(drawn),
              "stop": stop, "n_stop": n_stop, "plain": bool(options.get("plain")),
              "ignore_end": bool(options.get("ignore_end")),
              "grammar": grammar.handle if grammar else None}
    return fields, [drawn, stop, grammar]
