/* SPDX-License-Identifier: MIT */
/* The extensions of chain.glsl; first in kernels with a CHAIN variant. */
#ifdef CHAIN
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_ballot : require
#endif
