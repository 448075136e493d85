# SPDX-License-Identifier: MIT
# Programs of tests/ that read files and texts, compiled to WebAssembly: size_t has 32 bits there.
# tests/web/test_readers.py runs them under node. A fuzz target with tests/fuzz/replay.c is a
# program that reads the seeds of that target, as they are and changed. What writes files is left
# out: they are read-only in WebAssembly. So is the server, which is part of the command line.
set(rlx_reader_tests
    base/test_map base/test_mem import/test_gguf
    import/test_safetensors import/test_sizes ir/test_text model/test_template model/test_tok)

file(GLOB rlx_support_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/support/*.c")
add_library(rlx_wasm_support OBJECT ${rlx_support_sources})
rlx_own_code(rlx_wasm_support)
target_compile_options(rlx_wasm_support PRIVATE -Os -UNDEBUG)
target_compile_definitions(rlx_wasm_support PRIVATE RLX_STATIC)
target_include_directories(rlx_wasm_support PRIVATE "${PROJECT_SOURCE_DIR}/include"
                           "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}/tests")

function(rlx_wasm_test target)
    rlx_wasm_program(${target} "${PROJECT_BINARY_DIR}/tests" ${ARGN}
                  $<TARGET_OBJECTS:rlx_wasm_support>)
    target_compile_options(${target}_wasm PRIVATE -UNDEBUG -include support/wasi.h)
    target_include_directories(${target}_wasm PRIVATE "${PROJECT_SOURCE_DIR}/tests")
endfunction()

foreach(test IN LISTS rlx_reader_tests)
    get_filename_component(name "${test}" NAME)
    rlx_wasm_test(${name} "${PROJECT_SOURCE_DIR}/tests/${test}.c")
endforeach()

file(GLOB rlx_fuzz_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/fuzz/fuzz_*.c")
list(FILTER rlx_fuzz_sources EXCLUDE REGEX "/fuzz_(cache|chat|context|request)\\.c$")
foreach(source IN LISTS rlx_fuzz_sources)
    get_filename_component(name "${source}" NAME_WE)
    set(others "${PROJECT_SOURCE_DIR}/tests/fuzz/replay.c")
    if(name STREQUAL "fuzz_compile")
        list(APPEND others ${rlx_optest_sources})
        list(FILTER others EXCLUDE REGEX "/(ops/main|support/[a-z_]+)\\.c$")
    endif()
    rlx_wasm_test(${name} "${source}" ${others})
endforeach()
