/* SPDX-License-Identifier: MIT */
/* Reference kernel of state_write: copies slices of the update into the state, in place; those in
 * f32 are rounded to the type of the state. */
#include "cpu/ref/ref.h"

#include "base/dtype.h"
#include "rlx/session.h"

/* The first byte of a tensor and the one after its last, for any strides. */
static void byte_range(const rx_view *v, const char **first, const char **end)
{
    const int64_t bytes = rx_dtype_info(v->dtype)->block_bytes;
    int64_t lo = 0, hi = 0;
    for (int i = 0; i < v->rank; i++) {
        const int64_t reach = (v->dim[i] - 1) * v->stride[i];
        lo += reach < 0 ? reach : 0;
        hi += reach > 0 ? reach : 0;
    }
    *first = v->data + lo * bytes;
    *end = v->data + (hi + 1) * bytes;
}

static bool overlap(const rx_view *a, const rx_view *b)
{
    const char *a_first, *a_end, *b_first, *b_end;
    byte_range(a, &a_first, &a_end);
    byte_range(b, &b_first, &b_end);
    return a_first < b_end && b_first < a_end;
}

static void move_element(const rx_view *to, int64_t j, const rx_view *from, int64_t i)
{
    if (to->dtype == from->dtype)
        rx_copy_element(to, j, from, i);
    else
        rx_store(to, j, rx_load(from, i));
}

static void copy_all(const rx_view *to, const rx_view *from)
{
    if (rx_view_elements(to) == 0)
        return;
    int64_t at[RLX_MAX_RANK] = {0};
    do {
        rx_copy_element(to, rx_offset(to, at), from, rx_offset(from, at));
    } while (rx_next(at, from->dim, from->rank));
}

/* The destination index of an update slice: position is a scalar (of the first slice), [L] or [B,
 * L]. */
static int64_t place(const rx_view *position, const int64_t *at, int axis)
{
    if (position->rank == 0) {
        int64_t sum;
        const bool wraps = __builtin_add_overflow(rx_load_int(position, 0), at[axis], &sum);
        return wraps ? -1 : sum;
    }
    const int64_t where[2] = {position->rank == 2 ? at[0] : at[axis], at[axis]};
    return rx_load_int(position, rx_offset(position, where));
}

rlx_status rx_ref_state_write(const rx_call *c)
{
    const int axis = (int)((const rx_axis_attr *)c->attr)->axis;
    const rx_view *state = &c->out[0], *position = &c->in[2];
    rx_view update = c->in[1];
    const int64_t n = rx_view_elements(&update);

    if (n > 0 && overlap(&update, state)) {
        /* The update aliases the state: copy it first. */
        rx_view copy = update;
        rx_view_set_dense(&copy, update.dtype, update.rank, update.dim);
        copy.data = rx_call_array(c, n, rx_dtype_info(update.dtype)->block_bytes);
        if (!copy.data)
            return RLX_NO_MEMORY;
        copy_all(&copy, &update);
        update = copy;
    }
    if (state->data != c->in[0].data)
        copy_all(state, &c->in[0]);
    if (n == 0)
        return RLX_OK;

    int64_t at[RLX_MAX_RANK] = {0};
    do {
        int64_t to[RLX_MAX_RANK];
        memcpy(to, at, sizeof to);
        to[axis] = place(position, at, axis);
        if (to[axis] < 0 || to[axis] >= state->dim[axis])
            rx_call_flag(c, RLX_FLAG_STATE_RANGE);
        else
            move_element(state, rx_offset(state, to), &update, rx_offset(&update, at));
    } while (rx_next(at, update.dim, update.rank));
    return RLX_OK;
}
