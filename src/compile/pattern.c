/* SPDX-License-Identifier: MIT */
/* Parser and matcher of the patterns of fuse.def. A pattern is a tree of at most RX_PATTERN_NODES
 * nodes; a match costs at most that many steps for each order of operands. */
#include "compile/pattern.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compile/fold.h"

/* ---- Reading -------------------------------------------------------------------------------- */

typedef struct reader {
    rx_pattern *p;
    const char *at;
} reader;

static void skip_blanks(reader *r)
{
    while (*r->at == ' ')
        r->at++;
}

static size_t word_length(const char *s)
{
    size_t n = 0;
    while (isalnum((unsigned char)s[n]) || s[n] == '_')
        n++;
    return n;
}

/* The number of a variable, new or known; -1 when there is no room. */
static int find_var(rx_pattern *p, const char *word, size_t n)
{
    if (n >= sizeof p->vars[0].text)
        return -1;
    for (int i = 0; i < p->n_vars; i++)
        if (strlen(p->vars[i].text) == n && !memcmp(p->vars[i].text, word, n))
            return i;
    if (p->n_vars == RX_PATTERN_VARS)
        return -1;
    memcpy(p->vars[p->n_vars].text, word, n);
    return p->n_vars++;
}

static int read_node(reader *r);

static bool read_args(reader *r, rx_pattern_node *node)
{
    do {
        r->at++; /* '(' or ',' */
        int arg = read_node(r);
        if (arg < 0 || node->n_args == sizeof node->arg)
            return false;
        node->arg[node->n_args++] = (uint8_t)arg;
        skip_blanks(r);
    } while (*r->at == ',');
    return *r->at++ == ')';
}

/* The operation of that name; formulas write it in capitals. */
static rx_op find_op(const char *word, size_t n)
{
    char small[32];
    if (n > sizeof small)
        return RX_N_OPS;
    for (size_t i = 0; i < n; i++)
        small[i] = (char)tolower((unsigned char)word[i]);
    return rx_op_find(small, n);
}

static bool read_op(reader *r, rx_pattern_node *node, const char *word, size_t n)
{
    node->kind = RX_PATTERN_OP;
    node->last_axis = n == 4 && !memcmp(word, "mean", 4);
    node->op = node->last_axis ? RX_OP_reduce_mean : find_op(word, n);
    return node->op != RX_N_OPS && read_args(r, node);
}

static void read_number(reader *r, rx_pattern_node *node)
{
    char *end;
    node->kind = RX_PATTERN_NUMBER;
    node->number = strtod(r->at, &end);
    r->at = end;
}

/* Appends the node at the reader and its operands; its index, or -1. */
static int read_node(reader *r)
{
    skip_blanks(r);
    if (r->p->n_nodes == RX_PATTERN_NODES)
        return -1;
    int index = r->p->n_nodes++;
    rx_pattern_node *node = &r->p->nodes[index];
    *node = (rx_pattern_node){.name = -1};
    if (isdigit((unsigned char)*r->at)) {
        read_number(r, node);
        return index;
    }
    if (!strncmp(r->at, "K(", 2)) { /* a number of a formula */
        r->at += 2;
        read_number(r, node);
        return *r->at++ == ')' ? index : -1;
    }
    bool is_capture = *r->at == '$';
    r->at += is_capture;
    const char *word = r->at;
    size_t n = word_length(word);
    r->at += n;
    if (!n)
        return -1;
    if (is_capture) {
        node->kind = RX_PATTERN_CAPTURE;
        if (n >= sizeof r->p->capture)
            return -1;
        memcpy(r->p->capture, word, n);
        r->p->capture[n] = 0;
        return index;
    }
    if (*r->at == '(')
        return read_op(r, node, word, n) ? index : -1;
    node->name = (int8_t)find_var(r->p, word, n);
    node->kind = RX_PATTERN_VALUE;
    if (node->name < 0 || *r->at != ':')
        return node->name < 0 ? -1 : index;
    word = ++r->at;
    n = word_length(word);
    r->at += n;
    return *r->at == '(' && read_op(r, node, word, n) ? index : -1;
}

bool rx_pattern_parse(rx_pattern *p, const char *text, const rx_pattern *names)
{
    *p = (rx_pattern){0};
    if (names) {
        memcpy(p->vars, names->vars, sizeof p->vars);
        p->n_vars = names->n_vars;
    }
    reader r = {p, text};
    return read_node(&r) == 0 && !*r.at && (!names || p->n_vars == names->n_vars);
}

/* ---- Finding -------------------------------------------------------------------------------- */

typedef struct finder {
    const rx_pattern *p;
    const rlx_graph *g;
    rx_match m;
} finder;

static bool is_close(rlx_dtype t, double v, double want)
{
    double unit = t == RLX_BF16 ? 1e-2 : t == RLX_F16 ? 2e-3 : t == RLX_F64 ? 1e-14 : 1e-5;
    return fabs(v - want) <= unit * fabs(want);
}

static void count_inner(finder *f, uint32_t id)
{
    for (int i = 0; i < f->m.n_inner; i++)
        if (f->m.inner[i] == id) {
            f->m.n_uses[i]++;
            return;
        }
    f->m.inner[f->m.n_inner] = id;
    f->m.n_uses[f->m.n_inner++] = 1;
}

/* A value named before; uses of named inner nodes are counted. */
static bool match_name(finder *f, int name, uint32_t id)
{
    if (!f->m.var[name])
        f->m.var[name] = id;
    else if (f->m.var[name] != id)
        return false;
    for (int i = 0; i < f->m.n_inner; i++)
        if (f->m.inner[i] == id)
            f->m.n_uses[i]++;
    return true;
}

static bool is_mean_of_last(const rlx_graph *g, const rx_node *n)
{
    const rx_reduce_attr *d = n->attr;
    return d->keepdims && d->axes.n == 1 && d->axes.v[0] == g->values[n->in[0]].shape.rank - 1;
}

static bool match_node(finder *f, uint8_t index, uint32_t id);

static bool match_args(finder *f, const rx_pattern_node *p, const rx_node *n, bool swapped)
{
    for (uint8_t i = 0; i < p->n_args; i++)
        if (!match_node(f, p->arg[i], n->in[swapped ? p->n_args - 1 - i : i]))
            return false;
    return true;
}

static bool match_op(finder *f, uint8_t index, uint32_t id)
{
    const rx_pattern_node *p = &f->p->nodes[index];
    const rx_node *n = rx_value_node(f->g, id);
    if (n->op != p->op || n->n_in != p->n_args || (p->last_axis && !is_mean_of_last(f->g, n)))
        return false;
    if (index)
        count_inner(f, id);
    if (p->name >= 0)
        f->m.var[p->name] = id;
    rx_match before = f->m;
    if (match_args(f, p, n, false))
        return true;
    f->m = before;
    return (p->op == RX_OP_add || p->op == RX_OP_mul) && match_args(f, p, n, true);
}

static bool match_node(finder *f, uint8_t index, uint32_t id)
{
    const rx_pattern_node *p = &f->p->nodes[index];
    double v;
    if (!id)
        return false;
    switch (p->kind) {
    case RX_PATTERN_VALUE: return match_name(f, p->name, id);
    case RX_PATTERN_NUMBER:
        return rx_constant_number(f->g, id, &v) && is_close(f->g->values[id].dtype, v, p->number);
    case RX_PATTERN_CAPTURE:
        if (!rx_constant_number(f->g, id, &v) || v == 0)
            return false;
        f->m.capture = v;
        return true;
    case RX_PATTERN_OP: return match_op(f, index, id);
    }
    return false;
}

bool rx_pattern_match(const rx_pattern *p, const rlx_graph *g, uint32_t id, rx_match *m)
{
    finder f = {.p = p, .g = g};
    if (!match_node(&f, 0, id))
        return false;
    *m = f.m;
    return true;
}
