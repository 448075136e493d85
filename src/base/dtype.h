/* SPDX-License-Identifier: MIT */
/* The table of element types: every fact about a type that is not code is a column here. Rows are
 * looked up by enumerator, so their order is free. */
#ifndef RX_BASE_DTYPE_H
#define RX_BASE_DTYPE_H

#include "rlx/base.h"

typedef enum rx_dtype_kind {
    RX_KIND_NONE = 0, RX_KIND_FLOAT, RX_KIND_INT, RX_KIND_UINT, RX_KIND_BOOL, RX_KIND_PACKED
} rx_dtype_kind;

#define RX_NOT_IN_GGUF (-1)

/* X(ENUMERATOR, "name", kind, bytes, GGUF type number) */
#define RX_PLAIN_DTYPES(X)                           \
    X(F32,  "f32",  FLOAT, 4, 0)                     \
    X(F16,  "f16",  FLOAT, 2, 1)                     \
    X(BF16, "bf16", FLOAT, 2, 30)                    \
    X(I8,   "i8",   INT,   1, 24)                    \
    X(U8,   "u8",   UINT,  1, RX_NOT_IN_GGUF)        \
    X(I32,  "i32",  INT,   4, 26)                    \
    X(I64,  "i64",  INT,   8, 27)                    \
    X(BOOL, "bool", BOOL,  1, RX_NOT_IN_GGUF)        \
    X(F64,  "f64",  FLOAT, 8, 28)                    \
    X(I16,  "i16",  INT,   2, 25)                    \
    X(U16,  "u16",  UINT,  2, RX_NOT_IN_GGUF)        \
    X(U32,  "u32",  UINT,  4, RX_NOT_IN_GGUF)        \
    X(U64,  "u64",  UINT,  8, RX_NOT_IN_GGUF)

/* X(ENUMERATOR, C type) of the integers. */
#define RX_INT_DTYPES(X)                                                  \
    X(I8, int8_t) X(U8, uint8_t) X(I16, int16_t) X(U16, uint16_t)         \
    X(I32, int32_t) X(U32, uint32_t) X(I64, int64_t) X(U64, uint64_t)

/* X(ENUMERATOR, name, elements of a block, bytes of a block, GGUF type number). The name is also
 * that of the decoder: rx_decode_<name> in quant.h. */
#define RX_PACKED_DTYPES(X)            \
    X(Q4_0,    q4_0,    32,  18,  2)   \
    X(Q4_1,    q4_1,    32,  20,  3)   \
    X(Q5_0,    q5_0,    32,  22,  6)   \
    X(Q5_1,    q5_1,    32,  24,  7)   \
    X(Q8_0,    q8_0,    32,  34,  8)   \
    X(Q2_K,    q2_k,    256, 84,  10)  \
    X(Q3_K,    q3_k,    256, 110, 11)  \
    X(Q4_K,    q4_k,    256, 144, 12)  \
    X(Q5_K,    q5_k,    256, 176, 13)  \
    X(Q6_K,    q6_k,    256, 210, 14)  \
    X(Q8_K,    q8_k,    256, 292, 15)  \
    X(IQ4_NL,  iq4_nl,  32,  18,  20)  \
    X(IQ4_XS,  iq4_xs,  256, 136, 23)  \
    X(MXFP4,   mxfp4,   32,  17,  39)  \
    X(IQ1_S,   iq1_s,   256, 50,  19)  \
    X(IQ1_M,   iq1_m,   256, 56,  29)  \
    X(IQ2_XXS, iq2_xxs, 256, 66,  16)  \
    X(IQ2_XS,  iq2_xs,  256, 74,  17)  \
    X(IQ2_S,   iq2_s,   256, 82,  22)  \
    X(IQ3_XXS, iq3_xxs, 256, 98,  18)  \
    X(IQ3_S,   iq3_s,   256, 110, 21)  \
    X(TQ1_0,   tq1_0,   256, 54,  34)  \
    X(TQ2_0,   tq2_0,   256, 66,  35)  \
    X(NVFP4,   nvfp4,   64,  36,  40)

/* The most elements a block of any type has. */
#define RX_MAX_BLOCK 256

typedef struct rx_dtype_desc {
    const char *name;
    rx_dtype_kind kind;
    int block_size;  /* elements, 1 for the plain types */
    int block_bytes;
    int gguf;        /* type number in GGUF files or RX_NOT_IN_GGUF */
} rx_dtype_desc;

/* The row of a type; for RLX_NO_TYPE and anything unknown a row of no kind, size 1 and 0 bytes. */
const rx_dtype_desc *rx_dtype_info(rlx_dtype t);

/* The type with that number in GGUF files, RLX_NO_TYPE where there is none. */
rlx_dtype rx_dtype_from_gguf(uint32_t number);

/* Bytes of n_elements contiguous elements. False, and *bytes untouched, for RLX_NO_TYPE, a negative
 * count, a count that is no multiple of the block size or a size above INT64_MAX. */
bool rx_dtype_bytes(rlx_dtype t, int64_t n_elements, uint64_t *bytes);

/* The largest number of type t (f32, f16 or bf16) that is below x. */
float rx_dtype_below(rlx_dtype t, float x);

/* The ends of the range of an integer type or bool. */
typedef struct rx_int_range {
    int64_t lo;
    uint64_t hi;
} rx_int_range;
rx_int_range rx_dtype_range(rlx_dtype t);

/* Single elements of a plain type; `at` need not be aligned. Integers pass as 64 bits, those of u64
 * by their bits. Doubles are rounded to nearest even for floats; for integers they are truncated
 * toward zero and saturate, NaN gives 0. rx_dtype_load is exact but for i64 and u64 beyond 2^53. */
int64_t rx_double_to_int(rlx_dtype t, double x);
int64_t rx_dtype_load_int(rlx_dtype t, const void *at); /* integers and bool */
void rx_dtype_store_int(rlx_dtype t, void *at, int64_t x); /* integers and bool; wraps */
double rx_dtype_load(rlx_dtype t, const void *at);
void rx_dtype_store(rlx_dtype t, void *at, double x);

#endif
