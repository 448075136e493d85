/* SPDX-License-Identifier: MIT */
/* cpu/vec.h on WebAssembly's 128-bit SIMD: 4 lanes. A truth is a lane of ones. */
#ifndef RX_CPU_VEC_WASM_H
#define RX_CPU_VEC_WASM_H

#include <wasm_simd128.h>

#include "base/half.h"

#define VF 4
typedef v128_t vf;
typedef v128_t vi;
typedef v128_t vm;

RX_INLINE vm vm_first(int n)
{
    return wasm_i32x4_gt(wasm_i32x4_splat(n), wasm_i32x4_const(0, 1, 2, 3));
}
RX_INLINE vm vm_and(vm a, vm b) { return wasm_v128_and(a, b); }
RX_INLINE vm vm_or(vm a, vm b) { return wasm_v128_or(a, b); }
RX_INLINE vm vm_not(vm a) { return wasm_v128_not(a); }
RX_INLINE int vm_any(vm a) { return wasm_v128_any_true(a); }
RX_INLINE int vm_all(vm a) { return wasm_i32x4_all_true(a); }

RX_INLINE vf vf_set1(float x) { return wasm_f32x4_splat(x); }
RX_INLINE vf vf_load(const float *p) { return wasm_v128_load(p); }
RX_INLINE void vf_store(float *p, vf a) { wasm_v128_store(p, a); }
RX_INLINE vi vi_load(const void *p) { return wasm_v128_load(p); }
RX_INLINE void vi_store(void *p, vi a) { wasm_v128_store(p, a); }
RX_INLINE void vi_store_s8(int8_t *p, vi a)
{
    const v128_t half = wasm_i16x8_narrow_i32x4(a, a), bytes = wasm_i8x16_narrow_i16x8(half, half);
    memcpy(p, &bytes, VF);
}

RX_INLINE void vf_stream(float *p, vf a) { wasm_v128_store(p, a); }
RX_INLINE void vf_stream_end(void) {}

RX_INLINE vf vf_add(vf a, vf b) { return wasm_f32x4_add(a, b); }
RX_INLINE vf vf_sub(vf a, vf b) { return wasm_f32x4_sub(a, b); }
RX_INLINE vf vf_mul(vf a, vf b) { return wasm_f32x4_mul(a, b); }
RX_INLINE vf vf_div(vf a, vf b) { return wasm_f32x4_div(a, b); }
RX_INLINE vf vf_sqrt(vf a) { return wasm_f32x4_sqrt(a); }
#if defined(__wasm_relaxed_simd__) /* rounds once where the processor can */
RX_INLINE vf vf_fma(vf a, vf b, vf c)
{
    return (vf)__builtin_wasm_relaxed_madd_f32x4((__f32x4)a, (__f32x4)b, (__f32x4)c);
}
RX_INLINE vf vf_fnma(vf a, vf b, vf c)
{
    return (vf)__builtin_wasm_relaxed_nmadd_f32x4((__f32x4)a, (__f32x4)b, (__f32x4)c);
}
#else
RX_INLINE vf vf_fma(vf a, vf b, vf c) { return vf_add(vf_mul(a, b), c); }
RX_INLINE vf vf_fnma(vf a, vf b, vf c) { return vf_sub(c, vf_mul(a, b)); }
#endif
RX_INLINE vf vf_min(vf a, vf b) { return wasm_f32x4_pmin(b, a); }
RX_INLINE vf vf_max(vf a, vf b) { return wasm_f32x4_pmax(b, a); }
RX_INLINE vf vf_round(vf a) { return wasm_f32x4_nearest(a); }
RX_INLINE vf vf_floor(vf a) { return wasm_f32x4_floor(a); }
RX_INLINE vf vf_ceil(vf a) { return wasm_f32x4_ceil(a); }
RX_INLINE vf vf_trunc(vf a) { return wasm_f32x4_trunc(a); }

RX_INLINE vm vf_lt(vf a, vf b) { return wasm_f32x4_lt(a, b); }
RX_INLINE vm vf_le(vf a, vf b) { return wasm_f32x4_le(a, b); }
RX_INLINE vm vf_gt(vf a, vf b) { return wasm_f32x4_gt(a, b); }
RX_INLINE vm vf_ge(vf a, vf b) { return wasm_f32x4_ge(a, b); }
RX_INLINE vm vf_eq(vf a, vf b) { return wasm_f32x4_eq(a, b); }
RX_INLINE vm vf_ne(vf a, vf b) { return wasm_f32x4_ne(a, b); }
RX_INLINE vf vf_sel(vm m, vf a, vf b) { return wasm_v128_bitselect(a, b, m); }

RX_INLINE vi vi_set1(int32_t x) { return wasm_i32x4_splat(x); }
RX_INLINE vi vi_load_u8(const uint8_t *p)
{
    return wasm_u32x4_extend_low_u16x8(wasm_u16x8_extend_low_u8x16(wasm_v128_load32_zero(p)));
}
RX_INLINE vi vi_load_s8(const int8_t *p)
{
    return wasm_i32x4_extend_low_i16x8(wasm_i16x8_extend_low_i8x16(wasm_v128_load32_zero(p)));
}
RX_INLINE vi vi_load_table(const uint8_t *p) { return wasm_v128_load(p); }
RX_INLINE vi vi_lookup(vi table, vi index) { return wasm_i8x16_swizzle(table, index); }
RX_INLINE vi vi_add(vi a, vi b) { return wasm_i32x4_add(a, b); }
RX_INLINE vi vi_sub(vi a, vi b) { return wasm_i32x4_sub(a, b); }
RX_INLINE vi vi_mul(vi a, vi b) { return wasm_i32x4_mul(a, b); }
RX_INLINE vi vi_min(vi a, vi b) { return wasm_i32x4_min(a, b); }
RX_INLINE vi vi_max(vi a, vi b) { return wasm_i32x4_max(a, b); }
RX_INLINE vi vi_and(vi a, vi b) { return wasm_v128_and(a, b); }
RX_INLINE vi vi_or(vi a, vi b) { return wasm_v128_or(a, b); }
RX_INLINE vi vi_xor(vi a, vi b) { return wasm_v128_xor(a, b); }
RX_INLINE vm vi_eq(vi a, vi b) { return wasm_i32x4_eq(a, b); }
RX_INLINE vm vi_gt(vi a, vi b) { return wasm_i32x4_gt(a, b); }
RX_INLINE vi vi_sel(vm m, vi a, vi b) { return wasm_v128_bitselect(a, b, m); }
#define vi_shl(a, n) wasm_i32x4_shl(a, n)
#define vi_shr(a, n) wasm_i32x4_shr(a, n)
#define vi_shr_u(a, n) wasm_u32x4_shr(a, n)
RX_INLINE vi vi_shift(vi a, const int n)
{
    return n >= 0 ? wasm_i32x4_shl(a, (uint32_t)n) : wasm_u32x4_shr(a, (uint32_t)-n);
}

RX_INLINE vi vi_trunc_vf(vf a) { return wasm_i32x4_trunc_sat_f32x4(a); }
RX_INLINE vi vi_of_vf(vf a) { return vi_trunc_vf(vf_round(a)); }
RX_INLINE vf vf_of_vi(vi a) { return wasm_f32x4_convert_i32x4(a); }
RX_INLINE vi vi_bits_vf(vf a) { return a; }
RX_INLINE vf vf_bits_vi(vi a) { return a; }
RX_INLINE vf vf_gather(const float *base, vi index)
{
    return wasm_f32x4_make(base[wasm_i32x4_extract_lane(index, 0)],
                           base[wasm_i32x4_extract_lane(index, 1)],
                           base[wasm_i32x4_extract_lane(index, 2)],
                           base[wasm_i32x4_extract_lane(index, 3)]);
}

RX_INLINE vf vf_load_f16_part(const uint16_t *p, int n)
{
    float room[VF] = {0};
    for (int i = 0; i < n; i++)
        room[i] = rx_f16_to_f32(p[i]);
    return vf_load(room);
}
RX_INLINE void vf_store_f16_part(uint16_t *p, vf a, int n)
{
    float room[VF];
    vf_store(room, a);
    for (int i = 0; i < n; i++)
        p[i] = rx_f32_to_f16(room[i]);
}
RX_INLINE vf vf_load_f16(const uint16_t *p) { return vf_load_f16_part(p, VF); }
RX_INLINE void vf_store_f16(uint16_t *p, vf a) { vf_store_f16_part(p, a, VF); }
RX_INLINE vi rx_vec_load_u16(const uint16_t *p) { return wasm_u32x4_load16x4(p); }
RX_INLINE vi rx_vec_load_u16_part(const uint16_t *p, int n)
{
    uint16_t room[VF] = {0};
    memcpy(room, p, (size_t)n * sizeof *p);
    return rx_vec_load_u16(room);
}
RX_INLINE void rx_vec_store_u16_part(uint16_t *p, vi a, int n)
{
    uint16_t room[2 * VF];
    vi_store(room, wasm_u16x8_narrow_i32x4(a, a));
    memcpy(p, room, (size_t)n * sizeof *p);
}
RX_INLINE void rx_vec_store_u16(uint16_t *p, vi a) { rx_vec_store_u16_part(p, a, VF); }

RX_INLINE float vf_hsum(vf a)
{
    vf c = vf_add(a, wasm_i32x4_shuffle(a, a, 2, 3, 0, 1));
    return wasm_f32x4_extract_lane(c, 0) + wasm_f32x4_extract_lane(c, 1);
}
RX_INLINE float vf_hmax(vf a)
{
    vf c = vf_max(a, wasm_i32x4_shuffle(a, a, 2, 3, 0, 1));
    c = vf_max(c, wasm_i32x4_shuffle(c, c, 1, 0, 3, 2));
    return wasm_f32x4_extract_lane(c, 0);
}
RX_INLINE float vf_hmin(vf a)
{
    vf c = vf_min(a, wasm_i32x4_shuffle(a, a, 2, 3, 0, 1));
    c = vf_min(c, wasm_i32x4_shuffle(c, c, 1, 0, 3, 2));
    return wasm_f32x4_extract_lane(c, 0);
}
RX_INLINE int32_t vi_hsum(vi a)
{
    vi c = vi_add(a, wasm_i32x4_shuffle(a, a, 2, 3, 0, 1));
    return wasm_i32x4_extract_lane(c, 0) + wasm_i32x4_extract_lane(c, 1);
}

RX_INLINE vi vi_dot_u8s8(vi acc, vi u, vi s)
{
    vi even = wasm_i32x4_dot_i16x8(vi_and(u, vi_set1(0x00ff00ff)),
                                   wasm_i16x8_shr(wasm_i16x8_shl(s, 8), 8));
    vi odd = wasm_i32x4_dot_i16x8(wasm_u16x8_shr(u, 8), wasm_i16x8_shr(s, 8));
    return vi_add(acc, vi_add(even, odd));
}

RX_INLINE vi vi_dot_u7s8(vi acc, vi u, vi s) { return vi_dot_u8s8(acc, u, s); }

RX_INLINE vf vf_swap(vf a) { return wasm_i32x4_shuffle(a, a, 1, 0, 3, 2); }
RX_INLINE void vf_spread(vf a, vf *lo, vf *hi)
{
    *lo = wasm_i32x4_shuffle(a, a, 0, 0, 1, 1);
    *hi = wasm_i32x4_shuffle(a, a, 2, 2, 3, 3);
}

RX_INLINE void vf_transpose(vf r[VF])
{
    vf x0 = wasm_i32x4_shuffle(r[0], r[1], 0, 4, 1, 5);
    vf x1 = wasm_i32x4_shuffle(r[0], r[1], 2, 6, 3, 7);
    vf y0 = wasm_i32x4_shuffle(r[2], r[3], 0, 4, 1, 5);
    vf y1 = wasm_i32x4_shuffle(r[2], r[3], 2, 6, 3, 7);
    r[0] = wasm_i64x2_shuffle(x0, y0, 0, 2);
    r[1] = wasm_i64x2_shuffle(x0, y0, 1, 3);
    r[2] = wasm_i64x2_shuffle(x1, y1, 0, 2);
    r[3] = wasm_i64x2_shuffle(x1, y1, 1, 3);
}

RX_INLINE void vf_unzip(vf a, vf b, vf to[2])
{
    to[0] = wasm_i32x4_shuffle(a, b, 0, 2, 4, 6);
    to[1] = wasm_i32x4_shuffle(a, b, 1, 3, 5, 7);
}
RX_INLINE void vf_zip(vf a, vf b, vf to[2])
{
    to[0] = wasm_i32x4_shuffle(a, b, 0, 4, 1, 5);
    to[1] = wasm_i32x4_shuffle(a, b, 2, 6, 3, 7);
}

#endif
