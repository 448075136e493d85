# SPDX-License-Identifier: MIT
# The compiled GPU kernels (src/gpu/kernels/*.spv) become one C file of the library: packed by a
# program that runs on the machine that builds, also when the library is for another one.

# rlx_pack_kernels(<sources> all|portable): adds the file to the list
function(rlx_pack_kernels sources kind)
    set(packed "${PROJECT_BINARY_DIR}/blob.c")
    set(tool "${PROJECT_SOURCE_DIR}/tools/kernels/pack.c")
    file(GLOB table CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/gpu/shaders/*.def")
    list(APPEND table "${PROJECT_SOURCE_DIR}/src/gpu/kernels.def"
         "${PROJECT_SOURCE_DIR}/src/gpu/needs.h")
    file(GLOB kernels CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/gpu/kernels/*.spv")
    if(CMAKE_CROSSCOMPILING)
        find_program(RLX_HOST_CC NAMES cc gcc clang
                     DOC "C compiler for programs that run during the build")
        if(NOT RLX_HOST_CC)
            message(FATAL_ERROR "Packing the GPU kernels needs a C compiler for this machine: "
                                "none of cc, gcc, clang was found; set RLX_HOST_CC")
        endif()
        set(pack "${PROJECT_BINARY_DIR}/pack_kernels")
        add_custom_command(OUTPUT "${pack}"
            COMMAND "${RLX_HOST_CC}" -std=c11 -O1 "-I${PROJECT_SOURCE_DIR}/src" "${tool}"
                    -o "${pack}"
            DEPENDS "${tool}" "${PROJECT_SOURCE_DIR}/tools/kernels/common.h" ${table} VERBATIM)
    else()
        add_executable(rlx_pack_kernels "${tool}")
        target_include_directories(rlx_pack_kernels PRIVATE "${PROJECT_SOURCE_DIR}/src")
        target_compile_options(rlx_pack_kernels PRIVATE $<$<NOT:$<C_COMPILER_ID:MSVC>>:-O1>)
        set(pack rlx_pack_kernels)
    endif()
    add_custom_command(OUTPUT "${packed}"
        COMMAND "${pack}" ${kind} "${PROJECT_SOURCE_DIR}/src/gpu/kernels" "${packed}"
        COMMAND "${CMAKE_COMMAND}" -E touch "${packed}"
        DEPENDS "${pack}" ${kernels} COMMENT "Packing the GPU kernels" VERBATIM)
    set(${sources} ${${sources}} "${packed}" PARENT_SCOPE)
endfunction()
