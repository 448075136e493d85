# SPDX-License-Identifier: MIT
# What a WebAssembly build makes of the library's objects:
#   rlx.wasm      the module of web/rlx.mjs: the library and the bridge to JavaScript
#   rlx-threads.wasm  the same over shared memory, so that workers can be its threads, and with
#                 relaxed SIMD where the compiler has it (clang 19)
#   optest.wasm   the op cases for node and browsers; only with RLX_BUILD_TESTS
#   tests/*.wasm  tests of what reads files and texts, for node: the same programs as elsewhere, in
#                 32 bits; only with RLX_BUILD_TESTS
# Code that is not hot is compiled for size. Both modules have the same objects but for a
# few; atomic instructions are allowed without shared memory too.
target_compile_options(rlx_objects PRIVATE -Oz)

# What differs: the vector kernels, and the files with thread-local data. Without shared memory that
# is plain data; wasm-ld 16 gets its addresses wrong there.
set(rlx_local_sources "")
foreach(file cpu/pool engine/request gpu/select/dispatch)
    list(APPEND rlx_local_sources "${PROJECT_SOURCE_DIR}/src/${file}.c")
endforeach()
get_target_property(rlx_common_sources rlx_objects SOURCES)
list(REMOVE_ITEM rlx_common_sources ${rlx_local_sources})
set_target_properties(rlx_objects PROPERTIES SOURCES "${rlx_common_sources}")

# rlx_wasm_parts(<target> <option>...): those of one module
function(rlx_wasm_parts target)
    add_library(${target} OBJECT "${PROJECT_SOURCE_DIR}/src/cpu/fast/wasm.c" ${rlx_local_sources})
    rlx_own_code(${target})
    target_compile_options(${target} PRIVATE -O3 -Wno-pass-failed ${ARGN})
    target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/include"
                                                 "${PROJECT_SOURCE_DIR}/src")
endfunction()

# clang 16 to 18 have relaxed SIMD too, but leave the sums of a product in memory.
set(rlx_relaxed "")
if(CMAKE_C_COMPILER_VERSION VERSION_GREATER_EQUAL 19)
    set(rlx_relaxed -mrelaxed-simd)
endif()
rlx_wasm_parts(rlx_single -D_Thread_local=)
rlx_wasm_parts(rlx_threads -ftls-model=local-exec ${rlx_relaxed})
# A large stack below the data: an overflow traps instead of changing data. The table is for C
# callbacks that JavaScript calls.
set(rlx_wasm_link
    LINKER:-z,stack-size=1048576 LINKER:--stack-first LINKER:--max-memory=4294967296
    LINKER:--gc-sections LINKER:--strip-all)
set(rlx_wasm_reactor
    -mexec-model=reactor LINKER:--export-table LINKER:--export=malloc LINKER:--export=free)
# wasi-libc was compiled without threads, hence no check of features; thread_wasm.c guards what of
# it threads share. JavaScript makes the memory, and stack and thread-local data of each worker.
set(rlx_wasm_threads
    LINKER:--shared-memory LINKER:--import-memory LINKER:--no-check-features
    LINKER:--initial-memory=16777216 LINKER:--export=__stack_pointer
    LINKER:--export=__wasm_init_tls LINKER:--export=__tls_size
    LINKER:--export=__wrap_malloc LINKER:--export=__wrap_free LINKER:--wrap=malloc
    LINKER:--wrap=calloc LINKER:--wrap=realloc LINKER:--wrap=aligned_alloc LINKER:--wrap=free)

# rlx_wasm_program(<target> <folder> <object>...): <folder>/<target>.wasm of sources and objects;
# a target that ends in -threads shares its memory
function(rlx_wasm_program target folder)
    set(parts rlx_single)
    if(target MATCHES "-threads$")
        set(parts rlx_threads)
    endif()
    add_executable(${target}_wasm ${ARGN} $<TARGET_OBJECTS:rlx_objects> $<TARGET_OBJECTS:${parts}>)
    rlx_own_code(${target}_wasm)
    target_compile_options(${target}_wasm PRIVATE -Os)
    target_compile_definitions(${target}_wasm PRIVATE RLX_STATIC)
    target_include_directories(${target}_wasm PRIVATE "${PROJECT_SOURCE_DIR}/include"
                                                      "${PROJECT_SOURCE_DIR}/src")
    target_link_options(${target}_wasm PRIVATE ${rlx_wasm_link})
    if(target MATCHES "-threads$")
        target_link_options(${target}_wasm PRIVATE ${rlx_wasm_threads})
    endif()
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
rlx_wasm_module(rlx-threads ${rlx_bridge_sources})

if(RLX_BUILD_TESTS)
    file(GLOB rlx_optest_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/ops/*.c"
                                                   "${PROJECT_SOURCE_DIR}/tests/support/*.c")
    add_library(rlx_optest_objects OBJECT ${rlx_optest_sources})
    rlx_own_code(rlx_optest_objects)
    target_compile_options(rlx_optest_objects PRIVATE -Os -UNDEBUG)
    target_compile_definitions(rlx_optest_objects PRIVATE RLX_STATIC)
    target_include_directories(rlx_optest_objects PRIVATE
        "${PROJECT_SOURCE_DIR}/include" "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}/tests")
    foreach(module optest optest-threads)
        rlx_wasm_module(${module} $<TARGET_OBJECTS:rlx_optest_objects>)
        target_link_options(${module}_wasm PRIVATE LINKER:--export=__main_argc_argv
                                                   LINKER:--export=fflush)
    endforeach()
    include(wasm_tests)
endif()
