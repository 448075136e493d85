/* SPDX-License-Identifier: MIT */
/* What the files of the store share: paths, manifests, the table of known models. */
#ifndef RX_STORE_LAYOUT_H
#define RX_STORE_LAYOUT_H

#include "store/store.h"

#define RX_STORE_MANIFEST "rlx.json"

/* STORE, STORE/NAME or STORE/NAME/FILE. */
rlx_status rx_store_path(const char *name, const char *file, char out[RX_STORE_PATH],
                         rlx_error *err);
/* RLX_NOT_FOUND: there is no manifest. The texts live in the arena. */
rlx_status rx_store_read(rx_arena *a, const char *name, rx_store_model *m, rlx_error *err);
rlx_status rx_store_write(const rx_store_model *m, rlx_error *err);

typedef struct rx_known_model {
    const char *name, *package, *version, *sha256, *help;
} rx_known_model;
/* A model of models.def, or NULL. */
const rx_known_model *rx_store_known(const char *name);

#endif
