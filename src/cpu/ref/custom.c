/* SPDX-License-Identifier: MIT */
/* custom: calls the registered function with dense operands; strided operands are copied first, and
 * unused results get scratch memory. */
#include "base/dtype.h"
#include "cpu/ref/ref.h"
#include "ops/custom.h"

static void *dense_room(const rx_call *c, const rx_view *v)
{
    uint64_t bytes = 0;
    return rx_dtype_bytes(v->dtype, rx_view_elements(v), &bytes)
               ? rx_call_scratch(c, bytes ? bytes : 1)
               : NULL;
}

static rlx_status dense_operand(const rx_call *c, const rx_view *v, void **data)
{
    if (!rx_view_exists(v) || rx_view_is_dense(v)) {
        *data = rx_view_exists(v) ? v->data : NULL;
        return RLX_OK;
    }
    rx_view to;
    rx_view_set_dense(&to, v->dtype, v->rank, v->dim);
    *data = to.data = dense_room(c, v);
    const rx_call copy = {.op = RX_OP_copy, .n_in = 1, .n_out = 1, .in = v, .out = &to};
    return to.data ? rx_ref_copy(&copy) : RLX_NO_MEMORY;
}

rlx_status rx_ref_custom(const rx_call *c)
{
    const rlx_custom_desc *attrs = c->attr;
    const rlx_op_desc *d = rx_custom_find(attrs->op);
    rx_custom_call call;
    if (!d || !d->cpu)
        return RLX_UNSUPPORTED;
    if (c->probe)
        return RLX_OK;
    rx_custom_fill(&call, attrs, c->in, c->n_in, c->out, c->n_out);
    for (size_t i = 0; i < c->n_in; i++)
        RLX_TRY(dense_operand(c, &c->in[i], &call.tensors[i].data));
    for (size_t i = 0; i < c->n_out; i++) {
        void *data = c->out[i].data ? c->out[i].data : dense_room(c, &c->out[i]);
        if (!data)
            return RLX_NO_MEMORY;
        call.call.out[i].data = data;
    }
    return d->cpu(d->user, &call.call);
}
