/* SPDX-License-Identifier: MIT */
/* The pipelines of a device, by kernel and constants: kept while a program uses them and for some
 * time after. How one is made is the backend's. */
#ifndef RX_GPU_PIPELINES_H
#define RX_GPU_PIPELINES_H

#include "base/thread.h"
#include "gpu/gpu.h"

/* The first member of a backend's own struct, rx_pipeline. */
typedef struct rx_gpu_pipeline {
    uint64_t key[2];
    uint32_t refs; /* dispatches that use it */
    uint64_t used; /* when it was last asked for */
    struct rx_gpu_pipeline *next; /* rx_gpu_pipelines_trim */
} rx_gpu_pipeline;

typedef struct rx_gpu_pipelines {
    rx_mutex lock;          /* the caller takes it for all that follows */
    rx_gpu_pipeline **list; /* cap places, NULL where there is none */
    size_t n, cap, n_unused;
    uint64_t n_gets;        /* counted by the caller */
} rx_gpu_pipelines;

/* Reserves room for `more` pipelines; false: out of memory. */
bool rx_gpu_pipelines_reserve(rx_gpu_pipelines *p, size_t more);
/* NULL: there is none. */
rx_gpu_pipeline *rx_gpu_pipelines_find(const rx_gpu_pipelines *p, const uint64_t key[2]);
/* Inserts a pipeline with a new key, for which room was reserved; its reference count is 0. */
void rx_gpu_pipelines_add(rx_gpu_pipelines *p, rx_gpu_pipeline *x);
/* A dispatch begins, and ends, to use a pipeline. */
void rx_gpu_pipelines_hold(rx_gpu_pipelines *p, rx_gpu_pipeline *x);
void rx_gpu_pipelines_drop(rx_gpu_pipelines *p, rx_gpu_pipeline *x);
/* Takes the older half of the unused pipelines out of the table when there are too many of them.
 * Returns them as a list, for the caller to destroy. */
rx_gpu_pipeline *rx_gpu_pipelines_trim(rx_gpu_pipelines *p);
/* Calls make(user, i) for 0 .. n - 1, several at a time on threads of their own. */
void rx_gpu_pipelines_make(size_t n, void (*make)(void *user, size_t i), void *user);

#endif
