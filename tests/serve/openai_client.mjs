// SPDX-License-Identifier: MIT
// Asks a server by the package openai: node openai_client.mjs texts|vectors URL. Ends with status 1
// and a list of what was wrong.
import OpenAI from "openai";
import { zodResponseFormat, zodTextFormat } from "openai/helpers/zod";
import { z } from "zod";

const [what, baseURL] = process.argv.slice(2);
const client = new OpenAI({ baseURL, apiKey: "secret", maxRetries: 0 });
const model = "tiny-stories", temperature = 0;
const messages = [{ role: "user", content: "Tell me of a dog." }];
const Animal = z.object({ name: z.string().max(8), legs: z.number().int().min(0).max(8) });
const find = { name: "find",
               parameters: { type: "object", properties: { what: { enum: ["a", "b"] } },
                             required: ["what"], additionalProperties: false } };
let checks = 0, failed = 0;

function check(condition, text) {
    checks++;
    if (!condition) {
        failed++;
        console.log(`FAILED: ${text}`);
    }
}

async function chats() {
    const ids = [];
    for await (const m of client.models.list())
        ids.push(m.id);
    check(ids.join() === model, `models: ${ids}`);
    const whole = await client.chat.completions.create({ model, messages, temperature,
                                                          max_tokens: 20 });
    const text = whole.choices[0].message.content;
    check(text && whole.usage.completion_tokens === 20, JSON.stringify(whole));
    let streamed = "", usage;
    for await (const part of await client.chat.completions.create({
        model, messages, temperature, max_tokens: 20, stream: true,
        stream_options: { include_usage: true } })) {
        streamed += part.choices[0]?.delta?.content ?? "";
        usage = part.usage ?? usage;
    }
    check(streamed === text && usage.completion_tokens === 20, `a stream: ${streamed}, ${text}`);
    const helper = client.chat.completions.stream({ model, messages, temperature, max_tokens: 20 });
    check(await helper.finalContent() === text, "the helper of streams");
    const left = await client.chat.completions.create({ model, messages, stream: true,
                                                         max_tokens: 400 });
    for await (const _ of left)
        break; // goes away in the middle of a stream
    const done = await client.completions.create({ model, prompt: "Once", max_tokens: 5, n: 2 });
    check(done.choices.length === 2, JSON.stringify(done));
}

async function structures() {
    const parsed = await client.chat.completions.parse({
        model, messages, seed: 1, max_tokens: 300,
        response_format: zodResponseFormat(Animal, "animal") });
    check(Animal.safeParse(parsed.choices[0].message.parsed).success, JSON.stringify(parsed));
    const tools = [{ type: "function", function: find }];
    const how = { model, messages, tools, tool_choice: "required", seed: 1, max_tokens: 100 };
    const call = (await client.chat.completions.create(how)).choices[0].message.tool_calls[0];
    check(call.function.name === "find" && "ab".includes(JSON.parse(call.function.arguments).what),
          JSON.stringify(call));
    const helper = client.chat.completions.stream(how);
    const made = (await helper.finalMessage()).tool_calls[0];
    check(made.function.arguments === call.function.arguments,
          `a streamed call: ${JSON.stringify(made)}`);
    const runner = client.chat.completions.runTools({
        ...how,
        tools: [{ type: "function", function: { ...find, parse: JSON.parse,
                                                function: (given) => `found ${given.what}` } }],
        tool_choice: { type: "function", function: { name: "find" } } });
    check((await runner.finalFunctionToolCallResult()).startsWith("found "), "runTools");
}

async function responses() {
    const first = await client.responses.create({ model, input: "Tell me of a dog.", temperature,
                                                  max_output_tokens: 20 });
    check(first.output_text && first.usage.output_tokens === 20, JSON.stringify(first));
    let text = "", last;
    for await (const event of await client.responses.create({
        model, input: "Tell me of a dog.", temperature, max_output_tokens: 20, stream: true })) {
        if (event.type === "response.output_text.delta")
            text += event.delta;
        last = event.type;
    }
    check(text === first.output_text && last.startsWith("response."), `${last}: ${text}`);
    const next = await client.responses.create({ model, input: "And a cat.", max_output_tokens: 5,
                                                 previous_response_id: first.id });
    check(next.previous_response_id === first.id
          && next.usage.input_tokens > first.usage.input_tokens, JSON.stringify(next));
    const parsed = await client.responses.parse({
        model, input: "A dog", max_output_tokens: 300,
        text: { format: zodTextFormat(Animal, "animal") } });
    check(Animal.safeParse(parsed.output_parsed).success, JSON.stringify(parsed));
    const called = await client.responses.create({
        model, input: "A dog", tool_choice: "required",
        tools: [{ type: "function", strict: true, ...find }] });
    check(called.output.some((o) => o.type === "function_call" && o.name === "find"),
          JSON.stringify(called));
}

async function errors() {
    for (const [kind, how] of [[OpenAI.NotFoundError, { model: "gpt-4" }],
                               [OpenAI.BadRequestError, { temperature: -1 }]]) {
        const error = await client.chat.completions.create({ model, messages, ...how })
            .catch((e) => e);
        check(error instanceof kind && error.error.message, `${JSON.stringify(how)}: ${error}`);
    }
    const error = await client.withOptions({ apiKey: "wrong" }).models.list().catch((e) => e);
    check(error instanceof OpenAI.AuthenticationError && error.code === "invalid_api_key",
          `${error}`);
}

async function vectors() { // the client asks for base64 and decodes it, unless told otherwise
    const how = { model: "all-minilm-l6-v2", input: ["A dog.", "A cat."] };
    const packed = (await client.embeddings.create(how)).data.map((d) => d.embedding);
    const plain = (await client.embeddings.create({ ...how, encoding_format: "float" })).data;
    check(packed.length === 2 && packed.every((v) => v.length === 384), "embeddings");
    check(plain.every((d, i) => d.embedding.every((x, k) => Math.abs(x - packed[i][k]) < 1e-5)),
          "base64 and float differ");
}

for (const part of what === "vectors" ? [vectors] : [chats, structures, responses, errors])
    await part().catch((e) => check(false, `${part.name}: ${e.stack}`));
console.log(`${checks} checks by Node`);
process.exit(failed ? 1 : 0);
