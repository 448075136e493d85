/* SPDX-License-Identifier: MIT */
/* Inside of the conversion of safetensors to GGUF.
 *
 *   convert.c         the call: types, data of the tensors
 *   convert_plan.c    which tensors the file gets, and which rows of which tensors they are
 *   convert_meta.c    hyperparameters as metadata
 *   convert_tok.c     the tokenizer as metadata */
#ifndef RX_MODEL_CONVERT_H
#define RX_MODEL_CONVERT_H

#include "model/model.h"
#include "model/facts.h"
#include "model/tok.h"
#include "rlx/convert.h"

#define RX_CONVERT_NAME 128

/* Where the rows of a tensor come from. */
typedef enum rx_rows_from {
    RX_ROWS_SAME,      /* row `first` + r of the source */
    RX_ROWS_EXPERTS,   /* a bank of experts that are tensors of their own */
    RX_ROWS_PAIRS,     /* halves of rotated heads become neighbours */
    RX_ROWS_PART,      /* of each group of `group` rows, those from `first` on */
    RX_ROWS_COLUMNS,   /* the same, as columns */
    RX_ROWS_DELTA,     /* q, k, v of each key head, to all q, all k, all v */
    RX_ROWS_MADE       /* floats of ours */
} rx_rows_from;

typedef struct rx_convert_tensor {
    char name[RX_CONVERT_NAME];
    rlx_shape shape;
    rlx_dtype dtype;         /* of the source */
    bool is_vector;          /* stays f32: vectors, routers, small tables */
    rx_role role;            /* of the source */
    const rx_layer *layer;   /* NULL: outside of layers */
    rx_change change;
    rx_rows_from from;
    int64_t first, group, take; /* RX_ROWS_PART and _COLUMNS: `take` rows of each group */
    const float *made;
} rx_convert_tensor;

typedef struct rx_convert_plan {
    const rx_facts *f;
    rx_convert_tensor *list; /* in the arena of the caller */
    size_t n, cap;
    rx_arena *arena;
} rx_convert_plan;

/* Fills plan->list; f and arena are set. */
rlx_status rx_convert_make_plan(rx_convert_plan *plan, rlx_error *err);
/* Metadata. */
rlx_status rx_convert_facts(const rlx_model *m, rlx_gguf_writer *w, rlx_error *err);
rlx_status rx_convert_tokenizer(const rlx_model *m, rlx_gguf_writer *w, rlx_error *err);

#endif
