/* SPDX-License-Identifier: MIT */
/* Fine-tuning: batches of examples through a graph whose runs are steps (arch_train.c), and the
 * adapter as a file. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/philox.h"
#include "base/sized.h"
#include "model/facts.h"
#include "model/train.h"
#include "rlx/quantize.h"

#define DEFAULT_RANK 8
#define DEFAULT_BATCH 4
#define MOST_RANK 4096
#define MOST_BATCH 4096

struct rlx_trainer {
    rlx_model *model;
    rlx_session *session;
    rx_examples examples;
    rx_train_build build;
    double alpha;
    uint64_t seed, drawn;     /* drawn: random numbers */
    size_t *order, at;        /* [examples]; the next one */
    int32_t *tokens, *labels, *positions; /* [batch, tokens] */
    int64_t steps, seen;      /* seen: tokens */
};

/* ---- Beginning ------------------------------------------------------------------------------- */

static rlx_status check_desc(const rlx_trainer_desc *d, rlx_error *err)
{
    RLX_TRY(rx_need(d->data, "rlx_trainer_create: d->data", err));
    if (d->rank < 0 || d->rank > MOST_RANK)
        return rx_fail(err, RLX_INVALID, "a rank of %lld; expected 1 to %d", (long long)d->rank,
                       MOST_RANK);
    if (d->batch < 0 || d->batch > MOST_BATCH)
        return rx_fail(err, RLX_INVALID, "a batch of %lld; expected 1 to %d", (long long)d->batch,
                       MOST_BATCH);
    if (!(d->alpha >= 0 && d->alpha <= 1e6))
        return rx_fail(err, RLX_INVALID, "an alpha of %g; expected a number up to 1e6", d->alpha);
    return RLX_OK;
}

static rlx_status check_model(const rlx_model *m, rlx_error *err)
{
    if (!m->known.is_decoder || m->known.recurrent)
        return rx_fail(err, RLX_UNSUPPORTED, "'%.200s' cannot be trained: architecture '%s' %s",
                       m->path, m->known.architecture, m->known.is_decoder
                           ? "has recurrent states, which have no derivative yet"
                           : "is an encoder");
    if (m->facts->naming != RX_NAMES_GGUF)
        return rx_fail(err, RLX_UNSUPPORTED, "'%.200s' cannot be trained: expected a GGUF file, "
                       "got safetensors", m->path);
    return RLX_OK;
}

/* As PEFT does: a within 1 / sqrt(K), b of zeros, so that the first step is that of the model. */
static rlx_status draw_a(rlx_trainer *t, const rlx_tensor_info *info, int64_t k, rlx_error *err)
{
    const size_t n = info->bytes / sizeof(float);
    const float most = (float)(1 / sqrt((double)k));
    float *a = rx_alloc_array(n, sizeof *a);
    if (!a)
        return rx_fail_memory(err, info->name, info->bytes);
    for (size_t i = 0; i < n; i++)
        a[i] = (2 * rx_philox_unit(rx_philox_word(t->seed, t->drawn++)) - 1) * most;
    const rlx_status st = rlx_session_state_write(t->session, info->name, 0, a, info->bytes, err);
    rx_free(a);
    return st;
}

/* State i when it is of the adapter: 'a' or 'b'; else 0. False when there is none. */
static bool next_state(const rlx_trainer *t, size_t i, rlx_tensor_info *info, char *which)
{
    if (!rlx_session_leaf(t->session, RLX_LEAF_STATE, i, info))
        return false;
    const size_t n = strlen(info->name), end = strlen(".lora_a");
    *which = 0;
    if (n > end && !strncmp(info->name + n - end, ".lora_", end - 1))
        *which = info->name[n - 1];
    return true;
}

static rlx_status begin_session(rlx_trainer *t, rlx_error *err)
{
    rx_build_desc build = t->model->build;
    rlx_tensor_info info;
    char which;
    build.sequences = 1;
    build.train = &t->build;
    RLX_TRY(rx_model_make_session(t->model, &build, NULL, &t->session, err));
    for (size_t i = 0; next_state(t, i, &info, &which); i++)
        if (which == 'a')
            RLX_TRY(draw_a(t, &info, (int64_t)(info.bytes / sizeof(float)) / t->build.rank, err));
    return RLX_OK;
}

static rlx_status begin(rlx_trainer *t, const rlx_trainer_desc *d, rlx_error *err)
{
    RLX_TRY(rx_examples_read(t->model, d->data, &t->examples, err));
    const int64_t rank = d->rank ? d->rank : DEFAULT_RANK;
    t->alpha = d->alpha > 0 ? d->alpha : 2 * (double)rank;
    t->seed = d->seed;
    t->build = (rx_train_build){.batch = d->batch ? d->batch : DEFAULT_BATCH, .rank = rank,
                                .tokens = (int64_t)t->examples.longest - 1,
                                .scale = t->alpha / (double)rank, .optimizer = d->optimizer};
    const uint64_t n = (uint64_t)t->build.batch * (uint64_t)t->build.tokens;
    t->tokens = rx_alloc_array(n, sizeof *t->tokens);
    t->labels = rx_alloc_array(n, sizeof *t->labels);
    t->positions = rx_alloc_array(n, sizeof *t->positions);
    t->order = rx_alloc_array(t->examples.n, sizeof *t->order);
    if (!t->tokens || !t->labels || !t->positions || !t->order)
        return rx_fail_memory(err, "a batch", n * sizeof *t->tokens);
    for (uint64_t i = 0; i < n; i++)
        t->positions[i] = (int32_t)(i % (uint64_t)t->build.tokens);
    for (size_t i = 0; i < t->examples.n; i++)
        t->order[i] = i;
    t->at = t->examples.n;
    return begin_session(t, err);
}

rlx_status rlx_trainer_create(rlx_model *m, const rlx_trainer_desc *d, rlx_trainer **out,
                              rlx_error *err)
{
    rlx_trainer_desc full;
    RLX_TRY(rx_need(out, "rlx_trainer_create: out", err));
    *out = NULL;
    RLX_TRY(rx_need(m, "rlx_trainer_create: m", err));
    RLX_TRY(RX_DESC_READ(rlx_trainer_desc, &full, d, err));
    RLX_TRY(check_desc(&full, err));
    RLX_TRY(check_model(m, err));
    RLX_TRY(rx_model_need_whole(m, "training", err));
    rlx_trainer *t = rx_alloc_zero(sizeof *t);
    if (!t)
        return rx_fail_memory(err, "a trainer", sizeof *t);
    t->model = m;
    const rlx_status st = begin(t, &full, err);
    t->build.optimizer = NULL; /* the caller's */
    if (st == RLX_OK)
        *out = t;
    else
        rlx_trainer_destroy(t);
    return st;
}

void rlx_trainer_destroy(rlx_trainer *t)
{
    if (!t)
        return;
    rlx_session_destroy(t->session);
    rx_examples_finish(&t->examples);
    rx_free(t->tokens);
    rx_free(t->labels);
    rx_free(t->positions);
    rx_free(t->order);
    rx_free(t);
}

/* ---- Steps ----------------------------------------------------------------------------------- */

static const rx_example *next_example(rlx_trainer *t)
{
    const size_t n = t->examples.n;
    if (t->at == n) {
        t->at = 0;
        for (size_t i = n; i > 1; i--) {
            const size_t k = rx_philox_word(t->seed, t->drawn++) % i, old = t->order[i - 1];
            t->order[i - 1] = t->order[k];
            t->order[k] = old;
        }
    }
    return &t->examples.list[t->order[t->at++]];
}

/* The tokens of each row and those that follow them, then padding. */
static void fill_batch(rlx_trainer *t)
{
    const size_t width = (size_t)t->build.tokens;
    for (size_t row = 0; row < (size_t)t->build.batch; row++) {
        const rx_example *e = next_example(t);
        int32_t *tokens = t->tokens + row * width, *labels = t->labels + row * width;
        for (size_t i = 0; i < width; i++) {
            const bool there = i + 1 < e->n;
            tokens[i] = there ? e->tokens[i] : 0;
            labels[i] = there && e->counts[i + 1] ? e->tokens[i + 1] : -1;
        }
        t->seen += (int64_t)e->n - 1;
    }
}

rlx_status rlx_trainer_step(rlx_trainer *t, float *loss, rlx_error *err)
{
    RLX_TRY(rx_need(t, "rlx_trainer_step: t", err));
    RLX_TRY(rx_need(loss, "rlx_trainer_step: loss", err));
    fill_batch(t);
    const size_t bytes = (size_t)(t->build.batch * t->build.tokens) * sizeof *t->tokens;
    const rlx_const_tensor in[] = {{"tokens", t->tokens, bytes}, {"labels", t->labels, bytes},
                                   {"positions", t->positions, bytes}};
    const rlx_tensor out = {"loss", loss, sizeof *loss};
    RLX_TRY(rlx_run(t->session, in, 3, &out, 1, err));
    t->steps++;
    if (isfinite(*loss))
        return RLX_OK;
    return rx_fail(err, RLX_INVALID, "the loss of step %lld is %s: the learning rate is too high "
                   "for this model", (long long)t->steps, isnan(*loss) ? "no number" : "infinite");
}

rlx_status rlx_trainer_get_info(const rlx_trainer *t, rlx_trainer_info *out, rlx_error *err)
{
    RLX_TRY(rx_need(t, "rlx_trainer_get_info: t", err));
    RLX_TRY(rx_need(out, "rlx_trainer_get_info: out", err));
    RLX_TRY(RX_INFO_CHECK(rlx_trainer_info, out, err));
    rlx_memory_info m = {RLX_INIT(rlx_memory_info)};
    rlx_tensor_info state;
    char which;
    RLX_TRY(rlx_session_memory(t->session, &m, err));
    rlx_trainer_info info = {
        .examples = (int64_t)t->examples.n, .longest = (int64_t)t->examples.longest,
        .tokens = t->seen, .steps = t->steps,
        .peak_bytes = m.param_bytes + m.state_bytes + m.arena_bytes + m.input_bytes +
                      m.constant_bytes,
    };
    for (size_t i = 0; next_state(t, i, &state, &which); i++) {
        info.products += which == 'a';
        info.parameters += which ? (int64_t)(state.bytes / sizeof(float)) : 0;
    }
    return RX_INFO_WRITE(rlx_trainer_info, out, &info, err);
}

/* ---- The file -------------------------------------------------------------------------------- */

static rlx_status announce(const rlx_trainer *t, rlx_gguf_writer *w, size_t *most, rlx_error *err)
{
    rlx_tensor_info info;
    char which;
    RLX_TRY(rlx_gguf_writer_set_text(w, "general.type", "adapter", err));
    RLX_TRY(rlx_gguf_writer_set_text(w, "general.architecture", t->model->facts->arch->name, err));
    RLX_TRY(rlx_gguf_writer_set_text(w, "adapter.type", "lora", err));
    RLX_TRY(rlx_gguf_writer_set_f32(w, "adapter.lora.alpha", (float)t->alpha, err));
    for (size_t i = 0; next_state(t, i, &info, &which); i++) {
        const rlx_dim rank = t->build.rank, n = (rlx_dim)(info.bytes / sizeof(float)) / rank;
        const rlx_shape a = {.rank = 2, .dim = {rank, n}}, b = {.rank = 2, .dim = {n, rank}};
        if (which)
            RLX_TRY(rlx_gguf_writer_add_tensor(w, info.name, RLX_F32, which == 'a' ? &a : &b, err));
        *most = info.bytes > *most ? info.bytes : *most;
    }
    return RLX_OK;
}

static rlx_status write_states(rlx_trainer *t, rlx_gguf_writer *w, rlx_error *err)
{
    rlx_tensor_info info;
    char which;
    size_t most = 1;
    rlx_status st = announce(t, w, &most, err);
    void *data = rx_alloc(most);
    if (!data && st == RLX_OK)
        st = rx_fail_memory(err, "the matrices of an adapter", most);
    for (size_t i = 0; st == RLX_OK && next_state(t, i, &info, &which); i++) {
        if (!which)
            continue;
        st = rlx_session_state_read(t->session, info.name, 0, data, info.bytes, err);
        if (st == RLX_OK)
            st = rlx_gguf_writer_write(w, data, info.bytes, err);
    }
    rx_free(data);
    return st != RLX_OK ? st : rlx_gguf_writer_finish(w, err);
}

rlx_status rlx_trainer_save(rlx_trainer *t, const char *path, rlx_error *err)
{
    rlx_gguf_writer *w = NULL;
    RLX_TRY(rx_need(t, "rlx_trainer_save: t", err));
    RLX_TRY(rx_need(path, "rlx_trainer_save: path", err));
    RLX_TRY(rlx_gguf_writer_create(path, &w, err));
    const rlx_status st = write_states(t, w, err);
    rlx_gguf_writer_destroy(w);
    return st;
}
