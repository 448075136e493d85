/* SPDX-License-Identifier: MIT */
/* Opens the libraries of the tool at run time. Empty in builds that link them. */
#ifdef RLX_OPEN_LIBRARIES
#define RX_LIBRARIES_KEEP_NAMES
#include <curl/curl.h>
#include <microhttpd.h>
#include <string.h>
#include <zlib.h>

#include "base/posix.h"
#include "store/libraries.h"

rx_curl_functions rx_curl;
rx_zlib_functions rx_zlib;
rx_mhd_functions rx_mhd;

/* Opens the first of some names (they end with NULL) that has all functions. `names` and `to` have
 * n entries. */
static rlx_status open_library(const char *const *files, const char *const *names, void **to,
                               size_t n, const char *why, rlx_error *err)
{
    for (; *files; files++) {
        void *handle = rx_library_open(*files);
        size_t i = 0;
        while (handle && i < n && (to[i] = rx_library_symbol(handle, names[i])))
            i++;
        if (handle && i == n)
            return RLX_OK; /* never closed */
        if (handle)
            rx_library_close(handle);
    }
    return rx_fail(err, RLX_UNSUPPORTED, "%s", why);
}

/* A library by the version of its ABI: of the system, and of Homebrew. */
#if defined(__APPLE__)
#define FILES(name, abi)                                                     \
    "lib" name "." abi ".dylib", "/opt/homebrew/lib/lib" name "." abi ".dylib", \
        "/usr/local/lib/lib" name "." abi ".dylib"
#else
#define FILES(name, abi) "lib" name ".so." abi
#endif
#define NAME(name) #name,
#define COUNT(names) (sizeof(names) / sizeof *(names))

rlx_status rx_open_curl(rlx_error *err)
{
    static const char *const files[] = {FILES("curl", "4"), "libcurl-gnutls.so.4", NULL};
    static const char *const names[] = {RX_CURL_FUNCTIONS(NAME) "curl_version_info"};
    static void *found[COUNT(names)];
    if (rx_curl.p_curl_easy_init)
        return RLX_OK;
    RLX_TRY(open_library(files, names, found, COUNT(names),
                         "libcurl is not installed, which downloads need: install libcurl4 "
                         "(Debian, Ubuntu) or libcurl, or download the file and 'rlx pull FILE'",
                         err));
    __typeof__(curl_version_info) *version_info;
    memcpy(&version_info, &found[COUNT(names) - 1], sizeof version_info);
    const curl_version_info_data *info = version_info(CURLVERSION_NOW);
    if (info->version_num < 0x075500) /* CURLOPT_PROTOCOLS_STR */
        return rx_fail(err, RLX_UNSUPPORTED, "libcurl %s is installed, downloads need 7.85 or "
                       "later: download the file and 'rlx pull FILE'", info->version);
    memcpy(&rx_curl, found, sizeof rx_curl);
    return RLX_OK;
}

rlx_status rx_open_zlib(rlx_error *err)
{
    static const char *const files[] = {FILES("z", "1"), NULL};
    static const char *const names[] = {RX_ZLIB_FUNCTIONS(NAME)};
    static void *found[COUNT(names)];
    if (rx_zlib.p_inflate)
        return RLX_OK;
    RLX_TRY(open_library(files, names, found, COUNT(names), "zlib is not installed, which "
                         "unpacking needs: install zlib1g (Debian, Ubuntu) or zlib", err));
    memcpy(&rx_zlib, found, sizeof rx_zlib);
    return RLX_OK;
}

rlx_status rx_open_microhttpd(rlx_error *err)
{
    static const char *const files[] = {FILES("microhttpd", "12"), NULL};
    static const char *const names[] = {RX_MHD_FUNCTIONS(NAME)};
    static void *found[COUNT(names)];
    if (rx_mhd.p_MHD_start_daemon)
        return RLX_OK;
    RLX_TRY(open_library(files, names, found, COUNT(names),
                         "libmicrohttpd is not installed, which the server needs: install "
                         "libmicrohttpd12 (Debian, Ubuntu) or libmicrohttpd", err));
    memcpy(&rx_mhd, found, sizeof rx_mhd);
    return RLX_OK;
}
#else
typedef int rx_libraries_are_linked; /* C has no empty files */
#endif
