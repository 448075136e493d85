/* SPDX-License-Identifier: MIT */
/* Dispatches that bring weights into packed forms. */
#include <string.h>

#include "vulkan/device.h"

static void destroy_pack(rx_device *d, rx_pack *p)
{
    if (!p)
        return;
    rx_vk_pipelines_release(d, &p->dispatch, 1);
    if (p->pool)
        d->vk.DestroyDescriptorPool(d->handle, p->pool, NULL);
    rx_free(p);
}

static rlx_status create_pack(rx_device *d, const rx_gpu_dispatch *from, const rx_gpu_place *weight,
                              const rx_gpu_place *packed, rx_pack **out, rlx_error *err)
{
    rx_pack *p = rx_alloc_zero(sizeof *p);
    if (!p)
        return rx_fail_memory(err, "packed weights", sizeof *p);
    rx_vk_dispatch *to = &p->dispatch;
    to->n_bind = from->n_bind;
    to->writes = from->writes;
    to->n_push = from->n_push;
    memcpy(to->push, from->push, sizeof to->push);
    memcpy(to->address, from->address, sizeof to->address);
    memcpy(to->groups, from->groups, sizeof to->groups);
    for (uint32_t i = 0; i < from->n_bind; i++) {
        to->bind[i] = rx_gpu_pack_place(from, i, weight, packed);
        to->begin[i] = to->bind[i].offset;
        to->end[i] = to->bind[i].offset + to->bind[i].bytes;
    }
    rlx_status st = rx_vk_pipelines_get(d, from, 1, to, err);
    if (st == RLX_OK)
        st = rx_vk_sets_create(d, to, 1, &p->pool, err);
    if (st == RLX_OK)
        *out = p;
    else
        destroy_pack(d, p);
    return st;
}

rlx_status rx_vk_weights_create(rx_device *d, rx_program *p, rx_weights **out, rlx_error *err)
{
    static const rx_gpu_packer packer = {create_pack, destroy_pack};
    return rx_gpu_weights_create(&d->memory, &packer, p, out, err);
}
