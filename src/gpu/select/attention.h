/* SPDX-License-Identifier: MIT */
/* Attention as the GPU kernels see it; its counterpart is gpu/shaders/attention.glsl. */
#ifndef RX_GPU_ATTENTION_H
#define RX_GPU_ATTENTION_H

#include "gpu/gpu.h"

/* Operands of attention, in order. */
enum { RX_ATTN_Q, RX_ATTN_K, RX_ATTN_V, RX_ATTN_MASK, RX_ATTN_LENGTHS, RX_ATTN_SINKS,
       RX_ATTN_PAGES };

/* Of ragged_attention: operands 0 to 2 are the same. */
enum { RX_RAGGED_TABLE = 3, RX_RAGGED_LENGTHS, RX_RAGGED_PAGES, RX_RAGGED_SINKS };

/* Sizes count elements. The queries of the `group` heads that share a K/V head are the n_rows rows
 * of one matrix. */
typedef struct rx_attention {
    const rx_gpu_call *call;
    const rlx_attention_desc *desc;
    const rx_view *q, *k, *v, *out;
    const rx_view *mask, *lengths, *sinks, *pages; /* NULL: absent */
    const rx_view *table;  /* ragged: by query, its row of the page table; NULL: not ragged */
    rx_gpu_ref sinks_ref, pages_ref;
    int head, seq;         /* the axes of heads and positions in q, k, v and the result */
    int64_t n_batch, n_heads, n_kv_heads, group;
    int64_t n_queries, n_keys, n_rows;
    int64_t key_size, value_size;
    int64_t mask_stride[4]; /* along [B, H, Sq, Sk] */
    const rx_gpu_keys *keys; /* of a step whose keys are split; NULL: all keys */
    int64_t n_after;         /* queries of the whole step after these */
} rx_attention;

/* The arguments common to all kernels, for n_groups workgroups; k and v are bound as operands.
 * `partial`: the kernel writes sums for attention_merge.comp. */
rx_args_attention_base rx_attention_args(const rx_attention *a, bool partial, uint64_t n_groups,
                                         uint64_t n_splits);
/* True when a kernel cannot write the result itself: keys are split, words of the result contain
 * elements of two rows, or no binding is left for sinks. */
bool rx_attention_needs_merge(const rx_attention *a, uint64_t n_splits);
/* What a kernel needs whose last workgroup joins the n_splits splits of the keys: memory for the
 * partial results, and zeroed counters for n_groups groups, at most RX_ATTN_COUNTERS if any. */
#define RX_ATTN_COUNTERS 1024
rx_gpu_ref rx_attention_parts(rx_gpu_build *b, const rx_attention *a, uint64_t n_splits);
rx_gpu_ref rx_attention_counters(rx_gpu_build *b, uint64_t n_groups, uint64_t n_splits);
/* True when offset and strides of batch, head and sequence are multiples of `unit` and the elements
 * of a head are contiguous. */
bool rx_attention_is_aligned(const rx_view *v, int64_t unit);

/* Adds the dispatches on cooperative matrices and returns true, or returns false when device or
 * shape do not allow them. gpu/select/attention_frag.c */
bool rx_attention_frag(rx_gpu_build *b, const rx_attention *a);
/* The same, reading k and v in place. gpu/select/attention_plain.c */
bool rx_attention_plain(rx_gpu_build *b, const rx_attention *a);

#endif
