/* SPDX-License-Identifier: MIT */
/* Dispatches that pack weights. */
#include "webgpu/device.h"

void rx_wg_pack_destroy(rx_device *d, rx_pack *p)
{
    if (!p)
        return;
    rx_wg_groups_release(d, &p->dispatch, 1);
    rx_wg_block_destroy(d, &p->constants);
    rx_wg_pipelines_release(d, &p->dispatch, 1);
    rx_free(p);
}

static rlx_status fill_pack(rx_device *d, const rx_gpu_placed *from, rx_pack *p, rlx_error *err)
{
    RLX_TRY(rx_wg_dispatch_init(d, &p->dispatch, from, err));
    RLX_TRY(rx_wg_pipelines_get(d, from, 1, &p->dispatch, err));
    return rx_wg_groups_create(d, &p->dispatch, 1, &p->constants, err);
}

rlx_status rx_wg_pack_create(rx_device *d, const rx_gpu_placed *from, rx_pack **out,
                              rlx_error *err)
{
    rx_pack *p = rx_alloc_zero(sizeof *p);
    if (!p)
        return rx_fail_memory(err, "packed weights", sizeof *p);
    rlx_status st = fill_pack(d, from, p, err);
    if (st == RLX_OK)
        *out = p;
    else
        rx_wg_pack_destroy(d, p);
    return st;
}
