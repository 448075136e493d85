/* SPDX-License-Identifier: MIT */
/* Queries a physical device for its features and limits, and lowers them as RLX_LIMITS says, so
 * that tests run as on the smallest device. */
#include "vulkan/caps.h"

#include <stdio.h>
#include <string.h>

#include "base/env.h"
#include "gpu/select/plan.h"

/* ---- Extensions and features ---------------------------------------------------------------- */

/* Of drivers that lack a part of Vulkan; headers have the name only with their beta parts. */
#define PORTABILITY_SUBSET "VK_KHR_portability_subset"

typedef struct extensions {
    VkExtensionProperties *list;
    uint32_t n;
    uint32_t version; /* of the device */
} extensions;

static void list_extensions(const rx_vk_instance *vk, VkPhysicalDevice gpu, extensions *e)
{
    VkPhysicalDeviceProperties2 p = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2};
    vk->GetPhysicalDeviceProperties2(gpu, &p);
    *e = (extensions){.version = p.properties.apiVersion};
    uint32_t n = 0;
    if (vk->EnumerateDeviceExtensionProperties(gpu, NULL, &n, NULL) != VK_SUCCESS || !n)
        return;
    e->list = rx_alloc_array(n, sizeof *e->list);
    if (e->list && vk->EnumerateDeviceExtensionProperties(gpu, NULL, &n, e->list) >= VK_SUCCESS)
        e->n = n;
}

static bool has_extension(const extensions *e, const char *name)
{
    for (uint32_t i = 0; i < e->n; i++)
        if (!strcmp(e->list[i].extensionName, name))
            return true;
    return false;
}

/* Links a feature structure when the device knows it: from `core` on, or by its extension. */
static void *link_feature(rx_vk_features *f, const extensions *e, void *feature,
                          const char *extension, uint32_t core)
{
    bool in_core = core && e->version >= core;
    if (!in_core && !has_extension(e, extension))
        return NULL;
    if (!in_core && f->n_extensions < RX_VK_MAX_EXTENSIONS)
        f->extensions[f->n_extensions++] = extension;
    VkBaseOutStructure *s = feature;
    s->pNext = f->base.pNext;
    f->base.pNext = s;
    return feature;
}

static void link_features(rx_vk_features *f, const extensions *e)
{
    const uint32_t v11 = VK_API_VERSION_1_1, v12 = VK_API_VERSION_1_2, v13 = VK_API_VERSION_1_3;
    link_feature(f, e, &f->storage16, VK_KHR_16BIT_STORAGE_EXTENSION_NAME, v11);
    link_feature(f, e, &f->storage8, VK_KHR_8BIT_STORAGE_EXTENSION_NAME, v12);
    link_feature(f, e, &f->float16_int8, VK_KHR_SHADER_FLOAT16_INT8_EXTENSION_NAME, v12);
    link_feature(f, e, &f->address, VK_KHR_BUFFER_DEVICE_ADDRESS_EXTENSION_NAME, v12);
    link_feature(f, e, &f->memory_model, VK_KHR_VULKAN_MEMORY_MODEL_EXTENSION_NAME, v12);
    link_feature(f, e, &f->scalar_layout, VK_EXT_SCALAR_BLOCK_LAYOUT_EXTENSION_NAME, v12);
    link_feature(f, e, &f->size_control, VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME, v13);
    link_feature(f, e, &f->int_dot, VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME, v13);
    link_feature(f, e, &f->maintenance4, VK_KHR_MAINTENANCE_4_EXTENSION_NAME, v13);
    link_feature(f, e, &f->coopmat, VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME, 0);
    link_feature(f, e, &f->bfloat16, VK_KHR_SHADER_BFLOAT16_EXTENSION_NAME, 0);
}

void rx_vk_features_ask(const rx_vk_instance *vk, VkPhysicalDevice handle, bool statistics,
                        rx_vk_features *f)
{
    *f = (rx_vk_features){
        .base.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,
        .storage16.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES,
        .storage8.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_8BIT_STORAGE_FEATURES,
        .float16_int8.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES,
        .address.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_BUFFER_DEVICE_ADDRESS_FEATURES,
        .memory_model.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_MEMORY_MODEL_FEATURES,
        .scalar_layout.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SCALAR_BLOCK_LAYOUT_FEATURES,
        .size_control.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES,
        .int_dot.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES,
        .maintenance4.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_FEATURES,
        .coopmat.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR,
        .bfloat16.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_BFLOAT16_FEATURES_KHR,
        .statistics.sType =
            VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR};
    extensions e;
    list_extensions(vk, handle, &e);
    link_features(f, &e);
    if (statistics)
        link_feature(f, &e, &f->statistics, VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME,
                     0);
    if (has_extension(&e, VK_EXT_MEMORY_BUDGET_EXTENSION_NAME))
        f->extensions[f->n_extensions++] = VK_EXT_MEMORY_BUDGET_EXTENSION_NAME;
    if (has_extension(&e, PORTABILITY_SUBSET)) /* must be enabled where it is */
        f->extensions[f->n_extensions++] = PORTABILITY_SUBSET;
    if (e.version < VK_API_VERSION_1_2 &&
        has_extension(&e, VK_KHR_SHADER_FLOAT_CONTROLS_EXTENSION_NAME))
        f->extensions[f->n_extensions++] = VK_KHR_SHADER_FLOAT_CONTROLS_EXTENSION_NAME;
    rx_free(e.list);
    vk->GetPhysicalDeviceFeatures2(handle, &f->base);
    /* only what kernels use: robustness and capture cost time */
    VkPhysicalDeviceFeatures all = f->base.features;
    f->base.features = (VkPhysicalDeviceFeatures){.shaderInt16 = all.shaderInt16,
                                                  .shaderInt64 = all.shaderInt64};
    f->address.bufferDeviceAddressCaptureReplay = VK_FALSE;
    f->address.bufferDeviceAddressMultiDevice = VK_FALSE;
    f->coopmat.cooperativeMatrixRobustBufferAccess = VK_FALSE;
}

/* ---- Capabilities --------------------------------------------------------------------------- */

typedef struct properties {
    VkPhysicalDeviceProperties2 base;
    VkPhysicalDeviceSubgroupProperties subgroup;
    VkPhysicalDeviceMaintenance3Properties maintenance3;
    VkPhysicalDeviceDriverProperties driver;
    VkPhysicalDeviceMaintenance4Properties maintenance4;
    VkPhysicalDeviceSubgroupSizeControlProperties size_control;
    VkPhysicalDeviceShaderIntegerDotProductProperties int_dot;
    VkPhysicalDeviceShaderSMBuiltinsPropertiesNV sm;
    VkPhysicalDeviceFloatControlsProperties floats;
} properties;

static void link_property(properties *p, void *property, bool known)
{
    VkBaseOutStructure *s = property;
    if (!known)
        return;
    s->pNext = p->base.pNext;
    p->base.pNext = s;
}

static void ask_properties(const rx_vk_instance *vk, VkPhysicalDevice gpu, properties *p)
{
    extensions e;
    list_extensions(vk, gpu, &e);
    bool v12 = e.version >= VK_API_VERSION_1_2, v13 = e.version >= VK_API_VERSION_1_3;
    *p = (properties){
        .base.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
        .subgroup.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES,
        .maintenance3.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES,
        .driver.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES,
        .maintenance4.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_PROPERTIES,
        .size_control.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES,
        .int_dot.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_PROPERTIES,
        .sm.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_SM_BUILTINS_PROPERTIES_NV,
        .floats.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FLOAT_CONTROLS_PROPERTIES};
    link_property(p, &p->subgroup, true);
    link_property(p, &p->maintenance3, true);
    link_property(p, &p->driver, v12 || has_extension(&e, VK_KHR_DRIVER_PROPERTIES_EXTENSION_NAME));
    link_property(p, &p->maintenance4,
                  v13 || has_extension(&e, VK_KHR_MAINTENANCE_4_EXTENSION_NAME));
    link_property(p, &p->size_control,
                  v13 || has_extension(&e, VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME));
    link_property(p, &p->int_dot,
                  v13 || has_extension(&e, VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME));
    link_property(p, &p->floats,
                  v12 || has_extension(&e, VK_KHR_SHADER_FLOAT_CONTROLS_EXTENSION_NAME));
    link_property(p, &p->sm, has_extension(&e, VK_NV_SHADER_SM_BUILTINS_EXTENSION_NAME));
    rx_free(e.list);
    vk->GetPhysicalDeviceProperties2(gpu, &p->base);
}

/* Matrices of a shape and of types that kernels use. */
static bool is_usable(const VkCooperativeMatrixPropertiesKHR *m)
{
    return (m->MSize == 8 || m->MSize == 16) && (m->NSize == 8 || m->NSize == 16) &&
           (m->KSize == 8 || m->KSize == 16) && m->scope == VK_SCOPE_SUBGROUP_KHR &&
           !m->saturatingAccumulation && m->AType == m->BType && m->CType == m->ResultType;
}

/* The largest shape of f16 with f32 sums becomes that of the device. */
static void choose_shape(const VkCooperativeMatrixPropertiesKHR *list, uint32_t n,
                         rx_gpu_caps *caps)
{
    for (uint32_t i = 0; i < n; i++) {
        const VkCooperativeMatrixPropertiesKHR *m = &list[i];
        if (!is_usable(m) || m->AType != VK_COMPONENT_TYPE_FLOAT16_KHR ||
            m->CType != VK_COMPONENT_TYPE_FLOAT32_KHR ||
            m->MSize * m->NSize * m->KSize <=
                caps->coopmat_m * caps->coopmat_n * caps->coopmat_k)
            continue;
        caps->coopmat_m = m->MSize;
        caps->coopmat_n = m->NSize;
        caps->coopmat_k = m->KSize;
        caps->coopmat_f16 = true;
    }
}

static bool has_shape(const VkCooperativeMatrixPropertiesKHR *m, const rx_gpu_caps *caps)
{
    return is_usable(m) && m->MSize == caps->coopmat_m && m->NSize == caps->coopmat_n &&
           m->KSize == caps->coopmat_k;
}

static void ask_matrices(const rx_vk_instance *vk, VkPhysicalDevice gpu, const rx_vk_features *f,
                         rx_gpu_caps *caps)
{
    uint32_t n = 0;
    if (!f->coopmat.cooperativeMatrix || !vk->GetPhysicalDeviceCooperativeMatrixPropertiesKHR ||
        vk->GetPhysicalDeviceCooperativeMatrixPropertiesKHR(gpu, &n, NULL) != VK_SUCCESS || !n)
        return;
    VkCooperativeMatrixPropertiesKHR *list = rx_alloc_array_zero(n, sizeof *list);
    for (uint32_t i = 0; list && i < n; i++)
        list[i].sType = VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_KHR;
    if (!list || vk->GetPhysicalDeviceCooperativeMatrixPropertiesKHR(gpu, &n, list) < VK_SUCCESS)
        n = 0;
    choose_shape(list, n, caps);
    for (uint32_t i = 0; i < n; i++) {
        if (!has_shape(&list[i], caps))
            continue;
        bool f32_sum = list[i].CType == VK_COMPONENT_TYPE_FLOAT32_KHR;
        if (list[i].AType == VK_COMPONENT_TYPE_FLOAT16_KHR)
            caps->coopmat_f16_acc |= list[i].CType == VK_COMPONENT_TYPE_FLOAT16_KHR;
        if (list[i].AType == VK_COMPONENT_TYPE_BFLOAT16_KHR &&
            f->bfloat16.shaderBFloat16CooperativeMatrix)
            caps->coopmat_bf16 |= f32_sum;
    }
    rx_free(list);
}

/* The size of subgroups for kernels with matrices. Those of 16x16x16 have the usual size: RADV has
 * 64 for RDNA 3, where tiles of 128 x 128 need 132 registers and, by its estimate, half of the
 * cycles that they take with subgroups of 32, 240 registers and some of them in memory. Smaller
 * matrices have a lane for each column, where the size can be chosen. */
static void choose_subgroup(const properties *p, bool can_choose, rx_gpu_caps *caps)
{
    const uint32_t want = caps->coopmat_m == 16 ? caps->subgroup : caps->coopmat_n;
    const bool offered = can_choose && want >= p->size_control.minSubgroupSize &&
                         want <= p->size_control.maxSubgroupSize;
    caps->coopmat_subgroup = offered ? want : caps->subgroup;
    caps->coopmat_fragments = caps->coopmat_f16 && caps->subgroup == 32 &&
                              caps->coopmat_subgroup == 32 && caps->coopmat_m == 16 &&
                              caps->coopmat_n == 16 && caps->coopmat_k == 16;
}

static bool is_software(const VkPhysicalDeviceProperties *p)
{
    return p->deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU || strstr(p->deviceName, "llvmpipe") ||
           strstr(p->deviceName, "SwiftShader");
}

static void fill_caps(const rx_vk_instance *vk, rx_vk_gpu *gpu, const rx_vk_features *f,
                      const properties *p)
{
    const VkPhysicalDeviceLimits *l = &gpu->props.limits;
    const VkSubgroupFeatureFlags arith = VK_SUBGROUP_FEATURE_BASIC_BIT |
        VK_SUBGROUP_FEATURE_VOTE_BIT | VK_SUBGROUP_FEATURE_BALLOT_BIT |
        VK_SUBGROUP_FEATURE_ARITHMETIC_BIT;
    const VkSubgroupFeatureFlags shuffle = VK_SUBGROUP_FEATURE_SHUFFLE_BIT |
        VK_SUBGROUP_FEATURE_SHUFFLE_RELATIVE_BIT;
    bool in_compute = p->subgroup.supportedStages & VK_SHADER_STAGE_COMPUTE_BIT;
    VkSubgroupFeatureFlags ops = in_compute ? p->subgroup.supportedOperations : 0;
    gpu->caps = (rx_gpu_caps){
        .max_invocations = l->maxComputeWorkGroupInvocations < l->maxComputeWorkGroupSize[0]
                               ? l->maxComputeWorkGroupInvocations
                               : l->maxComputeWorkGroupSize[0],
        .max_shared_bytes = l->maxComputeSharedMemorySize,
        .max_groups = {l->maxComputeWorkGroupCount[0], l->maxComputeWorkGroupCount[1],
                       l->maxComputeWorkGroupCount[2]},
        .max_push_bytes = l->maxPushConstantsSize < 4 * RX_GPU_MAX_PUSH ? l->maxPushConstantsSize
                                                                       : 4 * RX_GPU_MAX_PUSH,
        .max_bindings = l->maxPerStageDescriptorStorageBuffers < RX_GPU_MAX_BIND
                            ? l->maxPerStageDescriptorStorageBuffers : RX_GPU_MAX_BIND,
        .max_binding_bytes = l->maxStorageBufferRange,
        .binding_align = (uint32_t)l->minStorageBufferOffsetAlignment,
        .subgroup = ops & VK_SUBGROUP_FEATURE_BASIC_BIT ? p->subgroup.subgroupSize : 0,
        .subgroup_arith = (ops & arith) == arith,
        .subgroup_shuffle = (ops & shuffle) == shuffle,
        .loose_barriers = true,
        .f16 = f->float16_int8.shaderFloat16,
        .storage16 = f->storage16.storageBuffer16BitAccess,
        .storage8 = f->storage8.storageBuffer8BitAccess,
        .int8 = f->float16_int8.shaderInt8,
        .int16 = f->base.features.shaderInt16,
        .subnormals = p->floats.shaderDenormPreserveFloat32,
        .address = f->address.bufferDeviceAddress && f->base.features.shaderInt64,
        .coherent = true,
        .chains = l->maxPushConstantsSize >= 4 * RX_VK_MAX_PUSH,
        .int_dot = f->int_dot.shaderIntegerDotProduct &&
                   p->int_dot.integerDotProduct4x8BitPackedSignedAccelerated,
        .int_dot_signed = !p->int_dot.integerDotProduct4x8BitPackedMixedSignednessAccelerated,
        .is_software = is_software(&gpu->props),
        .windows = true,
        .compute_units = p->sm.shaderSMCount};
    gpu->keeps_order = p->driver.driverID == VK_DRIVER_ID_NVIDIA_PROPRIETARY;
    ask_matrices(vk, gpu->handle, f, &gpu->caps);
    if (f->size_control.subgroupSizeControl && f->size_control.computeFullSubgroups &&
        p->size_control.requiredSubgroupSizeStages & VK_SHADER_STAGE_COMPUTE_BIT)
        gpu->force_subgroup = gpu->caps.subgroup;
    gpu->caps.subgroup_least = p->size_control.minSubgroupSize;
    gpu->caps.subgroup_32 = gpu->force_subgroup && p->size_control.minSubgroupSize <= 32 &&
                            p->size_control.maxSubgroupSize >= 32;
    choose_subgroup(p, gpu->force_subgroup != 0, &gpu->caps);
}

/* ---- Examining a device --------------------------------------------------------------------- */

/* The first compute family, and the first transfer-only one: drivers list preferred families
 * first. */
static bool find_families(const rx_vk_instance *vk, rx_vk_gpu *gpu)
{
    VkQueueFamilyProperties families[32];
    uint32_t n = 32;
    vk->GetPhysicalDeviceQueueFamilyProperties(gpu->handle, &n, families);
    uint32_t compute = n, transfer = n;
    for (uint32_t i = n; i-- > 0;) {
        VkQueueFlags flags = families[i].queueFlags;
        if (!families[i].queueCount)
            continue;
        if (flags & VK_QUEUE_COMPUTE_BIT)
            compute = i;
        else if (flags & VK_QUEUE_TRANSFER_BIT && !(flags & VK_QUEUE_GRAPHICS_BIT))
            transfer = i;
    }
    gpu->family = compute;
    gpu->clock_bits = compute < n ? families[compute].timestampValidBits : 0;
    gpu->transfer_family = transfer < n ? transfer : compute;
    return compute < n;
}

static void ask_memory(const rx_vk_instance *vk, rx_vk_gpu *gpu, const properties *p)
{
    VkPhysicalDeviceMemoryProperties2 m = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2};
    vk->GetPhysicalDeviceMemoryProperties2(gpu->handle, &m);
    gpu->memory = m.memoryProperties;
    for (uint32_t i = 0; i < gpu->memory.memoryHeapCount; i++)
        if (gpu->memory.memoryHeaps[i].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT &&
            gpu->memory.memoryHeaps[i].size > gpu->info.memory)
            gpu->info.memory = gpu->memory.memoryHeaps[i].size;
    gpu->unified = gpu->props.deviceType == VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU ||
                   gpu->caps.is_software;
    uint64_t most = gpu->caps.is_software ? (uint64_t)1 << 30 : (uint64_t)4 << 30;
    if (p->maintenance3.maxMemoryAllocationSize && p->maintenance3.maxMemoryAllocationSize < most)
        most = p->maintenance3.maxMemoryAllocationSize;
    if (p->maintenance4.maxBufferSize && p->maintenance4.maxBufferSize < most)
        most = p->maintenance4.maxBufferSize;
    gpu->max_block_bytes = most & ~(uint64_t)0xffff;
}

static void describe(rx_vk_gpu *gpu, const properties *p)
{
    rlx_device_info *info = &gpu->info;
    uint32_t v = gpu->props.driverVersion;
    snprintf(info->backend, sizeof info->backend, "vulkan");
    snprintf(info->name, sizeof info->name, "%.*s", (int)sizeof info->name - 1,
             gpu->props.deviceName);
    if (p->driver.driverName[0])
        snprintf(info->driver, sizeof info->driver, "%.60s %.60s", p->driver.driverName,
                 p->driver.driverInfo);
    else
        snprintf(info->driver, sizeof info->driver, "version %u.%u.%u",
                 (unsigned)VK_VERSION_MAJOR(v), (unsigned)VK_VERSION_MINOR(v),
                 (unsigned)VK_VERSION_PATCH(v));
    info->is_software = gpu->caps.is_software;
}

void rx_vk_detail(const rx_vk_gpu *gpu, const rx_gpu_caps *c, const char *note, char *out,
                  size_t cap)
{
    uint32_t v = gpu->props.apiVersion;
    char subgroup[64] = "no subgroups", matrices[64] = "";
    if (c->subgroup)
        snprintf(subgroup, sizeof subgroup, "subgroups of %u%s", (unsigned)c->subgroup,
                 c->subgroup_arith ? "" : " without arithmetic");
    if (c->coopmat_f16)
        snprintf(matrices, sizeof matrices, "%s matrices of %ux%ux%u, ",
                 c->coopmat_bf16 ? "f16 and bf16" : "f16", (unsigned)c->coopmat_m,
                 (unsigned)c->coopmat_n, (unsigned)c->coopmat_k);
    snprintf(out, cap,
             "Vulkan %u.%u, %s, %s%s%s%s%s%sworkgroups of %u, %u KiB shared, bindings of %llu MiB, "
             "blocks of %llu MiB, %s memory, %s%s%s",
             (unsigned)VK_VERSION_MAJOR(v), (unsigned)VK_VERSION_MINOR(v), subgroup,
             c->f16 ? "f16, " : "", c->storage16 ? "16-bit storage, " : "",
             c->storage8 ? "8-bit storage, " : "", c->int_dot ? "integer dot, " : "",
             c->subnormals ? "subnormals, " : "",
             matrices, (unsigned)c->max_invocations, (unsigned)(c->max_shared_bytes >> 10),
             (unsigned long long)(c->max_binding_bytes >> 20),
             (unsigned long long)(gpu->max_block_bytes >> 20), gpu->unified ? "shared" : "own",
             gpu->transfer_family != gpu->family ? "a queue for copies" : "one queue",
             *note ? "; " : "", note);
}

bool rx_vk_gpu_examine(const rx_vk_instance *vk, VkPhysicalDevice handle, rx_vk_gpu *out,
                       char why[256])
{
    *out = (rx_vk_gpu){.handle = handle};
    VkPhysicalDeviceProperties2 base = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2};
    vk->GetPhysicalDeviceProperties2(handle, &base);
    out->props = base.properties;
    if (out->props.apiVersion < VK_API_VERSION_1_1) {
        snprintf(why, 256, "%.100s has Vulkan %u.%u and 1.1 is needed: update its driver",
                 out->props.deviceName, (unsigned)VK_VERSION_MAJOR(out->props.apiVersion),
                 (unsigned)VK_VERSION_MINOR(out->props.apiVersion));
        return false;
    }
    if (!find_families(vk, out)) {
        snprintf(why, 256, "%.100s has no compute queue", out->props.deviceName);
        return false;
    }
    rx_vk_features f;
    properties p;
    rx_vk_features_ask(vk, handle, false, &f);
    ask_properties(vk, handle, &p);
    for (uint32_t i = 0; i < f.n_extensions; i++)
        out->has_budget |= !strcmp(f.extensions[i], VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
    fill_caps(vk, out, &f, &p);
    ask_memory(vk, out, &p);
    int host = 0;
    const rx_gpu_limits limits = {&out->caps, &out->max_block_bytes,
                                  &out->memory_limit, &host};
    if (rx_env_flag(RX_ENV_NO_COOPMAT))
        rx_gpu_limits_apply(&limits, "coopmat=0");
    rx_gpu_limits_apply(&limits, rx_env_text(RX_ENV_LIMITS));
    if (out->memory_limit && out->memory_limit < out->info.memory)
        out->info.memory = out->memory_limit;
    out->host_missing = host >= 1;
    out->host_all = host >= 2;
    describe(out, &p);
    rx_vk_detail(out, &out->caps, "", out->info.detail, sizeof out->info.detail);
    return rx_gpu_caps_enough(&out->caps, out->props.deviceName, why);
}
