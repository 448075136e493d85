/* SPDX-License-Identifier: MIT */
/* What became of the tensors of a model that was written again: a row for each type. */
#ifndef QUANTIZE_REPORT_H
#define QUANTIZE_REPORT_H

#include "json.h"
#include "rlx/rlx.h"

typedef struct type_row {
    rlx_dtype type;
    size_t n_tensors;
    double elements, before, after; /* bytes */
    rlx_quantize_rows_stats stats;  /* of those that changed */
} type_row;

typedef struct quantize_report {
    type_row rows[RLX_N_DTYPES];
    type_row all;
    size_t n_fallbacks; /* tensors whose rows do not fit the type asked for */
} quantize_report;

/* A tensor of `before` bytes in another file that has the type `to` in this one. */
void quantize_count(quantize_report *r, const rlx_file_tensor *t, double before, rlx_dtype to,
                    const rlx_quantize_rows_stats *stats);
/* The table; the members "types" and "all" of an object. */
void quantize_print(const quantize_report *r);
void quantize_json(json *out, const quantize_report *r);

#endif
