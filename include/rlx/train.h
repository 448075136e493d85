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

/* Contrastive (InfoNCE), for vectors that are to be alike: x [rows, n] and y [others, n], of which
 * row labels[i] (i32 or i64 [rows]; RLX_NONE: row i) belongs to row i of x and all others do not:
 * cross entropy over cosines divided by `temperature`, which is above 0. Negative labels do not
 * count. */
RLX_API rlx_value rlx_contrastive_loss(rlx_graph *g, rlx_value x, rlx_value y, rlx_value labels,
                                       double temperature);

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

/* ---- Training models ------------------------------------------------------------------------- */

/* Trains a model with examples. A decoder learns an adapter (LoRA: its weights stay as they are,
 * packed ones too, and pairs of small matrices beside its products learn), or all of its weights;
 * an encoder learns, with all of its weights, to give texts that belong together like vectors. One
 * thread at a time. */
typedef struct rlx_trainer rlx_trainer;

typedef enum rlx_train_kind {
    RLX_TRAIN_AUTO = 0, /* an adapter of a decoder, all weights of an encoder or from scratch */
    RLX_TRAIN_LORA, RLX_TRAIN_FULL
} rlx_train_kind;

typedef struct rlx_trainer_desc {
    size_t struct_size;
    const char *data;    /* path of the examples. NAME.jsonl has one in each line: {"messages":
                          * [{"role": .., "content": ..}, ..]}, of which the assistant's tokens
                          * count in the loss, {"prompt": .., "completion": ..}, of which the
                          * completion does, or {"text": ..}; any other name is plain text. For
                          * encoders {"query": .., "positive": ..}, all with "negative" or none */
    int64_t rank;        /* of the matrices; default 8 */
    double alpha;        /* what the adapter adds is scaled by alpha / rank; default twice the
                          * rank */
    int64_t batch;       /* examples of a run; default 4 */
    uint64_t seed;       /* of first values and of the order of the examples */
    const rlx_optimizer_desc *optimizer; /* NULL: AdamW with its defaults. A step is `accumulate`
                                          * runs */
    rlx_train_kind kind;
    bool from_scratch;       /* weights begin as random numbers: matrices [N, K] with a deviation
                              * of 1 / sqrt(K), vectors as ones, biases as zeros. Needs that all
                              * weights learn */
    const char *validation;  /* path of examples that are not trained with; NULL: none */
    double validation_share; /* of the examples, drawn by the seed, is held out; below 1 */
    double temperature;      /* encoders: similarities are divided by it; default 0.05 */
    bool pack;               /* examples follow each other in rows of the whole context, without
                              * padding, and see those before them; not those of the validation */
    uint64_t memory_budget;  /* bytes on the device, rlx_trainer_info.peak_bytes: activations that
                              * would take more are computed twice, with the same bits; 0: no
                              * limit. RLX_NO_MEMORY says how much it takes at least */
} rlx_trainer_desc;

/* Reads the examples and compiles a step for the device of the model. Texts that are longer than
 * the context of the model are cut into pieces, conversations and completions at its end.
 * RLX_UNSUPPORTED: this model cannot be trained so. RLX_INVALID for examples that are none; the
 * text names the line. The model must stay open. On success the caller ends *out with
 * rlx_trainer_destroy; on failure *out is NULL. */
RLX_API rlx_status rlx_trainer_create(rlx_model *m, const rlx_trainer_desc *d, rlx_trainer **out,
                                      rlx_error *err);
/* Before the model. NULL is fine. */
RLX_API void rlx_trainer_destroy(rlx_trainer *t);
/* A step: the next batch of the epoch's order, in which lengths of a batch are similar. *loss is
 * that before the step. RLX_INVALID when it is not finite: training has diverged. */
RLX_API rlx_status rlx_trainer_step(rlx_trainer *t, float *loss, rlx_error *err);
/* The loss of the examples held out, over all their tokens that count (of pairs: of all whole
 * batches). RLX_INVALID when there are none. */
RLX_API rlx_status rlx_trainer_evaluate(rlx_trainer *t, float *loss, rlx_error *err);

/* A loss and after how many steps it was computed. */
typedef struct rlx_trainer_loss {
    int64_t step;
    float loss;
} rlx_trainer_loss; /* frozen */
/* All losses so far, of steps or of the validation, also from before rlx_trainer_resume. Owned by
 * the trainer, until its next call. */
RLX_API const rlx_trainer_loss *rlx_trainer_losses(const rlx_trainer *t, bool validation,
                                                   size_t *n);

typedef struct rlx_trainer_info {
    size_t struct_size;
    int64_t examples, longest; /* longest: tokens of one */
    int64_t tokens;            /* of the steps so far, without padding */
    int64_t steps;
    int64_t products;          /* that the adapter changes; of all weights: tensors */
    int64_t parameters;        /* that learn */
    uint64_t peak_bytes;       /* on the device: weights, states, activations */
    int64_t held;              /* examples of the validation */
    int64_t cut;               /* examples that were longer than the context */
    int64_t padding;           /* tokens of the steps of this process that were padding */
    int64_t kept;              /* step of the last checkpoint that got its name; 0: none */
    rlx_train_kind kind;       /* never RLX_TRAIN_AUTO */
} rlx_trainer_info;
RLX_API rlx_status rlx_trainer_get_info(const rlx_trainer *t, rlx_trainer_info *out,
                                        rlx_error *err);

/* Writes all that a later trainer needs to go on: trained weights, the optimiser, the order of the
 * examples, the losses. The file appears whole or not at all: now, or when the next step has found
 * its loss to be finite, so that weights which have diverged never replace an older checkpoint. */
RLX_API rlx_status rlx_trainer_checkpoint(rlx_trainer *t, const char *path, bool now,
                                          rlx_error *err);
/* Goes on from a checkpoint, of a trainer of the same model, examples and options; only the
 * optimiser's may differ. On the CPU the steps that follow give the bits that they would have given
 * without a pause. */
RLX_API rlx_status rlx_trainer_resume(rlx_trainer *t, const char *path, rlx_error *err);

/* Removes a checkpoint of this training; RLX_INVALID for any other file. */
RLX_API rlx_status rlx_trainer_remove_checkpoint(rlx_trainer *t, const char *path, rlx_error *err);

/* ---- What was learned ------------------------------------------------------------------------
 * Files that are there whole or not at all. None replaces a file of the model itself. */

/* The adapter as rlx_adapter_open and llama.cpp read it, a GGUF file. */
RLX_API rlx_status rlx_trainer_save(rlx_trainer *t, const char *path, rlx_error *err);
/* The adapter as PEFT reads it: adapter_config.json and adapter_model.safetensors in a folder,
 * which is made. RLX_UNSUPPORTED for architectures whose tensors have no names there. */
RLX_API rlx_status rlx_trainer_save_peft(rlx_trainer *t, const char *folder, rlx_error *err);
/* The whole model, an adapter merged into its weights: a GGUF file of a GGUF model, a folder of one
 * in safetensors. type: of the matrices that have learned, f32, f16 or, in GGUF, one that rlx
 * quantises to; RLX_NO_TYPE: each as it was. */
RLX_API rlx_status rlx_trainer_save_model(rlx_trainer *t, const char *path, rlx_dtype type,
                                          rlx_error *err);

#ifdef __cplusplus
}
#endif
#endif
