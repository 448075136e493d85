/* SPDX-License-Identifier: MIT */
/* Elementwise operations and fused regions as an interpreter over lanes: each instruction runs over
 * a few hundred elements in f32 before the next one does, so that its loop is vectorised and the
 * intermediate results stay in the cache. i32, i8 and u8 take part as 32-bit lanes; other integers
 * and f64 are those of generic_wide.c. */
#include <math.h>

#include "base/half.h"
#include "cpu/generic.h"
#include "cpu/generic_math.h"
#include "cpu/generic_region_int.h"
#include "cpu/ref/ref.h"
#include "ir/functions.h"
#include "ops/region.h"

/* ---- Instructions ---------------------------------------------------------------------------- */

static inline float softplus(float x)
{
    return (x > 0 ? x : 0.0f) + log1pf(rx_lane_exp(-fabsf(x)));
}

static inline float limit(float x, float lo, float hi)
{
    const float y = x < lo ? lo : x;
    return y > hi ? hi : y;
}

static inline float larger(float x, float y) { return isnan(x) || x > y ? x : y; }
static inline float smaller(float x, float y) { return isnan(x) || x < y ? x : y; }
static inline float sign(float x) { return isnan(x) ? x : (float)((x > 0) - (x < 0)); }

static inline float floored_mod(float x, float y)
{
    const float r = fmodf(x, y);
    if (r == 0)
        return copysignf(0, y);
    return (r < 0) != (y < 0) ? r + y : r;
}

/* One operation over n lanes. a, b, c are the arguments, p0 and p1 the parameters. */
#define LANES(name, n_args, expr)                                                               \
    static void lanes_##name(const rx_instr *in, const float *const *arg, float *y, int64_t n)  \
    {                                                                                           \
        const float p0 = (float)in->p[0], p1 = (float)in->p[1];                                 \
        const float *x = arg[0], *z = arg[n_args > 1], *w = arg[n_args > 2 ? 2 : 0];            \
        (void)p0, (void)p1, (void)z, (void)w;                                                   \
        for (int64_t i = 0; i < n; i++) {                                                       \
            const float a = x[i], b = z[i], c = w[i];                                           \
            (void)b, (void)c;                                                                   \
            y[i] = expr;                                                                        \
        }                                                                                       \
    }

#define X a
#define A a
#define B b
#define ALPHA p0
#define BETA p1
#define K(c) ((float)(c))
#include "ir/functions_operators.h"
#define MAX(a, b) larger(a, b)
#define MIN(a, b) smaller(a, b)
#define POW(a, b) powf(a, b)
#define ATAN2(a, b) atan2f(a, b)
#define LIMIT(x, lo, hi) limit(x, lo, hi)
#define ABS(x) fabsf(x)
#define SIGN(x) sign(x)
#define SQRT(x) sqrtf(x)
#define EXP(x) rx_lane_exp(x)
#define EXP2(x) exp2f(x)
#define EXPM1(x) expm1f(x)
#define LOG(x) logf(x)
#define LOG2(x) log2f(x)
#define SIN(x) sinf(x)
#define COS(x) cosf(x)
#define TAN(x) tanf(x)
#define ASIN(x) asinf(x)
#define ACOS(x) acosf(x)
#define ATAN(x) atanf(x)
#define SINH(x) sinhf(x)
#define COSH(x) coshf(x)
#define TANH(x) tanhf(x)
#define ASINH(x) asinhf(x)
#define ACOSH(x) acoshf(x)
#define ATANH(x) atanhf(x)
#define ERF(x) erff(x)
#define GELU(x) rx_lane_gelu(x)
#define SIGMOID(x) rx_lane_sigmoid(x)
#define SOFTPLUS(x) softplus(x)
#define ROUND(x) nearbyintf(x)
#define FLOOR(x) floorf(x)
#define CEIL(x) ceilf(x)

#define TUNED_gelu_tanh INSTEAD rx_lane_gelu_tanh(X)
#define TUNED_silu INSTEAD rx_lane_silu(X)
#define TUNED_mish INSTEAD rx_lane_mish(X)
#define TUNED_hard_swish INSTEAD X * (limit(X + 3, 0, 6) / 6) /* no loss near -3 */

#define RLX_FUNCTION1(name, params, alpha, beta, meaning, types, kind, flags, domain, accuracy,    \
                      formula, derivative)                                                         \
    LANES(name, 1, RX_FORMULA(name, formula))
#define RLX_FUNCTION2(name, meaning, types, kind, flags, domain, accuracy, formula, by_a, by_b)    \
    LANES(name, 2, RX_FORMULA(name, formula))
#include "rlx/functions.def"
#include "ir/functions_end.h"

LANES(not, 1, a == 0)
LANES(is_nan, 1, isnan(a))
LANES(is_inf, 1, isinf(a) != 0)
LANES(clamp, 1, limit(a, p0, p1))
LANES(mod, 2, in->p[0] != 0 ? floored_mod(a, b) : fmodf(a, b))
LANES(and, 2, a != 0 && b != 0)
LANES(or, 2, a != 0 || b != 0)
LANES(xor, 2, (a != 0) != (b != 0))
LANES(eq, 2, a == b)
LANES(ne, 2, a != b)
LANES(lt, 2, a < b)
LANES(le, 2, a <= b)
LANES(gt, 2, a > b)
LANES(ge, 2, a >= b)
LANES(where, 3, a != 0 ? b : c)
LANES(fma, 3, fmaf(a, b, c))

static void lanes_cast(const rx_instr *in, const float *const *arg, float *y, int64_t n)
{
    const float *x = arg[0];
    for (int64_t i = 0; i < n; i++) {
        if (in->dtype == RLX_F16)
            y[i] = rx_f16_to_f32(rx_f32_to_f16(x[i]));
        else if (in->dtype == RLX_BF16)
            y[i] = rx_bf16_to_f32(rx_f32_to_bf16(x[i]));
        else
            y[i] = in->dtype == RLX_BOOL ? x[i] != 0 : x[i];
    }
}

#define F(name) [RX_OP_##name] = lanes_##name
#define RLX_FUNCTION1(name, ...) F(name),
#define RLX_FUNCTION2(name, ...) F(name),
static rx_lane_fn *const lane_table[RX_N_OPS] = {
#include "rlx/functions.def"
    F(not), F(is_nan), F(is_inf), F(clamp), F(cast), F(mod), F(and), F(or), F(xor), F(eq), F(ne),
    F(lt), F(le), F(gt), F(ge), F(where), F(fma),
};

void rx_act_lanes(rlx_act act, float *x, int64_t n)
{
    static const uint16_t ops[] = {
#define ACT(op, ACT_ID) [ACT_ID] = RX_OP_##op,
#include "compile/fuse.def"
#undef ACT
    };
    if (act == RLX_ACT_NONE)
        return;
    const rx_instr in = {.op = ops[act], .dtype = RLX_F32};
    lane_table[in.op](&in, (const float *const[]){x}, x, n);
}

/* ---- The interpreter ------------------------------------------------------------------------- */

#define LANE_ROOM 12288 /* floats on the stack, shared by all registers */
#define MAX_LANES 512
#define MAX_REGISTERS 96

typedef struct region_run {
    const rx_region *r;
    const rx_lane_set *set;
    const rx_view *in, *out; /* merged axes, all of one shape */
    int64_t lanes;           /* elements a register holds */
    bool stream;             /* f32 results are stored non-temporally */
    rx_lane_fn *fn[MAX_REGISTERS]; /* of each instruction */
} region_run;

/* Lanes `begin` .. `begin + n - 1`, in row-major order, of an operand. */
static const float *load_operand(const region_run *g, const rx_view *v, int64_t begin, int64_t n,
                                 float *room)
{
    int64_t size = rlx_dtype_block_bytes(v->dtype), inner = v->dim[v->rank - 1];
    int64_t step = v->stride[v->rank - 1];
    int64_t at[RLX_MAX_RANK];
    rx_unravel(begin, v->dim, v->rank, at);
    if (v->dtype == RLX_F32 && step == 1 &&
        (inner - at[v->rank - 1] >= n || rx_view_is_dense(v)))
        return (const float *)v->data + rx_offset(v, at);
    for (int64_t done = 0; done < n;) {
        int64_t run = inner - at[v->rank - 1];
        run = run < n - done ? run : n - done;
        (rx_is_int_lane(v->dtype) ? rx_load_int_lanes : g->set->load)(
            v->dtype, v->data + rx_offset(v, at) * size, step, room + done, run);
        done += run;
        at[v->rank - 1] += run - 1;
        rx_next(at, v->dim, v->rank);
    }
    return room;
}

/* The last instruction may write its f32 result in place: no later one reads an input. */
static float *result_place(const region_run *g, int i, int64_t begin, float *room)
{
    const rx_region *r = g->r;
    if (i != r->n_instr - 1 || g->stream)
        return room;
    for (int k = 0; k < r->n_out; k++)
        if (r->out[k] == i && g->out[k].data && g->out[k].dtype == RLX_F32)
            return (float *)g->out[k].data + begin;
    return room;
}

static void run_lanes(const region_run *g, int64_t begin, int64_t n, float *room)
{
    const rx_region *r = g->r;
    const float *reg[MAX_REGISTERS];
    for (int k = 0; k < r->n_in; k++)
        reg[k] = load_operand(g, &g->in[k], begin, n, room + k * g->lanes);
    for (int i = 0; i < r->n_instr; i++) {
        const rx_instr *in = &r->instr[i];
        const float *arg[3] = {0};
        for (int k = 0; k < rx_ops[in->op].min_in; k++)
            arg[k] = reg[in->arg[k]];
        float *y = result_place(g, i, begin, room + (r->n_in + i) * g->lanes);
        g->fn[i](in, arg, y, n);
        reg[r->n_in + i] = y;
    }
    for (int k = 0; k < r->n_out; k++) {
        const rx_view *y = &g->out[k];
        const float *from = reg[r->n_in + r->out[k]];
        if (y->data && g->stream && y->dtype == RLX_F32)
            g->set->stream((float *)y->data + begin, from, n);
        else if (y->data && rx_is_int_lane(y->dtype))
            rx_store_int_lanes(y->dtype, y->data + begin * rlx_dtype_block_bytes(y->dtype), from,
                               n);
        else if (y->data)
            g->set->store(y->dtype, y->data + begin * rlx_dtype_block_bytes(y->dtype), 1, from, n);
    }
}

static void run_range(void *user, int64_t begin, int64_t end)
{
    const region_run *g = user;
    float room[LANE_ROOM];
    for (int64_t i = begin; i < end; i += g->lanes)
        run_lanes(g, i, end - i < g->lanes ? end - i : g->lanes, room);
}

/* The function of instruction i, whose arguments have these types; NULL: there is none. */
static rx_lane_fn *find_fn(const rx_instr *in, const rlx_dtype *arg, const rx_lane_set *set)
{
    bool whole = rx_is_int_lane(in->dtype), real = rx_is_lane_type(in->dtype);
    for (int k = 0; k < rx_ops[in->op].min_in; k++) {
        whole = whole || rx_is_int_lane(arg[k]);
        real = real && rx_is_lane_type(arg[k]);
    }
    if (whole)
        return rx_int_lanes((rx_op)in->op, arg, in->dtype);
    return !real ? NULL : set->run[in->op] ? set->run[in->op] : lane_table[in->op];
}

/* Finds the functions of all instructions; false: a type or an operation has none. */
static bool can_run(const rx_call *c, const rx_region *r, const rx_lane_set *set, rx_lane_fn **fn)
{
    rlx_dtype type[MAX_REGISTERS];
    if (r->n_in + r->n_instr > MAX_REGISTERS)
        return false;
    for (size_t i = 0; i < c->n_in; i++) {
        type[i] = c->in[i].dtype;
        if (!rx_is_lane_type(type[i]) && !rx_is_int_lane(type[i]))
            return false;
    }
    for (int i = 0; i < r->n_instr; i++) {
        rlx_dtype arg[3] = {RLX_NO_TYPE};
        for (int k = 0; k < rx_ops[r->instr[i].op].min_in && k < 3; k++)
            arg[k] = type[r->instr[i].arg[k]];
        type[r->n_in + i] = r->instr[i].dtype;
        if (!(fn[i] = find_fn(&r->instr[i], arg, set)))
            return false;
    }
    return true;
}

/* Results larger than the last-level cache bypass it. */
static bool is_streamed(const rx_call *c, const rx_lane_set *set, int64_t n)
{
    const size_t l3 = (c->caches ? *c->caches : RX_COMMON_CACHES).l3;
    if (!set->stream || n <= (int64_t)(l3 / sizeof(float)))
        return false;
    for (size_t i = 0; i < c->n_out; i++)
        if ((uintptr_t)c->out[i].data % 64)
            return false;
    return true;
}

rx_view *rx_region_views(const rx_call *c)
{
    const size_t n = c->n_in + c->n_out;
    rx_view *views = rx_call_array(c, n, sizeof *views);
    if (!views)
        return NULL;
    for (size_t i = 0; i < c->n_in; i++)
        views[i] = rx_broadcast_view(&c->in[i], &c->out[0]);
    for (size_t i = 0; i < c->n_out; i++)
        views[c->n_in + i] = c->out[i];
    rx_merge_axes(views, n);
    return views;
}

static rlx_status run_region(const rx_call *c, const rx_region *r, const void *user)
{
    const rx_lane_set *set = user;
    region_run g = {.r = r, .set = set};
    if (!can_run(c, r, set, g.fn))
        return RLX_UNSUPPORTED;
    if (c->probe)
        return RLX_OK;
    int64_t n = rx_view_elements(&c->out[0]);
    if (n == 0)
        return RLX_OK;
    const rx_view *views = rx_region_views(c);
    if (!views)
        return RLX_NO_MEMORY;
    const int64_t lanes = LANE_ROOM / (r->n_in + r->n_instr) / 64 * 64;
    g.in = views;
    g.out = views + c->n_in;
    g.lanes = lanes < MAX_LANES ? lanes : MAX_LANES;
    g.stream = is_streamed(c, set, n);
    rx_parallel(c->pool, n, RX_GRAIN, run_range, &g);
    return RLX_OK;
}

rlx_status rx_run_as_region(const rx_call *c, rx_region_fn *run, const void *user)
{
    static const uint16_t first[] = {0};
    if (c->op == RX_OP_region)
        return run(c, c->attr, user);
    if (!rx_call_out(c, 0))
        return RLX_OK;
    rx_instr in = rx_instr_make(c->op, c->attr, c->out[0].dtype);
    for (uint16_t k = 0; k < c->n_in; k++)
        in.arg[k] = k;
    const rx_region r = {(uint16_t)c->n_in, 1, 1, &in, first};
    return run(c, &r, user);
}

rlx_status rx_run_elementwise(const rx_call *c, const rx_lane_set *set)
{
    return rx_run_as_region(c, run_region, set);
}

rlx_status rx_generic_elementwise(const rx_call *c)
{
    static const rx_lane_set portable = {rx_load_lanes, rx_store_lanes, NULL, {0}};
    return rx_run_elementwise(c, &portable);
}

rlx_status rx_run_swiglu(const rx_call *c, rx_kernel_fn *elementwise)
{
    static const uint16_t last[] = {1};
    const rx_view *y = rx_call_out(c, 0);
    if (!y)
        return RLX_OK;
    rx_view in[2] = {c->in[0], c->in[0]};
    const int axis = in[0].rank - 1;
    if (rx_call_in(c, 1)) {
        in[1] = c->in[1];
    } else {
        in[0].dim[axis] = in[1].dim[axis] = y->dim[axis];
        in[1].data += y->dim[axis] * in[0].stride[axis] * rlx_dtype_block_bytes(in[0].dtype);
    }
    const rx_instr instr[] = {
        {.op = RX_OP_silu, .arg = {0}, .dtype = y->dtype},
        {.op = RX_OP_mul, .arg = {2, 1}, .dtype = y->dtype},
    };
    const rx_region region = {.n_in = 2, .n_instr = 2, .n_out = 1, .instr = instr, .out = last};
    rx_call call = *c;
    call.op = RX_OP_region;
    call.attr = &region;
    call.in = in;
    call.n_in = 2;
    return elementwise(&call);
}

rlx_status rx_generic_swiglu(const rx_call *c)
{
    return rx_run_swiglu(c, rx_generic_elementwise);
}

rlx_status rx_run_gated_residual(const rx_call *c, rx_kernel_fn *elementwise)
{
    const rx_view in[3] = {c->in[2], c->in[1], c->in[0]};
    rx_call call = *c;
    call.op = RX_OP_fma;
    call.attr = NULL;
    call.in = in;
    return elementwise(&call);
}

rlx_status rx_generic_gated_residual(const rx_call *c)
{
    return rx_run_gated_residual(c, rx_generic_elementwise);
}
