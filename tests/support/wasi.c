/* SPDX-License-Identifier: MIT */
/* Temporary files and folders under WASI. A test has its folder for itself, so the names need not
 * be hard to guess. */
#include "support/wasi.h"
#if defined(__wasi__)
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static char *next_name(char *name, int ending)
{
    static unsigned n;
    char number[8];
    snprintf(number, sizeof number, "%06u", n++ % 1000000);
    memcpy(name + strlen(name) - 6 - (size_t)ending, number, 6);
    return name;
}

char *mkdtemp(char *name)
{
    return mkdir(next_name(name, 0), 0700) ? NULL : name;
}

int mkstemps(char *name, int ending)
{
    return open(next_name(name, ending), O_RDWR | O_CREAT | O_EXCL, 0600);
}

int mkstemp(char *name)
{
    return mkstemps(name, 0);
}
#endif
