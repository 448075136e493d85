/* SPDX-License-Identifier: MIT */
/* Whole models with what was learned: a GGUF file of a GGUF model, a folder of one in safetensors,
 * with the files beside its weights. */
#include <string.h>
#include <sys/stat.h>

#include "base/dtype.h"
#include "import/file.h"
#include "import/safetensors.h"
#include "model/train.h"
#include "rlx/quantize.h"

/* What a tensor becomes: only matrices that learn change their type. */
static rlx_dtype type_of(const rlx_trainer *t, const rlx_file_tensor *w, rlx_dtype wanted)
{
    const bool is_matrix = w->shape.rank > 1;
    return wanted != RLX_NO_TYPE && is_matrix && rx_train_changes(t, w->name) ? wanted : w->dtype;
}

static rlx_status check_type(const rlx_trainer *t, const rlx_file_tensor *w, rlx_dtype to,
                             rlx_error *err)
{
    if (!rx_train_changes(t, w->name) || rlx_dtype_can_quantize(to))
        return RLX_OK;
    return rx_fail(err, RLX_UNSUPPORTED, "tensor '%.150s' has the type %s, which rlx cannot make: "
                   "give another one (f16, q8_0, ...)", w->name, rlx_dtype_name(to));
}

/* The current data of a tensor in type `to`; *owned is freed with rx_free. */
static rlx_status make_tensor(rlx_trainer *t, const rlx_file_tensor *w, rlx_dtype to, void **owned,
                              rx_bytes *out, rlx_error *err)
{
    int64_t n = 1;
    uint64_t bytes;
    *owned = NULL;
    if (!rx_train_changes(t, w->name)) {
        const void *data;
        RLX_TRY(rx_file_load(t->model->file, w, &data, owned, err));
        *out = (rx_bytes){data, w->bytes};
        return RLX_OK;
    }
    for (int i = 0; i < w->shape.rank; i++)
        n *= w->shape.dim[i];
    const int64_t row = w->shape.rank ? w->shape.dim[w->shape.rank - 1] : 1;
    float *f = rx_alloc_array((uint64_t)n, sizeof *f);
    *owned = rx_dtype_bytes(to, n, &bytes) ? rx_alloc(bytes) : NULL;
    rlx_status st = f && *owned ? rx_train_tensor(t, w, f, err)
                                : rx_fail_memory(err, w->name, (uint64_t)n * sizeof *f);
    const rlx_quantize_rows_desc d = {RLX_INIT(rlx_quantize_rows_desc), .from = RLX_F32, .to = to,
                                      .src = f, .dst = *owned, .n_rows = row ? n / row : 0,
                                      .row_length = row};
    if (st == RLX_OK)
        st = rlx_quantize_rows(&d, NULL, err);
    *out = (rx_bytes){*owned, bytes};
    rx_free(f);
    return st;
}

typedef rlx_status write_fn(void *to, rlx_dtype type, const void *data, size_t bytes,
                            rlx_error *err);

static rlx_status write_tensors(rlx_trainer *t, rlx_dtype type, write_fn *fn, void *to,
                                rlx_error *err)
{
    rlx_file_tensor w;
    rlx_status st = RLX_OK;
    for (size_t i = 0; st == RLX_OK && rlx_file_tensor_at(t->model->file, i, &w); i++) {
        void *owned;
        rx_bytes data = {0};
        const rlx_dtype becomes = type_of(t, &w, type);
        st = make_tensor(t, &w, becomes, &owned, &data, err);
        if (st == RLX_OK)
            st = fn(to, becomes, data.data, data.bytes, err);
        rx_free(owned);
    }
    return st;
}

/* ---- GGUF ------------------------------------------------------------------------------------ */

static rlx_status write_gguf(void *to, rlx_dtype type, const void *data, size_t bytes,
                             rlx_error *err)
{
    (void)type;
    return rlx_gguf_writer_write(to, data, bytes, err);
}

static rlx_status save_gguf(rlx_trainer *t, rlx_gguf_writer *w, rlx_dtype type, rlx_error *err)
{
    const rlx_file *f = t->model->file;
    rlx_file_tensor tensor;
    RLX_TRY(rlx_gguf_writer_copy_meta(w, f, err));
    for (size_t i = 0; rlx_file_tensor_at(f, i, &tensor); i++) {
        const rlx_dtype to = type_of(t, &tensor, type);
        RLX_TRY(check_type(t, &tensor, to, err));
        RLX_TRY(rlx_gguf_writer_add_tensor(w, tensor.name, to, &tensor.shape, err));
    }
    RLX_TRY(write_tensors(t, type, write_gguf, w, err));
    return rlx_gguf_writer_finish(w, err);
}

/* ---- safetensors ----------------------------------------------------------------------------- */

static rlx_status write_file(void *to, rlx_dtype type, const void *data, size_t bytes,
                             rlx_error *err)
{
    return rx_safetensors_write(to, type, data, bytes, err);
}

static rlx_status save_weights(rlx_trainer *t, rx_safetensors_writer *w, const char *path,
                               rlx_dtype type, rlx_error *err)
{
    rlx_file_tensor tensor;
    RLX_TRY(rx_train_check_path(t, path, err));
    for (size_t i = 0; rlx_file_tensor_at(t->model->file, i, &tensor); i++) {
        const rlx_dtype to = type_of(t, &tensor, type);
        RLX_TRY(check_type(t, &tensor, to, err));
        RLX_TRY(rx_safetensors_add(w, tensor.name, to, &tensor.shape, err));
    }
    RLX_TRY(rx_outfile_make_folders(path, err));
    RLX_TRY(rx_safetensors_begin(w, path, err));
    return write_tensors(t, type, write_file, w, err);
}

/* One that is there must be the same. */
static rlx_status save_copy(const char *to, const rx_file *from, rlx_error *err)
{
    static const rx_file_kind new_file = {"nothing there", "", 0, 0};
    const rx_bytes text = {from->data, from->bytes};
    struct stat info;
    rx_file old;
    if (stat(to, &info) || !info.st_size)
        return rx_outfile_save(to, &new_file, &text, 1, err);
    RLX_TRY(rx_file_open(to, &old, err));
    const bool same = old.bytes == from->bytes && !memcmp(old.data, from->data, old.bytes);
    rx_file_close(&old);
    return same ? RLX_OK : rx_fail(err, RLX_INVALID, "'%.200s' was not replaced: it is not that of "
                                   "the model", to);
}

/* A file of the model's folder, as it is; one that is not there is fine. */
static rlx_status copy_beside(const rlx_trainer *t, const char *folder, const char *name,
                              rlx_error *err)
{
    const char *model = t->model->path, *slash = strrchr(model, '/');
    const size_t n = rx_is_folder(model) ? strlen(model) : slash ? (size_t)(slash - model) : 0;
    struct stat info;
    char *from = NULL, *to = NULL;
    rx_file f = {0};
    RLX_TRY(rx_join_path(n ? model : ".", n ? n : 1, name, &from, err));
    rlx_status st = rx_join_path(folder, strlen(folder), name, &to, err);
    if (st == RLX_OK && !stat(from, &info) && S_ISREG(info.st_mode) && info.st_size) {
        st = rx_file_open(from, &f, err);
        if (st == RLX_OK)
            st = rx_outfile_make_folders(to, err);
        if (st == RLX_OK)
            st = save_copy(to, &f, err);
        rx_file_close(&f);
    }
    rx_free(from);
    rx_free(to);
    return st;
}

/* The weights get their name last: a folder with them is whole. */
static rlx_status save_folder(rlx_trainer *t, const char *folder, rlx_dtype type, rlx_error *err)
{
    static const char *const beside[] = {
        "config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json",
        "special_tokens_map.json", "chat_template.jinja", "vocab.txt", "vocab.json", "merges.txt",
        "modules.json", "sentence_bert_config.json", "config_sentence_transformers.json",
        "1_Pooling/config.json",
    };
    rx_safetensors_writer w = {0};
    char *path = NULL;
    RLX_TRY(rx_join_path(folder, strlen(folder), "model.safetensors", &path, err));
    rlx_status st = save_weights(t, &w, path, type, err);
    for (size_t i = 0; st == RLX_OK && i < sizeof beside / sizeof *beside; i++)
        st = copy_beside(t, folder, beside[i], err);
    if (st == RLX_OK)
        st = rx_safetensors_finish(&w, err);
    rx_safetensors_destroy(&w);
    rx_free(path);
    return st;
}

rlx_status rlx_trainer_save_model(rlx_trainer *t, const char *path, rlx_dtype type, rlx_error *err)
{
    rlx_gguf_writer *w = NULL;
    RLX_TRY(rx_need(t, "rlx_trainer_save_model: t", err));
    RLX_TRY(rx_need(path, "rlx_trainer_save_model: path", err));
    if (type != RLX_NO_TYPE && !rlx_dtype_can_quantize(type))
        return rx_fail(err, RLX_UNSUPPORTED, "weights cannot be written as %s; expected f32, f16, "
                       "bf16 or a type that rlx quantises to", rlx_dtype_name(type));
    if (strcmp(rlx_file_format(t->model->file), "gguf"))
        return save_folder(t, path, type, err);
    RLX_TRY(rx_train_check_path(t, path, err));
    RLX_TRY(rlx_gguf_writer_create(path, &w, err));
    const rlx_status st = save_gguf(t, w, type, err);
    rlx_gguf_writer_destroy(w);
    return st;
}
