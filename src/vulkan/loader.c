/* SPDX-License-Identifier: MIT */
/* Opens libvulkan at run time, creates the instance and, on request, enables the validation layer,
 * whose messages are counted: a run during which one arrives fails. */
#include "vulkan/loader.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/env.h"
#include "base/mem.h"
#include "base/posix.h"
#include "base/thread.h"

#define VALIDATION_LAYER "VK_LAYER_KHRONOS_validation"

const char *rx_vk_result_name(VkResult r)
{
    switch (r) {
#define NAME(x) case x: return #x;
        NAME(VK_SUCCESS) NAME(VK_NOT_READY) NAME(VK_TIMEOUT) NAME(VK_INCOMPLETE)
        NAME(VK_ERROR_OUT_OF_HOST_MEMORY) NAME(VK_ERROR_OUT_OF_DEVICE_MEMORY)
        NAME(VK_ERROR_INITIALIZATION_FAILED) NAME(VK_ERROR_DEVICE_LOST)
        NAME(VK_ERROR_MEMORY_MAP_FAILED) NAME(VK_ERROR_LAYER_NOT_PRESENT)
        NAME(VK_ERROR_EXTENSION_NOT_PRESENT) NAME(VK_ERROR_FEATURE_NOT_PRESENT)
        NAME(VK_ERROR_INCOMPATIBLE_DRIVER) NAME(VK_ERROR_TOO_MANY_OBJECTS)
        NAME(VK_ERROR_FRAGMENTED_POOL) NAME(VK_ERROR_OUT_OF_POOL_MEMORY) NAME(VK_ERROR_UNKNOWN)
#undef NAME
    default:
        return "an unknown Vulkan error";
    }
}

/* ---- Messages of the validation layer ------------------------------------------------------- */

static rx_mutex message_lock = RX_MUTEX_INIT;
static char last_message[512];
static atomic_uint_fast64_t n_messages;

static VKAPI_ATTR VkBool32 VKAPI_CALL on_message(VkDebugUtilsMessageSeverityFlagBitsEXT severity,
                                                 VkDebugUtilsMessageTypeFlagsEXT types,
                                                 const VkDebugUtilsMessengerCallbackDataEXT *data,
                                                 void *user)
{
    (void)severity, (void)types, (void)user;
    const char *text = data->pMessage ? data->pMessage : "a message without text";
    rx_log(RLX_LOG_ERROR, "Vulkan validation: %s", text);
    rx_mutex_lock(&message_lock);
    snprintf(last_message, sizeof last_message, "%s", text);
    rx_mutex_unlock(&message_lock);
    atomic_fetch_add(&n_messages, 1);
    return VK_FALSE;
}

uint64_t rx_vk_messages(char *last, size_t cap)
{
    uint64_t n = atomic_load(&n_messages);
    if (last && cap) {
        rx_mutex_lock(&message_lock);
        snprintf(last, cap, "%s", last_message);
        rx_mutex_unlock(&message_lock);
    }
    return n;
}

/* ---- The instance --------------------------------------------------------------------------- */

static PFN_vkVoidFunction global_function(const rx_vk_instance *vk, const char *name)
{
    return vk->GetInstanceProcAddr(NULL, name);
}

static bool has_layer(const rx_vk_instance *vk, const char *name)
{
    PFN_vkEnumerateInstanceLayerProperties list =
        (PFN_vkEnumerateInstanceLayerProperties)global_function(
            vk, "vkEnumerateInstanceLayerProperties");
    uint32_t n = 0;
    if (!list || list(&n, NULL) != VK_SUCCESS || !n)
        return false;
    VkLayerProperties *layers = rx_alloc_array(n, sizeof *layers);
    bool found = false;
    if (layers && list(&n, layers) >= VK_SUCCESS)
        for (uint32_t i = 0; i < n; i++)
            found |= !strcmp(layers[i].layerName, name);
    rx_free(layers);
    return found;
}

static bool open_library(rx_vk_instance *vk, char *reason)
{
#if defined(_WIN32)
    static const char *const names[] = {"vulkan-1.dll", NULL};
    const char *how = "install a graphics driver with Vulkan";
#elif defined(__APPLE__)
    static const char *const names[] = {"libvulkan.1.dylib", "libvulkan.dylib",
                                        "/usr/local/lib/libvulkan.1.dylib",
                                        "/opt/homebrew/lib/libvulkan.1.dylib", "libMoltenVK.dylib",
                                        "/usr/local/lib/libMoltenVK.dylib",
                                        "/opt/homebrew/lib/libMoltenVK.dylib", NULL};
    const char *how = "install MoltenVK and the Vulkan loader";
#elif defined(__ANDROID__)
    static const char *const names[] = {"libvulkan.so", NULL};
    const char *how = "the system has none";
#else
    static const char *const names[] = {"libvulkan.so.1", "libvulkan.so", NULL};
    const char *how = "install the package libvulkan1 and a Vulkan driver";
#endif
    void *library = NULL;
    for (size_t i = 0; names[i] && !library; i++)
        library = rx_library_open(names[i]);
    void *entry = library ? rx_library_symbol(library, "vkGetInstanceProcAddr") : NULL;
    if (!entry) {
        snprintf(reason, 512, "there is no Vulkan loader (%s): %s", names[0], how);
        return false;
    }
    memcpy(&vk->GetInstanceProcAddr, &entry, sizeof entry);
    return true;
}

static bool fetch_functions(rx_vk_instance *vk, char *reason)
{
#define X(name)                                                                             \
    vk->name = (PFN_vk##name)vk->GetInstanceProcAddr(vk->handle, "vk" #name);               \
    if (!vk->name) {                                                                        \
        snprintf(reason, 512, "the Vulkan loader has no vk" #name ": it is older than 1.1");  \
        return false;                                                                       \
    }
    RX_VK_INSTANCE_FUNCTIONS(X)
#undef X
    vk->GetPhysicalDeviceCooperativeMatrixPropertiesKHR =
        (PFN_vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR)vk->GetInstanceProcAddr(
            vk->handle, "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR");
    return true;
}

/* The newest version that both the loader and this file know; 0 for 1.0. */
static uint32_t instance_version(const rx_vk_instance *vk)
{
    PFN_vkEnumerateInstanceVersion ask =
        (PFN_vkEnumerateInstanceVersion)global_function(vk, "vkEnumerateInstanceVersion");
    uint32_t version = 0;
    if (!ask || ask(&version) != VK_SUCCESS || version < VK_API_VERSION_1_1)
        return 0;
    return version < VK_API_VERSION_1_3 ? version : VK_API_VERSION_1_3;
}

static void listen_to_layer(const rx_vk_instance *vk,
                            const VkDebugUtilsMessengerCreateInfoEXT *messages)
{
    PFN_vkCreateDebugUtilsMessengerEXT create =
        (PFN_vkCreateDebugUtilsMessengerEXT)vk->GetInstanceProcAddr(
            vk->handle, "vkCreateDebugUtilsMessengerEXT");
    VkDebugUtilsMessengerEXT unused;
    if (create)
        create(vk->handle, messages, NULL, &unused);
}

/* Drivers that lack a part of Vulkan (MoltenVK) are listed only on request. The names are those of
 * headers from 1.3.208 on. */
#if defined(__APPLE__)
#define WANTS_PORTABILITY true
#else
#define WANTS_PORTABILITY false
#endif
#define PORTABILITY_ENUMERATION "VK_KHR_portability_enumeration"
#define ENUMERATE_PORTABILITY 1 /* VK_INSTANCE_CREATE_ENUMERATE_PORTABILITY_BIT_KHR */

static bool has_instance_extension(const rx_vk_instance *vk, const char *name)
{
    PFN_vkEnumerateInstanceExtensionProperties list =
        (PFN_vkEnumerateInstanceExtensionProperties)global_function(
            vk, "vkEnumerateInstanceExtensionProperties");
    uint32_t n = 0;
    if (!list || list(NULL, &n, NULL) != VK_SUCCESS || !n)
        return false;
    VkExtensionProperties *all = rx_alloc_array(n, sizeof *all);
    bool found = false;
    if (all && list(NULL, &n, all) >= VK_SUCCESS)
        for (uint32_t i = 0; i < n; i++)
            found |= !strcmp(all[i].extensionName, name);
    rx_free(all);
    return found;
}

static bool create_instance(rx_vk_instance *vk, char *reason)
{
    static const char *const layers[] = {VALIDATION_LAYER};
    const char *extensions[3];
    static const VkValidationFeatureEnableEXT checks[] = {
        VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT};
    VkApplicationInfo app = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
                             .pEngineName = "rlx", .apiVersion = instance_version(vk)};
    if (!app.apiVersion) {
        snprintf(reason, 512, "the Vulkan loader only knows Vulkan 1.0 and 1.1 is needed: update "
                 "libvulkan1");
        return false;
    }
    VkDebugUtilsMessengerCreateInfoEXT messages = {
        .sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT,
        .messageSeverity = VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT |
                           VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT,
        .messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT,
        .pfnUserCallback = on_message};
    VkValidationFeaturesEXT features = {.sType = VK_STRUCTURE_TYPE_VALIDATION_FEATURES_EXT,
                                        .pNext = &messages, .enabledValidationFeatureCount = 1,
                                        .pEnabledValidationFeatures = checks};
    VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                                 .pApplicationInfo = &app,
                                 .ppEnabledExtensionNames = extensions};
    vk->validation = rx_env_flag(RX_ENV_VULKAN_VALIDATION) && has_layer(vk, VALIDATION_LAYER);
    if (rx_env_flag(RX_ENV_VULKAN_VALIDATION) && !vk->validation)
        rx_log(RLX_LOG_WARN, "RLX_VULKAN_VALIDATION is set, but the layer " VALIDATION_LAYER
               " is not installed (Debian: vulkan-validationlayers)");
    if (vk->validation) {
        info.pNext = &features;
        info.enabledLayerCount = 1;
        info.ppEnabledLayerNames = layers;
        extensions[info.enabledExtensionCount++] = VK_EXT_DEBUG_UTILS_EXTENSION_NAME;
        extensions[info.enabledExtensionCount++] = VK_EXT_VALIDATION_FEATURES_EXTENSION_NAME;
    }
    if (WANTS_PORTABILITY && has_instance_extension(vk, PORTABILITY_ENUMERATION)) {
        extensions[info.enabledExtensionCount++] = PORTABILITY_ENUMERATION;
        info.flags |= ENUMERATE_PORTABILITY;
    }
    PFN_vkCreateInstance create = (PFN_vkCreateInstance)global_function(vk, "vkCreateInstance");
    VkResult r = create ? create(&info, NULL, &vk->handle) : VK_ERROR_INITIALIZATION_FAILED;
    if (r == VK_ERROR_INCOMPATIBLE_DRIVER) {
        snprintf(reason, 512, "the Vulkan loader found no driver: " RX_VK_INSTALL_HINT);
        return false;
    }
    if (r != VK_SUCCESS) {
        snprintf(reason, 512, "the Vulkan loader made no instance (%s): " RX_VK_DRIVER_HINT,
                 rx_vk_result_name(r));
        return false;
    }
    if (vk->validation)
        listen_to_layer(vk, &messages);
    return true;
}

static rx_mutex instance_lock = RX_MUTEX_INIT;

const rx_vk_instance *rx_vk_instance_get(char reason[512])
{
    static rx_vk_instance instance;
    static bool tried, ok;
    static char why[512];
    rx_mutex_lock(&instance_lock);
    if (!tried)
        ok = open_library(&instance, why) && create_instance(&instance, why) &&
             fetch_functions(&instance, why);
    tried = true;
    snprintf(reason, 512, "%s", ok ? "" : why);
    rx_mutex_unlock(&instance_lock);
    return ok ? &instance : NULL;
}

const char *rx_vk_functions_get(const rx_vk_instance *vk, VkDevice device, rx_vk_functions *out)
{
#define X(name)                                                                \
    out->name = (PFN_vk##name)vk->GetDeviceProcAddr(device, "vk" #name);       \
    if (!out->name)                                                            \
        return "vk" #name;
    RX_VK_DEVICE_FUNCTIONS(X)
#undef X
    PFN_vkVoidFunction address = vk->GetDeviceProcAddr(device, "vkGetBufferDeviceAddress");
    if (!address)
        address = vk->GetDeviceProcAddr(device, "vkGetBufferDeviceAddressKHR");
    out->GetBufferDeviceAddress = (PFN_vkGetBufferDeviceAddress)address;
    out->GetPipelineExecutablePropertiesKHR = (PFN_vkGetPipelineExecutablePropertiesKHR)
        vk->GetDeviceProcAddr(device, "vkGetPipelineExecutablePropertiesKHR");
    out->GetPipelineExecutableStatisticsKHR = (PFN_vkGetPipelineExecutableStatisticsKHR)
        vk->GetDeviceProcAddr(device, "vkGetPipelineExecutableStatisticsKHR");
    return NULL;
}
