# SPDX-License-Identifier: MIT
"""Completions in the shape that llama-cpp-python has, which is that of OpenAI's API."""
from __future__ import annotations

import json
import time
import uuid
from typing import Any, Iterator, Literal, Mapping, Sequence, overload

from . import options as opt
from .errors import InvalidError
from .options import Grammar, Message, Piece, Result
from .stream import Stream

Dict = dict[str, Any]
_FINISH = {"end": "stop", "stop": "stop", "length": "length", "context": "length",
           "caller": "stop", "deadline": "length"}
_OPEN, _CLOSE = "<tool_call>", "</tool_call>"
# What makes validity of a part depend on another: such schemas are left as they are.
_COMBINES = {"allOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "$dynamicRef",
             "dependentRequired", "dependencies", "unevaluatedProperties", "unevaluatedItems",
             "patternProperties", "propertyNames", "minProperties", "maxProperties"}


# ---- Schemas and tools ---------------------------------------------------------------------------


def _combines(schema: Any) -> bool:
    if isinstance(schema, list):
        return any(map(_combines, schema))
    if not isinstance(schema, dict):
        return False
    if _COMBINES & set(schema) or "properties" in schema and {"anyOf", "$ref"} & set(schema):
        return True
    return any(_combines(v) for k, v in schema.items() if k not in ("enum", "const", "default"))


def _close(schema: Any, is_map: bool = False) -> Any:
    """Objects that list their properties get no others: what is generated is still valid, and a
    model has nothing to fill them with."""
    if isinstance(schema, list):
        return [_close(v) for v in schema]
    if not isinstance(schema, dict):
        return schema
    if is_map:
        return {k: _close(v) for k, v in schema.items()}
    out = {k: v if k in ("enum", "const", "default", "examples") else
           _close(v, k in ("properties", "$defs", "definitions")) for k, v in schema.items()}
    properties = schema.get("properties")
    if isinstance(properties, dict) and "additionalProperties" not in schema and \
            set(schema.get("required") or ()) <= set(properties):
        out["additionalProperties"] = False
    return out


def closed(schema: Any) -> Any:
    """A schema as the grammar gets it."""
    return schema if _combines(schema) else _close(schema)


def grammar_of_format(form: Mapping[str, Any] | None) -> Grammar | None:
    """The grammar of a response_format."""
    if form is None or form.get("type") == "text":
        return None
    if form.get("type") == "json_object":
        return Grammar.json_schema(closed(form.get("schema") or {"type": "object"}))
    if form.get("type") == "json_schema":
        schema = (form.get("json_schema") or {}).get("schema", form.get("schema"))
        if schema is not None:
            return Grammar.json_schema(closed(schema))
    raise InvalidError(f"response_format {form!r}: expected the type 'text', 'json_object', or "
                       "'json_schema' with a schema")


class _Tools:
    """The functions that a model may call."""

    def __init__(self, tools: Sequence[Mapping[str, Any]] | None, choice: Any) -> None:
        self.list = [] if choice == "none" else list(tools or ())
        self.functions: dict[str, Mapping[str, Any]] = {}
        for tool in self.list:
            function = tool.get("function") if isinstance(tool, Mapping) else None
            if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
                raise InvalidError(f"tool {tool!r}: expected {{'type': 'function', 'function': "
                                   "{'name': ..., 'parameters': ...}}")
            self.functions[function["name"]] = function
        self.forced = False
        if isinstance(choice, Mapping):
            name = (choice.get("function") or {}).get("name")
            if name not in self.functions:
                raise InvalidError(f"tool_choice: there is no tool {name!r}")
            self.functions = {name: self.functions[name]}
            self.forced = True
        elif choice == "required":
            self.forced = bool(self.list)
        elif choice not in (None, "auto", "none"):
            raise InvalidError(f"tool_choice {choice!r}: expected 'auto', 'none', 'required' or a "
                               "function")

    def grammar(self) -> Grammar:
        """One call of one of them."""
        calls = [{"type": "object", "properties": {
                      "name": {"const": name},
                      "arguments": closed(dict(f.get("parameters") or {"type": "object"}))},
                  "required": ["name", "arguments"], "additionalProperties": False}
                 for name, f in self.functions.items()]
        return Grammar.json_schema(calls[0] if len(calls) == 1 else {"anyOf": calls})

    def describe(self, messages: list[Dict]) -> list[Dict]:
        """The messages with the tools in the system message, and with calls and results as text,
        for templates that know neither."""
        out: list[Dict] = []
        for m in messages:
            if m["role"] in ("tool", "function"):
                m = {"role": "user",
                     "content": f"<tool_response>\n{m['content']}\n</tool_response>"}
            out.append(m)
        if not self.list:
            return out
        said = ""
        if out and out[0]["role"] == "system":
            said = out.pop(0)["content"] + "\n\n"
        lines = "\n".join(json.dumps(tool) for tool in self.list)
        said += ("You may call one of these functions:\n<tools>\n" + lines + "\n</tools>\n"
                 "To call one, answer with nothing but\n<tool_call>\n{\"name\": NAME, "
                 "\"arguments\": ARGUMENTS}\n</tool_call>")
        return [{"role": "system", "content": said}, *out]

    def calls(self, text: str) -> list[Dict]:
        """The calls that an answer is, or an empty list."""
        rest, found = text.strip(), []
        parts = [p.split(_CLOSE)[0] for p in rest.split(_OPEN)[1:]] if rest.startswith(_OPEN) \
            else [rest]
        for part in parts:
            try:
                value = json.loads(part)
            except ValueError:
                return []
            if not isinstance(value, dict) or value.get("name") not in self.functions:
                return []
            arguments = value.get("arguments", value.get("parameters", {}))
            found.append({"id": "call_" + uuid.uuid4().hex[:24], "type": "function",
                          "function": {"name": value["name"],
                                       "arguments": json.dumps(arguments)}})
        return found

    def may_be_call(self, text: str) -> bool:
        """Whether an answer that begins so can still be a call."""
        begin = text.lstrip()
        return bool(self.list) and (_OPEN.startswith(begin[:len(_OPEN)])
                                    or begin.startswith("{"))


def _plain(messages: Sequence[Message]) -> list[Dict]:
    """Messages with a role and a text; calls of an assistant become text."""
    if isinstance(messages, (str, Mapping)) or not messages:
        raise InvalidError("messages: expected a list of at least one {'role', 'content'}")
    out: list[Dict] = []
    for i, m in enumerate(messages):
        if not isinstance(m, Mapping) or not isinstance(m.get("role"), str):
            raise InvalidError(f"message {i}: expected a role and a content, found {m!r}")
        calls = m.get("tool_calls")
        text = "" if calls and m.get("content") is None else opt.content(m, i)
        for call in calls or ():
            f = call["function"]
            text += (f"{_OPEN}\n{{\"name\": {json.dumps(f['name'])}, \"arguments\": "
                     f"{f['arguments']}}}\n{_CLOSE}")
        out.append({"role": m["role"], "content": text})
    return out


# ---- Completions ---------------------------------------------------------------------------------


def _usage(result: Result) -> Dict:
    return {"prompt_tokens": result.n_prompt, "completion_tokens": result.n_generated,
            "total_tokens": result.n_prompt + result.n_generated}


class Completions:
    """What `rlx.Model` has for those who come from llama-cpp-python."""

    path: str

    def _start(self, prompt: Any, given: Dict) -> Stream:
        """Chooses who generates: an engine where an option needs it."""
        engine_only = ("presence_penalty", "frequency_penalty", "logit_bias", "log_probs", "n_best")
        given = {k: v for k, v in given.items() if v is not None}
        if (given.get("max_tokens") or 0) < 0:
            given["max_tokens"] = 0
        model: Any = self
        if any(given.get(k) for k in engine_only):
            made: Stream = model._shared_engine().submit(prompt, **given)
        else:
            made = model.generate(prompt, **{k: v for k, v in given.items()
                                             if k not in engine_only})
        return made

    @overload
    def create_chat_completion(self, messages: Sequence[Message], *,
                               stream: Literal[False] = False, **options: Any) -> Dict: ...

    @overload
    def create_chat_completion(self, messages: Sequence[Message], *, stream: Literal[True],
                               **options: Any) -> Iterator[Dict]: ...

    def create_chat_completion(self, messages: Sequence[Message], *, stream: bool = False,
                               **options: Any) -> Dict | Iterator[Dict]:
        """Answers a conversation, as `Llama.create_chat_completion` does.

        Options: tools, tool_choice ("auto", "none", "required" or a function), response_format
        ({"type": "json_object"} or {"type": "json_schema", "json_schema": {"schema": ...}}),
        temperature (0.2), top_p (0.95), top_k (40), min_p (0.05), repeat_penalty, seed, stop,
        max_tokens (None: no limit), grammar, presence_penalty, frequency_penalty, logit_bias,
        logprobs, top_logprobs, model.

        >>> import rlx
        >>> model = rlx.Model("models/tiny-stories.gguf", device="cpu")
        >>> said = model.create_chat_completion(
        ...     [{"role": "user", "content": "A story, please."}], max_tokens=4, temperature=0)
        >>> said["choices"][0]["finish_reason"], said["usage"]["completion_tokens"]
        ('length', 4)
        """
        given = _chat_options(options)
        tools = _Tools(given.pop("tools"), given.pop("tool_choice"))
        form = grammar_of_format(given.pop("response_format"))
        given["grammar"] = tools.grammar() if tools.forced else form or given["grammar"]
        head: Dict = {"id": "chatcmpl-" + uuid.uuid4().hex, "created": int(time.time()),
                      "model": given.pop("model") or self.path}
        run = self._start(tools.describe(_plain(messages)), given)
        if stream:
            return _stream_chat(run, head, tools, bool(given["log_probs"]), self)
        pieces = list(run)
        result = run.result
        message: Dict = {"role": "assistant", "content": result.text}
        calls = tools.calls(result.text) if tools.list else []
        if calls:
            message.update(content=None, tool_calls=calls)
        choice = {"index": 0, "message": message, "logprobs": None,
                  "finish_reason": "tool_calls" if calls else _FINISH[result.finish]}
        if given["log_probs"]:
            choice["logprobs"] = {"content": [_logprob(self, p) for p in pieces if p.token >= 0]}
        return {**head, "object": "chat.completion", "choices": [choice],
                "usage": _usage(result)}

    def create_completion(self, prompt: str | Sequence[int], *, stream: bool = False,
                          echo: bool = False, suffix: None = None, max_tokens: int | None = 16,
                          **options: Any) -> Any:
        """Goes on from a text, as `Llama.create_completion` does; calling the model is the same."""
        if suffix is not None:
            raise InvalidError("suffix: rlx does not fill in the middle")
        given = _chat_options({"max_tokens": max_tokens, **options})
        for name in ("tools", "tool_choice", "response_format"):
            if given.pop(name) is not None:
                raise InvalidError(f"{name}: only of create_chat_completion")
        head: Dict = {"id": "cmpl-" + uuid.uuid4().hex, "object": "text_completion",
                      "created": int(time.time()), "model": given.pop("model") or self.path}
        run = self._start(prompt, given)

        def chunk(text: str, finish: str | None) -> Dict:
            return {**head, "choices": [{"text": text, "index": 0, "logprobs": None,
                                         "finish_reason": finish}]}

        if stream:
            def chunks() -> Iterator[Dict]:
                for piece in run:
                    if piece:
                        yield chunk(str(piece), None)
                yield chunk("", _FINISH[run.result.finish])

            return chunks()
        result = run.result
        begin = prompt if echo and isinstance(prompt, str) else ""
        return {**chunk(begin + result.text, _FINISH[result.finish]), "usage": _usage(result)}

    __call__ = create_completion

    def create_embedding(self, input: str | Sequence[str], model: str | None = None) -> Dict:
        """Vectors, as `Llama.create_embedding` gives them."""
        items = [input] if isinstance(input, str) else list(input)
        this: Any = self
        rows, n = this.embed(items), sum(len(this.tokenize(t)) for t in items)
        return {"object": "list", "model": model or self.path,
                "data": [{"object": "embedding", "index": i, "embedding": row.tolist()}
                         for i, row in enumerate(rows)],
                "usage": {"prompt_tokens": n, "total_tokens": n}}


_CHAT_OPTIONS: Dict = {
    "tools": None, "tool_choice": None, "response_format": None, "temperature": 0.2, "top_p": 0.95,
    "top_k": 40, "min_p": 0.05, "repeat_penalty": None, "seed": None, "stop": None,
    "max_tokens": None, "grammar": None, "presence_penalty": None, "frequency_penalty": None,
    "logit_bias": None, "model": None}


def _chat_options(options: Mapping[str, Any]) -> Dict:
    """Options with their defaults, in the names of this package."""
    given = dict(_CHAT_OPTIONS)
    rest = dict(options)
    log_probs, best = rest.pop("logprobs", None), rest.pop("top_logprobs", None)
    for name, value in rest.items():
        if name not in given:
            raise opt.unknown(name, [*given, "logprobs", "top_logprobs"])
        given[name] = value
    if given["seed"] is None and given["temperature"]:
        given["seed"] = uuid.uuid4().int & 0x7fffffff
    given["log_probs"] = bool(log_probs) or None
    given["n_best"] = best or None
    return given


def _logprob(model: Any, piece: Piece) -> Dict:
    def entry(token: int, log_prob: float) -> Dict:
        text = model.detokenize([token])
        return {"token": text, "logprob": log_prob, "bytes": list(text.encode())}

    return {**entry(piece.token, piece.log_prob),
            "top_logprobs": [entry(token, p) for token, p in piece.best]}


def _stream_chat(run: Stream, head: Dict, tools: _Tools, log_probs: bool, model: Any
                 ) -> Iterator[Dict]:
    """The chunks of an answer. What may become a call is held back until that is known."""

    def chunk(delta: Dict, finish: str | None = None, probs: Any = None) -> Dict:
        return {**head, "object": "chat.completion.chunk",
                "choices": [{"index": 0, "delta": delta, "logprobs": probs,
                             "finish_reason": finish}]}

    yield chunk({"role": "assistant", "content": ""})
    held, holds = "", bool(tools.list)
    for piece in run:
        probs = {"content": [_logprob(model, piece)]} if log_probs and piece.token >= 0 else None
        text = str(piece)
        if holds:
            held += text
            if not held.strip() or tools.may_be_call(held):
                continue
            holds, text = False, held
        if text or probs:
            yield chunk({"content": text}, None, probs)
    result = run.result
    calls = tools.calls(held) if holds else []
    if calls:
        yield chunk({"tool_calls": [{"index": i, **call} for i, call in enumerate(calls)]})
    elif holds and held:
        yield chunk({"content": held})
    yield chunk({}, "tool_calls" if calls else _FINISH[result.finish])
