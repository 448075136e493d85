/* SPDX-License-Identifier: MIT */
/* Devices that cannot be used, and how one is chosen: a device that tells less than it has is
 * refused with a sentence that says what is missing. */
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "rlx/rlx.h"
#include "vulkan/device.h"

static const rx_vk_instance *real;
static VkPhysicalDevice gpu;

/* ---- What the device tells ------------------------------------------------------------------- */

static void (*change)(VkPhysicalDeviceProperties *p);

static VKAPI_ATTR void VKAPI_CALL tell_less(VkPhysicalDevice d, VkPhysicalDeviceProperties2 *p)
{
    real->GetPhysicalDeviceProperties2(d, p);
    change(&p->properties);
}

static void old_version(VkPhysicalDeviceProperties *p) { p->apiVersion = VK_API_VERSION_1_0; }
static void few_buffers(VkPhysicalDeviceProperties *p)
{
    p->limits.maxPerStageDescriptorStorageBuffers = 4;
}
static void small_groups(VkPhysicalDeviceProperties *p)
{
    p->limits.maxComputeWorkGroupInvocations = 64;
}
static void little_shared(VkPhysicalDeviceProperties *p)
{
    p->limits.maxComputeSharedMemorySize = 8192;
}
static void little_push(VkPhysicalDeviceProperties *p) { p->limits.maxPushConstantsSize = 64; }
static void odd_places(VkPhysicalDeviceProperties *p)
{
    p->limits.minStorageBufferOffsetAlignment = 512;
}

static VKAPI_ATTR void VKAPI_CALL only_graphics(VkPhysicalDevice d, uint32_t *n,
                                                VkQueueFamilyProperties *list)
{
    real->GetPhysicalDeviceQueueFamilyProperties(d, n, list);
    for (uint32_t i = 0; i < *n; i++)
        list[i].queueFlags &= ~(VkQueueFlags)VK_QUEUE_COMPUTE_BIT;
}

static bool is_refused(const rx_vk_instance *vk, const char *sentence)
{
    rx_vk_gpu found;
    char why[256] = "";
    if (rx_vk_gpu_examine(vk, gpu, &found, why) || !strstr(why, sentence) ||
        !strstr(why, found.props.deviceName)) {
        printf("expected '%s', got '%s'\n", sentence, why);
        return false;
    }
    return true;
}

static void test_examine(void)
{
    static const struct {
        void (*change)(VkPhysicalDeviceProperties *p);
        const char *sentence;
    } cases[] = {{old_version, "has Vulkan 1.0 and 1.1 is needed: update its driver"},
                 {few_buffers, "has 4 storage buffers a kernel and 8 are needed"},
                 {small_groups, "has 64 invocations a workgroup and 128 are needed"},
                 {little_shared, "has 8192 bytes of shared memory and 16384 are needed"},
                 {little_push, "has 64 bytes of push constants and 128 are needed"},
                 {odd_places, "places bindings at multiples of 512 bytes"}};
    rx_vk_gpu found;
    char why[256];
    CHECK(rx_vk_gpu_examine(real, gpu, &found, why));
    rx_vk_instance vk = *real;
    vk.GetPhysicalDeviceProperties2 = tell_less;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        change = cases[i].change;
        CHECK(is_refused(&vk, cases[i].sentence));
    }
    vk = *real;
    vk.GetPhysicalDeviceQueueFamilyProperties = only_graphics;
    CHECK(is_refused(&vk, "has no compute queue"));
}

/* ---- Functions ------------------------------------------------------------------------------- */

static VKAPI_ATTR void VKAPI_CALL do_nothing(void) {}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL no_dispatch(VkDevice d, const char *name)
{
    (void)d;
    return strcmp(name, "vkCmdDispatch") ? (PFN_vkVoidFunction)do_nothing : NULL;
}

static void test_functions(void)
{
    rx_vk_functions f;
    rx_vk_instance vk = *real;
    vk.GetDeviceProcAddr = no_dispatch;
    const char *missing = rx_vk_functions_get(&vk, VK_NULL_HANDLE, &f);
    CHECK(missing && !strcmp(missing, "vkCmdDispatch"));
}

/* ---- Choosing -------------------------------------------------------------------------------- */

static void test_choice(void)
{
    rlx_error err;
    rlx_device_info info = {RLX_INIT(rlx_device_info)}, again = info;
    rlx_device *d = NULL;
    char id[160];
    CHECK_OK(rlx_device_open("vulkan:0", NULL, &d, &err), &err);
    rlx_device_get_info(d, &info, NULL);
    CHECK(!strcmp(info.id, "vulkan:0"));
    CHECK(strstr(info.detail, "self-check: ") != NULL); /* the first time too */
    rlx_device_close(d);
    snprintf(id, sizeof id, "vulkan:%.*s", 8, info.name);
    CHECK_OK(rlx_device_open(id, NULL, &d, &err), &err);
    rlx_device_get_info(d, &again, NULL);
    CHECK(!strncmp(again.name, info.name, 8));
    rlx_device_close(d);
    CHECK_FAILS(rlx_device_open("vulkan:99", NULL, &d, &err), RLX_NO_DEVICE, &err,
                "no device of this backend has that number or name");
    CHECK(!d && strstr(err.text, "vulkan:0"));
    CHECK_FAILS(rlx_device_open("vulkan:none such", NULL, &d, &err), RLX_NO_DEVICE, &err,
                "'vulkan:none such' is not available");
}

int main(void)
{
    char reason[512];
    uint32_t n = 1;
    real = rx_vk_instance_get(reason);
    if (!real || !rlx_device_is_available("vulkan") ||
        real->EnumeratePhysicalDevices(real->handle, &n, &gpu) < VK_SUCCESS || !n) {
        printf("skipped: no Vulkan device (%s)\n", reason);
        return 77;
    }
    test_examine();
    test_functions();
    test_choice();
    return check_done();
}
