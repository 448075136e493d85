/* SPDX-License-Identifier: MIT */
/* Optional libraries of the tool: libcurl and zlib to download, libmicrohttpd to serve. They are
 * linked, or with RLX_OPEN_LIBRARIES opened at first use, so that one binary runs on systems with
 * and without them. Include this after their own headers. */
#ifndef RX_STORE_LIBRARIES_H
#define RX_STORE_LIBRARIES_H

#include "base/error.h"

#define RX_CURL_FUNCTIONS(F) \
    F(curl_global_init) F(curl_easy_init) F(curl_easy_setopt) F(curl_easy_perform) \
    F(curl_easy_getinfo) F(curl_easy_cleanup) F(curl_easy_strerror) F(curl_slist_append) \
    F(curl_slist_free_all) F(curl_url) F(curl_url_set) F(curl_url_get) F(curl_url_cleanup) \
    F(curl_free)
#define RX_ZLIB_FUNCTIONS(F) F(inflateInit2_) F(inflate) F(inflateEnd) F(crc32)
#define RX_MHD_FUNCTIONS(F) \
    F(MHD_start_daemon) F(MHD_quiesce_daemon) F(MHD_stop_daemon) F(MHD_queue_response) \
    F(MHD_destroy_response) F(MHD_add_response_header) F(MHD_create_response_from_buffer) \
    F(MHD_create_response_from_callback) F(MHD_lookup_connection_value) \
    F(MHD_get_connection_info)

#ifndef RLX_OPEN_LIBRARIES
#define rx_open_curl(err) ((void)(err), RLX_OK)
#define rx_open_zlib(err) ((void)(err), RLX_OK)
#define rx_open_microhttpd(err) ((void)(err), RLX_OK)
#else
/* RLX_UNSUPPORTED, naming the package to install, when a library is missing. Thread-safe once one
 * call has returned. */
rlx_status rx_open_curl(rlx_error *err);
rlx_status rx_open_zlib(rlx_error *err);
rlx_status rx_open_microhttpd(rlx_error *err);

#define RX_POINTER(name) __typeof__(name) *p_##name;
#ifdef LIBCURL_VERSION
#undef curl_easy_setopt /* macros that check types */
#undef curl_easy_getinfo
typedef struct rx_curl_functions { RX_CURL_FUNCTIONS(RX_POINTER) } rx_curl_functions;
extern rx_curl_functions rx_curl;
#endif
#ifdef ZLIB_VERSION
typedef struct rx_zlib_functions { RX_ZLIB_FUNCTIONS(RX_POINTER) } rx_zlib_functions;
extern rx_zlib_functions rx_zlib;
#endif
#ifdef MHD_VERSION
typedef struct rx_mhd_functions { RX_MHD_FUNCTIONS(RX_POINTER) } rx_mhd_functions;
extern rx_mhd_functions rx_mhd;
#endif

#ifndef RX_LIBRARIES_KEEP_NAMES
#define curl_global_init rx_curl.p_curl_global_init
#define curl_easy_init rx_curl.p_curl_easy_init
#define curl_easy_setopt rx_curl.p_curl_easy_setopt
#define curl_easy_perform rx_curl.p_curl_easy_perform
#define curl_easy_getinfo rx_curl.p_curl_easy_getinfo
#define curl_easy_cleanup rx_curl.p_curl_easy_cleanup
#define curl_easy_strerror rx_curl.p_curl_easy_strerror
#define curl_slist_append rx_curl.p_curl_slist_append
#define curl_slist_free_all rx_curl.p_curl_slist_free_all
#define curl_url() rx_curl.p_curl_url()
#define curl_url_set rx_curl.p_curl_url_set
#define curl_url_get rx_curl.p_curl_url_get
#define curl_url_cleanup rx_curl.p_curl_url_cleanup
#define curl_free rx_curl.p_curl_free
#define inflateInit2_ rx_zlib.p_inflateInit2_
#define inflate(z, flush) rx_zlib.p_inflate(z, flush)
#define inflateEnd rx_zlib.p_inflateEnd
#define crc32 rx_zlib.p_crc32
#define MHD_start_daemon rx_mhd.p_MHD_start_daemon
#define MHD_quiesce_daemon rx_mhd.p_MHD_quiesce_daemon
#define MHD_stop_daemon rx_mhd.p_MHD_stop_daemon
#define MHD_queue_response rx_mhd.p_MHD_queue_response
#define MHD_destroy_response rx_mhd.p_MHD_destroy_response
#define MHD_add_response_header rx_mhd.p_MHD_add_response_header
#define MHD_create_response_from_buffer rx_mhd.p_MHD_create_response_from_buffer
#define MHD_create_response_from_callback rx_mhd.p_MHD_create_response_from_callback
#define MHD_lookup_connection_value rx_mhd.p_MHD_lookup_connection_value
#define MHD_get_connection_info rx_mhd.p_MHD_get_connection_info
#endif
#endif
#endif
