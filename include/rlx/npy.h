/* SPDX-License-Identifier: MIT */
/* NumPy files (.npy): one tensor a file. bf16 is stored as NumPy's raw 2-byte type with a "bf16"
 * note. */
#ifndef RLX_NPY_H
#define RLX_NPY_H

#include "graph.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rlx_npy {
    rlx_dtype dtype;
    rlx_shape shape;
    size_t bytes;
    void *data; /* dense, row-major, native byte order */
} rlx_npy; /* frozen */

/* Reads a file: f2 f4 f8 i1 i2 i4 i8 u1 u2 u4 u8 b1, C or Fortran order, versions 1 to 3. On
 * success the caller frees out->data with rlx_free; on failure *out is zero. */
RLX_API rlx_status rlx_npy_load(const char *path, rlx_npy *out, rlx_error *err);
/* Writes a dense, row-major tensor as version 1.0, as rlx/file.h says of all files: an older .npy
 * file stays until the new one is whole, a file of another kind is RLX_INVALID. */
RLX_API rlx_status rlx_npy_save(const char *path, rlx_dtype dtype, const rlx_shape *shape,
                                const void *data, size_t bytes, rlx_error *err);

#ifdef __cplusplus
}
#endif
#endif
