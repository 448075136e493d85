/* SPDX-License-Identifier: MIT */
/* Traces in the JSON form that Perfetto (ui.perfetto.dev) and chrome://tracing read. */
#ifndef TRACE_H
#define TRACE_H

#include "json.h"
#include "report.h"

/* Begins a trace that is shown in "ns" or "ms": events are added to *j as rows. False after
 * printing why it cannot be written. */
bool trace_begin(report *r, const char *path, const char *unit, json *j);
/* Writes the file; false after printing why not. */
bool trace_end(report *r, json *j);

#endif
