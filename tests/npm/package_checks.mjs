// SPDX-License-Identifier: MIT
// What who installs the package does with it, under node and in a page: loading without options,
// arguments that are wrong, closing without waiting. `rlx` is the package, `model` the address of
// models/tiny-stories.gguf. Gives the failures as sentences.

async function refused(work, ...words) {
    let said;
    try {
        await work();
    } catch (error) {
        said = error;
    }
    if (said?.name !== 'RlxError' || said.status !== 'invalid')
        throw new Error(`expected an RlxError 'invalid' with ${words}, got ${said?.stack ?? said}`);
    for (const word of words)
        if (!said.message.includes(word)) throw new Error(`no '${word}' in: ${said.message}`);
}

const checks = {
    async generates({ rlx, model }) {
        const m = await rlx.load(model, { device: 'cpu' });
        const { text, tokens } = await m.generate('Once upon a time', { maxTokens: 12 });
        if (tokens !== 12 || !text) throw new Error(`${tokens} tokens: '${text}'`);
        await m.close();
    },

    async messages({ rlx, model }) {
        const m = await rlx.load(model, { device: 'cpu' });
        await refused(() => m.generate([]), 'at least one message');
        await refused(() => m.generate([{ role: 'user' }]), 'message 0', 'no content');
        await refused(() => m.generate([{ role: 'user', content: 'x' }, { content: 'y' }]),
                      'message 1', 'no role');
        await refused(() => m.generate(undefined), 'a text or messages');
        await refused(() => m.formatChat([{ role: 'user', content: 7 }]), 'content', '7');
        await refused(() => m.embed(7), 'embed', '7');
        await refused(() => m.embed(['a', undefined]), 'embed', 'undefined');
        await m.close();
    },

    async options({ rlx, model, init }) {
        const m = await rlx.load(model, { device: 'cpu' });
        await refused(() => m.generate('x', { max_tokens: 3 }), "'max_tokens'", 'maxTokens');
        await refused(() => m.generate('x', { maxTokens: -1 }), "'maxTokens'", '-1');
        await refused(() => m.generate('x', { temperature: 'hot' }), "'temperature'", 'a number');
        await refused(() => m.generate('x', { stop: 'end' }), "'stop'", 'array');
        await refused(() => m.generate('x', null), 'options');
        await refused(() => rlx.load(model, { devise: 'cpu' }), "'devise'", 'device');
        await refused(() => rlx.load(model, { policy: 'best' }), "'policy'", 'exact');
        await refused(() => rlx.graph(7), 'graph', '7');
        for (const source of [7, null, undefined])
            await refused(() => rlx.load(source), 'load', 'address', String(source));
        const missing = await rlx.load('no such.gguf').catch(error => error.message);
        const why = typeof process === 'undefined' ? '404' : 'no such.gguf: there is no such file';
        if (!missing.includes(why)) throw new Error(`a file that is not there: ${missing}`);
        await refused(() => init({ wasmUrl: 'x' }), "'wasmUrl'", 'wasm');
        const { text } = await m.generate('x', { maxTokens: 2, seed: undefined });
        if (!text) throw new Error('an option that is undefined has its default');
        await m.close();
    },

    async closing({ rlx, model, init }) {
        const other = await init();
        const m = await other.load(model, { device: 'cpu' });
        m.generate('Once', { maxTokens: 50 });
        m.close();
        other.close();
        await m.close();
        await refused(() => other.devices().catch(error => { throw error; }), 'closed');
        await rlx.devices();
        await new Promise(go => setTimeout(go, 50)); // a rejection that nobody handles ends node
    },
};

export async function checkPackage(init, model) {
    const rlx = await init(), failures = [];
    for (const [name, check] of Object.entries(checks)) {
        try {
            await check({ rlx, init, model });
        } catch (error) {
            failures.push(`${name}: ${error.message}`);
        }
    }
    rlx.close();
    return { count: Object.keys(checks).length, failures };
}
