/* SPDX-License-Identifier: MIT */
/* One token drawn from a row of logits by one workgroup, with the sums of the reference's sorted
 * list, but without sorting.
 *
 * A place in the list is found by its key: four rounds, one for each byte from the highest, sum the
 * counts or the weights of the tokens for each value of the byte among those that agree in the
 * bytes before; the sums from above then tell in which value the place lies. Tokens with one key
 * have one weight, so the rest is a division and a count by index.
 *
 * Cuts: top-k gives the key and the number of tokens with it that are kept. Min-p is a bound on
 * weights, which fall along the list. The sum at the end of top-p bounds the draw.
 *
 * When those that can be drawn are few enough, they are listed in shared memory, and each of them
 * adds the weights of all that are not behind it. */

const uint MAX_KEPT = MAX_LOCAL / 2u;

shared uint bin_low[256], bin_high[256];
shared uint lane_a[MAX_LOCAL], lane_b[MAX_LOCAL];
shared uint found[2]; /* a token; the word of lane 0 */
shared uint kept_keys[MAX_KEPT], kept_tokens[MAX_KEPT], n_kept; /* unordered */

/* Of listed token i, in arrays that other steps use with a word per lane: its weight, its rank, and
 * the prefix sum of the weights. */
#define KEPT_WEIGHT(i) lane_a[i]
#define KEPT_RANK(i) lane_a[MAX_KEPT + (i)]
#define KEPT_LOW(i) lane_b[i]
#define KEPT_HIGH(i) lane_b[MAX_KEPT + (i)]
uvec2 kept_sum(uint i) { return uvec2(KEPT_LOW(i), KEPT_HIGH(i)); }

/* Largest of (a, b) by a, the smaller b among equals, over all lanes. */
uvec2 reduce_first(uint a, uint b)
{
    lane_a[LANE] = a;
    lane_b[LANE] = b;
    barrier();
    for (uint step = MAX_LOCAL / 2u; step > 0u; step >>= 1) {
        uint other = LANE + step;
        if (LANE < step && other < gl_WorkGroupSize.x) {
            uint oa = lane_a[other], ob = lane_b[other];
            if (oa > lane_a[LANE] || (oa == lane_a[LANE] && ob < lane_b[LANE])) {
                lane_a[LANE] = oa;
                lane_b[LANE] = ob;
            }
        }
        barrier();
    }
    uvec2 r = uvec2(lane_a[0], lane_b[0]);
    barrier();
    return r;
}

/* Broadcasts the word of lane 0 through shared memory, which makes it provably uniform. */
uint share_word(uint word)
{
    if (LANE == 0u)
        found[1] = word;
    barrier();
    uint same = found[1];
    barrier();
    return same;
}

/* Broadcasts found[0], written by the lane that found something. */
uint take_found()
{
    barrier();
    uint same = found[0];
    barrier();
    return same;
}

/* ---- Places in the row ----------------------------------------------------------------------- */

void add_to_bin(uint bin, uvec2 sum)
{
    if (sum.x == 0u && sum.y == 0u)
        return;
    uint old = atomicAdd(bin_low[bin], sum.x);
    uint carry = old + sum.x < old ? 1u : 0u;
    if (sum.y + carry != 0u)
        atomicAdd(bin_high[bin], sum.y + carry);
}

/* A bin and the pending amount for it. */
struct Run {
    uint bin;
    uvec2 sum;
};

/* Adds 1 (counts) or the weight of a token whose key agrees with `prefix` above `shift + 8`.
 * Consecutive tokens of one bin are summed before the atomic. */
void add_token(Sampler s, uint key, uint prefix, uint shift, bool counts, inout Run run)
{
    uint above = shift + 8u, here = (key >> shift) & 0xffu;
    bool agrees = above == 32u || (key >> (above & 31u)) == (prefix >> (above & 31u));
    if (!agrees || key == 0u)
        return;
    if (here != run.bin) {
        add_to_bin(run.bin, run.sum);
        run = Run(here, uvec2(0u));
    }
    run.sum = long_add(run.sum, uvec2(counts ? 1u : weight_of(s, key), 0u));
}

void clear_bins()
{
    for (uint i = LANE; i < 256u; i += gl_WorkGroupSize.x) {
        bin_low[i] = 0u;
        bin_high[i] = 0u;
    }
    barrier();
}

/* Fills the bins of the byte at `shift` from the tokens of a row. */
void fill_bins(Sampler s, uint row, uint prefix, uint shift, bool counts)
{
    clear_bins();
    Run run = Run(0u, uvec2(0u));
    for (uint i = LANE; i < size; i += AT_ONCE * gl_WorkGroupSize.x) {
        uint keys[AT_ONCE];
        load_keys(row, i, keys);
        [[dont_unroll]] for (uint j = 0u; j < AT_ONCE; j++)
            add_token(s, take_key(keys), prefix, shift, counts, run);
    }
    add_to_bin(run.bin, run.sum);
    barrier();
}

/* The first position of the list at which the prefix sum reaches `goal` (at least 1, at most the
 * total): its key as far as it is known, the sum before the tokens with that key, and their own
 * sum. */
struct Place {
    uint key;
    uvec2 before, here;
};

/* Determines the next byte of the key from the bins. */
Place refine_place(Place p, uvec2 goal, uint shift)
{
    if (LANE < 16u) {
        uvec2 sum = uvec2(0u);
        for (uint k = LANE * 16u; k < LANE * 16u + 16u; k++)
            sum = long_add(sum, uvec2(bin_low[k], bin_high[k]));
        lane_a[LANE] = sum.x;
        lane_b[LANE] = sum.y;
    }
    barrier();
    uint sixteen = 15u, bin;
    for (; sixteen > 0u; sixteen--) {
        uvec2 with_all = long_add(p.before, uvec2(lane_a[sixteen], lane_b[sixteen]));
        if (!long_less(with_all, goal))
            break;
        p.before = with_all;
    }
    for (bin = sixteen * 16u + 15u; bin > sixteen * 16u; bin--) {
        uvec2 with_bin = long_add(p.before, uvec2(bin_low[bin], bin_high[bin]));
        if (!long_less(with_bin, goal))
            break;
        p.before = with_bin;
    }
    p.key |= bin << shift;
    p.here = uvec2(bin_low[bin], bin_high[bin]);
    barrier();
    return p;
}

Place find_place(Sampler s, uint row, uvec2 goal, bool counts)
{
    Place p = Place(0u, uvec2(0u), uvec2(0u));
    for (uint round = 0u; round < 4u; round++) {
        uint shift = 24u - 8u * round;
        fill_bins(s, row, p.key, shift, counts);
        p = refine_place(p, goal, shift);
    }
    return p;
}

/* The smallest count with count * weight >= rest, for counts up to 2^31. */
uint divide_up(uvec2 rest, uint weight)
{
    uint low = 0u, high = 0x80000000u;
    while (low < high) {
        uint middle = low + (high - low) / 2u;
        if (long_less(long_mul(uvec2(middle, 0u), uvec2(weight, 0u)), rest))
            low = middle + 1u;
        else
            high = middle;
    }
    return low;
}

/* Index of the token of rank `rank` (from 1) among those with this key; lane l searches the l-th
 * part of the row. */
uint find_token(uint row, uint key, uint rank)
{
    uint part = (size + gl_WorkGroupSize.x - 1u) / gl_WorkGroupSize.x, count = 0u;
    uint from = min(LANE * part, size), to = min(from + part, size);
    for (uint i = from; i < to; i++)
        count += load_key(row, i) == key ? 1u : 0u;
    lane_a[LANE] = count;
    barrier();
    const uint some = gl_WorkGroupSize.x / 32u; /* lanes: a multiple of 32 */
    if (LANE < 32u) {
        uint sum = 0u;
        for (uint l = LANE * some; l < LANE * some + some; l++)
            sum += lane_a[l];
        lane_b[LANE] = sum;
    }
    barrier();
    uint before = 0u;
    for (uint l = 0u; l < LANE / some; l++)
        before += lane_b[l];
    for (uint l = LANE / some * some; l < LANE; l++)
        before += lane_a[l];
    if (before < rank && before + count >= rank) {
        for (uint i = from; i < to; i++) {
            before += load_key(row, i) == key ? 1u : 0u;
            if (before == rank) {
                found[0] = i;
                break;
            }
        }
    }
    return take_found();
}

/* The weight of a token above the cut, 0 if below `least`. */
uint kept_weight(Sampler s, uint key, uint cut, uint least)
{
    uint w = key > cut ? weight_of(s, key) : 0u;
    return w >= least ? w : 0u;
}

/* Sum of the weights of the tokens above `key` and of `equal` tokens with that key, without those
 * below `least`. */
uvec2 sum_kept(Sampler s, uint row, uint key, uint equal, uint least)
{
    bin_low[LANE & 255u] = 0u; /* same value by all: bin 0 is the sum */
    bin_high[LANE & 255u] = 0u;
    barrier();
    uvec2 sum = uvec2(0u);
    for (uint i = LANE; i < size; i += AT_ONCE * gl_WorkGroupSize.x) {
        uint keys[AT_ONCE];
        load_keys(row, i, keys);
        [[dont_unroll]] for (uint j = 0u; j < AT_ONCE; j++)
            sum = long_add(sum, uvec2(kept_weight(s, take_key(keys), key, least), 0u));
    }
    add_to_bin(0u, sum);
    barrier();
    uvec2 r = uvec2(bin_low[0], bin_high[0]);
    barrier();
    uint w = weight_of(s, key);
    return w >= least ? long_add(r, long_mul(uvec2(w, 0u), uvec2(equal, 0u))) : r;
}

/* ---- Lists ----------------------------------------------------------------------------------- */

void list_token(uint key, uint token)
{
    uint at = atomicAdd(n_kept, 1u);
    if (at < MAX_KEPT) {
        kept_keys[at] = key;
        kept_tokens[at] = token;
    }
}

/* The number of listed tokens once all lanes are done; 0: too many. */
uint count_listed()
{
    barrier();
    uint n = share_word(n_kept);
    return n <= MAX_KEPT ? n : 0u;
}

/* Lists the tokens of a row with this key or a larger one. */
uint list_tokens(uint row, uint key)
{
    if (LANE == 0u)
        n_kept = 0u;
    barrier();
    for (uint i = LANE; i < size; i += AT_ONCE * gl_WorkGroupSize.x) {
        uint keys[AT_ONCE];
        load_keys(row, i, keys);
        [[dont_unroll]] for (uint j = 0u; j < AT_ONCE; j++) {
            uint here = take_key(keys);
            if (here >= key)
                list_token(here, i + j * gl_WorkGroupSize.x);
        }
    }
    return count_listed();
}

/* Weights, ranks and sums of n listed tokens. */
void sum_listed(Sampler s, uint n)
{
    uint least = least_weight(s);
    for (uint i = LANE; i < n; i += gl_WorkGroupSize.x) {
        uint w = weight_of(s, kept_keys[i]);
        KEPT_WEIGHT(i) = w >= least ? w : 0u;
    }
    barrier();
    for (uint i = LANE; i < n; i += gl_WorkGroupSize.x) {
        uint key = kept_keys[i], token = kept_tokens[i], rank = 0u;
        uvec2 sum = uvec2(0u);
        for (uint k = 0u; k < n; k++) {
            uint other = kept_keys[k];
            if (other > key || (other == key && kept_tokens[k] <= token)) {
                sum = long_add(sum, uvec2(KEPT_WEIGHT(k), 0u));
                rank++;
            }
        }
        KEPT_RANK(i) = rank;
        KEPT_LOW(i) = sum.x;
        KEPT_HIGH(i) = sum.y;
    }
    barrier();
}

/* The first of them whose prefix sum reaches `goal`. */
uint find_reaching(uint n, uvec2 goal)
{
    for (uint i = LANE; i < n; i += gl_WorkGroupSize.x) {
        uvec2 sum = kept_sum(i), before = long_sub(sum, uvec2(KEPT_WEIGHT(i), 0u));
        if (long_less(before, goal) && !long_less(sum, goal))
            found[0] = i;
    }
    return take_found();
}

/* The one of rank `rank` (from 1). */
uint find_rank(uint n, uint rank)
{
    for (uint i = LANE; i < n; i += gl_WorkGroupSize.x)
        if (KEPT_RANK(i) == rank)
            found[0] = i;
    return take_found();
}

/* The token, when the list contains the first top_k of the row. */
uint draw_listed(Sampler s, uint row, uint n, uint steps)
{
    sum_listed(s, n);
    uvec2 sum = kept_sum(find_rank(n, s.top_k));
    if ((steps & CUT_P) != 0u)
        sum = kept_sum(find_reaching(n, sum_needed(s, sum)));
    return kept_tokens[find_reaching(n, draw_goal(sum, row))];
}

/* The token of a row when it may be another than the first. */
uint draw(Sampler s, uint row, uint steps)
{
    uint key = 0u, equal = 0u;
    if ((steps & CUT_K) != 0u) {
        Place p = find_place(s, row, uvec2(s.top_k, 0u), true);
        uint n = list_tokens(row, p.key);
        if (n != 0u)
            return draw_listed(s, row, n, steps);
        key = p.key;
        equal = s.top_k - p.before.x;
    }
    uvec2 sum = sum_kept(s, row, key, equal, least_weight(s));
    if ((steps & CUT_P) != 0u) {
        uvec2 need = sum_needed(s, sum);
        Place p = find_place(s, row, need, false);
        uint w = weight_of(s, p.key);
        uint count = divide_up(long_sub(need, p.before), w);
        sum = long_add(p.before, long_mul(uvec2(count, 0u), uvec2(w, 0u)));
    }
    uvec2 goal = draw_goal(sum, row);
    Place p = find_place(s, row, goal, false);
    uint rank = divide_up(long_sub(goal, p.before), weight_of(s, p.key));
    return find_token(row, p.key, rank);
}
