/* SPDX-License-Identifier: MIT */
/* Batch invariance of ragged_attention under policy `exact`: the bits of a row are the same alone,
 * among 64 random rows, in a chunk of any length and with padding rows beside it. */
#ifndef RLX_TESTS_SUPPORT_RAGGED_H
#define RLX_TESTS_SUPPORT_RAGGED_H

#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "rlx/rlx.h"

enum {
    RAGGED_ROWS = 64,
    RAGGED_SEQUENCES = 5,
    RAGGED_PAGE = 16,
    RAGGED_PAGES = 80, /* of a sequence: 1280 keys */
    RAGGED_POOL = RAGGED_SEQUENCES * RAGGED_PAGES * RAGGED_PAGE,
    RAGGED_HEADS = 6,
    RAGGED_KV_HEADS = 2,
    RAGGED_SIZE = 64,
    RAGGED_WIDTH = RAGGED_HEADS * RAGGED_SIZE
};

typedef struct ragged_case {
    rlx_dtype pool;
    int64_t window;
} ragged_case;

typedef struct ragged_rows {
    int n;
    int32_t sequence[RAGGED_ROWS], lengths[RAGGED_ROWS];
    float q[RAGGED_ROWS * RAGGED_WIDTH], y[RAGGED_ROWS * RAGGED_WIDTH];
} ragged_rows;

static uint32_t ragged_state = 1;

static uint32_t ragged_random(void)
{
    ragged_state = ragged_state * 1664525u + 1013904223u;
    return ragged_state >> 8;
}

static void ragged_fill(float *to, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] = (float)(ragged_random() & 0xffff) / 32768.0f - 1.0f;
}

/* Pool `which` (k, v) of random numbers in a type: encoded once. NULL after a failed check. */
static const void *ragged_pool(int which, rlx_dtype t, size_t bytes)
{
    static void *pools[2][RLX_N_DTYPES];
    if (pools[which][t])
        return pools[which][t];
    const size_t n = (size_t)RAGGED_POOL * RAGGED_KV_HEADS * RAGGED_SIZE;
    float *numbers = malloc(n * sizeof *numbers);
    void *data = malloc(bytes);
    rlx_error err = {0};
    if (CHECK(numbers && data)) {
        ragged_state = which ? 8 : 7;
        ragged_fill(numbers, n);
        const rlx_quantize_rows_desc d = {RLX_INIT(rlx_quantize_rows_desc), .from = RLX_F32,
            .to = t, .src = numbers, .dst = data, .row_length = RAGGED_SIZE,
            .n_rows = (int64_t)(n / RAGGED_SIZE), .threads = 1};
        if (CHECK_OK(rlx_quantize_rows(&d, NULL, &err), &err))
            pools[which][t] = data;
    }
    free(numbers);
    if (!pools[which][t])
        free(data);
    return pools[which][t];
}

static bool ragged_set_pool(rlx_session *s, const char *name, rlx_dtype t)
{
    const size_t n = (size_t)RAGGED_POOL * RAGGED_KV_HEADS * RAGGED_SIZE;
    const size_t size = (size_t)rlx_dtype_block_size(t);
    const size_t bytes = n / size * (size_t)rlx_dtype_block_bytes(t);
    const void *data = ragged_pool(*name == 'v', t, bytes);
    rlx_error err = {0};
    return data && CHECK_OK(rlx_session_set_param(s, name, data, bytes, RLX_BORROW, &err), &err);
}

/* NULL after a failed check. */
static rlx_session *ragged_session(rlx_device *device, const ragged_case *c)
{
    static int32_t pages[RAGGED_SEQUENCES * RAGGED_PAGES];
    rlx_graph *g = rlx_graph_create("ragged");
    const rlx_dim n = rlx_dim_named(g, "n", RAGGED_ROWS);
    const rlx_dim pool[] = {RAGGED_POOL, RAGGED_KV_HEADS, RAGGED_SIZE};
    const rlx_dim table[] = {RAGGED_SEQUENCES, RAGGED_PAGES};
    const rlx_value q = rlx_input(g, "q", RLX_F32, 3, (rlx_dim[]){n, RAGGED_HEADS, RAGGED_SIZE});
    const rlx_value y = rlx_ragged_attention(
        g, q, rlx_param(g, "k", c->pool, 3, pool), rlx_param(g, "v", c->pool, 3, pool),
        rlx_input(g, "sequence", RLX_I32, 1, &n), rlx_input(g, "lengths", RLX_I32, 1, &n),
        rlx_input(g, "pages", RLX_I32, 2, table), RLX_NONE,
        &(rlx_ragged_attention_desc){RLX_INIT(rlx_ragged_attention_desc), .page = RAGGED_PAGE,
                                     .window = c->window});
    rlx_output(g, "y", y);
    rlx_session *s = NULL;
    rlx_error err = {0};
    const rlx_session_desc d = {RLX_INIT(rlx_session_desc), .policy = RLX_POLICY_EXACT};
    for (int i = 0; i < RAGGED_SEQUENCES * RAGGED_PAGES; i++) /* all different */
        pages[i] = i * 7 % (RAGGED_SEQUENCES * RAGGED_PAGES);
    const bool ok = CHECK_OK(rlx_session_create(device, g, &d, &s, &err), &err) &&
                    ragged_set_pool(s, "k", c->pool) && ragged_set_pool(s, "v", c->pool) &&
                    CHECK_OK(rlx_session_set_input(s, "pages", pages, sizeof pages, &err), &err);
    rlx_graph_destroy(g);
    if (ok)
        return s;
    rlx_session_destroy(s);
    return NULL;
}

static bool ragged_run(rlx_session *s, ragged_rows *r)
{
    rlx_error err = {0};
    const size_t ints = (size_t)r->n * sizeof *r->sequence;
    const size_t floats = (size_t)r->n * RAGGED_WIDTH * sizeof *r->q;
    return CHECK_OK(rlx_session_bind(s, "n", r->n, &err), &err) &&
           CHECK_OK(rlx_session_set_input(s, "sequence", r->sequence, ints, &err), &err) &&
           CHECK_OK(rlx_session_set_input(s, "lengths", r->lengths, ints, &err), &err) &&
           CHECK_OK(rlx_session_set_input(s, "q", r->q, floats, &err), &err) &&
           CHECK_OK(rlx_session_submit(s, NULL, &err), &err) &&
           CHECK_OK(rlx_session_read(s, "y", 0, r->y, floats, &err), &err);
}

/* Rows `from`, ... of a, in the order of `pick`, as rows of b. */
static void ragged_take(ragged_rows *b, const ragged_rows *a, const int *pick, int n)
{
    b->n = n;
    for (int i = 0; i < n; i++) {
        b->sequence[i] = a->sequence[pick[i]];
        b->lengths[i] = a->lengths[pick[i]];
        memcpy(b->q + i * RAGGED_WIDTH, a->q + pick[i] * RAGGED_WIDTH,
               RAGGED_WIDTH * sizeof *b->q);
    }
}

/* The same rows of all as in one run. */
static void ragged_compare(rlx_session *s, const ragged_rows *all, const int *pick, int n)
{
    static ragged_rows some;
    ragged_take(&some, all, pick, n);
    if (!ragged_run(s, &some))
        return;
    for (int i = 0; i < n; i++)
        if (!CHECK(!memcmp(some.y + i * RAGGED_WIDTH, all->y + pick[i] * RAGGED_WIDTH,
                           RAGGED_WIDTH * sizeof *some.y)))
            printf("    row %d of %d: sequence %d, length %d\n", i, n, (int)some.sequence[i],
                   (int)some.lengths[i]);
}

/* Random rows, chunks of two prompts, padding: 64 in all. */
static void ragged_fill_rows(ragged_rows *all)
{
    all->n = RAGGED_ROWS;
    ragged_fill(all->q, RAGGED_ROWS * RAGGED_WIDTH);
    for (int i = 0; i < RAGGED_ROWS; i++) {
        const bool chunk = i >= 20 && i < 50;
        all->sequence[i] = chunk ? i < 33 : (int32_t)(ragged_random() % RAGGED_SEQUENCES);
        all->lengths[i] = chunk ? 500 + i
                                : (int32_t)(ragged_random() % (RAGGED_PAGES * RAGGED_PAGE)) + 1;
        if (i % 19 == 0)
            all->lengths[i] = 0;
    }
}

/* Sessions of one graph, the first of which says what is right. */
static void ragged_check(rlx_session *const *sessions, int n_sessions)
{
    static ragged_rows all;
    int pick[RAGGED_ROWS];
    ragged_state = 99;
    ragged_fill_rows(&all);
    if (!ragged_run(sessions[0], &all))
        return;
    for (int k = 0; k < n_sessions; k++) {
        for (int i = 0; i < RAGGED_ROWS; i++)
            pick[i] = i;
        for (int i = 0; i < RAGGED_ROWS; i += 3) /* alone */
            ragged_compare(sessions[k], &all, pick + i, 1);
        for (int i = 20; i < 50; i += 7) /* chunks cut elsewhere */
            ragged_compare(sessions[k], &all, pick + i, i + 7 < 50 ? 7 : 50 - i);
        ragged_compare(sessions[k], &all, pick, RAGGED_ROWS);
        for (int i = 0; i < RAGGED_ROWS; i++) { /* in another order */
            const int j = (int)(ragged_random() % (uint32_t)(i + 1));
            pick[i] = pick[j];
            pick[j] = i;
        }
        ragged_compare(sessions[k], &all, pick, RAGGED_ROWS);
        ragged_compare(sessions[k], &all, pick, 11);
    }
}

#endif
