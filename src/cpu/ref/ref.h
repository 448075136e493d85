/* SPDX-License-Identifier: MIT */
/* Shared by the reference kernels: reading and writing single elements of any type and walking
 * over tensors of any strides. Clarity before speed. */
#ifndef RX_CPU_REF_H
#define RX_CPU_REF_H

#include <math.h>
#include <string.h>

#include "base/half.h"
#include "cpu/kernel.h"

/* Offset in elements of the element with these coordinates. */
static inline int64_t rx_offset(const rx_view *v, const int64_t *at)
{
    int64_t o = 0;
    for (int i = 0; i < v->rank; i++)
        o += at[i] * v->stride[i];
    return o;
}

/* Element at element offset `o` as a double (exact for all types but large i64 and u64) or as an
 * integer (floats are truncated, u64 has its bits). bool reads as 0 or 1. */
double rx_load(const rx_view *v, int64_t o);
int64_t rx_load_int(const rx_view *v, int64_t o);
/* Rounds to the type of v: floats to nearest even, integers toward zero with saturation, NaN to
 * 0. */
void rx_store(const rx_view *v, int64_t o, double x);
/* Integers wrap, floats round. */
void rx_store_int(const rx_view *v, int64_t o, int64_t x);
void rx_store_unsigned(const rx_view *v, int64_t o, uint64_t x);
/* Rounds a double as rx_store and rx_load would. */
double rx_round_to(rlx_dtype t, double x);
/* Wraps an integer as rx_store_int and rx_load_int would; float types leave it as it is. */
int64_t rx_wrap_to(rlx_dtype t, int64_t x);

/* The next coordinates in row-major order below dim[0..rank-1]; false after the last. */
static inline bool rx_next(int64_t *at, const int64_t *dim, int rank)
{
    for (int i = rank - 1; i >= 0; i--) {
        if (++at[i] < dim[i])
            return true;
        at[i] = 0;
    }
    return false;
}

/* Coordinates of element `index` of a dense tensor. */
static inline void rx_unravel(int64_t index, const int64_t *dim, int rank, int64_t *at)
{
    for (int i = rank - 1; i >= 0; i--) {
        at[i] = dim[i] ? index % dim[i] : 0;
        index = dim[i] ? index / dim[i] : 0;
    }
}

/* v seen with the shape of `like`: broadcast axes get stride 0. */
rx_view rx_broadcast_view(const rx_view *v, const rx_view *like);
/* Copies element i of `from` to element j of `to`, of the same plain type. */
void rx_copy_element(const rx_view *to, int64_t j, const rx_view *from, int64_t i);
/* An index from the tensor, negative counted from the end, clamped to 0..n-1 with a flag (0 when n
 * is 0). */
int64_t rx_load_index(const rx_call *c, const rx_view *v, int64_t o, int64_t n);
/* Reads row `row` of a matrix-like tensor (last axis, n elements) as doubles: packed or plain.
 * `row` counts the product of all axes but the last. */
void rx_load_row(const rx_view *v, int64_t row, double *dst);
/* The index along an axis of x that element i of a padded tensor reads; -1: the fill value.
 * ref/shape.c */
int64_t rx_ref_pad_place(const void *attr, const rx_view *x, int axis, int64_t i);

/* A product m 2^e of any number of f32 factors without intermediate over- or underflow; starts as
 * {1, 0}. m stays between 2^-512 and 2^512 unless it is 0 or not finite. */
typedef struct rx_scaled {
    double m;
    int64_t e;
} rx_scaled;

static inline void rx_scaled_multiply(rx_scaled *p, double by)
{
    p->m *= by;
    const double size = fabs(p->m);
    if (size < 0x1p-512 && size > 0) {
        p->m *= 0x1p512;
        p->e -= 512;
    } else if (size > 0x1p512 && size < INFINITY) {
        p->m *= 0x1p-512;
        p->e += 512;
    }
}

/* The product as a double; 0 or infinite outside of the range of f32. */
static inline double rx_scaled_value(const rx_scaled *p)
{
    if (p->e == 0 || !isfinite(p->m))
        return p->m;
    if (p->e > 0)
        return p->m * (p->e > 512 ? 0x1p1000 : 0x1p512);
    return p->m * (p->e < -512 || fabs(p->m) < 0x1p300 ? 0 : 0x1p-512);
}

/* ---- Elementwise functions: cpu/ref/scalar.c --------------------------------------------------
 * The one place for the meaning of each elementwise operation on one element. An operation works on
 * doubles when its arguments are floats (`in->dtype` is the type of the result) and on integers,
 * bool as 0 or 1, otherwise; where takes its condition as 0 or 1 in either case. Results are not
 * rounded or wrapped to the type. */
double rx_ref_eval(const rx_instr *in, const double *args);
/* The same for integer and bool arguments of type t; those of u64 are given by their bits, and so
 * is the result. The exact width of shifts comes from in->dtype. */
int64_t rx_ref_eval_int(const rx_instr *in, rlx_dtype t, const int64_t *args);
/* An intermediate value: a double for float types, an integer for integer types and bool. */
typedef union rx_scalar {
    double f;
    int64_t i;
} rx_scalar;
/* One instruction on n arguments, of which the last has type `last`; integers are wrapped to the
 * type of the result. cpu/ref/elementwise.c */
rx_scalar rx_ref_apply(const rx_instr *in, const rx_scalar *args, int n, rlx_dtype last);
/* y = act(x), for the epilogues of matrix products and convolutions. */
double rx_ref_act(rlx_act act, double x);

#endif
