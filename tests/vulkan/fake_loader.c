/* SPDX-License-Identifier: MIT */
/* A Vulkan loader with something missing, for test_absent.sh. RLX_TEST_LOADER says what: "old"
 * knows only Vulkan 1.0, "broken" lacks a function of 1.1, "refusing" makes no instance, "empty"
 * has no device, "failing" cannot list them. */
#include <stdlib.h>
#include <string.h>
#include <vulkan/vulkan.h>

static int is(const char *what)
{
    const char *mode = getenv("RLX_TEST_LOADER");
    return mode && !strcmp(mode, what);
}

static VKAPI_ATTR VkResult VKAPI_CALL tell_version(uint32_t *version)
{
    *version = VK_API_VERSION_1_1;
    return VK_SUCCESS;
}

static VKAPI_ATTR VkResult VKAPI_CALL create(const VkInstanceCreateInfo *info,
                                             const VkAllocationCallbacks *allocator,
                                             VkInstance *out)
{
    static int instance;
    (void)info, (void)allocator;
    *out = (VkInstance)&instance;
    return is("refusing") ? VK_ERROR_INITIALIZATION_FAILED : VK_SUCCESS;
}

static VKAPI_ATTR VkResult VKAPI_CALL list_devices(VkInstance instance, uint32_t *n,
                                                   VkPhysicalDevice *list)
{
    (void)instance, (void)list;
    *n = 0;
    return is("failing") ? VK_ERROR_INITIALIZATION_FAILED : VK_SUCCESS;
}

static VKAPI_ATTR void VKAPI_CALL never_called(void) {}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL vkGetInstanceProcAddr(VkInstance instance,
                                                                              const char *name)
{
    (void)instance;
    if (!strcmp(name, "vkEnumerateInstanceVersion"))
        return is("old") ? NULL : (PFN_vkVoidFunction)tell_version;
    if (!strcmp(name, "vkCreateInstance"))
        return (PFN_vkVoidFunction)create;
    if (!strcmp(name, "vkEnumeratePhysicalDevices"))
        return (PFN_vkVoidFunction)list_devices;
    if (!strcmp(name, "vkGetPhysicalDeviceFeatures2"))
        return is("broken") ? NULL : never_called;
    return never_called;
}
