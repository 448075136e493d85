/* SPDX-License-Identifier: MIT */
/* Shadow memory: the owner of each byte of an arena, as a sorted list of intervals. */
#include "null/shadow.h"

#include <string.h>

size_t rx_shadow_find(const rx_shadow *s, uint64_t offset)
{
    size_t lo = 0, hi = s->n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (s->items[mid].end > offset)
            hi = mid;
        else
            lo = mid + 1;
    }
    return lo;
}

/* Replaces items first .. last - 1 by `with`, n of them. */
static void splice(rx_shadow *s, size_t first, size_t last, const rx_interval *with, size_t n)
{
    memmove(s->items + first + n, s->items + last, (s->n - last) * sizeof *s->items);
    memcpy(s->items + first, with, n * sizeof *with);
    s->n = s->n - (last - first) + n;
}

void rx_shadow_write(rx_shadow *s, uint64_t begin, uint64_t end, uint32_t owner)
{
    if (begin >= end)
        return;
    size_t first = rx_shadow_find(s, begin), last = first, n = 0;
    while (last < s->n && s->items[last].begin < end)
        last++;
    rx_interval with[3];
    if (first < last && s->items[first].begin < begin)
        with[n++] = (rx_interval){s->items[first].begin, begin, s->items[first].owner};
    with[n++] = (rx_interval){begin, end, owner};
    if (first < last && s->items[last - 1].end > end)
        with[n++] = (rx_interval){end, s->items[last - 1].end, s->items[last - 1].owner};
    splice(s, first, last, with, n);
}

uint64_t rx_shadow_missing(const rx_shadow *s, uint64_t begin, uint64_t end, uint32_t owner)
{
    for (size_t i = rx_shadow_find(s, begin); begin < end; i++) {
        if (i == s->n || s->items[i].begin > begin || s->items[i].owner != owner)
            return begin;
        begin = s->items[i].end;
    }
    return end;
}
