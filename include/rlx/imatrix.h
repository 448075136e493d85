/* SPDX-License-Identifier: MIT */
/* Importance matrices: how much each column of a model's matrices is used, the mean of the squares
 * that it is multiplied with in some text. Quantising with them (rlx_quantize_rows_desc.importance)
 * puts the error where it does least harm. */
#ifndef RLX_IMATRIX_H
#define RLX_IMATRIX_H

#include "model.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One thread at a time while it collects; then any number may read. */
typedef struct rlx_imatrix rlx_imatrix;

/* An empty one for a decoder, which stays open as long; its context is the most that
 * rlx_imatrix_add takes. On success the caller ends *out with rlx_imatrix_destroy; on failure *out
 * is NULL. */
RLX_API rlx_status rlx_imatrix_create(rlx_model *m, rlx_imatrix **out, rlx_error *err);
/* Opens a file as llama.cpp writes them: GGUF, or the older .dat. */
RLX_API rlx_status rlx_imatrix_open(const char *path, rlx_imatrix **out, rlx_error *err);
/* NULL is fine. */
RLX_API void rlx_imatrix_destroy(rlx_imatrix *im);

/* Runs tokens, which belong together, and adds what they do. */
RLX_API rlx_status rlx_imatrix_add(rlx_imatrix *im, const int32_t *tokens, size_t n,
                                   rlx_error *err);
/* Writes it as a GGUF file, which llama.cpp reads too. `source` names the text; may be NULL. */
RLX_API rlx_status rlx_imatrix_save(const rlx_imatrix *im, const char *path, const char *source,
                                    rlx_error *err);

/* What is known of a matrix, or of each matrix of a bank (experts). */
typedef struct rlx_imatrix_entry {
    const char *name;    /* of the tensor in GGUF files; owned by the importance matrix */
    int64_t matrices, columns;
    const float *values; /* [matrices, columns] means of squares; all 0 where nothing was seen */
} rlx_imatrix_entry; /* frozen */

/* Entry `i`; false when there is none. */
RLX_API bool rlx_imatrix_at(const rlx_imatrix *im, size_t i, rlx_imatrix_entry *out);
/* That of a tensor; false when there is none. */
RLX_API bool rlx_imatrix_find(const rlx_imatrix *im, const char *name, rlx_imatrix_entry *out);
/* Tokens that were added, or that the file counts. */
RLX_API int64_t rlx_imatrix_n_tokens(const rlx_imatrix *im);

#ifdef __cplusplus
}
#endif
#endif
