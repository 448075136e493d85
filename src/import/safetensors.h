/* SPDX-License-Identifier: MIT */
/* Writing safetensors files: announce all tensors, begin, write their data in that order,
 * commit. */
#ifndef RX_IMPORT_SAFETENSORS_H
#define RX_IMPORT_SAFETENSORS_H

#include "base/outfile.h"
#include "base/str.h"
#include "rlx/graph.h"

typedef struct rx_safetensors_writer {
    rx_str head;
    uint64_t bytes; /* of the data announced */
    rx_outfile file;
} rx_safetensors_writer;

/* "BF16"; NULL for types that the format does not have. safetensors.c */
const char *rx_safetensors_type_name(rlx_dtype t);
/* RLX_UNSUPPORTED for packed types, which the format does not have. */
rlx_status rx_safetensors_add(rx_safetensors_writer *w, const char *name, rlx_dtype t,
                              const rlx_shape *shape, rlx_error *err);
/* Opens the file and writes its header. */
rlx_status rx_safetensors_begin(rx_safetensors_writer *w, const char *path, rlx_error *err);
/* Writes elements of type t. */
rlx_status rx_safetensors_write(rx_safetensors_writer *w, rlx_dtype t, const void *data,
                                size_t bytes, rlx_error *err);
/* After all data: renames the file to its path. */
rlx_status rx_safetensors_finish(rx_safetensors_writer *w, rlx_error *err);
/* Also after finish, and for a zeroed writer. */
void rx_safetensors_destroy(rx_safetensors_writer *w);

#endif
