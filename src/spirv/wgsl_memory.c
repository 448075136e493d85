/* SPDX-License-Identifier: MIT */
/* The WGSL printer's memory: which variables share a buffer, pointers, loads and stores, push
 * constants as a uniform buffer of words. */
#include <string.h>

#include "spirv/wgsl_print.h"

const rx_ws_input rx_ws_inputs[RX_WS_N_INPUTS] = {
    {"num_workgroups", "vec3<u32>", 24},      {"workgroup_id", "vec3<u32>", 26},
    {"local_invocation_id", "vec3<u32>", 27}, {"global_invocation_id", "vec3<u32>", 28},
    {"local_invocation_index", "u32", 29},    {"subgroup_size", "u32", 36},
    {"subgroup_invocation_id", "u32", 41},    {"num_subgroups", "u32", 38},
    {"subgroup_id", "u32", 40},
};

/* ---- Buffers --------------------------------------------------------------------------------- */

uint32_t rx_ws_buffer_index(rx_wgsl *p, uint32_t binding)
{
    const uint32_t alias = p->opt->alias[binding % RX_WGSL_MAX_BIND];
    const uint32_t to = alias ? alias - 1u : binding;
    const bool sound = binding < RX_WGSL_MAX_BIND && to < RX_WGSL_MAX_BIND;
    if (sound && (to == binding || !p->opt->alias[to]))
        return to;
    rx_ws_fail(p, RLX_INVALID, "binding %u is an alias of %u, which is none of its own",
               (unsigned)binding, (unsigned)to);
    return 0;
}

static bool is_shifted(const rx_wgsl *p, uint32_t binding)
{
    return p->opt->shifted >> (binding & 31) & 1;
}

/* The element type of a buffer that is one runtime array; 0: it is not. */
static uint32_t array_element(rx_wgsl *p, uint32_t variable)
{
    const uint32_t block = rx_ws_pointee(p, rx_ws_at(p, variable)->type);
    const uint32_t *in = rx_ws_type(p, block);
    const uint32_t *offset = rx_ws_at(p, block)->member_offset;
    if (rx_ws_opcode(in) != OpTypeStruct || rx_ws_length(in) != 3 || (offset && offset[0] != 0))
        return 0;
    const uint32_t *array = rx_ws_type(p, in[2]);
    return rx_ws_opcode(array) == OpTypeRuntimeArray ? array[2] : 0;
}

/* True: elements of this type can be put together from words. */
static bool is_words(rx_wgsl *p, uint32_t type)
{
    const char kind = type ? rx_ws_kind(p, type) : 0;
    return (kind == 'u' || kind == 'i' || kind == 'f') && rx_ws_lanes(p, type) != 3;
}

/* Adds a variable to the buffer of its binding. A view that the first walk did not come to does not
 * make the others read words. */
static void join_buffer(rx_wgsl *p, uint32_t variable)
{
    rx_ws_id *d = rx_ws_at(p, variable);
    if (d->binding >= RX_WGSL_MAX_BIND || d->set != 0) {
        rx_ws_fail(p, RLX_UNSUPPORTED, "binding %u of set %u: only %d of set 0",
                   (unsigned)d->binding, (unsigned)d->set, RX_WGSL_MAX_BIND);
        return;
    }
    rx_ws_buffer *b = &p->buffer[rx_ws_buffer_index(p, d->binding)];
    const uint32_t element = array_element(p, variable);
    if (d->binding >= p->info->n_bindings)
        p->info->n_bindings = d->binding + 1;
    if (d->atomic && element && rx_ws_kind(p, element) == 'i')
        b->kind = 'i';
    if (!p->dry && !d->uses)
        return;
    b->by_words |= is_shifted(p, d->binding);
    if (b->first) {
        const uint32_t other = array_element(p, b->first);
        b->by_words |= !element || !other || d->atomic != b->atomic ||
                       strcmp(rx_ws_type_name(p, element, false),
                              rx_ws_type_name(p, other, false)) != 0;
    }
    b->atomic |= d->atomic;
    b->first = variable;
}

static void name_buffer(rx_wgsl *p, uint32_t variable)
{
    rx_ws_id *d = rx_ws_at(p, variable);
    rx_ws_buffer *b = &p->buffer[rx_ws_buffer_index(p, d->binding)];
    const uint32_t block = rx_ws_pointee(p, d->type), element = array_element(p, variable);
    if (!p->dry && !d->uses)
        return;
    if (rx_ws_def(p, block) != OpTypeStruct) {
        rx_ws_fail(p, RLX_UNSUPPORTED, "arrays of buffers do not exist");
        return;
    }
    if (b->by_words && !is_words(p, element)) {
        rx_ws_fail(p, RLX_UNSUPPORTED, "binding %u shares memory and is no array of words",
                   (unsigned)d->binding);
        return;
    }
    rx_ws_check_strides(p, block);
    d->text = rx_ws_text(p, "b%u", (unsigned)rx_ws_buffer_index(p, d->binding));
    d->flat = element != 0;
    if (b->by_words) {
        b->kind = b->kind ? b->kind : 'u';
        b->type = rx_ws_text(p, b->atomic ? "array<atomic<%s>>" : "array<%s>",
                             rx_ws_kind_name(b->kind));
    } else if (element) {
        const uint32_t array = rx_ws_type(p, block)[2];
        b->type = rx_ws_type_name(p, array, d->atomic && rx_ws_kind(p, element) != 's');
    } else {
        b->type = rx_ws_text(p, "B%u", (unsigned)block);
        if (!p->dry)
            rx_ws_print_struct(p, b->type, block, d->atomic);
    }
}

void rx_ws_plan_buffers(rx_wgsl *p)
{
    memset(p->buffer, 0, sizeof p->buffer);
    for (int pass = 0; pass < 2; pass++) {
        for (const uint32_t *in = p->w + 5; in < p->end && rx_ws_ok(p); in = rx_ws_next(in)) {
            if (rx_ws_opcode(in) == OpFunction)
                break;
            p->at = in;
            if (rx_ws_opcode(in) != OpVariable || in[3] != CLASS_BUFFER)
                continue;
            if (pass == 0)
                join_buffer(p, in[2]);
            else
                name_buffer(p, in[2]);
        }
    }
    uint32_t word = p->info->push_words;
    for (uint32_t i = 0; i < p->info->n_bindings; i++)
        if (is_shifted(p, i))
            p->info->binding[i].shift_word = word++;
    p->info->uniform_bytes = (word + 3) / 4 * 16;
    p->at = NULL;
}

/* The variable that a pointer points into; fails where it is no pointer. */
static rx_ws_id *base_of(rx_wgsl *p, uint32_t pointer)
{
    const rx_ws_id *d = rx_ws_at(p, pointer);
    if (!d->base || !d->type || rx_ws_def(p, d->type) != OpTypePointer) {
        rx_ws_fail(p, RLX_INVALID, "id %u is no pointer", (unsigned)pointer);
        return rx_ws_at(p, 0);
    }
    return rx_ws_at(p, d->base);
}

static uint32_t class_of(rx_wgsl *p, const rx_ws_id *base)
{
    return base->type && rx_ws_def(p, base->type) == OpTypePointer
               ? rx_ws_type(p, base->type)[2] : 0;
}

void rx_ws_mark(rx_wgsl *p, uint32_t pointer, bool reads, bool writes)
{
    const rx_ws_id *base = base_of(p, pointer);
    if (p->dry || !rx_ws_ok(p) || class_of(p, base) != CLASS_BUFFER)
        return;
    rx_ws_buffer *b = &p->buffer[rx_ws_buffer_index(p, base->binding)];
    rx_wgsl_binding *info = &p->info->binding[base->binding % RX_WGSL_MAX_BIND];
    b->used = true;
    b->written |= writes;
    info->read |= reads;
    info->written |= writes;
}

/* The buffer that is read word by word through this variable; NULL: it is not. */
static const rx_ws_buffer *words_of(rx_wgsl *p, const rx_ws_id *base)
{
    if (class_of(p, base) != CLASS_BUFFER)
        return NULL;
    const rx_ws_buffer *b = &p->buffer[rx_ws_buffer_index(p, base->binding)];
    return b->by_words ? b : NULL;
}

/* ---- Push constants -------------------------------------------------------------------------- */

static const char *uniform_word(rx_wgsl *p, uint32_t word)
{
    return rx_ws_text(p, "push[%u].%c", (unsigned)(word / 4), "xyzw"[word & 3]);
}

static const char *push_word(rx_wgsl *p, uint32_t offset, const char *index)
{
    if (offset & 3)
        rx_ws_fail(p, RLX_UNSUPPORTED, "push constants of other than 32 bits");
    if (!index)
        return uniform_word(p, offset / 4);
    p->needs_push_at = true;
    if (!offset)
        return rx_ws_text(p, "push_at(%s)", index);
    return rx_ws_text(p, "push_at(%s + %uu)", index, (unsigned)(offset / 4));
}

/* A value of that type at that place among the push constants. */
static const char *read_push(rx_wgsl *p, uint32_t type, uint32_t offset, const char *index)
{
    const uint32_t *in = rx_ws_type(p, type), op = rx_ws_opcode(in);
    uint32_t n = 0, stride = 4;
    if (!rx_ws_ok(p))
        return "?";
    switch (op) {
    case OpTypeInt:
    case OpTypeFloat: {
        const char *word = push_word(p, offset, index);
        if (op == OpTypeFloat && in[2] != 32)
            rx_ws_fail(p, RLX_UNSUPPORTED, "push constants of other than 32 bits");
        if (op == OpTypeInt && !in[3])
            return word;
        return rx_ws_text(p, "bitcast<%s>(%s)", op == OpTypeInt ? "i32" : "f32", word);
    }
    case OpTypeVector: n = in[3]; break;
    case OpTypeArray:
        n = rx_ws_value(p, in[3]);
        stride = rx_ws_at(p, type)->stride;
        break;
    }
    if (n == 0 || n > 64) {
        rx_ws_fail(p, RLX_UNSUPPORTED, "push constants of this type as one value");
        return "?";
    }
    rx_str s = {0};
    rx_str_printf(&s, "%s(", rx_ws_type_name(p, type, false));
    for (uint32_t i = 0; i < n && rx_ws_ok(p); i++)
        rx_str_printf(&s, "%s%s", i ? ", " : "",
                      read_push(p, in[2], offset + i * stride, index));
    rx_str_puts(&s, ")");
    return rx_ws_keep(p, &s);
}

static void chain_push(rx_wgsl *p, const uint32_t *in)
{
    rx_ws_id *d = rx_ws_at(p, in[2]);
    const rx_ws_id *from = rx_ws_at(p, in[3]);
    uint32_t type = rx_ws_pointee(p, from->type);
    d->push_offset = from->push_offset;
    d->push_index = from->push_index;
    for (uint32_t i = 4; i < rx_ws_length(in) && rx_ws_ok(p); i++) {
        const uint32_t *t = rx_ws_type(p, type), op = rx_ws_opcode(t);
        const bool known = rx_ws_known(p, in[i]);
        const uint32_t value = rx_ws_value(p, in[i]);
        const uint32_t *offsets = rx_ws_at(p, type)->member_offset;
        const uint32_t stride = op == OpTypeVector ? 4 : rx_ws_at(p, type)->stride;
        if (op == OpTypeStruct && known && value < rx_ws_length(t) - 2 && offsets) {
            d->push_offset += offsets[value];
            type = t[2 + value];
            continue;
        }
        if ((op != OpTypeVector && op != OpTypeArray) || (stride & 3)) {
            rx_ws_fail(p, RLX_UNSUPPORTED, "push constants of this type");
            return;
        }
        type = t[2];
        if (known) {
            d->push_offset += value * stride;
            continue;
        }
        const char *index = rx_ws_use_as(p, in[i], 'u');
        if (stride != 4)
            index = rx_ws_text(p, "%s * %uu", index, (unsigned)(stride / 4));
        d->push_index = d->push_index ? rx_ws_text(p, "%s + %s", d->push_index, index) : index;
    }
    d->text = "push";
}

/* ---- Pointers -------------------------------------------------------------------------------- */

/* Index of the first word of what an access chain into a buffer of words points to. */
static void chain_words(rx_wgsl *p, const uint32_t *in, const rx_ws_id *base)
{
    rx_ws_id *d = rx_ws_at(p, in[2]);
    const rx_ws_id *from = rx_ws_at(p, in[3]);
    const uint32_t element = array_element(p, d->base), lanes = rx_ws_lanes(p, element);
    uint32_t i = 4;
    const char *word = from->word;
    d->text = base->text;
    if (!word) { /* from the variable: a zero for the member, then the index */
        if (rx_ws_length(in) < 6) {
            rx_ws_fail(p, RLX_UNSUPPORTED, "a pointer to the whole of binding %u",
                       (unsigned)base->binding);
            return;
        }
        word = rx_ws_use_as(p, in[5], 'u');
        if (lanes != 1)
            word = rx_ws_text(p, "%s * %uu", word, (unsigned)lanes);
        if (is_shifted(p, base->binding))
            word = rx_ws_text(p, "%s + %s", word, uniform_word(
                p, p->info->binding[base->binding % RX_WGSL_MAX_BIND].shift_word));
        i = 6;
    }
    if (i < rx_ws_length(in)) /* an element of a vector */
        word = rx_ws_text(p, "%s + %s", word, rx_ws_use_as(p, in[i], 'u'));
    d->word = word;
}

/* One index; *type becomes that of the element. */
static const char *chain_step(rx_wgsl *p, const char *text, uint32_t index, uint32_t *type)
{
    const uint32_t *in = rx_ws_type(p, *type), op = rx_ws_opcode(in);
    const bool known = rx_ws_known(p, index);
    const uint32_t value = rx_ws_value(p, index);
    switch (op) {
    case OpTypeStruct:
        if (!known || value >= rx_ws_length(in) - 2) {
            rx_ws_fail(p, RLX_INVALID, "a struct has no such member");
            return "?";
        }
        *type = in[2 + value];
        return rx_ws_text(p, "%s.m%u", text, (unsigned)value);
    case OpTypeVector:
        *type = in[2];
        if (known)
            return rx_ws_text(p, "%s.%c", text, "xyzw"[value & 3]);
        return rx_ws_text(p, "%s[%s]", text, rx_ws_use(p, index));
    case OpTypeArray:
    case OpTypeRuntimeArray:
        *type = in[2];
        return rx_ws_text(p, "%s[%s]", text, rx_ws_use(p, index));
    }
    rx_ws_fail(p, RLX_INVALID, "its type has no elements");
    return "?";
}

void rx_ws_access_chain(rx_wgsl *p, const uint32_t *in)
{
    rx_ws_id *d = rx_ws_at(p, in[2]);
    const rx_ws_id *base = base_of(p, in[3]);
    if (!rx_ws_ok(p))
        return;
    const char *text = rx_ws_use(p, in[3]);
    d->scope = 0; /* its indices have one */
    if (d->base == p->push) {
        chain_push(p, in);
        return;
    }
    if (words_of(p, base)) {
        chain_words(p, in, base);
        return;
    }
    uint32_t type = rx_ws_pointee(p, rx_ws_at(p, in[3])->type);
    for (uint32_t i = 4; i < rx_ws_length(in) && rx_ws_ok(p); i++) {
        if (i == 4 && base->flat && in[3] == d->base) /* the struct around the array */
            type = rx_ws_type(p, type)[2];
        else
            text = chain_step(p, text, in[i], &type);
    }
    d->text = text;
}

void rx_ws_array_length(rx_wgsl *p, const uint32_t *in)
{
    const rx_ws_id *base = base_of(p, in[3]);
    if (!rx_ws_ok(p))
        return;
    if (words_of(p, base)) {
        rx_ws_fail(p, RLX_UNSUPPORTED, "the length of a buffer that shares memory");
        return;
    }
    rx_ws_mark(p, in[3], true, false);
    const char *text = rx_ws_use(p, in[3]);
    if (base->flat)
        text = rx_ws_text(p, "arrayLength(&%s)", text);
    else
        text = rx_ws_text(p, "arrayLength(&%s.m%u)", text, (unsigned)in[4]);
    rx_ws_define(p, in[2], RX_WS_PURE, text);
}

/* ---- Loads and stores ------------------------------------------------------------------------ */

/* A word of kind `from` as one of kind `to`. */
static const char *cast_word(rx_wgsl *p, char to, char from, const char *text)
{
    if (to == from)
        return text;
    return rx_ws_text(p, "bitcast<%s>(%s)", rx_ws_kind_name(to), text);
}

static const char *buffer_word(rx_wgsl *p, const rx_ws_buffer *b, const char *name,
                               const char *index)
{
    return rx_ws_text(p, b->atomic ? "atomicLoad(&%s[%s])" : "%s[%s]", name, index);
}

static void load_words(rx_wgsl *p, uint32_t id, uint32_t pointer, const rx_ws_buffer *b)
{
    const rx_ws_id *d = rx_ws_at(p, pointer);
    const uint32_t type = rx_ws_at(p, id)->type, lanes = rx_ws_lanes(p, type);
    const char kind = rx_ws_kind(p, type);
    rx_str s = {0};
    if (!d->word || (kind != 'u' && kind != 'i' && kind != 'f')) {
        rx_ws_fail(p, RLX_UNSUPPORTED, "a value that is not made of words");
        return;
    }
    if (lanes == 1) {
        rx_ws_define(p, id, 0, cast_word(p, kind, b->kind, buffer_word(p, b, d->text, d->word)));
        return;
    }
    rx_ws_line(p, "let x%u_w = %s;", (unsigned)id, d->word);
    rx_str_printf(&s, "%s(", rx_ws_type_name(p, type, false));
    for (uint32_t i = 0; i < lanes; i++) {
        const char *index = rx_ws_text(p, "x%u_w + %uu", (unsigned)id, (unsigned)i);
        rx_str_printf(&s, "%s%s", i ? ", " : "",
                      cast_word(p, kind, b->kind, buffer_word(p, b, d->text, index)));
    }
    rx_str_puts(&s, ")");
    rx_ws_define(p, id, 0, rx_ws_keep(p, &s));
}

void rx_ws_load(rx_wgsl *p, uint32_t id, uint32_t pointer)
{
    const rx_ws_id *base = base_of(p, pointer), *d = rx_ws_at(p, pointer);
    const uint32_t type = rx_ws_at(p, id)->type;
    if (!rx_ws_ok(p) || (!p->dry && !rx_ws_at(p, id)->uses && p->uniform_load != id)) {
        rx_ws_at(p, id)->text = "unused";
        return;
    }
    const char *text = rx_ws_use(p, pointer);
    rx_ws_mark(p, pointer, true, false);
    const rx_ws_buffer *words = words_of(p, base);
    if (words) {
        load_words(p, id, pointer, words);
    } else if (d->base == p->push) {
        text = read_push(p, type, d->push_offset, d->push_index);
        const bool in_place = strlen(text) < RX_WS_MAX_INLINE && !d->push_index;
        rx_ws_define(p, id, in_place ? RX_WS_PURE | RX_WS_ALWAYS : RX_WS_PURE, text);
    } else if (base->builtin) {
        rx_ws_define(p, id, RX_WS_PURE | RX_WS_ALWAYS, text);
    } else if (base->atomic) {
        const char kind = rx_ws_kind(p, type);
        if (kind == 'a' || kind == 's')
            rx_ws_fail(p, RLX_UNSUPPORTED, "a whole array of atomics");
        rx_ws_define(p, id, 0, rx_ws_text(p, "atomicLoad(&%s)", text));
    } else if (p->uniform_load == id) {
        rx_ws_define(p, id, 0, rx_ws_text(p, "workgroupUniformLoad(&%s)", text));
    } else {
        rx_ws_define(p, id, 0, text);
    }
}

static void store_words(rx_wgsl *p, uint32_t pointer, uint32_t value, const rx_ws_buffer *b)
{
    const rx_ws_id *d = rx_ws_at(p, pointer);
    const uint32_t type = rx_ws_at(p, value)->type, lanes = rx_ws_lanes(p, type);
    const char kind = rx_ws_kind(p, type);
    const char *what = rx_ws_use(p, value), *index = d->word;
    if (!index || (kind != 'u' && kind != 'i' && kind != 'f')) {
        rx_ws_fail(p, RLX_UNSUPPORTED, "a value that is not made of words");
        return;
    }
    const unsigned temp = ++p->n_temp;
    if (lanes > 1)
        rx_ws_line(p, "let t%u = %s; let t%u_v = %s;", temp, d->word, temp, what);
    for (uint32_t i = 0; i < lanes; i++) {
        if (lanes > 1) {
            index = rx_ws_text(p, "t%u + %uu", temp, (unsigned)i);
            what = rx_ws_text(p, "t%u_v.%c", temp, "xyzw"[i & 3]);
        }
        const char *word = cast_word(p, b->kind, kind, what);
        if (b->atomic)
            rx_ws_line(p, "atomicStore(&%s[%s], %s);", d->text, index, word);
        else
            rx_ws_line(p, "%s[%s] = %s;", d->text, index, word);
    }
}

void rx_ws_store(rx_wgsl *p, uint32_t pointer, uint32_t value)
{
    const rx_ws_id *base = base_of(p, pointer);
    if (!rx_ws_ok(p))
        return;
    if (rx_ws_at(p, pointer)->base == p->push || base->builtin) {
        rx_ws_fail(p, RLX_INVALID, "push constants and inputs cannot be written");
        return;
    }
    const char *to = rx_ws_use(p, pointer);
    rx_ws_mark(p, pointer, false, true);
    const rx_ws_buffer *words = words_of(p, base);
    if (words)
        store_words(p, pointer, value, words);
    else if (base->atomic)
        rx_ws_line(p, "atomicStore(&%s, %s);", to, rx_ws_use(p, value));
    else
        rx_ws_line(p, "%s = %s;", to, rx_ws_use(p, value));
}
