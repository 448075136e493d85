/* SPDX-License-Identifier: MIT */
/* rlx inspect of an ONNX model. */
#include <string.h>

#include "json.h"
#include "onnx_file.h"
#include "term.h"

typedef rlx_status port_fn(const rlx_onnx *m, size_t i, rlx_onnx_port *out, rlx_error *err);

/* "f32[1,batch,?]" */
static const char *port_text(const rlx_onnx_port *p, char *out, size_t room)
{
    size_t n = (size_t)snprintf(out, room, "%s[%s", p->type_name, p->rank < 0 ? "..." : "");
    for (int i = 0; i < p->rank && n < room; i++) {
        const char *comma = i ? "," : "";
        n += (size_t)(p->dim[i] >= 0 ? snprintf(out + n, room - n, "%s%lld", comma,
                                                (long long)p->dim[i])
                                     : snprintf(out + n, room - n, "%s%s", comma,
                                                p->dim_name[i] ? p->dim_name[i] : "?"));
    }
    if (n < room)
        snprintf(out + n, room - n, "]");
    return out;
}

static void print_ports(const rlx_onnx *m, const char *title, port_fn *at)
{
    rlx_onnx_port p = {RLX_INIT(rlx_onnx_port)};
    char type[256];
    table t;
    if (at(m, 0, &p, NULL) != RLX_OK)
        return;
    printf("\n%s%s%s\n", term_style(stdout, TERM_BOLD), title, term_style(stdout, TERM_PLAIN));
    table_init(&t, "ll", "name|type");
    for (size_t i = 0; at(m, i, &p, NULL) == RLX_OK; i++) {
        table_cell(&t, "%s", p.name);
        table_cell(&t, "%s", port_text(&p, type, sizeof type));
    }
    table_print(&t, 2);
}

static void print_model(const char *path, const rlx_onnx *m, const rlx_onnx_info *info)
{
    rlx_onnx_operator op = {RLX_INIT(rlx_onnx_operator)};
    table t;
    size_t n_missing = 0;
    term_line(stdout, "%s: ONNX, IR version %lld, opset %lld, %zu nodes, %zu weights", path,
              (long long)info->ir_version, (long long)info->opset, info->n_nodes, info->n_tensors);
    print_ports(m, "inputs", rlx_onnx_input);
    print_ports(m, "outputs", rlx_onnx_output);
    printf("\n%soperators%s\n", term_style(stdout, TERM_BOLD), term_style(stdout, TERM_PLAIN));
    table_init(&t, "rlrll", "nodes|operator|opset|domain|supported");
    for (size_t i = 0; rlx_onnx_operator_at(m, i, &op, NULL) == RLX_OK; i++) {
        n_missing += !op.supported;
        table_cell(&t, "%zu", op.n_nodes);
        table_cell(&t, "%s", op.name);
        table_cell(&t, "%lld", (long long)op.opset);
        table_cell(&t, "%s", op.domain);
        table_cell(&t, "%s", op.supported ? "yes" : "no");
    }
    table_print(&t, 2);
    if (n_missing)
        printf("\n%zu operator%s of this model not supported: it cannot run\n", n_missing,
               n_missing == 1 ? " is" : "s are");
}

static void json_ports(json *j, const rlx_onnx *m, const char *key, port_fn *at)
{
    rlx_onnx_port p = {RLX_INIT(rlx_onnx_port)};
    char type[256];
    json_array(j, key);
    for (size_t i = 0; at(m, i, &p, NULL) == RLX_OK; i++) {
        json_row(j, NULL);
        json_text(j, "name", p.name);
        json_text(j, "type", port_text(&p, type, sizeof type));
        json_end(j);
    }
    json_end(j);
}

static void json_model(const char *path, const rlx_onnx *m, const rlx_onnx_info *info)
{
    rlx_onnx_operator op = {RLX_INIT(rlx_onnx_operator)};
    json j = {.f = stdout};
    json_object(&j, NULL);
    json_text(&j, "file", path);
    json_text(&j, "format", "onnx");
    json_text(&j, "producer", info->producer);
    json_int(&j, "ir_version", info->ir_version);
    json_int(&j, "opset", info->opset);
    json_int(&j, "nodes", (int64_t)info->n_nodes);
    json_int(&j, "weights", (int64_t)info->n_tensors);
    json_ports(&j, m, "inputs", rlx_onnx_input);
    json_ports(&j, m, "outputs", rlx_onnx_output);
    json_array(&j, "operators");
    for (size_t i = 0; rlx_onnx_operator_at(m, i, &op, NULL) == RLX_OK; i++) {
        json_row(&j, NULL);
        json_text(&j, "name", op.name);
        json_text(&j, "domain", op.domain);
        json_int(&j, "opset", op.opset);
        json_int(&j, "nodes", (int64_t)op.n_nodes);
        json_bool(&j, "supported", op.supported);
        json_end(&j);
    }
    json_end(&j);
    json_end(&j);
}

int onnx_inspect(const char *path, bool as_json)
{
    rlx_onnx *m;
    rlx_error err = {0};
    rlx_onnx_info info = {RLX_INIT(rlx_onnx_info)};
    if (rlx_onnx_open(path, &m, &err) != RLX_OK)
        return cli_error(&err);
    rlx_onnx_get_info(m, &info, NULL);
    if (as_json)
        json_model(path, m, &info);
    else
        print_model(path, m, &info);
    rlx_onnx_close(m);
    return EXIT_OK;
}
