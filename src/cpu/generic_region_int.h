/* SPDX-License-Identifier: MIT */
/* Integers in regions: i32, i8 and u8 as lanes of 32 bits beside those of f32. */
#ifndef RX_CPU_GENERIC_REGION_INT_H
#define RX_CPU_GENERIC_REGION_INT_H

#include "cpu/generic.h"

/* Whether lanes of regions hold elements of this type as i32. */
bool rx_is_int_lane(rlx_dtype t);
void rx_load_int_lanes(rlx_dtype t, const char *data, int64_t stride, float *lanes, int64_t n);
void rx_store_int_lanes(rlx_dtype t, char *data, const float *lanes, int64_t n);
/* An instruction that takes or gives integers, for arguments of these types; NULL: none. */
rx_lane_fn *rx_int_lanes(rx_op op, const rlx_dtype *arg, rlx_dtype to);

#endif
