/* SPDX-License-Identifier: MIT */
/* The engine of the op cases: one table of cases a family (cases_*.c) is expanded, filled with
 * numbers, run on the device under test and on the reference, and compared. Public API only.
 * CASES.md has the case language. */
#ifndef OPTEST_H
#define OPTEST_H

#include <stdio.h>

#include "rlx/rlx.h"

#define OT_MAX_IN 72  /* lstm with 16 layers has 3 + 16 * 4 operands */
#define OT_MAX_OUT 20
#define OT_MAX_DIMS 4 /* named dimensions of a case */
#define OT_MAX_BINDINGS 6
#define OT_NAME 24    /* bytes of the names "in0" and "out0" */

/* ---- Cases ---------------------------------------------------------------------------------- */

typedef enum ot_fill_kind {
    OT_DEFAULT, OT_INTS, OT_RANGE, OT_NORMAL, OT_EXTREME, OT_TIES, OT_BOOLS, OT_VALUE, OT_PERM,
    OT_DISTINCT,
    OT_WIDE,        /* log-uniform magnitudes, both signs */
    OT_ROWS,        /* each row of the last axis has a magnitude of its own */
    OT_HUGE,        /* squares overflow */
    OT_TINY,        /* squares underflow */
    OT_ZEROS,       /* half are +0, -0 or subnormal */
    OT_POISON,      /* each element is NaN or infinite with probability a */
    OT_POISON_ROWS, /* each row of the last axis is, with probability a */
    OT_MASK,        /* 0 with probability a, else -inf */
    OT_COUNT /* a + b * run + index: positions in graphs that run several times */
} ot_fill_kind;

typedef struct ot_fill {
    ot_fill_kind kind;
    double a, b;
} ot_fill;

typedef enum ot_leaf { OT_INPUT, OT_PARAM, OT_CONST } ot_leaf;

/* A dimension: value, or, when dim >= 0, times * (named dimension `dim`) + value. */
typedef struct ot_dim {
    int dim;
    int64_t times, value;
} ot_dim;

typedef struct ot_operand {
    bool absent, strided;
    ot_leaf leaf;
    rlx_dtype dtype;
    int rank;
    ot_dim dims[RLX_MAX_RANK + 1]; /* one more than allowed, for error cases */
    ot_fill fill;
} ot_operand;

typedef struct ot_named_dim {
    char name[32];
    int64_t bound;
} ot_named_dim;

typedef struct ot_case {
    char *text;         /* expanded, without the head */
    const char *family;
    char op[40];
    char attrs[640];
    char error[256];    /* building must fail with a text that contains this; empty: must work */
    ot_operand in[OT_MAX_IN];
    size_t n_in;
    ot_named_dim dims[OT_MAX_DIMS];
    size_t n_dims;
    uint64_t seed;
    bool flush;         /* the device takes subnormal numbers for zero: operands have none */
} ot_case;

/* A tensor in host memory, dense. */
typedef struct ot_tensor {
    rlx_dtype dtype;
    int rank;
    int64_t dims[RLX_MAX_RANK + 1];
    int64_t elements;
    size_t bytes;
    void *data; /* owned; NULL when absent */
} ot_tensor;

/* expand.c: calls fn with each case that the template stands for. The text is valid during the
 * call. Returns false when the head is malformed. */
typedef void ot_expand_fn(void *user, const char *text);
bool ot_expand(const char *template_text, ot_expand_fn *fn, void *user);

/* parse.c: reads an expanded case. False with a sentence in `why` when it is malformed. `text` must
 * outlive the case. */
bool ot_parse(char *text, const char *family, uint64_t seed, ot_case *c, char why[160]);
bool ot_parse_fill(const char *name, size_t length, const double *arg, int n_arg, ot_fill *out);

/* fill.c */
uint64_t ot_hash(const char *text, uint64_t seed);
uint64_t ot_random(uint64_t *state); /* splitmix64 */
/* Sets type, dims, elements, bytes and allocates data (at least one byte). False: too large. */
bool ot_tensor_init(ot_tensor *t, rlx_dtype dtype, int rank, const int64_t *dims);
void ot_tensor_finish(ot_tensor *t);
void ot_fill_tensor(ot_tensor *t, const ot_fill *fill, uint64_t seed, int run);
/* Subnormal numbers of f32 and bf16 become zeros. */
void ot_flush_tensor(ot_tensor *t);
/* The i-th element of a plain tensor as a number. */
double ot_element(const ot_tensor *t, int64_t i);
/* Element i of a tensor of floats becomes x, rounded to its type. */
void ot_put_float(ot_tensor *t, int64_t i, double x);

/* ---- Comparing ------------------------------------------------------------------------------ */

typedef enum ot_class {
    OT_BITS,  /* bit for bit; NaN equals NaN */
    OT_EQUAL, /* the same number; NaN equals NaN */
    OT_NEAR   /* within a limit for each element, and without a common factor */
} ot_class;

/* Under policy fast products round operands to 8 bits of the largest element of their row. */
#define OT_FAST_ROUNDOFF (4.0 / 128)
#define OT_N_STEPS 4 /* runs of the reference with moved operands */

/* How far one result may be from the reference (measure.c). */
typedef struct ot_measure {
    ot_class class;
    rlx_dtype dtype;
    bool signed_zero; /* +0 and -0 are different results */
    bool fast;        /* operands may be rounded: the step is relative to their rows */
    bool flat;        /* an activation made zeros of what was negative */
    bool flush;       /* the device takes subnormal numbers for zero */
    int64_t elements;
    double *limit;    /* OT_NEAR: of each element, absolute; before ot_measure_end its spread.
                       * Infinite where an infinity may be NaN (ot_measure_lose) */
    double bias;      /* OT_NEAR: of |slope - 1| */
    double step;      /* by which operands were moved; 0: they were not */
} ot_measure;

/* measure.c. The order of calls for a result: ot_measure_of, then ot_measure_add for each of
 * OT_N_STEPS runs of the reference on operands moved by ot_move_operand, then ot_measure_end; under
 * policy fast, where it is infinite, ot_measure_lose for a run on operands of ot_narrow_operand.
 * False: no memory. */
ot_measure ot_measure_of(const char *op, const ot_tensor *out, bool fast);
bool ot_measure_add(ot_measure *m, const ot_tensor *expected, const ot_tensor *moved, double step);
bool ot_measure_end(ot_measure *m, const char *op, const ot_tensor *in, size_t n_in,
                    const ot_tensor *expected);
/* Whether the result has infinities that a factor rounded to 0 could make NaN. */
bool ot_measure_may_lose(const ot_measure *m, const ot_tensor *expected);
/* Infinities that are NaN in `narrowed` may be so on the device too. */
void ot_measure_lose(ot_measure *m, const ot_tensor *expected, const ot_tensor *narrowed);
void ot_measure_finish(ot_measure *m);
/* Bit for bit. */
ot_measure ot_measure_exact(void);
/* For graphs of several nodes, whose operands are about 1: relative to the largest of the row. */
bool ot_measure_graph(ot_measure *m, const ot_tensor *expected);
/* The relative step that moves these operands: above the rounding of the coarsest. */
double ot_step_of(const ot_tensor *in, size_t n_in);
/* Moves each element by half to all of the step times itself or, by_row, times the largest of its
 * row, up or down, at random. Zeros and what is not finite stay. */
void ot_move_operand(ot_tensor *t, double step, bool by_row, uint64_t seed);
/* Zeros for what policy fast may round to 0: elements far below the largest of their row or below
 * f16, and packed weights that are a difference, all of them. */
void ot_narrow_operand(ot_tensor *t);

typedef struct ot_difference {
    int64_t n_bad, first;        /* index of the first bad element */
    double worst;                /* in units of the limit */
    double expected, got, limit; /* of the first bad element */
    double slope;                /* of the regression on the reference */
    bool biased;
} ot_difference;
ot_difference ot_compare(const ot_tensor *expected, const ot_tensor *got, const ot_measure *m);

/* ---- Running -------------------------------------------------------------------------------- */

typedef struct ot_options {
    const char *device, *filter, *family, *dump;
    const char *may_refuse; /* the device may refuse with one of these texts (a|b), or NULL */
    bool list, count, verbose, bench, json, allow_unsupported, fast, once, liar, kernels, grad;
    int jobs;
    int every, from;   /* 1: all cases; n: each n-th, beginning with case `from` */
    size_t first, end; /* only these of the cases that are left */
    uint64_t seed;
    size_t n_random;   /* random graphs, */
    uint64_t random_seed; /* the first of them; the others count from there */
    uint64_t turn; /* 0: cases run in all of their modes; else in one, those of one case by turns */
} ot_options;

/* Whether a case is to run in this one of its modes; its salt says with which it begins. */
bool ot_has_turn(const ot_options *opt, uint64_t salt, size_t mode, size_t n_modes);

typedef struct ot_env {
    ot_options opt;
    rlx_device *device, *ref; /* ref is NULL when the device is ref or null */
    bool is_null;
    bool is_exact;            /* the reference is compared with itself */
    bool flushes;             /* the device takes subnormal numbers for zero */
    FILE *dump_cases, *dump_data;
    uint64_t dump_bytes;
} ot_env;

typedef enum ot_verdict { OT_PASS, OT_FAIL, OT_SKIP } ot_verdict;

/* A step that ran, by the names of operation and kernel. */
typedef struct ot_step {
    char op[32], kernel[64];
} ot_step;
#define OT_MAX_STEPS 16 /* of a case that are kept */

/* Ways to falsify a result (lies.c). */
typedef enum ot_lie {
    OT_LIE_ZERO,   /* one typical element is 0 */
    OT_LIE_SWAP,   /* two neighbours are exchanged */
    OT_LIE_SCALE,  /* all are 1 % too large */
    OT_LIE_SHIFT,  /* all are one place further */
    OT_LIE_REPEAT, /* the second half is the first one again */
    OT_LIE_STALE,  /* the result of other operands */
    OT_N_LIES
} ot_lie;

typedef struct ot_report {
    ot_verdict verdict;
    size_t used;
    char text[4096];
    double worst; /* error in units of its limit */
    size_t lies_caught[OT_N_LIES], lies_passed[OT_N_LIES], lies_excepted[OT_N_LIES];
    double ms_median, ms_best, gflops, gbps; /* bench only */
    ot_step steps[OT_MAX_STEPS];
    size_t n_steps;
} ot_report;

/* Adds a line to the report and makes it a failure. */
void ot_fail(ot_report *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The graph of a case with the data of its operands under one binding of the dimensions. */
typedef struct ot_built {
    rlx_graph *graph;
    ot_tensor logical[OT_MAX_IN]; /* what the operation sees */
    ot_tensor stored[OT_MAX_IN];  /* what the leaf holds; data NULL when it is the same */
    int64_t bound[OT_MAX_DIMS];   /* values of the named dimensions */
    int run;                      /* inputs of another run have other numbers */
    size_t n_out;
} ot_built;

/* build.c */
bool ot_fill_operands(const ot_case *c, ot_built *b);
/* Writes the operand into the memory of its strided form. */
void ot_store_operand(const ot_tensor *logical, ot_tensor *stored);
/* Builds the graph from the data of ot_fill_operands; the graph's own status tells of errors. */
void ot_build_graph(const ot_case *c, ot_built *b);
void ot_built_finish(const ot_case *c, ot_built *b);
const ot_tensor *ot_stored(const ot_built *b, size_t i);

/* What the reference gives for the operands of a case. */
typedef struct ot_expectation {
    bool fails; /* an error of these sizes, which the device must report too */
    ot_tensor out[OT_MAX_OUT];
    ot_measure measure[OT_MAX_OUT];
    size_t n_out;
    uint32_t flags; /* RLX_FLAG_* */
} ot_expectation;

/* kernels.c: rlx_session_prepare names the kernels that the run after it uses. ot_check_kernels
 * also puts what ran into the report. */
typedef struct ot_kernels {
    const char **names; /* by step; the session's */
    size_t n;
} ot_kernels;
rlx_status ot_prepare(rlx_session *s, ot_kernels *k, rlx_error *err);
void ot_check_kernels(rlx_session *s, const ot_kernels *k, const char *what, ot_report *r);

/* How many steps of which operation each kernel ran, over all cases. Zero is empty. */
typedef struct ot_kernel_tally {
    struct ot_kernel_use {
        ot_step step;
        size_t n;
    } *uses;
    size_t n, cap;
} ot_kernel_tally;
void ot_tally_kernels(ot_kernel_tally *t, const ot_report *r);
void ot_tally_print(const ot_kernel_tally *t);
/* rlx_op_support calls an operation of the CPU "reference" exactly when only that ever ran it. */
void ot_tally_check(const ot_kernel_tally *t, ot_report *r);
void ot_tally_finish(ot_kernel_tally *t);

/* expect.c: a session with its weights set; NULL with a report where there is none. `kernels`, if
 * given, become those that are chosen before there is any data. */
rlx_session *ot_open_session(ot_env *env, ot_report *r, const ot_case *c, const ot_built *b,
                             rlx_device *d, const rlx_session_desc *desc, ot_kernels *kernels);
/* Binds the dimensions, runs, and reads the outputs into new tensors. */
rlx_status ot_run_bound(const ot_case *c, const ot_built *b, rlx_session *s, ot_tensor *out,
                        size_t *n, rlx_error *err);
/* Runs a session of the reference and measures its results. */
rlx_status ot_expect(ot_env *env, const ot_case *c, ot_built *b, rlx_session *s, ot_expectation *e,
                     rlx_error *err);
void ot_expectation_finish(ot_expectation *e);
/* Runs a session and reads its outputs into new tensors; *n tells how many. */
rlx_status ot_run_session(rlx_session *s, const rlx_const_tensor *in, size_t n_in, ot_tensor *out,
                          size_t *n, rlx_error *err);

/* run.c */
void ot_run_case(ot_env *env, ot_case *c, ot_report *r);
/* Compares two outputs and reports a difference as a failure. */
void ot_check_output(ot_report *r, const char *what, const ot_tensor *expected,
                     const ot_tensor *got, const ot_measure *m);
/* The failure of a call on the device: a skip where it is unsupported and that is allowed. */
void ot_report_status(ot_env *env, ot_report *r, const char *what, rlx_status s,
                      const rlx_error *err);
/* A call that succeeds leaves the error, which was empty, as it was. */
void ot_check_untouched(ot_report *r, const char *what, const rlx_error *err);

/* lies.c: falsifies each result and fails where the measure does not notice. `other`: the results
 * of another run with other operands, or NULL. */
void ot_tell_lies(const ot_case *c, const ot_expectation *e, const ot_expectation *other,
                  ot_report *r);
const char *ot_lie_name(ot_lie lie);

/* grad.c: checks the derivatives of the case. */
void ot_grad_case(ot_env *env, ot_case *c, ot_report *r);

/* bench.c: times the case on the device. */
void ot_bench_case(ot_env *env, ot_case *c, ot_report *r);

/* dump.c: writes the case and the reference's results for tests/numpy/compare.py. */
bool ot_dump_open(ot_env *env);
void ot_dump_case(ot_env *env, ot_case *c, ot_report *r);
void ot_dump_close(ot_env *env);
void ot_json_string(FILE *f, const char *text);

/* graphs.c: the name of the i-th graph test, false past the end; and its run. */
#define OT_GRAPH_NAME 64
bool ot_graph_name(const ot_options *opt, size_t i, char name[OT_GRAPH_NAME]);
void ot_run_graph(ot_env *env, size_t i, ot_report *r);
/* The same for a graph of random_graph.c. */
void ot_check_random(ot_env *env, rlx_graph *graph, ot_report *r);

/* self.c */
void ot_check_engine(ot_report *r);

/* ---- The families: one table of templates each ---------------------------------------------- */

#define OT_FAMILIES(X)                                                              \
    X(elementwise) X(matrix) X(quant) X(norm) X(attention) X(shape) X(index)        \
    X(reduce) X(order) X(signal) X(random) X(conv) X(recurrent) X(types)

#define X(name) extern const char *const rx_cases_##name[];
OT_FAMILIES(X)
#undef X

#endif
