/* SPDX-License-Identifier: MIT */
/* cpu/vec.h on AVX-512 (F, BW, DQ, VL; VNNI where the compiler has it): 16 lanes. */
#ifndef RX_CPU_VEC_AVX512_H
#define RX_CPU_VEC_AVX512_H

#include <immintrin.h>

#define VF 16
typedef __m512 vf;
typedef __m512i vi;
typedef __mmask16 vm;

RX_INLINE vm vm_first(int n) { return (vm)((1u << n) - 1); }
RX_INLINE vm vm_and(vm a, vm b) { return a & b; }
RX_INLINE vm vm_or(vm a, vm b) { return a | b; }
RX_INLINE vm vm_not(vm a) { return (vm)~a; }
RX_INLINE int vm_any(vm a) { return a != 0; }
RX_INLINE int vm_all(vm a) { return a == 0xffff; }

RX_INLINE vf vf_set1(float x) { return _mm512_set1_ps(x); }
RX_INLINE vf vf_load(const float *p) { return _mm512_loadu_ps(p); }
RX_INLINE void vf_store(float *p, vf a) { _mm512_storeu_ps(p, a); }
#define RX_VEC_PARTS 1
RX_INLINE vf vf_load_part(const float *p, int n) { return _mm512_maskz_loadu_ps(vm_first(n), p); }
RX_INLINE void vf_store_part(float *p, vf a, int n) { _mm512_mask_storeu_ps(p, vm_first(n), a); }

RX_INLINE void vf_stream(float *p, vf a) { _mm512_stream_ps(p, a); }
RX_INLINE void vf_stream_end(void) { _mm_sfence(); }

RX_INLINE vf vf_add(vf a, vf b) { return _mm512_add_ps(a, b); }
RX_INLINE vf vf_sub(vf a, vf b) { return _mm512_sub_ps(a, b); }
RX_INLINE vf vf_mul(vf a, vf b) { return _mm512_mul_ps(a, b); }
RX_INLINE vf vf_div(vf a, vf b) { return _mm512_div_ps(a, b); }
RX_INLINE vf vf_sqrt(vf a) { return _mm512_sqrt_ps(a); }
RX_INLINE vf vf_fma(vf a, vf b, vf c) { return _mm512_fmadd_ps(a, b, c); }
RX_INLINE vf vf_fnma(vf a, vf b, vf c) { return _mm512_fnmadd_ps(a, b, c); }
RX_INLINE vf vf_min(vf a, vf b) { return _mm512_min_ps(a, b); }
RX_INLINE vf vf_max(vf a, vf b) { return _mm512_max_ps(a, b); }
RX_INLINE vf vf_round(vf a) { return _mm512_roundscale_ps(a, 8); }
RX_INLINE vf vf_floor(vf a) { return _mm512_roundscale_ps(a, 9); }
RX_INLINE vf vf_ceil(vf a) { return _mm512_roundscale_ps(a, 10); }
RX_INLINE vf vf_trunc(vf a) { return _mm512_roundscale_ps(a, 11); }

RX_INLINE vm vf_lt(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
RX_INLINE vm vf_le(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_LE_OQ); }
RX_INLINE vm vf_gt(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ); }
RX_INLINE vm vf_ge(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_GE_OQ); }
RX_INLINE vm vf_eq(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }
RX_INLINE vm vf_ne(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_NEQ_UQ); }
RX_INLINE vf vf_sel(vm m, vf a, vf b) { return _mm512_mask_blend_ps(m, b, a); }

RX_INLINE vi vi_set1(int32_t x) { return _mm512_set1_epi32(x); }
RX_INLINE vi vi_load(const void *p) { return _mm512_loadu_si512(p); }
RX_INLINE void vi_store(void *p, vi a) { _mm512_storeu_si512(p, a); }
RX_INLINE void vi_store_s8(int8_t *p, vi a)
{
    _mm_storeu_si128((__m128i *)p, _mm512_cvtepi32_epi8(a));
}
RX_INLINE vi vi_load_u8(const uint8_t *p)
{
    return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p));
}
RX_INLINE vi vi_load_s8(const int8_t *p)
{
    return _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p));
}
RX_INLINE vi vi_load_table(const uint8_t *p)
{
    return _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)p));
}
RX_INLINE vi vi_lookup(vi table, vi index) { return _mm512_shuffle_epi8(table, index); }
RX_INLINE vi vi_load_part(const void *p, int n)
{
    return _mm512_maskz_loadu_epi32(vm_first(n), p);
}
RX_INLINE void vi_store_part(void *p, vi a, int n)
{
    _mm512_mask_storeu_epi32(p, vm_first(n), a);
}
RX_INLINE vi vi_add(vi a, vi b) { return _mm512_add_epi32(a, b); }
RX_INLINE vi vi_sub(vi a, vi b) { return _mm512_sub_epi32(a, b); }
RX_INLINE vi vi_mul(vi a, vi b) { return _mm512_mullo_epi32(a, b); }
RX_INLINE vi vi_min(vi a, vi b) { return _mm512_min_epi32(a, b); }
RX_INLINE vi vi_max(vi a, vi b) { return _mm512_max_epi32(a, b); }
RX_INLINE vi vi_and(vi a, vi b) { return _mm512_and_si512(a, b); }
RX_INLINE vi vi_or(vi a, vi b) { return _mm512_or_si512(a, b); }
RX_INLINE vi vi_xor(vi a, vi b) { return _mm512_xor_si512(a, b); }
RX_INLINE vm vi_eq(vi a, vi b) { return _mm512_cmpeq_epi32_mask(a, b); }
RX_INLINE vm vi_gt(vi a, vi b) { return _mm512_cmpgt_epi32_mask(a, b); }
RX_INLINE vi vi_sel(vm m, vi a, vi b) { return _mm512_mask_blend_epi32(m, b, a); }
#define vi_shl(a, n) _mm512_slli_epi32(a, n)
#define vi_shr(a, n) _mm512_srai_epi32(a, n)
#define vi_shr_u(a, n) _mm512_srli_epi32(a, n)
RX_INLINE vi vi_shift(vi a, const int n)
{
    return n >= 0 ? _mm512_slli_epi32(a, (unsigned)n) : _mm512_srli_epi32(a, (unsigned)-n);
}

RX_INLINE vi vi_of_vf(vf a) { return _mm512_cvtps_epi32(a); }
RX_INLINE vi vi_trunc_vf(vf a) { return _mm512_cvttps_epi32(a); }
RX_INLINE vf vf_of_vi(vi a) { return _mm512_cvtepi32_ps(a); }
RX_INLINE vi vi_bits_vf(vf a) { return _mm512_castps_si512(a); }
RX_INLINE vf vf_bits_vi(vi a) { return _mm512_castsi512_ps(a); }
#define RX_VEC_LDEXP 1
RX_INLINE vf vf_ldexp(vf a, vf n) { return _mm512_scalef_ps(a, n); }
RX_INLINE vf vf_gather(const float *base, vi index)
{
    return _mm512_i32gather_ps(index, base, 4);
}

RX_INLINE __m256i rx_vec_u16_part(const uint16_t *p, int n)
{
    return _mm256_maskz_loadu_epi16(vm_first(n), p);
}
RX_INLINE vf vf_load_f16(const uint16_t *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}
RX_INLINE vf vf_load_f16_part(const uint16_t *p, int n)
{
    return _mm512_cvtph_ps(rx_vec_u16_part(p, n));
}
RX_INLINE void vf_store_f16(uint16_t *p, vf a)
{
    _mm256_storeu_si256((__m256i *)p, _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT));
}
RX_INLINE void vf_store_f16_part(uint16_t *p, vf a, int n)
{
    _mm256_mask_storeu_epi16(p, vm_first(n), _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT));
}
RX_INLINE vi rx_vec_load_u16(const uint16_t *p)
{
    return _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p));
}
RX_INLINE vi rx_vec_load_u16_part(const uint16_t *p, int n)
{
    return _mm512_cvtepu16_epi32(rx_vec_u16_part(p, n));
}
RX_INLINE void rx_vec_store_u16(uint16_t *p, vi a)
{
    _mm256_storeu_si256((__m256i *)p, _mm512_cvtepi32_epi16(a));
}
RX_INLINE void rx_vec_store_u16_part(uint16_t *p, vi a, int n)
{
    _mm512_mask_cvtepi32_storeu_epi16(p, vm_first(n), a);
}

/* Halves are combined until four lanes are left, as on every instruction set. */
RX_INLINE __m256 rx_vec_high(vf a) { return _mm512_extractf32x8_ps(a, 1); }
RX_INLINE float vf_hsum(vf a)
{
    __m256 b = _mm256_add_ps(_mm512_castps512_ps256(a), rx_vec_high(a));
    __m128 c = _mm_add_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
    c = _mm_add_ps(c, _mm_movehl_ps(c, c));
    return _mm_cvtss_f32(_mm_add_ss(c, _mm_movehdup_ps(c)));
}
#define RX_VEC_HSUM4 1
RX_INLINE void vf_hsum4(const vf a[4], float to[4])
{
    const __m512d x = _mm512_castps_pd(_mm512_add_ps(_mm512_unpacklo_ps(a[0], a[1]),
                                                     _mm512_unpackhi_ps(a[0], a[1])));
    const __m512d y = _mm512_castps_pd(_mm512_add_ps(_mm512_unpacklo_ps(a[2], a[3]),
                                                     _mm512_unpackhi_ps(a[2], a[3])));
    const vf b = _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(x, y)),
                               _mm512_castpd_ps(_mm512_unpackhi_pd(x, y)));
    const __m256 c = _mm256_add_ps(_mm512_castps512_ps256(b), rx_vec_high(b));
    _mm_storeu_ps(to, _mm_add_ps(_mm256_castps256_ps128(c), _mm256_extractf128_ps(c, 1)));
}
RX_INLINE float vf_hmax(vf a) { return _mm512_reduce_max_ps(a); }
RX_INLINE float vf_hmin(vf a) { return _mm512_reduce_min_ps(a); }
RX_INLINE int32_t vi_hsum(vi a) { return _mm512_reduce_add_epi32(a); }

RX_INLINE vi vi_dot_u8s8(vi acc, vi u, vi s)
{
#if defined(__AVX512VNNI__)
    return _mm512_dpbusd_epi32(acc, u, s);
#else
    vi even = _mm512_madd_epi16(vi_and(u, vi_set1(0x00ff00ff)),
                                _mm512_srai_epi16(_mm512_slli_epi16(s, 8), 8));
    vi odd = _mm512_madd_epi16(_mm512_srli_epi16(u, 8), _mm512_srai_epi16(s, 8));
    return vi_add(acc, vi_add(even, odd));
#endif
}

RX_INLINE vi vi_dot_u7s8(vi acc, vi u, vi s)
{
#if defined(__AVX512VNNI__)
    return _mm512_dpbusd_epi32(acc, u, s);
#else
    const vi pairs = _mm512_maddubs_epi16(u, s);
    return vi_add(acc, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
#endif
}

RX_INLINE vf vf_swap(vf a) { return _mm512_permute_ps(a, 0xb1); }
RX_INLINE void vf_spread(vf a, vf *lo, vf *hi)
{
    const vi first = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
    *lo = _mm512_permutexvar_ps(first, a);
    *hi = _mm512_permutexvar_ps(vi_add(first, vi_set1(8)), a);
}

/* After two rounds lane L of r[4 i + j] holds column 4 L + j of rows 4 i .. 4 i + 3. */
RX_INLINE void vf_transpose(vf r[VF])
{
    vf t[VF];
    RX_UNROLL
    for (int i = 0; i < VF; i += 2) {
        t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
    }
    RX_UNROLL
    for (int i = 0; i < VF; i += 4)
        RX_UNROLL
        for (int j = 0; j < 2; j++) {
            __m512d x = _mm512_castps_pd(t[i + j]), y = _mm512_castps_pd(t[i + j + 2]);
            r[i + 2 * j] = _mm512_castpd_ps(_mm512_unpacklo_pd(x, y));
            r[i + 2 * j + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(x, y));
        }
    RX_UNROLL
    for (int j = 0; j < 4; j++) {
        vf a = _mm512_shuffle_f32x4(r[j], r[4 + j], 0x88);
        vf b = _mm512_shuffle_f32x4(r[8 + j], r[12 + j], 0x88);
        vf c = _mm512_shuffle_f32x4(r[j], r[4 + j], 0xdd);
        vf d = _mm512_shuffle_f32x4(r[8 + j], r[12 + j], 0xdd);
        r[j] = _mm512_shuffle_f32x4(a, b, 0x88);
        r[4 + j] = _mm512_shuffle_f32x4(c, d, 0x88);
        r[8 + j] = _mm512_shuffle_f32x4(a, b, 0xdd);
        r[12 + j] = _mm512_shuffle_f32x4(c, d, 0xdd);
    }
}

RX_INLINE void vf_unzip(vf a, vf b, vf to[2])
{
    const vi even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    to[0] = _mm512_permutex2var_ps(a, even, b);
    to[1] = _mm512_permutex2var_ps(a, vi_add(even, vi_set1(1)), b);
}
RX_INLINE void vf_zip(vf a, vf b, vf to[2])
{
    const vi low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    to[0] = _mm512_permutex2var_ps(a, low, b);
    to[1] = _mm512_permutex2var_ps(a, vi_add(low, vi_set1(8)), b);
}

#define RX_VEC_SLIDE 1
#define RX_VEC_ALIGN(a, b, n)                                                 \
    _mm512_castsi512_ps(_mm512_alignr_epi32(vi_bits_vf(b), vi_bits_vf(a), n))
RX_INLINE vf vf_slide(vf a, vf b, const int n)
{
    return n == 1 ? RX_VEC_ALIGN(a, b, 1) : n == 2 ? RX_VEC_ALIGN(a, b, 2) :
           n == 3 ? RX_VEC_ALIGN(a, b, 3) : RX_VEC_ALIGN(a, b, 4);
}

/* Half vectors, where half of the lanes cost half of the time: vh_* as vf_*, n up to VF / 2. */
#define RX_VEC_HALF 1
typedef __m256 vh;
RX_INLINE vh vh_set1(float x) { return _mm256_set1_ps(x); }
RX_INLINE vh vh_add(vh a, vh b) { return _mm256_add_ps(a, b); }
RX_INLINE vh vh_fma(vh a, vh b, vh c) { return _mm256_fmadd_ps(a, b, c); }
RX_INLINE vh vh_load_part(const float *p, int n)
{
    return _mm256_maskz_loadu_ps((__mmask8)((1u << n) - 1), p);
}
RX_INLINE void vh_store_part(float *p, vh a, int n)
{
    _mm256_mask_storeu_ps(p, (__mmask8)((1u << n) - 1), a);
}

#endif
