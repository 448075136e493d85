/* SPDX-License-Identifier: MIT */
/* Shared by products on cooperative matrices: types, and writing eight finished results. */
#ifndef COOPMAT_GLSL
#define COOPMAT_GLSL

#ifdef BF
#define HALF bfloat16_t
#else
#define HALF float16_t
#endif
#ifdef ANY_SHAPE /* MM, NN and KK are constants of the kernel */
#define MATRIX_A coopmat<HALF, gl_ScopeSubgroup, MM, KK, gl_MatrixUseA>
#define MATRIX_B coopmat<HALF, gl_ScopeSubgroup, KK, NN, gl_MatrixUseB>
#define MATRIX_SUM coopmat<float, gl_ScopeSubgroup, MM, NN, gl_MatrixUseAccumulator>
#else
#define MATRIX_A coopmat<HALF, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA>
#define MATRIX_B coopmat<HALF, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB>
#define MATRIX_SUM coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>
#endif

#include "product.glsl"

/* Other views of the result. */
layout(SLOT(o), std430) buffer buffer_o4 { uvec4 o4[]; };
layout(SLOT(o), std430) buffer buffer_o16 { uint16_t o16[]; };

uint half2_of(float x, float y)
{
    return TOUT == F16 ? packFloat2x16(f16vec2(x, y)) : f32_to_bf16(x) | f32_to_bf16(y) << 16;
}

/* Finishes and writes the results (row, col) to (row, col + 7), as far as they exist. */
void finish8(float v[8], uint row, uint col, Batch at)
{
    if (row >= m || col >= n)
        return;
    [[unroll]] for (uint j = 0u; j < EIGHT; j++)
        if (WIDE != 0u || col + j < n)
            v[j] = finish(v[j], row, col + j, at.res);
    uint i = at.o + row * n + col;
    if (TOUT == F32) {
        if (WIDE != 0u) {
            o4[i / 4u] = floatBitsToUint(vec4(v[0], v[1], v[2], v[3]));
            o4[i / 4u + 1u] = floatBitsToUint(vec4(v[4], v[5], v[6], v[7]));
        } else {
            [[unroll]] for (uint j = 0u; j < EIGHT; j++)
                if (col + j < n)
                    o[i + j] = floatBitsToUint(v[j]);
        }
        return;
    }
    uvec4 h = uvec4(half2_of(v[0], v[1]), half2_of(v[2], v[3]), half2_of(v[4], v[5]),
                    half2_of(v[6], v[7]));
    if (WIDE != 0u) {
        o4[i / 8u] = h;
    } else {
        [[unroll]] for (uint j = 0u; j < EIGHT; j++)
            if (col + j < n)
                o16[i + j] = uint16_t(h[j / 2u] >> (j % 2u * 16u));
    }
}

#endif
