/* SPDX-License-Identifier: MIT */
/* What the tests use of the C library and wasi-libc lacks; included before every source of a test
 * for WebAssembly. */
#ifndef RLX_TESTS_SUPPORT_WASI_H
#define RLX_TESTS_SUPPORT_WASI_H

char *mkdtemp(char *name);
int mkstemp(char *name);
int mkstemps(char *name, int ending);

#endif
