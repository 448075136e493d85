/* SPDX-License-Identifier: MIT */
/* The part of the WebGPU C interface that rlx uses, declared here so that no header is needed to
 * build. Names, numbers and layouts are those of the common webgpu.h, which wgpu-native, Dawn and
 * browsers (through the JavaScript of web/) have; what differs between them is a row of a table in
 * loader.c. Structs that the library fills have room after them (`room`), because newer versions
 * are longer. */
#ifndef RX_WEBGPU_WG_H
#define RX_WEBGPU_WG_H

#include <stddef.h>
#include <stdint.h>

typedef struct WGPUAdapterImpl *WGPUAdapter;
typedef struct WGPUBindGroupImpl *WGPUBindGroup;
typedef struct WGPUBindGroupLayoutImpl *WGPUBindGroupLayout;
typedef struct WGPUBufferImpl *WGPUBuffer;
typedef struct WGPUCommandBufferImpl *WGPUCommandBuffer;
typedef struct WGPUCommandEncoderImpl *WGPUCommandEncoder;
typedef struct WGPUComputePassEncoderImpl *WGPUComputePassEncoder;
typedef struct WGPUComputePipelineImpl *WGPUComputePipeline;
typedef struct WGPUDeviceImpl *WGPUDevice;
typedef struct WGPUInstanceImpl *WGPUInstance;
typedef struct WGPUPipelineLayoutImpl *WGPUPipelineLayout;
typedef struct WGPUQuerySetImpl *WGPUQuerySet;
typedef struct WGPUQueueImpl *WGPUQueue;
typedef struct WGPUShaderModuleImpl *WGPUShaderModule;

typedef uint32_t WGPUBool;
typedef uint32_t WGPUEnum; /* every enumeration has 32 bits */
typedef uint64_t WGPUFlags;

/* ---- Numbers -------------------------------------------------------------------------------- */

enum { WGPU_STATUS_SUCCESS = 1 }; /* of every kind of status */
enum {
    WGPU_ERROR_NONE = 1, WGPU_ERROR_VALIDATION = 2, WGPU_ERROR_OUT_OF_MEMORY = 3,
    WGPU_ERROR_INTERNAL = 4
};
enum { WGPU_FILTER_VALIDATION = 1, WGPU_FILTER_OUT_OF_MEMORY = 2 };
enum { WGPU_CALLBACK_PROCESS_EVENTS = 2, WGPU_CALLBACK_SPONTANEOUS = 3 };
enum { WGPU_POWER_LOW = 1, WGPU_POWER_HIGH = 2 };
enum { WGPU_LEVEL_CORE = 2 };
enum {
    WGPU_BACKEND_UNDEFINED = 0, WGPU_BACKEND_NULL = 1, WGPU_BACKEND_WEBGPU = 2,
    WGPU_BACKEND_D3D11 = 3, WGPU_BACKEND_D3D12 = 4, WGPU_BACKEND_METAL = 5,
    WGPU_BACKEND_VULKAN = 6, WGPU_BACKEND_OPENGL = 7, WGPU_BACKEND_OPENGLES = 8
};
enum { WGPU_ADAPTER_DISCRETE = 1, WGPU_ADAPTER_INTEGRATED = 2, WGPU_ADAPTER_CPU = 3 };
enum { WGPU_LOST_DESTROYED = 2, WGPU_LOST_CANCELLED = 3 };
enum {
    WGPU_USAGE_MAP_READ = 0x1, WGPU_USAGE_COPY_SRC = 0x4, WGPU_USAGE_COPY_DST = 0x8,
    WGPU_USAGE_UNIFORM = 0x40, WGPU_USAGE_STORAGE = 0x80, WGPU_USAGE_QUERY_RESOLVE = 0x200
};
enum { WGPU_QUERY_TIMESTAMP = 2 };
#define WGPU_QUERY_UNDEFINED UINT32_MAX
enum { WGPU_MAP_READ = 1 };
enum { WGPU_STAGE_COMPUTE = 4 };
enum { WGPU_BINDING_UNIFORM = 2, WGPU_BINDING_STORAGE = 3 };
enum { WGPU_STYPE_SHADER_WGSL = 2 };
enum { RX_WG_LANGUAGE_DOT = 0x52580001 }; /* asked for like a feature; no library has it */

/* ---- Structs -------------------------------------------------------------------------------- */

typedef struct WGPUStringView {
    const char *data;
    size_t length;
} WGPUStringView;

typedef struct WGPUChainedStruct {
    struct WGPUChainedStruct *next;
    WGPUEnum sType;
} WGPUChainedStruct;

typedef struct WGPUFuture {
    uint64_t id;
} WGPUFuture;

typedef struct WGPUAdapterInfo {
    WGPUChainedStruct *nextInChain;
    WGPUStringView vendor, architecture, device, description;
    WGPUEnum backendType, adapterType;
    uint32_t vendorID, deviceID, subgroupMinSize, subgroupMaxSize;
} WGPUAdapterInfo;

typedef struct WGPULimits {
    WGPUChainedStruct *nextInChain;
    uint32_t maxTextureDimension1D, maxTextureDimension2D, maxTextureDimension3D;
    uint32_t maxTextureArrayLayers, maxBindGroups, maxBindGroupsPlusVertexBuffers;
    uint32_t maxBindingsPerBindGroup, maxDynamicUniformBuffersPerPipelineLayout;
    uint32_t maxDynamicStorageBuffersPerPipelineLayout, maxSampledTexturesPerShaderStage;
    uint32_t maxSamplersPerShaderStage, maxStorageBuffersPerShaderStage;
    uint32_t maxStorageTexturesPerShaderStage, maxUniformBuffersPerShaderStage;
    uint64_t maxUniformBufferBindingSize, maxStorageBufferBindingSize;
    uint32_t minUniformBufferOffsetAlignment, minStorageBufferOffsetAlignment;
    uint32_t maxVertexBuffers;
    uint64_t maxBufferSize;
    uint32_t maxVertexAttributes, maxVertexBufferArrayStride, maxInterStageShaderVariables;
    uint32_t maxColorAttachments, maxColorAttachmentBytesPerSample;
    uint32_t maxComputeWorkgroupStorageSize, maxComputeInvocationsPerWorkgroup;
    uint32_t maxComputeWorkgroupSizeX, maxComputeWorkgroupSizeY, maxComputeWorkgroupSizeZ;
    uint32_t maxComputeWorkgroupsPerDimension, maxImmediateSize;
} WGPULimits;

#define RX_WG_ROOM 1024
typedef union rx_wg_adapter_info {
    WGPUAdapterInfo info;
    char room[RX_WG_ROOM];
} rx_wg_adapter_info;
typedef union rx_wg_limits {
    WGPULimits limits;
    char room[RX_WG_ROOM];
} rx_wg_limits;

/* Callbacks: (status or type, [object,] message, userdata1, userdata2). */
typedef void rx_wg_on_adapter(WGPUEnum status, WGPUAdapter a, WGPUStringView m, void *u, void *v);
typedef void rx_wg_on_device(WGPUEnum status, WGPUDevice d, WGPUStringView m, void *u, void *v);
typedef void rx_wg_on_done(WGPUEnum status, WGPUStringView m, void *u, void *v);
typedef void rx_wg_on_work(WGPUEnum status, WGPUStringView m, void *u, void *v);
typedef void rx_wg_on_scope(WGPUEnum status, WGPUEnum type, WGPUStringView m, void *u, void *v);
typedef void rx_wg_on_device_message(WGPUDevice const *d, WGPUEnum kind, WGPUStringView m, void *u,
                                     void *v);

#define RX_WG_CALLBACK_INFO(name, type)                \
    typedef struct name {                              \
        WGPUChainedStruct *nextInChain;                \
        WGPUEnum mode;                                 \
        type *callback;                                \
        void *userdata1, *userdata2;                   \
    } name;
RX_WG_CALLBACK_INFO(WGPURequestAdapterCallbackInfo, rx_wg_on_adapter)
RX_WG_CALLBACK_INFO(WGPURequestDeviceCallbackInfo, rx_wg_on_device)
RX_WG_CALLBACK_INFO(WGPUBufferMapCallbackInfo, rx_wg_on_done)
RX_WG_CALLBACK_INFO(WGPUQueueWorkDoneCallbackInfo, rx_wg_on_work)
RX_WG_CALLBACK_INFO(WGPUPopErrorScopeCallbackInfo, rx_wg_on_scope)
RX_WG_CALLBACK_INFO(WGPUDeviceLostCallbackInfo, rx_wg_on_device_message)

typedef struct WGPUUncapturedErrorCallbackInfo {
    WGPUChainedStruct *nextInChain;
    rx_wg_on_device_message *callback;
    void *userdata1, *userdata2;
} WGPUUncapturedErrorCallbackInfo;

typedef struct WGPURequestAdapterOptions {
    WGPUChainedStruct *nextInChain;
    WGPUEnum featureLevel, powerPreference;
    WGPUBool forceFallbackAdapter;
    WGPUEnum backendType;
    void *compatibleSurface;
} WGPURequestAdapterOptions;

typedef struct WGPUQueueDescriptor {
    WGPUChainedStruct *nextInChain;
    WGPUStringView label;
} WGPUQueueDescriptor;

typedef struct WGPUDeviceDescriptor {
    WGPUChainedStruct *nextInChain;
    WGPUStringView label;
    size_t requiredFeatureCount;
    const WGPUEnum *requiredFeatures;
    const WGPULimits *requiredLimits;
    WGPUQueueDescriptor defaultQueue;
    WGPUDeviceLostCallbackInfo deviceLostCallbackInfo;
    WGPUUncapturedErrorCallbackInfo uncapturedErrorCallbackInfo;
} WGPUDeviceDescriptor;

typedef struct WGPUBufferDescriptor {
    WGPUChainedStruct *nextInChain;
    WGPUStringView label;
    WGPUFlags usage;
    uint64_t size;
    WGPUBool mappedAtCreation;
} WGPUBufferDescriptor;

typedef struct WGPUBufferBindingLayout {
    WGPUChainedStruct *nextInChain;
    WGPUEnum type;
    WGPUBool hasDynamicOffset;
    uint64_t minBindingSize;
} WGPUBufferBindingLayout;

typedef struct WGPUSamplerBindingLayout {
    WGPUChainedStruct *nextInChain;
    WGPUEnum type;
} WGPUSamplerBindingLayout;

typedef struct WGPUTextureBindingLayout {
    WGPUChainedStruct *nextInChain;
    WGPUEnum sampleType, viewDimension;
    WGPUBool multisampled;
} WGPUTextureBindingLayout;

typedef struct WGPUStorageTextureBindingLayout {
    WGPUChainedStruct *nextInChain;
    WGPUEnum access, format, viewDimension;
} WGPUStorageTextureBindingLayout;

typedef struct WGPUBindGroupLayoutEntry {
    WGPUChainedStruct *nextInChain;
    uint32_t binding;
    WGPUFlags visibility;
    uint32_t bindingArraySize;
    WGPUBufferBindingLayout buffer;
    WGPUSamplerBindingLayout sampler;
    WGPUTextureBindingLayout texture;
    WGPUStorageTextureBindingLayout storageTexture;
} WGPUBindGroupLayoutEntry;

typedef struct WGPUBindGroupLayoutDescriptor {
    WGPUChainedStruct *nextInChain;
    WGPUStringView label;
    size_t entryCount;
    const WGPUBindGroupLayoutEntry *entries;
} WGPUBindGroupLayoutDescriptor;

typedef struct WGPUPipelineLayoutDescriptor {
    WGPUChainedStruct *nextInChain;
    WGPUStringView label;
    size_t bindGroupLayoutCount;
    const WGPUBindGroupLayout *bindGroupLayouts;
    uint32_t immediateSize;
} WGPUPipelineLayoutDescriptor;

typedef struct WGPUBindGroupEntry {
    WGPUChainedStruct *nextInChain;
    uint32_t binding;
    WGPUBuffer buffer;
    uint64_t offset, size;
    void *sampler, *textureView;
} WGPUBindGroupEntry;

typedef struct WGPUBindGroupDescriptor {
    WGPUChainedStruct *nextInChain;
    WGPUStringView label;
    WGPUBindGroupLayout layout;
    size_t entryCount;
    const WGPUBindGroupEntry *entries;
} WGPUBindGroupDescriptor;

typedef struct WGPUShaderSourceWGSL {
    WGPUChainedStruct chain;
    WGPUStringView code;
} WGPUShaderSourceWGSL;

typedef struct WGPUShaderModuleDescriptor {
    WGPUChainedStruct *nextInChain;
    WGPUStringView label;
} WGPUShaderModuleDescriptor;

typedef struct WGPUComputeState {
    WGPUChainedStruct *nextInChain;
    WGPUShaderModule module;
    WGPUStringView entryPoint;
    size_t constantCount;
    const void *constants;
} WGPUComputeState;

typedef struct WGPUComputePipelineDescriptor {
    WGPUChainedStruct *nextInChain;
    WGPUStringView label;
    WGPUPipelineLayout layout;
    WGPUComputeState compute;
} WGPUComputePipelineDescriptor;

typedef struct WGPUQuerySetDescriptor {
    WGPUChainedStruct *nextInChain;
    WGPUStringView label;
    WGPUEnum type;
    uint32_t count;
} WGPUQuerySetDescriptor;

typedef struct WGPUPassTimestampWrites {
    WGPUChainedStruct *nextInChain;
    WGPUQuerySet querySet;
    uint32_t beginningOfPassWriteIndex, endOfPassWriteIndex;
} WGPUPassTimestampWrites;

typedef struct WGPUComputePassDescriptor {
    WGPUChainedStruct *nextInChain;
    WGPUStringView label;
    const WGPUPassTimestampWrites *timestampWrites;
} WGPUComputePassDescriptor;

/* wgpu-native alone. Zero is the default of all that follows `backends`, in every version. */
enum { WGPU_STYPE_INSTANCE_EXTRAS = 0x30004 };
enum {
    WGPU_INSTANCE_VULKAN = 1 << 0, WGPU_INSTANCE_GL = 1 << 1, WGPU_INSTANCE_METAL = 1 << 2,
    WGPU_INSTANCE_D3D12 = 1 << 3
};
typedef struct rx_wg_instance_extras {
    WGPUChainedStruct chain;
    WGPUFlags backends;
    char room[RX_WG_ROOM];
} rx_wg_instance_extras;

/* Dawn alone. */
enum { WGPU_STYPE_DAWN_TOGGLES = 0x5000a };
typedef struct WGPUDawnTogglesDescriptor {
    WGPUChainedStruct chain;
    size_t enabledToggleCount;
    const char *const *enabledToggles;
    size_t disabledToggleCount;
    const char *const *disabledToggles;
} WGPUDawnTogglesDescriptor;

typedef struct WGPUInstanceDescriptor {
    const WGPUChainedStruct *nextInChain;
    char room[RX_WG_ROOM];
} WGPUInstanceDescriptor;

typedef struct WGPUInstanceEnumerateAdapterOptions {
    const WGPUChainedStruct *nextInChain;
    WGPUFlags backends;
} WGPUInstanceEnumerateAdapterOptions;

/* ---- Functions ------------------------------------------------------------------------------ */

/* X(result, name without wgpu, arguments): all that rlx calls. In WebAssembly they are imports of
 * the module "env"; there adapter and device are given at once, callbacks run in
 * InstanceProcessEvents. */
#define RX_WG_FUNCTIONS(X)                                                                         \
    X(WGPUInstance, CreateInstance, (const void *))                                                \
    X(void, InstanceProcessEvents, (WGPUInstance))                                                 \
    X(WGPUFuture, InstanceRequestAdapter,                                                          \
      (WGPUInstance, const WGPURequestAdapterOptions *, WGPURequestAdapterCallbackInfo))           \
    X(WGPUEnum, AdapterGetInfo, (WGPUAdapter, WGPUAdapterInfo *))                                  \
    X(void, AdapterInfoFreeMembers, (WGPUAdapterInfo))                                             \
    X(WGPUEnum, AdapterGetLimits, (WGPUAdapter, WGPULimits *))                                     \
    X(WGPUBool, AdapterHasFeature, (WGPUAdapter, WGPUEnum))                                        \
    X(WGPUFuture, AdapterRequestDevice,                                                            \
      (WGPUAdapter, const WGPUDeviceDescriptor *, WGPURequestDeviceCallbackInfo))                  \
    X(void, AdapterRelease, (WGPUAdapter))                                                         \
    X(WGPUQueue, DeviceGetQueue, (WGPUDevice))                                                     \
    X(WGPUBuffer, DeviceCreateBuffer, (WGPUDevice, const WGPUBufferDescriptor *))                  \
    X(WGPUShaderModule, DeviceCreateShaderModule,                                                  \
      (WGPUDevice, const WGPUShaderModuleDescriptor *))                                            \
    X(WGPUBindGroupLayout, DeviceCreateBindGroupLayout,                                            \
      (WGPUDevice, const WGPUBindGroupLayoutDescriptor *))                                         \
    X(WGPUPipelineLayout, DeviceCreatePipelineLayout,                                              \
      (WGPUDevice, const WGPUPipelineLayoutDescriptor *))                                          \
    X(WGPUComputePipeline, DeviceCreateComputePipeline,                                            \
      (WGPUDevice, const WGPUComputePipelineDescriptor *))                                         \
    X(WGPUBindGroup, DeviceCreateBindGroup, (WGPUDevice, const WGPUBindGroupDescriptor *))         \
    X(WGPUCommandEncoder, DeviceCreateCommandEncoder, (WGPUDevice, const void *))                  \
    X(void, DevicePushErrorScope, (WGPUDevice, WGPUEnum))                                          \
    X(WGPUFuture, DevicePopErrorScope, (WGPUDevice, WGPUPopErrorScopeCallbackInfo))                \
    X(void, DeviceDestroy, (WGPUDevice))                                                           \
    X(void, DeviceRelease, (WGPUDevice))                                                           \
    X(WGPUComputePassEncoder, CommandEncoderBeginComputePass, (WGPUCommandEncoder, const void *))  \
    X(void, CommandEncoderClearBuffer, (WGPUCommandEncoder, WGPUBuffer, uint64_t, uint64_t))       \
    X(void, CommandEncoderCopyBufferToBuffer,                                                      \
      (WGPUCommandEncoder, WGPUBuffer, uint64_t, WGPUBuffer, uint64_t, uint64_t))                  \
    X(WGPUCommandBuffer, CommandEncoderFinish, (WGPUCommandEncoder, const void *))                 \
    X(void, CommandEncoderRelease, (WGPUCommandEncoder))                                           \
    X(void, CommandBufferRelease, (WGPUCommandBuffer))                                             \
    X(void, ComputePassEncoderSetPipeline, (WGPUComputePassEncoder, WGPUComputePipeline))          \
    X(void, ComputePassEncoderSetBindGroup,                                                        \
      (WGPUComputePassEncoder, uint32_t, WGPUBindGroup, size_t, const uint32_t *))                 \
    X(void, ComputePassEncoderDispatchWorkgroups,                                                  \
      (WGPUComputePassEncoder, uint32_t, uint32_t, uint32_t))                                      \
    X(void, ComputePassEncoderEnd, (WGPUComputePassEncoder))                                       \
    X(void, ComputePassEncoderRelease, (WGPUComputePassEncoder))                                   \
    X(void, QueueSubmit, (WGPUQueue, size_t, const WGPUCommandBuffer *))                           \
    X(void, QueueWriteBuffer, (WGPUQueue, WGPUBuffer, uint64_t, const void *, size_t))             \
    X(WGPUFuture, QueueOnSubmittedWorkDone, (WGPUQueue, WGPUQueueWorkDoneCallbackInfo))            \
    X(void, QueueRelease, (WGPUQueue))                                                             \
    X(WGPUFuture, BufferMapAsync,                                                                  \
      (WGPUBuffer, WGPUFlags, size_t, size_t, WGPUBufferMapCallbackInfo))                          \
    X(const void *, BufferGetConstMappedRange, (WGPUBuffer, size_t, size_t))                       \
    X(void, BufferUnmap, (WGPUBuffer))                                                             \
    X(void, BufferDestroy, (WGPUBuffer))                                                           \
    X(void, BufferRelease, (WGPUBuffer))                                                           \
    X(void, BindGroupRelease, (WGPUBindGroup))                                                     \
    X(void, BindGroupLayoutRelease, (WGPUBindGroupLayout))                                         \
    X(void, PipelineLayoutRelease, (WGPUPipelineLayout))                                           \
    X(void, ComputePipelineRelease, (WGPUComputePipeline))                                         \
    X(void, ShaderModuleRelease, (WGPUShaderModule))

/* X(result, name, arguments): functions that are used where they are there: those of timestamps,
 * which pages do without, and those of wgpu-native alone. */
#define RX_WG_OPTIONAL_FUNCTIONS(X)                                                                \
    X(uint32_t, GetVersion, (void))                                                                \
    X(size_t, InstanceEnumerateAdapters,                                                           \
      (WGPUInstance, const WGPUInstanceEnumerateAdapterOptions *, WGPUAdapter *))                  \
    X(WGPUQuerySet, DeviceCreateQuerySet, (WGPUDevice, const WGPUQuerySetDescriptor *))            \
    X(void, QuerySetRelease, (WGPUQuerySet))                                                       \
    X(void, CommandEncoderResolveQuerySet,                                                         \
      (WGPUCommandEncoder, WGPUQuerySet, uint32_t, uint32_t, WGPUBuffer, uint64_t))                \
    X(float, QueueGetTimestampPeriod, (WGPUQueue))                                                 \
    X(WGPUBool, DevicePoll, (WGPUDevice, WGPUBool, const uint64_t *))                              \
    X(uint64_t, QueueSubmitForIndex, (WGPUQueue, size_t, const WGPUCommandBuffer *))               \
    X(WGPUShaderModule, DeviceCreateShaderModuleTrusted,                                           \
      (WGPUDevice, const WGPUShaderModuleDescriptor *, WGPUFlags))

#ifdef __wasm__
/* Browsers: sleeps until a callback has run or so many nanoseconds are over. Returns 1, 2 when the
 * time is over, 3 when the browser cannot suspend WebAssembly (no JSPI). */
__attribute__((import_module("env"), import_name("wgpuInstanceWaitAny")))
WGPUEnum wgpuInstanceWaitAny(WGPUInstance, size_t, void *, uint64_t);
#define X(result, name, args) \
    __attribute__((import_module("env"), import_name("wgpu" #name))) result wgpu##name args;
RX_WG_FUNCTIONS(X)
#undef X
#endif

#endif
