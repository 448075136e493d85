# SPDX-License-Identifier: MIT
# The options of the build, the default build type, and the flags of code that is ours. Nothing here
# changes a flag of the project that embeds rlx.
include(CheckCCompilerFlag)
include(CheckCSourceCompiles)
include(GNUInstallDirs)

string(COMPARE EQUAL "${PROJECT_SOURCE_DIR}" "${CMAKE_SOURCE_DIR}" RLX_TOP_LEVEL)

option(RLX_BUILD_TOOLS "Build the command line tool rlx" ${RLX_TOP_LEVEL})
option(RLX_BUILD_TESTS "Build the tests, the examples and the benchmarks" ${RLX_TOP_LEVEL})
option(RLX_VULKAN "Build the Vulkan backend where its headers are there" ON)
option(RLX_WEBGPU "Build the WebGPU backend; its library is opened at run time" ON)
option(RLX_INSTALL "Add rlx to the install of the project" ON)
option(RLX_WERROR "Stop at the first compiler warning" OFF)
set(RLX_SANITIZE "" CACHE STRING "Sanitizers for our code: address, undefined, thread, or a list")
set(RLX_SIMD "avx2;avx512;avx512vnni" CACHE STRING "x86-64: instruction sets to build kernels for")

if(RLX_TOP_LEVEL)
    set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
    get_property(rlx_multi_config GLOBAL PROPERTY GENERATOR_IS_MULTI_CONFIG)
    if(NOT CMAKE_BUILD_TYPE AND NOT rlx_multi_config)
        set(CMAKE_BUILD_TYPE Release CACHE STRING "Debug, Release, RelWithDebInfo" FORCE)
    endif()
endif()

# rlx_choose_system(<list of sources>): NAME_win.c takes the place of NAME.c on Windows, or stands
# beside it where there is no such file or it is for all systems.
function(rlx_choose_system sources)
    set(list "${${sources}}")
    if(WIN32)
        list(FILTER list EXCLUDE REGEX "/tools/rlx/system(d|)\\.c$")
    else()
        list(FILTER list EXCLUDE REGEX "_win\\.c$")
    endif()
    set(${sources} "${list}" PARENT_SCOPE)
endfunction()

# rlx_write_exports(<path>): what a DLL exports, the functions of the public headers
function(rlx_write_exports path)
    file(GLOB headers "${PROJECT_SOURCE_DIR}/include/rlx/*.h")
    set(names "")
    foreach(header IN LISTS headers)
        file(STRINGS "${header}" lines REGEX "RLX_API")
        string(REGEX MATCHALL "rlx_[a-z0-9_]+\\(" found "${lines}")
        list(APPEND names ${found})
    endforeach()
    file(STRINGS "${PROJECT_SOURCE_DIR}/include/rlx/functions.def" rows REGEX "^RLX_FUNCTION")
    string(REGEX MATCHALL "RLX_FUNCTION[12]\\([a-z0-9_]+" found "${rows}")
    string(REGEX REPLACE "RLX_FUNCTION[12]\\(" "rlx_" found "${found}")
    list(APPEND names ${found})
    list(REMOVE_DUPLICATES names)
    string(REPLACE "(" "" names "${names}")
    string(REPLACE ";" "\n" names "${names}")
    set(file "${PROJECT_BINARY_DIR}/rlx.def")
    file(WRITE "${file}" "EXPORTS\n${names}\n")
    set(${path} "${file}" PARENT_SCOPE)
endfunction()

# rlx_own_code(<target>): language, warnings, arithmetic, visibility and sanitizers of our sources.
# Products and sums are never contracted, so every compiler gives the same numbers.
function(rlx_own_code target)
    set_target_properties(${target} PROPERTIES C_STANDARD 11 C_STANDARD_REQUIRED ON
                                               C_EXTENSIONS OFF C_VISIBILITY_PRESET hidden)
    target_compile_definitions(${target} PRIVATE _GNU_SOURCE)
    target_compile_options(${target} PRIVATE
        -Wall -Wextra -Wshadow -Wpointer-arith -Wstrict-prototypes -Wmissing-prototypes
        -ffp-contract=off -fno-math-errno -ffunction-sections -fdata-sections)
    if(WIN32) # names of POSIX in the headers, files of any size, Windows 10
        set_target_properties(${target} PROPERTIES C_EXTENSIONS ON)
        target_compile_definitions(${target} PRIVATE _FILE_OFFSET_BITS=64 _WIN32_WINNT=0x0a00)
        if(CMAKE_C_COMPILER_ID STREQUAL "GNU") # whose stack has no room aligned for vectors
            # Its warnings know only the printf of Microsoft; GNU's is linked.
            target_compile_options(${target} PRIVATE -Wa,-muse-unaligned-vector-move -Wno-format)
        endif()
    endif()
    if(CMAKE_SYSTEM_PROCESSOR STREQUAL "s390x" AND CMAKE_C_COMPILER_ID STREQUAL "GNU")
        # There float expressions have the precision of double otherwise (FLT_EVAL_METHOD 1).
        target_compile_options(${target} PRIVATE -fexcess-precision=fast)
    endif()
    if(RLX_WERROR)
        target_compile_options(${target} PRIVATE -Werror)
    endif()
    get_target_property(type ${target} TYPE)
    if(type STREQUAL "EXECUTABLE" AND NOT APPLE)
        target_link_options(${target} PRIVATE LINKER:--gc-sections)
    endif()
endfunction()

# rlx_add_programs(<folder>): each <folder>/*.c is a program of its own, <build>/<folder>/<name>.
# The interface library <folder>_programs carries what all of them need.
function(rlx_add_programs folder)
    add_library(${folder}_programs INTERFACE)
    target_link_libraries(${folder}_programs INTERFACE rlx::static m)
    file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/${folder}/*.c")
    foreach(source IN LISTS sources)
        get_filename_component(name "${source}" NAME_WE)
        add_executable(${folder}_${name} "${source}")
        rlx_own_code(${folder}_${name})
        target_link_libraries(${folder}_${name} PRIVATE ${folder}_programs)
        set_target_properties(${folder}_${name} PROPERTIES
            OUTPUT_NAME ${name} RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/${folder}")
    endforeach()
endfunction()

# rlx_choose_vulkan(<list of sources>): without the headers the stub takes the place of the backend.
function(rlx_choose_vulkan sources)
    find_path(RLX_VULKAN_HEADERS vulkan/vulkan.h)
    mark_as_advanced(RLX_VULKAN_HEADERS)
    set(list "${${sources}}")
    if(RLX_VULKAN AND RLX_VULKAN_HEADERS)
        list(FILTER list EXCLUDE REGEX "/src/vulkan/stub\\.c$")
    else()
        set(stub "${list}")
        list(FILTER stub INCLUDE REGEX "/src/vulkan/stub\\.c$")
        list(FILTER list EXCLUDE REGEX "/src/vulkan/")
        list(APPEND list ${stub})
        if(RLX_VULKAN)
            message(WARNING "no Vulkan backend: vulkan/vulkan.h was not found (libvulkan-dev)")
        endif()
    endif()
    set(${sources} "${list}" PARENT_SCOPE)
endfunction()

# rlx_choose_webgpu(<list of sources>): the backend, which needs nothing to build, or its stub.
function(rlx_choose_webgpu sources)
    set(list "${${sources}}")
    if(RLX_WEBGPU)
        list(FILTER list EXCLUDE REGEX "/src/webgpu/stub\\.c$")
    else()
        list(FILTER list EXCLUDE REGEX "/src/webgpu/([^s]|s[^t])[^/]*\\.c$")
    endif()
    set(${sources} "${list}" PARENT_SCOPE)
endfunction()

# rlx_leave_out(<level>): src/cpu knows that this build has no kernels of an instruction set
function(rlx_leave_out level)
    string(TOUPPER "RX_NO_${level}" absent)
    set_property(SOURCE "${PROJECT_SOURCE_DIR}/src/cpu/cpuid.c"
                 "${PROJECT_SOURCE_DIR}/src/cpu/dispatch.c"
                 APPEND PROPERTY COMPILE_DEFINITIONS ${absent})
endfunction()

# rlx_arm_options(<out> <extensions>): the options for extensions of 64-bit Arm, empty where the
# compiler does not know them. The second form is that of zig, in which gcc lacks some.
function(rlx_arm_options out extensions)
    set(${out} "" PARENT_SCOPE)
    foreach(option "-march=armv8.2-a+${extensions}" "-mcpu=generic+${extensions}")
        string(MAKE_C_IDENTIFIER "rlx_has_${option}" has)
        check_c_compiler_flag("${option}" ${has})
        if(${has})
            set(${out} "${option}" PARENT_SCOPE)
            return()
        endif()
    endforeach()
endfunction()

# rlx_choose_simd(<list of sources>): the files of src/cpu/fast for this processor's architecture,
# each with the options of its instruction set. Which of them run is decided at run time.
function(rlx_choose_simd sources)
    set(files "")
    if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
        set(files ${RLX_SIMD})
        foreach(level avx2 avx512 avx512vnni)
            if(NOT level IN_LIST files)
                rlx_leave_out(${level})
            endif()
        endforeach()
        set(flags_avx2 -mavx2 -mfma -mf16c)
        set(flags_avx512 ${flags_avx2} -mavx512f -mavx512bw -mavx512dq -mavx512vl
                         -mprefer-vector-width=512)
        set(flags_avx512vnni ${flags_avx512} -mavx512vnni)
    elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
        set(files neon)
        rlx_arm_options(flags_neondot dotprod)
        rlx_arm_options(flags_neoni8mm dotprod+i8mm)
        foreach(level neondot neoni8mm)
            if(flags_${level})
                list(APPEND files ${level})
            else()
                rlx_leave_out(${level})
            endif()
        endforeach()
    elseif(CMAKE_SYSTEM_PROCESSOR STREQUAL "wasm32")
        set(files "") # cmake/wasm_targets.cmake compiles them, once for each module
    endif()
    if(RLX_SANITIZE MATCHES "address" AND CMAKE_C_COMPILER_ID STREQUAL "GNU")
        # Checks as calls: these files compile in two thirds of the time.
        set(calls --param=asan-instrumentation-with-call-threshold=0)
    endif()
    set(list "${${sources}}")
    list(FILTER list EXCLUDE REGEX "/src/cpu/fast/[^/]*\\.c$")
    foreach(file IN LISTS files)
        set(path "${PROJECT_SOURCE_DIR}/src/cpu/fast/${file}.c")
        list(PREPEND list "${path}") # they take longest, so they come first
        set_source_files_properties("${path}" PROPERTIES COMPILE_OPTIONS
                                    "${flags_${file}};${calls}")
    endforeach()
    set(${sources} "${list}" PARENT_SCOPE)
endfunction()

# A sanitizer must be in every object and every link of this tree, hence directory scope.
if(RLX_SANITIZE)
    string(REPLACE ";" "," rlx_sanitizers "${RLX_SANITIZE}")
    set(rlx_sanitizers "-fsanitize=${rlx_sanitizers}")
    add_compile_options(${rlx_sanitizers} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    add_compile_definitions(RX_SANITIZED) # cpu/vec.h
    add_link_options(${rlx_sanitizers})
endif()
