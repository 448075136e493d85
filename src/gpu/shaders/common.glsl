/* SPDX-License-Identifier: MIT */
/* Included by every kernel, before its .def: the compiler of the kernels (tools/kernels) replaces
 * that line by the constants, the push block and BIND_* of the kernel's family.
 *
 * The portable subset (prints as WGSL): 32-bit types only; storage buffers of uint (or uvec4)
 * words, one view a binding; parameters as push constants of 32-bit members, at most 128 bytes;
 * specialisation constants for types, tile sizes and options; barriers only
 * under conditions made of push constants, workgroup ids and specialisation constants; guard
 * stores, not whole bodies, and never `return` before a barrier; no assumption on the subgroup
 * size; finite constants; no `coherent`.
 *
 * Tensors of 8- and 16-bit elements are read and written as words: one invocation makes a whole
 * word of the result (PER_WORD elements), so no two invocations ever write the same word. */
#ifndef COMMON_GLSL
#define COMMON_GLSL

layout(local_size_x_id = 0, local_size_x = 64, local_size_y = 1, local_size_z = 1) in;

#include "dtype.def"
#include "loops.def"

/* Index of the workgroup in a grid folded to three axes. */
#define GROUP_INDEX                                                                      \
    (gl_WorkGroupID.x +                                                                  \
     gl_NumWorkGroups.x * (gl_WorkGroupID.y + gl_NumWorkGroups.y * gl_WorkGroupID.z))
#define LANE gl_LocalInvocationID.x
#define GLOBAL_INDEX (GROUP_INDEX * gl_WorkGroupSize.x + LANE)

#ifdef CHAIN /* earlier dispatches write while this one runs */
#define SHARED_BUFFER coherent buffer
#else
#define SHARED_BUFFER buffer
#endif

/* The binding of a BIND row of the kernel's .def; declarations as words, or as another view. */
#define SLOT(bind) set = 0, binding = BIND_##bind
#define VIEW(bind, type, name) \
    layout(SLOT(bind), std430) SHARED_BUFFER buffer_##name { type name[]; }
#define WORDS(name) VIEW(name, uint, name)
#define WORDS4(name) VIEW(name, uvec4, name)

/* Elements in a word of type t (i64: half). */
uint per_word(uint t)
{
    return t == F16 || t == BF16 ? 2u : t == I8 || t == U8 || t == BOOL ? 4u : 1u;
}

float bf16_to_f32(uint h) { return uintBitsToFloat(h << 16); }

/* Rounds to nearest even; NaN stays NaN. */
uint f32_to_bf16(float x)
{
    uint u = floatBitsToUint(x);
    if ((u & 0x7fffffffu) > 0x7f800000u)
        return (u >> 16) | 0x40u;
    return (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
}

/* Rounds to nearest even, which packHalf2x16 does not promise; overflow gives infinity. */
uint f32_to_f16(float x)
{
    uint u = floatBitsToUint(x);
    uint sign = (u >> 16) & 0x8000u;
    uint a = u & 0x7fffffffu;
    if (a > 0x7f800000u)
        return sign | 0x7e00u;
    if (a >= 0x477ff000u)
        return sign | 0x7c00u;
    if (a < 0x38800000u) { /* subnormal result: let the float adder round at 2^-24 */
        float r = uintBitsToFloat(a) + 0.5;
        return sign | (floatBitsToUint(r) - 0x3f000000u);
    }
    return sign | ((a - 0x38000000u + 0xfffu + ((a >> 13) & 1u)) >> 13);
}

/* Element i of a binding as float or int. T is a constant, so the branches fold away. */
#define DEFINE_LOAD(name)                                                                  \
    float load_f_##name(uint t, uint i)                                                    \
    {                                                                                      \
        if (t == F32)                                                                      \
            return uintBitsToFloat(name[i]);                                               \
        if (t == F16) {                                                                    \
            vec2 h = unpackHalf2x16(name[i >> 1]);                                         \
            return (i & 1u) == 0u ? h.x : h.y;                                             \
        }                                                                                  \
        if (t == BF16)                                                                     \
            return bf16_to_f32((name[i >> 1] >> ((i & 1u) * 16u)) & 0xffffu);              \
        return float(load_i_raw_##name(t, i));                                             \
    }
#define DEFINE_LOAD_INT(name)                                                              \
    int load_i_raw_##name(uint t, uint i)                                                  \
    {                                                                                      \
        if (t == I32)                                                                      \
            return int(name[i]);                                                           \
        if (t == I64)                                                                      \
            return int(name[i * 2u]);                                                      \
        if (t == I8)                                                                       \
            return bitfieldExtract(int(name[i >> 2]), int((i & 3u) * 8u), 8);              \
        return int((name[i >> 2] >> ((i & 3u) * 8u)) & 0xffu);                             \
    }
/* A readable binding: WORDS plus load_f_x(type, i) and load_i_raw_x(type, i). */
#define TENSOR(name)      \
    WORDS(name);          \
    DEFINE_LOAD_INT(name) \
    DEFINE_LOAD(name)

/* The bits of one element of type t in the low end of a word. */
uint encode_f(uint t, float x)
{
    if (t == F16)
        return f32_to_f16(x);
    if (t == BF16)
        return f32_to_bf16(x);
    return floatBitsToUint(x);
}

uint encode_i(uint t, int x)
{
    if (t == I8 || t == U8)
        return uint(x) & 0xffu;
    if (t == BOOL)
        return x != 0 ? 1u : 0u;
    return uint(x);
}

uint bits_of(uint t) { return 32u / per_word(t); }

#endif
