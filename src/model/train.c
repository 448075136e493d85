/* SPDX-License-Identifier: MIT */
/* Training: batches of examples through a graph whose runs are steps (arch_train.c). */
#include <math.h>
#include <string.h>

#include "base/sized.h"
#include "model/train.h"

#define DEFAULT_RANK 8
#define DEFAULT_BATCH 4
#define DEFAULT_TEMPERATURE 0.05
#define MOST_RANK 4096

/* ---- Checks ---------------------------------------------------------------------------------- */

static rlx_status check_desc(const rlx_trainer_desc *d, rlx_error *err)
{
    RLX_TRY(rx_need(d->data, "rlx_trainer_create: d->data", err));
    if (d->rank < 0 || d->rank > MOST_RANK)
        return rx_fail(err, RLX_INVALID, "a rank of %lld; expected 1 to %d", (long long)d->rank,
                       MOST_RANK);
    if (d->batch < 0 || d->batch > RX_MOST_BATCH)
        return rx_fail(err, RLX_INVALID, "a batch of %lld; expected 1 to %d", (long long)d->batch,
                       RX_MOST_BATCH);
    if (!(d->alpha >= 0 && d->alpha <= 1e6))
        return rx_fail(err, RLX_INVALID, "an alpha of %g; expected a number up to 1e6", d->alpha);
    if (!(d->validation_share >= 0 && d->validation_share < 1))
        return rx_fail(err, RLX_INVALID, "a share of %g for the validation; expected a number from "
                       "0 to below 1", d->validation_share);
    if (d->validation && d->validation_share > 0)
        return rx_fail(err, RLX_INVALID, "a file and a share for the validation; expected one of "
                       "them");
    if (!(d->temperature >= 0 && d->temperature <= 1e3))
        return rx_fail(err, RLX_INVALID, "a temperature of %g; expected a number up to 1000",
                       d->temperature);
    if ((unsigned)d->kind > RLX_TRAIN_FULL)
        return rx_fail(err, RLX_INVALID, "kind %d is none of auto, lora and full", (int)d->kind);
    return RLX_OK;
}

/* Experts that safetensors have each as a tensor become one param, which is no state. */
static rlx_status check_whole(const rlx_model *m, rlx_error *err)
{
    rlx_file_tensor t;
    for (int64_t l = 0; l < m->facts->layers; l++)
        for (int role = 0; role < RX_N_ROLES; role++)
            if (rx_facts_is_stack(m->facts, (rx_role)role) &&
                rx_facts_tensor(m->facts, &m->facts->layer[l], (rx_role)role, &t))
                return rx_fail(err, RLX_UNSUPPORTED, "'%.200s' has experts in tensors of their own "
                               "('%.100s'): not all of its weights can learn, those of a GGUF file "
                               "can", m->path, t.name);
    return RLX_OK;
}

static rlx_status check_model(const rlx_model *m, const rlx_trainer_desc *d, rlx_error *err)
{
    rx_trained p;
    if (d->kind == RLX_TRAIN_FULL || (d->kind == RLX_TRAIN_AUTO && d->from_scratch))
        return check_whole(m, err);
    if (d->from_scratch)
        return rx_fail(err, RLX_INVALID, "from scratch all weights learn; expected no adapter");
    if (!m->known.is_decoder)
        return d->kind == RLX_TRAIN_AUTO ? RLX_OK
               : rx_fail(err, RLX_UNSUPPORTED, "'%.200s' is an encoder (%s): all of its weights "
                         "learn, adapters are for models that generate", m->path,
                         m->known.architecture);
    return rx_trained_at(m->facts, 0, &p) ? RLX_OK
           : rx_fail(err, RLX_UNSUPPORTED, "'%.200s' (architecture '%s') has no products that "
                     "adapters can change", m->path, m->known.architecture);
}

/* ---- Beginning ------------------------------------------------------------------------------- */

static rlx_status read_examples(rlx_trainer *t, const rlx_trainer_desc *d, rlx_error *err)
{
    RLX_TRY(rx_examples_read(t->model, d->data, &t->examples, err));
    if (d->validation)
        RLX_TRY(rx_examples_read(t->model, d->validation, &t->held, err));
    else if (d->validation_share > 0)
        RLX_TRY(rx_examples_hold(&t->examples, d->validation_share, d->seed, &t->held, err));
    if (t->held.texts && t->held.texts != t->examples.texts)
        return rx_fail(err, RLX_INVALID, "the examples have %zu texts each, those of the validation"
                       " %zu", t->examples.texts, t->held.texts);
    return d->pack ? rx_examples_pack(t->model, &t->examples, err) : RLX_OK;
}

static rx_train_build describe(const rlx_trainer *t, const rlx_trainer_desc *d)
{
    const rlx_model *m = t->model;
    const bool full = d->kind == RLX_TRAIN_FULL || d->from_scratch || !m->known.is_decoder;
    const int64_t rank = full ? 0 : d->rank ? d->rank : DEFAULT_RANK;
    const size_t a = t->examples.longest, b = t->held.longest, longest = a > b ? a : b;
    return (rx_train_build){
        .batch = d->batch ? d->batch : DEFAULT_BATCH, .rank = rank, .full = full,
        .tokens = (int64_t)longest - m->known.is_decoder, .texts = (int64_t)t->examples.texts,
        .scale = rank ? t->alpha / (double)rank : 0, .pooling = m->pooling,
        .temperature = d->temperature > 0 ? d->temperature : DEFAULT_TEMPERATURE,
        .optimizer = d->optimizer, .memory_budget = d->memory_budget,
    };
}

static rlx_status make_session(rlx_trainer *t, const rx_train_build *train, rlx_session **out,
                               rlx_error *err)
{
    rx_build_desc build = t->model->build;
    build.sequences = 1;
    build.train = train;
    return rx_model_make_session(t->model, &build, NULL, out, err);
}

static rlx_status begin(rlx_trainer *t, const rlx_trainer_desc *d, rlx_error *err)
{
    static const rlx_optimizer_desc adamw = {RLX_INIT(rlx_optimizer_desc)};
    RLX_TRY(read_examples(t, d, err));
    t->alpha = d->alpha > 0 ? d->alpha : 2 * (double)(d->rank ? d->rank : DEFAULT_RANK);
    t->seed = d->seed;
    t->from_scratch = d->from_scratch;
    t->build = describe(t, d);
    if (!t->build.optimizer)
        t->build.optimizer = &adamw;
    t->accumulate = t->build.optimizer->accumulate > 1 ? t->build.optimizer->accumulate : 1;
    RLX_TRY(rx_batch_init(&t->batch, (size_t)t->build.batch, (size_t)t->build.texts,
                          (size_t)t->build.tokens, err));
    t->batch.fixed = t->model->known.recurrent;
    RLX_TRY(rx_order_init(&t->order, &t->examples, t->seed, err));
    RLX_TRY(make_session(t, &t->build, &t->session, err));
    return rx_train_begin_states(t, err);
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
    RLX_TRY(check_model(m, &full, err));
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
    rx_train_keep_checkpoint(t, false, NULL);
    rlx_session_destroy(t->judge);
    rlx_session_destroy(t->session);
    rx_examples_finish(&t->held);
    rx_examples_finish(&t->examples);
    rx_batch_finish(&t->batch);
    rx_free(t->order.list);
    rx_free(t->losses.list);
    rx_free(t->judged.list);
    rx_free(t);
}

/* ---- Runs ------------------------------------------------------------------------------------ */

/* The loss of the batch; by the trainer's session also a step, or a part of one. */
static rlx_status run_batch(const rlx_trainer *t, rlx_session *s, float *loss, rlx_error *err)
{
    const rx_batch *b = &t->batch;
    const rlx_model *m = t->model;
    const size_t rows = b->batch * b->texts, bytes = rows * b->width * sizeof *b->tokens;
    const bool decodes = m->known.is_decoder;
    const size_t labels = decodes ? bytes : b->batch * sizeof *b->labels;
    rlx_const_tensor in[4] = {{"tokens", b->tokens, bytes}, {"labels", b->labels, labels}};
    size_t n = 2;
    if (decodes)
        in[n++] = (rlx_const_tensor){"positions", b->positions, bytes};
    else
        in[n++] = (rlx_const_tensor){"lengths", b->lengths, rows * sizeof *b->lengths};
    if (m->known.has_types)
        in[n++] = (rlx_const_tensor){"types", b->types, bytes};
    const rlx_tensor out = {"loss", loss, sizeof *loss};
    if (!m->known.recurrent)
        RLX_TRY(rlx_session_bind(s, "tokens", (int64_t)b->width, err));
    return rlx_run(s, in, n, &out, 1, err);
}

static rlx_status add_loss(rx_losses *l, int64_t step, float loss, rlx_error *err)
{
    if (!rx_grow(&l->list, &l->cap, l->n + 1, sizeof *l->list))
        return rx_fail_memory(err, "the losses", l->n * sizeof *l->list);
    l->list[l->n++] = (rlx_trainer_loss){step, loss};
    return RLX_OK;
}

static rlx_status check_loss(const rlx_trainer *t, float loss, const char *of, rlx_error *err)
{
    if (isfinite(loss))
        return RLX_OK;
    return rx_fail(err, RLX_INVALID, "the loss of %s %lld is %s: the learning rate is too high for "
                   "this model", of, (long long)t->steps, isnan(loss) ? "no number" : "infinite");
}

rlx_status rlx_trainer_step(rlx_trainer *t, float *loss, rlx_error *err)
{
    double sum = 0;
    RLX_TRY(rx_need(t, "rlx_trainer_step: t", err));
    RLX_TRY(rx_need(loss, "rlx_trainer_step: loss", err));
    for (int64_t i = 0; i < t->accumulate; i++) {
        rx_batch_next(&t->batch, &t->examples, &t->order);
        RLX_TRY(run_batch(t, t->session, loss, err));
        sum += *loss;
        t->seen += t->batch.seen;
        t->padding += t->batch.padding;
    }
    *loss = (float)(sum / (double)t->accumulate);
    t->steps++;
    const rlx_status st = check_loss(t, *loss, "step", err);
    RLX_TRY(rx_train_keep_checkpoint(t, st == RLX_OK, err));
    RLX_TRY(st);
    return add_loss(&t->losses, t->steps, *loss, err);
}

/* Copies the trained states to the session that evaluates. */
static rlx_status copy_states(rlx_trainer *t, rlx_error *err)
{
    rlx_tensor_info info;
    size_t most = 1;
    for (size_t i = 0; rlx_session_leaf(t->judge, RLX_LEAF_STATE, i, &info); i++)
        most = info.bytes > most ? info.bytes : most;
    void *data = rx_alloc(most);
    rlx_status st = data ? RLX_OK : rx_fail_memory(err, "a state", most);
    for (size_t i = 0; st == RLX_OK && rlx_session_leaf(t->judge, RLX_LEAF_STATE, i, &info); i++) {
        st = rlx_session_state_read(t->session, info.name, 0, data, info.bytes, err);
        if (st == RLX_OK)
            st = rlx_session_state_write(t->judge, info.name, 0, data, info.bytes, err);
    }
    rx_free(data);
    return st;
}

/* The held-out loss. The negatives of a pair are its batch: only whole ones count. */
static rlx_status judge(rlx_trainer *t, double *sum, double *n, rlx_error *err)
{
    const size_t held = t->held.n / t->held.texts, batch = t->batch.batch;
    const bool whole = t->held.texts > 1 && held >= batch;
    for (size_t at = 0; at < held && !(whole && at + batch > held); at += batch) {
        float loss;
        rx_batch_at(&t->batch, &t->held, at);
        RLX_TRY(run_batch(t, t->judge, &loss, err));
        *sum += (double)loss * (double)t->batch.counted;
        *n += (double)t->batch.counted;
    }
    return RLX_OK;
}

rlx_status rlx_trainer_evaluate(rlx_trainer *t, float *loss, rlx_error *err)
{
    double sum = 0, n = 0;
    RLX_TRY(rx_need(t, "rlx_trainer_evaluate: t", err));
    RLX_TRY(rx_need(loss, "rlx_trainer_evaluate: loss", err));
    if (!t->held.n)
        return rx_fail(err, RLX_INVALID, "rlx_trainer_evaluate: there are no examples held out "
                       "(rlx_trainer_desc.validation)");
    if (!t->judge)
        RLX_TRY(make_session(t, &t->build, &t->judge, err));
    RLX_TRY(copy_states(t, err));
    RLX_TRY(judge(t, &sum, &n, err));
    *loss = (float)(n > 0 ? sum / n : 0);
    RLX_TRY(check_loss(t, *loss, "the validation after step", err));
    return add_loss(&t->judged, t->steps, *loss, err);
}

/* ---- What it is ------------------------------------------------------------------------------ */

const rlx_trainer_loss *rlx_trainer_losses(const rlx_trainer *t, bool validation, size_t *n)
{
    const rx_losses *l = !t ? NULL : validation ? &t->judged : &t->losses;
    if (n)
        *n = l ? l->n : 0;
    return l ? l->list : NULL;
}

rlx_status rlx_trainer_get_info(const rlx_trainer *t, rlx_trainer_info *out, rlx_error *err)
{
    RLX_TRY(rx_need(t, "rlx_trainer_get_info: t", err));
    RLX_TRY(rx_need(out, "rlx_trainer_get_info: out", err));
    RLX_TRY(RX_INFO_CHECK(rlx_trainer_info, out, err));
    rlx_memory_info m = {RLX_INIT(rlx_memory_info)};
    RLX_TRY(rlx_session_memory(t->session, &m, err));
    const size_t texts = t->examples.texts;
    rlx_trainer_info info = {
        .examples = (int64_t)(t->examples.n / texts), .longest = (int64_t)t->examples.longest,
        .tokens = t->seen, .steps = t->steps,
        .peak_bytes = m.param_bytes + m.state_bytes + m.arena_bytes + m.input_bytes +
                      m.constant_bytes,
        .held = (int64_t)(t->held.n / texts), .cut = (int64_t)(t->examples.cut + t->held.cut),
        .padding = t->padding, .kept = t->kept,
        .kind = t->build.full ? RLX_TRAIN_FULL : RLX_TRAIN_LORA,
    };
    rx_train_count(t, &info.parameters, &info.products);
    return RX_INFO_WRITE(rlx_trainer_info, out, &info, err);
}
