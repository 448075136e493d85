/* SPDX-License-Identifier: MIT */
/* LoRA adapters: low-rank pairs for linear layers: x w^T becomes x w^T + scale (x a^T) b^T.
 * adapter.c loads them, arch_adapter.c adds them to graphs. */
#ifndef RX_MODEL_ADAPTER_H
#define RX_MODEL_ADAPTER_H

#include "base/mem.h"
#include "model/facts.h"

/* Permutation of rows of b where adapter and model pair rotary elements differently: (i, i + n/2)
 * of each head, as in PEFT, or (2i, 2i + 1), as in GGUF. */
typedef enum rx_turn { RX_TURN_NONE = 0, RX_TURN_TO_PAIRS, RX_TURN_TO_HALVES } rx_turn;

/* The row of the other order that becomes row i. */
int64_t rx_turned_row(rx_turn turn, int64_t head, int64_t i);

typedef struct rx_adapter_pair {
    const char *of;       /* the name of the weight in the model's file */
    rlx_file_tensor a, b; /* [rank, K], [N, rank] */
    int64_t rank;
    double scale;
    rx_turn turn;
    int64_t head;         /* rows of a head, for `turn` */
} rx_adapter_pair;

struct rlx_adapter {
    rx_arena arena;
    rlx_model *model;
    rlx_file *file;
    const char *path;
    rx_adapter_pair *pairs;
    size_t n;
    int64_t rank, parameters; /* rank: the largest */
    double scale;             /* of its first pair */
};

/* The pair of a weight, or NULL. */
const rx_adapter_pair *rx_adapter_find(const rlx_adapter *a, const char *of);

/* Checks that an adapter belongs to a model. */
rlx_status rx_check_adapter(const rlx_model *m, const rlx_adapter *a, double scale, rlx_error *err);
/* Mixes the adapter and its scale into a hash. */
uint64_t rx_adapter_hash(const rlx_adapter *a, double scale, uint64_t h);

/* Params <weight>.lora_a and <weight>.lora_b of a graph with adapters (rx_build_desc.lora); NULL in
 * *data when `name` is none. Freed with rx_free. */
rlx_status rx_lora_param(const rx_lora *l, const char *name, void **data, size_t *bytes,
                         rlx_error *err);

#endif
