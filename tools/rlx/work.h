/* SPDX-License-Identifier: MIT */
/* The job of `run` and `explain`: a graph from a file, compiled for a device, with its weights and
 * inputs set. */
#ifndef WORK_H
#define WORK_H

#include "cli.h"
#include "graph_file.h"
#include "tensor.h"

/* Options of both commands; a member of their records. */
typedef struct work_options {
    cli_list inputs, params, dims; /* "name=value" */
    const char *param_dir;
    cli_opt_number random_params, random_inputs;
    bool no_fusion;
    bool once; /* the graph of an ONNX model is for the given inputs only */
    const char *policy;
} work_options;

#define WORK_OPTIONS(record, member)                                                             \
    {"input", CLI_LIST, offsetof(record, member.inputs), "NAME=VALUE",                           \
     "an input: file.npy, random[:SEED], zeros, ones or range"},                                 \
    {"random-inputs", CLI_OPT_NUMBER, offsetof(record, member.random_inputs), "SEED",            \
     "random numbers for the inputs that are not given"},                                        \
    {"param", CLI_LIST, offsetof(record, member.params), "NAME=VALUE",                           \
     "a parameter, given as an input is"},                                                       \
    {"param-dir", CLI_TEXT, offsetof(record, member.param_dir), "DIR",                           \
     "folder with NAME.npy for each parameter"},                                                 \
    {"random-params", CLI_OPT_NUMBER, offsetof(record, member.random_params), "SEED",            \
     "random numbers for the parameters that are not given"},                                    \
    {"dim", CLI_LIST, offsetof(record, member.dims), "NAME=SIZE",                                \
     "size of a named dimension (default: from the input files, else its bound)"},               \
    {"no-fusion", CLI_FLAG, offsetof(record, member.no_fusion), NULL, "compile without fusion"}, \
    POLICY_OPTION(record, member.policy)

typedef struct work {
    const char *path;
    rlx_graph *graph;
    rlx_onnx *onnx; /* the model that the graph is of, or NULL */
    listing listing;
    rlx_device *device;
    rlx_device_info device_info;
    rlx_session *session;
    double compile_begin; /* by cli_now */
} work;

/* Reads the graph and compiles it, or loads what `compile` has stored; `desc` may have callbacks
 * set, policy and fusion come from the options. Returns EXIT_OK or, with the sentence printed,
 * another status; work_close in any case. */
int work_open(work *w, const cli_common *common, const work_options *o, const char *path,
              rlx_session_desc *desc);
/* Binds the dimensions, from the options and from the shapes of input files. */
int work_bind_dims(work *w, const work_options *o);
/* Binds the dimensions, sets parameters and inputs. */
int work_set_leaves(work *w, const work_options *o);
void work_close(work *w);

/* The value of "NAME=VALUE" in a list of such, or NULL. */
const char *work_find(const cli_list *list, const char *name);
/* Fails when a name of the list is none of the graph's leaves of that kind. */
int work_check_names(const work *w, const cli_list *list, rlx_leaf kind, const char *option);
/* Copies output `i` of the last run; data is NULL when there is no such output or it failed. */
tensor work_read_output(work *w, size_t i);

#endif
