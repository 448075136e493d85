// SPDX-License-Identifier: MIT
// Op cases in a worker, for op_suite.py: posts { text, at } as they print, then { status } or
// { error }. The page stays free to answer questions.
import { openGpu } from '../../web/lib/webgpu.mjs';
import { runProgram } from './program.mjs';

self.onmessage = async ({ data: { device, args } }) => {
    try {
        const module = await WebAssembly.compileStreaming(fetch('/optest.wasm'));
        const gpu = await openGpu({ disable: device !== 'webgpu' });
        if (device === 'webgpu' && !gpu.adapter) throw new Error(gpu.reason);
        if (device === 'webgpu' && !gpu.suspends) throw new Error('the browser has no JSPI');
        const status = await runProgram(module, {
            args: ['optest', '--device', device, ...args], gpu,
            print: text => postMessage({ text, at: performance.now() }) });
        postMessage({ status });
    } catch (error) {
        postMessage({ error: String(error?.stack ?? error) });
    }
};
