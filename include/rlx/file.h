/* SPDX-License-Identifier: MIT */
/* Model files: the named tensors and the metadata of GGUF and safetensors files. Files are mapped
 * into memory and never copied; a model that is spread over several files is opened as one. */
#ifndef RLX_FILE_H
#define RLX_FILE_H

#include "graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An open model file. Nothing in it changes after it was opened: any number of threads may read. */
typedef struct rlx_file rlx_file;

/* Opens one of
 *   a GGUF file, versions 1 to 3, little-endian. NAME-00001-of-0000N.gguf opens all N parts,
 *     whichever of them is given;
 *   a safetensors file;
 *   NAME.safetensors.index.json, with the safetensors files it names, from the same folder.
 * Every length, offset and name is checked here: what the functions below return may be used
 * without further checks. On success the caller ends *out with rlx_file_close; on failure *out is
 * NULL. The files must not change or shrink while open. */
RLX_API rlx_status rlx_file_open(const char *path, rlx_file **out, rlx_error *err);
/* Unmaps the files: all pointers that came from `f` end here. NULL is fine. */
RLX_API void rlx_file_close(rlx_file *f);
/* True when `path` names one of the files that `f` has open, also through links. */
RLX_API bool rlx_file_is_at(const rlx_file *f, const char *path);
/* "gguf" or "safetensors". Static storage. */
RLX_API const char *rlx_file_format(const rlx_file *f);

/* ---- Tensors -------------------------------------------------------------------------------- */

/* All pointers belong to the file. */
typedef struct rlx_file_tensor {
    const char *name;
    rlx_dtype dtype;       /* RLX_NO_TYPE when rlx has no such type; see type_name */
    const char *type_name; /* "q4_0" for types of rlx, else what the file says: "F64", "type 99" */
    rlx_shape shape;       /* outermost first, also for GGUF, which stores it the other way round */
    const void *data;      /* in the mapped file; GGUF aligns it, safetensors need not */
    size_t bytes;          /* of a type whose size is unknown: up to the next tensor */
} rlx_file_tensor; /* frozen */

RLX_API size_t rlx_file_n_tensors(const rlx_file *f);
/* Tensor `i` in the order of the file; false when there is none. */
RLX_API bool rlx_file_tensor_at(const rlx_file *f, size_t i, rlx_file_tensor *out);
/* The tensor of that name; false when there is none. */
RLX_API bool rlx_file_find_tensor(const rlx_file *f, const char *name, rlx_file_tensor *out);
/* The tensor of that name, for use: RLX_NOT_FOUND when there is none, RLX_UNSUPPORTED when its type
 * is none of rlx. On failure *out is zero. */
RLX_API rlx_status rlx_file_get_tensor(const rlx_file *f, const char *name, rlx_file_tensor *out,
                                       rlx_error *err);

/* ---- Metadata ------------------------------------------------------------------------------- */

typedef enum rlx_meta_kind {
    RLX_META_U64, /* an unsigned integer of any size in the file */
    RLX_META_I64, /* a signed one */
    RLX_META_F64, /* f32 or f64 in the file */
    RLX_META_BOOL,
    RLX_META_STRING
} rlx_meta_kind;

/* A value or an array of values of one kind. */
typedef struct rlx_meta {
    const char *key;
    rlx_meta_kind kind;
    bool is_array;
    size_t n;           /* values: 1 when it is no array */
    const void *values; /* for the functions below */
} rlx_meta; /* frozen */

RLX_API size_t rlx_file_n_meta(const rlx_file *f);
/* Entry `i` in the order of the file; false when there is none. */
RLX_API bool rlx_file_meta_at(const rlx_file *f, size_t i, rlx_meta *out);
/* The entry with that key; false when there is none. */
RLX_API bool rlx_file_find_meta(const rlx_file *f, const char *key, rlx_meta *out);

/* Value `i` of an entry (0 when it is no array). False, with *out as it was, when there is no such
 * value or it does not fit: integers are read as either integer kind while in range, and as f64;
 * nothing else is converted. */
RLX_API bool rlx_meta_u64(const rlx_meta *m, size_t i, uint64_t *out);
RLX_API bool rlx_meta_i64(const rlx_meta *m, size_t i, int64_t *out);
RLX_API bool rlx_meta_f64(const rlx_meta *m, size_t i, double *out);
RLX_API bool rlx_meta_bool(const rlx_meta *m, size_t i, bool *out);
/* The text is not terminated by a zero byte and may hold any bytes. */
RLX_API bool rlx_meta_string(const rlx_meta *m, size_t i, const char **text, size_t *length);

/* ---- Writing files --------------------------------------------------------------------------
 * All files that rlx writes (this function, rlx_npy_save, rlx_gguf_writer_finish, rlx_chat_save,
 * rlx_context_save) are written beside their place, synced and renamed: after a failure, a kill or
 * a power cut the name is that of the whole old file or of the whole new one. A file of another
 * kind and a read-only one are never replaced: that is RLX_INVALID or RLX_IO. A link stays; what it
 * points at is replaced. A character device (/dev/null), a pipe that someone reads and an open
 * descriptor (/dev/stdout, /dev/fd/N) are written as they are; other things are refused. */

/* Writes a whole file. An older file is replaced when it is empty or begins with the same
 * `magic_bytes` bytes as `data`; `kind` names such files in errors: "an SVG picture". */
RLX_API rlx_status rlx_save_file(const char *path, const char *kind, size_t magic_bytes,
                                 const void *data, size_t bytes, rlx_error *err);

#ifdef __cplusplus
}
#endif
#endif
