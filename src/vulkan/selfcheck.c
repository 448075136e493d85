/* SPDX-License-Identifier: MIT */
/* On first use of a driver its fast features are tried on small cases with known results; one that
 * fails is turned off. What was found is kept on disk by device, driver and kernels. */
#include <stdio.h>
#include <string.h>

#include "vulkan/device.h"

#define CACHE_FILE "selfcheck"

/* One feature: `try` runs its case, `off` takes it out of the capabilities. */
typedef struct check {
    const char *name;
    bool (*present)(const rx_gpu_caps *c);
    bool (*try)(rx_device *d);
    void (*off)(rx_gpu_caps *c);
} check;

static const check checks[] = {
    {NULL, NULL, NULL, NULL},
};

/* What is kept: for each check, whether it failed. */
typedef struct result {
    uint32_t n_checks;
    uint32_t failed; /* bit i: check i */
} result;

static uint32_t count_checks(void)
{
    uint32_t n = 0;
    while (checks[n].name)
        n++;
    return n;
}

static bool load_result(const rx_vk_gpu *gpu, result *r)
{
    void *data;
    size_t bytes;
    if (!rx_vk_cache_load(gpu, CACHE_FILE, &data, &bytes))
        return false;
    bool ok = bytes == sizeof *r;
    if (ok)
        memcpy(r, data, sizeof *r);
    rx_free(data);
    return ok && r->n_checks == count_checks();
}

void rx_vk_selfcheck_note(const rx_vk_gpu *gpu, char note[160])
{
    result r;
    note[0] = 0;
    if (!count_checks() || !load_result(gpu, &r))
        return;
    size_t used = (size_t)snprintf(note, 160, "self-check: %s", r.failed ? "turned off" : "passed");
    for (uint32_t i = 0; i < r.n_checks; i++)
        if (r.failed >> i & 1 && used < 160)
            used += (size_t)snprintf(note + used, 160 - used, " %s", checks[i].name);
}

void rx_vk_selfcheck(rx_device *d)
{
    result r;
    uint32_t n = count_checks();
    if (!load_result(&d->gpu, &r)) {
        r = (result){.n_checks = n};
        for (uint32_t i = 0; i < n; i++)
            if (checks[i].present(&d->caps) && !checks[i].try(d))
                r.failed |= 1u << i;
        if (n)
            rx_vk_cache_save(&d->gpu, CACHE_FILE, &r, sizeof r);
    }
    for (uint32_t i = 0; i < n; i++) {
        if (!(r.failed >> i & 1) || !checks[i].present(&d->caps))
            continue;
        rx_log(RLX_LOG_WARN, "vulkan: %s do not work on %s: not used", checks[i].name,
               d->gpu.info.name);
        checks[i].off(&d->caps);
    }
}
