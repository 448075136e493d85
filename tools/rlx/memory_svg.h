/* SPDX-License-Identifier: MIT */
/* Memory plans as SVG plots, and runs as traces. */
#ifndef MEMORY_SVG_H
#define MEMORY_SVG_H

#include "steps.h"

/* x: steps, y: bytes of the arena, one box for each tensor. False after printing why not. */
bool write_memory_svg(const work *w, const char *path);
/* A run as a trace for Perfetto or chrome://tracing. False after printing why not. */
bool write_trace(const work *w, const step_time *times, size_t n, const char *path);

#endif
