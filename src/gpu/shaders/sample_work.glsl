/* SPDX-License-Identifier: MIT */
/* Layout of `scratch`, row_words words per row (gpu/select/random.c), through which the kernels
 * that share a row communicate. A slice is AT_ONCE * LANES tokens, token i of which belongs to lane
 * i % LANES; CHUNK_LANES adjacent lanes have a chunk. */

const uint CHUNK = AT_ONCE * CHUNK_LANES, SLICE_CHUNKS = LANES / CHUNK_LANES;

/* Of the list of tokens: its length; what is to be added to sums along it, which begins within the
 * row's list, before and behind a gap; the sum of all weights kept, or with top-p the one that the
 * last token kept reaches. Tokens behind the gap have the bit BEHIND. */
const uint N_LISTED = 0u, BASE = 1u, BASE_BEHIND = 3u, SUM = 5u;
const uint BEHIND = 0x80000000u;
/* Then the sums of buckets, their low LOW_BITS and, BUCKETS words behind, the rest: both added for
 * all slices, of which there are 2^10 at most; they begin as 0 as all before them. Then the list
 * as (key, token); of each slice its largest key, the first token with it and its smallest key
 * above -infinity; the largest key of each chunk. */
const uint LOW_BITS = 22u, LOW_MASK = (1u << LOW_BITS) - 1u;
const uint SUMS = HEAD_WORDS, LIST = SUMS + 2u * BUCKETS, TOPS = LIST + 2u * MAX_LISTED;

uint top_keys(uint row) { return row * row_words + TOPS; }
uint top_tokens(uint row) { return top_keys(row) + slices; }
uint lowest_keys(uint row) { return top_tokens(row) + slices; }
uint chunk_keys(uint row) { return lowest_keys(row) + slices; }
