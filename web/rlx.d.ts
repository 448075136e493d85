// SPDX-License-Identifier: MIT
// Types of rlx for web pages, node and Deno. Everything is asynchronous; every failure is an
// RlxError. Options that do not exist and arguments of wrong types are refused ('invalid').

/** What went wrong. */
export class RlxError extends Error {
    /** The kind of failure. */
    readonly status: 'invalid' | 'not found' | 'unsupported' | 'no device' | 'out of memory'
        | 'device lost' | 'input/output error' | 'malformed' | 'cancelled' | 'timed out'
        | 'internal error';
    /** A sentence that names the object, what was expected and what was found. */
    readonly message: string;
}

export interface InitOptions {
    /** Where rlx.wasm is, its bytes, or the compiled module. Default: beside rlx.mjs. */
    wasm?: string | URL | ArrayBuffer | Uint8Array | WebAssembly.Module;
    /** The same for rlx-threads.wasm; null: do without it. Default: beside rlx.mjs, and null where
     *  `wasm` is given. It runs where the browser has relaxed SIMD and shared memory. */
    wasmThreads?: string | URL | ArrayBuffer | Uint8Array | WebAssembly.Module | null;
    /** Threads of the CPU device. Default: the processors, half of more than 4, at most 16. There
     *  is one where a page is not isolated (crossOriginIsolated), and on a page with
     *  `worker: false`; under node one unless it is given. */
    threads?: number;
    /** false: work on the calling thread; a URL: another worker script. Default: true where there
     *  are workers. */
    worker?: boolean | string | URL;
    /** Environment variables of the library, for example { RLX_NO_FUSION: '1' }. */
    env?: Record<string, string>;
    gpu?: {
        powerPreference?: 'high-performance' | 'low-power';
        /** true: behave as if there were no WebGPU. */
        disable?: boolean;
        /** false: do not suspend WebAssembly (JSPI) even where the browser can. */
        jspi?: boolean;
    };
    /** Takes what the library prints. */
    onPrint?(text: string): void;
}

/** Loads the module. */
export function init(options?: InitOptions): Promise<Rlx>;

export type DeviceId = 'webgpu' | 'cpu';

export interface Device {
    id: DeviceId;
    available: boolean;
    name: string;
    /** A GPU that is emulated on the CPU: 'auto' does not choose it. */
    software: boolean;
    /** Why it is not available; empty when it is. */
    reason: string;
}

export interface Rlx {
    readonly version: string;
    /** Whether calls are suspended while they wait for the GPU (JSPI), or polled. */
    readonly suspends: boolean;
    /** How many threads compute on the CPU. */
    readonly threads: number;

    devices(): Promise<Device[]>;

    /** Compiles a graph in text form. */
    graph(text: string, options?: GraphOptions): Promise<Graph>;

    /** Loads an ONNX model, by its URL or as bytes, with the weights in that file. Dimensions
     *  without a size in the file take one from `dims`, else they are bound by graph.run. */
    loadGraph(source: string | URL | ArrayBuffer | Uint8Array | Blob,
        options?: LoadGraphOptions): Promise<Graph>;

    /**
     * Loads a model: the URL of a GGUF file, of a safetensors file (with config.json and
     * tokenizer.json beside it) or of a folder that holds one; the bytes of a GGUF file; or several
     * files by name. Files that were fetched are kept in the browser's cache. Under node and Deno
     * addresses may be paths, which are relative to the working folder.
     */
    load(source: string | URL | ArrayBuffer | Uint8Array | Blob | ModelFiles,
         options?: LoadOptions): Promise<Model>;

    /** Whether a URL is in the cache. */
    isStored(url: string | URL): Promise<boolean>;
    /** Removes a URL, or everything, from the cache. */
    forget(url?: string | URL): Promise<unknown>;

    /** Ends the worker; what was opened cannot be used any more. */
    close(): void;
}

// ---- Graphs -------------------------------------------------------------------------------------

export type TensorData = ArrayBuffer | ArrayBufferView | Iterable<number> | Iterable<bigint>;

export interface GraphOptions {
    /** Default 'auto': a GPU that is not emulated, else the CPU. */
    device?: DeviceId | 'auto';
    /** Weights by name. */
    params?: Record<string, TensorData>;
    /** Allow half precision and 8-bit products. Default false. */
    fast?: boolean;
    signal?: AbortSignal;
}

export interface LoadGraphOptions {
    /** Default 'auto': a GPU that is not emulated, else the CPU. */
    device?: DeviceId | 'auto';
    /** Sizes of dimensions by their names in the file ("INPUT:AXIS" for those without one). */
    dims?: Record<string, number>;
    /** Allow half precision and 8-bit products. Default false. */
    fast?: boolean;
    /** Keep the file in the browser's cache. Default true. */
    cache?: boolean;
    onProgress?: (progress: Progress) => void;
    signal?: AbortSignal;
}

export interface TensorInfo {
    name: string;
    dtype: string;
    /** With the dimensions as they are bound, outermost first. */
    shape: number[];
    bytes: number;
}

export interface Graph {
    readonly device: DeviceId;
    readonly inputs: TensorInfo[];
    readonly params: TensorInfo[];
    readonly states: TensorInfo[];
    readonly outputs: TensorInfo[];

    /** Runs once. Inputs that are left out keep what they were given last. `dims` binds named
     *  dimensions, `outputs` names those to read (default: all). */
    run(inputs?: Record<string, TensorData>,
        options?: { dims?: Record<string, number>; outputs?: string[] }):
        Promise<Record<string, ArrayBufferView>>;
    /** Sets every state to zero. */
    reset(): Promise<void>;
    close(): Promise<void>;
}

// ---- Models -------------------------------------------------------------------------------------

export interface ModelFiles {
    /** Name to data or URL: for example model.safetensors, config.json, tokenizer.json. */
    files: Record<string, string | URL | ArrayBuffer | Uint8Array | Blob>;
}

export interface Progress {
    url: string;
    /** Bytes so far. */
    loaded: number;
    /** Bytes in all, when the server tells. */
    total?: number;
    fromCache: boolean;
}

export interface LoadOptions {
    device?: DeviceId | 'auto';
    /** Tokens a conversation can hold. Default: what the model was trained for, at most 4096. */
    context?: number;
    /** Prompt tokens computed at once. Default: by the device. */
    promptChunk?: number;
    /** Default 'auto': fast for quantised files. */
    policy?: 'auto' | 'exact' | 'fast';
    /** false: neither read from nor write to the browser's cache. */
    cache?: boolean;
    onProgress?(progress: Progress): void;
    signal?: AbortSignal;
}

export interface ModelInfo {
    architecture: string;
    name: string;
    generates: boolean;
    embeds: boolean;
    parameters: number;
    layers: number;
    width: number;
    vocabulary: number;
    trainedContext: number;
    context: number;
    embeddingWidth: number;
    weightBytes: number;
    cacheBytes: number;
    workBytes: number;
    /** Memory of the module after loading; on a GPU the weights are not in it. */
    moduleBytes: number;
    device: string;
    backend: string;
    deviceName: string;
}

export interface Message {
    role: 'system' | 'user' | 'assistant' | string;
    content: string;
}

export interface Piece {
    /** -1: text that was held back, at the end. */
    token: number;
    /** Whole characters; may be empty. */
    text: string;
}

export interface GenerateOptions {
    /** Default 256. 0 only computes the prompt; Infinity: until the model ends. */
    maxTokens?: number;
    /** 0 (default): always the most likely token. */
    temperature?: number;
    /** 0 (default): off. */
    topK?: number;
    topP?: number;
    minP?: number;
    repeatPenalty?: number;
    /** Locally typical sampling; 0 or 1: off. */
    typicalP?: number;
    /** How often the top choices but the last are left out; those of at least the threshold. */
    xtcProbability?: number;
    xtcThreshold?: number;
    /** Makes tokens that go on with a repetition less likely; 0: off. */
    dryMultiplier?: number;
    dryBase?: number;
    dryAllowedLength?: number;
    /** 2: Mirostat 2.0 in place of topK to XTC; its target in bits and how fast it gets there. */
    mirostat?: number;
    mirostatTau?: number;
    mirostatEta?: number;
    /** The same seed gives the same text. Default 0. */
    seed?: number | bigint;
    /** Texts that end the generation. */
    stop?: string[];
    onToken?(piece: Piece): void;
    /** Ends the generation; what was generated so far is the result. */
    signal?: AbortSignal;
}

export interface GenerateResult {
    text: string;
    tokenIds: number[];
    finish: 'end' | 'stop' | 'length' | 'context' | 'cancelled';
    promptTokens: number;
    /** Of the prompt: those that were known from the last generation. */
    reusedTokens: number;
    tokens: number;
    /** To the first token. */
    promptSeconds: number;
    /** Of the tokens after the first. */
    seconds: number;
}

/** A generation that runs: await it for the result, or iterate over its pieces. */
export interface Generation extends PromiseLike<GenerateResult>, AsyncIterable<Piece> {
    catch<T>(handler: (error: RlxError) => T): Promise<GenerateResult | T>;
    finally(handler: () => void): Promise<GenerateResult>;
}

export interface Model {
    readonly info: ModelInfo;
    readonly device: DeviceId;

    /** Goes on from a text, or answers the last of some messages. One at a time. */
    generate(prompt: string | Message[], options?: GenerateOptions): Generation;

    /** One vector of length 1 for a text, or for each of several. */
    embed(text: string, options?: EmbedOptions): Promise<Float32Array>;
    embed(texts: Iterable<string>, options?: EmbedOptions): Promise<Float32Array[]>;

    /** Messages as the text the model was trained on. */
    formatChat(messages: Message[]): Promise<string>;

    close(): Promise<void>;
}

export interface EmbedOptions {
    onProgress?(progress: { done: number; total: number }): void;
    signal?: AbortSignal;
}
