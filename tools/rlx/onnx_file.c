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

rlx_status onnx_import(rlx_onnx *m, const tensor *given, size_t n, const rlx_import_dim *dims,
                       size_t n_dims, rlx_graph **out, rlx_error *err)
{
    rlx_import_value *values = cli_alloc_array(n + 1, sizeof *values);
    rlx_import_dim *all = cli_alloc_array(n_dims + n * RLX_MAX_RANK + 1, sizeof *all);
    char **names = cli_alloc_array(n * RLX_MAX_RANK + 1, sizeof *names);
    rlx_import_desc d = {RLX_INIT(rlx_import_desc), .dims = all, .values = values};
    rlx_onnx_port p = {RLX_INIT(rlx_onnx_port)};
    size_t n_names = 0;
    for (size_t i = 0; i < n_dims; i++)
        all[d.n_dims++] = dims[i];
    for (size_t i = 0; rlx_onnx_input(m, i, &p); i++) {
        const tensor *t = find_tensor(given, n, p.name);
        if (!t)
            continue;
        if (is_small(t) || p.rank < 0)
            values[d.n_values++] = (rlx_import_value){t->name, t->dtype, t->shape, t->data};
        for (int axis = 0; axis < p.rank && p.rank == t->shape.rank; axis++) {
            if (p.dim[axis] >= 0)
                continue;
            names[n_names] = p.dim_name[axis] ? cli_format("%s", p.dim_name[axis])
                                              : cli_format("%s:%d", p.name, axis);
            all[d.n_dims++] = (rlx_import_dim){names[n_names++], t->shape.dim[axis]};
        }
    }
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
