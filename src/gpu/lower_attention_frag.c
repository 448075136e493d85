/* SPDX-License-Identifier: MIT */
/* Attention of many rows by cooperative matrices. */
#include "gpu/attention.h"

bool rx_attention_frag(rx_gpu_build *b, const rx_attention *a)
{
    (void)b;
    (void)a;
    return false;
}
