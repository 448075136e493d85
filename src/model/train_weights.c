/* SPDX-License-Identifier: MIT */
/* Trained parameters: their initial values, and the current tensors of the model. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/philox.h"
#include "model/train.h"

/* ---- Adapters -------------------------------------------------------------------------------- */

bool rx_trained_at(const rx_facts *f, size_t i, rx_trained *out)
{
    for (int64_t l = 0; l < f->layers; l++)
        for (int role = 0; role < RX_N_ROLES; role++) {
            *out = (rx_trained){.layer = &f->layer[l], .role = (rx_role)role};
            if (!rx_train_adapts(out->role) ||
                !rx_facts_tensor(f, out->layer, out->role, &out->weight) || i--)
                continue;
            const rlx_shape s = rx_facts_shape(f, out->layer, out->role);
            out->n = s.dim[0];
            out->k = s.dim[s.rank - 1];
            return true;
        }
    return false;
}

static void print_state(const rx_trained *p, char which, char name[200])
{
    snprintf(name, 200, "%.180s.lora_%c", p->weight.name, which);
}

rlx_status rx_trained_read(rlx_trainer *t, const rx_trained *p, char which, float *to,
                           rlx_error *err)
{
    char name[200];
    print_state(p, which, name);
    const size_t n = (size_t)(t->build.rank * (which == 'a' ? p->k : p->n));
    return rlx_session_state_read(t->session, name, 0, to, n * sizeof *to, err);
}

/* As PEFT does: a within 1 / sqrt(K), b of zeros, so that the first step is that of the model. */
static rlx_status draw_a(rlx_trainer *t, const rx_trained *p, uint64_t *drawn, rlx_error *err)
{
    const size_t n = (size_t)(t->build.rank * p->k);
    const float most = (float)(1 / sqrt((double)p->k));
    char name[200];
    print_state(p, 'a', name);
    float *a = rx_alloc_array(n, sizeof *a);
    if (!a)
        return rx_fail_memory(err, name, n * sizeof *a);
    for (size_t i = 0; i < n; i++)
        a[i] = (2 * rx_philox_unit(rx_philox_word(t->seed, (*drawn)++)) - 1) * most;
    const rlx_status st = rlx_session_state_write(t->session, name, 0, a, n * sizeof *a, err);
    rx_free(a);
    return st;
}

/* ---- All weights ----------------------------------------------------------------------------- */

static size_t elements(const rlx_file_tensor *t)
{
    size_t n = 1;
    for (int i = 0; i < t->shape.rank; i++)
        n *= (size_t)t->shape.dim[i];
    return n;
}

static bool ends_with(const char *s, const char *end)
{
    const size_t n = strlen(s), m = strlen(end);
    return n >= m && !strcmp(s + n - m, end);
}

/* Vectors are ones, biases zeros, matrices [.., K] normal with a deviation of 1 / sqrt(K) (Box and
 * Muller). */
static void draw_weight(const rlx_trainer *t, const rlx_file_tensor *w, uint64_t *drawn, float *to)
{
    const double tau = 6.283185307179586;
    const size_t n = elements(w);
    const bool is_matrix = w->shape.rank > 1 && n > (size_t)w->shape.dim[0];
    const double scale = 1 / sqrt((double)w->shape.dim[w->shape.rank - 1]);
    for (size_t i = 0; i < n; i++) {
        to[i] = ends_with(w->name, "bias") ? 0 : 1;
        if (!is_matrix)
            continue;
        const double u = rx_philox_positive(rx_philox_word(t->seed, (*drawn)++));
        const double v = rx_philox_unit(rx_philox_word(t->seed, (*drawn)++));
        to[i] = (float)(scale * sqrt(-2 * log(u)) * cos(tau * v));
    }
}

static rlx_status begin_weight(rlx_trainer *t, const rlx_file_tensor *w, uint64_t *drawn,
                               rlx_error *err)
{
    const size_t n = elements(w);
    float *to = rx_alloc_array(n, sizeof *to);
    if (!to)
        return rx_fail_memory(err, w->name, n * sizeof *to);
    rlx_status st = RLX_OK;
    if (t->from_scratch)
        draw_weight(t, w, drawn, to);
    else
        st = rx_facts_floats(t->model->facts, w, to, (int64_t)n, err);
    if (st == RLX_OK)
        st = rlx_session_state_write(t->session, w->name, 0, to, n * sizeof *to, err);
    rx_free(to);
    return st;
}

static bool has_state(const rlx_trainer *t, const char *name)
{
    rlx_tensor_info info;
    for (size_t i = 0; rlx_session_leaf(t->session, RLX_LEAF_STATE, i, &info); i++)
        if (!strcmp(info.name, name))
            return true;
    return false;
}

rlx_status rx_train_begin_states(rlx_trainer *t, rlx_error *err)
{
    uint64_t drawn = (uint64_t)1 << 40; /* counters beyond those of the shuffles */
    rlx_file_tensor w;
    rx_trained p;
    if (!t->build.full) {
        for (size_t i = 0; rx_trained_at(t->model->facts, i, &p); i++)
            RLX_TRY(draw_a(t, &p, &drawn, err));
        return RLX_OK;
    }
    for (size_t i = 0; rlx_file_tensor_at(t->model->file, i, &w); i++)
        if (has_state(t, w.name))
            RLX_TRY(begin_weight(t, &w, &drawn, err));
    return RLX_OK;
}

/* ---- By now ---------------------------------------------------------------------------------- */

static bool find_trained(const rlx_trainer *t, const char *name, rx_trained *out)
{
    for (size_t i = 0; rx_trained_at(t->model->facts, i, out); i++)
        if (!strcmp(out->weight.name, name))
            return true;
    return false;
}

bool rx_train_changes(const rlx_trainer *t, const char *name)
{
    rx_trained p;
    return t->build.full ? has_state(t, name) : find_trained(t, name, &p);
}

/* to[n, k] += scale * b[n, rank] . a[rank, k] */
static void add_product(const rx_trained *p, int64_t rank, double scale, const float *a,
                        const float *b, float *to)
{
    for (int64_t i = 0; i < p->n; i++)
        for (int64_t r = 0; r < rank; r++) {
            const float factor = (float)(scale * b[i * rank + r]);
            const float *row = a + r * p->k;
            float *sum = to + i * p->k;
            for (int64_t k = 0; k < p->k; k++)
                sum[k] += factor * row[k];
        }
}

static rlx_status add_adapter(rlx_trainer *t, const rx_trained *p, float *to, rlx_error *err)
{
    const int64_t rank = t->build.rank;
    float *a = rx_alloc_array((uint64_t)(rank * p->k), sizeof *a);
    float *b = rx_alloc_array((uint64_t)(rank * p->n), sizeof *b);
    rlx_status st = a && b ? RLX_OK
                           : rx_fail_memory(err, "the matrices of an adapter",
                                            (uint64_t)(rank * (p->k + p->n)) * sizeof *a);
    if (st == RLX_OK)
        st = rx_trained_read(t, p, 'a', a, err);
    if (st == RLX_OK)
        st = rx_trained_read(t, p, 'b', b, err);
    if (st == RLX_OK)
        add_product(p, rank, t->build.scale, a, b, to);
    rx_free(a);
    rx_free(b);
    return st;
}

rlx_status rx_train_tensor(rlx_trainer *t, const rlx_file_tensor *w, float *to, rlx_error *err)
{
    const size_t n = elements(w);
    rx_trained p;
    if (t->build.full)
        return rlx_session_state_read(t->session, w->name, 0, to, n * sizeof *to, err);
    RLX_TRY(rx_facts_floats(t->model->facts, w, to, (int64_t)n, err));
    return find_trained(t, w->name, &p) ? add_adapter(t, &p, to, err) : RLX_OK;
}

void rx_train_count(const rlx_trainer *t, int64_t *parameters, int64_t *tensors)
{
    rlx_file_tensor w;
    rx_trained p;
    *parameters = *tensors = 0;
    for (size_t i = 0; !t->build.full && rx_trained_at(t->model->facts, i, &p); i++, (*tensors)++)
        *parameters += t->build.rank * (p.n + p.k);
    for (size_t i = 0; t->build.full && rlx_file_tensor_at(t->model->file, i, &w); i++)
        if (has_state(t, w.name)) {
            *parameters += (int64_t)elements(&w);
            ++*tensors;
        }
}
