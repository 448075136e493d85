/* SPDX-License-Identifier: MIT */
/* Device calibration: default rates, the files of the cache folder, and the public function.
 *
 * A file has a header that identifies device, driver and kernels by a hash, then the rates. A file
 * with another hash or a corrupt one is ignored with a log line. */
#include "runtime/calibrate.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/cache.h"
#include "base/env.h"
#include "base/error.h"
#include "base/map.h"
#include "base/sized.h"
#include "runtime/device.h"

#define MAGIC 0x32304c4143584c52u /* "RLXCAL02" */
#define N_NUMBERS 7

typedef struct record {
    uint64_t magic, key, digest; /* digest: of what follows */
    double number[N_NUMBERS];
    char kernels[sizeof ((rlx_calibration *)0)->kernels]; /* zeros after the text */
} record;

/* ---- Typical numbers ------------------------------------------------------------------------- */

rlx_calibration rx_calibration_assume(const rlx_device_info *info)
{
    const double threads = info->threads ? info->threads : 1;
    if (info->is_test)
        return (rlx_calibration){RLX_INIT(rlx_calibration), .gemm = 5e8, .gemm_fast = 5e8,
                                 .bandwidth = 1e9, .dispatch = 2e-6, .submit = 1e-5, .upload = 4e9,
                                 .download = 4e9};
    if (info->is_software)
        return (rlx_calibration){RLX_INIT(rlx_calibration), .gemm = 1e10, .gemm_fast = 1e10,
                                 .bandwidth = 3e9, .dispatch = 3e-5, .submit = 3e-4, .upload = 3e9,
                                 .download = 3e9};
    if (!strcmp(info->backend, "cpu"))
        return (rlx_calibration){RLX_INIT(rlx_calibration), .gemm = 3e10 * threads,
                                 .gemm_fast = 4e10 * threads, .bandwidth = 1e10, .dispatch = 3e-6,
                                 .submit = 1e-5, .upload = 5e9, .download = 5e9};
    const bool direct = strcmp(info->backend, "webgpu") != 0;
    return (rlx_calibration){RLX_INIT(rlx_calibration), .gemm = 4e12, .gemm_fast = 1e13,
                             .bandwidth = 2e11, .dispatch = direct ? 5e-6 : 1e-5,
                             .submit = direct ? 4e-5 : 1.5e-4, .upload = 6e9, .download = 6e9};
}

/* ---- Files ----------------------------------------------------------------------------------- */

/* The cache key: what the rates depend on. */
static uint64_t key_of(const rx_backend *b, const rlx_device_info *info)
{
    const char *const texts[] = {rlx_version(), b->name, info->name, info->driver};
    uint64_t h = info->threads;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        h = rx_hash(h, texts[i], strlen(texts[i]) + 1);
    const uint64_t kernels = b->kernels_digest ? b->kernels_digest() : 0;
    return rx_hash(h, &kernels, sizeof kernels);
}

static void file_name(uint64_t key, char *out, size_t cap)
{
    snprintf(out, cap, "calibration-%016llx.bin", (unsigned long long)key);
}

static void to_numbers(const rlx_calibration *c, double number[N_NUMBERS])
{
    const double all[N_NUMBERS] = {c->gemm, c->gemm_fast, c->bandwidth, c->dispatch,
                                   c->submit, c->upload, c->download};
    memcpy(number, all, sizeof all);
}

static rlx_calibration from_record(const record *r)
{
    const double *n = r->number;
    rlx_calibration c = {RLX_INIT(rlx_calibration), .measured = true, .gemm = n[0],
                         .gemm_fast = n[1], .bandwidth = n[2], .dispatch = n[3], .submit = n[4],
                         .upload = n[5], .download = n[6]};
    memcpy(c.kernels, r->kernels, sizeof c.kernels);
    return c;
}

static uint64_t digest_of(const record *r)
{
    return rx_hash(rx_hash(r->key, r->number, sizeof r->number), r->kernels, sizeof r->kernels);
}

static bool is_sound(const record *r, uint64_t key)
{
    if (r->magic != MAGIC || r->key != key || r->digest != digest_of(r) ||
        r->kernels[sizeof r->kernels - 1])
        return false;
    for (size_t i = 0; i < N_NUMBERS; i++)
        if (!(r->number[i] > 0) || !isfinite(r->number[i]))
            return false;
    return true;
}

bool rx_calibration_load(const rx_backend *b, const rlx_device_info *info, rlx_calibration *out)
{
    char name[64], path[1024];
    const uint64_t key = key_of(b, info);
    rx_file f;
    file_name(key, name, sizeof name);
    if (!rx_cache_open(name, &f, path, sizeof path))
        return false;
    record r = {0};
    if (f.bytes == sizeof r)
        memcpy(&r, f.data, sizeof r);
    rx_file_close(&f);
    if (!is_sound(&r, key)) {
        rx_log(RLX_LOG_WARN, "the calibration file '%s' is broken or of another device: ignored",
               path);
        return false;
    }
    *out = from_record(&r);
    return true;
}

rlx_status rx_calibration_save(const rx_backend *b, const rlx_device_info *info,
                               const rlx_calibration *c, rlx_error *err)
{
    char name[64];
    record r = {.magic = MAGIC, .key = key_of(b, info)};
    to_numbers(c, r.number);
    snprintf(r.kernels, sizeof r.kernels, "%s", c->kernels);
    r.digest = digest_of(&r);
    file_name(r.key, name, sizeof name);
    return rx_cache_write(name, &(rx_bytes){&r, sizeof r}, 1, err);
}

/* ---- Measuring ------------------------------------------------------------------------------- */

static rlx_status measure(const rx_backend *b, const rlx_device_info *info, rlx_calibration *out,
                          rlx_error *err)
{
    rlx_device *d;
    rlx_error ignored = {0};
    RLX_TRY(rlx_device_open(info->id, NULL, &d, err));
    rlx_status st = rx_calibration_measure(d, out, err);
    rlx_device_close(d);
    if (st != RLX_OK)
        return st;
    if (rx_calibration_save(b, info, out, &ignored) != RLX_OK)
        rx_log(RLX_LOG_INFO, "the calibration of %s was not saved: %s", info->id, ignored.text);
    return RLX_OK;
}

rlx_calibration rx_calibration_get(const rx_backend *b, const rlx_device_info *info)
{
    rlx_calibration c = {RLX_INIT(rlx_calibration)};
    rlx_error err = {0};
    if (!info->is_test && rx_calibration_load(b, info, &c))
        return c;
    if (!info->is_test && rx_env_flag(RX_ENV_CALIBRATE)) {
        if (measure(b, info, &c, &err) == RLX_OK)
            return c;
        rx_log(RLX_LOG_WARN, "%s was not measured: %s", info->id, err.text);
    }
    return rx_calibration_assume(info);
}

rlx_status rlx_device_calibration(const char *id, uint32_t flags, rlx_calibration *out,
                                  rlx_error *err)
{
    RLX_TRY(rx_need(out, "rlx_device_calibration: out", err));
    RLX_TRY(RX_INFO_CHECK(rlx_calibration, out, err));
    rlx_calibration found = {0};
    rx_choice c;
    RX_INFO_WRITE(rlx_calibration, out, &found, NULL);
    RLX_TRY(rx_device_find(id, &c, err));
    if (flags & ~(uint32_t)(RLX_CALIBRATE_NOW | RLX_CALIBRATE_UNTUNE))
        return rx_fail(err, RLX_INVALID, "calibration of %s: unknown flags 0x%x", c.info.id,
                       (unsigned)flags);
    char tuned[RX_KNOBS_TEXT];
    if (flags & RLX_CALIBRATE_UNTUNE && rx_tuned_load(c.backend, &c.info, tuned))
        RLX_TRY(rx_tuned_save(c.backend, &c.info, NULL, err));
    if (flags & RLX_CALIBRATE_NOW && !c.info.is_test)
        RLX_TRY(measure(c.backend, &c.info, &found, err));
    else
        found = rx_calibration_get(c.backend, &c.info);
    rx_tuned_load(c.backend, &c.info, found.kernels);
    return RX_INFO_WRITE(rlx_calibration, out, &found, err);
}
