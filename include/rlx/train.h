/* SPDX-License-Identifier: MIT */
/* Training: losses and optimisers as operations of a graph. Parameters are states, so that a step
 * is one run: inputs go in, the loss comes out, weights stay on the device. docs/training.md has an
 * example. */
#ifndef RLX_TRAIN_H
#define RLX_TRAIN_H

#include "graph.h"
#include "model.h"
#include "session.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Losses -----------------------------------------------------------------------------------
 * Each is one element: the mean over all elements or rows, in f32 for halves. */

typedef struct rlx_cross_entropy_desc {
    size_t struct_size;
    double smoothing; /* of labels: this share is spread over all classes */
    double z_loss;    /* adds z_loss * log(sum(exp(logits)))^2 */
} rlx_cross_entropy_desc;
/* logits [.., classes], labels i32 or i64 [..]: -log softmax(logits)[label], the mean over rows
 * whose label is not negative (0 when there is none). d may be NULL. */
RLX_API rlx_value rlx_cross_entropy(rlx_graph *g, rlx_value logits, rlx_value labels,
                                    const rlx_cross_entropy_desc *d);
/* (x - target)^2; both have one shape, here and below. */
RLX_API rlx_value rlx_mse_loss(rlx_graph *g, rlx_value x, rlx_value target);
/* |x - target| */
RLX_API rlx_value rlx_l1_loss(rlx_graph *g, rlx_value x, rlx_value target);
/* With e = |x - target|: e^2 / 2 up to delta, delta (e - delta / 2) beyond; delta 0 means 1. */
RLX_API rlx_value rlx_huber_loss(rlx_graph *g, rlx_value x, rlx_value target, double delta);
/* Binary cross entropy of sigmoid(logits) and targets from 0 to 1. */
RLX_API rlx_value rlx_bce_loss(rlx_graph *g, rlx_value logits, rlx_value target);
/* Kullback-Leibler divergence of log-probabilities x [.., n] from probabilities `target`: the sum
 * of target (log target - x) over the last axis, its mean over the rows. */
RLX_API rlx_value rlx_kl_loss(rlx_graph *g, rlx_value x, rlx_value target);

/* ---- Optimisers ------------------------------------------------------------------------------ */

typedef enum rlx_optimizer_kind {
    RLX_ADAMW = 0, RLX_ADAM, RLX_SGD, RLX_LION
} rlx_optimizer_kind;
/* How the learning rate goes on after the warmup: as it is, or down to lr_end of it at the last of
 * `steps`, along a line or half a cosine. */
typedef enum rlx_schedule {
    RLX_SCHEDULE_CONSTANT = 0, RLX_SCHEDULE_LINEAR, RLX_SCHEDULE_COSINE
} rlx_schedule;

typedef struct rlx_optimizer_desc {
    size_t struct_size;
    rlx_optimizer_kind kind;
    double lr;            /* default 1e-3 */
    double beta1, beta2;  /* default 0.9 and 0.999 (lion: 0.99) */
    double eps;           /* adam, adamw: default 1e-8 */
    double weight_decay;  /* adamw, lion: of the weights; adam, sgd: added to the derivative */
    double momentum;      /* sgd */
    bool nesterov;        /* sgd */
    double clip_norm;     /* above 0: derivatives are scaled so that the norm of all of them is at
                             most this */
    int64_t accumulate;   /* runs whose derivatives are averaged for one update; default 1 */
    rlx_schedule schedule;
    int64_t warmup, steps; /* updates */
    double lr_end;
} rlx_optimizer_desc;

/* Makes each run of the graph a step of training: derives `loss` by the states params[0..n-1] (f32
 * or f64, of rank 1 to 8) and writes the states. Adds states of its own: "optimizer.step" (i32 [1],
 * the runs so far) and, as the kind needs them, "NAME.m", "NAME.v", "NAME.sum" beside each
 * parameter. To be called last: parameters cannot be used after it. *norm (may be NULL) is the norm
 * of all derivatives before they are clipped. */
RLX_API rlx_status rlx_optimizer(rlx_graph *g, rlx_value loss, const rlx_value *params, size_t n,
                                 const rlx_optimizer_desc *d, rlx_value *norm);

/* ---- Files ----------------------------------------------------------------------------------- */

/* Writes all states of a session to a GGUF file, whole or not at all: a run that goes on from it
 * gives what it would have given without a pause. */
RLX_API rlx_status rlx_train_save(rlx_session *s, const char *path, rlx_error *err);
/* Reads them back. Each state of the session must be in the file, with its type and size; those of
 * the file that the session does not have are left out. On failure no state has changed unless
 * reading fails half way. */
RLX_API rlx_status rlx_train_load(rlx_session *s, const char *path, rlx_error *err);

/* ---- Fine-tuning ----------------------------------------------------------------------------- */

/* Trains a LoRA adapter of a decoder: its weights stay as they are, packed ones too, and pairs of
 * small matrices beside the products of attention and feed-forward learn. One thread at a time. */
typedef struct rlx_trainer rlx_trainer;

typedef struct rlx_trainer_desc {
    size_t struct_size;
    const char *data;    /* path of the examples. NAME.jsonl has one in each line: {"messages":
                          * [{"role": .., "content": ..}, ..]}, of which the assistant's tokens
                          * count in the loss, or {"text": ..}; any other name is plain text */
    int64_t rank;        /* of the matrices; default 8 */
    double alpha;        /* what the adapter adds is scaled by alpha / rank; default twice the
                          * rank */
    int64_t batch;       /* examples of a step; default 4 */
    uint64_t seed;       /* of the first matrices and of the order of the examples */
    const rlx_optimizer_desc *optimizer; /* NULL: AdamW with its defaults */
} rlx_trainer_desc;

/* Reads the examples and compiles a step for the device of the model. An example has at most as
 * many tokens as the context of the model; plain text is cut into such pieces. RLX_UNSUPPORTED for
 * models that cannot be trained: encoders, those with recurrent states, files other than GGUF.
 * RLX_INVALID for examples that are none; the text names the line. The model must stay open. On
 * success the caller ends *out with rlx_trainer_destroy; on failure *out is NULL. */
RLX_API rlx_status rlx_trainer_create(rlx_model *m, const rlx_trainer_desc *d, rlx_trainer **out,
                                      rlx_error *err);
/* Before the model. NULL is fine. */
RLX_API void rlx_trainer_destroy(rlx_trainer *t);
/* A step: the next examples in an order that is drawn anew whenever all were seen. *loss is that
 * before the step. RLX_INVALID when it is no finite number: the adapter is of no use then. */
RLX_API rlx_status rlx_trainer_step(rlx_trainer *t, float *loss, rlx_error *err);

typedef struct rlx_trainer_info {
    size_t struct_size;
    int64_t examples, longest; /* longest: tokens of one */
    int64_t tokens;            /* of the steps so far, without padding */
    int64_t steps;
    int64_t products;          /* that the adapter changes */
    int64_t parameters;        /* of the adapter */
    uint64_t peak_bytes;       /* on the device: weights, states, activations */
} rlx_trainer_info;
RLX_API rlx_status rlx_trainer_get_info(const rlx_trainer *t, rlx_trainer_info *out,
                                        rlx_error *err);
/* Writes the adapter as rlx_adapter_open and llama.cpp read it, a GGUF file that is there whole or
 * not at all. */
RLX_API rlx_status rlx_trainer_save(rlx_trainer *t, const char *path, rlx_error *err);

#ifdef __cplusplus
}
#endif
#endif
