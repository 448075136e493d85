// SPDX-License-Identifier: MIT
// rlx for web pages, node and Deno: neural-network graphs and models on WebGPU, or on the CPU in
// WebAssembly.
//
//     import { init } from './rlx.mjs';
//     const rlx = await init();
//     const model = await rlx.load('models/smollm2.gguf', { onProgress: console.log });
//     for await (const { text } of model.generate('Once upon a time')) show(text);
//
// All work happens in a worker. rlx.d.ts has the types and says what each function does.
import { checkMessages, checkOptions, checkPrompt, checkText } from './lib/check.mjs';
import { RlxError, cancelled, packError, unpackError } from './lib/error.mjs';
import { baseUrl } from './lib/files.mjs';
import { forget, isStored } from './lib/store.mjs';

export { RlxError };

/** Sends requests to the worker and hands out the answers. */
class WorkerLink {
    #worker;
    #waiting = new Map();
    #lastId = 0;

    /** `url`: another script than worker.mjs. The form of the call is one that bundlers know. */
    constructor(url) {
        this.#worker = url ? new Worker(url, { type: 'module' })
            : new Worker(new URL('./worker.mjs', import.meta.url), { type: 'module' });
        this.#worker.onmessage = ({ data }) => this.#receive(data);
        this.#worker.onerror = event => this.#fail(new RlxError('internal error',
            `the worker failed: ${event.message ?? `${url ?? 'worker.mjs'} cannot be loaded`}`));
    }

    request(method, args, { onEvent = () => {}, signal, transfer = [] } = {}) {
        if (signal?.aborted) return Promise.reject(cancelled(method));
        const id = ++this.#lastId;
        return new Promise((resolve, reject) => {
            const stop = () => this.#worker?.postMessage({ stop: id });
            const finish = end => value => {
                signal?.removeEventListener('abort', stop);
                end(value);
            };
            this.#waiting.set(id, { resolve: finish(resolve), reject: finish(reject), onEvent });
            signal?.addEventListener('abort', stop);
            if (!this.#worker)
                return this.#fail(new RlxError('invalid', 'rlx was closed'));
            this.#worker.postMessage({ id, method, args }, transfer);
        });
    }

    #receive({ id, value, error, event }) {
        const waiting = this.#waiting.get(id);
        if (!waiting) return;
        if (event !== undefined) return waiting.onEvent(event);
        this.#waiting.delete(id);
        if (error) waiting.reject(unpackError(error));
        else waiting.resolve(value);
    }

    #fail(error) {
        const all = [...this.#waiting.values()];
        this.#waiting.clear();
        all.forEach(({ reject }) => reject(error));
    }

    close() {
        this.#worker?.terminate();
        this.#worker = null;
        this.#fail(new RlxError('cancelled', 'rlx was closed'));
    }
}

/** The same without a worker: for node, and for pages that may not start one. */
class DirectLink {
    #service;
    #isClosed = false;

    async request(method, args, { onEvent = () => {}, signal } = {}) {
        if (signal?.aborted) throw cancelled(method);
        if (this.#isClosed) throw new RlxError('invalid', 'rlx was closed');
        try {
            const { Service } = await import('./lib/service.mjs');
            this.#service ??= new Service();
            return await this.#service.handle(method, args, onEvent, signal);
        } catch (error) {
            throw error instanceof RlxError ? error : unpackError(packError(error));
        }
    }

    close() {
        this.#service?.end();
        this.#service = null;
        this.#isClosed = true;
    }
}

/** Loads the module. */
export async function init(options = {}) {
    checkOptions('init', options);
    const { wasm = new URL('./rlx.wasm', import.meta.url), threads,
            wasmThreads = options.wasm ? null : new URL('./rlx-threads.wasm', import.meta.url),
            worker = typeof Worker !== 'undefined', onPrint = () => {}, env = {},
            gpu = {} } = options;
    const link = worker ? new WorkerLink(worker === true ? undefined : worker) : new DirectLink();
    const source = file => file instanceof URL ? file.href : file;
    try {
        const about = await link.request('init',
            { wasm: source(wasm), wasmThreads: source(wasmThreads), threads, env, gpu },
            { onEvent: event => event.type === 'print' && onPrint(event.text) });
        return new Rlx(link, about);
    } catch (error) {
        link.close();
        throw error;
    }
}

/** What a file is read from, as the worker gets it: addresses are absolute. */
function sourceOf(call, source) {
    if (typeof source === 'string' || source instanceof URL)
        return new URL(source, baseUrl()).href;
    if (source === null || typeof source !== 'object')
        throw new RlxError('invalid',
            `${call}: expected an address, a file or bytes, found ${source}`);
    return source;
}

class Rlx {
    #link;

    constructor(link, { version, suspends, threads }) {
        this.#link = link;
        this.version = version;
        this.suspends = suspends;
        this.threads = threads;
    }

    devices() { return this.#link.request('devices', {}); }

    async graph(text, options = {}) {
        checkText('graph', text, 'a graph in text form');
        checkOptions('graph', options);
        const { signal, ...rest } = options;
        const opened = await this.#link.request('openGraph', { text, options: rest }, { signal });
        return new Graph(this.#link, opened);
    }

    async loadGraph(source, options = {}) {
        checkOptions('loadGraph', options);
        const { onProgress = () => {}, signal, ...rest } = options;
        const from = sourceOf('loadGraph', source);
        const opened = await this.#link.request('loadGraph', { source: from, options: rest }, {
            signal, onEvent: event => event.type === 'progress' && onProgress(event) });
        return new Graph(this.#link, opened);
    }

    async load(source, options = {}) {
        checkOptions('load', options);
        const { onProgress = () => {}, signal, ...rest } = options;
        const from = sourceOf('load', source);
        const opened = await this.#link.request('openModel', { source: from, options: rest }, {
            signal, onEvent: event => event.type === 'progress' && onProgress(event) });
        return new Model(this.#link, opened);
    }

    isStored(url) { return isStored(new URL(url, baseUrl()).href); }

    forget(url) { return forget(url && new URL(url, baseUrl()).href); }

    close() { this.#link.close(); }
}

class Graph {
    #link;
    #id;

    constructor(link, { id, info, device }) {
        this.#link = link;
        this.#id = id;
        Object.assign(this, { device, ...info });
    }

    async run(inputs = {}, options = {}) {
        checkOptions('graph.run', options);
        return this.#link.request('runGraph', { id: this.#id, inputs, options });
    }

    reset() { return this.#link.request('resetGraph', { id: this.#id }); }

    close() { return closeObject(this.#link, this.#id); }
}

/** Ends a graph or model. Who does not wait for that need not handle its failure either, and what
 *  ended with rlx itself is closed. */
function closeObject(link, id) {
    const closed = link.request('close', { id }).catch(error => {
        if (error.message !== 'rlx was closed') throw error;
    });
    closed.catch(() => {});
    return closed;
}

class Model {
    #link;
    #id;

    constructor(link, { id, info, device }) {
        this.#link = link;
        this.#id = id;
        this.info = info;
        this.device = device;
    }

    generate(prompt, options = {}) {
        const { onToken = () => {}, signal, ...rest } = options ?? {};
        return new Generation(async onEvent => {
            checkPrompt(prompt);
            checkOptions('generate', options);
            return this.#link.request('generate', { id: this.#id, prompt, options: rest },
                                      { onEvent, signal });
        }, onToken);
    }

    async embed(texts, options = {}) {
        checkOptions('embed', options);
        if (typeof texts?.[Symbol.iterator] !== 'function') checkText('embed', texts);
        const list = typeof texts === 'string' ? [texts] : [...texts];
        list.forEach(text => checkText('embed', text));
        const vectors = await this.#link.request('embed', { id: this.#id, texts: list },
            { signal: options.signal, onEvent: options.onProgress });
        return typeof texts === 'string' ? vectors[0] : vectors;
    }

    async formatChat(messages) {
        checkMessages('formatChat', messages);
        return this.#link.request('formatChat', { id: this.#id, messages });
    }

    close() { return closeObject(this.#link, this.#id); }
}

/** A generation that runs: await it for the whole text, or iterate over its pieces. */
class Generation {
    #pieces = [];
    #wake = () => {};
    #done = false;
    #result;

    constructor(start, onToken) {
        let text = '';
        const tokens = [];
        this.#result = start(piece => {
            text += piece.text;
            if (piece.token >= 0) tokens.push(piece.token);
            this.#pieces.push(piece);
            this.#wake();
            onToken(piece);
        }).then(result => ({ ...result, text, tokenIds: tokens })).finally(() => {
            this.#done = true;
            this.#wake();
        });
        this.#result.catch(() => {}); // whoever awaits or iterates sees it
    }

    then(...handlers) { return this.#result.then(...handlers); }
    catch(handler) { return this.#result.catch(handler); }
    finally(handler) { return this.#result.finally(handler); }

    async *[Symbol.asyncIterator]() {
        for (let i = 0; ; i++) {
            while (i >= this.#pieces.length) {
                if (this.#done) {
                    await this.#result;
                    return;
                }
                await new Promise(go => { this.#wake = go; });
            }
            yield this.#pieces[i];
        }
    }
}
