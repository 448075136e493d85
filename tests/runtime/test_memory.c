/* SPDX-License-Identifier: MIT */
/* Memory: a steady run allocates nothing, nothing is left at the end, and when the n-th allocation
 * fails, for every n, the call says RLX_NO_MEMORY and all is freed. */
#include <pthread.h>
#include <stdlib.h>

#include "check.h"
#include "rlx/rlx.h"
#include "support/memory.h"
#include "support/share.h"

/* A bit of everything: named dimension, views, constants to fold, fusion, matmul, norm, state,
 * two results, reference-only operations. */
static rlx_graph *make_graph(void)
{
    rlx_graph *g = rlx_graph_create("all");
    if (!g)
        return NULL;
    rlx_dim seq = rlx_dim_named(g, "seq", 8);
    rlx_value x = rlx_input(g, "x", RLX_F32, 2, (rlx_dim[]){seq, 16});
    rlx_value w = rlx_param(g, "w", RLX_F32, 2, (rlx_dim[]){16, 16});
    rlx_value gamma = rlx_param(g, "gamma", RLX_F32, 1, (rlx_dim[]){16});
    rlx_value state = rlx_state(g, "s", RLX_F32, 2, (rlx_dim[]){8, 16});
    rlx_value two = rlx_add(g, rlx_scalar(g, RLX_F32, 1), rlx_scalar(g, RLX_F32, 1));
    rlx_value h = rlx_gelu(g, rlx_mul(g, rlx_matmul(g, x, w), two));
    h = rlx_add(g, rlx_rms_norm(g, h, gamma, NULL), x);
    rlx_value t = rlx_transpose(g, h, NULL);
    rlx_value s = rlx_state_write(g, state, h, rlx_scalar(g, RLX_I32, 0), 0);
    rlx_value best, places;
    best = rlx_top_k(g, rlx_softmax(g, h, -1), &(rlx_topk_desc){RLX_INIT(rlx_topk_desc), .k = 3,
                                                                .axis = -1}, &places);
    rlx_output(g, "t", rlx_exp(g, rlx_neg(g, t)));
    rlx_output(g, "best", best);
    rlx_output(g, "places", places);
    rlx_output(g, "sum", rlx_reduce(g, RLX_REDUCE_SUM, s, NULL, 0, false));
    return g;
}

typedef struct buffers {
    float x[8 * 16], w[16 * 16], gamma[16], t[16 * 8], best[8 * 3], sum;
    int64_t places[8 * 3];
} buffers;

static rlx_status run_once(rlx_session *s, buffers *b, int64_t seq, rlx_error *err)
{
    size_t n = (size_t)seq;
    rlx_const_tensor in[] = {{"x", b->x, n * 64}};
    rlx_tensor out[] = {{"t", b->t, n * 64},
                        {"best", b->best, n * 12},
                        {"places", b->places, n * 24},
                        {"sum", &b->sum, 4}};
    rlx_status st = rlx_session_bind(s, "seq", seq, err);
    return st ? st : rlx_run(s, in, 1, out, 4, err);
}

static rlx_status use_session(rlx_session *s, buffers *b, rlx_error *err)
{
    rlx_status st = rlx_session_set_param(s, "w", b->w, sizeof b->w, RLX_COPY, err);
    if (!st)
        st = rlx_session_set_param(s, "gamma", b->gamma, sizeof b->gamma, RLX_BORROW, err);
    for (int64_t seq = 8; seq >= 7 && !st; seq--)
        st = run_once(s, b, seq, err);
    if (!st)
        st = rlx_session_submit(s, NULL, err);
    if (!st)
        st = rlx_session_wait(s, 0, -1, err);
    if (!st)
        st = rlx_session_run_steps(s, true, NULL, NULL, err);
    rlx_step_info info = {RLX_INIT(rlx_step_info)};
    if (!st && rlx_session_step(s, 0, &info, NULL) != RLX_OK)
        st = RLX_NO_MEMORY;
    rlx_session *clone = NULL;
    if (!st)
        st = rlx_session_clone(s, &clone, err);
    if (!st)
        st = run_once(clone, b, 5, err);
    rlx_session_destroy(clone);
    return st;
}

/* A session whose weight and state live in buffers, and from its second run on a result. */
static rlx_status use_shared(rlx_device *d, const rlx_graph *g, buffers *b, int turns,
                             rlx_error *err)
{
    rlx_buffer *w = NULL, *state = NULL, *t = NULL;
    rlx_session *s = NULL;
    rlx_buffer_desc desc = {RLX_INIT(rlx_buffer_desc), .bytes = sizeof b->w};
    rlx_status st = rlx_buffer_create(d, &desc, &w, err);
    desc.bytes = sizeof b->t;
    if (!st)
        st = rlx_buffer_create(d, &desc, &state, err);
    if (!st)
        st = rlx_buffer_create(d, &desc, &t, err);
    const rlx_session_desc with = {RLX_INIT(rlx_session_desc), .n_buffers = 2,
                                   .buffers = (rlx_binding[]){{RLX_LEAF_PARAM, "w", w},
                                                              {RLX_LEAF_STATE, "s", state}}};
    if (!st)
        st = rlx_session_create(d, g, &with, &s, err);
    if (!st)
        st = rlx_session_set_param(s, "gamma", b->gamma, sizeof b->gamma, RLX_BORROW, err);
    if (!st)
        st = run_once(s, b, 8, err);
    if (!st)
        st = rlx_session_set_buffer(s, RLX_LEAF_OUTPUT, "t", t, err);
    for (int i = 0; i <= turns && !st; i++) {
        st = rlx_buffer_write(w, 0, b->w, sizeof b->w, err);
        if (!st)
            st = rlx_run(s, NULL, 0, NULL, 0, err);
        if (!st)
            st = rlx_buffer_read(t, 0, b->t, sizeof b->t, err);
        if (i == 0 && turns)
            memory_fail(0, false);
    }
    CHECK(!turns || memory_calls() == 0);
    rlx_session_destroy(s);
    rlx_buffer_destroy(w);
    rlx_buffer_destroy(state);
    rlx_buffer_destroy(t);
    return st;
}

/* Everything from the graph to the last run. */
static rlx_status use_all(const char *device, buffers *b, rlx_error *err)
{
    rlx_device *d = NULL;
    rlx_session *s = NULL;
    rlx_graph *g = make_graph(), *again = NULL;
    char *text = NULL;
    size_t length = 0;
    rlx_status st = g ? rlx_graph_status(g, err) : RLX_NO_MEMORY;
    if (!st)
        st = rlx_graph_verify(g, err);
    if (!st)
        st = rlx_graph_print(g, &text, &length, err);
    if (!st)
        st = rlx_graph_parse(text, length, &again, err);
    if (!st)
        st = rlx_device_open(device, &(rlx_device_desc){RLX_INIT(rlx_device_desc),
                                                        .threads = 2}, &d, err);
    if (!st)
        st = rlx_session_create(d, again, NULL, &s, err);
    if (!st)
        st = use_session(s, b, err);
    if (!st)
        st = use_shared(d, again, b, 0, err);
    rlx_session_destroy(s);
    rlx_device_close(d);
    rlx_free(text);
    rlx_graph_destroy(again);
    rlx_graph_destroy(g);
    return st;
}

static void fill(buffers *b)
{
    memset(b, 0, sizeof *b);
    for (int i = 0; i < 8 * 16; i++)
        b->x[i] = (float)(i % 7) - 3;
    for (int i = 0; i < 16 * 16; i++)
        b->w[i] = (float)(i % 5) / 8 - 0.25f;
    for (int i = 0; i < 16; i++)
        b->gamma[i] = 1;
}

#ifdef RX_SANITIZED
#define EVERY 4
#else
#define EVERY 1
#endif

static void test_fail_each(const char *device, bool all_after)
{
    buffers b;
    rlx_error err;
    fill(&b);
    long n = 1;
    for (;; n++) {
        if (!in_share((uint64_t)n, EVERY))
            continue;
        memory_fail(n, all_after);
        err = (rlx_error){0};
        rlx_status st = use_all(device, &b, &err);
        bool reached = memory_calls() >= n;
        memory_fail(0, false);
        if (memory_live() != 0) {
            printf("%s: allocation %ld failed: %ld pieces left\n", device, n, memory_live());
            CHECK(memory_live() == 0);
            return;
        }
        if (st == RLX_OK && (err.code || err.text[0])) {
            printf("%s: allocation %ld failed and was not needed, and left: %s\n", device, n,
                   err.text);
            CHECK(!err.text[0]);
            return;
        }
        if (st == RLX_OK && !reached)
            break;
        if (st != RLX_OK && st != RLX_NO_MEMORY) {
            printf("%s: allocation %ld failed: %s: %s\n", device, n, rlx_status_name(st), err.text);
            CHECK(st == RLX_NO_MEMORY);
            return;
        }
    }
    CHECK(n > 50);
    printf("%s: %ld allocations, each of the share failed once%s\n", device, n - 1,
           all_after ? " with all after it" : "");
}

static void test_steady(const char *device)
{
    buffers b;
    rlx_error err;
    fill(&b);
    rlx_device *d = NULL;
    rlx_session *s = NULL;
    rlx_graph *g = make_graph();
    CHECK_OK(rlx_device_open(device, NULL, &d, &err), &err);
    CHECK_OK(rlx_session_create(d, g, NULL, &s, &err), &err);
    CHECK_OK(use_shared(d, g, &b, 10, &err), &err);
    rlx_graph_destroy(g);
    CHECK_OK(rlx_session_set_param(s, "w", b.w, sizeof b.w, RLX_COPY, &err), &err);
    CHECK_OK(rlx_session_set_param(s, "gamma", b.gamma, sizeof b.gamma, RLX_COPY, &err), &err);
    CHECK_OK(run_once(s, &b, 8, &err), &err);
    memory_fail(0, false);
    for (int i = 0; i < 10; i++)
        CHECK_OK(run_once(s, &b, 8, &err), &err);
    CHECK(memory_calls() == 0);
    for (int64_t i = 8; i > 0; i--)
        CHECK_OK(run_once(s, &b, i, &err), &err);
    CHECK(memory_calls() == 0 || !strcmp(device, "null"));
    rlx_session_destroy(s);
    rlx_device_close(d);
    CHECK(memory_live() == 0);
}

int main(void)
{
    static const char *const devices[] = {"cpu", "ref", "null"};
    rlx_set_allocator(&counting);
    for (int i = 0; i < 3; i++) {
        test_steady(devices[i]);
        test_fail_each(devices[i], false);
        test_fail_each(devices[i], true);
    }
    rlx_set_allocator(NULL);
    return check_done();
}
