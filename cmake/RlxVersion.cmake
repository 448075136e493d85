# SPDX-License-Identifier: MIT
# The version: read from the public header, the one place that has it, and what follows from it.

# rlx_read_version(<header> <out>): "MAJOR.MINOR.PATCH" of its defines
function(rlx_read_version header out)
    set(parts "")
    foreach(part MAJOR MINOR PATCH)
        file(STRINGS "${header}" line REGEX "^#define RLX_VERSION_${part} +[0-9]+")
        string(REGEX MATCH "[0-9]+" number "${line}")
        if(number STREQUAL "")
            message(FATAL_ERROR "${header}: no RLX_VERSION_${part}")
        endif()
        list(APPEND parts ${number})
    endforeach()
    list(JOIN parts "." version)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${header}")
    set(${out} ${version} PARENT_SCOPE)
endfunction()

# The policy of docs/abi.md: rlx_compatibility(<version> <soversion> <rule>) sets the end of the
# SONAME and the COMPATIBILITY of the CMake package. Before 1.0 a minor version may break programs.
function(rlx_compatibility version soversion rule)
    string(REGEX MATCH "^([0-9]+)\\.([0-9]+)" part "${version}")
    if(CMAKE_MATCH_1 EQUAL 0)
        set(${soversion} "0.${CMAKE_MATCH_2}" PARENT_SCOPE)
        set(${rule} SameMinorVersion PARENT_SCOPE)
    else()
        set(${soversion} "${CMAKE_MATCH_1}" PARENT_SCOPE)
        set(${rule} SameMajorVersion PARENT_SCOPE)
    endif()
endfunction()
