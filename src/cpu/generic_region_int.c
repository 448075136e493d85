/* SPDX-License-Identifier: MIT */
/* Integers in regions: i32, and i8 and u8 as i32, in the lanes that floats have too. Results are
 * those of the reference: i32 wraps, floats are truncated and saturate, NaN becomes 0. */
#include <string.h>

#include "cpu/generic.h"
#include "cpu/generic_region_int.h"

bool rx_is_int_lane(rlx_dtype t)
{
    return t == RLX_I32 || t == RLX_I8 || t == RLX_U8;
}

/* ---- Memory ---------------------------------------------------------------------------------- */

void rx_load_int_lanes(rlx_dtype t, const char *data, int64_t stride, float *lanes, int64_t n)
{
    int32_t *to = (int32_t *)(void *)lanes;
    const int8_t *i8 = (const int8_t *)data;
    const uint8_t *u8 = (const uint8_t *)data;
    const int32_t *i32 = (const int32_t *)(const void *)data;
    if (t == RLX_I32 && stride == 1)
        memcpy(to, data, (size_t)n * sizeof *to);
    else if (t == RLX_I32)
        for (int64_t i = 0; i < n; i++)
            to[i] = i32[i * stride];
    else if (t == RLX_I8)
        for (int64_t i = 0; i < n; i++)
            to[i] = i8[i * stride];
    else
        for (int64_t i = 0; i < n; i++)
            to[i] = u8[i * stride];
}

void rx_store_int_lanes(rlx_dtype t, char *data, const float *lanes, int64_t n)
{
    const int32_t *from = (const int32_t *)(const void *)lanes;
    if (t == RLX_I32)
        memcpy(data, from, (size_t)n * sizeof *from);
    else
        for (int64_t i = 0; i < n; i++)
            ((uint8_t *)data)[i] = (uint8_t)from[i];
}

/* ---- Instructions ---------------------------------------------------------------------------- */

/* a, b, c are the arguments; x0 is the first one as a float. */
#define LANES(name, type, expr)                                                                  \
    static void lanes_##name(const rx_instr *in, const float *const *arg, float *y, int64_t n)   \
    {                                                                                            \
        const int32_t *p = (const void *)arg[0];                                                 \
        const int32_t *q = (const void *)(arg[1] ? arg[1] : arg[0]);                             \
        const int32_t *r = (const void *)(arg[2] ? arg[2] : arg[0]);                             \
        type *to = (void *)y;                                                                    \
        (void)in;                                                                                \
        for (int64_t i = 0; i < n; i++) {                                                        \
            const int32_t a = p[i], b = q[i], c = r[i];                                          \
            const float x0 = arg[0][i];                                                          \
            (void)b, (void)c, (void)x0, (void)a;                                                 \
            to[i] = expr;                                                                        \
        }                                                                                        \
    }
#define WRAP(op) (int32_t)((uint32_t)a op (uint32_t)b)

static inline int32_t cut_to(float x, float lo, float hi)
{
    return x >= hi ? (int32_t)((int64_t)hi - (hi >= 0x1p31f)) : x <= lo ? (int32_t)lo
                                                    : x == x ? (int32_t)x : 0;
}

LANES(add, int32_t, WRAP(+))
LANES(sub, int32_t, WRAP(-))
LANES(mul, int32_t, WRAP(*))
LANES(and, int32_t, a & b)
LANES(or, int32_t, a | b)
LANES(xor, int32_t, a ^ b)
LANES(max, int32_t, a > b ? a : b)
LANES(min, int32_t, a < b ? a : b)
LANES(neg, int32_t, (int32_t)(0u - (uint32_t)a))
LANES(where, int32_t, x0 != 0 ? b : c)
LANES(eq, float, a == b)
LANES(ne, float, a != b)
LANES(lt, float, a < b)
LANES(le, float, a <= b)
LANES(gt, float, a > b)
LANES(ge, float, a >= b)
LANES(to_f32, float, (float)a)
LANES(to_bool, float, a != 0)
LANES(same, int32_t, a)
LANES(wrap_i8, int32_t, (int8_t)a)
LANES(wrap_u8, int32_t, (uint8_t)a)
LANES(cut_i32, int32_t, cut_to(x0, -0x1p31f, 0x1p31f))
LANES(cut_i8, int32_t, cut_to(x0, -128, 127))
LANES(cut_u8, int32_t, cut_to(x0, 0, 255))

static rx_lane_fn *cast_fn(rlx_dtype from, rlx_dtype to)
{
    const bool is_int = rx_is_int_lane(from);
    switch (to) {
    case RLX_F32: return is_int ? lanes_to_f32 : NULL;
    case RLX_BOOL: return is_int ? lanes_to_bool : NULL;
    case RLX_I32: return is_int ? lanes_same : lanes_cut_i32;
    case RLX_I8: return is_int ? lanes_wrap_i8 : lanes_cut_i8;
    case RLX_U8: return is_int ? lanes_wrap_u8 : lanes_cut_u8;
    default: return NULL;
    }
}

rx_lane_fn *rx_int_lanes(rx_op op, const rlx_dtype *arg, rlx_dtype to)
{
#define F(name) [RX_OP_##name] = lanes_##name
    static rx_lane_fn *const compare[RX_N_OPS] = {F(eq), F(ne), F(lt), F(le), F(gt), F(ge)};
    static rx_lane_fn *const whole[RX_N_OPS] = {F(add), F(sub), F(mul), F(and), F(or), F(xor),
                                                F(max), F(min), F(neg)};
#undef F
    if (op == RX_OP_cast)
        return cast_fn(arg[0], to);
    if (op == RX_OP_where)
        return arg[0] == RLX_BOOL && rx_is_int_lane(to) ? lanes_where : NULL;
    if (compare[op])
        return rx_is_int_lane(arg[0]) ? compare[op] : NULL;
    return to == RLX_I32 ? whole[op] : NULL;
}
