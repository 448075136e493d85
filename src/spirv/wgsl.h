/* SPDX-License-Identifier: MIT */
/* Prints a compute kernel's SPIR-V as WGSL, with its specialisation constants applied, for WebGPU.
 *
 * The accepted subset is described in docs/wgsl.md; a module outside of it is refused. The module
 * may be anything: damaged ones are refused or printed as nonsense, never read out of bounds.
 * No state is shared: any thread may print at any time. */
#ifndef RX_SPIRV_WGSL_H
#define RX_SPIRV_WGSL_H

#include "base/error.h"

#define RX_WGSL_MAX_BIND 16

typedef enum rx_wgsl_subgroups {
    RX_WGSL_SUBGROUPS_OFF,    /* a kernel that uses subgroups is refused */
    RX_WGSL_SUBGROUPS_PLAIN,  /* usable without a directive, which naga (wgpu) does not know */
    RX_WGSL_SUBGROUPS_ENABLE  /* `enable subgroups;` is printed: Tint (Dawn, browsers) wants it */
} rx_wgsl_subgroups;

/* Zero-initialised options print for the least device: everything read_write, no feature.
 *
 * Storage buffers keep their binding numbers, in group `buffer_group`; all of them are read_write
 * unless `read_only` says otherwise, because WebGPU refuses a dispatch that has one buffer both as
 * read and as read_write, even at ranges far apart, and most operands lie in one buffer.
 *
 * Push constants become a uniform buffer at (push_group, push_binding) of uniform_bytes bytes: the
 * first push_words words that are pushed (zeros where there are fewer), then the shifts, see below.
 *
 * Overlapping ranges: WebGPU also refuses two bindings whose ranges overlap if one is read_write,
 * as those of an operation in place are, or of x + x. The backend then chooses one binding r of
 * those that overlap (any of them) and sets alias[i] = 1 + r for each other i: it leaves i out of
 * the bind group and binds, at r, the union of the ranges. A binding (r too) whose own range begins
 * later than the union is marked in `shifted`; the distance, in words of 4 bytes, is then a word of
 * the uniform buffer: the one with index binding[i].shift_word. Aliases may differ in their element
 * type, vectors and atomics included: words are then read one by one. */
typedef struct rx_wgsl_options {
    const char *name;          /* of the kernel, for errors; NULL: none */
    const uint32_t *spec;      /* value of specialisation constant id 0, 1, ... as 32 bits */
    size_t n_spec;             /* constants with other ids keep their defaults */
    bool f16;                  /* `enable f16;` may be printed */
    rx_wgsl_subgroups subgroups;
    uint32_t buffer_group;
    uint32_t push_group, push_binding;
    size_t unroll_bytes;       /* loops that the module wants unrolled are, up to this length */
    uint32_t read_only;        /* bit i: binding i may be `read`, if the kernel does not write it */
    uint32_t shifted;          /* bit i: binding i begins after its range */
    /* alias[i] = 1 + r: binding i prints as accesses to binding r, which is not an alias. 0: its
     * own variable. */
    uint8_t alias[RX_WGSL_MAX_BIND];
} rx_wgsl_options;

typedef struct rx_wgsl_binding {
    bool used;            /* declared in the text, so the bind group layout must have it */
    bool read_write;      /* declared so, else as `read` */
    bool read, written;   /* by the kernel itself, through this binding; atomics do both */
    uint32_t shift_word;  /* index into the uniform buffer's words; 0 where not shifted */
} rx_wgsl_binding;

typedef struct rx_wgsl_text {
    char *data;            /* ends in 0; freed by rx_wgsl_text_finish */
    size_t n;
    rx_wgsl_binding binding[RX_WGSL_MAX_BIND];
    uint32_t n_bindings;   /* 1 + the highest binding of the module */
    uint32_t push_words;   /* of the module's push constants */
    uint32_t uniform_bytes; /* size of the uniform buffer, a multiple of 16; 0: there is none */
    uint32_t local[3];     /* workgroup size */
    uint32_t shared_bytes; /* workgroup memory that is declared */
    bool uses_f16, uses_subgroups, uses_dot4; /* dot4: packed_4x8_integer_dot_product */
} rx_wgsl_text;

/* The entry point is "main". On failure *out is empty: RLX_UNSUPPORTED, with a sentence that names
 * the kernel, the instruction and its place, where the module has no WGSL form with these options;
 * RLX_INVALID where it is no sound SPIR-V; RLX_NO_MEMORY. */
rlx_status rx_wgsl_print(const uint32_t *words, size_t n_words, const rx_wgsl_options *o,
                         rx_wgsl_text *out, rlx_error *err);
void rx_wgsl_text_finish(rx_wgsl_text *t);

#endif
