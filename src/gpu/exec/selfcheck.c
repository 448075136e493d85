/* SPDX-License-Identifier: MIT */
/* Tries the optional features of a device on small cases with known results; the kernels are
 * gpu/shaders/selfcheck.comp. */
#include "gpu/exec/selfcheck.h"

#include <stdio.h>
#include <string.h>

#define INVOCATIONS 128

/* The input values, as in the shader. */
static uint32_t v(uint32_t i)
{
    return (i * 7 + 3) % 11;
}

/* ---- The checks ----------------------------------------------------------------------------- */

/* The number of invocations in the subgroup of invocation i. */
static uint32_t count_members(const uint32_t *o, uint32_t i)
{
    uint32_t n = 0;
    for (uint32_t k = 0; k < INVOCATIONS; k++)
        n += o[k * 6] == o[i * 6];
    return n;
}

/* Devices that do not report a subgroup size must have a uniform one. */
static bool find_size(const uint32_t *o, rx_gpu_caps *c)
{
    uint32_t n = count_members(o, 0);
    for (uint32_t i = 0; i < INVOCATIONS && !c->subgroup; i++)
        if (count_members(o, i) != n || n < 4)
            return false;
    c->subgroup = c->subgroup ? c->subgroup : n;
    return true;
}

static bool is_subgroup_right(const uint32_t *o, rx_gpu_caps *c)
{
    uint32_t n_seen = 0;
    for (uint32_t i = 0; i < INVOCATIONS; i++) {
        const uint32_t *x = o + i * 6;
        uint32_t sum = 0, most = 0, so_far = 0, first = UINT32_MAX, first_lane = UINT32_MAX;
        for (uint32_t k = 0; k < INVOCATIONS; k++) {
            const uint32_t *y = o + k * 6;
            if (y[0] != x[0])
                continue;
            sum += v(k);
            most = v(k) > most ? v(k) : most;
            so_far += y[1] <= x[1] ? v(k) : 0;
            first = y[1] < first_lane ? v(k) : first;
            first_lane = y[1] < first_lane ? y[1] : first_lane;
        }
        n_seen += x[2] == sum && x[3] == most && x[4] == so_far && x[5] == first;
    }
    return n_seen == INVOCATIONS && find_size(o, c);
}

static bool is_subnormal_right(const uint32_t *o, rx_gpu_caps *c)
{
    (void)c;
    for (uint32_t i = 0; i < INVOCATIONS; i++)
        if (o[i] != (i * 5900 + 1) * (v(i) + 1))
            return false;
    return true;
}

static bool is_half_right(const uint32_t *o, rx_gpu_caps *c)
{
    (void)c;
    for (uint32_t i = 0; i < INVOCATIONS; i++) {
        float got, want = (float)v(i) / 4 * 1.5f - 2;
        memcpy(&got, &o[i], sizeof got);
        if (got != want)
            return false;
    }
    return true;
}

static bool is_dot_right(const uint32_t *o, rx_gpu_caps *c)
{
    (void)c;
    for (uint32_t i = 0; i < INVOCATIONS; i++) {
        int32_t a = (int32_t)v(i), b = -(int32_t)v(i + 1);
        if ((int32_t)o[i] != a * -4 + b * a + 3 * b + -4 * 3)
            return false;
    }
    return true;
}

static bool is_matrix_right(const uint32_t *o, rx_gpu_caps *c)
{
    const uint32_t n = c->coopmat_n, depth = c->coopmat_k;
    for (uint32_t i = 0; i < c->coopmat_m * n; i++) {
        uint32_t sum = 0;
        for (uint32_t k = 0; k < depth; k++)
            sum += v(i / n * depth + k) * v(i % n * depth + k);
        if (o[i] != sum)
            return false;
    }
    return true;
}

/* Lane 4 g + t has eight elements, 4 r + 2 h + u for r, h, u in {0, 1}: of A and of sums row
 * g + 8 r, column 2 t + 8 h + u; of B that column as row and that row as column. */
static bool is_layout_right(const uint32_t *o, rx_gpu_caps *c)
{
    const uint32_t *a = o + 256, *b = o + 513, *sum = o + 770;
    if (c->subgroup != 32 || a[0] != 8 || b[0] != 8 || sum[0] != 8)
        return false;
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t g = i / 32, t = i / 8 % 4, r = i / 4 % 2, h = i / 2 % 2, u = i % 2;
        uint32_t row = g + 8 * r, column = 2 * t + 8 * h + u, place = row * 16 + column;
        if (a[1 + i] != place || sum[1 + i] != place || b[1 + i] != column * 16 + row)
            return false;
    }
    return true;
}

/* After RX_GPU_SELFCHECK_LEVELS levels. */
static bool is_chain_right(const uint32_t *o, rx_gpu_caps *c)
{
    const uint32_t n = RX_GPU_SELFCHECK_GROUPS, last = RX_GPU_SELFCHECK_LEVELS - 1;
    (void)c;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t from = i;
        for (uint32_t l = 0; l < last; l++)
            from = (from * 7 + 3) % n;
        if (o[last % 2 * n + i] != v(from) + last)
            return false;
    }
    return true;
}

static bool has_subgroup(const rx_gpu_caps *c) { return c->subgroup_arith; }
static bool has_subnormal(const rx_gpu_caps *c) { return c->subnormals; }
static bool has_half(const rx_gpu_caps *c) { return c->f16; }
static bool has_dot(const rx_gpu_caps *c) { return c->int_dot; }
static bool has_matrix(const rx_gpu_caps *c) { return c->coopmat_f16 && c->f16; }
static bool has_layout(const rx_gpu_caps *c) { return c->coopmat_fragments; }
static bool has_chain(const rx_gpu_caps *c) { return c->chains; }

static void no_chain(rx_gpu_caps *c) { c->chains = false; }
static void no_layout(rx_gpu_caps *c) { c->coopmat_fragments = false; }
static void no_subnormal(rx_gpu_caps *c) { c->subnormals = false; }
static void no_dot(rx_gpu_caps *c) { c->int_dot = false; }

static void no_matrix(rx_gpu_caps *c)
{
    c->coopmat_f16 = c->coopmat_bf16 = c->coopmat_f16_acc = c->coopmat_fragments = false;
}

static void no_half(rx_gpu_caps *c)
{
    c->f16 = false;
    no_matrix(c);
}

static void no_subgroup(rx_gpu_caps *c)
{
    c->subgroup_arith = c->subgroup_shuffle = false;
    no_matrix(c);
}

/* One feature: whether the device has it, the kernel that tries it with its local size (0: that of
 * a subgroup with matrices), whether what that gave is right, and how to do without. */
typedef struct check {
    const char *name;
    bool (*present)(const rx_gpu_caps *c);
    rx_kernel kernel;
    uint32_t local;
    bool (*is_right)(const uint32_t *words, rx_gpu_caps *c);
    void (*off)(rx_gpu_caps *c);
} check;

static const check checks[] = {
    {"subnormals", has_subnormal, RX_K_selfcheck_subnormal, INVOCATIONS, is_subnormal_right,
     no_subnormal},
    {"subgroups", has_subgroup, RX_K_selfcheck_subgroup, INVOCATIONS, is_subgroup_right,
     no_subgroup},
    {"f16", has_half, RX_K_selfcheck_half, INVOCATIONS, is_half_right, no_half},
    {"integer dot", has_dot, RX_K_selfcheck_dot, INVOCATIONS, is_dot_right, no_dot},
    {"matrices", has_matrix, RX_K_selfcheck_matrix, 0, is_matrix_right, no_matrix},
    {"packed matrices", has_layout, RX_K_selfcheck_matrix, 0, is_layout_right, no_layout},
    {"chains", has_chain, RX_K_selfcheck_chain, INVOCATIONS, is_chain_right, no_chain},
};

#define N_CHECKS ((uint32_t)(sizeof checks / sizeof checks[0]))

/* ---- All of them ----------------------------------------------------------------------------- */

bool rx_gpu_selfcheck_fits(const rx_gpu_selfcheck *s)
{
    return s->n_checks == N_CHECKS;
}

void rx_gpu_selfcheck_note(const rx_gpu_selfcheck *s, char note[160])
{
    size_t used = (size_t)snprintf(note, 160, "self-check: %s",
                                   s->failed ? "turned off" : "passed");
    for (uint32_t i = 0; i < N_CHECKS; i++)
        if (s->failed >> i & 1 && used < 160)
            used += (size_t)snprintf(note + used, 160 - used, " %s", checks[i].name);
}

/* False when the check could not run for want of memory or of the device: it is repeated next
 * time. */
static bool try_check(const rx_gpu_selfcheck_desc *d, const check *c, bool *passed)
{
    uint32_t words[RX_GPU_SELFCHECK_WORDS];
    rlx_error err = {0};
    uint32_t local = c->local ? c->local : d->caps->coopmat_subgroup;
    rlx_status st = d->run(d->device, c->kernel, local, words, &err);
    if (st == RLX_NO_MEMORY || st == RLX_DEVICE_LOST || st == RLX_UNSUPPORTED)
        return false;
    if (st != RLX_OK)
        rx_log(RLX_LOG_WARN, "%s: self-check of %s: %s", d->backend, c->name, err.text);
    *passed = st == RLX_OK && c->is_right(words, d->caps);
    return true;
}

void rx_gpu_selfcheck_apply(rx_gpu_caps *caps, const rx_gpu_selfcheck *s)
{
    for (uint32_t i = 0; i < N_CHECKS && rx_gpu_selfcheck_fits(s); i++)
        if (s->tried & s->failed & 1u << i)
            checks[i].off(caps);
}

bool rx_gpu_selfcheck_run(const rx_gpu_selfcheck_desc *d, rx_gpu_selfcheck *s)
{
    bool changed = false;
    if (!rx_gpu_selfcheck_fits(s))
        *s = (rx_gpu_selfcheck){.n_checks = N_CHECKS};
    if (d->caps->subgroup_arith && !d->caps->subgroup)
        d->caps->subgroup = s->subgroup;
    for (uint32_t i = 0; i < N_CHECKS; i++) {
        const check *c = &checks[i];
        size_t n_words;
        if (!c->present(d->caps) || !rx_kernel_code(c->kernel, &n_words))
            continue;
        if (!(s->tried >> i & 1)) {
            bool passed = false;
            if (!try_check(d, c, &passed)) {
                c->off(d->caps);
                continue;
            }
            s->tried |= 1u << i;
            s->failed |= (uint32_t)!passed << i;
            changed = true;
        }
        if (s->failed >> i & 1) {
            rx_log(RLX_LOG_WARN, "%s: %s do not work as expected on %s: not used", d->backend,
                   c->name, d->name);
            c->off(d->caps);
        }
    }
    if (d->caps->subgroup_arith)
        s->subgroup = d->caps->subgroup;
    return changed;
}
