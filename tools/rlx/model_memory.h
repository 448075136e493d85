/* SPDX-License-Identifier: MIT */
/* How much memory a model needs on a device, from the metadata of its GGUF file. */
#ifndef MODEL_MEMORY_H
#define MODEL_MEMORY_H

#include "json.h"
#include "rlx/rlx.h"

/* What of a model decides its memory. */
typedef struct model_facts {
    char architecture[64];
    int64_t n_layers, n_embd, n_ff, n_vocab;
    int64_t context;   /* that it was trained for */
    double weights;    /* bytes */
    double kv_row;     /* bytes of K and V of one token in the layers that see all tokens */
    double window_row; /* and in those that see a window */
    int64_t window;    /* tokens; 0 when there is none */
    double state;      /* bytes of recurrent layers */
    double width;      /* f32 values a token needs while it passes through */
} model_facts;

/* False when the file does not say what it takes. */
bool model_facts_read(const rlx_file *f, double weight_bytes, model_facts *out);
/* For a context of so many tokens, in bytes; f16 keys and values, prompts in batches of 512. */
double model_cache_bytes(const model_facts *m, int64_t context);
double model_activation_bytes(const model_facts *m, int64_t context);
double model_total_bytes(const model_facts *m, int64_t context);

/* Tables of the parts and of the longest context that fits into the device (NULL: each device).
 * context 0: that of training. */
void model_memory_print(const model_facts *m, int64_t context, const char *device);
/* The same as members "memory" and "devices". */
void model_memory_json(const model_facts *m, int64_t context, const char *device, json *j);
/* After a model did not fit: to standard error, what a context of so many tokens (0: the default)
 * takes and the longest one that fits into the device (NULL: the best one). */
void model_memory_hint(const char *path, const char *device, int64_t context);

#endif
