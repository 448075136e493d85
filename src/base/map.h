/* SPDX-License-Identifier: MIT */
/* A hash map from strings to numbers. Keys are not copied: they must outlive the map. */
#ifndef RX_BASE_MAP_H
#define RX_BASE_MAP_H

#include "base/hash.h"

typedef struct rx_map_slot {
    const char *key;
    uint32_t length, value;
} rx_map_slot;

typedef struct rx_map {
    rx_map_slot *slots;
    size_t n, cap; /* cap is 0 or a power of two */
} rx_map;

void rx_map_finish(rx_map *m);
/* Adds a key that is not there yet; false when out of memory. */
bool rx_map_add(rx_map *m, const char *key, size_t length, uint32_t value);
/* The slot of a key, or NULL. Valid until the next add. */
rx_map_slot *rx_map_find(const rx_map *m, const char *key, size_t length);

#endif
