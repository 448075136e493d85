# SPDX-License-Identifier: MIT
# rlx_fuzz_program(<target> <source> [<source of main>]): a fuzz target with what it needs beside
# the library: the one of the compiler makes and compares graphs as optest does.
function(rlx_fuzz_program target source)
    set(others ${ARGN})
    if(target STREQUAL "fuzz_compile")
        file(GLOB ops CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/ops/*.c")
        list(FILTER ops EXCLUDE REGEX "/main\\.c$")
        list(APPEND others ${ops})
    endif()
    rlx_test_program(${target} fuzz "${source}" ${others})
    if(RLX_VULKAN AND RLX_VULKAN_HEADERS)
        target_compile_definitions(${target} PRIVATE RLX_TEST_VULKAN=1)
    endif()
endfunction()
