/* SPDX-License-Identifier: MIT */
/* Elementwise operations on integers and bool, and casts between them and floats, as the reference
 * computes them: runs of elements become 64-bit integers, or floats, and back. Results wrap;
 * floats are truncated and saturate, NaN becomes 0. */
#include "cpu/generic_int.h"

#include <math.h>

#include "base/dtype.h"
#include "cpu/generic.h"
#include "cpu/ref/ref.h"

#define RUN 256

typedef struct int_run {
    rx_op op;
    int n_in;
    rx_view view[4]; /* operands, then the result: merged axes of one shape */
} int_run;

/* u64 has its order and its quotients in the reference. */
static bool is_int(rlx_dtype t)
{
    return t == RLX_BOOL || (rlx_dtype_is_int(t) && t != RLX_U64);
}

/* ---- Runs ------------------------------------------------------------------------------------ */

#define EACH(type, statement)                                       \
    do {                                                            \
        const type *p = (const type *)from;                         \
        for (int64_t i = 0; i < n; i++)                             \
            statement;                                              \
    } while (0)

static void load_ints(rlx_dtype t, const char *from, int64_t stride, int64_t *to, int64_t n)
{
    switch (t) {
#define X(ID, TYPE) case RLX_##ID: EACH(TYPE, to[i] = (int64_t)p[i * stride]); break;
    RX_INT_DTYPES(X)
#undef X
    default: EACH(uint8_t, to[i] = p[i * stride] != 0); break;
    }
}
#undef EACH

#define EACH(type, value)                                           \
    do {                                                            \
        type *p = (type *)to;                                       \
        for (int64_t i = 0; i < n; i++)                             \
            p[i] = (type)(value);                                   \
    } while (0)

static void store_ints(rlx_dtype t, char *to, const int64_t *x, int64_t n)
{
    switch (t) {
#define X(ID, TYPE) case RLX_##ID: EACH(TYPE, x[i]); break;
    RX_INT_DTYPES(X)
#undef X
    case RLX_F32: EACH(float, x[i]); break;
    case RLX_F64: EACH(double, x[i]); break;
    default: EACH(uint8_t, x[i] != 0); break;
    }
}
#undef EACH

/* Floats as integers of type t. */
static void truncate_floats(rlx_dtype t, const float *x, int64_t *y, int64_t n)
{
    const rx_int_range range = rx_dtype_range(t);
    const int64_t lo = range.lo, hi = (int64_t)range.hi;
    const float top = (float)((double)hi + 1); /* the first number too large */
    for (int64_t i = 0; i < n; i++) {
        if (t == RLX_BOOL)
            y[i] = x[i] != 0;
        else if (x[i] >= top)
            y[i] = hi;
        else
            y[i] = isnan(x[i]) ? 0 : x[i] <= (float)lo ? lo : (int64_t)x[i];
    }
}

/* ---- Operations ------------------------------------------------------------------------------ */

#define CASE(name, value)               \
    case RX_OP_##name:                  \
        for (int64_t i = 0; i < n; i++) \
            y[i] = (int64_t)(value);    \
        return true

/* Shifts of integers of `width` bits by a count outside of 0 .. width-1 leave 0, to the right the
 * sign. */
static int64_t shift_left(int64_t x, int64_t count, int width)
{
    return count < 0 || count >= width ? 0 : (int64_t)((uint64_t)x << count);
}

static int64_t shift_right(int64_t x, int64_t count, int width)
{
    return count < 0 ? 0 : x >> (count < width ? count : 63);
}

/* y = op(a, b, c) of integers of `width` bits; false for operations that are not here. y may be a.
 * n 0 asks. */
static bool run_ints(rx_op op, int width, int64_t *const x[3], int64_t *y, int64_t n)
{
    const int64_t *a = x[0], *b = x[1], *c = x[2];
    switch (op) {
    CASE(cast, a[i]);
    CASE(relu, a[i] < 0 ? 0 : a[i]);
    CASE(neg, 0 - (uint64_t)a[i]);
    CASE(abs, a[i] < 0 ? 0 - (uint64_t)a[i] : (uint64_t)a[i]);
    CASE(sign, (a[i] > 0) - (a[i] < 0));
    CASE(add, (uint64_t)a[i] + (uint64_t)b[i]);
    CASE(sub, (uint64_t)a[i] - (uint64_t)b[i]);
    CASE(mul, (uint64_t)a[i] * (uint64_t)b[i]);
    CASE(max, a[i] > b[i] ? a[i] : b[i]);
    CASE(min, a[i] < b[i] ? a[i] : b[i]);
    CASE(and, a[i] & b[i]);
    CASE(or, a[i] | b[i]);
    CASE(xor, a[i] ^ b[i]);
    CASE(shl, shift_left(a[i], b[i], width));
    CASE(shr, shift_right(a[i], b[i], width));
    CASE(eq, a[i] == b[i]);
    CASE(ne, a[i] != b[i]);
    CASE(lt, a[i] < b[i]);
    CASE(le, a[i] <= b[i]);
    CASE(gt, a[i] > b[i]);
    CASE(ge, a[i] >= b[i]);
    CASE(where, a[i] ? b[i] : c[i]);
    default: return false;
    }
}
#undef CASE

/* n elements of every operand, at the same coordinates. */
static void run_part(const int_run *r, const int64_t *at, int64_t n, char *to)
{
    int64_t x[3][RUN];
    float floats[RUN];
    const rlx_dtype t = r->view[r->n_in].dtype;
    for (int k = 0; k < r->n_in; k++) {
        const rx_view *v = &r->view[k];
        const char *from = v->data + rx_offset(v, at) * rlx_dtype_block_bytes(v->dtype);
        const int64_t stride = v->stride[v->rank - 1];
        if (is_int(v->dtype)) {
            load_ints(v->dtype, from, stride, x[k], n);
        } else {
            rx_load_lanes(v->dtype, from, stride, floats, n);
            truncate_floats(t, floats, x[k], n);
        }
    }
    run_ints(r->op, 8 * (int)rlx_dtype_block_bytes(t), (int64_t *[]){x[0], x[1], x[2]}, x[0], n);
    store_ints(t, to, x[0], n);
}

static void run_range(void *user, int64_t begin, int64_t end)
{
    const int_run *r = user;
    const rx_view *y = &r->view[r->n_in];
    const int last = y->rank - 1;
    int64_t at[RLX_MAX_RANK];
    rx_unravel(begin, y->dim, y->rank, at);
    for (int64_t n; begin < end; begin += n) {
        n = y->dim[last] - at[last];
        n = n < RUN ? n : RUN;
        n = n < end - begin ? n : end - begin;
        run_part(r, at, n, y->data + begin * rlx_dtype_block_bytes(y->dtype));
        at[last] += n - 1;
        rx_next(at, y->dim, y->rank);
    }
}

/* Integers to integers, or by cast to f32 and f64; floats to integers by cast. */
static bool can_take(const rx_call *c, const rx_view *y)
{
    bool ints = c->n_in <= 3;
    for (size_t i = 0; i < c->n_in; i++)
        ints = ints && is_int(c->in[i].dtype);
    if (c->op != RX_OP_cast)
        return ints && is_int(y->dtype) && run_ints(c->op, 0, (int64_t *[3]){0}, NULL, 0);
    const bool to_float = y->dtype == RLX_F32 || y->dtype == RLX_F64;
    return (ints && (is_int(y->dtype) || to_float)) ||
           (rx_is_lane_type(c->in[0].dtype) && is_int(y->dtype));
}

rlx_status rx_generic_int(const rx_call *c)
{
    const rx_view *y = rx_call_out(c, 0);
    if (!y || rx_view_elements(y) == 0)
        return RLX_OK;
    if (!can_take(c, y))
        return RLX_UNSUPPORTED;
    if (c->probe)
        return RLX_OK;
    int_run r = {.op = c->op, .n_in = (int)c->n_in};
    for (int i = 0; i < r.n_in; i++)
        r.view[i] = rx_broadcast_view(&c->in[i], y);
    r.view[r.n_in] = *y;
    rx_merge_axes(r.view, c->n_in + 1);
    rx_parallel(c->pool, rx_view_elements(y), RX_GRAIN, run_range, &r);
    return RLX_OK;
}
