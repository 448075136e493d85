/* SPDX-License-Identifier: MIT */
/* Casts, and narrow element types (int4, uint2, float8, float4, ...), which rlx holds one element a
 * byte: integers as i8 or u8, floats as their codes in u8. Codes are decoded by a table and encoded
 * by exact f32 arithmetic, so every device gives the same result. */
#include <math.h>

#include "import/onnx_build.h"

/* A narrow float: `mantissa` bits, `low` the exponent of the smallest normal number; codes, without
 * the sign bit, of the largest number, of overflow and of NaN (with the sign bit where that is the
 * only NaN). */
typedef struct format {
    int32_t number; /* TensorProto.DataType */
    int mantissa, low;
    int largest, beyond, nan;
    int sign;       /* bit of the code */
    bool no_minus_zero;
} format;

static const format formats[] = {
    {17, 3, -6, 0x7e, 0x7f, 0x7f, 0x80, false},
    {18, 3, -7, 0x7f, 0x80, 0x80, 0x80, true},
    {19, 2, -14, 0x7b, 0x7c, 0x7e, 0x80, false},
    {20, 2, -15, 0x7f, 0x80, 0x80, 0x80, true},
    {23, 1, 0, 7, 7, 8, 8, false},
};
#define E8M0 24

static const format *find_format(const rx_onnx_type *t)
{
    for (size_t i = 0; t && i < sizeof formats / sizeof formats[0]; i++)
        if (formats[i].number == t->number)
            return &formats[i];
    return NULL;
}

const rx_onnx_type *rx_onnx_value_type(rx_onnx_build *b, rlx_value v)
{
    const rx_onnx_type *t = rx_onnx_narrow(b, v);
    return t ? t : rx_onnx_type_like(rlx_value_dtype(b->g, v));
}

/* ---- Codes to numbers ------------------------------------------------------------------------ */

static float decode(const format *f, int code)
{
    const int magnitude = code & (f->sign - 1), exponent = magnitude >> f->mantissa;
    const int bits = magnitude & ((1 << f->mantissa) - 1);
    const float sign = code & f->sign ? -1.0f : 1.0f;
    if (f->no_minus_zero ? code == f->nan : f->sign == 0x80 && magnitude > f->beyond)
        return NAN;
    if (!f->no_minus_zero && f->sign == 0x80 && magnitude == f->beyond)
        return f->beyond == f->nan ? NAN : sign * INFINITY;
    return exponent ? sign * ldexpf((float)(bits | 1 << f->mantissa),
                                    f->low + exponent - 1 - f->mantissa)
                    : sign * ldexpf((float)bits, f->low - f->mantissa);
}

rlx_value rx_onnx_widen(rx_onnx_call *c, rlx_value x)
{
    const rx_onnx_type *t = rx_onnx_narrow(c->b, x);
    const format *f = find_format(t);
    const int64_t n = 256;
    float table[256];
    if (!f && (!t || t->number != E8M0))
        return x;
    for (int i = 0; i < 256; i++)
        table[i] = f ? decode(f, i) : i == 255 ? NAN : ldexpf(1, i - 127);
    const rlx_value values = rlx_constant(c->g, RLX_F32, 1, &n, table, sizeof table);
    return rlx_gather(c->g, values, rlx_cast(c->g, x, RLX_I32), 0);
}

/* ---- Numbers to codes ------------------------------------------------------------------------ */

static rlx_value f32(rlx_graph *g, double v) { return rlx_scalar(g, RLX_F32, v); }

static rlx_value table_of(rlx_graph *g, const format *f, int n, int sign)
{
    const int64_t size = n;
    float t[64];
    for (int i = 0; i < n; i++)
        t[i] = ldexpf(1, sign * (f->low + i - f->mantissa));
    return rlx_constant(g, RLX_F32, 1, &size, t, (size_t)n * sizeof t[0]);
}

/* The codes of x, f32, rounded to the nearest, ties to even. */
static rlx_value encode(rlx_graph *g, rlx_value x, const format *f, bool saturate)
{
    const int n = ((f->largest >> f->mantissa) > 1 ? f->largest >> f->mantissa : 1) + 1;
    const rlx_value a = rlx_abs(g, x), top = f32(g, ldexp(1, f->low + n));
    const rlx_value inside = rlx_min(g, a, top), nan = rlx_is_nan(g, x);
    /* Near a power of two, log2 may round to the neighbouring exponent; with either step x rounds
     * to that power. NaN gets step 0. */
    const rlx_value least = f32(g, ldexp(1, f->low));
    const rlx_value log = rlx_floor(g, rlx_log2(g, rlx_max(g, inside, least)));
    const rlx_value step = rlx_clamp(g, rlx_sub(g, log, f32(g, f->low)), 0, n - 1);
    const rlx_value inverse = rlx_gather(g, table_of(g, f, n, -1), rlx_cast(g, step, RLX_I32), 0);
    const rlx_value units = rlx_round(g, rlx_mul(g, inside, inverse));
    rlx_value code = rlx_add(g, units, rlx_mul(g, step, f32(g, 1 << f->mantissa)));
    const rlx_value over = rlx_gt(g, code, f32(g, f->largest));
    const bool keeps = saturate || f->sign == 8;
    code = rlx_where(g, over, f32(g, keeps ? f->largest : f->beyond), code);
    /* 1/x detects the sign of -0, the comparison that of -inf. */
    rlx_value negative = rlx_or(g, rlx_lt(g, x, f32(g, 0)),
                                rlx_lt(g, rlx_reciprocal(g, x), f32(g, 0)));
    if (f->no_minus_zero)
        negative = rlx_and(g, negative, rlx_and(g, rlx_gt(g, code, f32(g, 0)),
                                                rlx_lt(g, code, f32(g, f->sign))));
    code = rlx_add(g, code, rlx_where(g, negative, f32(g, f->sign), f32(g, 0)));
    return rlx_cast(g, rlx_where(g, nan, f32(g, f->nan), code), RLX_U8);
}

/* float8e8m0: the exponent of x rounded by `round_mode`, plus 127. */
static rlx_value encode_e8m0(rx_onnx_call *c, rlx_value x, bool saturate)
{
    rlx_graph *g = c->g;
    const int64_t n = 256;
    float powers[256];
    for (int i = 0; i < 256; i++)
        powers[i] = i == 255 ? INFINITY : ldexpf(1, i - 127);
    const rlx_value table = rlx_constant(g, RLX_F32, 1, &n, powers, sizeof powers);
    const rlx_value a = rlx_abs(g, x);
    rlx_value e = rlx_clamp(g, rlx_add(g, rlx_floor(g, rlx_log2(g, a)), f32(g, 127)), 0, 254);
    /* The table is exact: the largest power of two not above x. */
    const rlx_value at = rlx_gather(g, table, rlx_cast(g, e, RLX_I32), 0);
    e = rlx_sub(g, e, rlx_cast(g, rlx_gt(g, at, a), RLX_F32));
    e = rlx_max(g, e, f32(g, 0));
    const rlx_value next = rlx_add(g, e, f32(g, 1));
    const rlx_value above = rlx_gather(g, table, rlx_cast(g, next, RLX_I32), 0);
    e = rlx_add(g, e, rlx_cast(g, rlx_le(g, above, a), RLX_F32));
    const rlx_value low = rlx_gather(g, table, rlx_cast(g, e, RLX_I32), 0);
    rlx_value up = rlx_gt(g, a, low);
    if (rx_onnx_is(c, "round_mode", "nearest", "up"))
        up = rlx_ge(g, a, rlx_mul(g, low, f32(g, 1.5)));
    if (!rx_onnx_is(c, "round_mode", "down", "up"))
        e = rlx_add(g, e, rlx_cast(g, up, RLX_F32));
    if (saturate)
        e = rlx_min(g, e, f32(g, 254));
    return rlx_cast(g, rlx_where(g, rlx_is_nan(g, x), f32(g, 255), e), RLX_U8);
}

/* Narrow integers: truncated toward zero, modulo 2^bits. */
static rlx_value to_bits(rlx_graph *g, rlx_value x, const rx_onnx_type *to)
{
    const rlx_value whole = rlx_cast(g, x, RLX_I32);
    const rlx_value left = rlx_scalar(g, RLX_I32, 32 - to->bits);
    const rlx_value low = rlx_and(g, whole, rlx_scalar(g, RLX_I32, (1 << to->bits) - 1));
    if (to->dtype == RLX_U8)
        return rlx_cast(g, low, RLX_U8);
    return rlx_cast(g, rlx_shr(g, rlx_shl(g, low, left), left), RLX_I8);
}

rlx_value rx_onnx_convert(rx_onnx_call *c, rlx_value x, const rx_onnx_type *to, bool saturate)
{
    const rx_onnx_type *from = rx_onnx_value_type(c->b, x);
    const format *f = find_format(to);
    if (!to || to->dtype == RLX_NO_TYPE)
        return rx_onnx_fail(c, RLX_UNSUPPORTED, "a cast to ONNX's type %s, which rlx does not "
                            "have", to ? to->name : "unknown");
    if (from == to)
        return x;
    const rlx_value wide = rx_onnx_widen(c, x);
    if (!to->bits)
        return rlx_cast(c->g, wide, to->dtype);
    const rlx_value real = f || to->number == E8M0 ? rlx_cast(c->g, wide, RLX_F32) : wide;
    const rlx_value y = f ? encode(c->g, real, f, saturate)
                        : to->number == E8M0 ? encode_e8m0(c, real, saturate)
                                             : to_bits(c->g, wide, to);
    rx_onnx_set_type(c->b, y, to->number);
    return y;
}

/* ---- Operators ------------------------------------------------------------------------------- */

rlx_value rx_onnx_cast(rx_onnx_call *c)
{
    const int64_t to = rx_onnx_int(c, "to", 0);
    const rx_onnx_type *t = rx_onnx_type_of(to);
    if (!t)
        return rx_onnx_fail(c, RLX_UNSUPPORTED, "a cast to ONNX's type %lld, which rlx does not "
                            "have", (long long)to);
    return rx_onnx_convert(c, rx_onnx_in(c, 0), t, rx_onnx_int(c, "saturate", 1));
}

rlx_value rx_onnx_cast_like(rx_onnx_call *c)
{
    return rx_onnx_convert(c, rx_onnx_in(c, 0), rx_onnx_value_type(c->b, rx_onnx_in(c, 1)),
                           rx_onnx_int(c, "saturate", 1));
}
