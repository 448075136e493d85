/* SPDX-License-Identifier: MIT */
/* Importance matrices: collected by a graph of the model that also gives sums of squares
 * (arch_imatrix.c), in files, and looked up. */
#include "rlx/imatrix.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/map.h"
#include "model/model.h"
#include "rlx/quantize.h"

typedef struct entry {
    rlx_imatrix_entry known;
    double *sums, *counts;    /* [matrices, columns], [matrices] */
    float *means;
    bool has_counts;          /* of each matrix; else all tokens */
    size_t sums_at, counts_at; /* in rlx_imatrix.outputs */
} entry;

struct rlx_imatrix {
    rx_arena arena;
    rx_map names;
    entry *entries;
    size_t n;
    int64_t n_tokens, n_chunks, chunk; /* chunk: the longest */
    rlx_model *model;
    rlx_session *session;
    rlx_tensor *outputs; /* of a run, the last is the scores */
    size_t n_outputs;
};

static const char sums_end[] = ".in_sum2", counts_end[] = ".counts";

/* ---- Entries --------------------------------------------------------------------------------- */

static bool ends_in(const char *name, const char *end)
{
    const size_t n = strlen(name), m = strlen(end);
    return n > m && strcmp(name + n - m, end) == 0;
}

static rlx_status add_entry(rlx_imatrix *im, const char *name, size_t length, int64_t matrices,
                            int64_t columns, entry **out, rlx_error *err)
{
    entry *e = &im->entries[im->n];
    uint64_t all;
    *e = (entry){.known = {.matrices = matrices, .columns = columns}};
    if (matrices < 1 || columns < 1 || !rx_mul_size((uint64_t)matrices, (uint64_t)columns, &all))
        return rx_fail(err, RLX_INVALID, "the importance of '%.*s' has %lld matrices of %lld "
                       "columns", length < 80 ? (int)length : 80, name, (long long)matrices,
                       (long long)columns);
    e->known.name = rx_arena_strndup(&im->arena, name, length);
    e->sums = rx_arena_array_zero(&im->arena, all, sizeof *e->sums);
    e->means = rx_arena_array_zero(&im->arena, all, sizeof *e->means);
    e->counts = rx_arena_array_zero(&im->arena, (uint64_t)matrices, sizeof *e->counts);
    if (!e->known.name || !e->sums || !e->means || !e->counts ||
        !rx_map_add(&im->names, e->known.name, length, (uint32_t)im->n))
        return rx_fail_memory(err, "an importance matrix", all);
    e->known.values = e->means;
    im->n++;
    *out = e;
    return RLX_OK;
}

static void set_means(entry *e)
{
    for (int64_t i = 0; i < e->known.matrices * e->known.columns; i++) {
        const double count = e->counts[i / e->known.columns];
        e->means[i] = count > 0 ? (float)(e->sums[i] / count) : 0;
    }
}

static rlx_status make(size_t n_entries, rlx_imatrix **out, rlx_error *err)
{
    rlx_imatrix *im = rx_alloc_zero(sizeof *im);
    *out = im;
    if (!im)
        return rx_fail_memory(err, "an importance matrix", sizeof *im);
    im->entries = rx_arena_array_zero(&im->arena, n_entries + 1, sizeof *im->entries);
    return im->entries ? RLX_OK : rx_fail_memory(err, "an importance matrix", n_entries);
}

void rlx_imatrix_destroy(rlx_imatrix *im)
{
    if (!im)
        return;
    rlx_session_destroy(im->session);
    rx_map_finish(&im->names);
    rx_arena_finish(&im->arena);
    rx_free(im);
}

bool rlx_imatrix_at(const rlx_imatrix *im, size_t i, rlx_imatrix_entry *out)
{
    if (!im || !out || i >= im->n)
        return false;
    *out = im->entries[i].known;
    return true;
}

bool rlx_imatrix_find(const rlx_imatrix *im, const char *name, rlx_imatrix_entry *out)
{
    const rx_map_slot *slot = im && name ? rx_map_find(&im->names, name, strlen(name)) : NULL;
    return slot && rlx_imatrix_at(im, slot->value, out);
}

int64_t rlx_imatrix_n_tokens(const rlx_imatrix *im)
{
    return im ? im->n_tokens : 0;
}

/* ---- Collecting ------------------------------------------------------------------------------ */

static size_t count_outputs(rlx_session *s)
{
    rlx_tensor_info info;
    size_t n = 0;
    while (rlx_session_leaf(s, RLX_LEAF_OUTPUT, n, &info))
        n++;
    return n;
}

/* Room for each output, and an entry for each product. */
static rlx_status find_outputs(rlx_imatrix *im, rlx_error *err)
{
    rlx_tensor_info info;
    im->outputs = rx_arena_array_zero(&im->arena, im->n_outputs, sizeof *im->outputs);
    if (!im->outputs)
        return rx_fail_memory(err, "an importance matrix", im->n_outputs);
    for (size_t i = 0; rlx_session_leaf(im->session, RLX_LEAF_OUTPUT, i, &info); i++) {
        void *data = rx_arena_alloc(&im->arena, info.bytes);
        if (!data)
            return rx_fail_memory(err, info.name, info.bytes);
        im->outputs[i] = (rlx_tensor){info.name, data, info.bytes};
        if (!ends_in(info.name, sums_end))
            continue;
        const int last = info.shape.rank - 1;
        entry *e;
        RLX_TRY(add_entry(im, info.name, strlen(info.name) - strlen(sums_end),
                          last ? info.shape.dim[0] : 1, info.shape.dim[last], &e, err));
        e->sums_at = i;
    }
    for (size_t i = 0; i < im->n_outputs; i++) {
        const char *name = im->outputs[i].name;
        const size_t length = strlen(name) - (ends_in(name, counts_end) ? strlen(counts_end) : 0);
        const rx_map_slot *slot = rx_map_find(&im->names, name, length);
        if (slot && ends_in(name, counts_end)) {
            im->entries[slot->value].has_counts = true;
            im->entries[slot->value].counts_at = i;
        }
    }
    return RLX_OK;
}

static rlx_status create(rlx_imatrix *im, rlx_error *err)
{
    rlx_model *m = im->model;
    rx_build_desc build = m->build;
    build.sequences = 1;
    build.scores = build.importance = true;
    rx_mutex_lock(&m->run_lock);
    const rlx_status st = rx_model_make_session(m, &build, NULL, &im->session, err);
    rx_mutex_unlock(&m->run_lock);
    RLX_TRY(st);
    im->n_outputs = count_outputs(im->session);
    im->entries = rx_arena_array_zero(&im->arena, im->n_outputs, sizeof *im->entries);
    if (!im->entries)
        return rx_fail_memory(err, "an importance matrix", im->n_outputs);
    return find_outputs(im, err);
}

rlx_status rlx_imatrix_create(rlx_model *m, rlx_imatrix **out, rlx_error *err)
{
    RLX_TRY(rx_need(out, "rlx_imatrix_create: out", err));
    *out = NULL;
    RLX_TRY(rx_need(m, "rlx_imatrix_create: m", err));
    if (!m->known.is_decoder)
        return rx_fail(err, RLX_INVALID, "'%.200s' is an encoder (%s); importance is measured of "
                       "decoders", m->path, m->known.architecture);
    RLX_TRY(rx_model_need_whole(m, "an importance matrix", err));
    rlx_imatrix *im;
    rlx_status st = make(0, &im, err);
    if (st == RLX_OK) {
        im->model = m;
        st = create(im, err);
    }
    if (st == RLX_OK)
        *out = im;
    else
        rlx_imatrix_destroy(im);
    return st;
}

/* Adds the sums of squares and the counts of a run of n tokens. */
static void add_sums(rlx_imatrix *im, size_t n)
{
    for (size_t i = 0; i < im->n; i++) {
        entry *e = &im->entries[i];
        const float *sums = im->outputs[e->sums_at].data;
        const float *counts = e->has_counts ? im->outputs[e->counts_at].data : NULL;
        for (int64_t k = 0; k < e->known.matrices * e->known.columns; k++)
            e->sums[k] += (double)sums[k];
        for (int64_t k = 0; k < e->known.matrices; k++)
            e->counts[k] += counts ? (double)counts[k] : (double)n;
    }
}

static rlx_status run_chunk(rlx_imatrix *im, const int32_t *tokens, size_t begin, size_t n,
                            int32_t *scratch, rlx_error *err)
{
    int32_t *positions = scratch, *targets = scratch + n;
    const int32_t length = (int32_t)(begin + n);
    const size_t bytes = n * sizeof *tokens;
    for (size_t i = 0; i < n; i++) {
        positions[i] = (int32_t)(begin + i);
        targets[i] = 0;
    }
    const rlx_const_tensor in[] = {
        {"tokens", tokens + begin, bytes}, {"positions", positions, bytes},
        {"places", positions, bytes}, {"lengths", &length, sizeof length},
        {"targets", targets, bytes},
    };
    for (size_t i = 0; i < im->n_outputs; i++)
        if (!strcmp(im->outputs[i].name, "scores"))
            im->outputs[i].bytes = bytes;
    RLX_TRY(rlx_session_bind(im->session, "seq", (int64_t)n, err));
    RLX_TRY(rlx_run(im->session, in, sizeof in / sizeof in[0], im->outputs, im->n_outputs, err));
    add_sums(im, n);
    return RLX_OK;
}

rlx_status rlx_imatrix_add(rlx_imatrix *im, const int32_t *tokens, size_t n, rlx_error *err)
{
    RLX_TRY(rx_need(im, "rlx_imatrix_add: im", err));
    RLX_TRY(rx_need(tokens, "rlx_imatrix_add: tokens", err));
    const rlx_model *m = im->model;
    if (!m)
        return rx_fail(err, RLX_INVALID, "this importance matrix is that of a file: nothing can be "
                       "added");
    if (n < 1 || n > (size_t)m->build.context)
        return rx_fail(err, RLX_INVALID, "expected 1 to %lld tokens (rlx_model_desc.context), got "
                       "%zu", (long long)m->build.context, n);
    for (size_t i = 0; i < n; i++)
        if (tokens[i] < 0 || tokens[i] >= m->known.vocabulary)
            return rx_fail(err, RLX_INVALID, "token %zu is %d; expected 0 to %lld, the vocabulary "
                           "of the model", i, (int)tokens[i], (long long)m->known.vocabulary - 1);
    const size_t chunk = (size_t)m->build.prompt_chunk;
    int32_t *scratch = rx_alloc_array(2 * chunk, sizeof *scratch);
    rlx_status st = scratch ? RLX_OK : rx_fail_memory(err, "the positions of tokens", chunk);
    if (st == RLX_OK && m->known.recurrent)
        st = rlx_session_state_reset(im->session, NULL, err);
    for (size_t at = 0; at < n && st == RLX_OK; at += chunk)
        st = run_chunk(im, tokens, at, n - at < chunk ? n - at : chunk, scratch, err);
    rx_free(scratch);
    RLX_TRY(st);
    for (size_t i = 0; i < im->n; i++)
        set_means(&im->entries[i]);
    im->n_tokens += (int64_t)n;
    im->n_chunks++;
    im->chunk = (int64_t)n > im->chunk ? (int64_t)n : im->chunk;
    return RLX_OK;
}

/* ---- Files ----------------------------------------------------------------------------------- */

#define NAME_TEXT 200

static rlx_status write_floats(rlx_gguf_writer *w, const double *x, int64_t n, rlx_error *err)
{
    float part[256];
    for (int64_t at = 0; at < n; at += 256) {
        const int64_t count = n - at < 256 ? n - at : 256;
        for (int64_t i = 0; i < count; i++)
            part[i] = (float)x[at + i];
        RLX_TRY(rlx_gguf_writer_write(w, part, (size_t)count * sizeof *part, err));
    }
    return RLX_OK;
}

static rlx_status write_all(const rlx_imatrix *im, rlx_gguf_writer *w, const char *source,
                            rlx_error *err)
{
    const char *sources[] = {source ? source : ""};
    const rlx_gguf_value v = {.type = RLX_GGUF_STRING, .is_array = true, .n = source != NULL,
                              .texts = sources};
    char name[NAME_TEXT];
    RLX_TRY(rlx_gguf_writer_set_text(w, "general.type", "imatrix", err));
    RLX_TRY(rlx_gguf_writer_set(w, "imatrix.datasets", &v, err));
    RLX_TRY(rlx_gguf_writer_set_u32(w, "imatrix.chunk_count", (uint32_t)im->n_chunks, err));
    RLX_TRY(rlx_gguf_writer_set_u32(w, "imatrix.chunk_size", (uint32_t)im->chunk, err));
    for (size_t i = 0; i < im->n; i++) {
        const rlx_imatrix_entry *e = &im->entries[i].known;
        snprintf(name, sizeof name, "%.160s%s", e->name, sums_end);
        RLX_TRY(rlx_gguf_writer_add_tensor(w, name, RLX_F32, &(rlx_shape){2, {e->matrices,
                                                                             e->columns}}, err));
        snprintf(name, sizeof name, "%.160s%s", e->name, counts_end);
        RLX_TRY(rlx_gguf_writer_add_tensor(w, name, RLX_F32, &(rlx_shape){2, {e->matrices, 1}},
                                           err));
    }
    for (size_t i = 0; i < im->n; i++) {
        const entry *e = &im->entries[i];
        RLX_TRY(write_floats(w, e->sums, e->known.matrices * e->known.columns, err));
        RLX_TRY(write_floats(w, e->counts, e->known.matrices, err));
    }
    return rlx_gguf_writer_finish(w, err);
}

rlx_status rlx_imatrix_save(const rlx_imatrix *im, const char *path, const char *source,
                            rlx_error *err)
{
    rlx_gguf_writer *w;
    RLX_TRY(rx_need(im, "rlx_imatrix_save: im", err));
    if (!im->n_chunks)
        return rx_fail(err, RLX_INVALID, "the importance matrix has seen no tokens");
    RLX_TRY(rlx_gguf_writer_create(path, &w, err));
    const rlx_status st = write_all(im, w, source, err);
    rlx_gguf_writer_destroy(w);
    return st;
}

static int64_t meta_number(const rlx_file *f, const char *key)
{
    rlx_meta m;
    int64_t v = 0;
    return rlx_file_find_meta(f, key, &m) && rlx_meta_i64(&m, 0, &v) && v > 0 ? v : 0;
}

/* The entry of a tensor of sums, with that of its counts; other tensors are skipped. */
static rlx_status read_pair(rlx_imatrix *im, const rlx_file *f, const rlx_file_tensor *t,
                            rlx_error *err)
{
    char name[NAME_TEXT];
    rlx_file_tensor c;
    entry *e;
    if (!ends_in(t->name, sums_end))
        return RLX_OK;
    const int length = (int)(strlen(t->name) - strlen(sums_end));
    if (length > NAME_TEXT - 16)
        return rx_fail(err, RLX_INVALID, "tensor '%.80s...' has a name of more than %d bytes",
                       t->name, NAME_TEXT - 16);
    snprintf(name, sizeof name, "%.*s%s", length, t->name, counts_end);
    RLX_TRY(rlx_file_get_tensor(f, name, &c, err));
    int64_t matrices = 1;
    for (int i = 0; i + 1 < t->shape.rank; i++)
        matrices *= t->shape.dim[i];
    if (t->dtype != RLX_F32 || c.dtype != RLX_F32 || t->shape.rank < 1 || t->bytes == 0 ||
        c.bytes != (size_t)matrices * sizeof(float))
        return rx_fail(err, RLX_INVALID, "tensors '%s' and '%s': expected f32, and a count for "
                       "each of %lld matrices", t->name, name, (long long)matrices);
    RLX_TRY(add_entry(im, t->name, (size_t)length, matrices, t->shape.dim[t->shape.rank - 1], &e,
                      err));
    for (int64_t i = 0; i < matrices; i++) {
        const float x = ((const float *)c.data)[i];
        e->counts[i] = (double)x;
    }
    for (int64_t i = 0; i < matrices * e->known.columns; i++) {
        const float x = ((const float *)t->data)[i];
        e->sums[i] = x >= 0 ? (double)x : 0;
    }
    set_means(e);
    return RLX_OK;
}

static rlx_status read_gguf(const rlx_file *f, rlx_imatrix **out, rlx_error *err)
{
    rlx_file_tensor t;
    RLX_TRY(make(rlx_file_n_tensors(f), out, err));
    for (size_t i = 0; rlx_file_tensor_at(f, i, &t); i++)
        RLX_TRY(read_pair(*out, f, &t, err));
    (*out)->n_chunks = meta_number(f, "imatrix.chunk_count");
    (*out)->chunk = meta_number(f, "imatrix.chunk_size");
    (*out)->n_tokens = (*out)->n_chunks * (*out)->chunk;
    return (*out)->n ? RLX_OK : rx_fail(err, RLX_INVALID, "the file has no tensor with a name in "
                                        "%s: it is no importance matrix", sums_end);
}

/* The older format (.dat): the number of entries; of each its name, calls, and sums of squares,
 * scaled so that sum / calls is the mean. */
typedef struct reader {
    const unsigned char *at, *end;
} reader;

static bool take(reader *r, void *out, size_t n)
{
    if ((size_t)(r->end - r->at) < n)
        return false;
    memcpy(out, r->at, n);
    r->at += n;
    return true;
}

static bool read_old_entry(reader *r, rlx_imatrix *im, rlx_status *st, rlx_error *err)
{
    int32_t length, calls, n;
    entry *e;
    *st = RLX_OK;
    if (!take(r, &length, 4) || length < 1 || length > NAME_TEXT || r->end - r->at < length)
        return false;
    const char *name = (const char *)r->at;
    r->at += length;
    if (!take(r, &calls, 4) || !take(r, &n, 4) || n < 1 || (r->end - r->at) / 4 < n)
        return false;
    *st = add_entry(im, name, (size_t)length, 1, n, &e, err);
    if (*st != RLX_OK)
        return false;
    e->counts[0] = calls > 0 ? calls : 1;
    for (int32_t i = 0; i < n; i++) {
        float x = 0;
        take(r, &x, 4);
        e->sums[i] = x >= 0 ? (double)x : 0;
    }
    set_means(e);
    return true;
}

static rlx_status read_old(const rx_file *f, rlx_imatrix **out, rlx_error *err)
{
    reader r = {f->data, (const unsigned char *)f->data + f->bytes};
    int32_t n;
    rlx_status st = RLX_OK;
    if (!take(&r, &n, 4) || n < 1 || (size_t)n > f->bytes / 12)
        return rx_fail(err, RLX_PARSE, "the file is no importance matrix: expected GGUF, or a "
                       "number of entries");
    RLX_TRY(make((size_t)n, out, err));
    for (int32_t i = 0; i < n; i++)
        if (!read_old_entry(&r, *out, &st, err))
            return st != RLX_OK ? st : rx_fail(err, RLX_PARSE, "entry %d of %d is cut off or has "
                                               "no name", (int)i, (int)n);
    take(&r, &n, 4);
    (*out)->n_chunks = n;
    return RLX_OK;
}

static rlx_status open_file(const char *path, rlx_imatrix **out, rlx_error *err)
{
    rx_file f;
    rlx_file *gguf;
    RLX_TRY(rx_file_open(path, &f, err));
    if (f.bytes < 4 || memcmp(f.data, "GGUF", 4) != 0) {
        const rlx_status st = read_old(&f, out, err);
        rx_file_close(&f);
        return st;
    }
    rx_file_close(&f);
    RLX_TRY(rlx_file_open(path, &gguf, err));
    const rlx_status st = read_gguf(gguf, out, err);
    rlx_file_close(gguf);
    return st;
}

rlx_status rlx_imatrix_open(const char *path, rlx_imatrix **out, rlx_error *err)
{
    rlx_error why = {0};
    RLX_TRY(rx_need(out, "rlx_imatrix_open: out", err));
    *out = NULL;
    RLX_TRY(rx_need(path, "rlx_imatrix_open: path", err));
    rlx_imatrix *im = NULL;
    const rlx_status st = open_file(path, &im, &why);
    if (st == RLX_OK) {
        *out = im;
        return RLX_OK;
    }
    rlx_imatrix_destroy(im);
    return rx_fail(err, st, "'%.200s': %s", path, why.text);
}
