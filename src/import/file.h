/* SPDX-License-Identifier: MIT */
/* A model file and what its readers share. A reader validates a part (one file in memory) and adds
 * its metadata and tensors to the rlx_file, which holds validated data only. */
#ifndef RX_IMPORT_FILE_H
#define RX_IMPORT_FILE_H

#include "base/error.h"
#include "base/file.h"
#include "base/map.h"
#include "base/mem.h"
#include "rlx/file.h"

/* Storage type of a metadata value, numbered as GGUF's value types. */
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

/* File and byte offset of a tensor's data. */
typedef struct rx_tensor_place {
    size_t stream;
    uint64_t at;
} rx_tensor_place;

/* Bytes already read from a stream; they live in the arena of the file. */
typedef struct rx_window {
    const unsigned char *data;
    size_t stream;
    uint64_t at, bytes;
} rx_window;

struct rlx_file {
    const char *format, *path;
    rx_arena arena; /* names and lists; values and data stay in the maps */
    rx_file *maps;
    size_t n_maps, cap_maps;
    bool streamed;      /* files are read in parts, not mapped */
    rx_stream *streams;
    size_t n_streams, cap_streams;
    rx_window window;   /* of the most recently read stream */
    rx_tensor_place *places; /* [tensors], of a streamed file */
    size_t cap_places;
    rlx_file_tensor *tensors;
    size_t n_tensors, cap_tensors;
    rx_map tensor_names;
    rx_meta *meta;
    size_t n_meta, cap_meta;
    rx_map meta_keys;
};

/* One file, in memory or read in parts. `path` names it in errors. */
typedef struct rx_part {
    const char *path;
    const unsigned char *data; /* NULL: of stream number `stream` */
    uint64_t bytes;
    size_t stream;
} rx_part;

/* The longest name of a tensor or key that is taken. */
#define RX_MAX_NAME 1024

/* Opens a file read-only as a part; the file unmaps or closes it when it is closed. */
rlx_status rx_part_open(rlx_file *f, const char *path, rx_part *part, rlx_error *err);
/* n bytes from offset `at`, which the caller has checked to lie inside the part; valid as long as
 * the file. NULL after a read error. */
const unsigned char *rx_part_bytes(rlx_file *f, const rx_part *part, uint64_t at, uint64_t n,
                                   rlx_error *err);
/* Copies and checks a name: 1 to RX_MAX_NAME bytes of UTF-8 without control characters. `what` is
 * the object in the error: "the name of tensor 3". */
rlx_status rx_part_name(rlx_file *f, const rx_part *part, const char *what, rx_bytes text,
                        const char **name, rlx_error *err);
/* Adds a tensor whose bytes begin at offset `at` of the part (t->data is not looked at); RLX_PARSE
 * when its name is there already. */
rlx_status rx_file_add_tensor(rlx_file *f, const rx_part *part, const rlx_file_tensor *t,
                              uint64_t at, rlx_error *err);
/* Adds an entry; when several parts have the key, the first one wins. */
rlx_status rx_file_add_meta(rlx_file *f, const rx_meta *m, rlx_error *err);

/* Format readers. The GGUF reader opens the other parts of a split file, the index reader the files
 * that the index names. */
rlx_status rx_gguf_read(rlx_file *f, const rx_part *part, rlx_error *err);
rlx_status rx_safetensors_read(rlx_file *f, const rx_part *part, rlx_error *err);
rlx_status rx_safetensors_read_index(rlx_file *f, const rx_part *index, rlx_error *err);

/* rlx_file_open, but nothing is mapped: the header is read, and `data` of all tensors is NULL. */
rlx_status rx_file_open_streamed(const char *path, rlx_file **out, rlx_error *err);
/* Reads the first n bytes of a tensor. Thread-safe. */
rlx_status rx_file_read(const rlx_file *f, const rlx_file_tensor *t, void *to, size_t n,
                        rlx_error *err);
/* All bytes of a tensor: *data is where they are mapped, or *owned, new memory that the caller
 * frees with rx_free. */
rlx_status rx_file_load(const rlx_file *f, const rlx_file_tensor *t, const void **data,
                        void **owned, rlx_error *err);

/* Opens a file that is in memory, which the caller keeps until the file is closed; `path` as in
 * rlx_file_open decides which other files belong to it. */
rlx_status rx_file_from_memory(const void *data, size_t bytes, const char *path, rlx_file **out,
                               rlx_error *err);

#endif
