// SPDX-License-Identifier: MIT
// Runs optest.wasm, or optest-threads.wasm with its one thread, under node:
// node optest_node.mjs optest.wasm [optest options...]
import { readFile } from 'node:fs/promises';
import { openGpu } from '../../web/lib/webgpu.mjs';
import { runProgram } from './program.mjs';

const [path, ...args] = process.argv.slice(2);
const module = await WebAssembly.compile(await readFile(path));
const env = Object.fromEntries(Object.entries(process.env).filter(([k]) => k.startsWith('RLX_')));
process.exitCode = await runProgram(module, {
    args: ['optest', ...args], env, gpu: await openGpu({ disable: true }),
    print: text => process.stdout.write(text) });
