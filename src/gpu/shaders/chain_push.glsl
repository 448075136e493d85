/* SPDX-License-Identifier: MIT */
/* First of all in kernels that have a form with CHAIN (chain.glsl): what it needs. CHAIN_PUSH goes
 * to the end of their push constants. */
#ifdef CHAIN
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_ballot : require
#define CHAIN_PUSH \
    layout(offset = 128) uvec2 chain_at; uint chain_before, chain_after, chain_target;
#else
#define CHAIN_PUSH
#endif
