/* SPDX-License-Identifier: MIT */
/* The WGSL printer's types, their layouts, constants, and arithmetic on known constants. */
#include <locale.h>
#include <stdio.h>
#include <string.h>

#include "spirv/wgsl_print.h"

/* ---- Types ----------------------------------------------------------------------------------- */

const uint32_t *rx_ws_type(rx_wgsl *p, uint32_t type)
{
    static const uint32_t nothing[8] = {8u << 16 | OpTypeVoid};
    const rx_ws_id *d = rx_ws_at(p, type);
    const uint32_t op = d->in ? rx_ws_opcode(d->in) : Op_none;
    if (op >= OpTypeVoid && op <= OpTypeFunction)
        return d->in;
    rx_ws_fail(p, RLX_INVALID, "id %u is no type", (unsigned)type);
    return nothing;
}

uint32_t rx_ws_pointee(rx_wgsl *p, uint32_t pointer_type)
{
    const uint32_t *in = rx_ws_type(p, pointer_type);
    if (rx_ws_opcode(in) == OpTypePointer)
        return in[3];
    rx_ws_fail(p, RLX_INVALID, "a pointer is expected");
    return 0;
}

uint32_t rx_ws_lanes(rx_wgsl *p, uint32_t type)
{
    const uint32_t *in = rx_ws_type(p, type);
    return rx_ws_opcode(in) == OpTypeVector ? in[3] : 1;
}

char rx_ws_kind(rx_wgsl *p, uint32_t type)
{
    const uint32_t *in = rx_ws_type(p, type);
    if (rx_ws_opcode(in) == OpTypeVector)
        in = rx_ws_type(p, in[2]);
    switch (rx_ws_opcode(in)) {
    case OpTypeBool: return 'b';
    case OpTypeInt: return in[3] ? 'i' : 'u';
    case OpTypeFloat: return in[2] == 16 ? 'h' : 'f';
    case OpTypeStruct: return 's';
    case OpTypeArray:
    case OpTypeRuntimeArray: return 'a';
    case OpTypePointer: return 'p';
    default: return 'v';
    }
}

bool rx_ws_is_scalar(rx_wgsl *p, uint32_t type)
{
    const uint32_t op = rx_ws_opcode(rx_ws_type(p, type));
    return op == OpTypeBool || op == OpTypeInt || op == OpTypeFloat;
}

const char *rx_ws_kind_name(char kind)
{
    switch (kind) {
    case 'b': return "bool";
    case 'i': return "i32";
    case 'u': return "u32";
    case 'h': return "f16";
    default: return "f32";
    }
}

const char *rx_ws_vector_name(rx_wgsl *p, char kind, uint32_t lanes)
{
    const char *name = rx_ws_kind_name(kind);
    return lanes == 1 ? name : rx_ws_text(p, "vec%u<%s>", (unsigned)lanes, name);
}

static const char *array_name(rx_wgsl *p, const uint32_t *in, bool atomic)
{
    const char *of = rx_ws_type_name(p, in[2], atomic);
    if (rx_ws_opcode(in) == OpTypeRuntimeArray)
        return rx_ws_text(p, "array<%s>", of);
    const uint32_t n = rx_ws_value(p, in[3]); /* one that is never used may be empty */
    return rx_ws_text(p, "array<%s, %u>", of, (unsigned)(n ? n : 1));
}

const char *rx_ws_type_name(rx_wgsl *p, uint32_t type, bool atomic)
{
    const uint32_t *in = rx_ws_type(p, type);
    rx_ws_id *d = rx_ws_at(p, type);
    const char *name = "?";
    if (d->text && !atomic)
        return d->text;
    switch (rx_ws_opcode(in)) {
    case OpTypeInt:
        name = rx_ws_kind_name(rx_ws_kind(p, type));
        if (atomic)
            return rx_ws_text(p, "atomic<%s>", name);
        break;
    case OpTypeBool:
    case OpTypeFloat:
    case OpTypeVector:
        name = rx_ws_vector_name(p, rx_ws_kind(p, type), rx_ws_lanes(p, type));
        break;
    case OpTypeArray:
    case OpTypeRuntimeArray: name = array_name(p, in, atomic); break;
    case OpTypeStruct:
        if (atomic)
            rx_ws_fail(p, RLX_UNSUPPORTED, "atomics inside a struct inside another type");
        name = rx_ws_text(p, "S%u", (unsigned)type);
        break;
    default:
        rx_ws_fail(p, RLX_UNSUPPORTED, "type %u (opcode %u) has no WGSL form", (unsigned)type,
                   (unsigned)rx_ws_opcode(in));
    }
    if (!atomic)
        d->text = name;
    return name;
}

uint32_t rx_ws_element_of(rx_wgsl *p, uint32_t type)
{
    const uint32_t *in = rx_ws_type(p, type);
    for (int i = 0; i < RX_WS_MAX_DEPTH; i++) {
        if (rx_ws_opcode(in) != OpTypeArray && rx_ws_opcode(in) != OpTypeRuntimeArray)
            break;
        type = in[2];
        in = rx_ws_type(p, type);
    }
    return type;
}

/* ---- Layout ---------------------------------------------------------------------------------- */

static uint32_t round_up(uint32_t to, uint32_t x) { return (x + to - 1) / to * to; }

static uint32_t member_offset(const rx_ws_id *d, uint32_t i)
{
    return d->member_offset ? d->member_offset[i] : UINT32_MAX;
}

static rx_ws_layout struct_layout(rx_wgsl *p, uint32_t type)
{
    const uint32_t *in = rx_ws_type(p, type);
    const rx_ws_id *d = rx_ws_at(p, type);
    rx_ws_layout l = {0, 4};
    for (uint32_t i = 0; i + 2 < rx_ws_length(in); i++) {
        const rx_ws_layout m = rx_ws_layout_of(p, in[2 + i]);
        const uint32_t offset = member_offset(d, i);
        if (m.align > l.align)
            l.align = m.align;
        l.size = (offset != UINT32_MAX ? offset : round_up(m.align, l.size)) + m.size;
    }
    l.size = round_up(l.align, l.size);
    return l;
}

rx_ws_layout rx_ws_layout_of(rx_wgsl *p, uint32_t type)
{
    const uint32_t *in = rx_ws_type(p, type);
    if (!rx_ws_ok(p))
        return (rx_ws_layout){4, 4};
    switch (rx_ws_opcode(in)) {
    case OpTypeFloat: return (rx_ws_layout){in[2] / 8, in[2] / 8};
    case OpTypeVector: {
        const uint32_t bytes = rx_ws_layout_of(p, in[2]).size;
        return (rx_ws_layout){bytes * in[3], bytes * (in[3] == 3 ? 4 : in[3])};
    }
    case OpTypeArray:
    case OpTypeRuntimeArray: {
        const rx_ws_layout of = rx_ws_layout_of(p, in[2]);
        const uint32_t n = rx_ws_opcode(in) == OpTypeArray ? rx_ws_value(p, in[3]) : 1;
        return (rx_ws_layout){round_up(of.align, of.size) * n, of.align};
    }
    case OpTypeStruct: return struct_layout(p, type);
    default: return (rx_ws_layout){4, 4};
    }
}

/* Buffers must already have WGSL's own layout. */
void rx_ws_check_strides(rx_wgsl *p, uint32_t type)
{
    const uint32_t *in = rx_ws_type(p, type);
    if (!rx_ws_ok(p))
        return;
    if (rx_ws_opcode(in) == OpTypeStruct) {
        for (uint32_t i = 2; i < rx_ws_length(in); i++)
            rx_ws_check_strides(p, in[i]);
        return;
    }
    if (rx_ws_opcode(in) != OpTypeArray && rx_ws_opcode(in) != OpTypeRuntimeArray)
        return;
    const rx_ws_layout of = rx_ws_layout_of(p, in[2]);
    const uint32_t stride = rx_ws_at(p, type)->stride, natural = round_up(of.align, of.size);
    if (stride && stride != natural)
        rx_ws_fail(p, RLX_UNSUPPORTED, "a buffer with array stride %u, where WGSL has %u",
                   (unsigned)stride, (unsigned)natural);
    rx_ws_check_strides(p, in[2]);
}

/* "@size(n) " where the next member is further away than WGSL would place it. */
static const char *size_attribute(rx_wgsl *p, uint32_t type, uint32_t i)
{
    const uint32_t *in = rx_ws_type(p, type);
    const rx_ws_id *d = rx_ws_at(p, type);
    const rx_ws_layout m = rx_ws_layout_of(p, in[2 + i]);
    const uint32_t offset = member_offset(d, i);
    if (offset == UINT32_MAX)
        return "";
    if (offset % m.align)
        rx_ws_fail(p, RLX_UNSUPPORTED, "member %u of struct %u at offset %u, WGSL aligns it to %u",
                   (unsigned)i, (unsigned)type, (unsigned)offset, (unsigned)m.align);
    if (i + 3 >= rx_ws_length(in))
        return "";
    const uint32_t after = member_offset(d, i + 1);
    if (round_up(rx_ws_layout_of(p, in[3 + i]).align, offset + m.size) == after)
        return "";
    return rx_ws_text(p, "@size(%u) ", (unsigned)(after - offset));
}

void rx_ws_print_struct(rx_wgsl *p, const char *name, uint32_t type, bool atomic)
{
    const uint32_t *in = rx_ws_type(p, type);
    rx_str s = {0};
    rx_str_printf(&s, "struct %s {", name);
    for (uint32_t i = 0; i + 2 < rx_ws_length(in) && rx_ws_ok(p); i++) {
        const bool is_int = rx_ws_def(p, rx_ws_element_of(p, in[2 + i])) == OpTypeInt;
        rx_str_printf(&s, "%s%sm%u: %s", i ? ", " : " ", size_attribute(p, type, i), (unsigned)i,
                      rx_ws_type_name(p, in[2 + i], atomic && is_int));
    }
    rx_str_puts(&s, " }\n");
    rx_str_puts(&p->decl, rx_ws_keep(p, &s));
}

/* ---- Constants ------------------------------------------------------------------------------- */

bool rx_ws_is_constant_op(uint32_t op)
{
    return (op >= OpConstantTrue && op <= OpConstantNull) ||
           (op >= OpSpecConstantTrue && op <= OpSpecConstantOp) || op == OpUndef;
}

uint32_t rx_ws_resolve(rx_wgsl *p, uint32_t id)
{
    const rx_ws_id *d = rx_ws_at(p, id);
    for (int i = 0; i < RX_WS_MAX_DEPTH && d->same_as; i++) {
        id = d->same_as;
        d = rx_ws_at(p, id);
    }
    return id;
}

bool rx_ws_known(rx_wgsl *p, uint32_t id) { return rx_ws_at(p, rx_ws_resolve(p, id))->known; }

uint32_t rx_ws_value(rx_wgsl *p, uint32_t id)
{
    const rx_ws_id *d = rx_ws_at(p, rx_ws_resolve(p, id));
    return d->known ? d->value : 0;
}

static float half_to_float(uint32_t h)
{
    const uint32_t exponent = h >> 10 & 31, fraction = h & 1023;
    float x = (float)fraction / 16777216.0f;
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (exponent)
        bits = (exponent + 112) << 23 | fraction << 13;
    bits |= (h & 0x8000u) << 16;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* A finite float in decimal, exact to its last bit. */
static const char *decimal(rx_wgsl *p, float x, char suffix)
{
    char text[40];
    /* nine digits of the largest floats round to more than there is */
    snprintf(text, sizeof text, "%.*g", x > 3.4e38f || x < -3.4e38f ? 17 : 9, (double)x);
    char *point = strchr(text, *localeconv()->decimal_point); /* the program may set a locale */
    if (point)
        *point = '.';
    return rx_ws_text(p, *text == '-' ? "(%s%c)" : "%s%c", text, suffix);
}

const char *rx_ws_literal(rx_wgsl *p, char kind, uint32_t bits, bool *infinite)
{
    float x;
    switch (kind) {
    case 'b': return bits ? "true" : "false";
    case 'u': return rx_ws_text(p, "%uu", (unsigned)bits);
    case 'i':
        if (bits == 0x80000000u)
            return "bitcast<i32>(0x80000000u)";
        return rx_ws_text(p, bits >> 31 ? "(%di)" : "%di", (int)(int32_t)bits);
    case 'h':
        if ((bits & 0x7c00u) == 0x7c00u)
            rx_ws_fail(p, RLX_UNSUPPORTED, "an infinite constant of type f16");
        return decimal(p, half_to_float(bits), 'h');
    default:
        memcpy(&x, &bits, sizeof x);
        if ((bits & 0x7f800000u) != 0x7f800000u && ((bits & 0x7f800000u) || !(bits << 1)))
            return decimal(p, x, 'f');
        /* Infinity, NaN, subnormal: errors or flushed as literals, so not a constant expression. */
        p->needs_bits = *infinite = true;
        return rx_ws_text(p, "f32_of(0x%xu)", (unsigned)bits);
    }
}

static const char *composite(rx_wgsl *p, uint32_t id, bool *infinite)
{
    const rx_ws_id *d = rx_ws_at(p, id);
    rx_str s = {0};
    rx_str_printf(&s, "%s(", rx_ws_type_name(p, d->type, false));
    for (uint32_t i = 3; i < rx_ws_length(d->in) && rx_ws_ok(p); i++) {
        rx_str_printf(&s, "%s%s", i > 3 ? ", " : "", rx_ws_constant(p, d->in[i]));
        *infinite |= rx_ws_at(p, d->in[i])->infinite;
    }
    rx_str_puts(&s, ")");
    const char *text = rx_ws_keep(p, &s);
    if (rx_ws_def(p, d->type) == OpTypeVector || *infinite)
        return text;
    rx_str_printf(&p->decl, "const c%u = %s;\n", (unsigned)id, text);
    return rx_ws_text(p, "c%u", (unsigned)id);
}

const char *rx_ws_constant(rx_wgsl *p, uint32_t id)
{
    rx_ws_id *d = rx_ws_at(p, id);
    const uint32_t op = d->in ? rx_ws_opcode(d->in) : Op_none;
    bool infinite = false;
    const char *text = "?";
    if (d->text)
        return d->text;
    if (d->known)
        text = rx_ws_literal(p, rx_ws_kind(p, d->type), d->value, &infinite);
    else if (op == OpConstantNull || op == OpUndef)
        text = rx_ws_text(p, "%s()", rx_ws_type_name(p, d->type, false));
    else if (op == OpConstantComposite || op == OpSpecConstantComposite)
        text = composite(p, id, &infinite);
    else
        rx_ws_fail(p, RLX_INVALID, "id %u is no constant", (unsigned)id);
    d->infinite = infinite;
    return d->text = text;
}

/* ---- Arithmetic on known scalars ------------------------------------------------------------- */

static uint32_t shift_right_signed(uint32_t a, uint32_t b)
{
    return a >> 31 ? ~(~a >> b) : a >> b;
}

static uint32_t divide_signed(uint32_t op, int32_t a, int32_t b)
{
    if (!b || (a == INT32_MIN && b == -1))
        return 0;
    const int32_t rest = a % b;
    if (op == OpSDiv)
        return (uint32_t)(a / b);
    return (uint32_t)(op == OpSMod && rest && (rest ^ b) < 0 ? rest + b : rest);
}

static bool fold_two(uint32_t op, uint32_t a, uint32_t b, uint32_t *r)
{
    const int32_t sa = (int32_t)a, sb = (int32_t)b;
    switch (op) {
    case OpIAdd: *r = a + b; return true;
    case OpISub: *r = a - b; return true;
    case OpIMul: *r = a * b; return true;
    case OpUDiv: *r = b ? a / b : 0; return true;
    case OpUMod: *r = b ? a % b : 0; return true;
    case OpSDiv:
    case OpSRem:
    case OpSMod: *r = divide_signed(op, sa, sb); return true;
    case OpShiftLeftLogical: *r = a << (b & 31); return true;
    case OpShiftRightLogical: *r = a >> (b & 31); return true;
    case OpShiftRightArithmetic: *r = shift_right_signed(a, b & 31); return true;
    case OpBitwiseAnd: *r = a & b; return true;
    case OpBitwiseOr: *r = a | b; return true;
    case OpBitwiseXor: *r = a ^ b; return true;
    case OpLogicalAnd: *r = a && b; return true;
    case OpLogicalOr: *r = a || b; return true;
    case OpIEqual:
    case OpLogicalEqual: *r = a == b; return true;
    case OpINotEqual:
    case OpLogicalNotEqual: *r = a != b; return true;
    case OpULessThan: *r = a < b; return true;
    case OpULessThanEqual: *r = a <= b; return true;
    case OpUGreaterThan: *r = a > b; return true;
    case OpUGreaterThanEqual: *r = a >= b; return true;
    case OpSLessThan: *r = sa < sb; return true;
    case OpSLessThanEqual: *r = sa <= sb; return true;
    case OpSGreaterThan: *r = sa > sb; return true;
    case OpSGreaterThanEqual: *r = sa >= sb; return true;
    }
    return false;
}

bool rx_ws_fold(uint32_t op, const uint32_t *a, uint32_t n, uint32_t *r)
{
    if (n == 2)
        return fold_two(op, a[0], a[1], r);
    if (n == 3 && op == OpSelect) {
        *r = a[0] ? a[1] : a[2];
        return true;
    }
    if (n != 1)
        return false;
    switch (op) {
    case OpNot: *r = ~a[0]; return true;
    case OpSNegate: *r = 0u - a[0]; return true;
    case OpLogicalNot: *r = !a[0]; return true;
    case OpBitcast:
    case OpUConvert:
    case OpSConvert:
    case OpCopyObject: *r = a[0]; return true;
    }
    return false;
}
