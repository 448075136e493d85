/* SPDX-License-Identifier: MIT */
/* Packed forms of weights. A form belongs to a source (a param or constant), a view of it and a
 * kind; few exist per source, so they are a list. Forms are allocated from slabs, with large pages
 * where possible. */
#include "cpu/pack_cache.h"

#include <string.h>

#define MIN_SLAB ((size_t)64 << 10)
#define MAX_SLAB ((size_t)32 << 20) /* larger forms have a slab of their own */

/* Memory of forms, freed as a whole. Pages past `used` were never touched. */
struct rx_pack_slab {
    rx_pack_slab *next;
    char *data;
    size_t bytes, used;
};

struct rx_packed {
    rx_packed *next;
    rx_view view;
    uint32_t kind;
    uint64_t version; /* of the weight that was packed */
    void *data;
};

bool rx_pack_cache_init(rx_pack_cache *p, size_t n_sources)
{
    *p = (rx_pack_cache){.n_lists = n_sources};
    p->lists = rx_alloc_array_zero(n_sources, sizeof *p->lists);
    if (!p->lists)
        return false;
    if (rx_mutex_init(&p->lock))
        return true;
    rx_free(p->lists);
    return false;
}

void rx_pack_cache_finish(rx_pack_cache *p)
{
    for (size_t i = 0; i < p->n_lists; i++)
        for (rx_packed *f = p->lists[i], *next; f; f = next) {
            next = f->next;
            rx_free(f);
        }
    for (rx_pack_slab *b = p->slabs, *next; b; b = next) {
        next = b->next;
        rx_free_aligned(b->data);
        rx_free(b);
    }
    rx_free(p->lists);
    rx_mutex_finish(&p->lock);
}

static bool same_view(const rx_view *x, const rx_view *y)
{
    const size_t bytes = (size_t)x->rank * sizeof *x->dim;
    return x->rank == y->rank && x->dtype == y->dtype && !memcmp(x->dim, y->dim, bytes) &&
           !memcmp(x->stride, y->stride, bytes);
}

/* The form of this view and kind, perhaps of an older version of the weight. Its address may have
 * changed too, but only together with the version. */
static rx_packed *find_form(rx_packed *list, const rx_view *view, uint32_t kind, uint64_t version)
{
    for (rx_packed *f = list; f; f = f->next)
        if (f->kind == kind && same_view(&f->view, view) &&
            (f->version != version || f->view.data == view->data))
            return f;
    return NULL;
}

/* Slabs double the total, so that a small model does not allocate much. */
static rx_pack_slab *add_slab(rx_pack_cache *p, size_t need)
{
    size_t bytes = p->bytes < MIN_SLAB ? MIN_SLAB : p->bytes < MAX_SLAB ? p->bytes : MAX_SLAB;
    if (bytes < need)
        bytes = need;
    rx_pack_slab *b = rx_alloc_zero(sizeof *b);
    if (!b)
        return NULL;
    b->data = rx_alloc_aligned(bytes);
    if (!b->data) {
        rx_free(b);
        return NULL;
    }
    rx_ask_large_pages(b->data, bytes);
    b->bytes = bytes;
    b->next = p->slabs;
    p->slabs = b;
    p->bytes += bytes;
    return b;
}

static void *alloc_form(rx_pack_cache *p, uint64_t need)
{
    if (need > PTRDIFF_MAX)
        return NULL;
    const size_t bytes = ((size_t)need + 63) & ~(size_t)63;
    rx_pack_slab *b = p->slabs;
    if (!b || b->bytes - b->used < bytes)
        b = add_slab(p, bytes);
    if (!b)
        return NULL;
    b->used += bytes;
    return b->data + b->used - bytes;
}

static rx_packed *add_form(rx_pack_cache *p, rx_packed **list, const rx_view *view, uint32_t kind,
                           size_t bytes)
{
    rx_packed *f = rx_alloc_zero(sizeof *f);
    if (!f)
        return NULL;
    f->data = alloc_form(p, bytes);
    if (!f->data) {
        rx_free(f);
        return NULL;
    }
    f->view = *view;
    f->kind = kind;
    f->next = *list;
    *list = f;
    return f;
}

bool rx_call_is_weight(const rx_call *c, size_t operand)
{
    return c->sources && c->sources[operand].cache;
}

const void *rx_call_packed(const rx_call *c, size_t operand, uint32_t kind, uint64_t bytes,
                           rx_pack_fn *fill, void *user)
{
    if (!rx_call_is_weight(c, operand) || !bytes)
        return NULL;
    const rx_pack_source *source = &c->sources[operand];
    rx_pack_cache *cache = source->cache;
    const uint64_t version = *source->version; /* no weight changes under a run */
    const rx_view *view = &c->in[operand];
    rx_mutex_lock(&cache->lock);
    rx_packed **list = &cache->lists[source->list];
    rx_packed *f = find_form(*list, view, kind, version);
    bool fresh = f && f->version == version;
    if (!f)
        f = add_form(cache, list, view, kind, bytes);
    if (f && !fresh) {
        fill(user, f->data);
        f->view.data = view->data;
        f->version = version;
    }
    rx_mutex_unlock(&cache->lock);
    return f ? f->data : NULL;
}
