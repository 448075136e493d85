// SPDX-License-Identifier: MIT
// Files of models that stay outside of the module's memory: it reads the parts that it needs, with
// fd_pread. A file is a Uint8Array, or an object with a `length` and `read(at, target)`, which
// fills `target` from byte `at` on and gives how many bytes there were.

const STEP = 64 << 20; // bytes read from a Blob at once

/** Chunks of a download, consecutively. */
export class Pieces {
    #chunks;
    #starts = [];

    constructor(chunks) {
        this.#chunks = chunks;
        this.length = 0;
        for (const chunk of chunks) {
            this.#starts.push(this.length);
            this.length += chunk.length;
        }
    }

    /** The chunk that holds byte `at`. */
    #find(at) {
        let low = 0, high = this.#starts.length;
        while (high - low > 1) {
            const middle = (low + high) >> 1;
            if (this.#starts[middle] <= at) low = middle;
            else high = middle;
        }
        return low;
    }

    read(at, target) {
        let done = 0;
        for (let i = this.#find(at); done < target.length && i < this.#chunks.length; i++) {
            const from = at + done - this.#starts[i];
            const part = this.#chunks[i].subarray(from, from + target.length - done);
            target.set(part, done);
            done += part.length;
        }
        return done;
    }

    /** Gives the memory back; nothing can be read any more. */
    release() {
        this.#chunks = [];
        this.#starts = [];
    }
}

/** A Blob, for example a file that the user chose or one of Cache storage: only workers can read it
 *  without waiting for an event. */
export class BlobFile {
    #blob;
    #reader = new FileReaderSync();

    static canRead() { return typeof FileReaderSync !== 'undefined'; }

    constructor(blob) {
        this.#blob = blob;
        this.length = blob.size;
    }

    read(at, target) {
        const end = Math.min(at + target.length, this.length);
        for (let from = at; from < end; from += STEP) {
            const part = this.#blob.slice(from, Math.min(from + STEP, end));
            target.set(new Uint8Array(this.#reader.readAsArrayBuffer(part)), from - at);
        }
        return Math.max(end - at, 0);
    }
}

/** A file of a Blob. */
export async function blobFile(blob) {
    if (BlobFile.canRead()) return new BlobFile(blob);
    const chunks = [];
    for (let at = 0; at < blob.size; at += STEP)
        chunks.push(new Uint8Array(await blob.slice(at, at + STEP).arrayBuffer()));
    return new Pieces(chunks);
}

/** Copies from byte `at` of a file to `target`; gives how many bytes there were. */
export function readFile(file, at, target) {
    if (file.read) return file.read(at, target);
    const part = file.subarray(at, at + target.length);
    target.set(part);
    return part.length;
}
