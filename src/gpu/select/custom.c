/* SPDX-License-Identifier: MIT */
/* custom: one dispatch of a kernel registered by the program. Bindings are operands, then results;
 * push constants are their offsets in elements, then the words of the program's grid. */
#include "gpu/gpu.h"
#include "ops/custom.h"
#include "spirv/wgsl.h"

#define NOT_THERE 0xffffffffu

/* Binds an operand or a result; its offset is the next push constant. */
static void bind_tensor(rx_gpu_build *b, rx_gpu_dispatch *x, const rx_view *v, rx_gpu_ref ref,
                        bool writes)
{
    const bool is_there = v && rx_view_exists(v);
    rx_gpu_bind(b, x, is_there ? ref : RX_REF_NONE, is_there && writes);
    rx_gpu_push(b, x, is_there ? rx_gpu_offset(v) : NOT_THERE);
}

/* Drivers may crash on an invalid module, so our own reader rejects it first. Features that WGSL
 * lacks are left to Vulkan. */
static rlx_status check_module(const rlx_op_desc *d, rlx_error *err)
{
    rx_wgsl_options o = {.name = d->name, .spec = &d->local_size, .n_spec = 1, .f16 = true,
                         .subgroups = RX_WGSL_SUBGROUPS_PLAIN, .push_binding = RX_WGSL_MAX_BIND};
    rx_wgsl_text text;
    rlx_error why = {0};
    const rlx_status st = rx_wgsl_print(d->spirv, d->spirv_words, &o, &text, &why);
    if (st == RLX_OK)
        rx_wgsl_text_finish(&text);
    return st == RLX_INVALID || st == RLX_NO_MEMORY ? rx_fail(err, st, "%s", why.text) : RLX_OK;
}

rlx_status rx_gpu_lower_custom(rx_gpu_build *b, const rx_gpu_call *c)
{
    const rlx_custom_desc *attrs = c->attr;
    const rlx_op_desc *d = rx_custom_find(attrs->op);
    rx_custom_call call;
    rlx_op_grid grid = {{0}, {0}, 0, {c->caps->max_groups[0], c->caps->max_groups[1],
                                      c->caps->max_groups[2]}};
    rlx_error why = {0};
    if (!d || !d->spirv)
        return rx_gpu_fail(b, c, "the operation was registered without SPIR-V");
    if ((b->status = check_module(d, b->err)) != RLX_OK)
        return b->status;
    rx_custom_fill(&call, attrs, c->in, c->n_in, c->out, c->n_out);
    const rlx_status st = d->grid(d->user, &call.call, &grid, &why);
    if (st != RLX_OK || grid.n_words > RLX_OP_MAX_WORDS)
        return b->status = rx_fail(b->err, st == RLX_OK ? RLX_INVALID : st,
                                   "operation '%s': its grid: %.300s", d->name,
                                   why.text[0] ? why.text : "too many words, or no reason given");
    if (!grid.groups[0] || !grid.groups[1] || !grid.groups[2])
        return RLX_OK;
    rx_gpu_dispatch *x = rx_gpu_add(b, RX_K_EMITTED, d->local_size);
    x->code = d->spirv;
    x->code_words = d->spirv_words;
    x->name = d->name;
    for (size_t i = 0; i < d->max_in; i++)
        bind_tensor(b, x, rx_gpu_in(c, i), RX_REF_IN(i), false);
    for (size_t i = 0; i < d->n_out; i++)
        bind_tensor(b, x, &c->out[i], RX_REF_OUT(i), true);
    for (uint32_t i = 0; i < grid.n_words; i++)
        rx_gpu_push(b, x, grid.words[i]);
    for (int i = 0; i < 3; i++)
        x->groups[i] = grid.groups[i];
    return b->status;
}
