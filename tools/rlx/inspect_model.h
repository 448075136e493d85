/* SPDX-License-Identifier: MIT */
/* The part of `rlx inspect` that shows model files. */
#ifndef INSPECT_MODEL_H
#define INSPECT_MODEL_H

#include <stdbool.h>
#include <stdint.h>

/* Prints what kind of model a file is, its metadata, tensors and totals, and its memory for
 * `context` tokens (0: what it was trained for) on `device` (NULL: on each); returns the exit
 * status. */
int inspect_model(const char *path, const char *device, int64_t context, bool as_json);

#endif
