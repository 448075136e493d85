// SPDX-License-Identifier: MIT
// Runs a program compiled for wasm32-wasi under node: node readers_node.mjs FOLDER SOURCE FILE.wasm
// [argument...]. The program sees FOLDER as its root, where it may write, and SOURCE as /source.
import { readFile } from 'node:fs/promises';
import { openGpu } from '../../web/lib/webgpu.mjs';
import { runWithFiles } from './wasi_node.mjs';

const [folder, source, path, ...args] = process.argv.slice(2);
process.exitCode = await runWithFiles(await WebAssembly.compile(await readFile(path)), {
    args: [path, ...args], folders: [['/', folder], ['/source', source]],
    env: { RLX_SOURCE_DIR: '/source', RLX_CACHE_DIR: '/cache' },
    imports: (await openGpu({ disable: true })).imports,
    print: text => process.stdout.write(text) });
