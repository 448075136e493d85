// SPDX-License-Identifier: MIT
// Checks of what callers give: options by name and type, messages, prompts, texts. A wrong one is
// an RlxError 'invalid' that names it and says what was expected.
import { RlxError } from './error.mjs';

const isNumber = v => typeof v === 'number' && !Number.isNaN(v);
const isCount = v => Number.isInteger(v) && v >= 0;
const isSignal = v => typeof v?.addEventListener === 'function' && 'aborted' in v;
const isObject = v => typeof v === 'object' && v !== null && !Array.isArray(v)
    && !ArrayBuffer.isView(v);
const isTexts = v => Array.isArray(v) && v.every(text => typeof text === 'string');
const anything = () => true;

// What an option may be: a test, and its words.
const kinds = {
    any: [anything, 'anything'],
    number: [isNumber, 'a number'],
    count: [isCount, 'a whole number from 0'],
    limit: [v => isCount(v) || v === Infinity, 'a whole number from 0, or Infinity'],
    seed: [v => typeof v === 'bigint' || Number.isSafeInteger(v), 'a whole number'],
    boolean: [v => typeof v === 'boolean', 'true or false'],
    text: [v => typeof v === 'string', 'a text'],
    texts: [isTexts, 'an array of texts'],
    object: [isObject, 'an object'],
    function: [v => typeof v === 'function', 'a function'],
    signal: [isSignal, 'an AbortSignal'],
    device: [v => typeof v === 'string', "'auto', 'webgpu' or 'cpu'"],
    policy: [v => ['auto', 'exact', 'fast'].includes(v), "'auto', 'exact' or 'fast'"],
};

// The options of each call, as rlx.d.ts has them.
const OPTIONS = {
    init: { wasm: 'any', wasmThreads: 'any', threads: 'count', worker: 'any', env: 'object',
            gpu: 'object', onPrint: 'function' },
    graph: { device: 'device', params: 'object', fast: 'boolean', signal: 'signal' },
    loadGraph: { device: 'device', dims: 'object', fast: 'boolean', cache: 'boolean',
                 onProgress: 'function', signal: 'signal' },
    'graph.run': { dims: 'object', outputs: 'texts' },
    load: { device: 'device', context: 'count', promptChunk: 'count', policy: 'policy',
            cache: 'boolean', onProgress: 'function', signal: 'signal' },
    generate: { maxTokens: 'limit', temperature: 'number', topK: 'count', topP: 'number',
                minP: 'number', repeatPenalty: 'number', seed: 'seed', stop: 'texts',
                typicalP: 'number', xtcProbability: 'number', xtcThreshold: 'number',
                dryMultiplier: 'number', dryBase: 'number', dryAllowedLength: 'count',
                mirostat: 'count', mirostatTau: 'number', mirostatEta: 'number',
                onToken: 'function', signal: 'signal' },
    embed: { onProgress: 'function', signal: 'signal' },
};

function fail(text) { throw new RlxError('invalid', text); }

/** What a value is, in a few letters. */
function show(value) {
    if (typeof value === 'function') return 'a function';
    const text = typeof value === 'bigint' ? `${value}n` : JSON.stringify(value);
    return text === undefined ? String(value)
        : text.length > 60 ? `${text.slice(0, 57)}...` : text;
}

/** Options of `call` are an object with known names and right types; undefined is a default. */
export function checkOptions(call, options) {
    if (!isObject(options))
        fail(`${call}: expected an object with options, found ${show(options)}`);
    for (const [name, value] of Object.entries(options)) {
        const kind = Object.hasOwn(OPTIONS[call], name) ? OPTIONS[call][name] : undefined;
        if (!kind)
            fail(`${call}: there is no option '${name}'; there are `
                + Object.keys(OPTIONS[call]).join(', '));
        const [test, words] = kinds[kind];
        if (value !== undefined && !test(value))
            fail(`${call}: option '${name}' is ${show(value)}, expected ${words}`);
    }
}

export function checkText(call, value, what = 'a text') {
    if (typeof value !== 'string') fail(`${call}: expected ${what}, found ${show(value)}`);
}

/** At least one message, each with a role and a content. */
export function checkMessages(call, messages) {
    if (!Array.isArray(messages)) fail(`${call}: expected messages, found ${show(messages)}`);
    if (!messages.length) fail(`${call}: expected at least one message, found none`);
    messages.forEach((message, i) => {
        for (const name of ['role', 'content'])
            if (typeof message?.[name] !== 'string')
                fail(`${call}: message ${i} has ${name in Object(message) ? 'a wrong' : 'no'} `
                    + `${name}: expected a text, found ${show(message?.[name])}`);
    });
}

/** A text, or messages. */
export function checkPrompt(prompt) {
    if (Array.isArray(prompt)) checkMessages('generate', prompt);
    else checkText('generate', prompt, 'a text or messages');
}
