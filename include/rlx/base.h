/* SPDX-License-Identifier: MIT */
/* Statuses, errors, element types, memory and log hooks: what every other header of rlx uses. */
#ifndef RLX_BASE_H
#define RLX_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(RLX_STATIC)
#define RLX_API
#elif defined(_WIN32)
#define RLX_API __declspec(dllimport)
#else
#define RLX_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define RLX_VERSION_MAJOR 0
#define RLX_VERSION_MINOR 1
#define RLX_VERSION_PATCH 0

/* The version of the library that is loaded, "major.minor.patch". Static storage. */
RLX_API const char *rlx_version(void);

/* ---- Statuses and errors ------------------------------------------------------------------ */

/* Every function that can fail returns one of these. RLX_OK is zero. NULL for a pointer whose
 * description does not allow it is RLX_INVALID; functions that return no status then give nothing
 * (NULL, false, 0) and do nothing. */
typedef enum rlx_status {
    RLX_OK = 0,
    RLX_INVALID,      /* an argument, shape, type, attribute or graph is wrong */
    RLX_NOT_FOUND,    /* no object of that name */
    RLX_UNSUPPORTED,  /* correct, but this device or build cannot do it */
    RLX_NO_DEVICE,    /* the device asked for is not there */
    RLX_NO_MEMORY,    /* host or device memory ran out */
    RLX_DEVICE_LOST,  /* the driver reset or removed the device; open a new one */
    RLX_IO,           /* a file could not be opened, read, mapped or written */
    RLX_PARSE,        /* a file or text has the wrong form */
    RLX_CANCELLED,    /* the caller asked to stop */
    RLX_TIMEOUT,      /* the time given to wait was over */
    RLX_INTERNAL      /* a bug of rlx: the text says where */
} rlx_status;

/* "ok", "invalid", "not found", ... Static storage; an unknown status gives "unknown status". */
RLX_API const char *rlx_status_name(rlx_status status);

/* What went wrong. Owned by the caller, may be passed as NULL everywhere. On success it is left as
 * it was; on failure `text` names the object, what was expected and what was found. Names that come
 * from files are in it as rlx_escape_text shows them, and shortened where they do not fit. */
typedef struct rlx_error {
    rlx_status code;
    char text[508];
} rlx_error; /* frozen */

/* Text from a file as a terminal can show it: control characters, bytes that are no UTF-8 and marks
 * that reorder the text around them become escapes such as \x1b; with `lines` newlines and tabs
 * stay. Writes at most `cap` bytes with a zero byte at the end (`out` may be NULL when cap is 0),
 * never a part of a character; returns the bytes of the whole without that zero. */
RLX_API size_t rlx_escape_text(const char *text, size_t n, bool lines, char *out, size_t cap);

/* ---- Structs that may grow ------------------------------------------------------------------
 * Descriptors (rlx_*_desc) and structs that the library fills in begin with struct_size, the size
 * that the program was compiled with, so that later versions can append fields:
 *
 *     rlx_session_desc d = {RLX_INIT(rlx_session_desc), .policy = RLX_POLICY_FAST};
 *     rlx_layer_norm(g, x, w, b, &(rlx_norm_desc){RLX_INIT(rlx_norm_desc), .eps = 1e-6});
 *     rlx_device_info info = {RLX_INIT(rlx_device_info)};
 *
 * and, where designated initialisers are not at hand (C++ before C++20),
 *
 *     rlx_session_desc d = RLX_DEFAULT(rlx_session_desc);
 *     d.policy = RLX_POLICY_FAST;
 *
 * A descriptor that is NULL is all defaults, unless its function says otherwise. A smaller size is
 * that of an older version: fields that it lacks have their defaults, and are not filled in. A
 * larger size is that of a newer one: fields that this library does not know must be zero, and are
 * set to zero where it fills in. A size of zero is RLX_INVALID. All other structs, elements of
 * arrays among them, are frozen: they never change within a major version. docs/abi.md has the
 * whole policy. */
#define RLX_INIT(type) .struct_size = sizeof(type)
#ifdef __cplusplus
#define RLX_DEFAULT(type) rlx_default<type>()
#else
#define RLX_DEFAULT(type) ((type){RLX_INIT(type)})
#endif

/* A zero that is meant, for numbers of descriptors and builders where 0 is the default:
 *     rlx_leaky_relu(g, x, RLX_ZERO);
 *     rlx_rms_norm(g, x, w, &(rlx_norm_desc){RLX_INIT(rlx_norm_desc), .eps = RLX_ZERO});
 * The smallest normal double: 0 in every type but f64, and there as good as 0. */
#define RLX_ZERO 2.2250738585072014e-308

/* ---- Element types ------------------------------------------------------------------------ */

/* Types of tensor elements. The packed block types are those of GGUF files: a block of
 * `rlx_dtype_block_size` elements along the last axis takes `rlx_dtype_block_bytes` bytes. They are
 * for weights only. */
typedef enum rlx_dtype {
    RLX_NO_TYPE = 0,
    RLX_F32, RLX_F16, RLX_BF16,
    RLX_I8, RLX_U8, RLX_I32, RLX_I64, RLX_BOOL,
    RLX_Q4_0, RLX_Q4_1, RLX_Q5_0, RLX_Q5_1, RLX_Q8_0,
    RLX_Q2_K, RLX_Q3_K, RLX_Q4_K, RLX_Q5_K, RLX_Q6_K, RLX_Q8_K,
    RLX_IQ4_NL, RLX_IQ4_XS, RLX_MXFP4,
    RLX_IQ1_S, RLX_IQ1_M, RLX_IQ2_XXS, RLX_IQ2_XS, RLX_IQ2_S, RLX_IQ3_XXS, RLX_IQ3_S,
    RLX_TQ1_0, RLX_TQ2_0, RLX_NVFP4,
    RLX_F64, RLX_I16, RLX_U16, RLX_U32, RLX_U64,
    RLX_N_DTYPES
} rlx_dtype;

/* "f32", "q4_0", ... Static storage; "none" for RLX_NO_TYPE and anything unknown. */
RLX_API const char *rlx_dtype_name(rlx_dtype t);
/* The type of that name, or RLX_NO_TYPE. */
RLX_API rlx_dtype rlx_dtype_from_name(const char *name);
/* Elements in a block: 1 for the plain types, 32, 64 or 256 for the packed ones. */
RLX_API int64_t rlx_dtype_block_size(rlx_dtype t);
/* Bytes of a block: the size of an element for the plain types. */
RLX_API int64_t rlx_dtype_block_bytes(rlx_dtype t);
RLX_API bool rlx_dtype_is_float(rlx_dtype t);  /* f32, f16, bf16, f64 */
/* i8, u8, i16, u16, i32, u32, i64, u64 */
RLX_API bool rlx_dtype_is_int(rlx_dtype t);
RLX_API bool rlx_dtype_is_packed(rlx_dtype t); /* a block type */

/* Conversion of n numbers between a plain or packed type and float. The packed types can only be
 * decoded here. n must be a multiple of the block size; RLX_INVALID otherwise. */
RLX_API rlx_status rlx_to_float(rlx_dtype t, const void *src, float *dst, int64_t n);
/* Rounds to nearest even; integer types truncate toward zero and saturate, NaN gives 0. Plain types
 * only: RLX_UNSUPPORTED otherwise. */
RLX_API rlx_status rlx_from_float(rlx_dtype t, const float *src, void *dst, int64_t n);

/* ---- Hooks of the process ----------------------------------------------------------------- */

/* Where the library takes its host memory from. `realloc(user, NULL, n)` allocates, `n` is never 0;
 * NULL means out of memory, which becomes RLX_NO_MEMORY. Must be safe to call from any thread. */
typedef struct rlx_allocator {
    void *(*realloc)(void *user, void *old, size_t n);
    void (*free)(void *user, void *p);
    void *user;
} rlx_allocator; /* frozen */

/* Replaces the allocator of the process; NULL restores the C library's. Call it while no object of
 * rlx exists. */
RLX_API void rlx_set_allocator(const rlx_allocator *a);

typedef enum rlx_log_level {
    RLX_LOG_OFF = 0, RLX_LOG_ERROR, RLX_LOG_WARN, RLX_LOG_INFO, RLX_LOG_DEBUG, RLX_LOG_TRACE
} rlx_log_level;

/* Called with one line of text, without a newline; from any thread, one at a time. */
typedef void rlx_log_fn(void *user, rlx_log_level level, const char *text);

/* Sends log lines up to `level` to `fn`. The library itself never prints; without a call of this
 * function all lines are dropped. fn == NULL turns the log off. */
RLX_API void rlx_set_log(rlx_log_fn *fn, void *user, rlx_log_level level);

/* An environment variable that rlx reads: an option for those who cannot change the program. */
typedef struct rlx_env_info {
    const char *name, *help; /* static storage */
    const char *value;       /* NULL when not set; valid until the environment changes */
} rlx_env_info; /* frozen */

/* Writes up to `cap` variables to `out` (may be NULL when cap is 0); returns how many there are. */
RLX_API size_t rlx_env_list(rlx_env_info *out, size_t cap);
/* The folder of the pipeline and calibration caches, which may not exist yet: RLX_CACHE_DIR, else
 * rlx in the user's cache folder. False when there is none or its path does not fit. */
RLX_API bool rlx_cache_dir(char *out, size_t cap);

#ifdef __cplusplus
}

template <class T> inline T rlx_default()
{
    T t = T();
    t.struct_size = sizeof(T);
    return t;
}
#endif
#endif
