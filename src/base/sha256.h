/* SPDX-License-Identifier: MIT */
/* SHA-256 (FIPS 180-4), for files that come over a network. */
#ifndef RX_BASE_SHA256_H
#define RX_BASE_SHA256_H

#include "rlx/base.h"

#define RX_SHA256_HEX 65 /* characters of a digest in lower-case hexadecimal, with the zero byte */

typedef struct rx_sha256 {
    uint32_t h[8];
    uint64_t bytes;
    unsigned char block[64]; /* bytes % 64 of it wait */
} rx_sha256;

void rx_sha256_init(rx_sha256 *s);
void rx_sha256_add(rx_sha256 *s, const void *data, size_t n);
/* The digest; *s must be initialised again before another use. */
void rx_sha256_end(rx_sha256 *s, char hex[RX_SHA256_HEX]);

#endif
