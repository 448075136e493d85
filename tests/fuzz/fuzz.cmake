# SPDX-License-Identifier: MIT
# The fuzz targets under libFuzzer, in a build whose RLX_SANITIZE has fuzzer-no-link: a program and
# a test each, fuzzer/NAME, which runs for RLX_FUZZ_SECONDS. Included by ../CMakeLists.txt.
file(GLOB fuzz_sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/fuzz/fuzz_*.c")
foreach(source IN LISTS fuzz_sources)
    get_filename_component(target "${source}" NAME_WE)
    string(REGEX REPLACE "^fuzz_" "" name "${target}")
    rlx_fuzz_program(${target} "${source}")
    target_link_options(${target} PRIVATE -fsanitize=fuzzer)
    rlx_test(fuzzer/${name} sh "${CMAKE_CURRENT_SOURCE_DIR}/fuzz/fuzz.sh" $<TARGET_FILE:${target}>
             ${name})
    rlx_share(fuzzer/${name} ${target})
endforeach()
