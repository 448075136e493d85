// SPDX-License-Identifier: MIT
// The few WASI calls the module makes: clock, random, standard output, and read-only files that
// live in memory or are read in parts (lib/lazy.mjs). Whatever else it asks for is answered with
// "not supported".

import { readFile } from './lazy.mjs';

const OK = 0, BADF = 8, INVAL = 28, IO = 29, NOENT = 44, NOSYS = 52, NOTDIR = 54, ROFS = 69;
const CHARACTER_DEVICE = 2, DIRECTORY = 3, REGULAR_FILE = 4;
const ROOT_FD = 3;

/** The process ended itself; `code` is its exit status. */
export class Exit extends Error {
    constructor(code) {
        super(`the module ended with status ${code}`);
        this.code = code;
    }
}

/** Files: absolute path to bytes or a file of lib/lazy.mjs. Folders exist when a file lies under
 *  them. */
export class MemoryFiles {
    #files = new Map();

    set(path, bytes) { this.#files.set(normalise(path), bytes); }
    get(path) { return this.#files.get(normalise(path)); }
    delete(path) { this.#files.delete(normalise(path)); }
    clear() { this.#files.clear(); }

    hasFolder(path) {
        const prefix = normalise(path) + '/';
        return prefix === '//' || [...this.#files.keys()].some(name => name.startsWith(prefix));
    }

    /** Names directly under a folder, with whether each is a folder itself. */
    list(path) {
        const prefix = normalise(path).replace(/\/$/, '') + '/';
        const names = new Map();
        for (const name of this.#files.keys()) {
            if (!name.startsWith(prefix)) continue;
            const [first, ...rest] = name.slice(prefix.length).split('/');
            names.set(first, rest.length > 0);
        }
        return [...names].map(([name, isFolder]) => ({ name, isFolder }));
    }
}

function normalise(path) {
    const parts = path.split('/').filter(part => part && part !== '.');
    return '/' + parts.join('/');
}

/**
 * Makes the imports `wasi_snapshot_preview1`.
 * `memory()` gives the module's memory; `print(text, fd)` takes what it writes; `env` is its
 * environment.
 */
export function makeWasi({ memory, print = () => {}, env = {}, files = new MemoryFiles() }) {
    const encoder = new TextEncoder(), decoders = [null, new TextDecoder(), new TextDecoder()];
    const view = () => new DataView(memory().buffer);
    const bytes = (at, n) => new Uint8Array(memory().buffer, at, n);
    const text = (at, n) => new TextDecoder().decode(bytes(at, n).slice());
    const variables = Object.entries(env).map(([k, v]) => encoder.encode(`${k}=${v}\0`));
    const open = new Map([[ROOT_FD, { path: '/', folder: true }]]);

    function writeStat(at, type, size) {
        bytes(at, 64).fill(0);
        view().setUint8(at + 16, type);
        view().setBigUint64(at + 24, 1n, true);
        view().setBigUint64(at + 32, BigInt(size), true);
        return OK;
    }

    /** Calls `fn(pointer, length)` for each buffer of a list; stops when it returns false. */
    function eachBuffer(list, n, fn) {
        for (let i = 0; i < n; i++) {
            const v = view();
            if (fn(v.getUint32(list + 8 * i, true), v.getUint32(list + 8 * i + 4, true)) === false)
                return;
        }
    }

    /** Fills a list of buffers from a position of a file; gives how many bytes there were, -1 when
     *  they cannot be read: a file that the user chose may have changed. */
    function fill(data, position, list, n) {
        let total = 0;
        try {
            eachBuffer(list, n, (at, length) => {
                const got = readFile(data, position + total, bytes(at, length));
                total += got;
                return got === length;
            });
        } catch {
            return -1;
        }
        return total;
    }

    const resolve = (fd, at, n) => `${open.get(fd)?.path ?? ''}/${text(at, n)}`;

    const calls = {
        environ_sizes_get(count, size) {
            view().setUint32(count, variables.length, true);
            view().setUint32(size, variables.reduce((n, v) => n + v.length, 0), true);
            return OK;
        },
        environ_get(list, at) {
            for (const variable of variables) {
                view().setUint32(list, at, true);
                bytes(at, variable.length).set(variable);
                list += 4;
                at += variable.length;
            }
            return OK;
        },
        clock_time_get(id, precision, out) {
            const ms = id === 0 ? Date.now() : performance.now();
            view().setBigUint64(out, BigInt(Math.round(ms * 1e6)), true);
            return OK;
        },
        clock_res_get(id, out) {
            view().setBigUint64(out, 1000n, true);
            return OK;
        },
        /* Node 18 has no global crypto: the library then makes its hash keys of what it has. */
        random_get(at, n) {
            if (!globalThis.crypto) return NOSYS;
            for (let done = 0; done < n; done += 65536) // not into shared memory
                bytes(at + done, Math.min(65536, n - done))
                    .set(crypto.getRandomValues(new Uint8Array(Math.min(65536, n - done))));
            return OK;
        },
        sched_yield: () => OK,
        proc_exit(code) { throw new Exit(code); },

        fd_prestat_get(fd, out) {
            if (fd !== ROOT_FD) return BADF;
            view().setUint32(out, 0, true);
            view().setUint32(out + 4, 1, true);
            return OK;
        },
        fd_prestat_dir_name(fd, at, n) {
            if (fd !== ROOT_FD) return BADF;
            bytes(at, n)[0] = '/'.charCodeAt(0);
            return OK;
        },
        fd_fdstat_get(fd, out) {
            const file = open.get(fd);
            if (!file && fd > 2) return BADF;
            bytes(out, 24).fill(0);
            view().setUint8(out, !file ? CHARACTER_DEVICE : file.folder ? DIRECTORY : REGULAR_FILE);
            view().setBigUint64(out + 8, ~0n & 0xffffffffffffffffn, true);
            view().setBigUint64(out + 16, ~0n & 0xffffffffffffffffn, true);
            return OK;
        },
        fd_filestat_get(fd, out) {
            const file = open.get(fd);
            if (!file) return fd <= 2 ? writeStat(out, CHARACTER_DEVICE, 0) : BADF;
            return writeStat(out, file.folder ? DIRECTORY : REGULAR_FILE, file.data?.length ?? 0);
        },
        path_filestat_get(fd, flags, at, n, out) {
            const path = resolve(fd, at, n), data = files.get(path);
            if (data) return writeStat(out, REGULAR_FILE, data.length);
            return files.hasFolder(path) ? writeStat(out, DIRECTORY, 0) : NOENT;
        },
        path_open(fd, flags, at, n, oflags, rights, inheriting, fdflags, out) {
            const path = resolve(fd, at, n), data = files.get(path);
            const creates = 1, wantsFolder = 2;
            if (!data && !files.hasFolder(path)) return oflags & creates ? ROFS : NOENT;
            if (data && oflags & wantsFolder) return NOTDIR;
            let free = ROOT_FD + 1;
            while (open.has(free)) free++;
            open.set(free, { path, data, folder: !data, position: 0 });
            view().setUint32(out, free, true);
            return OK;
        },
        fd_close: fd => open.delete(fd) ? OK : BADF,
        fd_read(fd, list, n, out) {
            const file = open.get(fd);
            if (!file?.data) return BADF;
            const total = fill(file.data, file.position, list, n);
            if (total < 0) return IO;
            file.position += total;
            view().setUint32(out, total, true);
            return OK;
        },
        fd_pread(fd, list, n, offset, out) {
            const file = open.get(fd);
            if (!file?.data) return BADF;
            const total = fill(file.data, Number(offset), list, n);
            if (total < 0) return IO;
            view().setUint32(out, total, true);
            return OK;
        },
        fd_seek(fd, offset, whence, out) {
            const file = open.get(fd);
            if (!file?.data) return BADF;
            const from = [0, file.position, file.data.length][whence];
            const position = from + Number(offset);
            if (!(position >= 0)) return INVAL;
            file.position = position;
            view().setBigUint64(out, BigInt(position), true);
            return OK;
        },
        fd_write(fd, list, n, out) {
            if (fd !== 1 && fd !== 2) return BADF;
            let total = 0;
            eachBuffer(list, n, (at, length) => {
                print(decoders[fd].decode(bytes(at, length).slice(), { stream: true }), fd);
                total += length;
            });
            view().setUint32(out, total, true);
            return OK;
        },
        fd_readdir(fd, at, n, cookie, out) {
            const file = open.get(fd);
            if (!file?.folder) return BADF;
            let used = 0;
            files.list(file.path).slice(Number(cookie)).forEach(({ name, isFolder }, i) => {
                const label = encoder.encode(name), entry = new Uint8Array(24 + label.length);
                const v = new DataView(entry.buffer);
                v.setBigUint64(0, cookie + BigInt(i + 1), true);
                v.setUint32(16, label.length, true);
                v.setUint8(20, isFolder ? DIRECTORY : REGULAR_FILE);
                entry.set(label, 24);
                const part = entry.subarray(0, Math.max(0, n - used));
                bytes(at + used, part.length).set(part);
                used += part.length;
            });
            view().setUint32(out, used, true);
            return OK;
        },
    };
    return { imports: new Proxy(calls, { get: (known, name) => known[name] ?? (() => NOSYS) }),
             files };
}
