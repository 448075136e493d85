/* SPDX-License-Identifier: MIT */
/* Patches of finished SPIR-V modules that depend on the driver. */
#ifndef RX_SPIRV_MODES_H
#define RX_SPIRV_MODES_H

#include <stddef.h>
#include <stdint.h>

/* A copy of a module with one entry point whose f32 arithmetic keeps subnormal numbers, by
 * SPV_KHR_float_controls; the only floats of the module have 32 bits. NULL when memory ran out or
 * the words are no such module; rx_free. */
uint32_t *rx_spv_keep_subnormals(const uint32_t *words, size_t n, size_t *n_out);

#endif
