/* SPDX-License-Identifier: MIT */
/* concat, and operations whose result elements are input elements selected per axis, or a fill
 * value: pad, tile, roll, nearest resize. Items are moved in runs; unchanged trailing axes belong
 * to the item. */
#include <string.h>

#include "base/dtype.h"
#include "cpu/generic.h"
#include "cpu/ref/ref.h"
#include "ops/resize.h"

/* ---- concat ---------------------------------------------------------------------------------- */

/* An input and its slice of the result: one shape, merged axes. */
typedef struct concat_run {
    rx_view from, to;
    int64_t size; /* bytes of an element */
} concat_run;

static void copy_strided(const concat_run *r, char *to, const char *from)
{
    const int last = r->from.rank - 1;
    const int64_t n = r->from.dim[last], size = r->size;
    const int64_t a = r->to.stride[last], b = r->from.stride[last];
    if (n == 1 || (a == 1 && b == 1)) {
        memcpy(to, from, (size_t)(n * size));
    } else if (size == 4) {
        for (int64_t i = 0; i < n; i++)
            ((uint32_t *)to)[i * a] = ((const uint32_t *)from)[i * b];
    } else {
        for (int64_t i = 0; i < n; i++)
            memcpy(to + i * a * size, from + i * b * size, (size_t)size);
    }
}

/* Units: lines along the last axis. */
static void concat_lines(void *user, int64_t begin, int64_t end)
{
    const concat_run *r = user;
    const int last = r->from.rank - 1;
    int64_t at[RLX_MAX_RANK] = {0};
    rx_unravel(begin, r->from.dim, last, at);
    for (; begin < end; begin++, rx_next(at, r->from.dim, last))
        copy_strided(r, r->to.data + rx_offset(&r->to, at) * r->size,
                     r->from.data + rx_offset(&r->from, at) * r->size);
}

rlx_status rx_generic_concat(const rx_call *c)
{
    const int64_t axis = ((const rx_axis_attr *)c->attr)->axis;
    const rx_view *y = rx_call_out(c, 0);
    if (!y || rx_view_elements(y) == 0)
        return RLX_OK;
    if (rlx_dtype_is_packed(y->dtype))
        return RLX_UNSUPPORTED;
    if (c->probe)
        return RLX_OK;
    const int64_t size = rlx_dtype_block_bytes(y->dtype);
    char *to = y->data;
    for (size_t i = 0; i < c->n_in; i++) {
        const rx_view *x = &c->in[i];
        if (rx_view_elements(x) == 0)
            continue;
        rx_view both[2] = {*x, *y};
        both[1].data = to;
        memcpy(both[1].dim, x->dim, sizeof x->dim);
        to += x->dim[axis] * y->stride[axis] * size;
        rx_merge_axes(both, 2);
        concat_run r = {both[0], both[1], size};
        const int64_t line = r.from.dim[r.from.rank - 1];
        rx_parallel(c->pool, rx_view_elements(x) / line, (RX_GRAIN + line - 1) / line,
                    concat_lines, &r);
    }
    return RLX_OK;
}

/* ---- Places ---------------------------------------------------------------------------------- */

/* Indices along the last axis with the same treatment. TOGETHER: they are consecutive in x. */
typedef struct segment {
    int64_t begin, n;
    enum { SEGMENT_FILL, SEGMENT_TOGETHER, SEGMENT_PICK } kind;
} segment;
#define MIN_TOGETHER 8

typedef struct move_run {
    const rx_view *x, *y;
    int rank;                         /* axes that are not part of an item */
    int64_t item;                     /* bytes */
    int64_t *index[RLX_MAX_RANK];     /* by index along an axis: that of x, -1: the fill value */
    segment *segments;                /* of the last axis */
    int64_t n_segments;
    int64_t element;                  /* bytes */
    char fill[8];
} move_run;

static void fill_items(const move_run *r, char *to, int64_t n)
{
    for (int64_t i = 0; i < n * r->item; i += r->element)
        memcpy(to + i, r->fill, (size_t)r->element);
}

/* Items of the last axis one by one, with a size that the compiler knows. */
#define PICK(type)                                                   \
    for (int64_t i = 0; i < n; i++)                                  \
        ((type *)to)[i] = ((const type *)from)[index[i] * stride]
static void pick_items(const move_run *r, char *to, const char *from, const int64_t *index,
                       int64_t n)
{
    const int64_t stride = r->x->stride[r->rank - 1];
    if (r->item == 4 && r->element == 4) {
        PICK(uint32_t);
    } else if (r->item == 2 && r->element == 2) {
        PICK(uint16_t);
    } else {
        for (int64_t i = 0; i < n; i++)
            memcpy(to + i * r->item, from + index[i] * stride * r->element, (size_t)r->item);
    }
}
#undef PICK

static int64_t n_fill(const int64_t *index, int64_t n)
{
    int64_t k = 0;
    while (k < n && index[k] < 0)
        k++;
    return k;
}

static int64_t n_together(const int64_t *index, int64_t n)
{
    int64_t k = 1;
    while (k < n && index[k] == index[k - 1] + 1)
        k++;
    return index[0] < 0 ? 0 : k;
}

static bool make_segments(const rx_call *c, move_run *r)
{
    const int last = r->rank - 1;
    const int64_t n = r->y->dim[last], *index = r->index[last];
    const bool dense = r->x->stride[last] * r->element == r->item;
    r->segments = rx_call_array(c, n, sizeof *r->segments);
    if (!r->segments)
        return false;
    for (int64_t i = 0; i < n;) {
        segment *s = &r->segments[r->n_segments];
        const int64_t fill = n_fill(index + i, n - i), run = n_together(index + i, n - i);
        if (fill || (dense && run >= MIN_TOGETHER) || r->n_segments == 0 ||
            s[-1].kind != SEGMENT_PICK) {
            *s = (segment){i, 0, fill ? SEGMENT_FILL : SEGMENT_PICK};
            if (!fill && dense && run >= MIN_TOGETHER)
                s->kind = SEGMENT_TOGETHER;
            r->n_segments++;
        } else {
            s--;
        }
        s->n += fill ? fill : run;
        i = s->begin + s->n;
    }
    return true;
}

static void move_line(const move_run *r, char *to, const char *from)
{
    const int last = r->rank - 1;
    const int64_t *index = r->index[last], step = r->x->stride[last] * r->element;
    for (int64_t k = 0; k < r->n_segments; k++) {
        const segment *s = &r->segments[k];
        char *at = to + s->begin * r->item;
        if (s->kind == SEGMENT_FILL)
            fill_items(r, at, s->n);
        else if (s->kind == SEGMENT_TOGETHER)
            memcpy(at, from + index[s->begin] * step, (size_t)(s->n * r->item));
        else
            pick_items(r, at, from, index + s->begin, s->n);
    }
}

/* Units: lines along the last axis. */
static void move_lines(void *user, int64_t begin, int64_t end)
{
    const move_run *r = user;
    const int last = r->rank - 1;
    const int64_t n = r->y->dim[last];
    int64_t at[RLX_MAX_RANK] = {0};
    rx_unravel(begin, r->y->dim, last, at);
    for (; begin < end; begin++, rx_next(at, r->y->dim, last)) {
        char *to = r->y->data + begin * n * r->item;
        int64_t from = 0;
        bool inside = true;
        for (int a = 0; a < last; a++) {
            inside = inside && r->index[a][at[a]] >= 0;
            from += r->index[a][at[a]] * r->x->stride[a];
        }
        if (inside)
            move_line(r, to, r->x->data + from * r->element);
        else
            fill_items(r, to, n);
    }
}

static int64_t place_of(const rx_call *c, int axis, int64_t i)
{
    const rx_view *x = &c->in[0];
    const int64_t n = x->dim[axis];
    if (c->op == RX_OP_pad)
        return rx_ref_pad_place(c->attr, x, axis, i);
    if (c->op == RX_OP_tile)
        return i % n;
    if (c->op == RX_OP_resize_nearest_2x)
        return axis < 2 ? i : i / 2;
    if (c->op == RX_OP_resize) {
        const rx_resize_axis m = {c->attr, axis, x->rank, n, c->out[0].dim[axis]};
        return rx_resize_nearest(&m, i);
    }
    const rx_roll_attr *roll = c->attr;
    return axis == roll->axis ? ((i - roll->shift % n) % n + n) % n : i;
}

static double fill_of(const rx_call *c)
{
    if (c->op == RX_OP_pad)
        return ((const rx_pad_attr *)c->attr)->value;
    return c->op == RX_OP_resize ? ((const rlx_resize_desc *)c->attr)->extrapolation : 0;
}

static bool is_kept(const move_run *r, int axis)
{
    const int64_t n = r->y->dim[axis];
    bool kept = r->x->dim[axis] == n && (n == 1 || r->x->stride[axis] * r->element == r->item);
    for (int64_t i = 0; kept && i < n; i++)
        kept = r->index[axis][i] == i;
    return kept;
}

rlx_status rx_generic_move(const rx_call *c)
{
    const rx_view *x = &c->in[0], *y = rx_call_out(c, 0);
    if (!y || rx_view_elements(y) == 0)
        return RLX_OK;
    if (rlx_dtype_is_packed(y->dtype) || rx_view_elements(x) == 0 || y->rank == 0)
        return RLX_UNSUPPORTED;
    if (c->op == RX_OP_resize &&
        ((const rlx_resize_desc *)c->attr)->mode != RLX_RESIZE_NEAREST)
        return RLX_UNSUPPORTED;
    if (c->probe)
        return RLX_OK;
    const int64_t size = rlx_dtype_block_bytes(y->dtype);
    move_run r = {.x = x, .y = y, .rank = y->rank, .item = size, .element = size};
    for (int a = 0; a < y->rank; a++) {
        r.index[a] = rx_call_array(c, y->dim[a], sizeof *r.index[a]);
        if (!r.index[a])
            return RLX_NO_MEMORY;
        for (int64_t i = 0; i < y->dim[a]; i++)
            r.index[a][i] = place_of(c, a, i);
    }
    const rx_view one = {.data = r.fill, .dtype = y->dtype};
    rx_store(&one, 0, fill_of(c));
    for (; r.rank > 1 && is_kept(&r, r.rank - 1); r.rank--)
        r.item *= y->dim[r.rank - 1];
    if (!make_segments(c, &r))
        return RLX_NO_MEMORY;
    const int64_t line = y->dim[r.rank - 1] * r.item;
    rx_parallel(c->pool, rx_view_elements(y) * size / line, (4 * RX_GRAIN + line - 1) / line,
                move_lines, &r);
    return RLX_OK;
}
