/* SPDX-License-Identifier: MIT */
/* Responses that later ones may continue (previous_response_id): conversations by id, in memory
 * only. Beyond the limits the oldest are dropped. Thread-safe. */
#ifndef RX_SERVE_HISTORY_H
#define RX_SERVE_HISTORY_H

#include "base/mem.h"
#include "base/str.h"
#include "rlx/model.h"

#define RX_HISTORY_ENTRIES 1024
#define RX_HISTORY_BYTES ((size_t)32 << 20)

typedef struct rx_history rx_history;

typedef struct rx_history_entry {
    const char *id;
    const rlx_message *messages; /* of the request */
    size_t n_messages;
    const char *said;            /* what the assistant answered */
    const char *body;            /* the whole response */
    size_t n_body;
} rx_history_entry;

rx_history *rx_history_create(void); /* NULL: no memory */
void rx_history_destroy(rx_history *h);
/* Stores a copy; dropped when it does not fit or memory is exhausted. */
void rx_history_keep(rx_history *h, const rx_history_entry *e);
/* The conversation up to and including a response, in the arena; false: unknown id. */
bool rx_history_find(rx_history *h, const char *id, rx_arena *a, rlx_message **messages, size_t *n);
/* Appends the body of a response. */
bool rx_history_body(rx_history *h, const char *id, rx_str *out);
bool rx_history_remove(rx_history *h, const char *id);

#endif
