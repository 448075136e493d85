/* SPDX-License-Identifier: MIT */
/* Writes safetensors files: 8 bytes of length, a JSON header padded with spaces to a multiple of 8,
 * and the data without gaps. */
#include <string.h>

#include "base/little.h"
#include "base/mem.h"
#include "import/safetensors.h"

/* Names have no control characters, so only quotes and backslashes are escaped. */
static void put_name(rx_str *s, const char *name)
{
    rx_str_puts(s, "\"");
    for (; *name; name++) {
        if (*name == '"' || *name == '\\')
            rx_str_puts(s, "\\");
        rx_str_add(s, name, 1);
    }
    rx_str_puts(s, "\"");
}

rlx_status rx_safetensors_add(rx_safetensors_writer *w, const char *name, rlx_dtype t,
                              const rlx_shape *shape, rlx_error *err)
{
    uint64_t n = 1, end;
    bool fits = true;
    const char *type = rx_safetensors_type_name(t);
    if (!type)
        return rx_fail(err, RLX_UNSUPPORTED, "tensor '%.150s' has the type %s, which safetensors "
                       "files do not have", name, rlx_dtype_name(t));
    rx_str_puts(&w->head, w->head.n ? "," : "{\"__metadata__\":{\"format\":\"pt\"},");
    put_name(&w->head, name);
    rx_str_printf(&w->head, ":{\"dtype\":\"%s\",\"shape\":[", type);
    for (int i = 0; i < shape->rank; i++) {
        fits = fits && rx_mul_size(n, (uint64_t)shape->dim[i], &n);
        rx_str_printf(&w->head, i ? ",%lld" : "%lld", (long long)shape->dim[i]);
    }
    fits = fits && rx_mul_size(n, (uint64_t)rlx_dtype_block_bytes(t), &n);
    if (!fits || !rx_add_size(w->bytes, n, &end))
        return rx_fail(err, RLX_INVALID, "tensor '%.150s' is too large", name);
    rx_str_printf(&w->head, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)w->bytes,
                  (unsigned long long)end);
    w->bytes = end;
    return RLX_OK;
}

rlx_status rx_safetensors_begin(rx_safetensors_writer *w, const char *path, rlx_error *err)
{
    unsigned char length[8];
    if (!w->head.n)
        rx_str_puts(&w->head, "{");
    rx_str_puts(&w->head, "}");
    while (w->head.n % 8)
        rx_str_puts(&w->head, " ");
    if (w->head.failed)
        return rx_fail_memory(err, path, w->head.n);
    for (int i = 0; i < 8; i++)
        length[i] = (unsigned char)((uint64_t)w->head.n >> 8 * i & 255);
    RLX_TRY(rx_outfile_open(path, &rx_kind_safetensors, &w->file, err));
    RLX_TRY(rx_outfile_write(&w->file, length, sizeof length, err));
    return rx_outfile_write(&w->file, w->head.data, w->head.n, err);
}

rlx_status rx_safetensors_write(rx_safetensors_writer *w, rlx_dtype t, const void *data,
                                size_t bytes, rlx_error *err)
{
    char part[1024];
    if (!rx_little_swaps(t))
        return rx_outfile_write(&w->file, data, bytes, err);
    for (size_t at = 0; at < bytes; at += sizeof part) {
        const size_t n = bytes - at < sizeof part ? bytes - at : sizeof part;
        rx_little_copy(t, (const char *)data + at, part, n);
        RLX_TRY(rx_outfile_write(&w->file, part, n, err));
    }
    return RLX_OK;
}

rlx_status rx_safetensors_finish(rx_safetensors_writer *w, rlx_error *err)
{
    return rx_outfile_commit(&w->file, err);
}

void rx_safetensors_destroy(rx_safetensors_writer *w)
{
    rx_outfile_discard(&w->file);
    rx_str_finish(&w->head);
}
