/* SPDX-License-Identifier: MIT */
/* Channels of state space models, each processed by a team of TEAM invocations that share its
 * state: element i is in register i / TEAM of member i % TEAM. THREADS is the local size. */
#ifndef TEAM_GLSL
#define TEAM_GLSL

shared float parts[2 * THREADS];

#define MEMBER (LANE % TEAM)

/* The sum over the team, for all members. `turn` alternates between two buffers, so that one
 * barrier is enough. */
float team_sum(float mine, uint turn)
{
    if (TEAM == 1u)
        return mine;
    uint first = (turn & 1u) * THREADS, sum_at = first + LANE / TEAM * TEAM;
    parts[first + LANE] = mine;
    barrier();
    float sum = 0.0;
    for (uint i = 0u; i < TEAM; i++)
        sum += parts[sum_at + i];
    return sum;
}

#endif
