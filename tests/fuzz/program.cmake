# SPDX-License-Identifier: MIT
# rlx_fuzz_program(<target> <source> [<source of main>]): a fuzz target with what it needs beside
# the library: the one of the compiler makes and compares graphs as optest does.
function(rlx_fuzz_program target source)
    set(others ${ARGN})
    if(target STREQUAL "fuzz_compile")
        list(APPEND others $<TARGET_OBJECTS:rlx_op_cases>)
    endif()
    rlx_test_program(${target} fuzz "${source}" ${others})
    if(RLX_VULKAN AND RLX_VULKAN_HEADERS)
        target_compile_definitions(${target} PRIVATE RLX_TEST_VULKAN=1)
    endif()
endfunction()
