/* SPDX-License-Identifier: MIT */
/* The cost model: the time that a program takes on a device, from the work of its steps and what
 * the device was measured to do. */
#ifndef RX_COMPILE_ESTIMATE_H
#define RX_COMPILE_ESTIMATE_H

#include "compile/program.h"
#include "rlx/device.h"

/* Seconds of one run at the bounds of the named dimensions, with all inputs uploaded and all
 * outputs read. */
double rx_estimate(const rx_program *p, const rlx_calibration *c);

#endif
