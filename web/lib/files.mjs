// SPDX-License-Identifier: MIT
// Where files come from: the network, and under node, whose fetch knows no file: URLs, the disk.

const inNode = typeof process !== 'undefined' && Boolean(process.versions?.node);

/** A module of node. Its name is no literal, so that bundlers for browsers do not look for it. */
const nodeModule = name => import(/* webpackIgnore: true */ /* @vite-ignore */ `node:${name}`);

/** What relative addresses are relative to: the page, or the working folder. */
export function baseUrl() {
    if (globalThis.location?.href) return globalThis.location.href;
    const folder = globalThis.process?.cwd?.() ?? globalThis.Deno?.cwd?.();
    if (folder === undefined) return undefined;
    const path = folder.replaceAll('\\', '/').split('/').map(encodeURIComponent).join('/');
    return `file://${path.startsWith('/') ? '' : '/'}${path.replace(/^(\w)%3A/, '$1:')}/`;
}

/** A Response for a URL; files are read as they are needed. */
export async function get(url, options) {
    if (!inNode || !String(url).startsWith('file:')) return fetch(url, options);
    const { createReadStream } = await nodeModule('fs'), { stat } = await nodeModule('fs/promises');
    const { Readable } = await nodeModule('stream'), { fileURLToPath } = await nodeModule('url');
    const path = fileURLToPath(url);
    let size;
    try {
        size = (await stat(path)).size;
    } catch (error) {
        if (error.code !== 'ENOENT') throw error;
        return new Response('', { status: 404, statusText: 'there is no such file' });
    }
    const type = path.endsWith('.wasm') ? 'application/wasm' : 'application/octet-stream';
    return new Response(Readable.toWeb(createReadStream(path)), {
        headers: { 'content-type': type, 'content-length': String(size) } });
}
