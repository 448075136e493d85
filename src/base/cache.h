/* SPDX-License-Identifier: MIT */
/* The cache folder: files that may be lost at any time and are replaced as a whole. */
#ifndef RX_BASE_CACHE_H
#define RX_BASE_CACHE_H

#include "base/file.h"

/* The path of a file in the folder (RLX_CACHE_DIR, else rlx in the user's cache folder). False when
 * there is no such folder to be had or the path does not fit. */
bool rx_cache_path(const char *name, char *out, size_t cap);
/* Writes a file so that readers see the old one or the new one, never a part; makes the folder. */
rlx_status rx_cache_write(const char *name, const rx_bytes *pieces, size_t n, rlx_error *err);

#endif
