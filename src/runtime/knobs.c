/* SPDX-License-Identifier: MIT */
/* Kernel variants as text, "gemv=128x4,tile=64x64x8/8x8" (others at their defaults), and how an
 * opened device gets them: RLX_KERNELS, else those it was tuned to, else its calibration. */
#include <stdio.h>
#include <string.h>

#include "base/env.h"
#include "base/error.h"
#include "runtime/calibrate.h"
#include "runtime/device.h"

static bool is_text(const char *text, size_t length, const char *name)
{
    return strlen(name) == length && !memcmp(text, name, length);
}

/* One "name=choice" of `length` characters. False when the table does not have it. */
static bool set_choice(const rx_knob *table, size_t n, const char *text, size_t length,
                       rx_knobs *out)
{
    size_t name = strcspn(text, "=");
    if (name >= length)
        return false;
    for (size_t i = 0; i < n; i++) {
        if (!is_text(text, name, table[i].name))
            continue;
        for (size_t k = 0; k < table[i].n_choices; k++)
            if (is_text(text + name + 1, length - name - 1, table[i].choices[k].name)) {
                out->choice[i] = (uint8_t)k;
                return true;
            }
    }
    return false;
}

void rx_knobs_parse(const rx_backend *b, const char *text, rx_knobs *out)
{
    size_t n = 0;
    const rx_knob *table = b->knobs ? b->knobs(&n) : NULL;
    *out = (rx_knobs){{0}};
    while (*text) {
        size_t length = strcspn(text, ",");
        if (!set_choice(table, n, text, length, out))
            rx_log(RLX_LOG_WARN, "%s has no kernel variant '%.*s'", b->name, (int)length, text);
        text += length + (text[length] == ',');
    }
}

void rx_knobs_print(const rx_backend *b, const rx_knobs *k, char *out, size_t cap)
{
    size_t n = 0, used = 0;
    const rx_knob *table = b->knobs ? b->knobs(&n) : NULL;
    out[0] = 0;
    for (size_t i = 0; i < n && used < cap; i++)
        if (k->choice[i])
            used += (size_t)snprintf(out + used, cap - used, "%s%s=%s", used ? "," : "",
                                     table[i].name, table[i].choices[k->choice[i]].name);
}

void rx_knobs_apply(rlx_device *d)
{
    rlx_calibration c = {RLX_INIT(rlx_calibration)};
    char tuned[RX_KNOBS_TEXT];
    const char *text = rx_env_text(RX_ENV_KERNELS);
    if (!d->backend->set_knobs)
        return;
    if (!text && rx_tuned_load(d->backend, &d->info, tuned))
        text = tuned;
    if (!text && rx_calibration_load(d->backend, &d->info, &c))
        text = c.kernels;
    rx_knobs_parse(d->backend, text ? text : "", &d->knobs);
    d->backend->set_knobs(d->device, &d->knobs);
}
