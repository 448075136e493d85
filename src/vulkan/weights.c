/* SPDX-License-Identifier: MIT */
/* Dispatches that pack weights. */
#include "vulkan/device.h"

void rx_vk_pack_destroy(rx_device *d, rx_pack *p)
{
    if (!p)
        return;
    rx_vk_pipelines_release(d, &p->dispatch, 1);
    if (p->pool)
        d->vk.DestroyDescriptorPool(d->handle, p->pool, NULL);
    rx_free(p);
}

rlx_status rx_vk_pack_create(rx_device *d, const rx_gpu_placed *from, rx_pack **out,
                              rlx_error *err)
{
    rx_pack *p = rx_alloc_zero(sizeof *p);
    if (!p)
        return rx_fail_memory(err, "packed weights", sizeof *p);
    p->dispatch = rx_vk_dispatch_of(from, &(rx_gpu_place){0});
    rlx_status st = rx_vk_pipelines_get(d, from, 1, &p->dispatch, err);
    if (st == RLX_OK)
        st = rx_vk_sets_create(d, &p->dispatch, 1, &p->pool, err);
    if (st == RLX_OK)
        *out = p;
    else
        rx_vk_pack_destroy(d, p);
    return st;
}
