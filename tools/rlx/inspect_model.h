/* SPDX-License-Identifier: MIT */
/* The part of `rlx inspect` that shows model files. */
#ifndef INSPECT_MODEL_H
#define INSPECT_MODEL_H

#include <stdbool.h>
#include <stdint.h>

/* Prints the metadata, the tensors, the totals and the memory for `context` tokens (0: what the
 * model was trained for) of a file; returns the exit status. */
int inspect_model(const char *path, int64_t context, bool as_json);

#endif
