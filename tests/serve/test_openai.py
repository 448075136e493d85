#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The server with the client that people have: the package openai, unmodified, in the version of
tools/fetch/pins.txt. Skipped where it cannot be had."""
from serving import *

sys.path.insert(0, str(SOURCE / "tests" / "support"))
from packages import import_wheels  # noqa: E402

skip_without_server()
import_wheels("openai", "annotated-types", "anyio", "h11", "httpcore2", "httpx2", "idna",
              "pydantic", "sniffio", "truststore", "typing-inspection", "typing_extensions",
              "jiter", "pydantic-core")
try:
    import openai
    from pydantic import BaseModel, Field
except ImportError as e:
    skip(f"the package openai cannot be imported: {e}")

for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
    os.environ.pop(name, None)
HELLO = [{"role": "user", "content": "Tell me of a dog."}]


class Animal(BaseModel):
    name: str = Field(max_length=8)
    legs: int = Field(ge=0, le=8)


TOOL_LIST = [{"type": "function", "function": {
    "name": "find", "parameters": {"type": "object", "properties": {"what": {"enum": ["a", "b"]}},
                                   "required": ["what"], "additionalProperties": False}}}]

with Server("--ctx", 2048, "--api-key", "secret") as s:
    client = openai.OpenAI(base_url=f"{s.url}/v1", api_key="secret", max_retries=0)
    check([m.id for m in client.models.list()] == ["tiny-stories"], "models")
    check(client.models.retrieve("tiny-stories").object == "model", "one model")

    # Chats and completions, whole and streamed.
    whole = client.chat.completions.create(model="tiny-stories", messages=HELLO, max_tokens=20,
                                           temperature=0)
    text = whole.choices[0].message.content
    check(text and whole.usage.completion_tokens == 20, str(whole))
    parts = list(client.chat.completions.create(
        model="tiny-stories", messages=HELLO, max_tokens=20, temperature=0, stream=True,
        stream_options={"include_usage": True}))
    check("".join(p.choices[0].delta.content or "" for p in parts if p.choices) == text, "stream")
    check(parts[-1].usage.completion_tokens == 20, "usage of a stream")
    stop = text[10:12]
    with client.chat.completions.stream(model="tiny-stories", messages=HELLO, max_tokens=20,
                                        temperature=0, stop=stop) as stream:
        for _ in stream:
            pass
        got = stream.get_final_completion().choices[0].message.content
        check(got == text[:text.index(stop)], f"stream helper: {got!r} of {text!r}")
    done = client.completions.create(model="tiny-stories", prompt="Once", max_tokens=5, n=2)
    check(len(done.choices) == 2, "completions")

    # Structured output with parse.
    for seed in range(3):
        parsed = client.chat.completions.parse(model="tiny-stories", messages=HELLO, seed=seed,
                                               response_format=Animal, max_tokens=300)
        animal = parsed.choices[0].message.parsed
        check(isinstance(animal, Animal) and 0 <= animal.legs <= 8, f"parse: {parsed}")

    # Tools, whole and streamed.
    call = client.chat.completions.create(model="tiny-stories", messages=HELLO, tools=TOOL_LIST,
                                          tool_choice="required", max_tokens=100, seed=1)
    made = call.choices[0].message.tool_calls[0]
    check(made.function.name == "find" and json.loads(made.function.arguments)["what"] in "ab",
          f"a call: {call}")
    with client.chat.completions.stream(model="tiny-stories", messages=HELLO, tools=TOOL_LIST,
                                        tool_choice="required", max_tokens=100, seed=1) as stream:
        for _ in stream:
            pass
        got = stream.get_final_completion().choices[0].message.tool_calls[0].function
        check(got.arguments == made.function.arguments, f"a streamed call: {got}, {made}")

    # Errors are those that the client knows.
    for expected, how in ((openai.NotFoundError, {"model": "gpt-4"}),
                          (openai.BadRequestError, {"temperature": -1}),
                          (openai.BadRequestError, {"messages": HELLO * 200})):
        try:
            client.chat.completions.create(**{"model": "tiny-stories", "messages": HELLO, **how})
            check(False, f"{how}: no error")
        except openai.APIStatusError as e:
            check(type(e) is expected and e.body["message"], f"{how}: {e!r}")
    try:
        client.with_options(api_key="wrong").models.list()
        check(False, "a wrong key: no error")
    except openai.AuthenticationError as e:
        check(e.code == "invalid_api_key", repr(e))

encoder = Path(os.environ.get("RLX_MODELS", SOURCE / ".cache" / "models")) / "all-minilm-l6-v2"
if encoder.is_dir():
    with Server(models=(encoder,)) as s:
        client = openai.OpenAI(base_url=f"{s.url}/v1", api_key="none")
        answer = client.embeddings.create(model="all-minilm-l6-v2", input=["A dog.", "A cat."])
        check([len(d.embedding) for d in answer.data] == [384, 384], "embeddings")

finish()
