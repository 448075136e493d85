// SPDX-License-Identifier: MIT
// The service worker of the demo: keeps the page and the module, so that they work without a
// network. The files are one set, named after a hash of their contents: a visit gets all of them
// from one set. While the network is there each visit looks for a newer set and stores it whole;
// the page is told, and the next visit gets it. Models are kept by lib/store.mjs.
'use strict';

const PREFIX = 'rlx-page-';
const FILES = [
    'demo/', 'demo/demo.css', 'demo/demo.mjs', 'demo/chat.mjs', 'demo/loader.mjs',
    'demo/markdown.mjs', 'demo/search.mjs', 'demo/ui.mjs', 'demo/icon.svg',
    'demo/manifest.webmanifest',
    'rlx.mjs', 'worker.mjs', 'rlx.wasm', 'rlx-threads.wasm', 'lib/check.mjs', 'lib/error.mjs',
    'lib/files.mjs', 'lib/graph.mjs', 'lib/lazy.mjs', 'lib/model.mjs', 'lib/module.mjs',
    'lib/place.mjs', 'lib/service.mjs', 'lib/store.mjs', 'lib/thread.mjs', 'lib/threads.mjs',
    'lib/wasi.mjs', 'lib/webgpu.mjs',
].map(path => new URL(path, registration.scope).href);

/** The address of a file without query and fragment; index.html is its folder. */
function plain(url) {
    return url.replace(/[?#].*$/, '').replace(/\/index\.html$/, '/');
}

async function download(url) {
    const response = await fetch(url, { cache: 'no-cache' });
    if (!response.ok) throw new Error(`${url}: ${response.status}`);
    return { url, response, bytes: await response.clone().arrayBuffer() };
}

async function hash(files) {
    const digests = await Promise.all(files.map(({ bytes }) =>
        crypto.subtle.digest('SHA-256', bytes)));
    const all = await crypto.subtle.digest('SHA-256', await new Blob(digests).arrayBuffer());
    return [...new Uint8Array(all, 0, 8)].map(b => b.toString(16).padStart(2, '0')).join('');
}

const ownCaches = async () => (await caches.keys()).filter(name => name.startsWith(PREFIX));

const remove = names => Promise.all(names.map(name => caches.delete(name)));

/** Stores the files as they are now and removes other sets; true when they differ from those. */
async function store() {
    const files = await Promise.all(FILES.map(download));
    const name = PREFIX + await hash(files), known = await ownCaches();
    const others = known.filter(other => other !== name);
    const cache = await caches.open(name);
    if (others.length < known.length) { // stored before, perhaps not yet to the end
        if ((await cache.keys()).length === FILES.length) await remove(others);
        return false;
    }
    try {
        await Promise.all(files.map(({ url, response }) => cache.put(url, response)));
    } catch (error) {
        await caches.delete(name); // no room: half a set is none
        throw error;
    }
    await remove(others);
    return others.length > 0;
}

async function update() {
    try {
        if (!await store()) return;
        for (const client of await self.clients.matchAll()) client.postMessage('updated');
    } catch {
        // No network, or no room: the set that is stored stays.
    }
}

async function find(request) {
    const url = plain(request.url);
    for (const name of await ownCaches()) {
        // caches.open would make anew a set that was replaced a moment ago.
        const found = await caches.match(url, { cacheName: name });
        if (found) return found;
    }
    return fetch(request);
}

self.addEventListener('install', event => {
    self.skipWaiting();
    event.waitUntil(store());
});

self.addEventListener('activate', event => event.waitUntil(self.clients.claim()));

self.addEventListener('fetch', event => {
    if (event.request.method !== 'GET' || !FILES.includes(plain(event.request.url))) return;
    event.respondWith(find(event.request));
    if (event.request.mode === 'navigate') event.waitUntil(update());
});
