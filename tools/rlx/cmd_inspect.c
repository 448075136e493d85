/* SPDX-License-Identifier: MIT */
/* rlx inspect: what is in a file: a graph in text form, a NumPy tensor, a model. */
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "graph_file.h"
#include "input.h"
#include "inspect_model.h"
#include "json.h"
#include "onnx_file.h"
#include "tensor.h"
#include "system.h"
#include "term.h"

typedef struct options {
    cli_common common;
    int64_t context;
} options;

typedef enum file_kind { FILE_UNREADABLE, FILE_GRAPH, FILE_NPY, FILE_MODEL, FILE_ONNX } file_kind;

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);
    return n >= m && !strcmp(s + n - m, end);
}

static file_kind find_kind(const char *path)
{
    char magic[6] = "";
    if (!strcmp(path, "-"))
        return FILE_GRAPH;
    size_t n;
    if (!input_peek(path, magic, sizeof magic, &n))
        return FILE_UNREADABLE;
    if (n == sizeof magic && !memcmp(magic, "\x93NUMPY", sizeof magic))
        return FILE_NPY;
    bool is_model = (n >= 4 && !memcmp(magic, "GGUF", 4)) || ends_with(path, ".gguf") ||
                    ends_with(path, ".safetensors") || ends_with(path, ".safetensors.index.json");
    return is_model ? FILE_MODEL : is_onnx(path) ? FILE_ONNX : FILE_GRAPH;
}

/* The model in a folder: the first kind of these that is there. */
static char *find_in_folder(const char *folder)
{
    static const char *const ends[] = {"/model.safetensors", ".safetensors.index.json", ".gguf",
                                       ".onnx"};
    char *found = NULL;
    for (size_t i = 0; i < ARRAY_LEN(ends) && !found; i++) {
        rx_dir *d = rx_opendir(folder);
        const char *name;
        while (d && !found && (name = rx_next_name(d)) != NULL) {
            char *path = cli_format("%s/%s", folder, name);
            if (ends_with(path, ends[i]))
                found = path;
            else
                free(path);
        }
        if (d)
            rx_closedir(d);
    }
    if (!found)
        cli_fail("'%s' holds no model: expected model.safetensors, its .index.json, a .gguf or a "
                 ".onnx file", folder);
    return found;
}

/* ---- NumPy ----------------------------------------------------------------------------------- */

static int inspect_npy(const char *path, bool as_json)
{
    rlx_npy npy;
    rlx_error err = {0};
    if (rlx_npy_load(path, &npy, &err) != RLX_OK)
        return cli_error(&err);
    tensor t = {(char *)(uintptr_t)path, npy.dtype, npy.shape, npy.bytes, npy.data};
    tensor_stats s = tensor_get_stats(t.dtype, t.data, tensor_elements(&t.shape));
    char type[TYPE_TEXT], bytes[SHORT_TEXT];
    if (as_json) {
        json j = {.f = stdout};
        json_object(&j, NULL);
        json_text(&j, "file", path);
        json_text(&j, "format", "npy");
        json_text(&j, "dtype", rlx_dtype_name(t.dtype));
        json_shape(&j, "shape", &t.shape);
        json_int(&j, "bytes", (int64_t)t.bytes);
        json_stats(&j, &s);
        json_end(&j);
    } else {
        term_line(stdout, "%s: NumPy, %s, %s", path, type_text(t.dtype, &t.shape, type),
                  short_bytes((double)t.bytes, bytes));
        printf("min %.6g, max %.6g, mean %.6g, %lld NaN, %lld infinite\n", s.min, s.max, s.mean,
               (long long)s.n_nan, (long long)s.n_inf);
        tensor_print(&t);
    }
    rlx_free(npy.data);
    return EXIT_OK;
}

/* ---- Graphs ---------------------------------------------------------------------------------- */

static const struct {
    rlx_leaf kind;
    const char *one, *many;
} leaf_kinds[] = {
    {RLX_LEAF_INPUT, "input", "inputs"},
    {RLX_LEAF_PARAM, "param", "params"},
    {RLX_LEAF_STATE, "state", "states"},
    {RLX_LEAF_OUTPUT, "output", "outputs"},
};

typedef struct graph_facts {
    const char *path;
    rlx_graph *graph;
    listing listing;
    rlx_session *session; /* compiled for the reference device, for sizes and work; may be NULL */
    double flops, bytes;
    rlx_memory_info memory;
} graph_facts;

/* Text of the type of a leaf with the names of dimensions; outputs have none in the listing. */
static const char *leaf_type(const graph_facts *f, size_t kind, size_t i, const char *name,
                             char out[TYPE_TEXT])
{
    rlx_leaf_info leaf;
    if (leaf_kinds[kind].kind != RLX_LEAF_OUTPUT)
        return listing_leaf_type(&f->listing, leaf_kinds[kind].one, name);
    if (!rlx_graph_leaf(f->graph, RLX_LEAF_OUTPUT, i, &leaf))
        return "";
    size_t n = (size_t)snprintf(out, TYPE_TEXT, "%s[", rlx_dtype_name(leaf.dtype));
    for (int k = 0; k < leaf.shape.rank && n < TYPE_TEXT; k++) {
        n += (size_t)snprintf(out + n, TYPE_TEXT - n, "%s", k ? "," : "");
        if (n < TYPE_TEXT)
            n += rlx_dim_text(f->graph, leaf.shape.dim[k], out + n, TYPE_TEXT - n);
    }
    if (n < TYPE_TEXT)
        snprintf(out + n, TYPE_TEXT - n, "]");
    return out;
}

static uint64_t leaf_bytes(const graph_facts *f, size_t kind, size_t i)
{
    rlx_tensor_info info;
    bool ok = f->session && rlx_session_leaf(f->session, leaf_kinds[kind].kind, i, &info);
    return ok ? info.bytes : 0;
}

static void print_leaves(const graph_facts *f, size_t kind)
{
    rlx_leaf_info leaf;
    table t;
    char type[TYPE_TEXT], bytes[SHORT_TEXT];
    if (!rlx_graph_leaf(f->graph, leaf_kinds[kind].kind, 0, &leaf))
        return;
    printf("\n%s%s%s\n", term_style(stdout, TERM_BOLD), leaf_kinds[kind].many,
           term_style(stdout, TERM_PLAIN));
    table_init(&t, "llr", "name|type|bytes");
    for (size_t i = 0; rlx_graph_leaf(f->graph, leaf_kinds[kind].kind, i, &leaf); i++) {
        table_cell(&t, "%s", leaf.name);
        table_cell(&t, "%s", leaf_type(f, kind, i, leaf.name, type));
        table_cell(&t, "%s", short_bytes((double)leaf_bytes(f, kind, i), bytes));
    }
    table_print(&t, 2);
}

static void print_graph(const graph_facts *f)
{
    char a[SHORT_TEXT], b[SHORT_TEXT], c[SHORT_TEXT], d[SHORT_TEXT];
    term_line(stdout, "%s: graph \"%s\", %zu nodes, %zu operations", f->path,
              rlx_graph_name(f->graph), f->listing.n_nodes, listing_n_ops(&f->listing));
    for (size_t i = 0; i < f->listing.n_dims; i++)
        term_line(stdout, "dimension %s <= %lld", f->listing.dims[i].name,
                  (long long)f->listing.dims[i].bound);
    for (size_t kind = 0; kind < ARRAY_LEN(leaf_kinds); kind++)
        print_leaves(f, kind);
    size_t n;
    op_count *counts = listing_count_ops(&f->listing, &n);
    printf("\n%soperations%s\n", term_style(stdout, TERM_BOLD), term_style(stdout, TERM_PLAIN));
    for (size_t i = 0; i < n; i++)
        printf("  %6zu  %s\n", counts[i].n, counts[i].op);
    free(counts);
    if (f->session)
        printf("\nparameters %s, state %s; a run at the bounds: %s flop, %s of traffic\n",
               short_bytes((double)f->memory.param_bytes, a),
               short_bytes((double)f->memory.state_bytes, b), short_count(f->flops, c),
               short_bytes(f->bytes, d));
}

static void json_graph(const graph_facts *f)
{
    json j = {.f = stdout};
    char type[TYPE_TEXT];
    rlx_leaf_info leaf;
    json_object(&j, NULL);
    json_text(&j, "file", f->path);
    json_text(&j, "format", "rlx");
    json_text(&j, "name", rlx_graph_name(f->graph));
    json_int(&j, "nodes", (int64_t)f->listing.n_nodes);
    json_int(&j, "operations", (int64_t)listing_n_ops(&f->listing));
    json_row(&j, "dims");
    for (size_t i = 0; i < f->listing.n_dims; i++)
        json_int(&j, f->listing.dims[i].name, f->listing.dims[i].bound);
    json_end(&j);
    for (size_t kind = 0; kind < ARRAY_LEN(leaf_kinds); kind++) {
        json_array(&j, leaf_kinds[kind].many);
        for (size_t i = 0; rlx_graph_leaf(f->graph, leaf_kinds[kind].kind, i, &leaf); i++) {
            json_row(&j, NULL);
            json_text(&j, "name", leaf.name);
            json_text(&j, "type", leaf_type(f, kind, i, leaf.name, type));
            json_int(&j, "bytes", (int64_t)leaf_bytes(f, kind, i));
            json_end(&j);
        }
        json_end(&j);
    }
    size_t n;
    op_count *counts = listing_count_ops(&f->listing, &n);
    json_object(&j, "ops");
    for (size_t i = 0; i < n; i++)
        json_int(&j, counts[i].op, (int64_t)counts[i].n);
    json_end(&j);
    free(counts);
    json_int(&j, "param_bytes", (int64_t)f->memory.param_bytes);
    json_int(&j, "state_bytes", (int64_t)f->memory.state_bytes);
    json_real(&j, "flops", f->flops);
    json_real(&j, "bytes", f->bytes);
    json_end(&j);
}

/* Work and sizes come from a program; a graph that this device cannot run is still inspected. */
static void measure_graph(graph_facts *f, rlx_device *device)
{
    rlx_error err = {0};
    rlx_step_info step = {RLX_INIT(rlx_step_info)};
    rlx_session_desc desc = {RLX_INIT(rlx_session_desc), .no_fusion = true};
    if (rlx_session_create(device, f->graph, &desc, &f->session, &err) != RLX_OK) {
        cli_warn("sizes and work are unknown: %s", err.text);
        return;
    }
    f->memory = RLX_DEFAULT(rlx_memory_info);
    rlx_session_memory(f->session, &f->memory, NULL);
    for (size_t i = 0; rlx_session_step(f->session, i, &step, NULL) == RLX_OK; i++) {
        f->flops += step.flops;
        f->bytes += step.bytes;
    }
}

static int inspect_graph(const cli_common *common, const char *path)
{
    graph_facts f = {.path = path, .graph = read_graph(path)};
    if (!f.graph)
        return EXIT_FAILED;
    const char *id;
    int status = cli_one_device(common, &id);
    rlx_device *device = status ? NULL : cli_open_device(common, id ? id : "ref");
    if (!status && !device)
        status = EXIT_FAILED;
    if (!status && !listing_of_graph(&f.listing, f.graph))
        status = EXIT_FAILED;
    if (!status) {
        measure_graph(&f, device);
        if (common->json)
            json_graph(&f);
        else
            print_graph(&f);
    }
    rlx_session_destroy(f.session);
    rlx_device_close(device);
    listing_free(&f.listing);
    rlx_graph_destroy(f.graph);
    return status;
}

static int inspect(const options *o, const char *path)
{
    const cli_common *common = &o->common;
    switch (find_kind(path)) {
    case FILE_UNREADABLE:
        return EXIT_FAILED;
    case FILE_NPY:
        return inspect_npy(path, common->json);
    case FILE_MODEL:
        return inspect_model(path, common->device.n ? common->device.v[0] : NULL, o->context,
                             common->json);
    case FILE_ONNX:
        return onnx_inspect(path, common->json);
    case FILE_GRAPH:
        break;
    }
    return inspect_graph(common, path);
}

static int run_inspect(void *record)
{
    const options *o = record;
    char *path = cli_model_path(o->common.args.v[0]);
    if (!path)
        return EXIT_FAILED;
    struct stat st;
    if (!rx_stat(path, &st) && S_ISDIR(st.st_mode)) {
        char *inside = find_in_folder(path);
        free(path);
        path = inside;
    }
    const int status = path ? inspect(o, path) : EXIT_FAILED;
    free(path);
    return status;
}

static const cli_option inspect_options[] = {
    {"ctx", CLI_NUMBER, offsetof(options, context), "N",
     "models: tokens to count memory for (default: what it was trained for)"},
    {NULL, CLI_END, 0, NULL, NULL},
};

const cli_command cmd_inspect = {
    .name = "inspect",
    .args = "FILE",
    .summary = "show what is in a file: a model, a graph, a NumPy tensor",
    .run = run_inspect,
    .options = inspect_options,
    .record_bytes = sizeof(options),
    .min_args = 1,
    .max_args = 1,
    .details = "A model (GGUF, also split; safetensors, also by its .index.json; a folder; a "
               "name of 'rlx list'): what it is and what it is good for, metadata, tensors,\n"
               "totals by type, and for GGUF the memory it needs on a device: weights, K/V cache,\n"
               "activations, and the longest context that fits into each device here, or into\n"
               "that of --device. --json gives all of every array.\n"
               "An ONNX model: inputs, outputs, operators, those not supported first.\n"
               "A graph: inputs, parameters, states, outputs, operations, bytes and work.\n"
               "A NumPy file (.npy): type, shape, range, a preview.",
    .examples = "  rlx inspect model.gguf --ctx 4096\n"
                "  rlx inspect decoder.rlx\n"
                "  rlx inspect weights.npy --json",
};
