// SPDX-License-Identifier: MIT
// What test_browser.py calls in the page. Results are plain data.
import { init } from '../../web/rlx.mjs';
import { openGpu } from '../../web/lib/webgpu.mjs';
import { checkApi } from './api.mjs';
import { runProgram } from './program.mjs';

/** Runs the op cases in the page; gives the exit status and the last lines. */
export async function runOpCases(args, { device }) {
    const module = await WebAssembly.compileStreaming(fetch('/optest.wasm'));
    const gpu = await openGpu({ disable: device !== 'webgpu' });
    if (device === 'webgpu' && !gpu.adapter) return { skip: gpu.reason };
    if (device === 'webgpu' && !gpu.suspends) return { skip: 'the browser has no JSPI' };
    let output = '';
    const status = await runProgram(module, {
        args: ['optest', '--device', device, ...args], gpu,
        print: text => { output += text; } });
    return { status, output };
}

/** The checks of the API with these options of init. */
export async function runApi(options, device) {
    const rlx = await init(options);
    try {
        const devices = await rlx.devices();
        const found = devices.find(({ id }) => id === device);
        if (!found.available) return { skip: found.reason };
        return { ...await checkApi(rlx, device), suspends: rlx.suspends };
    } finally {
        rlx.close();
    }
}

/** Loses the GPU under a graph: the run fails with a status, a new graph works. */
export async function loseDevice() {
    const devices = [], original = GPUAdapter.prototype.requestDevice;
    GPUAdapter.prototype.requestDevice = async function (...args) {
        devices.push(await original.apply(this, args));
        return devices.at(-1);
    };
    const text = 'graph "g" {\n  %x: f32[2] = input "x"\n  %y = neg(%x)\n  output "y" = %y\n}';
    const rlx = await init({ worker: false });
    try {
        const graph = await rlx.graph(text, { device: 'webgpu' });
        await graph.run({ x: [1, 2] });
        devices.forEach(device => device.destroy());
        const status = await graph.run({ x: [3, 4] }).then(() => 'ok', error => error.status);
        const again = await rlx.graph(text, { device: 'webgpu' });
        return { status, y: [...(await again.run({ x: [5, 6] })).y] };
    } finally {
        GPUAdapter.prototype.requestDevice = original;
        rlx.close();
    }
}

/** Greedy tokens of a model, for comparison with the command line. */
export async function generateTokens(url, prompt, options) {
    const rlx = await init(options.init ?? {});
    try {
        const model = await rlx.load(url, { device: options.device, policy: 'exact',
                                            ...options.load });
        let streamed = '';
        const running = model.generate(prompt, { maxTokens: options.maxTokens, temperature: 0 });
        for await (const { text } of running) streamed += text;
        const result = await running;
        return { ...result, streamed, device: model.device, stored: await rlx.isStored(url),
                 threads: rlx.threads, weights: model.info.weightBytes,
                 memory: model.info.moduleBytes };
    } finally {
        rlx.close();
    }
}

/** Closes a model while it generates: the generation ends, and nothing is used after its end. */
export async function closeEarly(url) {
    const rlx = await init();
    try {
        const model = await rlx.load(url, { device: 'cpu' });
        let close = null, pieces = 0;
        const result = await model.generate('Once upon a time', { maxTokens: 200, onToken: () => {
            pieces++;
            close ??= model.close();
        } });
        await close;
        const after = await model.generate('x').then(() => 'ok', error => error.status);
        return { finish: result.finish, isShort: pieces < 100, after };
    } finally {
        rlx.close();
    }
}

/** Vectors of texts, for comparison with the command line; two requests at the same time. */
export async function embedTexts(url, texts, options) {
    const rlx = await init(options.init ?? {});
    try {
        const model = await rlx.load(url, { device: options.device, policy: 'exact' });
        const progress = [];
        const [all, last] = await Promise.all([
            model.embed(texts, { onProgress: ({ done }) => progress.push(done) }),
            model.embed(texts.at(-1))]);
        const vectors = [...all, last].map(vector => [...vector]);
        return { vectors, progress, device: model.device, suspends: rlx.suspends };
    } finally {
        rlx.close();
    }
}

/** Starts op cases in a worker; `takeOpCases` gives what came since it was asked last. */
export function startOpCases(device, args) {
    globalThis.suite?.worker.terminate();
    const worker = new Worker('/tests/suite_worker.mjs', { type: 'module' });
    const suite = globalThis.suite = { worker, news: [] };
    worker.onmessage = ({ data }) => suite.news.push(data);
    worker.onerror = ({ message }) => suite.news.push({ error: message ?? 'the worker failed' });
    worker.postMessage({ device, args });
}

export function takeOpCases() {
    return globalThis.suite.news.splice(0);
}
