# SPDX-License-Identifier: MIT
# The op suite on WebGPU: wgpu-native on the system's Vulkan driver, as it is and with small limits,
# and Dawn on SwiftShader, the driver that comes with Chromium. tools/fetch/webgpu.sh fetches the
# libraries; without them these tests are skipped. Software drivers are slow, so each runs a share
# of the cases (ops/share.sh).

# rlx_webgpu_ops(<name> <every n-th case> <VARIABLE=value>... [OPTIONS <option>...]
#                [REFUSES <text|text>])
# What WebGPU has no kernel for on elements of type f64, i16, u16, u32 or u64 is refused.
function(rlx_webgpu_ops name every)
    cmake_parse_arguments(ops "" "REFUSES" OPTIONS ${ARGN})
    rlx_ops(${name} ${every} DEVICE webgpu LABELS webgpu
            OPTIONS ${ops_OPTIONS} --may-refuse "on elements of type|${ops_REFUSES}"
            ENVIRONMENT NODEVICE_SELECT=1 ${ops_UNPARSED_ARGUMENTS})
endfunction()

if(RLX_WEBGPU)
    set(wgpu "RLX_WEBGPU_LIBRARY=${PROJECT_SOURCE_DIR}/.cache/wgpu/libwgpu_native-release.so")
    set(dawn "RLX_WEBGPU_LIBRARY=${PROJECT_SOURCE_DIR}/.cache/dawn/libwebgpu_wrapper.so")
    foreach(program test_buffers test_shared_weights test_saved)
        rlx_test(webgpu/${program} ${program})
        rlx_test_property(webgpu/${program} ENVIRONMENT RLX_TEST_DEVICE=webgpu NODEVICE_SELECT=1)
    endforeach()
    foreach(program test_generate test_context) # with runs ahead of the host
        rlx_test(webgpu/${program} ${program})
        rlx_test_property(webgpu/${program} ENVIRONMENT RLX_TEST_DEVICE=webgpu NODEVICE_SELECT=1
                          "${wgpu}")
    endforeach()
    rlx_webgpu_ops(webgpu 200 "${wgpu}")
    # The kernels and texts that GPUs get: large tiles, loops unrolled.
    rlx_webgpu_ops(webgpu-gpu 300 "${wgpu}" RLX_LIMITS=software=0)
    rlx_webgpu_ops(webgpu-small 300 "${wgpu}"
        "RLX_LIMITS=groups=256,shared=16384,invocations=128,bindings=8,subgroup=0,f16=0,\
block=16777216,binding=4194304" REFUSES "more than one buffer")
    # Bindings of 64 KiB and buffers of 4 MiB: large tensors are cut, graphs have several buffers.
    # A few cases have tensors that do not fit one buffer; tests/vulkan/variants.cmake says what
    # else is refused.
    set(refused "sample:|the mean of integers larger|reduce_any: operand|reduce_all: operand")
    rlx_webgpu_ops(webgpu-windows 250 "${wgpu}" RLX_LIMITS=binding=65536,block=4194304
                   REFUSES "${refused}|more than one buffer")
    rlx_webgpu_ops(webgpu-windows-graphs 8 "${wgpu}" RLX_LIMITS=binding=65536,block=4194304
                   OPTIONS --family graphs)
    find_file(RLX_SWIFTSHADER_ICD vk_swiftshader_icd.json PATHS /usr/lib/chromium
              NO_DEFAULT_PATH)
    mark_as_advanced(RLX_SWIFTSHADER_ICD)
    if(RLX_SWIFTSHADER_ICD)
        rlx_webgpu_ops(webgpu-dawn 110 "${dawn}"
                       "VK_ICD_FILENAMES=${RLX_SWIFTSHADER_ICD}"
                       "VK_DRIVER_FILES=${RLX_SWIFTSHADER_ICD}")
    endif()
endif()
