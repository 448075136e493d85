/* SPDX-License-Identifier: MIT */
/* libFuzzer target: any bytes as the text of a graph. One that is read prints as a text that reads
 * back as the same, and is compiled for devices when it is small; the one that checks memory runs
 * it too. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/graph.h"
#include "rlx/rlx.h"

#define MAX_NODES 64
#define MAX_SIZE 4096 /* elements of a value */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void fail(const char *what, const rlx_error *err)
{
    fprintf(stderr, "%s: %s\n", what, err->text);
    abort();
}

static void print_again(const rlx_graph *g, const char *text, size_t length)
{
    rlx_graph *again;
    rlx_error err = {0};
    char *same = NULL;
    size_t n;
    if (rlx_graph_parse(text, length, &again, &err) != RLX_OK)
        fail("a printed graph is not read", &err);
    if (rlx_graph_verify(again, &err) != rlx_graph_verify(g, NULL))
        fail("a printed graph is another one", &err);
    if (rlx_graph_print(again, &same, &n, &err) != RLX_OK)
        fail("a graph is not printed again", &err);
    if (n != length || memcmp(text, same, n) != 0)
        fail("a graph prints in two ways", &err);
    rlx_free(same);
    rlx_graph_destroy(again);
}

static bool is_small(const rlx_graph *g)
{
    for (uint32_t i = 1; i < g->n_values; i++) {
        int64_t n;
        if (!rx_shape_elements(g, &g->values[i].shape, &n) || n > MAX_SIZE)
            return false;
    }
    return g->n_nodes <= MAX_NODES;
}

/* Dimensions are bound to small numbers; inputs and params are zeros. */
static rlx_status run(rlx_session *s, const rlx_graph *g, rlx_error *err)
{
    static const char zeros[16 * MAX_SIZE];
    rlx_tensor_info t;
    for (size_t i = 0; i < g->n_dims; i++)
        if (g->dims[i].kind == RX_DIM_NAMED)
            rlx_session_bind(s, g->dims[i].name, g->dims[i].bound < 3 ? g->dims[i].bound : 3, err);
    for (size_t i = 0; rlx_session_leaf(s, RLX_LEAF_PARAM, i, &t); i++)
        if (t.bytes <= sizeof zeros)
            rlx_session_set_param(s, t.name, zeros, t.bytes, RLX_COPY, err);
    for (size_t i = 0; rlx_session_leaf(s, RLX_LEAF_INPUT, i, &t); i++)
        if (t.bytes <= sizeof zeros)
            rlx_session_set_input(s, t.name, zeros, t.bytes, err);
    return rlx_run(s, NULL, 0, NULL, 0, err);
}

static void compile(const rlx_graph *g)
{
    static rlx_device *devices[2];
    static const char *const names[2] = {"cpu", "null"};
    for (int i = 0; i < 2; i++) {
        rlx_session *s = NULL;
        rlx_error err = {0};
        if (!devices[i] && rlx_device_open(names[i], &(rlx_device_desc){RLX_INIT(rlx_device_desc),
                                                                        .threads = 1}, &devices[i],
                                           &err) != RLX_OK)
            fail("no device", &err);
        rlx_status st = rlx_session_create(devices[i], g, NULL, &s, &err);
        if (st == RLX_OK && i == 1)
            st = run(s, g, &err);
        if (st == RLX_INTERNAL)
            fail(names[i], &err);
        rlx_session_destroy(s);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    rlx_graph *g;
    rlx_error err = {0};
    char *text = NULL;
    size_t length;
    if (rlx_graph_parse((const char *)data, n, &g, &err) != RLX_OK) {
        if (!err.text[0] || g)
            abort();
        return 0;
    }
    if (rlx_graph_print(g, &text, &length, &err) != RLX_OK)
        fail("a graph is not printed", &err);
    print_again(g, text, length);
    rlx_free(text);
    if (is_small(g))
        compile(g);
    rlx_graph_destroy(g);
    return 0;
}
