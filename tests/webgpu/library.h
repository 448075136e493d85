/* SPDX-License-Identifier: MIT */
/* Which WebGPU library the tests open: the one of the environment, else the one that
 * tools/fetch/webgpu.sh has fetched. */
#ifndef RLX_TESTS_WEBGPU_LIBRARY_H
#define RLX_TESTS_WEBGPU_LIBRARY_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static inline void choose_library(void)
{
    char path[1024];
    const char *root = getenv("RLX_SOURCE_DIR");
    setenv("NODEVICE_SELECT", "1", 0); /* Mesa's layer complains where there is no display */
    snprintf(path, sizeof path, "%s/.cache/wgpu/libwgpu_native-release.so", root ? root : ".");
    if (!access(path, R_OK))
        setenv("RLX_WEBGPU_LIBRARY", path, 0);
}

#endif
