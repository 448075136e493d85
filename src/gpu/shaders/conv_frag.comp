/* SPDX-License-Identifier: MIT */
#version 450
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_EXT_shader_explicit_arithmetic_types_int16 : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_vote : require
#extension GL_KHR_shader_subgroup_shuffle : require
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
 * those of DEEP lines are made at once. BF: bf16.
 *
 * GUARD: x is f32, and f16 may not hold what a pixel sees of it (range.glsl). Then the sums of all
 * filters are too small or not finite at that pixel, which is looked at for the first of them:
 * filters come with the least sum that is not suspicious. The tile is done once more where there is
 * such a pixel, from plain x times a power of two for each pixel. */
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
#define PACKED_X
#include "common.glsl"
#include "conv_frag.def"
#include "conv.glsl"
#include "range.glsl"

#define MATRIX_A coopmat<HALF, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA>
#define MATRIX_B coopmat<HALF, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB>
#define MATRIX_SUM coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>

/* Other views. */
layout(SLOT(x), std430) restrict readonly buffer buffer_x4 { uvec4 x4[]; };
layout(SLOT(x), std430) restrict readonly buffer buffer_x2 { uvec2 x2[]; };
layout(SLOT(x), std430) restrict readonly buffer buffer_x1 { uint x1[]; };
layout(SLOT(x), std430) restrict readonly buffer buffer_x16 { uint16_t x16[]; };
layout(SLOT(w), std430) restrict readonly buffer buffer_w4 { uvec4 w4[]; };
layout(SLOT(w), std430) restrict readonly buffer buffer_w1 { uint w1[]; };
layout(SLOT(plain), std430) restrict readonly buffer buffer_plain { float plain[]; };
layout(SLOT(o), std430) buffer buffer_o4 { uvec4 o4[]; };
layout(SLOT(o), std430) buffer buffer_o2 { uvec2 o2[]; };
layout(SLOT(o), std430) buffer buffer_o16 { uint16_t o16[]; };
layout(SLOT(res), std430) restrict readonly buffer buffer_res4 { uvec4 res4[]; };
layout(SLOT(res), std430) restrict readonly buffer buffer_res2 { uvec2 res2[]; };

/* Slices are joined JOIN rows of fragments at a time, to limit shared memory. */
const uint JOIN = CM < 2 || SLICES > 4 ? 1 : 2, TILE = JOIN * CN * 8 * 32; /* sums of a subgroup */
shared float joined[SLICES > 1 ? SLICES * SIDE_M * SIDE_N * TILE : 1];
shared uint sound[SIDE_M * SIDE_N]; /* pixels of a tile with a sum that is not suspicious */

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

const uint SPAN = ROW + 3; /* elements that four adjacent pixels use of a line */
const uint RX = CN / 2 * SPAN, RAW = PLAIN != 0 ? 4 * CN : 1; /* vectors of a line */
const uint LINES = DEEP > 0 ? DEEP : 1; /* in registers at a time */
uvec4 ra[LINES * 2 * CM], rx[LINES * RX];
uvec4 raw[LINES * RAW]; /* eight channels of four pixels each, as loaded */
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

/* The same, DEEP lines at a time; the barrier keeps the compiler from sinking loads. */
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

/* ---- Numbers that f16 does not hold ---------------------------------------------------------- */

/* e and the least sum of filter f of group g. */
uint table_at(uint g, uint f)
{
    const uint rows = (filters + 63u) / 64u, size = (channels + 31u) / 32u * TAPS * 256u;
    return ((g * rows + f / 64u) * (size + 32u) + size) * 4u + f % 64u;
}
int filter_power(uint g, uint f) { return int(w1[table_at(g, f)]); }
float least_sum(uint g, uint f) { return uintBitsToFloat(w1[table_at(g, f) + 64u]); }

bool is_sound(float x, float least) { return abs(x) >= least && abs(x) < 3.3e38; }

/* Whether some pixel of this subgroup is suspicious, judged by its first 16 filters, m of group g
 * on. */
bool is_outside(uint g, uint m)
{
    const uint row = gl_SubgroupInvocationID / 4u;
    const float near = least_sum(g, m + row), far = least_sum(g, m + row + 8u);
    uint good = 0u;
    [[unroll]] for (uint j = 0u; j < CN; j++)
        [[unroll]] for (uint e = 0u; e < FOUR; e++)
            good |= uint(is_sound(sum[j * CM][e], near) || is_sound(sum[j * CM][e + 4u], far))
                    << (j * 4u + e);
    good |= subgroupShuffleXor(good, 4u);
    good |= subgroupShuffleXor(good, 8u);
    good |= subgroupShuffleXor(good, 16u);
    return subgroupAny(good != (1u << 4u * CN) - 1u);
}

/* A lane has two times four adjacent pixels of each 32: eight adjacent ones if that makes a vector
 * of the result, else such that adjacent lanes store adjacent vectors. */
const bool EIGHTS = WIDE == 8u && TOUT != F32 && SLICES == 1u;
const uint APART = EIGHTS ? 4u : 16u;

/* The j-th pixel that this lane loads for, of those from n on. */
uint find_column(uint n, uint j)
{
    const uint row = gl_SubgroupInvocationID / 4u;
    const uint col = n + j / 4u * 32u + row / 2u * (EIGHTS ? 8u : 4u) + row % 2u * APART;
    if (ROW > 1u || PLAIN == 4u) /* four neighbours exist, or none */
        return min(col, images * pixels - 4u) + j % 4u;
    return min(col + j % 4u, images * pixels - 1u);
}

/* The image and window of column c of a tile in group g of plain x. */
struct Sight {
    uint first;
    ivec3 window;
};

Sight find_sight(uint g, uint col)
{
    const uint area = plain_d * plain_h * plain_w;
    return Sight(x_at + (col / pixels * groups + g) * (channels / FOLD) * area,
                 find_window(col % pixels));
}

/* The elements at a tap of a pixel's window, in this lane's eight channels of a block. */
void see(Sight s, uint block, uint tap, out float v[8])
{
    const uvec3 size = uvec3(plain_d, plain_h, plain_w);
    const ivec3 t = ivec3(tap / (KH * KW), tap / KW % KH, tap % KW);
    const ivec3 at = s.window + t * ivec3(dilation_d, dilation_h, dilation_w);
    [[unroll]] for (uint k = 0u; k < EIGHT; k++) {
        uint c = block * 32u + gl_SubgroupInvocationID % 4u * 8u + k;
        uvec3 p = uvec3(at + ivec3(0, 0, int(c % FOLD) * dilation_w));
        bool there = c < channels && all(lessThan(p, size));
        uint i = ((c / FOLD * size.x + p.x) * size.y + p.y) * size.z + p.z;
        v[k] = there ? plain[s.first + i] : 0.0;
    }
}

int power[2 * CN]; /* exponents of those pixels */

/* Finds them for lines first to end - 1; false if all are 0. */
bool find_powers(uint g, uint n, uint first, uint end)
{
    int any_pixel = 0;
    [[dont_unroll]] for (uint j = 0u; j < 2u * CN; j++) {
        const Sight s = find_sight(g, find_column(n, j));
        uint top = 0u;
        [[dont_unroll]] for (uint step = first * ROW; step < end * ROW; step++) {
            float v[8];
            see(s, step / TAPS, step % TAPS, v);
            [[unroll]] for (uint k = 0u; k < EIGHT; k++)
                top = max(top, range_bits(v[k]));
        }
        top = max(top, subgroupShuffleXor(top, 1u));
        top = max(top, subgroupShuffleXor(top, 2u));
        power[j] = range_exponent(top);
        any_pixel |= power[j];
    }
    return subgroupAny(any_pixel != 0);
}

/* multiply() from plain x with these exponents. */
void multiply_scaled(uint g, uint n, uint first, uint end)
{
    [[dont_unroll]] for (uint step = first * ROW; step < end * ROW; step++) {
        MATRIX_A fa[2 * CM];
        MATRIX_B fb[2 * CN];
        fetch_w(step, 0u);
        [[unroll]] for (uint j = 0u; j < 2u * CN; j++) {
            const float by = range_power(-power[j]);
            float v[8];
            see(find_sight(g, find_column(n, j)), step / TAPS, step % TAPS, v);
            [[unroll]] for (uint k = 0u; k < FOUR; k++)
                rx[j / 4u * SPAN + j % 4u][k] =
                    packFloat2x16(f16vec2(v[2u * k] * by, v[2u * k + 1u] * by));
        }
        FILL_STEP(fa, fb, 0u, 0u)
        MULTIPLY_STEP(fa, fb)
    }
}

/* Undoes the exponents of sums; filters from m on. */
void restore_sums(uint g, uint m)
{
    const uint row = gl_SubgroupInvocationID / 4u, t = gl_SubgroupInvocationID % 4u;
    [[unroll]] for (uint e = 0u; e < EIGHT; e++)
        [[unroll]] for (uint j = 0u; j < CN; j++) {
            const int own = subgroupShuffle(power[2u * j + e / 2u % 2u], (2u * t + e % 2u) * 4u);
            [[unroll]] for (uint i = 0u; i < CM; i++) {
                const uint f = min(m + i * 16u + row + e / 4u * 8u, filters - 1u);
                sum[j * CM + i][e] = range_restore(sum[j * CM + i][e], own + filter_power(g, f));
            }
        }
}

/* Whether this subgroup's filters, from m on, have exponents. */
bool has_powers(uint g, uint m)
{
    int any_filter = 0;
    for (uint i = gl_SubgroupInvocationID; i < 16u * CM; i += 32u)
        any_filter |= filter_power(g, min(m + i, filters - 1u));
    return subgroupAny(any_filter != 0);
}

void clear_sums()
{
    [[unroll]] for (uint i = 0u; i < CM * CN; i++)
        sum[i] = MATRIX_SUM(0.0);
}

void clear_powers()
{
    [[unroll]] for (uint j = 0u; j < 2u * CN; j++)
        power[j] = 0;
}

/* ---- Results --------------------------------------------------------------------------------- */

uint half2_of(float a, float b)
{
    return TOUT == F16 ? packFloat2x16(f16vec2(a, b)) : f32_to_bf16(a) | f32_to_bf16(b) << 16;
}

uvec2 half4_of(vec4 v) { return uvec2(half2_of(v.x, v.y), half2_of(v.z, v.w)); }

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

/* Stores fragments j and j + 1 of this lane: filters m, m + 8, ... of group g, two times four
 * pixels from `col` on. All loads of the residual are in flight before the first store. */
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

/* Stores sums of JOIN rows of fragments from `first` on to shared memory, for joining slices. */
void store_joined(uint slice, uint first)
{
    const uint mine = gl_SubgroupID % (SIDE_M * SIDE_N) * TILE + gl_SubgroupInvocationID;
    barrier();
    [[unroll]] for (uint i = 0u; i < JOIN * CN; i++)
        [[unroll]] for (uint e = 0u; e < EIGHT; e++)
            joined[slice * SIDE_M * SIDE_N * TILE + mine + (i * 8u + e) * 32u] =
                sum[i / JOIN * CM + first + i % JOIN][e];
    barrier();
}

/* The h-th four pixels of the lane for the k-th of its filters, summed over the slices. */
vec4 sum_joined(uint k, uint h)
{
    const uint part = SIDE_M * SIDE_N * TILE;
    const uint mine = gl_SubgroupID % (SIDE_M * SIDE_N) * TILE + gl_SubgroupInvocationID;
    vec4 v = vec4(0.0);
    [[unroll]] for (uint s = 0u; s < SLICES; s++)
        [[unroll]] for (uint e = 0u; e < FOUR; e++) {
            uint i = (h / 2u * 2u + e / 2u) * JOIN + k / 2u;
            uint own = k % 2u * 4u + e % 2u * 2u + h % 2u;
            v[e] += joined[s * part + mine + (i * 8u + own) * 32u];
        }
    return v;
}

/* Whether some pixel of the workgroup is suspicious, by the first JOIN rows of fragments, which are
 * in shared memory, or some filter has an exponent. CN is 2. */
bool is_joined_outside(uint slice, uint g, uint m, uint col, bool is_there)
{
    const uint place = gl_SubgroupID % (SIDE_M * SIDE_N), t = gl_SubgroupInvocationID % 4u;
    const bool plain_filters = is_there && !has_powers(g, m - gl_SubgroupInvocationID / 4u);
    uint good = is_there ? 0u : 0xffffffffu;
    [[dont_unroll]] for (uint four = slice; plain_filters && four < 2u * JOIN * CN;
                         four += SLICES) {
        uint k = four % (2u * JOIN), h = four / (2u * JOIN), f = m + 8u * k, at[4];
        uint count = find_four(g, col + h * 16u, at);
        float least = f < filters ? least_sum(g, f) : 3.4e38;
        vec4 v = sum_joined(k, h);
        [[unroll]] for (uint e = 0u; e < FOUR; e++)
            good |= uint(e >= count || is_sound(v[e], least)) << (h * 16u + t * 4u + e);
    }
    atomicOr(sound[place], good);
    barrier();
    uint all_good = 0xffffffffu;
    for (uint i = 0u; i < SIDE_M * SIDE_N; i++)
        all_good &= sound[i];
    return all_good != 0xffffffffu;
}

/* Writes what store_joined() has stored: each slice a share of the pixels. */
void write_joined(uint slice, uint first, uint g, uint m, uint col)
{
    [[dont_unroll]] for (uint four = slice; four < 2u * JOIN * CN; four += SLICES) {
        uint k = four % (2u * JOIN), h = four / (2u * JOIN), f = m + first * 16u + 8u * k, at[4];
        uint count = find_four(g, col + h * 16u, at), known = min(f, filters - 1u);
        float added = load_added(g * filters + known);
        vec4 r = load_res(at, known * pixels), v = sum_joined(k, h);
        if (f < filters)
            store4(finish4(v, added, r), at, f * pixels, count);
    }
}

/* Recomputes with exponents where f16 overflows or underflows, then restores the sums. */
void mend(uint g, uint m, uint n, uint first, uint end, bool outside)
{
    clear_powers();
    const bool again = outside && find_powers(g, n, first, end);
    if (again) {
        clear_sums();
        multiply_scaled(g, n, first, end);
    }
    if (again || has_powers(g, m))
        restore_sums(g, m);
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

    from_w = (g * rows + min(m0 / 64u, rows - 1u)) * (blocks * TAPS * 256u + 32u) + m0 % 64u * 2u +
             gl_SubgroupInvocationID;
    [[unroll]] for (uint j = 0u; j < 2u * CN; j++) {
        uint col = find_column(n0, j), part = col / pixels * groups + g;
        /* Packed x contains its padding; where a window is one element, skipped elements are left
         * out. */
        const bool apart = PLAIN != 0u;
        uvec3 w = uvec3(find_pixel(col % pixels)) *
                  uvec3(KD > 1u || apart ? stride_d : 1, KH > 1u || apart ? stride_h : 1,
                        KW > 1u || apart ? stride_w : 1);
        uint at = (w.x * in_h + w.y) * in_w + w.z;
        from_x[j] = (part * blocks * in_d * in_h * in_w + at) * 4u + t;
        if (PLAIN != 0u)
            from_x[j] = x_at + (part * channels + t * 8u) * in_d * in_h * in_w + at;
    }
    clear_sums();
    uint each = (lines + SLICES - 1u) / SLICES, first = min(slice * each, lines);
    uint end = min(first + each, lines);
    const bool is_there = m0 < filters && n0 < images * pixels;
    if (first < end && is_there) {
        if (DEEP > 0u)
            multiply_deep(first, end);
        else
            multiply(first, end);
        if (SLICES == 1u && GUARD != 0u)
            mend(g, m0, n0, first, end, is_outside(g, m0));
    }
    if (SLICES > 1u) {
        bool is_stored = false;
        if (LANE < SIDE_M * SIDE_N)
            sound[LANE] = 0u;
        if (GUARD != 0u) {
            store_joined(slice, 0u);
            is_stored = !is_joined_outside(slice, g, m0 + row, n0 + t * 4u, is_there);
            if (!is_stored && first < end && is_there)
                mend(g, m0, n0, first, end, true);
        }
        [[unroll]] for (uint i = 0u; i < CM; i += JOIN) {
            if (i > 0u || !is_stored)
                store_joined(slice, i);
            write_joined(slice, i, g, m0 + row, n0 + t * 4u);
        }
        return;
    }
    if (m0 + row >= filters)
        return;
    [[unroll]] for (uint j = 0u; j < CN; j += 2u)
        write_pixels(j, g, m0 + row, n0 + j * 16u + t * (EIGHTS ? 8u : 4u));
}
