/* SPDX-License-Identifier: MIT */
/* Knobs: tunable choices between variants of a kernel whose results agree within the tolerances.
 * Calibration measures which is fastest on a device (runtime/calibrate_knobs.c). */
#ifndef RX_RUNTIME_KNOB_H
#define RX_RUNTIME_KNOB_H

#include "rlx/base.h"

#define RX_MAX_KNOBS 8
#define RX_KNOB_WORDS 5

typedef struct rx_knob_choice {
    const char *name;             /* "64x64x16" */
    uint32_t word[RX_KNOB_WORDS]; /* for the backend */
} rx_knob_choice;

typedef struct rx_knob {
    const char *name;
    const rx_knob_choice *choices; /* the first is used unless another was measured to be faster */
    size_t n_choices;
    /* The benchmark: x [rows, size] times `copies` weights [size, size] in a row. copies 0: only
     * rlx_session_tune tries them. */
    rlx_dtype weight; /* packed types: dequant_matmul */
    bool trans_b;
    int64_t rows, size;
    int copies;
} rx_knob;

/* The choice of each knob of a device, by index in its table. */
typedef struct rx_knobs {
    uint8_t choice[RX_MAX_KNOBS];
} rx_knobs;

#endif
