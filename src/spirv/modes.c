/* SPDX-License-Identifier: MIT */
/* Inserts instructions of an execution mode into the right sections of a finished module. The order
 * of sections is that of the specification: capabilities, extensions, imports, memory model, entry
 * points, execution modes, all else. */
#include "spirv/modes.h"

#include <string.h>

#include "spirv/module.h"

enum { HEADER_WORDS = 5, OP_EXTENSION = 10, CAPABILITY_DENORM_PRESERVE = 4464,
       MODE_DENORM_PRESERVE = 4459 };

/* Where the capabilities and the entry points end, and which function is the entry point. */
typedef struct places {
    size_t capabilities, entry_points;
    rx_id entry;
} places;

static bool find_places(const uint32_t *w, size_t n, places *p)
{
    *p = (places){0};
    size_t at = HEADER_WORDS;
    while (at < n) {
        const uint32_t op = w[at] & 0xffff, length = w[at] >> 16;
        if (!length || length > n - at || op == SPV_FUNCTION)
            break;
        if (op == SPV_ENTRY_POINT && (p->entry || length < 4))
            return false;
        if (op == SPV_ENTRY_POINT)
            p->entry = w[at + 2];
        at += length;
        if (op == SPV_CAPABILITY)
            p->capabilities = at;
        if (op == SPV_ENTRY_POINT)
            p->entry_points = at;
    }
    return p->capabilities && p->entry_points > p->capabilities;
}

uint32_t *rx_spv_keep_subnormals(const uint32_t *words, size_t n, size_t *n_out)
{
    places p;
    *n_out = 0;
    if (!find_places(words, n, &p))
        return NULL;
    const uint32_t head[] = {
        2 << 16 | SPV_CAPABILITY, CAPABILITY_DENORM_PRESERVE,
        /* "SPV_KHR_float_controls" */
        7 << 16 | OP_EXTENSION, 0x5f565053, 0x5f52484b, 0x616f6c66, 0x6f635f74, 0x6f72746e,
        0x0000736c};
    const uint32_t mode[] = {4 << 16 | SPV_EXECUTION_MODE, p.entry, MODE_DENORM_PRESERVE, 32};
    const size_t total = n + (sizeof head + sizeof mode) / sizeof *words;
    uint32_t *out = rx_alloc_array(total, sizeof *out), *to = out;
    if (!out)
        return NULL;
#define PUT(from, count) (memcpy(to, from, (count) * sizeof *to), to += (count))
    PUT(words, p.capabilities);
    PUT(head, sizeof head / sizeof *head);
    PUT(words + p.capabilities, p.entry_points - p.capabilities);
    PUT(mode, sizeof mode / sizeof *mode);
    PUT(words + p.entry_points, n - p.entry_points);
#undef PUT
    *n_out = total;
    return out;
}
