/* SPDX-License-Identifier: MIT */
/* Dispatches that wait for one another inside of the kernel (CHAIN), without a barrier between
 * them: workgroups of the next dispatch begin as soon as those before leave room, load weights, and
 * only then wait. That needs a device that begins the workgroups of a queue in their order, so that
 * the ones waited for are never kept out; gpu/chain.c says when it is done, the self-check tries
 * it.
 *
 * What other dispatches write is read through coherent bindings (SHARED_BUFFER of common.glsl): a
 * fence alone leaves old values in the cache of a unit. Coherent reads go past that cache, and they
 * follow the barrier that follows the last look at the counter; so no fence is waited for in front
 * of them, which would take 0.3 us of each level.
 *
 * Included behind the push constants and before the kernel's main, which becomes a function. Where
 * something can be done before the wait, it calls chain_wait itself (CHAIN_LATE). chain_target is
 * how many workgroups have to be done; 0: none. */
#ifdef CHAIN
/* The flags of a run and behind them numbers of workgroups that are done. */
layout(buffer_reference, std430, buffer_reference_align = 16) volatile coherent buffer Counters {
    uint flags, late, unused[2], done[];
};

/* Poll limit, about ten seconds: then the wait is abandoned and reported as an error. */
const uint MAX_POLLS = 1u << 24;

/* No level has this number. */
const uint NO_COUNTER = 0xfffffff0u;

/* As barrier(), and buffers are in order too. */
void chain_sync()
{
    controlBarrier(gl_ScopeWorkgroup, gl_ScopeWorkgroup,
                   gl_StorageSemanticsBuffer | gl_StorageSemanticsShared,
                   gl_SemanticsAcquireRelease);
}

/* All lanes of a subgroup look: one alone would leave it diverged. */
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
