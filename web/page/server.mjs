// SPDX-License-Identifier: MIT
// The server that this page came from: models, and answers piece by piece.

async function ask(path, key, body, signal) {
    const headers = { ...(body && { 'Content-Type': 'application/json' }),
                      ...(key && { Authorization: `Bearer ${key}` }) };
    const reply = await fetch(path, { method: body ? 'POST' : 'GET', headers, signal,
                                      body: body && JSON.stringify(body) });
    if (reply.ok) return reply;
    const problem = await reply.json().catch(() => ({}));
    throw Object.assign(new Error(problem.error?.message ?? `the server answers ${reply.status}`),
                        { code: problem.error?.code ?? null, http: reply.status });
}

export async function listModels(key) {
    const { data } = await (await ask('v1/models', key)).json();
    return data.filter(model => model.generates !== false).map(model => model.id);
}

/** The data of server-sent events. */
async function* events(reply) {
    const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = '';
    for (;;) {
        const { done, value } = await reader.read();
        if (done) return;
        text += value;
        const parts = text.split('\n\n');
        text = parts.pop();
        for (const part of parts) {
            const data = part.replace(/^data: /, '');
            if (data === '[DONE]') return;
            yield JSON.parse(data);
        }
    }
}

/** Pieces of an answer: {text}, and at the end {finish} and {usage}. `begun` is the begin of an
 *  answer that goes on: the prompt of the chat with it, as plain text. */
export async function* answer({ key, messages, begun, signal, ...settings }) {
    const body = { ...settings, stream: true, stream_options: { include_usage: true } };
    let path = 'v1/chat/completions';
    if (begun === undefined) {
        body.messages = messages;
    } else {
        const made = await ask('apply-template', key, { model: settings.model, messages }, signal);
        body.prompt = (await made.json()).prompt + begun;
        path = 'v1/completions';
    }
    for await (const event of events(await ask(path, key, body, signal))) {
        if (event.error) throw new Error(event.error.message);
        const choice = event.choices[0];
        const text = choice?.delta?.content ?? choice?.text;
        if (text) yield { text };
        if (choice?.finish_reason) yield { finish: choice.finish_reason };
        if (event.usage) yield { usage: event.usage };
    }
}
