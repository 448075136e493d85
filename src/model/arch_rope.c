/* SPDX-License-Identifier: MIT */
/* Rotary embedding tables: cos and sin of position * frequency, with the scalings for longer
 * contexts (linear, YaRN, Llama 3, LongRoPE). All in f64, rounded once. */
#include <math.h>
#include <string.h>

#include "model/build.h"

#define PI 3.14159265358979323846

static const char *const names[2][2] = {{"rope.cos", "rope.sin"},
                                        {"rope.local.cos", "rope.local.sin"}};

/* Number of positions that a graph can use. */
static int64_t table_rows(const rx_facts *f, const rx_build_desc *d)
{
    return f->arch->parts & RX_HAS_DECODER ? d->context : d->prompt_chunk;
}

static bool has_local_tables(const rx_facts *f)
{
    return f->rope_local_base > 0 && f->window > 0;
}

void rx_build_rope_tables(rx_builder *b)
{
    const rx_facts *f = b->f;
    const rlx_dim dims[] = {table_rows(f, b->d), f->n_rot / 2};
    if (!(f->arch->parts & RX_HAS_ROPE) || f->n_rot == 0)
        return;
    for (int local = 0; local < 1 + has_local_tables(f); local++) {
        b->cos[local] = rlx_param(b->g, names[local][0], RLX_F32, 2, dims);
        b->sin[local] = rlx_param(b->g, names[local][1], RLX_F32, 2, dims);
    }
}

/* ---- Frequencies ----------------------------------------------------------------------------- */

/* The (fractional) pair index with `turns` rotations within the original context. */
static double yarn_pair(const rx_facts *f, double turns)
{
    const double n = (double)f->rope_original / (turns * 2 * PI);
    return (double)f->n_rot * log(n) / (2 * log(f->rope_base));
}

/* YaRN ramp: 1 keeps the frequency of pair i (high frequencies), 0 interpolates (low ones). */
static double yarn_kept(const rx_facts *f, int64_t i)
{
    const double last = (double)f->n_rot - 1;
    const double fast = yarn_pair(f, f->yarn_fast), slow = yarn_pair(f, f->yarn_slow);
    const double low = fmax(0, f->yarn_exact ? fast : floor(fast));
    const double high = fmin(last, f->yarn_exact ? slow : ceil(slow));
    const double at = ((double)i - low) / fmax(0.001, high - low);
    return (1 - fmin(1, fmax(0, at))) * f->yarn_extrapolation;
}

static double pair_frequency(const rx_facts *f, int64_t i, double factor)
{
    const double plain = pow(f->rope_base, -2.0 * (double)i / (double)f->n_rot) / factor;
    if (f->rope == RX_ROPE_LINEAR)
        return plain / f->rope_factor;
    if (f->rope != RX_ROPE_YARN)
        return plain;
    const double kept = yarn_kept(f, i);
    return plain / f->rope_factor * (1 - kept) + plain * kept;
}

/* YaRN's attention factor on cos and sin; with yarn_log it is part of the attention scale
 * instead. */
static double table_scale(const rx_facts *f)
{
    double scale = f->rope_attention;
    if (f->rope == RX_ROPE_YARN && f->yarn_extrapolation > 0 && f->yarn_log == 0)
        scale *= 1 + 0.1 * log(f->rope_factor);
    return scale;
}

/* Finds the tensor of frequency divisors; false when the file has none. */
static bool find_factors(const rx_facts *f, const rx_build_desc *d, rlx_file_tensor *t)
{
    const bool is_long = table_rows(f, d) > f->rope_original;
    return rx_facts_tensor(f, NULL, RX_T_ROPE_FREQS, t) ||
           rx_facts_tensor(f, NULL, is_long ? RX_T_ROPE_LONG : RX_T_ROPE_SHORT, t);
}

/* Frequencies of the n_rot / 2 pairs; `scratch` has room for as many floats. */
static rlx_status fill_frequencies(const rx_facts *f, const rx_build_desc *d, double *out,
                                   float *scratch, rlx_error *err)
{
    const int64_t n = f->n_rot / 2;
    rlx_file_tensor t;
    const float *divisors = f->rope_divisors[table_rows(f, d) > f->rope_original];
    for (int64_t i = 0; i < n; i++)
        scratch[i] = divisors ? divisors[i] : 1;
    if (find_factors(f, d, &t))
        RLX_TRY(rx_facts_floats(f, &t, scratch, n, err));
    for (int64_t i = 0; i < n; i++) {
        if (!(scratch[i] > 0) || !isfinite(scratch[i]))
            return rx_fail(err, RLX_INVALID, "divisors of the rotary embedding: expected positive "
                           "numbers, got %g at %lld", scratch[i], (long long)i);
        out[i] = pair_frequency(f, i, scratch[i]);
    }
    return RLX_OK;
}

static void fill_local(const rx_facts *f, double *out)
{
    for (int64_t i = 0; i < f->n_rot / 2; i++)
        out[i] = pow(f->rope_local_base, -2.0 * (double)i / (double)f->n_rot);
}

/* ---- The tables ------------------------------------------------------------------------------ */

static void fill_table(float *table, int64_t rows, int64_t n, const double *frequency,
                       double (*fn)(double), double scale)
{
    for (int64_t p = 0; p < rows; p++)
        for (int64_t i = 0; i < n; i++)
            table[p * n + i] = (float)(fn((double)p * frequency[i]) * scale);
}

rlx_status rx_rope_table(const rx_facts *f, const rx_build_desc *d, const char *name, float **data,
                         size_t *bytes, rlx_error *err)
{
    const int64_t rows = table_rows(f, d), n = f->n_rot / 2;
    int which = 0;
    while (which < 4 && strcmp(name, names[which / 2][which % 2]) != 0)
        which++;
    const bool local = which / 2;
    if (which == 4 || (local && !has_local_tables(f)))
        return rx_fail(err, RLX_NOT_FOUND, "the model has no tensor '%s'", name);

    const uint64_t size = rx_array_bytes(rows, rx_array_bytes(n, sizeof(float)));
    rlx_status st = RLX_OK;
    float *table = rx_alloc(size), *scratch = rx_alloc_array(n, sizeof *scratch);
    double *frequency = rx_alloc_array(n, sizeof *frequency);
    if (!table || !scratch || !frequency)
        st = rx_fail_memory(err, name, size);
    else if (local)
        fill_local(f, frequency);
    else
        st = fill_frequencies(f, d, frequency, scratch, err);
    if (st == RLX_OK)
        fill_table(table, rows, n, frequency, which % 2 ? sin : cos, local ? 1 : table_scale(f));
    rx_free(frequency);
    rx_free(scratch);
    if (st != RLX_OK) {
        rx_free(table);
        return st;
    }
    *data = table;
    *bytes = (size_t)size;
    return RLX_OK;
}
