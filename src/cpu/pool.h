/* SPDX-License-Identifier: MIT */
/* The threads of the CPU device. The process has one set of workers, shared by all pools; a pool is
 * a limit on how many of them a device uses. rx_parallel (cpu/kernel.h) runs on it. */
#ifndef RX_CPU_POOL_H
#define RX_CPU_POOL_H

#include "base/error.h"

typedef struct rx_pool rx_pool;

/* Cores the process may use: affinity mask and cgroup limits, at least 1. cpu/cores.c */
int rx_cpu_cores(void);

#define RX_MAX_THREADS 1024

/* A pool of `n_threads` threads, the caller of rx_parallel among them. 0: RLX_THREADS, else
 * rx_cpu_cores. Fewer when the system gives no more. Workers start here and end with the last
 * pool. */
rlx_status rx_pool_create(uint32_t n_threads, rx_pool **out, rlx_error *err);
void rx_pool_destroy(rx_pool *p); /* NULL is fine */

/* Threads that may run the chunks of one rx_parallel, 1 for NULL; and which of them is the calling
 * one, from 0: for working memory of each thread. */
int rx_pool_n_threads(const rx_pool *p);
int rx_pool_slot(void);

#endif
