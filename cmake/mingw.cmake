# SPDX-License-Identifier: MIT
# Toolchain: Windows x86-64 by Debian's gcc-mingw-w64-x86-64; its programs run here under wine64:
#   cmake --preset windows
set(CMAKE_SYSTEM_NAME Windows)
set(CMAKE_SYSTEM_PROCESSOR x86_64)
set(CMAKE_C_COMPILER x86_64-w64-mingw32-gcc-posix)
set(CMAKE_FIND_ROOT_PATH /usr/x86_64-w64-mingw32)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(CMAKE_EXE_LINKER_FLAGS_INIT "-static")
set(CMAKE_SHARED_LINKER_FLAGS_INIT "-static")
find_program(RLX_WINE NAMES wine64 wine PATHS /usr/lib/wine DOC "Runs the programs of Windows")
if(RLX_WINE)
    set(CMAKE_CROSSCOMPILING_EMULATOR "${RLX_WINE}")
endif()
set(RLX_CURL OFF CACHE BOOL "")
set(RLX_SERVE OFF CACHE BOOL "")
include("${CMAKE_CURRENT_LIST_DIR}/portable_headers.cmake")
