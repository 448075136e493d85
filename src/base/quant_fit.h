/* SPDX-License-Identifier: MIT */
/* Search of the scale, or scale and offset, with which small integers come nearest to a group of
 * floats in the sense of weighted least squares. A group has a multiple of 8 elements, at most 32,
 * all finite. Numbers are such that nothing overflows when the floats are below 1e18 in size. */
#ifndef RX_BASE_QUANT_FIT_H
#define RX_BASE_QUANT_FIT_H

#include <stdint.h>

/* A group: floats, and the weights of their squared errors, not all 0. */
typedef struct rx_points {
    const float *x, *w;
    int n;
} rx_points;

/* The integers lo to hi. */
typedef struct rx_levels {
    int lo, hi;
} rx_levels;

/* x ~ d * q + m */
typedef struct rx_line {
    float d, m;
} rx_line;

/* The best d for x ~ d * q; 0 when all of x is 0. May be negative: levels need not be symmetric. */
float rx_fit_scale(rx_points p, rx_levels levels);
/* The best line for q of 0 to top. With `below`, m is at most 0. */
rx_line rx_fit_line(rx_points p, int top, int below);

/* The nearest q of each x. */
void rx_round_scale(const float *x, int n, rx_levels levels, float d, int8_t *q);
void rx_round_line(const float *x, int n, int top, rx_line l, int8_t *q);

/* The weighted sum of squared errors when each x takes its nearest q. */
float rx_scale_error(rx_points p, rx_levels levels, float d);
float rx_line_error(rx_points p, int top, rx_line l);

/* The f16 nearest to d as a float, finite, and not 0 unless d is. */
float rx_f16_scale(float d);
/* Rounds d (and m) to f16, then alternates rounding and least squares. */
float rx_polish_scale(rx_points p, rx_levels levels, float d);
rx_line rx_polish_line(rx_points p, int top, rx_line l);

#endif
