/* SPDX-License-Identifier: MIT */
/* Device buffers: creation, destruction, host reads and writes. Validates all arguments and orders
 * host accesses with runs, so backends need not. */
#include "runtime/buffer.h"

#include "base/dtype.h"
#include "base/mem.h"
#include "base/sized.h"
#include "runtime/session.h"

/* ---- Creation -------------------------------------------------------------------------------- */

/* The bytes that a descriptor asks for. */
static rlx_status desc_bytes(const rlx_buffer_desc *d, size_t *bytes, rlx_error *err)
{
    char type[RX_TYPE_TEXT];
    uint64_t want = 0;
    int64_t n = 1;
    *bytes = d->bytes;
    if (d->dtype == RLX_NO_TYPE)
        return d->shape.rank ? rx_fail(err, RLX_INVALID, "a buffer without a dtype has no shape: "
                                       "rank %d was given", d->shape.rank)
                             : RLX_OK;
    if ((unsigned)d->dtype >= RLX_N_DTYPES || d->shape.rank < 0 || d->shape.rank > RLX_MAX_RANK)
        return rx_fail(err, RLX_INVALID, "a buffer of type %d with rank %d: there is no such "
                       "tensor", (int)d->dtype, d->shape.rank);
    for (int i = 0; i < d->shape.rank; i++) {
        if (d->shape.dim[i] < 0)
            return rx_fail(err, RLX_INVALID, "dimension %d of a buffer is named: expected a "
                           "number", i);
        if (__builtin_mul_overflow(n, d->shape.dim[i], &n))
            return rx_fail(err, RLX_INVALID, "a buffer with more than 2^63 elements");
    }
    if (!rx_dtype_bytes(d->dtype, n, &want) || want > SIZE_MAX)
        return rx_fail(err, RLX_INVALID, "a buffer of %s has no size: expected whole blocks and at "
                       "most %zu bytes", rx_number_type_text(d->dtype, &d->shape, type), SIZE_MAX);
    if (d->bytes && d->bytes != want)
        return rx_fail(err, RLX_INVALID, "a buffer of %s has %llu bytes, not %zu",
                       rx_number_type_text(d->dtype, &d->shape, type), (unsigned long long)want,
                       d->bytes);
    *bytes = (size_t)want;
    return RLX_OK;
}

rlx_status rlx_buffer_create(rlx_device *d, const rlx_buffer_desc *desc, rlx_buffer **out,
                             rlx_error *err)
{
    RLX_TRY(rx_need(out, "rlx_buffer_create: out", err));
    *out = NULL;
    RLX_TRY(rx_need(d, "rlx_buffer_create: d", err));
    RLX_TRY(rx_need(desc, "rlx_buffer_create: desc", err));
    rlx_buffer_desc full;
    size_t bytes;
    RLX_TRY(RX_DESC_READ(rlx_buffer_desc, &full, desc, err));
    RLX_TRY(desc_bytes(&full, &bytes, err));
    rlx_buffer *b = rx_alloc_zero(sizeof *b);
    if (!b)
        return rx_fail_memory(err, "a buffer", sizeof *b);
    rlx_status st = d->backend->buffer_create(d->device, bytes, &b->memory, err);
    if (st != RLX_OK) {
        rx_free(b);
        return st;
    }
    atomic_init(&b->refs, 1);
    atomic_init(&b->given_up, false);
    b->device = rx_device_ref(d);
    b->dtype = full.dtype;
    b->shape = full.shape;
    b->bytes = bytes;
    *out = b;
    return RLX_OK;
}

void rx_buffer_ref(rlx_buffer *b)
{
    atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed);
}

void rx_buffer_unref(rlx_buffer *b)
{
    if (!b || atomic_fetch_sub(&b->refs, 1) != 1)
        return;
    b->device->backend->buffer_destroy(b->memory);
    rx_device_unref(b->device);
    rx_free(b);
}

void rlx_buffer_destroy(rlx_buffer *b)
{
    if (b)
        atomic_store(&b->given_up, true);
    rx_buffer_unref(b);
}

rlx_status rlx_buffer_get_info(const rlx_buffer *b, rlx_buffer_info *out, rlx_error *err)
{
    RLX_TRY(rx_need(b, "rlx_buffer_get_info: b", err));
    rlx_buffer_info info = {RLX_INIT(rlx_buffer_info), .dtype = b->dtype, .shape = b->shape,
                            .bytes = b->bytes, .device = b->device,
                            .mappable = b->device->backend->buffer_map(b->memory) != NULL};
    return RX_INFO_WRITE(rlx_buffer_info, out, &info, err);
}

/* ---- Order ----------------------------------------------------------------------------------- */

static bool in_the_way(const rx_use *u, const rlx_session *self, bool writes)
{
    return u->session != self && (writes || rx_use_writes(u));
}

bool rx_buffer_wait_submits(const rlx_buffer *b, const rlx_session *self, bool writes)
{
    for (const rx_use *u = b->uses; u; u = u->next)
        if (in_the_way(u, self, writes) && u->session->submitting) {
            rx_cond_wait(&b->device->ordered, &b->device->order);
            return true;
        }
    return false;
}

rlx_status rx_buffer_wait_runs(const rlx_buffer *b, const rlx_session *self, bool writes,
                               rlx_error *err)
{
    rlx_status st = RLX_OK;
    for (const rx_use *u = b->uses; u; u = u->next) {
        const uint64_t last = atomic_load(&u->session->last_ticket);
        if (!last || !in_the_way(u, self, writes))
            continue;
        rlx_status one = b->device->backend->exec_wait(u->session->exec, last, -1,
                                                       st == RLX_OK ? err : NULL);
        st = st == RLX_OK ? one : st;
    }
    return st;
}

/* ---- The host -------------------------------------------------------------------------------- */

/* Takes the order lock once no run conflicts with host access. Not held on failure. */
static rlx_status begin_access(rlx_buffer *b, bool writes, rlx_error *err)
{
    const rx_backend *backend = b->device->backend;
    rlx_status st = RLX_OK;
    rx_mutex_lock(&b->device->order);
    while (rx_buffer_wait_submits(b, NULL, writes))
        continue;
    if (b->mapped)
        st = rx_fail(err, RLX_INVALID, "the buffer is mapped: rlx_buffer_unmap first");
    else if (!writes)
        st = rx_buffer_wait_runs(b, NULL, false, err);
    else if (!backend->orders_writes) /* a failed run is reported by its session */
        rx_buffer_wait_runs(b, NULL, true, NULL);
    if (st != RLX_OK)
        rx_mutex_unlock(&b->device->order);
    return st;
}

static void end_access(rlx_buffer *b, bool writes)
{
    if (writes)
        b->device->backend->buffer_changed(b->memory);
    rx_mutex_unlock(&b->device->order);
}

static rlx_status check_range(const rlx_buffer *b, size_t offset, size_t bytes, rlx_error *err)
{
    if (offset <= b->bytes && bytes <= b->bytes - offset)
        return RLX_OK;
    return rx_fail(err, RLX_INVALID, "the buffer has %zu bytes: %zu bytes from byte %zu on are not "
                   "in it", b->bytes, bytes, offset);
}

rlx_status rlx_buffer_write(rlx_buffer *b, size_t offset, const void *data, size_t bytes,
                            rlx_error *err)
{
    RLX_TRY(rx_need(b, "rlx_buffer_write: b", err));
    if (bytes)
        RLX_TRY(rx_need(data, "rlx_buffer_write: data", err));
    RLX_TRY(check_range(b, offset, bytes, err));
    RLX_TRY(begin_access(b, true, err));
    rlx_status st = bytes ? b->device->backend->buffer_write(b->memory, offset, data, bytes, err)
                          : RLX_OK;
    end_access(b, true);
    return st;
}

rlx_status rlx_buffer_read(rlx_buffer *b, size_t offset, void *data, size_t bytes, rlx_error *err)
{
    RLX_TRY(rx_need(b, "rlx_buffer_read: b", err));
    if (bytes)
        RLX_TRY(rx_need(data, "rlx_buffer_read: data", err));
    RLX_TRY(check_range(b, offset, bytes, err));
    RLX_TRY(begin_access(b, false, err));
    rlx_status st = bytes ? b->device->backend->buffer_read(b->memory, offset, data, bytes, err)
                          : RLX_OK;
    end_access(b, false);
    return st;
}

rlx_status rlx_buffer_map(rlx_buffer *b, void **data, rlx_error *err)
{
    RLX_TRY(rx_need(data, "rlx_buffer_map: data", err));
    *data = NULL;
    RLX_TRY(rx_need(b, "rlx_buffer_map: b", err));
    void *map = b->device->backend->buffer_map(b->memory);
    if (!map)
        return rx_fail(err, RLX_UNSUPPORTED, "device %s: the host cannot reach its memory; use "
                       "rlx_buffer_read and rlx_buffer_write", b->device->info.id);
    RLX_TRY(begin_access(b, true, err));
    rx_buffer_wait_runs(b, NULL, true, NULL);
    b->mapped = true;
    end_access(b, false);
    *data = map;
    return RLX_OK;
}

rlx_status rlx_buffer_unmap(rlx_buffer *b, rlx_error *err)
{
    RLX_TRY(rx_need(b, "rlx_buffer_unmap: b", err));
    rx_mutex_lock(&b->device->order);
    const bool was = b->mapped;
    b->mapped = false;
    end_access(b, was);
    return was ? RLX_OK : rx_fail(err, RLX_INVALID, "the buffer is not mapped");
}
