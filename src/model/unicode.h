/* SPDX-License-Identifier: MIT */
/* Unicode for the tokenizers: UTF-8 with broken bytes kept, categories, normal forms, lower case.
 * The version of the data is written in unicode_tables.h. */
#ifndef RX_MODEL_UNICODE_H
#define RX_MODEL_UNICODE_H

#include "rlx/base.h"

/* General categories, in the order of tools/unicode/make_tables.py. */
typedef enum rx_category {
    RX_CN, RX_LU, RX_LL, RX_LT, RX_LM, RX_LO, RX_MN, RX_MC, RX_ME, RX_ND, RX_NL, RX_NO, RX_PC,
    RX_PD, RX_PS, RX_PE, RX_PI, RX_PF, RX_PO, RX_SM, RX_SC, RX_SK, RX_SO, RX_ZS, RX_ZL, RX_ZP,
    RX_CC, RX_CF, RX_CS, RX_CO
} rx_category;

/* Sets of categories, and white space as one more bit. */
#define RX_IN(category) (1u << (category))
#define RX_IN_L (RX_IN(RX_LU) | RX_IN(RX_LL) | RX_IN(RX_LT) | RX_IN(RX_LM) | RX_IN(RX_LO))
#define RX_IN_M (RX_IN(RX_MN) | RX_IN(RX_MC) | RX_IN(RX_ME))
#define RX_IN_N (RX_IN(RX_ND) | RX_IN(RX_NL) | RX_IN(RX_NO))
#define RX_IN_P (RX_IN(RX_PC) | RX_IN(RX_PD) | RX_IN(RX_PS) | RX_IN(RX_PE) | RX_IN(RX_PI) | \
                 RX_IN(RX_PF) | RX_IN(RX_PO))
#define RX_IN_S (RX_IN(RX_SM) | RX_IN(RX_SC) | RX_IN(RX_SK) | RX_IN(RX_SO))
#define RX_IN_SPACE (1u << 30)

/* A byte that is no part of UTF-8 is read as RX_BAD_BYTE + byte and written back as that byte. */
#define RX_BAD_BYTE 0x110000u
#define RX_REPLACEMENT 0xfffdu

/* Bytes of the character at s, where n > 0 are left, and its code point; 1 for a bad byte. */
size_t rx_utf8_get(const char *s, size_t n, uint32_t *code);
/* Writes up to 4 bytes. */
size_t rx_utf8_put(char *out, uint32_t code);
/* Bytes at s, where n > 0 are left, that one U+FFFD replaces: the longest truncated sequence, or
 * one byte. 0 when a whole character is there. */
size_t rx_utf8_bad(const char *s, size_t n);
/* Bytes at the end of s that may still become a character when more follow: 0 to 3. */
size_t rx_utf8_open(const char *s, size_t n);

/* The set bits of a code point: its category (bad bytes: like U+FFFD), RX_IN_SPACE. */
uint32_t rx_unicode_bits(uint32_t code);
/* White_Space of Unicode. */
bool rx_unicode_is_space(uint32_t code);
/* 1 or 2 code points. */
size_t rx_unicode_lower(uint32_t code, uint32_t out[2]);

/* The longest decomposition of a code point. */
#define RX_MAX_DECOMPOSED 18
size_t rx_unicode_decompose(uint32_t code, bool compatible, uint32_t out[RX_MAX_DECOMPOSED]);
int rx_unicode_class(uint32_t code);
/* The canonical composition of two code points, or 0. */
uint32_t rx_unicode_compose(uint32_t first, uint32_t second);

#endif
