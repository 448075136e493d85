#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares chat templates as rlx renders them with the Python package `jinja2`, in the settings
that are usual for chat templates: the templates of tests/model/templates over several
conversations, and many small pieces of the language.

    test_template_jinja.py [MODEL.gguf...]   the templates of these files, too (package `gguf`)

Exit status: 0 all equal, 1 not, 77 no jinja2 here (skipped).
"""
import json
import os
import subprocess
import sys
import tempfile
from datetime import datetime, timezone
from pathlib import Path

try:
    import jinja2
    from jinja2.sandbox import ImmutableSandboxedEnvironment
except ImportError as e:
    print(f"skipped: {e}")
    sys.exit(77)

HERE = Path(__file__).resolve().parent
PROGRAM = os.environ.get("RLX_TEST_TEMPLATE") or os.path.join(
    os.environ.get("RLX_BUILD_DIR", "build"), "tests/model/test_template")
NOW = datetime.fromtimestamp(1700000000, timezone.utc)

TOOLS = [{"type": "function", "function": {
    "name": "weather", "description": "The weather of a \"city\"\nnow",
    "parameters": {"type": "object", "required": ["city"], "properties": {
        "city": {"type": "string"}, "unit": {"type": "string", "enum": ["°C", "°F"]},
        "days": {"type": "array", "items": {"type": "integer"}}}}}},
    {"type": "function", "function": {"name": "noop", "parameters": {
        "type": "object", "properties": {}}}}]
CALL = {"role": "assistant", "content": "", "tool_calls": [
    {"id": "abc123456", "type": "function", "function": {
        "name": "weather", "arguments": {"city": "Zürich", "days": [1, 2]}}}]}


def said(role, content, **more):
    return {"role": role, "content": content, **more}


TALKS = {
    "one": [said("user", "Why is the sky blue?")],
    "system": [said("system", "Be terse."), said("user", " Hi \n"), said("assistant", "Yo!"),
               said("user", "naïve 🦊 日本語")],
    "long": [said("user" if i % 2 == 0 else "assistant", f"line {i}\n\n  x") for i in range(7)],
    "think": [said("user", "2+2?"), said("assistant", "<think>\nadd\n</think>\n\n4"),
              said("user", "and 3?"), said("assistant", "5", reasoning_content="again")],
    "tool": [said("system", "S"), said("user", "Weather?"), CALL,
             said("tool", "{\"t\": 21}", tool_call_id="abc123456"), said("tool", "second"),
             said("assistant", "21 degrees."), said("user", "Thanks <b> & 'bye'")],
    "odd": [said("assistant", "I begin"), said("assistant", "twice")],
    "parts": [said("user", [{"type": "text", "text": "see "}, {"type": "image"}])],
}

VALUES = {"n": 3, "x": 2.5, "big": 12345678901, "none": None, "yes": True, "no": False,
          "s": "Hello", "u": "Grüße 日本", "empty": "", "l": [3, 1, 2], "words": ["b", "A", "c", "a"],
          "d": {"z": 1, "a": {"b": [1, {"c": None}]}, "Q": 2.0}, "nest": [[1, 2], [3, [4]]],
          "rows": [{"k": "x", "v": 1}, {"k": "y", "v": 2}, {"k": "X", "v": 3}, {"v": 4}],
          "f": [0.1, 1e100, 1e-7, 123456789.0, 5e-324, 1 / 3]}

# Tuples of expressions, one a line, and whole templates.
EXPRESSIONS = (HERE / "templates/expressions.txt").read_text().splitlines()
PIECES = json.loads((HERE / "templates/pieces.json").read_text())


def python_environment():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                        extensions=["jinja2.ext.loopcontrols"])

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                          sort_keys=sort_keys)

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = NOW.strftime
    return env


def python_render(env, text, variables):
    """The text, or None when it fails."""
    try:
        return env.from_string(text).render(**variables)
    except Exception:
        return None


def rlx_render(folder, text, variables):
    template, values = Path(folder, "t.jinja"), Path(folder, "v.json")
    template.write_bytes(text.encode())
    values.write_text(json.dumps(variables, ensure_ascii=False))
    done = subprocess.run([PROGRAM, "render", template, values], capture_output=True)
    if done.returncode not in (0, 1):
        return f"crashed with status {done.returncode}: {done.stderr.decode()[-300:]}"
    return done.stdout.decode() if done.returncode == 0 else None


def cases(models):
    for path in sorted((HERE / "templates").glob("*.jinja")):
        yield from talks(path.name, path.read_text())
    for path in models:
        from gguf import GGUFReader
        field = GGUFReader(path).fields["tokenizer.chat_template"]
        yield from talks(Path(path).name, bytes(field.parts[-1]).decode())
    for line in EXPRESSIONS:
        yield line, "{{ (" + line + ",) }}", VALUES
    for piece in PIECES:
        yield piece, piece, VALUES


def talks(name, text):
    for talk, messages in TALKS.items():
        for more in ({"add_generation_prompt": True}, {"tools": TOOLS},
                     {"add_generation_prompt": True, "enable_thinking": False, "tools": None}):
            variables = {"messages": messages, "bos_token": "<s>", "eos_token": "</s>", **more}
            yield f"{name} {talk} {sorted(more)}", text, variables


def main():
    env = python_environment()
    n = wrong = failing = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, text, variables in cases(sys.argv[1:]):
            want, got = python_render(env, text, variables), rlx_render(folder, text, variables)
            n += 1
            failing += want is None
            if want != got:
                wrong += 1
                print(f"{name}\n  expected {want!r}\n  got      {got!r}")
    print(f"{n} cases, {failing} of them errors, {wrong} wrong; jinja2 {jinja2.__version__}")
    return 1 if wrong or not n else 0


if __name__ == "__main__":
    sys.exit(main())
