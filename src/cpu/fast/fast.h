/* SPDX-License-Identifier: MIT */
/* The fast kernels of each instruction set. Kernels are written once, in the .inc files of this
 * folder against cpu/vec.h, and listed once, in kernels.def; each of avx2.c, avx512.c,
 * avx512vnni.c, neon.c, neondot.c, neoni8mm.c and wasm.c compiles them for its instruction set and
 * ends in a table. A kernel that pays on some instruction sets only is listed under an #if of their
 * macros. */
#ifndef RX_CPU_FAST_H
#define RX_CPU_FAST_H

#include <math.h>
#include <stdatomic.h>

#include "base/dtype.h"
#include "cpu/generic.h"
#include "cpu/generic_wide.h"
#include "cpu/kernel.h"
#include "cpu/pool.h"
#include "cpu/product.h"
#include "cpu/ref/ref.h"
#include "ir/functions.h"

extern const rx_fast_kernel rx_fast_avx2[], rx_fast_avx512[], rx_fast_avx512vnni[];
extern const rx_fast_kernel rx_fast_neon[], rx_fast_neondot[], rx_fast_neoni8mm[];
extern const rx_fast_kernel rx_fast_wasm[];

#endif
