/* SPDX-License-Identifier: MIT */
/* The layout of weights for products by integer dots. Rows go in groups of 4; along k a tile is 4
 * rows x 32 blocks of 32 weights, one block for each of 32 lanes. In vectors of 16 bytes a tile is
 *   quants  [row][32]     4 bits: byte i of word j has elements 4j + i (low) and 16 + 4j + i (high)
 *           [row][2][32]  q8_0: 32 bytes
 *   high    [32]          bit 4, of each row a word: bit j of byte i is element 4j + i, bit 4 + j
 *                         element 16 + 4j + i
 *           [2][32]       q6_k: bits 4 and 5, of each row two words, for elements 0 to 15 and 16 to
 *                         31: field j of byte i is element 4j + i; rows 0, 1 then rows 2, 3
 *   scales  [16]          8 bytes a block: f16 of each row; q4_k, q5_k: u8 scale of each row, then
 *                         u8 min; q6_k: two i8 scales of each row
 *           [32]          q4_1, q5_1: f16 d and m of each row
 *   supers  [4]           q4_k, q5_k: f16 d and dmin of each row, for 8 blocks
 *           [2]           q6_k: f16 d of each row, 8 bytes for 8 blocks
 * Tiles of a group of rows follow one another. Rows and blocks that do not exist are zeros. */
#ifndef TILE4_GLSL
#define TILE4_GLSL

bool has_supers(uint t) { return t == Q4_K || t == Q5_K || t == Q6_K; }
bool has_minima(uint t) { return t == Q4_1 || t == Q5_1; }

/* Vectors of each part, for each row or in all. */
uint tile_quants(uint t) { return t == Q8_0 ? 64u : 32u; }
uint tile_high(uint t) { return t == Q6_K ? 64u : t == Q5_0 || t == Q5_1 || t == Q5_K ? 32u : 0u; }
uint tile_scales(uint t) { return has_minima(t) ? 32u : 16u; }
uint tile_supers(uint t) { return t == Q6_K ? 2u : has_supers(t) ? 4u : 0u; }
uint tile_vectors(uint t)
{
    return 4u * tile_quants(t) + tile_high(t) + tile_scales(t) + tile_supers(t);
}

#endif
