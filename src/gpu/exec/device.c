/* SPDX-License-Identifier: MIT */
/* Devices of GPU backends: the list, best first, the target, and functions of rx_backend. */
#include "gpu/exec/device.h"

#include <stdio.h>
#include <string.h>

#include "gpu/select/plan.h"
#include "runtime/host.h"

/* ---- The list of devices --------------------------------------------------------------------- */

void *rx_gpu_devices_at(const rx_gpu_devices *l, size_t i)
{
    return (char *)l->items + i * l->item_bytes;
}

static rlx_device_info *info_of(const rx_gpu_devices *l, size_t i)
{
    return (rlx_device_info *)(void *)((char *)rx_gpu_devices_at(l, i) + l->info_at);
}

void rx_gpu_devices_add(rx_gpu_devices *l, const void *gpu, int rank)
{
    if (l->n == RX_GPU_MAX_DEVICES)
        return;
    size_t at = l->n++;
    for (; at > 0 && l->rank[at - 1] < rank; at--) {
        l->rank[at] = l->rank[at - 1];
        memcpy(rx_gpu_devices_at(l, at), rx_gpu_devices_at(l, at - 1), l->item_bytes);
    }
    l->rank[at] = rank;
    memcpy(rx_gpu_devices_at(l, at), gpu, l->item_bytes);
}

void rx_gpu_devices_say(rx_gpu_devices *l, const char *why)
{
    const size_t used = strlen(l->reason);
    if (!strstr(l->reason, why))
        snprintf(l->reason + used, sizeof l->reason - used, "%s%s", used ? "; " : "", why);
}

const rx_gpu_devices *rx_gpu_devices_get(rx_gpu_devices *l)
{
    rx_mutex_lock(&l->lock);
    if (!l->made)
        l->make(l);
    for (size_t i = 0; i < l->n && !l->made; i++)
        snprintf(info_of(l, i)->id, sizeof info_of(l, i)->id, "%s:%zu", l->backend, i);
    l->made = true;
    rx_mutex_unlock(&l->lock);
    return l;
}

size_t rx_gpu_devices_list(rx_gpu_devices *l, rlx_device_info *out, size_t cap, char reason[512])
{
    rx_gpu_devices_get(l);
    snprintf(reason, 512, "%s", l->n ? "" : l->reason);
    for (size_t i = 0; i < l->n && i < cap; i++)
        out[i] = *info_of(l, i);
    return l->n;
}

/* ---- The target ------------------------------------------------------------------------------ */

static bool is_native(const rx_target *t, const rlx_graph *g, const rx_node *n)
{
    return t->support(t, g, n) == RLX_SUPPORT_NATIVE;
}

static bool takes_strided(const rx_target *t, const rlx_graph *g, const rx_node *n, size_t i)
{
    return is_native(t, g, n) && rx_gpu_takes_strided(t, g, n, i);
}

static bool merges(const rx_target *t, rlx_policy policy, const rlx_graph *g,
                   const rx_node *first, const rx_node *second)
{
    const rx_gpu_device *d = t->user;
    return is_native(t, g, first) && is_native(t, g, second) &&
           rx_gpu_merges(&d->caps, policy, g, first, second);
}

void rx_gpu_target_init(rx_gpu_device *d, const char *name,
                        rlx_support (*support)(const rx_target *t, const rlx_graph *g,
                                               const rx_node *n))
{
    d->target = (rx_target){.name = name, .align = RX_GPU_ALIGN, .user = d,
                            .slack_bytes = RX_GPU_SLACK_BYTES, .exact_rows = RX_GPU_EXACT_ROWS,
                            .row_multiple = RX_GPU_ROW_MULTIPLE, .support = support,
                            .takes_strided = takes_strided, .merges = merges,
                            .eval = rx_host_eval};
}

/* ---- The limit of memory --------------------------------------------------------------------- */

rlx_status rx_gpu_device_check(rx_gpu_device *d, uint64_t bytes, const char *what, rlx_error *err)
{
    const uint64_t used = atomic_load(&d->memory_used), all = d->memory_limit;
    if (!all || (used <= all && bytes <= all - used))
        return RLX_OK;
    return rx_fail(err, RLX_NO_MEMORY, "not enough memory for %s: it needs %llu bytes, %llu of "
                   "%llu are free (RLX_LIMITS)", what, (unsigned long long)bytes,
                   (unsigned long long)(used < all ? all - used : 0), (unsigned long long)all);
}

rlx_status rx_gpu_device_take(rx_gpu_device *d, uint64_t bytes, const char *what, rlx_error *err)
{
    RLX_TRY(rx_gpu_device_check(d, bytes, what, err));
    atomic_fetch_add(&d->memory_used, bytes);
    return RLX_OK;
}

void rx_gpu_device_give(rx_gpu_device *d, uint64_t bytes)
{
    atomic_fetch_sub(&d->memory_used, bytes);
}

/* ---- Functions of rx_backend ----------------------------------------------------------------- */

static rx_gpu_device *base_of(rx_device *d)
{
    return (rx_gpu_device *)(void *)d;
}

const rx_target *rx_gpu_device_target(rx_device *d)
{
    return &base_of(d)->target;
}

void rx_gpu_device_set_knobs(rx_device *d, const rx_knobs *k)
{
    base_of(d)->caps.knobs = *k;
}

rlx_status rx_gpu_device_buffer(rx_device *d, size_t bytes, rx_buffer **out, rlx_error *err)
{
    return rx_gpu_buffer_create(&base_of(d)->memory, bytes, out, err);
}

rlx_status rx_gpu_device_weights(rx_device *d, rx_program *p, rx_buffer *const *buffers,
                                 const rx_lender *from, rx_weights **out, rlx_error *err)
{
    return rx_gpu_weights_create(&base_of(d)->memory, p,
                                 &(rx_gpu_shares){.buffers = buffers, .from = from}, out, err);
}

rlx_status rx_gpu_backend_compile(rx_exec *e, const int64_t *dims, rlx_error *err)
{
    return rx_gpu_exec_compile((rx_gpu_exec *)(void *)e, dims, err);
}

const char *rx_gpu_backend_kernel(rx_exec *e, size_t step)
{
    return rx_gpu_exec_kernel((rx_gpu_exec *)(void *)e, step);
}

size_t rx_gpu_backend_computed_by(rx_exec *e, size_t step)
{
    return rx_gpu_exec_computed_by((rx_gpu_exec *)(void *)e, step);
}

rlx_status rx_gpu_backend_print(rx_exec *e, const char *stage, char **text, rlx_error *err)
{
    return rx_gpu_exec_print((rx_gpu_exec *)(void *)e, stage, text, err);
}
