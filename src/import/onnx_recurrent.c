/* SPDX-License-Identifier: MIT */
/* RNN, LSTM and GRU of ONNX: as one rlx operation where that is equivalent, else unrolled. */
#include <string.h>

#include "import/onnx_build.h"
#include "ir/graph.h"

#define MAX_STEPS 4096

typedef enum cell { CELL_RNN = 1, CELL_LSTM = 4, CELL_GRU = 3 } cell;

typedef struct recurrent {
    cell kind;              /* the enum value is the number of gates */
    rlx_value x;            /* [S, B, I] */
    rlx_value w, r, b;      /* [dirs, gates * H, ..]; b? [dirs, 2 * gates * H] */
    rlx_value lengths;      /* ? i64 [B] */
    rlx_value h, c, p;      /* ? first states [dirs, B, H], peepholes [dirs, 3 * H] */
    rlx_dim steps, batch, hidden;
    int dirs;
    bool backward, by_batch, reset_after;
    bool input_forget;      /* the forget gate is 1 - the input gate */
    double clip;
    rlx_value scale[2], zero[2]; /* of 8-bit w and r, [dirs] or [dirs, gates * H]; or none */
} recurrent;

/* ---- Reading --------------------------------------------------------------------------------- */

static rlx_value swap_first(rx_onnx_call *c, rlx_value v)
{
    static const int perm[RLX_MAX_RANK] = {1, 0, 2};
    return v.id ? rlx_transpose(c->g, v, perm) : v;
}

/* Whether every sequence is known to have all steps; also when there are no lengths. */
static bool all_full(rx_onnx_call *c, const recurrent *r)
{
    if (!r->lengths.id)
        return true;
    const int32_t *n = rlx_value_dtype(c->g, r->lengths) == RLX_I32
                           ? rx_onnx_value_data(c->b, r->lengths) : NULL;
    bool full = n != NULL;
    for (int64_t i = 0; full && i < rx_onnx_elements(c, r->lengths); i++)
        full = n[i] == r->steps;
    return full;
}

/* Weights that are put together from others, as exporters of PyTorch do, are computed once. */
static rlx_value weight(rx_onnx_call *c, size_t i)
{
    const rlx_value v = rx_onnx_in(c, i);
    return v.id ? rx_onnx_computed_weight(c, v) : v;
}

static bool read_recurrent(rx_onnx_call *c, cell kind, recurrent *r)
{
    *r = (recurrent){.kind = kind, .x = rx_onnx_in(c, 0), .w = weight(c, 1), .r = weight(c, 2),
                     .b = rx_onnx_in(c, 3), .lengths = rx_onnx_in(c, 4),
                     .h = rx_onnx_in(c, 5), .by_batch = rx_onnx_int(c, "layout", 0),
                     .backward = rx_onnx_is(c, "direction", "reverse", "forward"),
                     .input_forget = rx_onnx_int(c, "input_forget", 0),
                     .clip = rx_onnx_float(c, "clip", 0),
                     .reset_after = rx_onnx_int(c, "linear_before_reset", 0)};
    if (kind == CELL_LSTM) {
        r->c = rx_onnx_in(c, 6);
        r->p = rx_onnx_in(c, 7);
    }
    for (int i = 0; i < 2 && kind == CELL_LSTM && rx_onnx_in(c, 8).id; i++) {
        r->scale[i] = rx_onnx_in(c, 8 + 2 * (size_t)i);
        r->zero[i] = rx_onnx_in(c, 9 + 2 * (size_t)i);
    }
    if (r->by_batch) {
        r->x = swap_first(c, r->x);
        r->h = swap_first(c, r->h);
        r->c = swap_first(c, r->c);
    }
    const rlx_shape x = rlx_value_shape(c->g, r->x), w = rlx_value_shape(c->g, r->r);
    if (x.rank != 3 || w.rank != 3 || (r->scale[0].id && !r->scale[1].id)) {
        rx_onnx_fail(c, RLX_INVALID, "expected operands of 3 dimensions");
        return false;
    }
    r->steps = x.dim[0];
    r->batch = x.dim[1];
    r->hidden = r->scale[0].id ? w.dim[1] : w.dim[2];
    r->dirs = (int)w.dim[0];
    r->lengths = all_full(c, r) ? RLX_NONE : rlx_cast(c->g, r->lengths, RLX_I64);
    return r->dirs == 1 || r->dirs == 2;
}

/* ---- Activations ----------------------------------------------------------------------------- */

#define ACTIVATIONS(X) \
    X(Sigmoid, 0, 0, 0, rlx_sigmoid(g, x)) \
    X(Tanh, 0, 0, 0, rlx_tanh(g, x)) \
    X(Relu, 0, 0, 0, rlx_relu(g, x)) \
    X(Softsign, 0, 0, 0, rlx_softsign(g, x)) \
    X(Softplus, 0, 0, 0, rlx_softplus(g, x)) \
    X(LeakyRelu, 1, 0.01, 0, rlx_leaky_relu(g, x, a)) \
    X(ThresholdedRelu, 1, 1, 0, rlx_thresholded_relu(g, x, a)) \
    X(Elu, 1, 1, 0, rlx_elu(g, x, a)) \
    X(HardSigmoid, 2, 0.2, 0.5, rlx_hard_sigmoid(g, x, a, b)) \
    X(Affine, 2, 1, 0, rlx_add(g, rlx_mul(g, x, scalar_like(g, x, a)), scalar_like(g, x, b))) \
    X(ScaledTanh, 2, 1, 1, \
      rlx_mul(g, rlx_tanh(g, rlx_mul(g, x, scalar_like(g, x, b))), scalar_like(g, x, a)))

static rlx_value scalar_like(rlx_graph *g, rlx_value x, double v)
{
    return rlx_scalar(g, rlx_value_dtype(g, x), v == RLX_ZERO ? 0 : v);
}

typedef struct activation {
    const char *name;
    int n_parameters; /* 0: none, 1: alpha, 2: alpha and beta */
    double alpha, beta;
    rlx_value (*apply)(rlx_graph *g, rlx_value x, double a, double b);
} activation;

#define X(name, n, alpha, beta, expression) \
    static rlx_value apply_##name(rlx_graph *g, rlx_value x, double a, double b) \
    { \
        (void)a, (void)b; \
        return expression; \
    }
ACTIVATIONS(X)
#undef X

static const activation activations[] = {
#define X(name, n, alpha, beta, expression) {#name, n, alpha, beta, apply_##name},
    ACTIVATIONS(X)
#undef X
};

static int functions_of(const recurrent *r) /* activations of a direction */
{
    return r->kind == CELL_LSTM ? 3 : r->kind == CELL_GRU ? 2 : 1;
}

/* The name of activation k of all directions, by attribute or default. */
static rx_bytes function_name(const rx_onnx_call *c, const recurrent *r, size_t k)
{
    static const rx_bytes sigmoid = {"Sigmoid", 7}, tanh = {"Tanh", 4};
    const rx_onnx_attr *a = rx_onnx_attr_find(c, "activations");
    const size_t per = (size_t)functions_of(r);
    if (a && a->type == RX_ONNX_STRINGS && k < a->n)
        return a->strings[k];
    return per > 1 && k % per == 0 ? sigmoid : tanh;
}

static bool is_named(rx_bytes name, const char *text)
{
    return name.bytes == strlen(text) && !memcmp(name.data, text, name.bytes);
}

static bool has_default_functions(const rx_onnx_call *c, const recurrent *r)
{
    const int per = functions_of(r);
    bool plain = true;
    for (int k = 0; k < r->dirs * per; k++)
        plain = plain && is_named(function_name(c, r, (size_t)k),
                                  per > 1 && k % per == 0 ? "Sigmoid" : "Tanh");
    return plain;
}

static const activation *find_activation(rx_bytes name)
{
    for (size_t i = 0; i < sizeof activations / sizeof activations[0]; i++)
        if (is_named(name, activations[i].name))
            return &activations[i];
    return NULL;
}

/* Parameter `at` of those that the attribute lists, or its default; an explicit 0 is RLX_ZERO. */
static double parameter(const rx_onnx_call *c, const char *name, size_t at, double absent)
{
    const rx_onnx_attr *a = rx_onnx_attr_find(c, name);
    if (!a || a->type != RX_ONNX_FLOATS || at >= a->n)
        return absent;
    return a->floats[at] == 0 ? RLX_ZERO : (double)a->floats[at];
}

/* Applies activation k of a direction. The lists activation_alpha and activation_beta have a number
 * for each activation that takes one. */
static rlx_value activate(rx_onnx_call *c, const recurrent *r, int dir, rlx_value v, int k)
{
    const size_t at = (size_t)(dir * functions_of(r) + k);
    const rx_bytes name = function_name(c, r, at);
    const activation *a = find_activation(name);
    size_t n_alpha = 0, n_beta = 0;
    if (!a)
        return rx_onnx_fail(c, RLX_UNSUPPORTED, "activation '%.*s' is not known",
                            (int)(name.bytes < 40 ? name.bytes : 40), (const char *)name.data);
    for (size_t i = 0; i < at; i++) {
        const activation *before = find_activation(function_name(c, r, i));
        n_alpha += before && before->n_parameters > 0;
        n_beta += before && before->n_parameters > 1;
    }
    return a->apply(c->g, v, parameter(c, "activation_alpha", n_alpha, a->alpha),
                    parameter(c, "activation_beta", n_beta, a->beta));
}

/* ---- As one operation ------------------------------------------------------------------------ */

/* A copy of a weight with reordered gates; RLX_NONE: v is no weight, or above
 * RX_ONNX_MAX_COPIED. */
static rlx_value copy_gates(rx_onnx_call *c, const recurrent *r, rlx_value v, const int *order)
{
    const rlx_shape s = rlx_value_shape(c->g, v);
    const rlx_dtype t = rlx_value_dtype(c->g, v);
    const char *from = rx_onnx_weight_data(c->b, v);
    const uint64_t bytes = rx_value_bytes(c->g, v.id);
    const uint64_t gates = (uint64_t)r->kind, n = s.rank ? (uint64_t)s.dim[0] * gates : 0;
    if (!from || !n || !bytes || bytes % n || s.rank < 2 ||
        s.dim[1] != (int64_t)gates * r->hidden || bytes > RX_ONNX_MAX_COPIED - c->b->n_copied)
        return RLX_NONE;
    const uint64_t part = bytes / n;
    char *to = rx_arena_alloc(&c->b->m->arena, bytes);
    rlx_value y = RLX_NONE;
    if (!to)
        return rx_onnx_fail(c, RLX_NO_MEMORY, "out of memory");
    c->b->n_copied += bytes;
    for (uint64_t i = 0; i < n; i++)
        memcpy(to + i * part, from + (i / gates * gates + (uint64_t)order[i % gates]) * part,
               part);
    if (rx_onnx_add_param(c->b, "", t, &s, (rx_bytes){to, bytes}, &y) != RLX_OK)
        return RLX_NONE;
    return y;
}

/* Gates of axis 1 in the order of rlx: lstm i,o,f,c -> i,f,c,o; gru z,r,h -> r,z,h. */
static rlx_value order_gates(rx_onnx_call *c, const recurrent *r, rlx_value v)
{
    static const int lstm[4] = {0, 2, 3, 1}, gru[3] = {1, 0, 2};
    const int *order = r->kind == CELL_LSTM ? lstm : gru;
    rlx_value parts[4];
    if (!v.id || r->kind == CELL_RNN)
        return v;
    const rlx_value copied = copy_gates(c, r, v, order);
    if (copied.id || c->b->status != RLX_OK)
        return copied;
    for (int i = 0; i < (int)r->kind; i++)
        parts[i] = rlx_narrow(c->g, v, 1, order[i] * r->hidden, r->hidden);
    return rlx_concat(c->g, parts, (size_t)r->kind, 1);
}

static bool is_plain(rx_onnx_call *c, const recurrent *r)
{
    return !r->lengths.id && !r->p.id && r->clip == 0 && !r->scale[0].id && !r->input_forget &&
           has_default_functions(c, r) && !(r->kind == CELL_GRU && !r->reset_after);
}

static rlx_value run_plain(rx_onnx_call *c, const recurrent *r, rlx_value last[2])
{
    const rlx_dim half = r->kind * r->hidden;
    rlx_rnn_layer layer = {.w_ih = order_gates(c, r, r->w), .w_hh = order_gates(c, r, r->r)};
    const rlx_rnn_desc d = {RLX_INIT(rlx_rnn_desc), .bidirectional = r->dirs == 2,
                            .reverse = r->backward};
    if (r->b.id) {
        layer.b_ih = order_gates(c, r, rlx_narrow(c->g, r->b, 1, 0, half));
        layer.b_hh = order_gates(c, r, rlx_narrow(c->g, r->b, 1, half, half));
    }
    const rlx_value init[2] = {r->h, r->c};
    const rlx_value y = r->kind == CELL_LSTM ? rlx_lstm(c->g, r->x, &layer, init, &d, last)
                        : r->kind == CELL_GRU ? rlx_gru(c->g, r->x, &layer, r->h, &d, &last[0])
                                              : rlx_rnn(c->g, r->x, &layer, r->h, &d, &last[0]);
    const rlx_dim dims[4] = {r->steps, r->batch, r->dirs, r->hidden};
    static const int perm[RLX_MAX_RANK] = {0, 2, 1, 3};
    return rlx_transpose(c->g, rlx_reshape(c->g, y, 4, dims), perm);
}

/* ---- Unrolled -------------------------------------------------------------------------------- */

/* State of one direction. */
typedef struct lane {
    const recurrent *r;
    int dir;
    rlx_value xw;     /* x.w + bias of all time steps: [S, B, gates * H] */
    rlx_value rt, rb; /* r transposed [H, gates * H], its bias? */
    rlx_value peep[3];
    rlx_value h, c;   /* [B, H] */
} lane;

static rlx_value row(rx_onnx_call *c, rlx_value v, int dir)
{
    return rlx_squeeze(c->g, rlx_narrow(c->g, v, 0, dir, 1), 0);
}

static rlx_value gate(rx_onnx_call *c, const lane *l, rlx_value v, int k)
{
    return rlx_narrow(c->g, v, -1, k * l->r->hidden, l->r->hidden);
}

/* Activation k of this direction of a clipped sum. */
static rlx_value clip_activate(rx_onnx_call *c, const lane *l, rlx_value v, int k)
{
    const recurrent *r = l->r;
    return activate(c, r, l->dir, r->clip > 0 ? rlx_clamp(c->g, v, -r->clip, r->clip) : v, k);
}

static rlx_value with_peephole(rx_onnx_call *c, const lane *l, rlx_value v, int k, rlx_value state)
{
    return l->peep[k].id ? rlx_add(c->g, v, rlx_mul(c->g, l->peep[k], state)) : v;
}

/* x [.., I] times 8-bit weights [I, gates * H] of a direction, with x quantised by its minimum and
 * maximum. */
static rlx_value dynamic_product(rx_onnx_call *c, const recurrent *r, int which, int dir,
                                 rlx_value x)
{
    rlx_graph *g = c->g;
    rlx_value parts[8] = {{0}};
    rx_onnx_call by = *c;
    by.in = &x;
    by.n_in = 1;
    by.out = parts;
    const rlx_value w = row(c, which ? r->r : r->w, dir), scale = row(c, r->scale[which], dir);
    const rlx_value zero = r->zero[which].id ? row(c, r->zero[which], dir) : RLX_NONE;
    const rlx_value q = rx_onnx_dynamic_quantize(&by);
    const rlx_value sum = rx_onnx_integer_product(c, q, w, parts[2], zero);
    return rlx_mul(g, rlx_cast(g, sum, RLX_F32), rlx_mul(g, parts[1], scale));
}

static void step_lstm(rx_onnx_call *c, lane *l, rlx_value x)
{
    const rlx_value old = l->r->scale[1].id ? dynamic_product(c, l->r, 1, l->dir, l->h)
                                            : rlx_matmul(c->g, l->h, l->rt);
    const rlx_value all = rlx_add(c->g, x, old);
    const rlx_value i = clip_activate(c, l, with_peephole(c, l, gate(c, l, all, 0), 0, l->c), 0);
    const rlx_value f = l->r->input_forget ? rlx_sub(c->g, scalar_like(c->g, i, 1), i)
        : clip_activate(c, l, with_peephole(c, l, gate(c, l, all, 2), 2, l->c), 0);
    const rlx_value fresh = clip_activate(c, l, gate(c, l, all, 3), 1);
    l->c = rlx_add(c->g, rlx_mul(c->g, f, l->c), rlx_mul(c->g, i, fresh));
    const rlx_value o = clip_activate(c, l, with_peephole(c, l, gate(c, l, all, 1), 1, l->c), 0);
    l->h = rlx_mul(c->g, o, activate(c, l->r, l->dir, l->c, 2)); /* not clipped, as ONNX Runtime */
}

static void step_gru(rx_onnx_call *c, lane *l, rlx_value x)
{
    const rlx_dim n = l->r->hidden;
    const rlx_value zr = rlx_matmul(c->g, l->h, rlx_narrow(c->g, l->rt, 1, 0, 2 * n));
    rlx_value gates = rlx_add(c->g, rlx_narrow(c->g, x, -1, 0, 2 * n), zr);
    if (l->rb.id)
        gates = rlx_add(c->g, gates, rlx_narrow(c->g, l->rb, 0, 0, 2 * n));
    const rlx_value z = clip_activate(c, l, gate(c, l, gates, 0), 0);
    const rlx_value reset = clip_activate(c, l, gate(c, l, gates, 1), 0);
    const rlx_value rh = rlx_narrow(c->g, l->rt, 1, 2 * n, n);
    rlx_value inner = rlx_matmul(c->g, l->r->reset_after ? l->h : rlx_mul(c->g, reset, l->h), rh);
    if (l->rb.id)
        inner = rlx_add(c->g, inner, rlx_narrow(c->g, l->rb, 0, 2 * n, n));
    if (l->r->reset_after)
        inner = rlx_mul(c->g, reset, inner);
    const rlx_value fresh = clip_activate(c, l, rlx_add(c->g, gate(c, l, x, 2), inner), 1);
    l->h = rlx_add(c->g, fresh, rlx_mul(c->g, z, rlx_sub(c->g, l->h, fresh)));
}

static void step_rnn(rx_onnx_call *c, lane *l, rlx_value x)
{
    l->h = clip_activate(c, l, rlx_add(c->g, x, rlx_matmul(c->g, l->h, l->rt)), 0);
}

static rlx_value first_state(rx_onnx_call *c, const recurrent *r, rlx_value v, int dir)
{
    const rlx_dim dims[2] = {r->batch, r->hidden};
    if (v.id)
        return row(c, v, dir);
    return rlx_expand(c->g, rlx_scalar(c->g, rlx_value_dtype(c->g, r->x), 0), 2, dims);
}

static lane open_lane(rx_onnx_call *c, const recurrent *r, int dir)
{
    const rlx_dim n = r->kind * r->hidden;
    const rlx_matmul_desc turned = {RLX_INIT(rlx_matmul_desc), .trans_b = true};
    lane l = {.r = r, .dir = dir, .h = first_state(c, r, r->h, dir),
              .c = first_state(c, r, r->c, dir)};
    if (r->scale[0].id) {
        l.xw = dynamic_product(c, r, 0, dir, r->x);
    } else {
        l.rt = rlx_transpose(c->g, row(c, r->r, dir), NULL);
        l.xw = rlx_matmul_ex(c->g, r->x, row(c, r->w, dir), RLX_NONE, RLX_NONE, &turned);
    }
    if (r->b.id) {
        const rlx_value b = row(c, r->b, dir);
        l.xw = rlx_add(c->g, l.xw, rlx_narrow(c->g, b, 0, 0, n));
        l.rb = rlx_narrow(c->g, b, 0, n, n);
        if (r->kind != CELL_GRU)
            l.xw = rlx_add(c->g, l.xw, l.rb);
    }
    for (int i = 0; i < 3 && r->p.id; i++)
        l.peep[i] = rlx_narrow(c->g, row(c, r->p, dir), 0, i * r->hidden, r->hidden);
    return l;
}

/* Unrolls a direction; rows[t] is its result at time t, [1, 1, B, H]. */
static void run_lane(rx_onnx_call *c, lane *l, rlx_value *rows)
{
    const recurrent *r = l->r;
    const bool backward = r->backward || l->dir == 1;
    const rlx_value zero = rlx_scalar(c->g, rlx_value_dtype(c->g, r->x), 0);
    for (int64_t i = 0; i < r->steps; i++) {
        const int64_t t = backward ? r->steps - 1 - i : i;
        const rlx_value x = row(c, l->xw, (int)t), h = l->h, state = l->c;
        rlx_value y;
        if (r->kind == CELL_LSTM)
            step_lstm(c, l, x);
        else if (r->kind == CELL_GRU)
            step_gru(c, l, x);
        else
            step_rnn(c, l, x);
        y = l->h;
        if (r->lengths.id) { /* past the end of a sequence the state is kept */
            const rlx_value inside = rlx_unsqueeze(c->g, rlx_gt(
                c->g, r->lengths, rlx_scalar(c->g, RLX_I64, (double)t)), 1);
            y = rlx_where(c->g, inside, l->h, zero);
            l->h = rlx_where(c->g, inside, l->h, h);
            l->c = rlx_where(c->g, inside, l->c, state);
        }
        rows[t] = rlx_unsqueeze(c->g, rlx_unsqueeze(c->g, y, 0), 0);
    }
}

static rlx_value run_steps(rx_onnx_call *c, const recurrent *r, rlx_value last[2])
{
    rlx_value y[2], h[2], state[2];
    if (r->steps < 1 || r->steps > MAX_STEPS || r->batch < 0)
        return rx_onnx_fail(c, RLX_UNSUPPORTED, "%lld steps; expected a fixed number from 1 to %d",
                            (long long)r->steps, MAX_STEPS);
    rlx_value *rows = rx_arena_array_zero(&c->b->arena, (uint64_t)r->steps, sizeof *rows);
    if (!rows)
        return rx_onnx_fail(c, RLX_NO_MEMORY, "out of memory");
    for (int d = 0; d < r->dirs; d++) {
        lane l = open_lane(c, r, d);
        run_lane(c, &l, rows);
        y[d] = rlx_concat(c->g, rows, (size_t)r->steps, 0);
        h[d] = rlx_unsqueeze(c->g, l.h, 0);
        state[d] = rlx_unsqueeze(c->g, l.c, 0);
    }
    last[0] = rlx_concat(c->g, h, (size_t)r->dirs, 0);
    last[1] = rlx_concat(c->g, state, (size_t)r->dirs, 0);
    return rlx_concat(c->g, y, (size_t)r->dirs, 1);
}

/* ---- Operators ------------------------------------------------------------------------------- */

/* Y [S, dirs, B, H], Y_h and Y_c [dirs, B, H]; with the batch first when layout is 1. */
static rlx_value build(rx_onnx_call *c, cell kind)
{
    recurrent r;
    rlx_value last[2] = {RLX_NONE, RLX_NONE};
    static const int perm[RLX_MAX_RANK] = {2, 0, 1, 3};
    if (!read_recurrent(c, kind, &r))
        return RLX_NONE;
    rlx_value y = is_plain(c, &r) ? run_plain(c, &r, last) : run_steps(c, &r, last);
    if (!y.id)
        return y;
    if (r.by_batch) {
        y = rlx_transpose(c->g, y, perm);
        last[0] = swap_first(c, last[0]);
        last[1] = swap_first(c, last[1]);
    }
    c->out[1] = last[0];
    c->out[2] = last[1];
    return y;
}

rlx_value rx_onnx_rnn(rx_onnx_call *c) { return build(c, CELL_RNN); }
rlx_value rx_onnx_lstm(rx_onnx_call *c) { return build(c, CELL_LSTM); }
/* 8-bit weights [dirs, I, 4 * H] and [dirs, H, 4 * H]; their scales and zero points are the last
 * operands. */
rlx_value rx_onnx_dynamic_lstm(rx_onnx_call *c) { return build(c, CELL_LSTM); }
rlx_value rx_onnx_gru(rx_onnx_call *c) { return build(c, CELL_GRU); }
