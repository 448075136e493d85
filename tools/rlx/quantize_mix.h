/* SPDX-License-Identifier: MIT */
/* Which type each tensor of a model gets when it is quantised: the table of --type and its rule. */
#ifndef QUANTIZE_MIX_H
#define QUANTIZE_MIX_H

#include "rlx/rlx.h"

typedef struct mix {
    const char *name;       /* "q4_k_m" */
    rlx_dtype base, better; /* better: RLX_NO_TYPE where all tensors get the base type */
    char size;              /* 's', 'm', 'l': how many tensors get the better type; 0 for none */
    uint32_t file_type;     /* general.file_type of GGUF */
} mix;

/* What is asked for, and what of the model matters. */
typedef struct mix_plan {
    const mix *mix;
    rlx_dtype output, embedding; /* RLX_NO_TYPE: by the rule */
    bool tied;                   /* no output.weight: token_embd.weight is also the output */
    int64_t n_layers;
} mix_plan;

/* The mix of that name, or NULL. */
const mix *mix_find(const char *name);
/* Name `i` of the table, NULL after the last. */
const char *mix_name(size_t i);

/* Says that there is no type of that name; returns EXIT_USAGE. */
int mix_unknown(const char *option, const char *name);
/* Learns tied and n_layers from the names of all tensors; tied is true before. */
void mix_study(mix_plan *p, const char *name);
void mix_study_file(mix_plan *p, const rlx_file *f);

/* The type for a tensor. One that is no matrix, or small and sensitive, keeps its type. Where its
 * rows do not fit the blocks, *fallback is set and a type with smaller blocks is given. */
rlx_dtype mix_type(const mix_plan *p, const rlx_file_tensor *t, bool *fallback);

#endif
