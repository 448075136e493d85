// SPDX-License-Identifier: MIT
// Calls the `main` of a program that was compiled as a module, with arguments, under node or in a
// browser; what it prints goes to `print`.
import { makeSharedMemory, startThreads } from '../../web/lib/threads.mjs';
import { Exit, makeWasi } from '../../web/lib/wasi.mjs';

/** Writes the arguments into the module's memory; returns the address of argv. */
function writeArguments(ex, args) {
    const encoder = new TextEncoder(), argv = ex.malloc(4 * (args.length + 1));
    const pointers = args.map(arg => {
        const text = encoder.encode(arg + '\0'), at = ex.malloc(text.length);
        new Uint8Array(ex.memory.buffer, at, text.length).set(text);
        return at;
    });
    new Uint32Array(ex.memory.buffer, argv, args.length + 1).set([...pointers, 0]);
    return argv;
}

/**
 * Runs the program once; gives its exit status. `gpu` has the imports of WebGPU (openGpu of
 * web/lib/webgpu.mjs); the program is suspended while it waits for the device. `threads`: of a
 * program that shares its memory.
 */
export async function runProgram(module, { args, env = {}, print, gpu, threads = 1 }) {
    let ex;
    const shares = WebAssembly.Module.imports(module).some(({ kind }) => kind === 'memory');
    const memory = shares ? makeSharedMemory() : null;
    const wasi = makeWasi({ memory: () => ex.memory, print, env });
    const imports = { wasi_snapshot_preview1: wasi.imports,
                      env: { ...gpu.imports, ...memory && { memory } } };
    ex = (await WebAssembly.instantiate(module, imports)).exports;
    if (memory) ex = { ...ex, memory, malloc: ex.__wrap_malloc, free: ex.__wrap_free };
    gpu.attach(ex);
    ex._initialize();
    if (memory) await startThreads(threads - 1, module, ex);
    const main = gpu.suspends ? WebAssembly.promising(ex.__main_argc_argv) : ex.__main_argc_argv;
    try {
        const status = await main(args.length, writeArguments(ex, args));
        ex.fflush(0);
        return status;
    } catch (error) {
        if (error instanceof Exit) return error.code;
        throw error;
    }
}
