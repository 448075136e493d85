/* SPDX-License-Identifier: MIT */
/* Quantising weights, and writing GGUF files. */
#ifndef RLX_QUANTIZE_H
#define RLX_QUANTIZE_H

#include "file.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Quantising ----------------------------------------------------------------------------- */

/* True for f32, f16, bf16 and the packed types that rlx_quantize_rows can make. */
RLX_API bool rlx_dtype_can_quantize(rlx_dtype t);

/* Rows of `row_length` elements of type `from` at `src` become rows of type `to` at `dst`; the
 * caller owns both, neither need be aligned. row_length is a multiple of both block sizes. */
typedef struct rlx_quantize_rows_desc {
    size_t struct_size;
    rlx_dtype from, to;
    const void *src;
    void *dst;
    int64_t n_rows, row_length;
    uint32_t threads; /* 0: one for each processor; the result does not depend on it */
    const float *importance; /* [row_length]: how much the squared errors of each column count, from
                              * 0, as an importance matrix gives it; NULL: all alike */
} rlx_quantize_rows_desc;

/* Sums over all elements: of x^2 and of (x - packed x)^2. */
typedef struct rlx_quantize_rows_stats {
    double squares, error;
} rlx_quantize_rows_stats; /* frozen */

/* Quantises so that the squared error, weighted by `importance`, is small. The statistics are not
 * weighted. `stats` may be NULL. RLX_UNSUPPORTED when `to`
 * cannot be made, RLX_INVALID when a row does not fit the blocks or holds a NaN or an infinity:
 * then dst is not complete. */
RLX_API rlx_status rlx_quantize_rows(const rlx_quantize_rows_desc *desc,
                                     rlx_quantize_rows_stats *stats, rlx_error *err);

/* ---- Writing GGUF files ---------------------------------------------------------------------
 * Order: create; set metadata and add tensors, in any order; write the data of all tensors, in the
 * order in which they were added and in pieces of any size; finish. Until then the file does not
 * exist under its name: a failure leaves an older file of that name as it was. One that is not GGUF
 * is never replaced. One thread at a time. */

typedef struct rlx_gguf_writer rlx_gguf_writer;

/* Begins a GGUF file, version 3, little-endian, in the folder where it will be. On success the
 * caller ends *out with rlx_gguf_writer_destroy; on failure *out is NULL. */
RLX_API rlx_status rlx_gguf_writer_create(const char *path, rlx_gguf_writer **out, rlx_error *err);
/* Removes what was written unless it was finished. NULL is fine. */
RLX_API void rlx_gguf_writer_destroy(rlx_gguf_writer *w);

/* The types of metadata values, by their numbers in the file. */
typedef enum rlx_gguf_type {
    RLX_GGUF_U8 = 0, RLX_GGUF_I8, RLX_GGUF_U16, RLX_GGUF_I16, RLX_GGUF_U32, RLX_GGUF_I32,
    RLX_GGUF_F32, RLX_GGUF_BOOL, RLX_GGUF_STRING, RLX_GGUF_U64 = 10, RLX_GGUF_I64, RLX_GGUF_F64
} rlx_gguf_type;

/* A value or an array of values. */
typedef struct rlx_gguf_value {
    rlx_gguf_type type;
    bool is_array;
    size_t n;                 /* of an array; else there is one */
    const void *numbers;      /* C values of that type: uint8_t, ..., float, bool, ... */
    const char *const *texts; /* of strings */
    const size_t *lengths;    /* of the texts in bytes; NULL: each ends at its zero byte */
} rlx_gguf_value; /* frozen */

/* Sets an entry, over one that has the same key. Keys are 1 to 1024 bytes of UTF-8 without control
 * characters. general.alignment (u32, a power of two of at least 8, else 32) also sets where
 * tensors begin. Everything is copied. */
RLX_API rlx_status rlx_gguf_writer_set(rlx_gguf_writer *w, const char *key, const rlx_gguf_value *v,
                                       rlx_error *err);
RLX_API rlx_status rlx_gguf_writer_set_u32(rlx_gguf_writer *w, const char *key, uint32_t value,
                                           rlx_error *err);
RLX_API rlx_status rlx_gguf_writer_set_f32(rlx_gguf_writer *w, const char *key, float value,
                                           rlx_error *err);
RLX_API rlx_status rlx_gguf_writer_set_bool(rlx_gguf_writer *w, const char *key, bool value,
                                            rlx_error *err);
RLX_API rlx_status rlx_gguf_writer_set_text(rlx_gguf_writer *w, const char *key, const char *value,
                                            rlx_error *err);
/* Sets all entries of an open file, with the types they have there; not those of a split file
 * ("split."), which is written as one. */
RLX_API rlx_status rlx_gguf_writer_copy_meta(rlx_gguf_writer *w, const rlx_file *f, rlx_error *err);

/* Announces a tensor: a name that is not there yet, a type that GGUF has, at most 4 dimensions,
 * outermost first. */
RLX_API rlx_status rlx_gguf_writer_add_tensor(rlx_gguf_writer *w, const char *name, rlx_dtype dtype,
                                              const rlx_shape *shape, rlx_error *err);
/* The next bytes of data. After the first call metadata and tensors are fixed. */
RLX_API rlx_status rlx_gguf_writer_write(rlx_gguf_writer *w, const void *data, size_t bytes,
                                         rlx_error *err);
/* Checks that all data is there and gives the file its name. The writer is only good for
 * rlx_gguf_writer_destroy after this, also when it fails. */
RLX_API rlx_status rlx_gguf_writer_finish(rlx_gguf_writer *w, rlx_error *err);

#ifdef __cplusplus
}
#endif
#endif
