/* SPDX-License-Identifier: MIT */
/* The knobs (forced kernel variants) of Vulkan and WebGPU: tiles of products with many rows,
 * workgroups of products with few and of attention, products without matrices. The first choice of
 * each is "auto": gpu/select chooses by size. */
#include "gpu/gpu.h"

#define N(list) (sizeof(list) / sizeof *(list))

/* BM, BN, BK, TM, TN of matmul.comp: rows, columns and depth of a tile; rows and columns of an
 * invocation. BM / TM is a multiple of 4 and BN / TN of 8; invocations load both tiles in vectors
 * of four. */
static const rx_knob_choice tiles[] = {
    {"auto", {0}},
    {"128x128x16/8x8", {128, 128, 16, 8, 8}},
    {"128x64x8/8x8", {128, 64, 8, 8, 8}},
    {"64x128x8/8x8", {64, 128, 8, 8, 8}},
    {"64x64x16/8x4", {64, 64, 16, 8, 4}},
    {"64x64x8/8x8", {64, 64, 8, 8, 8}},
    {"32x64x16/8x8", {32, 64, 16, 8, 8}},
};

/* The same for dequant_gemm.comp, which loads vectors of eight. */
static const rx_knob_choice quant_tiles[] = {
    {"auto", {0}},
    {"128x128x16/8x8", {128, 128, 16, 8, 8}},
    {"64x128x16/8x8", {64, 128, 16, 8, 8}},
    {"64x64x16/8x8", {64, 64, 16, 8, 8}},
    {"64x64x32/8x8", {64, 64, 32, 8, 8}},
};

/* Invocations and columns of gemv.comp when b is contiguous along k. */
static const rx_knob_choice gemvs[] = {
    {"auto", {0}}, {"64x4", {64, 4}}, {"128x4", {128, 4}}, {"128x8", {128, 8}},
    {"256x8", {256, 8}},
};

/* Invocations, and how many adjacent ones read a line of b, of gemv.comp when b is contiguous along
 * n. */
static const rx_knob_choice gemv_lines[] = {
    {"auto", {0}}, {"128x4", {128, 4}}, {"128x16", {128, 16}}, {"256x16", {256, 16}},
    {"256x32", {256, 32}},
};

/* Invocations and team size of dequant_gemv.comp. */
static const rx_knob_choice quant_gemvs[] = {
    {"auto", {0}}, {"64x8", {64, 8}}, {"64x32", {64, 32}}, {"128x16", {128, 16}},
    {"128x64", {128, 64}}, {"256x64", {256, 64}},
};

/* 1: products whose matrices would go through shared memory do without. */
static const rx_knob_choice matrices[] = {{"auto", {0}}, {"off", {1}}};

/* Attention of few queries: how many times more workgroups share the keys, as a fraction. */
static const rx_knob_choice keys[] = {{"auto", {0}}, {"1/2", {1, 2}}, {"2", {2, 1}},
                                      {"4", {4, 1}}};

/* In the order of rx_gpu_knob_id. */
static const rx_knob knobs[RX_N_KNOBS] = {
    {.name = "tile", .choices = tiles, .n_choices = N(tiles), .weight = RLX_F32, .rows = 1024,
     .size = 1024, .copies = 2},
    {.name = "quant_tile", .choices = quant_tiles, .n_choices = N(quant_tiles),
     .weight = RLX_Q4_0, .trans_b = true, .rows = 1024, .size = 1024, .copies = 2},
    {.name = "gemv", .choices = gemvs, .n_choices = N(gemvs), .weight = RLX_F16, .trans_b = true,
     .rows = 1, .size = 4096, .copies = 4},
    {.name = "gemv_line", .choices = gemv_lines, .n_choices = N(gemv_lines), .weight = RLX_F16,
     .rows = 1, .size = 4096, .copies = 4},
    {.name = "quant_gemv", .choices = quant_gemvs, .n_choices = N(quant_gemvs),
     .weight = RLX_Q4_0, .trans_b = true, .rows = 1, .size = 4096, .copies = 8},
    {.name = "matrices", .choices = matrices, .n_choices = N(matrices)},
    {.name = "attention_keys", .choices = keys, .n_choices = N(keys)},
};

const rx_knob *rx_gpu_knobs(size_t *n)
{
    *n = RX_N_KNOBS;
    return knobs;
}

const uint32_t *rx_gpu_knob(const rx_gpu_caps *caps, rx_gpu_knob_id id)
{
    uint8_t choice = caps->knobs.choice[id];
    return choice && choice < knobs[id].n_choices ? knobs[id].choices[choice].word : NULL;
}
