/* SPDX-License-Identifier: MIT */
/* libFuzzer target: any bytes as files of the cache folder: the calibration of a device and, where
 * Vulkan is part of the build, its pipelines. The first byte says which, and whether the digest of
 * a calibration is made right before. */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/mem.h"
#include "runtime/calibrate.h"
#include "support/temp_file.h"
#if RLX_TEST_VULKAN
#include "vulkan/device.h"
#endif

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static const rx_knob *knobs(size_t *n)
{
    static const rx_knob_choice choices[] = {{.name = "usual"}, {.name = "wide"}};
    static const rx_knob table[] = {{.name = "tile", .choices = choices, .n_choices = 2},
                                    {.name = "gemv", .choices = choices, .n_choices = 2}};
    *n = 2;
    return table;
}

static const rx_backend backend = {.name = "fuzz", .knobs = knobs};
static const rlx_device_info info = {RLX_INIT(rlx_device_info), .id = "fuzz:0", .name = "Fuzz",
                                     .driver = "1"};

/* The path of the only file of the folder whose name begins so. */
static void find_file(const char *begin, char path[1024])
{
    DIR *d = opendir(temp_folder());
    for (const struct dirent *e; d && (e = readdir(d));)
        if (!strncmp(e->d_name, begin, strlen(begin)))
            snprintf(path, 1024, "%s/%.255s", temp_folder(), e->d_name);
    if (!d || !path[0])
        abort();
    closedir(d);
}

static void load_calibration(const uint8_t *data, size_t n, bool seal)
{
    enum { HEAD = 24, NUMBERS = 56 }; /* magic, key, digest; seven numbers; then a text */
    static char path[1024];
    static unsigned char file[4096], good[HEAD];
    rlx_calibration c = {RLX_INIT(rlx_calibration), .gemm = 1, .gemm_fast = 1, .bandwidth = 1,
                         .dispatch = 1, .submit = 1, .upload = 1, .download = 1,
                         .kernels = "tile=wide"};
    rx_file f;
    if (!path[0]) {
        if (rx_calibration_save(&backend, &info, &c, NULL) != RLX_OK)
            abort();
        find_file("calibration", path);
        if (rx_file_open(path, &f, NULL) != RLX_OK)
            abort();
        memcpy(good, f.data, HEAD);
        rx_file_close(&f);
    }
    if (n > sizeof file)
        return;
    memcpy(file, data, n);
    if (seal && n > HEAD + NUMBERS) {
        uint64_t key, digest;
        memcpy(file, good, 16);
        memcpy(&key, file + 8, sizeof key);
        digest = rx_hash(rx_hash(key, file + HEAD, NUMBERS), file + HEAD + NUMBERS,
                         n - HEAD - NUMBERS);
        memcpy(file + 16, &digest, sizeof digest);
    }
    write_bytes(path, file, n);
    if (!rx_calibration_load(&backend, &info, &c))
        return;
    if (!(c.gemm > 0) || !isfinite(c.gemm) || !memchr(c.kernels, 0, sizeof c.kernels))
        abort();
    rx_knobs k;
    char text[sizeof c.kernels];
    rx_knobs_parse(&backend, c.kernels, &k);
    rx_knobs_print(&backend, &k, text, sizeof text);
}

#if RLX_TEST_VULKAN
static void load_pipelines(const uint8_t *data, size_t n)
{
    static char path[1024];
    static rx_vk_gpu gpu;
    static const rx_vk_cache_file file = {&gpu, "fuzz", 1};
    void *loaded;
    size_t bytes;
    if (!path[0]) {
        rx_vk_cache_save(&file, "abc", 3);
        find_file("vulkan", path);
        if (!rx_vk_cache_load(&file, &loaded, &bytes) || bytes != 3)
            abort();
        rx_free(loaded);
    }
    write_bytes(path, data, n);
    if (rx_vk_cache_load(&file, &loaded, &bytes) && bytes > n)
        abort();
    rx_free(loaded);
}
#endif

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    setenv("RLX_CACHE_DIR", temp_folder(), 1);
    if (n < 1)
        return 0;
#if RLX_TEST_VULKAN
    if (data[0] & 2)
        load_pipelines(data + 1, n - 1);
    else
#endif
        load_calibration(data + 1, n - 1, data[0] & 1);
    return 0;
}
