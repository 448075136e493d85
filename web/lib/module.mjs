// SPDX-License-Identifier: MIT
// The WebAssembly module: loading it, its memory, texts and statuses. One call is inside the module
// at a time: a call that waits for the GPU may be suspended, and all calls share one stack.
import { RlxError } from './error.mjs';
import { get } from './files.mjs';
import { canRunThreadsModule, defaultThreads, makeSharedMemory, mayWait, startThreads }
    from './threads.mjs';
import { MemoryFiles, makeWasi } from './wasi.mjs';

export const OK = 0, TIMEOUT = 10;

const encoder = new TextEncoder(), decoder = new TextDecoder();

/** Compiles from a URL, a Response, bytes or an already compiled module. */
async function compile(source) {
    if (source instanceof WebAssembly.Module) return source;
    if (source instanceof ArrayBuffer || ArrayBuffer.isView(source))
        return WebAssembly.compile(source);
    const response = await (source instanceof Response ? source : get(source));
    if (!response.ok)
        throw new RlxError('input/output error', `cannot fetch ${source}: the server answered `
            + `${response.status} ${response.statusText}`);
    const type = response.headers.get('content-type') ?? '';
    if (type.startsWith('application/wasm')) return WebAssembly.compileStreaming(response);
    return WebAssembly.compile(await response.arrayBuffer());
}

/** Lets messages and the device be heard, then goes on; does not wait as timers do. */
export const turn = (() => {
    if (typeof MessageChannel === 'undefined') return () => new Promise(go => setTimeout(go));
    const { port1, port2 } = new MessageChannel(), waiting = [];
    port1.onmessage = () => waiting.shift()();
    port1.unref?.(); // node: an idle port must not keep the process alive
    return () => new Promise(go => {
        waiting.push(go);
        port1.ref?.();
        port2.postMessage(0);
    }).finally(() => waiting.length || port1.unref?.());
})();

export class Module {
    #last = Promise.resolve();
    #promising = new Map();

    /**
     * `gpu` gives the imports of WebGPU (lib/webgpu.mjs), `print` takes what the module prints.
     * `wasmThreads` is the module with threads, which is preferred where it can run; `threads` how
     * many it shall have.
     */
    static async load({ wasm, wasmThreads, threads = defaultThreads(), ...rest }) {
        if (wasmThreads && canRunThreadsModule()) {
            try {
                return await Module.#make(await compile(wasmThreads), rest,
                                          mayWait() ? threads : 1, makeSharedMemory());
            } catch (error) {
                rest.print?.(`the module with threads does not run here: ${error.message}\n`, 2);
            }
        }
        return Module.#make(await compile(wasm), rest, 1, null);
    }

    static async #make(module, { gpu, env = {}, print }, threads, shared) {
        const self = new Module();
        self.files = new MemoryFiles();
        self.gpu = gpu;
        const wasi = makeWasi({ memory: () => self.exports.memory, print, env, files: self.files });
        const imports = { wasi_snapshot_preview1: wasi.imports,
                          env: { ...gpu?.imports, ...shared && { memory: shared } } };
        const { exports } = await WebAssembly.instantiate(module, imports);
        self.exports = shared ? { ...exports, memory: shared, malloc: exports.__wrap_malloc,
                                  free: exports.__wrap_free } : exports;
        gpu?.attach(self.exports);
        self.exports._initialize();
        self.workers = shared ? await startThreads(threads - 1, module, self.exports) : [];
        return self;
    }

    /** How many threads compute. */
    get threads() { return 1 + this.workers.length; }

    /** Ends the threads; the module cannot be used any more. */
    close() { this.workers.forEach(worker => worker.terminate()); }

    /** Calls an export when no other call is inside. Where the browser can suspend a call (JSPI)
     *  it is, while it waits for the GPU. */
    call(name, ...args) {
        const result = this.#last.then(() => this.#enter(name)(...args));
        this.#last = result.catch(() => {});
        return result;
    }

    #enter(name) {
        if (!this.gpu?.suspends) return this.exports[name];
        if (!this.#promising.has(name))
            this.#promising.set(name, WebAssembly.promising(this.exports[name]));
        return this.#promising.get(name);
    }

    // ---- Memory ---------------------------------------------------------------------------------

    bytes(at, n) { return new Uint8Array(this.exports.memory.buffer, at, n); }
    words(at, n) { return new Uint32Array(this.exports.memory.buffer, at, n); }

    alloc(n, what) {
        const at = this.exports.malloc(Math.max(n, 1)) >>> 0;
        if (!at)
            throw new RlxError('out of memory', `${what} needs ${n} bytes, more than a page can `
                + 'have (WebAssembly memory ends at 4 GiB)');
        return at;
    }

    free(at) { this.exports.free(at); }

    /** Memory that lives while `fn` runs: `room(n)` or `room(bytes)` or `room(text)` gives a
     *  pointer; texts end with a zero byte. */
    async scoped(fn) {
        const pieces = [];
        const room = what => {
            const data = typeof what === 'string' ? encoder.encode(what + '\0') : what;
            const n = typeof data === 'number' ? data : data.byteLength;
            const at = this.alloc(n, 'an argument');
            pieces.push(at);
            if (typeof data !== 'number')
                this.bytes(at, n).set(new Uint8Array(data.buffer, data.byteOffset, n));
            return at;
        };
        try {
            return await fn(room);
        } finally {
            pieces.forEach(at => this.free(at));
        }
    }

    text(at, length) {
        if (length === undefined) {
            const all = new Uint8Array(this.exports.memory.buffer, at);
            length = all.indexOf(0);
        }
        return decoder.decode(this.bytes(at, length).slice());
    }

    // ---- Statuses -------------------------------------------------------------------------------

    /** The error of the last call that failed. */
    error() {
        const at = this.exports.web_error();
        const code = this.words(at, 1)[0];
        return new RlxError(this.text(this.exports.web_status_name(code)), this.text(at + 4));
    }

    /** Throws unless a status is OK. */
    check(status) {
        if (status !== OK) throw this.error();
    }

    /** A handle or text; throws when it is 0. */
    checkHandle(handle) {
        if (!handle) throw this.error();
        return handle >>> 0;
    }

    /** Repeats a call while it says TIMEOUT, with a turn of the event loop in between. */
    async poll(name, ...args) {
        for (;;) {
            const status = await this.call(name, ...args);
            if (status !== TIMEOUT) return this.check(status);
            await turn();
        }
    }

    async json(name, ...args) {
        return JSON.parse(this.text(this.checkHandle(await this.call(name, ...args))));
    }
}
