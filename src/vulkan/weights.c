/* SPDX-License-Identifier: MIT */
/* Weights and constants of a program on the device, shared by clones, and packed forms of weights
 * that kernels ask for. */
#include <string.h>

#include "base/map.h"
#include "vulkan/device.h"

/* New blocks of packed weights are as large as all there are, within these bounds. */
#define MIN_BLOCK ((uint64_t)1 << 20)
#define MAX_BLOCK ((uint64_t)256 << 20)

/* ---- Creation ------------------------------------------------------------------------------- */

/* Bytes of params and constants. */
static void list_sizes(const rx_program *p, uint64_t *bytes)
{
    for (size_t i = 0; i < p->n_params; i++)
        bytes[i] = p->values[p->params[i].value].bytes;
    for (size_t i = 0; i < p->n_values; i++)
        if (p->values[i].space == RX_SPACE_CONSTANT && p->values[i].view_of < 0)
            bytes[p->n_params + p->values[i].index] = p->values[i].bytes;
}

static rlx_status place_items(rx_weights *w, rlx_error *err)
{
    size_t n = w->n_items;
    uint64_t *bytes = rx_alloc_zero((n + 1) * sizeof *bytes);
    rx_vk_place *places = rx_alloc((n + 1) * sizeof *places);
    rlx_status st = bytes && places ? RLX_OK
                                    : rx_fail_memory(err, "the weights", n * sizeof *bytes);
    if (st == RLX_OK) {
        list_sizes(w->program, bytes);
        st = rx_vk_pool_create(w->device, bytes, n, "the weights of the program", &w->pool, places,
                               err);
    }
    for (size_t i = 0; i < n && st == RLX_OK; i++)
        w->items[i].place = places[i];
    rx_free(bytes);
    rx_free(places);
    return st;
}

static rlx_status upload_constants(rx_weights *w, rlx_error *err)
{
    const rx_program *p = w->program;
    for (size_t i = 0; i < p->n_constants; i++) {
        rx_vk_weight *item = &w->items[p->n_params + i];
        RLX_TRY(rx_vk_upload(w->device, &item->place, 0, p->constants[i], item->place.bytes, err));
        item->version = 1;
    }
    return RLX_OK;
}

rlx_status rx_vk_weights_create(rx_device *d, rx_program *p, rx_weights **out, rlx_error *err)
{
    *out = NULL;
    rx_weights *w = rx_alloc_zero(sizeof *w);
    if (!w)
        return rx_fail_memory(err, "the weights", sizeof *w);
    w->device = d;
    w->program = p;
    w->n_items = p->n_params + p->n_constants;
    w->items = rx_alloc_zero((w->n_items + 1) * sizeof *w->items);
    if (!w->items || !rx_mutex_init(&w->lock)) {
        rx_fail_memory(err, "the weights", (w->n_items + 1) * sizeof *w->items);
        rx_free(w->items);
        rx_free(w);
        return RLX_NO_MEMORY;
    }
    rlx_status st = place_items(w, err);
    if (st == RLX_OK)
        st = upload_constants(w, err);
    if (st != RLX_OK) {
        rx_vk_weights_destroy(w);
        return st;
    }
    *out = w;
    return RLX_OK;
}

static void free_derived(rx_device *d, rx_vk_derived *x)
{
    rx_vk_pipelines_release(d, &x->pack, 1);
    if (x->pool)
        d->vk.DestroyDescriptorPool(d->handle, x->pool, NULL);
    rx_free(x);
}

void rx_vk_weights_destroy(rx_weights *w)
{
    if (!w)
        return;
    rx_device *d = w->device;
    rx_vk_upload_finish(d, NULL);
    for (size_t i = 0; i < w->n_derived; i++)
        free_derived(d, w->derived[i]);
    rx_free(w->derived);
    rx_vk_pool_destroy(d, &w->derived_pool);
    rx_vk_pool_destroy(d, &w->pool);
    rx_mutex_finish(&w->lock);
    rx_free(w->items);
    rx_free(w);
}

/* ---- Setting -------------------------------------------------------------------------------- */

/* Waits for all work of the device: a weight that runs may be using is about to change. */
static rlx_status wait_device(rx_device *d, rlx_error *err)
{
    rx_mutex_lock(&d->queue.lock);
    rx_mutex_lock(&d->transfer_queue.lock);
    VkResult r = atomic_load(&d->lost) ? VK_ERROR_DEVICE_LOST : d->vk.DeviceWaitIdle(d->handle);
    rx_mutex_unlock(&d->transfer_queue.lock);
    rx_mutex_unlock(&d->queue.lock);
    return r == VK_SUCCESS ? RLX_OK : rx_vk_fail(d, r, "waiting for runs", err);
}

rlx_status rx_vk_weights_set(rx_weights *w, size_t param, const void *data, size_t bytes,
                             rlx_ownership own, rlx_error *err)
{
    (void)own; /* the device has a copy either way */
    rx_vk_weight *item = &w->items[param];
    rx_mutex_lock(&w->lock);
    rlx_status st = item->version ? wait_device(w->device, err) : RLX_OK;
    if (st == RLX_OK)
        st = rx_vk_upload(w->device, &item->place, 0, data, bytes, err);
    if (st == RLX_OK)
        item->version++;
    rx_mutex_unlock(&w->lock);
    return st;
}

/* ---- Packed forms --------------------------------------------------------------------------- */

/* The dispatch that packs: its bindings are the weight and the packed form. */
static rlx_status resolve_pack(rx_weights *w, rx_vk_derived *x, const rx_gpu_derived *want,
                               rlx_error *err)
{
    const rx_gpu_dispatch *from = &want->pack;
    rx_vk_dispatch *to = &x->pack;
    RLX_TRY(rx_vk_pipelines_get(w->device, from, 1, to, err));
    to->n_bind = from->n_bind;
    to->writes = from->writes;
    to->n_push = from->n_push;
    memcpy(to->push, from->push, sizeof to->push);
    memcpy(to->groups, from->groups, sizeof to->groups);
    for (uint32_t i = 0; i < from->n_bind; i++) {
        to->bind[i] = from->bind[i] >= RX_REF_DERIVED && from->bind[i] < RX_REF_FLAGS
                          ? x->place : w->items[x->item].place;
        to->begin[i] = to->bind[i].offset;
        to->end[i] = to->bind[i].offset + to->bind[i].bytes;
    }
    return rx_vk_sets_create(w->device, to, 1, &x->pool, err);
}

static uint64_t next_block_bytes(const rx_vk_pool *pool)
{
    uint64_t sum = MIN_BLOCK;
    for (size_t i = 0; i < pool->n; i++)
        sum += pool->blocks[i]->bytes;
    return sum < MAX_BLOCK ? sum : MAX_BLOCK;
}

rlx_status rx_vk_weights_derive(rx_weights *w, uint32_t item, const rx_view *view,
                                const rx_gpu_derived *want, rx_vk_derived **out, rlx_error *err)
{
    uint64_t key = rx_gpu_derived_key(view, want);
    for (size_t i = 0; i < w->n_derived; i++) {
        *out = w->derived[i];
        if ((*out)->item == item && (*out)->key == key)
            return RLX_OK;
    }
    if (!rx_grow(&w->derived, &w->cap_derived, w->n_derived + 1, sizeof *w->derived))
        return rx_fail_memory(err, "packed weights", sizeof *w->derived);
    rx_vk_derived *x = rx_alloc_zero(sizeof *x);
    if (!x)
        return rx_fail_memory(err, "packed weights", sizeof *x);
    x->item = item;
    x->key = key;
    rlx_status st = rx_vk_pool_add(w->device, &w->derived_pool, want->bytes,
                                   next_block_bytes(&w->derived_pool), "a packed weight", &x->place,
                                   err);
    if (st == RLX_OK)
        st = resolve_pack(w, x, want, err);
    if (st != RLX_OK) {
        free_derived(w->device, x);
        return st;
    }
    w->derived[w->n_derived++] = x;
    *out = x;
    return RLX_OK;
}
