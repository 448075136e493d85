/* SPDX-License-Identifier: MIT */
/* Examples to train with: train_data.c reads them, train.c runs steps of them. */
#ifndef RX_MODEL_TRAIN_H
#define RX_MODEL_TRAIN_H

#include "model/model.h"

typedef struct rx_example {
    int32_t *tokens; /* [n] */
    bool *counts;    /* [n]: this token is to be predicted; never the first */
    size_t n;
} rx_example;

typedef struct rx_examples {
    rx_arena arena;
    rx_example *list;
    size_t n, cap, longest;
} rx_examples;

/* Fills the zeroed *out, which is ended with rx_examples_finish, also after a failure. */
rlx_status rx_examples_read(const rlx_model *m, const char *path, rx_examples *out, rlx_error *err);
void rx_examples_finish(rx_examples *e);

#endif
