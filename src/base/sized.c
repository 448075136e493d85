/* SPDX-License-Identifier: MIT */
/* Versioned public structs: checks of struct_size, copies in and out. */
#include "base/sized.h"

#include <string.h>

#include "base/error.h"

/* No later version of a struct is larger by more than this many bytes: a greater size is
 * garbage. */
enum { MOST_GROWTH = 4096 };

static size_t size_of(const void *p)
{
    size_t n;
    memcpy(&n, p, sizeof n);
    return n;
}

static rlx_status check_size(size_t n, size_t size, const char *type, rlx_error *err)
{
    if (n < sizeof(size_t) || n > size + MOST_GROWTH)
        return rx_fail(err, RLX_INVALID,
                       "%s: struct_size is %zu, expected sizeof(%s), %zu here; begin its "
                       "initialiser with RLX_INIT(%s)", type, n, type, size, type);
    return RLX_OK;
}

rlx_status rx_desc_read(void *to, size_t size, const void *from, const char *type, rlx_error *err)
{
    const size_t n = from ? size_of(from) : sizeof n;
    memset(to, 0, size);
    RLX_TRY(check_size(n, size, type, err));
    for (size_t i = size; i < n; i++)
        if (((const char *)from)[i])
            return rx_fail(err, RLX_INVALID,
                           "%s of %zu bytes: the field at byte %zu is set, and rlx %s knows only "
                           "the first %zu; use a newer library or leave that field zero", type, n,
                           i, rlx_version(), size);
    if (from)
        memcpy(to, from, n < size ? n : size);
    memcpy(to, &size, sizeof size);
    return RLX_OK;
}

rlx_status rx_info_check(const void *to, size_t size, const char *type, rlx_error *err)
{
    return check_size(size_of(to), size, type, err);
}

rlx_status rx_info_write(void *to, const void *from, size_t size, const char *type, rlx_error *err)
{
    RLX_TRY(rx_need(to, type, err));
    RLX_TRY(rx_info_check(to, size, type, err));
    const size_t n = size_of(to);
    memcpy(to, from, n < size ? n : size);
    if (n > size)
        memset((char *)to + size, 0, n - size);
    memcpy(to, &n, sizeof n);
    return RLX_OK;
}
