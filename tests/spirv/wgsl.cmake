# SPDX-License-Identifier: MIT
# Every kernel that the op cases dispatch on a WebGPU device, printed as WGSL and judged by naga
# (inside wgpu-native) and by Tint (inside Dawn and inside Chromium). What is not there is skipped.
# Included by ../CMakeLists.txt, which has rlx_test and the object library of the cases.

rlx_test_program(wgsl_suite spirv spirv/wgsl_suite.c $<TARGET_OBJECTS:rlx_op_cases>)
rlx_test(spirv/wgsl_suite wgsl_suite)
if(RLX_PYTHON AND NOT RLX_SANITIZE)
    set(folder "${CMAKE_CURRENT_SOURCE_DIR}/spirv")
    rlx_test(spirv/naga "${RLX_PYTHON}" "${folder}/shaders.py" wgpu $<TARGET_FILE:wgsl_suite>)
    rlx_test(spirv/tint_dawn "${RLX_PYTHON}" "${folder}/shaders.py" dawn
             $<TARGET_FILE:wgsl_suite>)
    rlx_test(spirv/tint_chromium "${RLX_PYTHON}" "${folder}/tint.py" $<TARGET_FILE:wgsl_suite>)
endif()
