// SPDX-License-Identifier: MIT
// The checks of api.mjs under node: node api_node.mjs rlx.wasm [rlx-threads.wasm]; with the second
// file it must be what runs, on 2 threads.
import { readFile } from 'node:fs/promises';
import { init } from '../../web/rlx.mjs';
import { checkApi } from './api.mjs';

const [, , single, shared] = process.argv;
const rlx = await init({ wasm: await readFile(single), worker: false, threads: 2,
                         wasmThreads: shared && await readFile(shared) });
const { count, failures } = await checkApi(rlx, 'cpu');
const threads = shared ? 2 : 1;
if (rlx.threads !== threads) failures.push(`${rlx.threads} threads, not ${threads}`);
rlx.close();
failures.forEach(text => console.log(`FAIL ${text}`));
console.log(`${count - failures.length} of ${count} checks of the JavaScript API passed`);
process.exitCode = failures.length || !count ? 1 : 0;
