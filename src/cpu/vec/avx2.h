/* SPDX-License-Identifier: MIT */
/* cpu/vec.h on AVX2 with FMA and F16C: 8 lanes. A truth is a lane of ones. */
#ifndef RX_CPU_VEC_AVX2_H
#define RX_CPU_VEC_AVX2_H

#include <immintrin.h>

#define VF 8
typedef __m256 vf;
typedef __m256i vi;
typedef __m256 vm;

RX_INLINE __m256i rx_vec_mask(int n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
RX_INLINE vm vm_first(int n) { return _mm256_castsi256_ps(rx_vec_mask(n)); }
RX_INLINE vm vm_and(vm a, vm b) { return _mm256_and_ps(a, b); }
RX_INLINE vm vm_or(vm a, vm b) { return _mm256_or_ps(a, b); }
RX_INLINE vm vm_not(vm a)
{
    return _mm256_xor_ps(a, _mm256_castsi256_ps(_mm256_set1_epi32(-1)));
}
RX_INLINE int vm_any(vm a) { return _mm256_movemask_ps(a) != 0; }
RX_INLINE int vm_all(vm a) { return _mm256_movemask_ps(a) == 0xff; }

RX_INLINE vf vf_set1(float x) { return _mm256_set1_ps(x); }
RX_INLINE vf vf_load(const float *p) { return _mm256_loadu_ps(p); }
RX_INLINE void vf_store(float *p, vf a) { _mm256_storeu_ps(p, a); }
#define RX_VEC_PARTS 1
RX_INLINE vf vf_load_part(const float *p, int n) { return _mm256_maskload_ps(p, rx_vec_mask(n)); }
RX_INLINE void vf_store_part(float *p, vf a, int n) { _mm256_maskstore_ps(p, rx_vec_mask(n), a); }

RX_INLINE void vf_stream(float *p, vf a) { _mm256_stream_ps(p, a); }
RX_INLINE void vf_stream_end(void) { _mm_sfence(); }

RX_INLINE vf vf_add(vf a, vf b) { return _mm256_add_ps(a, b); }
RX_INLINE vf vf_sub(vf a, vf b) { return _mm256_sub_ps(a, b); }
RX_INLINE vf vf_mul(vf a, vf b) { return _mm256_mul_ps(a, b); }
RX_INLINE vf vf_div(vf a, vf b) { return _mm256_div_ps(a, b); }
RX_INLINE vf vf_sqrt(vf a) { return _mm256_sqrt_ps(a); }
RX_INLINE vf vf_fma(vf a, vf b, vf c) { return _mm256_fmadd_ps(a, b, c); }
RX_INLINE vf vf_fnma(vf a, vf b, vf c) { return _mm256_fnmadd_ps(a, b, c); }
RX_INLINE vf vf_min(vf a, vf b) { return _mm256_min_ps(a, b); }
RX_INLINE vf vf_max(vf a, vf b) { return _mm256_max_ps(a, b); }
RX_INLINE vf vf_round(vf a) { return _mm256_round_ps(a, 8); }
RX_INLINE vf vf_floor(vf a) { return _mm256_round_ps(a, 9); }
RX_INLINE vf vf_ceil(vf a) { return _mm256_round_ps(a, 10); }
RX_INLINE vf vf_trunc(vf a) { return _mm256_round_ps(a, 11); }

RX_INLINE vm vf_lt(vf a, vf b) { return _mm256_cmp_ps(a, b, _CMP_LT_OQ); }
RX_INLINE vm vf_le(vf a, vf b) { return _mm256_cmp_ps(a, b, _CMP_LE_OQ); }
RX_INLINE vm vf_gt(vf a, vf b) { return _mm256_cmp_ps(a, b, _CMP_GT_OQ); }
RX_INLINE vm vf_ge(vf a, vf b) { return _mm256_cmp_ps(a, b, _CMP_GE_OQ); }
RX_INLINE vm vf_eq(vf a, vf b) { return _mm256_cmp_ps(a, b, _CMP_EQ_OQ); }
RX_INLINE vm vf_ne(vf a, vf b) { return _mm256_cmp_ps(a, b, _CMP_NEQ_UQ); }
RX_INLINE vf vf_sel(vm m, vf a, vf b) { return _mm256_blendv_ps(b, a, m); }

RX_INLINE vi vi_set1(int32_t x) { return _mm256_set1_epi32(x); }
RX_INLINE vi vi_load(const void *p) { return _mm256_loadu_si256(p); }
RX_INLINE void vi_store(void *p, vi a) { _mm256_storeu_si256(p, a); }
RX_INLINE void vi_store_s8(int8_t *p, vi a)
{
    const __m128i half = _mm_packs_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
    _mm_storel_epi64((__m128i *)p, _mm_packs_epi16(half, half));
}
RX_INLINE vi vi_load_part(const void *p, int n) { return _mm256_maskload_epi32(p, rx_vec_mask(n)); }
RX_INLINE void vi_store_part(void *p, vi a, int n)
{
    _mm256_maskstore_epi32(p, rx_vec_mask(n), a);
}
RX_INLINE vi vi_load_u8(const uint8_t *p)
{
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p));
}
RX_INLINE vi vi_load_s8(const int8_t *p)
{
    return _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)p));
}
RX_INLINE vi vi_load_table(const uint8_t *p)
{
    return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)p));
}
RX_INLINE vi vi_lookup(vi table, vi index) { return _mm256_shuffle_epi8(table, index); }
RX_INLINE vi vi_add(vi a, vi b) { return _mm256_add_epi32(a, b); }
RX_INLINE vi vi_sub(vi a, vi b) { return _mm256_sub_epi32(a, b); }
RX_INLINE vi vi_mul(vi a, vi b) { return _mm256_mullo_epi32(a, b); }
RX_INLINE vi vi_min(vi a, vi b) { return _mm256_min_epi32(a, b); }
RX_INLINE vi vi_max(vi a, vi b) { return _mm256_max_epi32(a, b); }
RX_INLINE vi vi_and(vi a, vi b) { return _mm256_and_si256(a, b); }
RX_INLINE vi vi_or(vi a, vi b) { return _mm256_or_si256(a, b); }
RX_INLINE vi vi_xor(vi a, vi b) { return _mm256_xor_si256(a, b); }
RX_INLINE vm vi_eq(vi a, vi b) { return _mm256_castsi256_ps(_mm256_cmpeq_epi32(a, b)); }
RX_INLINE vm vi_gt(vi a, vi b) { return _mm256_castsi256_ps(_mm256_cmpgt_epi32(a, b)); }
#define vi_shl(a, n) _mm256_slli_epi32(a, n)
#define vi_shr(a, n) _mm256_srai_epi32(a, n)
#define vi_shr_u(a, n) _mm256_srli_epi32(a, n)
RX_INLINE vi vi_shift(vi a, const int n)
{
    return n >= 0 ? _mm256_slli_epi32(a, n) : _mm256_srli_epi32(a, -n);
}

RX_INLINE vi vi_of_vf(vf a) { return _mm256_cvtps_epi32(a); }
RX_INLINE vi vi_trunc_vf(vf a) { return _mm256_cvttps_epi32(a); }
RX_INLINE vf vf_of_vi(vi a) { return _mm256_cvtepi32_ps(a); }
RX_INLINE vi vi_bits_vf(vf a) { return _mm256_castps_si256(a); }
RX_INLINE vf vf_bits_vi(vi a) { return _mm256_castsi256_ps(a); }
RX_INLINE vi vi_sel(vm m, vi a, vi b)
{
    return _mm256_blendv_epi8(b, a, _mm256_castps_si256(m));
}
RX_INLINE vf vf_gather(const float *base, vi index)
{
    return _mm256_i32gather_ps(base, index, 4);
}

RX_INLINE __m128i rx_vec_u16(const uint16_t *p) { return _mm_loadu_si128((const __m128i *)p); }
RX_INLINE __m128i rx_vec_u16_part(const uint16_t *p, int n)
{
    uint16_t room[8] = {0};
    memcpy(room, p, (size_t)n * sizeof *p);
    return rx_vec_u16(room);
}
RX_INLINE void rx_vec_put_u16_part(uint16_t *p, __m128i a, int n)
{
    uint16_t room[8];
    _mm_storeu_si128((__m128i *)room, a);
    memcpy(p, room, (size_t)n * sizeof *p);
}
RX_INLINE vf vf_load_f16(const uint16_t *p) { return _mm256_cvtph_ps(rx_vec_u16(p)); }
RX_INLINE vf vf_load_f16_part(const uint16_t *p, int n)
{
    return _mm256_cvtph_ps(rx_vec_u16_part(p, n));
}
RX_INLINE void vf_store_f16(uint16_t *p, vf a)
{
    _mm_storeu_si128((__m128i *)p, _mm256_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT));
}
RX_INLINE void vf_store_f16_part(uint16_t *p, vf a, int n)
{
    rx_vec_put_u16_part(p, _mm256_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT), n);
}
RX_INLINE vi rx_vec_load_u16(const uint16_t *p) { return _mm256_cvtepu16_epi32(rx_vec_u16(p)); }
RX_INLINE vi rx_vec_load_u16_part(const uint16_t *p, int n)
{
    return _mm256_cvtepu16_epi32(rx_vec_u16_part(p, n));
}
/* Lanes are below 2^16, so packing does not saturate. */
RX_INLINE __m128i rx_vec_narrow(vi a)
{
    return _mm_packus_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
}
RX_INLINE void rx_vec_store_u16(uint16_t *p, vi a)
{
    _mm_storeu_si128((__m128i *)p, rx_vec_narrow(a));
}
RX_INLINE void rx_vec_store_u16_part(uint16_t *p, vi a, int n)
{
    rx_vec_put_u16_part(p, rx_vec_narrow(a), n);
}

RX_INLINE float vf_hsum(vf a)
{
    __m128 c = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    c = _mm_add_ps(c, _mm_movehl_ps(c, c));
    return _mm_cvtss_f32(_mm_add_ss(c, _mm_movehdup_ps(c)));
}
#define RX_VEC_HSUM4 1
RX_INLINE void vf_hsum4(const vf a[4], float to[4])
{
    const vf b = _mm256_hadd_ps(_mm256_hadd_ps(a[0], a[1]), _mm256_hadd_ps(a[2], a[3]));
    _mm_storeu_ps(to, _mm_add_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1)));
}
RX_INLINE float vf_hmax(vf a)
{
    __m128 c = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    c = _mm_max_ps(c, _mm_movehl_ps(c, c));
    return _mm_cvtss_f32(_mm_max_ss(c, _mm_movehdup_ps(c)));
}
RX_INLINE float vf_hmin(vf a)
{
    __m128 c = _mm_min_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    c = _mm_min_ps(c, _mm_movehl_ps(c, c));
    return _mm_cvtss_f32(_mm_min_ss(c, _mm_movehdup_ps(c)));
}
RX_INLINE int32_t vi_hsum(vi a)
{
    __m128i c = _mm_add_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
    c = _mm_add_epi32(c, _mm_shuffle_epi32(c, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(c, _mm_shuffle_epi32(c, 0xb1)));
}

RX_INLINE vi vi_dot_u8s8(vi acc, vi u, vi s)
{
    vi even = _mm256_madd_epi16(vi_and(u, vi_set1(0x00ff00ff)),
                                _mm256_srai_epi16(_mm256_slli_epi16(s, 8), 8));
    vi odd = _mm256_madd_epi16(_mm256_srli_epi16(u, 8), _mm256_srai_epi16(s, 8));
    return vi_add(acc, vi_add(even, odd));
}

RX_INLINE vi vi_dot_u7s8(vi acc, vi u, vi s)
{
    const vi pairs = _mm256_maddubs_epi16(u, s);
    return vi_add(acc, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

RX_INLINE vf vf_swap(vf a) { return _mm256_permute_ps(a, 0xb1); }
RX_INLINE void vf_spread(vf a, vf *lo, vf *hi)
{
    const vi first = _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3);
    *lo = _mm256_permutevar8x32_ps(a, first);
    *hi = _mm256_permutevar8x32_ps(a, vi_add(first, vi_set1(4)));
}

RX_INLINE void vf_transpose(vf r[VF])
{
    vf t[VF];
    RX_UNROLL
    for (int i = 0; i < VF; i += 2) {
        t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    }
    RX_UNROLL
    for (int i = 0; i < VF; i += 4)
        RX_UNROLL
        for (int j = 0; j < 2; j++) {
            r[i + 2 * j] = _mm256_shuffle_ps(t[i + j], t[i + j + 2], 0x44);
            r[i + 2 * j + 1] = _mm256_shuffle_ps(t[i + j], t[i + j + 2], 0xee);
        }
    RX_UNROLL
    for (int j = 0; j < 4; j++) {
        vf a = _mm256_permute2f128_ps(r[j], r[4 + j], 0x20);
        r[4 + j] = _mm256_permute2f128_ps(r[j], r[4 + j], 0x31);
        r[j] = a;
    }
}

RX_INLINE void vf_unzip(vf a, vf b, vf to[2])
{
    const __m256d even = _mm256_castps_pd(_mm256_shuffle_ps(a, b, 0x88));
    const __m256d odd = _mm256_castps_pd(_mm256_shuffle_ps(a, b, 0xdd));
    to[0] = _mm256_castpd_ps(_mm256_permute4x64_pd(even, 0xd8));
    to[1] = _mm256_castpd_ps(_mm256_permute4x64_pd(odd, 0xd8));
}
RX_INLINE void vf_zip(vf a, vf b, vf to[2])
{
    const vf low = _mm256_unpacklo_ps(a, b), high = _mm256_unpackhi_ps(a, b);
    to[0] = _mm256_permute2f128_ps(low, high, 0x20);
    to[1] = _mm256_permute2f128_ps(low, high, 0x31);
}

#endif
