/* SPDX-License-Identifier: MIT */
/* The states of a session in a GGUF file, each as a tensor of rank 1. */
#include "base/error.h"
#include "base/mem.h"
#include "model/train.h"
#include "rlx/quantize.h"

static rlx_status announce(rlx_session *s, rlx_gguf_writer *w, size_t *most, rlx_error *err)
{
    rlx_tensor_info info;
    RLX_TRY(rlx_gguf_writer_set_text(w, "general.type", "training", err));
    for (size_t i = 0; rlx_session_leaf(s, RLX_LEAF_STATE, i, &info); i++) {
        const rlx_dim elements = (rlx_dim)info.bytes / rlx_dtype_block_bytes(info.dtype);
        const rlx_shape flat = {.rank = 1, .dim = {elements}};
        RLX_TRY(rlx_gguf_writer_add_tensor(w, info.name, info.dtype, &flat, err));
        *most = info.bytes > *most ? info.bytes : *most;
    }
    return RLX_OK;
}

rlx_status rx_train_write_states(rlx_session *s, rlx_gguf_writer *w, rlx_error *err)
{
    rlx_tensor_info info;
    size_t most = 1;
    RLX_TRY(announce(s, w, &most, err));
    void *data = rx_alloc_array(most, 1);
    if (!data)
        return rx_fail(err, RLX_NO_MEMORY, "rlx_train_save: out of memory for a state of %zu bytes",
                       most);
    rlx_status status = RLX_OK;
    for (size_t i = 0; status == RLX_OK && rlx_session_leaf(s, RLX_LEAF_STATE, i, &info); i++) {
        status = rlx_session_state_read(s, info.name, 0, data, info.bytes, err);
        if (status == RLX_OK)
            status = rlx_gguf_writer_write(w, data, info.bytes, err);
    }
    rx_free(data);
    return status;
}

rlx_status rlx_train_save(rlx_session *s, const char *path, rlx_error *err)
{
    rlx_gguf_writer *w = NULL;
    if (!s || !path)
        return rx_fail(err, RLX_INVALID, "rlx_train_save: a session and a path expected, got NULL");
    RLX_TRY(rlx_gguf_writer_create(path, &w, err));
    rlx_status status = rx_train_write_states(s, w, err);
    if (status == RLX_OK)
        status = rlx_gguf_writer_finish(w, err);
    rlx_gguf_writer_destroy(w);
    return status;
}

static rlx_status find(const rlx_file *f, const char *path, const rlx_tensor_info *info,
                       rlx_file_tensor *t, rlx_error *err)
{
    if (!rlx_file_find_tensor(f, info->name, t))
        return rx_fail(err, RLX_NOT_FOUND, "'%s': expected the state '%s', got none of that name",
                       path, info->name);
    if (t->dtype == info->dtype && t->bytes == info->bytes)
        return RLX_OK;
    return rx_fail(err, RLX_INVALID, "'%s': state '%s' expected as %s of %zu bytes, got %s of %zu",
                   path, info->name, rlx_dtype_name(info->dtype), info->bytes, t->type_name,
                   t->bytes);
}

/* Checks all states before the first one changes. */
rlx_status rx_train_read_states(rlx_session *s, const rlx_file *f, const char *path,
                                rlx_error *err)
{
    rlx_tensor_info info;
    rlx_file_tensor t;
    for (size_t i = 0; rlx_session_leaf(s, RLX_LEAF_STATE, i, &info); i++)
        RLX_TRY(find(f, path, &info, &t, err));
    for (size_t i = 0; rlx_session_leaf(s, RLX_LEAF_STATE, i, &info); i++) {
        RLX_TRY(find(f, path, &info, &t, err));
        RLX_TRY(rlx_session_state_write(s, info.name, 0, t.data, info.bytes, err));
    }
    return RLX_OK;
}

rlx_status rlx_train_load(rlx_session *s, const char *path, rlx_error *err)
{
    rlx_file *f = NULL;
    if (!s || !path)
        return rx_fail(err, RLX_INVALID, "rlx_train_load: a session and a path expected, got NULL");
    RLX_TRY(rlx_file_open(path, &f, err));
    const rlx_status status = rx_train_read_states(s, f, path, err);
    rlx_file_close(f);
    return status;
}
