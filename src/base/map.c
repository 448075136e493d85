/* SPDX-License-Identifier: MIT */
/* A hash map from strings to numbers: open addressing, at most half full. */
#include "base/map.h"

#include <string.h>

#include "base/mem.h"

void rx_map_finish(rx_map *m)
{
    rx_free(m->slots);
    *m = (rx_map){0};
}

/* The slot of the key, or the empty one where it would be inserted. */
static rx_map_slot *probe(const rx_map *m, const char *key, size_t length)
{
    size_t i = (size_t)rx_hash_keyed(0, key, length) & (m->cap - 1);
    while (m->slots[i].key) {
        rx_map_slot *s = &m->slots[i];
        if (s->length == length && !memcmp(s->key, key, length))
            return s;
        i = (i + 1) & (m->cap - 1);
    }
    return &m->slots[i];
}

static bool rehash(rx_map *m)
{
    rx_map bigger = {.n = m->n, .cap = m->cap ? m->cap * 2 : 16};
    bigger.slots = rx_alloc_array_zero(bigger.cap, sizeof *bigger.slots);
    if (!bigger.slots)
        return false;
    for (size_t i = 0; i < m->cap; i++)
        if (m->slots[i].key)
            *probe(&bigger, m->slots[i].key, m->slots[i].length) = m->slots[i];
    rx_free(m->slots);
    *m = bigger;
    return true;
}

bool rx_map_add(rx_map *m, const char *key, size_t length, uint32_t value)
{
    if (2 * (m->n + 1) > m->cap && !rehash(m))
        return false;
    *probe(m, key, length) = (rx_map_slot){key, (uint32_t)length, value};
    m->n++;
    return true;
}

rx_map_slot *rx_map_find(const rx_map *m, const char *key, size_t length)
{
    if (!m->cap)
        return NULL;
    rx_map_slot *s = probe(m, key, length);
    return s->key ? s : NULL;
}
