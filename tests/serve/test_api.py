#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The requests of the server on the small model of the project: answers, streams, choices, limits,
constrained output, tools, tokens, models, metrics, and errors in the shape of OpenAI's API."""
import base64
import struct
from serving import *

skip_without_server()
CHAT, COMPLETE = "/v1/chat/completions", "/v1/completions"
HELLO = [{"role": "user", "content": "Tell me of a dog."}]


def error_of(server, path, body, status=400, param=None, text="", **how):
    answer = server.post(path, body, status, **how)
    e = answer.get("error", {})
    check(set(e) == {"message", "type", "param", "code"}, f"shape of an error: {answer}")
    check(e.get("message") and e.get("type"), f"an error without words: {answer}")
    check(param is None or e.get("param") == param, f"param of {answer}, expected {param}")
    check(text in str(e.get("message")), f"expected {text!r} in {answer}")
    return e


def text_of(events):
    return "".join(c.get("text") or c.get("delta", {}).get("content") or ""
                   for e in events for c in e["choices"])


with Server("--ctx", 2048) as s:
    # What is there.
    check(s.ask("GET", "/health")[::2] == (200, {"status": "ok"}), "health")
    models = s.ask("GET", "/v1/models")[2]
    check(models["object"] == "list" and models["data"][0]["id"] == "tiny-stories", str(models))
    check(s.ask("GET", "/v1/models/tiny-stories")[2]["object"] == "model", "one model")
    check(s.ask("GET", "/v1/models/none")[0] == 404, "no model")

    # Completions: what the command line says, by text and by tokens, whole and streamed.
    said = subprocess.run([TOOL, "generate", MODEL, "--prompt", "Once upon", "--max-tokens", "30",
                           "--device", "cpu", "--json"], capture_output=True, text=True)
    expected = json.loads(said.stdout)["text"]
    plain = {"model": "tiny-stories", "prompt": "Once upon", "max_tokens": 30, "temperature": 0}
    answer = s.post(COMPLETE, plain)
    check(answer["choices"][0]["text"] == expected, f"{answer}, expected {expected!r}")
    check(answer["object"] == "text_completion" and answer["id"].startswith("cmpl-"), str(answer))
    check(answer["choices"][0]["finish_reason"] == "length", "finish_reason")
    usage = answer["usage"]
    check(usage["completion_tokens"] == 30 and usage["total_tokens"] == 30 + usage["prompt_tokens"],
          str(usage))
    ids = s.post("/tokenize", {"content": "Once upon", "add_special": True})["tokens"]
    check(s.post(COMPLETE, {**plain, "prompt": ids})["choices"][0]["text"] == expected, "tokens")
    check(len(s.post(COMPLETE, {"prompt": "A"})["choices"][0]["text"]) > 0, "only a prompt")
    check(s.post(COMPLETE, {"prompt": "A"})["usage"]["completion_tokens"] <= 16, "default limit")
    events = s.stream(COMPLETE, {**plain, "stream_options": {"include_usage": True}})
    check(text_of(events) == expected, f"streamed: {text_of(events)!r}")
    check(events[-1]["choices"] == [] and events[-1]["usage"]["completion_tokens"] == 30, "usage")
    check(all(e["usage"] is None for e in events[:-1]), "usage is null before the end")
    check(all("usage" not in e for e in s.stream(COMPLETE, plain)), "usage was not asked for")
    story = {**plain, "prompt": "Once upon a time there was a dog. " * 6, "max_tokens": 2}
    s.post(COMPLETE, story)
    again = s.post(COMPLETE, story)["usage"]
    check(again["prompt_tokens_details"]["cached_tokens"] > 0, f"nothing cached: {again}")
    echo = s.post(COMPLETE, {**plain, "echo": True})["choices"][0]["text"]
    check(echo == "Once upon" + expected, f"echo: {echo!r}")

    # Choices, seeds, stop texts.
    wild = {"max_tokens": 24, "seed": 5, "temperature": 1.5}
    many = s.post(COMPLETE, {"prompt": ["Once", "The dog"], "n": 2, **wild})
    check([c["index"] for c in many["choices"]] == [0, 1, 2, 3], "choices")
    check(many["choices"][2]["text"] != many["choices"][3]["text"], "choices are the same")
    same = s.post(COMPLETE, {"prompt": ["Once", "The dog"], "n": 2, **wild})
    check(many["choices"] == same["choices"], "the same seed, another text")
    events = s.stream(COMPLETE, {"prompt": ["Once", "The dog"], "n": 2, **wild})
    for c in many["choices"]:
        text = "".join(d["text"] for e in events for d in e["choices"] if d["index"] == c["index"])
        check(text == c["text"], f"choice {c['index']} of a stream: {text!r}, {c['text']!r}")
    stop = expected[10:13]
    for field in (stop, [stop, "never to be seen"]):
        cut = s.post(COMPLETE, {**plain, "stop": field})["choices"][0]
        check(cut["text"] == expected[:expected.index(stop)] and cut["finish_reason"] == "stop",
              f"stop: {cut}, expected up to {stop!r}")
    check(text_of(s.stream(COMPLETE, {**plain, "stop": stop})) == expected[:expected.index(stop)],
          "stop in a stream")

    # Chats.
    chat = {"messages": HELLO, "max_completion_tokens": 12, "temperature": 0}
    answer = s.post(CHAT, chat)
    message = answer["choices"][0]["message"]
    check(message["role"] == "assistant" and message["content"], str(answer))
    check(answer["object"] == "chat.completion" and answer["model"] == "tiny-stories", str(answer))
    events = s.stream(CHAT, chat)
    check(events[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}, "first chunk")
    check(text_of(events) == message["content"], "a streamed chat")
    check(events[-1]["choices"][0]["finish_reason"] == "length", "end of a streamed chat")
    parts = [{"role": "user", "content": [{"type": "text", "text": "Tell me "},
                                          {"type": "text", "text": "of a dog."}]}]
    check(s.post(CHAT, {**chat, "messages": parts})["choices"][0]["message"] == message, "parts")
    prompt = s.post("/apply-template", {"messages": HELLO})["prompt"]
    check("Tell me of a dog." in prompt, f"template: {prompt}")

    # Log-probabilities, bias and penalties.
    c = s.post(CHAT, {**chat, "logprobs": True, "top_logprobs": 3})["choices"][0]
    probs = c["logprobs"]["content"]
    check("".join(p["token"] for p in probs) == c["message"]["content"], f"logprobs: {probs}")
    check(all(p["logprob"] <= 0 and len(p["top_logprobs"]) == 3
              and p["top_logprobs"][0]["token"] == p["token"] for p in probs), f"best: {probs}")
    events = s.stream(CHAT, {**chat, "logprobs": True})
    check(sum(len(d["logprobs"]["content"]) for e in events for d in e["choices"]
              if d["logprobs"]) == len(probs), "logprobs in a stream")
    c = s.post(COMPLETE, {**plain, "logprobs": 2})["choices"][0]["logprobs"]
    check("".join(c["tokens"]) == expected and len(c["top_logprobs"][0]) == 2, f"logprobs: {c}")
    first = s.post("/tokenize", {"content": expected[0]})["tokens"][0]
    biased = s.post(COMPLETE, {**plain, "logit_bias": {str(first): -100}})["choices"][0]["text"]
    check(biased and biased[0] != expected[0], f"logit_bias: {biased!r}, {expected!r}")
    penal = {**plain, "max_tokens": 60, "frequency_penalty": 2, "presence_penalty": 2}
    check(s.post(COMPLETE, penal)["choices"][0]["text"][:30] != expected, "penalties")

    # Constrained output.
    schema = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 8},
                                               "age": {"type": "integer", "minimum": 0,
                                                       "maximum": 99}},
              "required": ["name", "age"], "additionalProperties": False}
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema, "strict": True}}
    for seed in range(5):
        body = {"messages": HELLO, "response_format": form, "seed": seed, "max_tokens": 300}
        c = s.post(CHAT, body)["choices"][0]
        value = json.loads(c["message"]["content"]) if c["finish_reason"] == "stop" else None
        check(value is not None and set(value) == {"name", "age"} and 0 <= value["age"] <= 99,
              f"by a schema: {c}")
        check(json.loads(text_of(s.stream(CHAT, body))) == value, "a schema in a stream")
    # Objects get the properties that they list, at every depth; those that say otherwise, others.
    inner = {"type": "object", "properties": {"n": {"type": "integer", "maximum": 9, "minimum": 0}}}
    listed = {"type": "object", "properties": {"a": inner, "properties": {"const": {"b": 1}}},
              "required": ["a", "properties"], "$defs": {"x": inner}}
    for seed in range(6):
        body = {"messages": HELLO, "temperature": 1.5, "seed": seed, "max_tokens": 200,
                "response_format": {"type": "json_schema",
                                    "json_schema": {"name": "x", "schema": listed}}}
        c = s.post(CHAT, body)["choices"][0]
        value = json.loads(c["message"]["content"]) if c["finish_reason"] == "stop" else {}
        check(set(value) == {"a", "properties"} and set(value["a"]) <= {"n"}, f"listed: {c}")
    opened = {"type": "object", "properties": {"a": {"const": 1}},
              "additionalProperties": {"const": 2}, "minProperties": 3, "maxProperties": 3}
    c = s.post(CHAT, {**body, "response_format": {"type": "json_schema", "json_schema": {
        "name": "x", "schema": opened}}})["choices"][0]
    check(c["finish_reason"] == "length" or len(json.loads(c["message"]["content"])) == 3,
          f"others: {c}")
    c = s.post(COMPLETE, {"prompt": "x", "regex": "[ab]{4}", "max_tokens": 50})["choices"][0]
    check(re.fullmatch("[ab]{4}", c["text"]) and c["finish_reason"] == "stop", f"regex: {c}")
    c = s.post(COMPLETE, {"prompt": "x", "grammar": 'root ::= "yes" | "no"',
                          "max_tokens": 50})["choices"][0]
    check(c["text"] in ("yes", "no"), f"grammar: {c}")
    c = s.post(CHAT, {"messages": HELLO, "response_format": {"type": "json_object"},
                      "max_tokens": 400, "seed": 3})["choices"][0]
    check(c["message"]["content"].lstrip().startswith("{"), f"json_object: {c}")

    # Tools: a call that must be made, whole and streamed; a history with calls.
    tools = [{"type": "function", "function": {
        "name": name, "description": "Finds a thing.", "parameters": {
            "type": "object", "properties": {"what": {"enum": ["dog", "cat"]}},
            "required": ["what"], "additionalProperties": False}}} for name in ("find", "lose")]
    for choice in ("required", {"type": "function", "function": {"name": "lose"}}):
        body = {"messages": HELLO, "tools": tools, "tool_choice": choice, "seed": 1,
                "max_tokens": 200}
        c = s.post(CHAT, body)["choices"][0]
        check(c["finish_reason"] == "tool_calls" and c["message"]["content"] is None, str(c))
        call = c["message"]["tool_calls"][0]
        check(call["type"] == "function" and call["id"], str(call))
        check(json.loads(call["function"]["arguments"])["what"] in ("dog", "cat"), str(call))
        check(call["function"]["name"] in (("find", "lose") if choice == "required" else ("lose",)),
              f"the name of a call: {call}")
        events = s.stream(CHAT, body)
        deltas = [t for e in events for d in e["choices"] for t in d["delta"].get("tool_calls", [])]
        check(deltas and deltas[0]["function"]["name"] == call["function"]["name"], str(deltas))
        check("".join(d["function"].get("arguments", "") for d in deltas)
              == call["function"]["arguments"], f"arguments in a stream: {deltas}, {call}")
        check(events[-1]["choices"][0]["finish_reason"] == "tool_calls", "end of a streamed call")
    history = HELLO + [{"role": "assistant", "content": None, "tool_calls": [call]},
                       {"role": "tool", "tool_call_id": call["id"], "content": "a brown dog"}]
    prompt = s.post("/apply-template", {"messages": history, "tools": tools})["prompt"]
    check("a brown dog" in prompt and '"name": "lose"' in prompt and "Finds a thing." in prompt,
          f"a history with calls: {prompt}")
    s.post(CHAT, {"messages": history, "tools": tools, "max_tokens": 5})
    error_of(s, CHAT, {"messages": HELLO, "tools": tools, "tool_choice": {
        "type": "function", "function": {"name": "other"}}}, param="tool_choice")

    # Schemas of tools as libraries write them: "$ref" within a tool, no type, no parameters at all.
    def call_of(*parameters, **fields):
        made = [{"type": "function", "function": {"name": f"f{i}", "parameters": p}}
                for i, p in enumerate(parameters)]
        c = s.post(CHAT, {"messages": HELLO, "tools": made, "tool_choice": "required", "seed": 1,
                          "max_tokens": 200, **fields})["choices"][0]
        return json.loads(c["message"]["tool_calls"][0]["function"]["arguments"])

    shared = [{"$defs": {"Kind": {"enum": [value]}}, "properties": {"kind": {
        "$ref": "#/$defs/Kind"}}, "required": ["kind"]} for value in ("a", "b")]
    for i, value in enumerate("ab"):
        c = call_of(*shared, tool_choice={"type": "function", "function": {"name": f"f{i}"}})
        check(c == {"kind": value}, f"$ref of tool {i}: {c}")
    check(call_of(*shared, tool_choice="any")["kind"] in "ab", "tool_choice any")
    for empty in ({}, None, {"type": "object", "properties": {}}):
        check(call_of(empty) == {}, f"a call of a tool without parameters: {empty}")
    # A form of the text and tools: what must be a call has none, what is no call has it.
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"const": {"a": 1}}}}
    check(call_of(shared[0], response_format=form) == {"kind": "a"}, "a call and a form")
    body = {"messages": HELLO, "tools": tools, "response_format": form, "max_tokens": 100}
    c = s.post(CHAT, body)
    check(json.loads(c["choices"][0]["message"]["content"]) == {"a": 1}
          and c["usage"]["completion_tokens"] < 30, f"tools that are not called and a form: {c}")
    check(json.loads(text_of(s.stream(CHAT, {**body, "seed": 7}))) == {"a": 1}, "in a stream")

    # Where other servers and clients put things, or leave them out.
    for form in ({"type": "json_object", "schema": {"const": {"a": 1}}},
                 {"type": "json_schema", "schema": {"const": {"a": 1}}}):
        c = s.post(CHAT, {"messages": HELLO, "response_format": form, "max_tokens": 50})
        check(json.loads(c["choices"][0]["message"]["content"]) == {"a": 1}, f"{form}: {c}")
    c = s.post(COMPLETE, {"prompt": "x", "json_schema": {"const": {"a": 1}}, "n_predict": 50})
    check(json.loads(c["choices"][0]["text"]) == {"a": 1}, f"json_schema: {c}")
    silent = [*HELLO, {"role": "assistant", "content": None}, *HELLO]
    refused = [*HELLO, {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}]
    for messages in (silent, refused):
        s.post(CHAT, {**chat, "messages": messages})
    c = s.post(CHAT, {**chat, "max_completion_tokens": 12.0})
    check(c["choices"][0]["message"] == message, "an integer as 12.0")
    c = s.post(COMPLETE, {**plain, "max_tokens": -1})
    check(c["usage"]["completion_tokens"] > 30, f"max_tokens -1: {c}")
    c = s.post(COMPLETE, {**plain, "max_tokens": 0, "echo": True})
    check(c["choices"][0]["text"] == "Once upon" and c["choices"][0]["finish_reason"] == "length"
          and c["usage"]["completion_tokens"] == 0, f"max_tokens 0: {c}")
    check(text_of(s.stream(COMPLETE, {**plain, "max_tokens": 0})) == "", "no tokens in a stream")
    check(s.post("/chat/completions", chat)["choices"][0]["message"] == message, "without /v1")
    check(s.ask("GET", "/v1/models/")[2] == s.ask("GET", "/models")[2] == models, "/v1/models/")
    error_of(s, COMPLETE, {**plain, "suffix": "the end"}, param="suffix", text="tiny-stories")
    check(s.post(COMPLETE, {**plain, "suffix": ""})["choices"][0]["text"] == expected, "suffix")

    # Samplers by llama.cpp's names: DRY is greedy and gives another text, which a breaker undoes.
    def say(**fields):
        said = s.post(COMPLETE, {"prompt": "Once", "max_tokens": 40, **fields})
        return said["choices"][0]["text"]

    greedy = say(temperature=0)
    dry = {"temperature": 0, "dry_multiplier": 20, "dry_allowed_length": 1, "dry_base": 1.75}
    broken = say(**dry, dry_sequence_breakers=list("abcdefghijklmnop"))
    check(say(**dry) != greedy and say(**dry, dry_penalty_last_n=0) == greedy, "dry_multiplier")
    check(broken != say(**dry), f"dry_sequence_breakers: {broken!r}")
    for more in ({"typical_p": 0.2}, {"mirostat": 2, "mirostat_tau": 3, "mirostat_eta": 0.2},
                 {"xtc_probability": 1, "xtc_threshold": 0.02}):
        check(say(seed=1, temperature=1.5, **more) == say(seed=1, temperature=1.5, **more)
              != say(seed=1, temperature=1.5), str(more))

    # Tokens.
    ids = s.post("/tokenize", {"content": "The dog"})["tokens"]
    check(s.post("/detokenize", {"tokens": ids})["content"] == "The dog", "detokenize")
    check(s.post("/detokenize", {"tokens": []})["content"] == "", "no tokens")
    error_of(s, "/detokenize", {"tokens": [99999999]})

    # Wrong requests are named; unknown fields are in a warning.
    for body, param in (({"messages": "x"}, "messages"), ({"messages": []}, "messages"),
                        ({}, "messages"),
                        ({"messages": [{"role": "king", "content": "x"}]}, "messages"),
                        ({"messages": [{"role": "user"}]}, "messages"),
                        ({"messages": [{"role": "user", "content": "a\0b"}]}, "messages"),
                        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
                         "messages"),
                        ({"messages": HELLO, "temperature": "hot"}, "temperature"),
                        ({"messages": HELLO, "temperature": -1}, "temperature"),
                        ({"messages": HELLO, "top_p": 2}, "top_p"),
                        ({"messages": HELLO, "max_tokens": 1.5}, "max_tokens"),
                        ({"messages": HELLO, "mirostat": 1}, "mirostat"),
                        ({"messages": HELLO, "dry_base": 0.5}, "dry_base"),
                        ({"messages": HELLO, "dry_sequence_breakers": "x"},
                         "dry_sequence_breakers"),
                        ({"messages": HELLO, "n": 0}, "n"), ({"messages": HELLO, "n": 1000}, "n"),
                        ({"messages": HELLO, "stream": 1}, "stream"),
                        ({"messages": HELLO, "stop": [1]}, "stop"),
                        ({"messages": HELLO, "stop": ["x"] * 17}, "stop"),
                        ({"messages": HELLO, "logit_bias": {"x": 1}}, "logit_bias"),
                        ({"messages": HELLO, "tools": [{"type": "magic"}]}, "tools"),
                        ({"messages": HELLO, "response_format": {"type": "xml"}},
                         "response_format"),
                        ({"messages": HELLO, "response_format": {
                            "type": "json_schema", "json_schema": {"schema": {"type": "odd"}}}},
                         "response_format")):
        error_of(s, CHAT, body, param=param)
    error_of(s, CHAT, {"messages": []}, text="got an empty array")
    error_of(s, "/v1/rerank", {"query": "x", "documents": [{}]}, text="expected a string")
    error_of(s, CHAT, "{", text="byte")
    error_of(s, CHAT, "[1]")
    error_of(s, CHAT, "\xff\xfe".encode("latin1"))
    error_of(s, CHAT, "[" * 100000)
    error_of(s, CHAT, {"messages": HELLO, "model": "gpt-4"}, 404, "model", "gpt-4")
    # In the words by which clients know it.
    e = error_of(s, COMPLETE, {"prompt": "word " * 5000}, text="maximum context length is 2048 tok")
    check(e["code"] == "context_length_exceeded", str(e))
    e = s.post("/v1/messages", {"max_tokens": 5, "messages": [{
        "role": "user", "content": "word " * 5000}]}, 400)["error"]
    check(e["message"].startswith("prompt is too long: ") and "> 2048 maximum" in e["message"],
          str(e))
    e = s.post("/v1/messages", {"max_tokens": 5, "messages": HELLO, "thread": {"type": "create"}},
               400)["error"]
    check(e["details"]["error_code"] == "thread_unsupported_request", f"threads: {e}")
    error_of(s, COMPLETE, {"prompt": [99999999]}, param="prompt")
    error_of(s, "/v1/embeddings", {"input": "x", "model": "tiny-stories"}, param="model")
    error_of(s, "/v1/nothing", {}, 404)
    got, headers, _ = s.ask("GET", CHAT)
    check(got == 405 and headers["Allow"] == "POST", f"GET of a chat: {got} {headers}")
    check(s.ask("HEAD", CHAT)[0] == 405, "HEAD of a chat")
    for path in ("/health", "/", "/v1/models"):
        got, headers, text = s.ask("HEAD", path)
        check(got == 200 and int(headers["Content-Length"]) > 0 and not text,
              f"HEAD {path}: {got} {headers} {text}")
    check(s.ask("DELETE", "/v1/models")[0] == 405, "DELETE of the models")
    for path in ("/../../etc/passwd", "/%2e%2e/x", "/v1/models/../../x", "/" + "a" * 5000):
        check(s.ask("GET", path)[0] == 404, f"{path[:40]} is there")
    _, headers, _ = s.ask("POST", CHAT, {**chat, "magic": 1, "wand": {"x": 2}, "user": "me"})
    check(headers["X-RLX-Warning"] == "fields without effect: magic, wand", str(headers))
    check("magic, wand" in s.messages(), "the log has no warning")
    check("Tell me of a dog" not in s.messages(), "a prompt was logged")

    # One connection for many requests; the counters.
    c = s.connect()
    for _ in range(5):
        check(s.ask("POST", COMPLETE, {**plain, "max_tokens": 2}, connection=c)[0] == 200, "again")
    c.close()
    m = s.metrics()
    check(m["rlx_requests_total"] > 50 and m["rlx_errors_total"] > 20, str(m))
    check(m["rlx_generated_tokens_total"] > 100 and m["rlx_cached_tokens_total"] > 0, str(m))
    check(m["rlx_first_token_seconds_count"] > 10 and m["rlx_token_seconds_count"] > 100, str(m))
    check(m["rlx_jobs_running"] == 0 and m["rlx_jobs_waiting"] == 0, str(m))



def with_gap_tokens(path):
    """The model with three control tokens that mark a gap: names of unused ones, of which two
    others become shorter, so that the file stays as long as it is."""
    def strings(names):
        return b"".join(struct.pack("<Q", len(n)) + n for n in names)

    old = strings([b"<unused1%d>" % i for i in range(5)])
    new = strings([b"<fim_prefix>", b"<fim_suffix>", b"<fim_middle>", b"<gap_a>", b"<gap_b>"])
    data = MODEL.read_bytes()
    check(data.count(old) == 1 and len(old) == len(new), "the unused tokens of the model")
    path.write_bytes(data.replace(old, new))
    return path


# Models of code fill gaps: what is before and after goes around the tokens that mark it.
with Server(models=(with_gap_tokens(TMP / "gap.gguf"),)) as s:
    plain = {"max_tokens": 20, "temperature": 0}
    whole = s.post(COMPLETE, {**plain, "prompt": "<fim_prefix>Once<fim_suffix> end.<fim_middle>"})
    filled = s.post(COMPLETE, {**plain, "prompt": "Once", "suffix": " end."})
    check(filled["choices"][0]["text"] == whole["choices"][0]["text"]
          and filled["usage"]["prompt_tokens"] == whole["usage"]["prompt_tokens"], str(filled))
    made = s.post("/api/generate", {"prompt": "Once", "suffix": " end.", "stream": False,
                                    "options": {"temperature": 0, "num_predict": 20}})
    check(made["response"] == whole["choices"][0]["text"], f"Ollama's suffix: {made}")
    error_of(s, COMPLETE, {**plain, "prompt": [5], "suffix": "x"}, param="suffix")

# Embeddings, where the small encoder was fetched; several models in one server.
encoder = Path(os.environ.get("RLX_MODELS", SOURCE / ".cache" / "models")) / "all-minilm-l6-v2"
if encoder.is_dir():
    with Server(models=(MODEL, encoder)) as s:
        body = {"model": "all-minilm-l6-v2", "input": ["A dog.", "A cat."]}
        answer = s.post("/v1/embeddings", body)
        vectors = [d["embedding"] for d in answer["data"]]
        check([len(v) for v in vectors] == [384, 384], "width of embeddings")
        check(abs(sum(x * x for x in vectors[0]) - 1) < 1e-3, "length of a vector")
        packed = s.post("/v1/embeddings", {**body, "encoding_format": "base64"})
        raw = base64.b64decode(packed["data"][1]["embedding"])
        numbers = struct.unpack("<384f", raw)
        check(all(abs(a - b) < 1e-6 for a, b in zip(numbers, vectors[1])), "base64")
        short = s.post("/v1/embeddings", {**body, "dimensions": 16})["data"][0]["embedding"]
        check(len(short) == 16 and abs(sum(x * x for x in short) - 1) < 1e-3, "dimensions")
        error_of(s, "/v1/embeddings", {**body, "dimensions": 1000}, param="dimensions")
        error_of(s, "/v1/embeddings", {**body, "input": []}, param="input")
        ids = s.post("/tokenize", {"model": body["model"], "content": "a dog."})["tokens"]
        same = s.post("/v1/embeddings", {**body, "input": ids})["data"][0]["embedding"]
        check(all(abs(a - b) < 1e-6 for a, b in zip(same, vectors[0])), "token ids")
        old = s.post("/api/embeddings", {"model": body["model"], "prompt": "A dog."})["embedding"]
        check(all(abs(a - b) < 1e-6 for a, b in zip(old, vectors[0])), "Ollama's first form")
        many = {"model": body["model"], "input": "word " * 2000}
        made = s.post("/api/embed", many)
        check(made["total_duration"] > 0 and made["load_duration"] == 0, "times of /api/embed")
        check("longer than" in s.post("/api/embed", {**many, "truncate": False}, 400)["error"],
              "truncate: false")
        warning = s.ask("POST", "/v1/embeddings", many)[1]["X-RLX-Warning"]
        check("were cut" in warning, f"a long text: {warning}")
        ranks = {"query": "A dog.", "documents": ["A cat.", "A puppy."], "model": body["model"]}
        check(s.post("/v2/rerank", ranks) == s.post("/rerank", ranks), "Cohere's path")
        check(s.post("/v1/embeddings", {"input": "x"})["model"] == "all-minilm-l6-v2", "no model")
        error_of(s, CHAT, {"model": "all-minilm-l6-v2", "messages": HELLO}, param="model")
else:
    print(f"embeddings are not tested: no {encoder}")

finish()
