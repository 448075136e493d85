/* SPDX-License-Identifier: MIT */
/* libFuzzer target: any bytes as the file of a compiled graph. The first byte says how much of the
 * header is made right before: the device it is for (null or ref), the sizes, the checksum. What is
 * loaded runs when it is small; null checks how it uses memory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "ir/graph.h"
#include "runtime/saved.h"

#define MAX_NODES 64
#define MAX_SIZE 4096 /* elements of a value */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void fail(const char *what, const rlx_error *err)
{
    fprintf(stderr, "%s: %s\n", what, err->text);
    abort();
}

static rlx_device *open_device(bool ref)
{
    static rlx_device *devices[2];
    const rlx_device_desc one = {RLX_INIT(rlx_device_desc), .threads = 1};
    rlx_error err = {0};
    if (!devices[ref] &&
        rlx_device_open(ref ? "ref" : "null", &one, &devices[ref], &err) != RLX_OK)
        fail("no device", &err);
    return devices[ref];
}

/* Makes the parts of the header right that `what` names. */
static void mend(unsigned char *file, size_t n, const rlx_device *d, unsigned what)
{
    rx_saved s;
    memcpy(&s.header, file, sizeof s.header);
    if (what & 2) {
        memset(s.header.version, 0, sizeof s.header.version);
        snprintf(s.header.version, sizeof s.header.version, "%s", rlx_version());
        snprintf(s.header.backend, sizeof s.header.backend, "%s", d->info.backend);
        snprintf(s.header.name, sizeof s.header.name, "%s", d->info.name);
        snprintf(s.header.driver, sizeof s.header.driver, "%s", d->info.driver);
        s.header.kernels = 0;
    }
    if (what & 4) {
        s.header.text_bytes = n - sizeof s.header;
        s.header.cache_bytes = 0;
    }
    memcpy(file, &s.header, sizeof s.header);
    const uint64_t rest = n - sizeof s.header;
    if (!(what & 8) || s.header.text_bytes > rest ||
        s.header.cache_bytes != rest - s.header.text_bytes)
        return;
    s.text = (rx_bytes){file + sizeof s.header, (size_t)s.header.text_bytes};
    s.cache = (rx_bytes){file + sizeof s.header + s.header.text_bytes,
                         (size_t)s.header.cache_bytes};
    s.header.digest = rx_saved_digest(&s);
    memcpy(file, &s.header, sizeof s.header);
}

static bool is_small(const rx_saved *s)
{
    rlx_graph *g;
    if (rlx_graph_parse(s->text.data, s->text.bytes, &g, NULL) != RLX_OK)
        return true; /* to be refused */
    bool small = g->n_nodes <= MAX_NODES;
    for (uint32_t i = 1; i < g->n_values && small; i++) {
        int64_t n;
        small = rx_shape_elements(g, &g->values[i].shape, &n) && n <= MAX_SIZE;
    }
    rlx_graph_destroy(g);
    return small;
}

/* Params and inputs are zeros, dimensions have their bounds. */
static rlx_status run(rlx_session *s, rlx_error *err)
{
    static const char zeros[16 * MAX_SIZE];
    rlx_tensor_info t;
    for (size_t i = 0; rlx_session_leaf(s, RLX_LEAF_PARAM, i, &t); i++)
        if (t.bytes <= sizeof zeros)
            rlx_session_set_param(s, t.name, zeros, t.bytes, RLX_COPY, err);
    for (size_t i = 0; rlx_session_leaf(s, RLX_LEAF_INPUT, i, &t); i++)
        if (t.bytes <= sizeof zeros)
            rlx_session_set_input(s, t.name, zeros, t.bytes, err);
    return rlx_run(s, NULL, 0, NULL, 0, err);
}

static void load(const unsigned char *file, size_t n, rlx_device *d)
{
    rlx_error err = {0};
    rx_saved saved;
    rlx_session *s = NULL;
    rlx_status st = rx_saved_read(file, n, &saved, &err);
    if (st == RLX_OK && is_small(&saved)) {
        st = rx_saved_load(d, &saved, &RLX_DEFAULT(rlx_session_desc), &s, &err);
        if (st == RLX_OK)
            st = run(s, &err);
        rlx_session_destroy(s);
    }
    if (st == RLX_INTERNAL || (st != RLX_OK && !err.text[0]))
        fail("a loaded graph", &err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (n < 1 + sizeof(rx_saved_header) || n > 1 << 16)
        return 0;
    unsigned char *file = rx_alloc(n - 1);
    if (!file)
        return 0;
    rlx_device *d = open_device(data[0] & 1);
    memcpy(file, data + 1, n - 1);
    mend(file, n - 1, d, data[0]);
    load(file, n - 1, d);
    rx_free(file);
    return 0;
}
