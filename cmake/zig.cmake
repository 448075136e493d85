# SPDX-License-Identifier: MIT
# Toolchain: packages for any Linux (and other platforms), whatever this machine is, by the compiler
# that tools/dist/zig.sh fetches:
#   sh tools/dist/zig.sh x86_64-linux-gnu.2.28
#   cmake --preset dist -DRLX_ZIG_TARGET=x86_64-linux-gnu.2.28 -B build-dist/...
# The end of a glibc target is the oldest version that runs what is built.
set(RLX_ZIG_TARGET "x86_64-linux-gnu.2.28" CACHE STRING "Target of zig cc")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES RLX_ZIG_TARGET)
string(REGEX MATCH "^([^-]+)-([^-]+)" _ "${RLX_ZIG_TARGET}")
set(CMAKE_SYSTEM_PROCESSOR "${CMAKE_MATCH_1}")
set(rlx_zig_systems linux Linux windows Windows macos Darwin)
list(FIND rlx_zig_systems "${CMAKE_MATCH_2}" at)
math(EXPR at "${at} + 1")
list(GET rlx_zig_systems ${at} CMAKE_SYSTEM_NAME)

get_filename_component(rlx_zig "${CMAKE_CURRENT_LIST_DIR}/../.cache/zig" ABSOLUTE)
set(CMAKE_C_COMPILER "${rlx_zig}/${RLX_ZIG_TARGET}/cc")
set(CMAKE_AR "${rlx_zig}/${RLX_ZIG_TARGET}/ar" CACHE FILEPATH "")
set(CMAKE_RANLIB "${rlx_zig}/${RLX_ZIG_TARGET}/ranlib" CACHE FILEPATH "")
if(NOT EXISTS "${CMAKE_C_COMPILER}")
    message(FATAL_ERROR "no compiler: sh tools/dist/zig.sh ${RLX_ZIG_TARGET}")
endif()
set(CMAKE_EXE_LINKER_FLAGS_INIT "-s")
set(CMAKE_SHARED_LINKER_FLAGS_INIT "-s")
if(RLX_ZIG_TARGET MATCHES "musl") # static: it cannot open libraries
    # Threads have 128 KiB of stack otherwise.
    set(CMAKE_EXE_LINKER_FLAGS_INIT "-s -static -Wl,-z,stack-size=8388608")
    set(RLX_CURL OFF CACHE BOOL "")
    set(RLX_SERVE OFF CACHE BOOL "")
endif()
include("${CMAKE_CURRENT_LIST_DIR}/portable_headers.cmake")
