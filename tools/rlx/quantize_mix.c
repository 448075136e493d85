/* SPDX-License-Identifier: MIT */
/* The types of --type. A plain name packs all matrices alike. Of the others, "_s" gives the output
 * matrix six bits (and the token embedding where it is the output too); "_m" also gives the better
 * type to the two matrices of a layer that suffer most, attn_v and ffn_down, in the first and last
 * eighth of the layers and in every third between; "_l" in all layers. */
#include "quantize_mix.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli.h"

static const mix mixes[] = {
    {"f32", RLX_F32, RLX_NO_TYPE, 0, 0},
    {"f16", RLX_F16, RLX_NO_TYPE, 0, 1},
    {"bf16", RLX_BF16, RLX_NO_TYPE, 0, 32},
    {"q4_0", RLX_Q4_0, RLX_NO_TYPE, 0, 2},
    {"q4_1", RLX_Q4_1, RLX_NO_TYPE, 0, 3},
    {"q5_0", RLX_Q5_0, RLX_NO_TYPE, 0, 8},
    {"q5_1", RLX_Q5_1, RLX_NO_TYPE, 0, 9},
    {"q8_0", RLX_Q8_0, RLX_NO_TYPE, 0, 7},
    {"q2_k", RLX_Q2_K, RLX_NO_TYPE, 0, 10},
    {"q2_k_m", RLX_Q2_K, RLX_Q4_K, 'm', 10},
    {"q3_k", RLX_Q3_K, RLX_NO_TYPE, 0, 11},
    {"q3_k_s", RLX_Q3_K, RLX_Q5_K, 's', 11},
    {"q3_k_m", RLX_Q3_K, RLX_Q5_K, 'm', 12},
    {"q3_k_l", RLX_Q3_K, RLX_Q5_K, 'l', 13},
    {"q4_k", RLX_Q4_K, RLX_NO_TYPE, 0, 14},
    {"q4_k_s", RLX_Q4_K, RLX_Q6_K, 's', 14},
    {"q4_k_m", RLX_Q4_K, RLX_Q6_K, 'm', 15},
    {"q5_k", RLX_Q5_K, RLX_NO_TYPE, 0, 16},
    {"q5_k_s", RLX_Q5_K, RLX_Q6_K, 's', 16},
    {"q5_k_m", RLX_Q5_K, RLX_Q6_K, 'm', 17},
    {"q6_k", RLX_Q6_K, RLX_NO_TYPE, 0, 18},
    {"iq4_nl", RLX_IQ4_NL, RLX_NO_TYPE, 0, 25},
    {"mxfp4", RLX_MXFP4, RLX_NO_TYPE, 0, 38},
};

/* For rows that are no multiple of 256: a type of blocks of 32 with as many bits or more. */
static const struct {
    rlx_dtype type, instead;
} narrower[] = {
    {RLX_Q2_K, RLX_IQ4_NL}, {RLX_Q3_K, RLX_IQ4_NL}, {RLX_Q4_K, RLX_Q5_0}, {RLX_Q5_K, RLX_Q5_1},
    {RLX_Q6_K, RLX_Q8_0},
};

/* Parts of names of tensors that are small and sensitive, or that are not used in products. */
static const char *const kept[] = {"norm", "ffn_gate_inp", "position_embd", "token_types",
                                   "ssm_conv1d", "ssm_a", "ssm_dt", "rope_freqs"};

const mix *mix_find(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(mixes); i++)
        if (!strcasecmp(mixes[i].name, name)) /* llama.cpp writes Q4_K_M */
            return &mixes[i];
    return NULL;
}

const char *mix_name(size_t i)
{
    return i < ARRAY_LEN(mixes) ? mixes[i].name : NULL;
}

static bool is_matrix(const rlx_file_tensor *t)
{
    size_t n = strlen(t->name);
    if (t->shape.rank < 2 || n < 7 || strcmp(t->name + n - 7, ".weight"))
        return false;
    for (size_t i = 0; i < ARRAY_LEN(kept); i++)
        if (strstr(t->name, kept[i]))
            return false;
    return true;
}

/* The layers that get the better type: see above. */
static bool is_chosen_layer(const mix_plan *p, const char *name)
{
    if (p->mix->size == 'l')
        return true;
    if (p->mix->size != 'm' || strncmp(name, "blk.", 4))
        return false;
    int64_t layer = strtoll(name + 4, NULL, 10), eighth = p->n_layers / 8;
    return layer < eighth || layer >= p->n_layers - eighth || (layer - eighth) % 3 == 2;
}

static rlx_dtype wanted_type(const mix_plan *p, const rlx_file_tensor *t)
{
    const bool is_output = !strcmp(t->name, "output.weight");
    const bool is_embedding = !strcmp(t->name, "token_embd.weight");
    if (is_output && p->output != RLX_NO_TYPE)
        return p->output;
    if (is_embedding && p->embedding != RLX_NO_TYPE)
        return p->embedding;
    if (p->mix->better == RLX_NO_TYPE)
        return p->mix->base;
    if (is_output || (is_embedding && p->tied))
        return RLX_Q6_K;
    const bool suffers = strstr(t->name, ".attn_v.") || strstr(t->name, ".ffn_down") ||
                         strstr(t->name, ".attn_qkv.");
    return suffers && is_chosen_layer(p, t->name) ? p->mix->better : p->mix->base;
}

rlx_dtype mix_type(const mix_plan *p, const rlx_file_tensor *t, bool *fallback)
{
    *fallback = false;
    if (!is_matrix(t))
        return t->dtype;
    rlx_dtype type = wanted_type(p, t);
    const int64_t row = t->shape.dim[t->shape.rank - 1];
    if (row % rlx_dtype_block_size(type) == 0)
        return type;
    *fallback = true;
    for (size_t i = 0; i < ARRAY_LEN(narrower); i++)
        if (narrower[i].type == type && row % 32 == 0)
            return narrower[i].instead;
    return rlx_dtype_is_float(t->dtype) ? t->dtype : RLX_F16;
}

int mix_unknown(const char *option, const char *name)
{
    const char *names[64];
    size_t n = 0;
    while (n < ARRAY_LEN(names) && mix_name(n)) {
        names[n] = mix_name(n);
        n++;
    }
    const char *near = cli_nearest(name, names, n);
    if (near)
        return cli_usage("--%s: there is no type '%s'; did you mean '%s'?", option, name, near);
    return cli_usage("--%s: there is no type '%s'; see 'rlx quantize --help'", option, name);
}

void mix_study(mix_plan *p, const char *name)
{
    if (!strcmp(name, "output.weight"))
        p->tied = false;
    if (strncmp(name, "blk.", 4))
        return;
    const int64_t layer = strtoll(name + 4, NULL, 10) + 1;
    p->n_layers = layer > p->n_layers ? layer : p->n_layers;
}

void mix_study_file(mix_plan *p, const rlx_file *f)
{
    rlx_file_tensor t;
    p->tied = true;
    for (size_t i = 0; rlx_file_tensor_at(f, i, &t); i++)
        mix_study(p, t.name);
}
