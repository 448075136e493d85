/* SPDX-License-Identifier: MIT */
/* Text of generated tokens: whole characters only; a possible prefix of a stop string is held back
 * until it is decided. */
#ifndef RX_MODEL_OUTPUT_H
#define RX_MODEL_OUTPUT_H

#include "rlx/tokenizer.h"

typedef struct rx_text_output {
    rlx_text_stream *stream; /* NULL: the model has no tokenizer */
    char **stop;
    size_t n_stop;
    char *held;              /* pending text, after `given` bytes already returned */
    size_t n_held, cap_held, given;
} rx_text_output;

/* Copies the stop strings, which need a tokenizer. On failure rx_text_output_finish frees what is
 * there. */
rlx_status rx_text_output_init(rx_text_output *o, const rlx_tokenizer *t, const char *const *stop,
                          size_t n_stop, rlx_error *err);
void rx_text_output_finish(rx_text_output *o);

/* Text to output; valid until the next call. */
typedef struct rx_output_text {
    const char *text;
    size_t length;
    bool stopped; /* a stop string follows it */
} rx_output_text;
rlx_status rx_text_output_push(rx_text_output *o, int32_t token, rx_output_text *out,
                               rlx_error *err);
/* The held-back text, at the end. */
rlx_status rx_text_output_flush(rx_text_output *o, rx_output_text *out, rlx_error *err);

#endif
