/* SPDX-License-Identifier: MIT */
/* Steps that only prepare the rows of following products are left out, and the products do their
 * work while they read x: in a chain of small kernels each one that is not there saves the wait for
 * it. rms_norm, and the product of two tensors (the gate of a feed-forward layer), in front of
 * products of few rows with packed weights. */
#include "gpu/quant.h"
#include "vulkan/device.h"

#define MAX_ROWS 8

static bool is_dense_f32(const rx_exec *e, uint32_t value)
{
    return value != RX_NO_VALUE && e->values.views[value].dtype == RLX_F32 &&
           e->values.views[value].rank >= 1 && rx_view_is_dense(&e->values.views[value]) &&
           rx_gpu_offset(&e->values.views[value]) % 4 == 0;
}

/* Whether a kernel can do the step on the rows it reads. */
static bool has_form(const rx_exec *e, const rx_step *s)
{
    if (s->n_in < 2 || s->n_out != 1 || !is_dense_f32(e, s->in[0]) || !is_dense_f32(e, s->in[1]) ||
        !is_dense_f32(e, s->out[0]))
        return false;
    const rx_view *x = &e->values.views[s->in[0]], *y = &e->values.views[s->in[1]];
    const int64_t k = x->dim[x->rank - 1], n = rx_view_elements(x);
    if (k == 0 || n == 0 || n / k > MAX_ROWS || rx_view_elements(&e->values.views[s->out[0]]) != n)
        return false;
    if (s->op == RX_OP_mul)
        return rx_view_elements(y) == n;
    const rlx_norm_desc *d = s->attr;
    return s->op == RX_OP_rms_norm && (d->axis == x->rank - 1 || d->axis == -1) &&
           rx_view_elements(y) == k;
}

static bool overlaps(const rx_exec *e, uint32_t a, uint32_t b)
{
    rx_vk_place p = rx_vk_value_place(e, a), q = rx_vk_value_place(e, b);
    return p.block && p.block == q.block && p.offset < q.offset + q.bytes &&
           q.offset < p.offset + p.bytes;
}

/* Nothing that a step after `first` up to `last` writes lies where the operands of `first` do. */
static bool operands_stay(const rx_exec *e, size_t first, size_t last)
{
    const rx_program *p = e->program;
    for (size_t i = first + 1; i <= last; i++)
        for (uint32_t k = 0; k < p->steps[i].n_out; k++) {
            const uint32_t out = p->steps[i].out[k];
            if (out != RX_NO_VALUE && (overlaps(e, out, p->steps[first].in[0]) ||
                                       overlaps(e, out, p->steps[first].in[1])))
                return false;
        }
    return true;
}

static bool takes_fold(rx_exec *e, size_t step)
{
    const rx_step *s = &e->program->steps[step];
    if (s->op != RX_OP_dequant_matmul || s->support == RLX_SUPPORT_HOST)
        return false;
    rx_gpu_call c = rx_gpu_values_call(&e->values, step, &e->device->caps);
    return rx_quant_takes_fold(&c);
}

/* All that read the result of step i are products that can do its work. */
static bool is_foldable(rx_exec *e, size_t i)
{
    const rx_program *p = e->program;
    const rx_step *s = &p->steps[i];
    if ((s->op != RX_OP_rms_norm && s->op != RX_OP_mul) || !has_form(e, s))
        return false;
    const uint32_t v = s->out[0];
    const rx_pvalue *value = &p->values[v];
    if (value->view_of >= 0 || value->space != RX_SPACE_ARENA || value->last >= p->n_steps)
        return false;
    for (size_t j = i + 1; j <= value->last; j++)
        for (uint32_t k = 0; k < p->steps[j].n_in; k++) {
            const uint32_t in = p->steps[j].in[k];
            if (in == RX_NO_VALUE || e->values.roots[in] != v)
                continue;
            if (in != v || k != 0 || !takes_fold(e, j))
                return false;
        }
    return operands_stay(e, i, value->last);
}

void rx_vk_find_folds(rx_exec *e, uint32_t *fold)
{
    const rx_program *p = e->program;
    for (size_t i = 0; i < p->n_steps; i++)
        fold[i] = RX_VK_NO_FOLD;
    for (size_t i = 0; i < p->n_steps && !e->no_folds; i++) {
        if (!is_foldable(e, i))
            continue;
        fold[i] = (uint32_t)i;
        for (size_t j = i + 1; j <= p->values[p->steps[i].out[0]].last; j++)
            if (p->steps[j].n_in && p->steps[j].in[0] == p->steps[i].out[0])
                fold[j] = (uint32_t)i;
    }
}
