/* SPDX-License-Identifier: MIT */
/* Checkpoints of a trainer: a GGUF file with all states of its session and what the trainer itself
 * counts. The order of the examples follows from the seed: it is drawn again. */
#include <string.h>

#include "base/hash.h"
#include "base/outfile.h"
#include "model/train.h"
#include "rlx/quantize.h"

/* Of model, examples and options: what a checkpoint must agree with. */
static uint64_t fingerprint(const rlx_trainer *t)
{
    const rx_train_build *b = &t->build;
    const int64_t numbers[] = {b->batch, b->tokens, b->rank, b->texts, b->full, b->pooling,
                               t->accumulate, (int64_t)t->seed, t->from_scratch};
    const double reals[] = {b->scale, b->temperature};
    uint64_t h = rx_hash(rx_model_fingerprint(t->model), numbers, sizeof numbers);
    h = rx_hash(h, reals, sizeof reals);
    for (size_t i = 0; i < t->examples.n; i++) {
        const rx_example *e = &t->examples.list[i];
        h = rx_hash(h, e->tokens, e->n * sizeof *e->tokens);
        h = rx_hash(h, e->counts, e->n * sizeof *e->counts);
    }
    return h;
}

/* ---- Writing --------------------------------------------------------------------------------- */

static rlx_status set_losses(rlx_gguf_writer *w, const char *steps_key, const char *key,
                             const rx_losses *l, rlx_error *err)
{
    int64_t *steps = rx_alloc_array(l->n, sizeof *steps);
    float *loss = rx_alloc_array(l->n, sizeof *loss);
    rlx_status st = steps && loss ? RLX_OK
                                  : rx_fail_memory(err, "the losses", l->n * sizeof *steps);
    for (size_t i = 0; st == RLX_OK && i < l->n; i++) {
        steps[i] = l->list[i].step;
        loss[i] = l->list[i].loss;
    }
    const rlx_gguf_value a = {RLX_GGUF_I64, true, l->n, steps, NULL, NULL};
    const rlx_gguf_value b = {RLX_GGUF_F32, true, l->n, loss, NULL, NULL};
    if (st == RLX_OK)
        st = rlx_gguf_writer_set(w, steps_key, &a, err);
    if (st == RLX_OK)
        st = rlx_gguf_writer_set(w, key, &b, err);
    rx_free(steps);
    rx_free(loss);
    return st;
}

static rlx_status set_number(rlx_gguf_writer *w, const char *key, uint64_t v, rlx_error *err)
{
    const rlx_gguf_value value = {RLX_GGUF_U64, false, 1, &v, NULL, NULL};
    return rlx_gguf_writer_set(w, key, &value, err);
}

static rlx_status write_checkpoint(rlx_trainer *t, rlx_gguf_writer *w, rlx_error *err)
{
    RLX_TRY(set_number(w, "train.fingerprint", fingerprint(t), err));
    RLX_TRY(set_number(w, "train.steps", (uint64_t)t->steps, err));
    RLX_TRY(set_losses(w, "train.losses.steps", "train.losses", &t->losses, err));
    RLX_TRY(set_losses(w, "train.validation.steps", "train.validation", &t->judged, err));
    return rx_train_write_states(t->session, w, err);
}

rlx_status rlx_trainer_checkpoint(rlx_trainer *t, const char *path, bool now, rlx_error *err)
{
    rlx_gguf_writer *w = NULL;
    RLX_TRY(rx_need(t, "rlx_trainer_checkpoint: t", err));
    RLX_TRY(rx_need(path, "rlx_trainer_checkpoint: path", err));
    RLX_TRY(rx_train_check_path(t, path, err));
    RLX_TRY(rlx_gguf_writer_create(path, &w, err));
    rlx_status st = write_checkpoint(t, w, err);
    if (st == RLX_OK && !now) {
        rlx_gguf_writer_destroy(t->pending);
        t->pending = w;
        return RLX_OK;
    }
    if (st == RLX_OK)
        st = rlx_gguf_writer_finish(w, err);
    t->kept = st == RLX_OK ? t->steps : t->kept;
    rlx_gguf_writer_destroy(w);
    return st;
}

rlx_status rx_train_keep_checkpoint(rlx_trainer *t, bool is_good, rlx_error *err)
{
    rlx_gguf_writer *w = t->pending;
    t->pending = NULL;
    const rlx_status st = w && is_good ? rlx_gguf_writer_finish(w, err) : RLX_OK;
    if (st == RLX_OK && w && is_good)
        t->kept = t->steps - 1;
    rlx_gguf_writer_destroy(w);
    return st;
}

/* ---- Reading --------------------------------------------------------------------------------- */

static bool get_number(const rlx_file *f, const char *key, uint64_t *out)
{
    rlx_meta m;
    return rlx_file_find_meta(f, key, &m) && rlx_meta_u64(&m, 0, out);
}

/* Into the zeroed *out. */
static rlx_status get_losses(const rlx_file *f, const char *path, const char *steps_key,
                             const char *key, rx_losses *out, rlx_error *err)
{
    rlx_meta steps, loss;
    double v;
    if (!rlx_file_find_meta(f, steps_key, &steps) || !rlx_file_find_meta(f, key, &loss) ||
        !steps.is_array || !loss.is_array || steps.n != loss.n)
        return rx_fail(err, RLX_INVALID, "'%.200s' has no '%s': it is no checkpoint of a trainer",
                       path, key);
    if (!rx_grow(&out->list, &out->cap, loss.n + 1, sizeof *out->list))
        return rx_fail_memory(err, "the losses", loss.n * sizeof *out->list);
    for (out->n = 0; out->n < loss.n; out->n++) {
        rlx_trainer_loss *l = &out->list[out->n];
        if (!rlx_meta_i64(&steps, out->n, &l->step) || !rlx_meta_f64(&loss, out->n, &v))
            return rx_fail(err, RLX_INVALID, "'%.200s': '%s' holds no numbers", path, key);
        l->loss = (float)v;
    }
    return RLX_OK;
}

/* Draws the batches of so many steps, as if they were run. */
static rlx_status skip_steps(rlx_trainer *t, uint64_t steps, rlx_error *err)
{
    rx_free(t->order.list);
    RLX_TRY(rx_order_init(&t->order, &t->examples, t->seed, err));
    t->seen = 0;
    for (uint64_t i = 0; i < steps * (uint64_t)t->accumulate; i++) {
        rx_batch_next(&t->batch, &t->examples, &t->order);
        t->seen += t->batch.seen;
    }
    t->steps = (int64_t)steps;
    return RLX_OK;
}

static rlx_status read_checkpoint(rlx_trainer *t, const rlx_file *f, const char *path,
                                  rx_losses *losses, rx_losses *judged, rlx_error *err)
{
    uint64_t is, steps;
    if (!get_number(f, "train.fingerprint", &is) || !get_number(f, "train.steps", &steps) ||
        steps > INT32_MAX)
        return rx_fail(err, RLX_INVALID, "'%.200s' is no checkpoint of a trainer", path);
    if (is != fingerprint(t))
        return rx_fail(err, RLX_INVALID, "'%.200s' is a checkpoint of another model, other examples"
                       " or other options (batch, accumulate, rank, alpha, seed, context)", path);
    RLX_TRY(get_losses(f, path, "train.losses.steps", "train.losses", losses, err));
    RLX_TRY(get_losses(f, path, "train.validation.steps", "train.validation", judged, err));
    RLX_TRY(rx_train_read_states(t->session, f, path, err));
    return skip_steps(t, steps, err);
}

rlx_status rlx_trainer_resume(rlx_trainer *t, const char *path, rlx_error *err)
{
    rlx_file *f = NULL;
    rx_losses losses = {0}, judged = {0}, old;
    RLX_TRY(rx_need(t, "rlx_trainer_resume: t", err));
    RLX_TRY(rx_need(path, "rlx_trainer_resume: path", err));
    RLX_TRY(rlx_file_open(path, &f, err));
    const rlx_status st = read_checkpoint(t, f, path, &losses, &judged, err);
    if (st == RLX_OK) {
        old = t->losses;
        t->losses = losses;
        losses = old;
        old = t->judged;
        t->judged = judged;
        judged = old;
        t->kept = t->steps;
        rx_train_keep_checkpoint(t, false, NULL);
    }
    rx_free(losses.list);
    rx_free(judged.list);
    rlx_file_close(f);
    return st;
}

rlx_status rlx_trainer_remove_checkpoint(rlx_trainer *t, const char *path, rlx_error *err)
{
    rlx_file *f = NULL;
    uint64_t is;
    RLX_TRY(rx_need(t, "rlx_trainer_remove_checkpoint: t", err));
    RLX_TRY(rx_need(path, "rlx_trainer_remove_checkpoint: path", err));
    RLX_TRY(rlx_file_open(path, &f, err));
    const bool own = get_number(f, "train.fingerprint", &is) && is == fingerprint(t);
    rlx_file_close(f);
    return own ? rx_outfile_remove(path, err)
               : rx_fail(err, RLX_INVALID, "'%.200s' was not removed: it is no checkpoint of this "
                         "training", path);
}
