// SPDX-License-Identifier: MIT
// Models: loading from a URL, bytes or several files; text generation and embeddings.
import { RlxError, cancelled } from './error.mjs';
import { blobFile } from './lazy.mjs';
import { TIMEOUT, turn } from './module.mjs';
import { place, placeUrl, toBytes } from './place.mjs';
import { fetchFile } from './store.mjs';

const POLICIES = { auto: 0, exact: 1, fast: 2 };
// Prompt tokens computed at once: few on the CPU, so that "stop" is heard during a long prompt.
const CPU_BATCH = 64;
// What belongs to a safetensors model, besides the weights; only the first must be there.
const COMPANIONS = ['config.json', 'tokenizer.json', 'tokenizer_config.json', 'vocab.txt'];

let folders = 0; // every model read from files has a folder of its own in the module

const isBlob = source => typeof Blob !== 'undefined' && source instanceof Blob;

/** A file of the module from bytes, a Blob or a URL; `lazy`: it may be one of lib/lazy.mjs. */
async function toFile(source, options) {
    if (options.lazy && isBlob(source)) return blobFile(source);
    const bytes = await toBytes(source);
    if (bytes) return bytes;
    const found = await fetchFile(String(source), options);
    return found.file ?? found.bytes;
}

/** Puts the files of a model into the module's files; gives the path to open. */
async function placeFiles(module, files, options) {
    const folder = `/models/${++folders}`;
    const names = Object.keys(files);
    const weights = names.find(name => /\.(safetensors|gguf)$/.test(name));
    if (!weights)
        throw new RlxError('invalid', `none of the files (${names.join(', ')}) is a model: `
            + 'expected one that ends in .safetensors or .gguf');
    try {
        for (const name of names)
            module.files.set(`${folder}/${name}`, await toFile(files[name], {
                ...options, lazy: options.lazy && name === weights }));
    } catch (error) {
        names.forEach(name => module.files.delete(`${folder}/${name}`));
        throw error;
    }
    return { folder, path: `${folder}/${weights}`, names, weights: `${folder}/${weights}` };
}

/** The files of a safetensors model on a server: the weights' URL, and those beside it. */
async function findFiles(url, options) {
    const weights = url.endsWith('/') ? new URL('model.safetensors', url).href : url;
    const files = {};
    for (const [i, name] of COMPANIONS.entries()) {
        const found = await fetchFile(new URL(name, weights).href,
                                      { ...options, lazy: false, optional: i > 0,
                                        onProgress: undefined });
        if (found) files[name] = found.bytes;
    }
    files[new URL(weights).pathname.split('/').pop()] = weights;
    return files;
}

export class Model {
    #module;
    #handle;
    #context = 0;
    #memory;
    #busy = false;
    #isClosed = false;
    #last = Promise.resolve(); // what runs now

    /**
     * `source`: the URL of a GGUF or safetensors file or of a folder that holds one, bytes of a
     * GGUF file, or { files: { name: bytes | URL } }. `device` is an id of the library. On a GPU
     * the weights never are in the module's memory as a whole.
     */
    static async load(module, source, options) {
        const { device, context = 0, policy = 'auto' } = options;
        const chunk = options.promptChunk ?? (device === 'cpu' ? CPU_BATCH : 0);
        const lazy = device !== 'cpu';
        const self = new Model();
        self.#module = module;
        const found = await self.#find(source, { ...options, lazy });
        const numbers = new Float64Array([context, chunk, POLICIES[policy] ?? 0, lazy ? 1 : 0]);
        try {
            self.#handle = await module.scoped(async room => module.checkHandle(
                await module.call('web_model_open', self.#memory?.at ?? 0,
                                  self.#memory?.length ?? 0, room(found.path), room(device),
                                  room(numbers))));
        } catch (error) {
            await self.close();
            throw error;
        } finally {
            module.files.get(found.weights ?? '')?.release?.();
            found.names.forEach(name => module.files.delete(`${found.folder}/${name}`));
        }
        self.info = { ...await module.json('web_model_info', self.#handle),
                      moduleBytes: module.exports.memory.buffer.byteLength };
        return self;
    }

    /** Where the module finds the model: in its memory, or in files. */
    async #find(source, options) {
        const m = this.#module, inMemory = { path: '', names: [] };
        if (source?.files) return placeFiles(m, source.files, options);
        if (options.lazy && isBlob(source))
            return placeFiles(m, { 'model.gguf': source }, options);
        const bytes = await toBytes(source);
        if (options.lazy && bytes) return placeFiles(m, { 'model.gguf': bytes }, options);
        if (bytes) {
            this.#memory = place(m, bytes);
            return inMemory;
        }
        const url = String(source);
        if (/(\/|\.safetensors)([?#].*)?$/.test(url))
            return placeFiles(m, await findFiles(url, options), options);
        if (options.lazy) return placeFiles(m, { 'model.gguf': url }, options);
        this.#memory = await placeUrl(m, url, options);
        return inMemory;
    }

    // ---- Generation -----------------------------------------------------------------------------

    /** Messages in the form the model was trained on. */
    async formatChat(messages) {
        const m = this.#module;
        return m.scoped(async room => {
            const words = new Uint32Array(messages.flatMap(({ role, content }) =>
                [room(String(role)), room(String(content))]));
            const text = m.checkHandle(await m.call('web_chat_format', this.#handle, room(words),
                                                    messages.length));
            const prompt = m.text(text);
            await m.call('web_free', text);
            return prompt;
        });
    }

    /**
     * Generates from a text or a list of messages. `onPiece({ token, text })` is called for each
     * piece; gives the counts and times. `signal.aborted` is looked at between tokens.
     */
    generate(prompt, options, onPiece, signal) {
        if (this.#busy)
            throw new RlxError('invalid', 'this model is generating already; wait or stop it');
        this.#busy = true;
        return this.#alone(() => this.#generateAll(prompt, options, onPiece, signal));
    }

    async #generateAll(prompt, options, onPiece, signal) {
        const m = this.#module;
        try {
            const text = typeof prompt === 'string' ? prompt : await this.formatChat(prompt);
            this.#context ||= m.checkHandle(await m.call('web_context_create', this.#handle));
            return await m.scoped(room => this.#generate(text, options, onPiece, { signal, room }));
        } finally {
            this.#busy = false;
        }
    }

    async #begin(prompt, options, room) {
        const { maxTokens = 256, temperature = 0, topK = 0, topP = 0, minP = 0,
                repeatPenalty = 0, seed = 0, stop = [], typicalP = 0, xtcProbability = 0,
                xtcThreshold = 0, dryMultiplier = 0, dryBase = 0, dryAllowedLength = 0,
                mirostat = 0, mirostatTau = 0, mirostatEta = 0 } = options;
        const numbers = new Float64Array([maxTokens, temperature, topK, topP, minP, repeatPenalty,
                                          Number(BigInt(seed) & 0xffffffffn),
                                          Number(BigInt(seed) >> 32n & 0xffffffffn), typicalP,
                                          xtcProbability, xtcThreshold, dryMultiplier, dryBase,
                                          dryAllowedLength, mirostat, mirostatTau, mirostatEta]);
        const stops = new Uint32Array(stop.map(text => room(text)));
        return this.#module.checkHandle(
            await this.#module.call('web_generation_begin', this.#context, room(prompt),
                                    room(numbers), room(stops), stops.length));
    }

    async #generate(prompt, options, onPiece, { signal, room }) {
        const m = this.#module, out = room(16), stoppable = signal ?? {};
        const generation = await this.#begin(prompt, options, room);
        let more = true, stopped = false, failure = null;
        while (more && !failure && !(stopped = this.#isClosed || Boolean(stoppable.aborted))) {
            const status = await m.call('web_generation_next', generation, 0, out);
            if (status !== TIMEOUT) {
                if (status) failure = m.error();
                const [token, at, length, goesOn] = m.words(out, 4);
                more = Boolean(goesOn);
                if (!failure && (token !== 0xffffffff || length))
                    onPiece({ token: token | 0, text: m.text(at, length) });
            }
            await turn();
        }
        const result = await m.json('web_generation_end', generation);
        if (failure) throw failure;
        return stopped ? { ...result, finish: 'cancelled' } : result;
    }

    // ---- Embeddings -----------------------------------------------------------------------------

    /** One Float32Array of length 1 (Euclid) for each text. */
    async embed(texts, onProgress, signal) {
        // A GPU takes several texts at once; the CPU is no faster with them, and progress is finer.
        const vectors = [], step = this.info.backend === 'cpu' ? 1 : this.info.sequences;
        for (let at = 0; at < texts.length; at += step) {
            if (this.#isClosed || signal?.aborted) throw cancelled('the embedding');
            vectors.push(...await this.#alone(() => this.#embedSome(texts.slice(at, at + step))));
            onProgress?.({ done: vectors.length, total: texts.length });
            await turn();
        }
        return vectors;
    }

    /** What was asked for at the same time runs one after the other. */
    #alone(work) {
        const result = this.#last.then(work);
        this.#last = result.catch(() => {});
        return result;
    }

    async #embedSome(texts) {
        const m = this.#module, width = this.info.embeddingWidth;
        return m.scoped(async room => {
            const out = room(4 * width * texts.length), more = room(new Uint32Array([1]));
            const list = room(new Uint32Array(texts.map(text => room(String(text)))));
            const embedding = m.checkHandle(await m.call('web_embedding_begin', this.#handle, list,
                                                         texts.length, out));
            try {
                while (m.words(more, 1)[0]) await m.poll('web_embedding_next', embedding, 0, more);
            } finally {
                await m.call('web_embedding_end', embedding);
            }
            return texts.map((_, i) => new Float32Array(
                m.bytes(out + 4 * width * i, 4 * width).slice().buffer));
        });
    }

    /** What runs is stopped first. */
    async close() {
        const m = this.#module;
        this.#isClosed = true;
        await this.#last;
        if (this.#context) await m.call('web_context_destroy', this.#context);
        if (this.#handle) await m.call('web_model_close', this.#handle);
        if (this.#memory) m.free(this.#memory.at);
        this.#context = this.#handle = 0;
        this.#memory = null;
    }
}
