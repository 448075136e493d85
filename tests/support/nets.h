/* SPDX-License-Identifier: MIT */
/* Networks of realistic size and shape, for tests and benchmarks of the compiler. Weights are
 * params without data. The caller owns the graphs; NULL after an error, which is printed. */
#ifndef RLX_TESTS_SUPPORT_NETS_H
#define RLX_TESTS_SUPPORT_NETS_H

#include "rlx/ops.h"

typedef struct net_size {
    int layers;
    int64_t batch, seq, width, heads, kv_heads, hidden; /* hidden: of the feed-forward block */
} net_size;

/* BERT-like: embeddings given, attention and gelu blocks with biases, norms after the residuals. */
rlx_graph *net_encoder(const net_size *s);
/* Llama-like decode step: rms norms, rope, grouped heads, K/V caches of `seq` places as state. */
rlx_graph *net_decoder(const net_size *s);
/* ResNet-50 on [batch, 3, 224, 224], batch norms folded into the convolutions. */
rlx_graph *net_resnet50(int64_t batch);
/* `n` elementwise nodes one after the other, with a product after every tenth. */
rlx_graph *net_chain(int n);

#endif
