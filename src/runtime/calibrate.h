/* SPDX-License-Identifier: MIT */
/* Measured rates of devices: kept in the cache folder, one file for each device, driver and set of
 * kernels; defaults by kind for devices never measured. */
#ifndef RX_RUNTIME_CALIBRATE_H
#define RX_RUNTIME_CALIBRATE_H

#include "runtime/backend.h"

/* Default rates for a device of this kind. */
rlx_calibration rx_calibration_assume(const rlx_device_info *info);
/* Those of the cache folder; false when there are none. */
bool rx_calibration_load(const rx_backend *b, const rlx_device_info *info, rlx_calibration *out);
rlx_status rx_calibration_save(const rx_backend *b, const rlx_device_info *info,
                               const rlx_calibration *c, rlx_error *err);
/* Finds the fastest kernel variants, with products of at most `most` rows and columns, and sets
 * them. Those that cannot be measured stay as usual. calibrate_knobs.c */
rlx_status rx_calibrate_knobs(rlx_device *d, int64_t most, rx_knobs *out, rlx_error *err);
/* Kernel variants and their names; unknown names are logged and passed over. knobs.c */
void rx_knobs_parse(const rx_backend *b, const char *text, rx_knobs *out);
void rx_knobs_print(const rx_backend *b, const rx_knobs *k, char *out, size_t cap);
/* Gives a device that was just opened its kernel variants: RLX_KERNELS, else tuned ones, else those
 * of its calibration. */
void rx_knobs_apply(rlx_device *d);
/* What rlx_session_tune has kept; kernels NULL: forgets it. tuned.c */
#define RX_KNOBS_TEXT 192
bool rx_tuned_load(const rx_backend *b, const rlx_device_info *info, char kernels[RX_KNOBS_TEXT]);
rlx_status rx_tuned_save(const rx_backend *b, const rlx_device_info *info, const char *kernels,
                         rlx_error *err);
/* Runs small graphs on the device: takes a fraction of a second. calibrate_measure.c */
rlx_status rx_calibration_measure(rlx_device *d, rlx_calibration *out, rlx_error *err);
/* Rates without opening the device: from the cache folder, else the defaults. With RLX_CALIBRATE=1
 * a device that was never measured is measured now. */
rlx_calibration rx_calibration_get(const rx_backend *b, const rlx_device_info *info);

#endif
