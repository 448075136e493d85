/* SPDX-License-Identifier: MIT */
/* Saves a file again and again, each time with another of its system calls failing, cut short,
 * interrupted, or the process killed there: the target is the whole old file or the whole new one
 * and nothing else stays in its folder. */
#ifndef RLX_TESTS_SUPPORT_FILE_FAULTS_H
#define RLX_TESTS_SUPPORT_FILE_FAULTS_H

#include "base/outfile.h"
#include "check.h"

/* Writes version 0 or 1 of a file, which differ. */
typedef rlx_status save_fn(void *user, const char *path, int version, rlx_error *err);

#if defined(__wasi__)

static inline void check_file_faults(const char *what, save_fn *save, void *user)
{
    (void)save;
    (void)user;
    printf("%s: faults are not tested, WebAssembly has no processes to kill\n", what);
}

#else

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

typedef enum fault_kind { FAULT_ERROR, FAULT_INTERRUPT, FAULT_SHORT, FAULT_KILL } fault_kind;

typedef struct file_fault {
    fault_kind kind;
    int error;       /* of FAULT_ERROR */
    long at;         /* the call that has it, from 1; 0: none */
    bool named;      /* no files without names */
    long n;          /* calls so far */
    char call[16];   /* the one that had it */
} file_fault;

static int fault_hook(void *user, const char *call, size_t *bytes)
{
    file_fault *f = user;
    if (f->named && !strcmp(call, "tmpfile"))
        return EOPNOTSUPP;
    if (f->kind != FAULT_KILL && !strcmp(call, "remove"))
        return 0; /* what is there to be done? */
    if (++f->n != f->at)
        return 0;
    snprintf(f->call, sizeof f->call, "%s", call);
    if (f->kind == FAULT_KILL)
        raise(SIGKILL);
    if (f->kind == FAULT_SHORT && bytes && *bytes > 1)
        *bytes = 1;
    if (f->kind == FAULT_SHORT)
        return 0;
    return f->kind == FAULT_INTERRUPT ? EINTR : f->error;
}

typedef struct file_bytes {
    char *data;
    size_t n;
} file_bytes;

static file_bytes read_bytes(const char *path)
{
    file_bytes b = {0};
    struct stat st;
    FILE *f = fopen(path, "rb");
    if (f && !fstat(fileno(f), &st) && st.st_size > 0 && (b.data = malloc((size_t)st.st_size)))
        b.n = fread(b.data, 1, (size_t)st.st_size, f);
    if (f)
        fclose(f);
    return b;
}

static bool file_equals(const char *path, const file_bytes *want)
{
    file_bytes b = read_bytes(path);
    bool ok = b.n == want->n && b.n && !memcmp(b.data, want->data, b.n);
    free(b.data);
    return ok;
}

static int count_files(const char *folder)
{
    int n = -2; /* "." and ".." */
    DIR *d = opendir(folder);
    while (d && readdir(d))
        n++;
    if (d)
        closedir(d);
    return n;
}

typedef struct fault_case {
    const char *folder, *path;
    save_fn *save;
    void *user;
    file_bytes bytes[2];
} fault_case;

static bool save_version(const fault_case *c, int version)
{
    rlx_error err = {0};
    rx_outfile_set_hook(NULL, NULL);
    return CHECK_OK(c->save(c->user, c->path, version, &err), &err) &&
           CHECK(file_equals(c->path, &c->bytes[version])) && CHECK(count_files(c->folder) == 1);
}

/* The old file, which most faults have left there. */
static bool make_old(const fault_case *c)
{
    return (file_equals(c->path, &c->bytes[0]) && count_files(c->folder) == 1) ||
           save_version(c, 0);
}

/* False when there was no such call. */
static bool fail_at(const fault_case *c, file_fault fault)
{
    rlx_error err = {0};
    if (!make_old(c))
        return false;
    rx_outfile_set_hook(fault_hook, &fault);
    rlx_status st = c->save(c->user, c->path, 1, &err);
    rx_outfile_set_hook(NULL, NULL);
    if (!fault.call[0])
        return false;
    const bool harmless = fault.kind != FAULT_ERROR || !strcmp(fault.call, "tmpfile") ||
                          !strcmp(fault.call, "lock");
    const bool is_new = harmless || !strcmp(fault.call, "sync folder");
    bool ok = CHECK(st == (harmless ? RLX_OK : RLX_IO)) &&
              CHECK(file_equals(c->path, &c->bytes[is_new])) &&
              CHECK(count_files(c->folder) == 1) && CHECK(harmless || strstr(err.text, c->path));
    if (!ok)
        printf("    call %ld, %s, of kind %d: %s\n", fault.at, fault.call, (int)fault.kind,
               err.text);
    return ok;
}

/* False when there was no such call. */
static bool kill_at(const fault_case *c, file_fault fault)
{
    int status = 0;
    if (!make_old(c))
        return false;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        rlx_error err = {0};
        rx_outfile_set_hook(fault_hook, &fault);
        _exit(c->save(c->user, c->path, 1, &err) == RLX_OK ? 0 : 1);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    bool ok = CHECK(file_equals(c->path, &c->bytes[0]) || file_equals(c->path, &c->bytes[1]));
    if (ok && WIFSIGNALED(status)) /* what it left is gone after the next one */
        return CHECK(WTERMSIG(status) == SIGKILL) && CHECK(count_files(c->folder) <= 2) &&
               save_version(c, 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    return false;
}

/* The same with a limit on the size of files, which stands for a full disk. */
static void fill_disk(const fault_case *c)
{
    int status = 0;
    save_version(c, 0);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        rlx_error err = {0};
        signal(SIGXFSZ, SIG_IGN);
        setrlimit(RLIMIT_FSIZE, &(struct rlimit){c->bytes[1].n / 2, c->bytes[1].n / 2});
        _exit(c->save(c->user, c->path, 1, &err) == RLX_IO && strstr(err.text, c->path) ? 0 : 1);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
          WEXITSTATUS(status) == 0);
    CHECK(file_equals(c->path, &c->bytes[0]) && count_files(c->folder) == 1);
}

static inline void check_file_faults(const char *what, save_fn *save, void *user)
{
    char folder[] = "faults-XXXXXX", path[64];
    static const int errors[] = {ENOSPC, EIO};
    rlx_error err = {0};
    long n_calls = 0;
    if (!CHECK(mkdtemp(folder) != NULL))
        return;
    snprintf(path, sizeof path, "%s/file", folder);
    fault_case c = {folder, path, save, user, {{0}}};
    for (int version = 2; version--;) {
        CHECK_OK(save(user, path, version, &err), &err);
        c.bytes[version] = read_bytes(path);
    }
    CHECK(c.bytes[0].n && !file_equals(path, &c.bytes[1]));
    for (int named = 0; named < 2; named++) {
        for (fault_kind k = FAULT_ERROR; k < FAULT_KILL; k++)
            for (size_t e = 0; e < (k == FAULT_ERROR ? sizeof errors / sizeof *errors : 1); e++)
                for (long at = 1; fail_at(&c, (file_fault){k, errors[e], at, named, 0, ""}); at++)
                    n_calls++;
        for (long at = 1; kill_at(&c, (file_fault){FAULT_KILL, 0, at, named, 0, ""}); at++)
            n_calls++;
    }
    fill_disk(&c);
    CHECK(n_calls >= 40);
    printf("%s: %ld faults\n", what, n_calls);
    unlink(path);
    CHECK(rmdir(folder) == 0);
    free(c.bytes[0].data);
    free(c.bytes[1].data);
}

#endif

#endif
