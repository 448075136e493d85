/* SPDX-License-Identifier: MIT */
/* Scratch memory of kernels: blocks that live for one call, from memory that is kept. */
#ifndef RX_CPU_SCRATCH_H
#define RX_CPU_SCRATCH_H

#include "cpu/kernel.h"

struct rx_scratch {
    char *block;            /* one block that served every call so far */
    size_t cap, used;
    void **extra;           /* pieces of this call that did not fit */
    size_t n_extra, cap_extra;
    size_t want;            /* bytes this call has asked for */
    struct rx_scratch *threads; /* rx_scratch_threads */
    int n_threads;
};

/* The form of an operand that was made last. */
typedef struct rx_form {
    void *data;
    uint64_t cap;
    uint32_t x; /* as in rx_call; 0: nothing is there */
    uint64_t kind;
} rx_form;

/* A zero rx_form is ready. */
void rx_form_finish(rx_form *f);
/* A zero rx_scratch is ready. */
void rx_scratch_finish(rx_scratch *s);
/* Ends a call: all pieces are gone; the block grows to what the call needed. */
void rx_scratch_reset(rx_scratch *s);

/* n scratches for calls that the threads of this one make, each reset by its thread; they are kept
 * as this one is. NULL: out of memory. */
rx_scratch *rx_scratch_threads(rx_scratch *s, int n);

#endif
