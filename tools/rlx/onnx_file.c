/* SPDX-License-Identifier: MIT */
/* Graphs of ONNX models for given inputs. */
#include "onnx_file.h"

#include <stdlib.h>
#include <string.h>

#include "cli.h"

/* Inputs of so many elements can be shapes, axes, sizes or scales. */
#define MAX_SHAPE_INTEGERS 1024
#define MAX_SHAPE_REALS 32

bool is_onnx(const char *path)
{
    const size_t n = strlen(path);
    return n > 5 && !strcmp(path + n - 5, ".onnx");
}

static bool is_small(const tensor *t)
{
    const int64_t n = tensor_elements(&t->shape);
    return t->data && n <= (rlx_dtype_is_float(t->dtype) ? MAX_SHAPE_REALS : MAX_SHAPE_INTEGERS);
}

static const tensor *find_tensor(const tensor *list, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (list[i].data && !strcmp(list[i].name, name))
            return &list[i];
    return NULL;
}

/* The first of several sizes of a dimension counts. Returns the number of names. */
static size_t add_dim(rlx_import_desc *d, rlx_import_dim *all, char **names, size_t n_names,
                      const rlx_onnx_port *p, int axis, int64_t size)
{
    names[n_names] = p->dim_name[axis] ? cli_format("%s", p->dim_name[axis])
                                       : cli_format("%s:%d", p->name, axis);
    all[d->n_dims++] = (rlx_import_dim){names[n_names], size};
    return n_names + 1;
}

rlx_status onnx_import(rlx_onnx *m, const onnx_inputs *in, rlx_graph **out, rlx_error *err)
{
    rlx_import_value *values = cli_alloc_array(2 * in->n + 2, sizeof *values);
    rlx_import_value *inputs = values + in->n + 1;
    size_t n_ports = 0;
    rlx_onnx_port p = {RLX_INIT(rlx_onnx_port)};
    while (rlx_onnx_input(m, n_ports, &p, NULL) == RLX_OK)
        n_ports++;
    rlx_import_dim *all = cli_alloc_array(in->n_dims + n_ports * RLX_MAX_RANK + 1, sizeof *all);
    char **names = cli_alloc_array(n_ports * RLX_MAX_RANK + 1, sizeof *names);
    rlx_import_desc d = {RLX_INIT(rlx_import_desc), .dims = all, .values = values,
                         .device = in->device, .inputs = inputs, .once = in->once};
    size_t n_names = 0;
    for (size_t i = 0; i < in->n_dims; i++)
        all[d.n_dims++] = in->dims[i];
    for (size_t i = 0; rlx_onnx_input(m, i, &p, NULL) == RLX_OK; i++) {
        const tensor *t = find_tensor(in->given, in->n, p.name);
        if (t)
            inputs[d.n_inputs++] = (rlx_import_value){t->name, t->dtype, t->shape, t->data};
        if (t && (is_small(t) || p.rank < 0))
            values[d.n_values++] = inputs[d.n_inputs - 1];
        for (int axis = 0; axis < p.rank && t && p.rank == t->shape.rank; axis++)
            if (p.dim[axis] < 0)
                n_names = add_dim(&d, all, names, n_names, &p, axis, t->shape.dim[axis]);
    }
    for (size_t i = 0; rlx_onnx_input(m, i, &p, NULL) == RLX_OK; i++)
        for (int axis = 0; axis < p.rank && !find_tensor(in->given, in->n, p.name); axis++)
            if (p.dim[axis] < 0)
                n_names = add_dim(&d, all, names, n_names, &p, axis, 1);
    if (d.n_inputs < n_ports)
        d.device = NULL; /* not all that a run needs is given */
    const rlx_status st = rlx_graph_import(m, &d, out, err);
    for (size_t i = 0; i < n_names; i++)
        free(names[i]);
    free(names);
    free(all);
    free(values);
    return st;
}

rlx_status onnx_set_params(const rlx_onnx *m, rlx_session *s, rlx_error *err)
{
    rlx_const_tensor p;
    for (size_t i = 0; rlx_onnx_param(m, i, &p); i++) {
        const rlx_status st = rlx_session_set_param(s, p.name, p.data, p.bytes, RLX_BORROW, err);
        if (st != RLX_OK)
            return st;
    }
    return RLX_OK;
}

/* ---- Graphs for commands --------------------------------------------------------------------- */

/* The tensors of "NAME=FILE.npy"; those of other ways to fill stay unknown. */
static bool load_inputs(const cli_list *inputs, tensor *list)
{
    for (size_t i = 0; i < inputs->n; i++) {
        const char *value = strchr(inputs->v[i], '=');
        rlx_npy npy;
        rlx_error err = {0};
        if (!value || !fill_is_file(value + 1))
            continue;
        if (rlx_npy_load(value + 1, &npy, &err) != RLX_OK) {
            cli_error(&err);
            return false;
        }
        list[i] = (tensor){cli_format("%.*s", (int)(value - inputs->v[i]), inputs->v[i]), npy.dtype,
                           npy.shape, npy.bytes, npy.data};
    }
    return true;
}

static rlx_graph *build(rlx_onnx *m, const tensor *list, const work_options *o,
                        rlx_device *device)
{
    const cli_list *dims = &o->dims;
    rlx_import_dim *sizes = cli_alloc_array(dims->n + 1, sizeof *sizes);
    char **names = cli_alloc_array(dims->n + 1, sizeof *names);
    rlx_graph *g = NULL;
    rlx_error err = {0};
    for (size_t i = 0; i < dims->n; i++) {
        const char *value = strchr(dims->v[i], '=');
        names[i] = cli_format("%.*s", (int)strcspn(dims->v[i], "="), dims->v[i]);
        sizes[i] = (rlx_import_dim){names[i], value ? strtoll(value + 1, NULL, 10) : 0};
    }
    const onnx_inputs in = {list, o->inputs.n, sizes, dims->n, device, o->once};
    if (onnx_import(m, &in, &g, &err) != RLX_OK)
        cli_error(&err);
    for (size_t i = 0; i < dims->n; i++)
        free(names[i]);
    free(names);
    free(sizes);
    return g;
}

rlx_graph *onnx_read_graph(const char *path, const work_options *o, rlx_device *device,
                           rlx_onnx **m)
{
    const cli_list *inputs = &o->inputs;
    rlx_error err = {0};
    tensor *list = cli_alloc_array(inputs->n + 1, sizeof *list);
    rlx_graph *g = NULL;
    if (rlx_onnx_open(path, m, &err) != RLX_OK)
        cli_error(&err);
    else if (load_inputs(inputs, list))
        g = build(*m, list, o, device);
    for (size_t i = 0; i < inputs->n; i++)
        tensor_free(&list[i]);
    free(list);
    return g;
}
