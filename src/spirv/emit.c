/* SPDX-License-Identifier: MIT */
/* Code generation of an elementwise kernel: bindings, push constants, coordinates, loads, the
 * region's instructions for each element of the item, stores. */
#include "spirv/expr.h"
#include "spirv/wide.h"

/* ---- Functions ------------------------------------------------------------------------------- */

static rx_id type_of(const rx_emit *e, char c)
{
    switch (c) {
    case 'f': return e->t_f32;
    case 'v': return e->t_u32x2;
    case 'w': return e->t_u32x4;
    default: return e->t_u32;
    }
}

static rx_id write_fn(rx_emit *e, const rx_emit_fn *fn, size_t n)
{
    rx_id types[8], params[8];
    for (size_t i = 0; i < n; i++)
        types[i] = type_of(e, fn->signature[1 + i]);
    const rx_id id = rx_spv_begin(&e->m, type_of(e, fn->signature[0]), types, n, params);
    const rx_id y = fn->body(e, params);
    rx_spv_op(&e->m, SPV_RETURN_VALUE, 0, RX_ARGS(y));
    rx_spv_end(&e->m);
    return id;
}

rx_id rx_emit_call(rx_emit *e, const rx_emit_fn *fn, const rx_id *args)
{
    const size_t n = strlen(fn->signature) - 1;
    if (fn->in_place)
        return fn->body(e, args);
    size_t i = 0;
    while (i < e->n_fn && e->fn[i] != fn)
        i++;
    if (i == e->n_fn) {
        const rx_id id = write_fn(e, fn, n); /* may add others first */
        i = e->n_fn;
        if (i == RX_EMIT_MAX_FN) {
            e->m.failed = true;
            return id;
        }
        e->fn[i] = fn;
        e->fn_id[i] = id;
        e->n_fn++;
    }
    uint32_t all[9] = {e->fn_id[i]};
    memcpy(all + 1, args, n * sizeof *args);
    return rx_spv_op(&e->m, SPV_FUNCTION_CALL, type_of(e, fn->signature[0]), all, n + 1);
}

/* ---- Instructions ---------------------------------------------------------------------------- */

static rx_emit_value emit_where(rx_emit *e, rlx_dtype arg, const rx_emit_value *a)
{
    const rx_id cond = i_ne_k(e, a[0].id, 0);
    const rx_id type = rlx_dtype_is_float(arg) ? e->t_f32 : e->t_u32;
    rx_emit_value y = {rx_spv_op(&e->m, SPV_SELECT, type, RX_ARGS(cond, a[1].id, a[2].id)), 0};
    if (rx_is_wide(arg))
        y.hi = i_select(e, cond, a[1].hi, a[2].hi);
    return y;
}

rx_emit_value rx_emit_instr(rx_emit *e, const rx_instr *in, rlx_dtype arg, const rx_emit_value *a)
{
    if (in->op == RX_OP_where)
        return emit_where(e, arg, a);
    if (in->op == RX_OP_cast)
        return rx_emit_cast(e, arg, in->dtype, a[0]);
    if (!rlx_dtype_is_float(arg))
        return rx_emit_int(e, in, arg, a);
    const rx_id args[3] = {a[0].id, a[1].id, a[2].id};
    if (in->dtype == RLX_BOOL)
        return (rx_emit_value){rx_emit_float_test(e, in, args), 0};
    return (rx_emit_value){rx_emit_float(e, in, args), 0};
}

/* ---- The kernel being written ---------------------------------------------------------------- */

/* An operand of index arithmetic: a push constant or a literal. */
typedef struct number {
    uint32_t value, slot; /* slot NO_SLOT: a constant */
    rx_id id;
} number;
#define NO_SLOT 0xffffffffu

typedef struct operand {
    number offset, step, stride[RLX_MAX_RANK];
    uint32_t bytes;      /* of an element */
    uint32_t vec, chunks; /* WIDE: words of an access, accesses */
    rx_id buffer;
} operand;

typedef struct writer {
    rx_emit e;
    rx_emit_kernel *k;
    operand in[RX_EMIT_MAX_BIND], out[RX_EMIT_MAX_BIND];
    number n_items, n_elements, dim[RLX_MAX_RANK];
    rx_id block[5], pointer[5]; /* by words of an access: struct type, pointer to an element */
    rx_id builtin[3];
    rx_emit_value *values; /* per_item of input 0, of input 1, .., of instruction 0, .. */
    bool *is_splat;        /* by value: the same for all elements of an item */
} writer;

/* 0 and 1 are literals; other numbers are push constants while there is space. */
static number make_number(writer *w, uint32_t value, bool is_structure)
{
    rx_emit_kernel *k = w->k;
    number n = {value, NO_SLOT, 0};
    if (is_structure || k->n_push >= k->max_push || k->n_push >= RX_EMIT_MAX_PUSH)
        return n;
    n.slot = k->n_push;
    k->push[k->n_push++] = value;
    return n;
}

static void plan_operand(writer *w, operand *o, const rx_emit_operand *from)
{
    const rx_emit_kernel *k = w->k;
    o->bytes = (uint32_t)rlx_dtype_block_bytes(from->dtype);
    const uint32_t words = k->per_item * o->bytes / 4;
    const bool is_wide = from->access == RX_ACCESS_WIDE;
    o->vec = !is_wide ? 1 : words >= 4 ? 4 : words;
    o->chunks = is_wide ? words / o->vec : 0;
    o->offset = make_number(w, from->offset, from->offset == 0);
    o->step = make_number(w, from->step, from->step <= 1 || from->access != RX_ACCESS_EACH);
    for (int i = 0; i < k->rank; i++)
        o->stride[i] = make_number(w, from->stride[i], from->stride[i] <= 1);
}

static void plan_numbers(writer *w)
{
    rx_emit_kernel *k = w->k;
    k->n_push = 0;
    w->n_items = make_number(w, k->n_items, false);
    w->n_elements = make_number(w, k->singly ? k->n_elements : 0, !k->singly);
    for (int i = 1; i < k->rank; i++)
        w->dim[i] = make_number(w, k->dim[i], false);
    for (uint32_t i = 0; i < k->n_in; i++)
        plan_operand(w, &w->in[i], &k->in[i]);
    for (uint32_t i = 0; i < k->n_out; i++)
        plan_operand(w, &w->out[i], &k->out[i]);
}

/* ---- Declarations ---------------------------------------------------------------------------- */

static void declare_types(rx_emit *e)
{
    rx_spv *m = &e->m;
    e->t_void = rx_spv_intern(m, SPV_TYPE_VOID, 0, NULL, 0);
    e->t_bool = rx_spv_intern(m, SPV_TYPE_BOOL, 0, NULL, 0);
    e->t_u32 = rx_spv_intern(m, SPV_TYPE_INT, 0, RX_ARGS(32, 0));
    e->t_f32 = rx_spv_intern(m, SPV_TYPE_FLOAT, 0, RX_ARGS(32));
    e->t_u32x2 = rx_spv_intern(m, SPV_TYPE_VECTOR, 0, RX_ARGS(e->t_u32, 2));
    e->t_u32x4 = rx_spv_intern(m, SPV_TYPE_VECTOR, 0, RX_ARGS(e->t_u32, 4));
    e->t_f32x2 = rx_spv_intern(m, SPV_TYPE_VECTOR, 0, RX_ARGS(e->t_f32, 2));
    e->t_pair = rx_spv_intern(m, SPV_TYPE_STRUCT, 0, RX_ARGS(e->t_u32, e->t_u32));
}

static rx_id type_of_words(const rx_emit *e, uint32_t n)
{
    return n == 4 ? e->t_u32x4 : n == 2 ? e->t_u32x2 : e->t_u32;
}

/* struct { T words[]; } for accesses of `vec` words. */
static void declare_block(writer *w, uint32_t vec)
{
    rx_spv *m = &w->e.m;
    if (w->block[vec])
        return;
    const rx_id element = type_of_words(&w->e, vec);
    const rx_id array = rx_spv_declare(m, SPV_TYPE_RUNTIME_ARRAY, 0, RX_ARGS(element));
    rx_spv_decorate(m, SPV_DECORATE, RX_ARGS(array, SPV_ARRAY_STRIDE, 4 * vec));
    w->block[vec] = rx_spv_declare(m, SPV_TYPE_STRUCT, 0, RX_ARGS(array));
    rx_spv_decorate(m, SPV_DECORATE, RX_ARGS(w->block[vec], SPV_BLOCK));
    rx_spv_decorate(m, SPV_MEMBER_DECORATE, RX_ARGS(w->block[vec], 0, SPV_OFFSET, 0));
    w->pointer[vec] = rx_spv_intern(m, SPV_TYPE_POINTER, 0,
                                    RX_ARGS(SPV_CLASS_STORAGE_BUFFER, element));
}

static void declare_buffer(writer *w, operand *o, uint32_t binding, bool is_input)
{
    rx_spv *m = &w->e.m;
    declare_block(w, o->vec);
    const rx_id pointer = rx_spv_intern(m, SPV_TYPE_POINTER, 0,
                                        RX_ARGS(SPV_CLASS_STORAGE_BUFFER, w->block[o->vec]));
    o->buffer = rx_spv_declare(m, SPV_VARIABLE, pointer, RX_ARGS(SPV_CLASS_STORAGE_BUFFER));
    rx_spv_decorate(m, SPV_DECORATE, RX_ARGS(o->buffer, SPV_DESCRIPTOR_SET, 0));
    rx_spv_decorate(m, SPV_DECORATE, RX_ARGS(o->buffer, SPV_BINDING, binding));
    /* Output 0 may alias an input. With one output, all reads precede the write; with several, an
     * unaware compiler could read after it writes. */
    if (w->k->n_out > 1)
        rx_spv_decorate(m, SPV_DECORATE, RX_ARGS(o->buffer, SPV_ALIASED));
    else if (is_input)
        rx_spv_decorate(m, SPV_DECORATE, RX_ARGS(o->buffer, SPV_NON_WRITABLE));
}

static void declare_builtins(writer *w)
{
    static const uint32_t which[3] = {SPV_WORKGROUP_ID, SPV_NUM_WORKGROUPS,
                                      SPV_LOCAL_INVOCATION_ID};
    rx_spv *m = &w->e.m;
    const rx_id vector = rx_spv_intern(m, SPV_TYPE_VECTOR, 0, RX_ARGS(w->e.t_u32, 3));
    const rx_id pointer = rx_spv_intern(m, SPV_TYPE_POINTER, 0, RX_ARGS(SPV_CLASS_INPUT, vector));
    for (int i = 0; i < 3; i++) {
        w->builtin[i] = rx_spv_declare(m, SPV_VARIABLE, pointer, RX_ARGS(SPV_CLASS_INPUT));
        rx_spv_decorate(m, SPV_DECORATE, RX_ARGS(w->builtin[i], SPV_BUILT_IN, which[i]));
    }
}

/* The block of push constants: k->n_push words. */
static rx_id declare_push(writer *w)
{
    rx_spv *m = &w->e.m;
    uint32_t members[RX_EMIT_MAX_PUSH];
    for (uint32_t i = 0; i < w->k->n_push; i++)
        members[i] = w->e.t_u32;
    const rx_id block = rx_spv_declare(m, SPV_TYPE_STRUCT, 0, members, w->k->n_push);
    rx_spv_decorate(m, SPV_DECORATE, RX_ARGS(block, SPV_BLOCK));
    for (uint32_t i = 0; i < w->k->n_push; i++)
        rx_spv_decorate(m, SPV_MEMBER_DECORATE, RX_ARGS(block, i, SPV_OFFSET, 4 * i));
    const rx_id pointer = rx_spv_intern(m, SPV_TYPE_POINTER, 0,
                                        RX_ARGS(SPV_CLASS_PUSH_CONSTANT, block));
    return rx_spv_declare(m, SPV_VARIABLE, pointer, RX_ARGS(SPV_CLASS_PUSH_CONSTANT));
}

/* ---- Numbers and coordinates ----------------------------------------------------------------- */

static void load_number(writer *w, number *n, rx_id push, rx_id pointer)
{
    rx_emit *e = &w->e;
    n->id = k_u(e, n->slot == NO_SLOT ? n->value : n->slot);
    if (n->slot == NO_SLOT)
        return;
    const rx_id at = rx_spv_op(&e->m, SPV_ACCESS_CHAIN, pointer, RX_ARGS(push, n->id));
    n->id = rx_spv_op(&e->m, SPV_LOAD, e->t_u32, RX_ARGS(at));
}

static void load_numbers(writer *w, rx_id push)
{
    const rx_emit_kernel *k = w->k;
    const rx_id pointer = rx_spv_intern(&w->e.m, SPV_TYPE_POINTER, 0,
                                        RX_ARGS(SPV_CLASS_PUSH_CONSTANT, w->e.t_u32));
    load_number(w, &w->n_items, push, pointer);
    load_number(w, &w->n_elements, push, pointer);
    for (int i = 1; i < k->rank; i++)
        load_number(w, &w->dim[i], push, pointer);
    for (uint32_t j = 0; j < k->n_in + k->n_out; j++) {
        operand *o = j < k->n_in ? &w->in[j] : &w->out[j - k->n_in];
        load_number(w, &o->offset, push, pointer);
        load_number(w, &o->step, push, pointer);
        for (int i = 0; i < k->rank; i++)
            load_number(w, &o->stride[i], push, pointer);
    }
}

/* The index of this invocation in a folded grid. */
static rx_id item_index(writer *w)
{
    rx_emit *e = &w->e;
    const rx_id vector = rx_spv_intern(&e->m, SPV_TYPE_VECTOR, 0, RX_ARGS(e->t_u32, 3));
    rx_id v[3], part[3][3];
    for (int i = 0; i < 3; i++) {
        v[i] = rx_spv_op(&e->m, SPV_LOAD, vector, RX_ARGS(w->builtin[i]));
        for (uint32_t j = 0; j < 3; j++)
            part[i][j] = rx_spv_op(&e->m, SPV_COMPOSITE_EXTRACT, e->t_u32, RX_ARGS(v[i], j));
    }
    const rx_id plane = i_add(e, part[0][1], i_mul(e, part[1][1], part[0][2]));
    const rx_id group = i_add(e, part[0][0], i_mul(e, part[1][0], plane));
    return i_add(e, i_mul_k(e, group, w->k->local), part[2][0]);
}

/* Coordinates of number `index` below dim[]. */
static void coordinates(writer *w, rx_id index, rx_id *at)
{
    for (int i = w->k->rank - 1; i > 0; i--) {
        at[i] = u_mod(&w->e, index, w->dim[i].id);
        index = u_div(&w->e, index, w->dim[i].id);
    }
    at[0] = index;
}

/* offset + sum of at[i] * stride[i] */
static rx_id place(writer *w, const operand *o, const rx_id *at)
{
    rx_emit *e = &w->e;
    rx_id sum = o->offset.slot == NO_SLOT && o->offset.value == 0 ? 0 : o->offset.id;
    for (int i = 0; i < w->k->rank; i++) {
        const number *s = &o->stride[i];
        if (s->slot == NO_SLOT && s->value == 0)
            continue;
        const bool is_one = s->slot == NO_SLOT && s->value == 1;
        const rx_id term = is_one ? at[i] : i_mul(e, at[i], s->id);
        sum = sum ? i_add(e, sum, term) : term;
    }
    return sum ? sum : k_u(e, 0);
}

/* ---- Loads ----------------------------------------------------------------------------------- */

static rx_id pointer_to(writer *w, const operand *o, rx_id index)
{
    rx_emit *e = &w->e;
    return rx_spv_op(&e->m, SPV_ACCESS_CHAIN, w->pointer[o->vec],
                     RX_ARGS(o->buffer, k_u(e, 0), index));
}

static rx_id load_words(writer *w, const operand *o, rx_id index)
{
    const rx_id type = type_of_words(&w->e, o->vec), at = pointer_to(w, o, index);
    return rx_spv_op(&w->e.m, SPV_LOAD, type, RX_ARGS(at));
}

/* The low bits of a word, with garbage above, to a value. A copy keeps the bits. */
static rx_emit_value decode(writer *w, uint32_t input, rx_emit_value bits)
{
    if (w->k->region)
        return rx_emit_decode(&w->e, w->k->in[input].dtype, bits);
    const uint32_t bytes = w->in[input].bytes;
    if (bytes < 4)
        bits.id = i_and_k(&w->e, bits.id, bytes == 2 ? 0xffff : 0xff);
    return bits;
}

/* The element with this index, which counts elements. */
static rx_emit_value load_element(writer *w, uint32_t input, rx_id index)
{
    rx_emit *e = &w->e;
    const operand *o = &w->in[input];
    if (o->bytes == 8) {
        const rx_id at = i_shl_k(e, index, 1);
        const rx_id low = load_words(w, o, at), high = load_words(w, o, i_or_k(e, at, 1));
        return decode(w, input, (rx_emit_value){low, high});
    }
    if (o->bytes == 4)
        return decode(w, input, (rx_emit_value){load_words(w, o, index), 0});
    const uint32_t log = o->bytes == 2 ? 1 : 2; /* of the elements in a word */
    const rx_id word = load_words(w, o, u_shr_k(e, index, log));
    const rx_id lane = i_and_k(e, index, (1u << log) - 1);
    const rx_id shift = i_mul_k(e, lane, 8 * o->bytes);
    return decode(w, input, (rx_emit_value){u_shr(e, word, shift), 0});
}

/* Word i of a WIDE access whose chunks have been loaded. */
static rx_id word_of(writer *w, const operand *o, const rx_id *chunk, uint32_t i)
{
    if (o->vec == 1)
        return chunk[i];
    return rx_spv_op(&w->e.m, SPV_COMPOSITE_EXTRACT, w->e.t_u32,
                     RX_ARGS(chunk[i / o->vec], i % o->vec));
}

static void load_chunks(writer *w, const operand *o, rx_id index, rx_id *chunk)
{
    rx_emit *e = &w->e;
    for (uint32_t c = 0; c < o->chunks; c++) {
        rx_id at = index;
        if (o->chunks > 1)
            at = i_add_k(e, i_mul_k(e, index, o->chunks), c);
        chunk[c] = load_words(w, o, at);
    }
}

static void load_wide(writer *w, uint32_t input, rx_id index, rx_emit_value *to)
{
    const operand *o = &w->in[input];
    rx_id chunk[32], word = 0;
    load_chunks(w, o, index, chunk);
    const uint32_t lanes = o->bytes < 4 ? 4 / o->bytes : 1;
    for (uint32_t i = 0; i < w->k->per_item; i++) {
        rx_emit_value bits = {0, 0};
        if (o->bytes == 8) {
            bits.id = word_of(w, o, chunk, 2 * i);
            bits.hi = word_of(w, o, chunk, 2 * i + 1);
        } else {
            if (i % lanes == 0)
                word = word_of(w, o, chunk, i / lanes);
            bits.id = i % lanes ? u_shr_k(&w->e, word, i % lanes * 8 * o->bytes) : word;
        }
        to[i] = decode(w, input, bits);
    }
}

/* All inputs of an item whose coordinates are `at`. */
static void load_item(writer *w, const rx_id *at)
{
    const rx_emit_kernel *k = w->k;
    for (uint32_t j = 0; j < k->n_in; j++) {
        const operand *o = &w->in[j];
        rx_emit_value *to = w->values + (size_t)j * k->per_item;
        const rx_id first = place(w, o, at);
        w->is_splat[j] = k->in[j].access == RX_ACCESS_SPLAT;
        if (k->in[j].access == RX_ACCESS_WIDE) {
            load_wide(w, j, first, to);
            continue;
        }
        for (uint32_t i = 0; i < k->per_item; i++) {
            const rx_id step = i ? i_mul_k(&w->e, o->step.id, i) : 0;
            if (i && w->is_splat[j])
                to[i] = to[0];
            else
                to[i] = load_element(w, j, i ? i_add(&w->e, first, step) : first);
        }
    }
}

/* All inputs of an item, each element with coordinates of its own. Elements past the end repeat the
 * last one. */
static void load_singly(writer *w, rx_id item)
{
    rx_emit *e = &w->e;
    const rx_emit_kernel *k = w->k;
    const rx_id last = i_sub_k(e, w->n_elements.id, 1);
    for (uint32_t i = 0; i < k->per_item; i++) {
        rx_id at[RLX_MAX_RANK], index = item;
        if (k->per_item > 1) {
            index = i_add_k(e, i_mul_k(e, item, k->per_item), i);
            index = i_select(e, u_gt(e, index, last), last, index);
        }
        coordinates(w, index, at);
        for (uint32_t j = 0; j < k->n_in; j++) {
            rx_emit_value *to = w->values + (size_t)j * k->per_item;
            w->is_splat[j] = k->in[j].access == RX_ACCESS_SPLAT;
            if (i && w->is_splat[j])
                to[i] = to[0];
            else
                to[i] = load_element(w, j, place(w, &w->in[j], at));
        }
    }
}

/* ---- The program ----------------------------------------------------------------------------- */

static rlx_dtype value_type(const rx_emit_kernel *k, uint32_t value)
{
    return value < k->n_in ? k->in[value].dtype : k->region->instr[value - k->n_in].dtype;
}

static void run_program(writer *w)
{
    const rx_emit_kernel *k = w->k;
    for (uint32_t i = 0; k->region && i < k->region->n_instr; i++) {
        const rx_instr *in = &k->region->instr[i];
        const int n = rx_ops[in->op].min_in;
        const rlx_dtype arg = value_type(k, in->arg[n - 1]);
        const size_t value = k->n_in + i;
        rx_emit_value *to = w->values + value * k->per_item;
        w->is_splat[value] = true;
        for (int a = 0; a < n; a++)
            w->is_splat[value] = w->is_splat[value] && w->is_splat[in->arg[a]];
        for (uint32_t j = 0; j < k->per_item; j++) {
            rx_emit_value args[3] = {{0, 0}, {0, 0}, {0, 0}};
            for (int a = 0; a < n; a++)
                args[a] = w->values[(size_t)in->arg[a] * k->per_item + j];
            to[j] = j && w->is_splat[value] ? to[0] : rx_emit_instr(&w->e, in, arg, args);
        }
    }
}

/* ---- Stores ---------------------------------------------------------------------------------- */

/* Packs the elements of an output into its words. */
static void pack(writer *w, uint32_t output, const rx_emit_value *from, rx_id *word)
{
    rx_emit *e = &w->e;
    const operand *o = &w->out[output];
    const uint32_t lanes = o->bytes < 4 ? 4 / o->bytes : 1;
    for (uint32_t i = 0; i < w->k->per_item; i++) {
        rx_emit_value bits = from[i];
        if (w->k->region)
            bits = rx_emit_encode(e, w->k->out[output].dtype, bits);
        if (o->bytes == 8) {
            word[2 * i] = bits.id;
            word[2 * i + 1] = bits.hi;
        } else if (i % lanes == 0) {
            word[i / lanes] = bits.id;
        } else {
            const rx_id up = i_shl_k(e, bits.id, i % lanes * 8 * o->bytes);
            word[i / lanes] = i_or(e, word[i / lanes], up);
        }
    }
}

static void store_chunk(writer *w, const operand *o, rx_id index, rx_id words)
{
    const rx_id at = pointer_to(w, o, index);
    rx_spv_op(&w->e.m, SPV_STORE, 0, RX_ARGS(at, words));
}

/* Chunks that begin past the end are left out: memory is padded to 16 bytes, no more. */
static void store_output(writer *w, uint32_t output, rx_id item, const rx_id *word)
{
    rx_emit *e = &w->e;
    const operand *o = &w->out[output];
    rx_id index = item;
    if (o->offset.slot != NO_SLOT || o->offset.value != 0)
        index = i_add(e, item, o->offset.id);
    for (uint32_t c = 0; c < o->chunks; c++) {
        rx_id words = word[c * o->vec], merge = 0, at = index;
        if (o->vec > 1)
            words = rx_spv_op(&e->m, SPV_COMPOSITE_CONSTRUCT, type_of_words(e, o->vec),
                              word + (size_t)c * o->vec, o->vec);
        if (o->chunks > 1)
            at = i_add_k(e, i_mul_k(e, index, o->chunks), c);
        if (c > 0 && w->k->singly) {
            const rx_id first = i_add_k(e, i_mul_k(e, item, w->k->per_item),
                                        c * w->k->per_item / o->chunks);
            merge = if_begin(e, u_lt(e, first, w->n_elements.id));
        }
        store_chunk(w, o, at, words);
        if (merge)
            if_end(e, merge);
    }
}

static void store_outputs(writer *w, rx_id item)
{
    const rx_emit_kernel *k = w->k;
    for (uint32_t i = 0; i < k->n_out; i++) {
        rx_id word[32];
        const size_t value = k->region ? (size_t)k->n_in + k->region->out[i] : 0;
        pack(w, i, w->values + value * k->per_item, word);
        store_output(w, i, item, word);
    }
}

/* ---- The kernel ------------------------------------------------------------------------------ */

/* A wide copy: nothing to unpack. */
static void copy_wide(writer *w, rx_id item, const rx_id *at)
{
    const operand *o = &w->in[0];
    rx_id chunk[32], word[32];
    load_chunks(w, o, place(w, o, at), chunk);
    for (uint32_t i = 0; i < o->chunks * o->vec; i++)
        word[i] = word_of(w, o, chunk, i);
    store_output(w, 0, item, word);
}

static void write_body(writer *w, rx_id item)
{
    const rx_emit_kernel *k = w->k;
    rx_id at[RLX_MAX_RANK];
    if (!k->singly)
        coordinates(w, item, at);
    if (!k->region && k->in[0].access == RX_ACCESS_WIDE) {
        copy_wide(w, item, at);
        return;
    }
    if (k->singly)
        load_singly(w, item);
    else
        load_item(w, at);
    run_program(w);
    store_outputs(w, item);
}

static rx_id write_main(writer *w, rx_id push)
{
    rx_emit *e = &w->e;
    const rx_id entry = rx_spv_begin(&e->m, e->t_void, NULL, 0, NULL);
    load_numbers(w, push);
    const rx_id item = item_index(w);
    const rx_id merge = if_begin(e, u_lt(e, item, w->n_items.id));
    write_body(w, item);
    if_end(e, merge);
    rx_spv_op(&e->m, SPV_RETURN, 0, NULL, 0);
    rx_spv_end(&e->m);
    return entry;
}

uint32_t *rx_emit_kernel_words(rx_emit_kernel *k, rx_arena *arena, size_t *n_words)
{
    const size_t n_values = (size_t)k->n_in + (k->region ? k->region->n_instr : 0);
    uint32_t *words = NULL;
    writer *w = rx_alloc_zero(sizeof *w);
    if (!w)
        return NULL;
    w->k = k;
    rx_spv_init(&w->e.m);
    w->values = rx_alloc_array_zero(n_values * k->per_item, sizeof *w->values);
    w->is_splat = rx_alloc_array_zero(n_values, sizeof *w->is_splat);
    if (!w->values || !w->is_splat)
        goto out;

    plan_numbers(w);
    declare_types(&w->e);
    for (uint32_t i = 0; i < k->n_in; i++)
        declare_buffer(w, &w->in[i], i, true);
    for (uint32_t i = 0; i < k->n_out; i++)
        declare_buffer(w, &w->out[i], k->n_in + i, false);
    declare_builtins(w);
    const rx_id entry = write_main(w, declare_push(w));
    words = rx_spv_build(&w->e.m, arena, entry, k->local, w->builtin, 3, n_words);
out:
    rx_spv_finish(&w->e.m);
    rx_free(w->values);
    rx_free(w->is_splat);
    rx_free(w);
    return words;
}
