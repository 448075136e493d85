/* SPDX-License-Identifier: MIT */
/* The lanes of the portable kernels: conversions equal those of base/half.h on all halves and on
 * floats all over the range; merged axes see the same elements. */
#include <math.h>
#include <stdlib.h>

#include "base/half.h"
#include "check.h"
#include "cpu/generic.h"
#include "cpu/generic_math.h"

enum { BLOCK = 4096 };

static void test_load_halves(void)
{
    static uint16_t half[65536];
    static float got[65536];
    for (int i = 0; i < 65536; i++)
        half[i] = (uint16_t)i;
    bool same = true;
    rx_load_lanes(RLX_F16, (const char *)half, 1, got, 65536);
    for (int i = 0; i < 65536; i++)
        same = same && rx_f32_bits(got[i]) == rx_f32_bits(rx_f16_to_f32(half[i]));
    CHECK(same);
    rx_load_lanes(RLX_BF16, (const char *)half, 1, got, 65536);
    for (int i = 0; i < 65536; i++)
        same = same && rx_f32_bits(got[i]) == rx_f32_bits(rx_bf16_to_f32(half[i]));
    CHECK(same);
}

static void test_store_halves(void)
{
    static float x[BLOCK];
    static uint16_t got[BLOCK];
    bool same = true;
    for (uint64_t at = 0; at < (uint64_t)1 << 32; at += (uint64_t)997 * BLOCK) {
        for (uint64_t i = 0; i < BLOCK; i++)
            x[i] = rx_f32_from_bits((uint32_t)(at + i * 997));
        rx_store_lanes(RLX_F16, (char *)got, 1, x, BLOCK);
        for (int i = 0; i < BLOCK; i++)
            same = same && got[i] == rx_f32_to_f16(x[i]);
        rx_store_lanes(RLX_BF16, (char *)got, 1, x, BLOCK);
        for (int i = 0; i < BLOCK; i++)
            same = same && got[i] == rx_f32_to_bf16(x[i]);
    }
    CHECK(same);
    for (uint32_t h = 0; h < 0x7c00; h++) { /* just on and beside the borders between halves */
        uint32_t mid = rx_f32_bits((rx_f16_to_f32((uint16_t)h) + rx_f16_to_f32((uint16_t)(h + 1) &
                                    0x7fff)) / 2);
        for (uint32_t k = 0; k < 3; k++)
            x[k] = rx_f32_from_bits(mid + k - 1);
        rx_store_lanes(RLX_F16, (char *)got, 1, x, 3);
        for (int k = 0; k < 3; k++)
            same = same && got[k] == rx_f32_to_f16(x[k]);
    }
    CHECK(same);
}

/* Within two units in the last place of the C library, all over the range. */
static void test_exp(void)
{
    bool ok = true;
    for (uint64_t bits = 0; bits < (uint64_t)1 << 32; bits += 4999) {
        float x = rx_f32_from_bits((uint32_t)bits), got = rx_lane_exp(x);
        double want = exp((double)x), unit = nextafterf((float)want, INFINITY) - (float)want;
        bool same = isnan(x) ? isnan(got) != 0 : got == (float)want;
        ok = ok && (same || fabs(got - want) <= 2 * unit);
    }
    CHECK(ok);
    CHECK(rx_lane_exp(0) == 1 && rx_lane_exp(-INFINITY) == 0 && rx_lane_exp(INFINITY) == INFINITY);
}

static void test_strides(void)
{
    const float from[12] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
    float to[6], back[12] = {0};
    bool flags[4] = {true, false, true, true};
    rx_load_lanes(RLX_F32, (const char *)(from + 9), -3, to, 4);
    CHECK(to[0] == 9 && to[1] == 6 && to[3] == 0);
    rx_load_lanes(RLX_F32, (const char *)(from + 5), 0, to, 6);
    CHECK(to[0] == 5 && to[5] == 5);
    rx_load_lanes(RLX_BOOL, (const char *)flags, 2, to, 2);
    CHECK(to[0] == 1 && to[1] == 1);
    rx_store_lanes(RLX_F32, (char *)back, 4, from + 1, 3);
    CHECK(back[0] == 1 && back[4] == 2 && back[8] == 3 && back[1] == 0);
}

static void test_merge(void)
{
    rx_view v[2] = {{.dtype = RLX_F32, .rank = 4, .dim = {2, 1, 3, 4}, .stride = {12, 99, 4, 1}},
                    {.dtype = RLX_F32, .rank = 4, .dim = {2, 1, 3, 4}, .stride = {0, 7, 0, 1}}};
    rx_merge_axes(v, 1);
    CHECK(v[0].rank == 1 && v[0].dim[0] == 24 && v[0].stride[0] == 1);
    v[0] = (rx_view){.rank = 4, .dim = {2, 1, 3, 4}, .stride = {12, 99, 4, 1}};
    rx_merge_axes(v, 2);
    CHECK(v[0].rank == 2 && v[0].dim[0] == 6 && v[0].dim[1] == 4 && v[0].stride[0] == 4);
    CHECK(v[1].rank == 2 && v[1].stride[0] == 0 && v[1].stride[1] == 1);
    rx_view scalar = {.rank = 0};
    rx_merge_axes(&scalar, 1);
    CHECK(scalar.rank == 1 && scalar.dim[0] == 1);
}

int main(void)
{
    test_load_halves();
    test_store_halves();
    test_exp();
    test_strides();
    test_merge();
    return check_done();
}
