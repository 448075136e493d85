/* SPDX-License-Identifier: MIT */
/* The compiled kernels as data. tools/kernels/pack.c writes blob.c from the files in gpu/kernels
 * when the library is built. */
#ifndef RX_GPU_BLOB_H
#define RX_GPU_BLOB_H

#include <stdint.h>

typedef struct rx_blob_entry {
    const char *name;
    uint32_t offset, packed_bytes, small_bytes, n_words;
    uint32_t base; /* distance, in entries, to the dictionary entry; 0: none */
} rx_blob_entry;

extern const rx_blob_entry rx_blob_index[]; /* ends with name NULL */
extern const unsigned char rx_blob_data[];

/* A hash of all kernels, part of the keys of the cache folder. kernels.c */
uint64_t rx_gpu_kernels_digest(void);

#endif
