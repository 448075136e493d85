/* SPDX-License-Identifier: MIT */
/* Pages of the K/V cache: random operations on tables, with the content that a device would have
 * written into each page, compared with a list of tokens for each table. */
#include <stdlib.h>

#include "check.h"
#include "engine/pages.h"
#include "support/memory.h"

#define PAGES 24
#define SIZE 4
#define TABLES 6
#define MOST 60 /* tokens of a table */

static uint64_t state = 1;

static size_t random_below(size_t n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (size_t)(state >> 33) % n;
}

/* What the device has in the rows of the pool: the token, and a number of all tokens before it. */
typedef struct row {
    int32_t token;
    uint32_t before;
} row;
static row pool[PAGES * SIZE];

typedef struct sequence {
    rx_page_table table;
    int32_t tokens[MOST];
    size_t n, computed;
} sequence;

static uint32_t mix(uint32_t h, int32_t token)
{
    return (h ^ (uint32_t)token) * 0x01000193u + 0x9e3779b9u;
}

/* Every computed token of the sequence is where its table says. */
static bool is_right(const sequence *s)
{
    uint32_t h = 7;
    for (size_t i = 0; i < s->computed; i++) {
        const row *r = &pool[s->table.page[i / SIZE] * SIZE + (int32_t)(i % SIZE)];
        if (r->token != s->tokens[i] || r->before != h)
            return false;
        h = mix(h, s->tokens[i]);
    }
    return true;
}

/* Writes what is not computed, up to `end`. False: not enough pages. */
static bool compute(rx_pages *p, sequence *s, size_t end)
{
    rx_page_copy copy;
    const size_t needed = rx_pages_needed(p, &s->table, s->computed, end);
    const size_t before = rx_pages_available(p);
    const bool fits = rx_pages_extend(p, &s->table, s->computed, end, &copy);
    CHECK(fits == (needed <= before));
    if (!fits) {
        CHECK(rx_pages_available(p) == before);
        return false;
    }
    CHECK(rx_pages_available(p) == before - needed);
    if (copy.from >= 0)
        memcpy(&pool[copy.to * SIZE], &pool[copy.from * SIZE], SIZE * sizeof *pool);
    uint32_t h = 7;
    for (size_t i = 0; i < end; i++) {
        if (i >= s->computed)
            pool[s->table.page[i / SIZE] * SIZE + (int32_t)(i % SIZE)] = (row){s->tokens[i], h};
        h = mix(h, s->tokens[i]);
    }
    s->computed = end;
    return true;
}

static void begin(rx_pages *p, sequence *s)
{
    s->n = 1 + random_below(MOST - 1);
    for (size_t i = 0; i < s->n; i++) /* few different ones: prefixes meet */
        s->tokens[i] = (int32_t)(i % SIZE ? 1 : random_below(3));
    s->computed = rx_pages_find(p, s->tokens, s->n, &s->table);
    CHECK(s->computed % SIZE == 0 && s->computed < s->n);
}

static void end(rx_pages *p, sequence *s)
{
    rx_pages_release(p, &s->table);
    s->n = s->computed = 0;
}

static void fork_one(rx_pages *p, sequence *from, sequence *to)
{
    if (from == to)
        return;
    end(p, to);
    CHECK(rx_pages_fork(p, &from->table, &to->table));
    memcpy(to->tokens, from->tokens, sizeof to->tokens);
    to->n = from->n;
    to->computed = from->computed;
}

static void operate(rx_pages *p, sequence *all)
{
    sequence *s = &all[random_below(TABLES)];
    switch (random_below(8)) {
    case 0:
        end(p, s);
        break;
    case 1:
        fork_one(p, s, &all[random_below(TABLES)]);
        break;
    case 2:
        rx_pages_learn(p, &s->table, s->tokens, s->computed);
        break;
    case 3:
        if (s->n < MOST)
            s->tokens[s->n++] = (int32_t)random_below(3);
        break;
    default:
        if (!s->n)
            begin(p, s);
        else if (s->computed < s->n)
            compute(p, s, s->computed + 1 + random_below(s->n - s->computed));
    }
}

static void check_counts(const rx_pages *p, const sequence *all)
{
    bool held[PAGES] = {0};
    size_t n = 0;
    rx_pages_info info;
    for (size_t i = 0; i < TABLES; i++)
        for (size_t k = 0; k < all[i].table.n; k++)
            held[all[i].table.page[k]] = true;
    for (size_t i = 0; i < PAGES; i++)
        n += held[i];
    rx_pages_get_info(p, &info);
    CHECK(info.n_held == n && info.n_free + info.n_kept + n == PAGES);
}

static void test_random(void)
{
    static sequence all[TABLES];
    rx_pages *p = rx_pages_create(PAGES, SIZE);
    rx_pages_info info;
    CHECK(p != NULL);
    bool right = true;
    for (int i = 0; i < 20000 && p; i++) {
        operate(p, all);
        for (size_t k = 0; k < TABLES; k++)
            right = right && is_right(&all[k]);
        if (i % 16 == 0)
            check_counts(p, all);
    }
    CHECK(right);
    for (size_t i = 0; i < TABLES; i++)
        end(p, &all[i]);
    rx_pages_get_info(p, &info);
    CHECK(info.n_held == 0 && info.n_kept > 0);
    rx_pages_forget(p);
    CHECK((rx_pages_get_info(p, &info), info.n_free) == PAGES);
    rx_pages_destroy(p);
}

/* Requests that come and go at random leave nothing behind. */
static void test_cancelled(void)
{
    static sequence all[TABLES];
    rx_pages *p = rx_pages_create(PAGES, SIZE);
    rx_pages_info info;
    for (int i = 0; i < 10000; i++) {
        sequence *s = &all[random_below(TABLES)];
        end(p, s);
        begin(p, s);
        const size_t stop = s->computed + 1 + random_below(s->n - s->computed);
        while (s->computed < stop && compute(p, s, s->computed + 1))
            rx_pages_learn(p, &s->table, s->tokens, s->computed);
    }
    for (size_t i = 0; i < TABLES; i++)
        end(p, &all[i]);
    rx_pages_get_info(p, &info);
    CHECK(info.n_held == 0 && info.n_free + info.n_kept == PAGES);
    rx_pages_destroy(p);
}

/* What was used last is reused last, and tails before heads. */
static void test_order(void)
{
    rx_pages *p = rx_pages_create(4, SIZE);
    sequence a = {.n = 9}, b = {.n = 9}, c = {.n = 9};
    for (size_t i = 0; i < 9; i++) {
        a.tokens[i] = 1;
        b.tokens[i] = 2;
        c.tokens[i] = 3;
    }
    CHECK(compute(p, &a, 8));
    rx_pages_learn(p, &a.table, a.tokens, 8);
    end(p, &a);
    CHECK(compute(p, &b, 8));
    rx_pages_learn(p, &b.table, b.tokens, 8);
    end(p, &b);
    CHECK(compute(p, &c, 4)); /* takes the second page of a */
    end(p, &c);
    CHECK(rx_pages_find(p, b.tokens, 9, &b.table) == 8);
    CHECK(rx_pages_find(p, a.tokens, 9, &a.table) == 4);
    CHECK(rx_pages_find(p, c.tokens, 9, &c.table) == 0);
    CHECK(rx_pages_available(p) == 1);
    rx_pages_release(p, &a.table);
    rx_pages_release(p, &b.table);
    CHECK(rx_pages_find(p, b.tokens, 8, &b.table) == 4); /* never all of the tokens */
    rx_pages_release(p, &b.table);
    rx_pages_destroy(p);
}

/* Two sequences that computed the same tokens end with one copy. */
static void test_same(void)
{
    rx_pages *p = rx_pages_create(4, SIZE);
    sequence a = {.n = 5, .tokens = {1, 2, 3, 4, 5}}, b = a;
    CHECK(compute(p, &a, 5) && compute(p, &b, 5) && rx_pages_available(p) == 0);
    rx_pages_learn(p, &a.table, a.tokens, 5);
    rx_pages_learn(p, &b.table, b.tokens, 5);
    CHECK(a.table.page[0] == b.table.page[0] && rx_pages_available(p) == 1);
    CHECK(a.table.page[1] != b.table.page[1]);
    CHECK(is_right(&a) && is_right(&b));
    rx_pages_release(p, &a.table);
    rx_pages_release(p, &b.table);
    rx_pages_destroy(p);
}

int main(void)
{
    const long before = memory_live();
    rlx_set_allocator(&counting);
    test_random();
    test_cancelled();
    test_order();
    test_same();
    CHECK(memory_live() == before);
    return check_done();
}
