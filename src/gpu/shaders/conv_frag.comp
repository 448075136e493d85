/* SPDX-License-Identifier: MIT */
#version 450
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_EXT_shader_explicit_arithmetic_types_int16 : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_shader_subgroup_basic : require
/* Convolution by cooperative matrices with f32 sums: for each group, result [filters, pixels of all
 * images] = sum over taps of w[tap] [filters, channels] . what a tap sees of x [channels, pixels].
 * conv.glsl says what comes after the sum. w comes from conv_pack_w.comp, and x from
 * conv_pack_x.comp (in_d, in_h, in_w are its sizes, padding included) or, PLAIN, as it is.
 *
 * A subgroup of 32 makes 16 CM filters x 16 CN pixels. In a step, 32 channels of a tap, it loads
 * two fragments of w for each 16 filters, and each lane eight channels of four neighbouring pixels
 * for each 32: one vector each, straight into registers; subgroups share through the cache only.
 * Which pixel a column of a fragment is, is free. Lanes and elements of fragments are as
 * attention_frag.comp says.
 *
 * A line is ROW steps that read x once: where neighbours of the result are neighbours in x, the
 * taps of a row of the window (ROW = KW) see the same places, one on. Else ROW is 1.
 *
 * PLAIN, where a window is one element, nothing is padded and channels are a multiple of 32: 4,
 * four pixels from a multiple of four on are neighbours in x and aligned; 1, each is somewhere.
 *
 * A workgroup is SIDE_M x SIDE_N subgroups side by side, SLICES times: those split the lines and
 * their sums are joined in shared memory. AHEAD: loads are made a step ahead. DEEP (with ROW 1):
 * those of DEEP lines are made at once. BF: bf16. */
#ifdef BF
#extension GL_EXT_bfloat16 : require
#define HALF bfloat16_t
#define PAIR bf16vec2
#define PAIR_OF(w) uintBitsToBFloat16EXT(unpackUint2x16(w))
#else
#define HALF float16_t
#define PAIR f16vec2
#define PAIR_OF(w) unpackFloat2x16(w)
#endif
#include "common.glsl"
#include "conv.glsl"

layout(constant_id = 5) const uint SIDE_M = 1;
layout(constant_id = 6) const uint SIDE_N = 4;
layout(constant_id = 7) const uint SLICES = 1;
layout(constant_id = 8) const uint CM = 4;
layout(constant_id = 9) const uint CN = 2;
layout(constant_id = 10) const uint AHEAD = 0;
layout(constant_id = 11) const uint WIDE = 1; /* 8 or 4 pixels from a multiple on are aligned */
layout(constant_id = 12) const uint ROW = 1;
layout(constant_id = 13) const uint PLAIN = 0;
layout(constant_id = 14) const uint DEEP = 0;
/* Lengths of loops, never set: drivers unroll them, but the stored code stays small. */
layout(constant_id = 29) const uint TWO = 2;
layout(constant_id = 30) const uint FOUR = 4;
layout(constant_id = 31) const uint EIGHT = 8;

#define MATRIX_A coopmat<HALF, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA>
#define MATRIX_B coopmat<HALF, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB>
#define MATRIX_SUM coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>

/* Other views. */
layout(set = 0, binding = 0, std430) restrict readonly buffer buffer_x4 { uvec4 x4[]; };
layout(set = 0, binding = 0, std430) restrict readonly buffer buffer_x2 { uvec2 x2[]; };
layout(set = 0, binding = 0, std430) restrict readonly buffer buffer_x1 { uint x1[]; };
layout(set = 0, binding = 0, std430) restrict readonly buffer buffer_x16 { uint16_t x16[]; };
layout(set = 0, binding = 1, std430) restrict readonly buffer buffer_w4 { uvec4 w4[]; };
layout(set = 0, binding = 2, std430) buffer buffer_o4 { uvec4 o4[]; };
layout(set = 0, binding = 2, std430) buffer buffer_o2 { uvec2 o2[]; };
layout(set = 0, binding = 2, std430) buffer buffer_o16 { uint16_t o16[]; };
layout(set = 0, binding = 4, std430) restrict readonly buffer buffer_res4 { uvec4 res4[]; };
layout(set = 0, binding = 4, std430) restrict readonly buffer buffer_res2 { uvec2 res2[]; };

/* Slices meet with JOIN rows of fragments at a time: a workgroup must not need much memory. */
const uint JOIN = CM < 2 || SLICES > 4 ? 1 : 2, TILE = JOIN * CN * 8 * 32; /* sums of a subgroup */
shared float joined[SLICES > 1 ? SLICES * SIDE_M * SIDE_N * TILE : 1];

#define PUT_PAIR(matrix, e, word)        \
    {                                    \
        const PAIR pair_ = PAIR_OF(word); \
        matrix[2u * (e)] = pair_.x;      \
        matrix[2u * (e) + 1u] = pair_.y; \
    }
#define PUT(matrix, w0, w1, w2, w3)                                               \
    {                                                                             \
        PUT_PAIR(matrix, 0u, w0) PUT_PAIR(matrix, 1u, w1) PUT_PAIR(matrix, 2u, w2) \
        PUT_PAIR(matrix, 3u, w3)                                                  \
    }

const uint SPAN = ROW + 3; /* places that four neighbours see in a line */
const uint RX = CN / 2 * SPAN, RAW = PLAIN != 0 ? 4 * CN : 1; /* vectors of a line */
const uint LINES = DEEP > 0 ? DEEP : 1; /* in registers at a time */
uvec4 ra[LINES * 2 * CM], rx[LINES * RX];
uvec4 raw[LINES * RAW]; /* eight channels of four pixels each, as they came */
uint from_x[2 * CN], from_w; /* this lane's first vectors; elements of plain x */
MATRIX_SUM sum[CM * CN];

void fetch_w(uint step, uint slot)
{
    [[unroll]] for (uint i = 0u; i < CM; i++) {
        ra[slot * 2u * CM + i] = w4[from_w + step * 256u + i * 32u];
        ra[slot * 2u * CM + CM + i] = w4[from_w + step * 256u + 128u + i * 32u];
    }
}

/* Four pixels of one channel, `more` elements on. */
uvec4 load_four(uint q, uint more)
{
    if (PLAIN == 4u && TX == F32)
        return x4[(from_x[4u * q] + more) / 4u];
    if (PLAIN == 4u)
        return uvec4(x2[(from_x[4u * q] + more) / 4u], 0u, 0u);
    uvec4 v;
    [[unroll]] for (uint p = 0u; p < FOUR; p++)
        v[p] = TX == F32 ? x1[from_x[4u * q + p] + more] : uint(x16[from_x[4u * q + p] + more]);
    return v;
}

void fetch_x(uint line, uint slot)
{
    uint area = in_d * in_h * in_w;
    uint block = line / (TAPS / ROW), tap = line % (TAPS / ROW) * ROW;
    uint d = tap / (KH * KW) * uint(dilation_d), h = tap / KW % KH * uint(dilation_h);
    uint at = ((block * in_d + d) * in_h + h) * in_w + tap % KW * uint(dilation_w);
    [[unroll]] for (uint q = 0u; q < CN / 2u; q++) {
        if (PLAIN != 0u) {
            [[unroll]] for (uint k = 0u; k < EIGHT; k++)
                raw[slot * RAW + q * 8u + k] = load_four(q, (line * 32u + k) * area);
        } else {
            [[unroll]] for (uint k = 0u; k < SPAN; k++)
                rx[slot * RX + q * SPAN + k] =
                    x4[ROW > 1u ? from_x[4u * q] + (at + k) * 4u : from_x[4u * q + k] + at * 4u];
        }
    }
}

/* Pixel p of two channels, as 16 bits each. */
uint pair_of(uvec4 a, uvec4 b, uint p)
{
    if (TX == F32)
        return packFloat2x16(f16vec2(uintBitsToFloat(a[p]), uintBitsToFloat(b[p])));
    if (PLAIN == 1u)
        return a[p] | b[p] << 16;
    uint lo = a[p / 2u], hi = b[p / 2u];
    return p % 2u == 0u ? (lo & 0xffffu) | hi << 16 : lo >> 16 | (hi & 0xffff0000u);
}

void order_plain(uint slot)
{
    [[unroll]] for (uint q = 0u; q < CN / 2u; q++)
        [[unroll]] for (uint p = 0u; p < FOUR; p++)
            [[unroll]] for (uint k = 0u; k < FOUR; k++)
                rx[slot * RX + q * SPAN + p][k] =
                    pair_of(raw[slot * RAW + q * 8u + 2u * k],
                            raw[slot * RAW + q * 8u + 2u * k + 1u], p);
}

/* What tap `tap` of a line reads for column 8 (j % 2) + lane / 4 of fragment j / 2. */
#define SEEN(slot, j, tap) rx[(slot) * RX + (j) / 4u * SPAN + (j) % 4u + (tap)]

/* Fragments of a step of the line in a slot. */
#define FILL_STEP(fa, fb, slot, tap)                                                        \
    [[unroll]] for (uint i = 0u; i < 2u * CM; i++) {                                        \
        const uvec4 v_ = ra[(slot) * 2u * CM + i];                                          \
        PUT(fa[i], v_[0], v_[2], v_[1], v_[3])                                              \
    }                                                                                       \
    [[unroll]] for (uint j = 0u; j < CN; j++) {                                             \
        const uvec4 even_ = SEEN(slot, 2u * j, tap), odd_ = SEEN(slot, 2u * j + 1u, tap);   \
        PUT(fb[j], even_[0], even_[1], odd_[0], odd_[1])                                    \
        PUT(fb[CN + j], even_[2], even_[3], odd_[2], odd_[3])                               \
    }
#define MULTIPLY_STEP(fa, fb)                                                               \
    [[unroll]] for (uint u = 0u; u < TWO; u++)                                              \
        [[unroll]] for (uint j = 0u; j < CN; j++)                                           \
            [[unroll]] for (uint i = 0u; i < CM; i++)                                       \
                sum[j * CM + i] =                                                           \
                    coopMatMulAdd(fa[u * CM + i], fb[u * CN + j], sum[j * CM + i]);

/* Adds the products of lines first to end - 1. */
void multiply(uint first, uint end)
{
    if (AHEAD != 0u) {
        fetch_w(first * ROW, 0u);
        fetch_x(first, 0u);
    }
    [[dont_unroll]] for (uint line = first; line < end; line++) {
        if (AHEAD == 0u)
            fetch_x(line, 0u);
        [[unroll]] for (uint tap = 0u; tap < ROW; tap++) {
            MATRIX_A fa[2 * CM];
            MATRIX_B fb[2 * CN];
            uint step = line * ROW + tap;
            if (AHEAD == 0u)
                fetch_w(step, 0u);
            if (PLAIN != 0u)
                order_plain(0u);
            FILL_STEP(fa, fb, 0u, tap)
            if (AHEAD != 0u)
                fetch_w(min(step + 1u, end * ROW - 1u), 0u);
            if (AHEAD != 0u && tap + 1u == ROW)
                fetch_x(min(line + 1u, end - 1u), 0u);
            MULTIPLY_STEP(fa, fb)
        }
    }
}

/* The same, DEEP lines at a time; the barrier keeps the compiler from delaying loads. */
void multiply_deep(uint first, uint end)
{
    [[dont_unroll]] for (uint line = first; line < end; line += LINES) {
        [[unroll]] for (uint k = 0u; k < LINES; k++) {
            fetch_x(min(line + k, end - 1u), k);
            fetch_w(min(line + k, end - 1u), k);
        }
        subgroupBarrier();
        [[unroll]] for (uint k = 0u; k < LINES; k++) {
            if (line + k < end) {
                MATRIX_A fa[2 * CM];
                MATRIX_B fb[2 * CN];
                if (PLAIN != 0u)
                    order_plain(k);
                FILL_STEP(fa, fb, k, 0u)
                MULTIPLY_STEP(fa, fb)
            }
        }
    }
}

uint half2_of(float a, float b)
{
    return TOUT == F16 ? packFloat2x16(f16vec2(a, b)) : f32_to_bf16(a) | f32_to_bf16(b) << 16;
}

uvec2 half4_of(vec4 v) { return uvec2(half2_of(v.x, v.y), half2_of(v.z, v.w)); }

/* A lane has two times four neighbouring pixels of each 32: eight neighbours if that makes a vector
 * of the result, else such that lanes side by side write neighbours. */
const bool EIGHTS = WIDE == 8u && TOUT != F32 && SLICES == 1u;
const uint APART = EIGHTS ? 4u : 16u;

/* Elements of the first filter of group g at four pixels from `col` on; how many are there. */
uint find_four(uint g, uint col, out uint at[4])
{
    uint all = images * pixels;
    [[unroll]] for (uint e = 0u; e < FOUR; e++) {
        uint c = min(col + (WIDE == 1u ? e : 0u), all - 1u);
        at[e] = (c / pixels * groups * filters + g * filters) * pixels + c % pixels;
    }
    return min(max(all, col) - col, 4u);
}

/* Four pixels of the residual, `more` elements on. */
vec4 load_res(uint at[4], uint more)
{
    uint i = res_at + at[0] + more;
    if (TRES == 0u)
        return vec4(0.0);
    if (WIDE == 1u)
        return vec4(load_f_res(TRES, i), load_f_res(TRES, res_at + at[1] + more),
                    load_f_res(TRES, res_at + at[2] + more),
                    load_f_res(TRES, res_at + at[3] + more));
    if (TRES == F32)
        return uintBitsToFloat(res4[i / 4u]);
    uvec2 v = res2[i / 4u];
    if (TRES == F16)
        return vec4(unpackHalf2x16(v.x), unpackHalf2x16(v.y));
    return uintBitsToFloat(uvec4(v.x << 16, v.x & 0xffff0000u, v.y << 16, v.y & 0xffff0000u));
}

float load_added(uint f) { return TBIAS != 0u ? load_f_bias(TBIAS, bias_at + f) : 0.0; }

vec4 finish4(vec4 v, float added, vec4 r)
{
    v += added;
    if (ACT_LAST != 0u)
        v += r;
    v = vec4(apply_act(ACT, v.x), apply_act(ACT, v.y), apply_act(ACT, v.z), apply_act(ACT, v.w));
    return ACT_LAST != 0u ? v : v + r;
}

/* Four pixels of the result, `more` elements on, of which `count` are there. */
void store4(vec4 v, uint at[4], uint more, uint count)
{
    uint i = out_at + at[0] + more;
    if (WIDE >= 4u) {
        if (count > 0u && TOUT == F32)
            o4[i / 4u] = floatBitsToUint(v);
        else if (count > 0u)
            o2[i / 4u] = half4_of(v);
        return;
    }
    [[unroll]] for (uint e = 0u; e < FOUR; e++)
        if (e < count) {
            if (TOUT == F32)
                o[out_at + at[e] + more] = floatBitsToUint(v[e]);
            else
                o16[out_at + at[e] + more] = uint16_t(half2_of(v[e], 0.0));
        }
}

/* What the lane has of fragments j and j + 1: filters m, m + 8, ... of group g, two times four
 * pixels from `col` on. All of the residual is on its way before the first store. */
void write_pixels(uint j, uint g, uint m, uint col)
{
    uint at0[4], at1[4];
    uint count0 = find_four(g, col, at0), count1 = find_four(g, col + APART, at1);
    float added[2 * CM];
    vec4 r0[2 * CM], r1[2 * CM];
    [[unroll]] for (uint k = 0u; k < 2u * CM; k++) {
        uint f = min(m + 8u * k, filters - 1u);
        added[k] = load_added(g * filters + f);
        r0[k] = load_res(at0, f * pixels);
        r1[k] = load_res(at1, f * pixels);
    }
    [[unroll]] for (uint k = 0u; k < 2u * CM; k++) {
        uint f = m + 8u * k;
        vec4 v[2];
        [[unroll]] for (uint e = 0u; e < EIGHT; e++)
            v[e / 4u][e % 4u] =
                sum[(j + e / 2u % 2u) * CM + k / 2u][k % 2u * 4u + e % 2u * 2u + e / 4u];
        if (f < filters) {
            v[0] = finish4(v[0], added[k], r0[k]);
            v[1] = finish4(v[1], added[k], r1[k]);
            if (!EIGHTS) {
                store4(v[0], at0, f * pixels, count0);
                store4(v[1], at1, f * pixels, count1);
            } else if (count0 > 0u) {
                o4[(out_at + at0[0] + f * pixels) / 8u] = uvec4(half4_of(v[0]), half4_of(v[1]));
            }
        }
    }
}

/* The same with sums of several slices, JOIN rows of fragments from `first` on: all meet in shared
 * memory, and each slice writes its share of the fours of pixels. */
void write_joined(uint slice, uint first, uint g, uint m, uint col)
{
    const uint part = SIDE_M * SIDE_N * TILE;
    uint mine = gl_SubgroupID % (SIDE_M * SIDE_N) * TILE + gl_SubgroupInvocationID;
    barrier();
    [[unroll]] for (uint i = 0u; i < JOIN * CN; i++)
        [[unroll]] for (uint e = 0u; e < EIGHT; e++)
            joined[slice * part + mine + (i * 8u + e) * 32u] =
                sum[i / JOIN * CM + first + i % JOIN][e];
    barrier();
    [[dont_unroll]] for (uint four = slice; four < 2u * JOIN * CN; four += SLICES) {
        uint k = four % (2u * JOIN), h = four / (2u * JOIN), f = m + first * 16u + 8u * k, at[4];
        uint count = find_four(g, col + h * 16u, at), known = min(f, filters - 1u);
        float added = load_added(g * filters + known);
        vec4 r = load_res(at, known * pixels), v = vec4(0.0);
        [[unroll]] for (uint s = 0u; s < SLICES; s++)
            [[unroll]] for (uint e = 0u; e < FOUR; e++) {
                uint i = (h / 2u * 2u + e / 2u) * JOIN + k / 2u;
                uint own = k % 2u * 4u + e % 2u * 2u + h % 2u;
                v[e] += joined[s * part + mine + (i * 8u + own) * 32u];
            }
        if (f < filters)
            store4(finish4(v, added, r), at, f * pixels, count);
    }
}

void main()
{
    if (GROUP_INDEX >= n_items)
        return;
    const uint bm = SIDE_M * 16u * CM, bn = SIDE_N * 16u * CN;
    uint tiles_m = (filters + bm - 1u) / bm, tiles_n = (images * pixels + bn - 1u) / bn;
    uint m0 = GROUP_INDEX % tiles_m * bm + gl_SubgroupID % SIDE_M * 16u * CM;
    uint n0 = GROUP_INDEX / tiles_m % tiles_n * bn + gl_SubgroupID / SIDE_M % SIDE_N * 16u * CN;
    uint g = GROUP_INDEX / tiles_m / tiles_n, slice = gl_SubgroupID / (SIDE_M * SIDE_N);
    uint row = gl_SubgroupInvocationID / 4u, t = gl_SubgroupInvocationID % 4u;
    uint blocks = (channels + 31u) / 32u, lines = blocks * (TAPS / ROW);
    uint rows = (filters + 63u) / 64u;

    from_w = (g * rows + min(m0 / 64u, rows - 1u)) * blocks * TAPS * 256u + m0 % 64u * 2u +
             gl_SubgroupInvocationID;
    [[unroll]] for (uint j = 0u; j < 2u * CN; j++) {
        uint col = n0 + j / 4u * 32u + row / 2u * (EIGHTS ? 8u : 4u) + row % 2u * APART + j % 4u;
        col = min(col, images * pixels - (ROW > 1u || PLAIN == 4u ? 4u : 1u));
        uvec3 w = uvec3(find_window(col % pixels));
        uint part = col / pixels * groups + g;
        uint at = (w.x * in_h + w.y) * in_w + w.z;
        from_x[j] = (part * blocks * in_d * in_h * in_w + at) * 4u + t;
        if (PLAIN != 0u)
            from_x[j] = x_at + (part * channels + t * 8u) * in_d * in_h * in_w + at;
    }
    [[unroll]] for (uint i = 0u; i < CM * CN; i++)
        sum[i] = MATRIX_SUM(0.0);
    uint each = (lines + SLICES - 1u) / SLICES, first = min(slice * each, lines);
    uint end = min(first + each, lines);
    if (first < end && m0 < filters && n0 < images * pixels) {
        if (DEEP > 0u)
            multiply_deep(first, end);
        else
            multiply(first, end);
    }
    if (SLICES > 1u) {
        [[unroll]] for (uint i = 0u; i < CM; i += JOIN)
            write_joined(slice, i, g, m0 + row, n0 + t * 4u);
        return;
    }
    if (m0 + row >= filters)
        return;
    [[unroll]] for (uint j = 0u; j < CN; j += 2u)
        write_pixels(j, g, m0 + row, n0 + j * 16u + t * (EIGHTS ? 8u : 4u));
}
