/* SPDX-License-Identifier: MIT */
/* Elementwise operations and regions on integers, bool and f64, and casts between them and floats,
 * with the results of the reference. An interpreter over lanes of 64 bits, as generic_region.c is
 * over f32: common operations are loops that compilers vectorise, the others call the reference for
 * each lane. */
#include "cpu/generic_wide.h"

#include "base/dtype.h"
#include "cpu/generic.h"
#include "cpu/ref/ref.h"
#include "ops/region.h"

#define LANE_ROOM 4096 /* lanes on the stack, shared by all registers */
#define MAX_LANES 256
#define MAX_REGISTERS 96

/* ---- Loading and storing --------------------------------------------------------------------- */

#define EACH(type, statement)                                       \
    do {                                                            \
        const type *p = (const type *)from;                         \
        for (int64_t i = 0; i < n; i++)                             \
            statement;                                              \
    } while (0)

void rx_load_ints(rlx_dtype t, const char *from, int64_t stride, int64_t *to, int64_t n)
{
    switch (t) {
#define X(ID, TYPE) case RLX_##ID: EACH(TYPE, to[i] = (int64_t)p[i * stride]); break;
    RX_INT_DTYPES(X)
#undef X
    default: EACH(uint8_t, to[i] = p[i * stride] != 0); break;
    }
}

void rx_load_reals(rlx_dtype t, const char *from, int64_t stride, double *to, int64_t n)
{
    float part[MAX_LANES];
    if (t == RLX_F64) {
        EACH(double, to[i] = p[i * stride]);
        return;
    }
    for (int64_t i = 0, m; i < n; i += m) {
        m = n - i < MAX_LANES ? n - i : MAX_LANES;
        rx_load_lanes(t, from + i * stride * rlx_dtype_block_bytes(t), stride, part, m);
        for (int64_t j = 0; j < m; j++)
            to[i + j] = part[j];
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
    default: EACH(uint8_t, x[i] != 0); break;
    }
}

static void store_reals(rlx_dtype t, char *to, const double *x, int64_t n)
{
    const rx_view y = {.data = to, .dtype = t};
    if (t == RLX_F64)
        EACH(double, x[i]);
    else
        for (int64_t i = 0; i < n; i++)
            rx_store(&y, i, x[i]);
}
#undef EACH

/* ---- Integers -------------------------------------------------------------------------------- */

/* y = op(a, b, c) on n lanes; y may be one of them. `width`: bits of the type. */
typedef void int_loop(const int64_t *a, const int64_t *b, const int64_t *c, int64_t *y, int64_t n,
                      int width);

#define INTS(name, value)                                                                          \
    static void ints_##name(const int64_t *a, const int64_t *b, const int64_t *c, int64_t *y,     \
                            int64_t n, int width)                                                  \
    {                                                                                              \
        (void)b, (void)c, (void)width;                                                             \
        for (int64_t i = 0; i < n; i++)                                                            \
            y[i] = (int64_t)(value);                                                               \
    }

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

INTS(cast, a[i])
INTS(relu, a[i] < 0 ? 0 : a[i])
INTS(neg, 0 - (uint64_t)a[i])
INTS(abs, a[i] < 0 ? 0 - (uint64_t)a[i] : (uint64_t)a[i])
INTS(sign, (a[i] > 0) - (a[i] < 0))
INTS(add, (uint64_t)a[i] + (uint64_t)b[i])
INTS(sub, (uint64_t)a[i] - (uint64_t)b[i])
INTS(mul, (uint64_t)a[i] * (uint64_t)b[i])
INTS(max, a[i] > b[i] ? a[i] : b[i])
INTS(min, a[i] < b[i] ? a[i] : b[i])
INTS(and, a[i] & b[i])
INTS(or, a[i] | b[i])
INTS(xor, a[i] ^ b[i])
INTS(shl, shift_left(a[i], b[i], width))
INTS(shr, shift_right(a[i], b[i], width))
INTS(eq, a[i] == b[i])
INTS(ne, a[i] != b[i])
INTS(lt, a[i] < b[i])
INTS(le, a[i] <= b[i])
INTS(gt, a[i] > b[i])
INTS(ge, a[i] >= b[i])
INTS(where, a[i] ? b[i] : c[i])

#define I(name) [RX_OP_##name] = ints_##name
static int_loop *const int_loops[RX_N_OPS] = {
    I(cast), I(relu), I(neg), I(abs), I(sign), I(add), I(sub), I(mul), I(max), I(min), I(and),
    I(or), I(xor), I(shl), I(shr), I(eq), I(ne), I(lt), I(le), I(gt), I(ge), I(where),
};

/* Those that do not depend on the sign, so that u64 has them too. */
#define U(name) [RX_OP_##name] = true
static const bool takes_unsigned[RX_N_OPS] = {
    U(cast), U(neg), U(add), U(sub), U(mul), U(and), U(or), U(xor), U(eq), U(ne), U(where),
};

/* To the range of the type. */
static void wrap_lanes(rlx_dtype t, int64_t *x, int64_t n)
{
    switch (t) {
#define X(ID, TYPE)                          \
    case RLX_##ID:                           \
        for (int64_t i = 0; i < n; i++)      \
            x[i] = (int64_t)(TYPE)x[i];      \
        break;
    RX_INT_DTYPES(X)
#undef X
    default: /* bool */
        for (int64_t i = 0; i < n; i++)
            x[i] = x[i] != 0;
        break;
    }
}

/* ---- Floats ---------------------------------------------------------------------------------- */

typedef void real_loop(const double *a, const double *b, double *y, int64_t n);

#define REALS(name, value)                                                                 \
    static void reals_##name(const double *a, const double *b, double *y, int64_t n)       \
    {                                                                                      \
        (void)b;                                                                           \
        for (int64_t i = 0; i < n; i++)                                                    \
            y[i] = value;                                                                  \
    }

REALS(neg, -a[i])
REALS(abs, fabs(a[i]))
REALS(sqrt, sqrt(a[i]))
REALS(add, a[i] + b[i])
REALS(sub, a[i] - b[i])
REALS(mul, a[i] * b[i])
REALS(div, a[i] / b[i])
REALS(max, isnan(a[i]) || a[i] > b[i] ? a[i] : b[i])
REALS(min, isnan(a[i]) || a[i] < b[i] ? a[i] : b[i])

#define R(name) [RX_OP_##name] = reals_##name
static real_loop *const real_loops[RX_N_OPS] = {
    R(neg), R(abs), R(sqrt), R(add), R(sub), R(mul), R(div), R(max), R(min),
};

/* ---- Casts ----------------------------------------------------------------------------------- */

typedef union lanes {
    int64_t *i;
    double *f;
    rx_scalar *any;
} lanes;

/* Truncated, within the range of the type; NaN becomes 0. */
static void truncate_lanes(rlx_dtype t, const double *x, int64_t *y, int64_t n)
{
    const rx_int_range range = rx_dtype_range(t);
    const int64_t lo = range.lo, hi = (int64_t)range.hi;
    const double bottom = (double)lo, top = (double)hi + 1; /* the first number too large */
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] >= top ? hi : isnan(x[i]) ? 0 : x[i] <= bottom ? lo : (int64_t)x[i];
}

/* False when there is no loop for these types. */
static bool cast_lanes(rlx_dtype from, rlx_dtype to, lanes x, lanes y, int64_t n)
{
    const bool is_float = rlx_dtype_is_float(from);
    if (from == RLX_U64 || to == RLX_U64)
        return false;
    if (is_float && to == RLX_BOOL)
        for (int64_t i = 0; i < n; i++)
            y.i[i] = x.f[i] != 0;
    else if (is_float && rlx_dtype_is_int(to))
        truncate_lanes(to, x.f, y.i, n);
    else if (to == RLX_F64)
        for (int64_t i = 0; i < n; i++)
            y.f[i] = is_float ? x.f[i] : (double)x.i[i];
    else if (to == RLX_F32 && !is_float)
        for (int64_t i = 0; i < n; i++)
            y.f[i] = (float)x.i[i];
    else
        return false;
    return true;
}

/* ---- The interpreter ------------------------------------------------------------------------- */

typedef struct wide_run {
    const rx_region *r;
    const rx_view *in, *out; /* merged axes, all of one shape */
    int64_t lanes;           /* that a register holds */
} wide_run;

static rlx_dtype type_of(const wide_run *w, int reg)
{
    return reg < w->r->n_in ? w->in[reg].dtype : w->r->instr[reg - w->r->n_in].dtype;
}

/* One instruction on n lanes. `last` is the type of its last argument. */
static void run_instr(const rx_instr *in, const lanes *arg, rlx_dtype last, lanes y, int64_t n)
{
    const bool is_float = rlx_dtype_is_float(last), to_float = rlx_dtype_is_float(in->dtype);
    if (is_float && real_loops[in->op]) {
        real_loops[in->op](arg[0].f, arg[1].f, y.f, n);
        return;
    }
    if (!is_float && !to_float && int_loops[in->op] &&
        (last != RLX_U64 || takes_unsigned[in->op])) {
        const int width = 8 * (int)rlx_dtype_block_bytes(in->dtype);
        int_loops[in->op](arg[0].i, arg[1].i, arg[2].i, y.i, n, width);
        wrap_lanes(in->dtype, y.i, n);
        return;
    }
    if (in->op == RX_OP_cast && cast_lanes(last, in->dtype, arg[0], y, n))
        return;
    const int n_args = rx_ops[in->op].min_in;
    for (int64_t i = 0; i < n; i++) {
        rx_scalar a[3] = {{0}};
        for (int k = 0; k < n_args; k++)
            a[k] = arg[k].any[i];
        y.any[i] = rx_ref_apply(in, a, n_args, last);
    }
}

/* Lanes `begin` .. `begin + n - 1`, in row-major order, of an operand. */
static void load_operand(const rx_view *v, int64_t begin, int64_t n, lanes to)
{
    const int64_t size = rlx_dtype_block_bytes(v->dtype), inner = v->dim[v->rank - 1];
    const int64_t step = v->stride[v->rank - 1];
    int64_t at[RLX_MAX_RANK];
    rx_unravel(begin, v->dim, v->rank, at);
    for (int64_t done = 0, run; done < n; done += run) {
        run = inner - at[v->rank - 1];
        run = run < n - done ? run : n - done;
        const char *from = v->data + rx_offset(v, at) * size;
        if (rlx_dtype_is_float(v->dtype))
            rx_load_reals(v->dtype, from, step, to.f + done, run);
        else
            rx_load_ints(v->dtype, from, step, to.i + done, run);
        at[v->rank - 1] += run - 1;
        rx_next(at, v->dim, v->rank);
    }
}

static void run_lanes(const wide_run *w, int64_t begin, int64_t n, rx_scalar *room)
{
    const rx_region *r = w->r;
    lanes reg[MAX_REGISTERS];
    for (int k = 0; k < r->n_in + r->n_instr; k++)
        reg[k].any = room + k * w->lanes;
    for (int k = 0; k < r->n_in; k++)
        load_operand(&w->in[k], begin, n, reg[k]);
    for (int i = 0; i < r->n_instr; i++) {
        const rx_instr *in = &r->instr[i];
        const int n_args = rx_ops[in->op].min_in;
        lanes arg[3] = {reg[in->arg[0]], reg[in->arg[0]], reg[in->arg[0]]};
        for (int k = 1; k < n_args; k++)
            arg[k] = reg[in->arg[k]];
        run_instr(in, arg, type_of(w, in->arg[n_args - 1]), reg[r->n_in + i], n);
    }
    for (int k = 0; k < r->n_out; k++) {
        const rx_view *y = &w->out[k];
        const lanes from = reg[r->n_in + r->out[k]];
        char *to = y->data + begin * rlx_dtype_block_bytes(y->dtype);
        if (!y->data)
            continue;
        if (rlx_dtype_is_float(y->dtype))
            store_reals(y->dtype, to, from.f, n);
        else
            store_ints(y->dtype, to, from.i, n);
    }
}

static void run_range(void *user, int64_t begin, int64_t end)
{
    const wide_run *w = user;
    rx_scalar room[LANE_ROOM];
    for (int64_t i = begin; i < end; i += w->lanes)
        run_lanes(w, i, end - i < w->lanes ? end - i : w->lanes, room);
}

static rlx_status run_region(const rx_call *c, const rx_region *r, const void *user)
{
    (void)user;
    if (r->n_in + r->n_instr > MAX_REGISTERS)
        return RLX_UNSUPPORTED;
    const int64_t n = rx_view_elements(&c->out[0]);
    if (c->probe || n == 0)
        return RLX_OK;
    const rx_view *views = rx_region_views(c);
    if (!views)
        return RLX_NO_MEMORY;
    const int64_t room = LANE_ROOM / (r->n_in + r->n_instr);
    wide_run w = {r, views, views + c->n_in, room < MAX_LANES ? room : MAX_LANES};
    rx_parallel(c->pool, n, RX_GRAIN, run_range, &w);
    return RLX_OK;
}

rlx_status rx_generic_wide(const rx_call *c)
{
    return rx_run_as_region(c, run_region, NULL);
}
