/* SPDX-License-Identifier: MIT */
/* What a kernel needs beyond the portable subset (gpu/shaders/common.glsl says what that is): the
 * last column of a KERNEL row, also read by the tools that compile and pack kernels. */
#ifndef RX_GPU_NEEDS_H
#define RX_GPU_NEEDS_H

enum {
    RX_NEEDS_SUBGROUP = 1 << 0, RX_NEEDS_F16 = 1 << 1, RX_NEEDS_STORAGE16 = 1 << 2,
    RX_NEEDS_STORAGE8 = 1 << 3, RX_NEEDS_ADDRESS = 1 << 4, RX_NEEDS_INT_DOT = 1 << 5,
    RX_NEEDS_COOPMAT = 1 << 6, RX_NEEDS_BF16 = 1 << 7, RX_NEEDS_INT8 = 1 << 8,
    RX_NEEDS_COHERENT = 1 << 9,
    RX_NEEDS_CHAIN = 1 << 10, /* addresses and subgroups, too */
    RX_NEEDS_ENGINE = 1 << 11, /* only engines use it: rlx.wasm has none and leaves it out */
    RX_NEEDS_LANES32 = 1 << 12, /* subgroups of just 32 */
    RX_NEEDS_DOTS = RX_NEEDS_SUBGROUP | RX_NEEDS_LANES32 | RX_NEEDS_INT_DOT,
    RX_NEEDS_MATRIX = RX_NEEDS_COOPMAT | RX_NEEDS_F16 | RX_NEEDS_STORAGE16,
    RX_NEEDS_FRAGMENTS = RX_NEEDS_MATRIX | RX_NEEDS_SUBGROUP, /* matrices in packed fragments */
    /* Not expressible in WGSL: builds without Vulkan leave such kernels out. */
    RX_NEEDS_VULKAN = RX_NEEDS_STORAGE16 | RX_NEEDS_STORAGE8 | RX_NEEDS_ADDRESS |
                      RX_NEEDS_INT_DOT | RX_NEEDS_COOPMAT | RX_NEEDS_BF16 | RX_NEEDS_INT8 |
                      RX_NEEDS_COHERENT | RX_NEEDS_CHAIN
};

#endif
