/* SPDX-License-Identifier: MIT */
/* Copies into dense memory: copy, and view operations whose result needs memory of its own. Runs of
 * the innermost axis are moved at once where they have no gaps. */
#include <string.h>

#include "cpu/generic.h"
#include "cpu/ref/ref.h"

typedef struct copy_run {
    rx_view from, to; /* merged axes */
    int64_t size;     /* bytes of an element */
} copy_run;

static void copy_elements(char *to, const char *from, int64_t n, int64_t stride, int64_t size)
{
    if (stride == 1) {
        memmove(to, from, (size_t)(n * size));
    } else if (size == 4) {
        for (int64_t i = 0; i < n; i++)
            ((uint32_t *)to)[i] = ((const uint32_t *)from)[i * stride];
    } else if (size == 2) {
        for (int64_t i = 0; i < n; i++)
            ((uint16_t *)to)[i] = ((const uint16_t *)from)[i * stride];
    } else {
        for (int64_t i = 0; i < n; i++)
            memcpy(to + i * size, from + i * stride * size, (size_t)size);
    }
}

static void copy_range(void *user, int64_t begin, int64_t end)
{
    const copy_run *r = user;
    const rx_view *v = &r->from;
    int last = v->rank - 1;
    int64_t at[RLX_MAX_RANK];
    rx_unravel(begin, v->dim, v->rank, at);
    while (begin < end) {
        int64_t n = v->dim[last] - at[last];
        n = n < end - begin ? n : end - begin;
        copy_elements(r->to.data + begin * r->size, v->data + rx_offset(v, at) * r->size, n,
                      v->stride[last], r->size);
        begin += n;
        at[last] += n - 1;
        rx_next(at, v->dim, v->rank);
    }
}

rlx_status rx_generic_copy(const rx_call *c)
{
    const rx_view *y = rx_call_out(c, 0);
    if (!y)
        return RLX_OK;
    if (rlx_dtype_is_packed(y->dtype))
        return RLX_UNSUPPORTED;
    int64_t n = rx_view_elements(y);
    if (n == 0)
        return RLX_OK;
    rx_view x = *y;
    if (c->op == RX_OP_copy || c->op == RX_OP_reshape)
        x = c->in[0];
    else if (!rx_view_apply(c->op, c->attr, &c->in[0], &x))
        return RLX_UNSUPPORTED;
    if (c->probe)
        return RLX_OK;
    copy_run r = {.from = x, .to = *y, .size = rlx_dtype_block_bytes(y->dtype)};
    rx_merge_axes(&r.from, 1);
    rx_parallel(c->pool, n, RX_GRAIN, copy_range, &r);
    return RLX_OK;
}
