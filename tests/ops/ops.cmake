# SPDX-License-Identifier: MIT
# The op suite on devices that every build has: all cases, or a share of them where they take long,
# as under a sanitizer. Included by ../CMakeLists.txt, which has the object library of the cases.

# rlx_ops(<name> <every n-th case> DEVICE <device> [ENVIRONMENT <VARIABLE=value>...]
#         [OPTIONS <option of optest>...] [LABELS <label>...])
function(rlx_ops name every)
    cmake_parse_arguments(ops "" "DEVICE" "ENVIRONMENT;OPTIONS;LABELS" ${ARGN})
    if(RLX_SANITIZE MATCHES "thread")
        math(EXPR every "${every} * 40")
    elseif(RLX_SANITIZE)
        math(EXPR every "${every} * 15")
    elseif(WIN32 AND CMAKE_CROSSCOMPILING) # compiled with less optimisation
        math(EXPR every "${every} * 20")
    elseif(CMAKE_CROSSCOMPILING) # qemu takes ten to twenty times as long
        math(EXPR every "${every} * 40")
    endif()
    rlx_test("ops/${name}" "${CMAKE_CURRENT_SOURCE_DIR}/ops/share.sh" $<TARGET_FILE:optest>
             ${every} --device ${ops_DEVICE} ${ops_OPTIONS})
    list(JOIN CMAKE_CROSSCOMPILING_EMULATOR " " emulator)
    rlx_test_property("ops/${name}" ENVIRONMENT ${ops_ENVIRONMENT} "RLX_EMULATOR=${emulator}")
    rlx_test_property("ops/${name}" LABELS ${ops_LABELS})
endfunction()

rlx_test_program(optest "" ops/main.c $<TARGET_OBJECTS:rlx_op_cases>)
rlx_ops(cpu 3 DEVICE cpu)
rlx_ops(cpu-fast 6 DEVICE cpu OPTIONS --fast)
rlx_ops(ref 4 DEVICE ref)
rlx_ops(null 1 DEVICE null)
rlx_share(ops/cpu optest)
if(NOT RLX_SANITIZE MATCHES "thread") # cases run on many threads, but only the CPU device shares
    foreach(name cpu-fast ref null)
        rlx_share(ops/${name} optest)
    endforeach()
endif()
if(CMAKE_CROSSCOMPILING AND CMAKE_SYSTEM_PROCESSOR STREQUAL "aarch64") # processors with less
    rlx_ops(cpu-dotprod 1 DEVICE cpu OPTIONS --fast --family quant
            ENVIRONMENT QEMU_CPU=neoverse-n1)
    rlx_ops(cpu-neon 1 DEVICE cpu OPTIONS --fast --family quant ENVIRONMENT QEMU_CPU=cortex-a53)
    rlx_share(ops/cpu-dotprod optest)
    rlx_share(ops/cpu-neon optest)
endif()
rlx_ops(grad 8 DEVICE ref OPTIONS --grad) # derivatives against differences, and
rlx_ops(grad-cpu 12 DEVICE cpu OPTIONS --grad) # those of devices against the reference
rlx_ops(liar 8 DEVICE cpu OPTIONS --liar --once) # the measure notices falsified results
