// SPDX-License-Identifier: MIT
// Files of models in the memory of the module.
import { fetchFile } from './store.mjs';

/** Copies bytes into the module; the caller frees them when the model is closed. */
export function place(module, bytes) {
    const at = module.alloc(bytes.byteLength, 'the model');
    module.bytes(at, bytes.byteLength).set(bytes);
    return { at, length: bytes.byteLength };
}

export async function toBytes(source) {
    if (source instanceof Uint8Array) return source;
    if (source instanceof ArrayBuffer) return new Uint8Array(source);
    if (ArrayBuffer.isView(source))
        return new Uint8Array(source.buffer, source.byteOffset, source.byteLength);
    if (typeof Blob !== 'undefined' && source instanceof Blob)
        return new Uint8Array(await source.arrayBuffer());
    return null;
}

/** Fetches straight into the module's memory. */
export async function placeUrl(module, url, options) {
    let at = 0;
    try {
        const file = await fetchFile(url, { ...options, room: length => {
            at = module.alloc(length, url);
            return () => module.bytes(at, length);
        } });
        return at ? { at, length: file.length } : place(module, file.bytes);
    } catch (error) {
        if (at) module.free(at);
        throw error;
    }
}
