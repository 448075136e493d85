/* SPDX-License-Identifier: MIT */
/* state_write by whole runs of bytes where they are dense, as the caches of language models are. */
#include <string.h>

#include "base/dtype.h"
#include "cpu/generic.h"
#include "cpu/ref/ref.h"

/* The number of elements of the axes after `axis`, or -1 when they are not contiguous. */
static int64_t run_length(const rx_view *v, int axis)
{
    int64_t n = 1;
    for (int i = v->rank - 1; i > axis; i--) {
        if (v->dim[i] != 1 && v->stride[i] != n)
            return -1;
        n *= v->dim[i];
    }
    return n;
}

static bool overlap(const char *a, int64_t a_bytes, const char *b, int64_t b_bytes)
{
    return a < b + b_bytes && b < a + a_bytes;
}

/* n elements from one dense row to another, converted if needed. */
static void move_row(rlx_dtype to_type, char *to, rlx_dtype from_type, const char *from, int64_t n)
{
    if (to_type == from_type)
        memcpy(to, from, (size_t)(n * rx_dtype_info(to_type)->block_bytes));
    else
        rx_store_lanes(to_type, to, 1, (const float *)from, n);
}

/* The update's slices along axis 0 are written to the state one by one. */
rlx_status rx_generic_state_write(const rx_call *c)
{
    const rx_view *state = &c->out[0], *update = &c->in[1], *position = &c->in[2];
    const int64_t axis = ((const rx_axis_attr *)c->attr)->axis;
    if (axis != 0 || state->data != c->in[0].data || rlx_dtype_is_packed(state->dtype) ||
        position->rank > 1 || update->rank < 1)
        return RLX_UNSUPPORTED;
    const int64_t row = run_length(update, 0), n = update->dim[0];
    const int64_t size = rx_dtype_info(state->dtype)->block_bytes;
    const int64_t from_size = rx_dtype_info(update->dtype)->block_bytes;
    if (row <= 0 || row != run_length(state, 0) || state->stride[0] != row || n == 0 ||
        (n > 1 && update->stride[0] != row) ||
        overlap(state->data, row * size * state->dim[0], update->data, row * from_size * n))
        return RLX_UNSUPPORTED;
    if (c->probe)
        return RLX_OK;
    const int64_t first = position->rank == 0 ? rx_load_int(position, 0) : 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t place;
        if (position->rank == 1)
            place = rx_load_int(position, i * position->stride[0]);
        else if (__builtin_add_overflow(first, i, &place))
            place = -1;
        if (place < 0 || place >= state->dim[0])
            rx_call_flag(c, RLX_FLAG_STATE_RANGE);
        else
            move_row(state->dtype, state->data + place * row * size, update->dtype,
                     update->data + i * row * from_size, row);
    }
    return RLX_OK;
}
