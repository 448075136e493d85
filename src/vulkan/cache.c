/* SPDX-License-Identifier: MIT */
/* Files of the cache folder: a header that names device, driver and, where the data depends on
 * them, the kernels, then the data. A file of something else or a broken one is ignored with a line
 * in the log. */
#include <stdio.h>
#include <string.h>

#include "base/cache.h"
#include "base/map.h"
#include "vulkan/device.h"

#define MAGIC 0x31304b5658585852u /* "RXXXVK01" */

typedef struct header {
    uint64_t magic;
    uint32_t vendor, device, driver;
    uint32_t modes; /* bit 0: kernels keep subnormal numbers; 0 where they do not matter */
    uint8_t uuid[VK_UUID_SIZE];
    uint64_t kernels; /* rx_vk_cache_file.kernels */
    uint64_t bytes, digest; /* of the data */
} header;

static header make_header(const rx_vk_cache_file *of)
{
    const VkPhysicalDeviceProperties *p = &of->gpu->props;
    header h = {.magic = MAGIC, .vendor = p->vendorID, .device = p->deviceID,
                .driver = p->driverVersion, .kernels = of->kernels,
                .modes = of->kernels && of->gpu->caps.subnormals};
    memcpy(h.uuid, p->pipelineCacheUUID, sizeof h.uuid);
    return h;
}

static void file_name(const rx_vk_cache_file *of, char *out, size_t cap)
{
    header h = make_header(of);
    snprintf(out, cap, "vulkan-%s-%016llx.bin", of->name,
             (unsigned long long)rx_hash(h.kernels, &h, sizeof h));
}

static bool is_ours(const header *have, const header *want, const rx_file *f)
{
    return f->bytes >= sizeof *have && have->magic == want->magic &&
           have->vendor == want->vendor && have->device == want->device &&
           have->driver == want->driver && have->modes == want->modes &&
           have->kernels == want->kernels &&
           !memcmp(have->uuid, want->uuid, sizeof have->uuid) &&
           have->bytes == f->bytes - sizeof *have &&
           have->digest == rx_hash(0, f->data + sizeof *have, (size_t)have->bytes);
}

bool rx_vk_cache_load(const rx_vk_cache_file *of, void **data, size_t *bytes)
{
    char file[128], path[1024];
    rx_file f;
    *data = NULL;
    *bytes = 0;
    file_name(of, file, sizeof file);
    if (!rx_cache_open(file, &f, path, sizeof path))
        return false;
    header have = {0}, want = make_header(of);
    if (f.bytes >= sizeof have)
        memcpy(&have, f.data, sizeof have);
    if (!is_ours(&have, &want, &f))
        rx_log(RLX_LOG_WARN, "vulkan: the cache file '%s' is broken or of another device: ignored",
               path);
    else if ((*data = rx_alloc(have.bytes))) {
        memcpy(*data, f.data + sizeof have, (size_t)have.bytes);
        *bytes = (size_t)have.bytes;
    }
    rx_file_close(&f);
    return *data != NULL;
}

void rx_vk_cache_save(const rx_vk_cache_file *of, const void *data, size_t bytes)
{
    char file[128];
    header h = make_header(of);
    h.bytes = bytes;
    h.digest = rx_hash(0, data, bytes);
    file_name(of, file, sizeof file);
    rlx_error err = {0};
    if (rx_cache_write(file, (rx_bytes[]){{&h, sizeof h}, {data, bytes}}, 2, &err) != RLX_OK)
        rx_log(RLX_LOG_INFO, "vulkan: the cache was not saved: %s", err.text);
}
