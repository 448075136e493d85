/* SPDX-License-Identifier: MIT */
/* Models of safetensors files as GGUF files. */
#ifndef RLX_CONVERT_H
#define RLX_CONVERT_H

#include "model.h"
#include "quantize.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Chooses the types of the tensors: types[i] is that of tensors[i], set to the one it has in the
 * source (f32 for vectors, routers and small tables, which should stay so). Names and shapes are
 * those of the GGUF file; data is NULL. An error ends the conversion. */
typedef rlx_status rlx_convert_types_fn(void *user, const rlx_file_tensor *tensors, size_t n,
                                        rlx_dtype *types, rlx_error *err);
/* Called after each tensor; `stats` as rlx_quantize_rows gives them, zero where only the layout
 * changed. */
typedef void rlx_convert_done_fn(void *user, const rlx_file_tensor *tensor, rlx_dtype type,
                                 const rlx_quantize_rows_stats *stats);

typedef struct rlx_convert_desc {
    size_t struct_size;
    rlx_convert_types_fn *types; /* NULL: each as it is in the source */
    rlx_convert_done_fn *done;   /* may be NULL */
    void *user;                  /* of both */
    uint32_t file_type;          /* general.file_type; 0: that of the type most elements have */
    uint32_t threads;            /* 0: one for each processor; the result does not depend on it */
    const char *name;            /* general.name; NULL: what config.json says, else that of the
                                  * folder */
    rlx_progress_fn *progress;   /* name of the tensor, bytes of the source */
    void *progress_user;
} rlx_convert_desc;

/* Writes the model of a safetensors file (or of the folder that holds one) with its config.json and
 * tokenizer.json as a GGUF file with the names, layouts and metadata that llama.cpp's files have.
 * The model need not fit into memory. `out` is written as rlx_gguf_writer does: it appears when it
 * is whole, and only a GGUF file is replaced. RLX_UNSUPPORTED: the model or its tokenizer is none
 * that GGUF files can hold. */
RLX_API rlx_status rlx_model_convert(const char *path, const char *out,
                                     const rlx_convert_desc *desc, rlx_error *err);

#ifdef __cplusplus
}
#endif
#endif
