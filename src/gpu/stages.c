/* SPDX-License-Identifier: MIT */
/* The GPU pipeline: each stage transforms one list of dispatches, which is verified after each.
 * That takes about 0.2 us a dispatch, far less than creating a pipeline. */
#include "gpu/stages.h"

const char *const rx_gpu_stage_names[RX_GPU_N_STAGES] = {"select", "order", "chain"};

static rlx_status select_kernels(rx_gpu_list *l, rlx_error *err)
{
    RLX_TRY(rx_gpu_select(l, err));
    RLX_TRY(rx_gpu_exec_scratch(l->x, l, err));
    return rx_gpu_verify_select(l, err);
}

static rlx_status order(rx_gpu_list *l, const rx_gpu_rules *rules, rlx_error *err)
{
    RLX_TRY(rx_gpu_order(l, rules, err));
    return rx_gpu_verify_order(l, rules, err);
}

static rlx_status chain(rx_gpu_list *l, const rx_gpu_rules *rules, rlx_error *err)
{
    RLX_TRY(rx_gpu_chain(l, rules, err));
    return rx_gpu_verify_chain(l, rules, err);
}

rlx_status rx_gpu_stages_run(rx_gpu_exec *x, rx_gpu_stage last, rx_gpu_list *l, rlx_error *err)
{
    rx_gpu_rules rules = {.nothing = x->flags};
    if (x->driver->rules)
        x->driver->rules(x->exec, &rules);
    *l = (rx_gpu_list){.x = x};
    RLX_TRY(select_kernels(l, err));
    if (last >= RX_GPU_ORDER)
        RLX_TRY(order(l, &rules, err));
    if (last >= RX_GPU_CHAIN)
        RLX_TRY(chain(l, &rules, err));
    return RLX_OK;
}

void rx_gpu_list_finish(rx_gpu_list *l)
{
    const rx_gpu_memory *m = l->x->memory;
    if (l->tables.n && m->finish_uploads)
        m->finish_uploads(m->device, NULL);
    rx_gpu_pool_destroy(m, &l->tables);
    rx_free(l->items);
    rx_free(l->derived);
    rx_arena_finish(&l->arena);
}
