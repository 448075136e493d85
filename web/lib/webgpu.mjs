// SPDX-License-Identifier: MIT
// WebGPU for the module: the C functions of src/webgpu/wg.h over navigator.gpu. Structs have the
// layout of webgpu.h for 32-bit pointers; C objects are numbers of a table here. Adapter and device
// are acquired before the module asks for them, so that opening needs no waiting. Callbacks of C
// run in wgpuInstanceProcessEvents only. Where the browser can suspend WebAssembly (JSPI),
// wgpuInstanceWaitAny sleeps; elsewhere it says so, and JavaScript polls between calls.

const SUCCESS = 1, FAILED = 3;                                  // statuses of callbacks
const ERROR_VALIDATION = 2, ERROR_OUT_OF_MEMORY = 3, ERROR_INTERNAL = 4;
const WAIT_READY = 1, WAIT_TIMED_OUT = 2, WAIT_UNSUPPORTED = 3;
const BACKEND_BROWSER = 2, ADAPTER_CPU = 3, ADAPTER_UNKNOWN = 4;
const LOST_UNKNOWN = 1, LOST_DESTROYED = 2;
const NO_LENGTH = 0xffffffff;                                   // a string that ends with a zero
const BINDING_TYPES = [, , 'uniform', 'storage', 'read-only-storage'];
const LANGUAGE_DOT = 0x52580001; // RX_WG_LANGUAGE_DOT of src/webgpu/wg.h
const FEATURES = { 0x0b: 'shader-f16', 0x12: 'subgroups' };
const ERROR_FILTERS = [, 'validation', 'out-of-memory', 'internal'];

// WGPULimits in order; names with a star have 64 bits, others 32.
const LIMITS = `maxTextureDimension1D maxTextureDimension2D maxTextureDimension3D
    maxTextureArrayLayers maxBindGroups maxBindGroupsPlusVertexBuffers maxBindingsPerBindGroup
    maxDynamicUniformBuffersPerPipelineLayout maxDynamicStorageBuffersPerPipelineLayout
    maxSampledTexturesPerShaderStage maxSamplersPerShaderStage maxStorageBuffersPerShaderStage
    maxStorageTexturesPerShaderStage maxUniformBuffersPerShaderStage maxUniformBufferBindingSize*
    maxStorageBufferBindingSize* minUniformBufferOffsetAlignment minStorageBufferOffsetAlignment
    maxVertexBuffers maxBufferSize* maxVertexAttributes maxVertexBufferArrayStride
    maxInterStageShaderVariables maxColorAttachments maxColorAttachmentBytesPerSample
    maxComputeWorkgroupStorageSize maxComputeInvocationsPerWorkgroup maxComputeWorkgroupSizeX
    maxComputeWorkgroupSizeY maxComputeWorkgroupSizeZ maxComputeWorkgroupsPerDimension
    maxImmediateSize`.split(/\s+/);

// Those that kernels depend on: asked for as high as the adapter has them.
const WANTED_LIMITS = LIMITS.map(name => name.replace('*', '')).filter(name =>
    /Compute|BufferBindingSize|maxBufferSize|maxStorageBuffers|BufferOffsetAlignment/.test(name));

/** Why there is no adapter, in a sentence for people; or the adapter. */
async function findAdapter({ powerPreference = 'high-performance', disable = false }) {
    if (disable) return { reason: 'it is switched off by the page' };
    if (typeof navigator === 'undefined' || !navigator.gpu) {
        const insecure = globalThis.isSecureContext === false;
        return { reason: insecure
            ? 'browsers offer it to secure pages only: use https, or http://localhost'
            : 'this browser does not have it, or has it switched off' };
    }
    try {
        const adapter = await navigator.gpu.requestAdapter({ powerPreference });
        if (adapter) return { adapter };
        return { reason: 'the browser found no graphics driver it can use' };
    } catch (error) {
        return { reason: `the browser refused: ${error.message}` };
    }
}

/** Makes the imports of the module. `options.jspi` false: never suspend. */
export async function openGpu(options = {}) {
    const canSuspend = options.jspi !== false && typeof WebAssembly.Suspending === 'function'
        && typeof WebAssembly.promising === 'function';
    const gpu = new Gpu(options, canSuspend);
    await gpu.prepare();
    return gpu;
}

class Gpu {
    #objects = [null];
    #freeHandles = [];
    #ready = [];            // callbacks of C that wait for wgpuInstanceProcessEvents
    #wake = () => {};
    #lastFuture = 0n;
    #options;
    #device = null;         // acquired, not yet asked for
    #ex;

    constructor(options, canSuspend) {
        this.#options = options;
        this.canSuspend = canSuspend;
        this.adapter = null;
        this.reason = '';
        this.imports = this.#makeImports();
    }

    /** Whether calls that wait must be made through WebAssembly.promising. */
    get suspends() { return this.canSuspend && Boolean(this.adapter); }

    /** The exports of the module, once it is there. */
    attach(exports) { this.#ex = exports; }

    /** Acquires a device for the next time the module opens one. An adapter gives one device
     *  only, so each needs an adapter of its own. `reason` says why there is none. */
    async prepare() {
        if (this.#device) return;
        const { adapter = null, reason = '' } = await findAdapter(this.#options);
        this.reason = reason;
        if (!adapter) return;
        const features = Object.values(FEATURES).filter(name => adapter.features.has(name));
        const limits = {};
        for (const name of WANTED_LIMITS)
            if (adapter.limits[name] !== undefined) limits[name] = adapter.limits[name];
        try {
            const device = await adapter.requestDevice({ label: 'rlx', requiredFeatures: features,
                                                         requiredLimits: limits });
            this.adapter ??= adapter;
            this.#device = device;
        } catch (error) {
            this.reason = `the adapter gives no device: ${error.message}`;
        }
    }

    // ---- Memory ---------------------------------------------------------------------------------

    #view() { return new DataView(this.#ex.memory.buffer); }
    #u32(at) { return this.#view().getUint32(at, true); }
    #u64(at) { return Number(this.#view().getBigUint64(at, true)); }
    #setU32(at, value) { this.#view().setUint32(at, value, true); }

    /** The text of a WGPUStringView. */
    #text(at) {
        const data = this.#u32(at);
        let length = this.#u32(at + 4);
        if (!data) return undefined;
        const all = new Uint8Array(this.#ex.memory.buffer, data);
        if (length === NO_LENGTH) length = all.indexOf(0);
        return new TextDecoder().decode(all.slice(0, length));
    }

    /** Writes a WGPUStringView at `at`; gives the memory to free. */
    #putText(at, text) {
        const bytes = new TextEncoder().encode(text ?? '');
        const data = this.#ex.malloc(bytes.length + 1);
        new Uint8Array(this.#ex.memory.buffer, data, bytes.length).set(bytes);
        this.#setU32(at, data);
        this.#setU32(at + 4, bytes.length);
        return data;
    }

    // ---- Objects --------------------------------------------------------------------------------

    #add(object) {
        const handle = this.#freeHandles.pop() ?? this.#objects.length;
        this.#objects[handle] = object;
        return handle;
    }

    #get(handle) { return this.#objects[handle]; }

    #release(handle) {
        if (!handle) return;
        this.#objects[handle] = null;
        this.#freeHandles.push(handle);
    }

    /** An object made by `make`, or 0: C sees a missing object, and the error as uncaptured. */
    #make(device, make) {
        try {
            return this.#add(make(this.#get(device)));
        } catch (error) {
            this.#report(this.#get(device), ERROR_VALIDATION, error.message);
            return 0;
        }
    }

    // ---- Callbacks ------------------------------------------------------------------------------

    /** Lets C call `fn(...before, message, user1, user2)` at its next look at the events. */
    #callBack({ fn, user1, user2 }, before, message) {
        if (!fn) return;
        this.#ready.push(() => {
            const view = this.#ex.malloc(8), text = this.#putText(view, message);
            this.#ex.__indirect_function_table.get(fn)(...before(), view, user1, user2);
            this.#ex.free(text);
            this.#ex.free(view);
        });
        this.#wake();
    }

    /** A callback info: next, [mode,] function, two user pointers. */
    #info(at, hasMode = true) {
        const from = at + (hasMode ? 8 : 4);
        return { fn: this.#u32(from), user1: this.#u32(from + 4), user2: this.#u32(from + 8) };
    }

    /** Answers a C function that gives a future: `promise` becomes the callback's arguments. */
    #future(promise, at, finish) {
        const info = this.#info(at);
        promise.then(value => finish(value, null), error => finish(null, error))
            .then(({ before, message = '' }) => this.#callBack(info, () => before, message));
        return ++this.#lastFuture;
    }

    /** The same when the answer is known at once. */
    #answer(at, before, message = '') {
        this.#callBack(this.#info(at), () => before, message);
        return ++this.#lastFuture;
    }

    /** An error that no scope caught, for the callback of the device; device.rlx has it. */
    #report(device, kind, message) {
        if (!device?.rlx) return;
        this.#onDevice(device, device.rlx.onError, kind, message);
    }

    /** Callbacks of a device get a pointer to its handle first. */
    #onDevice(device, info, kind, message) {
        let at = 0;
        this.#callBack(info, () => {
            at = this.#ex.malloc(4);
            this.#setU32(at, device.rlx.handle);
            queueMicrotask(() => this.#ex.free(at));
            return [at, kind];
        }, message);
    }

    // ---- Instance, adapter, device --------------------------------------------------------------

    #processEvents() {
        while (this.#ready.length) this.#ready.shift()();
    }

    async #sleep(nanoseconds) {
        if (this.#ready.length) return WAIT_READY;
        const ms = Math.min(Number(nanoseconds) / 1e6, 1000);
        return new Promise(resolve => {
            const timer = setTimeout(() => end(WAIT_TIMED_OUT), ms);
            const end = result => {
                clearTimeout(timer);
                this.#wake = () => {};
                resolve(result);
            };
            this.#wake = () => end(WAIT_READY);
        });
    }

    #getInfo(handle, at) {
        const info = this.#get(handle).info ?? {};
        ['vendor', 'architecture', 'device', 'description'].forEach((key, i) =>
            this.#putText(at + 4 + 8 * i, info[key]));
        const isCpu = info.isFallbackAdapter ?? this.#get(handle).isFallbackAdapter;
        [BACKEND_BROWSER, isCpu ? ADAPTER_CPU : ADAPTER_UNKNOWN, 0, 0, info.subgroupMinSize ?? 0,
         info.subgroupMaxSize ?? 0].forEach((value, i) => this.#setU32(at + 36 + 4 * i, value));
        return SUCCESS;
    }

    #getLimits(handle, at) {
        const limits = this.#get(handle).limits;
        let offset = 4; // after the chain
        for (const name of LIMITS) {
            const isWide = name.endsWith('*'), value = limits[name.replace('*', '')] ?? 0;
            if (isWide) offset = (offset + 7) & ~7;
            if (isWide) this.#view().setBigUint64(at + offset, BigInt(value), true);
            else this.#setU32(at + offset, value);
            offset += isWide ? 8 : 4;
        }
        return SUCCESS;
    }

    #requestDevice(descriptor, info) {
        const device = this.#device;
        this.#device = null;
        if (!device)
            return this.#answer(info, [FAILED, 0], this.reason || 'no device was prepared');
        const handle = this.#add(device);
        device.rlx = { handle, onLost: this.#info(descriptor + 36),
                       onError: this.#info(descriptor + 56, false) };
        device.onuncapturederror = ({ error }) => this.#report(device, errorKind(error),
                                                               error.message);
        this.lastOpened = device;
        device.lost.then(({ message }) => {
            device.rlx.isLost = true;
            this.#onDevice(device, device.rlx.onLost,
                           device.rlx.isClosed ? LOST_DESTROYED : LOST_UNKNOWN, message);
        });
        return this.#answer(info, [SUCCESS, handle]);
    }

    // ---- What the module imports ----------------------------------------------------------------

    #makeImports() {
        const known = { ...this.#instanceCalls(), ...this.#deviceCalls(), ...this.#encoderCalls(),
                        ...this.#queueCalls() };
        for (const name of ['Adapter', 'Device', 'Queue', 'Buffer', 'BindGroup', 'BindGroupLayout',
                            'PipelineLayout', 'ComputePipeline', 'ShaderModule', 'CommandEncoder',
                            'CommandBuffer', 'ComputePassEncoder'])
            known[`${name}Release`] = handle => this.#release(handle);
        return Object.fromEntries(Object.entries(known).map(([name, fn]) => [`wgpu${name}`, fn]));
    }

    #instanceCalls() {
        return {
            CreateInstance: () => this.#add({}),
            InstanceProcessEvents: () => this.#processEvents(),
            InstanceWaitAny: this.canSuspend
                ? new WebAssembly.Suspending((instance, n, list, ns) => this.#sleep(ns))
                : () => this.#ready.length ? WAIT_READY : WAIT_UNSUPPORTED,
            InstanceRequestAdapter: (instance, options, info) => this.adapter
                ? this.#answer(info, [SUCCESS, this.#add(this.adapter)])
                : this.#answer(info, [FAILED, 0], this.reason),
            AdapterGetInfo: (adapter, at) => this.#getInfo(adapter, at),
            AdapterInfoFreeMembers: at =>
                [4, 12, 20, 28].forEach(offset => this.#ex.free(this.#u32(at + offset))),
            AdapterGetLimits: (adapter, at) => this.#getLimits(adapter, at),
            AdapterHasFeature: (adapter, feature) => Number(Boolean(
                feature === LANGUAGE_DOT
                    ? navigator.gpu.wgslLanguageFeatures?.has('packed_4x8_integer_dot_product')
                    : FEATURES[feature] && this.#get(adapter).features.has(FEATURES[feature]))),
            AdapterRequestDevice: (adapter, descriptor, info) =>
                this.#requestDevice(descriptor, info),
        };
    }

    #deviceCalls() {
        return {
            DeviceGetQueue: device => this.#add(this.#get(device).queue),
            DeviceDestroy: device => {
                this.#get(device).rlx.isClosed = true;
                this.#get(device).destroy();
            },
            DevicePushErrorScope: (device, filter) =>
                this.#get(device).pushErrorScope(ERROR_FILTERS[filter]),
            DevicePopErrorScope: (device, info) =>
                this.#future(this.#get(device).popErrorScope(), info, (error, failure) => ({
                    before: [failure ? FAILED : SUCCESS, error ? errorKind(error) : 1],
                    message: error?.message })),
            DeviceCreateBuffer: (device, at) => this.#make(device, d => d.createBuffer({
                label: this.#text(at + 4), usage: this.#u64(at + 16), size: this.#u64(at + 24),
                mappedAtCreation: Boolean(this.#u32(at + 32)) })),
            DeviceCreateShaderModule: (device, at) => this.#make(device, d =>
                d.createShaderModule({ label: this.#text(at + 4),
                                       code: this.#text(this.#u32(at) + 8) })),
            DeviceCreateBindGroupLayout: (device, at) => this.#make(device, d =>
                d.createBindGroupLayout({ label: this.#text(at + 4),
                                          entries: this.#layoutEntries(at + 12) })),
            DeviceCreatePipelineLayout: (device, at) => this.#make(device, d =>
                d.createPipelineLayout({ label: this.#text(at + 4),
                                         bindGroupLayouts: this.#list(at + 12, 4, entry =>
                                             this.#get(this.#u32(entry))) })),
            DeviceCreateComputePipeline: (device, at) => this.#make(device, d =>
                d.createComputePipeline({ label: this.#text(at + 4),
                                          layout: this.#get(this.#u32(at + 12)),
                                          compute: { module: this.#get(this.#u32(at + 20)),
                                                     entryPoint: this.#text(at + 24) } })),
            DeviceCreateBindGroup: (device, at) => this.#make(device, d => d.createBindGroup({
                label: this.#text(at + 4), layout: this.#get(this.#u32(at + 12)),
                entries: this.#groupEntries(at + 16) })),
            DeviceCreateCommandEncoder: device => this.#make(device, d => d.createCommandEncoder()),
        };
    }

    /** Maps a list in memory: a count, then a pointer to entries of `size` bytes. */
    #list(at, size, fn) {
        const n = this.#u32(at), entries = this.#u32(at + 4);
        return Array.from({ length: n }, (_, i) => fn(entries + size * i));
    }

    #layoutEntries(at) {
        return this.#list(at, 88, entry => ({
            binding: this.#u32(entry + 4), visibility: this.#u64(entry + 8),
            buffer: { type: BINDING_TYPES[this.#u32(entry + 28)],
                      hasDynamicOffset: Boolean(this.#u32(entry + 32)),
                      minBindingSize: this.#u64(entry + 40) } }));
    }

    #groupEntries(at) {
        return this.#list(at, 40, entry => {
            const size = this.#u64(entry + 24);
            return { binding: this.#u32(entry + 4),
                     resource: { buffer: this.#get(this.#u32(entry + 8)),
                                 offset: this.#u64(entry + 16),
                                 size: Number.isSafeInteger(size) ? size : undefined } };
        });
    }

    #encoderCalls() {
        return {
            CommandEncoderBeginComputePass: encoder =>
                this.#add(this.#get(encoder).beginComputePass()),
            CommandEncoderClearBuffer: (encoder, buffer, offset, size) =>
                this.#get(encoder).clearBuffer(this.#get(buffer), Number(offset), Number(size)),
            CommandEncoderCopyBufferToBuffer: (encoder, from, fromAt, to, toAt, size) =>
                this.#get(encoder).copyBufferToBuffer(this.#get(from), Number(fromAt),
                                                      this.#get(to), Number(toAt), Number(size)),
            CommandEncoderFinish: encoder => this.#add(this.#get(encoder).finish()),
            ComputePassEncoderSetPipeline: (pass, pipeline) =>
                this.#get(pass).setPipeline(this.#get(pipeline)),
            ComputePassEncoderSetBindGroup: (pass, index, group, n, offsets) =>
                this.#get(pass).setBindGroup(index, this.#get(group),
                    Array.from({ length: n }, (_, i) => this.#u32(offsets + 4 * i))),
            ComputePassEncoderDispatchWorkgroups: (pass, x, y, z) =>
                this.#get(pass).dispatchWorkgroups(x >>> 0, y >>> 0, z >>> 0),
            ComputePassEncoderEnd: pass => this.#get(pass).end(),
        };
    }

    #queueCalls() {
        return {
            QueueSubmit: (queue, n, list) => this.#get(queue).submit(
                Array.from({ length: n }, (_, i) => this.#get(this.#u32(list + 4 * i)))),
            QueueWriteBuffer: (queue, buffer, offset, data, size) =>
                this.#get(queue).writeBuffer(this.#get(buffer), Number(offset),
                                             this.#ex.memory.buffer, data >>> 0, size >>> 0),
            QueueOnSubmittedWorkDone: (queue, info) =>
                this.#future(this.#get(queue).onSubmittedWorkDone(), info, (value, failure) => ({
                    before: [failure ? FAILED : SUCCESS], message: failure?.message })),
            BufferMapAsync: (buffer, mode, offset, size, info) =>
                this.#future(this.#get(buffer).mapAsync(Number(mode), offset >>> 0, size >>> 0),
                    info, (value, failure) => ({ before: [failure ? FAILED : SUCCESS],
                                                 message: failure?.message })),
            BufferGetConstMappedRange: (buffer, offset, size) =>
                this.#readMapped(this.#get(buffer), offset >>> 0, size >>> 0),
            BufferUnmap: buffer => this.#unmap(this.#get(buffer)),
            BufferDestroy: buffer => {
                this.#freeCopies(this.#get(buffer));
                this.#get(buffer).destroy();
            },
        };
    }

    /** A copy of mapped memory in the module, which lives until the buffer is unmapped. */
    #readMapped(buffer, offset, size) {
        const at = this.#ex.malloc(Math.max(size, 1));
        if (!at) return 0;
        try {
            new Uint8Array(this.#ex.memory.buffer, at, size)
                .set(new Uint8Array(buffer.getMappedRange(offset, size)));
        } catch {
            this.#ex.free(at);
            return 0;
        }
        (buffer.rlxCopies ??= []).push(at);
        return at;
    }

    #freeCopies(buffer) {
        buffer.rlxCopies?.forEach(at => this.#ex.free(at));
        buffer.rlxCopies = [];
    }

    #unmap(buffer) {
        this.#freeCopies(buffer);
        buffer.unmap();
    }
}

function errorKind(error) {
    if (error instanceof GPUValidationError) return ERROR_VALIDATION;
    return error instanceof GPUOutOfMemoryError ? ERROR_OUT_OF_MEMORY : ERROR_INTERNAL;
}
