/* SPDX-License-Identifier: MIT */
/* Reference kernels of random numbers. What is written here is the definition for every device:
 * random_uniform uses only 32-bit integer products and single f32 additions and subtractions, so
 * that each device gives the same bits. base/philox.h has the generator. */
#include <math.h>

#include "base/dtype.h"
#include "base/philox.h"
#include "cpu/ref/sample.h"

#define PI 3.14159265358979323846

/* ---- random_uniform -------------------------------------------------------------------------- */

/* y = min(lo + u * (hi - lo), largest number of the result's type below hi), in f32: the product
 * and the sum are each rounded, then the result is rounded to its type. The minimum keeps the
 * interval half-open despite rounding. */
rlx_status rx_ref_random_uniform(const rx_call *c)
{
    const rlx_random_desc *d = c->attr;
    const rx_view *y = &c->out[0];
    const uint64_t seed = rx_load_seed(rx_call_in(c, 0), d->seed);
    const float lo = (float)d->lo, width = (float)(d->hi - d->lo);
    const float last = rx_dtype_below(d->out, (float)d->hi);
    const int64_t n = rx_view_elements(y);
    for (int64_t i = 0; i < n; i++) {
        const float product = rx_philox_unit(rx_philox_word(seed, (uint64_t)i)) * width;
        const float v = lo + product;
        rx_store(y, i, (double)(v < last ? v : last));
    }
    return RLX_OK;
}

/* ---- random_normal --------------------------------------------------------------------------- */

/* Box-Muller on the words (0, 1) and (2, 3) of a block: with u in (0, 1] from the even word and v
 * in [0, 1) from the odd one, the even element is sqrt(-2 ln u) cos(2 pi v), the odd one the same
 * with sin; times the deviation, plus the mean. */
static double normal_at(uint64_t seed, uint64_t index)
{
    const rx_philox block = rx_philox_block(seed, index / 4);
    const unsigned pair = index & 2;
    const double radius = sqrt(-2 * log((double)rx_philox_positive(block.v[pair])));
    const double angle = 2 * PI * (double)rx_philox_unit(block.v[pair + 1]);
    return radius * (index & 1 ? sin(angle) : cos(angle));
}

rlx_status rx_ref_random_normal(const rx_call *c)
{
    const rlx_random_desc *d = c->attr;
    const rx_view *y = &c->out[0];
    const uint64_t seed = rx_load_seed(rx_call_in(c, 0), d->seed);
    const int64_t n = rx_view_elements(y);
    for (int64_t i = 0; i < n; i++)
        rx_store(y, i, (double)(float)(d->lo + d->hi * normal_at(seed, (uint64_t)i)));
    return RLX_OK;
}
