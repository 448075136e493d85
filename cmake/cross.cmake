# SPDX-License-Identifier: MIT
# Toolchain: another processor's Linux, by Debian's cross compiler (gcc-aarch64-linux-gnu, ...); its
# programs run here under qemu-user (qemu-user-static):
#   cmake --preset aarch64       also riscv64, s390x; RLX_CROSS names it
# QEMU_CPU in the environment chooses the processor that qemu is: max, cortex-a53, ...
set(RLX_CROSS "aarch64" CACHE STRING "Processor: aarch64, riscv64, s390x")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES RLX_CROSS)
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR "${RLX_CROSS}")
set(CMAKE_C_COMPILER "${RLX_CROSS}-linux-gnu-gcc")
set(CMAKE_FIND_ROOT_PATH "/usr/${RLX_CROSS}-linux-gnu")
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
find_program(RLX_QEMU NAMES qemu-${RLX_CROSS}-static qemu-${RLX_CROSS}
             DOC "Runs the programs of the other processor")
if(RLX_QEMU)
    set(CMAKE_CROSSCOMPILING_EMULATOR "${RLX_QEMU};-L;/usr/${RLX_CROSS}-linux-gnu")
endif()
include("${CMAKE_CURRENT_LIST_DIR}/portable_headers.cmake")
