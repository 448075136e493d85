/* SPDX-License-Identifier: MIT */
/* The pipelines of a device, by kernel and constants: kept while a program uses them and for some
 * time after. How one is created is up to the backend. */
#ifndef RX_GPU_PIPELINES_H
#define RX_GPU_PIPELINES_H

#include "base/thread.h"
#include "gpu/gpu.h"

/* The first member of a backend's own struct, rx_pipeline. */
typedef struct rx_gpu_pipeline {
    uint64_t key[2];
    uint32_t refs; /* dispatches that use it */
    uint64_t used; /* when it was last asked for */
    struct rx_gpu_pipeline *next; /* of the unused ones to destroy */
} rx_gpu_pipeline;

typedef struct rx_gpu_pipelines {
    rx_mutex lock;          /* guards what follows */
    rx_gpu_pipeline **list; /* cap slots, NULL where empty */
    size_t n, cap, n_unused;
    uint64_t n_gets;
} rx_gpu_pipelines;

/* A pipeline that the table lacks, for dispatch `dispatch` of a list. */
typedef struct rx_gpu_missing {
    size_t dispatch;
    rx_gpu_pipeline *made; /* all zero but for its key */
    bool ok;               /* whether it was made */
} rx_gpu_missing;

/* How a backend makes the pipelines of a list of dispatches. */
typedef struct rx_gpu_pipeline_maker {
    void *user;
    size_t bytes; /* of rx_pipeline */
    void (*key)(void *user, size_t dispatch, uint64_t key[2]);
    /* Makes all of them and sets `ok` of each that was made, also after a failure. */
    rlx_status (*make)(void *user, rx_gpu_missing *list, size_t n, rlx_error *err);
    void (*give)(void *user, size_t dispatch, rx_gpu_pipeline *x);
    void (*destroy)(void *user, rx_gpu_pipeline *x);
} rx_gpu_pipeline_maker;

/* Gives each of n dispatches its pipeline, made where the table lacks it, and destroys the older
 * half of the unused ones when there are too many. On failure dispatches may hold pipelines. The
 * lock is taken here. */
rlx_status rx_gpu_pipelines_get(rx_gpu_pipelines *p, const rx_gpu_pipeline_maker *m, size_t n,
                                rlx_error *err);
/* A dispatch no longer uses a pipeline. */
void rx_gpu_pipelines_drop(rx_gpu_pipelines *p, rx_gpu_pipeline *x);
/* Calls make(user, i) for 0 .. n - 1, several at a time on threads of their own. */
void rx_gpu_pipelines_make(size_t n, void (*make)(void *user, size_t i), void *user);

#endif
