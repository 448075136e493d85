/* SPDX-License-Identifier: MIT */
/* Iteration over tensors with as few axes as possible. */
#include <string.h>

#include "gpu/select/walk.h"

rx_walk rx_walk_make(int rank, const int64_t *dim)
{
    rx_walk w = {.rank = rank};
    for (int i = 0; i < rank; i++) {
        w.dim[i] = dim[i];
        w.axis[i] = i;
    }
    return w;
}

void rx_walk_add(rx_walk *w, const int64_t *stride)
{
    memcpy(w->stride[w->n_tensors++], stride, (size_t)w->rank * sizeof *stride);
}

static void drop_axis(rx_walk *w, int i)
{
    w->rank--;
    for (; i < w->rank; i++) {
        w->dim[i] = w->dim[i + 1];
        w->axis[i] = w->axis[i + 1];
        for (int t = 0; t < w->n_tensors; t++)
            w->stride[t][i] = w->stride[t][i + 1];
    }
}

static bool are_one(const rx_walk *w, int i)
{
    for (int t = 0; t < w->n_tensors; t++)
        if (w->stride[t][i] != w->stride[t][i + 1] * w->dim[i + 1])
            return false;
    return true;
}

void rx_walk_collapse(rx_walk *w, uint32_t keep)
{
    for (int i = w->rank - 1; i >= 0; i--)
        if (w->dim[i] == 1 && !(keep >> w->axis[i] & 1))
            drop_axis(w, i);
    for (int i = w->rank - 2; i >= 0; i--) {
        if (keep >> w->axis[i] & 1 || keep >> w->axis[i + 1] & 1 || !are_one(w, i))
            continue;
        w->dim[i + 1] *= w->dim[i];
        drop_axis(w, i);
    }
}

int rx_walk_find(const rx_walk *w, int axis)
{
    for (int i = 0; i < w->rank; i++)
        if (w->axis[i] == axis)
            return i;
    return -1;
}

void rx_walk_dims(const rx_walk *w, uint32_t out[RLX_MAX_RANK])
{
    for (int i = 0; i < RLX_MAX_RANK; i++)
        out[i] = i < w->rank ? (uint32_t)w->dim[i] : 1;
}

void rx_walk_strides(const rx_walk *w, int t, uint32_t out[RLX_MAX_RANK])
{
    for (int i = 0; i < RLX_MAX_RANK; i++)
        out[i] = i < w->rank ? (uint32_t)w->stride[t][i] : 0;
}

uint32_t rx_unit_of(uint64_t bytes)
{
    return bytes % 16 == 0 ? 16 : bytes % 4 == 0 ? 4 : bytes % 2 == 0 ? 2 : 1;
}

void rx_flat_grid(rx_gpu_dispatch *d, const rx_gpu_caps *caps, uint64_t n)
{
    rx_gpu_grid(d, caps, (n + d->spec[0] - 1) / d->spec[0]);
}
