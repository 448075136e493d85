/* SPDX-License-Identifier: MIT */
/* Graph builder of decoders: inputs, layers, and the output (logits, repetition penalty and
 * sampling, or scores). */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "import/file.h"
#include "model/adapter.h"
#include "model/build.h"

#define MAX_NAME 160 /* a name of tensors.def with its layer and a suffix */

/* Suffix of an expert bank that the file stores as one tensor per expert: the name is the first
 * one's. */
static const char stacked[] = ":experts";

/* ---- Params ---------------------------------------------------------------------------------- */

rlx_value rx_build_weight(rx_builder *b, const rx_layer *l, rx_role role)
{
    rlx_file_tensor t;
    if (!rx_facts_tensor(b->f, l, role, &t))
        return RLX_NONE;
    if (rx_learns_all(b))
        return rx_build_learned(b, l, role);
    const rlx_shape s = rx_facts_shape(b->f, l, role);
    if (!rx_facts_is_stack(b->f, role))
        return rlx_param(b->g, t.name, t.dtype, s.rank, s.dim);
    char name[MAX_NAME];
    snprintf(name, sizeof name, "%.140s%s", t.name, stacked);
    return rlx_param(b->g, name, t.dtype, s.rank, s.dim);
}

/* Suffixes of params that are converted to f32, some with a change. */
static const char *const in_f32[RX_N_CHANGES] = {":f32", ":1+f32", ":-exp"};

/* In training the graph applies the change, since the state is the file's vector. */
static rlx_value build_changed(rx_builder *b, rlx_value v, rx_change change)
{
    if (!v.id || change == RX_CHANGE_NONE)
        return v;
    return change == RX_CHANGE_ONE ? rlx_add(b->g, v, rlx_scalar(b->g, RLX_F32, 1))
                                   : rlx_neg(b->g, rlx_exp(b->g, v));
}

rlx_value rx_build_vector(rx_builder *b, const rx_layer *l, rx_role role)
{
    rlx_file_tensor t;
    char name[MAX_NAME];
    const rx_change change = rx_facts_change(b->f, role);
    if (rx_learns_all(b))
        return build_changed(b, rx_build_weight(b, l, role), change);
    if (!rx_facts_tensor(b->f, l, role, &t) || (t.dtype == RLX_F32 && change == RX_CHANGE_NONE))
        return rx_build_weight(b, l, role);
    const rlx_shape s = rx_facts_shape(b->f, l, role);
    snprintf(name, sizeof name, "%.140s%s", t.name, in_f32[change]);
    return rlx_param(b->g, name, RLX_F32, s.rank, s.dim);
}

rlx_value rx_build_product(rx_builder *b, rlx_value x, rlx_value w, rlx_value bias,
                           rlx_value residual)
{
    const rlx_matmul_desc turned = {RLX_INIT(rlx_matmul_desc), .trans_b = true};
    if (rx_learns_all(b))
        return rlx_matmul_ex(b->g, x, w, bias, residual, &turned);
    return rlx_dequant_matmul_ex(b->g, x, w, RLX_NONE, RLX_NONE, bias, residual, NULL);
}

rlx_value rx_build_grouped(rx_builder *b, rlx_value x, rlx_value bank, rlx_value ids)
{
    return rx_learns_all(b) ? rlx_grouped_matmul(b->g, x, bank, ids, true)
                            : rlx_dequant_grouped_matmul(b->g, x, bank, ids);
}

rlx_value rx_build_linear(rx_builder *b, const rx_layer *l, rlx_value x, rx_role weight,
                          rlx_value bias, rlx_value residual)
{
    const rlx_value w = rx_build_weight(b, l, weight);
    rx_build_noted(b, l, weight, x);
    return rx_build_adapted(b, l, weight, x, rx_build_product(b, x, w, bias, residual));
}

rlx_value rx_build_rms_norm(rx_builder *b, rlx_value x, rlx_value gamma)
{
    return rlx_rms_norm(b->g, x, gamma, &(rlx_norm_desc){RLX_INIT(rlx_norm_desc),
                                                         .eps = b->f->eps});
}

rlx_value rx_build_norm(rx_builder *b, const rx_layer *l, rlx_value x, rx_role weight, rx_role bias)
{
    const rlx_value gamma = rx_build_vector(b, l, weight);
    if (!(b->f->arch->parts & RX_HAS_LAYER_NORM))
        return rx_build_rms_norm(b, x, gamma);
    const rlx_value beta = bias < RX_N_ROLES ? rx_build_vector(b, l, bias) : RLX_NONE;
    return rlx_layer_norm(b->g, x, gamma, beta,
                          &(rlx_norm_desc){RLX_INIT(rlx_norm_desc), .eps = b->f->eps});
}

rlx_value rx_build_heads(rx_builder *b, rlx_value x, int64_t n, int64_t size)
{
    return rlx_reshape(b->g, x, 4, (rlx_dim[]){b->batch, b->seq, n, size});
}

const char *rx_build_name(const rx_builder *b, const rx_layer *l, const char *what,
                          char text[RX_STATE_NAME])
{
    snprintf(text, RX_STATE_NAME, "%s.%d", what, (int)(l - b->f->layer));
    return text;
}

/* ---- Layers ---------------------------------------------------------------------------------- */

/* Token embeddings: [B, S, width] in f32. */
static rlx_value build_embedding(rx_builder *b)
{
    rlx_graph *g = b->g;
    b->embed = rx_build_weight(b, NULL, RX_T_EMBED);
    rlx_value x = rlx_gather(g, b->embed, b->tokens, 0);
    if (rlx_value_dtype(g, x) != RLX_F32)
        x = rlx_cast(g, x, RLX_F32);
    if (b->f->embedding_scale != 1)
        x = rlx_mul(g, x, rlx_scalar(g, RLX_F32, b->f->embedding_scale));
    return x;
}

/* The last position of [B, S, n]. */
static rlx_value last_position(rx_builder *b, rlx_value x)
{
    return rlx_narrow(b->g, x, 1, rlx_dim_sub(b->g, b->seq, 1), 1);
}

/* The rows that get logits. */
static rlx_value last_rows(rx_builder *b, rlx_value x)
{
    return b->d->page ? rx_build_output_rows(b, x) : last_position(b, x);
}

/* x + scale * part, with the post norm of the part if there is one. */
static rlx_value add_part(rx_builder *b, const rx_layer *l, rlx_value x, rlx_value part,
                          rx_role post)
{
    if (l->parts & RX_HAS_POST_NORM)
        part = rx_build_rms_norm(b, part, rx_build_vector(b, l, post));
    if (b->f->residual_scale != 1)
        part = rlx_mul(b->g, part, rlx_scalar(b->g, RLX_F32, b->f->residual_scale));
    return rlx_add(b->g, x, part);
}

/* Whether the residual can be an epilogue of the last product: no post norm, no scale. */
static bool adds_as_it_is(const rx_builder *b, const rx_layer *l)
{
    return !(l->parts & RX_HAS_POST_NORM) && b->f->residual_scale == 1;
}

/* Only the last position predicts the next token: in the last layer, the others are dropped once
 * keys and values are cached. *h is the input of attention. */
static rlx_value build_attention_part(rx_builder *b, const rx_layer *l, rlx_value x, rlx_value *h)
{
    const rx_role out = l->parts & RX_HAS_DELTA ? RX_T_DELTA_OUT : RX_T_O;
    const rlx_value bias = rx_build_vector(b, l, RX_T_O_BIAS);
    *h = l->parts & RX_HAS_PRE_NORM
             ? rx_build_norm(b, l, x, RX_T_ATTN_NORM, RX_T_ATTN_NORM_BIAS) : x;
    rlx_value y = rx_build_attention(b, l, *h);
    if (!b->d->scores && !rx_is_cacheless(b) && l == &b->f->layer[b->f->layers - 1]) {
        x = last_rows(b, x);
        y = last_rows(b, y);
        if (l->parts & RX_HAS_PARALLEL)
            *h = last_rows(b, *h);
        b->batch = rlx_value_shape(b->g, x).dim[0];
        b->seq = 1;
        b->rows = b->batch;
        b->at_outputs = true;
    }
    if (adds_as_it_is(b, l))
        return rx_build_linear(b, l, y, out, bias, x);
    const rlx_value o = rx_build_linear(b, l, y, out, bias, RLX_NONE);
    return add_part(b, l, x, o, RX_T_POST_ATTN_NORM);
}

static rlx_value build_ffn_part(rx_builder *b, const rx_layer *l, rlx_value x)
{
    const rx_role norm = l->parts & RX_HAS_NEXT_NORM ? RX_T_NEXT_NORM : RX_T_FFN_NORM;
    const rlx_value y = l->parts & (RX_HAS_FFN_NORM | RX_HAS_NEXT_NORM)
                            ? rx_build_norm(b, l, x, norm, RX_N_ROLES) : x;
    if (adds_as_it_is(b, l))
        return rx_build_ffn(b, l, y, x);
    return add_part(b, l, x, rx_build_ffn(b, l, y, RLX_NONE), RX_T_POST_FFN_NORM);
}

static rlx_value build_layer(rx_builder *b, const rx_layer *l, rlx_value x)
{
    if (l->parts & RX_HAS_MAMBA) {
        const rlx_value gamma = rx_build_vector(b, l, RX_T_ATTN_NORM);
        return rx_build_mamba(b, l, rx_build_rms_norm(b, x, gamma), x);
    }
    rlx_value h;
    x = build_attention_part(b, l, x, &h);
    return l->parts & RX_HAS_PARALLEL ? rx_build_ffn(b, l, h, x) : build_ffn_part(b, l, x);
}

/* ---- After the layers ------------------------------------------------------------------------ */

rlx_value rx_build_logits(rx_builder *b, rlx_value x)
{
    rlx_graph *g = b->g;
    const rlx_value bias = rx_build_vector(b, NULL, RX_T_OUTPUT_BIAS);
    rlx_value w = rx_build_weight(b, NULL, RX_T_OUTPUT);
    const bool tied = !w.id;
    if (tied)
        w = b->embed;
    x = rx_build_norm(b, NULL, x, RX_T_OUT_NORM, RX_T_OUT_NORM_BIAS);
    rx_build_noted(b, NULL, tied ? RX_T_EMBED : RX_T_OUTPUT, x);
    x = rx_build_adapted(b, NULL, RX_T_OUTPUT, x, rx_build_product(b, x, w, bias, RLX_NONE));
    if (b->f->logit_scale != 1)
        x = rlx_mul(g, x, rlx_scalar(g, RLX_F32, b->f->logit_scale));
    if (b->f->final_cap > 0) {
        const rlx_value cap = rlx_scalar(g, RLX_F32, b->f->final_cap);
        x = rlx_mul(g, rlx_tanh(g, rlx_div(g, x, cap)), cap);
    }
    return x;
}

/* Repetition penalty: divides positive logits of recent tokens and multiplies negative ones. A
 * token that occurs twice is penalised once, since both writes are equal. Without recent tokens
 * this folds to a copy. */
static rlx_value build_penalty(rx_builder *b, rlx_value logits)
{
    rlx_graph *g = b->g;
    const rlx_dim row[] = {b->batch, rlx_dim_named(g, "recent", RX_RECENT)};
    const rlx_value recent = rlx_input(g, "recent", RLX_I32, 2, row);
    const rlx_value penalty = rlx_input(g, "penalty", RLX_F32, 0, NULL);
    const rlx_value old = rlx_gather_elements(g, logits, recent, 1);
    const rlx_value positive = rlx_gt(g, old, rlx_scalar(g, RLX_F32, 0));
    const rlx_value now = rlx_where(g, positive, rlx_div(g, old, penalty),
                                    rlx_mul(g, old, penalty));
    return rlx_scatter_elements(g, logits, recent, now, 1, RLX_SCATTER_NONE);
}

/* The next token from the last position of x [B, S, width]. */
static void build_sampling(rx_builder *b, rlx_value x)
{
    rlx_graph *g = b->g;
    const rlx_dim row[] = {b->batch, b->f->width}, four[] = {4};
    const rlx_value logits = rx_build_logits(b, rlx_reshape(g, last_position(b, x), 2, row));
    rlx_output(g, "logits", logits);
    const rlx_value penalised = build_penalty(b, logits);
    const rlx_value params = rlx_input(g, "sampling", RLX_F32, 1, four);
    const rlx_value seed = rlx_input(g, "seed", RLX_I64, 0, NULL);
    rlx_output(g, "token", rlx_sample(g, penalised, seed, params, NULL));
}

/* Log softmax at the targets as logit minus log-sum-exp: the logits stay the only [B, S,
 * vocabulary] tensor. */
static void build_scores(rx_builder *b, rlx_value x)
{
    rlx_graph *g = b->g;
    const rlx_dim token[] = {b->batch, b->seq}, column[] = {b->batch, b->seq, 1};
    const int64_t axis = 2;
    const rlx_value targets = rlx_input(g, "targets", RLX_I32, 2, token);
    const rlx_value logits = rx_build_logits(b, x);
    const rlx_value at = rlx_gather_elements(g, logits, rlx_reshape(g, targets, 3, column), 2);
    const rlx_value sum = rlx_reduce(g, RLX_REDUCE_LOG_SUM_EXP, logits, &axis, 1, true);
    rlx_output(g, "scores", rlx_reshape(g, rlx_sub(g, at, sum), 2, token));
}

/* ---- Inputs and the graph
 * --------------------------------------------------------------------- */

static void build_decoder_inputs(rx_builder *b)
{
    rlx_graph *g = b->g;
    const rlx_dim token[] = {b->batch, b->seq}, column[] = {b->batch, 1};
    b->positions = rlx_input(g, "positions", RLX_I32, 2, token);
    b->places = rlx_input(g, "places", RLX_I32, 1, &b->rows);
    if (b->d->sequences > 1)
        b->slots = rlx_input(g, "slots", RLX_I32, 2, column);
    if (b->f->arch->parts & RX_HAS_RECURRENT) {
        const rlx_value first = rlx_narrow(g, b->positions, 1, 0, 1);
        const rlx_value zero = rlx_scalar(g, RLX_I32, 0);
        b->fresh = rlx_eq(g, rlx_reshape(g, first, 1, &b->batch), zero);
    }
}

/* The input of the first layer. Tied models use the embedding table for the logits, too. */
static rlx_value build_first(rx_builder *b)
{
    const rlx_dim hidden[] = {b->batch, b->seq, b->f->width};
    rlx_file_tensor t;
    if (!b->d->begin)
        return build_embedding(b);
    if (!rx_facts_tensor(b->f, NULL, RX_T_OUTPUT, &t))
        b->embed = rx_build_weight(b, NULL, RX_T_EMBED);
    return rlx_input(b->g, "hidden", RLX_F32, 3, hidden);
}

static void build_decoder(rx_builder *b)
{
    const int64_t end = b->d->end ? b->d->end : b->f->layers;
    if (!b->d->page && !rx_is_cacheless(b))
        build_decoder_inputs(b);
    rlx_value x = build_first(b);
    for (int64_t i = b->d->begin; i < end; i++)
        x = build_layer(b, &b->f->layer[i], x);
    if (b->d->end)
        rlx_output(b->g, "hidden", x);
    else if (b->d->page)
        rx_build_row_heads(b, x);
    else if (b->d->train)
        rx_build_loss(b, x);
    else if (b->d->embed)
        rlx_output(b->g, "hidden", rx_build_norm(b, NULL, x, RX_T_OUT_NORM, RX_T_OUT_NORM_BIAS));
    else if (b->d->scores)
        build_scores(b, x);
    else
        build_sampling(b, x);
}

static void build_inputs(rx_builder *b)
{
    rlx_graph *g = b->g;
    const rx_build_desc *d = b->d;
    b->batch = d->sequences > 1 ? rlx_dim_named(g, "batch", d->sequences) : 1;
    b->seq = rlx_dim_named(g, "seq", d->prompt_chunk);
    b->rows = rlx_dim_mul(g, b->batch, b->seq);
    const rlx_dim token[] = {b->batch, b->seq};
    if (!d->begin)
        b->tokens = rlx_input(g, "tokens", RLX_I32, 2, token);
    if (d->embed)
        b->positions = rlx_input(g, "positions", RLX_I32, 2, token);
    else
        b->lengths = rlx_input(g, "lengths", RLX_I32, 1, &b->batch);
}

static void build_all(rx_builder *b)
{
    if (b->d->page)
        rx_build_row_inputs(b);
    else if (b->d->train)
        rx_build_train_inputs(b);
    else
        build_inputs(b);
    rx_build_rope_tables(b);
    if (b->f->arch->parts & RX_HAS_DECODER)
        build_decoder(b);
    else if (b->d->train)
        rx_build_contrast(b, rx_build_encoder(b));
    else
        rlx_output(b->g, "hidden", rx_build_encoder(b));
}

static rlx_status check_rows(const rx_facts *f, const rx_build_desc *d, rlx_error *err)
{
    if (!d->page)
        return RLX_OK;
    if (!(f->arch->parts & RX_HAS_DECODER) || f->arch->parts & RX_HAS_RECURRENT)
        return rx_fail(err, RLX_UNSUPPORTED, "an engine needs a decoder whose memory is a K/V "
                       "cache; architecture '%s' is none", f->arch->name);
    if (f->arch->chunked && f->window > 0 && d->context > f->window)
        return rx_fail(err, RLX_UNSUPPORTED, "an engine runs architecture '%s' with a context up "
                       "to the %lld tokens of a chunk of its attention, got %lld", f->arch->name,
                       (long long)f->window, (long long)d->context);
    if (d->page < 1 || d->pages < 1 || d->pages > INT32_MAX / d->page || d->rows < 1 ||
        d->outputs < 1)
        return rx_fail(err, RLX_INVALID, "expected 1 or more rows, outputs and pages, up to 2^31 "
                       "tokens in all, got %lld, %lld and %lld of %lld tokens", (long long)d->rows,
                       (long long)d->outputs, (long long)d->pages, (long long)d->page);
    return RLX_OK;
}

/* Checks limits; cache rows are indexed by i32. */
static rlx_status check_desc(const rx_facts *f, const rx_build_desc *d, rlx_error *err)
{
    const int64_t most = f->positions > 0 ? f->positions - f->first_position : INT32_MAX;
    if (d->sequences < 1 || d->context < 1 || d->sequences > INT32_MAX / d->context)
        return rx_fail(err, RLX_INVALID, "expected 1 or more sequences and tokens of context, up "
                       "to 2^31 together, got %lld and %lld", (long long)d->sequences,
                       (long long)d->context);
    if (d->prompt_chunk < 1 || d->prompt_chunk > d->context || d->prompt_chunk > most)
        return rx_fail(err, RLX_INVALID, "expected a prompt_chunk from 1 to %lld tokens, got %lld",
                       (long long)(most < d->context ? most : d->context),
                       (long long)d->prompt_chunk);
    if (d->begin < 0 || d->begin >= f->layers || d->end < 0 || d->end > f->layers ||
        ((d->begin || d->end) && !(f->arch->parts & RX_HAS_DECODER)))
        return rx_fail(err, RLX_INVALID, "expected layers of a decoder with %lld, got %lld to %lld",
                       (long long)f->layers, (long long)d->begin, (long long)d->end);
    if (d->cache != RLX_F16 && d->cache != RLX_F32 && d->cache != RLX_Q8_0)
        return rx_fail(err, RLX_INVALID, "expected a cache of type f16, f32 or q8_0, got %s",
                       rlx_dtype_name(d->cache));
    return RLX_OK;
}

rlx_status rx_arch_build(const rx_facts *f, const rx_build_desc *d, rlx_graph **out,
                         rlx_error *err)
{
    *out = NULL;
    RLX_TRY(check_desc(f, d, err));
    RLX_TRY(check_rows(f, d, err));
    rlx_graph *g = rlx_graph_create(f->arch->name);
    if (!g)
        return rx_fail_memory(err, "a graph", 1);
    rlx_status st = RLX_OK;
    rx_builder b = {.f = f, .d = d, .g = g};
    if (d->train && (b.trained = rx_alloc_array(rx_most_trained(f), sizeof *b.trained)) == NULL)
        st = rx_fail_memory(err, "the list of what learns", sizeof *b.trained);
    if (st == RLX_OK) {
        build_all(&b);
        st = rlx_graph_status(g, err);
    }
    rx_free(b.trained);
    if (st != RLX_OK) {
        rlx_graph_destroy(g);
        return st;
    }
    *out = g;
    return RLX_OK;
}

rlx_status rx_facts_floats(const rx_facts *f, const rlx_file_tensor *t, float *out, int64_t n,
                           rlx_error *err)
{
    const void *data;
    void *owned;
    RLX_TRY(rx_file_load(f->file, t, &data, &owned, err));
    const rlx_status st = rlx_to_float(t->dtype, data, out, n);
    rx_free(owned);
    return st == RLX_OK ? st
                        : rx_fail(err, st, "tensor '%.80s' could not be read as floats", t->name);
}

/* Tensor `name` without its suffix, converted to f32 and changed. */
static rlx_status convert(const rx_facts *f, const char *name, rx_change change, float **data,
                          size_t *bytes, rlx_error *err)
{
    char file_name[MAX_NAME];
    rlx_file_tensor t;
    const size_t length = strlen(name) - strlen(in_f32[change]);
    snprintf(file_name, sizeof file_name, "%.*s", (int)length, name);
    RLX_TRY(rlx_file_get_tensor(f->file, file_name, &t, err));
    uint64_t n = 1;
    for (int i = 0; i < t.shape.rank; i++)
        if (!rx_mul_size(n, (uint64_t)t.shape.dim[i], &n) || n > SIZE_MAX / sizeof **data)
            return rx_fail(err, RLX_INVALID, "tensor '%s' is too large", file_name);
    *bytes = (size_t)n * sizeof **data;
    *data = rx_alloc(*bytes);
    if (!*data)
        return rx_fail_memory(err, name, *bytes);
    rlx_status st = rx_facts_floats(f, &t, *data, (int64_t)n, err);
    if (st != RLX_OK)
        rx_free(*data);
    for (uint64_t i = 0; st == RLX_OK && change != RX_CHANGE_NONE && i < n; i++)
        (*data)[i] = change == RX_CHANGE_ONE ? 1 + (*data)[i] : -expf((*data)[i]);
    return st;
}

static bool ends_in(const char *name, const char *end)
{
    const size_t n = strlen(name), m = strlen(end);
    return n > m && strcmp(name + n - m, end) == 0;
}

/* Concatenates the tensors of all experts; `name` is that of the first, with its suffix. */
static rlx_status stack(const rx_facts *f, const char *name, void **data, size_t *bytes,
                        rlx_error *err)
{
    char one[MAX_NAME];
    const char *first = strstr(name, ".experts.0."), *end = strstr(name, stacked);
    rlx_file_tensor t;
    uint64_t all = 0, size = 0;
    char *out = NULL;
    rlx_status st = RLX_OK;
    if (!first || !end)
        return rx_fail(err, RLX_NOT_FOUND, "the model has no tensor '%.200s'", name);
    for (int64_t e = 0; e < f->experts && st == RLX_OK; e++) {
        const void *from;
        void *owned = NULL;
        snprintf(one, sizeof one, "%.*s.experts.%lld%.*s", (int)(first - name), name, (long long)e,
                 (int)(end - first - 10), first + 10);
        st = rlx_file_get_tensor(f->file, one, &t, err);
        if (st == RLX_OK && !out) {
            size = t.bytes;
            if (!rx_mul_size(size, (uint64_t)f->experts, &all) || (out = rx_alloc(all)) == NULL)
                st = rx_fail_memory(err, name, size);
        }
        if (st == RLX_OK && t.bytes != size)
            st = rx_fail(err, RLX_INVALID, "tensor '%s' has another size than the first", one);
        if (st == RLX_OK)
            st = rx_file_load(f->file, &t, &from, &owned, err);
        if (st == RLX_OK)
            memcpy(out + (uint64_t)e * size, from, (size_t)size);
        rx_free(owned);
    }
    if (st != RLX_OK) {
        rx_free(out);
        return st;
    }
    *data = out;
    *bytes = (size_t)all;
    return RLX_OK;
}

/* Makes the data of a param that is not a tensor of the file. */
static rlx_status make_param(const rx_facts *f, const rx_build_desc *d, const char *name,
                             void **data, size_t *bytes, rlx_error *err)
{
    float *made = NULL;
    if (ends_in(name, stacked))
        return stack(f, name, data, bytes, err);
    for (int c = 0; c < RX_N_CHANGES && !made; c++)
        if (ends_in(name, in_f32[c]))
            RLX_TRY(convert(f, name, (rx_change)c, &made, bytes, err));
    if (!made)
        RLX_TRY(rx_rope_table(f, d, name, &made, bytes, err));
    *data = made;
    return RLX_OK;
}

rlx_status rx_arch_param(const rx_facts *f, const rx_build_desc *d, const char *name,
                         const void **data, size_t *bytes, bool *owned, rlx_error *err)
{
    rlx_file_tensor t;
    *owned = false;
    if (rlx_file_find_tensor(f->file, name, &t)) {
        void *read;
        RLX_TRY(rx_file_load(f->file, &t, data, &read, err));
        *owned = read != NULL;
        *bytes = t.bytes;
        return RLX_OK;
    }
    void *made;
    RLX_TRY(rx_lora_param(d->lora, name, &made, bytes, err));
    if (!made)
        RLX_TRY(make_param(f, d, name, &made, bytes, err));
    *data = made;
    *owned = true;
    return RLX_OK;
}
