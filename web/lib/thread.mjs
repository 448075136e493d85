// SPDX-License-Identifier: MIT
// A worker that is one thread of the module: makes an instance over the module's memory, with a
// stack and thread-local data of its own, and stays in rx_thread_serve (src/base/thread_wasm.c).
import { makeWasi } from './wasi.mjs';

const inPage = typeof WorkerGlobalScope !== 'undefined';
const port = inPage ? self : (await import('node:worker_threads')).parentPort;

async function begin({ module, memory, number, stack, tls }) {
    const wasi = makeWasi({ memory: () => memory, print: text => console.log(text) });
    const env = {};
    for (const { module: from, name } of WebAssembly.Module.imports(module))
        if (from === 'env') env[name] = () => { throw new Error(`a thread calls ${name}`); };
    const { exports } = await WebAssembly.instantiate(module, {
        wasi_snapshot_preview1: wasi.imports, env: { ...env, memory } });
    exports.__stack_pointer.value = stack;
    exports.__wasm_init_tls(tls);
    port.postMessage({ ready: true });
    exports.rx_thread_serve(number);
}

function receive(message) {
    begin(message).catch(error => port.postMessage({ failed: String(error) }));
}

if (inPage) self.onmessage = ({ data }) => receive(data);
else port.on('message', receive);
