/* SPDX-License-Identifier: MIT */
/* Files of the cache folder: made for this user only; links are neither followed when one is
 * written nor when it is read. */
#include "base/cache.h"

#include <sys/stat.h>

#include "support/file_faults.h"

static bool holds(const char *path, const char *text)
{
    return file_equals(path, &(file_bytes){(char *)(uintptr_t)text, strlen(text)});
}

static rlx_status write_cache(const char *name, const char *text, rlx_error *err)
{
    return rx_cache_write(name, &(rx_bytes){text, strlen(text)}, 1, err);
}

static bool read_cache(const char *name, const char *text)
{
    char path[1024];
    rx_file f;
    if (!rx_cache_open(name, &f, path, sizeof path))
        return false;
    bool ok = f.bytes == strlen(text) && !memcmp(f.data, text, f.bytes) && strstr(path, name);
    rx_file_close(&f);
    return ok;
}

/* The names that earlier versions gave their temporaries could be told beforehand. */
static void plant_links(const char *name)
{
    char path[128];
    for (int i = 0; i < 8; i++) {
        snprintf(path, sizeof path, "deep/cache/%s.%ld.%d", name, (long)getpid(), i);
        CHECK(!symlink("../../victim", path));
    }
}

static void remove_links(const char *name)
{
    char path[128];
    for (int i = 0; i < 8; i++) {
        snprintf(path, sizeof path, "deep/cache/%s.%ld.%d", name, (long)getpid(), i);
        unlink(path);
    }
}

int main(void)
{
    char folder[] = "cache-XXXXXX", place[4096];
    rlx_error err = {0};
    struct stat st;
    if (!CHECK(mkdtemp(folder) && !chdir(folder) && getcwd(place, sizeof place - 16)))
        return check_done();
    strcat(place, "/deep/cache");
    setenv("RLX_CACHE_DIR", place, 1);
    umask(0);
    CHECK(!read_cache("x.bin", "one"));
    CHECK_OK(write_cache("x.bin", "one", &err), &err);
    CHECK(read_cache("x.bin", "one") && count_files("deep/cache") == 1);
    CHECK(!stat("deep/cache", &st) && (st.st_mode & 0777) == 0700);
    CHECK(!stat("deep/cache/x.bin", &st) && (st.st_mode & 0022) == 0);
    CHECK_OK(write_cache("x.bin", "two and more", &err), &err);
    CHECK(read_cache("x.bin", "two and more") && count_files("deep/cache") == 1);

    /* Someone has put links where the file or its temporary will be. */
    FILE *victim = fopen("victim", "w");
    CHECK(victim && fputs("precious", victim) >= 0 && !fclose(victim));
    CHECK(!unlink("deep/cache/x.bin") && !symlink("../../victim", "deep/cache/x.bin"));
    CHECK(!read_cache("x.bin", "precious"));
    plant_links("x.bin");
    CHECK_OK(write_cache("x.bin", "three", &err), &err);
    CHECK(holds("victim", "precious") && read_cache("x.bin", "three"));
    CHECK(!lstat("deep/cache/x.bin", &st) && S_ISREG(st.st_mode));
    remove_links("x.bin");
    if (geteuid() == 0) { /* only root can give files away */
        CHECK(!chown("deep/cache/x.bin", 12345, (gid_t)-1) && !read_cache("x.bin", "three"));
        CHECK_OK(write_cache("x.bin", "four", &err), &err);
        CHECK(read_cache("x.bin", "four"));
    }
    CHECK(!mkfifo("deep/cache/pipe", 0600) && !read_cache("pipe", ""));
    CHECK_OK(write_cache("pipe", "five", &err), &err);
    CHECK(read_cache("pipe", "five"));
    CHECK(!mkdir("deep/cache/folder", 0700));
    CHECK_FAILS(write_cache("folder", "six", &err), RLX_IO, &err, "it is a folder");
    CHECK(count_files("deep/cache") == 3);
    CHECK(!rmdir("deep/cache/folder") && !unlink("deep/cache/pipe") &&
          !unlink("deep/cache/x.bin") && !unlink("victim") && !rmdir("deep/cache") &&
          !rmdir("deep") && !chdir("..") && !rmdir(folder));
    return check_done();
}
