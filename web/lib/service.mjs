// SPDX-License-Identifier: MIT
// What runs where the module is: in the worker, or on the page when there is no worker. It keeps
// the open devices, graphs and models by number and answers requests by name.
import { RlxError } from './error.mjs';
import { Graph } from './graph.mjs';
import { Model } from './model.mjs';
import { Module } from './module.mjs';
import { openGpu } from './webgpu.mjs';

export class Service {
    #module;
    #gpu;
    #devices = new Map();
    #objects = new Map();
    #lastId = 0;

    /** Answers one request. `emit` sends an event of it, `signal` tells that it was stopped. */
    async handle(method, args, emit, signal) {
        const known = Service.#methods[method];
        if (!known) throw new RlxError('internal error', `no such request: ${method}`);
        if (!this.#module && method !== 'init')
            throw new RlxError('internal error', `${method} came before init`);
        return known.call(this, args, emit, signal);
    }

    static #methods = {
        init: Service.prototype.init,
        devices: Service.prototype.devices,
        openGraph: Service.prototype.openGraph,
        loadGraph: Service.prototype.loadGraph,
        runGraph({ id, inputs, options }) { return this.#get(id).run(inputs, options); },
        resetGraph({ id }) { return this.#get(id).reset(); },
        openModel: Service.prototype.openModel,
        generate({ id, prompt, options }, emit, signal) {
            return this.#get(id).generate(prompt, options, emit, signal);
        },
        formatChat({ id, messages }) { return this.#get(id).formatChat(messages); },
        embed({ id, texts }, emit, signal) { return this.#get(id).embed(texts, emit, signal); },
        close: Service.prototype.close,
    };

    async init({ wasm, wasmThreads, threads, env, gpu = {} }, emit) {
        this.#gpu = await openGpu(gpu);
        const print = (text, fd) => emit({ type: 'print', text, fd });
        this.#module = await Module.load({ wasm, wasmThreads, threads, env, print,
                                           gpu: this.#gpu });
        const version = this.#module.text(this.#module.exports.web_version());
        return { version, suspends: this.#gpu.suspends, threads: this.#module.threads };
    }

    /** Ends the threads of the module. */
    end() { this.#module?.close(); }

    /** Every device a page can pick, with the reason when it cannot be used. */
    async devices() {
        const there = await this.#module.json('web_devices');
        const cpu = there.find(device => device.backend === 'cpu');
        const gpu = there.find(device => device.backend === 'webgpu');
        const backends = await this.#module.json('web_backends');
        const why = backends.find(backend => backend.name === 'webgpu')?.reason;
        return [
            { id: 'webgpu', available: Boolean(gpu), name: gpu?.name ?? '',
              software: Boolean(gpu?.software), reason: gpu ? '' : this.#gpu.reason || why || '' },
            { id: 'cpu', available: true, name: cpu.name, software: false, reason: '' },
        ];
    }

    /** The id of the library for what a caller asked: auto prefers a real GPU. */
    async #choose(wanted = 'auto') {
        const [gpu] = await this.devices();
        if (wanted === 'auto') return gpu.available && !gpu.software ? 'webgpu' : 'cpu';
        if (wanted !== 'cpu' && wanted !== 'webgpu')
            throw new RlxError('invalid', `device '${wanted}': expected webgpu, cpu or auto`);
        if (wanted === 'webgpu' && !gpu.available)
            throw new RlxError('no device', `WebGPU cannot be used here: ${gpu.reason}`);
        return wanted;
    }

    async #open(device) {
        const known = this.#devices.get(device);
        if (known && !known.gpuDevice?.rlx.isLost) return known.handle;
        if (device === 'webgpu') await this.#gpu.prepare();
        const handle = await this.#module.scoped(async room => this.#module.checkHandle(
            await this.#module.call('web_device_open', room(device))));
        const gpuDevice = device === 'webgpu' ? this.#gpu.lastOpened : null;
        this.#devices.set(device, { handle, gpuDevice });
        return handle;
    }

    #add(object) {
        this.#objects.set(++this.#lastId, object);
        return this.#lastId;
    }

    #get(id) {
        const object = this.#objects.get(id);
        if (!object) throw new RlxError('invalid', 'this graph or model was closed');
        return object;
    }

    async openGraph({ text, options }) {
        const device = await this.#choose(options.device);
        const graph = await Graph.open(this.#module, await this.#open(device), text, options);
        return { id: this.#add(graph), info: graph.info, device };
    }

    async loadGraph({ source, options }, emit, signal) {
        const device = await this.#choose(options.device);
        const graph = await Graph.load(this.#module, await this.#open(device), source, {
            ...options, signal, onProgress: progress => emit({ type: 'progress', ...progress }),
        });
        return { id: this.#add(graph), info: graph.info, device };
    }

    async openModel({ source, options }, emit, signal) {
        const device = await this.#choose(options.device);
        if (device === 'webgpu') await this.#gpu.prepare();
        const model = await Model.load(this.#module, source, {
            ...options, device, signal,
            onProgress: progress => emit({ type: 'progress', ...progress }),
        });
        return { id: this.#add(model), info: model.info, device };
    }

    async close({ id }) {
        const object = this.#objects.get(id);
        this.#objects.delete(id);
        await object?.close();
    }
}
