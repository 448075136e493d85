// SPDX-License-Identifier: MIT
// Threads of the module: which module can run here, its shared memory, and the workers. They are
// started before the module uses any, since a worker cannot begin while C is running.
const STACK_BYTES = 1 << 20, ALIGNMENT = 128, MAX_THREADS = 32;
const PAGE = 65536, FIRST_PAGES = 256;          // --initial-memory of cmake/wasm_targets.cmake
const MOST_PAGES = [65536, 32768, 16384, 8192]; // of 64 KiB: 4 GiB, or what can be reserved

// (func (param v128) (result v128) f32x4.relaxed_madd)
const RELAXED = Uint8Array.of(0, 97, 115, 109, 1, 0, 0, 0, 1, 6, 1, 96, 1, 123, 1, 123, 3, 2, 1, 0,
                              10, 13, 1, 11, 0, 32, 0, 32, 0, 32, 0, 253, 133, 2, 11);

/** Whether rlx-threads.wasm can run: relaxed SIMD, and memory that can be shared. */
export function canRunThreadsModule() {
    try {
        return WebAssembly.validate(RELAXED)
            && Boolean(new WebAssembly.Memory({ initial: 1, maximum: 1, shared: true }).buffer);
    } catch {
        return false;
    }
}

/** How many threads there are when a page does not say: half of many logical processors, which
 *  share cores two by two. One where memory cannot be given to workers. */
export function defaultThreads() {
    if (!globalThis.crossOriginIsolated) return 1;
    const n = globalThis.navigator?.hardwareConcurrency ?? 1;
    return Math.min(n > 4 ? Math.ceil(n / 2) : n, 16);
}

/** Whether the calling thread may wait for others: browsers forbid it to pages. */
export function mayWait() {
    return typeof window === 'undefined';
}

export function makeSharedMemory() {
    for (const maximum of MOST_PAGES) {
        try {
            return new WebAssembly.Memory({ initial: FIRST_PAGES, maximum, shared: true });
        } catch (error) {
            if (maximum === MOST_PAGES.at(-1)) throw error;
        }
    }
}

async function makeWorker() {
    if (typeof Worker !== 'undefined' && typeof window === 'undefined' && !globalThis.process)
        return new Worker(new URL('./thread.mjs', import.meta.url), { type: 'module' });
    const { Worker: NodeWorker } = await import(/* webpackIgnore: true */ 'node:worker_threads');
    return new NodeWorker(new URL('./thread.mjs', import.meta.url));
}

/** Resolves to true when the worker waits for work. */
function whenReady(worker) {
    return new Promise(resolve => {
        const hear = ({ ready = false }) => resolve(ready), fail = () => resolve(false);
        if (worker.on) {
            worker.on('message', hear);
            worker.on('error', fail);
        } else {
            worker.onmessage = ({ data }) => hear(data);
            worker.onerror = fail;
        }
    });
}

/** Starts `n` workers for the instance with these exports, or as many as there can be; gives them
 *  as a list. */
export async function startThreads(n, module, exports) {
    const up = at => Math.ceil(at / ALIGNMENT) * ALIGNMENT;
    const tlsBytes = exports.__tls_size.value;
    const starting = Array.from({ length: Math.min(n, MAX_THREADS) }, async (_, number) => {
        let worker;
        try {
            worker = await makeWorker();
            const at = exports.malloc(STACK_BYTES + tlsBytes + 2 * ALIGNMENT) >>> 0;
            if (!at) throw new Error('no memory for a stack');
            const stack = up(at) + STACK_BYTES;
            const ready = whenReady(worker);
            worker.postMessage({ module, memory: exports.memory, number, stack, tls: stack });
            if (!await ready) throw new Error('the worker did not start');
            exports.rx_thread_offer(number);
            worker.unref?.(); // node: a thread must not keep the process alive
            return worker;
        } catch {
            worker?.terminate();
            return null;
        }
    });
    return (await Promise.all(starting)).filter(Boolean);
}
