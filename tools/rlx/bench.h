/* SPDX-License-Identifier: MIT */
/* Benchmarks: cases by name, their graphs, the measurement and the plot. */
#ifndef BENCH_H
#define BENCH_H

#include "cli.h"

#define BENCH_SHAPES 8

/* "op:type:shape[,shape...][:shape][:attribute=value]..." */
typedef struct bench_case {
    char name[160];
    char op[40];
    rlx_dtype dtype;
    rlx_shape shapes[BENCH_SHAPES];
    int n_shapes;
    char attributes[160];  /* as rlx_op takes them */
    int64_t kv, stride;    /* of attention and convolution; 0: not given */
    int64_t pad;           /* of convolution; -1: not given */
    int64_t index_limit;   /* inputs "index..." are below this; set by bench_build */
    double flops, bytes;   /* of one run; 0: what the steps and the tensors say */
} bench_case;

/* Reads a case; returns EXIT_OK, or EXIT_USAGE with the sentence printed. */
int bench_parse(bench_case *c, const char *text);
/* bench_build.c: builds a graph with `copies` of a case, each with inputs and weights of its own,
 * or in a chain of products with the result of the one before as input, and sets the flops and
 * bytes of one where they are known. NULL after printing why not. */
rlx_graph *bench_build(bench_case *c, size_t copies, bool chain);
/* Whole models as cases: bench_models.c. `build` returns why the case does not fit, or NULL. */
bool bench_is_model(const char *name);
const char *bench_model_suite(size_t i);
bool bench_model_form(size_t i, const char **name, const char **shape);
const char *bench_model_build(rlx_graph *g, const bench_case *c);
/* True when an input (i32) of the case is not random: its elements are *first, *first + 1, ... */
bool bench_model_counts(const bench_case *c, const char *input, int32_t *first);

/* The i-th case of the suite, or NULL. */
const char *bench_suite(size_t i);
/* Prints how each operation that has its own form is written. */
void bench_print_forms(void);

typedef struct bench_result {
    bench_case c;
    char device[32], device_name[128];
    double ms_median, ms_best, spread; /* spread: (90 % - 10 %) / median */
    double gflops, gbps;
    size_t samples, inner;             /* each sample is the mean of `inner` runs */
} bench_result;

/* A trace file: bench_trace.c. open prints why not and returns NULL; close may be given NULL. */
typedef struct bench_trace bench_trace;
bench_trace *bench_trace_open(const char *path);
rlx_status bench_trace_add(bench_trace *t, rlx_session *s, const char *name, rlx_error *err);
int bench_trace_close(bench_trace *t);

typedef struct bench_options {
    double min_time; /* seconds for a case */
    rlx_policy policy;
    size_t copies;   /* of the operation in a run; times are of one */
    bool chain;      /* copies wait for one another */
    bench_trace *trace; /* NULL: none */
} bench_options;

/* A case that is ready to run: bench_measure.c. open returns EXIT_FAILED with the sentence printed,
 * and then there is nothing to close. */
typedef struct bench_run {
    bench_result r;    /* the case and its device; nothing is measured yet */
    rlx_graph *graph;
    rlx_session *session;
    bool gpu;          /* runs are submitted ahead; elsewhere each is a call that waits */
    double heat;       /* seconds of work until the device has raised its clocks */
} bench_run;
int bench_open(rlx_device *d, const bench_case *c, const bench_options *o, bench_run *run);
void bench_close(bench_run *run);
/* Whether runs are submitted ahead. */
bool bench_is_gpu(const rlx_device_info *d);
/* Seconds of a run, when `inner` of them follow one another. */
rlx_status bench_sample(bench_run *run, size_t inner, double *seconds, rlx_error *err);

/* Measures a case on a device; EXIT_FAILED with the sentence printed. */
int bench_measure(rlx_device *d, const bench_case *c, const bench_options *o, bench_result *out);

/* A language model from a file: bench_file.c. */
typedef struct bench_file_options {
    const char *path, *device;
    int64_t prompt, tokens;
    int64_t guesses; /* as in rlx_engine_desc */
    const char *draft; /* path; NULL: none */
    int64_t gpu_layers; /* as in rlx_model_desc */
    uint32_t threads;
    rlx_policy policy;
    bool json;
} bench_file_options;
int bench_file(const bench_file_options *o);

/* Many sequences of a language model at once, over an engine: bench_many.c. */
typedef struct bench_stream {
    int64_t tokens;
    bool ended;
} bench_stream;
typedef struct bench_many {
    rlx_model *model, *draft;
    rlx_engine *engine;
    bench_stream *streams;
    rlx_request **requests;
    int32_t *tokens;
    int64_t n_prompt, n_tokens, most, vocabulary;
    bool profile; /* the next round shows where the time goes */
    double per_step; /* tokens of a sequence in a step of the last round: more than 1 by guesses */
} bench_many;
/* For up to `most` sequences; to be closed on failure too. */
rlx_status bench_many_open(bench_many *b, const bench_file_options *o, int64_t most,
                           rlx_error *err);
void bench_many_close(bench_many *b);
/* n prompts, then n_tokens steps of n sequences. Seconds of all prompts, and of a step. */
rlx_status bench_many_round(bench_many *b, int64_t n, double *prompt, double *step, rlx_error *err);
/* Speed against the number of sequences; `list` has these with commas. `plot` may be NULL. */
int bench_sequences(const bench_file_options *o, const char *list, const char *plot, bool profile);

/* Measures what standard input asks for, and answers with a line of JSON each: bench_pipe.c. */
int bench_pipe(rlx_device *d, const char *device, uint32_t threads);

/* Draws the results: speed against size where cases differ only in size, else bars. False after
 * printing why not. */
bool bench_plot(const bench_result *r, size_t n, const char *path);

#endif
