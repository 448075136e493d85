/* SPDX-License-Identifier: MIT */
/* A step on the host: operands are copied from the device, the reference kernel runs, results are
 * copied back. Used for operations without a kernel for their types (f64, reductions of i16, ...);
 * RLX_LIMITS=host=2 runs every step here. */
#include "runtime/host.h"

#include <string.h>

#include "vulkan/device.h"

/* Host copies of places, one each. */
typedef struct host_copy {
    rx_gpu_place place;
    char *data;
    bool written;
} host_copy;

static host_copy *find_copy(host_copy *list, size_t *n, rx_gpu_place p)
{
    for (size_t i = 0; i < *n; i++)
        if (list[i].place.block == p.block && list[i].place.offset == p.offset &&
            list[i].place.bytes == p.bytes)
            return &list[i];
    list[*n] = (host_copy){.place = p};
    return &list[(*n)++];
}

static rlx_status load_copy(rx_exec *e, host_copy *c, rlx_error *err)
{
    if (c->data || !c->place.block)
        return RLX_OK;
    c->data = rx_alloc_aligned(c->place.bytes + 16);
    if (!c->data)
        return rx_fail_memory(err, "an operand on the host", c->place.bytes);
    return rx_vk_download(e->device, &c->place, 0, c->data, c->place.bytes, err);
}

static rlx_status load_operands(rx_exec *e, const rx_step *s, rx_view *views, host_copy *copies,
                                size_t *n, rlx_error *err)
{
    for (uint32_t k = 0; k < s->n_in + s->n_out; k++) {
        uint32_t value = k < s->n_in ? s->in[k] : s->out[k - s->n_in];
        views[k] = (rx_view){.rank = -1};
        if (value == RX_NO_VALUE)
            continue;
        host_copy *c = find_copy(copies, n, rx_gpu_exec_place(&e->base, value));
        RLX_TRY(load_copy(e, c, err));
        c->written |= k >= s->n_in;
        views[k] = e->base.values.bound.views[value];
        views[k].data = c->data ? c->data + (uintptr_t)views[k].data : NULL;
    }
    return RLX_OK;
}

static rlx_status store_results(rx_exec *e, const host_copy *copies, size_t n, rlx_error *err)
{
    for (size_t i = 0; i < n; i++) {
        const host_copy *c = &copies[i];
        if (c->written && c->data)
            RLX_TRY(rx_vk_upload(e->device, &c->place, 0, c->data, c->place.bytes, err));
    }
    return rx_vk_upload_finish(e->device, err);
}

rlx_status rx_vk_run_host(rx_exec *e, size_t step, rlx_error *err)
{
    const rx_step *s = &e->base.program->steps[step];
    size_t n_operands = (size_t)s->n_in + s->n_out, n = 0;
    rx_view *views = rx_alloc_array(n_operands + 1, sizeof *views);
    host_copy *copies = rx_alloc_array(n_operands + 1, sizeof *copies);
    rlx_status st = views && copies ? RLX_OK : rx_fail_memory(err, "a step", n_operands);
    if (st == RLX_OK)
        st = rx_vk_flush(e, err);
    if (st == RLX_OK)
        st = rx_gpu_runs_wait_all(&e->base.runs, err);
    if (st == RLX_OK)
        st = load_operands(e, s, views, copies, &n, err);
    if (st == RLX_OK) {
        rx_host_call c = {.op = s->op, .attr = rx_bound_attr(&e->base.values.bound, step),
                          .n_in = s->n_in, .n_out = s->n_out, .in = views,
                          .out = views + s->n_in, .flags = &e->host_flags};
        st = rx_host_run(&c, err);
    }
    if (st == RLX_OK)
        st = store_results(e, copies, n, err);
    for (size_t i = 0; copies && i < n; i++)
        rx_free_aligned(copies[i].data);
    rx_free(copies);
    rx_free(views);
    return st;
}
