// SPDX-License-Identifier: MIT
// Fetches model files with progress and keeps them in the browser's Cache storage, so that the
// next load needs no network. Where there is no Cache storage files are fetched each time.
import { RlxError, cancelled } from './error.mjs';
import { get } from './files.mjs';
import { BlobFile, Pieces } from './lazy.mjs';

const CACHE_NAME = 'rlx-models-1';

async function openCache() {
    try {
        return await globalThis.caches?.open(CACHE_NAME);
    } catch {
        return undefined; // an insecure page, or storage that is switched off
    }
}

/** The response for a URL from the cache or the network, and where it came from. */
async function open(url, { signal, cache: useCache = true, optional = false }) {
    const isFile = url.startsWith('file:');
    const cache = useCache && !isFile ? await openCache() : undefined;
    const stored = await cache?.match(url);
    if (stored) return { response: stored, fromCache: true };
    let response;
    try {
        response = await get(url, { signal });
    } catch (error) {
        if (signal?.aborted) throw cancelled(`the download of ${url}`);
        if (optional) return null;
        throw new RlxError('input/output error', `cannot fetch ${url}: ${error.message}`
            + (cache ? '; it is not in the cache of this browser either' : ''));
    }
    if (!response.ok) {
        if (optional) return null;
        throw new RlxError('input/output error', isFile
            ? `cannot open ${decodeURI(url)}: ${response.statusText}`
            : `cannot fetch ${url}: the server answered ${response.status} ${response.statusText}`);
    }
    return { response, cache };
}

/**
 * Fetches a file in full. `room(bytes)` is asked once for where the bytes go (a function that gives
 * a Uint8Array of that length, fresh for each chunk) when the length is known beforehand.
 * Gives { bytes, fromCache }, where bytes is a Uint8Array only when there was no room; null when
 * the file is optional and not there. With `lazy` it gives { file } instead of bytes: a file of
 * lib/lazy.mjs, which is not one piece of memory.
 */
export async function fetchFile(url, options = {}) {
    const { onProgress = () => {}, room = null, signal } = options;
    const opened = await open(url, options);
    if (!opened) return null;
    const { response, cache, fromCache = false } = opened;
    const encoded = response.headers.get('content-encoding');
    const total = encoded ? 0 : Number(response.headers.get('content-length') ?? 0);
    if (options.lazy && fromCache && BlobFile.canRead()) {
        const file = new BlobFile(await response.blob());
        onProgress({ url, loaded: file.length, total: file.length, fromCache });
        return { file, length: file.length, fromCache };
    }
    let body = response.body, stored = Promise.resolve();
    if (cache) {
        const [mine, other] = response.body.tee();
        body = mine;
        const headers = new Headers(response.headers);
        stored = cache.put(url, new Response(other, { headers })).catch(() => {});
    }
    const target = total && room ? room(total) : null;
    const chunks = [];
    let done = 0;
    try {
        for (const reader = body.getReader(); ;) {
            const { value, done: atEnd } = await reader.read();
            if (atEnd) break;
            if (signal?.aborted) throw cancelled(`the download of ${url}`);
            if (total && done + value.length > total)
                throw new RlxError('input/output error', `${url} is longer than ${total} bytes`);
            if (target) target().set(value, done);
            else chunks.push(value);
            done += value.length;
            onProgress({ url, loaded: done, total: total || undefined, fromCache });
        }
    } catch (error) {
        if (signal?.aborted) throw cancelled(`the download of ${url}`);
        if (error instanceof RlxError) throw error;
        throw new RlxError('input/output error', `the download of ${url} broke off after ${done} `
            + `bytes: ${error.message}`);
    }
    if (total && done !== total)
        throw new RlxError('input/output error', `${url} ended after ${done} of ${total} bytes`);
    await stored;
    if (options.lazy) return { file: new Pieces(chunks), length: done, fromCache };
    return { bytes: target ? null : join(chunks, done), length: done, fromCache };
}

function join(chunks, length) {
    const all = new Uint8Array(length);
    let at = 0;
    for (const chunk of chunks) {
        all.set(chunk, at);
        at += chunk.length;
    }
    return all;
}

/** Whether a URL is in the cache. */
export async function isStored(url) {
    return Boolean(await (await openCache())?.match(url));
}

/** Forgets a URL, or everything. */
export async function forget(url) {
    if (url === undefined) return globalThis.caches?.delete(CACHE_NAME);
    return (await openCache())?.delete(url);
}
