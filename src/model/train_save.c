/* SPDX-License-Identifier: MIT */
/* What was learned, as an adapter: a GGUF file in the layout of llama.cpp, or a folder in that of
 * PEFT. Whole models are in train_model.c. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "import/safetensors.h"
#include "model/adapter.h"
#include "model/train.h"
#include "rlx/quantize.h"

rlx_status rx_train_check_path(const rlx_trainer *t, const char *path, rlx_error *err)
{
    if (!rlx_file_is_at(t->model->file, path))
        return RLX_OK;
    return rx_fail(err, RLX_INVALID, "'%.200s' was not replaced: it is the model that is trained",
                   path);
}

static rlx_status check_adapter(const rlx_trainer *t, const char *what, rlx_error *err)
{
    if (!t->build.full)
        return RLX_OK;
    return rx_fail(err, RLX_INVALID, "%s: all weights of '%.200s' learn, there is no adapter "
                   "(rlx_trainer_save_model)", what, t->model->path);
}

/* ---- Matrices -------------------------------------------------------------------------------- */

/* Reads a or b of a pair; rows of b in the rotary order of files with that naming. */
static rlx_status read_matrix(rlx_trainer *t, const rx_trained *p, char which, rx_naming to,
                              float *out, rlx_error *err)
{
    const rx_facts *f = t->model->facts;
    const int64_t rank = t->build.rank;
    const bool rotated = p->role == RX_T_Q || p->role == RX_T_K;
    RLX_TRY(rx_trained_read(t, p, which, out, err));
    for (int64_t i = 0; i < rank * (which == 'a' ? p->k : p->n); i++)
        if (!isfinite(out[i]))
            return rx_fail(err, RLX_INVALID, "the adapter of '%.150s' has numbers that are not "
                           "finite: the learning rate is too high for this model", p->weight.name);
    if (which == 'a' || !rotated || !f->arch->pairs || f->naming == to)
        return RLX_OK;
    const rx_turn turn = to == RX_NAMES_GGUF ? RX_TURN_TO_PAIRS : RX_TURN_TO_HALVES;
    const int64_t head = p->n / (p->role == RX_T_Q ? p->layer->heads : p->layer->kv_heads);
    const size_t bytes = (size_t)(p->n * rank) * sizeof *out;
    float *copy = rx_alloc(bytes);
    if (!copy)
        return rx_fail_memory(err, "a matrix of the adapter", bytes);
    memcpy(copy, out, bytes);
    for (int64_t i = 0; i < p->n; i++)
        memcpy(out + i * rank, copy + rx_turned_row(turn, head, i) * rank,
               (size_t)rank * sizeof *out);
    rx_free(copy);
    return RLX_OK;
}

/* Writes the data of a matrix; called for all in the order of the header. */
typedef rlx_status write_fn(void *to, const void *data, size_t bytes, rlx_error *err);

static rlx_status write_matrices(rlx_trainer *t, rx_naming naming, write_fn *fn, void *to,
                                 rlx_error *err)
{
    rx_trained p;
    int64_t most = 1;
    for (size_t i = 0; rx_trained_at(t->model->facts, i, &p); i++)
        most = p.n > most ? p.n : p.k > most ? p.k : most;
    const size_t bytes = (size_t)(most * t->build.rank) * sizeof(float);
    float *data = rx_alloc(bytes);
    if (!data)
        return rx_fail_memory(err, "the matrices of an adapter", bytes);
    rlx_status st = RLX_OK;
    for (size_t i = 0; st == RLX_OK && rx_trained_at(t->model->facts, i, &p); i++)
        for (const char *which = "ab"; st == RLX_OK && *which; which++) {
            const int64_t n = t->build.rank * (*which == 'a' ? p.k : p.n);
            st = read_matrix(t, &p, *which, naming, data, err);
            if (st == RLX_OK)
                st = fn(to, data, (size_t)n * sizeof *data, err);
        }
    rx_free(data);
    return st;
}

static rlx_shape shape_of(const rlx_trainer *t, const rx_trained *p, char which)
{
    const int64_t rank = t->build.rank;
    return which == 'a' ? (rlx_shape){2, {rank, p->k}} : (rlx_shape){2, {p->n, rank}};
}

/* ---- GGUF ------------------------------------------------------------------------------------ */

static rlx_status announce_gguf(const rlx_trainer *t, rlx_gguf_writer *w, rlx_error *err)
{
    const rx_facts *f = t->model->facts;
    rx_trained p;
    RLX_TRY(rlx_gguf_writer_set_text(w, "general.type", "adapter", err));
    RLX_TRY(rlx_gguf_writer_set_text(w, "general.architecture", f->arch->name, err));
    RLX_TRY(rlx_gguf_writer_set_text(w, "adapter.type", "lora", err));
    RLX_TRY(rlx_gguf_writer_set_f32(w, "adapter.lora.alpha", (float)t->alpha, err));
    for (size_t i = 0; rx_trained_at(f, i, &p); i++)
        for (const char *which = "ab"; *which; which++) {
            char name[180], full[200];
            const rlx_shape s = shape_of(t, &p, *which);
            rx_facts_tensor_name(p.role, RX_NAMES_GGUF, p.layer - f->layer, name, sizeof name);
            snprintf(full, sizeof full, "%s.lora_%c", name, *which);
            RLX_TRY(rlx_gguf_writer_add_tensor(w, full, RLX_F32, &s, err));
        }
    return RLX_OK;
}

static rlx_status write_gguf(void *to, const void *data, size_t bytes, rlx_error *err)
{
    return rlx_gguf_writer_write(to, data, bytes, err);
}

rlx_status rlx_trainer_save(rlx_trainer *t, const char *path, rlx_error *err)
{
    rlx_gguf_writer *w = NULL;
    RLX_TRY(rx_need(t, "rlx_trainer_save: t", err));
    RLX_TRY(rx_need(path, "rlx_trainer_save: path", err));
    RLX_TRY(check_adapter(t, "rlx_trainer_save", err));
    RLX_TRY(rx_train_check_path(t, path, err));
    RLX_TRY(rlx_gguf_writer_create(path, &w, err));
    rlx_status st = announce_gguf(t, w, err);
    if (st == RLX_OK)
        st = write_matrices(t, RX_NAMES_GGUF, write_gguf, w, err);
    if (st == RLX_OK)
        st = rlx_gguf_writer_finish(w, err);
    rlx_gguf_writer_destroy(w);
    return st;
}

/* ---- PEFT ------------------------------------------------------------------------------------ */

/* Architectures whose modules have the names of tensors.def in PEFT too. */
static bool has_peft_names(const char *arch)
{
    static const char *const names[] = {"llama", "qwen2", "qwen3", "qwen2moe", "qwen3moe", "gemma",
                                        "gemma2", "gemma3", "phi3", "granite", "granitemoe",
                                        "olmo2", "command-r"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(names[i], arch))
            return true;
    return false;
}

/* "model.layers.0.self_attn.q_proj", and what stands behind the last dot. */
static const char *print_module(const rx_facts *f, const rx_trained *p, char name[180])
{
    if (!rx_facts_tensor_name(p->role, RX_NAMES_HF, p->layer - f->layer, name, 180))
        return NULL;
    name[strlen(name) - strlen(".weight")] = 0;
    return strrchr(name, '.') + 1;
}

/* Adds "q_proj" once. */
static void add_target(rx_str *s, const char *module)
{
    char quoted[190];
    snprintf(quoted, sizeof quoted, "\"%s\"", module);
    if (s->n && strstr(s->data, quoted))
        return;
    rx_str_puts(s, s->n ? ", " : "");
    rx_str_puts(s, quoted);
}

static rlx_status announce_peft(const rlx_trainer *t, rx_safetensors_writer *w, rx_str *targets,
                                rlx_error *err)
{
    const rx_facts *f = t->model->facts;
    rx_trained p;
    for (size_t i = 0; rx_trained_at(f, i, &p); i++)
        for (const char *which = "ab"; *which; which++) {
            char name[180], full[240];
            const rlx_shape s = shape_of(t, &p, *which);
            const char *module = print_module(f, &p, name);
            if (!module || !has_peft_names(f->arch->name))
                return rx_fail(err, RLX_UNSUPPORTED, "the architecture '%s' has no names for "
                               "adapters of PEFT that rlx knows; a GGUF adapter and a merged model "
                               "can be written", f->arch->name);
            snprintf(full, sizeof full, "base_model.model.%s.lora_%c.weight", name,
                     *which == 'a' ? 'A' : 'B');
            RLX_TRY(rx_safetensors_add(w, full, RLX_F32, &s, err));
            add_target(targets, module);
        }
    return RLX_OK;
}

static rlx_status write_config(const rlx_trainer *t, const char *path, const rx_str *targets,
                               rlx_error *err)
{
    rx_str s = {0};
    rx_str_puts(&s, "{\n  \"peft_type\": \"LORA\",\n  \"task_type\": \"CAUSAL_LM\",\n");
    rx_str_printf(&s, "  \"r\": %lld,\n  \"lora_alpha\": ", (long long)t->build.rank);
    rx_str_double(&s, t->alpha);
    rx_str_printf(&s, ",\n  \"lora_dropout\": 0.0,\n  \"target_modules\": [%s],\n", targets->data);
    rx_str_puts(&s, "  \"base_model_name_or_path\": null,\n  \"bias\": \"none\",\n"
                    "  \"fan_in_fan_out\": false,\n  \"inference_mode\": true,\n"
                    "  \"init_lora_weights\": true,\n  \"modules_to_save\": null,\n"
                    "  \"use_rslora\": false,\n  \"use_dora\": false\n}\n");
    const rx_bytes text = {s.data, s.n};
    const rlx_status st = s.failed ? rx_fail_memory(err, path, s.n)
                                   : rx_outfile_save(path, &rx_kind_json, &text, 1, err);
    rx_str_finish(&s);
    return st;
}

static rlx_status write_file(void *to, const void *data, size_t bytes, rlx_error *err)
{
    return rx_safetensors_write(to, RLX_F32, data, bytes, err);
}

static rlx_status save_peft(rlx_trainer *t, const char *weights, const char *config,
                            rlx_error *err)
{
    rx_safetensors_writer w = {0};
    rx_str targets = {0};
    rlx_status st = announce_peft(t, &w, &targets, err);
    if (st == RLX_OK)
        st = rx_outfile_make_folders(weights, err);
    if (st == RLX_OK)
        st = rx_safetensors_begin(&w, weights, err);
    if (st == RLX_OK)
        st = write_matrices(t, RX_NAMES_HF, write_file, &w, err);
    if (st == RLX_OK)
        st = write_config(t, config, &targets, err);
    if (st == RLX_OK)
        st = rx_safetensors_finish(&w, err);
    rx_safetensors_destroy(&w);
    rx_str_finish(&targets);
    return st;
}

rlx_status rlx_trainer_save_peft(rlx_trainer *t, const char *folder, rlx_error *err)
{
    char *weights = NULL, *config = NULL;
    RLX_TRY(rx_need(t, "rlx_trainer_save_peft: t", err));
    RLX_TRY(rx_need(folder, "rlx_trainer_save_peft: folder", err));
    RLX_TRY(check_adapter(t, "rlx_trainer_save_peft", err));
    const size_t n = strlen(folder);
    rlx_status st = rx_join_path(folder, n, "adapter_model.safetensors", &weights, err);
    if (st == RLX_OK)
        st = rx_join_path(folder, n, "adapter_config.json", &config, err);
    if (st == RLX_OK)
        st = save_peft(t, weights, config, err);
    rx_free(weights);
    rx_free(config);
    return st;
}
