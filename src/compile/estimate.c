/* SPDX-License-Identifier: MIT */
/* Run time estimates (roofline): a step takes the longer of its arithmetic and its traffic, plus
 * the cost of a dispatch; a run adds its submit and the transfers. Good to a small factor, which is
 * enough to choose a device. */
#include "compile/estimate.h"

#include "ir/op.h"

/* Fraction of the throughput of large matrix products that other steps reach. */
#define OTHER_SHARE 0.125

static bool is_product(rx_op op)
{
    static const bool families[] = {[RX_FAMILY_matrix] = true, [RX_FAMILY_attention] = true,
                                    [RX_FAMILY_conv] = true, [RX_FAMILY_recurrent] = true,
                                    [RX_FAMILY_custom] = false};
    return families[rx_ops[op].family];
}

static double step_seconds(const rx_program *p, const rx_step *s, const rlx_calibration *c)
{
    double rate = p->policy == RLX_POLICY_FAST && is_product(s->op) ? c->gemm_fast : c->gemm;
    if (!is_product(s->op))
        rate *= OTHER_SHARE;
    double work = s->flops / rate, traffic = s->bytes / c->bandwidth;
    double seconds = (work > traffic ? work : traffic) + c->dispatch;
    if (s->support == RLX_SUPPORT_HOST) /* its operands are copied to the host and its results back
                                         * */
        seconds += s->bytes / c->download + c->submit;
    return seconds;
}

static double transfer_seconds(const rx_program *p, const rx_port *ports, size_t n, double rate)
{
    double bytes = 0;
    for (size_t i = 0; i < n; i++)
        bytes += (double)p->values[ports[i].value].bytes;
    return bytes / rate;
}

double rx_estimate(const rx_program *p, const rlx_calibration *c)
{
    double seconds = c->submit;
    for (size_t i = 0; i < p->n_steps; i++)
        seconds += step_seconds(p, &p->steps[i], c);
    return seconds + transfer_seconds(p, p->inputs, p->n_inputs, c->upload) +
           transfer_seconds(p, p->outputs, p->n_outputs, c->download);
}
