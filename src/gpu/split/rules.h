/* SPDX-License-Identifier: MIT */
/* Inside gpu/split/rules*.c: rules that fill a cut along axis a of result 0, whose axes are all -1
 * before. False: slices would not be independent. */
#ifndef RX_GPU_SPLIT_RULES_H
#define RX_GPU_SPLIT_RULES_H

#include "gpu/split/split.h"

typedef bool rx_split_rule_fn(const rx_gpu_call *c, int a, rx_split_cut *cut);

/* rules_conv.c */
rx_split_rule_fn rx_split_rule_conv, rx_split_rule_qconv, rx_split_rule_pool, rx_split_rule_im2col;
void rx_split_adjust_conv(const rx_split_cut *cut, const rx_gpu_call *c, void *attr, int64_t first,
                          int64_t length);

#endif
