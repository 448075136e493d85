/* SPDX-License-Identifier: MIT */
/* Scratch memory and flags of kernel calls. */
#include "cpu/scratch.h"

#include <stdatomic.h>

#define ALIGN 64

static void free_extra(rx_scratch *s)
{
    for (size_t i = 0; i < s->n_extra; i++)
        rx_free_aligned(s->extra[i]);
    s->n_extra = 0;
}

void rx_scratch_finish(rx_scratch *s)
{
    for (int i = 0; i < s->n_threads; i++)
        rx_scratch_finish(&s->threads[i]);
    rx_free(s->threads);
    free_extra(s);
    rx_free(s->extra);
    rx_free_aligned(s->block);
    *s = (rx_scratch){0};
}

void rx_scratch_reset(rx_scratch *s)
{
    if (s->n_extra) {
        free_extra(s);
        rx_free_aligned(s->block);
        s->block = rx_alloc_aligned(s->want);
        if (s->block)
            rx_ask_large_pages(s->block, s->want);
        s->cap = s->block ? s->want : 0; /* without it the next call allocates extra blocks again */
    }
    s->used = s->want = 0;
}

rx_scratch *rx_scratch_threads(rx_scratch *s, int n)
{
    if (n <= s->n_threads)
        return s->threads;
    rx_scratch *more = rx_alloc_array_zero((uint64_t)n, sizeof *more);
    if (!more)
        return NULL;
    for (int i = 0; i < s->n_threads; i++)
        more[i] = s->threads[i];
    rx_free(s->threads);
    s->threads = more;
    s->n_threads = n;
    return more;
}

void *rx_call_scratch(const rx_call *c, uint64_t want)
{
    rx_scratch *s = c->scratch;
    if (want > SIZE_MAX / 4)
        return NULL;
    size_t bytes = ((size_t)want + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    if (bytes == 0)
        bytes = ALIGN;
    s->want += bytes;
    if (bytes <= s->cap - s->used) {
        void *p = s->block + s->used;
        s->used += bytes;
        return p;
    }
    if (!rx_grow(&s->extra, &s->cap_extra, s->n_extra + 1, sizeof *s->extra))
        return NULL;
    void *p = rx_alloc_aligned(bytes);
    if (p)
        s->extra[s->n_extra++] = p;
    return p;
}

void rx_form_finish(rx_form *f)
{
    rx_free_aligned(f->data);
    *f = (rx_form){0};
}

void *rx_call_form(const rx_call *c, uint64_t kind, uint64_t bytes, bool *made)
{
    rx_form *f = c->form;
    *made = false;
    if (!f || !c->x)
        return rx_call_scratch(c, bytes);
    if (f->x == c->x && f->kind == kind) {
        *made = true;
        return f->data;
    }
    f->x = 0;
    if (bytes > f->cap) {
        rx_form_finish(f);
        f->data = rx_alloc_aligned(bytes);
        if (!f->data)
            return NULL;
        f->cap = bytes;
    }
    f->x = c->x;
    f->kind = kind;
    return f->data;
}

void *rx_call_array(const rx_call *c, uint64_t n, uint64_t item)
{
    return rx_call_scratch(c, rx_array_bytes(n, item));
}

void rx_call_flag(const rx_call *c, uint32_t bits)
{
    if (c->flags)
        atomic_fetch_or_explicit((_Atomic uint32_t *)c->flags, bits, memory_order_relaxed);
}
