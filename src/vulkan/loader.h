/* SPDX-License-Identifier: MIT */
/* The Vulkan loader, opened at run time, and the one instance of the process. Functions are fetched
 * by the lists below; nothing is linked. */
#ifndef RX_VULKAN_LOADER_H
#define RX_VULKAN_LOADER_H

#include "base/error.h"
#include "vulkan/vk_ext.h"

#define RX_VK_INSTALL_HINT \
    "install a Vulkan driver (Debian: mesa-vulkan-drivers, or the one of the GPU's maker)"

#define RX_VK_DRIVER_HINT "a driver is broken or out of memory; vulkaninfo may say more"

/* X(name without vk) */
#define RX_VK_INSTANCE_FUNCTIONS(X)                                                          \
    X(CreateDevice) X(EnumerateDeviceExtensionProperties) X(EnumeratePhysicalDevices)        \
    X(GetDeviceProcAddr) X(GetPhysicalDeviceFeatures2) X(GetPhysicalDeviceMemoryProperties2) \
    X(GetPhysicalDeviceProperties2) X(GetPhysicalDeviceQueueFamilyProperties)

#define RX_VK_DEVICE_FUNCTIONS(X)                                                            \
    X(AllocateCommandBuffers) X(AllocateDescriptorSets) X(AllocateMemory)                    \
    X(BeginCommandBuffer) X(BindBufferMemory) X(CmdBindDescriptorSets) X(CmdBindPipeline)    \
    X(CmdCopyBuffer) X(CmdDispatch) X(CmdFillBuffer) X(CmdPipelineBarrier) X(CmdUpdateBuffer) \
    X(CmdResetQueryPool) X(CmdWriteTimestamp) X(CreateQueryPool) X(DestroyQueryPool)         \
    X(GetQueryPoolResults) X(CmdPushConstants) X(CreateBuffer) X(CreateCommandPool)          \
    X(CreateComputePipelines) X(CreateDescriptorPool) X(CreateDescriptorSetLayout)           \
    X(CreateFence) X(CreatePipelineCache) X(CreatePipelineLayout) X(CreateShaderModule)      \
    X(DestroyBuffer) X(DestroyCommandPool) X(DestroyDescriptorPool)                          \
    X(DestroyDescriptorSetLayout) X(DestroyDevice) X(DestroyFence) X(DestroyPipeline)        \
    X(DestroyPipelineCache) X(DestroyPipelineLayout) X(DestroyShaderModule)                  \
    X(DeviceWaitIdle) X(EndCommandBuffer) X(FreeCommandBuffers) X(FreeMemory)                \
    X(GetBufferMemoryRequirements) X(GetDeviceQueue) X(GetFenceStatus)                       \
    X(GetPipelineCacheData) X(MapMemory) X(MergePipelineCaches) X(QueueSubmit) X(ResetFences) \
    X(UpdateDescriptorSets) X(WaitForFences)

#define X(name) PFN_vk##name name;
typedef struct rx_vk_instance {
    VkInstance handle;
    PFN_vkGetInstanceProcAddr GetInstanceProcAddr;
    RX_VK_INSTANCE_FUNCTIONS(X)
    /* NULL where the loader or the drivers do not know it. */
    PFN_vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR
        GetPhysicalDeviceCooperativeMatrixPropertiesKHR;
    bool validation; /* the validation layer is on */
} rx_vk_instance;

typedef struct rx_vk_functions {
    RX_VK_DEVICE_FUNCTIONS(X)
    PFN_vkGetBufferDeviceAddress GetBufferDeviceAddress; /* NULL: the device has no addresses */
    /* NULL: the device has no statistics, or was not opened for them. */
    PFN_vkGetPipelineExecutablePropertiesKHR GetPipelineExecutablePropertiesKHR;
    PFN_vkGetPipelineExecutableStatisticsKHR GetPipelineExecutableStatisticsKHR;
} rx_vk_functions;
#undef X

/* The instance, made at the first call and kept until the process ends; NULL with a sentence in
 * `reason` when there is none. Thread-safe. */
const rx_vk_instance *rx_vk_instance_get(char reason[512]);
/* Fetches all functions of a device. NULL, or the name of one that every device has and that is
 * missing. */
const char *rx_vk_functions_get(const rx_vk_instance *vk, VkDevice device, rx_vk_functions *out);

/* How many messages the validation layer has sent, and the last one. */
uint64_t rx_vk_messages(char *last, size_t cap);

/* "VK_ERROR_DEVICE_LOST". */
const char *rx_vk_result_name(VkResult r);

#endif
