/* SPDX-License-Identifier: MIT */
/* The table of kernels and their SPIR-V.
 *
 * Packed form, outside: runs of (length of literals, literals, length of a match, distance as a
 * number). A length is a sum of bytes up to the first below 255; a match of length 0 ends the data.
 * Matches in a variant of a kernel may begin in that kernel, its base, as if it lay before. Inside:
 * numbers of 7 bits a byte, low first: five words of the header, then for each instruction
 * operation, length, and its operands as differences (sign in the low bit) from the same operand of
 * the last instruction of that operation. */
#include <stdatomic.h>
#include <string.h>

#include "base/map.h"
#include "base/thread.h"
#include "gpu/blob.h"
#include "gpu/gpu.h"

const rx_kernel_info rx_kernels[RX_N_KERNELS] = {
#define KERNEL(name, file, defines, family, needs) {#name, RX_CONTRACT_##family, needs},
#include "gpu/kernels.def"
};

const char *rx_kernel_push_name(rx_kernel k, uint32_t i, char room[64])
{
    if (k >= RX_N_KERNELS)
        return NULL;
    if (i >= RX_GPU_MAX_PUSH && rx_kernels[k].needs & RX_NEEDS_CHAIN)
        return rx_contract_push_name(RX_CONTRACT_chain, i - RX_GPU_MAX_PUSH, room);
    return rx_contract_push_name(rx_kernels[k].contract, i, room);
}

const char *rx_kernel_spec_name(rx_kernel k, uint32_t i)
{
    return k >= RX_N_KERNELS ? NULL : rx_contract_spec_name(rx_kernels[k].contract, i);
}

const rx_param *rx_kernel_push(rx_kernel k, uint32_t i)
{
    uint32_t at;
    const bool known = k < RX_N_KERNELS && i < RX_GPU_MAX_PUSH;
    return known ? rx_contract_push_at(rx_kernels[k].contract, i, &at) : NULL;
}

const rx_param *rx_kernel_spec(rx_kernel k, uint32_t i)
{
    return k < RX_N_KERNELS && i ? rx_contract_spec(rx_kernels[k].contract, i - 1) : NULL;
}

const char *rx_kernel_bind_name(rx_kernel k, uint32_t i)
{
    return k >= RX_N_KERNELS ? NULL : rx_contract_bind_name(rx_kernels[k].contract, i);
}

static size_t get_length(const unsigned char **p)
{
    size_t n = 0;
    while (**p == 255) {
        n += 255;
        (*p)++;
    }
    return n + *(*p)++;
}

static uint32_t get_varint(const unsigned char **p)
{
    uint32_t v = 0;
    for (int shift = 0; shift < 35; shift += 7) {
        unsigned char b = *(*p)++;
        v |= (uint32_t)(b & 127) << shift;
        if (b < 128)
            break;
    }
    return v;
}

/* From out[at] on; the base lies before. The data is our own, so it is trusted; `n` bounds the
 * result all the same. */
static void unpack(const unsigned char *p, unsigned char *out, size_t at, size_t n)
{
    for (;;) {
        size_t literals = get_length(&p);
        if (literals > n - at)
            return;
        memcpy(out + at, p, literals);
        at += literals;
        p += literals;
        size_t match = get_length(&p);
        if (!match || match > n - at)
            return;
        size_t distance = get_varint(&p);
        for (size_t i = 0; i < match; i++, at++)
            out[at] = out[at - distance];
    }
}

/* `last` has 512 * 8 zeros. */
static void decode(const unsigned char *p, uint32_t *words, size_t n, uint32_t *last)
{
    for (size_t i = 0; i < 5 && i < n; i++)
        words[i] = get_varint(&p);
    for (size_t i = 5; i < n;) {
        uint32_t op = get_varint(&p), length = get_varint(&p);
        words[i] = length << 16 | op;
        for (uint32_t k = 1; k < length && i + k < n; k++) {
            uint32_t *before = &last[op % 512 * 8 + (k < 8 ? k : 7)];
            uint32_t d = get_varint(&p);
            *before += d >> 1 ^ (0u - (d & 1));
            words[i + k] = *before;
        }
        i += length ? length : 1;
    }
}

/* The words of a kernel, or NULL when out of memory. */
static uint32_t *load(const rx_blob_entry *e)
{
    uint32_t *words = rx_alloc_array(e->n_words, sizeof *words);
    uint32_t *last = rx_alloc_array_zero(512 * 8, sizeof *last);
    const rx_blob_entry *base = e - e->base;
    const size_t before = e->base ? base->small_bytes : 0;
    unsigned char *small = rx_alloc(before + e->small_bytes);
    if (words && last && small) {
        if (e->base)
            unpack(rx_blob_data + base->offset, small, 0, before);
        unpack(rx_blob_data + e->offset, small, before, before + e->small_bytes);
        decode(small + before, words, e->n_words, last);
    } else {
        rx_free(words);
        words = NULL;
    }
    rx_free(small);
    rx_free(last);
    return words;
}

/* Words of each kernel once it was asked for; kept until the process ends. */
static rx_mutex cache_lock = RX_MUTEX_INIT;
static uint32_t *cache[RX_N_KERNELS + 1];

static const rx_blob_entry *find_entry(const char *name)
{
    const rx_blob_entry *e = rx_blob_index;
    while (e->name && strcmp(e->name, name))
        e++;
    return e->name ? e : NULL;
}

const uint32_t *rx_kernel_code(rx_kernel k, size_t *n_words)
{
    const rx_blob_entry *e = find_entry(rx_kernels[k].name);
    *n_words = e ? e->n_words : 0;
    if (!e)
        return NULL;
    rx_mutex_lock(&cache_lock);
    if (!cache[k])
        cache[k] = load(e);
    const uint32_t *words = cache[k];
    rx_mutex_unlock(&cache_lock);
    return words;
}

bool rx_kernel_available(rx_kernel k, const rx_gpu_caps *caps)
{
    uint32_t needs = rx_kernels[k].needs;
    return (!(needs & RX_NEEDS_SUBGROUP) || (caps->subgroup && caps->subgroup_arith)) &&
           (!(needs & RX_NEEDS_LANES32) || caps->subgroup == 32 || caps->subgroup_32) &&
           (!(needs & RX_NEEDS_F16) || caps->f16) &&
           (!(needs & RX_NEEDS_STORAGE16) || caps->storage16) &&
           (!(needs & RX_NEEDS_STORAGE8) || caps->storage8) &&
           (!(needs & RX_NEEDS_ADDRESS) || caps->address) &&
           (!(needs & RX_NEEDS_INT_DOT) || caps->int_dot) &&
           (!(needs & RX_NEEDS_INT8) || caps->int8) &&
           (!(needs & RX_NEEDS_COHERENT) || caps->coherent) &&
           (!(needs & RX_NEEDS_CHAIN) || caps->chains) &&
           (!(needs & RX_NEEDS_COOPMAT) || caps->coopmat_f16) &&
           (!(needs & RX_NEEDS_BF16) || caps->coopmat_bf16);
}

/* ---- Digest ---------------------------------------------------------------------------------- */

uint64_t rx_gpu_kernels_digest(void)
{
    static _Atomic uint64_t known; /* 0: not yet computed; all threads compute the same */
    uint64_t h = atomic_load(&known), end = 0;
    if (h)
        return h;
    h = 1;
    for (const rx_blob_entry *e = rx_blob_index; e->name; e++) {
        h = rx_hash(h, e->name, strlen(e->name));
        uint64_t stop = (uint64_t)e->offset + e->packed_bytes;
        end = stop > end ? stop : end;
    }
    h = rx_hash(h, rx_blob_data, (size_t)end);
    atomic_store(&known, h);
    return h;
}
