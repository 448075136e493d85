// SPDX-License-Identifier: MIT
// WASI for test programs under node, with real files: folders of the machine appear under paths of
// the program. Plain calls of node:fs, no rights, no symbolic links. (node:wasi crashes node 20 now
// and then when a program ends.)
import fs from 'node:fs';
import { Exit, makeWasi } from '../../web/lib/wasi.mjs';

const OK = 0, BADF = 8, FIRST_FD = 3;
const ERRORS = { EACCES: 2, EEXIST: 20, EISDIR: 31, ENOENT: 44, ENOTDIR: 54, ENOTEMPTY: 55 };
const DIRECTORY = 3, REGULAR_FILE = 4, IO = 29;
const CREATE = 1, FOLDER = 2, EXCLUSIVE = 4, TRUNCATE = 8; // oflags
const MAY_READ = 2n, MAY_WRITE = 64n; // rights

/** `folders`: [path of the program, folder of the machine], longest path last. */
function makeFiles({ memory, folders, args }) {
    const encoder = new TextEncoder();
    const view = () => new DataView(memory().buffer);
    const bytes = (at, n) => new Uint8Array(memory().buffer, at, n);
    const text = (at, n) => new TextDecoder().decode(bytes(at, n).slice());
    const open = new Map(folders.map(([path, real], i) => [FIRST_FD + i, { path, real }]));
    const words = args.map(arg => encoder.encode(arg + '\0'));

    function attempt(fn) {
        try {
            return fn() ?? OK;
        } catch (error) {
            if (error.code === undefined) throw error;
            return ERRORS[error.code] ?? IO;
        }
    }
    const real = (fd, at, n) => `${open.get(fd).real}/${text(at, n)}`;

    function writeStat(at, info) {
        bytes(at, 64).fill(0);
        view().setUint8(at + 16, info.isDirectory() ? DIRECTORY : REGULAR_FILE);
        view().setBigUint64(at + 24, 1n, true);
        view().setBigUint64(at + 32, BigInt(info.size), true);
    }

    /** Calls `fn(bytes)` for each buffer of a list, which returns how many it took. */
    function eachBuffer(list, n, out, fn) {
        let total = 0;
        for (let i = 0; i < n; i++) {
            const v = view(), length = v.getUint32(list + 8 * i + 4, true);
            const done = length && fn(bytes(v.getUint32(list + 8 * i, true), length));
            total += done;
            if (done < length) break;
        }
        view().setUint32(out, total, true);
    }

    return {
        args_sizes_get(count, size) {
            view().setUint32(count, words.length, true);
            view().setUint32(size, words.reduce((n, w) => n + w.length, 0), true);
            return OK;
        },
        args_get(list, at) {
            for (const word of words) {
                view().setUint32(list, at, true);
                bytes(at, word.length).set(word);
                list += 4;
                at += word.length;
            }
            return OK;
        },
        fd_prestat_get(fd, out) {
            if (!open.get(fd)?.path) return BADF;
            view().setUint32(out, 0, true);
            view().setUint32(out + 4, encoder.encode(open.get(fd).path).length, true);
            return OK;
        },
        fd_prestat_dir_name(fd, at, n) {
            bytes(at, n).set(encoder.encode(open.get(fd).path).subarray(0, n));
            return OK;
        },
        fd_fdstat_get(fd, out) {
            const file = open.get(fd);
            if (!file && fd >= FIRST_FD) return BADF;
            bytes(out, 24).fill(0);
            view().setUint8(out, !file ? 2 : file.real ? DIRECTORY : REGULAR_FILE);
            view().setBigUint64(out + 8, 0xffffffffffffffffn, true);
            view().setBigUint64(out + 16, 0xffffffffffffffffn, true);
            return OK;
        },
        fd_fdstat_set_flags: () => OK,
        fd_filestat_get(fd, out) {
            const file = open.get(fd);
            if (!file) return BADF;
            return attempt(() => writeStat(out, file.real ? fs.statSync(file.real)
                                                          : fs.fstatSync(file.fd)));
        },
        path_filestat_get: (fd, flags, at, n, out) =>
            attempt(() => writeStat(out, fs.statSync(real(fd, at, n)))),
        path_open(dir, follow, at, n, oflags, rights, inheriting, flags, out) {
            return attempt(() => {
                const path = real(dir, at, n), c = fs.constants;
                let file;
                if (oflags & FOLDER || fs.existsSync(path) && fs.statSync(path).isDirectory()) {
                    fs.readdirSync(path);
                    file = { real: path };
                } else {
                    const mode = rights & MAY_WRITE ? rights & MAY_READ ? c.O_RDWR : c.O_WRONLY
                                                    : c.O_RDONLY;
                    file = { position: 0, fd: fs.openSync(path, mode |
                        (oflags & CREATE ? c.O_CREAT : 0) | (oflags & EXCLUSIVE ? c.O_EXCL : 0) |
                        (oflags & TRUNCATE ? c.O_TRUNC : 0)) };
                }
                let free = FIRST_FD;
                while (open.has(free)) free++;
                open.set(free, file);
                view().setUint32(out, free, true);
            });
        },
        fd_close(fd) {
            const file = open.get(fd);
            if (!file) return BADF;
            open.delete(fd);
            return file.real ? OK : attempt(() => fs.closeSync(file.fd));
        },
        fd_read(fd, list, n, out) {
            const file = open.get(fd);
            if (!file || file.real) return BADF;
            return attempt(() => eachBuffer(list, n, out, to => {
                const done = fs.readSync(file.fd, to, 0, to.length, file.position);
                file.position += done;
                return done;
            }));
        },
        fd_seek(fd, offset, whence, out) {
            const file = open.get(fd);
            if (!file || file.real) return BADF;
            return attempt(() => {
                file.position = Number(offset) +
                    [0, file.position, fs.fstatSync(file.fd).size][whence];
                view().setBigUint64(out, BigInt(file.position), true);
            });
        },
        fd_sync: () => OK,
        path_create_directory: (fd, at, n) => attempt(() => fs.mkdirSync(real(fd, at, n))),
        path_remove_directory: (fd, at, n) => attempt(() => fs.rmdirSync(real(fd, at, n))),
        path_unlink_file: (fd, at, n) => attempt(() => fs.unlinkSync(real(fd, at, n))),
        path_rename: (fd, at, n, to, toAt, toN) =>
            attempt(() => fs.renameSync(real(fd, at, n), real(to, toAt, toN))),
        fd_readdir(fd, at, n, cookie, out) {
            return attempt(() => {
                const entries = fs.readdirSync(open.get(fd).real, { withFileTypes: true });
                let used = 0;
                entries.slice(Number(cookie)).forEach((info, i) => {
                    const label = encoder.encode(info.name);
                    const entry = new Uint8Array(24 + label.length);
                    const v = new DataView(entry.buffer);
                    v.setBigUint64(0, cookie + BigInt(i + 1), true);
                    v.setUint32(16, label.length, true);
                    v.setUint8(20, info.isDirectory() ? DIRECTORY : REGULAR_FILE);
                    entry.set(label, 24);
                    const part = entry.subarray(0, Math.max(0, n - used));
                    bytes(at + used, part.length).set(part);
                    used += part.length;
                });
                view().setUint32(out, used, true);
            });
        },
        writeFile(fd, list, n, out) {
            const file = open.get(fd);
            if (!file || file.real) return BADF;
            return attempt(() => eachBuffer(list, n, out, from => {
                const done = fs.writeSync(file.fd, from, 0, from.length, file.position);
                file.position += done;
                return done;
            }));
        },
    };
}

/** Runs the `_start` of a module; gives its exit status. */
export async function runWithFiles(module, { args, env, folders, print, imports }) {
    let ex;
    const memory = () => ex.memory;
    const base = makeWasi({ memory, print, env }).imports;
    const files = makeFiles({ memory, folders, args });
    const both = new Proxy({}, { get: (_, name) => name === 'fd_write'
        ? (fd, ...rest) => (fd < FIRST_FD ? base.fd_write : files.writeFile)(fd, ...rest)
        : files[name] ?? base[name] });
    ex = (await WebAssembly.instantiate(module, {
        wasi_snapshot_preview1: both, env: imports })).exports;
    try {
        ex._start();
        return 0;
    } catch (error) {
        if (error instanceof Exit) return error.code;
        throw error;
    }
}
