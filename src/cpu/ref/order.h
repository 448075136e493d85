/* SPDX-License-Identifier: MIT */
/* Sorting for the reference kernels: one order for every type, used by top_k, sort, knn, the expert
 * gate, Welch peaks and sampling. */
#ifndef RX_CPU_REF_ORDER_H
#define RX_CPU_REF_ORDER_H

#include "cpu/ref/ref.h"

/* One element to be sorted: floats are compared by f, integers by i; the other one is 0. */
typedef struct rx_key {
    double f;
    int64_t i;
    int64_t place; /* original index */
} rx_key;

/* The element at offset o of v as a key. */
rx_key rx_load_key(const rx_view *v, int64_t o, int64_t place);
/* Whether a comes before b: smaller first, or larger first when `descending`. NaN counts as larger
 * than any number; NaNs are equal, and so are -0 and 0. */
bool rx_key_before(const rx_key *a, const rx_key *b, bool descending);
/* Stable merge sort of n keys; `work` has room for n. */
void rx_sort_keys(rx_key *keys, rx_key *work, int64_t n, bool descending);
/* Room for 2 * n keys: keys and work. NULL: out of memory. */
rx_key *rx_scratch_keys(const rx_call *c, int64_t n);

/* The bin of a histogram with edge(bin) <= v < edge(bin + 1), closed above in the last one; -1 when
 * there is none. */
int64_t rx_find_bin(const rlx_histogram_desc *d, double v);

#endif
