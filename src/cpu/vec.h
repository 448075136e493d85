/* SPDX-License-Identifier: MIT */
/* Vectors of one instruction set under one set of names, for the kernels in cpu/fast. The including
 * file defines one of RX_VEC_AVX512, RX_VEC_AVX2, RX_VEC_NEON, RX_VEC_WASM.
 *
 *   vf  VF floats        vi  VF int32        vm  VF truths
 *
 * Everywhere n in a *_part function is 0 to VF lanes: loads put zero into the others, stores leave
 * the others alone, and no memory past the n lanes is touched. Memory needs the alignment of its
 * element only.
 *
 *   vf_set1 vf_zero vf_load vf_store vf_load_part vf_store_part   floats
 *   vf_stream: a store that leaves the caches alone, aligned to a vector   vf_stream_end: after
 *      the last one, before others read
 *   vf_load_f16 vf_load_bf16 [_part], vf_store_f16 vf_store_bf16 [_part]   halves; nearest even
 *   vf_add vf_sub vf_mul vf_div vf_sqrt vf_neg vf_abs
 *   vf_fma(a, b, c) = a * b + c   vf_fnma(a, b, c) = c - a * b
 *      rounded once; on WASM twice
 *   vf_min(a, b) = a < b ? a : b   vf_max(a, b) = a > b ? a : b   (so b where one is a NaN)
 *   vf_round (half to even) vf_floor vf_ceil vf_trunc
 *   vf_lt vf_le vf_gt vf_ge vf_eq vf_ne -> vm (ne is true for NaN, the others are false)
 *   vf_copysign(a, b): magnitude of a, sign of b
 *   vf_sel(m, a, b) = m ? a : b   vi_sel   vm_and vm_or vm_not vm_any vm_all
 *   vm_first(n): the first n lanes
 *   vi_set1 vi_load vi_store vi_load_part vi_store_part
 *   vi_load_u8 vi_load_s8: VF bytes, one in each lane   vi_store_s8: lanes of -128 to 127
 *   vi_load_table: 16 bytes   vi_lookup(table, index): the one for each byte of index, 0 to 15
 *   vi_add vi_sub vi_mul (low half) vi_min vi_max vi_and vi_or vi_xor vi_eq vi_gt
 *   vi_shl vi_shr (fills with the sign) vi_shr_u (fills with zero), by a constant
 *   vi_shift(a, n): n bits to the left, or -n to the right (fills with zero)
 *   vi_of_vf (half to even) vi_trunc_vf vf_of_vi   vi_bits_vf vf_bits_vi: the same bits
 *   vf_ldexp(a, n) = a * 2^n for whole n of at most 252, rounded where the result is subnormal
 *   vf_gather(base, index): base[index[i]], any index in 32 bits
 *   vf_hsum vf_hmax vf_hmin: over the lanes; the sum by halves, always in the same order
 *   vf_hsum4(a, to): the sums of a[0..3], in an order of its own
 *   vi_hsum
 *   vh: VF / 2 floats, with vh_set1 vh_add vh_fma vh_load_part vh_store_part. RX_VEC_HALF: 1
 *      where they are faster; else a vh is a vf
 *   vf_swap(a): neighbours exchanged, a1 a0 a3 a2 ...
 *   vf_spread(a, &lo, &hi): every lane twice, a0 a0 a1 a1 ... over two vectors
 *   vf_transpose(r): the VF x VF matrix of vectors r[0..VF-1], in place
 *   vf_unzip(a, b, to): the 2 VF lanes of a and b, those with an even index to to[0], the others
 *      to to[1]. vf_zip(a, b, to): the other way round
 *   RX_VEC_SLIDE: 1 where vf_slide(a, b, n), the lanes of a from n on and then those of b, is
 *      faster than a load that is not aligned; n is 1 to 4
 *   vi_dot_u8s8(acc, u, s): acc + the sum of four products of u8 and s8 in each lane, exact
 *   vi_dot_u7s8: the same for u below 128, where that is faster
 */
#ifndef RX_CPU_VEC_H
#define RX_CPU_VEC_H

#include <stdint.h>
#include <string.h>

#define RX_INLINE static inline __attribute__((always_inline, unused))

/* Before a loop of constant length over registers. A sanitized build has none: gcc warns of an
 * annotation that it cannot keep because the sanitizer's checks are part of the loop's bound. */
#if defined(RX_SANITIZED)
#define RX_UNROLL
#elif defined(__clang__)
#define RX_UNROLL _Pragma("unroll")
#else
#define RX_UNROLL _Pragma("GCC unroll 64")
#endif

#if defined(RX_VEC_AVX512)
#include "cpu/vec/avx512.h"
#elif defined(RX_VEC_AVX2)
#include "cpu/vec/avx2.h"
#elif defined(RX_VEC_NEON)
#include "cpu/vec/neon.h"
#elif defined(RX_VEC_WASM)
#include "cpu/vec/wasm.h"
#endif

#if !defined(RX_VEC_PARTS)
RX_INLINE vi vi_load_part(const void *p, int n)
{
    int32_t room[VF] = {0};
    memcpy(room, p, (size_t)n * sizeof *room);
    return vi_load(room);
}
RX_INLINE void vi_store_part(void *p, vi a, int n)
{
    int32_t room[VF];
    vi_store(room, a);
    memcpy(p, room, (size_t)n * sizeof *room);
}
RX_INLINE vf vf_load_part(const float *p, int n) { return vf_bits_vi(vi_load_part(p, n)); }
RX_INLINE void vf_store_part(float *p, vf a, int n) { vi_store_part(p, vi_bits_vf(a), n); }
#endif

#if !defined(RX_VEC_HALF)
#define RX_VEC_HALF 0
typedef vf vh;
RX_INLINE vh vh_set1(float x) { return vf_set1(x); }
RX_INLINE vh vh_add(vh a, vh b) { return vf_add(a, b); }
RX_INLINE vh vh_fma(vh a, vh b, vh c) { return vf_fma(a, b, c); }
RX_INLINE vh vh_load_part(const float *p, int n) { return vf_load_part(p, n); }
RX_INLINE void vh_store_part(float *p, vh a, int n) { vf_store_part(p, a, n); }
#endif

#if !defined(RX_VEC_HSUM4)
RX_INLINE void vf_hsum4(const vf a[4], float to[4])
{
    for (int i = 0; i < 4; i++)
        to[i] = vf_hsum(a[i]);
}
#endif

#if !defined(RX_VEC_LDEXP)
/* In two factors, so that results near the ends of the range neither overflow nor vanish early. */
RX_INLINE vf vf_ldexp(vf a, vf n)
{
    const vi k = vi_of_vf(n), half = vi_shr(k, 1);
    const vf s0 = vf_bits_vi(vi_shl(vi_add(half, vi_set1(127)), 23));
    const vf s1 = vf_bits_vi(vi_shl(vi_add(vi_sub(k, half), vi_set1(127)), 23));
    return vf_mul(vf_mul(a, s0), s1);
}
#endif

RX_INLINE vf vf_zero(void) { return vf_set1(0); }
RX_INLINE vf vf_neg(vf a) { return vf_bits_vi(vi_xor(vi_bits_vf(a), vi_set1(INT32_MIN))); }
RX_INLINE vf vf_abs(vf a) { return vf_bits_vi(vi_and(vi_bits_vf(a), vi_set1(INT32_MAX))); }

RX_INLINE vf vf_copysign(vf a, vf b)
{
    vi sign = vi_and(vi_bits_vf(b), vi_set1(INT32_MIN));
    return vf_bits_vi(vi_or(vi_bits_vf(vf_abs(a)), sign));
}

/* The low 16 bits of each lane: a bf16, rounded to nearest even; NaN stays NaN. */
RX_INLINE vi rx_vec_to_bf16(vf a)
{
    vi bits = vi_bits_vf(a);
    vi odd = vi_and(vi_shr_u(bits, 16), vi_set1(1));
    vi rounded = vi_shr_u(vi_add(bits, vi_add(odd, vi_set1(0x7fff))), 16);
    vi nan = vi_or(vi_shr_u(bits, 16), vi_set1(0x40));
    return vi_sel(vf_ne(a, a), nan, rounded);
}

RX_INLINE vf vf_load_bf16(const uint16_t *p) { return vf_bits_vi(vi_shl(rx_vec_load_u16(p), 16)); }
RX_INLINE vf vf_load_bf16_part(const uint16_t *p, int n)
{
    return vf_bits_vi(vi_shl(rx_vec_load_u16_part(p, n), 16));
}
RX_INLINE void vf_store_bf16(uint16_t *p, vf a) { rx_vec_store_u16(p, rx_vec_to_bf16(a)); }
RX_INLINE void vf_store_bf16_part(uint16_t *p, vf a, int n)
{
    rx_vec_store_u16_part(p, rx_vec_to_bf16(a), n);
}

#endif
