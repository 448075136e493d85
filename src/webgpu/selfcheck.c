/* SPDX-License-Identifier: MIT */
/* Runs the kernels of the self-check. The outcome is kept on disk by library, device, driver and
 * kernels. */
#include <stdio.h>
#include <string.h>

#include "base/cache.h"
#include "base/map.h"
#include "gpu/blob.h"
#include "gpu/exec/selfcheck.h"
#include "webgpu/device.h"

#define BYTES ((RX_GPU_SELFCHECK_WORDS * 4 + 15) / 16 * 16)

/* ---- Running one kernel --------------------------------------------------------------------- */

static rlx_status run_dispatch(rx_device *d, const rx_wg_dispatch *x, rlx_error *err)
{
    rx_wg_enter(d->lib);
    WGPUCommandEncoder to = d->lib->DeviceCreateCommandEncoder(d->handle, NULL);
    if (to) {
        rx_wg_encode(d, to, x, 1, NULL);
        rx_wg_submit(d, to);
    }
    rx_wg_leave(d->lib);
    return to ? RLX_OK : rx_fail_memory(err, "the self-check", 0);
}

static rlx_status run_kernel(rx_device *d, rx_kernel kernel, uint32_t local, uint32_t *words,
                             rlx_error *err)
{
    rx_block block, constants = {0};
    rx_gpu_placed from = {.dispatch = {.kernel = kernel, .n_bind = 1, .writes = 1, .spec = {local},
                                       .n_spec = 1, .groups = {1, 1, 1}},
                          .bind = {{&block, 0, BYTES}}};
    rx_wg_dispatch x = {0};
    RLX_TRY(rx_wg_block_create(d, RX_WG_KERNEL, BYTES, "the self-check", &block, err));
    rlx_status st = rx_wg_dispatch_init(d, &x, &from, err);
    if (st == RLX_OK)
        st = rx_wg_pipelines_get(d, &from, 1, &x, err);
    if (st == RLX_OK)
        st = rx_wg_groups_create(d, &x, 1, &constants, err);
    if (st == RLX_OK)
        st = run_dispatch(d, &x, err);
    if (st == RLX_OK)
        st = rx_wg_download(d, &x.bind[0], 0, words, RX_GPU_SELFCHECK_WORDS * 4, err);
    rx_wg_groups_release(d, &x, 1);
    rx_wg_pipelines_release(d, &x, 1);
    rx_wg_block_destroy(d, &constants);
    rx_wg_block_destroy(d, &block);
    return st;
}

/* ---- Results -------------------------------------------------------------------------------- */

typedef struct record {
    uint64_t key, digest;
    rx_gpu_selfcheck found;
} record;

static uint64_t key_of(const rx_device *d)
{
    const char *const texts[] = {d->lib->name, d->gpu.info.name, d->gpu.info.driver};
    uint64_t h = rx_gpu_kernels_digest();
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        h = rx_hash(h, texts[i], strlen(texts[i]) + 1);
    return h;
}

static void file_name(uint64_t key, char *out, size_t cap)
{
    snprintf(out, cap, "webgpu-selfcheck-%016llx.bin", (unsigned long long)key);
}

static rx_gpu_selfcheck load_result(const rx_device *d)
{
    char name[64];
    record r = {0};
    rx_file f;
    uint64_t key = key_of(d);
    file_name(key, name, sizeof name);
    if (!rx_cache_open(name, &f, NULL, 0))
        return r.found;
    if (f.bytes == sizeof r)
        memcpy(&r, f.data, sizeof r);
    rx_file_close(&f);
    bool ok = r.key == key && r.digest == rx_hash(key, &r.found, sizeof r.found);
    return ok ? r.found : (rx_gpu_selfcheck){0};
}

static void save_result(const rx_device *d, const rx_gpu_selfcheck *s)
{
    char name[64];
    rlx_error err = {0};
    uint64_t key = key_of(d);
    record r = {.key = key, .digest = rx_hash(key, s, sizeof *s), .found = *s};
    file_name(key, name, sizeof name);
    if (rx_cache_write(name, &(rx_bytes){&r, sizeof r}, 1, &err) != RLX_OK)
        rx_log(RLX_LOG_INFO, "webgpu: the self-check was not saved: %s", err.text);
}

void rx_wg_selfcheck(rx_device *d)
{
    rx_gpu_selfcheck s = load_result(d);
    const rx_gpu_selfcheck_desc desc = {.backend = "webgpu", .name = d->gpu.info.name,
                                        .caps = &d->base.caps, .run = run_kernel, .device = d};
    if (rx_gpu_selfcheck_run(&desc, &s))
        save_result(d, &s);
    rx_gpu_selfcheck_note(&s, d->base.note);
}
