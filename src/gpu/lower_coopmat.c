/* SPDX-License-Identifier: MIT */
/* Float products by cooperative matrices. */
#include "gpu/product.h"

bool rx_product_coopmat(rx_gpu_build *b, const rx_product *p)
{
    (void)b;
    (void)p;
    return false;
}
