/* SPDX-License-Identifier: MIT */
/* Writes SVG pictures: shapes, text, and the axes of charts. Colours come from one palette that
 * reads well on light and on dark ground; the ground itself is left transparent. */
#ifndef SVG_H
#define SVG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "cli.h"
#include "report.h"

typedef struct svg {
    FILE *f;
    report file;
} svg;

/* Begins a picture of that size; false after printing why it cannot be written. */
bool svg_open(svg *s, const char *path, double width, double height, const char *title);
/* Writes the file; false after printing why not. */
bool svg_close(svg *s);

/* The i-th colour for a series; they repeat after svg_n_colours. */
const char *svg_colour(size_t i);

typedef struct svg_box {
    double x, y, w, h;
} svg_box;

/* A rounded rectangle; `tip` (may be NULL) is shown when pointed at. */
void svg_rect(svg *s, svg_box b, const char *colour, const char *tip);
/* kinds: "title", "label", "small", "value", "inside" (on a box); anchor: "start", "middle",
 * "end". */
void svg_text(svg *s, double x, double y, const char *kind, const char *anchor, const char *format,
              ...) CLI_PRINTF(6, 7);
/* kinds: "grid", "axis", "bound". */
void svg_line(svg *s, const char *kind, double x1, double y1, double x2, double y2);
void svg_dot(svg *s, double x, double y, const char *colour, const char *tip);
/* A line through n points (x, y, x, y, ...). */
void svg_path(svg *s, const double *points, size_t n, const char *colour);
/* A legend entry; returns the x where the next one begins. */
double svg_legend(svg *s, double x, double y, const char *colour, const char *text);

/* The distance of about `n` round ticks that cover 0 .. max. */
double svg_tick(double max, int n);

#endif
