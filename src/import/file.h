/* SPDX-License-Identifier: MIT */
/* A model file and what its readers share. A reader validates a part (one file in memory) and adds
 * its metadata and tensors to the rlx_file, which holds only checked facts. */
#ifndef RX_IMPORT_FILE_H
#define RX_IMPORT_FILE_H

#include "base/error.h"
#include "base/file.h"
#include "base/map.h"
#include "base/mem.h"
#include "rlx/file.h"

/* How a metadata value is stored: the value types of GGUF, by their numbers there. */
typedef enum rx_meta_code {
    RX_META_U8, RX_META_I8, RX_META_U16, RX_META_I16, RX_META_U32, RX_META_I32, RX_META_F32,
    RX_META_BOOL, RX_META_STRING, RX_META_ARRAY, RX_META_U64, RX_META_I64, RX_META_F64,
    RX_N_META_CODES
} rx_meta_code;

/* Bytes of a value; 0 for strings and arrays. */
int rx_meta_width(rx_meta_code code);

typedef struct rx_meta {
    const char *key;
    rx_meta_code code; /* of the values, never RX_META_ARRAY */
    bool is_array;
    size_t n;
    const unsigned char *numbers; /* little-endian, not aligned */
    const rx_bytes *strings;      /* of code RX_META_STRING */
} rx_meta;

struct rlx_file {
    const char *format, *path;
    rx_arena arena; /* names and lists; values and data stay in the maps */
    rx_file *maps;
    size_t n_maps, cap_maps;
    rlx_file_tensor *tensors;
    size_t n_tensors, cap_tensors;
    rx_map tensor_names;
    rx_meta *meta;
    size_t n_meta, cap_meta;
    rx_map meta_keys;
};

/* One file in memory. `path` names it in errors. */
typedef struct rx_part {
    const char *path;
    const unsigned char *data;
    size_t bytes;
} rx_part;

/* The longest name of a tensor or key that is taken. */
#define RX_MAX_NAME 1024

/* Opens a file read-only as a part; the file unmaps it when it is closed. */
rlx_status rx_part_open(rlx_file *f, const char *path, rx_part *part, rlx_error *err);
/* Copies and checks a name: 1 to RX_MAX_NAME bytes of UTF-8 without control characters. `what` is
 * the object in the error: "the name of tensor 3". */
rlx_status rx_part_name(rlx_file *f, const rx_part *part, const char *what, rx_bytes text,
                        const char **name, rlx_error *err);
/* Adds a tensor; RLX_PARSE when its name is there already. */
rlx_status rx_file_add_tensor(rlx_file *f, const rx_part *part, const rlx_file_tensor *t,
                              rlx_error *err);
/* Adds an entry; of several parts the first that has a key gives its value. */
rlx_status rx_file_add_meta(rlx_file *f, const rx_meta *m, rlx_error *err);

/* The readers. GGUF opens the other parts of a split file, the index the files it names. */
rlx_status rx_gguf_read(rlx_file *f, const rx_part *part, rlx_error *err);
rlx_status rx_safetensors_read(rlx_file *f, const rx_part *part, rlx_error *err);
rlx_status rx_safetensors_read_index(rlx_file *f, const rx_part *index, rlx_error *err);

/* Opens a file that is in memory, which the caller keeps until the file is closed; `path` as in
 * rlx_file_open decides which other files belong to it. */
rlx_status rx_file_from_memory(const void *data, size_t bytes, const char *path, rlx_file **out,
                               rlx_error *err);

#endif
