/* SPDX-License-Identifier: MIT */
/* The chat page: GET / and /page/FILE. It is public and needs no key: the page asks the user for
 * one and sends it with its requests. */
#include "serve/page.h"

#include <string.h>

#include "serve/server.h"

const rx_page_file *rx_page_find(const char *path)
{
    for (size_t i = 0; i < rx_n_page_files; i++)
        if (!strcmp(rx_page_files[i].path, path))
            return &rx_page_files[i];
    return NULL;
}

void rx_answer_page(rx_server *s, const rx_call *c, rx_api_kind kind, rx_reply *r, rx_api_error *e)
{
    const rx_page_file *f = rx_page_find(c->path);
    (void)s, (void)kind;
    if (!f) {
        rx_api_fail_as(e, 404, "not_found", "there is no GET %.100s", c->path);
        return;
    }
    r->type = f->type;
    r->is_page = true;
    rx_str_add(&r->body, (const char *)f->data, f->n);
}
