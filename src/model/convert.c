/* SPDX-License-Identifier: MIT */
/* Safetensors to GGUF: reads what a folder says of its model, then writes metadata and tensors,
 * some rows at a time, so that memory does not grow with the model. */
#include "rlx/convert.h"

#include <math.h>
#include <string.h>

#include "base/dtype.h"
#include "base/posix.h"
#include "base/sized.h"
#include "import/file.h"
#include "model/convert.h"

/* Elements that are converted at once: enough for many threads, small beside a model. */
#define PIECE_ELEMENTS ((int64_t)4 << 20)

typedef struct job {
    rlx_convert_desc d;
    rlx_model m; /* path, file, facts, tokenizer: nothing is on a device */
    rx_arena arena;
    rx_convert_plan plan;
    rlx_file_tensor *tensors; /* [plan.n], as they will be in the file */
    rlx_dtype *types;
    rlx_gguf_writer *writer;
    uint64_t done, total; /* bytes of the source */
} job;

/* ---- Rows ------------------------------------------------------------------------------------ */

/* The tensor of the source that a row is in, and which row of it. */
typedef struct place {
    rx_role role;
    int64_t expert, row;
} place;

static place of_delta(const rx_facts *f, const rx_convert_tensor *c, int64_t r)
{
    const int64_t n = f->ssm_state, keys = f->ssm_groups * n;
    const int64_t each = r < 2 * keys ? n : c->take, at = r < keys ? r : r < 2 * keys ? r - keys
                                                                                : r - 2 * keys;
    const int64_t begin = r < keys ? 0 : r < 2 * keys ? n : 2 * n;
    return (place){.row = at / each * c->group + begin + at % each};
}

/* Rotated elements 2i and 2i + 1 of a head are i and i + n / 2 in the source. */
static place of_pairs(const rx_facts *f, int64_t r)
{
    const int64_t size = f->head_size, half = f->n_rot / 2, in_head = r % size;
    const int64_t from = in_head < f->n_rot ? in_head / 2 + in_head % 2 * half : in_head;
    return (place){.row = r - in_head + from};
}

static place find_row(const rx_facts *f, const rx_convert_tensor *c, int64_t r)
{
    switch (c->from) {
    case RX_ROWS_PAIRS: return of_pairs(f, r);
    case RX_ROWS_PART: return (place){.row = r / c->take * c->group + c->first + r % c->take};
    case RX_ROWS_DELTA: return of_delta(f, c, r);
    case RX_ROWS_EXPERTS: {
        const int64_t rows = c->shape.dim[1];
        return (place){.expert = r / rows, .row = r % rows};
    }
    default: return (place){.row = c->first + r};
    }
}

static rlx_status get_source(const rx_facts *f, const rx_convert_tensor *c, int64_t expert,
                             rlx_file_tensor *out, rlx_error *err)
{
    char name[RX_CONVERT_NAME];
    if (!rx_facts_is_stack(f, c->role)) {
        rx_facts_tensor(f, c->layer, c->role, out);
        return RLX_OK;
    }
    rx_print_tensor_name(rx_facts_name_format(f, c->role), c->layer - f->layer, expert, name,
                         sizeof name);
    return rlx_file_get_tensor(f->file, name, out, err);
}

/* ---- One tensor ------------------------------------------------------------------------------ */

typedef struct piece {
    const rx_convert_tensor *c;
    rlx_dtype to;
    int64_t rows, length;    /* of the tensor */
    size_t src_row, dst_row; /* bytes */
    unsigned char *raw;      /* rows of the source */
    float *floats;           /* of them, where they change */
    void *packed;
    rlx_quantize_rows_stats stats;
} piece;

/* Rows [at, at + n) in the type of the source. */
static rlx_status gather_rows(job *j, piece *p, int64_t at, int64_t n, rlx_error *err)
{
    rlx_file_tensor t = {0};
    int64_t expert = -1;
    for (int64_t i = 0; i < n; i++) {
        const place from = find_row(j->m.facts, p->c, at + i);
        if (from.expert != expert)
            RLX_TRY(get_source(j->m.facts, p->c, from.expert, &t, err));
        expert = from.expert;
        memcpy(p->raw + (size_t)i * p->src_row,
               (const char *)t.data + (size_t)from.row * p->src_row, p->src_row);
    }
    return RLX_OK;
}

/* [heads, l, n] of rows [heads * group, l]: what were rows are columns. */
static void gather_columns(const job *j, piece *p, int64_t at, int64_t n)
{
    const rx_convert_tensor *c = p->c;
    const size_t element = (size_t)rlx_dtype_block_bytes(c->dtype);
    const int64_t latent = c->shape.dim[1];
    rlx_file_tensor t;
    rx_facts_tensor(j->m.facts, c->layer, c->role, &t);
    const char *data = t.data;
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < p->length; k++) {
            const int64_t head = (at + i) / latent, column = (at + i) % latent;
            const int64_t row = head * c->group + c->first + k;
            memcpy(p->raw + ((size_t)i * (size_t)p->length + (size_t)k) * element,
                   data + ((size_t)row * (size_t)latent + (size_t)column) * element, element);
        }
}

static void change_floats(rx_change change, float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = change == RX_CHANGE_ONE ? 1 + x[i] : -expf(x[i]);
}

static rlx_status write_rows(job *j, piece *p, int64_t at, int64_t n, rlx_error *err)
{
    const rx_convert_tensor *c = p->c;
    const void *src = p->raw;
    rlx_dtype from = c->dtype;
    if (c->from == RX_ROWS_MADE)
        src = c->made;
    else if (c->from == RX_ROWS_COLUMNS)
        gather_columns(j, p, at, n);
    else
        RLX_TRY(gather_rows(j, p, at, n, err));
    if (c->change != RX_CHANGE_NONE) {
        RLX_TRY(rlx_to_float(from, src, p->floats, n * p->length));
        change_floats(c->change, p->floats, n * p->length);
        src = p->floats;
        from = RLX_F32;
    }
    if (from == p->to)
        return rlx_gguf_writer_write(j->writer, src, (size_t)n * p->dst_row, err);
    rlx_quantize_rows_stats s = {0};
    const rlx_quantize_rows_desc d = {RLX_INIT(rlx_quantize_rows_desc), .from = from, .to = p->to,
                                      .n_rows = n, .row_length = p->length, .src = src,
                                      .dst = p->packed, .threads = j->d.threads};
    RLX_TRY(rlx_quantize_rows(&d, &s, err));
    p->stats.squares += s.squares;
    p->stats.error += s.error;
    return rlx_gguf_writer_write(j->writer, p->packed, (size_t)n * p->dst_row, err);
}

static rlx_status announce(job *j, const char *name, rlx_error *err)
{
    if (!j->d.progress || !j->d.progress(j->d.progress_user, name, j->done, j->total))
        return RLX_OK;
    return rx_fail(err, RLX_CANCELLED, "the conversion of '%.200s' was stopped at tensor '%s'",
                   j->m.path, name);
}

static rlx_status write_all_rows(job *j, piece *p, rlx_error *err)
{
    const int64_t step = p->length < PIECE_ELEMENTS ? PIECE_ELEMENTS / p->length : 1;
    const int64_t most = step < p->rows ? step : p->rows;
    const uint64_t elements = rx_array_bytes((uint64_t)most, (uint64_t)p->length);
    p->raw = rx_alloc_array((uint64_t)most, p->src_row);
    p->floats = p->c->change != RX_CHANGE_NONE ? rx_alloc_array(elements, sizeof *p->floats)
                                               : NULL;
    p->packed = rx_alloc_array((uint64_t)most, p->dst_row);
    if (!p->raw || !p->packed || (p->c->change != RX_CHANGE_NONE && !p->floats))
        return rx_fail_memory(err, p->c->name, elements);
    for (int64_t at = 0; at < p->rows; at += step) {
        const int64_t n = p->rows - at < step ? p->rows - at : step;
        RLX_TRY(announce(j, p->c->name, err));
        RLX_TRY(write_rows(j, p, at, n, err));
        j->done += (uint64_t)n * p->src_row;
    }
    return RLX_OK;
}

static rlx_status write_tensor(job *j, size_t i, rlx_error *err)
{
    const rx_convert_tensor *c = &j->plan.list[i];
    piece p = {.c = c, .to = j->types[i], .length = c->shape.dim[c->shape.rank - 1], .rows = 1};
    rlx_error why = {0};
    for (int k = 0; k + 1 < c->shape.rank; k++)
        p.rows *= c->shape.dim[k];
    if (c->shape.rank == 1 && c->from == RX_ROWS_PAIRS) { /* a bias: elements are rows */
        p.rows = p.length;
        p.length = 1;
    }
    p.src_row = (size_t)(p.length * rlx_dtype_block_bytes(c->dtype));
    p.dst_row = (size_t)(p.length / rlx_dtype_block_size(p.to) * rlx_dtype_block_bytes(p.to));
    rlx_status st = write_all_rows(j, &p, &why);
    rx_free(p.raw);
    rx_free(p.floats);
    rx_free(p.packed);
    if (st != RLX_OK)
        return rx_fail(err, st, "tensor '%s': %s", c->name, why.text);
    if (j->d.done)
        j->d.done(j->d.user, &j->tensors[i], j->types[i], &p.stats);
    return RLX_OK;
}

/* ---- The file -------------------------------------------------------------------------------- */

static uint64_t source_bytes(const rx_convert_tensor *c)
{
    uint64_t n = (uint64_t)rlx_dtype_block_bytes(c->dtype);
    for (int i = 0; i < c->shape.rank; i++)
        n *= (uint64_t)c->shape.dim[i];
    return n;
}

static rlx_status choose_types(job *j, rlx_error *err)
{
    const size_t n = j->plan.n;
    j->tensors = rx_arena_array_zero(&j->arena, (int64_t)n, sizeof *j->tensors);
    j->types = rx_arena_array_zero(&j->arena, (int64_t)n, sizeof *j->types);
    if (!j->tensors || !j->types)
        return rx_fail_memory(err, "the types of the tensors", n * sizeof *j->tensors);
    for (size_t i = 0; i < n; i++) {
        const rx_convert_tensor *c = &j->plan.list[i];
        const rlx_dtype t = c->is_vector ? RLX_F32 : c->dtype;
        j->types[i] = t;
        j->tensors[i] = (rlx_file_tensor){.name = c->name, .dtype = t, .shape = c->shape,
                                          .type_name = rlx_dtype_name(t)};
        j->total += source_bytes(c);
    }
    if (j->d.types)
        RLX_TRY(j->d.types(j->d.user, j->tensors, n, j->types, err));
    for (size_t i = 0; i < n; i++) {
        const rlx_dtype t = j->types[i];
        const rlx_shape *s = &j->tensors[i].shape;
        if (!rlx_dtype_can_quantize(t) || s->dim[s->rank - 1] % rlx_dtype_block_size(t))
            return rx_fail(err, RLX_INVALID, "tensor '%s' with rows of %lld cannot become %s",
                           j->tensors[i].name, (long long)s->dim[s->rank - 1], rlx_dtype_name(t));
    }
    return RLX_OK;
}

/* general.file_type: the type that most of the elements have. */
static uint32_t find_file_type(const job *j)
{
    static const struct {
        rlx_dtype type;
        uint32_t number;
    } numbers[] = {
        {RLX_F16, 1}, {RLX_Q4_0, 2}, {RLX_Q4_1, 3}, {RLX_Q8_0, 7}, {RLX_Q5_0, 8}, {RLX_Q5_1, 9},
        {RLX_Q2_K, 10}, {RLX_Q3_K, 12}, {RLX_Q4_K, 15}, {RLX_Q5_K, 17}, {RLX_Q6_K, 18},
        {RLX_IQ4_NL, 25}, {RLX_BF16, 32}, {RLX_MXFP4, 38},
    };
    uint64_t elements[RLX_N_DTYPES] = {0};
    int most = RLX_F32;
    if (j->d.file_type)
        return j->d.file_type;
    for (size_t i = 0; i < j->plan.n; i++)
        elements[j->types[i]] += source_bytes(&j->plan.list[i]);
    for (int t = 0; t < RLX_N_DTYPES; t++)
        most = elements[t] > elements[most] ? t : most;
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if ((int)numbers[i].type == most)
            return numbers[i].number;
    return 0;
}

/* The last folder of a path, without its slashes. */
static rlx_status set_name(job *j, rlx_error *err)
{
    const char *name = j->d.name ? j->d.name : j->m.known.name, *path = j->m.path;
    size_t n = strlen(path);
    if (*name)
        return rlx_gguf_writer_set_text(j->writer, "general.name", name, err);
    if (!rx_is_folder(path))
        n = rx_folder_length(path);
    while (n && path[n - 1] == '/')
        n--;
    size_t begin = n;
    while (begin && path[begin - 1] != '/')
        begin--;
    name = rx_arena_strndup(&j->arena, path + begin, n - begin);
    if (!name)
        return rx_fail_memory(err, "the name of a model", n);
    return *name && strcmp(name, ".") != 0
               ? rlx_gguf_writer_set_text(j->writer, "general.name", name, err) : RLX_OK;
}

static rlx_status write_header(job *j, const char *out, rlx_error *err)
{
    RLX_TRY(rlx_gguf_writer_create(out, &j->writer, err));
    RLX_TRY(rlx_gguf_writer_set_text(j->writer, "general.architecture", j->m.known.architecture,
                                     err));
    RLX_TRY(rlx_gguf_writer_set_text(j->writer, "general.type", "model", err));
    RLX_TRY(set_name(j, err));
    RLX_TRY(rlx_gguf_writer_set_u32(j->writer, "general.file_type",
                                    find_file_type(j), err));
    RLX_TRY(rlx_gguf_writer_set_u32(j->writer, "general.quantization_version", 2, err));
    RLX_TRY(rx_convert_facts(&j->m, j->writer, err));
    RLX_TRY(rx_convert_tokenizer(&j->m, j->writer, err));
    for (size_t i = 0; i < j->plan.n; i++)
        RLX_TRY(rlx_gguf_writer_add_tensor(j->writer, j->tensors[i].name, j->types[i],
                                           &j->tensors[i].shape, err));
    return RLX_OK;
}

static rlx_status convert(job *j, const char *path, const char *out, rlx_error *err)
{
    const rlx_model_desc how = {RLX_INIT(rlx_model_desc)};
    RLX_TRY(rx_model_read(&j->m, path, (rx_bytes){0}, &how, err));
    if (strcmp(rlx_file_format(j->m.file), "safetensors") != 0)
        return rx_fail(err, RLX_INVALID, "'%.200s' is a %s file; expected a safetensors file or "
                       "the folder that holds one", path, rlx_file_format(j->m.file));
    if (j->m.facts->arch->parts & RX_HAS_RELATIVE)
        return rx_fail(err, RLX_UNSUPPORTED, "'%.200s': T5 is read, but not converted", path);
    j->plan = (rx_convert_plan){.f = j->m.facts, .arena = &j->arena};
    RLX_TRY(rx_convert_make_plan(&j->plan, err));
    RLX_TRY(choose_types(j, err));
    RLX_TRY(write_header(j, out, err));
    for (size_t i = 0; i < j->plan.n; i++)
        RLX_TRY(write_tensor(j, i, err));
    return rlx_gguf_writer_finish(j->writer, err);
}

rlx_status rlx_model_convert(const char *path, const char *out, const rlx_convert_desc *desc,
                             rlx_error *err)
{
    RLX_TRY(rx_need(path, "rlx_model_convert: path", err));
    RLX_TRY(rx_need(out, "rlx_model_convert: out", err));
    job *j = rx_alloc_zero(sizeof *j);
    if (!j)
        return rx_fail_memory(err, "a conversion", sizeof *j);
    rlx_status st = RX_DESC_READ(rlx_convert_desc, &j->d, desc, err);
    if (st == RLX_OK)
        st = convert(j, path, out, err);
    rlx_gguf_writer_destroy(j->writer);
    rlx_tokenizer_close(j->m.tokenizer);
    rx_facts_destroy(j->m.facts);
    rlx_file_close(j->m.file);
    rx_free(j->m.path);
    rx_arena_finish(&j->arena);
    rx_free(j);
    return st;
}
