/* SPDX-License-Identifier: MIT */
/* The input history of `rlx chat`: a text file of this user (RLX_HISTORY, else rlx/chat_history in
 * the user's data folder), one entry a line, newlines and backslashes escaped. */
#ifndef RX_STORE_HISTORY_H
#define RX_STORE_HISTORY_H

#include "base/error.h"

/* Calls `fn` for each entry, oldest first. A missing file has none. */
typedef void rx_history_fn(void *user, const char *text);
rlx_status rx_history_read(rx_history_fn *fn, void *user, rlx_error *err);
/* Appends an entry and drops the oldest beyond `most`. */
rlx_status rx_history_append(const char *text, size_t most, rlx_error *err);

#endif
