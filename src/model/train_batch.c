/* SPDX-License-Identifier: MIT */
/* Batches of examples, which are shuffled anew each epoch; within stretches of that order they are
 * sorted by length, so that rows of a batch need little padding. */
#include <string.h>

#include "base/philox.h"
#include "model/train.h"

#define STRETCH 1024  /* examples that are sorted by length; at least a batch */
#define WIDTH_STEP 16 /* widths are multiples of this, so that they recur */

static size_t count(const rx_examples *e)
{
    return e->n / e->texts;
}

/* The longest text of an example. */
static size_t length_of(const rx_examples *e, size_t i)
{
    size_t most = 0;
    for (size_t k = 0; k < e->texts; k++)
        most = e->list[i * e->texts + k].n > most ? e->list[i * e->texts + k].n : most;
    return most;
}

rlx_status rx_batch_init(rx_batch *b, size_t batch, size_t texts, size_t most, rlx_error *err)
{
    const uint64_t rows = (uint64_t)batch * texts;
    uint64_t n;
    *b = (rx_batch){.batch = batch, .texts = texts, .most = most};
    if (!rx_mul_size(rows, most, &n) || n > INT32_MAX)
        return rx_fail(err, RLX_INVALID, "a batch of %zu examples of up to %zu tokens is too large",
                       batch, most);
    b->tokens = rx_alloc_array_zero(n, sizeof *b->tokens);
    b->labels = rx_alloc_array_zero(n, sizeof *b->labels);
    b->positions = rx_alloc_array_zero(n, sizeof *b->positions);
    b->types = rx_alloc_array_zero(n, sizeof *b->types);
    b->lengths = rx_alloc_array_zero(rows, sizeof *b->lengths);
    if (b->tokens && b->labels && b->positions && b->types && b->lengths)
        return RLX_OK;
    return rx_fail_memory(err, "a batch", n * sizeof *b->tokens);
}

void rx_batch_finish(rx_batch *b)
{
    rx_free(b->tokens);
    rx_free(b->labels);
    rx_free(b->positions);
    rx_free(b->types);
    rx_free(b->lengths);
    *b = (rx_batch){0};
}

/* ---- The order ------------------------------------------------------------------------------- */

rlx_status rx_order_init(rx_order *o, const rx_examples *e, uint64_t seed, rlx_error *err)
{
    *o = (rx_order){.seed = seed, .n = count(e)};
    o->list = rx_alloc_array(o->n, sizeof *o->list);
    if (!o->list)
        return rx_fail_memory(err, "the order of the examples", o->n * sizeof *o->list);
    for (size_t i = 0; i < o->n; i++)
        o->list[i] = i;
    o->at = o->n;
    return RLX_OK;
}

static void swap(size_t *list, size_t i, size_t k, size_t n)
{
    for (size_t j = 0; j < n; j++) {
        const size_t old = list[i + j];
        list[i + j] = list[k + j];
        list[k + j] = old;
    }
}

/* Shuffles n groups of `size` neighbours. */
static void shuffle(rx_order *o, size_t *list, size_t n, size_t size)
{
    for (size_t i = n; i > 1; i--)
        swap(list, (i - 1) * size, rx_philox_word(o->seed, o->drawn++) % i * size, size);
}

/* By insertion: stretches are short. */
static void sort_by_length(const rx_examples *e, size_t *list, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        const size_t it = list[i], length = length_of(e, it);
        size_t k = i;
        for (; k && length_of(e, list[k - 1]) < length; k--)
            list[k] = list[k - 1];
        list[k] = it;
    }
}

static void draw_order(rx_order *o, const rx_examples *e, size_t batch)
{
    shuffle(o, o->list, o->n, 1);
    if (o->n <= 2 * batch)
        return;
    const size_t stretch = batch < STRETCH ? STRETCH / batch * batch : batch;
    for (size_t at = 0; at < o->n; at += stretch) {
        const size_t n = o->n - at < stretch ? o->n - at : stretch;
        sort_by_length(e, o->list + at, n);
        shuffle(o, o->list + at, n / batch, batch);
    }
}

/* ---- Filling --------------------------------------------------------------------------------- */

static size_t round_width(const rx_batch *b, size_t n)
{
    n = (n + WIDTH_STEP - 1) / WIDTH_STEP * WIDTH_STEP;
    return n < b->most && !b->fixed ? n : b->most;
}

/* A row: tokens, labels (-1: not in the loss), then padding; e NULL: only padding. */
static void fill_text(rx_batch *b, size_t row, const rx_example *e)
{
    int32_t *tokens = b->tokens + row * b->width, *labels = b->labels + row * b->width;
    int32_t *positions = b->positions + row * b->width;
    const size_t n = e ? e->n - 1 : 0;
    for (size_t i = 0; i < b->width; i++) {
        tokens[i] = i < n ? e->tokens[i] : 0;
        labels[i] = i < n && e->counts[i + 1] ? e->tokens[i + 1] : -1;
        positions[i] = (int32_t)i;
        b->counted += labels[i] >= 0;
    }
    b->seen += (int64_t)n;
    b->padding += (int64_t)(b->width - n);
}

static void fill_pair_row(rx_batch *b, size_t row, const rx_example *e)
{
    int32_t *tokens = b->tokens + row * b->width;
    for (size_t i = 0; i < b->width; i++)
        tokens[i] = i < e->n ? e->tokens[i] : 0;
    b->lengths[row] = (int32_t)e->n;
    b->seen += (int64_t)e->n;
    b->padding += (int64_t)(b->width - e->n);
}

static void fill(rx_batch *b, const rx_examples *e, const size_t *list, size_t n)
{
    size_t width = 1;
    for (size_t i = 0; i < n; i++)
        width = length_of(e, list[i]) > width ? length_of(e, list[i]) : width;
    b->seen = b->padding = b->counted = 0;
    b->width = round_width(b, width - (b->texts == 1 && width > 1));
    for (size_t i = 0; i < b->batch; i++) {
        if (b->texts == 1) {
            fill_text(b, i, i < n ? &e->list[list[i]] : NULL);
            continue;
        }
        for (size_t k = 0; k < b->texts; k++)
            fill_pair_row(b, k * b->batch + i, &e->list[list[i % n] * b->texts + k]);
        b->labels[i] = i < n ? (int32_t)i : -1;
        b->counted += i < n;
    }
}

void rx_batch_next(rx_batch *b, const rx_examples *e, rx_order *o)
{
    size_t list[RX_MOST_BATCH];
    for (size_t i = 0; i < b->batch; i++) {
        if (o->at == o->n) {
            o->at = 0;
            draw_order(o, e, b->batch);
        }
        list[i] = o->list[o->at++];
    }
    fill(b, e, list, b->batch);
}

void rx_batch_at(rx_batch *b, const rx_examples *e, size_t first)
{
    size_t list[RX_MOST_BATCH], n = 0;
    for (; n < b->batch && first + n < count(e); n++)
        list[n] = first + n;
    fill(b, e, list, n);
}
