/* SPDX-License-Identifier: MIT */
/* In place of wasi-libc's header of this name: that library was compiled without threads, where its
 * thread-local errno became a plain one. No thread but the first reads it. */
#ifndef RLX_WASI_ERRNO_H
#define RLX_WASI_ERRNO_H

extern int errno;
#define errno errno

#endif
