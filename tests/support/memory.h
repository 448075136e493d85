/* SPDX-License-Identifier: MIT */
/* An allocator that counts, and fails where it is told to: rlx_set_allocator(&counting). */
#ifndef RLX_TESTS_SUPPORT_MEMORY_H
#define RLX_TESTS_SUPPORT_MEMORY_H

#include "rlx/base.h"

extern const rlx_allocator counting;

/* Counts calls from 0; the one with number `at` fails (0: none does), all after it too with
 * `onward`. */
void memory_fail(long at, bool onward);
long memory_calls(void); /* since memory_fail */
long memory_live(void);  /* pieces allocated and not freed */
/* Requests of more bytes fail too; SIZE_MAX, as at first: none does. */
void memory_limit(size_t most);
size_t memory_largest(void); /* bytes of the largest request since memory_fail */

#endif
