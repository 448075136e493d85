# SPDX-License-Identifier: MIT
# The op suite on Vulkan: as the device is, under the validation layers, with the smallest limits,
# with both kinds of memory, with a barrier after every dispatch, and on other software drivers.
# Software drivers are slow, so each runs a share of the cases (ops/share.sh). The test programs run
# with both kinds of memory too.

# rlx_vulkan_ops(<name> <every n-th case> [<VARIABLE=value>...] [OPTIONS <option>...])
function(rlx_vulkan_ops name every)
    cmake_parse_arguments(ops "" "" OPTIONS ${ARGN})
    rlx_ops(${name} ${every} DEVICE vulkan OPTIONS ${ops_OPTIONS} LABELS vulkan
            ENVIRONMENT ${ops_UNPARSED_ARGUMENTS})
endfunction()

if(RLX_VULKAN AND RLX_VULKAN_HEADERS)
    add_library(vulkan_fake_loader MODULE vulkan/fake_loader.c) # test_absent.sh
    rlx_own_code(vulkan_fake_loader)
    target_include_directories(vulkan_fake_loader PRIVATE "${RLX_VULKAN_HEADERS}")
    set_target_properties(vulkan_fake_loader PROPERTIES
        OUTPUT_NAME libvulkan PREFIX "" SUFFIX ".so.1" C_VISIBILITY_PRESET default
        LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests/vulkan/fake")
    foreach(program test_vulkan test_faults test_decoder)
        foreach(memory host device)
            set(name "vulkan/${program}-${memory}")
            rlx_test(${name} ${program})
            rlx_test_property(${name} ENVIRONMENT RLX_VULKAN_VALIDATION=1
                              RLX_VULKAN_ARENA_DEBUG=${memory})
        endforeach()
    endforeach()
    rlx_test(vulkan/test_saved test_saved)
    rlx_test_property(vulkan/test_saved ENVIRONMENT RLX_TEST_DEVICE=vulkan RLX_VULKAN_VALIDATION=1)
    foreach(memory host device)
        rlx_test(vulkan/test_buffers-${memory} test_buffers)
        rlx_test_property(vulkan/test_buffers-${memory} ENVIRONMENT RLX_TEST_DEVICE=vulkan
                          RLX_VULKAN_VALIDATION=1 RLX_VULKAN_ARENA_DEBUG=${memory})
    endforeach()
    rlx_test(vulkan/test_buffers-steps test_buffers) # some on the host
    rlx_test_property(vulkan/test_buffers-steps ENVIRONMENT RLX_TEST_DEVICE=vulkan
                      RLX_LIMITS=host=2)
    foreach(program test_generate test_context) # with runs ahead of the host
        set(name "vulkan/${program}")
        rlx_test(${name} ${program})
        rlx_test_property(${name} ENVIRONMENT RLX_TEST_DEVICE=vulkan RLX_VULKAN_VALIDATION=1
                          RLX_VULKAN_ARENA_DEBUG=device)
    endforeach()
    foreach(program test_rows test_engine test_mixes test_adapters test_guesses)
        rlx_test(vulkan/${program} ${program})
        rlx_test_property(vulkan/${program} ENVIRONMENT RLX_TEST_DEVICE=vulkan)
    endforeach()
    rlx_vulkan_ops(vulkan 56)
    rlx_vulkan_ops(vulkan-validation 120 RLX_VULKAN_VALIDATION=1)
    rlx_vulkan_ops(vulkan-small 120
        "RLX_LIMITS=groups=256,push=128,subgroup=0,f16=0,storage16=0,storage8=0,\
shared=16384,invocations=128,coopmat=0,address=0")
    # Bindings of 64 KiB: large tensors are cut. Refused are a sample of a row that is larger, the
    # mean of integers (not that of its slices) and bools of few rows (results are whole words).
    set(refused "sample:|the mean of integers larger|reduce_any: operand|reduce_all: operand")
    rlx_vulkan_ops(vulkan-windows 64 RLX_LIMITS=binding=65536 OPTIONS --may-refuse "${refused}")
    rlx_vulkan_ops(vulkan-windows-validation 180 RLX_LIMITS=binding=65536 RLX_VULKAN_VALIDATION=1
                   OPTIONS --may-refuse "${refused}")
    # All of it at once, as the smallest device has it. A few cases have tensors of more than 4 MiB.
    rlx_vulkan_ops(vulkan-tiny 100
        "RLX_LIMITS=binding=65536,block=4194304,groups=256,push=128,bindings=8,subgroup=0,f16=0,\
storage16=0,storage8=0,shared=16384,invocations=128,coopmat=0,address=0,dot=0,subnormals=0"
                   OPTIONS --may-refuse "${refused}|larger than one allocation")
    rlx_vulkan_ops(vulkan-host 160 RLX_VULKAN_ARENA_DEBUG=host OPTIONS --once)
    rlx_vulkan_ops(vulkan-device 130 RLX_VULKAN_ARENA_DEBUG=device RLX_VULKAN_VALIDATION=1)
    rlx_vulkan_ops(vulkan-barriers 130 RLX_FULL_BARRIER=1)
    # Kernel variants that calibration may choose.
    rlx_vulkan_ops(vulkan-kernels 100
        "RLX_KERNELS=tile=64x64x16/8x4,quant_tile=64x64x32/8x8,gemv=128x8,gemv_line=128x16,\
quant_gemv=64x32" OPTIONS --filter matmul)
    rlx_vulkan_ops(vulkan-fallback 16 RLX_LIMITS=host=2)
    # Chains, which need more push constants than Debian's lavapipe has.
    rlx_test(vulkan/chains "${CMAKE_CURRENT_SOURCE_DIR}/vulkan/chains.sh"
             $<TARGET_FILE:test_decoder> $<TARGET_FILE:optest>)
    rlx_test_property(vulkan/chains ENVIRONMENT
                      "RLX_TEST_LAVAPIPE=${PROJECT_SOURCE_DIR}/.cache/lavapipe")
    # What drivers make of the kernels, also those of cards that are not there.
    if(RLX_PYTHON AND TARGET rlx_tool)
        foreach(part tool radv)
            rlx_test(vulkan/kernels-${part} "${RLX_PYTHON}"
                     "${CMAKE_CURRENT_SOURCE_DIR}/vulkan/kernels.py" ${part})
            rlx_test_property(vulkan/kernels-${part} ENVIRONMENT
                              "RLX_TEST_LAVAPIPE=${PROJECT_SOURCE_DIR}/.cache/lavapipe")
        endforeach()
        rlx_test_property(vulkan/kernels-radv RESOURCE_LOCK lavapipe)
    endif()
    # A newer lavapipe, where it can be had. It takes seconds to compile a kernel with barriers.
    rlx_vulkan_ops(vulkan-newer 700 "RLX_TEST_LAVAPIPE=${PROJECT_SOURCE_DIR}/.cache/lavapipe"
                   OPTIONS --once)
    rlx_test_property(vulkan/chains RESOURCE_LOCK lavapipe)
    rlx_test_property(ops/vulkan-newer RESOURCE_LOCK lavapipe)
    find_file(RLX_SWIFTSHADER_ICD vk_swiftshader_icd.json PATHS /usr/lib/chromium
              NO_DEFAULT_PATH)
    mark_as_advanced(RLX_SWIFTSHADER_ICD)
    if(RLX_SWIFTSHADER_ICD)
        set(icd "VK_ICD_FILENAMES=${RLX_SWIFTSHADER_ICD}" "VK_DRIVER_FILES=${RLX_SWIFTSHADER_ICD}"
            RLX_TEST_FLUSHES=1) # its threads take subnormal numbers for 0
        rlx_vulkan_ops(vulkan-swiftshader 220 ${icd} OPTIONS --once)
        rlx_vulkan_ops(vulkan-swiftshader-validation 400 ${icd} RLX_VULKAN_VALIDATION=1)
    endif()
endif()
