/* SPDX-License-Identifier: MIT */
/* cpu/vec.h on 64-bit Arm: 4 lanes. A truth is a lane of ones. */
#ifndef RX_CPU_VEC_NEON_H
#define RX_CPU_VEC_NEON_H

#include <arm_neon.h>

#define VF 4
typedef float32x4_t vf;
typedef int32x4_t vi;
typedef uint32x4_t vm;

RX_INLINE vm vm_first(int n)
{
    static const int32_t lane[4] = {0, 1, 2, 3};
    return vcgtq_s32(vdupq_n_s32(n), vld1q_s32(lane));
}
RX_INLINE vm vm_and(vm a, vm b) { return vandq_u32(a, b); }
RX_INLINE vm vm_or(vm a, vm b) { return vorrq_u32(a, b); }
RX_INLINE vm vm_not(vm a) { return vmvnq_u32(a); }
RX_INLINE int vm_any(vm a) { return vmaxvq_u32(a) != 0; }
RX_INLINE int vm_all(vm a) { return vminvq_u32(a) != 0; }

RX_INLINE vf vf_set1(float x) { return vdupq_n_f32(x); }
RX_INLINE vf vf_load(const float *p) { return vld1q_f32(p); }
RX_INLINE void vf_store(float *p, vf a) { vst1q_f32(p, a); }

RX_INLINE void vf_stream(float *p, vf a) { vst1q_f32(p, a); }
RX_INLINE void vf_stream_end(void) {}

RX_INLINE vf vf_add(vf a, vf b) { return vaddq_f32(a, b); }
RX_INLINE vf vf_sub(vf a, vf b) { return vsubq_f32(a, b); }
RX_INLINE vf vf_mul(vf a, vf b) { return vmulq_f32(a, b); }
RX_INLINE vf vf_div(vf a, vf b) { return vdivq_f32(a, b); }
RX_INLINE vf vf_sqrt(vf a) { return vsqrtq_f32(a); }
RX_INLINE vf vf_fma(vf a, vf b, vf c) { return vfmaq_f32(c, a, b); }
RX_INLINE vf vf_fnma(vf a, vf b, vf c) { return vfmsq_f32(c, a, b); }
RX_INLINE vf vf_sel(vm m, vf a, vf b) { return vbslq_f32(m, a, b); }
RX_INLINE vf vf_min(vf a, vf b) { return vf_sel(vcltq_f32(a, b), a, b); }
RX_INLINE vf vf_max(vf a, vf b) { return vf_sel(vcgtq_f32(a, b), a, b); }
RX_INLINE vf vf_round(vf a) { return vrndnq_f32(a); }
RX_INLINE vf vf_floor(vf a) { return vrndmq_f32(a); }
RX_INLINE vf vf_ceil(vf a) { return vrndpq_f32(a); }
RX_INLINE vf vf_trunc(vf a) { return vrndq_f32(a); }

RX_INLINE vm vf_lt(vf a, vf b) { return vcltq_f32(a, b); }
RX_INLINE vm vf_le(vf a, vf b) { return vcleq_f32(a, b); }
RX_INLINE vm vf_gt(vf a, vf b) { return vcgtq_f32(a, b); }
RX_INLINE vm vf_ge(vf a, vf b) { return vcgeq_f32(a, b); }
RX_INLINE vm vf_eq(vf a, vf b) { return vceqq_f32(a, b); }
RX_INLINE vm vf_ne(vf a, vf b) { return vmvnq_u32(vceqq_f32(a, b)); }

RX_INLINE vi vi_set1(int32_t x) { return vdupq_n_s32(x); }
RX_INLINE vi vi_load(const void *p) { return vreinterpretq_s32_u8(vld1q_u8(p)); }
RX_INLINE void vi_store(void *p, vi a) { vst1q_u8(p, vreinterpretq_u8_s32(a)); }
RX_INLINE void vi_store_s8(int8_t *p, vi a)
{
    const int16x4_t half = vmovn_s32(a);
    const int8x8_t bytes = vmovn_s16(vcombine_s16(half, half));
    memcpy(p, &bytes, VF);
}
RX_INLINE vi vi_load_u8(const uint8_t *p)
{
    uint32_t four;
    memcpy(&four, p, sizeof four);
    const uint16x8_t wide = vmovl_u8(vcreate_u8(four));
    return vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(wide)));
}
RX_INLINE vi vi_load_s8(const int8_t *p)
{
    uint32_t four;
    memcpy(&four, p, sizeof four);
    return vmovl_s16(vget_low_s16(vmovl_s8(vcreate_s8(four))));
}
RX_INLINE vi vi_load_table(const uint8_t *p) { return vreinterpretq_s32_u8(vld1q_u8(p)); }
RX_INLINE vi vi_lookup(vi table, vi index)
{
    return vreinterpretq_s32_u8(vqtbl1q_u8(vreinterpretq_u8_s32(table),
                                           vreinterpretq_u8_s32(index)));
}
RX_INLINE vi vi_add(vi a, vi b) { return vaddq_s32(a, b); }
RX_INLINE vi vi_sub(vi a, vi b) { return vsubq_s32(a, b); }
RX_INLINE vi vi_mul(vi a, vi b) { return vmulq_s32(a, b); }
RX_INLINE vi vi_min(vi a, vi b) { return vminq_s32(a, b); }
RX_INLINE vi vi_max(vi a, vi b) { return vmaxq_s32(a, b); }
RX_INLINE vi vi_and(vi a, vi b) { return vandq_s32(a, b); }
RX_INLINE vi vi_or(vi a, vi b) { return vorrq_s32(a, b); }
RX_INLINE vi vi_xor(vi a, vi b) { return veorq_s32(a, b); }
RX_INLINE vm vi_eq(vi a, vi b) { return vceqq_s32(a, b); }
RX_INLINE vm vi_gt(vi a, vi b) { return vcgtq_s32(a, b); }
RX_INLINE vi vi_sel(vm m, vi a, vi b) { return vbslq_s32(m, a, b); }
#define vi_shl(a, n) vshlq_n_s32(a, n)
#define vi_shr(a, n) vshrq_n_s32(a, n)
#define vi_shr_u(a, n) vreinterpretq_s32_u32(vshrq_n_u32(vreinterpretq_u32_s32(a), n))
RX_INLINE vi vi_shift(vi a, const int n)
{
    return vreinterpretq_s32_u32(vshlq_u32(vreinterpretq_u32_s32(a), vdupq_n_s32(n)));
}

RX_INLINE vi vi_of_vf(vf a) { return vcvtnq_s32_f32(a); }
RX_INLINE vi vi_trunc_vf(vf a) { return vcvtq_s32_f32(a); }
RX_INLINE vf vf_of_vi(vi a) { return vcvtq_f32_s32(a); }
RX_INLINE vi vi_bits_vf(vf a) { return vreinterpretq_s32_f32(a); }
RX_INLINE vf vf_bits_vi(vi a) { return vreinterpretq_f32_s32(a); }
RX_INLINE vf vf_gather(const float *base, vi index)
{
    int32_t at[VF];
    vi_store(at, index);
    const float room[VF] = {base[at[0]], base[at[1]], base[at[2]], base[at[3]]};
    return vf_load(room);
}

RX_INLINE uint16x4_t rx_vec_u16_part(const uint16_t *p, int n)
{
    uint16_t room[VF] = {0};
    memcpy(room, p, (size_t)n * sizeof *p);
    return vld1_u16(room);
}
RX_INLINE void rx_vec_put_u16_part(uint16_t *p, uint16x4_t a, int n)
{
    uint16_t room[VF];
    vst1_u16(room, a);
    memcpy(p, room, (size_t)n * sizeof *p);
}
RX_INLINE uint16x4_t rx_vec_to_f16(vf a) { return vreinterpret_u16_f16(vcvt_f16_f32(a)); }
RX_INLINE vf vf_load_f16(const uint16_t *p)
{
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)));
}
RX_INLINE vf vf_load_f16_part(const uint16_t *p, int n)
{
    return vcvt_f32_f16(vreinterpret_f16_u16(rx_vec_u16_part(p, n)));
}
RX_INLINE void vf_store_f16(uint16_t *p, vf a) { vst1_u16(p, rx_vec_to_f16(a)); }
RX_INLINE void vf_store_f16_part(uint16_t *p, vf a, int n)
{
    rx_vec_put_u16_part(p, rx_vec_to_f16(a), n);
}
RX_INLINE vi rx_vec_load_u16(const uint16_t *p)
{
    return vreinterpretq_s32_u32(vmovl_u16(vld1_u16(p)));
}
RX_INLINE vi rx_vec_load_u16_part(const uint16_t *p, int n)
{
    return vreinterpretq_s32_u32(vmovl_u16(rx_vec_u16_part(p, n)));
}
RX_INLINE void rx_vec_store_u16(uint16_t *p, vi a)
{
    vst1_u16(p, vmovn_u32(vreinterpretq_u32_s32(a)));
}
RX_INLINE void rx_vec_store_u16_part(uint16_t *p, vi a, int n)
{
    rx_vec_put_u16_part(p, vmovn_u32(vreinterpretq_u32_s32(a)), n);
}

RX_INLINE float vf_hsum(vf a)
{
    float32x2_t c = vadd_f32(vget_low_f32(a), vget_high_f32(a));
    return vget_lane_f32(c, 0) + vget_lane_f32(c, 1);
}
RX_INLINE float vf_hmax(vf a) { return vmaxvq_f32(a); }
RX_INLINE float vf_hmin(vf a) { return vminvq_f32(a); }
RX_INLINE int32_t vi_hsum(vi a) { return vaddvq_s32(a); }

#if defined(__ARM_FEATURE_MATMUL_INT8)
RX_INLINE vi vi_dot_u8s8(vi acc, vi u, vi s)
{
    return vusdotq_s32(acc, vreinterpretq_u8_s32(u), vreinterpretq_s8_s32(s));
}
RX_INLINE vi vi_dot_u7s8(vi acc, vi u, vi s) { return vi_dot_u8s8(acc, u, s); }
#elif defined(__ARM_FEATURE_DOTPROD)
RX_INLINE vi vi_dot_u7s8(vi acc, vi u, vi s)
{
    return vdotq_s32(acc, vreinterpretq_s8_s32(u), vreinterpretq_s8_s32(s));
}
/* u = signed u + 256 (u >> 7) */
RX_INLINE vi vi_dot_u8s8(vi acc, vi u, vi s)
{
    const vi top = vreinterpretq_s32_u8(vshrq_n_u8(vreinterpretq_u8_s32(u), 7));
    return vi_dot_u7s8(vi_add(acc, vi_shl(vi_dot_u7s8(vi_set1(0), top, s), 8)), u, s);
}
#else
RX_INLINE vi vi_dot_u8s8(vi acc, vi u, vi s)
{
    int8x16_t sb = vreinterpretq_s8_s32(s);
    uint8x16_t ub = vreinterpretq_u8_s32(u);
    int16x8_t s_lo = vmovl_s8(vget_low_s8(sb)), s_hi = vmovl_s8(vget_high_s8(sb));
    int16x8_t u_lo = vreinterpretq_s16_u16(vmovl_u8(vget_low_u8(ub)));
    int16x8_t u_hi = vreinterpretq_s16_u16(vmovl_u8(vget_high_u8(ub)));
    int32x4_t p0 = vmull_s16(vget_low_s16(u_lo), vget_low_s16(s_lo));
    int32x4_t p1 = vmull_high_s16(u_lo, s_lo);
    int32x4_t p2 = vmull_s16(vget_low_s16(u_hi), vget_low_s16(s_hi));
    int32x4_t p3 = vmull_high_s16(u_hi, s_hi);
    return vaddq_s32(acc, vpaddq_s32(vpaddq_s32(p0, p1), vpaddq_s32(p2, p3)));
}

RX_INLINE vi vi_dot_u7s8(vi acc, vi u, vi s) { return vi_dot_u8s8(acc, u, s); }
#endif

RX_INLINE vf vf_swap(vf a) { return vrev64q_f32(a); }
RX_INLINE void vf_spread(vf a, vf *lo, vf *hi)
{
    *lo = vzip1q_f32(a, a);
    *hi = vzip2q_f32(a, a);
}

RX_INLINE void vf_transpose(vf r[VF])
{
    float32x4x2_t x = vtrnq_f32(r[0], r[1]), y = vtrnq_f32(r[2], r[3]);
    r[0] = vcombine_f32(vget_low_f32(x.val[0]), vget_low_f32(y.val[0]));
    r[1] = vcombine_f32(vget_low_f32(x.val[1]), vget_low_f32(y.val[1]));
    r[2] = vcombine_f32(vget_high_f32(x.val[0]), vget_high_f32(y.val[0]));
    r[3] = vcombine_f32(vget_high_f32(x.val[1]), vget_high_f32(y.val[1]));
}

RX_INLINE void vf_unzip(vf a, vf b, vf to[2])
{
    const float32x4x2_t pair = vuzpq_f32(a, b);
    to[0] = pair.val[0];
    to[1] = pair.val[1];
}
RX_INLINE void vf_zip(vf a, vf b, vf to[2])
{
    const float32x4x2_t pair = vzipq_f32(a, b);
    to[0] = pair.val[0];
    to[1] = pair.val[1];
}

#endif
