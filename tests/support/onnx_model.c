/* SPDX-License-Identifier: MIT */
/* ONNX models in memory, for tests. */
#include "support/onnx_model.h"

#include <stdlib.h>
#include <string.h>

#include "base/little.h"
#include "import/onnx.h"

static void put_varint(blob *b, uint64_t v)
{
    do {
        const unsigned char c = (unsigned char)((v & 0x7f) | (v > 0x7f ? 0x80 : 0));
        blob_add(b, &c, 1);
        v >>= 7;
    } while (v);
}

void pb_int(blob *b, int field, uint64_t v)
{
    put_varint(b, (uint64_t)field << 3);
    put_varint(b, v);
}

void pb_bytes(blob *b, int field, const void *data, size_t n)
{
    put_varint(b, (uint64_t)field << 3 | 2);
    put_varint(b, n);
    blob_add(b, data, n);
}

void pb_text(blob *b, int field, const char *text)
{
    pb_bytes(b, field, text, strlen(text));
}

void pb_message(blob *b, int field, blob *message)
{
    pb_bytes(b, field, message->data ? message->data : (const unsigned char *)"", message->n);
    blob_free(message);
}

blob onnx_tensor(const char *name, int type, const int64_t *dims, const void *raw, size_t bytes)
{
    blob t = {0};
    for (; *dims >= 0; dims++)
        pb_int(&t, 1, (uint64_t)*dims);
    pb_int(&t, 2, (uint64_t)type);
    pb_text(&t, 8, name);
    if (raw) {
        const rx_onnx_type *known = rx_onnx_type_of(type);
        unsigned char *little = malloc(bytes + 1);
        if (!little)
            abort();
        rx_little_copy(known ? known->dtype : RLX_NO_TYPE, raw, little, bytes);
        pb_bytes(&t, 9, little, bytes);
        free(little);
    }
    return t;
}

blob onnx_port(const char *name, int type, const int64_t *dims)
{
    blob port = {0}, value = {0}, tensor = {0}, shape = {0};
    for (; *dims != -1; dims++) {
        blob d = {0};
        if (*dims == -2)
            pb_text(&d, 2, "n");
        else
            pb_int(&d, 1, (uint64_t)*dims);
        pb_message(&shape, 1, &d);
    }
    pb_int(&tensor, 1, (uint64_t)type);
    pb_message(&tensor, 2, &shape);
    pb_message(&value, 1, &tensor);
    pb_text(&port, 1, name);
    pb_message(&port, 2, &value);
    return port;
}

static void put_names(blob *b, int field, const char *names)
{
    while (*names) {
        const size_t n = strcspn(names, " ");
        pb_bytes(b, field, names, n);
        names += n + (names[n] == ' ');
    }
}

blob onnx_node(const char *op, const char *in, const char *out)
{
    blob n = {0};
    put_names(&n, 1, in);
    put_names(&n, 2, out);
    pb_text(&n, 4, op);
    return n;
}

void onnx_attr_int(blob *node, const char *name, int64_t v)
{
    blob a = {0};
    pb_text(&a, 1, name);
    pb_int(&a, 3, (uint64_t)v);
    pb_int(&a, 20, 2);
    pb_message(node, 5, &a);
}

blob onnx_model(blob *graph, int64_t opset)
{
    blob m = {0}, set = {0};
    pb_int(&m, 1, 10);
    pb_text(&m, 2, "test");
    pb_message(&m, 7, graph);
    pb_text(&set, 1, "");
    pb_int(&set, 2, (uint64_t)opset);
    pb_message(&m, 8, &set);
    return m;
}

blob onnx_small(void)
{
    static const float w[3] = {1, -20, 0.5f};
    static const int64_t dims[] = {2, 3, -1}, row[] = {3, -1};
    blob g = {0};
    blob add = onnx_node("Add", "x w", "t"), relu = onnx_node("Relu", "t", "y");
    blob tensor = onnx_tensor("w", 1, row, w, sizeof w);
    blob x = onnx_port("x", 1, dims), y = onnx_port("y", 1, dims);
    pb_message(&g, 1, &add);
    pb_message(&g, 1, &relu);
    pb_text(&g, 2, "small");
    pb_message(&g, 5, &tensor);
    pb_message(&g, 11, &x);
    pb_message(&g, 12, &y);
    return onnx_model(&g, 17);
}

rlx_status onnx_build_bytes(const void *data, size_t n, rlx_error *err)
{
    unsigned char *copy = malloc(n + 1); /* of exactly these bytes, so that sanitizers see reads */
    rlx_onnx *m = NULL;
    rlx_graph *g = NULL;
    if (!copy)
        abort();
    memcpy(copy, data, n);
    rlx_status st = rx_onnx_from_memory(copy, n, "test.onnx", &m, err);
    if (st == RLX_OK)
        st = rlx_graph_import(m, NULL, &g, err);
    if (st == RLX_OK)
        st = rlx_graph_verify(g, err);
    rlx_graph_destroy(g);
    rlx_onnx_close(m);
    free(copy);
    return st;
}
