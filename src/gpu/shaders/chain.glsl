/* SPDX-License-Identifier: MIT */
/* Kernels that wait for the dispatch before inside the kernel (CHAIN), without a barrier between
 * them: workgroups of the next dispatch start as soon as there is room, load weights, and only then
 * wait. That requires a device that starts the workgroups of a queue in order, so that those waited
 * for are always resident; gpu/chain.c decides where it is done, and the self-check tries it.
 *
 * Data of other dispatches is read through coherent bindings (SHARED_BUFFER of common.glsl): after
 * a fence alone the L1 cache may hold old values. Coherent reads bypass it, and they come after the
 * barrier that ends the wait; so they need no fence, which would cost 0.3 us per level.
 *
 * Included after the push constants and before the kernel's main, which becomes a function. A
 * kernel that has work before the wait calls chain_wait itself (CHAIN_LATE). chain_target is the
 * number of workgroups to wait for; 0: none. */
#ifdef CHAIN
/* The flags of a run, followed by the counters of finished workgroups by level. */
layout(buffer_reference, std430, buffer_reference_align = 16) volatile coherent buffer Counters {
    uint flags, late, unused[2], done[];
};

/* Poll limit, about ten seconds: then the wait is abandoned and reported as an error. */
const uint MAX_POLLS = 1u << 24;

/* Not the index of any level. */
const uint NO_COUNTER = 0xfffffff0u;

/* barrier() that also orders buffer accesses. */
void chain_sync()
{
    controlBarrier(gl_ScopeWorkgroup, gl_ScopeWorkgroup,
                   gl_StorageSemanticsBuffer | gl_StorageSemanticsShared,
                   gl_SemanticsAcquireRelease);
}

/* All lanes of a subgroup poll: a single one would leave it diverged. */
void chain_wait()
{
    if (chain_target == 0u)
        return;
    if (gl_SubgroupID == 0u) {
        Counters c = Counters(chain_at);
        uint looks = 0u;
        while (subgroupBroadcastFirst(c.done[chain_before]) < chain_target && looks < MAX_POLLS)
            looks++;
        if (looks == MAX_POLLS)
            c.late = 1u;
    }
    chain_sync();
}

void chain_signal()
{
    chain_sync();
    if (gl_SubgroupID == 0u) {
        memoryBarrier(gl_ScopeDevice, gl_StorageSemanticsBuffer, gl_SemanticsRelease);
        if (subgroupElect())
            atomicAdd(Counters(chain_at).done[chain_after], 1u);
    }
}

void work();
void main()
{
#ifndef CHAIN_LATE
    chain_wait();
#endif
    work();
    chain_signal();
}
#define main work
#else
void chain_wait() {}
#endif
