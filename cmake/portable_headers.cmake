# SPDX-License-Identifier: MIT
# For toolchains of other machines: the headers of this one that are the same everywhere, of Vulkan
# and of the libraries that the tool opens at run time, by links in a folder of their own. The
# toolchain looks for libraries on the other machine only.
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(rlx_portable_headers "${CMAKE_CURRENT_LIST_DIR}/../.cache/headers")
get_filename_component(rlx_portable_headers "${rlx_portable_headers}" ABSOLUTE)
file(MAKE_DIRECTORY "${rlx_portable_headers}")
file(GLOB rlx_curl_folder /usr/include/curl /usr/include/*-linux-gnu/curl)
foreach(path /usr/include/vulkan /usr/include/vk_video /usr/include/zlib.h /usr/include/zconf.h
             /usr/include/microhttpd.h ${rlx_curl_folder})
    get_filename_component(name "${path}" NAME)
    if(EXISTS "${path}" AND NOT EXISTS "${rlx_portable_headers}/${name}")
        file(CREATE_LINK "${path}" "${rlx_portable_headers}/${name}" SYMBOLIC)
    endif()
endforeach()
set(CMAKE_C_FLAGS_INIT "-isystem ${rlx_portable_headers}")
foreach(library VULKAN:vulkan/vulkan.h CURL:curl/curl.h ZLIB:zlib.h MICROHTTPD:microhttpd.h)
    string(REPLACE ":" ";" pair "${library}")
    list(GET pair 0 name)
    list(GET pair 1 header)
    if(EXISTS "${rlx_portable_headers}/${header}")
        set(RLX_${name}_HEADERS "${rlx_portable_headers}" CACHE PATH "")
    endif()
endforeach()
