/* SPDX-License-Identifier: MIT */
/* Loads LoRA adapters: GGUF files of llama.cpp, folders or safetensors files of PEFT. Every tensor
 * must belong to a linear layer of the model and match its shape. */
#include "model/adapter.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/sized.h"
#include "import/json.h"
#include "model/model.h"

/* Linear layers that can have an adapter; embedding tables and expert banks cannot. */
static const rx_role roles[] = {RX_T_QKV, RX_T_Q, RX_T_K, RX_T_V, RX_T_O, RX_T_GATE, RX_T_UP,
                                RX_T_GATE_UP, RX_T_DOWN, RX_T_ROUTER, RX_T_SHARED_GATE,
                                RX_T_SHARED_UP, RX_T_SHARED_DOWN, RX_T_SSM_IN,
                                RX_T_SSM_OUT, RX_T_MLA_Q, RX_T_Q_DOWN, RX_T_Q_UP, RX_T_KV_DOWN,
                                RX_T_KV_UP, RX_T_DELTA_IN, RX_T_DELTA_QKV, RX_T_DELTA_Z,
                                RX_T_DELTA_OUT, RX_T_OUTPUT};

/* State of loading an adapter. */
typedef struct opener {
    rlx_adapter *a;
    const rx_facts *f;
    bool is_gguf;
    double alpha;          /* 0: the scale is 1 */
    bool by_root;          /* PEFT's rslora: alpha over the square root of the rank */
    const rx_json *alphas; /* PEFT's alpha_pattern */
    bool *used;            /* [tensors of the file] */
} opener;

/* ---- Names ----------------------------------------------------------------------------------- */

#define NAME 200

/* Names of the A and B tensors of a linear layer: "blk.0.attn_q.weight.lora_a", or
 * "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight". */
static bool print_names(const opener *o, const rx_layer *l, rx_role role, char a[NAME],
                        char b[NAME], bool with_prefix)
{
    char name[NAME];
    const rx_naming naming = o->is_gguf ? RX_NAMES_GGUF : RX_NAMES_HF;
    if (!rx_facts_tensor_name(role, naming, l ? l - o->f->layer : 0, name, sizeof name))
        return false;
    if (o->is_gguf) {
        snprintf(a, NAME, "%.180s.lora_a", name);
        snprintf(b, NAME, "%.180s.lora_b", name);
        return true;
    }
    const char *prefix = with_prefix ? "base_model.model." : "";
    const int stem = (int)(strlen(name) - strlen(".weight"));
    snprintf(a, NAME, "%s%.*s.lora_A.weight", prefix, stem, name);
    snprintf(b, NAME, "%s%.*s.lora_B.weight", prefix, stem, name);
    return true;
}

static bool find_tensor(opener *o, const char *name, rlx_file_tensor *out)
{
    for (size_t i = 0; rlx_file_tensor_at(o->a->file, i, out); i++)
        if (!o->used[i] && strcmp(out->name, name) == 0) {
            o->used[i] = true;
            return true;
        }
    return false;
}

/* ---- One product ----------------------------------------------------------------------------- */

static rlx_status check_type(const rlx_file_tensor *t, rlx_error *err)
{
    if (rlx_dtype_is_float(t->dtype) || rlx_dtype_is_packed(t->dtype))
        return RLX_OK;
    return rx_fail(err, RLX_UNSUPPORTED, "tensor '%.150s' of the adapter has the type %s; expected "
                   "floats", t->name, t->type_name);
}

static rlx_status check_pair(const rx_adapter_pair *p, int64_t n, int64_t k, rlx_error *err)
{
    RLX_TRY(check_type(&p->a, err));
    RLX_TRY(check_type(&p->b, err));
    const rlx_shape *a = &p->a.shape, *b = &p->b.shape;
    if (a->rank == 2 && b->rank == 2 && a->dim[1] == k && b->dim[0] == n &&
        a->dim[0] == b->dim[1] && a->dim[0] > 0)
        return RLX_OK;
    return rx_fail(err, RLX_INVALID, "tensors '%.150s' and '%.150s' of the adapter expected with "
                   "shapes [rank, %lld] and [%lld, rank], got [%lld, %lld] and [%lld, %lld]",
                   p->a.name, p->b.name, (long long)k, (long long)n, (long long)a->dim[0],
                   (long long)(a->rank > 1 ? a->dim[1] : 1), (long long)b->dim[0],
                   (long long)(b->rank > 1 ? b->dim[1] : 1));
}

/* Keys of alpha_pattern are module names or suffixes of them. */
static double alpha_of(const opener *o, const char *module, size_t n)
{
    double alpha = o->alpha;
    for (const rx_json *m = o->alphas ? o->alphas->first : NULL; m; m = m->next)
        if (m->key_length <= n && !memcmp(module + n - m->key_length, m->key, m->key_length) &&
            (m->key_length == n || module[n - m->key_length - 1] == '.'))
            rx_json_real(m, &alpha);
    return alpha;
}

static void set_scale(const opener *o, rx_adapter_pair *p)
{
    const char *end = strstr(p->a.name, ".lora_");
    const double rank = (double)p->rank;
    const double alpha = alpha_of(o, p->a.name, end ? (size_t)(end - p->a.name) : 0);
    p->scale = alpha == 0 ? 1 : alpha / (o->by_root ? sqrt(rank) : rank);
}

/* Row order matters for q and k only, which get rotary embeddings. */
static void set_turn(const opener *o, const rx_layer *l, rx_role role, rx_adapter_pair *p)
{
    const bool file_is_gguf = o->f->naming == RX_NAMES_GGUF;
    if (!o->f->arch->pairs || file_is_gguf == o->is_gguf || (role != RX_T_Q && role != RX_T_K))
        return;
    p->turn = file_is_gguf ? RX_TURN_TO_PAIRS : RX_TURN_TO_HALVES;
    p->head = p->b.shape.dim[0] / (role == RX_T_Q ? l->heads : l->kv_heads);
}

static rlx_status read_pair(opener *o, const rx_layer *l, rx_role role, rlx_error *err)
{
    rlx_adapter *d = o->a;
    rx_adapter_pair *p = &d->pairs[d->n];
    char a[NAME], b[NAME];
    rlx_file_tensor weight;
    if (!rx_facts_tensor(o->f, l, role, &weight))
        return RLX_OK;
    *p = (rx_adapter_pair){.of = weight.name};
    bool found = print_names(o, l, role, a, b, true) && find_tensor(o, a, &p->a);
    if (!found)
        found = !o->is_gguf && print_names(o, l, role, a, b, false) && find_tensor(o, a, &p->a);
    if (!found)
        return RLX_OK;
    if (!find_tensor(o, b, &p->b))
        return rx_fail(err, RLX_INVALID, "the adapter has tensor '%s', but not '%s'", a, b);
    const rlx_shape s = rx_facts_shape(o->f, l, role);
    RLX_TRY(check_pair(p, s.dim[0], s.dim[s.rank - 1], err));
    p->rank = p->a.shape.dim[0];
    set_scale(o, p);
    set_turn(o, l, role, p);
    d->rank = p->rank > d->rank ? p->rank : d->rank;
    d->parameters += p->rank * (s.dim[0] + s.dim[s.rank - 1]);
    d->scale = d->n++ ? d->scale : p->scale;
    return RLX_OK;
}

static rlx_status read_pairs(opener *o, rlx_error *err)
{
    rlx_adapter *d = o->a;
    const size_t n = rlx_file_n_tensors(d->file);
    rlx_file_tensor t;
    d->pairs = rx_arena_array_zero(&d->arena, n / 2 + 1, sizeof *d->pairs);
    o->used = rx_arena_zero(&d->arena, n + 1);
    if (!d->pairs || !o->used)
        return rx_fail_memory(err, "an adapter", n * sizeof *d->pairs);
    for (size_t r = 0; r < sizeof roles / sizeof *roles; r++) {
        const bool of_layer = roles[r] != RX_T_OUTPUT;
        for (int64_t i = 0; i < (of_layer ? o->f->layers : 1); i++)
            RLX_TRY(read_pair(o, of_layer ? &o->f->layer[i] : NULL, roles[r], err));
    }
    for (size_t i = 0; rlx_file_tensor_at(d->file, i, &t); i++)
        if (!o->used[i])
            return rx_fail(err, RLX_UNSUPPORTED, "tensor '%.150s' of the adapter changes nothing of"
                           " this model (%s) that rlx can adapt: the products of attention, "
                           "state spaces and feed-forward without experts, and the output", t.name,
                           o->f->arch->name);
    return d->n ? RLX_OK : rx_fail(err, RLX_INVALID, "'%.200s' has no tensors", d->path);
}

/* ---- Files ----------------------------------------------------------------------------------- */

static bool has_text(const rlx_file *f, const char *key, const char *want, const char **text,
                     size_t *n)
{
    rlx_meta m;
    *text = "";
    *n = 0;
    return rlx_file_find_meta(f, key, &m) && rlx_meta_string(&m, 0, text, n) &&
           *n == strlen(want) && !memcmp(*text, want, *n);
}

static rlx_status read_gguf(opener *o, rlx_error *err)
{
    static const struct {
        const char *key, *want;
    } texts[] = {{"general.type", "adapter"}, {"adapter.type", "lora"}};
    const rlx_file *f = o->a->file;
    const char *text;
    rlx_meta m;
    size_t n;
    for (size_t i = 0; i < 2; i++)
        if (!has_text(f, texts[i].key, texts[i].want, &text, &n))
            return rx_fail(err, RLX_INVALID, "'%.200s' is no LoRA adapter: %s expected '%s', got "
                           "'%.*s'", o->a->path, texts[i].key, texts[i].want,
                           n < 40 ? (int)n : 40, text);
    if (!has_text(f, "general.architecture", o->f->arch->name, &text, &n))
        return rx_fail(err, RLX_INVALID, "'%.200s' is an adapter for models of the architecture "
                       "'%.*s'; this one is '%s'", o->a->path, n < 40 ? (int)n : 40, text,
                       o->f->arch->name);
    if (rlx_file_find_meta(f, "adapter.lora.alpha", &m) && !rlx_meta_f64(&m, 0, &o->alpha))
        return rx_fail(err, RLX_INVALID, "'%.200s': adapter.lora.alpha is no number", o->a->path);
    return read_pairs(o, err);
}

static bool is_true(const rx_json *v)
{
    return v && v->kind == RX_JSON_BOOL && v->truth;
}

/* Rejects PEFT options beyond plain LoRA (DoRA, biases, ...). */
static rlx_status check_config(const opener *o, const rx_json *config, rlx_error *err)
{
    const rx_json *type = rx_json_member(config, "peft_type");
    const rx_json *bias = rx_json_member(config, "bias");
    const rx_json *saved = rx_json_member(config, "modules_to_save");
    const char *what = NULL;
    if (type && (type->kind != RX_JSON_STRING || strcmp(type->text, "LORA")))
        what = "peft_type (expected LORA)";
    else if (is_true(rx_json_member(config, "use_dora")))
        what = "use_dora";
    else if (is_true(rx_json_member(config, "fan_in_fan_out")))
        what = "fan_in_fan_out";
    else if (bias && bias->kind == RX_JSON_STRING && strcmp(bias->text, "none"))
        what = "bias (expected none)";
    else if (saved && saved->kind == RX_JSON_ARRAY && saved->n)
        what = "modules_to_save";
    return !what ? RLX_OK : rx_fail(err, RLX_UNSUPPORTED, "the adapter '%.200s' has %s, which rlx "
                                    "does not have", o->a->path, what);
}

static rlx_status read_peft(opener *o, const char *weights, rlx_error *err)
{
    const rx_json *config;
    rx_arena texts = {0};
    rlx_status st = rx_json_beside(weights, "adapter_config.json", &texts, &config, err);
    if (st == RLX_OK && !config)
        st = rx_fail(err, RLX_NOT_FOUND, "'%.200s' has no adapter_config.json beside it", weights);
    if (st == RLX_OK)
        st = check_config(o, config, err);
    if (st == RLX_OK && (!rx_json_real(rx_json_member(config, "lora_alpha"), &o->alpha)))
        st = rx_fail(err, RLX_INVALID, "'%.200s': adapter_config.json has no lora_alpha", weights);
    o->by_root = is_true(rx_json_member(config, "use_rslora"));
    o->alphas = rx_json_member(config, "alpha_pattern");
    if (st == RLX_OK)
        st = read_pairs(o, err);
    rx_arena_finish(&texts);
    return st;
}

static rlx_status open_adapter(rlx_adapter *a, const char *path, rlx_error *err)
{
    char *weights = NULL;
    opener o = {.a = a, .f = a->model->facts};
    a->path = rx_arena_strdup(&a->arena, path);
    if (!a->path)
        return rx_fail_memory(err, "the path of an adapter", strlen(path));
    if (rx_is_folder(path))
        RLX_TRY(rx_join_path(path, strlen(path), "adapter_model.safetensors", &weights, err));
    rlx_status st = rlx_file_open(weights ? weights : path, &a->file, err);
    o.is_gguf = st == RLX_OK && !strcmp(rlx_file_format(a->file), "gguf");
    if (st == RLX_OK)
        st = o.is_gguf ? read_gguf(&o, err) : read_peft(&o, weights ? weights : path, err);
    rx_free(weights);
    return st;
}

rlx_status rlx_adapter_open(rlx_model *m, const char *path, rlx_adapter **out, rlx_error *err)
{
    RLX_TRY(rx_need(out, "rlx_adapter_open: out", err));
    *out = NULL;
    RLX_TRY(rx_need(m, "rlx_adapter_open: m", err));
    RLX_TRY(rx_need(path, "rlx_adapter_open: path", err));
    if (!m->known.is_decoder)
        return rx_fail(err, RLX_UNSUPPORTED, "'%.200s' is an encoder (%s): adapters are for models "
                       "that generate", m->path, m->known.architecture);
    rlx_adapter *a = rx_alloc_zero(sizeof *a);
    if (!a)
        return rx_fail_memory(err, "an adapter", sizeof *a);
    a->model = m;
    const rlx_status st = open_adapter(a, path, err);
    if (st == RLX_OK)
        *out = a;
    else
        rlx_adapter_close(a);
    return st;
}

void rlx_adapter_close(rlx_adapter *a)
{
    if (!a)
        return;
    rlx_file_close(a->file);
    rx_arena_finish(&a->arena);
    rx_free(a);
}

rlx_status rlx_adapter_get_info(const rlx_adapter *a, rlx_adapter_info *out, rlx_error *err)
{
    RLX_TRY(rx_need(a, "rlx_adapter_get_info: a", err));
    const rlx_adapter_info info = {.path = a->path, .rank = a->rank, .scale = a->scale,
                                   .products = (int64_t)a->n, .parameters = a->parameters};
    return RX_INFO_WRITE(rlx_adapter_info, out, &info, err);
}

const rx_adapter_pair *rx_adapter_find(const rlx_adapter *a, const char *of)
{
    for (size_t i = 0; i < a->n; i++)
        if (strcmp(a->pairs[i].of, of) == 0)
            return &a->pairs[i];
    return NULL;
}

rlx_status rx_check_adapter(const rlx_model *m, const rlx_adapter *a, double scale, rlx_error *err)
{
    RLX_TRY(rx_need(a, "an adapter", err));
    if (a->model != m)
        return rx_fail(err, RLX_INVALID, "the adapter '%.200s' was opened for another model",
                       a->path);
    if (!(fabs(scale) <= 1e6))
        return rx_fail(err, RLX_INVALID, "the scale of adapter '%.200s' is %g; expected a number up"
                       " to 1e6", a->path, scale);
    return RLX_OK;
}

uint64_t rx_adapter_hash(const rlx_adapter *a, double scale, uint64_t h)
{
    for (size_t i = 0; i < a->n; i++) {
        const rlx_file_tensor *t[] = {&a->pairs[i].a, &a->pairs[i].b};
        for (int k = 0; k < 2; k++)
            h = rx_hash(h, t[k]->data, t[k]->bytes < 64 ? t[k]->bytes : 64);
    }
    return rx_hash(h, &scale, sizeof scale);
}

/* ---- Params of graphs ------------------------------------------------------------------------ */

int64_t rx_turned_row(rx_turn turn, int64_t head, int64_t i)
{
    const int64_t half = head / 2, at = turn ? i % head : 0;
    if (turn == RX_TURN_TO_PAIRS) /* row 2 j + t is row t * half + j */
        return i - at + at % 2 * half + at / 2;
    if (turn == RX_TURN_TO_HALVES)
        return i - at + at % half * 2 + at / half;
    return i;
}

static rlx_status load_row(const rlx_file_tensor *t, int64_t row, float *out, rlx_error *err)
{
    const size_t bytes = t->bytes / (size_t)t->shape.dim[0];
    const rlx_status st = rlx_to_float(t->dtype, (const char *)t->data + (size_t)row * bytes, out,
                                       t->shape.dim[1]);
    return st == RLX_OK ? st : rx_fail(err, st, "tensor '%.150s' of an adapter could not be read as"
                                       " floats", t->name);
}

/* A of each adapter: [adapters, rank, K], or stacked along the rank [ranks, K]. */
static rlx_status fill_a(const rx_lora *l, const char *of, const rx_lora_sizes *s, float *to,
                         rlx_error *err)
{
    for (size_t i = 0; i < l->n; i++) {
        const rx_adapter_pair *p = rx_adapter_find(l->adapters[i], of);
        for (int64_t r = 0; p && r < p->rank; r++)
            RLX_TRY(load_row(&p->a, r, to + r * s->k, err));
        to += (l->by_row ? s->rank : p ? p->rank : 0) * s->k;
    }
    return RLX_OK;
}

/* B of each adapter times its scale: [adapters, N, rank], or concatenated along the rank [N,
 * ranks]. */
static rlx_status fill_b(const rx_lora *l, const char *of, const rx_lora_sizes *s, float *to,
                         rlx_error *err)
{
    for (size_t i = 0; i < l->n; i++) {
        const rx_adapter_pair *p = rx_adapter_find(l->adapters[i], of);
        const double scale = p ? p->scale * (l->scales ? l->scales[i] : 1) : 0;
        for (int64_t r = 0; p && r < s->n; r++) {
            float *row = to + r * s->rank;
            RLX_TRY(load_row(&p->b, rx_turned_row(p->turn, p->head, r), row, err));
            for (int64_t k = 0; k < p->rank; k++)
                row[k] = (float)(row[k] * scale);
        }
        to += l->by_row ? s->n * s->rank : p ? p->rank : 0;
    }
    return RLX_OK;
}

rlx_status rx_lora_param(const rx_lora *l, const char *name, void **data, size_t *bytes,
                         rlx_error *err)
{
    const size_t n = strlen(name), end = strlen(".lora_a");
    char of[NAME];
    *data = NULL;
    if (!l || n <= end || n >= NAME ||
        (strcmp(name + n - end, ".lora_a") && strcmp(name + n - end, ".lora_b")))
        return RLX_OK;
    snprintf(of, sizeof of, "%.*s", (int)(n - end), name);
    const rx_lora_sizes s = rx_lora_sizes_of(l, of);
    if (!s.rank)
        return RLX_OK;
    const bool is_a = name[n - 1] == 'a';
    const int64_t rows = (l->by_row ? (int64_t)l->n : 1) * s.rank;
    uint64_t elements;
    if (!rx_mul_size((uint64_t)rows, (uint64_t)(is_a ? s.k : s.n), &elements) ||
        elements > SIZE_MAX / sizeof(float))
        return rx_fail(err, RLX_INVALID, "'%s' of %zu adapters is too large", name, l->n);
    float *to = rx_alloc_array_zero(elements, sizeof *to);
    if (!to)
        return rx_fail_memory(err, name, elements * sizeof *to);
    const rlx_status st = is_a ? fill_a(l, of, &s, to, err) : fill_b(l, of, &s, to, err);
    if (st != RLX_OK) {
        rx_free(to);
        return st;
    }
    *data = to;
    *bytes = (size_t)elements * sizeof *to;
    return RLX_OK;
}
