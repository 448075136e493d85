// SPDX-License-Identifier: MIT
// Files that the module reads in parts: node files_node.mjs. Reads across the pieces of a download
// and past its end; a file that cannot be read any more is an error of the system call, and a model
// whose files are not all there leaves none of them behind.
import { Pieces } from '../../web/lib/lazy.mjs';
import { Model } from '../../web/lib/model.mjs';
import { makeWasi } from '../../web/lib/wasi.mjs';

const failures = [];
let count = 0;
function check(ok, text) {
    count++;
    if (!ok) failures.push(text);
}

const memory = new WebAssembly.Memory({ initial: 1 });
const view = () => new DataView(memory.buffer), bytes = () => new Uint8Array(memory.buffer);
const { imports, files } = makeWasi({ memory: () => memory });

/** Opens a file of the module; gives its number. */
function open(name) {
    const text = new TextEncoder().encode(name);
    bytes().set(text, 0);
    const status = imports.path_open(3, 0, 0, text.length, 0, 0n, 0n, 0, 100);
    return status === 0 ? view().getUint32(100, true) : -1;
}

/** Status, number of bytes and bytes of a read into buffers of these lengths. */
function pread(fd, lengths, offset) {
    let at = 2000;
    lengths.forEach((length, i) => {
        view().setUint32(1000 + 8 * i, at, true);
        view().setUint32(1004 + 8 * i, length, true);
        at += length;
    });
    bytes().fill(0xee, 2000, at + 10);
    view().setUint32(200, 0, true);
    const status = imports.fd_pread(fd, 1000, lengths.length, BigInt(offset), 200);
    return { status, n: view().getUint32(200, true), got: [...bytes().slice(2000, at)] };
}

const chunks = [[1, 2, 3], [], [4], [5, 6, 7, 8, 9]].map(part => new Uint8Array(part));
files.set('/a', new Pieces(chunks));
files.set('/whole', new Uint8Array([1, 2, 3, 4, 5, 6, 7, 8, 9]));
files.set('/gone', { length: 9, read() { throw new Error('the file has changed'); } });
for (const name of ['a', 'whole']) {
    const fd = open(name);
    for (let from = 0; from < 11; from++) {
        for (let n = 0; n < 11; n++) {
            const want = [1, 2, 3, 4, 5, 6, 7, 8, 9].slice(from, from + n);
            const { status, n: read, got } = pread(fd, [n >> 1, n - (n >> 1)], from);
            check(status === 0 && read === want.length
                  && want.every((value, i) => got[i] === value)
                  && got.slice(want.length).every(value => value === 0xee),
                  `${name}: ${n} bytes from ${from}: status ${status}, ${read}: ${got}`);
        }
    }
}
check(pread(open('gone'), [4], 0).status === 29, 'a file that cannot be read: no EIO');
check(imports.fd_read(open('gone'), 1000, 1, 200) === 29, 'the same, without a position');

const placed = new Map();
const module = { files: { set: (name, data) => placed.set(name, data),
                          get: name => placed.get(name), delete: name => placed.delete(name) } };
const broken = { get size() { return 4; }, slice() { throw new Error('unreadable'); } };
Object.setPrototypeOf(broken, Blob.prototype);
const error = await Model.load(module, { files: { 'a.gguf': new Uint8Array(8), 'b.json': broken } },
                               { device: 'webgpu' }).catch(e => e);
check(error instanceof Error, 'a file that cannot be read is no error');
check(placed.size === 0, `files of a model that was not loaded are kept: ${[...placed.keys()]}`);

failures.forEach(text => console.log(`FAIL ${text}`));
console.log(`${count - failures.length} of ${count} checks of files passed`);
process.exitCode = failures.length || !count ? 1 : 0;
