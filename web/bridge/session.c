/* SPDX-License-Identifier: MIT */
/* The bridge, graphs: a graph from text becomes a session that takes inputs, runs and gives
 * outputs. Waiting never blocks longer than the time given: JavaScript waits between the calls. */
#include "bridge.h"

rlx_session *WEB_EXPORT(web_session_create)(rlx_device *d, const char *graph, size_t length,
                                            int policy);
rlx_session *WEB_EXPORT(web_session_create)(rlx_device *d, const char *graph, size_t length,
                                            int policy)
{
    rlx_graph *g = NULL;
    rlx_session *s = NULL;
    rlx_session_desc desc = {RLX_INIT(rlx_session_desc), .policy = (rlx_policy)policy};
    if (rlx_graph_parse(graph, length, &g, &web_last_error) == RLX_OK)
        rlx_session_create(d, g, &desc, &s, &web_last_error);
    rlx_graph_destroy(g);
    return s;
}

void WEB_EXPORT(web_session_destroy)(rlx_session *s);
void WEB_EXPORT(web_session_destroy)(rlx_session *s)
{
    rlx_session_destroy(s);
}

static void put_tensor(rx_str *text, const rlx_tensor_info *t)
{
    rx_str_puts(text, "{");
    web_json_key(text, "name");
    web_json_string(text, t->name);
    web_json_key(text, "dtype");
    web_json_string(text, rlx_dtype_name(t->dtype));
    rx_str_puts(text, ", \"shape\": [");
    for (int i = 0; i < t->shape.rank; i++)
        rx_str_printf(text, "%s%lld", i ? ", " : "", (long long)t->shape.dim[i]);
    rx_str_printf(text, "], \"bytes\": %zu}", t->bytes);
}

/* {inputs, params, states, outputs}: lists of {name, dtype, shape, bytes} with the dimensions now
 * bound */
const char *WEB_EXPORT(web_session_info)(rlx_session *s);
const char *WEB_EXPORT(web_session_info)(rlx_session *s)
{
    static const struct {
        const char *key;
        rlx_leaf kind;
    } lists[] = {{"inputs", RLX_LEAF_INPUT}, {"params", RLX_LEAF_PARAM},
                 {"states", RLX_LEAF_STATE}, {"outputs", RLX_LEAF_OUTPUT}};
    rx_str *text = web_text_begin();
    rx_str_puts(text, "{");
    for (size_t k = 0; k < sizeof lists / sizeof lists[0]; k++) {
        rlx_tensor_info t;
        web_json_key(text, lists[k].key);
        rx_str_puts(text, "[");
        for (size_t i = 0; rlx_session_leaf(s, lists[k].kind, i, &t); i++) {
            rx_str_puts(text, i ? ", " : "");
            put_tensor(text, &t);
        }
        rx_str_puts(text, "]");
    }
    rx_str_puts(text, "}");
    return web_text_end();
}

int WEB_EXPORT(web_session_bind)(rlx_session *s, const char *dim, double value);
int WEB_EXPORT(web_session_bind)(rlx_session *s, const char *dim, double value)
{
    return (int)rlx_session_bind(s, dim, (int64_t)value, &web_last_error);
}

int WEB_EXPORT(web_session_set_param)(rlx_session *s, const char *name, const void *data,
                                      size_t bytes);
int WEB_EXPORT(web_session_set_param)(rlx_session *s, const char *name, const void *data,
                                      size_t bytes)
{
    return (int)rlx_session_set_param(s, name, data, bytes, RLX_COPY, &web_last_error);
}

int WEB_EXPORT(web_session_set_input)(rlx_session *s, const char *name, const void *data,
                                      size_t bytes);
int WEB_EXPORT(web_session_set_input)(rlx_session *s, const char *name, const void *data,
                                      size_t bytes)
{
    return (int)rlx_session_set_input(s, name, data, bytes, &web_last_error);
}

int WEB_EXPORT(web_session_submit)(rlx_session *s);
int WEB_EXPORT(web_session_submit)(rlx_session *s)
{
    return (int)rlx_session_submit(s, NULL, &web_last_error);
}

/* RLX_TIMEOUT: call again later. */
int WEB_EXPORT(web_session_wait)(rlx_session *s, int timeout_ms);
int WEB_EXPORT(web_session_wait)(rlx_session *s, int timeout_ms)
{
    return (int)rlx_session_wait(s, 0, timeout_ms, &web_last_error);
}

int WEB_EXPORT(web_session_read)(rlx_session *s, const char *output, void *data, size_t bytes);
int WEB_EXPORT(web_session_read)(rlx_session *s, const char *output, void *data, size_t bytes)
{
    return (int)rlx_session_read(s, output, 0, data, bytes, &web_last_error);
}

int WEB_EXPORT(web_session_state_reset)(rlx_session *s);
int WEB_EXPORT(web_session_state_reset)(rlx_session *s)
{
    return (int)rlx_session_state_reset(s, NULL, &web_last_error);
}
