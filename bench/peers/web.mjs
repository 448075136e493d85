// SPDX-License-Identifier: MIT
// What bench/web.py runs in a page: one engine with a model, asked several times. Each gives the
// tokens of the prompt, those after it, and the seconds of both as the engine itself counts them.
const PROMPT = 'The quick brown fox jumps over the lazy dog. '.repeat(12);

async function openRlx({ model, threads, single, policy }) {
    const { init } = await import('/rlx.mjs');
    const rlx = await init(single ? { wasm: new URL('/rlx.wasm', location.href) } : { threads });
    const loaded = await rlx.load(model, { device: 'cpu', cache: false, policy });
    return { threads: rlx.threads, async run(start, maxTokens) {
        const { promptTokens, reusedTokens, tokens, promptSeconds, seconds } =
            await loaded.generate(start + PROMPT, { maxTokens });
        return { promptTokens: promptTokens - reusedTokens, tokens, promptSeconds, seconds };
    } };
}

async function openWllama({ model, threads }) {
    const { Wllama } = await import('/wllama/index.js');
    const quiet = { debug() {}, log() {}, warn() {}, error: console.error };
    const wllama = new Wllama({ default: '/wllama/wasm/wllama.wasm' }, { logger: quiet });
    const blob = await (await fetch(model)).blob();
    await wllama.loadModel([blob], { n_threads: threads, n_gpu_layers: 0, n_ctx: 1024 });
    return { threads: wllama.getNumThreads?.() ?? threads, async run(start, max_tokens) {
        const { timings } = await wllama.createCompletion({
            prompt: start + PROMPT, max_tokens, temperature: 0, cache_prompt: false });
        return { promptTokens: timings.prompt_n, tokens: timings.predicted_n,
                 promptSeconds: timings.prompt_ms / 1e3, seconds: timings.predicted_ms / 1e3 };
    } };
}

/** Another beginning each time: nothing of the last prompt can be reused. */
export async function measure({ engine, runs, tokens, ...options }) {
    const opened = await (engine === 'wllama' ? openWllama : openRlx)(options), results = [];
    for (let i = 0; i < runs; i++) results.push(await opened.run(`${'ABCDEFGH'[i % 8]}. `, tokens));
    return { threads: opened.threads, isolated: crossOriginIsolated, results };
}
