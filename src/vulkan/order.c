/* SPDX-License-Identifier: MIT */
/* In which order dispatches are recorded, and which of them have to wait for those before them:
 * only where bytes are written that another one touches. */
#include "vulkan/device.h"

/* ---- Hazards -------------------------------------------------------------------------------- */

static bool conflicts(const rx_vk_walk *w, const rx_vk_dispatch *x)
{
    for (uint32_t i = 0; i < x->n_bind; i++) {
        bool write = x->writes >> i & 1;
        for (size_t k = 0; k < w->n_touched; k++) {
            const rx_vk_touched *t = &w->touched[k];
            if ((write || t->write) && t->block == x->bind[i].block && x->begin[i] < t->end &&
                t->begin < x->end[i])
                return true;
        }
    }
    return false;
}

static void touch(rx_vk_walk *w, const rx_vk_dispatch *x)
{
    for (uint32_t i = 0; i < x->n_bind; i++)
        w->touched[w->n_touched++] =
            (rx_vk_touched){x->bind[i].block, x->begin[i], x->end[i], x->writes >> i & 1};
}

/* ---- Order ---------------------------------------------------------------------------------- */

static bool depends(const rx_vk_dispatch *x, const rx_vk_dispatch *earlier)
{
    for (uint32_t i = 0; i < x->n_bind; i++)
        for (uint32_t k = 0; k < earlier->n_bind; k++)
            if (((x->writes >> i | earlier->writes >> k) & 1) &&
                x->bind[i].block == earlier->bind[k].block && x->begin[i] < earlier->end[k] &&
                earlier->begin[k] < x->end[i])
                return true;
    return false;
}

/* Those that depend on nothing, then those that depend only on these, and so on: the fewest
 * barriers. Returns places in the list. */
static void order_dispatches(const rx_vk_dispatch *list, size_t n, uint8_t order[RX_VK_ORDER_MOST])
{
    uint8_t level[RX_VK_ORDER_MOST], top = 0;
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        level[i] = 0;
        for (size_t k = i; k-- > 0;)
            if (level[k] >= level[i] && depends(&list[i], &list[k]))
                level[i] = level[k] + 1;
        top = level[i] > top ? level[i] : top;
    }
    for (unsigned l = 0; l <= top; l++)
        for (size_t i = 0; i < n; i++)
            if (level[i] == l)
                order[at++] = (uint8_t)i;
}

/* ---- Walking -------------------------------------------------------------------------------- */

void rx_vk_walk_begin(rx_vk_walk *w, const rx_vk_dispatch *list, size_t n, bool all_wait)
{
    w->list = list;
    w->n = n;
    w->at = w->n_touched = 0;
    w->all_wait = all_wait;
}

size_t rx_vk_walk_next(rx_vk_walk *w, bool *waits)
{
    const size_t i = w->at++, from = i - i % RX_VK_ORDER_MOST, left = w->n - from;
    if (i >= w->n)
        return w->n;
    if (i == from)
        order_dispatches(w->list + from, left < RX_VK_ORDER_MOST ? left : RX_VK_ORDER_MOST,
                         w->order);
    const size_t next = from + w->order[i - from];
    const rx_vk_dispatch *x = &w->list[next];
    *waits = i > 0 && (w->all_wait || w->n_touched + RX_GPU_MAX_BIND > RX_VK_MOST_TOUCHED ||
                       conflicts(w, x));
    if (*waits)
        w->n_touched = 0;
    touch(w, x);
    return next;
}
