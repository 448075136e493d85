#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The other protocols with the clients that people have, unmodified and pinned: openai's responses,
anthropic, ollama. Skipped where the packages cannot be had."""
from serving import *

sys.path.insert(0, str(SOURCE / "tests" / "support"))
from packages import import_wheels  # noqa: E402

skip_without_server()
import_wheels("openai", "anthropic", "ollama", "annotated-types", "anyio", "certifi",
              "docstring-parser", "h11", "httpcore", "httpcore2", "httpx", "httpx2", "idna",
              "opentelemetry-api", "pydantic", "sniffio", "truststore", "typing-inspection",
              "typing_extensions", "jiter", "pydantic-core")
try:
    import anthropic
    import ollama
    import openai
    from pydantic import BaseModel, ConfigDict, Field
except ImportError as e:
    skip(f"the packages of the clients cannot be imported: {e}")

for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
    os.environ.pop(name, None)
NAME = "tiny-stories"
SAY = "Tell me of a dog."
HELLO = [{"role": "user", "content": SAY}]
PARAMETERS = {"type": "object", "properties": {"what": {"enum": ["a", "b"]}}, "required": ["what"],
              "additionalProperties": False}


class Animal(BaseModel):
    model_config = ConfigDict(extra="forbid")
    name: str = Field(max_length=8)
    legs: int = Field(ge=0, le=8)


def raised(kinds, call):
    """The error of a call, which must be of a kind."""
    try:
        call()
    except kinds as e:
        return e
    except Exception as e:  # noqa: BLE001
        check(False, f"{e!r}, expected {kinds}")
        return None
    check(False, f"no error, expected {kinds}")
    return None


def test_responses(s, chat):
    client = openai.OpenAI(base_url=f"{s.url}/v1", api_key="secret", max_retries=0)
    short = {"model": NAME, "max_output_tokens": 20, "temperature": 0}
    whole = client.responses.create(input=SAY, **short)
    check(whole.output_text == chat, f"responses: {whole.output_text!r}, chat: {chat!r}")
    check(whole.status == "incomplete" and whole.usage.output_tokens == 20
          and whole.incomplete_details.reason == "max_output_tokens", str(whole))
    same = client.responses.create(input=[{"role": "user", "content": [
        {"type": "input_text", "text": SAY}]}], **short)
    check(same.output_text == chat, "input as items")

    # Streams: the events in their order, and what the client makes of them.
    with client.responses.stream(input=SAY, **short) as stream:
        events = list(stream)
    final = events[-1].response  # the client calls only completed ones final
    names = [e.type for e in events]
    check(names[:4] == ["response.created", "response.in_progress", "response.output_item.added",
                        "response.content_part.added"], str(names[:6]))
    check(names[-4:] == ["response.output_text.done", "response.content_part.done",
                         "response.output_item.done", "response.incomplete"], str(names[-6:]))
    check([e.sequence_number for e in events] == list(range(len(events))), "sequence numbers")
    check("".join(e.delta for e in events if e.type == "response.output_text.delta") == chat,
          "a streamed response")
    check(final.output_text == chat, "the final response of a stream")

    # Going on from a response: the same prompt as the whole conversation has.
    first = client.responses.create(input="Hello.", instructions="Be kind.", **short)
    second = client.responses.create(input="More.", previous_response_id=first.id, **short)
    said = [{"role": "user", "content": "Hello."},
            {"role": "assistant", "content": first.output_text},
            {"role": "user", "content": "More."}]
    expected = client.chat.completions.create(model=NAME, messages=said, temperature=0,
                                              max_tokens=20)
    check(second.output_text == expected.choices[0].message.content, "previous_response_id")
    check(second.usage.input_tokens == expected.usage.prompt_tokens, "tokens of what came before")
    check(client.responses.retrieve(second.id).output_text == second.output_text, "retrieve")
    client.responses.delete(second.id)
    raised(openai.NotFoundError, lambda: client.responses.retrieve(second.id))
    gone = raised(openai.NotFoundError, lambda: client.responses.create(
        input="x", previous_response_id=second.id, **short))
    check(gone.code == "previous_response_not_found", str(gone))
    unkept = client.responses.create(input="x", store=False, **short)
    raised(openai.NotFoundError, lambda: client.responses.retrieve(unkept.id))

    # Structured output and tools.
    parsed = client.responses.parse(model=NAME, input=SAY, text_format=Animal)
    check(isinstance(parsed.output_parsed, Animal), f"parse: {parsed}")
    tools = [{"type": "function", "name": "find", "parameters": PARAMETERS, "strict": True}]
    for choice in ("required", {"type": "function", "name": "find"}):
        made = client.responses.create(model=NAME, input=SAY, tools=tools, tool_choice=choice)
        call = made.output[0]
        check(call.type == "function_call" and call.name == "find"
              and json.loads(call.arguments)["what"] in "ab", f"a call: {made}")
    with client.responses.stream(model=NAME, input=SAY, tools=tools, tool_choice="required") as st:
        events = list(st)
        call = st.get_final_response().output[0]
    parts = [e.delta for e in events if e.type == "response.function_call_arguments.delta"]
    check("".join(parts) == call.arguments and len(parts) > 1, f"a streamed call: {parts}, {call}")
    check(events[-1].type == "response.completed", "the end of a streamed call")
    after = client.responses.create(input=[{"type": "function_call_output", "call_id": call.call_id,
                                            "output": "a brown dog"}],
                                    previous_response_id=made.id, **short)
    check(after.output_text, "what a tool gave")
    raised(openai.BadRequestError,
           lambda: client.responses.create(input=[{"type": "odd"}], **short))
    raised(openai.BadRequestError, lambda: client.responses.create(
        model=NAME, input="x", tools=[{"type": "web_search"}]))


def test_messages(s, chat):
    client = anthropic.Anthropic(base_url=s.url, api_key="secret", max_retries=0)
    short = {"model": NAME, "max_tokens": 20, "messages": HELLO, "extra_body": {"temperature": 0}}
    whole = client.messages.create(**short)
    check(whole.content[0].text == chat and whole.stop_reason == "max_tokens", str(whole))
    check(whole.usage.output_tokens == 20, str(whole.usage))
    blocks = [{"role": "user", "content": [{"type": "text", "text": SAY}]}]
    check(client.messages.create(**{**short, "messages": blocks}).content[0].text == chat, "blocks")
    stop = chat[10:12]
    cut = client.messages.create(stop_sequences=[stop], **short)
    check(cut.content[0].text == chat[:chat.index(stop)] and cut.stop_reason == "stop_sequence"
          and cut.stop_sequence == stop, str(cut))
    with client.messages.stream(**short) as stream:
        texts = list(stream.text_stream)
        final = stream.get_final_message()
    check("".join(texts) == chat and len(texts) > 1, f"a stream: {texts}")
    check(final.content[0].text == chat and final.stop_reason == "max_tokens"
          and final.usage.output_tokens == 20, str(final))
    names = [e.type for e in client.messages.create(stream=True, **short)]
    check(names[0] == "message_start" and names[-2:] == ["message_delta", "message_stop"]
          and names.count("content_block_delta") > 1, str(names))

    # The system's text, tools and what they gave.
    count = client.messages.count_tokens(model=NAME, messages=HELLO).input_tokens
    more = client.messages.count_tokens(model=NAME, messages=HELLO,
                                        system=[{"type": "text", "text": "Be kind."}]).input_tokens
    check(count == whole.usage.input_tokens + whole.usage.cache_read_input_tokens and more > count,
          f"tokens: {count}, {more}, {whole.usage}")
    form = {"format": {"type": "json_schema", "schema": Animal.model_json_schema()}}
    made = client.messages.create(model=NAME, max_tokens=300, messages=HELLO, output_config=form)
    check(Animal.model_validate_json(made.content[0].text), f"by a schema: {made}")
    tools = [{"name": "find", "description": "Finds.", "input_schema": PARAMETERS}]
    for choice in ({"type": "any"}, {"type": "tool", "name": "find"}):
        made = client.messages.create(**{**short, "max_tokens": 200}, tools=tools,
                                      tool_choice=choice)
        use = made.content[0]
        check(use.type == "tool_use" and use.input["what"] in "ab"
              and made.stop_reason == "tool_use", str(made))
    with client.messages.stream(**{**short, "max_tokens": 200}, tools=tools,
                                tool_choice={"type": "any"}) as stream:
        events = list(stream)
        check(stream.get_final_message().content[0].input == use.input, "a streamed tool")
    check(sum(e.type == "input_json" for e in events) > 1, "parts of the input of a tool")
    history = HELLO + [{"role": "assistant", "content": [use.model_dump(exclude_none=True)]},
                       {"role": "user", "content": [{"type": "tool_result", "tool_use_id": use.id,
                                                     "content": "a brown dog"}]}]
    check(client.messages.create(**{**short, "messages": history}, tools=tools).content, "results")
    raised(anthropic.NotFoundError, lambda: client.messages.create(**{**short, "model": "x"}))
    wrong = raised(anthropic.BadRequestError,
                   lambda: client.messages.create(**{**short, "extra_body": {"temperature": -1}}))
    check(wrong.body["error"]["type"] == "invalid_request_error", str(wrong.body))
    raised(anthropic.AuthenticationError,
           lambda: client.with_options(api_key="no").messages.create(**short))


def test_ollama(s, chat):
    client = ollama.Client(host=s.url, headers={"Authorization": "Bearer secret"})
    check([m.model for m in client.list().models] == [NAME], "the list of models")
    shown = client.show(NAME)
    check(shown.details.family and "completion" in shown.capabilities, str(shown))
    check([m.model for m in client.ps().models] == [NAME], "the loaded models")
    options = {"temperature": 0, "num_predict": 20}
    for name in (NAME, NAME + ":latest"):
        whole = client.chat(name, HELLO, options=options)
        check(whole.message.content == chat and whole.done_reason == "length"
              and whole.eval_count == 20 and whole.total_duration > 0, str(whole))
    parts = list(client.chat(NAME, HELLO, options=options, stream=True))
    check("".join(p.message.content for p in parts) == chat and len(parts) > 2, "a stream")
    check(parts[-1].done and parts[-1].eval_count == 20 and not parts[0].done, "its end")
    check(client.generate(NAME, SAY, options=options).response == chat, "generate by the template")
    plain = openai.OpenAI(base_url=f"{s.url}/v1", api_key="secret").completions.create(
        model=NAME, prompt="Once", max_tokens=20, temperature=0).choices[0].text
    check(client.generate(NAME, "Once", raw=True, options=options).response == plain, "raw")
    parts = list(client.generate(NAME, "Once", raw=True, options=options, stream=True))
    check("".join(p.response for p in parts) == plain, "a stream of generate")
    check(client.generate(NAME, "").done, "loading a model")
    stop = chat[10:12]
    cut = client.chat(NAME, HELLO, options={**options, "stop": [stop]})
    check(cut.message.content == chat[:chat.index(stop)] and cut.done_reason == "stop", str(cut))
    form = client.chat(NAME, HELLO, format=Animal.model_json_schema(),
                       options={"num_predict": 300})
    check(Animal.model_validate_json(form.message.content), f"by a schema: {form}")
    tools = [{"type": "function", "function": {"name": "find", "description": "Finds.",
                                               "parameters": PARAMETERS}}]
    check(client.chat(NAME, HELLO, tools=tools, options=options).message, "tools")
    history = HELLO + [{"role": "assistant", "content": "", "tool_calls": [
        {"function": {"name": "find", "arguments": {"what": "a"}}}]},
        {"role": "tool", "tool_name": "find", "content": "a brown dog"}]
    check(client.chat(NAME, history, options=options).message.content, "what a tool gave")
    check(raised(ollama.ResponseError, lambda: client.chat("none", HELLO)).status_code == 404,
          "no such model")
    raised(ollama.ResponseError, lambda: client.chat(NAME, HELLO, options={"temperature": -1}))


with Server("--ctx", 2048, "--api-key", "secret") as s:
    reply = s.post("/v1/chat/completions",
                   {"messages": HELLO, "max_tokens": 20, "temperature": 0},
                   headers={"Authorization": "Bearer secret"})
    text = reply["choices"][0]["message"]["content"]
    for test in (test_responses, test_messages, test_ollama):
        test(s, text)

encoder = Path(os.environ.get("RLX_MODELS", SOURCE / ".cache" / "models")) / "all-minilm-l6-v2"
if encoder.is_dir():
    with Server(models=(encoder,)) as s:
        made = ollama.Client(host=s.url).embed("all-minilm-l6-v2", ["A dog.", "A cat."])
        check([len(v) for v in made.embeddings] == [384, 384], "embeddings of Ollama")

finish()
