/* SPDX-License-Identifier: MIT */
/* The WGSL printer's reading of a SPIR-V module: one pass fills the table of ids and gives the
 * specialisation constants their values, a second finds what atomics, inputs and calls there are.
 * After it every id that an instruction of the table refers to is checked when it is looked up, and
 * types and constants only refer to earlier ones, which keeps all recursion finite. */
#include <stdio.h>
#include <string.h>

#include "spirv/wgsl_print.h"

/* Decorations, execution modes, builtins that are looked at. */
enum { DECOR_SPEC_ID = 1, DECOR_BLOCK = 2, DECOR_BUFFER_BLOCK = 3, DECOR_ARRAY_STRIDE = 6,
       DECOR_BUILTIN = 11, DECOR_VOLATILE = 21, DECOR_COHERENT = 23, DECOR_BINDING = 33,
       DECOR_SET = 34, DECOR_OFFSET = 35 };
enum { MODE_LOCAL_SIZE = 17, MODE_LOCAL_SIZE_ID = 38, MODEL_COMPUTE = 5,
       BUILTIN_WORKGROUP_SIZE = 25 };

const rx_ws_op *rx_ws_find_op(uint32_t opcode)
{
    switch (opcode) {
#define OP(name, number, words, form, token, kind)                                        \
    case number: {                                                                        \
        static const rx_ws_op row = {"Op" #name, words, RX_WS_##form, token, kind};       \
        return &row;                                                                      \
    }
#include "spirv/wgsl_ops.def"
#undef OP
    }
    return NULL;
}

void rx_ws_fail(rx_wgsl *p, rlx_status code, const char *format, ...)
{
    if (!rx_ws_ok(p))
        return;
    char why[200], place[80] = "";
    va_list args;
    va_start(args, format);
    vsnprintf(why, sizeof why, format, args);
    va_end(args);
    if (p->at) {
        const rx_ws_op *op = rx_ws_find_op(rx_ws_opcode(p->at));
        char number[24];
        snprintf(number, sizeof number, "instruction %u", (unsigned)rx_ws_opcode(p->at));
        snprintf(place, sizeof place, "%s at word %u: ", op ? op->name : number,
                 (unsigned)(p->at - p->w));
    }
    p->status = rx_fail(p->err, code, "kernel %s as WGSL: %s%s",
                        p->opt->name ? p->opt->name : "(without a name)", place, why);
}

static void fail_memory(rx_wgsl *p)
{
    if (rx_ws_ok(p))
        p->status = rx_fail_memory(p->err, "printing a kernel as WGSL", p->arena_bytes);
}

/* Counts what is allocated, so that a hostile module cannot make it explode. */
static void *arena_take(rx_wgsl *p, size_t n)
{
    if (n > RX_WS_MAX_TEXT - p->arena_bytes) {
        rx_ws_fail(p, RLX_UNSUPPORTED, "the text gets too long");
        return NULL;
    }
    p->arena_bytes += n;
    void *memory = rx_arena_alloc(&p->arena, n);
    if (!memory)
        fail_memory(p);
    return memory;
}

const char *rx_ws_text(rx_wgsl *p, const char *format, ...)
{
    char small[256];
    va_list args;
    if (!rx_ws_ok(p))
        return "?";
    va_start(args, format);
    const int n = vsnprintf(small, sizeof small, format, args);
    va_end(args);
    char *text = n < 0 ? NULL : arena_take(p, (size_t)n + 1);
    if (!text)
        return "?";
    if ((size_t)n < sizeof small) {
        memcpy(text, small, (size_t)n + 1);
        return text;
    }
    va_start(args, format);
    vsnprintf(text, (size_t)n + 1, format, args);
    va_end(args);
    return text;
}

const char *rx_ws_keep(rx_wgsl *p, rx_str *s)
{
    char *text = NULL;
    if (s->failed)
        fail_memory(p);
    else if (rx_ws_ok(p) && s->data)
        text = arena_take(p, s->n + 1);
    if (text)
        memcpy(text, s->data, s->n + 1);
    rx_str_finish(s);
    return text ? text : "?";
}

rx_ws_id *rx_ws_at(rx_wgsl *p, uint32_t id)
{
    if (id && id < p->bound)
        return &p->id[id];
    rx_ws_fail(p, RLX_INVALID, "there is no id %u", (unsigned)id);
    memset(&p->id[0], 0, sizeof p->id[0]); /* the harmless answer after a failure */
    return &p->id[0];
}

uint32_t rx_ws_def(rx_wgsl *p, uint32_t id)
{
    const rx_ws_id *d = rx_ws_at(p, id);
    return d->in ? rx_ws_opcode(d->in) : Op_none;
}

bool rx_ws_is_line(const uint32_t *in)
{
    const uint32_t op = rx_ws_opcode(in);
    return op == OpLine || op == OpNoLine || op == OpNop;
}

/* ---- The first pass -------------------------------------------------------------------------- */

static void read_decoration(rx_wgsl *p, const uint32_t *in)
{
    rx_ws_id *d = rx_ws_at(p, in[1]);
    const uint32_t value = rx_ws_length(in) > 3 ? in[3] : 0;
    switch (in[2]) {
    case DECOR_BLOCK:
    case DECOR_BUFFER_BLOCK: d->is_block = true; break;
    case DECOR_SPEC_ID: d->spec_id = value + 1; break;
    case DECOR_ARRAY_STRIDE: d->stride = value; break;
    case DECOR_BINDING: d->binding = value; break;
    case DECOR_SET: d->set = value; break;
    case DECOR_BUILTIN:
        d->builtin = value + 1;
        if (value == BUILTIN_WORKGROUP_SIZE)
            p->workgroup_size = in[1];
        break;
    case DECOR_COHERENT:
    case DECOR_VOLATILE:
        rx_ws_fail(p, RLX_UNSUPPORTED, "coherent and volatile memory do not exist, use atomics");
        break;
    }
}

static void read_member_decoration(rx_wgsl *p, const uint32_t *in)
{
    rx_ws_id *d = rx_ws_at(p, in[1]);
    if (in[3] == DECOR_COHERENT || in[3] == DECOR_VOLATILE)
        rx_ws_fail(p, RLX_UNSUPPORTED, "coherent and volatile memory do not exist, use atomics");
    if (in[3] != DECOR_OFFSET || rx_ws_length(in) < 5 || !rx_ws_ok(p))
        return;
    if (in[2] >= RX_WS_MAX_MEMBERS) {
        rx_ws_fail(p, RLX_UNSUPPORTED, "a struct of more than %d members", RX_WS_MAX_MEMBERS);
        return;
    }
    const size_t bytes = RX_WS_MAX_MEMBERS * sizeof *d->member_offset;
    if (!d->member_offset) {
        d->member_offset = arena_take(p, bytes);
        if (!d->member_offset)
            return;
        memset(d->member_offset, 0xff, bytes);
    }
    d->member_offset[in[2]] = in[4];
}

/* Strings end within their instruction, or at the sentinels after the module at the latest. */
static bool begins_with(const uint32_t *words, const char *text, size_t n)
{
    return memcmp(words, text, n) == 0;
}

static void read_header(rx_wgsl *p, const uint32_t *in)
{
    const uint32_t n = rx_ws_length(in);
    switch (rx_ws_opcode(in)) {
    case OpExtInstImport:
        if (n >= 6 && begins_with(in + 2, "GLSL.std.450", 13))
            p->glsl = in[1];
        rx_ws_at(p, in[1])->is_semantic = !(n >= 5 && begins_with(in + 2, "NonSemantic.", 12));
        break;
    case OpEntryPoint:
        if (n >= 5 && in[1] == MODEL_COMPUTE && !p->entry && begins_with(in + 3, "main", 5))
            p->entry = in[2];
        break;
    case OpExecutionMode:
        if (in[1] == p->entry && in[2] == MODE_LOCAL_SIZE && n >= 6)
            memcpy(p->info->local, in + 3, sizeof p->info->local);
        break;
    case OpExecutionModeId:
        if (in[1] == p->entry && in[2] == MODE_LOCAL_SIZE_ID && n >= 6)
            p->local_ids = in + 3;
        break;
    case OpDecorate: read_decoration(p, in); break;
    case OpMemberDecorate: read_member_decoration(p, in); break;
    }
}

/* Depth of a type or constant that refers to `part`; fails unless that is defined already. */
static uint8_t depth_over(rx_wgsl *p, uint32_t part, bool constant, uint8_t depth)
{
    const rx_ws_id *d = rx_ws_at(p, part);
    if (!d->in || rx_ws_is_constant_op(rx_ws_opcode(d->in)) != constant) {
        rx_ws_fail(p, RLX_INVALID, "id %u is no %s defined before", (unsigned)part,
                   constant ? "constant" : "type");
        return depth;
    }
    if (d->depth + 1 > RX_WS_MAX_DEPTH)
        rx_ws_fail(p, RLX_UNSUPPORTED, "nested more than %d deep", RX_WS_MAX_DEPTH);
    return d->depth + 1 > depth ? (uint8_t)(d->depth + 1) : depth;
}

static void check_number(rx_wgsl *p, const uint32_t *in)
{
    const bool is_float = rx_ws_opcode(in) == OpTypeFloat;
    if (is_float && rx_ws_length(in) > 3)
        rx_ws_fail(p, RLX_UNSUPPORTED, "bf16 and fp8 do not exist");
    else if (in[2] != 32 && !(is_float && in[2] == 16))
        rx_ws_fail(p, RLX_UNSUPPORTED, "%s of %u bits do not exist",
                   is_float ? "floats" : "integers", (unsigned)in[2]);
    else if (in[2] == 16 && !p->opt->f16)
        rx_ws_fail(p, RLX_UNSUPPORTED, "f16 is not enabled");
    p->f16 |= is_float && in[2] == 16;
}

static uint8_t read_type(rx_wgsl *p, const uint32_t *in)
{
    const uint32_t op = rx_ws_opcode(in), n = rx_ws_length(in);
    uint8_t depth = 0;
    switch (op) {
    case OpTypeInt:
    case OpTypeFloat: check_number(p, in); break;
    case OpTypeVector: {
        const uint32_t of = rx_ws_def(p, in[2]);
        if ((of != OpTypeBool && of != OpTypeInt && of != OpTypeFloat) || in[3] < 2 || in[3] > 4)
            rx_ws_fail(p, RLX_UNSUPPORTED, "vectors of this kind do not exist");
        break;
    }
    case OpTypeArray:
        depth_over(p, in[3], true, 0);
        depth = depth_over(p, in[2], false, 0);
        break;
    case OpTypeRuntimeArray: depth = depth_over(p, in[2], false, 0); break;
    case OpTypeStruct:
        if (n - 2 > RX_WS_MAX_MEMBERS)
            rx_ws_fail(p, RLX_UNSUPPORTED, "a struct of %u members", (unsigned)(n - 2));
        for (uint32_t i = 2; i < n && rx_ws_ok(p); i++)
            depth = depth_over(p, in[i], false, depth);
        break;
    case OpTypePointer:
        if (in[2] == CLASS_ADDRESS)
            rx_ws_fail(p, RLX_UNSUPPORTED, "buffer device addresses do not exist");
        break;
    case OpTypeMatrix: rx_ws_fail(p, RLX_UNSUPPORTED, "matrices: use arrays of vectors"); break;
    case OpTypeImage:
    case OpTypeSampler:
    case OpTypeSampledImage: rx_ws_fail(p, RLX_UNSUPPORTED, "images are not printed"); break;
    case OpTypeCooperativeMatrixKHR:
    case OpTypeCooperativeMatrixNV:
        rx_ws_fail(p, RLX_UNSUPPORTED, "cooperative matrices do not exist");
        break;
    }
    return depth;
}

/* The value of OpSpecConstantOp; a vector's component is found by its composite. */
static void read_constant_op(rx_wgsl *p, const uint32_t *in, rx_ws_id *d)
{
    const uint32_t n = rx_ws_length(in);
    uint32_t a[3] = {0};
    if (in[3] == OpCompositeExtract && n == 6) {
        const uint32_t *of = rx_ws_at(p, in[4])->in;
        const uint32_t op = of ? rx_ws_opcode(of) : Op_none;
        if ((op == OpSpecConstantComposite || op == OpConstantComposite) &&
            in[5] < rx_ws_length(of) - 3) {
            d->value = rx_ws_value(p, of[3 + in[5]]);
            d->known = true;
            return;
        }
    }
    for (uint32_t i = 4; i < n; i++) {
        if (i >= 7 || !rx_ws_known(p, in[i])) {
            rx_ws_fail(p, RLX_UNSUPPORTED, "a constant made of vectors");
            return;
        }
        a[i - 4] = rx_ws_value(p, in[i]);
    }
    d->known = rx_ws_fold(in[3], a, n - 4, &d->value);
    if (!d->known)
        rx_ws_fail(p, RLX_UNSUPPORTED, "constant operation %u", (unsigned)in[3]);
}

static void read_constant(rx_wgsl *p, const uint32_t *in, rx_ws_id *d)
{
    const uint32_t op = rx_ws_opcode(in);
    const bool scalar = rx_ws_is_scalar(p, d->type);
    switch (op) {
    case OpConstant:
    case OpSpecConstant: d->value = in[3]; break;
    case OpConstantTrue:
    case OpSpecConstantTrue: d->value = 1; break;
    case OpConstantComposite:
    case OpSpecConstantComposite:
        for (uint32_t i = 3; i < rx_ws_length(in) && rx_ws_ok(p); i++)
            d->depth = depth_over(p, in[i], true, d->depth);
        return;
    case OpSpecConstantOp:
        if (!scalar)
            rx_ws_fail(p, RLX_UNSUPPORTED, "a constant made of vectors");
        read_constant_op(p, in, d);
        return;
    }
    d->known = scalar && op != OpUndef;
    if (d->spec_id && d->spec_id - 1 < p->opt->n_spec)
        d->value = p->opt->spec[d->spec_id - 1];
    if (rx_ws_ok(p) && rx_ws_kind(p, d->type) == 'b')
        d->value = d->value != 0;
}

/* Enters the result of an instruction into the table. */
static void define_id(rx_wgsl *p, const uint32_t *in, rx_ws_form form)
{
    const uint32_t op = rx_ws_opcode(in);
    uint8_t depth = 0;
    if (form == RX_WS_ID && op != OpLabel && op != OpExtInstImport)
        depth = read_type(p, in);
    rx_ws_id *d = rx_ws_at(p, form == RX_WS_ID ? in[1] : in[2]);
    if (!rx_ws_ok(p))
        return;
    if (d->in) {
        rx_ws_fail(p, RLX_INVALID, "its id is defined twice");
        return;
    }
    if (form == RX_WS_TYPED) {
        if (rx_ws_def(p, in[1]) == Op_none || rx_ws_at(p, in[1])->type) {
            rx_ws_fail(p, RLX_INVALID, "its type is not defined before");
            return;
        }
        d->type = in[1];
    }
    d->depth = depth;
    d->in = in;
    if (form == RX_WS_TYPED && rx_ws_is_constant_op(op))
        read_constant(p, in, d);
}

static void read_instructions(rx_wgsl *p)
{
    bool in_function = false;
    for (const uint32_t *in = p->w + 5; in < p->end && rx_ws_ok(p); in = rx_ws_next(in)) {
        const rx_ws_op *op = rx_ws_find_op(rx_ws_opcode(in));
        const uint32_t n = rx_ws_length(in);
        p->at = in;
        if (n < 1 || (op && n < op->words) || n > (size_t)(p->end - in)) {
            rx_ws_fail(p, RLX_INVALID, "cut off or too short");
            return;
        }
        in_function |= rx_ws_opcode(in) == OpFunction;
        if (!op && in_function)
            rx_ws_fail(p, RLX_UNSUPPORTED, "no WGSL form");
        if (!op || !rx_ws_ok(p))
            continue;
        read_header(p, in);
        if (op->form != RX_WS_NONE)
            define_id(p, in, op->form);
    }
    p->at = NULL;
}

/* The workgroup's size, once all constants are known. */
static void read_local_size(rx_wgsl *p)
{
    const uint32_t *ids = p->local_ids;
    if (p->workgroup_size) {
        const uint32_t *composite = rx_ws_at(p, p->workgroup_size)->in;
        if (composite && rx_ws_length(composite) == 6 &&
            rx_ws_is_constant_op(rx_ws_opcode(composite)))
            ids = composite + 3;
    }
    for (int i = 0; ids && i < 3 && rx_ws_ok(p); i++)
        p->info->local[i] = rx_ws_value(p, ids[i]);
    for (int i = 0; i < 3; i++)
        if (p->info->local[i] < 1 || p->info->local[i] > 65535)
            rx_ws_fail(p, RLX_INVALID, "the workgroup has size %u along axis %d",
                       (unsigned)p->info->local[i], i);
}

/* ---- The second pass ------------------------------------------------------------------------- */

static bool is_atomic(uint32_t op) { return op >= OpAtomicLoad && op <= OpAtomicXor; }

/* What an instruction of function `fn` says about the variables it uses. */
static void analyse_pointers(rx_wgsl *p, rx_ws_id *fn, const uint32_t *in)
{
    const uint32_t op = rx_ws_opcode(in);
    switch (op) {
    case OpAccessChain:
    case OpInBoundsAccessChain: {
        const rx_ws_id *from = rx_ws_at(p, in[3]);
        rx_ws_id *d = rx_ws_at(p, in[2]);
        d->base = from->base;
        d->depth = (uint8_t)(from->depth + 1);
        if (d->depth > RX_WS_MAX_DEPTH)
            rx_ws_fail(p, RLX_UNSUPPORTED, "access chains on %d others", RX_WS_MAX_DEPTH);
        break;
    }
    case OpFunctionParameter: rx_ws_at(p, in[2])->base = in[2]; break;
    case OpGroupNonUniformElect: /* printed with the number of the invocation */
        fn->inputs |= 1u << RX_WS_SUBGROUP_INVOCATION;
        break;
    }
    if (is_atomic(op)) {
        const rx_ws_id *to = rx_ws_at(p, op == OpAtomicStore ? in[1] : in[3]);
        if (!to->base || rx_ws_def(p, to->base) != OpVariable)
            rx_ws_fail(p, RLX_UNSUPPORTED, "atomics through a parameter");
        else
            rx_ws_at(p, to->base)->atomic = true;
    }
    if ((op == OpLoad || op == OpAccessChain || op == OpInBoundsAccessChain) && rx_ws_ok(p)) {
        const rx_ws_id *from = rx_ws_at(p, in[3]);
        const rx_ws_id *base = from->base ? rx_ws_at(p, from->base) : NULL;
        if (base && base->inputs && base->in && rx_ws_opcode(base->in) == OpVariable)
            fn->inputs |= 1u << (base->inputs - 1);
    }
}

/* A function that is called passes its inputs on to the caller. True: something changed. */
static bool analyse_call(rx_wgsl *p, rx_ws_id *caller, const uint32_t *in)
{
    rx_ws_id *callee = rx_ws_at(p, in[3]);
    bool changed = (caller->inputs | callee->inputs) != caller->inputs;
    caller->inputs |= callee->inputs;
    if (caller->live && !callee->live)
        changed = callee->live = true;
    return changed;
}

static void analyse_variable(rx_wgsl *p, const uint32_t *in)
{
    rx_ws_id *d = rx_ws_at(p, in[2]);
    d->base = in[2];
    if (rx_ws_def(p, in[1]) != OpTypePointer)
        rx_ws_fail(p, RLX_INVALID, "a variable whose type is no pointer");
    for (uint32_t i = 0; i < RX_WS_N_INPUTS; i++)
        if (d->builtin && d->builtin - 1 == rx_ws_inputs[i].builtin)
            d->inputs = i + 1;
    if (in[3] == CLASS_PUSH) {
        if (p->push)
            rx_ws_fail(p, RLX_UNSUPPORTED, "two blocks of push constants");
        p->push = in[2];
    }
}

static void analyse(rx_wgsl *p)
{
    for (const uint32_t *in = p->w + 5; in < p->end && rx_ws_ok(p); in = rx_ws_next(in)) {
        p->at = in;
        if (rx_ws_opcode(in) == OpVariable)
            analyse_variable(p, in);
    }
    rx_ws_at(p, p->entry)->live = true;
    bool changed = true;
    for (size_t round = 0; changed && rx_ws_ok(p); round++) {
        rx_ws_id *fn = NULL;
        changed = round == 0;
        for (const uint32_t *in = p->w + 5; in < p->end && rx_ws_ok(p); in = rx_ws_next(in)) {
            p->at = in;
            if (rx_ws_opcode(in) == OpFunction)
                fn = rx_ws_at(p, in[2]);
            if (fn && round == 0)
                analyse_pointers(p, fn, in);
            if (fn && rx_ws_opcode(in) == OpFunctionCall)
                changed |= analyse_call(p, fn, in);
        }
        if (round > RX_WS_MAX_DEPTH)
            rx_ws_fail(p, RLX_UNSUPPORTED, "functions call each other too deep");
    }
    rx_ws_id *entry = rx_ws_at(p, p->entry);
    if (entry->inputs & RX_WS_COMPUTED)
        entry->inputs |= 1u << RX_WS_SUBGROUP_SIZE | 1u << RX_WS_LOCAL_INDEX;
    p->at = NULL;
}

void rx_ws_read_module(rx_wgsl *p)
{
    read_instructions(p);
    if (rx_ws_ok(p) && (!p->entry || rx_ws_def(p, p->entry) != OpFunction))
        rx_ws_fail(p, RLX_INVALID, "no compute entry point \"main\"");
    if (rx_ws_ok(p))
        read_local_size(p);
    if (rx_ws_ok(p))
        analyse(p);
}
