/* SPDX-License-Identifier: MIT */
/* The capabilities of an adapter: queried once, kept as data, and lowered as RLX_LIMITS says.
 * Adapters without compute, or of a backend that was not asked for, are refused. */
#include <stdio.h>
#include <string.h>

#include "base/env.h"
#include "webgpu/device.h"

/* ---- Backends ------------------------------------------------------------------------------- */

static const struct { WGPUEnum backend; const char *text, *name; } backends[] = {
    {WGPU_BACKEND_VULKAN, "Vulkan", "vulkan"}, {WGPU_BACKEND_METAL, "Metal", "metal"},
    {WGPU_BACKEND_D3D12, "Direct3D 12", "d3d12"}, {WGPU_BACKEND_D3D12, "Direct3D 12", "dx12"},
    {WGPU_BACKEND_OPENGL, "OpenGL", "gl"}, {WGPU_BACKEND_OPENGLES, "OpenGL ES", "gles"},
    {WGPU_BACKEND_D3D11, "Direct3D 11", "d3d11"}, {WGPU_BACKEND_WEBGPU, "a browser", "browser"},
    {WGPU_BACKEND_NULL, "nothing", "null"}};
#define N_BACKENDS (sizeof backends / sizeof *backends)

static const char *backend_text(WGPUEnum backend)
{
    for (size_t i = 0; i < N_BACKENDS; i++)
        if (backends[i].backend == backend)
            return backends[i].text;
    return "an unknown backend";
}

bool rx_wg_wanted_backend(WGPUEnum *out, char why[256])
{
    const char *text = rx_env_text(RX_ENV_WEBGPU_BACKEND);
    *out = WGPU_BACKEND_UNDEFINED;
    if (!text)
        return true;
    for (size_t i = 0; i < N_BACKENDS; i++)
        if (!strcmp(backends[i].name, text)) {
            *out = backends[i].backend;
            return true;
        }
    snprintf(why, 256, "RLX_WEBGPU_BACKEND: '%.60s' is not vulkan, metal, d3d12 or gl", text);
    return false;
}

static bool is_gl(WGPUEnum backend)
{
    return backend == WGPU_BACKEND_OPENGL || backend == WGPU_BACKEND_OPENGLES;
}

static bool accept_backend(const rx_wg_gpu *gpu, char why[256])
{
    WGPUEnum wanted;
    if (!rx_wg_wanted_backend(&wanted, why))
        return false;
    if (gpu->backend == WGPU_BACKEND_NULL)
        snprintf(why, 256, "the library found no driver that it can use, only its Null adapter, "
                 "which computes nothing");
    else if (!wanted && is_gl(gpu->backend))
        snprintf(why, 256, "%.80s is only there through OpenGL, which is not used unless "
                 "RLX_WEBGPU_BACKEND=gl asks for it", gpu->info.name);
    else if (wanted && gpu->backend != wanted && !(is_gl(wanted) && is_gl(gpu->backend)))
        snprintf(why, 256, "%.80s runs on %s, not on what RLX_WEBGPU_BACKEND asks for",
                 gpu->info.name, backend_text(gpu->backend));
    else
        return true;
    return false;
}

/* ---- Facts ---------------------------------------------------------------------------------- */

/* Kernels are compiled for one subgroup size. Where the library does not report it the self-check
 * determines it, for vendors whose subgroups are uniform. */
static bool has_one_size(const rx_wg_library *lib, const WGPUAdapterInfo *i)
{
    static const uint32_t makers[] = {0x10de /* NVIDIA */, 0x106b /* Apple */, 0x10005 /* Mesa */};
    if (i->subgroupMaxSize)
        return i->subgroupMinSize == i->subgroupMaxSize && i->subgroupMinSize >= 4 &&
               i->subgroupMinSize <= 128;
    bool known = false;
    for (size_t k = 0; k < sizeof makers / sizeof *makers; k++)
        known |= makers[k] == i->vendorID;
    return known && lib->flavour->symbol; /* a page cannot wait for the self-check */
}

static void copy_lower(WGPUStringView s, char *text, size_t cap)
{
    rx_wg_copy_text(s, text, cap);
    for (char *c = text; *c; c++)
        *c = *c >= 'A' && *c <= 'Z' ? (char)(*c + 32) : *c;
}

static bool has_word(WGPUStringView s, const char *word)
{
    char text[256];
    copy_lower(s, text, sizeof text);
    return strstr(text, word) != NULL;
}

static bool is_software(const WGPUAdapterInfo *i)
{
    const WGPUStringView texts[] = {i->device, i->architecture, i->description};
    bool soft = i->adapterType == WGPU_ADAPTER_CPU;
    for (int k = 0; k < 3; k++)
        soft |= has_word(texts[k], "llvmpipe") || has_word(texts[k], "swiftshader");
    return soft;
}

static bool is_alnum(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z');
}

/* Whether the words occur in the text as whole words. */
static bool has_words(const char *text, const char *words)
{
    const size_t n = strlen(words);
    for (const char *at = strstr(text, words); at && n; at = strstr(at + 1, words))
        if ((at == text || !is_alnum(at[-1])) && !is_alnum(at[n]))
            return true;
    return n == 0;
}

uint32_t rx_wg_compute_units(uint32_t vendor, const char *name)
{
    static const struct { uint32_t vendor; const char *name; uint32_t units; } table[] = {
#define UNITS(vendor, name, units) {vendor, name, units},
#include "webgpu/units.def"
#undef UNITS
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i].vendor == vendor && has_words(name, table[i].name))
            return table[i].units;
    return 0;
}

/* Browsers report the vendor by name, without its number. */
static uint32_t vendor_of(const WGPUAdapterInfo *i)
{
    static const struct { const char *name; uint32_t id; } makers[] = {
        {"nvidia", 0x10de}, {"amd", 0x1002}, {"intel", 0x8086}, {"apple", 0x106b}};
    for (size_t k = 0; !i->vendorID && k < sizeof makers / sizeof *makers; k++)
        if (has_word(i->vendor, makers[k].name))
            return makers[k].id;
    return i->vendorID;
}

static uint32_t find_units(const WGPUAdapterInfo *i)
{
    char device[256], kind[64], name[336];
    copy_lower(i->device, device, sizeof device);
    copy_lower(i->architecture, kind, sizeof kind);
    snprintf(name, sizeof name, "%s %s", device, kind);
    return rx_wg_compute_units(vendor_of(i), name);
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static void fill_caps(rx_wg_library *lib, rx_wg_gpu *gpu, const WGPUAdapterInfo *info)
{
    const WGPULimits *l = &gpu->limits.limits;
    uint32_t groups = l->maxComputeWorkgroupsPerDimension;
    gpu->f16 = lib->AdapterHasFeature(gpu->adapter, lib->flavour->f16);
    gpu->subgroups = lib->AdapterHasFeature(gpu->adapter, lib->flavour->subgroups) &&
                     has_one_size(lib, info);
    gpu->timestamps = lib->DeviceCreateQuerySet && lib->QuerySetRelease &&
                      lib->CommandEncoderResolveQuerySet &&
                      lib->AdapterHasFeature(gpu->adapter, lib->flavour->timestamps);
    gpu->caps = (rx_gpu_caps){
        .max_invocations = least(l->maxComputeInvocationsPerWorkgroup, l->maxComputeWorkgroupSizeX),
        .max_shared_bytes = l->maxComputeWorkgroupStorageSize,
        .max_groups = {groups, groups, groups},
        .max_push_bytes = 4 * RX_GPU_MAX_PUSH,
        .max_bindings = least(l->maxStorageBuffersPerShaderStage, RX_GPU_MAX_BIND),
        .max_binding_bytes = l->maxStorageBufferBindingSize & ~(uint64_t)15,
        .binding_align = l->minStorageBufferOffsetAlignment,
        .subgroup = gpu->subgroups ? info->subgroupMinSize : 0,
        .subgroup_arith = gpu->subgroups,
        .subgroup_shuffle = gpu->subgroups,
        .f16 = gpu->f16,
        .int_dot = !lib->flavour->dot || lib->AdapterHasFeature(gpu->adapter, lib->flavour->dot),
        .compute_units = find_units(info),
        .windows = true,
        .joins = true,
        .is_software = is_software(info)};
    uint64_t most = gpu->caps.is_software ? (uint64_t)1 << 30 : (uint64_t)4 << 30;
    gpu->max_block_bytes = (l->maxBufferSize < most ? l->maxBufferSize : most) &
                           ~(uint64_t)(RX_GPU_ALIGN - 1);
}

/* ---- Words ---------------------------------------------------------------------------------- */

/* Browsers report no device name, only a vendor and an architecture. */
static void name_adapter(const WGPUAdapterInfo *info, char *out, size_t cap)
{
    char vendor[64], kind[64];
    rx_wg_copy_text(info->device, out, cap);
    if (!*out)
        rx_wg_copy_text(info->description, out, cap);
    if (*out)
        return;
    rx_wg_copy_text(info->vendor, vendor, sizeof vendor);
    rx_wg_copy_text(info->architecture, kind, sizeof kind);
    snprintf(out, cap, "%s%s%s", *vendor ? vendor : "a GPU", *kind ? " " : "", kind);
}

static void describe(rx_wg_library *lib, rx_wg_gpu *gpu, const WGPUAdapterInfo *info)
{
    rlx_device_info *to = &gpu->info;
    char driver[64];
    rx_wg_copy_text(info->description, driver, sizeof driver);
    snprintf(to->backend, sizeof to->backend, "webgpu");
    name_adapter(info, to->name, sizeof to->name);
    snprintf(to->driver, sizeof to->driver, "%.40s on %s%s%s", lib->name,
             backend_text(gpu->backend), *driver ? ", " : "", driver);
    to->is_software = gpu->caps.is_software;
}

void rx_wg_detail(const rx_wg_gpu *gpu, const rx_gpu_caps *c, const char *note, char *out,
                  size_t cap)
{
    char subgroup[64] = "no subgroups", units[40] = "";
    if (c->compute_units)
        snprintf(units, sizeof units, "%u compute units, ", (unsigned)c->compute_units);
    if (c->subgroup_arith && !c->subgroup)
        snprintf(subgroup, sizeof subgroup, "subgroups");
    else if (c->subgroup)
        snprintf(subgroup, sizeof subgroup, "subgroups of %u", (unsigned)c->subgroup);
    snprintf(out, cap,
             "%s, %s%s, %s%s%sworkgroups of %u, %u KiB shared, %u bindings of %llu MiB, buffers of "
             "%llu MiB%s%s", backend_text(gpu->backend), units, subgroup, c->f16 ? "f16, " : "",
             c->int_dot ? "integer dot, " : "", gpu->timestamps ? "timestamps, " : "",
             (unsigned)c->max_invocations, (unsigned)(c->max_shared_bytes >> 10),
             (unsigned)c->max_bindings, (unsigned long long)(c->max_binding_bytes >> 20),
             (unsigned long long)(gpu->max_block_bytes >> 20), *note ? "; " : "", note);
}

bool rx_wg_gpu_examine(rx_wg_library *lib, WGPUAdapter a, rx_wg_gpu *out, char why[256])
{
    rx_wg_adapter_info info;
    memset(&info, 0, sizeof info);
    memset(out, 0, sizeof *out);
    out->adapter = a;
    if (lib->AdapterGetInfo(a, &info.info) != WGPU_STATUS_SUCCESS ||
        lib->AdapterGetLimits(a, &out->limits.limits) != WGPU_STATUS_SUCCESS) {
        snprintf(why, 256, "an adapter does not tell its limits");
        return false;
    }
    out->limits.limits.nextInChain = NULL;
    out->backend = info.info.backendType;
    out->type = info.info.adapterType;
    fill_caps(lib, out, &info.info);
    describe(lib, out, &info.info);
    lib->AdapterInfoFreeMembers(info.info);
    if (!accept_backend(out, why))
        return false;
    rx_gpu_limits l = {&out->caps, &out->max_block_bytes, &out->memory_limit, NULL};
    rx_gpu_limits_apply(&l, rx_env_text(RX_ENV_LIMITS));
    if (out->memory_limit)
        out->info.memory = out->memory_limit;
    if (out->caps.is_software) { /* as slow as everything else there */
        out->caps.int_dot = false;
        out->caps.compute_units = 0;
    }
    rx_wg_detail(out, &out->caps, "", out->info.detail, sizeof out->info.detail);
    return rx_gpu_caps_enough(&out->caps, out->info.name, why);
}
