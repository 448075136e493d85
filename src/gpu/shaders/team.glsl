/* SPDX-License-Identifier: MIT */
/* Channels of state space models, each walked by a team of TEAM invocations that share its state:
 * number i of the state is in register i / TEAM of member i % TEAM. THREADS is the local size. */
#ifndef TEAM_GLSL
#define TEAM_GLSL

shared float parts[2 * THREADS];

#define MEMBER (LANE % TEAM)

/* The sum of the team's numbers, for all members. `turn` is even and odd in turns, so that one
 * barrier is enough: no lane still reads what is overwritten now. */
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
