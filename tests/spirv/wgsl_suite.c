/* SPDX-License-Identifier: MIT */
/* Prints, as WGSL, every kernel that the op cases and graphs dispatch on a WebGPU device: they are
 * compiled and lowered for a device that does not exist, without and with subgroups, and each
 * distinct pair of kernel and specialisation constants, and each emitted module, is printed and
 * its reflection is compared with the dispatch. Given a file, the texts are written there for
 * shaders.py and tint.py: "@@ name" and then the text. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "compile/compile.h"
#include "gpu/gpu.h"
#include "ops/graph_table.h"
#include "ops/optest.h"
#include "runtime/host.h"
#include "spirv/wgsl.h"

#define PUSH_BINDING 15
#define UNROLL_BYTES 131072
#define MOST_BYTES 600000
#define N_RANDOM_GRAPHS 24

/* What browsers offer by default, and the same with subgroups of some sizes and f16. */
static const rx_gpu_caps least = {
    .max_invocations = 256, .max_shared_bytes = 16384, .max_groups = {65535, 65535, 65535},
    .max_push_bytes = 128, .max_bindings = 8, .max_binding_bytes = 128u << 20,
    .binding_align = 256};
#define N_CAPS 3
static rx_gpu_caps caps_of[N_CAPS];

typedef struct suite {
    const rx_gpu_caps *caps;
    rx_target target;
    FILE *out; /* NULL: none */
    rx_wgsl_subgroups form;
    uint64_t *seen; /* digests, a table with open addressing */
    size_t cap_seen, n_seen;
    size_t n_cases, n_kernels, n_pairs, n_emitted, n_shared, n_failed;
    size_t n_programs_failed, most_bytes;
    bool kernel_seen[RX_N_KERNELS];
} suite;

/* ---- Distinct dispatches --------------------------------------------------------------------- */

static uint64_t digest(uint64_t h, const void *data, size_t n)
{
    for (size_t i = 0; i < n; i++)
        h = (h ^ ((const unsigned char *)data)[i]) * UINT64_C(1099511628211);
    return h;
}

static bool grow_seen(suite *s)
{
    const size_t cap = s->cap_seen ? 2 * s->cap_seen : 4096;
    uint64_t *grown = calloc(cap, sizeof *grown);
    if (!grown) return false;
    for (size_t i = 0; i < s->cap_seen; i++) {
        if (!s->seen[i]) continue;
        size_t at = s->seen[i] & (cap - 1);
        while (grown[at]) at = (at + 1) & (cap - 1);
        grown[at] = s->seen[i];
    }
    free(s->seen);
    s->seen = grown;
    s->cap_seen = cap;
    return true;
}

/* True the first time. */
static bool is_new(suite *s, const rx_gpu_dispatch *d)
{
    uint64_t h = UINT64_C(14695981039346656037);
    if (d->kernel == RX_K_EMITTED)
        h = digest(h, d->code, d->code_words * sizeof *d->code);
    else
        h = digest(digest(h, &d->kernel, sizeof d->kernel), d->spec, d->n_spec * sizeof *d->spec);
    h |= 1;
    if (2 * s->n_seen >= s->cap_seen && !grow_seen(s)) return false;
    size_t at = h & (s->cap_seen - 1);
    while (s->seen[at] && s->seen[at] != h) at = (at + 1) & (s->cap_seen - 1);
    if (s->seen[at] == h) return false;
    s->seen[at] = h;
    s->n_seen++;
    return true;
}

/* ---- Printing -------------------------------------------------------------------------------- */

static void fail(suite *s, const char *name, const char *why)
{
    if (s->n_failed++ < 40) printf("FAIL %s: %s\n", name, why);
}

static void check_reflection(suite *s, const char *name, const rx_gpu_dispatch *d,
                             const rx_wgsl_text *t)
{
    char why[160] = "";
    for (uint32_t i = 0; i < RX_WGSL_MAX_BIND; i++) {
        const rx_wgsl_binding *b = &t->binding[i];
        if (b->written && !(d->writes >> i & 1))
            snprintf(why, sizeof why, "binding %u is written, the dispatch says it is not", i);
        if ((b->used || b->read || b->written) && i >= d->n_bind)
            snprintf(why, sizeof why, "binding %u is used, the dispatch has %u", i, d->n_bind);
    }
    if (4 * t->push_words > s->caps->max_push_bytes)
        snprintf(why, sizeof why, "%u words of push constants", t->push_words);
    if (d->kernel != RX_K_EMITTED && t->local[0] != d->spec[0])
        snprintf(why, sizeof why, "workgroups of %u, not %u", t->local[0], d->spec[0]);
    if (t->shared_bytes > s->caps->max_shared_bytes)
        snprintf(why, sizeof why, "%u bytes of workgroup memory", t->shared_bytes);
    if (*why) fail(s, name, why);
}

/* UNROLLED: as drivers of GPUs get it. SHARED: all bindings are one buffer, each with a shift. */
typedef enum text_form { PLAIN, UNROLLED, SHARED } text_form;

static void print_text(suite *s, const char *name, const rx_gpu_dispatch *d, text_form form)
{
    static const char *const suffix[] = {"", ", unrolled", ", in one buffer"};
    const bool shared = form == SHARED;
    size_t n = d->code_words;
    const uint32_t *words = d->kernel == RX_K_EMITTED ? d->code : rx_kernel_code(d->kernel, &n);
    rx_wgsl_options o = {.name = name, .spec = d->spec, .n_spec = d->n_spec,
                         .f16 = s->caps->f16, .push_binding = PUSH_BINDING,
                         .unroll_bytes = form == UNROLLED ? UNROLL_BYTES : 0,
                         .read_only = shared ? 0 : 0xffff,
                         .shifted = shared ? (1u << d->n_bind) - 1 : 0};
    if (s->caps->subgroup) o.subgroups = s->form;
    for (uint32_t i = 1; shared && i < d->n_bind; i++) o.alias[i] = 1;
    rx_wgsl_text t;
    rlx_error err = {0};
    if (!words || rx_wgsl_print(words, n, &o, &t, &err)) {
        fail(s, name, err.text);
        return;
    }
    if (!shared) check_reflection(s, name, d, &t);
    if (t.n > MOST_BYTES) fail(s, name, "the text is too long");
    s->most_bytes = t.n > s->most_bytes ? t.n : s->most_bytes;
    if (s->out) fprintf(s->out, "@@ %s%s\n%s", name, suffix[form], t.data);
    rx_wgsl_text_finish(&t);
}

static void visit_dispatch(suite *s, const rx_gpu_dispatch *d)
{
    char name[200];
    if (!d->groups[0] || !d->groups[1] || !d->groups[2] || !is_new(s, d)) return;
    if (d->kernel == RX_K_EMITTED) {
        snprintf(name, sizeof name, "emitted %zu", ++s->n_emitted);
    } else {
        int used = snprintf(name, sizeof name, "%s", rx_kernels[d->kernel].name);
        for (uint32_t i = 0; i < d->n_spec && used < 180; i++)
            used += snprintf(name + used, sizeof name - (size_t)used, " %u", d->spec[i]);
        s->n_pairs++;
    }
    print_text(s, name, d, PLAIN);
    if (d->kernel != RX_K_EMITTED && (s->n_pairs % 16 == 0 || !s->kernel_seen[d->kernel]))
        print_text(s, name, d, UNROLLED);
    if (d->kernel == RX_K_EMITTED ? s->n_emitted % 32 != 1 : s->kernel_seen[d->kernel]) return;
    if (d->kernel != RX_K_EMITTED) {
        s->kernel_seen[d->kernel] = true;
        s->n_kernels++;
    }
    s->n_shared++;
    print_text(s, name, d, SHARED);
}

/* ---- Programs to dispatches ------------------------------------------------------------------ */

typedef struct walk {
    suite *s;
    const rx_program *p;
    int64_t *dims;
    rx_view *views;
    rx_arena arena;
} walk;

static const void *resolve_attr(walk *w, rx_op op, const void *attr)
{
    void *copy = attr ? rx_arena_copy(&w->arena, attr, rx_ops[op].attr->size) : NULL;
    if (copy) rx_attr_resolve(rx_ops[op].attr, copy, w->dims);
    return copy;
}

static void set_views(walk *w)
{
    for (size_t i = 0; i < w->p->n_values; i++) {
        const rx_pvalue *v = &w->p->values[i];
        int64_t dim[RLX_MAX_RANK];
        for (int k = 0; k < v->shape.rank; k++) dim[k] = rx_dim_value(v->shape.dim[k], w->dims);
        rx_view_set_dense(&w->views[i], v->dtype, v->shape.rank, dim);
        w->views[i].data = NULL;
        if (v->view_of < 0 || rx_view_elements(&w->views[i]) == 0) continue;
        rx_view_apply(v->view_op, resolve_attr(w, v->view_op, v->view_attr),
                      &w->views[v->view_of], &w->views[i]);
    }
}

static bool is_weight(const rx_program *p, uint32_t value)
{
    while (value != RX_NO_VALUE && p->values[value].view_of >= 0)
        value = (uint32_t)p->values[value].view_of;
    return value != RX_NO_VALUE && (p->values[value].space == RX_SPACE_PARAM ||
                                    p->values[value].space == RX_SPACE_CONSTANT);
}

static void lower_step(walk *w, const rx_step *step)
{
    const size_t n = (size_t)step->n_in + step->n_out;
    rx_view *operands = rx_arena_alloc(&w->arena, (n + 1) * sizeof *operands);
    bool *is_param = rx_arena_zero(&w->arena, n + 1);
    rlx_error err = {0};
    for (uint32_t k = 0; operands && is_param && k < n; k++) {
        const uint32_t value = k < step->n_in ? step->in[k] : step->out[k - step->n_in];
        operands[k] = value == RX_NO_VALUE ? (rx_view){.rank = -1} : w->views[value];
        is_param[k] = is_weight(w->p, value);
    }
    const rx_gpu_call call = {.op = step->op, .attr = resolve_attr(w, step->op, step->attr),
                              .n_in = step->n_in, .n_out = step->n_out, .in = operands,
                              .out = operands + step->n_in, .is_param = is_param,
                              .caps = w->s->caps, .policy = w->p->policy};
    rx_gpu_build b = {.arena = &w->arena, .err = &err};
    if (rx_gpu_lower(&b, &call)) fail(w->s, rx_ops[step->op].name, err.text);
    for (size_t i = 0; i < b.n; i++) visit_dispatch(w->s, &b.dispatch[i]);
    for (size_t i = 0; i < b.n_derived; i++) visit_dispatch(w->s, &b.derived[i].pack);
    rx_free(b.dispatch);
    rx_free(b.scratch);
    rx_free(b.derived);
    rx_free(b.tables);
}

/* Named dimensions have `third` thirds of their bounds. False: not allowed. */
static bool bind_dims(walk *w, int third)
{
    for (size_t i = 0; i < w->p->n_dims; i++)
        w->dims[i] = w->p->dims[i].bound * third / 3;
    return rx_dims_eval(w->p->dims, w->p->n_dims, w->dims, NULL) == RLX_OK;
}

static void visit_program(suite *s, const rx_program *p)
{
    walk w = {.s = s, .p = p};
    w.dims = calloc(p->n_dims + 1, sizeof *w.dims);
    w.views = calloc(p->n_values + 1, sizeof *w.views);
    for (int third = 3; w.dims && w.views && third >= (p->n_dims ? 2 : 3); third--) {
        if (!bind_dims(&w, third)) continue;
        set_views(&w);
        for (size_t i = 0; i < p->n_steps; i++)
            if (p->steps[i].support == RLX_SUPPORT_NATIVE) lower_step(&w, &p->steps[i]);
    }
    free(w.dims);
    free(w.views);
    rx_arena_finish(&w.arena);
}

static void visit_graph(suite *s, const rlx_graph *g, const char *name)
{
    for (size_t i = 0; i < 2 * N_CAPS; i++) {
        const rlx_session_desc desc = {
            RLX_INIT(rlx_session_desc), .no_fusion = i / N_CAPS == 1,
            .policy = caps_of[i % N_CAPS].int_dot ? RLX_POLICY_FAST : RLX_POLICY_EXACT};
        rx_program *p = NULL;
        rlx_error err = {0};
        s->caps = &caps_of[i % N_CAPS];
        s->target.user = s->caps;
        const rlx_status status = rx_compile(g, &s->target, &desc, &p, &err);
        if (status == RLX_UNSUPPORTED && strstr(err.text, "on elements of type")) return;
        if (status) {
            s->n_programs_failed++;
            fail(s, name, err.text);
            return;
        }
        visit_program(s, p);
        rx_program_unref(p);
    }
}

/* ---- Cases ----------------------------------------------------------------------------------- */

static const char *family;

static void visit_case(void *user, const char *text)
{
    suite *s = user;
    char *copy = strdup(text), why[160];
    ot_case *c = malloc(sizeof *c);
    ot_built *b = calloc(1, sizeof *b);
    if (copy && c && b && ot_parse(copy, family, 1, c, why) && !c->error[0]) {
        for (size_t i = 0; i < c->n_dims; i++) b->bound[i] = c->dims[i].bound;
        if (ot_fill_operands(c, b)) ot_build_graph(c, b);
        if (b->graph && rlx_graph_status(b->graph, NULL) == RLX_OK) {
            s->n_cases++;
            visit_graph(s, b->graph, text);
        }
        ot_built_finish(c, b);
    }
    free(b);
    free(c);
    free(copy);
}

static void visit_family(suite *s, const char *name, const char *const *templates)
{
    family = name;
    for (; *templates; templates++) ot_expand(*templates, visit_case, s);
}

static void visit_graphs(suite *s)
{
    rlx_graph *g = NULL;
    for (const graph_test *t = graph_tests; t->name; t++) {
        if (rlx_graph_parse(t->text, strlen(t->text), &g, NULL)) continue;
        visit_graph(s, g, t->name);
        rlx_graph_destroy(g);
    }
    for (uint64_t seed = 1; seed <= N_RANDOM_GRAPHS; seed++) {
        if (!(g = ot_random_graph(seed))) continue;
        visit_graph(s, g, "random graph");
        rlx_graph_destroy(g);
    }
}

int main(int argc, char **argv)
{
    suite s = {.form = RX_WGSL_SUBGROUPS_PLAIN,
               .target = {.name = "webgpu", .align = 256, .support = rx_gpu_support,
                          .takes_strided = rx_gpu_takes_strided, .eval = rx_host_eval}};
    const char *path = argc > 1 ? argv[argc - 1] : NULL;
    if (argc > 2 && strcmp(argv[1], "--tint") == 0) s.form = RX_WGSL_SUBGROUPS_ENABLE;
    if (path && !(s.out = fopen(path, "wb"))) {
        perror(path);
        return 2;
    }
    for (uint32_t i = 0; i < N_CAPS; i++) {
        caps_of[i] = least;
        caps_of[i].subgroup = (const uint32_t[]){0, 8, 32}[i];
        caps_of[i].subgroup_arith = caps_of[i].subgroup_shuffle = caps_of[i].f16 = i > 0;
        caps_of[i].int_dot = i == 2;
        caps_of[i].compute_units = i == 2 ? 132 : 0;
    }
#define X(name) visit_family(&s, #name, rx_cases_##name);
    OT_FAMILIES(X)
#undef X
    visit_graphs(&s);
    printf("%zu cases: %zu kernels, %zu pairs of kernel and constants, %zu emitted modules, %zu in "
           "one buffer, texts of up to %zu bytes, %zu failures\n", s.n_cases, s.n_kernels,
           s.n_pairs, s.n_emitted, s.n_shared, s.most_bytes, s.n_failed);
    free(s.seen);
    if (s.out && fclose(s.out) != 0) return 2;
    return s.n_failed != 0 || s.n_pairs == 0;
}
