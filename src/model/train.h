/* SPDX-License-Identifier: MIT */
/* Inside of the trainer.
 *
 *   train_data.c     examples from files
 *   train_batch.c    their order, and batches of them
 *   train_weights.c  what learns: its first values, and what a tensor of the model is by now
 *   train_save.c     adapters and models as files
 *   train_resume.c   checkpoints
 *   train.c          create, step, evaluate */
#ifndef RX_MODEL_TRAIN_H
#define RX_MODEL_TRAIN_H

#include "model/facts.h"
#include "model/model.h"

/* ---- train_data.c ---------------------------------------------------------------------------- */

typedef struct rx_example {
    int32_t *tokens; /* [n] */
    bool *counts;    /* [n]: this token is to be predicted; never the first */
    size_t n;
} rx_example;

typedef struct rx_examples {
    rx_arena arena;
    rx_example *list;
    size_t n, cap, longest;
    size_t texts; /* of an example, one behind the other in the list: 1; of pairs 2, with a
                   * negative 3. 0: not yet known */
    size_t cut;   /* examples that were longer than the context */
} rx_examples;

/* Fills the zeroed *out, which is ended with rx_examples_finish, also after a failure. */
rlx_status rx_examples_read(const rlx_model *m, const char *path, rx_examples *out, rlx_error *err);
void rx_examples_finish(rx_examples *e);
/* Joins examples that are texts, and cuts them into rows of the context. */
rlx_status rx_examples_pack(const rlx_model *m, rx_examples *e, rlx_error *err);
/* Moves a share of the examples, drawn by the seed, to the zeroed *held. */
rlx_status rx_examples_hold(rx_examples *e, double share, uint64_t seed, rx_examples *held,
                            rlx_error *err);

/* ---- train_batch.c --------------------------------------------------------------------------- */

/* The order of examples: numbers are drawn by the seed from `drawn` on. */
typedef struct rx_order {
    uint64_t seed, drawn;
    size_t *list, n, at;
} rx_order;

#define RX_MOST_BATCH 4096 /* examples */

/* Inputs of a run. */
typedef struct rx_batch {
    int32_t *tokens, *labels, *positions, *types, *lengths;
    size_t batch;        /* examples */
    size_t texts;        /* of each; rows are batch * texts, first the queries of all examples */
    size_t width, most;  /* tokens of a row in this run, and up to */
    bool fixed;          /* width is always `most` */
    int64_t seen, padding; /* tokens of this run */
    int64_t counted;     /* labels that count */
} rx_batch;

rlx_status rx_batch_init(rx_batch *b, size_t batch, size_t texts, size_t most, rlx_error *err);
void rx_batch_finish(rx_batch *b);
rlx_status rx_order_init(rx_order *o, const rx_examples *e, uint64_t seed, rlx_error *err);
/* The next examples of an order. */
void rx_batch_next(rx_batch *b, const rx_examples *e, rx_order *o);
/* Examples first to first + batch; rows without one do not count. */
void rx_batch_at(rx_batch *b, const rx_examples *e, size_t first);

/* ---- The trainer ----------------------------------------------------------------------------- */

typedef struct rx_losses {
    rlx_trainer_loss *list;
    size_t n, cap;
} rx_losses;

struct rlx_trainer {
    rlx_model *model;
    rlx_session *session;
    rlx_session *judge;         /* computes the loss only; NULL: not yet needed */
    rx_examples examples, held; /* held: of the validation */
    rx_train_build build;
    double alpha;
    bool from_scratch;
    uint64_t seed;
    rx_order order;
    rx_batch batch;
    int64_t accumulate, steps, seen, padding;
    rx_losses losses, judged;
    struct rlx_gguf_writer *pending; /* a checkpoint before it has its name; NULL: none */
    int64_t kept;               /* step of the last one that has; 0: none */
};

/* ---- train_weights.c ------------------------------------------------------------------------- */

bool rx_train_adapts(rx_role role); /* arch_train.c */
/* A product with an adapter. */
typedef struct rx_trained {
    const rx_layer *layer;
    rx_role role;
    rlx_file_tensor weight;
    int64_t n, k; /* of the weight [n, k] */
} rx_trained;
/* The i-th, in the order of adapters; false when there is none. */
bool rx_trained_at(const rx_facts *f, size_t i, rx_trained *out);
/* State "<weight>.lora_a" or _b of a session. */
rlx_status rx_trained_read(rlx_trainer *t, const rx_trained *p, char which, float *to,
                           rlx_error *err);
/* First values of all states that learn. */
rlx_status rx_train_begin_states(rlx_trainer *t, rlx_error *err);
/* Whether a tensor of the file learns, itself or by an adapter. */
bool rx_train_changes(const rlx_trainer *t, const char *name);
/* What it is by now, in f32: as many elements as the file's. */
rlx_status rx_train_tensor(rlx_trainer *t, const rlx_file_tensor *weight, float *to,
                           rlx_error *err);
/* Parameters that learn, and tensors or products. */
void rx_train_count(const rlx_trainer *t, int64_t *parameters, int64_t *tensors);

/* ---- train_file.c ---------------------------------------------------------------------------- */

/* All states of a session: their tensors and data, after which the file is finished; back from
 * one. */
struct rlx_gguf_writer;
rlx_status rx_train_write_states(rlx_session *s, struct rlx_gguf_writer *w, rlx_error *err);
rlx_status rx_train_read_states(rlx_session *s, const rlx_file *f, const char *path,
                                rlx_error *err);

/* ---- train_resume.c -------------------------------------------------------------------------- */

/* Gives a checkpoint that waits for it its name, or drops it. */
rlx_status rx_train_keep_checkpoint(rlx_trainer *t, bool is_good, rlx_error *err);

/* ---- train_save.c ---------------------------------------------------------------------------- */

/* RLX_INVALID when `path` is a file of the model. */
rlx_status rx_train_check_path(const rlx_trainer *t, const char *path, rlx_error *err);

#endif
