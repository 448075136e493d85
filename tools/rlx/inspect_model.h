/* SPDX-License-Identifier: MIT */
/* The part of `rlx inspect` that shows model files. */
#ifndef INSPECT_MODEL_H
#define INSPECT_MODEL_H

#include <stdbool.h>

/* Prints the metadata, the tensors and the totals of a file; returns the exit status. */
int inspect_model(const char *path, bool as_json);

#endif
