/* SPDX-License-Identifier: MIT */
/* Ragged batches: rows of many sequences in one run. Inputs, attention over the paged pool, and
 * penalties, masks and sampling of the rows that predict a token (arch.h lists inputs and
 * outputs). */
#include <math.h>

#include "model/build.h"

#define WORD_BITS 32

/* b->slots is the page table here. */
void rx_build_row_inputs(rx_builder *b)
{
    rlx_graph *g = b->g;
    const rx_build_desc *d = b->d;
    const rlx_dim n = rlx_dim_named(g, "rows", d->rows);
    const rlx_dim column[] = {n, 1};
    const rlx_dim table[] = {d->sequences, (d->context + d->page - 1) / d->page};
    b->batch = b->rows = n;
    b->seq = 1;
    if (!d->begin)
        b->tokens = rlx_input(g, "tokens", RLX_I32, 2, column);
    b->positions = rlx_input(g, "positions", RLX_I32, 2, column);
    b->places = rlx_input(g, "places", RLX_I32, 1, &n);
    b->sequence = rlx_input(g, "sequence", RLX_I32, 1, &n);
    b->lengths = rlx_input(g, "lengths", RLX_I32, 1, &n);
    b->slots = rlx_input(g, "pages", RLX_I32, 2, table);
    if (d->end)
        return;
    const rlx_dim m = rlx_dim_named(g, "outputs", d->outputs);
    b->outputs = rlx_input(g, "outputs", RLX_I32, 1, &m);
    rx_build_lora_inputs(b);
}

rlx_value rx_build_row_attention(rx_builder *b, rlx_value q, rlx_value k, rlx_value v,
                                 rlx_value sinks, const rlx_attention_desc *d)
{
    const rlx_shape s = rlx_value_shape(b->g, q);
    const rlx_ragged_attention_desc r = {RLX_INIT(rlx_ragged_attention_desc), .page = b->d->page,
                                         .scale = d->scale, .soft_cap = d->soft_cap,
                                         .window = d->window};
    q = rlx_reshape(b->g, q, 3, (rlx_dim[]){b->rows, s.dim[2], s.dim[3]});
    return rlx_ragged_attention(b->g, q, k, v, b->sequence, b->lengths, b->slots, sinks, &r);
}

rlx_value rx_build_output_rows(rx_builder *b, rlx_value x)
{
    return rlx_gather(b->g, x, b->outputs, 0);
}

/* Penalties and logit bias, for a few tokens per row. */
static rlx_value build_adjusted(rx_builder *b, rlx_value logits)
{
    rlx_graph *g = b->g;
    const rlx_dim row[] = {b->batch, rlx_dim_named(g, "adjust", RX_ADJUST)};
    const rlx_value ids = rlx_input(g, "adjust", RLX_I32, 2, row);
    const rlx_value factor = rlx_input(g, "factor", RLX_F32, 2, row);
    const rlx_value add = rlx_input(g, "add", RLX_F32, 2, row);
    const rlx_value old = rlx_gather_elements(g, logits, ids, 1);
    const rlx_value positive = rlx_gt(g, old, rlx_scalar(g, RLX_F32, 0));
    const rlx_value now = rlx_where(g, positive, rlx_div(g, old, factor),
                                    rlx_mul(g, old, factor));
    return rlx_scatter_elements(g, logits, ids, rlx_add(g, now, add), 1, RLX_SCATTER_NONE);
}

/* Bits i32 [C, W] -> bool [C, vocabulary]. */
static rlx_value unpack_bits(rx_builder *b, rlx_value bits, rlx_dim rows, int64_t words)
{
    rlx_graph *g = b->g;
    int32_t count[WORD_BITS];
    for (int32_t i = 0; i < WORD_BITS; i++)
        count[i] = i;
    const rlx_dim one[] = {rows, words, 1}, flat[] = {rows, words * WORD_BITS};
    const rlx_dim bit[] = {WORD_BITS};
    const rlx_value shift = rlx_constant(g, RLX_I32, 1, bit, count, sizeof count);
    rlx_value v = rlx_shr(g, rlx_reshape(g, bits, 3, one), shift);
    v = rlx_ne(g, rlx_and(g, v, rlx_scalar(g, RLX_I32, 1)), rlx_scalar(g, RLX_I32, 0));
    return rlx_narrow(g, rlx_reshape(g, v, 2, flat), 1, 0, b->f->vocabulary);
}

/* Sets tokens that a grammar rejects to -inf, in rows that have one. */
static rlx_value build_masked(rx_builder *b, rlx_value logits)
{
    rlx_graph *g = b->g;
    const int64_t words = (b->f->vocabulary + WORD_BITS - 1) / WORD_BITS;
    const rlx_dim n = rlx_dim_named(g, "masked", b->d->outputs);
    const rlx_dim row[] = {n, words}, column[] = {n, 1};
    const rlx_value rows = rlx_input(g, "masked", RLX_I32, 1, &n);
    const rlx_value bits = rlx_input(g, "bits", RLX_I32, 2, row);
    const rlx_value now = rlx_where(g, unpack_bits(b, bits, n, words),
                                    rlx_gather(g, logits, rows, 0),
                                    rlx_scalar(g, RLX_F32, -INFINITY));
    return rlx_scatter_nd(g, logits, rlx_reshape(g, rows, 2, column), now, RLX_SCATTER_NONE);
}

/* Logits of the target and of the best tokens, and the log-sum-exp that makes them
 * log-probabilities. */
static void build_ranks(rx_builder *b, rlx_value logits, rlx_value token)
{
    rlx_graph *g = b->g;
    const rlx_dim n = rlx_dim_named(g, "ranked", b->d->outputs), column[] = {n, 1};
    const int64_t axis = 1, vocabulary = b->f->vocabulary;
    const rlx_topk_desc top = {RLX_INIT(rlx_topk_desc), .axis = 1, .out = RLX_I32,
                               .k = vocabulary < RLX_MAX_BEST ? vocabulary : RLX_MAX_BEST};
    const rlx_value rows = rlx_input(g, "ranked", RLX_I32, 1, &n);
    const rlx_value targets = rlx_input(g, "targets", RLX_I32, 1, &n);
    const rlx_value is_chosen = rlx_lt(g, targets, rlx_scalar(g, RLX_I32, 0));
    const rlx_value id = rlx_where(g, is_chosen, rlx_gather(g, token, rows, 0), targets);
    const rlx_value x = rlx_gather(g, logits, rows, 0);
    const rlx_value at = rlx_gather_elements(g, x, rlx_reshape(g, id, 2, column), 1);
    rlx_value ids;
    rlx_output(g, "chosen", rlx_reshape(g, at, 1, &n));
    rlx_output(g, "lse", rlx_reduce(g, RLX_REDUCE_LOG_SUM_EXP, x, &axis, 1, false));
    rlx_output(g, "best", rlx_top_k(g, x, &top, &ids));
    rlx_output(g, "best_ids", ids);
}

void rx_build_row_heads(rx_builder *b, rlx_value x)
{
    rlx_graph *g = b->g;
    const rlx_dim row[] = {b->batch, b->f->width}, four[] = {b->batch, 4};
    const rlx_value logits = rx_build_logits(b, rlx_reshape(g, x, 2, row));
    const rlx_value adjusted = build_masked(b, build_adjusted(b, logits));
    const rlx_value params = rlx_input(g, "sampling", RLX_F32, 2, four);
    const rlx_value seed = rlx_input(g, "seed", RLX_I64, 1, &b->batch);
    const rlx_value token = rlx_sample(g, adjusted, seed, params, NULL);
    rlx_output(g, "logits", logits);
    rlx_output(g, "adjusted", adjusted);
    rlx_output(g, "token", token);
    build_ranks(b, logits, token);
}
