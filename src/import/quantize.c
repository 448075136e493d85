/* SPDX-License-Identifier: MIT */
/* Quantises rows in parallel, in chunks taken from a shared counter: a row is decoded to floats,
 * encoded, and decoded again to measure the error. */
#include "base/sized.h"
#include "rlx/quantize.h"

#include <math.h>
#include <string.h>

#include "base/dtype.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/posix.h"
#include "base/quant_encode.h"
#include "base/thread.h"

#define CHUNK_ELEMENTS 65536
#define MAX_THREADS 256

typedef struct job {
    const rlx_quantize_rows_desc *desc;
    int64_t src_row, dst_row; /* bytes of a row */
    int64_t chunk_rows, n_chunks, next;
    float *weights;           /* of the columns; NULL: all alike */
    rlx_quantize_rows_stats *stats; /* one a chunk, summed in order */
    rx_mutex lock;
    rlx_status status; /* the first failure */
    rlx_error error;
} job;

bool rlx_dtype_can_quantize(rlx_dtype t)
{
    return (rlx_dtype_is_float(t) && t != RLX_F64) || rx_encoder(t) != NULL;
}

static rlx_status convert_row(const job *j, int64_t row, float *x, rlx_quantize_rows_stats *s,
                              rlx_error *err)
{
    const rlx_quantize_rows_desc *d = j->desc;
    const int64_t n = d->row_length;
    float *y = x + n;
    char *dst = (char *)d->dst + row * j->dst_row;
    rlx_to_float(d->from, (const char *)d->src + row * j->src_row, x, n);
    int64_t done = rx_encode_row(d->to, x, j->weights, dst, n);
    if (done < n)
        return rx_fail(err, RLX_INVALID, "element %lld of row %lld is %s; expected a finite number",
                       (long long)done, (long long)row, x[done] != x[done] ? "NaN" : "infinite");
    rlx_to_float(d->to, dst, y, n);
    for (int64_t i = 0; i < n; i++) {
        double e = (double)x[i] - (double)y[i];
        s->squares += (double)x[i] * (double)x[i];
        s->error += e * e;
    }
    return RLX_OK;
}

static int64_t take_chunk(job *j)
{
    rx_mutex_lock(&j->lock);
    int64_t chunk = j->status == RLX_OK && j->next < j->n_chunks ? j->next++ : -1;
    rx_mutex_unlock(&j->lock);
    return chunk;
}

static void report(job *j, rlx_status st, const rlx_error *err)
{
    rx_mutex_lock(&j->lock);
    if (j->status == RLX_OK) {
        j->status = st;
        j->error = *err;
    }
    rx_mutex_unlock(&j->lock);
}

static void *work(void *user)
{
    job *j = user;
    rlx_error err;
    float *x = rx_alloc_array(j->desc->row_length, 2 * sizeof *x);
    if (!x)
        report(j, rx_fail_memory(&err, "a row to quantise",
                                 rx_array_bytes(j->desc->row_length, 2 * sizeof *x)), &err);
    for (int64_t p; (p = take_chunk(j)) >= 0;) {
        int64_t row = p * j->chunk_rows, end = row + j->chunk_rows;
        end = end < j->desc->n_rows ? end : j->desc->n_rows;
        rlx_status st = RLX_OK;
        for (; row < end && st == RLX_OK; row++)
            st = convert_row(j, row, x, &j->stats[p], &err);
        if (st != RLX_OK)
            report(j, st, &err);
    }
    rx_free(x);
    return NULL;
}

static rlx_status check_desc(const rlx_quantize_rows_desc *d, job *j, rlx_error *err)
{
    uint64_t src, dst, all;
    if (!rlx_dtype_can_quantize(d->to))
        return rx_fail(err, RLX_UNSUPPORTED, "weights cannot be packed as %s",
                       rlx_dtype_name(d->to));
    if (d->n_rows < 0 || d->row_length <= 0 || !rx_dtype_bytes(d->from, d->row_length, &src) ||
        !rx_dtype_bytes(d->to, d->row_length, &dst))
        return rx_fail(err, RLX_INVALID, "%lld rows of %lld elements of %s cannot become %s: "
                       "expected rows of a multiple of %lld elements", (long long)d->n_rows,
                       (long long)d->row_length, rlx_dtype_name(d->from), rlx_dtype_name(d->to),
                       (long long)rlx_dtype_block_size(d->to));
    if (!rx_mul_size((uint64_t)d->n_rows, src > dst ? src : dst, &all) || all > PTRDIFF_MAX ||
        !rx_mul_size((uint64_t)d->row_length, 2 * sizeof(float), &all) || all > PTRDIFF_MAX)
        return rx_fail(err, RLX_INVALID, "%lld rows of %lld elements are too many",
                       (long long)d->n_rows, (long long)d->row_length);
    j->src_row = (int64_t)src;
    j->dst_row = (int64_t)dst;
    return RLX_OK;
}

/* Weights have a mean of 1; a column that was never used still counts a little. */
#define LEAST_WEIGHT 1e-3

static rlx_status set_weights(job *j, rlx_error *err)
{
    const float *w = j->desc->importance;
    const int64_t n = j->desc->row_length;
    double sum = 0;
    for (int64_t i = 0; w && i < n; i++) {
        if (!(w[i] >= 0) || isinf(w[i]))
            return rx_fail(err, RLX_INVALID, "importance of column %lld: expected a number from 0, "
                           "got %g", (long long)i, (double)w[i]);
        sum += (double)w[i];
    }
    if (!(sum > 0))
        return RLX_OK;
    j->weights = rx_alloc_array((uint64_t)n, sizeof *j->weights);
    if (!j->weights)
        return rx_fail_memory(err, "the importance of columns", (uint64_t)n * sizeof *j->weights);
    for (int64_t i = 0; i < n; i++)
        j->weights[i] = (float)((double)w[i] / sum * (double)n + LEAST_WEIGHT);
    return RLX_OK;
}

static uint32_t count_threads(const job *j)
{
    long n = (long)j->desc->threads;
    if (n == 0)
        n = rx_processors();
    n = n < MAX_THREADS ? n : MAX_THREADS;
    n = n < j->n_chunks ? n : (long)j->n_chunks;
    return n > 1 ? (uint32_t)n : 1;
}

rlx_status rlx_quantize_rows(const rlx_quantize_rows_desc *desc, rlx_quantize_rows_stats *stats,
                             rlx_error *err)
{
    RLX_TRY(rx_need(desc, "rlx_quantize_rows: desc", err));
    rlx_quantize_rows_desc d;
    RLX_TRY(RX_DESC_READ(rlx_quantize_rows_desc, &d, desc, err));
    job j = {.desc = &d};
    RLX_TRY(check_desc(&d, &j, err));
    j.chunk_rows = d.row_length < CHUNK_ELEMENTS ? CHUNK_ELEMENTS / d.row_length : 1;
    j.n_chunks = d.n_rows / j.chunk_rows + (d.n_rows % j.chunk_rows != 0);
    RLX_TRY(set_weights(&j, err));
    j.stats = rx_alloc_array_zero(j.n_chunks, sizeof *j.stats);
    if (!j.stats) {
        rx_free(j.weights);
        return rx_fail_memory(err, "the sums of the chunks",
                              (uint64_t)j.n_chunks * sizeof *j.stats);
    }
    if (!rx_mutex_init(&j.lock)) {
        rx_free(j.weights);
        rx_free(j.stats);
        return rx_fail_memory(err, "a lock", sizeof j.lock);
    }
    rx_thread threads[MAX_THREADS];
    uint32_t n = count_threads(&j), n_started = 0;
    while (n_started + 1 < n && rx_thread_start(&threads[n_started], work, &j))
        n_started++;
    work(&j);
    while (n_started)
        rx_thread_join(&threads[--n_started]);
    rlx_quantize_rows_stats sum = {0};
    for (int64_t i = 0; i < j.n_chunks; i++) {
        sum.squares += j.stats[i].squares;
        sum.error += j.stats[i].error;
    }
    rx_mutex_finish(&j.lock);
    rx_free(j.stats);
    rx_free(j.weights);
    if (j.status != RLX_OK)
        return rx_fail(err, j.status, "%s", j.error.text);
    if (stats)
        *stats = sum;
    return RLX_OK;
}
