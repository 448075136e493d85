/* SPDX-License-Identifier: MIT */
/* Pages of the K/V cache: which page of the pool holds which tokens of which sequence. Nothing here
 * touches the device; page indices go into its page tables.
 *
 * A page is free, held by one or more tables, or cached: held by none, but with known content.
 * Known content is a whole page of tokens after a known page (or at the start), found by a hash
 * chain and compared token by token. Cached pages are evicted least recently used first. A table
 * that holds a page holds those before it too, and releases them from its end, so that a page is
 * always evicted before its predecessor. One thread at a time. */
#ifndef RX_ENGINE_PAGES_H
#define RX_ENGINE_PAGES_H

#include "rlx/base.h"

typedef struct rx_pages rx_pages;

/* The pages of a sequence in order; zero-initialised it is empty. */
typedef struct rx_page_table {
    int32_t *page;
    size_t n, cap;
    size_t n_known; /* the first of them, whose content is known */
    uint64_t salt;  /* known content is that of tables with this one: set while it is empty */
} rx_page_table;

/* n pages of `size` tokens each. NULL: out of memory. */
rx_pages *rx_pages_create(size_t n, size_t size);
void rx_pages_destroy(rx_pages *p);

/* Fills an empty table with known pages that hold a prefix of these n tokens, never all of them:
 * the last token is computed, for its logits. Returns the number of tokens found, a multiple of the
 * page size; 0 also when out of memory. */
size_t rx_pages_find(rx_pages *p, const int32_t *tokens, size_t n, rx_page_table *t);

/* A page whose content has to be copied on the device before it is written; from < 0: none. */
typedef struct rx_page_copy {
    int32_t from, to;
} rx_page_copy;
/* Makes tokens `begin` to `end` - 1 of a sequence writable: takes the pages that are missing, and
 * replaces the page of `begin` where another table holds it too. False when there are not enough
 * pages (or no host memory), with the table as it was. */
bool rx_pages_extend(rx_pages *p, rx_page_table *t, size_t begin, size_t end, rx_page_copy *copy);
/* Pages that rx_pages_extend would take for this. */
size_t rx_pages_needed(const rx_pages *p, const rx_page_table *t, size_t begin, size_t end);

/* The first n tokens are in the cache: registers the content of whole pages. A page with the same
 * content as a known one is replaced by it. Called when no run uses the table. */
void rx_pages_learn(rx_pages *p, rx_page_table *t, const int32_t *tokens, size_t n);

/* A second table with the same pages, all of which are written; false when out of memory. `to` is
 * empty. */
bool rx_pages_fork(rx_pages *p, const rx_page_table *from, rx_page_table *to);
/* Releases all pages of a table and frees its memory: it is empty again, with its salt. */
void rx_pages_release(rx_pages *p, rx_page_table *t);
/* Drops the content of all pages that no table holds. */
void rx_pages_forget(rx_pages *p);

typedef struct rx_pages_info {
    size_t n, size, n_free, n_kept, n_held;
} rx_pages_info;
void rx_pages_get_info(const rx_pages *p, rx_pages_info *out);
/* Pages that can be taken now. */
size_t rx_pages_available(const rx_pages *p);

#endif
