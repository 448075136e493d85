/* SPDX-License-Identifier: MIT */
/* Listing, selecting and opening devices, and the support table. */
#include "runtime/device.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/env.h"
#include "base/mem.h"
#include "base/sized.h"
#include "ops/lower.h"
#include "runtime/calibrate.h"

#define MAX_DEVICES 16 /* of one backend */

typedef char reason_text[512];

static const rx_backend *find_backend(const char *name, size_t length)
{
    for (size_t i = 0; rx_backends[i]; i++)
        if (strlen(rx_backends[i]->name) == length && !memcmp(rx_backends[i]->name, name, length))
            return rx_backends[i];
    return NULL;
}

static const rx_absent_backend *find_absent(const char *name, size_t length)
{
    for (const rx_absent_backend *b = rx_absent_backends; b->name; b++)
        if (strlen(b->name) == length && !memcmp(b->name, name, length))
            return b;
    return NULL;
}

/* The devices of a backend, at most MAX_DEVICES of them. */
static size_t list_backend(const rx_backend *b, rlx_device_info *out, reason_text reason)
{
    reason[0] = 0;
    size_t n = b->list(out, MAX_DEVICES, reason);
    return n < MAX_DEVICES ? n : MAX_DEVICES;
}

/* ---- Choosing -------------------------------------------------------------------------------- */

static bool contains_text(const char *text, const char *part)
{
    for (; *text; text++) {
        size_t i = 0;
        while (part[i] && tolower((unsigned char)text[i]) == tolower((unsigned char)part[i]))
            i++;
        if (!part[i])
            return true;
    }
    return false;
}

/* The index of the device that `part` (a number or a substring of the name; empty: the first)
 * selects. */
static size_t match_device(const char *part, const rlx_device_info *infos, size_t n)
{
    if (!*part)
        return 0;
    if (part[strspn(part, "0123456789")] == 0) {
        size_t index = 0;
        for (; *part && index <= n; part++)
            index = index * 10 + (size_t)(*part - '0');
        return index < n ? index : n;
    }
    for (size_t i = 0; i < n; i++)
        if (contains_text(infos[i].name, part))
            return i;
    return n;
}

/* "cpu, ref, null": the ids of all devices. */
static void list_ids(char *text, size_t cap)
{
    size_t used = 0;
    text[0] = 0;
    for (size_t i = 0; rx_backends[i]; i++) {
        rlx_device_info infos[MAX_DEVICES];
        reason_text reason;
        size_t n = list_backend(rx_backends[i], infos, reason);
        for (size_t k = 0; k < n && used < cap; k++) {
            int len = snprintf(text + used, cap - used, "%s%s", used ? ", " : "", infos[k].id);
            used += len > 0 ? (size_t)len : 0;
        }
    }
}

static rlx_status fail_choice(const char *id, const char *why, rlx_error *err)
{
    char ids[160];
    list_ids(ids, sizeof ids);
    return rx_fail(err, RLX_NO_DEVICE, "device '%s' is not available: %s. Devices: %s", id, why,
                   ids);
}

static rlx_status choose_auto(rx_choice *c, rlx_error *err)
{
    c->backend = rx_backend_best();
    if (!c->backend)
        return fail_choice("auto", "no backend of this build has a device", err);
    rlx_device_info infos[MAX_DEVICES];
    reason_text reason;
    if (!list_backend(c->backend, infos, reason))
        return fail_choice("auto", reason, err);
    c->index = 0;
    c->info = infos[0];
    return RLX_OK;
}

rlx_status rx_device_find(const char *id, rx_choice *c, rlx_error *err)
{
    if (!id || !*id || !strcmp(id, "auto"))
        id = rx_env_text(RX_ENV_DEVICE);
    if (!id || !strcmp(id, "auto"))
        return choose_auto(c, err);

    size_t length = strcspn(id, ":");
    const char *part = id[length] ? id + length + 1 : "";
    const rx_absent_backend *absent = find_absent(id, length);
    c->backend = find_backend(id, length);
    if (!c->backend)
        return fail_choice(id, absent ? absent->reason : "there is no backend of that name", err);

    rlx_device_info infos[MAX_DEVICES];
    reason_text reason;
    size_t n = list_backend(c->backend, infos, reason);
    if (!n)
        return fail_choice(id, reason, err);
    c->index = match_device(part, infos, n);
    if (c->index == n)
        return fail_choice(id, "no device of this backend has that number or name", err);
    c->info = infos[c->index];
    return RLX_OK;
}

/* ---- Public: listing ------------------------------------------------------------------------- */

/* A caller's array of versioned structs, and how many were written so far. */
typedef struct info_list {
    char *out;
    size_t cap, n;
    size_t stride; /* the struct_size of the caller */
} info_list;

static rlx_status begin_list(info_list *l, void *out, size_t cap, size_t size, const char *type,
                             rlx_error *err)
{
    *l = (info_list){.out = out, .cap = cap};
    if (!cap)
        return RLX_OK;
    RLX_TRY(rx_need(out, type, err));
    RLX_TRY(rx_info_check(out, size, type, err));
    memcpy(&l->stride, out, sizeof l->stride);
    return RLX_OK;
}

static void add_to_list(info_list *l, const void *info, size_t size, const char *type)
{
    if (l->n < l->cap) {
        char *to = l->out + l->n * l->stride;
        memcpy(to, &l->stride, sizeof l->stride);
        rx_info_write(to, info, size, type, NULL);
    }
    l->n++;
}

rlx_status rlx_device_list(rlx_device_info *out, size_t cap, size_t *n, rlx_error *err)
{
    info_list list;
    RLX_TRY(rx_need(n, "rlx_device_list: n", err));
    *n = 0;
    RLX_TRY(begin_list(&list, out, cap, sizeof *out, "rlx_device_info", err));
    rx_choice best;
    bool has_default = rx_device_find(NULL, &best, NULL) == RLX_OK;
    for (size_t i = 0; rx_backends[i]; i++) {
        rlx_device_info infos[MAX_DEVICES];
        reason_text reason;
        size_t found = list_backend(rx_backends[i], infos, reason);
        for (size_t k = 0; k < found; k++) {
            infos[k].is_default = has_default && best.backend == rx_backends[i] && best.index == k;
            add_to_list(&list, &infos[k], sizeof *infos, "rlx_device_info");
        }
    }
    *n = list.n;
    return RLX_OK;
}

rlx_status rlx_backend_list(rlx_backend_info *out, size_t cap, size_t *n, rlx_error *err)
{
    info_list list;
    RLX_TRY(rx_need(n, "rlx_backend_list: n", err));
    *n = 0;
    RLX_TRY(begin_list(&list, out, cap, sizeof *out, "rlx_backend_info", err));
    for (size_t i = 0; rx_backends[i]; i++) {
        rlx_backend_info info = {0};
        snprintf(info.name, sizeof info.name, "%s", rx_backends[i]->name);
        if (list.n < list.cap) /* drivers are slow */
            info.available = rx_backends[i]->list(NULL, 0, info.reason) > 0;
        add_to_list(&list, &info, sizeof info, "rlx_backend_info");
    }
    for (const rx_absent_backend *b = rx_absent_backends; b->name; b++) {
        rlx_backend_info info = {0};
        snprintf(info.name, sizeof info.name, "%s", b->name);
        snprintf(info.reason, sizeof info.reason, "%s", b->reason);
        add_to_list(&list, &info, sizeof info, "rlx_backend_info");
    }
    *n = list.n;
    return RLX_OK;
}

bool rlx_device_is_available(const char *id)
{
    rx_choice c;
    return rx_device_find(id, &c, NULL) == RLX_OK;
}

/* ---- Public: open devices -------------------------------------------------------------------- */

static bool init_order(rlx_device *d)
{
    if (!rx_mutex_init(&d->order))
        return false;
    if (rx_cond_init(&d->ordered))
        return true;
    rx_mutex_finish(&d->order);
    return false;
}

static void free_device(rlx_device *d)
{
    rx_cond_finish(&d->ordered);
    rx_mutex_finish(&d->order);
    rx_free(d);
}

rlx_status rlx_device_open(const char *id, const rlx_device_desc *desc, rlx_device **out,
                           rlx_error *err)
{
    RLX_TRY(rx_need(out, "rlx_device_open: out", err));
    *out = NULL;
    rlx_device_desc full;
    RLX_TRY(RX_DESC_READ(rlx_device_desc, &full, desc, err));
    rx_choice c;
    RLX_TRY(rx_device_find(id, &c, err));
    if (full.flags & ~(uint64_t)RLX_DEVICE_COMPILE_ONLY)
        return rx_fail(err, RLX_INVALID, "rlx_device_open: unknown flags %#llx",
                       (unsigned long long)full.flags);
    if (full.flags & RLX_DEVICE_COMPILE_ONLY && !c.backend->exec_kernel_info)
        return rx_fail(err, RLX_UNSUPPORTED, "device %s cannot be opened to compile only: a "
                       "Vulkan device can", c.info.id);
    rlx_device *d = rx_alloc_zero(sizeof *d);
    if (!d)
        return rx_fail_memory(err, "the device", sizeof *d);
    d->backend = c.backend;
    d->info = c.info;
    if (full.threads && c.info.threads > 0 && !c.info.is_test)
        d->info.threads = full.threads;
    /* A named device would need all backends to be listed: drivers are slow. */
    d->info.is_default = !id || !*id || !strcmp(id, "auto");
    atomic_init(&d->refs, 1);
    if (!init_order(d)) {
        rx_free(d);
        return rx_fail_memory(err, "a lock of the device", sizeof d->order);
    }
    rlx_status st = c.backend->open(c.index, &full, &d->device, err);
    if (st != RLX_OK) {
        free_device(d);
        return st;
    }
    if (c.backend->describe)
        c.backend->describe(d->device, d->info.detail, sizeof d->info.detail);
    rx_knobs_apply(d);
    *out = d;
    return RLX_OK;
}

rlx_device *rx_device_ref(rlx_device *d)
{
    atomic_fetch_add_explicit(&d->refs, 1, memory_order_relaxed);
    return d;
}

void rx_device_unref(rlx_device *d)
{
    if (!d || atomic_fetch_sub(&d->refs, 1) != 1)
        return;
    d->backend->close(d->device);
    free_device(d);
}

void rlx_device_close(rlx_device *d)
{
    rx_device_unref(d);
}

rlx_status rlx_device_get_info(const rlx_device *d, rlx_device_info *out, rlx_error *err)
{
    RLX_TRY(rx_need(d, "rlx_device_get_info: d", err));
    return RX_INFO_WRITE(rlx_device_info, out, &d->info, err);
}

/* ---- Public: support ------------------------------------------------------------------------- */

rlx_support rlx_op_support(const char *backend, const char *op)
{
    const rx_backend *b = backend ? find_backend(backend, strlen(backend)) : NULL;
    rx_op id = op ? rx_op_find(op, strlen(op)) : RX_N_OPS;
    if (!b || id == RX_N_OPS)
        return RLX_SUPPORT_NO;
    if (rx_ops[id].flags & RX_OP_LEAF || id == RX_OP_reshape)
        return RLX_SUPPORT_VIEW;
    rlx_support s = b->op_support(id);
    if (s >= RLX_SUPPORT_DECOMPOSED || !rx_lower_table[id])
        return s;
    /* split becomes narrows, which are views */
    return rx_ops[id].flags & RX_OP_VIEW ? RLX_SUPPORT_VIEW : RLX_SUPPORT_DECOMPOSED;
}

const char *rlx_support_name(rlx_support s)
{
    static const char *const names[] = {
        [RLX_SUPPORT_NO] = "no",
        [RLX_SUPPORT_HOST] = "host",
        [RLX_SUPPORT_DECOMPOSED] = "decomposed",
        [RLX_SUPPORT_VIEW] = "view",
        [RLX_SUPPORT_NATIVE] = "native",
        [RLX_SUPPORT_REFERENCE] = "reference",
    };
    return (unsigned)s < sizeof names / sizeof names[0] ? names[s] : "no";
}
