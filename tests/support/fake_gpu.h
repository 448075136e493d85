/* SPDX-License-Identifier: MIT */
/* A GPU that is only data: its caps are made up, its memory is numbers. Programs are compiled for
 * it and go through the stages of src/gpu (gpu/stages.h) without any API. */
#ifndef RLX_TESTS_SUPPORT_FAKE_GPU_H
#define RLX_TESTS_SUPPORT_FAKE_GPU_H

#include "gpu/stages.h"

typedef struct fake_gpu_desc {
    rx_gpu_caps caps;
    rx_gpu_rules rules;       /* of its driver */
    uint64_t scratch_ring;
    uint64_t max_block_bytes; /* 0: 1 GiB */
} fake_gpu_desc;

/* Like an NVIDIA data-centre card: subgroups of 32, cooperative matrices, chains. */
extern const fake_gpu_desc fake_gpu_large;
/* The same card through WebGPU: no addresses, no matrices, no chains. */
extern const fake_gpu_desc fake_gpu_bound;
/* The least that is accepted, as a browser may offer it: no subgroups, 16-bit or 8-bit storage. */
extern const fake_gpu_desc fake_gpu_small;

typedef struct fake_gpu fake_gpu;

/* Compiles the graph and makes room for it. `desc` outlives it. NULL after a failure. */
fake_gpu *fake_gpu_open(const fake_gpu_desc *desc, const rlx_graph *g, rlx_policy policy,
                        rlx_error *err);
void fake_gpu_close(fake_gpu *f);
/* Binds named dimensions (bounds where dims is NULL) as a session does: runs all stages. */
rlx_status fake_gpu_bind(fake_gpu *f, const char *dim, int64_t value, rlx_error *err);
rx_gpu_exec *fake_gpu_exec(fake_gpu *f);

#endif
