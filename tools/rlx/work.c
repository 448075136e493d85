/* SPDX-License-Identifier: MIT */
/* Loading, compiling and preparing a graph for `run` and `explain`. */
#include "work.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "onnx_file.h"
#include "system.h"

/* Opens the device asked for; for "auto", the one that runs the graph fastest. */
static rlx_device *open_device(const work *w, const cli_common *common, const char *id,
                               const rlx_session_desc *desc)
{
    char chosen[32];
    rlx_error err = {0};
    if (id && strcmp(id, "auto"))
        return cli_open_device(common, id);
    if (rlx_device_choose(w->graph, desc, chosen, &err) == RLX_OK)
        return cli_open_device(common, chosen);
    cli_fail("%s: %s", w->path, err.text);
    return NULL;
}

/* Whether a file is what 'rlx compile' writes. */
static bool is_compiled(const char *path)
{
    char head[8] = {0};
    struct stat st;
    if (!strcmp(path, "-") || rx_stat(path, &st) || !S_ISREG(st.st_mode))
        return false;
    FILE *f = rx_fopen(path, "rb");
    bool is = f && fread(head, 1, sizeof head, f) == sizeof head && !memcmp(head, "RLXPROG", 8);
    if (f)
        fclose(f);
    return is;
}

static rlx_graph *load_graph(const char *path)
{
    rlx_graph *g = NULL;
    rlx_error err = {0};
    if (rlx_graph_load(path, &g, &err) != RLX_OK)
        cli_error(&err);
    return g;
}

/* Compiled files tell their own name in errors. */
static int make_session(work *w, bool compiled, const rlx_session_desc *desc)
{
    rlx_error err = {0};
    if (compiled)
        return rlx_session_load(w->device, w->path, desc, &w->session, &err) == RLX_OK
                   ? EXIT_OK : cli_error(&err);
    if (rlx_session_create(w->device, w->graph, desc, &w->session, &err) != RLX_OK)
        return cli_fail("%s: %s", w->path, err.text);
    return EXIT_OK;
}

/* Sizes that come from data are computed on the device asked for; for "auto", which chooses by the
 * graph, on the CPU. */
static rlx_graph *import_onnx(work *w, const cli_common *common, const work_options *o,
                              const char *id)
{
    rlx_device *device = cli_open_device(common, id && strcmp(id, "auto") ? id : "cpu");
    rlx_graph *g = device ? onnx_read_graph(w->path, o, device, &w->onnx) : NULL;
    rlx_device_close(device);
    return g;
}

int work_open(work *w, const cli_common *common, const work_options *o, const char *path,
              rlx_session_desc *desc)
{
    const char *id;
    *w = (work){.path = path};
    int status = cli_one_device(common, &id);
    if (status)
        return status;
    const bool compiled = is_compiled(path);
    w->graph = compiled ? load_graph(path)
               : is_onnx(path) ? import_onnx(w, common, o, id) : read_graph(path);
    if (!w->graph || !listing_of_graph(&w->listing, w->graph))
        return EXIT_FAILED;
    desc->no_fusion |= o->no_fusion;
    status = cli_policy(o->policy, RLX_POLICY_AUTO, &desc->policy);
    if (status)
        return status;
    w->device = open_device(w, common, id, desc);
    if (!w->device)
        return EXIT_FAILED;
    w->device_info = RLX_DEFAULT(rlx_device_info);
    rlx_device_get_info(w->device, &w->device_info, NULL);
    w->compile_begin = cli_now();
    return make_session(w, compiled, desc);
}

void work_close(work *w)
{
    rlx_session_destroy(w->session);
    rlx_device_close(w->device);
    listing_free(&w->listing);
    rlx_graph_destroy(w->graph);
    rlx_onnx_close(w->onnx);
    *w = (work){0};
}

/* ---- Names ----------------------------------------------------------------------------------- */

const char *work_find(const cli_list *list, const char *name)
{
    size_t n = strlen(name);
    for (size_t i = list->n; i-- > 0;)
        if (!strncmp(list->v[i], name, n) && list->v[i][n] == '=')
            return list->v[i] + n + 1;
    return NULL;
}

static int unknown_name(const char *option, const char *word, const char *const *names, size_t n)
{
    char known[256] = "", *name = cli_format("%.*s", (int)strcspn(word, "="), word);
    for (size_t i = 0; i < n && strlen(known) + strlen(names[i]) + 8 < sizeof known; i++) {
        strcat(known, i ? ", " : "");
        strcat(known, names[i]);
    }
    const char *near = cli_nearest(name, names, n);
    int status = near ? cli_fail("--%s: the graph has no '%s'; did you mean '%s'?", option, name,
                                 near)
                      : cli_fail("--%s: the graph has no '%s'; it has: %s", option, name,
                                 n ? known : "none");
    free(name);
    return status;
}

static int check_names(const cli_list *list, const char *option, const char *const *names, size_t n)
{
    for (size_t i = 0; i < list->n; i++) {
        const char *word = list->v[i];
        size_t length = strcspn(word, "="), k = 0;
        if (!word[length] || !word[length + 1] || !length)
            return cli_usage("--%s expected NAME=VALUE, got '%s'", option, word);
        while (k < n && (strlen(names[k]) != length || strncmp(names[k], word, length)))
            k++;
        if (k == n)
            return unknown_name(option, word, names, n);
    }
    return EXIT_OK;
}

int work_check_names(const work *w, const cli_list *list, rlx_leaf kind, const char *option)
{
    rlx_leaf_info leaf;
    size_t n = 0;
    const char **names = NULL;
    while (rlx_graph_leaf(w->graph, kind, n, &leaf)) {
        names = cli_realloc_array(names, n + 1, sizeof *names);
        names[n++] = leaf.name;
    }
    int status = check_names(list, option, names, n);
    free(names);
    return status;
}

/* ---- Dimensions ------------------------------------------------------------------------------ */

static int bind_dim(work *w, const char *name, const char *text)
{
    char *end;
    rlx_error err = {0};
    errno = 0;
    long long v = strtoll(text, &end, 10);
    if (errno || *end || v < 0)
        return cli_usage("--dim %s expected a number of at least 0, got '%s'", name, text);
    if (rlx_session_bind(w->session, name, v, &err) != RLX_OK)
        return cli_error(&err);
    return EXIT_OK;
}

static bool is_dim_name(const work *w, const char *text, size_t n)
{
    for (size_t i = 0; i < w->listing.n_dims; i++)
        if (strlen(w->listing.dims[i].name) == n && !strncmp(w->listing.dims[i].name, text, n))
            return true;
    return false;
}

/* `type` is "f32[2,seq,8]"; each axis that is just a named dimension takes the size of the file's
 * axis, unless --dim gave it. Axes are separated by commas, and expressions contain none. */
static int bind_from_file(work *w, const work_options *o, const char *type, const rlx_npy *npy)
{
    const char *at = strchr(type, '[');
    int rank = at && at[1] != ']';
    for (const char *c = at; c && *c; c++)
        rank += *c == ',';
    if (rank != npy->shape.rank)
        return EXIT_OK; /* the wrong shape is named when the input is set */
    for (int axis = 0; at && *at != ']' && *at && axis < npy->shape.rank; axis++) {
        at++;
        size_t n = strcspn(at, ",]");
        char *name = cli_format("%.*s", (int)n, at);
        int status = EXIT_OK;
        if (is_dim_name(w, at, n) && !work_find(&o->dims, name)) {
            char size[32];
            snprintf(size, sizeof size, "%lld", (long long)npy->shape.dim[axis]);
            status = bind_dim(w, name, size);
        }
        free(name);
        if (status)
            return status;
        at += n;
    }
    return EXIT_OK;
}

int work_bind_dims(work *w, const work_options *o)
{
    const char **names = cli_alloc_array(w->listing.n_dims + 1, sizeof *names);
    for (size_t i = 0; i < w->listing.n_dims; i++)
        names[i] = w->listing.dims[i].name;
    /* Dimensions of ONNX models became numbers when the graph was built. */
    int status = w->onnx ? EXIT_OK : check_names(&o->dims, "dim", names, w->listing.n_dims);
    for (size_t i = 0; i < w->listing.n_dims && !status; i++) {
        const char *text = work_find(&o->dims, names[i]);
        if (text && !w->onnx)
            status = bind_dim(w, names[i], text);
    }
    free(names);
    rlx_leaf_info leaf;
    for (size_t i = 0; !status && rlx_graph_leaf(w->graph, RLX_LEAF_INPUT, i, &leaf); i++) {
        const char *spec = work_find(&o->inputs, leaf.name);
        rlx_npy npy;
        rlx_error err = {0};
        if (!spec || !fill_is_file(spec))
            continue;
        if (rlx_npy_load(spec, &npy, &err) != RLX_OK)
            return cli_fail("input '%s': %s", leaf.name, err.text);
        status = bind_from_file(w, o, listing_leaf_type(&w->listing, "input", leaf.name), &npy);
        rlx_free(npy.data);
    }
    return status;
}

/* ---- Weights and inputs ---------------------------------------------------------------------- */

/* Where the values of a leaf come from; NULL: from nowhere. *owned is to be freed. */
static const char *leaf_source(const work *w, const work_options *o, rlx_leaf kind,
                               const char *name, char **owned)
{
    bool input = kind == RLX_LEAF_INPUT;
    const char *spec = work_find(input ? &o->inputs : &o->params, name);
    *owned = NULL;
    if (spec)
        return spec;
    if (!input && o->param_dir) {
        *owned = cli_format("%s/%s.npy", o->param_dir, name);
        if (!rx_access(*owned, R_OK))
            return *owned;
    }
    return w->onnx || (input ? o->random_inputs : o->random_params).given ? "random" : NULL;
}

static int set_leaf(work *w, const work_options *o, rlx_leaf kind, const rlx_tensor_info *info,
                    const char *spec)
{
    bool input = kind == RLX_LEAF_INPUT;
    rlx_error err = {0};
    tensor t = {cli_format("%s", info->name), info->dtype, info->shape, info->bytes,
                cli_alloc(info->bytes)};
    uint64_t seed = (uint64_t)(input ? o->random_inputs : o->random_params).value;
    int status = tensor_fill(&t, spec, input ? FILL_INPUT : FILL_PARAM, seed) ? EXIT_OK
                                                                             : EXIT_FAILED;
    if (!status) {
        rlx_status st =
            input ? rlx_session_set_input(w->session, t.name, t.data, t.bytes, &err)
                  : rlx_session_set_param(w->session, t.name, t.data, t.bytes, RLX_COPY, &err);
        status = st == RLX_OK ? EXIT_OK : cli_error(&err);
    }
    tensor_free(&t);
    return status;
}

/* The leaves that have no source, as one sentence. */
static int missing_leaves(work *w, const work_options *o, rlx_leaf kind)
{
    bool input = kind == RLX_LEAF_INPUT;
    char *text = cli_format("%s", ""), *owned;
    rlx_leaf_info leaf;
    size_t n = 0, shown = 0;
    for (size_t i = 0; rlx_graph_leaf(w->graph, kind, i, &leaf); i++) {
        bool missing = !leaf_source(w, o, kind, leaf.name, &owned);
        free(owned);
        if (!missing || n++ >= 8)
            continue;
        char *longer = cli_format("%s\n  %s: %s", text, leaf.name,
                                  listing_leaf_type(&w->listing, input ? "input" : "param",
                                                    leaf.name));
        free(text);
        text = longer;
        shown++;
    }
    int status = EXIT_OK;
    if (n)
        status = cli_fail("no value for %zu %s%s:%s%s\ngive each with --%s NAME=VALUE, or all with "
                          "--random-%ss", n, input ? "input" : "parameter", n > 1 ? "s" : "", text,
                          n > shown ? "\n  ..." : "", input ? "input" : "param",
                          input ? "input" : "param");
    free(text);
    return status;
}

static int set_leaves(work *w, const work_options *o, rlx_leaf kind)
{
    int status = missing_leaves(w, o, kind);
    rlx_tensor_info info;
    for (size_t i = 0; !status && rlx_session_leaf(w->session, kind, i, &info); i++) {
        char *owned;
        const char *spec = leaf_source(w, o, kind, info.name, &owned);
        cli_progress("setting %s '%s'", kind == RLX_LEAF_INPUT ? "input" : "parameter", info.name);
        status = spec ? set_leaf(w, o, kind, &info, spec) : EXIT_OK;
        free(owned);
    }
    cli_progress_clear();
    return status;
}

/* The weights of an ONNX model, from its file. */
static int set_weights(work *w)
{
    rlx_error err = {0};
    return onnx_set_params(w->onnx, w->session, &err) == RLX_OK ? EXIT_OK : cli_error(&err);
}

int work_set_leaves(work *w, const work_options *o)
{
    int status = work_check_names(w, &o->inputs, RLX_LEAF_INPUT, "input");
    if (!status)
        status = work_check_names(w, &o->params, RLX_LEAF_PARAM, "param");
    if (!status)
        status = work_bind_dims(w, o);
    if (!status)
        status = w->onnx && !o->params.n ? set_weights(w) : set_leaves(w, o, RLX_LEAF_PARAM);
    if (!status)
        status = set_leaves(w, o, RLX_LEAF_INPUT);
    return status;
}

tensor work_read_output(work *w, size_t i)
{
    tensor t = {0};
    rlx_tensor_info info;
    rlx_error err = {0};
    if (!rlx_session_leaf(w->session, RLX_LEAF_OUTPUT, i, &info))
        return t;
    t = (tensor){cli_format("%s", info.name), info.dtype, info.shape, info.bytes,
                 cli_alloc(info.bytes)};
    if (rlx_session_read(w->session, info.name, 0, t.data, t.bytes, &err) != RLX_OK) {
        cli_error(&err);
        tensor_free(&t);
    }
    return t;
}
