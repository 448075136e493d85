/* SPDX-License-Identifier: MIT */
/* The chat page of the server: the files of web/page, and those of web/demo that it shares, in the
 * program itself. cmake/embed_page.cmake makes the table. */
#ifndef RX_SERVE_PAGE_H
#define RX_SERVE_PAGE_H

#include <stddef.h>

typedef struct rx_page_file {
    const char *path, *type; /* of the request; of the body */
    const unsigned char *data;
    size_t n;
} rx_page_file;

extern const rx_page_file rx_page_files[];
extern const size_t rx_n_page_files;

/* The file of a path; NULL: not part of the page. */
const rx_page_file *rx_page_find(const char *path);

#endif
