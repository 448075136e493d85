// SPDX-License-Identifier: MIT
// The worker: answers the requests of web/rlx.mjs so that the page stays responsive. A request is
// { id, method, args }, a request to stop one { stop: id }; answers are { id, value },
// { id, error } and any number of { id, event } before.
import { packError } from './lib/error.mjs';
import { Service } from './lib/service.mjs';

const service = new Service(), running = new Map();

self.onmessage = async ({ data }) => {
    if (data.stop !== undefined) return running.get(data.stop)?.abort();
    const { id, method, args } = data, controller = new AbortController();
    running.set(id, controller);
    try {
        const emit = event => self.postMessage({ id, event });
        const value = await service.handle(method, args, emit, controller.signal);
        self.postMessage({ id, value });
    } catch (error) {
        self.postMessage({ id, error: packError(error) });
    } finally {
        running.delete(id);
    }
};
