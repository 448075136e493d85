/* SPDX-License-Identifier: MIT */
/* Bytes as a file, for fuzz targets of functions that take a path. */
#ifndef RLX_TESTS_SUPPORT_TEMP_FILE_H
#define RLX_TESTS_SUPPORT_TEMP_FILE_H

#include <stddef.h>

/* A new folder for this process in TMPDIR (or here), removed with what it holds when the program
 * ends. The same in every call. */
const char *temp_folder(void);
/* Writes a file of these bytes over an older one; ends the program when that is not possible. */
void write_bytes(const char *path, const void *data, size_t n);
/* The same in the folder; returns its path, which is the same in every call. */
const char *temp_file(const void *data, size_t n);

#endif
