/* SPDX-License-Identifier: MIT */
/* Elementwise operations and fused regions as an interpreter over lanes: each instruction runs over
 * a few hundred elements in f32 before the next one does, so that its loop is vectorised and the
 * intermediate results stay in the cache. Integers are left to the reference. */
#include <math.h>

#include "base/half.h"
#include "cpu/generic.h"
#include "cpu/generic_math.h"
#include "cpu/ref/ref.h"
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

static inline float floored_mod(float x, float y)
{
    const float r = fmodf(x, y);
    if (r == 0)
        return copysignf(0, y);
    return (r < 0) != (y < 0) ? r + y : r;
}

/* a, b, c are the arguments, p0 and p1 the parameters. */
#define LANES(name, expr)                                                                       \
    static void lanes_##name(const rx_instr *in, const float *const *arg, float *y, int64_t n)  \
    {                                                                                           \
        const float p0 = (float)in->p[0], p1 = (float)in->p[1];                                 \
        const float *x = arg[0];                                                                \
        (void)p0, (void)p1;                                                                     \
        for (int64_t i = 0; i < n; i++) {                                                       \
            const float a = x[i];                                                               \
            y[i] = expr;                                                                        \
        }                                                                                       \
    }
#define LANES2(name, expr)                                                                      \
    static void lanes_##name(const rx_instr *in, const float *const *arg, float *y, int64_t n)  \
    {                                                                                           \
        const float *x = arg[0], *z = arg[1];                                                   \
        (void)in;                                                                               \
        for (int64_t i = 0; i < n; i++) {                                                       \
            const float a = x[i], b = z[i];                                                     \
            y[i] = expr;                                                                        \
        }                                                                                       \
    }
#define LANES3(name, expr)                                                                      \
    static void lanes_##name(const rx_instr *in, const float *const *arg, float *y, int64_t n)  \
    {                                                                                           \
        const float *x = arg[0], *z = arg[1], *w = arg[2];                                      \
        (void)in;                                                                               \
        for (int64_t i = 0; i < n; i++) {                                                       \
            const float a = x[i], b = z[i], c = w[i];                                           \
            y[i] = expr;                                                                        \
        }                                                                                       \
    }

LANES(relu, a < 0 ? 0 : a)
LANES(gelu, rx_lane_gelu(a))
LANES(gelu_tanh, rx_lane_gelu_tanh(a))
LANES(silu, rx_lane_silu(a))
LANES(sigmoid, rx_lane_sigmoid(a))
LANES(tanh, tanhf(a))
LANES(exp, rx_lane_exp(a))
LANES(log, logf(a))
LANES(sqrt, sqrtf(a))
LANES(rsqrt, 1 / sqrtf(a))
LANES(neg, -a)
LANES(abs, fabsf(a))
LANES(sin, sinf(a))
LANES(cos, cosf(a))
LANES(tan, tanf(a))
LANES(atan, atanf(a))
LANES(round, nearbyintf(a))
LANES(reciprocal, 1 / a)
LANES(floor, floorf(a))
LANES(ceil, ceilf(a))
LANES(sign, isnan(a) ? a : (float)((a > 0) - (a < 0)))
LANES(softplus, softplus(a))
LANES(elu, a > 0 ? a : p0 * expm1f(a))
LANES(erf, erff(a))
LANES(hard_swish, a * (limit(a + 3, 0, 6) / 6))
LANES(hard_sigmoid, limit(p0 * a + p1, 0, 1))
LANES(mish, rx_lane_mish(a))
LANES(softsign, a / (1 + fabsf(a)))
LANES(log_sigmoid, -softplus(-a))
LANES(asin, asinf(a))
LANES(acos, acosf(a))
LANES(sinh, sinhf(a))
LANES(cosh, coshf(a))
LANES(asinh, asinhf(a))
LANES(acosh, acoshf(a))
LANES(atanh, atanhf(a))
LANES(exp2, exp2f(a))
LANES(log2, log2f(a))
LANES(leaky_relu, a < 0 ? p0 * a : a)
LANES(selu, p1 * (a > 0 ? a : p0 * expm1f(a)))
LANES(celu, a > 0 ? a : p0 * expm1f(a / p0))
LANES(not, a == 0)
LANES(is_nan, isnan(a))
LANES(is_inf, isinf(a) != 0)
LANES(clamp, limit(a, p0, p1))

LANES2(add, a + b)
LANES2(sub, a - b)
LANES2(mul, a * b)
LANES2(div, a / b)
LANES2(max, isnan(a) || a > b ? a : b)
LANES2(min, isnan(a) || a < b ? a : b)
LANES2(pow, powf(a, b))
LANES2(mod, in->p[0] != 0 ? floored_mod(a, b) : fmodf(a, b))
LANES2(and, a != 0 && b != 0)
LANES2(or, a != 0 || b != 0)
LANES2(xor, (a != 0) != (b != 0))
LANES2(atan2, atan2f(a, b))
LANES2(eq, a == b)
LANES2(ne, a != b)
LANES2(lt, a < b)
LANES2(le, a <= b)
LANES2(gt, a > b)
LANES2(ge, a >= b)
LANES3(where, a != 0 ? b : c)
LANES3(fma, fmaf(a, b, c))

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
static rx_lane_fn *const lane_table[RX_N_OPS] = {
    F(relu), F(gelu), F(gelu_tanh), F(silu), F(sigmoid), F(tanh), F(exp), F(log), F(sqrt),
    F(rsqrt), F(neg), F(abs), F(sin), F(cos), F(tan), F(atan), F(round), F(reciprocal), F(floor),
    F(ceil), F(sign), F(softplus), F(elu), F(erf), F(hard_swish), F(hard_sigmoid), F(mish),
    F(softsign), F(log_sigmoid), F(asin), F(acos), F(sinh), F(cosh), F(asinh), F(acosh), F(atanh),
    F(exp2), F(log2), F(leaky_relu), F(selu), F(celu), F(not), F(is_nan), F(is_inf), F(clamp),
    F(cast), F(add), F(sub), F(mul), F(div), F(max), F(min), F(pow), F(mod), F(and), F(or), F(xor),
    F(atan2), F(eq), F(ne), F(lt), F(le), F(gt), F(ge), F(where), F(fma),
};

void rx_act_lanes(rlx_act act, float *x, int64_t n)
{
    static const uint16_t ops[] = {
        [RLX_ACT_RELU] = RX_OP_relu,       [RLX_ACT_GELU] = RX_OP_gelu,
        [RLX_ACT_GELU_TANH] = RX_OP_gelu_tanh, [RLX_ACT_SILU] = RX_OP_silu,
        [RLX_ACT_SIGMOID] = RX_OP_sigmoid, [RLX_ACT_TANH] = RX_OP_tanh,
        [RLX_ACT_HARD_SWISH] = RX_OP_hard_swish,
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
    bool stream;             /* f32 results go past the caches */
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
        g->set->load(v->dtype, v->data + rx_offset(v, at) * size, step, room + done, run);
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
        rx_lane_fn *run = g->set->run[in->op];
        (run ? run : lane_table[in->op])(in, arg, y, n);
        reg[r->n_in + i] = y;
    }
    for (int k = 0; k < r->n_out; k++) {
        const rx_view *y = &g->out[k];
        const float *from = reg[r->n_in + r->out[k]];
        if (y->data && g->stream && y->dtype == RLX_F32)
            g->set->stream((float *)y->data + begin, from, n);
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

static bool can_run(const rx_call *c, const rx_region *r)
{
    if (r->n_in + r->n_instr > MAX_REGISTERS)
        return false;
    for (size_t i = 0; i < c->n_in; i++)
        if (!rx_is_lane_type(c->in[i].dtype))
            return false;
    for (int i = 0; i < r->n_instr; i++)
        if (!lane_table[r->instr[i].op] || !rx_is_lane_type(r->instr[i].dtype))
            return false;
    return true;
}

/* Results larger than the last cache are not brought into it. */
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

static rlx_status run_region(const rx_call *c, const rx_region *r, const rx_lane_set *set)
{
    if (!can_run(c, r))
        return RLX_UNSUPPORTED;
    if (c->probe)
        return RLX_OK;
    int64_t n = rx_view_elements(&c->out[0]);
    if (n == 0)
        return RLX_OK;
    size_t n_views = c->n_in + c->n_out;
    rx_view *views = rx_call_array(c, n_views, sizeof *views);
    if (!views)
        return RLX_NO_MEMORY;
    for (size_t i = 0; i < c->n_in; i++)
        views[i] = rx_broadcast_view(&c->in[i], &c->out[0]);
    for (size_t i = 0; i < c->n_out; i++)
        views[c->n_in + i] = c->out[i];
    rx_merge_axes(views, n_views);
    const int64_t lanes = LANE_ROOM / (r->n_in + r->n_instr) / 64 * 64;
    region_run g = {r, set, views, views + c->n_in, lanes < MAX_LANES ? lanes : MAX_LANES,
                    is_streamed(c, set, n)};
    rx_parallel(c->pool, n, RX_GRAIN, run_range, &g);
    return RLX_OK;
}

rlx_status rx_run_elementwise(const rx_call *c, const rx_lane_set *set)
{
    static const uint16_t first[] = {0};
    if (c->op == RX_OP_region)
        return run_region(c, c->attr, set);
    if (!rx_call_out(c, 0))
        return RLX_OK;
    rx_instr in = rx_instr_make(c->op, c->attr, c->out[0].dtype);
    for (uint16_t k = 0; k < c->n_in; k++)
        in.arg[k] = k;
    const rx_region r = {(uint16_t)c->n_in, 1, 1, &in, first};
    return run_region(c, &r, set);
}

rlx_status rx_generic_elementwise(const rx_call *c)
{
    static const rx_lane_set portable = {rx_load_lanes, rx_store_lanes, NULL, {0}};
    return rx_run_elementwise(c, &portable);
}
