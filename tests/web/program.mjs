// SPDX-License-Identifier: MIT
// Calls the `main` of a program that was compiled as a module, with arguments, under node or in a
// browser; what it prints goes to `print`.
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
 * web/lib/webgpu.mjs); the program is suspended while it waits for the device.
 */
export async function runProgram(module, { args, env = {}, print, gpu }) {
    let ex;
    const wasi = makeWasi({ memory: () => ex.memory, print, env });
    const imports = { wasi_snapshot_preview1: wasi.imports, env: gpu.imports };
    ex = (await WebAssembly.instantiate(module, imports)).exports;
    gpu.attach(ex);
    ex._initialize();
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
