/* SPDX-License-Identifier: MIT */
/* Reference recurrent networks: lstm, gru, rnn. Sequences between layers and the carried states
 * are doubles; only results are rounded. */
#include <math.h>

#include "cpu/ref/ref.h"

#define MAX_GATES 4

enum { W_IH, W_HH, B_IH, B_HH, N_WEIGHTS };

typedef struct net {
    const rlx_rnn_desc *d;
    int64_t seq, batch, hidden, dirs;
    int gates;
} net;

/* One direction of one layer. */
typedef struct cell {
    const net *net;
    int64_t inputs;
    const double *w[N_WEIGHTS]; /* [gates*H, inputs], [gates*H, H], [gates*H], [gates*H] */
    double *h, *c;              /* [H]: the carried states; c for lstm only */
    double *from_x, *from_h;    /* [gates*H]: w.v + b for the input and for the state */
} cell;

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

/* out = w v + b; w is [size[0], size[1]]. */
static void affine(double *out, const double *w, const double *v, const double *b,
                   const int64_t size[2])
{
    for (int64_t r = 0; r < size[0]; r++) {
        double sum = 0;
        for (int64_t k = 0; k < size[1]; k++)
            sum += w[r * size[1] + k] * v[k];
        out[r] = sum + b[r];
    }
}

/* Gates i, f, g, o. */
static void lstm_update(const cell *p)
{
    const int64_t n = p->net->hidden;
    for (int64_t k = 0; k < n; k++) {
        double gate[MAX_GATES];
        for (int64_t i = 0; i < 4; i++)
            gate[i] = p->from_x[i * n + k] + p->from_h[i * n + k];
        p->c[k] = sigmoid(gate[1]) * p->c[k] + sigmoid(gate[0]) * tanh(gate[2]);
        p->h[k] = sigmoid(gate[3]) * tanh(p->c[k]);
    }
}

/* Gates r, z, n; r applies to the state's part of n with its bias. */
static void gru_update(const cell *p)
{
    const int64_t n = p->net->hidden;
    for (int64_t k = 0; k < n; k++) {
        const double r = sigmoid(p->from_x[k] + p->from_h[k]);
        const double z = sigmoid(p->from_x[n + k] + p->from_h[n + k]);
        const double fresh = tanh(p->from_x[2 * n + k] + r * p->from_h[2 * n + k]);
        p->h[k] = (1 - z) * fresh + z * p->h[k];
    }
}

static void rnn_update(const cell *p)
{
    for (int64_t k = 0; k < p->net->hidden; k++) {
        const double v = p->from_x[k] + p->from_h[k];
        p->h[k] = p->net->d->relu ? rx_ref_act(RLX_ACT_RELU, v) : tanh(v);
    }
}

/* Runs over one sequence, x [S, inputs] to y [S, H]; step: the numbers from one token to the next
 * in x and in y. */
static void run_sequence(const cell *p, const double *x, double *y, const int64_t step[2],
                         bool backward)
{
    const net *n = p->net;
    const int64_t rows = n->gates * n->hidden;
    for (int64_t i = 0; i < n->seq; i++) {
        const int64_t t = backward ? n->seq - 1 - i : i;
        affine(p->from_x, p->w[W_IH], x + t * step[0], p->w[B_IH],
               (const int64_t[]){rows, p->inputs});
        affine(p->from_h, p->w[W_HH], p->h, p->w[B_HH], (const int64_t[]){rows, n->hidden});
        if (n->gates == 4)
            lstm_update(p);
        else if (n->gates == 3)
            gru_update(p);
        else
            rnn_update(p);
        for (int64_t k = 0; k < n->hidden; k++)
            y[t * step[1] + k] = p->h[k];
    }
}

/* Slice `at` of the first axis of operand i as doubles; zeros when the operand is absent. */
static void load_slice(const rx_call *c, size_t i, int64_t at, double *dst, int64_t n)
{
    const rx_view *v = rx_call_in(c, i);
    int64_t place[RLX_MAX_RANK] = {at};
    for (int64_t k = 0; k < n; k++) {
        dst[k] = v ? rx_load(v, rx_offset(v, place)) : 0;
        if (v)
            rx_next(place + 1, v->dim + 1, v->rank - 1);
    }
}

/* The buffers that all cells of a call share. */
typedef struct work {
    double *seq[2];            /* [S, B, widest]: input and output of a layer */
    double *weight[N_WEIGHTS];
    double *from_x, *from_h;
    double *state[2];          /* [B, H] */
} work;

static bool make_work(const rx_call *c, const net *n, int64_t widest, work *w)
{
    const int64_t rows = n->gates * n->hidden;
    const int64_t sizes[N_WEIGHTS] = {rows * widest, rows * n->hidden, rows, rows};
    bool ok = true;
    for (int i = 0; i < N_WEIGHTS; i++)
        ok = (w->weight[i] = rx_call_array(c, sizes[i], sizeof(double))) && ok;
    for (int i = 0; i < 2; i++) {
        const int64_t tokens = n->seq * n->batch;
        ok = (w->seq[i] = rx_call_array(c, tokens * widest + 1, sizeof(double))) && ok;
        ok = (w->state[i] = rx_call_array(c, n->batch * n->hidden + 1, sizeof(double))) && ok;
    }
    ok = (w->from_x = rx_call_array(c, rows, sizeof(double))) && ok;
    ok = (w->from_h = rx_call_array(c, rows, sizeof(double))) && ok;
    return ok;
}

/* Stores slice `at` of the first axis of result i, if it is wanted. */
static void store_slice(const rx_call *c, size_t i, int64_t at, const double *src, int64_t n)
{
    const rx_view *v = rx_call_out(c, i);
    for (int64_t k = 0; v && k < n; k++)
        rx_store(v, at * n + k, src[k]);
}

/* One direction of a layer: w->seq[0] [S, B, inputs] to its part of w->seq[1] [S, B, dirs*H]. */
static void run_direction(const rx_call *c, const net *n, const work *w, const int64_t place[2],
                          int64_t inputs)
{
    const int64_t dir = place[1], slot = place[0] * n->dirs + dir, rows = n->gates * n->hidden;
    const size_t n_states = n->gates == 4 ? 2 : 1;
    const size_t first = 1 + n_states + (size_t)place[0] * N_WEIGHTS;
    const int64_t sizes[N_WEIGHTS] = {rows * inputs, rows * n->hidden, rows, rows};
    cell p = {.net = n, .inputs = inputs, .from_x = w->from_x, .from_h = w->from_h};
    for (size_t i = 0; i < N_WEIGHTS; i++) {
        load_slice(c, first + i, dir, w->weight[i], sizes[i]);
        p.w[i] = w->weight[i];
    }
    for (size_t i = 0; i < n_states; i++)
        load_slice(c, 1 + i, slot, w->state[i], n->batch * n->hidden);
    const int64_t width = n->dirs * n->hidden;
    const int64_t step[2] = {n->batch * inputs, n->batch * width};
    for (int64_t b = 0; b < n->batch; b++) {
        p.h = w->state[0] + b * n->hidden;
        p.c = w->state[1] + b * n->hidden;
        run_sequence(&p, w->seq[0] + b * inputs, w->seq[1] + b * width + dir * n->hidden, step,
                     n->d->reverse || dir == 1);
    }
    for (size_t i = 0; i < n_states; i++)
        store_slice(c, 1 + i, slot, w->state[i], n->batch * n->hidden);
}

/* Copies between x or y, in the axis order of the call, and a sequence [S, B, width] of doubles. */
static void copy_sequence(const net *n, const rx_view *v, double *seq, bool store)
{
    const int64_t width = v->dim[2];
    for (int64_t i = 0; i < n->seq * n->batch * width; i++) {
        const int64_t t = i / width / n->batch, b = i / width % n->batch;
        const int64_t at[] = {n->d->batch_first ? b : t, n->d->batch_first ? t : b, i % width};
        if (store)
            rx_store(v, rx_offset(v, at), seq[i]);
        else
            seq[i] = rx_load(v, rx_offset(v, at));
    }
}

static rlx_status run_net(const rx_call *c, int gates)
{
    const rlx_rnn_desc *d = c->attr;
    const rx_view *x = &c->in[0];
    const net n = {.d = d, .seq = x->dim[d->batch_first], .batch = x->dim[!d->batch_first],
                   .hidden = d->hidden, .dirs = d->bidirectional ? 2 : 1, .gates = gates};
    const int64_t width = n.dirs * n.hidden, widest = width > x->dim[2] ? width : x->dim[2];
    work w;
    if (!make_work(c, &n, widest, &w))
        return RLX_NO_MEMORY;

    copy_sequence(&n, x, w.seq[0], false);
    for (int64_t layer = 0; layer < d->layers; layer++) {
        for (int64_t dir = 0; dir < n.dirs; dir++)
            run_direction(c, &n, &w, (const int64_t[]){layer, dir}, layer ? width : x->dim[2]);
        double *done = w.seq[1];
        w.seq[1] = w.seq[0];
        w.seq[0] = done;
    }
    if (rx_call_out(c, 0))
        copy_sequence(&n, &c->out[0], w.seq[0], true);
    return RLX_OK;
}

rlx_status rx_ref_lstm(const rx_call *c)
{
    return run_net(c, 4);
}

rlx_status rx_ref_gru(const rx_call *c)
{
    return run_net(c, 3);
}

rlx_status rx_ref_rnn(const rx_call *c)
{
    return run_net(c, 1);
}
