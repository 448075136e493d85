# SPDX-License-Identifier: MIT
# What a WebAssembly build makes of the library's objects:
#   rlx.wasm      the module of web/rlx.mjs: the library and the bridge to JavaScript
#   optest.wasm   the op cases for node and browsers; only with RLX_BUILD_TESTS
#   tests/*.wasm  tests of what reads files and texts, for node: the same programs as elsewhere, in
#                 32 bits; only with RLX_BUILD_TESTS
# Code that is not hot is compiled for size; src/cpu/fast/wasm.c has -O3 from rlx_choose_simd.
target_compile_options(rlx_objects PRIVATE -Oz)
# A large stack below the data: an overflow traps instead of changing data. The table is for C
# callbacks that JavaScript calls.
set(rlx_wasm_link
    LINKER:-z,stack-size=1048576 LINKER:--stack-first LINKER:--max-memory=4294967296
    LINKER:--gc-sections LINKER:--strip-all)
set(rlx_wasm_reactor
    -mexec-model=reactor LINKER:--export-table LINKER:--export=malloc LINKER:--export=free)

# rlx_wasm_program(<target> <folder> <object>...): <folder>/<target>.wasm of sources and objects
function(rlx_wasm_program target folder)
    add_executable(${target}_wasm ${ARGN} $<TARGET_OBJECTS:rlx_objects>)
    rlx_own_code(${target}_wasm)
    target_compile_options(${target}_wasm PRIVATE -Os)
    target_compile_definitions(${target}_wasm PRIVATE RLX_STATIC)
    target_include_directories(${target}_wasm PRIVATE "${PROJECT_SOURCE_DIR}/include"
                                                      "${PROJECT_SOURCE_DIR}/src")
    target_link_options(${target}_wasm PRIVATE ${rlx_wasm_link})
    target_link_libraries(${target}_wasm PRIVATE m)
    set_target_properties(${target}_wasm PROPERTIES
        OUTPUT_NAME ${target} SUFFIX .wasm RUNTIME_OUTPUT_DIRECTORY "${folder}")
endfunction()

# rlx_wasm_module(<target> <source>...): <build>/<target>.wasm, called from JavaScript
function(rlx_wasm_module target)
    rlx_wasm_program(${target} "${PROJECT_BINARY_DIR}" ${ARGN})
    target_link_options(${target}_wasm PRIVATE ${rlx_wasm_reactor})
endfunction()

file(GLOB rlx_bridge_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/web/bridge/*.c")
rlx_wasm_module(rlx ${rlx_bridge_sources})

if(RLX_BUILD_TESTS)
    file(GLOB rlx_optest_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/ops/*.c"
                                                   "${PROJECT_SOURCE_DIR}/tests/support/*.c")
    rlx_wasm_module(optest ${rlx_optest_sources})
    target_link_options(optest_wasm PRIVATE LINKER:--export=__main_argc_argv LINKER:--export=fflush)
    target_compile_options(optest_wasm PRIVATE -UNDEBUG)
    target_include_directories(optest_wasm PRIVATE "${PROJECT_SOURCE_DIR}/tests")
    include(wasm_tests)
endif()
