/* SPDX-License-Identifier: MIT */
/* Responses by id: a list from the oldest to the newest. */
#include "serve/history.h"

#include <string.h>

#include "base/thread.h"

#define SAID "assistant"

/* One allocation of `bytes`, which all pointers but `next` lead into. */
typedef struct kept {
    struct kept *next;
    size_t bytes;
    char *id, *body;
    size_t n_body;
    rlx_message *messages;
    size_t n_messages;
} kept;

struct rx_history {
    rx_mutex lock;
    kept *first, *last;
    size_t n, bytes;
};

rx_history *rx_history_create(void)
{
    rx_history *h = rx_alloc_zero(sizeof *h);
    if (h && rx_mutex_init(&h->lock))
        return h;
    rx_free(h);
    return NULL;
}

static void drop_first(rx_history *h)
{
    kept *k = h->first;
    h->first = k->next;
    if (!h->first)
        h->last = NULL;
    h->n--;
    h->bytes -= k->bytes;
    rx_free(k);
}

void rx_history_destroy(rx_history *h)
{
    if (!h)
        return;
    while (h->first)
        drop_first(h);
    rx_mutex_finish(&h->lock);
    rx_free(h);
}

/* Copies messages into an arena; false: no memory. */
static bool copy_messages(rx_arena *a, const rlx_message *from, size_t n, rlx_message *to)
{
    for (size_t i = 0; i < n; i++) {
        to[i] = (rlx_message){rx_arena_strdup(a, from[i].role),
                              rx_arena_strdup(a, from[i].content)};
        if (!to[i].role || !to[i].content)
            return false;
    }
    return true;
}

static size_t bytes_of(const rx_history_entry *e)
{
    size_t n = sizeof(kept) + (e->n_messages + 1) * sizeof(rlx_message) + strlen(e->id) + 1 +
               e->n_body + 1 + sizeof SAID + strlen(e->said) + 1;
    for (size_t i = 0; i < e->n_messages; i++)
        n += strlen(e->messages[i].role) + 1 + strlen(e->messages[i].content) + 1;
    return n;
}

/* Copies n characters to *at, which moves past them. */
static char *put(char **at, const char *text, size_t n)
{
    char *to = *at;
    memcpy(to, text, n);
    to[n] = 0;
    *at = to + n + 1;
    return to;
}

static void fill(kept *k, const rx_history_entry *e)
{
    char *at;
    k->messages = (rlx_message *)(void *)(k + 1);
    k->n_messages = e->n_messages + 1;
    at = (char *)(k->messages + k->n_messages);
    k->id = put(&at, e->id, strlen(e->id));
    k->body = put(&at, e->body, e->n_body);
    k->n_body = e->n_body;
    for (size_t i = 0; i < k->n_messages; i++) {
        const rlx_message m = i < e->n_messages ? e->messages[i] : (rlx_message){SAID, e->said};
        k->messages[i].role = put(&at, m.role, strlen(m.role));
        k->messages[i].content = put(&at, m.content, strlen(m.content));
    }
}

void rx_history_keep(rx_history *h, const rx_history_entry *e)
{
    const size_t bytes = bytes_of(e);
    kept *k = bytes > RX_HISTORY_BYTES ? NULL : rx_alloc_zero(bytes);
    if (!k)
        return;
    k->bytes = bytes;
    fill(k, e);
    rx_mutex_lock(&h->lock);
    while (h->first && (h->n == RX_HISTORY_ENTRIES || h->bytes + bytes > RX_HISTORY_BYTES))
        drop_first(h);
    *(h->last ? &h->last->next : &h->first) = k;
    h->last = k;
    h->n++;
    h->bytes += bytes;
    rx_mutex_unlock(&h->lock);
}

static kept *find(const rx_history *h, const char *id)
{
    kept *k = h->first;
    while (k && strcmp(k->id, id))
        k = k->next;
    return k;
}

bool rx_history_find(rx_history *h, const char *id, rx_arena *a, rlx_message **messages, size_t *n)
{
    rx_mutex_lock(&h->lock);
    const kept *k = find(h, id);
    *n = k ? k->n_messages : 0;
    *messages = k ? rx_arena_array(a, *n, sizeof **messages) : NULL;
    const bool ok = *messages && copy_messages(a, k->messages, *n, *messages);
    rx_mutex_unlock(&h->lock);
    return ok;
}

bool rx_history_body(rx_history *h, const char *id, rx_str *out)
{
    rx_mutex_lock(&h->lock);
    const kept *k = find(h, id);
    if (k)
        rx_str_add(out, k->body, k->n_body);
    rx_mutex_unlock(&h->lock);
    return k != NULL;
}

bool rx_history_remove(rx_history *h, const char *id)
{
    rx_mutex_lock(&h->lock);
    kept *before = NULL, *k = h->first;
    for (; k && strcmp(k->id, id); k = k->next)
        before = k;
    const bool found = k != NULL;
    if (found) {
        *(before ? &before->next : &h->first) = k->next;
        if (h->last == k)
            h->last = before;
        h->n--;
        h->bytes -= k->bytes;
        rx_free(k);
    }
    rx_mutex_unlock(&h->lock);
    return found;
}
