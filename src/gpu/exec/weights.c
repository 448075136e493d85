/* SPDX-License-Identifier: MIT */
/* Weights and constants of a program on the device, shared by clones, and the packed forms of
 * weights that kernels request. */
#include "gpu/stages.h"

/* A new block of packed weights is as large as all existing ones together, within these bounds. */
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

/* The weight that an item is instead of its own; NULL: none. */
static rx_gpu_weight *find_shared(const rx_weights *w, const rx_gpu_shares *s, size_t item)
{
    if (item >= w->program->n_params)
        return NULL;
    if (s->from && s->from->params[item] != SIZE_MAX)
        return s->from->weights->items[s->from->params[item]];
    return s->buffers && s->buffers[item] ? &s->buffers[item]->weight : NULL;
}

/* From now on the lender locks what it shares. */
static void mark_lender(rx_weights *lender)
{
    rx_mutex_lock(&lender->lock);
    lender->n_shared++;
    rx_mutex_unlock(&lender->lock);
}

/* Those that are shared need no memory. */
static rlx_status place_items(rx_weights *w, const rx_gpu_shares *s, rlx_error *err)
{
    size_t n = w->n_items, n_own = 0;
    uint64_t *bytes = rx_alloc_array_zero(n + 1, sizeof *bytes);
    rx_gpu_place *places = rx_alloc_array(n + 1, sizeof *places);
    rlx_status st = bytes && places ? RLX_OK
                                    : rx_fail_memory(err, "the weights", n * sizeof *bytes);
    if (st == RLX_OK) {
        list_sizes(w->program, bytes);
        for (size_t i = 0; i < n; i++)
            if (!find_shared(w, s, i))
                bytes[n_own++] = bytes[i];
        st = rx_gpu_pool_create(w->memory, bytes, n_own, "the weights of the program", &w->pool,
                                places, err);
    }
    for (size_t i = 0, k = 0; i < n && st == RLX_OK; i++) {
        w->own[i].pool = &w->packed_pool;
        w->items[i] = find_shared(w, s, i);
        w->n_shared += w->items[i] != NULL;
        if (w->items[i])
            continue;
        w->items[i] = &w->own[i];
        w->own[i].place = places[k++];
    }
    rx_free(bytes);
    rx_free(places);
    return st;
}

static rlx_status upload_constants(rx_weights *w, rlx_error *err)
{
    const rx_program *p = w->program;
    const rx_gpu_memory *m = w->memory;
    for (size_t i = 0; i < p->n_constants; i++) {
        rx_gpu_weight *item = w->items[p->n_params + i];
        RLX_TRY(m->upload(m->device, &item->place, 0, p->constants[i], item->place.bytes, err));
        item->version = 1;
    }
    return RLX_OK;
}

rlx_status rx_gpu_weights_create(const rx_gpu_memory *m, rx_program *p, const rx_gpu_shares *s,
                                 rx_weights **out, rlx_error *err)
{
    *out = NULL;
    rx_weights *w = rx_alloc_zero(sizeof *w);
    if (!w)
        return rx_fail_memory(err, "the weights", sizeof *w);
    w->memory = m;
    w->program = p;
    w->n_items = p->n_params + p->n_constants;
    w->own = rx_alloc_array_zero(w->n_items + 1, sizeof *w->own);
    w->items = rx_alloc_array_zero(w->n_items + 1, sizeof *w->items);
    if (!w->own || !w->items || !rx_mutex_init(&w->lock)) {
        rx_fail_memory(err, "the weights", (w->n_items + 1) * sizeof *w->own);
        rx_free(w->own);
        rx_free(w->items);
        rx_free(w);
        return RLX_NO_MEMORY;
    }
    if (s->from)
        mark_lender(s->from->weights);
    rlx_status st = place_items(w, s, err);
    if (st == RLX_OK)
        st = upload_constants(w, err);
    if (st != RLX_OK) {
        rx_gpu_weights_destroy(w);
        return st;
    }
    *out = w;
    return RLX_OK;
}

void rx_gpu_packed_free(const rx_gpu_memory *m, rx_gpu_weight *w)
{
    for (rx_gpu_packed *x = w->packed, *next; x; x = next) {
        next = x->next;
        m->pack_destroy(m->device, x->pack);
        rx_free(x);
    }
    w->packed = NULL;
}

void rx_gpu_weights_destroy(rx_weights *w)
{
    if (!w)
        return;
    const rx_gpu_memory *m = w->memory;
    if (m->finish_uploads)
        m->finish_uploads(m->device, NULL);
    for (size_t i = 0; i < w->n_items; i++)
        rx_gpu_packed_free(m, &w->own[i]);
    rx_gpu_pool_destroy(m, &w->packed_pool);
    rx_gpu_pool_destroy(m, &w->pool);
    rx_mutex_finish(&w->lock);
    rx_free(w->items);
    rx_free(w->own);
    rx_free(w);
}

void rx_gpu_weights_lock(rx_weights *w)
{
    rx_mutex_lock(&w->lock);
    if (w->n_shared)
        rx_mutex_lock(w->memory->shared_lock);
}

void rx_gpu_weights_unlock(rx_weights *w)
{
    if (w->n_shared)
        rx_mutex_unlock(w->memory->shared_lock);
    rx_mutex_unlock(&w->lock);
}

/* ---- Setting -------------------------------------------------------------------------------- */

rlx_status rx_gpu_weights_set(rx_weights *w, size_t param, const void *data, size_t bytes,
                              rlx_ownership own, rlx_error *err)
{
    (void)own; /* the device has a copy either way */
    const rx_gpu_memory *m = w->memory;
    rx_gpu_weight *item = &w->own[param];
    rx_mutex_lock(&w->lock);
    /* Runs in flight may use the weight. */
    rlx_status st = item->version && m->wait ? m->wait(m->device, err) : RLX_OK;
    if (st == RLX_OK)
        st = m->upload(m->device, &item->place, 0, data, bytes, err);
    if (st == RLX_OK)
        item->version++;
    rx_mutex_unlock(&w->lock);
    return st;
}

static rlx_status use_locked(rx_weights *w, size_t param, rx_buffer *b, rlx_error *err)
{
    rx_gpu_weight *own = &w->own[param], *before = w->items[param];
    const uint64_t bytes = w->program->values[w->program->params[param].value].bytes;
    if (!b && !own->place.block)
        RLX_TRY(rx_gpu_pool_add(w->memory, &w->pool, bytes, bytes, "a weight of the program",
                                &own->place, err));
    w->items[param] = b ? &b->weight : own;
    w->n_shared += (size_t)(b != NULL) - (size_t)(before != own);
    w->n_moves++;
    return RLX_OK;
}

rlx_status rx_gpu_weights_use(rx_weights *w, size_t param, rx_buffer *b, rlx_error *err)
{
    rx_mutex_lock(&w->lock);
    rlx_status st = use_locked(w, param, b, err);
    rx_mutex_unlock(&w->lock);
    return st;
}

/* ---- Packed forms --------------------------------------------------------------------------- */

static uint64_t next_block_bytes(const rx_gpu_pool *pool)
{
    const uint64_t sum = MIN_BLOCK + pool->total;
    return sum < MAX_BLOCK ? sum : MAX_BLOCK;
}

static rlx_status make_packed(const rx_gpu_memory *m, rx_gpu_packed *x, const rx_gpu_derived *want,
                              rlx_error *err)
{
    rx_gpu_pool *pool = x->of->pool;
    RLX_TRY(rx_gpu_pool_add(m, pool, want->bytes, next_block_bytes(pool), "a packed weight",
                            &x->place, err));
    rx_gpu_placed from = {.dispatch = want->pack};
    for (uint32_t i = 0; i < want->pack.n_bind; i++) {
        const rx_gpu_ref ref = want->pack.bind[i];
        const bool packed = ref >= RX_REF_DERIVED && ref < RX_REF_FLAGS;
        from.bind[i] = packed ? x->place : x->of->place;
        from.begin[i] = from.bind[i].offset;
        from.end[i] = from.bind[i].offset + from.bind[i].bytes;
    }
    return m->pack_create(m->device, &from, &x->pack, err);
}

rlx_status rx_gpu_weights_pack(rx_weights *w, uint32_t item, const rx_view *view,
                               const rx_gpu_derived *want, rx_gpu_packed **out, rlx_error *err)
{
    uint64_t key = rx_gpu_derived_key(view, want);
    rx_gpu_weight *of = w->items[item];
    for (rx_gpu_packed *x = of->packed; x; x = x->next)
        if (x->key == key) {
            *out = x;
            return RLX_OK;
        }
    rx_gpu_packed *x = rx_alloc_zero(sizeof *x);
    if (!x)
        return rx_fail_memory(err, "packed weights", sizeof *x);
    x->of = of;
    x->key = key;
    rlx_status st = make_packed(w->memory, x, want, err);
    if (st != RLX_OK) {
        w->memory->pack_destroy(w->memory->device, x->pack);
        rx_free(x);
        return st;
    }
    x->next = of->packed;
    of->packed = x;
    *out = x;
    return RLX_OK;
}

rx_gpu_place rx_gpu_value_place(const rx_gpu_values *v, const rx_weights *w,
                                const rx_gpu_place *places, uint32_t value)
{
    const uint32_t root = v->roots[value];
    const rx_pvalue *p = &v->program->values[root];
    if (p->space == RX_SPACE_PARAM)
        return w->items[p->index]->place;
    if (p->space == RX_SPACE_CONSTANT)
        return w->items[v->program->n_params + p->index]->place;
    return places[root];
}
