# SPDX-License-Identifier: MIT
# Toolchain: WebAssembly with clang and wasi-libc, without emscripten. Debian and Ubuntu:
#   apt-get install clang-19 lld-19 wasi-libc libclang-rt-19-dev-wasm32
#   cmake -B build-wasm -DCMAKE_TOOLCHAIN_FILE=cmake/wasm.cmake && cmake --build build-wasm
# leaves build-wasm/rlx.wasm and rlx-threads.wasm, of which web/rlx.mjs loads one. From clang 14 on;
# relaxed SIMD needs 19. RLX_WASI_SYSROOT names another wasi-libc.
set(CMAKE_SYSTEM_NAME Generic)
set(CMAKE_SYSTEM_PROCESSOR wasm32)

find_program(RLX_WASM_CLANG NAMES clang-19 clang-18 clang-17 clang-16 clang-15 clang-14 clang
             DOC "clang that can compile to wasm32-wasi")
if(NOT RLX_WASM_CLANG)
    message(FATAL_ERROR "no clang for WebAssembly; apt-get install clang-19 lld-19 wasi-libc "
                        "libclang-rt-19-dev-wasm32")
endif()
set(RLX_WASI_SYSROOT "/usr" CACHE PATH "Folder that holds include/wasm32-wasi")
if(NOT EXISTS "${RLX_WASI_SYSROOT}/include/wasm32-wasi/stdlib.h")
    message(FATAL_ERROR "no wasi-libc under ${RLX_WASI_SYSROOT}; apt-get install wasi-libc, or "
                        "name its folder with -DRLX_WASI_SYSROOT")
endif()
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES RLX_WASI_SYSROOT)

set(CMAKE_C_COMPILER "${RLX_WASM_CLANG}")
set(CMAKE_C_COMPILER_TARGET wasm32-wasi)
set(CMAKE_SYSROOT "${RLX_WASI_SYSROOT}")
set(CMAKE_C_FLAGS_INIT
    "-msimd128 -matomics -mbulk-memory -I${CMAKE_CURRENT_LIST_DIR}/../web/bridge/wasi")
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY) # there is no start file for programs
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_HAVE_LIBC_PTHREAD TRUE) # base/thread_wasm.c needs no library
set(RLX_VULKAN OFF CACHE BOOL "Build the Vulkan backend where its headers are there")
