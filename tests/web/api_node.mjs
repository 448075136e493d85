// SPDX-License-Identifier: MIT
// The checks of api.mjs under node: node api_node.mjs rlx.wasm
import { readFile } from 'node:fs/promises';
import { init } from '../../web/rlx.mjs';
import { checkApi } from './api.mjs';

const rlx = await init({ wasm: await readFile(process.argv[2]), worker: false });
const { count, failures } = await checkApi(rlx, 'cpu');
failures.forEach(text => console.log(`FAIL ${text}`));
console.log(`${count - failures.length} of ${count} checks of the JavaScript API passed`);
process.exitCode = failures.length || !count ? 1 : 0;
