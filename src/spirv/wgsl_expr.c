/* SPDX-License-Identifier: MIT */
/* The WGSL printer's instructions that compute values from values. */
#include <string.h>

#include "spirv/wgsl_print.h"

/* ---- What is known beforehand ---------------------------------------------------------------- */

/* and, or with one operand that decides, select with a known condition. */
static bool forward_logic(rx_wgsl *p, const uint32_t *in)
{
    const uint32_t op = rx_ws_opcode(in), type = in[1];
    if (op == OpSelect) {
        if (rx_ws_known(p, in[3]))
            rx_ws_forward(p, in[2], rx_ws_value(p, in[3]) ? in[4] : in[5]);
        return rx_ws_known(p, in[3]);
    }
    if ((op != OpLogicalAnd && op != OpLogicalOr) || rx_ws_lanes(p, type) != 1)
        return false;
    for (uint32_t i = 3; i < 5; i++) {
        if (!rx_ws_known(p, in[i]))
            continue;
        if ((rx_ws_value(p, in[i]) != 0) == (op == OpLogicalOr))
            rx_ws_define_known(p, in[2], op == OpLogicalOr);
        else
            rx_ws_forward(p, in[2], in[i == 3 ? 4 : 3]);
        return true;
    }
    return false;
}

/* A component of a vector that was just put together. */
static bool forward_extract(rx_wgsl *p, const uint32_t *in)
{
    if (rx_ws_opcode(in) != OpCompositeExtract || rx_ws_length(in) != 5)
        return false;
    const uint32_t *from = rx_ws_at(p, rx_ws_resolve(p, in[3]))->in;
    const uint32_t op = from ? rx_ws_opcode(from) : Op_none;
    if (op != OpCompositeConstruct && op != OpConstantComposite && op != OpSpecConstantComposite)
        return false;
    if (rx_ws_length(from) <= 3 || in[4] >= rx_ws_length(from) - 3)
        return false;
    const uint32_t part = from[3 + in[4]];
    if (rx_ws_at(p, part)->type != in[1]) /* a vector made of vectors */
        return false;
    rx_ws_forward(p, in[2], part);
    return true;
}

/* True: the value is a known scalar, or another value, and nothing is printed. */
static bool compute(rx_wgsl *p, const uint32_t *in)
{
    const uint32_t op = rx_ws_opcode(in), n = rx_ws_length(in);
    uint32_t a[3] = {0}, value;
    if (n > 3 && (forward_logic(p, in) || forward_extract(p, in)))
        return true;
    if (n < 4 || n > 6 || !rx_ws_is_scalar(p, in[1]))
        return false;
    for (uint32_t i = 3; i < n; i++) {
        if (in[i] >= p->bound || !in[i] || !rx_ws_known(p, in[i]))
            return false;
        a[i - 3] = rx_ws_value(p, in[i]);
    }
    if (!rx_ws_fold(op, a, n - 3, &value))
        return false;
    rx_ws_define_known(p, in[2], value);
    return true;
}

/* Arithmetic on literals alone is a constant expression of WGSL, where an overflow is an error; one
 * operand is hidden from that. */
static bool all_known_floats(rx_wgsl *p, const uint32_t *ids, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (!rx_ws_known(p, ids[i]) || rx_ws_kind(p, rx_ws_at(p, ids[i])->type) != 'f')
            return false;
    return n > 0;
}

static const char *hidden(rx_wgsl *p, uint32_t id)
{
    p->needs_bits = true;
    return rx_ws_text(p, "f32_of(0x%xu)", (unsigned)rx_ws_value(p, id));
}

/* ---- Operators ------------------------------------------------------------------------------- */

static void binary(rx_wgsl *p, const uint32_t *in, const rx_ws_op *row)
{
    const uint32_t op = rx_ws_opcode(in), id = in[2], type = in[1];
    const char *token = row->token;
    char kind = row->kind;
    if (kind == 'r')
        kind = rx_ws_kind(p, type);
    else if (kind == 'a')
        kind = rx_ws_kind(p, rx_ws_at(p, in[3])->type);
    if ((op == OpLogicalOr || op == OpLogicalAnd) && rx_ws_lanes(p, type) == 1)
        token = op == OpLogicalOr ? "||" : "&&";
    /* undefined in SPIR-V, an error in WGSL */
    if ((*token == '/' || *token == '%') && kind != 'f' && rx_ws_known(p, in[4]) &&
        !rx_ws_value(p, in[4])) {
        rx_ws_define(p, id, RX_WS_PURE,
                     rx_ws_text(p, "%s()", rx_ws_type_name(p, type, false)));
        return;
    }
    const bool hide = all_known_floats(p, in + 3, 2);
    const char *x = hide ? hidden(p, in[3]) : rx_ws_use_as(p, in[3], kind);
    const char *y = rx_ws_use_as(p, in[4], kind);
    if (*token == '!' && token[1] != '=')
        rx_ws_define(p, id, RX_WS_PURE, rx_ws_text(p, "!(%s %s %s)", x, token + 1, y));
    else
        rx_ws_define_as(p, id, kind, RX_WS_PURE | RX_WS_PAREN,
                        rx_ws_text(p, "%s %s %s", x, token, y));
}

/* WGSL wants unsigned distances below 32 where they are constants. */
static void shift(rx_wgsl *p, const uint32_t *in)
{
    const uint32_t op = rx_ws_opcode(in);
    const char *by;
    char kind = rx_ws_kind(p, in[1]);
    if (op == OpShiftRightLogical)
        kind = 'u';
    else if (op == OpShiftRightArithmetic)
        kind = 'i';
    if (rx_ws_known(p, in[4]))
        by = rx_ws_text(p, "%uu", (unsigned)(rx_ws_value(p, in[4]) & 31));
    else
        by = rx_ws_use_as(p, in[4], 'u');
    rx_ws_define_as(p, in[2], kind, RX_WS_PURE | RX_WS_PAREN,
                    rx_ws_text(p, "%s %s %s", rx_ws_use_as(p, in[3], kind),
                               op == OpShiftLeftLogical ? "<<" : ">>", by));
}

/* The sign follows the divisor, where WGSL's % follows the dividend. */
static void modulo_signed(rx_wgsl *p, const uint32_t *in)
{
    const char *name = rx_ws_vector_name(p, 'i', rx_ws_lanes(p, in[1]));
    const char *x = rx_ws_use_as(p, in[3], 'i');
    rx_ws_use_often(p, in[4]);
    const char *y = rx_ws_use_as(p, in[4], 'i');
    const char *r = rx_ws_text(p, "x%u_r", (unsigned)in[2]);
    rx_ws_line(p, "let %s = %s %% %s;", r, x, y);
    rx_ws_define_as(p, in[2], 'i', 0,
                    rx_ws_text(p, "select(%s, %s + %s, (%s != %s(0)) & ((%s ^ %s) < %s(0)))", r, r,
                               y, r, name, r, y, name));
}

static const char *mulhi(rx_wgsl *p, uint32_t lanes, const char *x, const char *y)
{
    rx_str s = {0};
    p->needs_mulhi = true;
    if (lanes == 1)
        return rx_ws_text(p, "mulhi(%s, %s)", x, y);
    rx_str_printf(&s, "vec%u<u32>(", (unsigned)lanes);
    for (uint32_t i = 0; i < lanes; i++)
        rx_str_printf(&s, "%smulhi(%s.%c, %s.%c)", i ? ", " : "", x, "xyzw"[i & 3], y,
                      "xyzw"[i & 3]);
    rx_str_puts(&s, ")");
    return rx_ws_keep(p, &s);
}

/* Sums and products with two results, a struct of low word and carry or high word. */
static void extended(rx_wgsl *p, const uint32_t *in)
{
    const uint32_t op = rx_ws_opcode(in), id = in[2], *result = rx_ws_type(p, in[1]);
    if (rx_ws_opcode(result) != OpTypeStruct || rx_ws_length(result) != 4) {
        rx_ws_fail(p, RLX_INVALID, "its result is a struct of two");
        return;
    }
    const uint32_t type = result[2], lanes = rx_ws_lanes(p, type);
    const char *v = rx_ws_vector_name(p, 'u', lanes), *low, *high;
    rx_ws_use_often(p, in[3]);
    rx_ws_use_often(p, in[4]);
    const char *x = rx_ws_use_as(p, in[3], 'u'), *y = rx_ws_use_as(p, in[4], 'u');
    if (op == OpIAddCarry) {
        low = rx_ws_text(p, "%s + %s", x, y);
        high = rx_ws_text(p, "select(%s(0u), %s(1u), (%s + %s) < %s)", v, v, x, y, x);
    } else if (op == OpISubBorrow) {
        low = rx_ws_text(p, "%s - %s", x, y);
        high = rx_ws_text(p, "select(%s(0u), %s(1u), %s < %s)", v, v, x, y);
    } else {
        low = rx_ws_text(p, "%s * %s", x, y);
        high = mulhi(p, lanes, x, y);
    }
    if (op == OpSMulExtended) { /* subtract the other one for each negative factor */
        const char *s = rx_ws_vector_name(p, 'i', lanes);
        high = rx_ws_text(p,
                          "%s - (bitcast<%s>(bitcast<%s>(%s) >> %s(31u)) & %s)"
                          " - (bitcast<%s>(bitcast<%s>(%s) >> %s(31u)) & %s)",
                          high, v, s, x, v, y, v, s, y, v, x);
    }
    if (rx_ws_kind(p, type) == 'i') {
        const char *name = rx_ws_type_name(p, type, false);
        low = rx_ws_text(p, "bitcast<%s>(%s)", name, low);
        high = rx_ws_text(p, "bitcast<%s>(%s)", name, high);
    }
    if (p->dry)
        rx_ws_at(p, id)->uses++;
    rx_ws_define(p, id, RX_WS_PURE,
                 rx_ws_text(p, "%s(%s, %s)", rx_ws_type_name(p, in[1], false), low, high));
}

/* WGSL lets compilers assume that there are no infinities and NaNs, so the bits are looked at. */
static void test_bits(rx_wgsl *p, const uint32_t *in)
{
    const char *u = rx_ws_vector_name(p, 'u', rx_ws_lanes(p, in[1]));
    if (rx_ws_kind(p, rx_ws_at(p, in[3])->type) != 'f') {
        rx_ws_fail(p, RLX_UNSUPPORTED, "of another type than f32");
        return;
    }
    rx_ws_define(p, in[2], RX_WS_PURE | RX_WS_PAREN,
                 rx_ws_text(p, "(bitcast<%s>(%s) & %s(0x7fffffffu)) %s %s(0x7f800000u)", u,
                            rx_ws_use(p, in[3]), u, rx_ws_opcode(in) == OpIsNan ? ">" : "==", u));
}

static void select_value(rx_wgsl *p, const uint32_t *in)
{
    const uint32_t type = rx_ws_def(p, in[1]), id = in[2];
    const char *no = rx_ws_use(p, in[5]), *yes = rx_ws_use(p, in[4]), *c = rx_ws_use(p, in[3]);
    if (type == OpTypePointer) {
        rx_ws_fail(p, RLX_UNSUPPORTED, "pointers cannot be selected");
    } else if (type == OpTypeArray || type == OpTypeStruct) {
        rx_ws_line(p, "var x%u_s = %s; if (%s) { x%u_s = %s; }", (unsigned)id, no, c, (unsigned)id,
                   yes);
        rx_ws_define(p, id, 0, rx_ws_text(p, "x%u_s", (unsigned)id));
    } else {
        rx_ws_define(p, id, RX_WS_PURE, rx_ws_text(p, "select(%s, %s, %s)", no, yes, c));
    }
}

/* Bytes of x with a sign, of y without: WGSL has none of that kind, so the upper bits of y come on
 * their own. */
static const char *dot4_mixed(rx_wgsl *p, uint32_t x, uint32_t y)
{
    rx_ws_use_often(p, x);
    rx_ws_use_often(p, y);
    const char *a = rx_ws_use_as(p, x, 'u'), *b = rx_ws_use_as(p, y, 'u');
    return rx_ws_text(p, "dot4I8Packed(%s, (%s) & 0x7f7f7f7fu) + "
                      "128 * dot4I8Packed(%s, ((%s) >> 7u) & 0x01010101u)", a, b, a, b);
}

static void dot4(rx_wgsl *p, const uint32_t *in)
{
    const uint32_t op = rx_ws_opcode(in), type = rx_ws_at(p, in[3])->type;
    const char kind = rx_ws_kind(p, type);
    if (rx_ws_length(in) < 6 || (kind != 'i' && kind != 'u') || rx_ws_lanes(p, type) != 1) {
        rx_ws_fail(p, RLX_UNSUPPORTED, "integer dot products of vectors that are not packed");
        return;
    }
    p->info->uses_dot4 = true;
    if (op == OpSUDot)
        rx_ws_define_as(p, in[2], 'i', RX_WS_PURE | RX_WS_PAREN, dot4_mixed(p, in[3], in[4]));
    else
        rx_ws_define_as(p, in[2], op == OpSDot ? 'i' : 'u', RX_WS_PURE,
                        rx_ws_call(p, op == OpSDot ? "dot4I8Packed" : "dot4U8Packed", in + 3, 2,
                                   'u'));
}

/* ---- Parts of vectors, structs and arrays ---------------------------------------------------- */

/* `text` indexed by the literal i; *type becomes that of the element. */
static const char *member(rx_wgsl *p, uint32_t *type, const char *text, uint32_t i)
{
    const uint32_t *in = rx_ws_type(p, *type), op = rx_ws_opcode(in);
    if (op == OpTypeStruct && i < rx_ws_length(in) - 2) {
        *type = in[2 + i];
        return rx_ws_text(p, "%s.m%u", text, (unsigned)i);
    }
    if (op != OpTypeVector && op != OpTypeArray) {
        rx_ws_fail(p, RLX_INVALID, "there is no part %u", (unsigned)i);
        return "?";
    }
    *type = in[2];
    if (op == OpTypeVector)
        return rx_ws_text(p, "%s.%c", text, "xyzw"[i & 3]);
    return rx_ws_text(p, "%s[%u]", text, (unsigned)i);
}

static void extract(rx_wgsl *p, const uint32_t *in)
{
    uint32_t type = rx_ws_at(p, in[3])->type;
    const char *text = rx_ws_use(p, in[3]);
    for (uint32_t i = 4; i < rx_ws_length(in) && rx_ws_ok(p); i++)
        text = member(p, &type, text, in[i]);
    rx_ws_define(p, in[2], RX_WS_PURE, text);
}

static void insert(rx_wgsl *p, const uint32_t *in)
{
    uint32_t type = in[1];
    const char *name = rx_ws_text(p, "x%u_i", (unsigned)in[2]), *part = name;
    for (uint32_t i = 5; i < rx_ws_length(in) && rx_ws_ok(p); i++)
        part = member(p, &type, part, in[i]);
    rx_ws_line(p, "var %s = %s; %s = %s;", name, rx_ws_use(p, in[4]), part, rx_ws_use(p, in[3]));
    rx_ws_define(p, in[2], 0, name);
}

static void insert_dynamic(rx_wgsl *p, const uint32_t *in)
{
    const char *name = rx_ws_text(p, "x%u_i", (unsigned)in[2]);
    rx_ws_line(p, "var %s = %s; %s[%s] = %s;", name, rx_ws_use(p, in[3]), name,
               rx_ws_use(p, in[5]), rx_ws_use(p, in[4]));
    rx_ws_define(p, in[2], 0, name);
}

static void shuffle(rx_wgsl *p, const uint32_t *in)
{
    const uint32_t lanes = rx_ws_lanes(p, rx_ws_at(p, in[3])->type);
    const char *x = rx_ws_use_often(p, in[3]), *y = rx_ws_use_often(p, in[4]);
    rx_str s = {0};
    rx_str_printf(&s, "%s(", rx_ws_type_name(p, in[1], false));
    for (uint32_t i = 5; i < rx_ws_length(in); i++) {
        const uint32_t c = in[i] == UINT32_MAX ? 0 : in[i];
        rx_str_printf(&s, "%s%s.%c", i > 5 ? ", " : "", c < lanes ? x : y,
                      "xyzw"[(c < lanes ? c : c - lanes) & 3]);
    }
    rx_str_puts(&s, ")");
    rx_ws_define(p, in[2], RX_WS_PURE, rx_ws_keep(p, &s));
}

/* Between types of the same form that are decorated differently. */
static const char *copy_logical(rx_wgsl *p, uint32_t to, uint32_t from, const char *text)
{
    const uint32_t *t = rx_ws_type(p, to), *f = rx_ws_type(p, from);
    if (!rx_ws_ok(p) || !strcmp(rx_ws_type_name(p, to, false), rx_ws_type_name(p, from, false)))
        return text;
    const bool is_struct = rx_ws_opcode(t) == OpTypeStruct;
    if (rx_ws_opcode(t) != rx_ws_opcode(f) || (!is_struct && rx_ws_opcode(t) != OpTypeArray) ||
        rx_ws_length(t) != rx_ws_length(f)) {
        rx_ws_fail(p, RLX_INVALID, "the types differ in form");
        return "?";
    }
    const uint32_t n = is_struct ? rx_ws_length(t) - 2 : rx_ws_value(p, t[3]);
    rx_str s = {0};
    rx_str_printf(&s, "%s(", rx_ws_type_name(p, to, false));
    for (uint32_t i = 0; i < n && rx_ws_ok(p); i++) {
        const char *part = rx_ws_text(p, is_struct ? "%s.m%u" : "%s[%u]", text, (unsigned)i);
        rx_str_printf(&s, "%s%s", i ? ", " : "",
                      copy_logical(p, is_struct ? t[2 + i] : t[2], is_struct ? f[2 + i] : f[2],
                                   part));
    }
    rx_str_puts(&s, ")");
    return rx_ws_keep(p, &s);
}

/* ---- GLSL.std.450 ---------------------------------------------------------------------------- */

typedef struct glsl_row {
    uint8_t number, args;
    const char *name;
    char kind, result; /* signedness of operands and result; 'f': as they are */
} glsl_row;

static const glsl_row glsl[] = {
    {1, 1, "round", 'f', 'f'}, {2, 1, "round", 'f', 'f'}, {3, 1, "trunc", 'f', 'f'},
    {4, 1, "abs", 'f', 'f'}, {5, 1, "abs", 'i', 'i'}, {6, 1, "sign", 'f', 'f'},
    {7, 1, "sign", 'i', 'i'}, {8, 1, "floor", 'f', 'f'}, {9, 1, "ceil", 'f', 'f'},
    {10, 1, "fract", 'f', 'f'}, {11, 1, "radians", 'f', 'f'}, {12, 1, "degrees", 'f', 'f'},
    {13, 1, "sin", 'f', 'f'}, {14, 1, "cos", 'f', 'f'}, {15, 1, "tan", 'f', 'f'},
    {16, 1, "asin", 'f', 'f'}, {17, 1, "acos", 'f', 'f'}, {18, 1, "atan", 'f', 'f'},
    {19, 1, "sinh", 'f', 'f'}, {20, 1, "cosh", 'f', 'f'}, {21, 1, "tanh", 'f', 'f'},
    {22, 1, "asinh", 'f', 'f'}, {23, 1, "acosh", 'f', 'f'}, {24, 1, "atanh", 'f', 'f'},
    {25, 2, "atan2", 'f', 'f'}, {26, 2, "pow", 'f', 'f'}, {27, 1, "exp", 'f', 'f'},
    {28, 1, "log", 'f', 'f'}, {29, 1, "exp2", 'f', 'f'}, {30, 1, "log2", 'f', 'f'},
    {31, 1, "sqrt", 'f', 'f'}, {32, 1, "inverseSqrt", 'f', 'f'}, {37, 2, "min", 'f', 'f'},
    {38, 2, "min", 'u', 'u'}, {39, 2, "min", 'i', 'i'}, {40, 2, "max", 'f', 'f'},
    {41, 2, "max", 'u', 'u'}, {42, 2, "max", 'i', 'i'}, {43, 3, "clamp", 'f', 'f'},
    {44, 3, "clamp", 'u', 'u'}, {45, 3, "clamp", 'i', 'i'}, {46, 3, "mix", 'f', 'f'},
    {48, 2, "step", 'f', 'f'}, {49, 3, "smoothstep", 'f', 'f'}, {50, 3, "fma", 'f', 'f'},
    {54, 1, "pack4x8snorm", 'f', 'u'}, {55, 1, "pack4x8unorm", 'f', 'u'},
    {56, 1, "pack2x16snorm", 'f', 'u'}, {57, 1, "pack2x16unorm", 'f', 'u'},
    {58, 1, "pack2x16float", 'f', 'u'}, {60, 1, "unpack2x16snorm", 'u', 'f'},
    {61, 1, "unpack2x16unorm", 'u', 'f'}, {62, 1, "unpack2x16float", 'u', 'f'},
    {63, 1, "unpack4x8snorm", 'u', 'f'}, {64, 1, "unpack4x8unorm", 'u', 'f'},
    {66, 1, "length", 'f', 'f'}, {67, 2, "distance", 'f', 'f'}, {68, 2, "cross", 'f', 'f'},
    {69, 1, "normalize", 'f', 'f'}, {74, 1, "firstLeadingBit", 'i', 'i'},
    {75, 1, "firstLeadingBit", 'u', 'u'}, {79, 2, "min", 'f', 'f'}, {80, 2, "max", 'f', 'f'},
    {81, 3, "clamp", 'f', 'f'},
};
enum { GLSL_LDEXP = 53, GLSL_FIND_LSB = 73 };

static void glsl_function(rx_wgsl *p, uint32_t id, const glsl_row *row, const uint32_t *a)
{
    const char *text;
    if (all_known_floats(p, a, row->args)) {
        rx_str s = {0};
        rx_str_printf(&s, "%s(%s", row->name, hidden(p, a[0]));
        for (uint32_t i = 1; i < row->args; i++)
            rx_str_printf(&s, ", %s", rx_ws_use(p, a[i]));
        rx_str_puts(&s, ")");
        text = rx_ws_keep(p, &s);
    } else {
        text = rx_ws_call(p, row->name, a, row->args, row->kind);
    }
    rx_ws_define_as(p, id, row->result, RX_WS_PURE, text);
}

static void extended_instruction(rx_wgsl *p, const uint32_t *in)
{
    const uint32_t id = in[2], n = rx_ws_length(in) - 5, *a = in + 5;
    const rx_ws_id *set = rx_ws_at(p, in[3]);
    if (in[3] != p->glsl) {
        if (!set->in || rx_ws_opcode(set->in) != OpExtInstImport || set->is_semantic)
            rx_ws_fail(p, RLX_UNSUPPORTED, "of another instruction set than GLSL.std.450");
        return;
    }
    for (size_t i = 0; i < sizeof glsl / sizeof *glsl; i++) {
        if (glsl[i].number != in[4] || glsl[i].args != n)
            continue;
        glsl_function(p, id, &glsl[i], a);
        return;
    }
    if (in[4] == GLSL_LDEXP && n == 2)
        rx_ws_define(p, id, RX_WS_PURE, rx_ws_text(p, "ldexp(%s, %s)", rx_ws_use(p, a[0]),
                                                   rx_ws_use_as(p, a[1], 'i')));
    else if (in[4] == GLSL_FIND_LSB && n == 1)
        rx_ws_define_as(p, id, rx_ws_kind(p, rx_ws_at(p, a[0])->type), RX_WS_PURE,
                        rx_ws_text(p, "firstTrailingBit(%s)", rx_ws_use(p, a[0])));
    else
        rx_ws_fail(p, RLX_UNSUPPORTED, "function %u of GLSL.std.450", (unsigned)in[4]);
}

/* ---- One instruction ------------------------------------------------------------------------- */

static void call_function(rx_wgsl *p, const uint32_t *in)
{
    const rx_ws_id *f = rx_ws_at(p, in[3]);
    const bool is_void = rx_ws_def(p, in[1]) == OpTypeVoid;
    const char *comma = "";
    rx_str s = {0};
    rx_str_printf(&s, "fn_%u(", (unsigned)in[3]);
    for (uint32_t i = 4; i < rx_ws_length(in) && rx_ws_ok(p); i++) {
        const char *arg = rx_ws_use(p, in[i]);
        const rx_ws_id *d = rx_ws_at(p, in[i]);
        const bool is_pointer = d->type && rx_ws_def(p, d->type) == OpTypePointer;
        if (is_pointer && rx_ws_opcode(d->in) == OpFunctionParameter)
            arg = rx_ws_text(p, "v%u", (unsigned)in[i]);
        else if (is_pointer)
            arg = rx_ws_text(p, "&%s", arg);
        rx_str_printf(&s, "%s%s", comma, arg);
        comma = ", ";
    }
    for (uint32_t i = 0; i < RX_WS_N_INPUTS; i++) {
        if (!(f->inputs >> i & 1))
            continue;
        rx_str_printf(&s, "%s%s", comma, rx_ws_inputs[i].name);
        comma = ", ";
    }
    rx_str_puts(&s, ")");
    const char *text = rx_ws_keep(p, &s);
    const rx_ws_id *d = rx_ws_at(p, in[2]);
    if (is_void || (!p->dry && !d->uses && !d->hoisted))
        rx_ws_line(p, "%s%s;", is_void ? "" : "_ = ", text);
    else
        rx_ws_define(p, in[2], 0, text);
}

/* Instructions with one operand, and WGSL functions of the same operands. False: not one. */
static bool unary(rx_wgsl *p, const uint32_t *in)
{
    const uint32_t op = rx_ws_opcode(in), id = in[2], type = in[1], lanes = rx_ws_lanes(p, type);
    const int plain = RX_WS_PURE, paren = RX_WS_PURE | RX_WS_PAREN;
    const char kind = rx_ws_kind(p, type);
    switch (op) {
    case OpConvertFToU:
    case OpConvertFToS: {
        const char to = op == OpConvertFToU ? 'u' : 'i';
        rx_ws_define_as(p, id, to, plain, rx_ws_text(p, "%s(%s)", rx_ws_vector_name(p, to, lanes),
                                                     rx_ws_use(p, in[3])));
        return true;
    }
    case OpConvertSToF:
    case OpConvertUToF:
        rx_ws_define(p, id, plain,
                     rx_ws_text(p, "%s(%s)", rx_ws_type_name(p, type, false),
                                rx_ws_use_as(p, in[3], op == OpConvertSToF ? 'i' : 'u')));
        return true;
    case OpFConvert:
        rx_ws_define(p, id, plain, rx_ws_call(p, rx_ws_type_name(p, type, false), in + 3, 1, 0));
        return true;
    case OpBitcast:
    case OpUConvert:
    case OpSConvert:
        rx_ws_define(p, id, plain, rx_ws_text(p, "bitcast<%s>(%s)",
                                              rx_ws_type_name(p, type, false),
                                              rx_ws_use(p, in[3])));
        return true;
    case OpSNegate:
        rx_ws_define_as(p, id, 'i', paren, rx_ws_text(p, "-%s", rx_ws_use_as(p, in[3], 'i')));
        return true;
    case OpFNegate:
        rx_ws_define(p, id, paren, rx_ws_text(p, "-%s", rx_ws_use(p, in[3])));
        return true;
    case OpNot:
        rx_ws_define(p, id, paren, rx_ws_text(p, "~%s", rx_ws_use_as(p, in[3], kind)));
        return true;
    case OpLogicalNot:
        rx_ws_define(p, id, paren, rx_ws_text(p, "!%s", rx_ws_use(p, in[3])));
        return true;
    case OpCopyObject: rx_ws_define(p, id, plain, rx_ws_use(p, in[3])); return true;
    case OpQuantizeToF16:
        rx_ws_define(p, id, plain, rx_ws_call(p, "quantizeToF16", in + 3, 1, 0));
        return true;
    case OpDot: rx_ws_define(p, id, plain, rx_ws_call(p, "dot", in + 3, 2, 0)); return true;
    case OpAny: rx_ws_define(p, id, plain, rx_ws_call(p, "any", in + 3, 1, 0)); return true;
    case OpAll: rx_ws_define(p, id, plain, rx_ws_call(p, "all", in + 3, 1, 0)); return true;
    case OpBitReverse:
        rx_ws_define(p, id, plain, rx_ws_call(p, "reverseBits", in + 3, 1, kind));
        return true;
    case OpBitCount:
        rx_ws_define_as(p, id, rx_ws_kind(p, rx_ws_at(p, in[3])->type), plain,
                        rx_ws_call(p, "countOneBits", in + 3, 1, 0));
        return true;
    }
    return false;
}

/* Bit fields, modulo, and other instructions with several operands. False: not one. */
static bool several(rx_wgsl *p, const uint32_t *in)
{
    const uint32_t op = rx_ws_opcode(in), id = in[2];
    switch (op) {
    case OpBitFieldInsert: {
        const char kind = rx_ws_kind(p, in[1]);
        rx_ws_define(p, id, RX_WS_PURE,
                     rx_ws_text(p, "insertBits(%s, %s, %s, %s)", rx_ws_use_as(p, in[3], kind),
                                rx_ws_use_as(p, in[4], kind), rx_ws_use_as(p, in[5], 'u'),
                                rx_ws_use_as(p, in[6], 'u')));
        return true;
    }
    case OpBitFieldSExtract:
    case OpBitFieldUExtract: {
        const char kind = op == OpBitFieldSExtract ? 'i' : 'u';
        rx_ws_define_as(p, id, kind, RX_WS_PURE,
                        rx_ws_text(p, "extractBits(%s, %s, %s)", rx_ws_use_as(p, in[3], kind),
                                   rx_ws_use_as(p, in[4], 'u'), rx_ws_use_as(p, in[5], 'u')));
        return true;
    }
    case OpFMod: {
        const char *x = rx_ws_use_often(p, in[3]), *y = rx_ws_use_often(p, in[4]);
        rx_ws_define(p, id, RX_WS_PURE | RX_WS_PAREN,
                     rx_ws_text(p, "%s - %s * floor(%s / %s)", x, y, x, y));
        return true;
    }
    case OpFOrdNotEqual: {
        const char *x = rx_ws_use_often(p, in[3]), *y = rx_ws_use_often(p, in[4]);
        rx_ws_define(p, id, RX_WS_PURE | RX_WS_PAREN,
                     rx_ws_text(p, "(%s < %s) | (%s > %s)", x, y, x, y));
        return true;
    }
    case OpSMod: modulo_signed(p, in); return true;
    case OpIsNan:
    case OpIsInf: test_bits(p, in); return true;
    case OpSelect: select_value(p, in); return true;
    case OpShiftRightLogical:
    case OpShiftRightArithmetic:
    case OpShiftLeftLogical: shift(p, in); return true;
    case OpIAddCarry:
    case OpISubBorrow:
    case OpUMulExtended:
    case OpSMulExtended: extended(p, in); return true;
    case OpSDot:
    case OpUDot:
    case OpSUDot: dot4(p, in); return true;
    case OpExtInst: extended_instruction(p, in); return true;
    case OpFunctionCall: call_function(p, in); return true;
    }
    return false;
}

/* Putting together and taking apart. False: not one. */
static bool composite(rx_wgsl *p, const uint32_t *in)
{
    const uint32_t id = in[2], type = in[1];
    switch (rx_ws_opcode(in)) {
    case OpCompositeConstruct:
        rx_ws_define(p, id, RX_WS_PURE, rx_ws_call(p, rx_ws_type_name(p, type, false), in + 3,
                                                   rx_ws_length(in) - 3, 0));
        return true;
    case OpVectorExtractDynamic:
        rx_ws_define(p, id, RX_WS_PURE, rx_ws_text(p, "%s[%s]", rx_ws_use(p, in[3]),
                                                   rx_ws_use(p, in[4])));
        return true;
    case OpCopyLogical:
        rx_ws_define(p, id, RX_WS_PURE, copy_logical(p, type, rx_ws_at(p, in[3])->type,
                                                     rx_ws_use_often(p, in[3])));
        return true;
    case OpVectorInsertDynamic: insert_dynamic(p, in); return true;
    case OpVectorShuffle: shuffle(p, in); return true;
    case OpCompositeExtract: extract(p, in); return true;
    case OpCompositeInsert: insert(p, in); return true;
    }
    return false;
}

void rx_ws_instruction(rx_wgsl *p, const uint32_t *in)
{
    const uint32_t op = rx_ws_opcode(in);
    const rx_ws_op *row = rx_ws_find_op(op);
    p->at = in;
    if (rx_ws_is_line(in) || op == OpUndef || !row)
        return;
    switch (op) {
    case OpLoad: rx_ws_load(p, in[2], in[3]); return;
    case OpStore: rx_ws_store(p, in[1], in[2]); return;
    case OpAccessChain:
    case OpInBoundsAccessChain: rx_ws_access_chain(p, in); return;
    case OpArrayLength: rx_ws_array_length(p, in); return;
    case OpControlBarrier:
    case OpMemoryBarrier: rx_ws_barrier(p, in); return;
    }
    if (op >= OpAtomicLoad && op <= OpAtomicXor)
        rx_ws_atomic(p, in);
    else if (op >= OpGroupNonUniformElect && op <= OpGroupNonUniformBitwiseXor)
        rx_ws_subgroup(p, in);
    else if (row->form != RX_WS_TYPED)
        rx_ws_fail(p, RLX_UNSUPPORTED, "not inside a function");
    else if (compute(p, in))
        return;
    else if (row->token)
        binary(p, in, row);
    else if (!unary(p, in) && !several(p, in) && !composite(p, in))
        rx_ws_fail(p, RLX_UNSUPPORTED, "no WGSL form");
}
