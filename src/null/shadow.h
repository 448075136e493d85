/* SPDX-License-Identifier: MIT */
/* Shadow memory: the owner of each byte of an arena, as disjoint sorted intervals. */
#ifndef RX_NULL_SHADOW_H
#define RX_NULL_SHADOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct rx_interval {
    uint64_t begin, end;
    uint32_t owner;
} rx_interval;

typedef struct rx_shadow {
    rx_interval *items; /* room for twice the number of writes, plus one */
    size_t n;
} rx_shadow;

/* The first interval that ends after `offset`. */
size_t rx_shadow_find(const rx_shadow *s, uint64_t offset);
/* Gives [begin, end) to an owner; whoever had it before loses it. */
void rx_shadow_write(rx_shadow *s, uint64_t begin, uint64_t end, uint32_t owner);
/* The first byte of [begin, end) that does not belong to the owner; `end` when all do. */
uint64_t rx_shadow_missing(const rx_shadow *s, uint64_t begin, uint64_t end, uint32_t owner);

#endif
