/* SPDX-License-Identifier: MIT */
/* The capabilities of a physical device: queried once, kept as data. */
#ifndef RX_VULKAN_CAPS_H
#define RX_VULKAN_CAPS_H

#include "gpu/gpu.h"
#include "rlx/device.h"
#include "vulkan/loader.h"

/* Push constants of a chained dispatch are those of the kernel, up to RX_GPU_MAX_PUSH, and those of
 * gpu/shaders/chain.def. */
#define RX_VK_MAX_PUSH (RX_GPU_MAX_PUSH + sizeof(rx_push_chain) / 4)

#define RX_VK_MAX_EXTENSIONS 16

/* Features in one pNext chain, for the query and for device creation; only those that the device
 * knows are linked in. */
typedef struct rx_vk_features {
    VkPhysicalDeviceFeatures2 base;
    VkPhysicalDevice16BitStorageFeatures storage16;
    VkPhysicalDevice8BitStorageFeatures storage8;
    VkPhysicalDeviceShaderFloat16Int8Features float16_int8;
    VkPhysicalDeviceBufferDeviceAddressFeatures address;
    VkPhysicalDeviceVulkanMemoryModelFeatures memory_model;
    VkPhysicalDeviceScalarBlockLayoutFeatures scalar_layout;
    VkPhysicalDeviceSubgroupSizeControlFeatures size_control;
    VkPhysicalDeviceShaderIntegerDotProductFeatures int_dot;
    VkPhysicalDeviceMaintenance4Features maintenance4;
    VkPhysicalDeviceCooperativeMatrixFeaturesKHR coopmat;
    VkPhysicalDeviceShaderBfloat16FeaturesKHR bfloat16;
    VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR statistics;
    const char *extensions[RX_VK_MAX_EXTENSIONS]; /* to enable */
    uint32_t n_extensions;
} rx_vk_features;

typedef struct rx_vk_gpu {
    VkPhysicalDevice handle;
    VkPhysicalDeviceProperties props;
    VkPhysicalDeviceMemoryProperties memory;
    uint32_t family, transfer_family; /* equal where there is no transfer-only queue */
    uint64_t max_block_bytes;         /* of one allocation and one buffer */
    uint64_t memory_limit;            /* RLX_LIMITS: of all blocks together; 0: none */
    uint32_t clock_bits;              /* of timestamps of the compute queue; 0: none */
    bool has_budget;                  /* VK_EXT_memory_budget */
    bool unified;                     /* all memory is host memory */
    bool keeps_order; /* workgroups start in dispatch order, which Vulkan does not guarantee */
    uint32_t force_subgroup;          /* subgroup size to require of kernels; 0: cannot */
    bool host_all, host_missing;      /* RLX_LIMITS=host=2 or 1: operations to run on the host */
    rx_gpu_caps caps;                 /* before the self-check */
    rlx_device_info info;
} rx_vk_gpu;

/* Fills *out; false with a sentence in `why` when the device cannot be used. */
bool rx_vk_gpu_examine(const rx_vk_instance *vk, VkPhysicalDevice handle, rx_vk_gpu *out,
                       char why[256]);
/* Asks which features there are and links them into f->base. statistics: of compiled kernels,
 * too. */
void rx_vk_features_ask(const rx_vk_instance *vk, VkPhysicalDevice handle, bool statistics,
                        rx_vk_features *f);
/* The short text about features and limits. */
void rx_vk_detail(const rx_vk_gpu *gpu, const rx_gpu_caps *caps, const char *note, char *out,
                  size_t cap);

#endif
