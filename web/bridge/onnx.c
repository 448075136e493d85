/* SPDX-License-Identifier: MIT */
/* The bridge, ONNX models: one in memory, which JavaScript keeps until it is closed, becomes a
 * session whose weights lie in that memory. */
#include <string.h>

#include "bridge.h"
#include "import/onnx.h"

#define MAX_DIMS 64

rlx_onnx *WEB_EXPORT(web_onnx_open)(const void *data, size_t bytes);
rlx_onnx *WEB_EXPORT(web_onnx_open)(const void *data, size_t bytes)
{
    rlx_onnx *m = NULL;
    rx_onnx_from_memory(data, bytes, "the model", &m, &web_last_error);
    return m;
}

/* After the sessions that were made of it. */
void WEB_EXPORT(web_onnx_close)(rlx_onnx *m);
void WEB_EXPORT(web_onnx_close)(rlx_onnx *m)
{
    rlx_onnx_close(m);
}

/* names: n strings one after the other, each with its zero byte. */
static rlx_status import(rlx_onnx *m, const char *names, const double *sizes, int n, rlx_graph **g)
{
    rlx_import_dim dims[MAX_DIMS];
    const rlx_import_desc d = {RLX_INIT(rlx_import_desc), .dims = dims, .n_dims = (size_t)n};
    if (n < 0 || n > MAX_DIMS)
        return rx_fail(&web_last_error, RLX_INVALID, "%d dimensions; expected at most %d", n,
                       MAX_DIMS);
    for (int i = 0; i < n; i++, names += strlen(names) + 1)
        dims[i] = (rlx_import_dim){names, (int64_t)sizes[i]};
    return rlx_graph_import(m, &d, g, &web_last_error);
}

rlx_session *WEB_EXPORT(web_onnx_session)(rlx_onnx *m, rlx_device *d, int policy,
                                          const char *names, const double *sizes, int n);
rlx_session *WEB_EXPORT(web_onnx_session)(rlx_onnx *m, rlx_device *d, int policy,
                                          const char *names, const double *sizes, int n)
{
    rlx_graph *g = NULL;
    rlx_session *s = NULL;
    rlx_const_tensor p;
    rlx_session_desc desc = {RLX_INIT(rlx_session_desc), .policy = (rlx_policy)policy};
    rlx_status st = import(m, names, sizes, n, &g);
    if (st == RLX_OK)
        st = rlx_session_create(d, g, &desc, &s, &web_last_error);
    for (size_t i = 0; st == RLX_OK && rlx_onnx_param(m, i, &p); i++)
        st = rlx_session_set_param(s, p.name, p.data, p.bytes, RLX_BORROW, &web_last_error);
    rlx_graph_destroy(g);
    if (st == RLX_OK)
        return s;
    rlx_session_destroy(s);
    return NULL;
}
