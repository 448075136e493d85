// SPDX-License-Identifier: MIT
// Graphs: the text form or an ONNX model becomes a session that takes typed arrays and gives typed
// arrays.
import { RlxError } from './error.mjs';
import { place, placeUrl, toBytes } from './place.mjs';

const ARRAYS = {
    f32: Float32Array, f16: globalThis.Float16Array ?? Uint16Array, bf16: Uint16Array,
    f64: Float64Array, i8: Int8Array, i16: Int16Array, i32: Int32Array, i64: BigInt64Array,
    u8: Uint8Array, u16: Uint16Array, u32: Uint32Array, u64: BigUint64Array, bool: Uint8Array,
};

/** The bytes of what a caller gives for a tensor: a typed array, an ArrayBuffer or numbers. */
function tensorBytes(given, info) {
    if (ArrayBuffer.isView(given))
        return new Uint8Array(given.buffer, given.byteOffset, given.byteLength);
    if (given instanceof ArrayBuffer) return new Uint8Array(given);
    const type = ARRAYS[info.dtype];
    if (!type || !(typeof given?.[Symbol.iterator] === 'function'))
        throw new RlxError('invalid', `'${info.name}' (${info.dtype}) must be a typed array or `
            + 'an ArrayBuffer');
    const numbers = Array.from(given, /^[iu]64$/.test(info.dtype) ? BigInt : Number);
    return new Uint8Array(type.from(numbers).buffer);
}

export class Graph {
    #module;
    #handle;
    #last = Promise.resolve(); // what runs now
    #model = 0; // the ONNX model that it was made of, and where that lies
    #memory;

    constructor(module, handle, info) {
        this.#module = module;
        this.#handle = handle;
        this.info = info;
    }

    /** Parses and compiles `text` for an open device. `params`: name to data. */
    static async open(module, device, text, { params = {}, fast = false } = {}) {
        const source = new TextEncoder().encode(text);
        const handle = await module.scoped(async room => module.checkHandle(
            await module.call('web_session_create', device, room(source), source.length, +fast)));
        const graph = new Graph(module, handle, await module.json('web_session_info', handle));
        try {
            for (const [name, data] of Object.entries(params))
                await graph.#set('web_session_set_param', 'params', name, data);
        } catch (error) {
            await graph.close();
            throw error;
        }
        return graph;
    }

    /** Imports an ONNX model: its URL or its bytes. `dims`: sizes of dimensions by name. */
    static async load(module, device, source, options) {
        const { dims = {}, fast = false } = options;
        const bytes = await toBytes(source);
        const memory = bytes ? place(module, bytes)
            : await placeUrl(module, String(source), options);
        const names = Object.keys(dims), sizes = new Float64Array(Object.values(dims));
        let model = 0;
        try {
            model = module.checkHandle(
                await module.call('web_onnx_open', memory.at, memory.length));
            const text = new TextEncoder().encode(names.map(name => `${name}\0`).join(''));
            const handle = await module.scoped(async room => module.checkHandle(
                await module.call('web_onnx_session', model, device, +fast, room(text),
                                  room(sizes), names.length)));
            const graph = new Graph(module, handle, await module.json('web_session_info', handle));
            graph.#model = model;
            graph.#memory = memory;
            return graph;
        } catch (error) {
            if (model) await module.call('web_onnx_close', model);
            module.free(memory.at);
            throw error;
        }
    }

    async #set(call, list, name, data) {
        const info = this.info[list].find(leaf => leaf.name === name);
        if (!info)
            throw new RlxError('not found', `the graph has no ${list.slice(0, -1)} '${name}'; it `
                + `has ${this.info[list].map(leaf => leaf.name).join(', ') || 'none'}`);
        const bytes = tensorBytes(data, info), m = this.#module;
        await m.scoped(async room => m.check(
            await m.call(call, this.#handle, room(name), room(bytes), bytes.length)));
    }

    /** Runs once: name to data of the inputs, dimensions to bind; gives name to typed array. */
    run(inputs = {}, options = {}) { return this.#alone(() => this.#run(inputs, options)); }

    /** Calls one after the other: each sets inputs, and close must come last. */
    #alone(work) {
        const result = this.#last.then(work);
        this.#last = result.catch(() => {});
        return result;
    }

    async #run(inputs, { dims = {}, outputs } = {}) {
        const m = this.#module;
        for (const [name, value] of Object.entries(dims))
            await m.scoped(async room =>
                m.check(await m.call('web_session_bind', this.#handle, room(name), value)));
        if (Object.keys(dims).length) this.info = await m.json('web_session_info', this.#handle);
        for (const [name, data] of Object.entries(inputs))
            await this.#set('web_session_set_input', 'inputs', name, data);
        m.check(await m.call('web_session_submit', this.#handle));
        await m.poll('web_session_wait', this.#handle, 0);
        const results = {};
        for (const info of this.info.outputs)
            if (!outputs || outputs.includes(info.name))
                results[info.name] = await this.#read(info);
        return results;
    }

    async #read(info) {
        const m = this.#module;
        return m.scoped(async room => {
            const at = room(info.bytes);
            m.check(await m.call('web_session_read', this.#handle, room(info.name), at,
                                 info.bytes));
            const type = ARRAYS[info.dtype] ?? Uint8Array;
            return new type(m.bytes(at, info.bytes).slice().buffer);
        });
    }

    /** Sets every state to zero. */
    reset() {
        return this.#alone(async () => this.#module.check(
            await this.#module.call('web_session_state_reset', this.#handle)));
    }

    close() {
        return this.#alone(async () => {
            if (this.#handle) await this.#module.call('web_session_destroy', this.#handle);
            if (this.#model) await this.#module.call('web_onnx_close', this.#model);
            if (this.#memory) this.#module.free(this.#memory.at);
            this.#handle = this.#model = 0;
            this.#memory = undefined;
        });
    }
}
