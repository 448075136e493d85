/* SPDX-License-Identifier: MIT */
/* The tensors of a model: resolves those of tensors.def in the file and checks their shapes and
 * types. A layer tensor without a row means an unsupported model, and the file is rejected. */
#include <stdio.h>
#include <string.h>

#include "model/facts.h"

#define NEVER UINT64_MAX
#define NAME_TEXT 128

typedef struct tensor_row {
    const char *dims;
    bool of_layer;
    rx_has parts, needed;
} tensor_row;

static const tensor_row rows[RX_N_ROLES] = {
#define TENSOR(ID, GGUF, BERT, HF, DIMS, PARTS, NEEDED) {DIMS, GGUF[0] == 'b', PARTS, NEEDED},
#include "model/tensors.def"
#undef TENSOR
};

/* ---- Names ----------------------------------------------------------------------------------- */

static bool is_of_layer(const tensor_row *r)
{
    return r->of_layer;
}

static void print_name(const rx_facts *f, rx_role role, int64_t layer, int64_t expert,
                       char text[NAME_TEXT])
{
    const char *format = rx_facts_name_format(f, role);
    const bool is_head = !strncmp(format, "classifier.", 11); /* beside the encoder */
    const char *prefix = f->prefix && !is_head ? f->prefix : "";
    const size_t n = strlen(prefix);
    memcpy(text, prefix, n);
    if (!rx_print_tensor_name(format, layer, expert, text + n, NAME_TEXT - n))
        text[n] = 0;
}

/* Tensor indices by name. */
typedef struct finder {
    rx_facts *f;
    rx_map places;
    bool *used; /* [tensors of the file] */
} finder;

static uint32_t find_place(const finder *s, const char *name)
{
    const rx_map_slot *slot = rx_map_find(&s->places, name, strlen(name));
    return slot ? slot->value : RX_NO_TENSOR;
}

static bool has_tensor(const finder *s, rx_role role, int64_t layer)
{
    char name[NAME_TEXT];
    if (!rx_facts_name_format(s->f, role))
        return false;
    print_name(s->f, role, layer, 0, name);
    return find_place(s, name) != RX_NO_TENSOR;
}

bool rx_facts_tensor(const rx_facts *f, const rx_layer *layer, rx_role role, rlx_file_tensor *out)
{
    const uint32_t place = layer ? layer->tensor[role] : f->tensor[role];
    return place != RX_NO_TENSOR && rlx_file_tensor_at(f->file, place, out);
}

/* ---- Shapes ---------------------------------------------------------------------------------- */

/* The fact that an axis letter sets, for sizes taken from tensors. */
static int64_t *free_size(rx_facts *f, char axis)
{
    switch (axis) {
    case 'N': return &f->vocabulary;
    case 'T': return &f->types;
    case 'P': return &f->positions;
    case 'X': return &f->expert_hidden;
    case 'Y': return &f->shared_hidden;
    case 'c': return &f->classes;
    case 'r': return &f->buckets;
    default: return NULL;
    }
}

static int64_t ssm_size(const rx_facts *f, char axis)
{
    const bool first = f->arch->parts & RX_HAS_MAMBA1;
    const int64_t bc = 2 * f->ssm_groups * f->ssm_state;
    switch (axis) {
    case 'I': return f->ssm_inner;
    case 'C': return first ? f->ssm_inner : f->ssm_inner + bc;
    case 'J': return first ? 2 * f->ssm_inner : 2 * f->ssm_inner + bc + f->ssm_rank;
    case 'k': return f->ssm_conv;
    case 'S': return f->ssm_state;
    case 'R': return f->ssm_rank;
    case 'B': return f->ssm_rank + 2 * f->ssm_state;
    case 'g': return f->ssm_groups;
    case 'i': return f->ssm_inner / f->ssm_groups;
    case 'j': return 2 * f->ssm_inner + bc;
    case 'b': return 2 * f->ssm_rank;
    case 'p': return f->ssm_inner / f->ssm_rank;
    default: return 1;
    }
}

static int64_t mla_size(const rx_facts *f, const rx_layer *l, char axis)
{
    const int64_t plain = f->mla_key - f->n_rot; /* not rotated */
    switch (axis) {
    case 'U': return l->heads * f->mla_key;
    case 'L': return f->q_rank;
    case 'l': return f->kv_rank;
    case 'h': return f->kv_rank + f->n_rot;
    case 'n': return plain;
    case 'v': return f->mla_value;
    case 'u': return l->heads * (plain + f->mla_value);
    default: return ssm_size(f, axis);
    }
}

static int64_t axis_size(const rx_facts *f, const rx_layer *l, char axis)
{
    switch (axis) {
    case 'W': return f->width;
    case 'D': return f->head_size;
    case 'd': return f->n_rot / 2;
    case 'H': return l->heads;
    case 'm': return f->layer[0].heads;
    case 'Q': return l->heads * f->head_size;
    case 'q': return l->heads * f->head_size * (l->parts & RX_HAS_Q_GATE ? 2 : 1);
    case 'K': return l->kv_heads * f->head_size;
    case 'V': return l->kv_heads * f->value_size;
    case 'O': return l->heads * (l->parts & RX_HAS_MLA ? f->mla_value : f->value_size);
    case 'A': return (l->heads + l->kv_heads) * f->head_size + l->kv_heads * f->value_size;
    case 'F': return l->hidden;
    case 'G': return 2 * l->hidden;
    case 'E': return f->experts;
    case 'Z': return 2 * f->expert_hidden;
    default: return mla_size(f, l, axis);
    }
}

/* "[2, 3]" */
static const char *shape_text(const rlx_shape *s, char *text, size_t size)
{
    size_t n = (size_t)snprintf(text, size, "[");
    for (int i = 0; i < s->rank && n < size; i++)
        n += (size_t)snprintf(text + n, size - n, i ? ", %lld" : "%lld", (long long)s->dim[i]);
    if (n < size)
        snprintf(text + n, size - n, "]");
    return text;
}

/* Equal but for axes of size 1. */
static bool same_shape(const rlx_shape *a, const rlx_shape *b)
{
    int i = 0, j = 0;
    for (;;) {
        while (i < a->rank && a->dim[i] == 1)
            i++;
        while (j < b->rank && b->dim[j] == 1)
            j++;
        if (i == a->rank || j == b->rank)
            return i == a->rank && j == b->rank;
        if (a->dim[i++] != b->dim[j++])
            return false;
    }
}

rlx_shape rx_facts_shape(const rx_facts *f, const rx_layer *l, rx_role role)
{
    const char *dims = rows[role].dims;
    rlx_shape s = {.rank = (int32_t)strlen(dims)};
    for (int i = 0; i < s.rank; i++) {
        const int64_t *size = free_size((rx_facts *)f, dims[i]);
        s.dim[i] = size ? *size : axis_size(f, l, dims[i]);
    }
    return s;
}

static rlx_status check_tensor(rx_facts *f, const rx_layer *l, rx_role role,
                               const rlx_file_tensor *t, rlx_error *err)
{
    char want_text[96], got_text[96];
    const char *dims = rows[role].dims;
    if (t->dtype == RLX_NO_TYPE)
        return rx_fail(err, RLX_UNSUPPORTED, "tensor '%s' has the type %s, which rlx does not know",
                       t->name, t->type_name);
    const bool is_table = strlen(dims) > 1;
    if (!rlx_dtype_is_float(t->dtype) && !(is_table && rlx_dtype_is_packed(t->dtype)))
        return rx_fail(err, RLX_INVALID, "tensor '%s' expected with %s, got %s", t->name,
                       is_table ? "floats or a packed type" : "floats", t->type_name);
    for (int i = 0; dims[i] && i < t->shape.rank; i++) {
        int64_t *size = free_size(f, dims[i]);
        if (size && *size == 0)
            *size = t->shape.dim[i];
        if (dims[i] == 'Z' && f->expert_hidden == 0)
            f->expert_hidden = t->shape.dim[i] / 2;
    }
    const rlx_shape want = rx_facts_shape(f, l, role);
    const int64_t last = want.dim[want.rank - 1];
    if (same_shape(&want, &t->shape) && last % rlx_dtype_block_size(t->dtype) == 0 &&
        want.dim[0] > 0)
        return RLX_OK;
    return rx_fail(err, RLX_INVALID, "tensor '%s' expected with shape %s, got %s", t->name,
                   shape_text(&want, want_text, sizeof want_text),
                   shape_text(&t->shape, got_text, sizeof got_text));
}

/* ---- Finding --------------------------------------------------------------------------------- */

/* One tensor for each expert, equal in shape and type. */
static rlx_status check_stack(finder *s, rx_layer *layer, rx_role role, const rlx_file_tensor *t,
                              rlx_error *err)
{
    char name[NAME_TEXT];
    rlx_file_tensor whole = *t, one;
    if (t->shape.rank != 2 || t->dtype == RLX_NO_TYPE)
        return rx_fail(err, RLX_INVALID, "tensor '%s' expected with 2 axes and a known type, got "
                       "%d and %s", t->name, t->shape.rank, t->type_name);
    whole.shape = (rlx_shape){3, {s->f->experts, t->shape.dim[0], t->shape.dim[1]}};
    RLX_TRY(check_tensor(s->f, layer, role, &whole, err));
    for (int64_t e = 1; e < s->f->experts; e++) {
        print_name(s->f, role, layer - s->f->layer, e, name);
        const uint32_t place = find_place(s, name);
        if (place == RX_NO_TENSOR)
            return rx_fail(err, RLX_INVALID, "the file has no tensor '%s', which the architecture "
                           "%s with %lld experts needs", name, s->f->arch->name,
                           (long long)s->f->experts);
        rlx_file_tensor_at(s->f->file, place, &one);
        if (one.dtype != t->dtype || !same_shape(&one.shape, &t->shape))
            return rx_fail(err, RLX_INVALID, "tensor '%s' expected with the shape and type of "
                           "'%s'", name, t->name);
        s->used[place] = true;
    }
    return RLX_OK;
}

/* Finds the tensor of a role, if these parts include it. */
static rlx_status find_role(finder *s, rx_role role, rx_layer *layer, rx_has parts,
                            rlx_error *err)
{
    rx_facts *f = s->f;
    const tensor_row *r = &rows[role];
    uint32_t *place = layer ? &layer->tensor[role] : &f->tensor[role];
    const bool needed = r->needed != NEVER && (parts & r->needed) == r->needed;
    char name[NAME_TEXT];
    rlx_file_tensor t;
    *place = RX_NO_TENSOR;
    if ((parts & r->parts) != r->parts || is_of_layer(r) != (layer != NULL) ||
        !rx_facts_name_format(f, role))
        return RLX_OK;
    print_name(f, role, layer ? layer - f->layer : 0, 0, name);
    *place = find_place(s, name);
    if (*place == RX_NO_TENSOR)
        return needed ? rx_fail(err, RLX_INVALID, "the file has no tensor '%s', which the "
                                "architecture %s needs", name, f->arch->name) : RLX_OK;
    s->used[*place] = true;
    rlx_file_tensor_at(f->file, *place, &t);
    return rx_facts_is_stack(f, role) ? check_stack(s, layer, role, &t, err)
                                      : check_tensor(f, layer, role, &t, err);
}

/* Attention or what is in its place. */
static rx_has attention_parts(const finder *s, rx_has parts, int64_t i)
{
    if (parts & RX_HAS_DELTA && has_tensor(s, RX_T_DELTA_CONV, i)) {
        parts &= ~(RX_HAS_ATTENTION | RX_HAS_QK_NORM | RX_HAS_Q_GATE);
        return parts | (has_tensor(s, RX_T_DELTA_IN, i) ? RX_HAS_DELTA_JOINED : RX_HAS_DELTA_SPLIT);
    }
    parts &= ~RX_HAS_DELTA;
    if (parts & RX_HAS_MLA) {
        parts |= s->f->q_rank > 0 ? RX_HAS_LOW_Q : RX_HAS_FULL_Q;
        return parts | (has_tensor(s, RX_T_K_UP, i) ? RX_HAS_MLA_SPLIT : RX_HAS_MLA_JOINED);
    }
    if (s->f->arch->maybe_qk_norm && has_tensor(s, RX_T_Q_NORM, i))
        parts |= RX_HAS_QK_NORM;
    if (parts & RX_HAS_ATTENTION)
        parts |= has_tensor(s, RX_T_QKV, i) ? RX_HAS_FUSED : RX_HAS_SPLIT;
    return parts;
}

/* A feed-forward with experts, or a dense one. */
static rx_has ffn_parts(const finder *s, rx_has parts, int64_t i)
{
    const rx_has banks = RX_HAS_EXPERTS | RX_HAS_SHARED | RX_HAS_SHARED_ROUTER |
                           RX_HAS_EXPERT_BIASES;
    const rx_arch *arch = s->f->arch;
    if (s->f->experts == 0 || (arch->mixed && !has_tensor(s, RX_T_ROUTER, i)))
        return arch->mixed ? parts & ~banks : parts;
    parts &= ~(RX_HAS_DENSE | RX_HAS_GATE | RX_HAS_UP);
    parts |= RX_HAS_EXPERTS;
    if (arch->mixed && !has_tensor(s, RX_T_SHARED_UP, i))
        parts &= ~RX_HAS_SHARED;
    return parts | (has_tensor(s, RX_T_GATE_UP_EXPERTS, i) ? RX_HAS_GATE_UP_EXPERTS
                                                            : RX_HAS_SPLIT_EXPERTS);
}

/* Parts that depend on how the file splits tensors. */
static rx_has layer_parts(const finder *s, int64_t i)
{
    rx_has parts = ffn_parts(s, attention_parts(s, s->f->arch->parts, i), i);
    if (parts & RX_HAS_RELATIVE && !has_tensor(s, RX_T_GATE, i))
        parts &= ~RX_HAS_GATE; /* T5 1.0 */
    if (parts & RX_HAS_GATE && !has_tensor(s, RX_T_GATE, i)) {
        parts &= ~(RX_HAS_GATE | RX_HAS_UP);
        parts |= RX_HAS_GATE_IN_UP;
    }
    return parts;
}

static rlx_status find_all(finder *s, rlx_error *err)
{
    rx_facts *f = s->f;
    for (int role = 0; role < RX_N_ROLES; role++)
        RLX_TRY(find_role(s, (rx_role)role, NULL, f->arch->parts, err));
    for (int64_t i = 0; i < f->layers; i++) {
        rx_layer *layer = &f->layer[i];
        layer->parts = layer_parts(s, i);
        for (int role = 0; role < RX_N_ROLES; role++)
            RLX_TRY(find_role(s, (rx_role)role, layer, layer->parts, err));
    }
    return RLX_OK;
}

/* Whether a tensor belongs to the extra layers (multi-token prediction). */
static bool is_extra(const rx_facts *f, const char *name, const char *start)
{
    char text[NAME_TEXT];
    for (int64_t i = 0; i < f->extra_layers; i++) {
        const int n = snprintf(text, sizeof text, "%s%lld.", start, (long long)(f->layers + i));
        if (strncmp(name, text, (size_t)n) == 0)
            return true;
    }
    return false;
}

/* Unused layer tensors: the model is not what its architecture says. */
static rlx_status check_unused(const finder *s, rlx_error *err)
{
    rlx_file_tensor t;
    if (!(s->f->arch->parts & RX_HAS_DECODER))
        return RLX_OK;
    const char *start = s->f->naming == RX_NAMES_GGUF ? "blk." : "model.layers.";
    for (size_t i = 0; rlx_file_tensor_at(s->f->file, i, &t); i++)
        if (!s->used[i] && strncmp(t.name, start, strlen(start)) == 0 &&
            !strstr(t.name, "rot_embd") && !strstr(t.name, "rotary_emb") &&
            !is_extra(s->f, t.name, start))
            return rx_fail(err, RLX_UNSUPPORTED, "tensor '%s' is not known in a model of the "
                           "architecture %s with %lld layers", t.name, s->f->arch->name,
                           (long long)s->f->layers);
    return RLX_OK;
}

/* Detects the prefix of BERT's names in safetensors ("bert.", ...). */
static void find_prefix(finder *s)
{
    static const char *const words[] = {"", "bert.", "roberta."};
    if (s->f->naming != RX_NAMES_BERT)
        return;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        s->f->prefix = words[i];
        if (has_tensor(s, RX_T_EMBED, 0))
            return;
    }
    s->f->prefix = "";
}

static bool map_names(finder *s, size_t n)
{
    rlx_file_tensor t;
    s->used = rx_alloc_zero(n);
    for (size_t i = 0; s->used && i < n; i++) {
        rlx_file_tensor_at(s->f->file, i, &t);
        if (!rx_map_add(&s->places, t.name, strlen(t.name), (uint32_t)i))
            return false;
    }
    return s->used != NULL;
}

rlx_status rx_facts_find_tensors(rx_facts *f, rlx_error *err)
{
    const size_t n = rlx_file_n_tensors(f->file);
    finder s = {.f = f};
    rlx_status st;
    if (n >= RX_NO_TENSOR)
        return rx_fail(err, RLX_INVALID, "the file has too many tensors: %zu", n);
    if (!map_names(&s, n)) {
        st = rx_fail_memory(err, "the tensors of a model", n * sizeof(rx_map_slot));
        goto out;
    }
    find_prefix(&s);
    st = find_all(&s, err);
    if (st == RLX_OK)
        st = check_unused(&s, err);
out:
    rx_map_finish(&s.places);
    rx_free(s.used);
    return st;
}
