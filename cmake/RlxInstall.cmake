# SPDX-License-Identifier: MIT
# Install: headers, both libraries, the tool, its man page, the CMake package and rlx.pc. Everything
# is found relative to itself, so the installed tree may be moved.
if(NOT RLX_INSTALL)
    return()
endif()
include(CMakePackageConfigHelpers)

set(rlx_cmake_dir "${CMAKE_INSTALL_LIBDIR}/cmake/rlx")
set(rlx_pc_dir "${CMAKE_INSTALL_LIBDIR}/pkgconfig")

install(TARGETS rlx_shared rlx_static EXPORT rlx_targets
        LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/rlx" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
        FILES_MATCHING PATTERN "*.h" PATTERN "*.def")
if(TARGET rlx_tool)
    install(TARGETS rlx_tool RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
endif()
if(EXISTS "${PROJECT_SOURCE_DIR}/docs/rlx.1")
    install(FILES "${PROJECT_SOURCE_DIR}/docs/rlx.1" DESTINATION "${CMAKE_INSTALL_MANDIR}/man1")
endif()

# find_package(rlx)
install(EXPORT rlx_targets FILE rlx-targets.cmake NAMESPACE rlx:: DESTINATION "${rlx_cmake_dir}")
configure_package_config_file(
    "${PROJECT_SOURCE_DIR}/cmake/rlx-config.cmake.in" "${PROJECT_BINARY_DIR}/rlx-config.cmake"
    INSTALL_DESTINATION "${rlx_cmake_dir}" NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/rlx-config-version.cmake"
                                 COMPATIBILITY ${rlx_compatibility})
install(FILES "${PROJECT_BINARY_DIR}/rlx-config.cmake"
              "${PROJECT_BINARY_DIR}/rlx-config-version.cmake" DESTINATION "${rlx_cmake_dir}")

# pkg-config rlx: a relative folder hangs on ${prefix}, an absolute one stays as it is.
foreach(kind LIB INCLUDE)
    if(IS_ABSOLUTE "${CMAKE_INSTALL_${kind}DIR}")
        set(rlx_pc_${kind} "${CMAKE_INSTALL_${kind}DIR}")
    else()
        set(rlx_pc_${kind} "\${prefix}/${CMAKE_INSTALL_${kind}DIR}")
    endif()
endforeach()
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
    set(rlx_pc_prefix "${CMAKE_INSTALL_PREFIX}")
else()
    file(RELATIVE_PATH rlx_pc_prefix "/${rlx_pc_dir}" "/")
    set(rlx_pc_prefix "\${pcfiledir}/${rlx_pc_prefix}")
    string(REGEX REPLACE "/$" "" rlx_pc_prefix "${rlx_pc_prefix}")
endif()
set(rlx_pc_atomic "")
if(rlx_atomic)
    set(rlx_pc_atomic " -l${rlx_atomic}")
endif()
configure_file("${PROJECT_SOURCE_DIR}/cmake/rlx.pc.in" "${PROJECT_BINARY_DIR}/rlx.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/rlx.pc" DESTINATION "${rlx_pc_dir}")
