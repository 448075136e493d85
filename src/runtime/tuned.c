/* SPDX-License-Identifier: MIT */
/* The kernel variants that rlx_session_tune has found: a file of the cache folder for each device,
 * driver and set of kernels. A file with another key or a broken one is ignored with a log line. */
#include <stdio.h>
#include <string.h>

#include "base/cache.h"
#include "base/error.h"
#include "base/map.h"
#include "runtime/calibrate.h"

#define MAGIC 0x31304e5554584c52u /* "RLXTUN01" */

typedef struct record {
    uint64_t magic, key, digest; /* digest: of what follows */
    uint64_t is_tuned;           /* 0: what was found is forgotten */
    char kernels[RX_KNOBS_TEXT]; /* zeros after the text */
} record;

static uint64_t key_of(const rx_backend *b, const rlx_device_info *info)
{
    const char *const texts[] = {b->name, info->name, info->driver};
    uint64_t h = b->kernels_digest ? b->kernels_digest() : 0;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        h = rx_hash(h, texts[i], strlen(texts[i]) + 1);
    return h;
}

static void file_name(uint64_t key, char *out, size_t cap)
{
    snprintf(out, cap, "tuned-%016llx.bin", (unsigned long long)key);
}

static uint64_t digest_of(const record *r)
{
    return rx_hash(r->key + r->is_tuned, r->kernels, sizeof r->kernels);
}

bool rx_tuned_load(const rx_backend *b, const rlx_device_info *info, char kernels[RX_KNOBS_TEXT])
{
    char name[64], path[1024];
    const uint64_t key = key_of(b, info);
    record r = {0};
    rx_file f;
    file_name(key, name, sizeof name);
    if (!rx_cache_open(name, &f, path, sizeof path))
        return false;
    if (f.bytes == sizeof r)
        memcpy(&r, f.data, sizeof r);
    rx_file_close(&f);
    if (r.magic != MAGIC || r.key != key || r.digest != digest_of(&r) ||
        r.kernels[sizeof r.kernels - 1]) {
        rx_log(RLX_LOG_WARN, "the file of tuned kernels '%s' is broken or of another device: "
               "ignored", path);
        return false;
    }
    if (r.is_tuned)
        memcpy(kernels, r.kernels, sizeof r.kernels);
    return r.is_tuned != 0;
}

rlx_status rx_tuned_save(const rx_backend *b, const rlx_device_info *info, const char *kernels,
                         rlx_error *err)
{
    char name[64];
    record r = {.magic = MAGIC, .key = key_of(b, info), .is_tuned = kernels != NULL};
    snprintf(r.kernels, sizeof r.kernels, "%s", kernels ? kernels : "");
    r.digest = digest_of(&r);
    file_name(r.key, name, sizeof name);
    return rx_cache_write(name, &(rx_bytes){&r, sizeof r}, 1, err);
}
