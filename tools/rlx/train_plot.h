/* SPDX-License-Identifier: MIT */
/* The picture of rlx train --plot. */
#ifndef TRAIN_PLOT_H
#define TRAIN_PLOT_H

#include "cli.h"

/* Writes an SVG file; false after printing why not. */
bool train_plot(const char *path, const char *title, const rlx_trainer *t);

#endif
