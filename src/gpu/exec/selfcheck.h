/* SPDX-License-Identifier: MIT */
/* The self-check of GPUs: when a driver is first used its optional features are tried on small
 * cases, and those with wrong results are turned off. Backends run the kernels and keep the outcome
 * on disk. */
#ifndef RX_GPU_SELFCHECK_H
#define RX_GPU_SELFCHECK_H

#include "gpu/gpu.h"
#include "runtime/backend.h"

#define RX_GPU_SELFCHECK_WORDS 1027
/* Of selfcheck_chain, the only kernel run as several dispatches of many workgroups. */
#define RX_GPU_SELFCHECK_LEVELS 8
#define RX_GPU_SELFCHECK_GROUPS 512

/* The outcome for a device: data for a file. */
typedef struct rx_gpu_selfcheck {
    uint32_t n_checks;
    uint32_t tried, failed; /* bit i: check i */
    uint32_t subgroup;      /* size, where subgroups work */
} rx_gpu_selfcheck;

/* Runs one workgroup of a kernel on a buffer of RX_GPU_SELFCHECK_WORDS zeros and reads it. */
typedef rlx_status rx_gpu_selfcheck_fn(rx_device *d, rx_kernel kernel, uint32_t local,
                                       uint32_t *words, rlx_error *err);

typedef struct rx_gpu_selfcheck_desc {
    const char *backend, *name; /* for the log */
    rx_gpu_caps *caps;          /* subgroup_arith with subgroup 0: the size is not known */
    rx_gpu_selfcheck_fn *run;
    rx_device *device;
} rx_gpu_selfcheck_desc;

/* Runs the checks missing from *s and turns off in the caps what fails. *s is zero or from a file;
 * true when it changed. */
bool rx_gpu_selfcheck_run(const rx_gpu_selfcheck_desc *d, rx_gpu_selfcheck *s);
/* Turns off what was seen to fail; what was not tried stays. */
void rx_gpu_selfcheck_apply(rx_gpu_caps *caps, const rx_gpu_selfcheck *s);
/* Whether it is from this version of the checks. */
bool rx_gpu_selfcheck_fits(const rx_gpu_selfcheck *s);
/* "self-check: passed", or what was turned off. */
void rx_gpu_selfcheck_note(const rx_gpu_selfcheck *s, char note[160]);

#endif
