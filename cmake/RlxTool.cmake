# SPDX-License-Identifier: MIT
# rlx_tool_parts: what of src/ belongs to the command line and not to the library: the model store
# (src/store; libcurl and zlib to download) and the server (src/serve; libmicrohttpd). Without a
# library its stub takes the place of the part and says so.
option(RLX_CURL "Let 'rlx pull' download, where libcurl and zlib are there" ON)
option(RLX_SERVE "Build 'rlx serve', where libmicrohttpd is there" ON)
option(RLX_OPEN_LIBRARIES "Open those libraries at run time: only their headers are needed" OFF)

find_path(RLX_CURL_HEADERS curl/curl.h)
find_library(RLX_CURL_LIBRARY curl)
find_path(RLX_ZLIB_HEADERS zlib.h)
find_library(RLX_ZLIB_LIBRARY z)
find_path(RLX_MICROHTTPD_HEADERS microhttpd.h)
find_library(RLX_MICROHTTPD_LIBRARY microhttpd)
if(RLX_OPEN_LIBRARIES) # linked with nothing
    set(RLX_CURL_LIBRARY "${CMAKE_DL_LIBS}")
    set(RLX_ZLIB_LIBRARY "${CMAKE_DL_LIBS}")
    set(RLX_MICROHTTPD_LIBRARY "${CMAKE_DL_LIBS}")
endif()
mark_as_advanced(RLX_CURL_HEADERS RLX_CURL_LIBRARY RLX_ZLIB_HEADERS RLX_ZLIB_LIBRARY
                 RLX_MICROHTTPD_HEADERS RLX_MICROHTTPD_LIBRARY)

file(GLOB rlx_part_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/store/*.c"
                                             "${PROJECT_SOURCE_DIR}/src/serve/*.c")
set(rlx_part_libraries "")
if(RLX_CURL AND RLX_CURL_HEADERS AND RLX_CURL_LIBRARY AND RLX_ZLIB_HEADERS AND RLX_ZLIB_LIBRARY)
    list(FILTER rlx_part_sources EXCLUDE REGEX "/store/fetch_stub\\.c$")
    list(APPEND rlx_part_libraries "${RLX_CURL_LIBRARY}" "${RLX_ZLIB_LIBRARY}")
else()
    list(FILTER rlx_part_sources EXCLUDE REGEX "/store/(fetch|zip)\\.c$")
    if(RLX_CURL)
        message(WARNING "'rlx pull' cannot download: libcurl or zlib was not found "
                        "(libcurl4-openssl-dev, zlib1g-dev)")
    endif()
endif()
if(RLX_SERVE AND RLX_MICROHTTPD_HEADERS AND RLX_MICROHTTPD_LIBRARY)
    list(FILTER rlx_part_sources EXCLUDE REGEX "/serve/http_stub\\.c$")
    list(APPEND rlx_part_libraries "${RLX_MICROHTTPD_LIBRARY}")
else()
    list(FILTER rlx_part_sources EXCLUDE REGEX "/serve/http\\.c$")
    if(RLX_SERVE)
        message(WARNING "there is no 'rlx serve': libmicrohttpd was not found "
                        "(libmicrohttpd-dev)")
    endif()
endif()

include("${PROJECT_SOURCE_DIR}/cmake/embed_page.cmake") # RLX_PAGE_FILES
set(rlx_page "${PROJECT_BINARY_DIR}/page_files.c")
list(TRANSFORM RLX_PAGE_FILES PREPEND "${PROJECT_SOURCE_DIR}/" OUTPUT_VARIABLE rlx_page_sources)
add_custom_command(
    OUTPUT "${rlx_page}"
    COMMAND "${CMAKE_COMMAND}" "-DSOURCE=${PROJECT_SOURCE_DIR}" "-DOUT=${rlx_page}"
            -P "${PROJECT_SOURCE_DIR}/cmake/embed_page.cmake"
    DEPENDS ${rlx_page_sources} "${PROJECT_SOURCE_DIR}/cmake/embed_page.cmake"
    COMMENT "Embedding the chat page" VERBATIM)

add_library(rlx_tool_parts STATIC ${rlx_part_sources} "${rlx_page}")
rlx_own_code(rlx_tool_parts)
if(RLX_OPEN_LIBRARIES)
    target_compile_definitions(rlx_tool_parts PRIVATE RLX_OPEN_LIBRARIES)
endif()
target_include_directories(rlx_tool_parts PUBLIC "${PROJECT_SOURCE_DIR}/src")
target_link_libraries(rlx_tool_parts PUBLIC rlx::static ${rlx_part_libraries} Threads::Threads m)
