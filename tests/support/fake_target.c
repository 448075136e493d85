/* SPDX-License-Identifier: MIT */
/* The target and the helpers of fake_target.h. */
#include "support/fake_target.h"

#include <stdio.h>
#include <string.h>

#include "compile/epilogue.h"
#include "cpu/kernel.h"

static bool is_listed(const char *list, const char *name)
{
    char word[64];
    snprintf(word, sizeof word, " %s ", name);
    return strstr(list, word) != NULL;
}

static rlx_support fake_support(const rx_target *t, const rlx_graph *g, const rx_node *n)
{
    const fake_options *o = t->user;
    const char *name = rx_ops[n->op].name;
    if ((o->has && !is_listed(o->has, name)) || (o->lacks && is_listed(o->lacks, name)))
        return RLX_SUPPORT_NO;
    if (o->no_epilogues && rx_epilogue_is_used(n))
        return RLX_SUPPORT_NO;
    if (o->no_f16 && rx_value_at(g, n->first_out)->dtype == RLX_F16)
        return RLX_SUPPORT_NO;
    return RLX_SUPPORT_NATIVE;
}

static bool fake_takes_strided(const rx_target *t, const rlx_graph *g, const rx_node *n, size_t i)
{
    const fake_options *o = t->user;
    (void)g;
    (void)n;
    (void)i;
    return !o->dense_only;
}

static bool fake_merges(const rx_target *t, rlx_policy policy, const rlx_graph *g,
                        const rx_node *first, const rx_node *second)
{
    const fake_options *o = t->user;
    (void)policy;
    (void)g;
    (void)first;
    (void)second;
    return o->merges;
}

static void set_view(rx_view *v, const rlx_graph *g, uint32_t id, const void *data)
{
    *v = (rx_view){.rank = -1};
    if (!id)
        return;
    const rx_value *value = rx_value_at(g, id);
    rx_view_set_dense(v, value->dtype, value->shape.rank, value->shape.dim);
    v->data = (char *)(uintptr_t)data;
}

/* Kernels that need working memory or many operands are not used to fold here. */
static rlx_status fake_eval(const rlx_graph *g, const rx_node *n, const void *const *in,
                            void *const *out, rlx_error *err)
{
    rx_view views_in[4], views_out[2];
    bool simple = rx_ops[n->op].family == RX_FAMILY_unary ||
                  rx_ops[n->op].family == RX_FAMILY_binary ||
                  rx_ops[n->op].family == RX_FAMILY_shape || n->op == RX_OP_cast;
    if (!simple || n->n_in > 4 || n->n_out > 2 || !rx_ref_table[n->op])
        return rx_fail(err, RLX_UNSUPPORTED, "no evaluation of %s here", rx_ops[n->op].name);
    for (uint32_t i = 0; i < n->n_in; i++)
        set_view(&views_in[i], g, n->in[i], in[i]);
    for (uint32_t i = 0; i < n->n_out; i++)
        set_view(&views_out[i], g, n->first_out + i, out[i]);
    uint32_t flags = 0;
    rx_call c = {.op = n->op, .attr = n->attr, .n_in = n->n_in, .n_out = n->n_out, .in = views_in,
                 .out = views_out, .flags = &flags};
    return rx_ref_table[n->op](&c);
}

rx_target fake_target(const fake_options *options)
{
    return (rx_target){.name = "fake", .align = 64, .user = options,
                       .slack_bytes = options->slack_bytes, .support = fake_support,
                       .takes_strided = fake_takes_strided,
                       .merges = fake_merges, .eval = fake_eval};
}

char *run_pass(pass_fn *pass, const rx_target *t, const char *text)
{
    rlx_graph *g = NULL, *out = NULL;
    rlx_error err = {0};
    char *result = NULL;
    bool ok = rlx_graph_parse(text, strlen(text), &g, &err) == RLX_OK &&
              pass(g, t, &out, &err) == RLX_OK && rlx_graph_verify(out, &err) == RLX_OK &&
              rlx_graph_print(out, &result, NULL, &err) == RLX_OK;
    if (!ok)
        printf("    error: %s\n", err.text);
    rlx_graph_destroy(g);
    rlx_graph_destroy(out);
    return result;
}

bool same_text(const char *got, const char *want)
{
    bool same = got && !strcmp(got, want);
    if (!same)
        printf("---- got\n%s---- expected\n%s----\n", got ? got : "(nothing)\n", want);
    return same;
}
