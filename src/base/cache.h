/* SPDX-License-Identifier: MIT */
/* The cache folder: files that may be lost at any time and are replaced as a whole. */
#ifndef RX_BASE_CACHE_H
#define RX_BASE_CACHE_H

#include "base/file.h"

/* Opens a file of the folder (RLX_CACHE_DIR, else rlx in the user's cache folder). One that is a
 * link or belongs to another user than this one and root is not opened. `path` (may be NULL) gets
 * its path, as far as it fits. */
bool rx_cache_open(const char *name, rx_file *f, char *path, size_t cap);
/* Writes a file so that readers see the old one or the new one, never a part; makes the folder, for
 * this user only. */
rlx_status rx_cache_write(const char *name, const rx_bytes *pieces, size_t n, rlx_error *err);

#endif
