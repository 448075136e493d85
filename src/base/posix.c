/* SPDX-License-Identifier: MIT */
/* What base/posix.h has on POSIX besides inline functions. */
#include "base/posix.h"

#if !defined(_WIN32) && !defined(__wasm__)
#include <stdio.h>

bool rx_library_beside(const char *name, char *out, size_t cap)
{
    static const int here;
    Dl_info self;
    if (!dladdr(&here, &self) || !self.dli_fname)
        return false;
    const size_t folder = rx_folder_length(self.dli_fname);
    const int n = snprintf(out, cap, "%.*s%s", (int)folder, self.dli_fname, name);
    return folder && n > 0 && (size_t)n < cap;
}
#endif
