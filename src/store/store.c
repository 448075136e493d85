/* SPDX-License-Identifier: MIT */
/* The folder of the store: names, manifests, listing, removing, finding. */
#include "store/store.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "base/file.h"
#include "base/outfile.h"
#include "base/posix.h"
#include "base/str.h"
#include "import/json.h"
#include "store/layout.h"

bool rx_store_is_name(const char *text, size_t n)
{
    if (!n || n > 200 || !isalnum((unsigned char)text[0]))
        return false;
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)text[i]) && !strchr("._-", text[i]))
            return false;
    return !memchr(text, 0, n);
}

rlx_status rx_store_path(const char *name, const char *file, char out[RX_STORE_PATH],
                         rlx_error *err)
{
    char folder[RX_STORE_PATH];
    if (!rx_env_store_dir(folder, sizeof folder))
        return rx_fail(err, RLX_IO, "there is no folder for models: set RLX_STORE or HOME");
    const int n = snprintf(out, RX_STORE_PATH, "%s%s%s%s%s", folder, name ? "/" : "",
                           name ? name : "", file ? "/" : "", file ? file : "");
    if (n < 0 || n >= RX_STORE_PATH)
        return rx_fail(err, RLX_INVALID, "the path of model '%s' is too long", name ? name : "");
    return RLX_OK;
}

/* ---- Manifests ------------------------------------------------------------------------------- */

static const char *text_of(const rx_json *v, const char *key)
{
    const rx_json *m = rx_json_member(v, key);
    return m && m->kind == RX_JSON_STRING ? m->text : NULL;
}

/* One entry of "files". */
static bool read_file_entry(const rx_json *v, rx_store_file *f)
{
    const char *digest = text_of(v, "sha256");
    f->name = text_of(v, "name");
    if (!f->name || !rx_store_is_name(f->name, strlen(f->name)) || !digest ||
        strlen(digest) != RX_SHA256_HEX - 1)
        return false;
    memcpy(f->sha256, digest, RX_SHA256_HEX);
    return rx_json_u64(rx_json_member(v, "bytes"), &f->bytes);
}

static rlx_status read_manifest(rx_arena *a, const char *path, const rx_file *file,
                                rx_store_model *m, rlx_error *err)
{
    const rx_json *v;
    RLX_TRY(rx_json_parse(a, path, file->data, file->bytes, &v, err));
    const rx_json *files = rx_json_member(v, "files");
    m->source = text_of(v, "source");
    if (!m->source || !files || files->kind != RX_JSON_ARRAY || files->n > RX_STORE_FILES)
        return rx_fail(err, RLX_PARSE, "'%s' is no manifest of a model", path);
    for (const rx_json *f = files->first; f; f = f->next) {
        if (!read_file_entry(f, &m->files[m->n_files]))
            return rx_fail(err, RLX_PARSE, "'%s': file %zu has a wrong entry", path, m->n_files);
        m->bytes += m->files[m->n_files++].bytes;
    }
    m->whole = true;
    return RLX_OK;
}

rlx_status rx_store_read(rx_arena *a, const char *name, rx_store_model *m, rlx_error *err)
{
    char path[RX_STORE_PATH];
    rx_file file;
    *m = (rx_store_model){.name = rx_arena_strdup(a, name), .source = ""};
    if (!m->name)
        return rx_fail_memory(err, "the name of a model", strlen(name));
    RLX_TRY(rx_store_path(name, RX_STORE_MANIFEST, path, err));
    rlx_status st = rx_file_open(path, &file, err);
    if (st != RLX_OK)
        return st == RLX_IO ? RLX_NOT_FOUND : st;
    st = read_manifest(a, path, &file, m, err);
    rx_file_close(&file);
    return st;
}

static void add_text(rx_str *s, const char *text)
{
    rx_str_puts(s, "\"");
    for (const unsigned char *p = (const unsigned char *)text; *p; p++)
        if (*p < 0x20 || *p == '"' || *p == '\\')
            rx_str_printf(s, "\\u%04x", *p);
        else
            rx_str_add(s, (const char *)p, 1);
    rx_str_puts(s, "\"");
}

rlx_status rx_store_write(const rx_store_model *m, rlx_error *err)
{
    char path[RX_STORE_PATH];
    rx_str s = {0};
    rx_outfile f;
    RLX_TRY(rx_store_path(m->name, RX_STORE_MANIFEST, path, err));
    rx_str_puts(&s, "{\"source\": ");
    add_text(&s, m->source);
    rx_str_puts(&s, ", \"files\": [");
    for (size_t i = 0; i < m->n_files; i++) {
        rx_str_printf(&s, "%s\n  {\"name\": ", i ? "," : "");
        add_text(&s, m->files[i].name);
        rx_str_printf(&s, ", \"bytes\": %llu, \"sha256\": \"%s\"}",
                      (unsigned long long)m->files[i].bytes, m->files[i].sha256);
    }
    rx_str_puts(&s, "\n]}\n");
    rlx_status st = s.failed ? rx_fail_memory(err, "a manifest", s.n)
                             : rx_outfile_open_cache(path, &f, err);
    if (st == RLX_OK)
        st = rx_outfile_end(&f, &(rx_bytes){s.data, s.n}, 1, err);
    rx_str_finish(&s);
    return st;
}

/* ---- Listing --------------------------------------------------------------------------------- */

static int compare_models(const void *a, const void *b)
{
    return strcmp(((const rx_store_model *)a)->name, ((const rx_store_model *)b)->name);
}

static rlx_status add_model(rx_arena *a, const char *name, rx_store_model **models, size_t *n,
                            size_t *cap)
{
    if (!rx_grow(models, cap, *n + 1, sizeof **models))
        return RLX_NO_MEMORY;
    rx_store_model *m = &(*models)[*n];
    if (rx_store_read(a, name, m, NULL) != RLX_OK)
        *m = (rx_store_model){.name = rx_arena_strdup(a, name), .source = ""};
    if (!m->name)
        return RLX_NO_MEMORY;
    ++*n;
    return RLX_OK;
}

rlx_status rx_store_list(rx_arena *a, const rx_store_model **out, size_t *n, rlx_error *err)
{
    char folder[RX_STORE_PATH];
    rx_store_model *models = NULL;
    size_t cap = 0;
    rlx_status st = RLX_OK;
    *n = 0;
    *out = NULL;
    RLX_TRY(rx_store_path(NULL, NULL, folder, err));
    rx_dir *d = rx_opendir(folder);
    if (!d && errno != ENOENT)
        return rx_fail(err, RLX_IO, "cannot read '%s': %s", folder, strerror(errno));
    for (const char *name; d && st == RLX_OK && (name = rx_next_name(d));)
        if (rx_store_is_name(name, strlen(name)))
            st = add_model(a, name, &models, n, &cap);
    if (d)
        rx_closedir(d);
    if (*n)
        qsort(models, *n, sizeof *models, compare_models);
    if (st == RLX_OK && *n && !(*out = rx_arena_array_copy(a, models, *n, sizeof *models)))
        st = RLX_NO_MEMORY;
    rx_free(models);
    return st == RLX_OK ? RLX_OK : rx_fail_memory(err, "the list of models", cap);
}

/* ---- Removing -------------------------------------------------------------------------------- */

/* Removes the manifest first: without it, files left by a failure are no model. */
static rlx_status remove_files(const char *name, rx_dir *d, rlx_error *err)
{
    char path[RX_STORE_PATH];
    RLX_TRY(rx_store_path(name, RX_STORE_MANIFEST, path, err));
    RLX_TRY(rx_outfile_remove(path, err));
    for (const char *file; (file = rx_next_name(d));) {
        if (!strcmp(file, ".") || !strcmp(file, ".."))
            continue;
        RLX_TRY(rx_store_path(name, file, path, err));
        RLX_TRY(rx_outfile_remove(path, err));
    }
    return RLX_OK;
}

rlx_status rx_store_remove(const char *name, rlx_error *err)
{
    char folder[RX_STORE_PATH];
    struct stat info;
    if (!rx_store_is_name(name, strlen(name)))
        return rx_fail(err, RLX_INVALID, "'%s' cannot be the name of a model", name);
    RLX_TRY(rx_store_path(name, NULL, folder, err));
    if (!rx_lstat(folder, &info) && S_ISLNK(info.st_mode)) /* a link's target is not the store's */
        return rx_outfile_remove(folder, err);
    rx_dir *d = rx_opendir(folder);
    if (!d)
        return rx_fail(err, RLX_NOT_FOUND, "there is no model '%s' in the store", name);
    rlx_status st = remove_files(name, d, err);
    rx_closedir(d);
    return st == RLX_OK ? rx_outfile_remove(folder, err) : st;
}

/* ---- Finding --------------------------------------------------------------------------------- */

rlx_status rx_store_find(const char *name, char path[RX_STORE_PATH], rlx_error *err)
{
    rx_arena a = {0};
    rx_store_model m;
    if (!rx_store_is_name(name, strlen(name)))
        return RLX_NOT_FOUND;
    rlx_status st = rx_store_read(&a, name, &m, err);
    const char *file = NULL;
    for (size_t i = 0; st == RLX_OK && i < m.n_files && !file; i++) {
        const char *end = strrchr(m.files[i].name, '.');
        if (end && !strcmp(end, ".gguf"))
            file = m.files[i].name;
    }
    if (st == RLX_OK)
        st = rx_store_path(name, file, path, err);
    else if (st == RLX_NOT_FOUND && rx_store_known(name))
        rx_fail(err, st, "model '%s' is not here yet: 'rlx pull %s' gets it", name, name);
    else if (st == RLX_NOT_FOUND)
        rx_fail(err, st, "there is no file and no model '%s'; 'rlx list' shows the models, 'rlx "
                "pull' gets them", name);
    rx_arena_finish(&a);
    return st;
}
