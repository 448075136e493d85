/* SPDX-License-Identifier: MIT */
/* Recurrent networks (lstm, gru, rnn) and state space models (selective_scan, mamba2,
 * gated_delta_net) on GPUs. Results are computed in f32 and converted at the end where they are
 * smaller.
 *
 * A layer of a network is a product of all its inputs with w_ih, then either one dispatch in which
 * a workgroup loops over all tokens (small states) or one dispatch per token. */
#include <math.h>

#include "gpu/select/rows.h"
#include "gpu/select/walk.h"

/* Memory for n f32 elements of result i, whether or not it is used. */
typedef struct place {
    rx_gpu_ref ref;
    rlx_dtype type; /* RLX_NO_TYPE: zeros */
    int64_t at;     /* first element */
} place;

static place result_place(rx_gpu_build *b, const rx_gpu_call *c, size_t i, int64_t n)
{
    const rx_view *v = rx_gpu_out(c, i);
    place p = {.type = RLX_F32};
    p.ref = v ? rx_gpu_values(b, c, i) : rx_gpu_scratch(b, (uint64_t)n * 4);
    p.at = v && p.ref == RX_REF_OUT(i) ? rx_gpu_offset(v) : 0;
    return p;
}

static void pack_result(rx_gpu_build *b, const rx_gpu_call *c, size_t i, const place *from)
{
    const rx_view *v = rx_gpu_out(c, i);
    if (v && rx_view_elements(v))
        rx_gpu_pack_values(b, c, i, from->ref);
}

static place operand_place(const rx_gpu_call *c, size_t i)
{
    const rx_view *v = rx_gpu_in(c, i);
    if (!v)
        return (place){RX_REF_NONE, RLX_NO_TYPE, 0};
    return (place){RX_REF_IN(i), v->dtype, rx_gpu_offset(v)};
}

/* ---- Networks -------------------------------------------------------------------------------- */

/* Limit of gx of one piece of a sequence, unless a single token exceeds it. */
#define PIECE_BYTES ((int64_t)64 << 20)
/* Weights of a direction up to this size are read again for each token by one workgroup. */
#define PERSIST_BYTES ((int64_t)512 << 10)

enum { W_IH, W_HH, B_IH, B_HH, N_WEIGHTS };

/* lavapipe of Mesa 22 leaves loops after 65535 rounds of all of them together, of an invocation. */
#define SOFT_ROUNDS 60000

/* The shape of a workgroup of rnn.comp. */
typedef struct shape {
    bool persist;
    int64_t steps; /* of one dispatch */
    uint32_t local, lines, rows, units;
} shape;

typedef struct net {
    const rx_gpu_call *call;
    const rlx_rnn_desc *d;
    int64_t seq, batch, hidden, dirs, gates;
    rlx_dtype type; /* of x and the weights */
    int64_t piece;  /* tokens */
    shape shape;
    rx_gpu_ref gx;
} net;

/* A layer, or a piece of its sequence. */
typedef struct layer {
    int64_t index, inputs;
    place x, y, bias;           /* y: f32 */
    rx_gpu_ref wt;
    place now[2], last[2], spare[2][2]; /* states h and c: current, final, temporary */
    int64_t start, length;
} layer;

static int64_t state_size(const net *n) { return n->dirs * n->batch * n->hidden; }

static uint64_t shape_bytes(const net *n, const shape *s)
{
    uint64_t parts = s->local / s->lines;
    return (parts * (uint64_t)n->gates + 2) * s->units * s->rows * 4;
}

/* How many tokens a workgroup may walk over; 0: not even one. */
static int64_t persistent_steps(const net *n, const shape *s)
{
    const int64_t parts = s->local / s->lines, lines = s->lines;
    const int64_t gates = (n->gates * n->hidden + lines - 1) / lines;
    const int64_t units = (n->hidden * s->rows + s->local - 1) / s->local;
    const int64_t rounds = gates * ((n->hidden + 4 * parts - 1) / (4 * parts) + 1) +
                           units * (1 + n->gates * parts) + 1;
    return n->call->caps->is_software ? SOFT_ROUNDS / rounds : INT64_MAX;
}

static shape pick_shape(const net *n)
{
    const rx_gpu_caps *caps = n->call->caps;
    const bool soft = caps->is_software;
    const uint64_t lines = (uint64_t)(n->gates * n->hidden);
    const int64_t units = caps->compute_units ? caps->compute_units : 32;
    const int64_t bytes = n->gates * n->hidden * n->hidden * rlx_dtype_block_bytes(n->type);
    shape s = {.persist = soft || bytes <= PERSIST_BYTES, .units = (uint32_t)n->hidden};
    s.local = rx_gpu_local(caps, soft ? 32 : lines > 256 ? 512 : 256);
    s.lines = rx_pow2_up(lines) < s.local ? rx_pow2_up(lines) : s.local;
    s.rows = soft || n->batch * n->dirs > 2 * units ? rx_pow2_up((uint64_t)n->batch) : 1;
    s.rows = s.rows > 4 ? 4 : s.rows;
    while (s.rows > 1 && shape_bytes(n, &s) > caps->max_shared_bytes)
        s.rows /= 2;
    s.steps = persistent_steps(n, &s);
    if (s.persist && s.steps && shape_bytes(n, &s) <= caps->max_shared_bytes)
        return s;

    s.persist = false;
    s.steps = 1;
    s.local = rx_gpu_local(caps, soft ? 32 : 256);
    s.units = n->hidden * n->dirs >= 32 * units ? 32 : 16;
    s.lines = rx_pow2_up((uint64_t)n->gates * s.units);
    s.lines = s.lines > s.local ? s.local : s.lines;
    s.rows = rx_pow2_up((uint64_t)n->batch);
    s.rows = s.rows > 8 ? 8 : s.rows;
    while (s.rows > 1 && shape_bytes(n, &s) > caps->max_shared_bytes)
        s.rows /= 2;
    return s;
}

static void fill_transpose(rx_gpu_build *b, rx_gpu_dispatch *d, const net *n, size_t in,
                           rx_gpu_ref to)
{
    const rx_view *w = &n->call->in[in];
    const int64_t total = rx_view_elements(w);
    const uint64_t words = rx_words_of(w->dtype, total);
    const rx_args_rnn_weights a = {
        .bind = {.x = RX_REF_IN(in), .y = to},
        .spec = {.BITS = rx_bits_of(w->dtype)},
        .push = {.n_items = (uint32_t)words, .total = (uint32_t)total, .x_at = rx_gpu_offset(w),
                 .rows = (uint32_t)(n->gates * n->hidden), .cols = (uint32_t)n->hidden},
    };
    rx_set_rnn_weights(b, d, RX_K_rnn_weights, rx_flat_local(n->call->caps), &a);
    rx_flat_grid(d, n->call->caps, words);
}

/* w_hh with the gates of a unit adjacent: of a weight packed once. */
static rx_gpu_ref transpose_weights(rx_gpu_build *b, const net *n, size_t in)
{
    const rx_view *w = &n->call->in[in];
    const uint64_t bytes = rx_words_of(w->dtype, rx_view_elements(w)) * 4;
    rx_gpu_dispatch *d;
    if (n->call->is_param && n->call->is_param[in]) {
        rx_gpu_ref ref = rx_gpu_derive(b, (uint32_t)in, RX_K_rnn_weights, bytes, &d);
        fill_transpose(b, d, n, in, ref);
        return ref;
    }
    rx_gpu_ref ref = rx_gpu_scratch(b, bytes);
    d = rx_gpu_add(b, RX_K_rnn_weights, 64);
    fill_transpose(b, d, n, in, ref);
    return ref;
}

static size_t weight_index(const net *n, int64_t layer_index, size_t which)
{
    return 1 + (n->gates == 4 ? 2 : 1) + (size_t)layer_index * N_WEIGHTS + which;
}

/* gx [dirs][rows of the piece][gates * hidden] = x . w_ih + b_ih. A backward direction takes its
 * pieces from the end. */
static rlx_status multiply_inputs(rx_gpu_build *b, const net *n, const layer *l, int64_t dir)
{
    const rx_gpu_call *c = n->call;
    const size_t in = weight_index(n, l->index, W_IH);
    const int64_t width = n->gates * n->hidden;
    const bool first = n->d->batch_first, backward = dir == 1 || n->d->reverse;
    const int64_t token = backward ? n->seq - l->start - l->length : l->start;
    const int64_t rows = l->length * n->batch;
    rx_view out;
    rx_view_set_dense(&out, RLX_F32, 2, (const int64_t[]){rows, width});
    out.data = NULL;
    rx_product p = {.call = c, .a_ref = l->x.ref, .b_ref = RX_REF_IN(in), .a_type = n->type,
                    .b_type = n->type, .out = &out, .out_ref = n->gx,
                    .m = first ? l->length : rows, .n = width, .k = l->inputs, .a_m = l->inputs,
                    .a_k = 1, .b_n = l->inputs, .b_k = 1, .n_axes = 1,
                    .dim = {first ? n->batch : 1}, .a = {n->seq * l->inputs}};
    rx_product_set_bias(&p, weight_index(n, l->index, B_IH));
    p.bias_at += dir * width;
    p.bias_n = 1;
    p.a_at = l->x.at + token * l->inputs * (first ? 1 : n->batch);
    p.b_at = rx_gpu_offset(&c->in[in]) + dir * width * l->inputs;
    p.out_at = dir * rows * width;
    return rx_product_lower(b, &p);
}

/* Steps first .. first + n_steps - 1 of the piece; the states are written to `to`. */
static void add_steps(rx_gpu_build *b, const net *n, const layer *l, const int64_t steps[2],
                      const place to[2])
{
    const shape *s = &n->shape;
    const bool is_lstm = n->gates == 4, batch_first = n->d->batch_first;
    const int64_t units = s->units < n->hidden ? s->units : n->hidden;
    const uint64_t groups = rx_ceil_div((uint64_t)n->hidden, (uint64_t)units) *
                            rx_ceil_div((uint64_t)n->batch, s->rows) * (uint64_t)n->dirs;
    const rx_args_rnn a = {
        .bind = {.gx = n->gx, .wt = l->wt, .bias = l->bias.ref, .h0 = l->now[0].ref,
                 .c0 = l->now[1].ref, .y = l->y.ref, .hn = to[0].ref,
                 .cn = is_lstm ? to[1].ref : RX_REF_NONE},
        .spec = {.T = n->type, .TB = l->bias.type, .TH = l->now[0].type, .TC = l->now[1].type,
                 .GATES = (uint32_t)n->gates, .ROWS = s->rows, .THREADS = s->local,
                 .LINES = s->lines, .UNITS = s->units, .PERSIST = s->persist,
                 .RELU = n->d->relu},
        .push = {.n_items = (uint32_t)groups, .hidden = (uint32_t)n->hidden,
                 .batch = (uint32_t)n->batch, .seq = (uint32_t)n->seq, .units = (uint32_t)units,
                 .start = (uint32_t)l->start, .length = (uint32_t)l->length,
                 .first = (uint32_t)steps[0], .n_steps = (uint32_t)steps[1],
                 .reverse = n->d->reverse, .gx_t = batch_first ? 1 : (uint32_t)n->batch,
                 .gx_b = batch_first ? (uint32_t)l->length : 1,
                 .y_t = batch_first ? 1 : (uint32_t)n->batch,
                 .y_b = batch_first ? (uint32_t)n->seq : 1,
                 .gx_dir = (uint32_t)(l->length * n->batch * n->gates * n->hidden),
                 .width = (uint32_t)(n->dirs * n->hidden), .b_at = (uint32_t)l->bias.at,
                 .h_at = (uint32_t)l->now[0].at, .c_at = (uint32_t)l->now[1].at,
                 .y_at = (uint32_t)l->y.at, .h_to = (uint32_t)to[0].at,
                 .c_to = (uint32_t)to[1].at},
    };
    rx_gpu_grid(rx_add_rnn(b, RX_K_rnn, s->local, &a), n->call->caps, groups);
}

/* A piece of a layer, in one or more dispatches. */
static rlx_status add_piece(rx_gpu_build *b, const net *n, layer *l)
{
    for (int64_t dir = 0; dir < n->dirs && l->length; dir++)
        RLX_TRY(multiply_inputs(b, n, l, dir));
    int64_t at = 0;
    do {
        const int64_t left = l->length - at;
        const int64_t each = left < n->shape.steps ? left : n->shape.steps;
        const bool is_last = l->start + at + each >= n->seq;
        const place *to = is_last ? l->last : l->spare[0];
        if (!is_last && l->now[0].ref == l->spare[0][0].ref)
            to = l->spare[1];
        add_steps(b, n, l, (const int64_t[]){at, each}, to);
        l->now[0] = to[0];
        if (n->gates == 4)
            l->now[1] = to[1];
        at += each;
    } while (at < l->length);
    return b->status;
}

/* Sequences between layers have the type of the weights. */
static place pack_sequence(rx_gpu_build *b, const net *n, const place *y)
{
    const uint64_t total = (uint64_t)(n->seq * n->dirs * n->batch * n->hidden);
    const uint64_t words = rx_words_of(n->type, (int64_t)total);
    if (n->type == RLX_F32 || !total)
        return *y;
    place p = {rx_gpu_scratch(b, words * 4), n->type, 0};
    const rx_args_pack a = {
        .bind = {.x = y->ref, .y = p.ref},
        .spec = {.T = n->type},
        .push = {.n = (uint32_t)total},
    };
    rx_flat_grid(rx_add_pack(b, RX_K_pack_values, rx_gpu_local(n->call->caps, 256), &a),
                 n->call->caps, words);
    return p;
}

/* States of a layer: slices of the initial and of the final states. */
static void place_states(const net *n, layer *l, const place first[2], const place last[2])
{
    for (int i = 0; i < 2; i++) {
        l->now[i] = first[i];
        l->last[i] = last[i];
        l->now[i].at += l->index * state_size(n);
        l->last[i].at += l->index * state_size(n);
    }
}

static rlx_status add_layers(rx_gpu_build *b, const net *n, const place first[2],
                             const place last[2], const place *y)
{
    const rx_gpu_call *c = n->call;
    const int64_t total = n->seq * n->dirs * n->batch * n->hidden;
    layer l = {.x = operand_place(c, 0), .inputs = c->in[0].dim[2]};
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < (n->gates == 4 ? 2 : 1); k++)
            l.spare[i][k] = (place){rx_gpu_scratch(b, (uint64_t)state_size(n) * 4), RLX_F32, 0};
    for (; l.index < n->d->layers; l.index++) {
        l.wt = transpose_weights(b, n, weight_index(n, l.index, W_HH));
        l.bias = operand_place(c, weight_index(n, l.index, B_HH));
        l.y = *y;
        if (l.index + 1 < n->d->layers)
            l.y = (place){rx_gpu_scratch(b, (uint64_t)total * 4), RLX_F32, 0};
        place_states(n, &l, first, last);
        l.start = 0;
        do {
            l.length = n->seq - l.start < n->piece ? n->seq - l.start : n->piece;
            RLX_TRY(add_piece(b, n, &l));
            l.start += l.length;
        } while (l.start < n->seq);
        l.x = pack_sequence(b, n, &l.y);
        l.inputs = n->dirs * n->hidden;
    }
    return RLX_OK;
}

static rlx_status lower_net(rx_gpu_build *b, const rx_gpu_call *c, int64_t gates)
{
    const rlx_rnn_desc *d = c->attr;
    const rx_view *x = &c->in[0];
    net n = {.call = c, .d = d, .seq = x->dim[d->batch_first], .batch = x->dim[!d->batch_first],
             .hidden = d->hidden, .dirs = d->bidirectional ? 2 : 1, .gates = gates,
             .type = x->dtype};
    if (n.batch == 0 || n.hidden == 0)
        return RLX_OK;
    n.shape = pick_shape(&n);
    const int64_t token = n.dirs * n.batch * gates * n.hidden * 4;
    const int64_t limit = c->caps->max_binding_bytes < (uint64_t)PIECE_BYTES
                              ? (int64_t)c->caps->max_binding_bytes : PIECE_BYTES;
    n.piece = token < limit ? limit / token : 1;
    if (n.piece > n.seq)
        n.piece = n.seq;
    n.gx = rx_gpu_scratch(b, (uint64_t)(n.piece * token));

    const int64_t states = d->layers * state_size(&n);
    const place absent = {RX_REF_NONE, RLX_NO_TYPE, 0};
    const bool is_lstm = gates == 4;
    const place y = result_place(b, c, 0, n.seq * n.dirs * n.batch * n.hidden);
    const place first[2] = {operand_place(c, 1), is_lstm ? operand_place(c, 2) : absent};
    const place last[2] = {result_place(b, c, 1, states),
                           is_lstm ? result_place(b, c, 2, states) : absent};
    RLX_TRY(add_layers(b, &n, first, last, &y));
    pack_result(b, c, 0, &y);
    pack_result(b, c, 1, &last[0]);
    if (is_lstm)
        pack_result(b, c, 2, &last[1]);
    return RLX_OK;
}

rlx_status rx_gpu_lower_lstm(rx_gpu_build *b, const rx_gpu_call *c)
{
    return lower_net(b, c, 4);
}

rlx_status rx_gpu_lower_gru(rx_gpu_build *b, const rx_gpu_call *c)
{
    return lower_net(b, c, 3);
}

rlx_status rx_gpu_lower_rnn(rx_gpu_build *b, const rx_gpu_call *c)
{
    return lower_net(b, c, 1);
}

/* ---- State space models ---------------------------------------------------------------------- */

/* Elements of a state per invocation, in registers, where teams may be that large. */
#define STATE_EACH 16

/* Teams for channels with a state of n elements. */
typedef struct teams {
    uint32_t each, team, local;
} teams;

static teams make_teams(const rx_gpu_caps *caps, int64_t n)
{
    /* Small workgroups spread few channels over the device. */
    const uint32_t wish = caps->is_software ? 16 : 64;
    uint32_t team = rx_pow2_up(rx_ceil_div((uint64_t)n, STATE_EACH));
    uint32_t local = rx_gpu_local(caps, team > wish ? team : wish);
    team = team > local ? local : team;
    return (teams){n ? (uint32_t)rx_ceil_div((uint64_t)n, team) : 1, team, local};
}

/* The final state, result 1, is initialised from the first one, operand `in`, or with zeros. */
static place begin_state(rx_gpu_build *b, const rx_gpu_call *c, size_t in, int64_t n)
{
    const place from = operand_place(c, in), to = result_place(b, c, 1, n);
    if (n == 0)
        return to;
    const rx_args_widen a = {
        .bind = {.x = from.ref, .y = to.ref},
        .spec = {.T = from.type},
        .push = {.n_items = (uint32_t)n, .x_at = (uint32_t)from.at, .y_at = (uint32_t)to.at},
    };
    rx_flat_grid(rx_add_widen(b, RX_K_widen, rx_flat_local(c->caps), &a), c->caps, (uint64_t)n);
    return to;
}

static uint32_t type_of(const rx_gpu_call *c, size_t i)
{
    const rx_view *v = rx_gpu_in(c, i);
    return v ? v->dtype : RLX_NO_TYPE;
}

/* x, dt, a, b, c, skip?, first state? */
typedef struct ssm {
    int64_t batch, tokens, heads, width, groups, n;
    bool own_a;
} ssm;

static rlx_status lower_ssm(rx_gpu_build *b, const rx_gpu_call *c, const ssm *m)
{
    const int64_t channels = m->batch * m->heads * m->width;
    const place y = result_place(b, c, 0, channels * m->tokens);
    const place s = begin_state(b, c, 6, channels * m->n);
    if (channels * m->tokens > 0) {
        const teams t = make_teams(c->caps, m->n);
        place in[6];
        for (size_t i = 0; i < 6; i++)
            in[i] = operand_place(c, i);
        const rx_args_ssm a = {
            .bind = {.x = in[0].ref, .dt = in[1].ref, .a = in[2].ref, .b = in[3].ref,
                     .c = in[4].ref, .skip = in[5].ref, .y = y.ref, .state = s.ref},
            .spec = {.TYPES = type_of(c, 0) | type_of(c, 1) << 4 | type_of(c, 2) << 8 |
                              type_of(c, 3) << 12 | type_of(c, 5) << 16,
                     .OWN_A = m->own_a, .EACH = t.each, .TEAM = t.team, .THREADS = t.local},
            .push = {.n_items = (uint32_t)channels, .tokens = (uint32_t)m->tokens,
                     .heads = (uint32_t)m->heads, .width = (uint32_t)m->width,
                     .groups = (uint32_t)m->groups, .n = (uint32_t)m->n,
                     .x_at = (uint32_t)in[0].at, .dt_at = (uint32_t)in[1].at,
                     .a_at = (uint32_t)in[2].at, .b_at = (uint32_t)in[3].at,
                     .c_at = (uint32_t)in[4].at, .skip_at = (uint32_t)in[5].at,
                     .y_at = (uint32_t)y.at, .s_at = (uint32_t)s.at},
        };
        rx_gpu_grid(rx_add_ssm(b, RX_K_ssm, t.local, &a), c->caps,
                    rx_ceil_div((uint64_t)channels, t.local / t.team));
    }
    pack_result(b, c, 0, &y);
    pack_result(b, c, 1, &s);
    return b->status;
}

rlx_status rx_gpu_lower_selective_scan(rx_gpu_build *b, const rx_gpu_call *c)
{
    const rx_view *x = &c->in[0];
    return lower_ssm(b, c, &(ssm){.batch = x->dim[0], .tokens = x->dim[1], .heads = x->dim[2],
                                  .width = 1, .groups = 1, .n = c->in[2].dim[1], .own_a = true});
}

rlx_status rx_gpu_lower_mamba2(rx_gpu_build *b, const rx_gpu_call *c)
{
    const rx_view *x = &c->in[0];
    return lower_ssm(b, c, &(ssm){.batch = x->dim[0], .tokens = x->dim[1], .heads = x->dim[2],
                                  .width = x->dim[3], .groups = c->in[3].dim[2],
                                  .n = c->in[3].dim[3]});
}

rlx_status rx_gpu_lower_gated_delta_net(rx_gpu_build *b, const rx_gpu_call *c)
{
    const rx_view *q = &c->in[0], *v = &c->in[2], *gate = &c->in[3];
    const int64_t tokens = q->dim[1], heads = q->dim[2], n = q->dim[3], width = v->dim[3];
    const int64_t channels = q->dim[0] * heads * width;
    const place y = result_place(b, c, 0, channels * tokens);
    const place s = begin_state(b, c, 5, channels * n);
    if (channels * tokens > 0) {
        const teams t = make_teams(c->caps, n);
        const rx_args_delta_net a = {
            .bind = {.q = RX_REF_IN(0), .k = RX_REF_IN(1), .v = RX_REF_IN(2),
                     .gate = RX_REF_IN(3), .beta = RX_REF_IN(4), .y = y.ref, .state = s.ref},
            .spec = {.TYPES = q->dtype | gate->dtype << 4 | c->in[4].dtype << 8,
                     .OWN_GATE = gate->rank == 4, .EACH = t.each, .TEAM = t.team,
                     .THREADS = t.local},
            .push = {.n_items = (uint32_t)channels, .tokens = (uint32_t)tokens,
                     .heads = (uint32_t)heads, .width = (uint32_t)width, .n = (uint32_t)n,
                     .q_at = rx_gpu_offset(q), .k_at = rx_gpu_offset(&c->in[1]),
                     .v_at = rx_gpu_offset(v), .gate_at = rx_gpu_offset(gate),
                     .beta_at = rx_gpu_offset(&c->in[4]), .y_at = (uint32_t)y.at,
                     .s_at = (uint32_t)s.at, .scale = (float)(1 / sqrt((double)n))},
        };
        rx_gpu_grid(rx_add_delta_net(b, RX_K_delta_net, t.local, &a), c->caps,
                    rx_ceil_div((uint64_t)channels, t.local / t.team));
    }
    pack_result(b, c, 0, &y);
    pack_result(b, c, 1, &s);
    return b->status;
}
