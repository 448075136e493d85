/* SPDX-License-Identifier: MIT */
/* Two kinds of hashes. rx_hash is stable between processes: it names cache files and detects
 * corruption. rx_hash_keyed is for hash tables: it depends on a random key of the process, so that
 * no file can force collisions. Nothing stored or shown depends on it. */
#ifndef RX_BASE_HASH_H
#define RX_BASE_HASH_H

#include "rlx/base.h"

/* FNV-1a with a final mix, over bytes; `seed` chains calls. */
uint64_t rx_hash(uint64_t seed, const void *data, size_t n);

/* SipHash-1-3 over the seed and the bytes; `seed` chains calls. */
uint64_t rx_hash_keyed(uint64_t seed, const void *data, size_t n);
/* Of one number, faster: for tables of pairs of ids. */
uint64_t rx_hash_number(uint64_t x);
/* Of n ids. */
uint64_t rx_hash_ids(const uint32_t *ids, size_t n);

/* For tests: the key from now on. No table may be alive. */
void rx_hash_set_key(uint64_t k0, uint64_t k1);

#endif
